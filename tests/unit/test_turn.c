#include "exec_fixture.h"

#include <pthread.h>

#include "base/container_of.h"
#include "exec/channel_serial_executor.h"
#include "exec/spot_serial_executor.h"

#define NOTES_MAX 64

typedef struct spot {
    zlink_exec_fixture_t fixture;
    zlink_spot_serial_executor_t executor;
    char notes[NOTES_MAX]; /* what ran, a letter each; only on the Spot's turns */
    unsigned count;
    sem_t closed;
} spot_t;

/* A handler's call to somewhere else, which the test answers. */
typedef struct call {
    zlink_turn_t turn;
    spot_t *spot;
    char letter;
    zlink_wait_mode_t mode;
    zlink_wait_t wait;
    sem_t submitted;
    sem_t ended_once;
    zlink_status_t prepared;
    zlink_status_t got;   /* from the wait */
    zlink_status_t ended; /* of the turn */
    bool complete_at_once;
    unsigned handler_runs;
    uint64_t authority_before;
    uint64_t authority_after;
    pthread_t thread_before;
    pthread_t thread_after;
} call_t;

static call_t *call_of(zlink_turn_t *turn)
{
    return ZLINK_CONTAINER_OF(turn, call_t, turn);
}

static void note(spot_t *spot, char letter)
{
    zlink_check(zlink_spot_serial_executor_is_current(&spot->executor));
    if (spot->count < NOTES_MAX - 1)
        spot->notes[spot->count++] = letter;
}

static void ended(zlink_turn_t *turn, zlink_status_t status)
{
    call_t *call = call_of(turn);
    zlink_wait_t wait;

    zlink_check(zlink_turn_current() == turn);
    zlink_check(zlink_turn_prepare_wait(turn, &wait, ZLINK_WAIT_ASYNC, NULL, NULL) == ZLINK_INVALID_OPERATION);
    call->ended = status;
    sem_post(&call->ended_once);
}

/* Deep enough that a wrongly restored register or stack would show. */
static double __attribute__((noinline)) wait_deep(call_t *call, unsigned depth, double value)
{
    if (depth > 0)
        return wait_deep(call, depth - 1, value + 0.5) + depth;
    call->got = zlink_turn_wait(&call->turn, &call->wait);
    return value;
}

/* Notes its letter, waits, notes it in upper case. */
static zlink_status_t handler(zlink_turn_t *turn)
{
    call_t *call = call_of(turn);

    note(call->spot, call->letter);
    call->handler_runs++;
    zlink_check(zlink_turn_current() == turn);
    call->authority_before = turn->authority;
    call->thread_before = pthread_self();
    call->prepared = zlink_turn_prepare_wait(turn, &call->wait, call->mode, NULL, NULL);
    if (call->prepared != ZLINK_OK)
        return call->prepared;
    if (call->complete_at_once)
        zlink_wait_complete(&call->wait, ZLINK_NOT_FOUND);
    sem_post(&call->submitted);
    double sum = wait_deep(call, 5, 1.25);
    zlink_check(sum > 18.74 && sum < 18.76);
    zlink_check(zlink_turn_current() == turn);
    call->authority_after = turn->authority;
    call->thread_after = pthread_self();
    note(call->spot, (char)(call->letter - 'a' + 'A'));
    return call->got;
}

/* Only notes its letter. */
static zlink_status_t short_handler(zlink_turn_t *turn)
{
    call_t *call = call_of(turn);
    note(call->spot, call->letter);
    return ZLINK_OK;
}

static void make(call_t *call, spot_t *spot, char letter, zlink_wait_mode_t mode,
                 zlink_status_t (*body)(zlink_turn_t *))
{
    memset(call, 0, sizeof(*call));
    zlink_turn_init(&call->turn, body, ended);
    call->spot = spot;
    call->letter = letter;
    call->mode = mode;
    sem_init(&call->submitted, 0, 0);
    sem_init(&call->ended_once, 0, 0);
}

static void execute(call_t *call)
{
    assert_int_equal(zlink_spot_serial_executor_execute_spot(&call->spot->executor, &call->turn, 0), ZLINK_OK);
}

static void spot_open(spot_t *spot, unsigned workers, unsigned stacks_max)
{
    memset(spot, 0, sizeof(*spot));
    zlink_exec_fixture_open(&spot->fixture, workers, stacks_max);
    assert_int_equal(zlink_spot_serial_executor_init(&spot->executor, spot->fixture.pool, &spot->fixture.policy,
                                                     ZLINK_EXECUTION_INSTANCE),
                     ZLINK_OK);
    sem_init(&spot->closed, 0, 0);
}

static void executor_closed(zlink_spot_serial_executor_t *executor)
{
    sem_post(&ZLINK_CONTAINER_OF(executor, spot_t, executor)->closed);
}

static void spot_close(spot_t *spot)
{
    zlink_worker_pool_stats_t stats;

    zlink_spot_serial_executor_close(&spot->executor, executor_closed);
    zlink_test_wait(&spot->closed);
    zlink_worker_pool_stats(spot->fixture.pool, &stats);
    assert_true(stats.stacks_live <= stats.workers); /* none is lost */
    zlink_exec_fixture_close(&spot->fixture);
}

/* EX-21: yield gives the gate back: others run meanwhile; it resumes behind them, in a new turn, on its own worker. */
static void test_ex21_yield_lets_others_run_and_resumes_at_the_back(void **state)
{
    spot_t spot;
    call_t waiting;
    call_t other;
    call_t last;

    (void)state;
    spot_open(&spot, 2, 0);
    make(&waiting, &spot, 'w', ZLINK_WAIT_YIELD, handler);
    make(&other, &spot, 'o', ZLINK_WAIT_YIELD, short_handler);
    make(&last, &spot, 'l', ZLINK_WAIT_YIELD, short_handler);
    execute(&waiting);
    zlink_test_wait(&waiting.submitted);
    execute(&other);
    zlink_test_wait(&other.ended_once);
    zlink_wait_complete(&waiting.wait, ZLINK_OK);
    zlink_test_wait(&waiting.ended_once);
    execute(&last);
    zlink_test_wait(&last.ended_once);
    spot_close(&spot);
    assert_string_equal(spot.notes, "woWl");
    assert_int_equal(waiting.ended, ZLINK_OK);
    assert_true(pthread_equal(waiting.thread_before, waiting.thread_after));
    assert_true(waiting.authority_after >= waiting.authority_before); /* the same if the slice never ended */
}

/* EX-18, EX-20: async keeps the gate; the reply comes all the same, and the turn goes on under its authority. */
static void test_ex18_async_keeps_the_gate(void **state)
{
    spot_t spot;
    call_t waiting;
    call_t behind;
    spot_t elsewhere;
    call_t probe;

    (void)state;
    spot_open(&spot, 1, 0);
    make(&waiting, &spot, 'w', ZLINK_WAIT_ASYNC, handler);
    make(&behind, &spot, 'b', ZLINK_WAIT_YIELD, short_handler);
    execute(&waiting);
    zlink_test_wait(&waiting.submitted);
    execute(&behind);
    /* The only worker goes on with another Spot. */
    memset(&elsewhere, 0, sizeof(elsewhere));
    sem_init(&elsewhere.closed, 0, 0);
    assert_int_equal(zlink_spot_serial_executor_init(&elsewhere.executor, spot.fixture.pool, &spot.fixture.policy,
                                                     ZLINK_EXECUTION_INSTANCE),
                     ZLINK_OK);
    make(&probe, &elsewhere, 'p', ZLINK_WAIT_YIELD, short_handler);
    execute(&probe);
    zlink_test_wait(&probe.ended_once);
    assert_string_equal(spot.notes, "w");
    zlink_wait_complete(&waiting.wait, ZLINK_UNAVAILABLE);
    zlink_test_wait(&behind.ended_once);
    zlink_spot_serial_executor_close(&elsewhere.executor, executor_closed);
    zlink_test_wait(&elsewhere.closed);
    spot_close(&spot);
    assert_string_equal(spot.notes, "wWb");
    assert_int_equal(waiting.ended, ZLINK_UNAVAILABLE);
    assert_true(waiting.authority_after == waiting.authority_before);
}

/* A reply that is there already gives nothing back: nothing else of the owner runs in between (contract 000 §6.7). */
static void test_ex21_a_completed_wait_returns_at_once(void **state)
{
    spot_t spot;
    call_t first;
    call_t second;
    zlink_worker_pool_stats_t stats;

    (void)state;
    spot_open(&spot, 1, 0);
    for (int mode = ZLINK_WAIT_ASYNC; mode <= ZLINK_WAIT_YIELD; mode++) {
        spot.count = 0;
        make(&first, &spot, 'f', (zlink_wait_mode_t)mode, handler);
        first.complete_at_once = true;
        make(&second, &spot, 's', ZLINK_WAIT_YIELD, short_handler);
        execute(&first);
        execute(&second);
        zlink_test_wait(&second.ended_once);
        assert_memory_equal(spot.notes, "fFs", 3);
        assert_int_equal(first.ended, ZLINK_NOT_FOUND);
    }
    zlink_worker_pool_stats(spot.fixture.pool, &stats);
    assert_int_equal(stats.suspensions, 0);
    spot_close(&spot);
}

static zlink_status_t lifecycle_yields(zlink_turn_t *turn)
{
    call_t *call = call_of(turn);
    call->prepared = zlink_turn_prepare_wait(turn, &call->wait, ZLINK_WAIT_YIELD, NULL, NULL);
    return ZLINK_OK;
}

static void channel_closed(zlink_channel_serial_executor_t *executor)
{
    (void)executor;
}

/* EX-23: yield where it is not offered (lifecycle, channel, outside a turn) is refused before anything is submitted. */
static void test_ex23_ineligible_yield_is_invalid_operation(void **state)
{
    spot_t spot;
    call_t call;
    zlink_channel_serial_executor_t channel;

    (void)state;
    spot_open(&spot, 1, 0);
    make(&call, &spot, 'c', ZLINK_WAIT_YIELD, lifecycle_yields);
    assert_null(zlink_turn_current());
    assert_int_equal(zlink_turn_prepare_wait(&call.turn, &call.wait, ZLINK_WAIT_ASYNC, NULL, NULL),
                     ZLINK_INVALID_OPERATION);
    assert_int_equal(zlink_spot_serial_executor_execute_lifecycle(&spot.executor, &call.turn), ZLINK_OK);
    zlink_test_wait(&call.ended_once);
    assert_int_equal(call.prepared, ZLINK_INVALID_OPERATION);
    assert_int_equal(zlink_channel_serial_executor_init(&channel, spot.fixture.pool, &spot.fixture.policy), ZLINK_OK);
    make(&call, &spot, 'c', ZLINK_WAIT_YIELD, lifecycle_yields);
    assert_int_equal(zlink_channel_serial_executor_execute_channel(&channel, &call.turn, 0), ZLINK_OK);
    zlink_test_wait(&call.ended_once);
    assert_int_equal(call.prepared, ZLINK_INVALID_OPERATION);
    zlink_channel_serial_executor_close(&channel, channel_closed);
    spot_close(&spot);
}

/* No stack left is CapacityExceeded before submission, and one comes back when a wait ends. */
static void test_stacks_are_bounded(void **state)
{
    spot_t spot;
    call_t calls[3];

    (void)state;
    spot_open(&spot, 1, 2); /* the worker's and one more */
    make(&calls[0], &spot, 'a', ZLINK_WAIT_YIELD, handler);
    make(&calls[1], &spot, 'b', ZLINK_WAIT_YIELD, handler);
    make(&calls[2], &spot, 'c', ZLINK_WAIT_YIELD, handler);
    execute(&calls[0]);
    zlink_test_wait(&calls[0].submitted);
    execute(&calls[1]);
    zlink_test_wait(&calls[1].ended_once);
    assert_int_equal(calls[1].ended, ZLINK_CAPACITY_EXCEEDED);
    zlink_wait_complete(&calls[0].wait, ZLINK_OK);
    zlink_test_wait(&calls[0].ended_once);
    execute(&calls[2]);
    zlink_test_wait(&calls[2].submitted);
    zlink_wait_complete(&calls[2].wait, ZLINK_OK);
    zlink_test_wait(&calls[2].ended_once);
    spot_close(&spot);
    assert_string_equal(spot.notes, "abAcC");
}

static zlink_status_t abandons(zlink_turn_t *turn)
{
    call_t *call = call_of(turn);
    zlink_wait_t second;

    for (int i = 0; i < 10; i++) {
        zlink_check(zlink_turn_prepare_wait(turn, &call->wait, ZLINK_WAIT_YIELD, NULL, NULL) == ZLINK_OK);
        zlink_check(zlink_turn_prepare_wait(turn, &second, ZLINK_WAIT_YIELD, NULL, NULL) == ZLINK_INVALID_OPERATION);
        zlink_turn_abandon_wait(turn, &call->wait);
    }
    return ZLINK_OK;
}

/* A submission that failed gives everything back. */
static void test_an_abandoned_wait_gives_its_stack_back(void **state)
{
    spot_t spot;
    call_t call;

    (void)state;
    spot_open(&spot, 1, 2);
    make(&call, &spot, 'c', ZLINK_WAIT_YIELD, abandons);
    execute(&call);
    zlink_test_wait(&call.ended_once);
    assert_int_equal(call.ended, ZLINK_OK);
    spot_close(&spot);
}

/* ---- continuations ---- */

static zlink_status_t second_part(zlink_turn_t *turn, zlink_status_t status, void *context)
{
    call_t *call = context;

    zlink_check(zlink_turn_current() == turn && call_of(turn) == call);
    note(call->spot, '2');
    call->got = status;
    return status;
}

static zlink_status_t first_part(zlink_turn_t *turn, zlink_status_t status, void *context)
{
    call_t *call = context;

    zlink_check(status == ZLINK_OK && zlink_turn_current() == turn);
    note(call->spot, '1');
    call->prepared = zlink_turn_prepare_wait(turn, &call->wait, call->mode, second_part, call);
    sem_post(&call->submitted);
    return call->prepared;
}

static zlink_status_t then_handler(zlink_turn_t *turn)
{
    call_t *call = call_of(turn);

    note(call->spot, call->letter);
    call->prepared = zlink_turn_prepare_wait(turn, &call->wait, call->mode, first_part, call);
    sem_post(&call->submitted);
    return call->complete_at_once ? ZLINK_REJECTED : call->prepared;
}

/* The continuation form, in both modes: one after the other, and no stack is used. */
static void test_ex21_continuations_run_on_the_turn(void **state)
{
    spot_t spot;
    call_t call;
    call_t other;
    zlink_worker_pool_stats_t stats;

    (void)state;
    spot_open(&spot, 1, 1);
    for (int mode = ZLINK_WAIT_ASYNC; mode <= ZLINK_WAIT_YIELD; mode++) {
        make(&call, &spot, 'c', (zlink_wait_mode_t)mode, then_handler);
        make(&other, &spot, 'o', ZLINK_WAIT_YIELD, short_handler);
        execute(&call);
        zlink_test_wait(&call.submitted);
        execute(&other);
        if (mode == ZLINK_WAIT_YIELD)
            zlink_test_wait(&other.ended_once);
        zlink_wait_complete(&call.wait, ZLINK_OK);
        zlink_test_wait(&call.submitted);
        zlink_wait_complete(&call.wait, ZLINK_DATA_LOST);
        zlink_test_wait(&call.ended_once);
        assert_int_equal(call.ended, ZLINK_DATA_LOST);
        if (mode == ZLINK_WAIT_ASYNC)
            zlink_test_wait(&other.ended_once);
    }
    zlink_worker_pool_stats(spot.fixture.pool, &stats);
    assert_int_equal(stats.stacks_high_water, 1);
    spot_close(&spot);
    assert_string_equal(spot.notes, "c12oco12");
}

static zlink_wait_t *target;

/* Completes another handler's wait from its own turn. */
static zlink_status_t completing_handler(zlink_turn_t *turn)
{
    call_t *call = call_of(turn);

    note(call->spot, '<');
    zlink_wait_complete(target, ZLINK_OK);
    note(call->spot, '>');
    return ZLINK_OK;
}

/* EX-51: whoever completes a wait never runs what follows it: not a thread outside, nor a turn on the same worker. */
static void test_ex51_what_follows_runs_in_a_turn_of_its_own(void **state)
{
    spot_t spot;
    call_t call;
    call_t other;

    (void)state;
    spot_open(&spot, 1, 1);
    make(&call, &spot, 'c', ZLINK_WAIT_YIELD, then_handler);
    make(&other, &spot, 'o', ZLINK_WAIT_YIELD, completing_handler);
    execute(&call);
    zlink_test_wait(&call.submitted);
    target = &call.wait;
    execute(&other);
    zlink_test_wait(&other.ended_once);
    zlink_test_wait(&call.submitted); /* the first part has run, and checked that it is on a turn */
    assert_null(zlink_turn_current());
    zlink_wait_complete(&call.wait, ZLINK_OK); /* from here: the second part runs on a worker */
    zlink_test_wait(&call.ended_once);
    spot_close(&spot);
    assert_string_equal(spot.notes, "c<>12");
}

/* A handler that prepared a continuation and then failed ends only when the call has ended, without the continuation.
 */
static void test_a_failed_handler_waits_for_its_open_continuation(void **state)
{
    spot_t spot;
    call_t call;

    (void)state;
    spot_open(&spot, 1, 0);
    make(&call, &spot, 'c', ZLINK_WAIT_YIELD, then_handler);
    call.complete_at_once = true; /* here: fails */
    execute(&call);
    zlink_test_wait(&call.submitted);
    zlink_spot_serial_executor_close(&spot.executor, executor_closed); /* runs what was accepted */
    assert_int_not_equal(sem_trywait(&call.ended_once), 0);
    zlink_wait_complete(&call.wait, ZLINK_OK);
    zlink_test_wait(&call.ended_once);
    zlink_test_wait(&spot.closed);
    zlink_exec_fixture_close(&spot.fixture);
    assert_int_equal(call.ended, ZLINK_REJECTED);
    assert_string_equal(spot.notes, "c");
}

/* A closed owner's handlers may not begin to wait. */
static void test_a_sealed_owner_refuses_to_wait(void **state)
{
    spot_t spot;
    call_t waiting;
    call_t late;

    (void)state;
    spot_open(&spot, 1, 0);
    make(&waiting, &spot, 'w', ZLINK_WAIT_ASYNC, handler);
    make(&late, &spot, 'l', ZLINK_WAIT_YIELD, handler);
    execute(&waiting);
    zlink_test_wait(&waiting.submitted);
    execute(&late);
    zlink_spot_serial_executor_close(&spot.executor, executor_closed);
    zlink_wait_complete(&waiting.wait, ZLINK_OK);
    zlink_test_wait(&spot.closed);
    zlink_exec_fixture_close(&spot.fixture);
    assert_int_equal(waiting.ended, ZLINK_OK);
    assert_int_equal(late.ended, ZLINK_SHUTTING_DOWN);
}

/* ---- many ---- */

#define STORM_SPOTS 6
#define STORM_CALLS 300
#define STORM_WAITS 4

typedef struct storm_spot {
    zlink_spot_serial_executor_t executor;
    _Atomic int inside;
    unsigned counter; /* plain: its own turns only */
    sem_t closed;
} storm_spot_t;

typedef struct storm_call {
    zlink_turn_t turn;
    storm_spot_t *spot;
    unsigned number;
    zlink_wait_t *open; /* handed to the completer */
    struct storm_call *next;
} storm_call_t;

static storm_spot_t storm_spots[STORM_SPOTS];
static storm_call_t storm_calls[STORM_SPOTS][STORM_CALLS];
static _Atomic(storm_call_t *) to_complete;
static _Atomic bool completer_stops;
static _Atomic unsigned storm_ended;
static sem_t storm_all_ended;

static void submit(storm_call_t *call, zlink_wait_t *wait)
{
    call->open = wait;
    call->next = atomic_load(&to_complete);
    while (!atomic_compare_exchange_weak(&to_complete, &call->next, call))
        ;
}

static void *complete_all(void *unused)
{
    (void)unused;
    while (!atomic_load(&completer_stops)) {
        storm_call_t *call = atomic_exchange(&to_complete, NULL);
        if (!call)
            sched_yield();
        while (call) {
            storm_call_t *next = call->next;
            zlink_wait_complete(call->open, ZLINK_OK);
            call = next;
        }
    }
    return NULL;
}

static zlink_status_t storm_continuation(zlink_turn_t *turn, zlink_status_t status, void *context)
{
    storm_call_t *call = context;

    (void)turn;
    zlink_check(status == ZLINK_OK);
    call->spot->counter++;
    return ZLINK_OK;
}

static zlink_status_t storm_handler(zlink_turn_t *turn)
{
    storm_call_t *call = ZLINK_CONTAINER_OF(turn, storm_call_t, turn);
    zlink_wait_t wait;

    for (unsigned i = 0; i < STORM_WAITS; i++) {
        zlink_wait_mode_t mode = (call->number + i) % 3 == 0 ? ZLINK_WAIT_ASYNC : ZLINK_WAIT_YIELD;
        unsigned before = call->spot->counter++;
        zlink_check(zlink_turn_prepare_wait(turn, &wait, mode, NULL, NULL) == ZLINK_OK);
        submit(call, &wait);
        zlink_check(zlink_turn_wait(turn, &wait) == ZLINK_OK);
        zlink_check(atomic_fetch_add(&call->spot->inside, 1) == 0);
        if (mode == ZLINK_WAIT_ASYNC)
            zlink_check(call->spot->counter == before + 1);
        atomic_fetch_sub(&call->spot->inside, 1);
    }
    static zlink_wait_t waits[STORM_SPOTS][STORM_CALLS];
    zlink_wait_t *last = &waits[call->spot - storm_spots][call->number];
    zlink_check(zlink_turn_prepare_wait(turn, last, call->number % 2 ? ZLINK_WAIT_ASYNC : ZLINK_WAIT_YIELD,
                                        storm_continuation, call) == ZLINK_OK);
    submit(call, last);
    return ZLINK_OK;
}

static void storm_call_ended(zlink_turn_t *turn, zlink_status_t status)
{
    (void)turn;
    zlink_check(status == ZLINK_OK);
    if (atomic_fetch_add(&storm_ended, 1) + 1 == STORM_SPOTS * STORM_CALLS)
        sem_post(&storm_all_ended);
}

static void storm_closed(zlink_spot_serial_executor_t *executor)
{
    sem_post(&ZLINK_CONTAINER_OF(executor, storm_spot_t, executor)->closed);
}

/* EX-19, EX-104: many handlers that read, wait and write, completed by another thread: nothing is lost or overlaps. */
static void test_ex19_many_waits_lose_no_update(void **state)
{
    zlink_exec_fixture_t fixture;
    pthread_t completer;

    (void)state;
    zlink_exec_fixture_open(&fixture, 2, 1024);
    sem_init(&storm_all_ended, 0, 0);
    assert_int_equal(pthread_create(&completer, NULL, complete_all, NULL), 0);
    for (unsigned s = 0; s < STORM_SPOTS; s++) {
        sem_init(&storm_spots[s].closed, 0, 0);
        assert_int_equal(zlink_spot_serial_executor_init(&storm_spots[s].executor, fixture.pool, &fixture.policy,
                                                         ZLINK_EXECUTION_INSTANCE),
                         ZLINK_OK);
    }
    for (unsigned i = 0; i < STORM_CALLS; i++) {
        for (unsigned s = 0; s < STORM_SPOTS; s++) {
            storm_call_t *call = &storm_calls[s][i];
            zlink_turn_init(&call->turn, storm_handler, storm_call_ended);
            call->spot = &storm_spots[s];
            call->number = i;
            while (atomic_load(&storm_ended) + 100 < i * STORM_SPOTS)
                sched_yield(); /* no more than the stacks there are */
            assert_int_equal(zlink_spot_serial_executor_execute_spot(&storm_spots[s].executor, &call->turn, 0),
                             ZLINK_OK);
        }
    }
    zlink_test_wait(&storm_all_ended);
    for (unsigned s = 0; s < STORM_SPOTS; s++) {
        zlink_spot_serial_executor_close(&storm_spots[s].executor, storm_closed);
        zlink_test_wait(&storm_spots[s].closed);
        assert_int_equal(storm_spots[s].counter, STORM_CALLS * (STORM_WAITS + 1));
    }
    atomic_store(&completer_stops, true);
    pthread_join(completer, NULL);
    zlink_exec_fixture_close(&fixture);
}

/* ---- timers ---- */

typedef struct timed {
    call_t call;
    zlink_timer_t timer;
} timed_t;

static void time_is_over(zlink_timer_t *timer)
{
    timed_t *timed = ZLINK_CONTAINER_OF(timer, timed_t, timer);
    zlink_check(zlink_worker_current() && !zlink_turn_current());
    zlink_wait_complete(&timed->call.wait, ZLINK_DEADLINE_EXCEEDED);
}

static zlink_status_t timed_handler(zlink_turn_t *turn)
{
    call_t *call = call_of(turn);
    timed_t *timed = ZLINK_CONTAINER_OF(call, timed_t, call);

    call->prepared = zlink_turn_prepare_wait(turn, &call->wait, call->mode, NULL, NULL);
    timed->timer.fire = time_is_over;
    zlink_worker_timer_start(turn->worker, &timed->timer, 1000 + 50);
    sem_post(&call->submitted);
    return zlink_turn_wait(turn, &call->wait);
}

/* EX-36, EX-32: while a handler waits its timeout fires, and the gate is free afterwards. */
static void test_ex36_a_timeout_ends_a_wait(void **state)
{
    spot_t spot;
    timed_t timed = {0};
    call_t after;

    (void)state;
    spot_open(&spot, 1, 0);
    make(&timed.call, &spot, 't', ZLINK_WAIT_ASYNC, timed_handler);
    make(&after, &spot, 'a', ZLINK_WAIT_YIELD, short_handler);
    execute(&timed.call);
    zlink_test_wait(&timed.call.submitted);
    zlink_exec_fixture_advance(&spot.fixture, 49);
    assert_int_not_equal(sem_trywait(&timed.call.ended_once), 0);
    zlink_exec_fixture_advance(&spot.fixture, 1);
    zlink_test_wait(&timed.call.ended_once);
    assert_int_equal(timed.call.ended, ZLINK_DEADLINE_EXCEEDED);
    execute(&after);
    zlink_test_wait(&after.ended_once);
    spot_close(&spot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex21_yield_lets_others_run_and_resumes_at_the_back),
        cmocka_unit_test(test_ex18_async_keeps_the_gate),
        cmocka_unit_test(test_ex21_a_completed_wait_returns_at_once),
        cmocka_unit_test(test_ex23_ineligible_yield_is_invalid_operation),
        cmocka_unit_test(test_stacks_are_bounded),
        cmocka_unit_test(test_an_abandoned_wait_gives_its_stack_back),
        cmocka_unit_test(test_ex21_continuations_run_on_the_turn),
        cmocka_unit_test(test_ex51_what_follows_runs_in_a_turn_of_its_own),
        cmocka_unit_test(test_a_failed_handler_waits_for_its_open_continuation),
        cmocka_unit_test(test_a_sealed_owner_refuses_to_wait),
        cmocka_unit_test(test_ex19_many_waits_lose_no_update),
        cmocka_unit_test(test_ex36_a_timeout_ends_a_wait),
    };

    return zlink_test_main(tests);
}
