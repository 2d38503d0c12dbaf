#include "work_fixture.h"

#include <pthread.h>

static void io_job(job_t *job, work_spot_t *spot, char letter, zlink_wait_mode_t mode)
{
    job_make(job, spot, letter, mode);
    job->is_io = true;
}

static void complete(job_t *job, zlink_status_t status)
{
    zlink_io_works_complete(&job->record->io, status);
}

/* EX-33: yield on I/O work lets probes of the same Spot run; async holds them until it is completed. */
static void test_ex33_io_work_with_yield_and_async(void **state)
{
    (void)state;
    for (int with_continuation = 0; with_continuation < 2; with_continuation++) {
        for (int yields = 0; yields < 2; yields++) {
            zlink_exec_fixture_t exec;
            zlink_io_works_t io;
            work_spot_t spot, elsewhere;
            job_t waiting, other, probe;
            zlink_exec_fixture_open(&exec, 1, 0);
            zlink_io_works_init(&io, 0);
            work_spot_open(&spot, &exec, NULL, &io);
            work_spot_open(&elsewhere, &exec, NULL, &io);
            io_job(&waiting, &spot, 'w', yields ? ZLINK_WAIT_YIELD : ZLINK_WAIT_ASYNC);
            waiting.with_continuation = with_continuation;
            probe_make(&other, &spot, 'o');
            probe_make(&probe, &elsewhere, 'p');
            assert_int_equal(job_start(&waiting), ZLINK_OK);
            job_execute(&other);
            job_execute(&probe);
            zlink_test_wait(&probe.ended_once);
            if (yields)
                zlink_test_wait(&other.ended_once);
            else
                assert_int_equal(sem_trywait(&other.ended_once), -1);
            complete(&waiting, ZLINK_OK);
            job_wait(&waiting);
            if (!yields)
                zlink_test_wait(&other.ended_once);
            assert_int_equal(waiting.ended, ZLINK_OK);
            assert_string_equal(spot.notes, yields ? "woW" : "wWo");
            work_spot_close(&spot);
            work_spot_close(&elsewhere);
            io_close(&io);
            zlink_exec_fixture_close(&exec);
        }
    }
}

/* EX-34: with CPU workers and their queue full, four times as many I/O works as there are threads begin and end, none
 * of them with a capacity error. */
static void test_ex34_saturated_cpu_workers_do_not_hold_io(void **state)
{
    enum { THREADS = 2, QUEUE = 2, CPU = THREADS + QUEUE, IO = 4 * THREADS };
    zlink_exec_fixture_t exec;
    zlink_cpu_worker_pool_t *cpu;
    zlink_io_works_t io;
    work_spot_t spot;
    static job_t computing[CPU], refused, waiting[IO];

    (void)state;
    zlink_exec_fixture_open(&exec, 2, 0);
    cpu_open(&exec, &cpu, THREADS, QUEUE);
    zlink_io_works_init(&io, 0);
    work_spot_open(&spot, &exec, cpu, &io);
    for (unsigned i = 0; i < CPU; i++) {
        job_make(&computing[i], &spot, 'c', ZLINK_WAIT_YIELD);
        atomic_store(&computing[i].stands, true);
        assert_int_equal(job_start(&computing[i]), ZLINK_OK);
    }
    job_make(&refused, &spot, 'r', ZLINK_WAIT_YIELD);
    assert_int_equal(job_start(&refused), ZLINK_CAPACITY_EXCEEDED);
    for (unsigned i = 0; i < IO; i++) {
        io_job(&waiting[i], &spot, 'i', ZLINK_WAIT_YIELD);
        assert_int_equal(job_start(&waiting[i]), ZLINK_OK);
    }
    assert_int_equal(zlink_io_works_pending(&io), IO);
    for (unsigned i = IO; i-- > 0;)
        complete(&waiting[i], ZLINK_OK);
    for (unsigned i = 0; i < IO; i++) {
        job_wait(&waiting[i]);
        assert_int_equal(waiting[i].ended, ZLINK_OK);
    }
    for (unsigned i = 0; i < CPU; i++) {
        assert_int_equal(sem_trywait(&computing[i].ended_once), -1); /* they stood all the time */
        sem_post(&computing[i].let_go);
    }
    for (unsigned i = 0; i < CPU; i++)
        job_wait(&computing[i]);
    work_spot_close(&spot);
    cpu_close(cpu);
    io_close(&io);
    zlink_exec_fixture_close(&exec);
}

/* Complete before the handler waits: it goes on at once. */
static void test_complete_within_start(void **state)
{
    (void)state;
    for (int with_continuation = 0; with_continuation < 2; with_continuation++) {
        zlink_exec_fixture_t exec;
        zlink_io_works_t io;
        work_spot_t spot;
        job_t job;
        zlink_exec_fixture_open(&exec, 1, 0);
        zlink_io_works_init(&io, 0);
        work_spot_open(&spot, &exec, NULL, &io);
        io_job(&job, &spot, 'j', ZLINK_WAIT_YIELD);
        job.at_once = true;
        job.with_continuation = with_continuation;
        job.answers = ZLINK_DATA_LOST;
        job.deadline_ms = 2000;
        assert_int_equal(job_start(&job), ZLINK_OK);
        job_wait(&job);
        assert_int_equal(job.ended, ZLINK_DATA_LOST);
        assert_int_equal(zlink_io_works_pending(&io), 0);
        work_spot_close(&spot);
        io_close(&io);
        zlink_exec_fixture_close(&exec);
    }
}

/* What does not begin ends the call with what it said, and holds nothing. */
static void test_a_start_that_fails(void **state)
{
    zlink_exec_fixture_t exec;
    zlink_io_works_t io;
    work_spot_t spot;
    job_t job;

    (void)state;
    zlink_exec_fixture_open(&exec, 1, 0);
    zlink_io_works_init(&io, 1);
    work_spot_open(&spot, &exec, NULL, &io);
    for (unsigned i = 0; i < 3; i++) {
        io_job(&job, &spot, 'j', ZLINK_WAIT_YIELD);
        job.answers = ZLINK_REJECTED;
        assert_int_equal(job_start(&job), ZLINK_REJECTED);
        job_wait(&job);
        assert_int_equal(job.ended, ZLINK_REJECTED);
    }
    assert_int_equal(zlink_io_works_pending(&io), 0);
    work_spot_close(&spot);
    io_close(&io);
    zlink_exec_fixture_close(&exec);
}

/* A completion after the deadline is dropped; until it comes the record is there and its place is taken. */
static void test_a_late_completion_is_dropped(void **state)
{
    zlink_exec_fixture_t exec;
    zlink_io_works_t io;
    work_spot_t spot;
    job_t job, refused;

    (void)state;
    zlink_exec_fixture_open(&exec, 1, 0);
    zlink_io_works_init(&io, 1);
    work_spot_open(&spot, &exec, NULL, &io);
    io_job(&job, &spot, 'j', ZLINK_WAIT_ASYNC);
    job.deadline_ms = 1050;
    assert_int_equal(job_start(&job), ZLINK_OK);
    zlink_exec_fixture_advance(&exec, 50);
    zlink_test_wait(&job.ended_once);
    assert_int_equal(job.ended, ZLINK_DEADLINE_EXCEEDED);
    assert_true(zlink_stop_token_is_requested(&job.record->call.stop));
    assert_int_equal(sem_trywait(&job.freed), -1);
    io_job(&refused, &spot, 'r', ZLINK_WAIT_YIELD);
    assert_int_equal(job_start(&refused), ZLINK_CAPACITY_EXCEEDED);
    job_wait(&refused);
    complete(&job, ZLINK_OK);
    zlink_test_wait(&job.freed);
    assert_int_equal(sem_trywait(&job.ended_once), -1);
    assert_int_equal(zlink_io_works_pending(&io), 0);
    work_spot_close(&spot);
    io_close(&io);
    zlink_exec_fixture_close(&exec);
}

/* Closing refuses what comes, and is over when the last one was completed. */
static void test_close_waits_for_completions(void **state)
{
    zlink_exec_fixture_t exec;
    zlink_io_works_t io;
    work_spot_t spot;
    job_t job, refused;
    sem_t closed;

    (void)state;
    sem_init(&closed, 0, 0);
    zlink_exec_fixture_open(&exec, 1, 0);
    zlink_io_works_init(&io, 0);
    work_spot_open(&spot, &exec, NULL, &io);
    io_job(&job, &spot, 'j', ZLINK_WAIT_YIELD);
    assert_int_equal(job_start(&job), ZLINK_OK);
    zlink_io_works_close(&io, post_closed, &closed);
    io_job(&refused, &spot, 'r', ZLINK_WAIT_YIELD);
    assert_int_equal(job_start(&refused), ZLINK_SHUTTING_DOWN);
    job_wait(&refused);
    assert_int_equal(sem_trywait(&closed), -1);
    complete(&job, ZLINK_OK);
    zlink_test_wait(&closed);
    job_wait(&job);
    work_spot_close(&spot);
    zlink_exec_fixture_close(&exec);
}

/* ---- many at once ---- */

enum { RACES = 300 };

static void *complete_all(void *argument)
{
    job_t *jobs = argument;
    for (unsigned i = 0; i < RACES; i++) {
        zlink_test_wait(&jobs[i].submitted);
        complete(&jobs[i], ZLINK_OK);
    }
    return NULL;
}

/* Completion and deadline race; each work has one end, and every record is freed. */
static void test_completion_and_deadline_race(void **state)
{
    zlink_exec_fixture_t exec;
    zlink_io_works_t io;
    work_spot_t spot;
    static job_t jobs[RACES];
    pthread_t thread;

    (void)state;
    zlink_exec_fixture_open(&exec, 2, 0);
    zlink_io_works_init(&io, 0);
    work_spot_open(&spot, &exec, NULL, &io);
    for (unsigned i = 0; i < RACES; i++) {
        io_job(&jobs[i], &spot, 'j', i % 3 ? ZLINK_WAIT_YIELD : ZLINK_WAIT_ASYNC);
        jobs[i].deadline_ms = 1000 + i / 2;
    }
    assert_int_equal(pthread_create(&thread, NULL, complete_all, jobs), 0);
    for (unsigned i = 0; i < RACES; i++) {
        job_execute(&jobs[i]);
        if (i % 2)
            zlink_exec_fixture_advance(&exec, 1);
    }
    pthread_join(thread, NULL);
    for (unsigned i = 0; i < RACES; i++) {
        job_wait(&jobs[i]);
        assert_true(jobs[i].ended == ZLINK_OK || jobs[i].ended == ZLINK_DEADLINE_EXCEEDED);
        assert_int_equal(jobs[i].got, jobs[i].ended);
        assert_int_equal(sem_trywait(&jobs[i].ended_once), -1);
    }
    work_spot_close(&spot);
    io_close(&io);
    zlink_exec_fixture_close(&exec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex33_io_work_with_yield_and_async),
        cmocka_unit_test(test_ex34_saturated_cpu_workers_do_not_hold_io),
        cmocka_unit_test(test_complete_within_start),
        cmocka_unit_test(test_a_start_that_fails),
        cmocka_unit_test(test_a_late_completion_is_dropped),
        cmocka_unit_test(test_close_waits_for_completions),
        cmocka_unit_test(test_completion_and_deadline_race),
    };
    return zlink_test_main(tests);
}
