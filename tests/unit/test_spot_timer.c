#include "spot_timer_fixture.h"

#include <sched.h>

#include "base/memory.h"

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
        settle(&other); /* by the worker that is free: it was tried, and is held until 1040 at least */
        assert_true(no_memory || atomic_load(&spot.refused) > 0);
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
    zlink_spot_timer_owner_t owner = {admission_open, submit, timer_gone, NULL};
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
        cmocka_unit_test(test_arguments_out_of_range_are_refused),
        cmocka_unit_test(test_the_number_of_timers_is_bounded),
        cmocka_unit_test(test_without_memory_nothing_changes),
    };

    return zlink_test_main(tests);
}
