/*
 * Many handlers on two workers defer joins of each other's Actors, wait, fail, and send; joins wait as well; Actors are
 * closed meanwhile. Every join comes to exactly one end, and the order of EX-105 holds for each.
 */
#include "exec_fixture.h"

#include <pthread.h>
#include <sched.h>

#include "base/container_of.h"
#include "exec/defer_scope.h"
#include "exec/spot_serial_executor.h"

#define ACTORS  12
#define CALLS   3000
#define IN_TURN 200 /* calls that have not ended, so that there are stacks for all of them */

typedef struct storm_actor {
    zlink_actor_serial_executor_t executor;
    bool joining; /* plain: its own turns only */
    unsigned runs;
    sem_t closed;
} storm_actor_t;

typedef struct waiter {
    zlink_wait_t wait;
    struct waiter *next;
} waiter_t;

typedef struct storm_call {
    zlink_turn_t turn;
    storm_actor_t *actor;
    storm_actor_t *target;
    unsigned number;
    waiter_t waiter;
    waiter_t join_waiter;
    zlink_status_t deferred;
    _Atomic unsigned join_ends; /* 1 once it was completed or disposed of */
    zlink_turn_t follower;      /* sent to the target after the Defer */
} storm_call_t;

static storm_actor_t actors[ACTORS];
static storm_call_t calls[CALLS];
static bool spot_wide;
static _Atomic(waiter_t *) to_complete;
static _Atomic bool stops;
static _Atomic unsigned open_calls; /* turns that have not ended, followers included */
static _Atomic unsigned deferred_joins;
static _Atomic unsigned ended_joins;

/* ---- waits ---- */

static void submit(waiter_t *waiter)
{
    waiter->next = atomic_load(&to_complete);
    while (!atomic_compare_exchange_weak(&to_complete, &waiter->next, waiter))
        ;
}

static void *complete_all(void *unused)
{
    (void)unused;
    while (!atomic_load(&stops)) {
        waiter_t *waiter = atomic_exchange(&to_complete, NULL);
        if (!waiter)
            sched_yield();
        while (waiter) {
            waiter_t *next = waiter->next;
            zlink_wait_complete(&waiter->wait, ZLINK_OK);
            waiter = next;
        }
    }
    return NULL;
}

static zlink_status_t wait_once(zlink_turn_t *turn, waiter_t *waiter)
{
    zlink_wait_mode_t mode = spot_wide ? ZLINK_WAIT_YIELD : ZLINK_WAIT_ASYNC;
    zlink_status_t status = zlink_turn_prepare_wait(turn, &waiter->wait, mode, NULL, NULL);
    if (status != ZLINK_OK)
        return status;
    submit(waiter);
    return zlink_turn_wait(turn, &waiter->wait);
}

/* ---- joins ---- */

static zlink_status_t activate(zlink_turn_t *turn, const zlink_deferred_join_t *join)
{
    storm_call_t *call = join->context;

    zlink_check(!call->target->joining && atomic_load(&call->join_ends) == 0);
    call->target->joining = true;
    return call->number % 5 == 0 ? wait_once(turn, &call->join_waiter) : ZLINK_OK;
}

static void completed(zlink_turn_t *turn, const zlink_deferred_join_t *join, zlink_status_t result)
{
    storm_call_t *call = join->context;

    (void)turn;
    (void)result;
    zlink_check(call->target->joining);
    call->target->joining = false;
    zlink_check(atomic_fetch_add(&call->join_ends, 1) == 0);
    atomic_fetch_add(&ended_joins, 1);
}

static void dispose(const zlink_deferred_join_t *join, zlink_status_t why)
{
    storm_call_t *call = join->context;

    zlink_check(why != ZLINK_OK);
    zlink_check(atomic_fetch_add(&call->join_ends, 1) == 0);
    atomic_fetch_add(&ended_joins, 1);
}

static const zlink_deferred_join_calls_t join_calls = {activate, completed, dispose};

/* ---- handlers ---- */

static zlink_status_t follow(zlink_turn_t *turn)
{
    storm_call_t *call = ZLINK_CONTAINER_OF(turn, storm_call_t, follower);

    zlink_check(!call->target->joining && atomic_load(&call->join_ends) == 1);
    call->target->runs++;
    return ZLINK_OK;
}

static void follower_ended(zlink_turn_t *turn, zlink_status_t status)
{
    (void)turn;
    (void)status;
    atomic_fetch_sub(&open_calls, 1);
}

static zlink_status_t handler(zlink_turn_t *turn)
{
    storm_call_t *call = ZLINK_CONTAINER_OF(turn, storm_call_t, turn);
    zlink_status_t status = ZLINK_OK;

    zlink_check(!call->actor->joining);
    call->actor->runs++;
    if (call->number % 7 == 0)
        status = wait_once(turn, &call->waiter);
    if (status != ZLINK_OK)
        return status;
    zlink_defer_options_t options = {
        .operation_id = {call->number, 1}, .request = call, .request_bytes = 8, .calls = &join_calls, .context = call};
    call->deferred = zlink_turn_defer(turn, &call->target->executor, &options);
    if (call->deferred == ZLINK_OK) {
        atomic_fetch_add(&deferred_joins, 1);
        atomic_fetch_add(&open_calls, 1);
        zlink_turn_init(&call->follower, follow, follower_ended);
        if (zlink_actor_serial_executor_execute_actor(&call->target->executor, &call->follower, 0) != ZLINK_OK)
            atomic_fetch_sub(&open_calls, 1);
    }
    if (call->number % 3 == 0)
        status = wait_once(turn, &call->waiter);
    return call->number % 4 == 0 ? ZLINK_REJECTED : status;
}

static void ended(zlink_turn_t *turn, zlink_status_t status)
{
    (void)turn;
    (void)status;
    atomic_fetch_sub(&open_calls, 1);
}

static void actor_closed(zlink_actor_serial_executor_t *executor)
{
    sem_post(&ZLINK_CONTAINER_OF(executor, storm_actor_t, executor)->closed);
}

static void send_all(void)
{
    unsigned random = 12345;

    for (unsigned i = 0; i < CALLS; i++) {
        storm_call_t *call = &calls[i];
        memset(call, 0, sizeof(*call));
        random = random * 1103515245u + 12345u;
        call->number = i;
        call->actor = &actors[(random >> 16) % ACTORS];
        call->target = &actors[(random >> 20) % ACTORS];
        zlink_turn_init(&call->turn, handler, ended);
        while (atomic_load(&open_calls) > IN_TURN)
            sched_yield();
        atomic_fetch_add(&open_calls, 1);
        if (zlink_actor_serial_executor_execute_actor(&call->actor->executor, &call->turn, 0) != ZLINK_OK)
            atomic_fetch_sub(&open_calls, 1);
        if (i > CALLS / 2 && i % 200 == 0) /* half of the Actors go while the others are at work */
            zlink_actor_serial_executor_close(&actors[i / 200 % ACTORS].executor, actor_closed);
    }
}

static sem_t spot_is_closed;

static void spot_closed(zlink_spot_serial_executor_t *spot)
{
    (void)spot;
    sem_post(&spot_is_closed);
}

static void storm(void)
{
    zlink_exec_fixture_t fixture;
    zlink_spot_serial_executor_t spot;
    pthread_t completer;

    zlink_exec_fixture_open(&fixture, 2, 0);
    sem_init(&spot_is_closed, 0, 0);
    atomic_store(&stops, false);
    atomic_store(&deferred_joins, 0);
    atomic_store(&ended_joins, 0);
    memset(actors, 0, sizeof(actors));
    assert_int_equal(zlink_spot_serial_executor_init(&spot, fixture.pool, &fixture.policy, ZLINK_EXECUTION_USER),
                     ZLINK_OK);
    for (unsigned i = 0; i < ACTORS; i++) {
        sem_init(&actors[i].closed, 0, 0);
        assert_int_equal(zlink_actor_serial_executor_init(&actors[i].executor, fixture.pool, &fixture.policy, "actor"),
                         ZLINK_OK);
        if (spot_wide)
            zlink_serial_execution_queue_set_gate(&actors[i].executor.queue, &spot.queue);
    }
    assert_int_equal(pthread_create(&completer, NULL, complete_all, NULL), 0);
    send_all();
    while (atomic_load(&open_calls) > 0)
        sched_yield();
    for (unsigned i = 0; i < ACTORS; i++) {
        zlink_actor_serial_executor_close(&actors[i].executor, actor_closed);
        zlink_test_wait(&actors[i].closed);
        assert_int_equal(atomic_load(&actors[i].executor.joins), 0);
        assert_false(actors[i].joining);
    }
    zlink_spot_serial_executor_close(&spot, spot_closed);
    zlink_test_wait(&spot_is_closed);
    atomic_store(&stops, true);
    pthread_join(completer, NULL);
    zlink_exec_fixture_close(&fixture);
    assert_int_equal(atomic_load(&ended_joins), atomic_load(&deferred_joins));
    assert_true(atomic_load(&deferred_joins) > ACTORS);
}

/* EX-105, EX-28: Actor queues that are gated by their Spot's. */
static void test_ex105_storm_of_gated_actors(void **state)
{
    (void)state;
    spot_wide = true;
    storm();
}

/* EX-105, EX-28: Actor queues that workers drive themselves. */
static void test_ex105_storm_of_driven_actors(void **state)
{
    (void)state;
    spot_wide = false;
    storm();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex105_storm_of_gated_actors),
        cmocka_unit_test(test_ex105_storm_of_driven_actors),
    };

    return zlink_test_main(tests);
}
