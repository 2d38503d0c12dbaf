/*
 * Timers of Instance Spots on a clock that stands still. With one worker, `settle` tells that everything that is due
 * has been done.
 */
#include "exec_fixture.h"

#include <dirent.h>
#include <pthread.h>

#include "base/container_of.h"
#include "base/memory.h"
#include "exec/spot_serial_executor.h"
#include "exec/spot_timer.h"

#define TICKS_MAX  64
#define PERIOD_MS  10u
#define TIMERS_MAX 8

typedef struct spot spot_t;
struct spot {
    zlink_spot_serial_executor_t executor;
    zlink_spot_serial_executor_t fences[2]; /* for settle */
    zlink_exec_fixture_t *fixture;
    zlink_spot_timers_t *timers;
    zlink_tick_t ticks[TICKS_MAX]; /* what began; the Spot's turns only */
    _Atomic unsigned began;
    _Atomic unsigned ended; /* turns of ticks, whether they began or not */
    _Atomic unsigned refused;
    _Atomic bool shut;       /* the admission */
    _Atomic bool no_memory;  /* for the turn of a tick */
    _Atomic unsigned stands; /* ticks that stand until let_go */
    sem_t standing;
    sem_t let_go;
    sem_t closed;
    zlink_wait_mode_t mode; /* of the tick that waits */
    zlink_wait_t wait;
    zlink_status_t answer;
};

/* ---- a tick as a turn ---- */

typedef struct tick_turn {
    zlink_turn_t turn;
    spot_t *spot;
    zlink_spot_timer_t *timer;
} tick_turn_t;

static zlink_status_t run_tick(zlink_turn_t *turn)
{
    tick_turn_t *mine = ZLINK_CONTAINER_OF(turn, tick_turn_t, turn);
    zlink_timer_handler_t handler = NULL;
    const zlink_tick_t *tick = zlink_spot_timer_begin(mine->timer, &handler);

    zlink_check(!tick || strcmp(tick->name, zlink_spot_timer_name(mine->timer)) == 0);
    return tick ? handler(turn, mine->spot, tick) : ZLINK_OK;
}

static void tick_ended(zlink_turn_t *turn, zlink_status_t status)
{
    tick_turn_t *mine = ZLINK_CONTAINER_OF(turn, tick_turn_t, turn);
    spot_t *spot = mine->spot;

    zlink_spot_timer_end(mine->timer, status);
    free(mine);
    atomic_fetch_add(&spot->ended, 1);
}

static bool admission_open(void *context)
{
    spot_t *spot = context;
    return !atomic_load(&spot->shut);
}

static zlink_status_t submit(void *context, zlink_spot_timer_t *timer)
{
    spot_t *spot = context;
    tick_turn_t *mine = atomic_load(&spot->no_memory) ? NULL : calloc(1, sizeof(*mine));

    if (!mine)
        return ZLINK_CAPACITY_EXCEEDED;
    mine->spot = spot;
    mine->timer = timer;
    zlink_turn_init(&mine->turn, run_tick, tick_ended);
    zlink_status_t status = zlink_spot_serial_executor_execute_spot(&spot->executor, &mine->turn, 0);
    if (status != ZLINK_OK) {
        atomic_fetch_add(&spot->refused, 1);
        free(mine);
    }
    return status;
}

/* ---- the Spot ---- */

static void spot_open(spot_t *spot, zlink_exec_fixture_t *fixture)
{
    zlink_spot_timer_owner_t owner = {admission_open, submit, spot};

    memset(spot, 0, sizeof(*spot));
    spot->fixture = fixture;
    sem_init(&spot->standing, 0, 0);
    sem_init(&spot->let_go, 0, 0);
    sem_init(&spot->closed, 0, 0);
    assert_int_equal(
        zlink_spot_serial_executor_init(&spot->executor, fixture->pool, &fixture->policy, ZLINK_EXECUTION_INSTANCE),
        ZLINK_OK);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(zlink_spot_serial_executor_init(&spot->fences[i], fixture->pool,
                                                         &zlink_execution_lane_policy_default,
                                                         ZLINK_EXECUTION_INSTANCE),
                         ZLINK_OK);
    spot->timers = zlink_spot_timers_create(fixture->pool, &owner, TIMERS_MAX);
    assert_non_null(spot->timers);
}

static void spot_closed(zlink_spot_serial_executor_t *executor)
{
    sem_post(&ZLINK_CONTAINER_OF(executor, spot_t, executor)->closed);
}

static void spot_close(spot_t *spot)
{
    zlink_spot_timers_close(spot->timers);
    zlink_spot_serial_executor_close(&spot->executor, spot_closed);
    zlink_test_wait(&spot->closed);
    assert_int_equal(zlink_spot_timers_count(spot->timers), 0);
    zlink_spot_timers_let_go(spot->timers);
}

static void note(spot_t *spot, const zlink_tick_t *tick)
{
    unsigned began = atomic_load(&spot->began);
    zlink_check(began < TICKS_MAX);
    spot->ticks[began] = *tick;
    atomic_store(&spot->began, began + 1);
}

static zlink_status_t on_tick(zlink_turn_t *turn, void *self, const zlink_tick_t *tick)
{
    spot_t *spot = self;

    (void)turn;
    note(spot, tick);
    if (atomic_load(&spot->stands) > 0) {
        atomic_fetch_sub(&spot->stands, 1);
        sem_post(&spot->standing);
        zlink_test_wait(&spot->let_go);
    }
    return spot->answer;
}

static zlink_status_t on_stale_tick(zlink_turn_t *turn, void *self, const zlink_tick_t *tick)
{
    (void)turn, (void)self, (void)tick;
    zlink_check(!"a tick of an earlier generation began");
    return ZLINK_OK;
}

/* Waits in the Spot's mode until the test completes the wait. */
static zlink_status_t on_tick_that_waits(zlink_turn_t *turn, void *self, const zlink_tick_t *tick)
{
    spot_t *spot = self;
    zlink_tick_t seen = *tick;

    note(spot, tick);
    zlink_check(zlink_turn_prepare_wait(turn, &spot->wait, spot->mode, NULL, NULL) == ZLINK_OK);
    sem_post(&spot->standing);
    zlink_status_t status = zlink_turn_wait(turn, &spot->wait);
    zlink_check(memcmp(&seen, tick, sizeof(seen)) == 0); /* the same to its end, whatever was started meanwhile */
    return status;
}

static void start_with(spot_t *spot, const char *name, zlink_timer_options_t options, zlink_timer_handler_t handler)
{
    assert_int_equal(zlink_spot_timers_start(spot->timers, name, &options, handler), ZLINK_OK);
}

static void start(spot_t *spot, const char *name, zlink_timer_overrun_policy_t policy, uint32_t max_catch_up_ticks)
{
    start_with(spot, name, (zlink_timer_options_t){PERIOD_MS, PERIOD_MS, policy, max_catch_up_ticks, false}, on_tick);
}

/* ---- other turns ---- */

typedef struct errand {
    zlink_turn_t turn;
    bool stands;
    sem_t ran;
    sem_t let_go;
} errand_t;

static zlink_status_t run_errand(zlink_turn_t *turn)
{
    errand_t *errand = ZLINK_CONTAINER_OF(turn, errand_t, turn);

    if (errand->stands) {
        sem_post(&errand->ran);
        zlink_test_wait(&errand->let_go);
    }
    return ZLINK_OK;
}

static void errand_ended(zlink_turn_t *turn, zlink_status_t status)
{
    errand_t *errand = ZLINK_CONTAINER_OF(turn, errand_t, turn);

    zlink_check(status == ZLINK_OK);
    sem_post(&errand->ran);
}

static void send_errand(errand_t *errand, zlink_spot_serial_executor_t *executor, bool stands)
{
    memset(errand, 0, sizeof(*errand));
    zlink_turn_init(&errand->turn, run_errand, errand_ended);
    errand->stands = stands;
    sem_init(&errand->ran, 0, 0);
    sem_init(&errand->let_go, 0, 0);
    assert_int_equal(zlink_spot_serial_executor_execute_spot(executor, &errand->turn, 0), ZLINK_OK);
}

static void let_errand_go(errand_t *errand)
{
    sem_post(&errand->let_go);
    zlink_test_wait(&errand->ran);
}

/* The one worker that is free has looked at the clock since this began, and has run what came of it: between the turns
 * of two owners it looks for due deadlines, and what they queue stands before the next of these. */
static void settle(spot_t *spot)
{
    for (unsigned i = 0; i < 4; i++) {
        errand_t errand;
        send_errand(&errand, &spot->fences[i % 2], false);
        zlink_test_wait(&errand.ran);
    }
}

static void advance(spot_t *spot, uint64_t ms)
{
    zlink_exec_fixture_advance(spot->fixture, ms);
    settle(spot);
}

static void assert_tick(const spot_t *spot, unsigned number, uint64_t delivery, uint64_t scheduled, uint64_t skipped)
{
    assert_true(atomic_load(&spot->began) > number);
    assert_int_equal(spot->ticks[number].delivery_index, delivery);
    assert_int_equal(spot->ticks[number].scheduled_index, scheduled);
    assert_int_equal(spot->ticks[number].skipped_ticks, skipped);
}

/* ---- EX-88: indices and policies ---- */

/* EX-88: in time, every tick is the next one; never early; the planned time is the start's plus whole periods. */
static void test_ex88_ticks_in_time(void **state)
{
    zlink_exec_fixture_t fixture;
    spot_t spot;

    (void)state;
    for (int policy = ZLINK_TIMER_SKIP_LATE_TICKS; policy <= ZLINK_TIMER_DELAY_NEXT_TICK; policy++) {
        zlink_exec_fixture_open(&fixture, 1, 0);
        spot_open(&spot, &fixture);
        zlink_timer_options_t options = {3, PERIOD_MS, (zlink_timer_overrun_policy_t)policy, 0, false};
        start_with(&spot, "beat", options, on_tick);
        advance(&spot, 2);
        assert_int_equal(atomic_load(&spot.began), 0);
        advance(&spot, 1);
        for (unsigned i = 0; i < 5; i++) {
            assert_int_equal(atomic_load(&spot.began), i + 1);
            assert_tick(&spot, i, i + 1, i + 1, 0);
            assert_int_equal(spot.ticks[i].period_ms, PERIOD_MS);
            assert_int_equal(spot.ticks[i].scheduled_ms, 1003 + i * PERIOD_MS);
            assert_int_equal(spot.ticks[i].started_ms, 1003 + i * PERIOD_MS);
            advance(&spot, PERIOD_MS - 1);
            assert_int_equal(atomic_load(&spot.began), i + 1);
            advance(&spot, 1);
        }
        spot_close(&spot);
        zlink_exec_fixture_close(&fixture);
    }
}

/* Its first tick begins at 1010 and stands until the clock says 1000 + `until_ms`. */
static void overrun(spot_t *spot, zlink_exec_fixture_t *fixture, zlink_timer_overrun_policy_t policy, uint32_t most,
                    uint64_t until_ms)
{
    zlink_exec_fixture_open(fixture, 1, 0);
    spot_open(spot, fixture);
    start(spot, "beat", policy, most);
    atomic_store(&spot->stands, 1);
    zlink_exec_fixture_advance(fixture, PERIOD_MS);
    zlink_test_wait(&spot->standing);
    zlink_exec_fixture_advance(fixture, until_ms - PERIOD_MS);
    sem_post(&spot->let_go);
    settle(spot);
    assert_tick(spot, 0, 1, 1, 0);
}

/* EX-88: SkipLateTicks: after an overrun one tick, the latest due; then in time again, where it would have been. */
static void test_ex88_skip_late_ticks(void **state)
{
    zlink_exec_fixture_t fixture;
    spot_t spot;

    (void)state;
    overrun(&spot, &fixture, ZLINK_TIMER_SKIP_LATE_TICKS, 0, 45);
    assert_int_equal(atomic_load(&spot.began), 2);
    assert_tick(&spot, 1, 2, 4, 2);
    assert_int_equal(spot.ticks[1].scheduled_ms, 1040);
    assert_int_equal(spot.ticks[1].started_ms, 1045);
    advance(&spot, 4);
    assert_int_equal(atomic_load(&spot.began), 2);
    advance(&spot, 1);
    assert_int_equal(atomic_load(&spot.began), 3);
    assert_tick(&spot, 2, 3, 5, 0);
    spot_close(&spot);
    zlink_exec_fixture_close(&fixture);
}

/* EX-88: a first tick that is late skips, too: skipped is its index less one. */
static void test_ex88_the_first_tick_may_be_late(void **state)
{
    zlink_exec_fixture_t fixture;
    errand_t errand;
    spot_t spot;

    (void)state;
    zlink_exec_fixture_open(&fixture, 1, 0);
    spot_open(&spot, &fixture);
    start(&spot, "beat", ZLINK_TIMER_SKIP_LATE_TICKS, 0);
    send_errand(&errand, &spot.executor, true);
    zlink_test_wait(&errand.ran);
    zlink_exec_fixture_advance(&fixture, 3 * PERIOD_MS);
    let_errand_go(&errand);
    settle(&spot);
    assert_int_equal(atomic_load(&spot.began), 1);
    assert_tick(&spot, 0, 1, 3, 2);
    spot_close(&spot);
    zlink_exec_fixture_close(&fixture);
}

/* EX-88: CatchUpBounded: the latest due ones up to the bound, in order; a small overrun loses none. */
static void test_ex88_catch_up_bounded(void **state)
{
    const struct {
        uint32_t most;
        uint64_t until_ms;
        unsigned late; /* ticks right after the overrun */
        uint64_t first;
    } cases[] = {
        {3, 45, 3, 2}, {3, 35, 2, 2},          {3, 105, 3, 8}, {1, 45, 1, 4},
        {0, 45, 1, 4}, {INT32_MAX, 105, 9, 2}, {5, 15, 0, 2},
    };
    zlink_exec_fixture_t fixture;
    spot_t spot;

    (void)state;
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        overrun(&spot, &fixture, ZLINK_TIMER_CATCH_UP_BOUNDED, cases[c].most, cases[c].until_ms);
        unsigned late = cases[c].late;
        uint64_t first = cases[c].first;
        settle(&spot);
        settle(&spot);
        assert_int_equal(atomic_load(&spot.began), 1 + late);
        for (unsigned i = 0; i < late; i++)
            assert_tick(&spot, 1 + i, 2 + i, first + i, i == 0 ? first - 2 : 0);
        advance(&spot, PERIOD_MS - cases[c].until_ms % PERIOD_MS); /* and in time again */
        assert_int_equal(atomic_load(&spot.began), 2 + late);
        assert_tick(&spot, 1 + late, 2 + late, late ? first + late : 2, 0);
        spot_close(&spot);
        zlink_exec_fixture_close(&fixture);
    }
}

/* EX-88: a handler that is always too slow stays behind by the bound and no more. */
static void test_ex88_catching_up_never_falls_behind_the_bound(void **state)
{
    zlink_exec_fixture_t fixture;
    spot_t spot;

    (void)state;
    zlink_exec_fixture_open(&fixture, 1, 0);
    spot_open(&spot, &fixture);
    start(&spot, "beat", ZLINK_TIMER_CATCH_UP_BOUNDED, 3);
    atomic_store(&spot.stands, 20);
    zlink_exec_fixture_advance(&fixture, PERIOD_MS);
    uint64_t last = 0;
    for (unsigned i = 0; i < 20; i++) {
        zlink_test_wait(&spot.standing);
        const zlink_tick_t *tick = &spot.ticks[i];
        uint64_t due = (tick->started_ms - 1000) / PERIOD_MS;
        assert_int_equal(tick->delivery_index, i + 1);
        assert_int_equal(tick->scheduled_index, last + 1 + tick->skipped_ticks);
        assert_true(tick->scheduled_index + 3 > due && tick->scheduled_index <= due);
        last = tick->scheduled_index;
        zlink_exec_fixture_advance(&fixture, 2 * PERIOD_MS);
        sem_post(&spot.let_go);
    }
    spot_close(&spot);
    zlink_exec_fixture_close(&fixture);
}

/* EX-88: DelayNextTick: the next comes a period after the end of the last, and none is skipped. */
static void test_ex88_delay_next_tick(void **state)
{
    zlink_exec_fixture_t fixture;
    spot_t spot;

    (void)state;
    overrun(&spot, &fixture, ZLINK_TIMER_DELAY_NEXT_TICK, 0, 45);
    assert_int_equal(atomic_load(&spot.began), 1);
    advance(&spot, PERIOD_MS - 1);
    assert_int_equal(atomic_load(&spot.began), 1);
    advance(&spot, 1);
    assert_int_equal(atomic_load(&spot.began), 2);
    assert_tick(&spot, 1, 2, 2, 0);
    assert_int_equal(spot.ticks[1].scheduled_ms, 1055);
    spot_close(&spot);
    zlink_exec_fixture_close(&fixture);
}

/* A period of 0 is one tick; then the name is free again. */
static void test_one_tick(void **state)
{
    zlink_exec_fixture_t fixture;
    spot_t spot;

    (void)state;
    zlink_exec_fixture_open(&fixture, 1, 0);
    spot_open(&spot, &fixture);
    start_with(&spot, "once", (zlink_timer_options_t){.first_delay_ms = 0}, on_tick);
    settle(&spot);
    assert_int_equal(atomic_load(&spot.began), 1);
    assert_tick(&spot, 0, 1, 1, 0);
    assert_int_equal(zlink_spot_timers_count(spot.timers), 0);
    assert_int_equal(zlink_spot_timers_cancel(spot.timers, "once"), ZLINK_NOT_FOUND);
    advance(&spot, 1000);
    assert_int_equal(atomic_load(&spot.began), 1);
    spot_close(&spot);
    zlink_exec_fixture_close(&fixture);
}

/* stop_on_failure: an error of the handler is its timer's last tick; without it, ticks go on. */
static void test_stop_on_failure(void **state)
{
    zlink_exec_fixture_t fixture;
    spot_t spot;

    (void)state;
    zlink_exec_fixture_open(&fixture, 1, 0);
    spot_open(&spot, &fixture);
    spot.answer = ZLINK_REJECTED;
    start(&spot, "goes on", ZLINK_TIMER_SKIP_LATE_TICKS, 0);
    start_with(&spot, "stops", (zlink_timer_options_t){.period_ms = PERIOD_MS, .stop_on_failure = true}, on_tick);
    settle(&spot);
    assert_int_equal(zlink_spot_timers_count(spot.timers), 1);
    advance(&spot, PERIOD_MS);
    advance(&spot, PERIOD_MS);
    assert_int_equal(atomic_load(&spot.began), 3);
    spot_close(&spot);
    zlink_exec_fixture_close(&fixture);
}

/* ---- EX-88: the lease ---- */

/* EX-88: with the admission closed no tick begins, queued or not; when it opens there is one late tick, not a burst. */
static void test_ex88_no_tick_begins_after_the_lease(void **state)
{
    zlink_exec_fixture_t fixture;
    errand_t errand;
    spot_t spot;

    (void)state;
    zlink_exec_fixture_open(&fixture, 1, 0);
    spot_open(&spot, &fixture);
    start(&spot, "beat", ZLINK_TIMER_SKIP_LATE_TICKS, 0);
    start_with(&spot, "once", (zlink_timer_options_t){.first_delay_ms = PERIOD_MS}, on_tick);
    send_errand(&errand, &spot.executor, true);
    zlink_test_wait(&errand.ran);
    zlink_exec_fixture_advance(&fixture, PERIOD_MS);
    atomic_store(&spot.shut, true);
    let_errand_go(&errand);
    settle(&spot);
    for (unsigned i = 0; i < 100; i++)
        advance(&spot, PERIOD_MS);
    assert_int_equal(atomic_load(&spot.began), 0);
    assert_int_equal(atomic_load(&spot.ended), 0);
    atomic_store(&spot.shut, false);
    advance(&spot, ZLINK_TIMER_HOLD_MS << ZLINK_TIMER_HOLD_DOUBLINGS_MAX);
    settle(&spot);
    assert_int_equal(atomic_load(&spot.began), 2);
    unsigned beat = spot.ticks[0].period_ms ? 0 : 1;
    assert_tick(&spot, beat, 1, 229, 228);
    assert_tick(&spot, 1 - beat, 1, 1, 0);
    spot_close(&spot);
    zlink_exec_fixture_close(&fixture);
}

/* EX-88: the same where the tick stands in the queue when the lease ends. */
static void test_ex88_a_queued_tick_does_not_begin_after_the_lease(void **state)
{
    zlink_exec_fixture_t fixture;
    errand_t errand;
    spot_t spot;
    spot_t other;

    (void)state;
    zlink_exec_fixture_open(&fixture, 2, 0);
    spot_open(&spot, &fixture);
    spot_open(&other, &fixture);
    start(&spot, "beat", ZLINK_TIMER_SKIP_LATE_TICKS, 0);
    send_errand(&errand, &spot.executor, true);
    zlink_test_wait(&errand.ran);
    zlink_exec_fixture_advance(&fixture, PERIOD_MS); /* the other worker queues the tick */
    while (zlink_deadline_scheduler_next_ms(zlink_worker_pool_deadlines(fixture.pool)) != UINT64_MAX)
        settle(&other);
    settle(&other);
    atomic_store(&spot.shut, true);
    let_errand_go(&errand);
    while (atomic_load(&spot.ended) == 0)
        settle(&spot);
    assert_int_equal(atomic_load(&spot.began), 0);
    atomic_store(&spot.shut, false);
    zlink_exec_fixture_advance(&fixture, ZLINK_TIMER_HOLD_MS);
    while (atomic_load(&spot.began) == 0)
        settle(&spot);
    assert_tick(&spot, 0, 1, 2, 1);
    spot_close(&spot);
    spot_close(&other);
    zlink_exec_fixture_close(&fixture);
}

/* ---- what cannot be queued is late ---- */

/* EX-88: a full queue or no memory for the tick's turn holds the tick; it is tried again and then is late. */
static void test_ex88_a_tick_without_room_is_late(void **state)
{
    zlink_exec_fixture_t fixture;
    errand_t errand;
    spot_t spot;
    spot_t other;

    (void)state;
    for (int no_memory = 0; no_memory <= 1; no_memory++) {
        zlink_exec_fixture_open(&fixture, 2, 0);
        fixture.policy.application_message_capacity = 1;
        spot_open(&spot, &fixture);
        spot_open(&other, &fixture);
        start(&spot, "beat", ZLINK_TIMER_SKIP_LATE_TICKS, 0);
        atomic_store(&spot.no_memory, no_memory);
        send_errand(&errand, &spot.executor, true);
        zlink_test_wait(&errand.ran);
        for (unsigned i = 0; i < 3; i++)
            zlink_exec_fixture_advance(&fixture, PERIOD_MS);
        while (!no_memory && atomic_load(&spot.refused) == 0)
            sched_yield();
        let_errand_go(&errand);
        zlink_exec_fixture_advance(&fixture, 5);
        assert_int_equal(atomic_load(&spot.began), 0);
        atomic_store(&spot.no_memory, false);
        while (atomic_load(&spot.ended) == 0) {
            zlink_exec_fixture_advance(&fixture, PERIOD_MS);
            sched_yield();
        }
        assert_int_equal(spot.ticks[0].delivery_index, 1);
        assert_true(spot.ticks[0].scheduled_index >= 3);
        assert_int_equal(spot.ticks[0].skipped_ticks, spot.ticks[0].scheduled_index - 1);
        spot_close(&spot);
        spot_close(&other);
        zlink_exec_fixture_close(&fixture);
    }
}

/* ---- EX-87: generations ---- */

typedef enum remove_by { BY_RESTART, BY_CANCEL, BY_CLOSE } remove_by_t;

/* EX-87: what is queued for an earlier generation, a cancelled timer or a closed set does not begin. */
static void test_ex87_queued_ticks_of_the_past_do_not_begin(void **state)
{
    zlink_exec_fixture_t fixture;
    errand_t errand;
    spot_t spot;
    spot_t other;

    (void)state;
    for (remove_by_t by = BY_RESTART; by <= BY_CLOSE; by++) {
        zlink_exec_fixture_open(&fixture, 2, 0);
        spot_open(&spot, &fixture);
        spot_open(&other, &fixture);
        zlink_timer_options_t options = {.first_delay_ms = PERIOD_MS, .period_ms = PERIOD_MS};
        start_with(&spot, "beat", options, on_stale_tick);
        send_errand(&errand, &spot.executor, true);
        zlink_test_wait(&errand.ran);
        zlink_exec_fixture_advance(&fixture, PERIOD_MS);
        while (zlink_deadline_scheduler_next_ms(zlink_worker_pool_deadlines(fixture.pool)) != UINT64_MAX)
            settle(&other);
        settle(&other);
        if (by == BY_RESTART)
            start(&spot, "beat", ZLINK_TIMER_SKIP_LATE_TICKS, 0);
        else if (by == BY_CANCEL)
            assert_int_equal(zlink_spot_timers_cancel(spot.timers, "beat"), ZLINK_OK);
        else
            zlink_spot_timers_close(spot.timers);
        assert_int_equal(zlink_spot_timers_count(spot.timers), 1); /* until its tick has ended */
        let_errand_go(&errand);
        while (atomic_load(&spot.ended) == 0)
            settle(&spot);
        assert_int_equal(atomic_load(&spot.began), 0);
        assert_int_equal(zlink_spot_timers_count(spot.timers), by == BY_RESTART);
        zlink_exec_fixture_advance(&fixture, PERIOD_MS);
        while (by == BY_RESTART && atomic_load(&spot.began) == 0)
            settle(&spot);
        if (by == BY_RESTART)
            assert_tick(&spot, 0, 1, 1, 0);
        spot_close(&spot);
        spot_close(&other);
        zlink_exec_fixture_close(&fixture);
    }
}

/* EX-87: one that runs goes on to its end, whatever happens to its timer; nothing of it begins again. */
static void test_ex87_a_running_tick_finishes(void **state)
{
    zlink_exec_fixture_t fixture;
    spot_t spot;

    (void)state;
    for (remove_by_t by = BY_CANCEL; by <= BY_CLOSE; by++) {
        zlink_exec_fixture_open(&fixture, 1, 0);
        spot_open(&spot, &fixture);
        start(&spot, "beat", ZLINK_TIMER_SKIP_LATE_TICKS, 0);
        atomic_store(&spot.stands, 1);
        zlink_exec_fixture_advance(&fixture, PERIOD_MS);
        zlink_test_wait(&spot.standing);
        if (by == BY_CANCEL)
            assert_int_equal(zlink_spot_timers_cancel(spot.timers, "beat"), ZLINK_OK);
        else
            zlink_spot_timers_close(spot.timers);
        assert_int_equal(zlink_spot_timers_cancel(spot.timers, "beat"), ZLINK_NOT_FOUND);
        zlink_exec_fixture_advance(&fixture, 5 * PERIOD_MS);
        sem_post(&spot.let_go);
        settle(&spot);
        advance(&spot, 5 * PERIOD_MS);
        assert_int_equal(atomic_load(&spot.began), 1);
        assert_int_equal(atomic_load(&spot.ended), 1);
        spot_close(&spot);
        zlink_exec_fixture_close(&fixture);
    }
}

/* What a handler may do to its own timer. */
static zlink_status_t on_tick_that_cancels(zlink_turn_t *turn, void *self, const zlink_tick_t *tick)
{
    spot_t *spot = self;

    (void)turn;
    note(spot, tick);
    zlink_check(zlink_spot_timers_cancel(spot->timers, tick->name) == ZLINK_OK);
    zlink_check(strcmp(tick->name, "beat") == 0);
    return ZLINK_OK;
}

static zlink_status_t on_tick_that_starts(zlink_turn_t *turn, void *self, const zlink_tick_t *tick)
{
    zlink_timer_options_t options = {.first_delay_ms = 3};
    spot_t *spot = self;

    (void)turn;
    note(spot, tick);
    zlink_check(zlink_spot_timers_start(spot->timers, tick->name, &options, on_tick_that_starts) == ZLINK_OK);
    zlink_check(tick->delivery_index == 1 && tick->scheduled_index == 1);
    return ZLINK_OK;
}

/* EX-87: a handler cancels or restarts its own timer. */
static void test_ex87_a_handler_and_its_own_timer(void **state)
{
    zlink_exec_fixture_t fixture;
    spot_t spot;

    (void)state;
    zlink_exec_fixture_open(&fixture, 1, 0);
    spot_open(&spot, &fixture);
    start_with(&spot, "beat", (zlink_timer_options_t){.period_ms = PERIOD_MS}, on_tick_that_cancels);
    settle(&spot);
    assert_int_equal(zlink_spot_timers_count(spot.timers), 0);
    advance(&spot, 3 * PERIOD_MS);
    assert_int_equal(atomic_load(&spot.began), 1);
    start_with(&spot, "chain", (zlink_timer_options_t){.first_delay_ms = 3}, on_tick_that_starts);
    for (unsigned i = 0; i < 5; i++)
        advance(&spot, 3);
    assert_int_equal(atomic_load(&spot.began), 6);
    assert_int_equal(zlink_spot_timers_count(spot.timers), 1);
    spot_close(&spot);
    zlink_exec_fixture_close(&fixture);
}

/* ---- EX-25: a handler that waits ---- */

/* EX-25: while a tick waits, with or without the gate, its timer begins no other; afterwards the policy counts. */
static void test_ex25_a_waiting_tick_is_not_overlapped(void **state)
{
    zlink_exec_fixture_t fixture;
    spot_t spot;
    spot_t other;

    (void)state;
    for (int mode = ZLINK_WAIT_ASYNC; mode <= ZLINK_WAIT_YIELD; mode++) {
        zlink_exec_fixture_open(&fixture, 1, 0);
        spot_open(&spot, &fixture);
        spot_open(&other, &fixture);
        spot.mode = (zlink_wait_mode_t)mode;
        zlink_timer_options_t options = {.first_delay_ms = PERIOD_MS, .period_ms = PERIOD_MS};
        start_with(&spot, "waits", options, on_tick_that_waits);
        start(&spot, "beat", ZLINK_TIMER_DELAY_NEXT_TICK, 0);
        zlink_exec_fixture_advance(&fixture, PERIOD_MS);
        zlink_test_wait(&spot.standing);
        for (unsigned i = 0; i < 4; i++) {
            zlink_exec_fixture_advance(&fixture, PERIOD_MS);
            settle(&other);
            if (mode == ZLINK_WAIT_YIELD)
                settle(&spot);
        }
        unsigned others = 0; /* EX-18, EX-21: the other timer ran only where the gate was free */
        for (unsigned i = 0; i < atomic_load(&spot.began); i++)
            others += strcmp(spot.ticks[i].name, "beat") == 0;
        assert_int_equal(atomic_load(&spot.began) - others, 1);
        assert_true(mode == ZLINK_WAIT_YIELD ? others >= 4 : others <= 1);
        zlink_wait_complete(&spot.wait, ZLINK_OK);
        zlink_test_wait(&spot.standing);
        unsigned last = atomic_load(&spot.began) - 1;
        while (strcmp(spot.ticks[last].name, "waits") != 0)
            last--;
        assert_tick(&spot, last, 2, 5, 3);
        zlink_spot_timers_close(spot.timers);
        settle(&other);
        zlink_wait_complete(&spot.wait, ZLINK_OK);
        spot_close(&spot);
        spot_close(&other);
        zlink_exec_fixture_close(&fixture);
    }
}

/* EX-25, EX-87: a name that is cancelled or restarted while its tick has given the gate back: the first new tick waits
 * for the end of the old one. */
static void test_ex25_ex87_generations_do_not_overlap(void **state)
{
    zlink_exec_fixture_t fixture;
    spot_t spot;

    (void)state;
    for (int cancel = 0; cancel <= 1; cancel++) {
        zlink_exec_fixture_open(&fixture, 1, 0);
        spot_open(&spot, &fixture);
        spot.mode = ZLINK_WAIT_YIELD;
        start_with(&spot, "beat", (zlink_timer_options_t){.period_ms = PERIOD_MS}, on_tick_that_waits);
        zlink_test_wait(&spot.standing);
        if (cancel)
            assert_int_equal(zlink_spot_timers_cancel(spot.timers, "beat"), ZLINK_OK);
        start_with(&spot, "beat", (zlink_timer_options_t){.period_ms = PERIOD_MS}, on_tick);
        assert_int_equal(zlink_spot_timers_count(spot.timers), 1);
        advance(&spot, PERIOD_MS);
        assert_int_equal(atomic_load(&spot.began), 1);
        zlink_wait_complete(&spot.wait, ZLINK_OK);
        settle(&spot);
        assert_int_equal(atomic_load(&spot.ended), 2);
        assert_tick(&spot, 1, 1, 2, 1);
        spot_close(&spot);
        zlink_exec_fixture_close(&fixture);
    }
}

/* ---- limits ---- */

static void test_arguments_out_of_range_are_refused(void **state)
{
    const zlink_timer_options_t bad[] = {
        {.first_delay_ms = (uint32_t)INT32_MAX + 1},
        {.period_ms = UINT32_MAX},
        {.overrun_policy = (zlink_timer_overrun_policy_t)3},
        {.overrun_policy = ZLINK_TIMER_CATCH_UP_BOUNDED, .max_catch_up_ticks = (uint32_t)INT32_MAX + 1},
    };
    const zlink_timer_options_t good = {.first_delay_ms = INT32_MAX, .period_ms = INT32_MAX};
    zlink_exec_fixture_t fixture;
    spot_t spot;
    char name[ZLINK_TIMER_NAME_BYTES_MAX + 2];

    (void)state;
    zlink_exec_fixture_open(&fixture, 1, 0);
    spot_open(&spot, &fixture);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(zlink_spot_timers_start(spot.timers, "x", &bad[i], on_tick), ZLINK_INVALID_OPERATION);
    memset(name, 'n', sizeof(name));
    name[sizeof(name) - 1] = 0;
    assert_int_equal(zlink_spot_timers_start(spot.timers, name, &good, on_tick), ZLINK_INVALID_OPERATION);
    assert_int_equal(zlink_spot_timers_start(spot.timers, "", &good, on_tick), ZLINK_INVALID_OPERATION);
    assert_int_equal(zlink_spot_timers_start(spot.timers, NULL, &good, on_tick), ZLINK_INVALID_OPERATION);
    assert_int_equal(zlink_spot_timers_start(spot.timers, "x", &good, NULL), ZLINK_INVALID_OPERATION);
    assert_int_equal(zlink_spot_timers_cancel(spot.timers, NULL), ZLINK_INVALID_OPERATION);
    assert_int_equal(zlink_spot_timers_count(spot.timers), 0);
    name[ZLINK_TIMER_NAME_BYTES_MAX] = 0;
    assert_int_equal(zlink_spot_timers_start(spot.timers, name, &good, on_tick), ZLINK_OK);
    assert_int_equal(zlink_spot_timers_cancel(spot.timers, name), ZLINK_OK);
    spot_close(&spot);
    zlink_exec_fixture_close(&fixture);
}

/* A set holds so many timers; a cancelled one makes room, a restart needs none, a closed set takes none. */
static void test_the_number_of_timers_is_bounded(void **state)
{
    const zlink_timer_options_t options = {.first_delay_ms = 1000};
    zlink_exec_fixture_t fixture;
    spot_t spot;
    char name[] = "t0";

    (void)state;
    zlink_exec_fixture_open(&fixture, 1, 0);
    spot_open(&spot, &fixture);
    for (unsigned i = 0; i < TIMERS_MAX; i++) {
        name[1] = (char)('0' + i);
        assert_int_equal(zlink_spot_timers_start(spot.timers, name, &options, on_tick), ZLINK_OK);
    }
    assert_int_equal(zlink_spot_timers_start(spot.timers, "more", &options, on_tick), ZLINK_CAPACITY_EXCEEDED);
    assert_int_equal(zlink_spot_timers_start(spot.timers, "t3", &options, on_tick), ZLINK_OK);
    assert_int_equal(zlink_spot_timers_cancel(spot.timers, "t5"), ZLINK_OK);
    assert_int_equal(zlink_spot_timers_start(spot.timers, "more", &options, on_tick), ZLINK_OK);
    zlink_spot_timers_close(spot.timers);
    assert_int_equal(zlink_spot_timers_start(spot.timers, "t1", &options, on_tick), ZLINK_SHUTTING_DOWN);
    assert_int_equal(zlink_deadline_scheduler_next_ms(zlink_worker_pool_deadlines(fixture.pool)), UINT64_MAX);
    spot_close(&spot);
    zlink_exec_fixture_close(&fixture);
}

/* Without memory a set is not made and a start changes nothing. */
static void test_without_memory_nothing_changes(void **state)
{
    const zlink_timer_options_t options = {.first_delay_ms = 5};
    zlink_spot_timer_owner_t owner = {admission_open, submit, NULL};
    zlink_exec_fixture_t fixture;
    spot_t spot;

    (void)state;
    zlink_exec_fixture_open(&fixture, 1, 0);
    spot_open(&spot, &fixture);
    zlink_memory_fail_after(0);
    assert_null(zlink_spot_timers_create(fixture.pool, &owner, 0));
    zlink_memory_fail_after(0);
    assert_int_equal(zlink_spot_timers_start(spot.timers, "beat", &options, on_tick), ZLINK_CAPACITY_EXCEEDED);
    zlink_memory_fail_after(-1);
    assert_int_equal(zlink_spot_timers_count(spot.timers), 0);
    assert_int_equal(zlink_spot_timers_start(spot.timers, "beat", &options, on_tick), ZLINK_OK);
    advance(&spot, 5);
    assert_int_equal(atomic_load(&spot.began), 1);
    spot_close(&spot);
    zlink_exec_fixture_close(&fixture);
}

/* ---- many ---- */

static unsigned count_threads(void)
{
    DIR *folder = opendir("/proc/self/task");
    unsigned threads = 0;

    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        threads += entry->d_name[0] != '.';
    closedir(folder);
    return threads;
}

#define MANY_SPOTS 10000

typedef struct many {
    zlink_spot_serial_executor_t executor;
    zlink_spot_timers_t *timers;
    _Atomic unsigned *ticks;
    sem_t *closed;
} many_t;

static zlink_status_t on_one_of_many(zlink_turn_t *turn, void *self, const zlink_tick_t *tick)
{
    (void)turn, (void)tick;
    atomic_fetch_add(((many_t *)self)->ticks, 1);
    return ZLINK_OK;
}

/* The turn of a tick needs no Spot of this file's kind. */
typedef struct many_turn {
    zlink_turn_t turn;
    many_t *many;
    zlink_spot_timer_t *timer;
} many_turn_t;

static zlink_status_t run_one_of_many(zlink_turn_t *turn)
{
    many_turn_t *mine = ZLINK_CONTAINER_OF(turn, many_turn_t, turn);
    zlink_timer_handler_t handler = NULL;
    const zlink_tick_t *tick = zlink_spot_timer_begin(mine->timer, &handler);

    return tick ? handler(turn, mine->many, tick) : ZLINK_OK;
}

static void one_of_many_ended(zlink_turn_t *turn, zlink_status_t status)
{
    many_turn_t *mine = ZLINK_CONTAINER_OF(turn, many_turn_t, turn);

    zlink_spot_timer_end(mine->timer, status);
    free(mine);
}

static zlink_status_t submit_one_of_many(void *context, zlink_spot_timer_t *timer)
{
    many_turn_t *mine = calloc(1, sizeof(*mine));

    zlink_check(mine != NULL);
    mine->many = context;
    mine->timer = timer;
    zlink_turn_init(&mine->turn, run_one_of_many, one_of_many_ended);
    zlink_status_t status = zlink_spot_serial_executor_execute_spot(&mine->many->executor, &mine->turn, 0);
    if (status != ZLINK_OK)
        free(mine);
    return status;
}

static bool always(void *context)
{
    (void)context;
    return true;
}

static void many_closed(zlink_spot_serial_executor_t *executor)
{
    sem_post(ZLINK_CONTAINER_OF(executor, many_t, executor)->closed);
}

/* IC-8: 20,000 timers of 10,000 Spots add no thread, and all of them tick. */
static void test_ic8_timers_add_no_thread(void **state)
{
    static many_t many[MANY_SPOTS];
    zlink_exec_fixture_t fixture;
    _Atomic unsigned ticks = 0;
    sem_t closed;

    (void)state;
    zlink_exec_fixture_open(&fixture, 2, 0);
    sem_init(&closed, 0, 0);
    unsigned threads = count_threads();
    for (unsigned i = 0; i < MANY_SPOTS; i++) {
        zlink_spot_timer_owner_t owner = {always, submit_one_of_many, &many[i]};
        zlink_timer_options_t options = {.first_delay_ms = 100 + i % 100, .period_ms = 200};
        assert_int_equal(
            zlink_spot_serial_executor_init(&many[i].executor, fixture.pool, &fixture.policy, ZLINK_EXECUTION_INSTANCE),
            ZLINK_OK);
        many[i].ticks = &ticks;
        many[i].closed = &closed;
        many[i].timers = zlink_spot_timers_create(fixture.pool, &owner, 0);
        assert_non_null(many[i].timers);
        assert_int_equal(zlink_spot_timers_start(many[i].timers, "one", &options, on_one_of_many), ZLINK_OK);
        assert_int_equal(zlink_spot_timers_start(many[i].timers, "two", &options, on_one_of_many), ZLINK_OK);
    }
    assert_int_equal(count_threads(), threads);
    for (unsigned round = 1; round <= 3; round++) {
        zlink_exec_fixture_advance(&fixture, 200);
        while (atomic_load(&ticks) < round * 2 * MANY_SPOTS)
            sched_yield();
        assert_int_equal(count_threads(), threads);
    }
    for (unsigned i = 0; i < MANY_SPOTS; i++) {
        zlink_spot_timers_close(many[i].timers);
        zlink_spot_serial_executor_close(&many[i].executor, many_closed);
    }
    for (unsigned i = 0; i < MANY_SPOTS; i++)
        zlink_test_wait(&closed);
    for (unsigned i = 0; i < MANY_SPOTS; i++)
        zlink_spot_timers_let_go(many[i].timers);
    assert_int_equal(atomic_load(&ticks), 3 * 2 * MANY_SPOTS);
    zlink_exec_fixture_close(&fixture);
}

/* ---- storm ---- */

#define STORM_SPOTS   4
#define STORM_THREADS 3
#define STORM_STEPS   6000

typedef struct stormy {
    many_t many; /* first: a handler's self */
    _Atomic int inside[TIMERS_MAX];
    _Atomic unsigned ticks;
    zlink_wait_t waits[TIMERS_MAX];
} stormy_t;

typedef struct storm {
    stormy_t *spots;
    unsigned seed;
} storm_t;

/* Its wait is over as soon as it has begun, which is sooner or later than the parking. */
static zlink_status_t on_stormy_tick(zlink_turn_t *turn, void *self, const zlink_tick_t *tick)
{
    stormy_t *spot = self;
    unsigned key = (unsigned)(tick->name[0] - 'a');

    zlink_check(atomic_fetch_add(&spot->inside[key], 1) == 0);
    zlink_check(tick->scheduled_index >= tick->delivery_index && tick->delivery_index >= 1);
    if (atomic_fetch_add(&spot->ticks, 1) % 4 == 0) {
        zlink_status_t prepared =
            zlink_turn_prepare_wait(turn, &spot->waits[key], key % 2 ? ZLINK_WAIT_ASYNC : ZLINK_WAIT_YIELD, NULL, NULL);
        if (prepared == ZLINK_OK) {
            zlink_wait_complete(&spot->waits[key], ZLINK_OK);
            zlink_check(zlink_turn_wait(turn, &spot->waits[key]) == ZLINK_OK);
        }
    }
    zlink_check(atomic_fetch_sub(&spot->inside[key], 1) == 1);
    return tick->delivery_index % 50 == 0 ? ZLINK_REJECTED : ZLINK_OK;
}

static void *storm(void *argument)
{
    storm_t *storm = argument;
    unsigned random = storm->seed;

    for (unsigned i = 0; i < STORM_STEPS; i++) {
        random = random * 1103515245u + 12345u;
        stormy_t *spot = &storm->spots[(random >> 8) % STORM_SPOTS];
        char name[2] = {(char)('a' + (random >> 12) % TIMERS_MAX), 0};
        if (random >> 30 == 0) {
            (void)zlink_spot_timers_cancel(spot->many.timers, name);
            continue;
        }
        zlink_timer_options_t options = {
            .first_delay_ms = (random >> 16) % 3,
            .period_ms = (random >> 18) % 3,
            .overrun_policy = (zlink_timer_overrun_policy_t)((random >> 20) % 3),
            .max_catch_up_ticks = (random >> 22) % 4,
            .stop_on_failure = (random >> 24) % 2,
        };
        zlink_status_t status = zlink_spot_timers_start(spot->many.timers, name, &options, on_stormy_tick);
        zlink_check(status == ZLINK_OK || status == ZLINK_SHUTTING_DOWN);
        if (i % 16 == 0)
            sched_yield();
    }
    return NULL;
}

/* EX-25, EX-87: starts, cancels and closes from many threads while everything ticks: no name overlaps itself, and what
 * was begun is ended (the sanitizers look at the rest). */
static void test_ex25_ex87_a_storm_overlaps_nothing(void **state)
{
    zlink_worker_pool_options_t pool_options = {.workers = 3};
    zlink_execution_lane_policy_t policy = zlink_execution_lane_policy_default;
    zlink_worker_pool_t *pool = NULL;
    zlink_refusal_t why = {{0}};
    static stormy_t spots[STORM_SPOTS];
    storm_t storms[STORM_THREADS];
    pthread_t threads[STORM_THREADS];
    sem_t closed;
    unsigned ticks = 0;

    (void)state;
    sem_init(&closed, 0, 0);
    assert_int_equal(zlink_worker_pool_create(&pool_options, &pool, &why), ZLINK_OK);
    for (unsigned i = 0; i < STORM_SPOTS; i++) {
        zlink_spot_timer_owner_t owner = {always, submit_one_of_many, &spots[i].many};
        assert_int_equal(
            zlink_spot_serial_executor_init(&spots[i].many.executor, pool, &policy, ZLINK_EXECUTION_INSTANCE),
            ZLINK_OK);
        spots[i].many.closed = &closed;
        spots[i].many.timers = zlink_spot_timers_create(pool, &owner, 0);
        assert_non_null(spots[i].many.timers);
    }
    for (unsigned i = 0; i < STORM_THREADS; i++) {
        storms[i] = (storm_t){spots, i * 7919 + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, storm, &storms[i]), 0);
    }
    while (atomic_load(&spots[0].ticks) < 10)
        sched_yield();
    zlink_spot_timers_close(spots[0].many.timers); /* in the middle */
    for (unsigned i = 0; i < STORM_THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < STORM_SPOTS; i++) {
        zlink_spot_timers_close(spots[i].many.timers);
        zlink_spot_serial_executor_close(&spots[i].many.executor, many_closed);
    }
    for (unsigned i = 0; i < STORM_SPOTS; i++)
        zlink_test_wait(&closed);
    for (unsigned i = 0; i < STORM_SPOTS; i++) {
        assert_int_equal(zlink_spot_timers_count(spots[i].many.timers), 0);
        zlink_spot_timers_let_go(spots[i].many.timers);
        ticks += atomic_load(&spots[i].ticks);
    }
    assert_true(ticks > 10);
    zlink_worker_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex88_ticks_in_time),
        cmocka_unit_test(test_ex88_skip_late_ticks),
        cmocka_unit_test(test_ex88_the_first_tick_may_be_late),
        cmocka_unit_test(test_ex88_catch_up_bounded),
        cmocka_unit_test(test_ex88_catching_up_never_falls_behind_the_bound),
        cmocka_unit_test(test_ex88_delay_next_tick),
        cmocka_unit_test(test_one_tick),
        cmocka_unit_test(test_stop_on_failure),
        cmocka_unit_test(test_ex88_no_tick_begins_after_the_lease),
        cmocka_unit_test(test_ex88_a_queued_tick_does_not_begin_after_the_lease),
        cmocka_unit_test(test_ex88_a_tick_without_room_is_late),
        cmocka_unit_test(test_ex87_queued_ticks_of_the_past_do_not_begin),
        cmocka_unit_test(test_ex87_a_running_tick_finishes),
        cmocka_unit_test(test_ex87_a_handler_and_its_own_timer),
        cmocka_unit_test(test_ex25_a_waiting_tick_is_not_overlapped),
        cmocka_unit_test(test_ex25_ex87_generations_do_not_overlap),
        cmocka_unit_test(test_arguments_out_of_range_are_refused),
        cmocka_unit_test(test_the_number_of_timers_is_bounded),
        cmocka_unit_test(test_without_memory_nothing_changes),
        cmocka_unit_test(test_ic8_timers_add_no_thread),
        cmocka_unit_test(test_ex25_ex87_a_storm_overlaps_nothing),
    };

    return zlink_test_main(tests);
}
