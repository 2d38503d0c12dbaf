/*
 * Workers that look for work before they sleep, by counters: the pool is told that it has cores enough, whatever this
 * machine has. A test that needs work to come in the right moment tries until it has.
 */
#include "exec_probe.h"

#include <sched.h>

#include "exec/worker.h"

#define PLENTY      64u /* cores */
#define SPIN_US_MAX 1000u
#define TRIES_MAX   100000u

static void open_pool(zlink_exec_fixture_t *fixture, const zlink_worker_pool_options_t *options)
{
    zlink_refusal_t why = {{0}};

    memset(fixture, 0, sizeof(*fixture));
    fixture->policy = zlink_execution_lane_policy_default;
    assert_int_equal(zlink_worker_pool_create(options, &fixture->pool, &why), ZLINK_OK);
}

static zlink_worker_pool_stats_t stats_of(const zlink_exec_fixture_t *fixture)
{
    zlink_worker_pool_stats_t stats;

    zlink_worker_pool_stats(fixture->pool, &stats);
    return stats;
}

/* Until a worker spins. False: all that could have gone to sleep instead. */
static bool somebody_spins(const zlink_exec_fixture_t *fixture, uint64_t sleeps_before)
{
    while (atomic_load(&fixture->pool->searching) != ZLINK_SEARCH_SPINS) {
        if (stats_of(fixture).sleeps != sleeps_before)
            return false;
        sched_yield();
    }
    return true;
}

typedef struct quick {
    zlink_work_item_t item;
    bool waits; /* suspended at its first run */
    sem_t *ran;
} quick_t;

/* Once `ran` is posted the item may be gone. */
static zlink_work_result_t run_quick(zlink_work_item_t *item, zlink_worker_t *worker)
{
    quick_t *quick = ZLINK_CONTAINER_OF(item, quick_t, item);
    zlink_work_result_t result = quick->waits ? ZLINK_WORK_SUSPENDED : ZLINK_WORK_DONE;

    (void)worker;
    quick->waits = false;
    sem_post(quick->ran);
    return result;
}

static sem_t one_ran;

static void run_one(owner_t *owner)
{
    quick_t quick = {.item.run = run_quick, .ran = &one_ran};

    assert_int_equal(zlink_serial_execution_queue_enqueue(&owner->queue, &quick.item), ZLINK_OK);
    zlink_test_wait(&one_ran);
}

/* What comes while its worker spins is taken up without a sleep, so nobody has called the kernel to wake it. */
static void test_work_is_taken_by_one_that_spins(void **state)
{
    zlink_exec_fixture_t fixture;
    owner_t owner;
    bool taken = false;

    (void)state;
    open_pool(&fixture, &(zlink_worker_pool_options_t){.workers = 1, .cores = PLENTY, .spin_us_max = SPIN_US_MAX});
    owner_open(&owner, &fixture);
    for (unsigned tries = 0; !taken; tries++) {
        assert_true(tries < TRIES_MAX);
        uint64_t sleeps = stats_of(&fixture).sleeps;
        run_one(&owner);
        if (!somebody_spins(&fixture, sleeps))
            continue;
        zlink_worker_pool_stats_t before = stats_of(&fixture);
        run_one(&owner);
        zlink_worker_pool_stats_t after = stats_of(&fixture);
        taken = after.sleeps == before.sleeps && after.spins_found > before.spins_found;
    }
    owner_close(&owner);
    zlink_exec_fixture_close(&fixture);
}

/* An owner at a worker that is busy: who spins is asked and takes it, without a sleep. */
static void test_one_that_spins_is_asked_first(void **state)
{
    zlink_exec_fixture_t fixture;
    owner_t busy;
    owner_t other;
    probe_t stands;
    bool taken = false;

    (void)state;
    open_pool(&fixture, &(zlink_worker_pool_options_t){.workers = 2, .cores = PLENTY, .spin_us_max = SPIN_US_MAX});
    owner_open(&busy, &fixture);
    owner_open(&other, &fixture);
    make_probe(&stands);
    stands.stands = true;
    enqueue(&busy, &stands);
    zlink_test_wait(&stands.ran);
    for (unsigned tries = 0; !taken; tries++) {
        assert_true(tries < TRIES_MAX);
        uint64_t sleeps = stats_of(&fixture).sleeps;
        run_one(&other);
        if (!somebody_spins(&fixture, sleeps))
            continue;
        zlink_worker_pool_stats_t before = stats_of(&fixture);
        owner_t moved;
        do
            owner_open(&moved, &fixture);
        while (moved.queue.home != stands.worker);
        run_one(&moved);
        zlink_worker_pool_stats_t after = stats_of(&fixture);
        taken = after.sleeps == before.sleeps && after.spins_found > before.spins_found && after.steals > before.steals;
        owner_close(&moved);
    }
    sem_post(&stands.let_go);
    owner_close(&busy);
    owner_close(&other);
    zlink_exec_fixture_close(&fixture);
}

/* An owner that must stay where it is (one of its items waits) is nobody's to ask for: its worker sees it by itself. */
static void test_one_that_spins_looks_for_what_is_its_own(void **state)
{
    zlink_exec_fixture_t fixture;
    owner_t owner;
    owner_t other;
    sem_t ran;
    bool taken = false;

    (void)state;
    open_pool(&fixture, &(zlink_worker_pool_options_t){.workers = 1, .cores = PLENTY, .spin_us_max = SPIN_US_MAX});
    owner_open(&owner, &fixture);
    owner_open(&other, &fixture);
    sem_init(&ran, 0, 0);
    for (unsigned tries = 0; !taken; tries++) {
        quick_t quick = {.item.run = run_quick, .waits = true, .ran = &ran};
        assert_true(tries < TRIES_MAX);
        assert_int_equal(zlink_serial_execution_queue_enqueue(&owner.queue, &quick.item), ZLINK_OK);
        zlink_test_wait(&ran);
        uint64_t sleeps = stats_of(&fixture).sleeps;
        run_one(&other);
        bool spins = somebody_spins(&fixture, sleeps);
        zlink_worker_pool_stats_t before = stats_of(&fixture);
        zlink_serial_execution_queue_resume(&owner.queue, &quick.item);
        zlink_test_wait(&ran);
        zlink_worker_pool_stats_t after = stats_of(&fixture);
        taken = spins && after.sleeps == before.sleeps && after.spins_found > before.spins_found;
    }
    owner_close(&owner);
    owner_close(&other);
    zlink_exec_fixture_close(&fixture);
}

/* Wakes the worker for nothing, and waits until it sleeps again. */
static void wake_in_vain(const zlink_exec_fixture_t *fixture)
{
    uint64_t sleeps = stats_of(fixture).sleeps;

    zlink_worker_pool_clock_moved(fixture->pool);
    while (stats_of(fixture).sleeps == sleeps)
        sched_yield();
    while (atomic_load(&fixture->pool->workers[0]->sleeping) == 0)
        sched_yield();
}

/* Where nothing comes there is soon no spinning any more: an idle pool sleeps, however often it is woken for nothing.
 */
static void test_an_idle_pool_stops_spinning(void **state)
{
    zlink_exec_fixture_t fixture;
    owner_t owner;

    (void)state;
    open_pool(&fixture, &(zlink_worker_pool_options_t){.workers = 1, .cores = PLENTY});
    owner_open(&owner, &fixture);
    for (unsigned i = 0; i < 50; i++)
        run_one(&owner);
    while (atomic_load(&fixture.pool->workers[0]->sleeping) == 0)
        sched_yield();
    for (unsigned i = 0; i < 10; i++)
        wake_in_vain(&fixture);
    zlink_worker_pool_stats_t settled = stats_of(&fixture);
    assert_true(settled.spins > 0);
    for (unsigned i = 0; i < 50; i++)
        wake_in_vain(&fixture);
    zlink_worker_pool_stats_t later = stats_of(&fixture);
    assert_int_equal(later.spins, settled.spins);
    assert_true(later.sleeps >= settled.sleeps + 50);
    owner_close(&owner);
    zlink_exec_fixture_close(&fixture);
}

/* Nobody spins where no core is to spare (two cores are one worker's and its submitter's), nor where it is off. */
static void test_nobody_spins_where_cores_are_taken(void **state)
{
    const zlink_worker_pool_options_t options[] = {
        {.workers = 2, .cores = 2},
        {.workers = 1, .cores = 2},
        {.workers = 8, .cores = 1},
        {.workers = 2, .cores = PLENTY, .spin_us_max = ZLINK_SPIN_OFF},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        zlink_exec_fixture_t fixture;
        owner_t owner;
        open_pool(&fixture, &options[i]);
        owner_open(&owner, &fixture);
        for (unsigned n = 0; n < 200; n++)
            run_one(&owner);
        owner_close(&owner);
        assert_int_equal(stats_of(&fixture).spins, 0);
        zlink_exec_fixture_close(&fixture);
    }
}

static void nothing(void *context, unsigned worker)
{
    (void)context;
    (void)worker;
}

/* Nor under a scheduler, where a step ends instead. */
static void test_nobody_spins_under_a_scheduler(void **state)
{
    const zlink_scheduler_t scheduler = {.wake = nothing};
    zlink_exec_fixture_t fixture;
    owner_t owner;
    probe_t probe;

    (void)state;
    open_pool(&fixture, &(zlink_worker_pool_options_t){.workers = 1, .cores = PLENTY, .scheduler = &scheduler});
    owner_open(&owner, &fixture);
    for (unsigned i = 0; i < 10; i++) {
        make_probe(&probe);
        enqueue(&owner, &probe);
        while (zlink_worker_pool_step(fixture.pool, 0))
            continue;
        assert_true(atomic_load(&probe.has_run));
    }
    assert_int_equal(stats_of(&fixture).spins, 0);
    zlink_exec_fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_work_is_taken_by_one_that_spins),
        cmocka_unit_test(test_one_that_spins_is_asked_first),
        cmocka_unit_test(test_one_that_spins_looks_for_what_is_its_own),
        cmocka_unit_test(test_an_idle_pool_stops_spinning),
        cmocka_unit_test(test_nobody_spins_where_cores_are_taken),
        cmocka_unit_test(test_nobody_spins_under_a_scheduler),
    };

    sem_init(&one_ran, 0, 0);
    return zlink_test_main(tests);
}
