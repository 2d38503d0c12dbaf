/*
 * tests/unit/defer_fixture.h: a Spot with Actors in either mode, handlers that defer joins, and joins that tell what
 * becomes of them.
 */
#ifndef ZLINK_TESTS_UNIT_DEFER_FIXTURE_H
#define ZLINK_TESTS_UNIT_DEFER_FIXTURE_H

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "base/container_of.h"
#include "exec/defer_scope.h"
#include "exec/spot_serial_executor.h"
#include "tests/unit/exec_fixture.h"

#define ACTORS    3
#define NOTES_MAX 64

typedef struct world world_t;

typedef struct actor {
    zlink_actor_serial_executor_t executor;
    world_t *world;
    sem_t closed;
} actor_t;

/* A Spot and Actors, whose queues are gated by its own or not. They are no members, so that each can be closed. */
struct world {
    zlink_exec_fixture_t fixture;
    zlink_spot_serial_executor_t spot;
    bool spot_wide;
    actor_t actors[ACTORS];
    sem_t spot_closed;
    pthread_mutex_t lock;
    char notes[NOTES_MAX]; /* what ran, a letter each */
    unsigned count;
};

/* A join that tells what becomes of it: its letter, then '!' (completed) or '-' (disposed of). */
typedef struct join {
    world_t *world;
    char letter;
    zlink_status_t answer; /* of the join's work */
    bool waits;            /* the work waits for the test in between */
    zlink_wait_t wait;
    sem_t submitted;
    sem_t settled;
    zlink_status_t result; /* what completed or dispose was told */
    unsigned activated;
    unsigned completed;
    unsigned disposed;
    uint64_t deadline_ms;
} join_t;

typedef enum waiting { WAITS_NOT, WAITS_ON_ITS_STACK, WAITS_THEN } waiting_t;

/* A handler: notes its letter, defers, waits, defers, notes the letter in upper case. */
typedef struct call {
    zlink_turn_t turn;
    world_t *world;
    char letter;
    actor_t *target; /* of what it defers */
    join_t *before;  /* deferred before the wait; NULL: nothing */
    join_t *after;   /* and after it, on another_target */
    actor_t *another_target;
    waiting_t waiting;
    zlink_wait_mode_t mode;
    zlink_wait_t wait;
    unsigned continuations;
    uint64_t until_suspended; /* the handler goes on only once so many have been suspended */
    zlink_status_t answer;
    zlink_status_t encoded; /* what settle makes of a good end */
    zlink_status_t deferred_before;
    zlink_status_t deferred_after;
    zlink_status_t deferred_late;
    zlink_status_t ended;
    sem_t submitted;
    sem_t ended_once;
} call_t;

static inline void note(world_t *world, char letter)
{
    pthread_mutex_lock(&world->lock);
    if (world->count < NOTES_MAX - 1)
        world->notes[world->count++] = letter;
    pthread_mutex_unlock(&world->lock);
}

/* While others may be at it. */
static inline void assert_notes(world_t *world, const char *expected)
{
    char notes[NOTES_MAX];

    pthread_mutex_lock(&world->lock);
    memcpy(notes, world->notes, sizeof(notes));
    pthread_mutex_unlock(&world->lock);
    assert_string_equal(notes, expected);
}

static inline uint64_t suspensions(world_t *world)
{
    zlink_worker_pool_stats_t stats;
    zlink_worker_pool_stats(world->fixture.pool, &stats);
    return stats.suspensions;
}

/* Until so many items have been suspended or held: that is how one sees from outside that a mark waits. */
static inline void await_suspensions(world_t *world, uint64_t count)
{
    struct timespec begun;
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &begun);
    while (suspensions(world) < count) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        zlink_check(now.tv_sec - begun.tv_sec < 60);
        sched_yield();
    }
}

/* ---- joins ---- */

static inline zlink_status_t activate(zlink_turn_t *turn, const zlink_deferred_join_t *deferred)
{
    join_t *join = deferred->context;
    actor_t *actor = ZLINK_CONTAINER_OF(deferred->target, actor_t, executor);

    zlink_check(zlink_turn_current() == turn);
    zlink_check(zlink_actor_serial_executor_is_current(&actor->executor));
    zlink_check(deferred->operation_id.low == (uint64_t)join->letter);
    zlink_check(deferred->request_bytes == 5 && memcmp(deferred->request, "hello", 5) == 0);
    join->activated++;
    join->deadline_ms = deferred->deadline_ms;
    note(join->world, join->letter);
    if (join->waits) {
        zlink_wait_mode_t mode = join->world->spot_wide ? ZLINK_WAIT_YIELD : ZLINK_WAIT_ASYNC;
        zlink_check(zlink_turn_prepare_wait(turn, &join->wait, mode, NULL, NULL) == ZLINK_OK);
        sem_post(&join->submitted);
        return zlink_turn_wait(turn, &join->wait);
    }
    return join->answer;
}

static inline void completed(zlink_turn_t *turn, const zlink_deferred_join_t *deferred, zlink_status_t result)
{
    join_t *join = deferred->context;
    actor_t *actor = ZLINK_CONTAINER_OF(deferred->target, actor_t, executor);

    zlink_check(zlink_turn_current() == turn);
    zlink_check(zlink_actor_serial_executor_is_current(&actor->executor));
    join->completed++;
    join->result = result;
    note(join->world, '!');
    sem_post(&join->settled);
}

static inline void dispose(const zlink_deferred_join_t *deferred, zlink_status_t why)
{
    join_t *join = deferred->context;

    zlink_check(deferred->request_bytes == 5 && memcmp(deferred->request, "hello", 5) == 0);
    join->disposed++;
    join->result = why;
    note(join->world, join->letter);
    note(join->world, '-');
    sem_post(&join->settled);
}

static const zlink_deferred_join_calls_t join_calls = {activate, completed, dispose};

static inline void make_join(join_t *join, world_t *world, char letter)
{
    memset(join, 0, sizeof(*join));
    join->world = world;
    join->letter = letter;
    join->result = ZLINK_STATUS_COUNT;
    sem_init(&join->submitted, 0, 0);
    sem_init(&join->settled, 0, 0);
}

static inline zlink_status_t defer(zlink_turn_t *turn, actor_t *target, join_t *join)
{
    char request[5] = "hello"; /* gone when this returns */
    zlink_defer_options_t options = {.operation_id = {0, (uint64_t)join->letter},
                                     .request = request,
                                     .request_bytes = sizeof(request),
                                     .calls = &join_calls,
                                     .context = join};
    zlink_status_t status = zlink_turn_defer(turn, &target->executor, &options);
    memset(request, 0, sizeof(request));
    return status;
}

/* ---- handlers ---- */

static inline call_t *call_of(zlink_turn_t *turn)
{
    return ZLINK_CONTAINER_OF(turn, call_t, turn);
}

static inline zlink_status_t after_the_wait(call_t *call, zlink_status_t got)
{
    if (call->after)
        call->deferred_after = defer(&call->turn, call->another_target, call->after);
    note(call->world, (char)(call->letter - 'a' + 'A'));
    return got == ZLINK_OK ? call->answer : got;
}

static inline zlink_status_t continue_call(zlink_turn_t *turn, zlink_status_t status, void *context)
{
    call_t *call = context;

    if (--call->continuations == 0)
        return after_the_wait(call, status);
    zlink_check(zlink_turn_prepare_wait(turn, &call->wait, call->mode, continue_call, call) == ZLINK_OK);
    sem_post(&call->submitted);
    return ZLINK_OK;
}

static inline zlink_status_t handler(zlink_turn_t *turn)
{
    call_t *call = call_of(turn);
    zlink_turn_continuation_t then = call->waiting == WAITS_THEN ? continue_call : NULL;

    note(call->world, call->letter);
    if (call->before) {
        call->deferred_before = defer(turn, call->target, call->before);
        /* Neither gate nor claim was given back, and nothing has started. */
        zlink_check(zlink_turn_current() == turn && zlink_serial_execution_queue_is_current(turn->queue));
        zlink_check(call->before->activated + call->before->disposed == 0);
    }
    if (call->until_suspended) {
        await_suspensions(call->world, call->until_suspended);
        zlink_check(call->before->activated + call->before->disposed == 0);
    }
    if (call->waiting == WAITS_NOT)
        return after_the_wait(call, ZLINK_OK);
    zlink_check(zlink_turn_prepare_wait(turn, &call->wait, call->mode, then, call) == ZLINK_OK);
    sem_post(&call->submitted);
    return then ? ZLINK_OK : after_the_wait(call, zlink_turn_wait(turn, &call->wait));
}

static inline zlink_status_t note_handler(zlink_turn_t *turn)
{
    note(call_of(turn)->world, call_of(turn)->letter);
    return ZLINK_OK;
}

static inline zlink_status_t settle(zlink_turn_t *turn, zlink_status_t status)
{
    call_t *call = call_of(turn);
    zlink_check(!call->before || call->before->activated + call->before->disposed == 0);
    return status == ZLINK_OK ? call->encoded : status;
}

static inline void ended(zlink_turn_t *turn, zlink_status_t status)
{
    call_t *call = call_of(turn);

    if (call->target) {
        join_t late;
        make_join(&late, call->world, 'z');
        call->deferred_late = defer(turn, call->target, &late);
    }
    call->ended = status;
    sem_post(&call->ended_once);
}

static inline void make(call_t *call, world_t *world, char letter, zlink_status_t (*body)(zlink_turn_t *))
{
    memset(call, 0, sizeof(*call));
    zlink_turn_init(&call->turn, body, ended);
    call->turn.settle = settle;
    call->world = world;
    call->letter = letter;
    sem_init(&call->submitted, 0, 0);
    sem_init(&call->ended_once, 0, 0);
}

/* A handler that defers `join` to `target` and gives back its gate, where it can, while it waits. */
static inline void make_deferring(call_t *call, world_t *world, char letter, actor_t *target, join_t *join,
                                  waiting_t waiting)
{
    make(call, world, letter, handler);
    call->target = target;
    call->before = join;
    call->waiting = waiting;
    call->mode = world->spot_wide ? ZLINK_WAIT_YIELD : ZLINK_WAIT_ASYNC;
    call->continuations = 1;
}

/* ---- the world ---- */

static inline void tell_actor(actor_t *actor, call_t *call)
{
    assert_int_equal(zlink_actor_serial_executor_execute_actor(&actor->executor, &call->turn, 0), ZLINK_OK);
}

static inline void tell_actor_lifecycle(actor_t *actor, call_t *call)
{
    assert_int_equal(zlink_actor_serial_executor_execute_lifecycle(&actor->executor, &call->turn), ZLINK_OK);
}

static inline void tell_spot(world_t *world, call_t *call)
{
    assert_int_equal(zlink_spot_serial_executor_execute_spot(&world->spot, &call->turn, 0), ZLINK_OK);
}

static inline void world_open(world_t *world, bool spot_wide, unsigned workers)
{
    memset(world, 0, sizeof(*world));
    zlink_exec_fixture_open(&world->fixture, workers, 0);
    world->spot_wide = spot_wide;
    pthread_mutex_init(&world->lock, NULL);
    sem_init(&world->spot_closed, 0, 0);
    assert_int_equal(zlink_spot_serial_executor_init_user(&world->spot, world->fixture.pool, &world->fixture.policy,
                                                          spot_wide ? ZLINK_SPOT_WIDE : ZLINK_PER_ACTOR),
                     ZLINK_OK);
    for (unsigned i = 0; i < ACTORS; i++) {
        actor_t *actor = &world->actors[i];
        assert_int_equal(
            zlink_actor_serial_executor_init(&actor->executor, world->fixture.pool, &world->fixture.policy, "actor"),
            ZLINK_OK);
        if (spot_wide)
            zlink_serial_execution_queue_set_gate(&actor->executor.queue, &world->spot.queue);
        sem_init(&actor->closed, 0, 0);
    }
}

static inline void actor_closed(zlink_actor_serial_executor_t *executor)
{
    sem_post(&ZLINK_CONTAINER_OF(executor, actor_t, executor)->closed);
}

static inline void spot_closed(zlink_spot_serial_executor_t *spot)
{
    sem_post(&ZLINK_CONTAINER_OF(spot, world_t, spot)->spot_closed);
}

static inline void close_actor(actor_t *actor)
{
    zlink_actor_serial_executor_close(&actor->executor, actor_closed);
}

/* Everything has come to its end; nothing is kept anywhere. */
static inline void world_close(world_t *world)
{
    zlink_worker_pool_stats_t stats;

    for (unsigned i = 0; i < ACTORS; i++)
        close_actor(&world->actors[i]);
    for (unsigned i = 0; i < ACTORS; i++) {
        zlink_test_wait(&world->actors[i].closed);
        assert_int_equal(atomic_load(&world->actors[i].executor.joins), 0);
    }
    zlink_spot_serial_executor_close(&world->spot, spot_closed);
    zlink_test_wait(&world->spot_closed);
    zlink_worker_pool_stats(world->fixture.pool, &stats);
    assert_true(stats.stacks_live <= stats.workers);
    zlink_exec_fixture_close(&world->fixture);
}

#endif
