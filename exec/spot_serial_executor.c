/*
 * How it ends. close sets the owner's flag, which every entry point asks first, and posts one turn to the lane: it
 * empties the maps and closes their queues. When that has completed, off the lane, the Spot's own queue is closed,
 * which under SpotWide ends only after those that it gates. `open` counts all of them down; the last one calls
 * `closed`. Nothing can be added after the flag, because add and first use ask for it on the lane.
 */
#include "exec/spot_serial_executor.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/container_of.h"
#include "base/memory.h"
#include "exec/lane_word.h"

/* PerActor: the queue of one timer name. */
typedef struct zlink_timer_queue {
    zlink_serial_execution_queue_t queue;
    zlink_spot_serial_executor_t *spot;
    zlink_name_entry_t entry;
    char name[];
} zlink_timer_queue_t;

/* What a turn of the lane is about; the caller's, who waits for it. */
typedef struct zlink_spot_request {
    zlink_spot_serial_executor_t *executor;
    const char *name;
    zlink_turn_t *turn; /* to submit */
    uint64_t payload_bytes;
    zlink_actor_serial_executor_t *actor;          /* to add */
    const zlink_serial_execution_queue_t *current; /* whose turn the caller is on */
    zlink_wait_target_t target;
    zlink_status_t status;
} zlink_spot_request_t;

static bool is_spot_wide(const zlink_spot_serial_executor_t *executor)
{
    return executor->kind == ZLINK_EXECUTION_USER && executor->mode == ZLINK_SPOT_WIDE;
}

static bool has_timer_queues(const zlink_spot_serial_executor_t *executor)
{
    return executor->kind == ZLINK_EXECUTION_USER && executor->mode == ZLINK_PER_ACTOR;
}

/* ---- construction ---- */

static zlink_status_t init(zlink_spot_serial_executor_t *executor, zlink_worker_pool_t *pool,
                           const zlink_execution_lane_policy_t *policy, zlink_spot_execution_kind_t kind,
                           zlink_user_spot_execution_mode_t mode)
{
    const char *field;

    if ((unsigned)kind > ZLINK_EXECUTION_USER || (unsigned)mode > ZLINK_PER_ACTOR ||
        zlink_execution_lane_policy_validate(policy, &field) != ZLINK_OK)
        return ZLINK_INVALID_OPERATION;
    executor->policy = *policy;
    executor->pool = pool;
    executor->kind = (uint8_t)kind;
    executor->mode = (uint8_t)mode;
    executor->actors_max = ZLINK_SPOT_ACTORS_DEFAULT;
    executor->timers_max = ZLINK_SPOT_TIMER_NAMES_DEFAULT;
    zlink_execution_owner_init(&executor->owner);
    atomic_init(&executor->open, 1);
    atomic_init(&executor->closed, NULL);
    zlink_state_lane_init(&executor->lane);
    zlink_name_map_init(&executor->actors);
    zlink_name_map_init(&executor->timers);
    zlink_serial_execution_queue_init(&executor->queue, pool, &executor->policy);
    return ZLINK_OK;
}

zlink_status_t zlink_spot_serial_executor_init(zlink_spot_serial_executor_t *executor, zlink_worker_pool_t *pool,
                                               const zlink_execution_lane_policy_t *policy,
                                               zlink_spot_execution_kind_t kind)
{
    return init(executor, pool, policy, kind, ZLINK_SPOT_WIDE);
}

zlink_status_t zlink_spot_serial_executor_init_user(zlink_spot_serial_executor_t *executor, zlink_worker_pool_t *pool,
                                                    const zlink_execution_lane_policy_t *policy,
                                                    zlink_user_spot_execution_mode_t mode)
{
    return init(executor, pool, policy, ZLINK_EXECUTION_USER, mode);
}

zlink_status_t zlink_spot_serial_executor_set_limits(zlink_spot_serial_executor_t *executor, uint32_t actors_max,
                                                     uint32_t timers_max)
{
    if (actors_max == 0 || actors_max > ZLINK_SPOT_ACTORS_MAX || timers_max == 0 ||
        timers_max > ZLINK_SPOT_TIMER_NAMES_MAX)
        return ZLINK_INVALID_OPERATION;
    executor->actors_max = actors_max;
    executor->timers_max = timers_max;
    return ZLINK_OK;
}

/* ---- the end of its queues ---- */

static void nobody_is_told(zlink_spot_serial_executor_t *executor)
{
    (void)executor;
}

/* One of them has ended; the executor may be gone afterwards. */
static void count_down(zlink_spot_serial_executor_t *executor)
{
    if (atomic_fetch_sub(&executor->open, 1) != 1)
        return;
    zlink_spot_serial_executor_closed_t closed = atomic_load(&executor->closed);
    zlink_name_map_destroy(&executor->actors);
    zlink_name_map_destroy(&executor->timers);
    closed(executor);
}

static void spot_queue_closed(zlink_serial_execution_queue_t *queue)
{
    count_down(ZLINK_CONTAINER_OF(queue, zlink_spot_serial_executor_t, queue));
}

static void forget_actor(void *context)
{
    zlink_actor_serial_executor_t *actor = context;
    zlink_execution_owner_t *above = atomic_load(&actor->owner.above);
    zlink_spot_serial_executor_t *executor = ZLINK_CONTAINER_OF(above, zlink_spot_serial_executor_t, owner);

    if (actor->entry.in_map) /* it did not end with its Spot */
        zlink_name_map_remove(&executor->actors, &actor->entry);
}

static void actor_queue_closed(zlink_serial_execution_queue_t *queue)
{
    zlink_actor_serial_executor_t *actor = ZLINK_CONTAINER_OF(queue, zlink_actor_serial_executor_t, queue);
    zlink_execution_owner_t *above = atomic_load(&actor->owner.above);
    zlink_spot_serial_executor_t *executor = ZLINK_CONTAINER_OF(above, zlink_spot_serial_executor_t, owner);

    if (actor->made_by_spot) {
        zlink_status_t status = zlink_state_lane_run(&executor->lane, forget_actor, actor);
        assert(status == ZLINK_OK && "a queue ends on a worker, on no lane");
        (void)status;
        zlink_free(actor);
    }
    count_down(executor);
}

static void forget_timer(void *context)
{
    zlink_timer_queue_t *timer = context;
    if (timer->entry.in_map)
        zlink_name_map_remove(&timer->spot->timers, &timer->entry);
}

static void timer_queue_closed(zlink_serial_execution_queue_t *queue)
{
    zlink_timer_queue_t *timer = ZLINK_CONTAINER_OF(queue, zlink_timer_queue_t, queue);
    zlink_spot_serial_executor_t *executor = timer->spot;
    zlink_status_t status = zlink_state_lane_run(&executor->lane, forget_timer, timer);

    assert(status == ZLINK_OK && "a queue ends on a worker, on no lane");
    (void)status;
    zlink_free(timer);
    count_down(executor);
}

/* ---- on the lane ---- */

static zlink_actor_serial_executor_t *find_actor(const zlink_spot_serial_executor_t *executor, const char *actor_id)
{
    assert(zlink_state_lane_is_on_lane(&executor->lane));
    zlink_name_entry_t *entry = zlink_name_map_find(&executor->actors, actor_id);
    return entry ? ZLINK_CONTAINER_OF(entry, zlink_actor_serial_executor_t, entry) : NULL;
}

/* It is in no map yet, and becomes a member. */
static zlink_status_t take_in(zlink_spot_serial_executor_t *executor, zlink_actor_serial_executor_t *actor)
{
    if (executor->actors.count >= executor->actors_max)
        return ZLINK_CAPACITY_EXCEEDED;
    zlink_status_t status = zlink_name_map_add(&executor->actors, &actor->entry);
    if (status != ZLINK_OK)
        return status;
    if (is_spot_wide(executor))
        zlink_serial_execution_queue_set_gate(&actor->queue, &executor->queue);
    atomic_store(&actor->owner.above, &executor->owner);
    atomic_fetch_add(&executor->open, 1);
    return ZLINK_OK;
}

/* On its own turn, or before anything was accepted. */
static void let_out(zlink_spot_serial_executor_t *executor, zlink_actor_serial_executor_t *actor)
{
    zlink_name_map_remove(&executor->actors, &actor->entry);
    if (is_spot_wide(executor))
        zlink_serial_execution_queue_set_gate(&actor->queue, NULL);
    atomic_store(&actor->owner.above, NULL);
    uint32_t open = atomic_fetch_sub(&executor->open, 1);
    assert(open > 1 && "its own queue is closed after the maps were emptied");
    (void)open;
}

static zlink_status_t make_actor(zlink_spot_serial_executor_t *executor, const char *actor_id,
                                 zlink_actor_serial_executor_t **made)
{
    size_t id_bytes = strlen(actor_id) + 1;
    zlink_actor_serial_executor_t *actor = zlink_malloc(sizeof(*actor) + id_bytes);
    if (!actor)
        return ZLINK_CAPACITY_EXCEEDED;
    char *id = (char *)(actor + 1);
    memcpy(id, actor_id, id_bytes);
    zlink_status_t status = zlink_actor_serial_executor_init(actor, executor->pool, &executor->policy, id);
    if (status == ZLINK_OK)
        status = take_in(executor, actor);
    if (status != ZLINK_OK) {
        zlink_free(actor);
        return status;
    }
    actor->made_by_spot = true;
    *made = actor;
    return ZLINK_OK;
}

static void execute_actor_on_lane(void *context)
{
    zlink_spot_request_t *request = context;
    zlink_spot_serial_executor_t *executor = request->executor;

    request->status = zlink_execution_owner_admit(&executor->owner);
    if (request->status != ZLINK_OK)
        return;
    zlink_actor_serial_executor_t *actor = find_actor(executor, request->name);
    bool is_new = !actor;
    if (is_new)
        request->status = make_actor(executor, request->name, &actor);
    if (request->status != ZLINK_OK)
        return;
    request->status = zlink_actor_serial_executor_enter(actor, request->turn, request->payload_bytes, &executor->owner);
    if (request->status != ZLINK_OK && is_new) {
        let_out(executor, actor);
        zlink_free(actor);
    }
}

/* It has never run, or everything in it has ended and been given back. */
static bool is_idle(const zlink_serial_execution_queue_t *queue)
{
    return zlink_lane_word_counters(&queue->application) == 0 && zlink_lane_word_counters(&queue->lifecycle) == 0;
}

static void add_actor_on_lane(void *context)
{
    zlink_spot_request_t *request = context;
    zlink_spot_serial_executor_t *executor = request->executor;
    zlink_actor_serial_executor_t *actor = request->actor;

    request->status = zlink_execution_owner_admit(&executor->owner);
    if (request->status == ZLINK_OK &&
        (atomic_load(&actor->owner.above) || (request->current != &actor->queue && !is_idle(&actor->queue))))
        request->status = ZLINK_INVALID_OPERATION;
    if (request->status == ZLINK_OK && (atomic_load(&actor->owner.state) & ZLINK_OWNER_CLOSED))
        request->status = ZLINK_SHUTTING_DOWN; /* the Actor was closed */
    if (request->status == ZLINK_OK && find_actor(executor, actor->entry.name))
        request->status = ZLINK_ALREADY_EXISTS;
    if (request->status == ZLINK_OK)
        request->status = take_in(executor, actor);
}

static void remove_actor_on_lane(void *context)
{
    zlink_spot_request_t *request = context;
    zlink_spot_serial_executor_t *executor = request->executor;
    zlink_actor_serial_executor_t *actor = find_actor(executor, request->name);

    request->status = ZLINK_OK;
    if (!actor)
        request->status =
            atomic_load(&executor->owner.state) & ZLINK_OWNER_CLOSED ? ZLINK_SHUTTING_DOWN : ZLINK_NOT_FOUND;
    else if (actor->made_by_spot) {
        atomic_fetch_or(&actor->owner.state, ZLINK_OWNER_CLOSED);
        zlink_serial_execution_queue_close(&actor->queue, actor_queue_closed);
    } else if (request->current != &actor->queue) {
        request->status = ZLINK_INVALID_OPERATION;
    } else {
        let_out(executor, actor);
    }
}

static void target_on_lane(void *context)
{
    zlink_spot_request_t *request = context;
    const zlink_spot_serial_executor_t *executor = request->executor;
    const zlink_actor_serial_executor_t *actor = find_actor(executor, request->name);

    request->target.claim = actor ? &actor->queue : NULL;
    request->target.gate = is_spot_wide(executor) ? &executor->queue : request->target.claim;
}

static zlink_status_t make_timer(zlink_spot_serial_executor_t *executor, const char *name, zlink_timer_queue_t **made)
{
    size_t name_bytes = strlen(name) + 1;

    if (executor->timers.count >= executor->timers_max)
        return ZLINK_CAPACITY_EXCEEDED;
    zlink_timer_queue_t *timer = zlink_malloc(sizeof(*timer) + name_bytes);
    if (!timer)
        return ZLINK_CAPACITY_EXCEEDED;
    memcpy(timer->name, name, name_bytes);
    timer->spot = executor;
    timer->entry = (zlink_name_entry_t){.name = timer->name};
    zlink_serial_execution_queue_init(&timer->queue, executor->pool, &executor->policy);
    zlink_status_t status = zlink_name_map_add(&executor->timers, &timer->entry);
    if (status != ZLINK_OK) {
        zlink_free(timer);
        return status;
    }
    atomic_fetch_add(&executor->open, 1);
    *made = timer;
    return ZLINK_OK;
}

static void execute_timer_on_lane(void *context)
{
    zlink_spot_request_t *request = context;
    zlink_spot_serial_executor_t *executor = request->executor;
    zlink_timer_queue_t *timer = NULL;

    request->status = zlink_execution_owner_admit(&executor->owner);
    if (request->status != ZLINK_OK)
        return;
    assert(zlink_state_lane_is_on_lane(&executor->lane));
    zlink_name_entry_t *entry = zlink_name_map_find(&executor->timers, request->name);
    if (entry)
        timer = ZLINK_CONTAINER_OF(entry, zlink_timer_queue_t, entry);
    else
        request->status = make_timer(executor, request->name, &timer);
    if (request->status != ZLINK_OK)
        return;
    zlink_turn_enter(request->turn, &timer->queue, &executor->owner, &executor->owner);
    request->turn->defer_offered = true;
    request->status = zlink_serial_execution_queue_enqueue(&timer->queue, &request->turn->item);
    if (request->status == ZLINK_SHUTTING_DOWN)
        request->status = ZLINK_CAPACITY_EXCEEDED; /* removed; the Spot itself is open */
}

static void remove_timer_on_lane(void *context)
{
    zlink_spot_request_t *request = context;
    zlink_name_entry_t *entry = zlink_name_map_find(&request->executor->timers, request->name);

    if (entry)
        zlink_serial_execution_queue_close(&ZLINK_CONTAINER_OF(entry, zlink_timer_queue_t, entry)->queue,
                                           timer_queue_closed);
}

/* The request is answered when it returns. */
static zlink_status_t ask(zlink_spot_request_t *request, void (*on_lane)(void *context))
{
    zlink_status_t status = zlink_state_lane_run(&request->executor->lane, on_lane, request);
    return status == ZLINK_OK ? request->status : status;
}

/* ---- entry points ---- */

static void enter(zlink_spot_serial_executor_t *executor, zlink_turn_t *turn)
{
    bool yields = executor->kind == ZLINK_EXECUTION_INSTANCE || is_spot_wide(executor);

    zlink_turn_enter(turn, &executor->queue, &executor->owner, &executor->owner);
    turn->yield = yields ? ZLINK_YIELD_OFFERED : ZLINK_YIELD_NOT_OFFERED;
    turn->defer_offered = executor->kind != ZLINK_EXECUTION_INSTANCE;
}

zlink_status_t zlink_spot_serial_executor_execute_spot(zlink_spot_serial_executor_t *executor, zlink_turn_t *turn,
                                                       uint64_t payload_bytes)
{
    zlink_status_t status = zlink_execution_owner_admit(&executor->owner);
    if (status != ZLINK_OK)
        return status;
    enter(executor, turn);
    return zlink_serial_execution_queue_enqueue_with_payload_bytes(&executor->queue, &turn->item, payload_bytes);
}

zlink_status_t zlink_spot_serial_executor_await_room(zlink_spot_serial_executor_t *executor,
                                                     zlink_room_waiter_t *waiter)
{
    return zlink_serial_execution_queue_await_room(&executor->queue, waiter);
}

zlink_status_t zlink_spot_serial_executor_execute_actor(zlink_spot_serial_executor_t *executor, const char *actor_id,
                                                        zlink_turn_t *turn, uint64_t payload_bytes)
{
    zlink_spot_request_t request = {
        .executor = executor, .name = actor_id, .turn = turn, .payload_bytes = payload_bytes};

    if (executor->kind == ZLINK_EXECUTION_INSTANCE || !zlink_name_map_takes(actor_id))
        return ZLINK_INVALID_OPERATION;
    return ask(&request, execute_actor_on_lane);
}

zlink_status_t zlink_spot_serial_executor_execute_timer(zlink_spot_serial_executor_t *executor, const char *timer_name,
                                                        zlink_turn_t *turn)
{
    zlink_spot_request_t request = {.executor = executor, .name = timer_name, .turn = turn};

    if (!zlink_name_map_takes(timer_name))
        return ZLINK_INVALID_OPERATION;
    if (has_timer_queues(executor))
        return ask(&request, execute_timer_on_lane);
    zlink_status_t status = zlink_execution_owner_admit(&executor->owner);
    if (status != ZLINK_OK)
        return status;
    enter(executor, turn);
    return zlink_serial_execution_queue_enqueue(&executor->queue, &turn->item);
}

zlink_status_t zlink_spot_serial_executor_execute_lifecycle(zlink_spot_serial_executor_t *executor, zlink_turn_t *turn)
{
    if (atomic_load(&executor->owner.state) & ZLINK_OWNER_CLOSED)
        return ZLINK_SHUTTING_DOWN;
    zlink_turn_enter(turn, &executor->queue, &executor->owner, &executor->owner);
    return zlink_serial_execution_queue_enqueue_lifecycle(&executor->queue, &turn->item);
}

/* ---- members ---- */

static const zlink_serial_execution_queue_t *current_queue(void)
{
    const zlink_turn_t *turn = zlink_turn_current();
    return turn ? turn->queue : NULL;
}

zlink_status_t zlink_spot_serial_executor_add_actor(zlink_spot_serial_executor_t *executor,
                                                    zlink_actor_serial_executor_t *actor)
{
    zlink_spot_request_t request = {.executor = executor, .actor = actor, .current = current_queue()};

    if (executor->kind == ZLINK_EXECUTION_INSTANCE)
        return ZLINK_INVALID_OPERATION;
    return ask(&request, add_actor_on_lane);
}

zlink_status_t zlink_spot_serial_executor_remove_actor(zlink_spot_serial_executor_t *executor, const char *actor_id)
{
    zlink_spot_request_t request = {.executor = executor, .name = actor_id, .current = current_queue()};

    if (!zlink_name_map_takes(actor_id))
        return ZLINK_INVALID_OPERATION;
    return ask(&request, remove_actor_on_lane);
}

void zlink_spot_serial_executor_remove_timer(zlink_spot_serial_executor_t *executor, const char *timer_name)
{
    zlink_spot_request_t request = {.executor = executor, .name = timer_name};

    if (has_timer_queues(executor) && zlink_name_map_takes(timer_name))
        (void)ask(&request, remove_timer_on_lane);
}

/* ---- sealing and closing ---- */

void zlink_spot_serial_executor_seal(zlink_spot_serial_executor_t *executor)
{
    atomic_fetch_or(&executor->owner.state, ZLINK_OWNER_SEALED);
}

void zlink_spot_serial_executor_unseal(zlink_spot_serial_executor_t *executor)
{
    atomic_fetch_and(&executor->owner.state, (uint8_t)~ZLINK_OWNER_SEALED);
}

static void close_actor(zlink_name_entry_t *entry, void *context)
{
    zlink_actor_serial_executor_t *actor = ZLINK_CONTAINER_OF(entry, zlink_actor_serial_executor_t, entry);

    (void)context;
    atomic_fetch_or(&actor->owner.state, ZLINK_OWNER_CLOSED);
    zlink_serial_execution_queue_close(&actor->queue, actor_queue_closed);
}

static void close_timer(zlink_name_entry_t *entry, void *context)
{
    (void)context;
    zlink_serial_execution_queue_close(&ZLINK_CONTAINER_OF(entry, zlink_timer_queue_t, entry)->queue,
                                       timer_queue_closed);
}

static void close_all_on_lane(zlink_state_lane_turn_t *turn)
{
    zlink_spot_serial_executor_t *executor = ZLINK_CONTAINER_OF(turn, zlink_spot_serial_executor_t, closing);
    zlink_name_map_take_all(&executor->actors, close_actor, NULL);
    zlink_name_map_take_all(&executor->timers, close_timer, NULL);
}

static void all_are_closing(zlink_state_lane_turn_t *turn)
{
    zlink_spot_serial_executor_t *executor = ZLINK_CONTAINER_OF(turn, zlink_spot_serial_executor_t, closing);
    zlink_serial_execution_queue_close(&executor->queue, spot_queue_closed);
}

void zlink_spot_serial_executor_close(zlink_spot_serial_executor_t *executor,
                                      zlink_spot_serial_executor_closed_t closed)
{
    zlink_spot_serial_executor_closed_t none = NULL;

    if (!atomic_compare_exchange_strong(&executor->closed, &none, closed ? closed : nobody_is_told))
        return;
    atomic_fetch_or(&executor->owner.state, ZLINK_OWNER_CLOSED);
    executor->closing = (zlink_state_lane_turn_t){.run = close_all_on_lane, .completed = all_are_closing};
    zlink_status_t status = zlink_state_lane_post(&executor->lane, &executor->closing);
    assert(status == ZLINK_OK && "nobody closes the lane");
    (void)status;
}

/* ---- questions ---- */

bool zlink_spot_serial_executor_is_current(const zlink_spot_serial_executor_t *executor)
{
    return zlink_serial_execution_queue_is_current(&executor->queue);
}

zlink_wait_target_t zlink_spot_serial_executor_wait_target(const zlink_spot_serial_executor_t *executor)
{
    return (zlink_wait_target_t){.gate = &executor->queue};
}

zlink_wait_target_t zlink_spot_serial_executor_actor_wait_target(zlink_spot_serial_executor_t *executor,
                                                                 const char *actor_id)
{
    zlink_spot_request_t request = {.executor = executor, .name = actor_id};

    if (executor->kind != ZLINK_EXECUTION_INSTANCE && zlink_name_map_takes(actor_id))
        (void)zlink_state_lane_run(&executor->lane, target_on_lane, &request); /* refused only where no turn can be */
    return request.target;
}
