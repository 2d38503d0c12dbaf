/*
 * How long a worker looks before it sleeps: grows where it pays, and is gone where it does not.
 */
#include "exec/adaptive_spin.h"
#include "tests/unit/harness.h"

#define MAX_NS 20000u

/* Found again and again: up to the longest time and no further. */
static void test_it_grows_while_work_comes(void **state)
{
    zlink_adaptive_spin_t spin;

    (void)state;
    zlink_adaptive_spin_init(&spin, MAX_NS);
    assert_true(spin.ns > 0 && spin.ns < MAX_NS);
    for (int i = 0; i < 10; i++) {
        uint32_t before = spin.ns;
        zlink_adaptive_spin_found(&spin);
        assert_true(spin.ns > before || spin.ns == MAX_NS);
    }
    assert_int_equal(spin.ns, MAX_NS);
}

/* In vain again and again: to nothing, from the longest time as well. */
static void test_it_ends_where_nothing_comes(void **state)
{
    zlink_adaptive_spin_t spin;

    (void)state;
    zlink_adaptive_spin_init(&spin, MAX_NS);
    for (int i = 0; i < 10; i++)
        zlink_adaptive_spin_found(&spin);
    for (int i = 0; i < 4; i++) {
        assert_true(spin.ns > 0);
        zlink_adaptive_spin_in_vain(&spin);
    }
    assert_int_equal(spin.ns, 0);
    zlink_adaptive_spin_in_vain(&spin);
    assert_int_equal(spin.ns, 0);
}

/* A short sleep brings it back, a long one does not; short ones gain on times in vain between them. */
static void test_short_sleeps_bring_it_back(void **state)
{
    zlink_adaptive_spin_t spin = {.max_ns = MAX_NS};

    (void)state;
    zlink_adaptive_spin_slept(&spin, 1000u * MAX_NS);
    assert_int_equal(spin.ns, 0);
    zlink_adaptive_spin_slept(&spin, MAX_NS);
    assert_true(spin.ns > 0);
    for (int i = 0; i < 3; i++) {
        zlink_adaptive_spin_in_vain(&spin);
        zlink_adaptive_spin_slept(&spin, MAX_NS);
    }
    assert_int_equal(spin.ns, MAX_NS);
}

/* Switched off it stays off. */
static void test_off_is_off(void **state)
{
    zlink_adaptive_spin_t spin;

    (void)state;
    zlink_adaptive_spin_init(&spin, 0);
    assert_int_equal(spin.ns, 0);
    zlink_adaptive_spin_slept(&spin, 0);
    zlink_adaptive_spin_found(&spin);
    zlink_adaptive_spin_in_vain(&spin);
    assert_int_equal(spin.ns, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_grows_while_work_comes),
        cmocka_unit_test(test_it_ends_where_nothing_comes),
        cmocka_unit_test(test_short_sleeps_bring_it_back),
        cmocka_unit_test(test_off_is_off),
    };

    return zlink_test_main(tests);
}
