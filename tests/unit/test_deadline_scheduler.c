#include "exec_probe.h"

#include <pthread.h>
#include <sched.h>

#include "base/container_of.h"
#include "exec/deadline_scheduler.h"
#include "exec/turn.h"

/* ---- by itself, on a clock that stands still ---- */

typedef struct wheel {
    zlink_deadline_scheduler_t scheduler;
    zlink_clock_t clock;
    uint64_t now_ms;
    unsigned sooner;
} wheel_t;

typedef struct mark mark_t;
struct mark {
    zlink_deadline_t deadline;
    wheel_t *wheel;
    uint64_t due_ms;
    unsigned expired;
    mark_t *cancels; /* from its call */
    bool cancelled;
    bool again; /* starts itself from its call */
};

static uint64_t wheel_now(void *context)
{
    const wheel_t *wheel = context;
    return wheel->now_ms * ZLINK_NS_PER_MS;
}

static void count_sooner(void *context)
{
    wheel_t *wheel = context;

    assert_true(pthread_mutex_trylock(&wheel->scheduler.lock) == 0); /* nobody is told under the lock */
    pthread_mutex_unlock(&wheel->scheduler.lock);
    wheel->sooner++;
}

static void wheel_open(wheel_t *wheel)
{
    memset(wheel, 0, sizeof(*wheel));
    wheel->now_ms = 5000;
    wheel->clock = (zlink_clock_t){wheel_now, wheel};
    zlink_deadline_scheduler_init(&wheel->scheduler, &wheel->clock, count_sooner, wheel);
}

static void run_until(wheel_t *wheel, uint64_t now_ms)
{
    wheel->now_ms = now_ms;
    zlink_deadline_scheduler_run(&wheel->scheduler, now_ms);
}

static void mark_expired(zlink_deadline_t *deadline, uint64_t now_ms)
{
    mark_t *mark = ZLINK_CONTAINER_OF(deadline, mark_t, deadline);

    assert_true(now_ms >= mark->due_ms);
    assert_true(pthread_mutex_trylock(&mark->wheel->scheduler.lock) == 0);
    pthread_mutex_unlock(&mark->wheel->scheduler.lock);
    mark->expired++;
    if (mark->cancels)
        mark->cancelled = zlink_deadline_cancel(&mark->wheel->scheduler, &mark->cancels->deadline);
    if (mark->again)
        assert_false(zlink_deadline_start(&mark->wheel->scheduler, deadline, mark->due_ms));
}

static bool start_mark(mark_t *mark, wheel_t *wheel, uint64_t due_ms)
{
    mark->deadline.expired = mark_expired;
    mark->wheel = wheel;
    mark->due_ms = due_ms;
    return zlink_deadline_start(&wheel->scheduler, &mark->deadline, due_ms);
}

/* Nothing comes early, the published time is never late, and only an earlier deadline wakes anybody. */
static void test_deadlines_come_in_time(void **state)
{
    wheel_t wheel;
    mark_t marks[4];

    (void)state;
    wheel_open(&wheel);
    memset(marks, 0, sizeof(marks));
    assert_int_equal(zlink_deadline_scheduler_next_ms(&wheel.scheduler), UINT64_MAX);
    assert_false(start_mark(&marks[0], &wheel, 5050));
    assert_int_equal(wheel.sooner, 1);
    assert_false(start_mark(&marks[1], &wheel, 5050));
    assert_false(start_mark(&marks[2], &wheel, 5060));
    assert_int_equal(wheel.sooner, 1);
    assert_false(start_mark(&marks[3], &wheel, 5020));
    assert_int_equal(wheel.sooner, 2);
    assert_int_equal(zlink_deadline_scheduler_next_ms(&wheel.scheduler), 5020);
    run_until(&wheel, 5019);
    assert_int_equal(marks[3].expired, 0);
    run_until(&wheel, 5020);
    assert_int_equal(marks[3].expired, 1);
    assert_int_equal(zlink_deadline_scheduler_next_ms(&wheel.scheduler), 5050);
    run_until(&wheel, 5055);
    assert_int_equal(marks[0].expired + marks[1].expired, 2);
    assert_int_equal(marks[2].expired, 0);
    run_until(&wheel, 500000);
    assert_int_equal(marks[2].expired, 1);
    assert_int_equal(zlink_deadline_scheduler_next_ms(&wheel.scheduler), UINT64_MAX);
    zlink_deadline_scheduler_destroy(&wheel.scheduler);
}

/* A wheel that has stood still for long puts what starts now in its place: the sleeper is told the very time. */
static void test_a_deadline_after_a_long_rest_is_exact(void **state)
{
    wheel_t wheel;
    mark_t far;
    mark_t near;

    (void)state;
    wheel_open(&wheel);
    memset(&far, 0, sizeof(far));
    memset(&near, 0, sizeof(near));
    assert_false(start_mark(&far, &wheel, 90000000));
    wheel.now_ms = 200123;
    assert_false(start_mark(&near, &wheel, 200140));
    assert_int_equal(zlink_deadline_scheduler_next_ms(&wheel.scheduler), 200140);
    assert_true(zlink_deadline_cancel(&wheel.scheduler, &far.deadline));
    assert_true(zlink_deadline_cancel(&wheel.scheduler, &near.deadline));
    zlink_deadline_scheduler_destroy(&wheel.scheduler);
}

/* start and cancel say truly whether a call will come, in every place where a deadline can be. */
static void test_cancel_tells_whether_the_call_comes(void **state)
{
    enum { MANY = ZLINK_DEADLINE_BATCH + 2 };
    wheel_t wheel;
    mark_t marks[MANY];

    (void)state;
    wheel_open(&wheel);
    memset(marks, 0, sizeof(marks));
    assert_false(zlink_deadline_cancel(&wheel.scheduler, &marks[0].deadline));
    assert_false(start_mark(&marks[0], &wheel, 5001));
    assert_true(start_mark(&marks[0], &wheel, 5010)); /* moved */
    assert_true(zlink_deadline_cancel(&wheel.scheduler, &marks[0].deadline));
    assert_false(zlink_deadline_cancel(&wheel.scheduler, &marks[0].deadline));
    for (unsigned i = 0; i < MANY; i++)
        assert_false(start_mark(&marks[i], &wheel, 5010));
    run_until(&wheel, 5010); /* two are left for the next batch: expired, and not handed out */
    unsigned left = 0;
    for (unsigned i = 0; i < MANY; i++) {
        if (marks[i].expired)
            continue;
        assert_int_equal(zlink_deadline_scheduler_next_ms(&wheel.scheduler), 0);
        if (left++ == 0)
            assert_true(zlink_deadline_cancel(&wheel.scheduler, &marks[i].deadline));
        else
            assert_true(start_mark(&marks[i], &wheel, 6000));
    }
    assert_int_equal(left, 2);
    run_until(&wheel, 5999);
    run_until(&wheel, 6000);
    unsigned expired = 0;
    for (unsigned i = 0; i < MANY; i++)
        expired += marks[i].expired;
    assert_int_equal(expired, MANY - 1);
    zlink_deadline_scheduler_destroy(&wheel.scheduler);
}

/* Batches are bounded, and a call may start and cancel. */
static void test_batches_are_bounded_and_calls_may_use_it(void **state)
{
    enum { MANY = 3 * ZLINK_DEADLINE_BATCH };
    wheel_t wheel;
    mark_t marks[MANY];
    mark_t later;

    (void)state;
    wheel_open(&wheel);
    memset(marks, 0, sizeof(marks));
    memset(&later, 0, sizeof(later));
    assert_false(start_mark(&later, &wheel, 7000));
    for (unsigned i = 0; i < MANY; i++) {
        assert_false(start_mark(&marks[i], &wheel, 5010));
        marks[i].cancels = &later;
    }
    for (unsigned i = 1; i <= 3; i++) {
        unsigned expired = 0;
        run_until(&wheel, 5010);
        for (unsigned m = 0; m < MANY; m++)
            expired += marks[m].expired;
        assert_int_equal(expired, i * ZLINK_DEADLINE_BATCH);
    }
    unsigned cancelled = 0;
    for (unsigned m = 0; m < MANY; m++)
        cancelled += marks[m].cancelled;
    assert_int_equal(cancelled, 1);
    assert_int_equal(later.expired, 0);
    assert_int_equal(zlink_deadline_scheduler_next_ms(&wheel.scheduler), UINT64_MAX);
    assert_false(start_mark(&marks[0], &wheel, 5020));
    marks[0].again = true;
    run_until(&wheel, 5020);
    assert_int_equal(zlink_deadline_scheduler_next_ms(&wheel.scheduler), 5020); /* due at once */
    marks[0].again = false;
    run_until(&wheel, 5020);
    assert_int_equal(marks[0].expired, 3);
    assert_int_equal(zlink_deadline_scheduler_next_ms(&wheel.scheduler), UINT64_MAX);
    zlink_deadline_scheduler_destroy(&wheel.scheduler);
}

/* ---- in a pool, on the system's clock ---- */

typedef struct bell {
    zlink_deadline_t deadline;
    sem_t rung;
} bell_t;

static void ring(zlink_deadline_t *deadline, uint64_t now_ms)
{
    (void)now_ms;
    zlink_check(zlink_worker_current() != NULL);
    zlink_check(zlink_turn_current() == NULL);
    sem_post(&ZLINK_CONTAINER_OF(deadline, bell_t, deadline)->rung);
}

static void start_bell(bell_t *bell, zlink_worker_pool_t *pool, uint64_t delay_ms)
{
    zlink_deadline_scheduler_t *scheduler = zlink_worker_pool_deadlines(pool);

    memset(bell, 0, sizeof(*bell));
    sem_init(&bell->rung, 0, 0);
    bell->deadline.expired = ring;
    (void)zlink_deadline_start(scheduler, &bell->deadline, zlink_deadline_scheduler_now_ms(scheduler) + delay_ms);
}

#define WORKERS 3

/* EX-103: one free worker is enough, whoever kept the time before: all others stand in handlers for good, taken up
 * before or after the deadline was started. */
static void test_ex103_one_free_worker_keeps_the_time(void **state)
{
    zlink_worker_pool_options_t options = {.workers = WORKERS};
    zlink_execution_lane_policy_t policy = zlink_execution_lane_policy_default;

    (void)state;
    for (unsigned round = 0; round < 120; round++) {
        zlink_worker_pool_t *pool = NULL;
        zlink_refusal_t why = {{0}};
        bell_t bell;
        owner_t owners[WORKERS - 1];
        probe_t probes[WORKERS - 1];
        assert_int_equal(zlink_worker_pool_create(&options, &pool, &why), ZLINK_OK);
        for (unsigned i = 0; i < WORKERS - 1; i++) {
            zlink_serial_execution_queue_init(&owners[i].queue, pool, &policy);
            sem_init(&owners[i].closed, 0, 0);
            make_probe(&probes[i]);
            probes[i].stands = true;
        }
        for (unsigned i = 0; i <= WORKERS - 1; i++) {
            if (i == round % WORKERS)
                start_bell(&bell, pool, round % 7);
            if (i == WORKERS - 1)
                break;
            enqueue(&owners[i], &probes[i]);
            if (round & 1)
                zlink_test_wait(&probes[i].ran);
        }
        zlink_test_wait(&bell.rung);
        for (unsigned i = 0; i < WORKERS - 1; i++) {
            sem_post(&probes[i].let_go);
            owner_close(&owners[i]);
        }
        zlink_worker_pool_destroy(pool);
    }
}

/* ---- storm ---- */

#define STORM_THREADS   4
#define STORM_DEADLINES 64
#define STORM_STEPS     20000

typedef struct counted {
    zlink_deadline_t deadline;
    _Atomic int64_t expected; /* calls that must come, by what start and cancel said */
    _Atomic int64_t calls;
} counted_t;

typedef struct storm {
    zlink_deadline_scheduler_t *scheduler;
    counted_t *deadlines;
    pthread_mutex_t *locks; /* one start or cancel of a deadline at a time, as its owner's lock sees to */
    unsigned seed;
} storm_t;

static void count_call(zlink_deadline_t *deadline, uint64_t now_ms)
{
    (void)now_ms;
    atomic_fetch_add(&ZLINK_CONTAINER_OF(deadline, counted_t, deadline)->calls, 1);
}

static void *storm(void *argument)
{
    storm_t *storm = argument;
    unsigned random = storm->seed;

    for (unsigned i = 0; i < STORM_STEPS; i++) {
        random = random * 1103515245u + 12345u;
        unsigned index = (random >> 8) % STORM_DEADLINES;
        counted_t *counted = &storm->deadlines[index];
        pthread_mutex_lock(&storm->locks[index]);
        if (random >> 30 == 0) {
            if (zlink_deadline_cancel(storm->scheduler, &counted->deadline))
                atomic_fetch_sub(&counted->expected, 1);
        } else {
            uint64_t due_ms = zlink_deadline_scheduler_now_ms(storm->scheduler) + (random >> 20) % 5;
            if (!zlink_deadline_start(storm->scheduler, &counted->deadline, due_ms))
                atomic_fetch_add(&counted->expected, 1);
        }
        pthread_mutex_unlock(&storm->locks[index]);
    }
    return NULL;
}

/* Starts and cancels from many threads while workers hand out: exactly the calls that were promised come. */
static void test_a_storm_gets_the_calls_that_were_promised(void **state)
{
    zlink_worker_pool_options_t options = {.workers = 3};
    zlink_worker_pool_t *pool = NULL;
    zlink_refusal_t why = {{0}};
    static counted_t deadlines[STORM_DEADLINES];
    static pthread_mutex_t locks[STORM_DEADLINES];
    storm_t storms[STORM_THREADS];
    pthread_t threads[STORM_THREADS];

    (void)state;
    assert_int_equal(zlink_worker_pool_create(&options, &pool, &why), ZLINK_OK);
    zlink_deadline_scheduler_t *scheduler = zlink_worker_pool_deadlines(pool);
    for (unsigned i = 0; i < STORM_DEADLINES; i++) {
        deadlines[i].deadline.expired = count_call;
        pthread_mutex_init(&locks[i], NULL);
    }
    for (unsigned i = 0; i < STORM_THREADS; i++) {
        storms[i] = (storm_t){scheduler, deadlines, locks, i * 7919 + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, storm, &storms[i]), 0);
    }
    for (unsigned i = 0; i < STORM_THREADS; i++)
        pthread_join(threads[i], NULL);
    if (!zlink_deadline_start(scheduler, &deadlines[0].deadline, 0))
        atomic_fetch_add(&deadlines[0].expected, 1);
    while (atomic_load(&deadlines[0].calls) == 0)
        sched_yield(); /* the threads may have been done before any worker came */
    for (unsigned i = 0; i < STORM_DEADLINES; i++)
        if (zlink_deadline_cancel(scheduler, &deadlines[i].deadline))
            atomic_fetch_sub(&deadlines[i].expected, 1);
    zlink_worker_pool_destroy(pool); /* waits for the calls on their way */
    int64_t calls = 0;
    for (unsigned i = 0; i < STORM_DEADLINES; i++) {
        assert_int_equal(atomic_load(&deadlines[i].calls), atomic_load(&deadlines[i].expected));
        calls += atomic_load(&deadlines[i].calls);
    }
    assert_true(calls > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deadlines_come_in_time),
        cmocka_unit_test(test_a_deadline_after_a_long_rest_is_exact),
        cmocka_unit_test(test_cancel_tells_whether_the_call_comes),
        cmocka_unit_test(test_batches_are_bounded_and_calls_may_use_it),
        cmocka_unit_test(test_ex103_one_free_worker_keeps_the_time),
        cmocka_unit_test(test_a_storm_gets_the_calls_that_were_promised),
    };

    return zlink_test_main(tests);
}
