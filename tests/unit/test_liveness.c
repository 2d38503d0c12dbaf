/* Liveness and backoff: state over a time that the test gives. */
#include "harness.h"

#include "net/backoff.h"
#include "net/liveness.h"

/* TR-47: a probe every 5 s from readiness, with an id that is not 0. */
static void test_tr47_probe_every_five_seconds(void **state)
{
    zlink_liveness_t liveness;
    uint64_t id = 0;
    uint64_t last = 0;

    (void)state;
    zlink_liveness_start(&liveness, 1000);
    for (uint64_t now = 6000; now <= 101000; now += 5000) {
        assert_int_equal(zlink_liveness_next_ms(&liveness), now);
        assert_int_equal(zlink_liveness_check(&liveness, now - 1, &id), ZLINK_LIVENESS_WAIT);
        assert_int_equal(zlink_liveness_check(&liveness, now, &id), ZLINK_LIVENESS_PROBE);
        assert_true(id != 0 && id != last);
        assert_int_equal(zlink_liveness_check(&liveness, now, &last), ZLINK_LIVENESS_WAIT);
        last = id;
        assert_true(zlink_liveness_acknowledge(&liveness, id, now + 10));
    }
}

/* TR-48: without an acknowledgement the same id is sent again. */
static void test_tr48_unacknowledged_probe_repeats_its_id(void **state)
{
    zlink_liveness_t liveness;
    uint64_t first = 0;
    uint64_t second = 0;

    (void)state;
    zlink_liveness_start(&liveness, 0);
    assert_int_equal(zlink_liveness_check(&liveness, 5000, &first), ZLINK_LIVENESS_PROBE);
    assert_int_equal(zlink_liveness_check(&liveness, 10000, &second), ZLINK_LIVENESS_PROBE);
    assert_int_equal(first, second);
    assert_true(zlink_liveness_acknowledge(&liveness, first, 10001));
    assert_int_equal(zlink_liveness_check(&liveness, 15000, &second), ZLINK_LIVENESS_PROBE);
    assert_int_not_equal(first, second);
}

/* TR-49: stale, repeated and foreign acknowledgements move nothing. */
static void test_tr49_only_the_first_matching_acknowledgement_counts(void **state)
{
    zlink_liveness_t liveness;
    uint64_t id = 0;
    uint64_t next = 0;

    (void)state;
    zlink_liveness_start(&liveness, 0);
    assert_false(zlink_liveness_acknowledge(&liveness, 1, 100)); /* before any probe */
    assert_int_equal(zlink_liveness_check(&liveness, 5000, &id), ZLINK_LIVENESS_PROBE);
    assert_false(zlink_liveness_acknowledge(&liveness, 0, 5100));
    assert_false(zlink_liveness_acknowledge(&liveness, id + 1, 5100));
    assert_true(zlink_liveness_acknowledge(&liveness, id, 6000));
    assert_false(zlink_liveness_acknowledge(&liveness, id, 7000)); /* repeated */
    assert_int_equal(liveness.deadline_ms, 21000);
    assert_int_equal(zlink_liveness_check(&liveness, 10000, &next), ZLINK_LIVENESS_PROBE);
    assert_false(zlink_liveness_acknowledge(&liveness, id, 11000)); /* stale */
    assert_int_equal(zlink_liveness_check(&liveness, 20999, &next), ZLINK_LIVENESS_PROBE);
    assert_int_equal(zlink_liveness_check(&liveness, 21000, &next), ZLINK_LIVENESS_EXPIRED);
}

/* TR-50: nothing but acknowledgements moves the deadline: 15 s after readiness it is over. */
static void test_tr50_expires_at_fifteen_seconds(void **state)
{
    zlink_liveness_t liveness;
    uint64_t id = 0;

    (void)state;
    zlink_liveness_start(&liveness, 500);
    assert_int_equal(zlink_liveness_check(&liveness, 15499, &id), ZLINK_LIVENESS_PROBE);
    assert_int_equal(zlink_liveness_next_ms(&liveness), 15500);
    assert_int_equal(zlink_liveness_check(&liveness, 15500, &id), ZLINK_LIVENESS_EXPIRED);
}

/* EX-36: where an acknowledgement may have been held up the deadline is what it would be after one, and the probe stays
 * the one that it was. */
static void test_ex36_a_deadline_that_is_put_off(void **state)
{
    zlink_liveness_t liveness;
    uint64_t id = 0;

    (void)state;
    zlink_liveness_start(&liveness, 0);
    assert_int_equal(zlink_liveness_check(&liveness, 5000, &id), ZLINK_LIVENESS_PROBE);
    zlink_liveness_put_off(&liveness, 14000);
    assert_int_equal(zlink_liveness_check(&liveness, 28999, &id), ZLINK_LIVENESS_PROBE);
    assert_int_equal(id, 1);
    assert_int_equal(zlink_liveness_next_ms(&liveness), 29000);
    assert_int_equal(zlink_liveness_check(&liveness, 29000, &id), ZLINK_LIVENESS_EXPIRED);
}

/* The wait doubles from 100 ms to 5 s, each within +-50 %, and starts over when the link settled. */
static void test_backoff_doubles_with_jitter_and_resets(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 50; seed++) {
        zlink_backoff_t backoff;
        uint32_t wait_ms = ZLINK_BACKOFF_FIRST_MS;

        zlink_backoff_init(&backoff, seed * 7919);
        for (int round = 0; round < 2; round++) {
            for (wait_ms = ZLINK_BACKOFF_FIRST_MS; wait_ms < 20000; wait_ms *= 2) {
                const uint32_t base_ms = wait_ms < ZLINK_BACKOFF_MAX_MS ? wait_ms : ZLINK_BACKOFF_MAX_MS;
                const uint32_t got_ms = zlink_backoff_next_ms(&backoff);

                assert_in_range(got_ms, base_ms / 2, base_ms / 2 + base_ms);
            }
            zlink_backoff_reset(&backoff);
        }
    }
}

/* Two nodes do not wait the same times. */
static void test_backoff_spreads(void **state)
{
    zlink_backoff_t one;
    zlink_backoff_t other;
    unsigned same = 0;

    (void)state;
    zlink_backoff_init(&one, 0);
    zlink_backoff_init(&other, 0);
    for (int i = 0; i < 20; i++)
        same += zlink_backoff_next_ms(&one) == zlink_backoff_next_ms(&other) ? 1 : 0;
    assert_true(same < 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tr47_probe_every_five_seconds),
        cmocka_unit_test(test_tr48_unacknowledged_probe_repeats_its_id),
        cmocka_unit_test(test_tr49_only_the_first_matching_acknowledgement_counts),
        cmocka_unit_test(test_tr50_expires_at_fifteen_seconds),
        cmocka_unit_test(test_ex36_a_deadline_that_is_put_off),
        cmocka_unit_test(test_backoff_doubles_with_jitter_and_resets),
        cmocka_unit_test(test_backoff_spreads),
    };

    return zlink_test_main(tests);
}
