/*
 * The n-th allocation of a whole life fails, for every n until none does: pools, a Spot of each kind with Actors and
 * timers, a set of timers. What is refused is refused as a whole, what was accepted runs and ends once, and everything
 * closes; what would be left over the address sanitizer finds. The failures of one call alone are tested beside it.
 */
#include "base/memory.h"
#include "exec/cpu_worker_pool.h"
#include "exec/spot_timer.h"
#include "spot_fixture.h"

#define NAMES 12 /* more than a map begins with */

typedef struct life {
    desk_t desk;
    job_t jobs[2 * NAMES];
    zlink_status_t answers[2 * NAMES];
    zlink_spot_timers_t *timers;
    zlink_cpu_worker_pool_t *cpu;
    unsigned refused;
} life_t;

static bool admission_open(void *context)
{
    (void)context;
    return true;
}

static zlink_status_t submit_tick(void *context, zlink_spot_timer_t *timer)
{
    (void)context, (void)timer;
    abort(); /* the clock stands still */
}

static void timer_gone(void *context, const char *name)
{
    (void)context, (void)name;
}

static zlink_status_t on_tick(zlink_turn_t *turn, void *self, const zlink_tick_t *tick)
{
    (void)turn, (void)self, (void)tick;
    return ZLINK_OK;
}

static zlink_status_t note_refusal(life_t *life, zlink_status_t status)
{
    if (status != ZLINK_OK) {
        assert_int_equal(status, ZLINK_CAPACITY_EXCEEDED);
        life->refused++;
    }
    return status;
}

static void start_timers(life_t *life)
{
    const zlink_timer_options_t options = {.first_delay_ms = 60000, .period_ms = 60000};
    const zlink_spot_timer_owner_t owner = {admission_open, submit_tick, timer_gone, NULL};
    uint32_t started = 0;

    life->timers = zlink_spot_timers_create(life->desk.fixture.pool, &owner, 0);
    if (!life->timers) {
        life->refused++;
        return;
    }
    for (unsigned i = 0; i < NAMES; i++) {
        char name[] = {'t', (char)('a' + i), 0};
        started += note_refusal(life, zlink_spot_timers_start(life->timers, name, &options, on_tick)) == ZLINK_OK;
    }
    assert_int_equal(zlink_spot_timers_count(life->timers), started);
}

static void submit_jobs(life_t *life, bool timers_too)
{
    zlink_spot_serial_executor_t *spot = &life->desk.spot;

    for (unsigned i = 0; i < NAMES; i++) {
        char name[] = {'n', (char)('a' + i), 0};
        job_make(&life->jobs[i], &life->desk, 'j');
        life->answers[i] =
            note_refusal(life, zlink_spot_serial_executor_execute_actor(spot, name, &life->jobs[i].turn, sizeof(name)));
        job_make(&life->jobs[NAMES + i], &life->desk, 't');
        life->answers[NAMES + i] = note_refusal(
            life, timers_too
                      ? zlink_spot_serial_executor_execute_timer(spot, name, &life->jobs[NAMES + i].turn)
                      : zlink_spot_serial_executor_execute_spot(spot, &life->jobs[NAMES + i].turn, sizeof(name)));
    }
}

/* Answers whether something was refused. */
static bool live(int64_t n, zlink_spot_execution_kind_t kind, zlink_user_spot_execution_mode_t mode)
{
    const zlink_cpu_worker_pool_options_t options = {.threads_min = 1, .threads_max = 1};
    static life_t life;
    zlink_refusal_t why = {{0}};

    memset(&life, 0, sizeof(life));
    desk_open(&life.desk, 2, kind, mode);
    zlink_memory_fail_after(n);
    (void)note_refusal(&life, zlink_cpu_worker_pool_create(&options, &life.cpu, &why));
    start_timers(&life);
    submit_jobs(&life, mode == ZLINK_PER_ACTOR);
    zlink_memory_fail_after(-1);

    for (unsigned i = 0; i < 2 * NAMES; i++) {
        if (life.answers[i] == ZLINK_OK)
            zlink_test_wait(&life.jobs[i].ended);
        else
            assert_int_equal(atomic_load(&life.jobs[i].endings), 0);
    }
    if (life.timers) {
        zlink_spot_timers_close(life.timers);
        assert_int_equal(zlink_spot_timers_count(life.timers), 0);
        zlink_spot_timers_let_go(life.timers);
    }
    zlink_cpu_worker_pool_destroy(life.cpu);
    desk_close(&life.desk);
    return life.refused != 0;
}

/* A map that cannot grow goes on with what it has, so an n without a refusal is not yet the end. */
static void live_until_none_fails(zlink_spot_execution_kind_t kind, zlink_user_spot_execution_mode_t mode,
                                  unsigned least)
{
    unsigned failures = 0;
    unsigned unrefused = 0;

    for (int64_t n = 0; unrefused < 2 * NAMES; n++) {
        bool refused = live(n, kind, mode);
        failures += refused;
        unrefused = refused ? 0 : unrefused + 1;
    }
    assert_true(failures >= least);
}

static void test_every_allocation_fails_once_spot_wide(void **state)
{
    (void)state;
    live_until_none_fails(ZLINK_EXECUTION_USER, ZLINK_SPOT_WIDE, 2 + 2 * NAMES);
}

static void test_every_allocation_fails_once_per_actor(void **state)
{
    (void)state;
    live_until_none_fails(ZLINK_EXECUTION_USER, ZLINK_PER_ACTOR, 2 + 3 * NAMES);
}

static void test_every_allocation_fails_once_entry(void **state)
{
    (void)state;
    live_until_none_fails(ZLINK_EXECUTION_ENTRY, ZLINK_SPOT_WIDE, 2 + 2 * NAMES);
}

/* A wait without a stack is refused before anything is submitted, and the turn goes on. */
static void wait_on_every_stack(job_t *job)
{
    zlink_status_t *status = job->context;
    zlink_wait_t wait;

    *status = zlink_turn_prepare_wait(&job->turn, &wait, ZLINK_WAIT_ASYNC, NULL, NULL);
    if (*status == ZLINK_OK)
        zlink_turn_abandon_wait(&job->turn, &wait);
}

static void test_a_wait_without_a_stack_is_refused(void **state)
{
    desk_t desk;
    job_t job;
    zlink_status_t status;

    (void)state;
    for (unsigned stacks = 1; stacks <= 2; stacks++) {
        memset(&desk, 0, sizeof(desk));
        zlink_exec_fixture_open(&desk.fixture, 1, stacks);
        pthread_mutex_init(&desk.lock, NULL);
        sem_init(&desk.closed, 0, 0);
        desk_open_spot(&desk, ZLINK_EXECUTION_INSTANCE, ZLINK_SPOT_WIDE);
        job_make(&job, &desk, 'j')->before = wait_on_every_stack;
        job.context = &status;
        to_spot(&job);
        zlink_test_wait(&job.ended);
        assert_int_equal(status, stacks == 1 ? ZLINK_CAPACITY_EXCEEDED : ZLINK_OK);
        desk_close(&desk);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_fails_once_spot_wide),
        cmocka_unit_test(test_every_allocation_fails_once_per_actor),
        cmocka_unit_test(test_every_allocation_fails_once_entry),
        cmocka_unit_test(test_a_wait_without_a_stack_is_refused),
    };

    return zlink_test_main(tests);
}
