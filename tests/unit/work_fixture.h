/*
 * tests/unit/work_fixture.h: a Spot whose handlers hand work over and wait for it: to CPU workers, where it stands
 * until the test lets it go, or as I/O, which the test completes.
 */
#ifndef ZLINK_TESTS_UNIT_WORK_FIXTURE_H
#define ZLINK_TESTS_UNIT_WORK_FIXTURE_H

#include <time.h>

#include "base/memory.h"
#include "exec/cpu_worker_pool.h"
#include "exec/io_work.h"
#include "exec/spot_serial_executor.h"
#include "tests/unit/exec_fixture.h"

#define NOTES_MAX    4096
#define NO_DEADLINE  UINT64_MAX
#define RECORD_BYTES 1000

typedef struct work_spot {
    zlink_exec_fixture_t *exec;
    zlink_cpu_worker_pool_t *cpu;
    zlink_io_works_t *io;
    zlink_spot_serial_executor_t executor;
    char notes[NOTES_MAX]; /* what ran, a letter each; only on the Spot's turns */
    unsigned count;
    sem_t closed;
} work_spot_t;

typedef struct job job_t;

/* What both sides hold. */
typedef struct record {
    union {
        zlink_work_call_t call;
        zlink_cpu_work_item_t cpu;
        zlink_io_completion_t io;
    };
    job_t *job;
} record_t;

/* A handler's work, and what became of it. */
struct job {
    zlink_turn_t turn;
    work_spot_t *spot;
    char letter;
    zlink_wait_mode_t mode;
    bool is_io;
    bool at_once; /* I/O that is complete when it has begun */
    bool with_continuation;
    uint64_t deadline_ms;
    uint64_t bytes;
    zlink_status_t answers; /* what the work says */

    record_t *record;
    zlink_status_t handed_over; /* or refused */
    zlink_status_t got;         /* from the wait */
    zlink_status_t ended;       /* of the turn */
    sem_t submitted;            /* the handler is about to wait, or was refused */
    sem_t began;                /* the work runs */
    sem_t let_go;
    sem_t ended_once;
    sem_t freed; /* nobody holds the record any more */
    _Atomic unsigned runs;
    _Atomic bool stands;     /* until let_go */
    _Atomic bool until_stop; /* until its token says so */
    _Atomic bool stopped;    /* what the token said when the work ended */
};

static inline void note(work_spot_t *spot, char letter)
{
    zlink_check(zlink_spot_serial_executor_is_current(&spot->executor));
    if (spot->count < NOTES_MAX - 1)
        spot->notes[spot->count++] = letter;
}

static inline void record_gone(zlink_work_call_t *call)
{
    record_t *record = (record_t *)(void *)call;
    job_t *job = record->job;
    free(record);
    sem_post(&job->freed);
}

static inline zlink_status_t run_job(zlink_cpu_work_item_t *item)
{
    record_t *record = (record_t *)(void *)item;
    job_t *job = record->job;

    zlink_check(!zlink_worker_current() && !zlink_turn_current());
    atomic_fetch_add(&job->runs, 1);
    sem_post(&job->began);
    if (atomic_load(&job->stands))
        zlink_test_wait(&job->let_go);
    while (atomic_load(&job->until_stop) && !zlink_stop_token_is_requested(&item->call.stop))
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    atomic_store(&job->stopped, zlink_stop_token_is_requested(&record->call.stop)); /* the record is still there */
    return job->answers;
}

static inline zlink_status_t begin_job(zlink_io_completion_t *completion)
{
    job_t *job = ((record_t *)(void *)completion)->job;

    zlink_check(zlink_turn_current() == &job->turn);
    if (job->answers == ZLINK_REJECTED)
        return ZLINK_REJECTED; /* it does not begin */
    atomic_fetch_add(&job->runs, 1);
    if (job->at_once)
        zlink_io_works_complete(completion, job->answers);
    return ZLINK_OK;
}

static inline void job_ended(zlink_turn_t *turn, zlink_status_t status)
{
    job_t *job = ZLINK_CONTAINER_OF(turn, job_t, turn);
    job->ended = status;
    sem_post(&job->ended_once);
}

static inline zlink_status_t job_after(job_t *job, zlink_status_t status)
{
    job->got = status;
    zlink_work_call_finish(&job->record->call);
    note(job->spot, (char)(job->letter - 'a' + 'A'));
    return status;
}

static inline zlink_status_t job_goes_on(zlink_turn_t *turn, zlink_status_t status, void *context)
{
    zlink_check(zlink_turn_current() == turn);
    return job_after(context, status);
}

static inline zlink_status_t job_hand_over(job_t *job)
{
    zlink_turn_continuation_t then = job->with_continuation ? job_goes_on : NULL;
    zlink_status_t status = zlink_turn_prepare_wait(&job->turn, &job->record->call.wait, job->mode, then, job);
    if (status != ZLINK_OK)
        return status;
    status = job->is_io ? zlink_io_works_start(job->spot->io, &job->record->io)
                        : zlink_cpu_worker_pool_submit(job->spot->cpu, &job->record->cpu);
    if (status != ZLINK_OK)
        zlink_turn_abandon_wait(&job->turn, &job->record->call.wait);
    return status;
}

/* Notes its letter, hands its work over and waits, notes the letter in upper case. */
static inline zlink_status_t job_handler(zlink_turn_t *turn)
{
    job_t *job = ZLINK_CONTAINER_OF(turn, job_t, turn);
    record_t *record = calloc(1, RECORD_BYTES);

    zlink_check(record);
    note(job->spot, job->letter);
    zlink_work_call_init(&record->call, turn, record_gone);
    record->job = job;
    if (job->is_io) {
        record->io.start = begin_job;
    } else {
        record->cpu.run = run_job;
        record->cpu.bytes = job->bytes;
    }
    job->record = record;
    job->handed_over = job_hand_over(job);
    if (job->handed_over != ZLINK_OK) {
        zlink_work_call_let_go(&record->call);
        sem_post(&job->submitted);
        return job->handed_over;
    }
    if (job->deadline_ms != NO_DEADLINE)
        zlink_work_call_start_deadline(&record->call, job->deadline_ms);
    sem_post(&job->submitted);
    if (job->with_continuation)
        return ZLINK_OK;
    return job_after(job, zlink_turn_wait(turn, &record->call.wait));
}

/* Only notes its letter. */
static inline zlink_status_t probe_handler(zlink_turn_t *turn)
{
    job_t *job = ZLINK_CONTAINER_OF(turn, job_t, turn);
    note(job->spot, job->letter);
    return ZLINK_OK;
}

static inline void job_make(job_t *job, work_spot_t *spot, char letter, zlink_wait_mode_t mode)
{
    memset((void *)job, 0, sizeof(*job));
    zlink_turn_init(&job->turn, job_handler, job_ended);
    job->spot = spot;
    job->letter = letter;
    job->mode = mode;
    job->deadline_ms = NO_DEADLINE;
    job->bytes = RECORD_BYTES;
    sem_init(&job->submitted, 0, 0);
    sem_init(&job->began, 0, 0);
    sem_init(&job->let_go, 0, 0);
    sem_init(&job->ended_once, 0, 0);
    sem_init(&job->freed, 0, 0);
}

static inline void job_execute(job_t *job)
{
    assert_int_equal(zlink_spot_serial_executor_execute_spot(&job->spot->executor, &job->turn, 0), ZLINK_OK);
}

/* Until its handler waits, or was refused. */
static inline zlink_status_t job_start(job_t *job)
{
    job_execute(job);
    zlink_test_wait(&job->submitted);
    return job->handed_over;
}

/* The handler has ended and nobody holds its record. */
static inline void job_wait(job_t *job)
{
    zlink_test_wait(&job->ended_once);
    zlink_test_wait(&job->freed);
}

static inline void probe_make(job_t *job, work_spot_t *spot, char letter)
{
    job_make(job, spot, letter, ZLINK_WAIT_YIELD);
    job->turn.body = probe_handler;
}

static inline void work_spot_open(work_spot_t *spot, zlink_exec_fixture_t *exec, zlink_cpu_worker_pool_t *cpu,
                                  zlink_io_works_t *io)
{
    memset(spot, 0, sizeof(*spot));
    spot->exec = exec;
    spot->cpu = cpu;
    spot->io = io;
    assert_int_equal(
        zlink_spot_serial_executor_init(&spot->executor, exec->pool, &exec->policy, ZLINK_EXECUTION_INSTANCE),
        ZLINK_OK);
    sem_init(&spot->closed, 0, 0);
}

static inline void work_spot_closed(zlink_spot_serial_executor_t *executor)
{
    sem_post(&ZLINK_CONTAINER_OF(executor, work_spot_t, executor)->closed);
}

static inline void work_spot_close(work_spot_t *spot)
{
    zlink_spot_serial_executor_close(&spot->executor, work_spot_closed);
    zlink_test_wait(&spot->closed);
}

static inline void post_closed(void *context)
{
    sem_post(context);
}

static inline void cpu_open(zlink_exec_fixture_t *exec, zlink_cpu_worker_pool_t **cpu, unsigned threads_max,
                            uint32_t queue_items_max)
{
    const zlink_cpu_worker_pool_options_t options = {
        .threads_max = threads_max, .queue_items_max = queue_items_max, .clock = &exec->clock};
    zlink_refusal_t why = {{0}};
    assert_int_equal(zlink_cpu_worker_pool_create(&options, cpu, &why), ZLINK_OK);
}

static inline void cpu_close(zlink_cpu_worker_pool_t *cpu)
{
    sem_t closed;
    sem_init(&closed, 0, 0);
    zlink_cpu_worker_pool_close(cpu, post_closed, &closed);
    zlink_test_wait(&closed);
    zlink_cpu_worker_pool_destroy(cpu);
    sem_destroy(&closed);
}

static inline void io_close(zlink_io_works_t *io)
{
    sem_t closed;
    sem_init(&closed, 0, 0);
    zlink_io_works_close(io, post_closed, &closed);
    zlink_test_wait(&closed);
    sem_destroy(&closed);
}

/* Waits for a condition, with a deadline that only a broken program reaches. */
#define wait_until(CONDITION)                                                                                          \
    do {                                                                                                               \
        const time_t until_ = time(NULL) + 60;                                                                         \
        while (!(CONDITION)) {                                                                                         \
            if (time(NULL) > until_)                                                                                   \
                fail_msg("not within a minute: %s", #CONDITION);                                                       \
            nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);                                                    \
        }                                                                                                              \
    } while (0)

#endif
