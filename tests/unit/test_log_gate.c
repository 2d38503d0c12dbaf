/* How many lines pass. */
#include "harness.h"

#include "base/log_gate.h"

static unsigned pass_many(zlink_log_gate_t *gate, uint64_t now_ms, unsigned lines, uint64_t *held_back)
{
    unsigned passed = 0;

    for (unsigned i = 0; i < lines; i++)
        passed += zlink_log_gate_pass(gate, now_ms, held_back);
    return passed;
}

static void test_log_gate_lets_a_burst_through_and_then_a_rate(void **state)
{
    zlink_log_gate_t gate = {0};
    uint64_t held_back = 99;

    (void)state;
    assert_int_equal(pass_many(&gate, 5000, 10, &held_back), 10);
    assert_int_equal(held_back, 0);
    assert_int_equal(pass_many(&gate, 5000, 1000, &held_back), ZLINK_LOG_GATE_BURST - 10);
    assert_int_equal(pass_many(&gate, 6000, 1, &held_back), 1);
    assert_int_equal(held_back, 1000 - (ZLINK_LOG_GATE_BURST - 10));
    assert_int_equal(pass_many(&gate, 6000, 100, &held_back), ZLINK_LOG_GATE_PER_SECOND - 1);
    assert_int_equal(pass_many(&gate, 4000, 1, &held_back), 0); /* a time that goes back gives nothing */
    assert_int_equal(pass_many(&gate, 1000000, 1000, &held_back), ZLINK_LOG_GATE_BURST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log_gate_lets_a_burst_through_and_then_a_rate),
    };

    return zlink_test_main(tests);
}
