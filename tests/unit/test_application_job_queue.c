#include "exec_fixture.h"

#include <pthread.h>

#include "exec/application_job_queue.h"

static void count_call(void *context)
{
    unsigned *calls = context;
    (*calls)++;
}

/* As many permits as the limit, and each one back is one more. */
static void test_the_limit_holds(void **state)
{
    zlink_application_job_queue_t queue;

    (void)state;
    zlink_application_job_queue_init(&queue, 3);
    assert_int_equal(zlink_application_job_queue_limit(&queue), 3);
    assert_int_equal(zlink_application_job_queue_jobs(&queue), 0);
    for (uint32_t i = 1; i <= 3; i++) {
        assert_true(zlink_application_job_queue_take(&queue));
        assert_int_equal(zlink_application_job_queue_jobs(&queue), i);
    }
    for (int i = 0; i < 5; i++) {
        assert_false(zlink_application_job_queue_take(&queue));
        assert_int_equal(zlink_application_job_queue_jobs(&queue), 3); /* a refusal takes nothing */
    }
    zlink_application_job_queue_give_back(&queue);
    assert_int_equal(zlink_application_job_queue_jobs(&queue), 2);
    assert_true(zlink_application_job_queue_take(&queue));
    assert_false(zlink_application_job_queue_take(&queue));
}

/* The whole range of the limit; the bit that notes a refusal is not part of the count. */
static void test_the_largest_limit(void **state)
{
    zlink_application_job_queue_t queue;

    (void)state;
    zlink_application_job_queue_init(&queue, ZLINK_JOBS_MAX);
    assert_true(zlink_application_job_queue_take(&queue));
    assert_int_equal(zlink_application_job_queue_jobs(&queue), 1);
    zlink_application_job_queue_give_back(&queue);
    assert_int_equal(zlink_application_job_queue_jobs(&queue), 0);
}

/* One call for any number of refusals since the last one, at the first permit that comes back; none without refusal. */
static void test_one_call_per_round_of_refusals(void **state)
{
    zlink_application_job_queue_t queue;
    unsigned calls = 0;

    (void)state;
    zlink_application_job_queue_init(&queue, 2);
    zlink_application_job_queue_set_waiter(&queue, count_call, NULL, &calls);
    assert_true(zlink_application_job_queue_take(&queue));
    assert_true(zlink_application_job_queue_take(&queue));
    zlink_application_job_queue_give_back(&queue);
    assert_int_equal(calls, 0); /* nobody was refused */
    assert_true(zlink_application_job_queue_take(&queue));
    for (int i = 0; i < 3; i++)
        assert_false(zlink_application_job_queue_take(&queue));
    assert_int_equal(calls, 0); /* nothing is free yet */
    zlink_application_job_queue_give_back(&queue);
    assert_int_equal(calls, 1);
    zlink_application_job_queue_give_back(&queue);
    assert_int_equal(calls, 1); /* the round is over */
    assert_true(zlink_application_job_queue_take(&queue));
    assert_true(zlink_application_job_queue_take(&queue));
    assert_false(zlink_application_job_queue_take(&queue));
    zlink_application_job_queue_give_back(&queue);
    assert_int_equal(calls, 2); /* a new one */
    zlink_application_job_queue_give_back(&queue);
    assert_int_equal(zlink_application_job_queue_jobs(&queue), 0);
}

/* Without a waiter a refusal is just an answer. */
static void test_nobody_need_wait(void **state)
{
    zlink_application_job_queue_t queue;

    (void)state;
    zlink_application_job_queue_init(&queue, 1);
    assert_true(zlink_application_job_queue_take(&queue));
    assert_false(zlink_application_job_queue_take(&queue));
    zlink_application_job_queue_give_back(&queue);
    assert_true(zlink_application_job_queue_take(&queue));
    zlink_application_job_queue_give_back(&queue);
}

static void take_at_once(void *context)
{
    zlink_application_job_queue_t *queue = context;
    zlink_check(zlink_application_job_queue_take(queue));
}

/* The permit is free already when the waiter is told: it may take it inside the call. */
static void test_the_waiter_may_take_inside_its_call(void **state)
{
    zlink_application_job_queue_t queue;

    (void)state;
    zlink_application_job_queue_init(&queue, 1);
    zlink_application_job_queue_set_waiter(&queue, take_at_once, NULL, &queue);
    assert_true(zlink_application_job_queue_take(&queue));
    assert_false(zlink_application_job_queue_take(&queue));
    zlink_application_job_queue_give_back(&queue);
    assert_int_equal(zlink_application_job_queue_jobs(&queue), 1);
    zlink_application_job_queue_give_back(&queue); /* no refusal since: no call */
    assert_int_equal(zlink_application_job_queue_jobs(&queue), 0);
}

/* ---- many threads ---- */

#define TAKERS     4
#define LIMIT      2
#define PER_TAKER  20000
#define HOLD_EVERY 3

typedef struct crowd {
    zlink_application_job_queue_t queue;
    sem_t told[TAKERS];
    _Atomic uint32_t in_use;
    _Atomic uint64_t refusals;
    _Atomic uint64_t calls;
} crowd_t;

typedef struct taker {
    crowd_t *crowd;
    unsigned index;
    pthread_t thread;
} taker_t;

static void tell_all(void *context)
{
    crowd_t *crowd = context;

    atomic_fetch_add(&crowd->calls, 1);
    for (unsigned i = 0; i < TAKERS; i++)
        sem_post(&crowd->told[i]);
}

/* Takes and gives back; after a refusal it does nothing until it is told, so one lost call stands everything still. */
static void *take_many(void *argument)
{
    taker_t *taker = argument;
    crowd_t *crowd = taker->crowd;

    for (unsigned i = 0; i < PER_TAKER; i++) {
        while (!zlink_application_job_queue_take(&crowd->queue)) {
            atomic_fetch_add(&crowd->refusals, 1);
            zlink_test_wait(&crowd->told[taker->index]);
        }
        zlink_check(atomic_fetch_add(&crowd->in_use, 1) < LIMIT);
        if (i % HOLD_EVERY == 0)
            sched_yield();
        atomic_fetch_sub(&crowd->in_use, 1);
        zlink_application_job_queue_give_back(&crowd->queue);
    }
    return NULL;
}

/* Many threads: never more than the limit in use, no lost call, and no call without a refusal. */
static void test_many_threads_lose_no_call(void **state)
{
    static crowd_t crowd;
    taker_t takers[TAKERS];

    (void)state;
    zlink_application_job_queue_init(&crowd.queue, LIMIT);
    zlink_application_job_queue_set_waiter(&crowd.queue, tell_all, NULL, &crowd);
    for (unsigned i = 0; i < TAKERS; i++)
        sem_init(&crowd.told[i], 0, 0);
    for (unsigned i = 0; i < TAKERS; i++) {
        takers[i] = (taker_t){.crowd = &crowd, .index = i};
        assert_int_equal(pthread_create(&takers[i].thread, NULL, take_many, &takers[i]), 0);
    }
    for (unsigned i = 0; i < TAKERS; i++)
        pthread_join(takers[i].thread, NULL);
    assert_int_equal(zlink_application_job_queue_jobs(&crowd.queue), 0);
    assert_true(atomic_load(&crowd.calls) <= atomic_load(&crowd.refusals));
    for (unsigned i = 0; i < LIMIT; i++)
        assert_true(zlink_application_job_queue_take(&crowd.queue)); /* all are there */
}

/* ---- pressure ---- */

static void count_change(void *context)
{
    unsigned *changes = context;
    (*changes)++;
}

/* TR-55, EX-71: paused from exactly ceil(limit * pause / 100) jobs on, running again at exactly floor(limit * resume /
 * 100), and what it was in between. Each crossing is told once. */
static void test_tr55_ex71_the_marks_are_exact(void **state)
{
    static const struct {
        uint32_t limit, pause, resume, pause_jobs, resume_jobs;
    } cases[] = {
        {10, 80, 60, 8, 6}, {7, 80, 60, 6, 4},     {1, 80, 60, 1, 0},       {3, 1, 0, 1, 0},
        {3, 100, 99, 3, 2}, {100, 50, 49, 50, 49}, {256, 80, 60, 205, 153}, {2, 51, 50, 2, 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        zlink_application_job_queue_t queue;
        unsigned changes = 0;
        zlink_application_job_queue_init(&queue, cases[i].limit);
        assert_true(zlink_application_job_queue_set_marks(&queue, cases[i].pause, cases[i].resume));
        zlink_application_job_queue_set_waiter(&queue, NULL, count_change, &changes);
        for (unsigned round = 0; round < 2; round++) {
            for (uint32_t jobs = round == 0 ? 1 : cases[i].resume_jobs + 1; jobs <= cases[i].limit; jobs++) {
                assert_true(zlink_application_job_queue_take(&queue));
                assert_int_equal(zlink_application_job_queue_is_paused(&queue), jobs >= cases[i].pause_jobs);
            }
            assert_false(zlink_application_job_queue_take(&queue)); /* a refusal changes nothing */
            assert_int_equal(changes, 2 * round + 1);
            for (uint32_t jobs = cases[i].limit; jobs-- > cases[i].resume_jobs;) {
                zlink_application_job_queue_give_back(&queue);
                assert_int_equal(zlink_application_job_queue_is_paused(&queue), jobs > cases[i].resume_jobs);
            }
            assert_int_equal(changes, 2 * round + 2);
        }
        assert_int_equal(zlink_application_job_queue_transitions(&queue), 4);
    }
}

/* TR-55, EX-71: between the marks nothing is told, in either direction. */
static void test_tr55_ex71_nothing_between_the_marks(void **state)
{
    zlink_application_job_queue_t queue;
    unsigned changes = 0;

    (void)state;
    zlink_application_job_queue_init(&queue, 100); /* 80 and 60, the default */
    zlink_application_job_queue_set_waiter(&queue, NULL, count_change, &changes);
    for (unsigned i = 0; i < 79; i++)
        assert_true(zlink_application_job_queue_take(&queue));
    for (unsigned i = 0; i < 50; i++) {
        zlink_application_job_queue_give_back(&queue);
        assert_true(zlink_application_job_queue_take(&queue));
    }
    assert_int_equal(changes, 0);
    assert_true(zlink_application_job_queue_take(&queue));
    for (unsigned i = 0; i < 50; i++) {
        zlink_application_job_queue_give_back(&queue);
        assert_true(zlink_application_job_queue_is_paused(&queue));
        assert_true(zlink_application_job_queue_take(&queue));
    }
    assert_int_equal(changes, 1);
}

static void test_marks_out_of_range(void **state)
{
    static const unsigned bad[][2] = {{0, 0}, {101, 60}, {80, 80}, {60, 80}};
    zlink_application_job_queue_t queue;

    (void)state;
    zlink_application_job_queue_init(&queue, 10);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(zlink_application_job_queue_set_marks(&queue, bad[i][0], bad[i][1]));
    assert_int_equal(queue.pause_jobs, 8);
    assert_int_equal(queue.resume_jobs, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_limit_holds),
        cmocka_unit_test(test_the_largest_limit),
        cmocka_unit_test(test_one_call_per_round_of_refusals),
        cmocka_unit_test(test_nobody_need_wait),
        cmocka_unit_test(test_the_waiter_may_take_inside_its_call),
        cmocka_unit_test(test_many_threads_lose_no_call),
        cmocka_unit_test(test_tr55_ex71_the_marks_are_exact),
        cmocka_unit_test(test_tr55_ex71_nothing_between_the_marks),
        cmocka_unit_test(test_marks_out_of_range),
    };

    return zlink_test_main(tests);
}
