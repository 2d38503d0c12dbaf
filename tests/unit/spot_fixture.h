/*
 * tests/unit/spot_fixture.h: a Spot of any kind and jobs for it: turns that note what they do and wait where told to.
 */
#ifndef ZLINK_TESTS_UNIT_SPOT_FIXTURE_H
#define ZLINK_TESTS_UNIT_SPOT_FIXTURE_H

#include <pthread.h>

#include "base/container_of.h"
#include "exec/execution_completion.h"
#include "exec/spot_serial_executor.h"
#include "tests/unit/exec_fixture.h"

#define NOTES_MAX 256

typedef struct desk {
    zlink_exec_fixture_t fixture;
    zlink_spot_serial_executor_t spot;
    pthread_mutex_t lock;
    char notes[NOTES_MAX]; /* a letter when a job starts, its capital when it goes on after a wait */
    unsigned count;
    sem_t closed;
} desk_t;

typedef struct job job_t;
struct job {
    zlink_turn_t turn;
    desk_t *desk;
    char letter;
    bool stands; /* on its stack, until let_go */
    bool waits;  /* in `mode`, until its wait is completed */
    bool then;   /* … in the continuation form */
    zlink_wait_mode_t mode;
    void (*before)(job_t *job); /* on the turn, first; NULL = nothing */
    void (*after)(job_t *job);  /* on the turn, after the wait */
    void *context;
    zlink_wait_t wait;
    zlink_status_t prepared;
    zlink_status_t got; /* from the wait */
    sem_t started;
    sem_t let_go;
    sem_t ended;
    _Atomic unsigned endings;
};

static inline job_t *job_of(const zlink_turn_t *turn)
{
    return ZLINK_CONTAINER_OF((uintptr_t)turn, job_t, turn);
}

static inline void desk_note(desk_t *desk, char letter)
{
    pthread_mutex_lock(&desk->lock);
    zlink_check(desk->count < NOTES_MAX - 1);
    desk->notes[desk->count++] = letter;
    pthread_mutex_unlock(&desk->lock);
}

static inline zlink_status_t job_goes_on(zlink_turn_t *turn, zlink_status_t status, void *context)
{
    job_t *job = context;

    zlink_check(job_of(turn) == job && zlink_turn_current() == turn);
    job->got = status;
    desk_note(job->desk, (char)(job->letter - 'a' + 'A'));
    if (job->after)
        job->after(job);
    return ZLINK_OK;
}

static inline zlink_status_t job_runs(zlink_turn_t *turn)
{
    job_t *job = job_of(turn);

    desk_note(job->desk, job->letter);
    if (job->before)
        job->before(job);
    if (job->waits)
        job->prepared = zlink_turn_prepare_wait(turn, &job->wait, job->mode, job->then ? job_goes_on : NULL, job);
    sem_post(&job->started);
    if (job->stands)
        zlink_test_wait(&job->let_go);
    if (!job->waits || job->prepared != ZLINK_OK || job->then)
        return ZLINK_OK;
    return job_goes_on(turn, zlink_turn_wait(turn, &job->wait), job);
}

static inline void job_ended(zlink_turn_t *turn, zlink_status_t status)
{
    job_t *job = job_of(turn);

    (void)status;
    zlink_check(atomic_fetch_add(&job->endings, 1) == 0);
    sem_post(&job->ended);
}

static inline job_t *job_make(job_t *job, desk_t *desk, char letter)
{
    memset(job, 0, sizeof(*job));
    zlink_turn_init(&job->turn, job_runs, job_ended);
    job->desk = desk;
    job->letter = letter;
    sem_init(&job->started, 0, 0);
    sem_init(&job->let_go, 0, 0);
    sem_init(&job->ended, 0, 0);
    return job;
}

static inline job_t *job_standing(job_t *job, desk_t *desk, char letter)
{
    job_make(job, desk, letter)->stands = true;
    return job;
}

static inline job_t *job_waiting(job_t *job, desk_t *desk, char letter, zlink_wait_mode_t mode)
{
    job_make(job, desk, letter)->waits = true;
    job->mode = mode;
    return job;
}

static inline void to_spot(job_t *job)
{
    assert_int_equal(zlink_spot_serial_executor_execute_spot(&job->desk->spot, &job->turn, 0), ZLINK_OK);
}

static inline void to_actor(job_t *job, const char *actor_id)
{
    assert_int_equal(zlink_spot_serial_executor_execute_actor(&job->desk->spot, actor_id, &job->turn, 0), ZLINK_OK);
}

static inline void to_timer(job_t *job, const char *name)
{
    assert_int_equal(zlink_spot_serial_executor_execute_timer(&job->desk->spot, name, &job->turn), ZLINK_OK);
}

static inline void to_lifecycle(job_t *job)
{
    assert_int_equal(zlink_spot_serial_executor_execute_lifecycle(&job->desk->spot, &job->turn), ZLINK_OK);
}

/* A kind, and of a User Spot a mode. */
static inline void desk_open_spot(desk_t *desk, zlink_spot_execution_kind_t kind, zlink_user_spot_execution_mode_t mode)
{
    if (kind == ZLINK_EXECUTION_USER)
        assert_int_equal(
            zlink_spot_serial_executor_init_user(&desk->spot, desk->fixture.pool, &desk->fixture.policy, mode),
            ZLINK_OK);
    else
        assert_int_equal(zlink_spot_serial_executor_init(&desk->spot, desk->fixture.pool, &desk->fixture.policy, kind),
                         ZLINK_OK);
    desk->count = 0;
    memset(desk->notes, 0, sizeof(desk->notes));
}

static inline void desk_open(desk_t *desk, unsigned workers, zlink_spot_execution_kind_t kind,
                             zlink_user_spot_execution_mode_t mode)
{
    memset(desk, 0, sizeof(*desk));
    zlink_exec_fixture_open(&desk->fixture, workers, 0);
    pthread_mutex_init(&desk->lock, NULL);
    sem_init(&desk->closed, 0, 0);
    desk_open_spot(desk, kind, mode);
}

static inline void desk_spot_closed(zlink_spot_serial_executor_t *executor)
{
    zlink_check(zlink_worker_current() && !zlink_turn_current());
    zlink_check(!zlink_spot_serial_executor_is_current(executor));
    sem_post(&ZLINK_CONTAINER_OF(executor, desk_t, spot)->closed);
}

static inline void desk_close_spot(desk_t *desk)
{
    zlink_spot_serial_executor_close(&desk->spot, desk_spot_closed);
    zlink_test_wait(&desk->closed);
}

static inline void desk_close(desk_t *desk)
{
    zlink_worker_pool_stats_t stats;

    desk_close_spot(desk);
    zlink_worker_pool_stats(desk->fixture.pool, &stats);
    assert_true(stats.stacks_live <= stats.workers); /* none is lost */
    zlink_exec_fixture_close(&desk->fixture);
}

#endif
