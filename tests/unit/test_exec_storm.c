/*
 * The whole of exec at once: very many handlers that wait, and owners that are closed under the hands of those who
 * submit to them. What counts are sums: everything that was accepted ended, once, and nothing else did.
 */
#include "exec_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/container_of.h"
#include "exec/coroutine.h"
#include "exec/lane_word.h"
#include "exec/spot_serial_executor.h"

/* ---- very many that wait ---- */

#if defined(ZLINK_TSAN)
#define WAITING 800u /* of 1,024 stacks */
#elif defined(ZLINK_ASAN)
#define WAITING 2000u
#else
#define WAITING 20000u
#endif
#define WAITING_SPOTS 20u

typedef struct waiting {
    zlink_turn_t turn;
    zlink_wait_t wait;
    unsigned number;
    unsigned runs;
} waiting_t;

typedef struct crowd {
    zlink_spot_serial_executor_t spots[WAITING_SPOTS];
    waiting_t *handlers;
    _Atomic unsigned submitted;
    _Atomic unsigned ended;
    _Atomic unsigned closed;
    sem_t all_ended;
    sem_t all_closed;
} crowd_t;

static crowd_t crowd;

/* What a handler does before it waits may be deep: its pages must not stay. */
static unsigned __attribute__((noinline)) use_stack(unsigned bytes)
{
    volatile unsigned char frame[1024];

    memset((void *)(uintptr_t)frame, (int)bytes, sizeof(frame));
    return bytes > sizeof(frame) ? use_stack(bytes - (unsigned)sizeof(frame)) + frame[3] : frame[0];
}

static zlink_status_t waits(zlink_turn_t *turn)
{
    waiting_t *waiting = ZLINK_CONTAINER_OF(turn, waiting_t, turn);

    waiting->runs++;
    if (waiting->number % 16 == 0)
        (void)use_stack(20000);
    zlink_check(zlink_turn_prepare_wait(turn, &waiting->wait, ZLINK_WAIT_YIELD, NULL, NULL) == ZLINK_OK);
    atomic_fetch_add(&crowd.submitted, 1);
    zlink_status_t status = zlink_turn_wait(turn, &waiting->wait);
    waiting->runs++;
    return status;
}

static void waiting_ended(zlink_turn_t *turn, zlink_status_t status)
{
    waiting_t *waiting = ZLINK_CONTAINER_OF(turn, waiting_t, turn);

    zlink_check(waiting->runs == 2 && status == (waiting->number % 2 ? ZLINK_OK : ZLINK_NOT_FOUND));
    if (atomic_fetch_add(&crowd.ended, 1) + 1 == WAITING)
        sem_post(&crowd.all_ended);
}

static void crowd_closed(zlink_spot_serial_executor_t *executor)
{
    (void)executor;
    if (atomic_fetch_add(&crowd.closed, 1) + 1 == WAITING_SPOTS)
        sem_post(&crowd.all_closed);
}

#if !defined(ZLINK_ASAN) && !defined(ZLINK_TSAN)
/* At most three pages of a parked handler's stack are resident. */
static void expect_small(const waiting_t *waiting, size_t page_bytes)
{
    unsigned char pages[64];
    const zlink_coroutine_t *stack = waiting->turn.parked;
    unsigned resident = 0;

    assert_non_null(stack);
    size_t bytes = (stack->bytes + page_bytes - 1) / page_bytes * page_bytes; /* with the descriptor above it */
    size_t count = bytes / page_bytes;
    assert_true(count <= sizeof(pages));
    assert_int_equal(mincore(stack->bottom, bytes, pages), 0);
    for (size_t i = 0; i < count; i++)
        resident += pages[i] & 1;
    assert_true(resident <= 3);
}
#endif

static void expect_all_parked(zlink_exec_fixture_t *fixture)
{
    zlink_worker_pool_stats_t stats;

    do { /* progress, not speed: each of them will park */
        sched_yield();
        zlink_worker_pool_stats(fixture->pool, &stats);
    } while (stats.suspensions < WAITING);
    assert_int_equal(stats.suspensions, WAITING);
    assert_int_equal(stats.stacks_live, WAITING + stats.workers);
    assert_int_equal(stats.items, WAITING);
#if !defined(ZLINK_ASAN) && !defined(ZLINK_TSAN)
    for (unsigned i = 0; i < WAITING; i++)
        expect_small(&crowd.handlers[i], (size_t)sysconf(_SC_PAGESIZE));
#endif
}

/* 20,000 handlers wait at once (fewer under sanitizers) on two threads, and every one of them ends. */
static void test_very_many_waiting_handlers_complete(void **state)
{
    zlink_exec_fixture_t fixture;
    zlink_worker_pool_stats_t stats;

    (void)state;
    zlink_exec_fixture_open(&fixture, 2, 0);
    zlink_worker_pool_stats(fixture.pool, &stats);
    assert_true(stats.stacks_max >= WAITING + stats.workers);
    crowd.handlers = calloc(WAITING, sizeof(*crowd.handlers));
    assert_non_null(crowd.handlers);
    sem_init(&crowd.all_ended, 0, 0);
    sem_init(&crowd.all_closed, 0, 0);
    for (unsigned s = 0; s < WAITING_SPOTS; s++)
        assert_int_equal(
            zlink_spot_serial_executor_init(&crowd.spots[s], fixture.pool, &fixture.policy, ZLINK_EXECUTION_INSTANCE),
            ZLINK_OK);
    for (unsigned i = 0; i < WAITING; i++) {
        waiting_t *waiting = &crowd.handlers[i];
        zlink_turn_init(&waiting->turn, waits, waiting_ended);
        waiting->number = i;
        assert_int_equal(zlink_spot_serial_executor_execute_spot(&crowd.spots[i % WAITING_SPOTS], &waiting->turn, 0),
                         ZLINK_OK);
    }
    expect_all_parked(&fixture);
    assert_int_equal(atomic_load(&crowd.submitted), WAITING);
    assert_int_equal(atomic_load(&crowd.ended), 0);
    for (unsigned i = 0; i < WAITING; i++) {
        waiting_t *waiting = &crowd.handlers[(i * 7919ull) % WAITING]; /* a prime: each once, in no order */
        zlink_wait_complete(&waiting->wait, waiting->number % 2 ? ZLINK_OK : ZLINK_NOT_FOUND);
    }
    zlink_test_wait(&crowd.all_ended);
    for (unsigned s = 0; s < WAITING_SPOTS; s++)
        zlink_spot_serial_executor_close(&crowd.spots[s], crowd_closed);
    zlink_test_wait(&crowd.all_closed);
    zlink_worker_pool_stats(fixture.pool, &stats);
    assert_int_equal(stats.stacks_live, stats.workers);
    assert_int_equal(stats.stacks_high_water, WAITING + stats.workers);
    assert_int_equal(stats.items, 2 * WAITING);
    zlink_exec_fixture_close(&fixture);
    free(crowd.handlers);
}

/* ---- the storm ---- */

#define PRODUCERS    3u
#define SPOTS        8u
#define PER_PRODUCER 3000u
#define ROUNDS       4u

typedef struct storm_spot {
    zlink_spot_serial_executor_t executor;
    _Atomic int inside;
    unsigned plain; /* its turns only */
    _Atomic unsigned accepted;
    _Atomic unsigned ended;
    _Atomic unsigned closed;
} storm_spot_t;

typedef struct storm_call {
    zlink_turn_t turn;
    zlink_wait_t wait;
    zlink_work_item_t barrier;
    storm_spot_t *spot;
    unsigned kind;
    _Atomic unsigned ended;
    struct storm_call *next;
} storm_call_t;

typedef struct storm {
    storm_spot_t spots[SPOTS];
    storm_call_t calls[PRODUCERS][PER_PRODUCER];
    _Atomic(storm_call_t *) to_complete;
    _Atomic bool completer_stops;
    _Atomic unsigned barriers;
    _Atomic unsigned refused;
    _Atomic unsigned spots_closed;
    sem_t all_closed;
} storm_t;

static storm_t storm;

static void hand_over(storm_call_t *call)
{
    call->next = atomic_load(&storm.to_complete);
    while (!atomic_compare_exchange_weak(&storm.to_complete, &call->next, call))
        ;
}

static void *complete_all(void *unused)
{
    (void)unused;
    while (!atomic_load(&storm.completer_stops)) {
        storm_call_t *call = atomic_exchange(&storm.to_complete, NULL);
        if (!call)
            sched_yield();
        while (call) {
            storm_call_t *next = call->next;
            zlink_wait_complete(&call->wait, ZLINK_OK);
            call = next;
        }
    }
    return NULL;
}

static void enter(storm_spot_t *spot)
{
    zlink_check(atomic_fetch_add(&spot->inside, 1) == 0);
    zlink_check(zlink_spot_serial_executor_is_current(&spot->executor));
    spot->plain++;
    atomic_fetch_sub(&spot->inside, 1);
}

static zlink_work_result_t run_barrier(zlink_work_item_t *item, zlink_worker_t *worker)
{
    (void)worker;
    enter(ZLINK_CONTAINER_OF(item, storm_call_t, barrier)->spot);
    return ZLINK_WORK_DONE;
}

static zlink_status_t storm_continuation(zlink_turn_t *turn, zlink_status_t status, void *context)
{
    (void)turn;
    enter(((storm_call_t *)context)->spot);
    return status;
}

/* Kinds: 0 to 3 only run, 4 yields, 5 keeps the gate, 6 and 7 the same with a continuation, 8 brings a barrier. */
static zlink_status_t storm_handler(zlink_turn_t *turn)
{
    storm_call_t *call = ZLINK_CONTAINER_OF(turn, storm_call_t, turn);
    bool continued = call->kind >= 6;

    enter(call->spot);
    if (call->kind == 8) {
        call->barrier.run = run_barrier;
        if (zlink_serial_execution_queue_enqueue_barrier_next(turn->queue, &call->barrier) == ZLINK_OK)
            atomic_fetch_add(&storm.barriers, 1);
        return ZLINK_OK;
    }
    if (call->kind < 4)
        return ZLINK_OK;
    zlink_status_t status =
        zlink_turn_prepare_wait(turn, &call->wait, call->kind % 2 ? ZLINK_WAIT_ASYNC : ZLINK_WAIT_YIELD,
                                continued ? storm_continuation : NULL, call);
    if (status != ZLINK_OK)
        return status;
    hand_over(call);
    if (continued)
        return ZLINK_OK;
    status = zlink_turn_wait(turn, &call->wait);
    enter(call->spot);
    return status;
}

static void storm_ended(zlink_turn_t *turn, zlink_status_t status)
{
    storm_call_t *call = ZLINK_CONTAINER_OF(turn, storm_call_t, turn);

    zlink_check(status == ZLINK_OK || status == ZLINK_SHUTTING_DOWN);
    zlink_check(atomic_fetch_add(&call->ended, 1) == 0);
    atomic_fetch_add(&call->spot->ended, 1);
}

static void storm_closed(zlink_spot_serial_executor_t *executor)
{
    storm_spot_t *spot = ZLINK_CONTAINER_OF(executor, storm_spot_t, executor);

    zlink_check(atomic_fetch_add(&spot->closed, 1) == 0);
    if (atomic_fetch_add(&storm.spots_closed, 1) + 1 == SPOTS)
        sem_post(&storm.all_closed);
}

/* Submits everything; somewhere on the way it closes some of the Spots that all of them submit to. */
static void *produce(void *argument)
{
    storm_call_t *calls = argument;
    unsigned producer = (unsigned)((calls - &storm.calls[0][0]) / PER_PRODUCER);

    for (unsigned i = 0; i < PER_PRODUCER; i++) {
        storm_call_t *call = &calls[i];
        call->spot = &storm.spots[(i * 5 + producer) % SPOTS];
        call->kind = (i + producer) % 9;
        zlink_turn_init(&call->turn, storm_handler, storm_ended);
        bool lifecycle = i % 32 == 0;
        if (lifecycle)
            call->kind = 0;
        zlink_status_t status;
        while ((status = lifecycle ? zlink_spot_serial_executor_execute_lifecycle(&call->spot->executor, &call->turn)
                                   : zlink_spot_serial_executor_execute_spot(&call->spot->executor, &call->turn, i)) ==
               ZLINK_CAPACITY_EXCEEDED)
            sched_yield();
        if (status == ZLINK_OK)
            atomic_fetch_add(&call->spot->accepted, 1);
        else
            atomic_fetch_add(&storm.refused, 1);
        zlink_check(status == ZLINK_OK || status == ZLINK_SHUTTING_DOWN);
        for (unsigned s = 0; s < SPOTS; s++) /* from the middle on, each by two of them */
            if (i == PER_PRODUCER / 2 + s * PER_PRODUCER / 20 && (s + producer) % PRODUCERS != 0)
                zlink_spot_serial_executor_close(&storm.spots[s].executor, storm_closed);
    }
    return NULL;
}

static void expect_exact_sums(const zlink_worker_pool_stats_t *stats)
{
    unsigned accepted = 0;

    for (unsigned s = 0; s < SPOTS; s++) {
        storm_spot_t *spot = &storm.spots[s];
        assert_int_equal(atomic_load(&spot->closed), 1);
        assert_int_equal(atomic_load(&spot->ended), atomic_load(&spot->accepted));
        assert_int_equal(atomic_load(&spot->inside), 0);
        uint64_t application = zlink_lane_word_counters(&spot->executor.queue.application);
        uint64_t lifecycle = zlink_lane_word_counters(&spot->executor.queue.lifecycle);
        assert_int_equal(zlink_lane_word_items(application) + zlink_lane_word_items(lifecycle), 0);
        assert_int_equal((application & ZLINK_COUNTER_BYTES) + (lifecycle & ZLINK_COUNTER_BYTES), 0);
        accepted += atomic_load(&spot->accepted);
    }
    assert_int_equal(accepted + atomic_load(&storm.refused), PRODUCERS * PER_PRODUCER);
    assert_true(atomic_load(&storm.refused) > 0);
    /* Each item ran once, and once more for each wait that parked. */
    assert_int_equal(stats->items, accepted + atomic_load(&storm.barriers) + stats->suspensions);
    assert_int_equal(stats->stacks_live, stats->workers);
}

/* EX-92, EX-95, EX-104: many submit to owners that are closed meanwhile, with handlers that wait in all four ways and
 * workers that steal: what was accepted ends exactly once, one at a time, and every reservation comes back. */
static void test_ex92_ex95_a_storm_with_closes_loses_nothing(void **state)
{
    pthread_t completer;
    pthread_t threads[PRODUCERS];

    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        zlink_exec_fixture_t fixture;
        zlink_worker_pool_stats_t stats;
        memset(&storm, 0, sizeof(storm));
        sem_init(&storm.all_closed, 0, 0);
        zlink_exec_fixture_open(&fixture, 2 + round % 2, 600);
        fixture.policy.application_message_capacity = 32; /* refusals, and fewer that wait than stacks */
        fixture.policy.lifecycle_message_capacity = 4;
        for (unsigned s = 0; s < SPOTS; s++)
            assert_int_equal(zlink_spot_serial_executor_init(&storm.spots[s].executor, fixture.pool, &fixture.policy,
                                                             ZLINK_EXECUTION_INSTANCE),
                             ZLINK_OK);
        assert_int_equal(pthread_create(&completer, NULL, complete_all, NULL), 0);
        for (unsigned p = 0; p < PRODUCERS; p++)
            assert_int_equal(pthread_create(&threads[p], NULL, produce, storm.calls[p]), 0);
        for (unsigned p = 0; p < PRODUCERS; p++)
            pthread_join(threads[p], NULL);
        zlink_test_wait(&storm.all_closed);
        atomic_store(&storm.completer_stops, true);
        pthread_join(completer, NULL);
        zlink_worker_pool_stats(fixture.pool, &stats);
        zlink_exec_fixture_close(&fixture);
        expect_exact_sums(&stats);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_very_many_waiting_handlers_complete),
        cmocka_unit_test(test_ex92_ex95_a_storm_with_closes_loses_nothing),
    };

    return zlink_test_main(tests);
}
