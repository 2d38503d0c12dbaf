/*
 * tests/unit/spot_timer_fixture.h: Spots with timers on a clock that stands still until a test moves it.
 */
#ifndef ZLINK_TESTS_UNIT_SPOT_TIMER_FIXTURE_H
#define ZLINK_TESTS_UNIT_SPOT_TIMER_FIXTURE_H

#include "base/container_of.h"
#include "exec/spot_serial_executor.h"
#include "exec/spot_timer.h"
#include "tests/unit/exec_fixture.h"

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
    _Atomic unsigned ended;     /* turns of ticks, whether they began or not */
    _Atomic unsigned submitted; /* ticks that the executor took */
    _Atomic unsigned refused;
    _Atomic bool shut;       /* the admission */
    _Atomic bool no_memory;  /* for the turn of a tick */
    spot_t *meddles_with;    /* starts its "beat" anew while a tick is submitted */
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

static inline zlink_status_t run_tick(zlink_turn_t *turn)
{
    tick_turn_t *mine = ZLINK_CONTAINER_OF(turn, tick_turn_t, turn);
    zlink_timer_handler_t handler = NULL;
    const zlink_tick_t *tick = zlink_spot_timer_begin(mine->timer, &handler);

    zlink_check(!tick || strcmp(tick->name, zlink_spot_timer_name(mine->timer)) == 0);
    return tick ? handler(turn, mine->spot, tick) : ZLINK_OK;
}

static inline void tick_ended(zlink_turn_t *turn, zlink_status_t status)
{
    tick_turn_t *mine = ZLINK_CONTAINER_OF(turn, tick_turn_t, turn);
    spot_t *spot = mine->spot;

    zlink_spot_timer_end(mine->timer, status);
    free(mine);
    atomic_fetch_add(&spot->ended, 1);
}

static inline zlink_status_t on_tick(zlink_turn_t *turn, void *self, const zlink_tick_t *tick);

static inline bool admission_open(void *context)
{
    spot_t *spot = context;
    return !atomic_load(&spot->shut);
}

static inline zlink_status_t submit(void *context, zlink_spot_timer_t *timer)
{
    spot_t *spot = context;
    tick_turn_t *mine = atomic_load(&spot->no_memory) ? NULL : calloc(1, sizeof(*mine));

    if (!mine)
        return ZLINK_CAPACITY_EXCEEDED;
    if (spot->meddles_with) {
        zlink_timer_options_t options = {.first_delay_ms = 3};
        zlink_check(zlink_spot_timers_start(spot->meddles_with->timers, "beat", &options, on_tick) == ZLINK_OK);
    }
    mine->spot = spot;
    mine->timer = timer;
    zlink_turn_init(&mine->turn, run_tick, tick_ended);
    zlink_status_t status =
        zlink_spot_serial_executor_execute_timer(&spot->executor, zlink_spot_timer_name(timer), &mine->turn);
    if (status != ZLINK_OK) {
        atomic_fetch_add(&spot->refused, 1);
        free(mine);
    } else {
        atomic_fetch_add(&spot->submitted, 1);
    }
    return status;
}

static inline void timer_gone(void *context, const char *timer_name)
{
    spot_t *spot = context;
    zlink_spot_serial_executor_remove_timer(&spot->executor, timer_name);
}

/* ---- the Spot ---- */

static inline void spot_open_as(spot_t *spot, zlink_exec_fixture_t *fixture, zlink_spot_execution_kind_t kind,
                                zlink_user_spot_execution_mode_t mode)
{
    zlink_spot_timer_owner_t owner = {admission_open, submit, timer_gone, spot};

    memset(spot, 0, sizeof(*spot));
    spot->fixture = fixture;
    sem_init(&spot->standing, 0, 0);
    sem_init(&spot->let_go, 0, 0);
    sem_init(&spot->closed, 0, 0);
    assert_int_equal(kind == ZLINK_EXECUTION_USER
                         ? zlink_spot_serial_executor_init_user(&spot->executor, fixture->pool, &fixture->policy, mode)
                         : zlink_spot_serial_executor_init(&spot->executor, fixture->pool, &fixture->policy, kind),
                     ZLINK_OK);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(zlink_spot_serial_executor_init(&spot->fences[i], fixture->pool,
                                                         &zlink_execution_lane_policy_default,
                                                         ZLINK_EXECUTION_INSTANCE),
                         ZLINK_OK);
    spot->timers = zlink_spot_timers_create(fixture->pool, &owner, TIMERS_MAX);
    assert_non_null(spot->timers);
}

static inline void spot_open(spot_t *spot, zlink_exec_fixture_t *fixture)
{
    spot_open_as(spot, fixture, ZLINK_EXECUTION_INSTANCE, ZLINK_SPOT_WIDE);
}

static inline void spot_closed(zlink_spot_serial_executor_t *executor)
{
    sem_post(&ZLINK_CONTAINER_OF(executor, spot_t, executor)->closed);
}

static inline void spot_close(spot_t *spot)
{
    zlink_spot_timers_close(spot->timers);
    zlink_spot_serial_executor_close(&spot->executor, spot_closed);
    zlink_test_wait(&spot->closed);
    assert_int_equal(zlink_spot_timers_count(spot->timers), 0);
    zlink_spot_timers_let_go(spot->timers);
}

static inline void note(spot_t *spot, const zlink_tick_t *tick)
{
    unsigned began = atomic_load(&spot->began);
    zlink_check(began < TICKS_MAX);
    spot->ticks[began] = *tick;
    atomic_store(&spot->began, began + 1);
}

static inline zlink_status_t on_tick(zlink_turn_t *turn, void *self, const zlink_tick_t *tick)
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

static inline zlink_status_t on_stale_tick(zlink_turn_t *turn, void *self, const zlink_tick_t *tick)
{
    (void)turn, (void)self, (void)tick;
    zlink_check(false && "a tick of an earlier generation began");
    return ZLINK_OK;
}

/* Waits in the Spot's mode until the test completes the wait. */
static inline zlink_status_t on_tick_that_waits(zlink_turn_t *turn, void *self, const zlink_tick_t *tick)
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

static inline void start_with(spot_t *spot, const char *name, zlink_timer_options_t options,
                              zlink_timer_handler_t handler)
{
    assert_int_equal(zlink_spot_timers_start(spot->timers, name, &options, handler), ZLINK_OK);
}

static inline void start(spot_t *spot, const char *name, zlink_timer_overrun_policy_t policy,
                         uint32_t max_catch_up_ticks)
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

static inline zlink_status_t run_errand(zlink_turn_t *turn)
{
    errand_t *errand = ZLINK_CONTAINER_OF(turn, errand_t, turn);

    if (errand->stands) {
        sem_post(&errand->ran);
        zlink_test_wait(&errand->let_go);
    }
    return ZLINK_OK;
}

static inline void errand_ended(zlink_turn_t *turn, zlink_status_t status)
{
    errand_t *errand = ZLINK_CONTAINER_OF(turn, errand_t, turn);

    zlink_check(status == ZLINK_OK);
    sem_post(&errand->ran);
}

static inline void send_errand(errand_t *errand, zlink_spot_serial_executor_t *executor, bool stands)
{
    memset(errand, 0, sizeof(*errand));
    zlink_turn_init(&errand->turn, run_errand, errand_ended);
    errand->stands = stands;
    sem_init(&errand->ran, 0, 0);
    sem_init(&errand->let_go, 0, 0);
    assert_int_equal(zlink_spot_serial_executor_execute_spot(executor, &errand->turn, 0), ZLINK_OK);
}

static inline void let_errand_go(errand_t *errand)
{
    sem_post(&errand->let_go);
    zlink_test_wait(&errand->ran);
}

/* The one worker that is free has looked at the clock since this began, and has run what came of it: between the turns
 * of two owners it looks for due deadlines, and what they queue stands before the next of these. */
static inline void settle(spot_t *spot)
{
    for (unsigned i = 0; i < 4; i++) {
        errand_t errand;
        send_errand(&errand, &spot->fences[i % 2], false);
        zlink_test_wait(&errand.ran);
    }
}

static inline void advance(spot_t *spot, uint64_t ms)
{
    zlink_exec_fixture_advance(spot->fixture, ms);
    settle(spot);
}

static inline void assert_tick(const spot_t *spot, unsigned number, uint64_t delivery, uint64_t scheduled,
                               uint64_t skipped)
{
    assert_true(atomic_load(&spot->began) > number);
    assert_int_equal(spot->ticks[number].delivery_index, delivery);
    assert_int_equal(spot->ticks[number].scheduled_index, scheduled);
    assert_int_equal(spot->ticks[number].skipped_ticks, skipped);
}

#endif
