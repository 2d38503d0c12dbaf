#include <stdlib.h>

#include "base/container_of.h"
#include "base/timer_wheel.h"
#include "tests/unit/harness.h"

#define TIMERS 2000

typedef struct zlink_probe {
    zlink_timer_t timer;
    zlink_timer_wheel_t *wheel;
    uint64_t fired_at_ms;
    unsigned fired;
    zlink_timer_t *cancels; /* what its callback cancels */
    uint64_t again_ms;      /* what its callback starts itself for */
} zlink_probe_t;

static void fire(zlink_timer_t *timer)
{
    zlink_probe_t *probe = ZLINK_CONTAINER_OF(timer, zlink_probe_t, timer);
    probe->fired++;
    probe->fired_at_ms = probe->wheel->now_ms;
    if (probe->cancels)
        zlink_timer_wheel_cancel(probe->wheel, probe->cancels);
    if (probe->again_ms) {
        uint64_t again_ms = probe->again_ms;
        probe->again_ms = 0;
        zlink_timer_wheel_start(probe->wheel, timer, again_ms);
    }
}

static zlink_probe_t make(zlink_timer_wheel_t *wheel)
{
    return (zlink_probe_t){.timer.fire = fire, .wheel = wheel};
}

static void test_fires_at_its_deadline_never_before(void **state)
{
    (void)state;
    static const uint64_t delays_ms[] = {1,
                                         2,
                                         63,
                                         64,
                                         65,
                                         127,
                                         128,
                                         4095,
                                         4096,
                                         4097,
                                         262143,
                                         262144,
                                         16777216,
                                         1073741824ull,
                                         68719476735ull,
                                         90000000000ull};
    for (size_t i = 0; i < sizeof(delays_ms) / sizeof(delays_ms[0]); i++) {
        for (uint64_t start_ms = 0; start_ms < 200; start_ms += 37) {
            zlink_timer_wheel_t wheel;
            zlink_timer_wheel_init(&wheel, start_ms);
            zlink_probe_t probe = make(&wheel);
            zlink_timer_wheel_start(&wheel, &probe.timer, start_ms + delays_ms[i]);
            assert_int_equal(zlink_timer_wheel_advance(&wheel, start_ms + delays_ms[i] - 1), 0);
            assert_true(zlink_timer_is_running(&probe.timer));
            assert_true(zlink_timer_wheel_next_ms(&wheel) <= start_ms + delays_ms[i]);
            assert_int_equal(zlink_timer_wheel_advance(&wheel, start_ms + delays_ms[i]), 1);
            assert_int_equal(probe.fired_at_ms, start_ms + delays_ms[i]);
            assert_false(zlink_timer_is_running(&probe.timer));
            assert_int_equal(zlink_timer_wheel_next_ms(&wheel), UINT64_MAX);
        }
    }
}

static void test_a_past_deadline_fires_at_the_next_advance(void **state)
{
    (void)state;
    zlink_timer_wheel_t wheel;
    zlink_timer_wheel_init(&wheel, 1000);
    zlink_probe_t probe = make(&wheel);
    zlink_timer_wheel_start(&wheel, &probe.timer, 3);
    assert_int_equal(zlink_timer_wheel_next_ms(&wheel), 1000);
    assert_int_equal(zlink_timer_wheel_advance(&wheel, 1000), 1);
    assert_int_equal(probe.fired, 1);
}

static void test_a_callback_may_restart_itself_and_cancel_others(void **state)
{
    (void)state;
    zlink_timer_wheel_t wheel;
    zlink_timer_wheel_init(&wheel, 0);
    zlink_probe_t a = make(&wheel), b = make(&wheel), c = make(&wheel);
    a.again_ms = 5; /* over by then: it must not spin */
    zlink_timer_wheel_start(&wheel, &b.timer, 10);
    zlink_timer_wheel_start(&wheel, &c.timer, 10);
    zlink_timer_wheel_start(&wheel, &a.timer, 10); /* the newest of a slot fires first */
    a.cancels = &b.timer;
    assert_int_equal(zlink_timer_wheel_advance(&wheel, 10), 2);
    assert_int_equal(b.fired, 0);
    assert_int_equal(c.fired, 1);
    assert_int_equal(a.fired, 1);
    assert_int_equal(zlink_timer_wheel_advance(&wheel, 10), 1);
    assert_int_equal(a.fired, 2);
    assert_int_equal(wheel.count, 0);
}

static void test_starting_again_moves_it(void **state)
{
    (void)state;
    zlink_timer_wheel_t wheel;
    zlink_timer_wheel_init(&wheel, 0);
    zlink_probe_t probe = make(&wheel);
    zlink_timer_wheel_start(&wheel, &probe.timer, 10);
    zlink_timer_wheel_start(&wheel, &probe.timer, 5000);
    assert_int_equal(wheel.count, 1);
    assert_int_equal(zlink_timer_wheel_advance(&wheel, 4999), 0);
    assert_int_equal(zlink_timer_wheel_advance(&wheel, 9000), 1);
    zlink_timer_wheel_cancel(&wheel, &probe.timer); /* harmless */
    assert_int_equal(wheel.count, 0);
}

/* Against the plain rule "fires in the first advance at or past its deadline", with random steps and cancellations. */
static void test_many_timers_against_the_rule(void **state)
{
    (void)state;
    static zlink_probe_t probes[TIMERS];
    static uint64_t deadlines_ms[TIMERS];
    unsigned seed = 7;
    for (int round = 0; round < 20; round++) {
        zlink_timer_wheel_t wheel;
        uint64_t now_ms = (uint64_t)rand_r(&seed);
        zlink_timer_wheel_init(&wheel, now_ms);
        for (size_t i = 0; i < TIMERS; i++) {
            probes[i] = make(&wheel);
            deadlines_ms[i] = now_ms + (uint64_t)rand_r(&seed) % (round % 2 ? 500 : 500000);
            zlink_timer_wheel_start(&wheel, &probes[i].timer, deadlines_ms[i]);
        }
        while (wheel.count) {
            uint64_t next_ms = zlink_timer_wheel_next_ms(&wheel);
            uint64_t step_ms = (uint64_t)rand_r(&seed) % 3 ? next_ms - now_ms : (uint64_t)rand_r(&seed) % 2000;
            now_ms += step_ms;
            size_t victim = (size_t)rand_r(&seed) % TIMERS;
            if (zlink_timer_is_running(&probes[victim].timer)) {
                zlink_timer_wheel_cancel(&wheel, &probes[victim].timer);
                deadlines_ms[victim] = UINT64_MAX;
            }
            zlink_timer_wheel_advance(&wheel, now_ms);
            for (size_t i = 0; i < TIMERS; i++)
                assert_int_equal(probes[i].fired, deadlines_ms[i] <= now_ms);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fires_at_its_deadline_never_before),
        cmocka_unit_test(test_a_past_deadline_fires_at_the_next_advance),
        cmocka_unit_test(test_a_callback_may_restart_itself_and_cancel_others),
        cmocka_unit_test(test_starting_again_moves_it),
        cmocka_unit_test(test_many_timers_against_the_rule),
    };
    return zlink_test_main(tests);
}
