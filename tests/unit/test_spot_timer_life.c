#include "spot_timer_fixture.h"

#include <sched.h>

#define YIELDS_MAX 10000u

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

/* EX-87: the same where the expiry itself is on its way when the timer is started anew: both are of one batch. */
static void test_ex87_an_expiry_of_the_past_counts_for_nothing(void **state)
{
    zlink_exec_fixture_t fixture;
    spot_t spot;
    spot_t other;

    (void)state;
    zlink_exec_fixture_open(&fixture, 1, 0);
    spot_open(&spot, &fixture);
    spot_open(&other, &fixture);
    spot.meddles_with = &other;
    for (unsigned i = 0; i < 2; i++) { /* one on either side of it in the batch, whatever its order */
        start_with(&spot, i ? "after" : "before", (zlink_timer_options_t){.first_delay_ms = PERIOD_MS}, on_tick);
        if (i == 0)
            start_with(&other, "beat", (zlink_timer_options_t){PERIOD_MS, PERIOD_MS, 0, 0, false}, on_stale_tick);
    }
    advance(&spot, PERIOD_MS);
    assert_int_equal(atomic_load(&spot.began), 2);
    assert_int_equal(atomic_load(&other.began), 0);
    advance(&spot, 3);
    assert_int_equal(atomic_load(&other.began), 1);
    assert_tick(&other, 0, 1, 1, 0);
    spot_close(&spot);
    spot_close(&other);
    zlink_exec_fixture_close(&fixture);
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

/* ---- EX-5, EX-6: whose gate ---- */

static zlink_status_t on_tick_that_stands(zlink_turn_t *turn, void *self, const zlink_tick_t *tick)
{
    spot_t *spot = self;

    (void)turn, (void)tick;
    atomic_fetch_add(&spot->began, 1);
    sem_post(&spot->standing);
    zlink_test_wait(&spot->let_go);
    return ZLINK_OK;
}

static zlink_status_t on_tick_that_counts(zlink_turn_t *turn, void *self, const zlink_tick_t *tick)
{
    (void)turn, (void)tick;
    atomic_fetch_add(&((spot_t *)self)->began, 1);
    return ZLINK_OK;
}

/* EX-5, EX-6: PerActor: timers of different names, and the Spot's own turns, run beside each other, those of one name
 * one after the other, and a cancelled name leaves nothing behind. In every other Spot one gate is for all. */
static void test_ex5_ex6_names_overlap_in_per_actor_only(void **state)
{
    const struct {
        zlink_spot_execution_kind_t kind;
        zlink_user_spot_execution_mode_t mode;
        unsigned together;
    } cases[] = {
        {ZLINK_EXECUTION_USER, ZLINK_PER_ACTOR, 2},
        {ZLINK_EXECUTION_USER, ZLINK_SPOT_WIDE, 1},
        {ZLINK_EXECUTION_ENTRY, ZLINK_SPOT_WIDE, 1},
        {ZLINK_EXECUTION_INSTANCE, ZLINK_SPOT_WIDE, 1},
    };
    zlink_timer_options_t options = {.first_delay_ms = PERIOD_MS, .period_ms = PERIOD_MS};
    zlink_exec_fixture_t fixture;
    spot_t spot;

    (void)state;
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        unsigned together = cases[c].together;
        errand_t errand;
        zlink_exec_fixture_open(&fixture, 3, 0);
        spot_open_as(&spot, &fixture, cases[c].kind, cases[c].mode);
        start_with(&spot, "a", options, on_tick_that_stands);
        start_with(&spot, "b", options, on_tick_that_stands);
        zlink_exec_fixture_advance(&fixture, PERIOD_MS);
        for (unsigned i = 0; i < together; i++)
            zlink_test_wait(&spot.standing);
        while (atomic_load(&spot.submitted) < 2) /* one worker may still be about to: it would find a new start */
            sched_yield();
        send_errand(&errand, &spot.executor, false);
        if (together > 1)
            zlink_test_wait(&errand.ran);
        for (unsigned i = 0; i < 3; i++) {
            zlink_exec_fixture_advance(&fixture, PERIOD_MS);
            settle(&spot);
        }
        assert_int_equal(atomic_load(&spot.began), together);
        if (together == 1)
            assert_int_equal(sem_trywait(&errand.ran), -1);
        assert_int_equal(zlink_spot_timers_cancel(spot.timers, "b"), ZLINK_OK);
        start_with(&spot, "a", options, on_tick_that_counts); /* each name goes on, in line, after its own */
        for (unsigned i = 0; i < 2; i++)
            sem_post(&spot.let_go);
        if (together == 1)
            zlink_test_wait(&errand.ran);
        while (atomic_load(&spot.ended) < 2)
            settle(&spot);
        start_with(&spot, "b", options, on_tick_that_counts);
        unsigned before = atomic_load(&spot.began);
        while (atomic_load(&spot.began) < before + 4) {
            unsigned began = atomic_load(&spot.began);
            zlink_exec_fixture_advance(&fixture, PERIOD_MS);
            settle(&spot);
            /* Time that runs ahead of slow workers makes every tick one of the past, which does not begin. */
            for (unsigned i = 0; i < YIELDS_MAX && atomic_load(&spot.began) == began; i++)
                sched_yield();
        }
        spot_close(&spot);
        zlink_exec_fixture_close(&fixture);
    }
}

/* EX-5: what a name needs under PerActor goes with its timer: with room for one name, one comes after the other. */
static void test_ex5_a_name_that_is_gone_makes_room(void **state)
{
    zlink_exec_fixture_t fixture;
    spot_t spot;

    (void)state;
    zlink_exec_fixture_open(&fixture, 2, 0);
    spot_open_as(&spot, &fixture, ZLINK_EXECUTION_USER, ZLINK_PER_ACTOR);
    assert_int_equal(zlink_spot_serial_executor_set_limits(&spot.executor, 1, 1), ZLINK_OK);
    for (unsigned i = 0; i < 5; i++) {
        char name[] = "n0";
        name[1] = (char)('0' + i);
        start_with(&spot, name, (zlink_timer_options_t){.period_ms = i % 2 ? PERIOD_MS : 0}, on_tick_that_counts);
        while (atomic_load(&spot.began) <= i) { /* it is held until the one before is gone */
            zlink_exec_fixture_advance(&fixture, ZLINK_TIMER_HOLD_MS);
            settle(&spot);
        }
        if (i % 2)
            assert_int_equal(zlink_spot_timers_cancel(spot.timers, name), ZLINK_OK);
        while (zlink_spot_timers_count(spot.timers) > 0)
            settle(&spot);
        atomic_store(&spot.began, i + 1);
    }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex87_queued_ticks_of_the_past_do_not_begin),
        cmocka_unit_test(test_ex87_an_expiry_of_the_past_counts_for_nothing),
        cmocka_unit_test(test_ex87_a_running_tick_finishes),
        cmocka_unit_test(test_ex87_a_handler_and_its_own_timer),
        cmocka_unit_test(test_ex5_ex6_names_overlap_in_per_actor_only),
        cmocka_unit_test(test_ex5_a_name_that_is_gone_makes_room),
        cmocka_unit_test(test_ex25_a_waiting_tick_is_not_overlapped),
        cmocka_unit_test(test_ex25_ex87_generations_do_not_overlap),
    };

    return zlink_test_main(tests);
}
