#include "work_fixture.h"

#include <pthread.h>

#include "base/counters.h"

/* ---- pthread_create, refused when a test says so (see exec.cmake) ---- */

static _Atomic bool no_threads;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    return atomic_load(&no_threads) ? EAGAIN : __real_pthread_create(thread, attributes, start, argument);
}

/* ---- helpers ---- */

typedef struct looked_for {
    const char *name;
    int64_t value;
} looked_for_t;

static void look(const zlink_counter_t *counter, void *context)
{
    looked_for_t *wanted = context;
    if (strcmp(counter->name, wanted->name) == 0)
        wanted->value = zlink_counter_read(counter);
}

static int64_t counter(const char *name)
{
    looked_for_t wanted = {name, -1};
    zlink_counters_each(look, &wanted);
    assert_true(wanted.value >= 0);
    return wanted.value;
}

static zlink_cpu_worker_pool_stats_t stats_of(zlink_cpu_worker_pool_t *cpu)
{
    zlink_cpu_worker_pool_stats_t stats;
    zlink_cpu_worker_pool_stats(cpu, &stats);
    return stats;
}

static void let_go(job_t *job)
{
    sem_post(&job->let_go);
    job_wait(job);
}

/* ---- how a handler waits for it ---- */

/* EX-33: yield on CPU work lets probes of the same Spot run; async holds them until it ends. */
static void test_ex33_cpu_work_with_yield_and_async(void **state)
{
    (void)state;
    for (int with_continuation = 0; with_continuation < 2; with_continuation++) {
        for (int yields = 0; yields < 2; yields++) {
            zlink_exec_fixture_t exec;
            zlink_cpu_worker_pool_t *cpu;
            work_spot_t spot, elsewhere;
            job_t waiting, other, probe;
            zlink_exec_fixture_open(&exec, 1, 0);
            cpu_open(&exec, &cpu, 1, 0);
            work_spot_open(&spot, &exec, cpu, NULL);
            work_spot_open(&elsewhere, &exec, cpu, NULL);
            job_make(&waiting, &spot, 'w', yields ? ZLINK_WAIT_YIELD : ZLINK_WAIT_ASYNC);
            waiting.with_continuation = with_continuation;
            atomic_store(&waiting.stands, true);
            probe_make(&other, &spot, 'o');
            probe_make(&probe, &elsewhere, 'p');
            assert_int_equal(job_start(&waiting), ZLINK_OK);
            zlink_test_wait(&waiting.began);
            job_execute(&other);
            job_execute(&probe);
            zlink_test_wait(&probe.ended_once); /* the only worker goes on with other owners */
            if (yields)
                zlink_test_wait(&other.ended_once);
            else
                assert_int_equal(sem_trywait(&other.ended_once), -1);
            let_go(&waiting);
            if (!yields)
                zlink_test_wait(&other.ended_once);
            assert_int_equal(waiting.ended, ZLINK_OK);
            assert_int_equal(atomic_load(&waiting.runs), 1);
            assert_string_equal(spot.notes, yields ? "woW" : "wWo");
            work_spot_close(&spot);
            work_spot_close(&elsewhere);
            cpu_close(cpu);
            zlink_exec_fixture_close(&exec);
        }
    }
}

/* What the work answers is what the wait ends with. */
static void test_a_failure_of_the_work_is_the_end_of_the_wait(void **state)
{
    zlink_exec_fixture_t exec;
    zlink_cpu_worker_pool_t *cpu;
    work_spot_t spot;
    job_t job;

    (void)state;
    zlink_exec_fixture_open(&exec, 1, 0);
    cpu_open(&exec, &cpu, 1, 0);
    work_spot_open(&spot, &exec, cpu, NULL);
    job_make(&job, &spot, 'j', ZLINK_WAIT_YIELD);
    job.answers = ZLINK_INTERNAL_FAILURE;
    assert_int_equal(job_start(&job), ZLINK_OK);
    job_wait(&job);
    assert_int_equal(job.got, ZLINK_INTERNAL_FAILURE);
    assert_int_equal(job.ended, ZLINK_INTERNAL_FAILURE);
    work_spot_close(&spot);
    cpu_close(cpu);
    zlink_exec_fixture_close(&exec);
}

/* ---- room ---- */

/* EX-35: threads and queue take exactly so many; one more is CapacityExceeded at once, changes nothing, and there is
 * room again when one has ended. */
static void test_ex35_a_full_queue_refuses(void **state)
{
    enum { THREADS = 2, QUEUE = 3, ALL = THREADS + QUEUE };
    zlink_exec_fixture_t exec;
    zlink_cpu_worker_pool_t *cpu;
    work_spot_t spot;
    static job_t jobs[ALL], refused, again;

    (void)state;
    zlink_exec_fixture_open(&exec, 1, 0);
    cpu_open(&exec, &cpu, THREADS, QUEUE);
    work_spot_open(&spot, &exec, cpu, NULL);
    int64_t refused_before = counter("zlink.cpu_work.refused");
    for (unsigned i = 0; i < ALL; i++) {
        job_make(&jobs[i], &spot, (char)('a' + i), ZLINK_WAIT_YIELD);
        atomic_store(&jobs[i].stands, true);
        assert_int_equal(job_start(&jobs[i]), ZLINK_OK);
    }
    job_make(&refused, &spot, 'r', ZLINK_WAIT_YIELD);
    assert_int_equal(job_start(&refused), ZLINK_CAPACITY_EXCEEDED);
    job_wait(&refused);
    assert_int_equal(refused.ended, ZLINK_CAPACITY_EXCEEDED);
    assert_int_equal(counter("zlink.cpu_work.refused"), refused_before + 1);
    wait_until(stats_of(cpu).running == THREADS);
    assert_int_equal(stats_of(cpu).queued, QUEUE);
    assert_int_equal(stats_of(cpu).threads, THREADS);

    zlink_test_wait(&jobs[0].began);
    let_go(&jobs[0]); /* its place was free before its handler went on */
    job_make(&again, &spot, 'g', ZLINK_WAIT_YIELD);
    assert_int_equal(job_start(&again), ZLINK_OK);
    for (unsigned i = 1; i < ALL; i++)
        let_go(&jobs[i]);
    job_wait(&again);
    for (unsigned i = 0; i < ALL; i++) {
        assert_int_equal(jobs[i].ended, ZLINK_OK);
        assert_int_equal(atomic_load(&jobs[i].runs), 1);
    }
    assert_int_equal(atomic_load(&refused.runs), 0);
    work_spot_close(&spot);
    cpu_close(cpu);
    zlink_exec_fixture_close(&exec);
}

static void test_the_bytes_of_works_are_bounded(void **state)
{
    zlink_exec_fixture_t exec;
    zlink_cpu_worker_pool_t *cpu;
    work_spot_t spot;
    job_t jobs[3];

    (void)state;
    zlink_exec_fixture_open(&exec, 1, 0);
    const zlink_cpu_worker_pool_options_t options = {
        .threads_max = 4, .queue_bytes_max = 2 * RECORD_BYTES, .clock = &exec.clock};
    assert_int_equal(zlink_cpu_worker_pool_create(&options, &cpu, NULL), ZLINK_OK);
    work_spot_open(&spot, &exec, cpu, NULL);
    for (unsigned i = 0; i < 3; i++) {
        job_make(&jobs[i], &spot, (char)('a' + i), ZLINK_WAIT_YIELD);
        atomic_store(&jobs[i].stands, true);
        assert_int_equal(job_start(&jobs[i]), i < 2 ? ZLINK_OK : ZLINK_CAPACITY_EXCEEDED);
    }
    let_go(&jobs[0]);
    job_wait(&jobs[2]);
    job_make(&jobs[2], &spot, 'c', ZLINK_WAIT_YIELD);
    assert_int_equal(job_start(&jobs[2]), ZLINK_OK);
    job_wait(&jobs[2]);
    let_go(&jobs[1]);
    work_spot_close(&spot);
    cpu_close(cpu);
    zlink_exec_fixture_close(&exec);
}

/* ---- time ---- */

/* The handler goes on at its deadline; the work goes on until it sees its token, in memory that is still there; its end
 * is counted and dropped. */
static void test_a_late_end_is_dropped(void **state)
{
    (void)state;
    for (int yields = 0; yields < 2; yields++) {
        zlink_exec_fixture_t exec;
        zlink_cpu_worker_pool_t *cpu;
        work_spot_t spot;
        job_t job;
        zlink_exec_fixture_open(&exec, 1, 0);
        cpu_open(&exec, &cpu, 1, 0);
        work_spot_open(&spot, &exec, cpu, NULL);
        int64_t late_before = counter("zlink.cpu_work.late");
        job_make(&job, &spot, 'j', yields ? ZLINK_WAIT_YIELD : ZLINK_WAIT_ASYNC);
        atomic_store(&job.stands, true);
        atomic_store(&job.until_stop, true);
        job.deadline_ms = 1300;
        assert_int_equal(job_start(&job), ZLINK_OK);
        zlink_test_wait(&job.began);
        zlink_exec_fixture_advance(&exec, 299);
        assert_int_equal(sem_trywait(&job.ended_once), -1);
        zlink_exec_fixture_advance(&exec, 1);
        zlink_test_wait(&job.ended_once);
        assert_int_equal(job.got, ZLINK_DEADLINE_EXCEEDED);
        assert_int_equal(sem_trywait(&job.freed), -1); /* the work holds it */
        assert_int_equal(stats_of(cpu).running, 1);
        work_spot_close(&spot); /* the owner is not held */
        sem_post(&job.let_go);
        zlink_test_wait(&job.freed);
        assert_true(atomic_load(&job.stopped));
        wait_until(counter("zlink.cpu_work.late") == late_before + 1);
        assert_int_equal(sem_trywait(&job.ended_once), -1);
        assert_string_equal(spot.notes, "jJ");
        cpu_close(cpu);
        zlink_exec_fixture_close(&exec);
    }
}

/* Work whose time is over before a thread took it up never runs, and leaves its place at once. */
static void test_expired_work_leaves_the_queue(void **state)
{
    zlink_exec_fixture_t exec;
    zlink_cpu_worker_pool_t *cpu;
    work_spot_t spot;
    job_t running, queued, next;

    (void)state;
    zlink_exec_fixture_open(&exec, 1, 0);
    cpu_open(&exec, &cpu, 1, 1);
    work_spot_open(&spot, &exec, cpu, NULL);
    job_make(&running, &spot, 'r', ZLINK_WAIT_YIELD);
    atomic_store(&running.stands, true);
    assert_int_equal(job_start(&running), ZLINK_OK);
    zlink_test_wait(&running.began);
    job_make(&queued, &spot, 'q', ZLINK_WAIT_YIELD);
    queued.deadline_ms = 1010;
    assert_int_equal(job_start(&queued), ZLINK_OK);
    zlink_exec_fixture_advance(&exec, 10);
    job_wait(&queued);
    assert_int_equal(queued.got, ZLINK_DEADLINE_EXCEEDED);
    assert_int_equal(stats_of(cpu).queued, 0);
    job_make(&next, &spot, 'n', ZLINK_WAIT_YIELD);
    assert_int_equal(job_start(&next), ZLINK_OK);
    let_go(&running);
    job_wait(&next);
    assert_int_equal(next.ended, ZLINK_OK);
    assert_int_equal(atomic_load(&queued.runs), 0);
    work_spot_close(&spot);
    cpu_close(cpu);
    zlink_exec_fixture_close(&exec);
}

/* ---- threads ---- */

static void clock_moves(zlink_exec_fixture_t *exec, zlink_cpu_worker_pool_t *cpu, uint64_t ms)
{
    zlink_exec_fixture_advance(exec, ms);
    zlink_cpu_worker_pool_clock_moved(cpu);
}

/* None without work, as many as there is work for, none again 30 s after the last. */
static void test_threads_come_with_work_and_go(void **state)
{
    zlink_exec_fixture_t exec;
    zlink_cpu_worker_pool_t *cpu;
    work_spot_t spot;
    job_t jobs[3];

    (void)state;
    zlink_exec_fixture_open(&exec, 1, 0);
    cpu_open(&exec, &cpu, 3, 0);
    work_spot_open(&spot, &exec, cpu, NULL);
    assert_int_equal(stats_of(cpu).threads, 0);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 3; i++) {
            job_make(&jobs[i], &spot, (char)('a' + i), ZLINK_WAIT_YIELD);
            atomic_store(&jobs[i].stands, true);
            assert_int_equal(job_start(&jobs[i]), ZLINK_OK);
            zlink_test_wait(&jobs[i].began);
            assert_int_equal(stats_of(cpu).threads, i + 1);
        }
        for (unsigned i = 0; i < 3; i++)
            let_go(&jobs[i]);
        wait_until(stats_of(cpu).idle == 3);
        /* Idle threads are used again, none is started. */
        job_make(&jobs[0], &spot, 'd', ZLINK_WAIT_YIELD);
        assert_int_equal(job_start(&jobs[0]), ZLINK_OK);
        job_wait(&jobs[0]);
        assert_int_equal(stats_of(cpu).threads, 3);
        if (round == 2)
            break; /* destroyed while they are idle */
        wait_until(stats_of(cpu).idle == 3);
        clock_moves(&exec, cpu, 29999);
        assert_int_equal(stats_of(cpu).threads, 3);
        clock_moves(&exec, cpu, 1);
        wait_until(stats_of(cpu).threads == 0);
    }
    work_spot_close(&spot);
    cpu_close(cpu);
    zlink_exec_fixture_close(&exec);
}

/* The thread that was idle last is woken first, so a trickle of work lets the others end. */
static void test_a_trickle_of_work_keeps_one_thread(void **state)
{
    zlink_exec_fixture_t exec;
    zlink_cpu_worker_pool_t *cpu;
    work_spot_t spot;
    job_t jobs[3];

    (void)state;
    zlink_exec_fixture_open(&exec, 1, 0);
    cpu_open(&exec, &cpu, 3, 0);
    work_spot_open(&spot, &exec, cpu, NULL);
    for (unsigned i = 0; i < 3; i++) {
        job_make(&jobs[i], &spot, (char)('a' + i), ZLINK_WAIT_YIELD);
        atomic_store(&jobs[i].stands, true);
        assert_int_equal(job_start(&jobs[i]), ZLINK_OK);
    }
    for (unsigned i = 0; i < 3; i++)
        let_go(&jobs[i]);
    wait_until(stats_of(cpu).idle == 3);
    for (unsigned step = 0; step < 31; step++) {
        clock_moves(&exec, cpu, 1000);
        job_make(&jobs[0], &spot, 't', ZLINK_WAIT_YIELD);
        assert_int_equal(job_start(&jobs[0]), ZLINK_OK);
        job_wait(&jobs[0]);
        wait_until(stats_of(cpu).idle == stats_of(cpu).threads);
    }
    wait_until(stats_of(cpu).threads == 1);
    work_spot_close(&spot);
    cpu_close(cpu);
    zlink_exec_fixture_close(&exec);
}

static void test_the_least_number_of_threads_stays(void **state)
{
    zlink_exec_fixture_t exec;
    zlink_cpu_worker_pool_t *cpu;
    work_spot_t spot;
    job_t jobs[4];

    (void)state;
    zlink_exec_fixture_open(&exec, 1, 0);
    const zlink_cpu_worker_pool_options_t options = {
        .threads_min = 2, .threads_max = 4, .idle_timeout_ms = 100, .clock = &exec.clock};
    assert_int_equal(zlink_cpu_worker_pool_create(&options, &cpu, NULL), ZLINK_OK);
    work_spot_open(&spot, &exec, cpu, NULL);
    assert_int_equal(stats_of(cpu).threads, 2);
    for (unsigned i = 0; i < 4; i++) {
        job_make(&jobs[i], &spot, (char)('a' + i), ZLINK_WAIT_YIELD);
        atomic_store(&jobs[i].stands, true);
        assert_int_equal(job_start(&jobs[i]), ZLINK_OK);
        zlink_test_wait(&jobs[i].began);
    }
    for (unsigned i = 0; i < 4; i++)
        let_go(&jobs[i]);
    wait_until(stats_of(cpu).idle == 4);
    clock_moves(&exec, cpu, 100);
    wait_until(stats_of(cpu).threads == 2);
    for (unsigned i = 0; i < 20; i++)
        clock_moves(&exec, cpu, 100);
    assert_int_equal(stats_of(cpu).threads, 2);
    work_spot_close(&spot);
    cpu_close(cpu);
    zlink_exec_fixture_close(&exec);
}

/* Without a thread work is refused; one is enough to go on. */
static void test_no_thread_to_be_had(void **state)
{
    zlink_exec_fixture_t exec;
    zlink_cpu_worker_pool_t *cpu = NULL;
    zlink_refusal_t why = {{0}};
    work_spot_t spot;
    job_t jobs[2];

    (void)state;
    zlink_exec_fixture_open(&exec, 1, 0);
    cpu_open(&exec, &cpu, 2, 0);
    work_spot_open(&spot, &exec, cpu, NULL);
    atomic_store(&no_threads, true);
    job_make(&jobs[0], &spot, 'a', ZLINK_WAIT_YIELD);
    assert_int_equal(job_start(&jobs[0]), ZLINK_CAPACITY_EXCEEDED);
    job_wait(&jobs[0]);
    atomic_store(&no_threads, false);
    job_make(&jobs[0], &spot, 'a', ZLINK_WAIT_YIELD);
    atomic_store(&jobs[0].stands, true);
    assert_int_equal(job_start(&jobs[0]), ZLINK_OK);
    zlink_test_wait(&jobs[0].began);
    atomic_store(&no_threads, true);
    job_make(&jobs[1], &spot, 'b', ZLINK_WAIT_YIELD);
    assert_int_equal(job_start(&jobs[1]), ZLINK_OK);
    let_go(&jobs[0]);
    job_wait(&jobs[1]);
    assert_int_equal(stats_of(cpu).threads, 1);
    work_spot_close(&spot);
    cpu_close(cpu);

    const zlink_cpu_worker_pool_options_t options = {.threads_min = 1};
    assert_int_equal(zlink_cpu_worker_pool_create(&options, &cpu, &why), ZLINK_CAPACITY_EXCEEDED);
    assert_non_null(strstr(why.line, "cpu_workers_min: a thread: "));
    atomic_store(&no_threads, false);
    zlink_exec_fixture_close(&exec);
}

static void test_options(void **state)
{
    static const zlink_cpu_worker_pool_options_t wrong[] = {
        {.threads_min = 3, .threads_max = 2},
        {.threads_max = ZLINK_CPU_WORKERS_MAX + 1},
        {.threads_min = ZLINK_CPU_WORKERS_MAX + 1},
    };
    const zlink_cpu_worker_pool_options_t defaults = {0};
    zlink_cpu_worker_pool_t *cpu = NULL;
    zlink_refusal_t why = {{0}};

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(zlink_cpu_worker_pool_create(&wrong[i], &cpu, &why), ZLINK_INVALID_OPERATION);
        assert_non_null(strstr(why.line, "cpu_workers_max"));
    }
    assert_int_equal(zlink_cpu_worker_pool_create(&defaults, &cpu, &why), ZLINK_OK);
    assert_true(stats_of(cpu).threads_max >= 2 && stats_of(cpu).threads_max % 2 == 0);
    zlink_cpu_worker_pool_destroy(cpu);
    zlink_memory_fail_after(0);
    assert_int_equal(zlink_cpu_worker_pool_create(&defaults, &cpu, &why), ZLINK_CAPACITY_EXCEEDED);
    zlink_memory_fail_after(-1);
    zlink_cpu_worker_pool_destroy(NULL);
}

/* ---- the end ---- */

/* What waits ends with ShuttingDown, what runs is told to stop and waited for, what comes is refused. */
static void test_close_stops_what_runs_and_drops_what_waits(void **state)
{
    zlink_exec_fixture_t exec;
    zlink_cpu_worker_pool_t *cpu;
    work_spot_t spot;
    job_t running, queued, refused;
    sem_t closed;

    (void)state;
    sem_init(&closed, 0, 0);
    zlink_exec_fixture_open(&exec, 1, 0);
    cpu_open(&exec, &cpu, 1, 4);
    work_spot_open(&spot, &exec, cpu, NULL);
    job_make(&running, &spot, 'r', ZLINK_WAIT_YIELD);
    atomic_store(&running.until_stop, true);
    atomic_store(&running.stands, true);
    assert_int_equal(job_start(&running), ZLINK_OK);
    zlink_test_wait(&running.began);
    job_make(&queued, &spot, 'q', ZLINK_WAIT_YIELD);
    queued.deadline_ms = 5000;
    assert_int_equal(job_start(&queued), ZLINK_OK);
    zlink_cpu_worker_pool_close(cpu, post_closed, &closed);
    job_wait(&queued);
    assert_int_equal(queued.got, ZLINK_SHUTTING_DOWN);
    assert_int_equal(atomic_load(&queued.runs), 0);
    job_make(&refused, &spot, 'n', ZLINK_WAIT_YIELD);
    assert_int_equal(job_start(&refused), ZLINK_SHUTTING_DOWN);
    job_wait(&refused);
    assert_int_equal(sem_trywait(&closed), -1); /* one still runs */
    let_go(&running);
    assert_true(atomic_load(&running.stopped));
    assert_int_equal(running.got, ZLINK_OK); /* it did end in time, and said so */
    zlink_test_wait(&closed);
    work_spot_close(&spot);
    zlink_cpu_worker_pool_destroy(cpu);
    zlink_exec_fixture_close(&exec);
}

/* ---- many at once ---- */

/* Ends, deadlines and handlers race; each work has one end, and every record is freed. */
static void test_a_storm_ends_each_work_once(void **state)
{
    enum { SPOTS = 8, JOBS = 400 };
    zlink_exec_fixture_t exec;
    zlink_cpu_worker_pool_t *cpu;
    static work_spot_t spots[SPOTS];
    static job_t jobs[JOBS];
    unsigned in_time = 0;

    (void)state;
    zlink_exec_fixture_open(&exec, 3, 0);
    cpu_open(&exec, &cpu, 3, JOBS);
    for (unsigned i = 0; i < SPOTS; i++)
        work_spot_open(&spots[i], &exec, cpu, NULL);
    for (unsigned i = 0; i < JOBS; i++) {
        job_make(&jobs[i], &spots[i % SPOTS], 'j', i % 3 ? ZLINK_WAIT_YIELD : ZLINK_WAIT_ASYNC);
        jobs[i].with_continuation = i % 2;
        if (i % 4 == 0)
            jobs[i].deadline_ms = 1000 + i;
        atomic_store(&jobs[i].until_stop, i % 16 == 0); /* so the deadline has to win */
        job_execute(&jobs[i]);
        if (i % 8 == 0)
            zlink_exec_fixture_advance(&exec, 5);
    }
    for (unsigned i = 0; i < JOBS; i++) {
        while (sem_trywait(&jobs[i].ended_once) != 0) {
            zlink_exec_fixture_advance(&exec, 10);
            nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        }
        zlink_test_wait(&jobs[i].freed);
        in_time += jobs[i].ended == ZLINK_OK;
        assert_true(jobs[i].ended == ZLINK_OK || (jobs[i].ended == ZLINK_DEADLINE_EXCEEDED && i % 4 == 0));
        assert_int_equal(jobs[i].got, jobs[i].ended);
        assert_true(atomic_load(&jobs[i].runs) <= 1);
    }
    assert_true(in_time >= JOBS / 4 * 3);
    for (unsigned i = 0; i < SPOTS; i++) {
        assert_int_equal(spots[i].count, 2 * JOBS / SPOTS);
        work_spot_close(&spots[i]);
    }
    cpu_close(cpu);
    for (unsigned i = 0; i < JOBS; i++) {
        assert_int_equal(sem_trywait(&jobs[i].ended_once), -1);
        assert_int_equal(sem_trywait(&jobs[i].freed), -1);
    }
    zlink_exec_fixture_close(&exec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex33_cpu_work_with_yield_and_async),
        cmocka_unit_test(test_a_failure_of_the_work_is_the_end_of_the_wait),
        cmocka_unit_test(test_ex35_a_full_queue_refuses),
        cmocka_unit_test(test_the_bytes_of_works_are_bounded),
        cmocka_unit_test(test_a_late_end_is_dropped),
        cmocka_unit_test(test_expired_work_leaves_the_queue),
        cmocka_unit_test(test_threads_come_with_work_and_go),
        cmocka_unit_test(test_a_trickle_of_work_keeps_one_thread),
        cmocka_unit_test(test_the_least_number_of_threads_stays),
        cmocka_unit_test(test_no_thread_to_be_had),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_close_stops_what_runs_and_drops_what_waits),
        cmocka_unit_test(test_a_storm_ends_each_work_once),
    };
    return zlink_test_main(tests);
}
