#include <stdbool.h>
#include <string.h>

#include "exec/execution_lane_policy.h"
#include "tests/unit/harness.h"

typedef struct field {
    const char *name;
    size_t offset;
    bool wide; /* 64 bits */
    uint64_t most;
} field_t;

#define FIELD(NAME, WIDE, MOST)                                                                                        \
    {                                                                                                                  \
#NAME, offsetof(zlink_execution_lane_policy_t, NAME), WIDE, MOST                                               \
    }

static const field_t must_be_positive[] = {
    FIELD(application_message_capacity, false, 15728639), FIELD(application_byte_capacity, true, UINT64_C(1) << 37),
    FIELD(lifecycle_message_capacity, false, 15728639),   FIELD(lifecycle_byte_capacity, true, UINT64_C(1) << 37),
    FIELD(lifecycle_burst_limit, false, UINT32_MAX),      FIELD(owner_time_budget_ms, false, UINT32_MAX),
};

#define FIELDS (sizeof(must_be_positive) / sizeof(must_be_positive[0]))

static zlink_execution_lane_policy_t with(const field_t *field, uint64_t value)
{
    zlink_execution_lane_policy_t policy = zlink_execution_lane_policy_default;
    uint32_t narrow = (uint32_t)value;

    if (field->wide)
        memcpy((char *)&policy + field->offset, &value, sizeof(value));
    else
        memcpy((char *)&policy + field->offset, &narrow, sizeof(narrow));
    return policy;
}

static void expect_valid(zlink_execution_lane_policy_t policy)
{
    const char *bad = "";

    assert_int_equal(zlink_execution_lane_policy_validate(&policy, &bad), ZLINK_OK);
    assert_null(bad);
}

static void expect_refused(zlink_execution_lane_policy_t policy, const char *name)
{
    const char *bad = NULL;

    assert_int_equal(zlink_execution_lane_policy_validate(&policy, &bad), ZLINK_INVALID_OPERATION);
    assert_non_null(bad);
    assert_string_equal(bad, name);
}

/* EX-94: every value that must be positive is refused where it is 0, with its name. */
static void test_ex94_zero_is_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < FIELDS; i++) {
        expect_refused(with(&must_be_positive[i], 0), must_be_positive[i].name);
        expect_valid(with(&must_be_positive[i], 1));
    }
}

/* EX-94: so is one that does not fit the admission word, while the largest that does is allowed. */
static void test_ex94_what_does_not_fit_is_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < FIELDS; i++) {
        const field_t *field = &must_be_positive[i];
        expect_valid(with(field, field->most));
        if (field->most == UINT32_MAX)
            continue; /* there is no more */
        expect_refused(with(field, field->most + 1), field->name);
        expect_refused(with(field, field->wide ? UINT64_MAX : UINT32_MAX), field->name);
    }
}

/* EX-94: the fixed cost is the one value that may be 0. It is bounded, because member Actors' turns reserve it unasked.
 */
static void test_ex94_a_fixed_cost_of_zero_is_allowed(void **state)
{
    zlink_execution_lane_policy_t policy = zlink_execution_lane_policy_default;

    (void)state;
    policy.fixed_work_byte_cost = 0;
    expect_valid(policy);
    policy.fixed_work_byte_cost = 65536;
    expect_valid(policy);
    policy.fixed_work_byte_cost = 65537;
    expect_refused(policy, "fixed_work_byte_cost");
}

/* EX-94: of several bad fields the first is named, so that the line does not change from run to run. */
static void test_ex94_the_first_bad_field_is_named(void **state)
{
    zlink_execution_lane_policy_t policy = {0};

    (void)state;
    expect_refused(policy, "application_message_capacity");
    policy.application_message_capacity = 1;
    expect_refused(policy, "application_byte_capacity");
}

/* EX-94: the defaults are those of contract 003 §7, and valid. */
static void test_ex94_the_defaults(void **state)
{
    const zlink_execution_lane_policy_t *policy = &zlink_execution_lane_policy_default;

    (void)state;
    expect_valid(*policy);
    assert_int_equal(policy->application_message_capacity, 1024);
    assert_int_equal(policy->application_byte_capacity, 64 << 20);
    assert_int_equal(policy->lifecycle_message_capacity, 128);
    assert_int_equal(policy->lifecycle_byte_capacity, 4 << 20);
    assert_int_equal(policy->fixed_work_byte_cost, 256);
    assert_int_equal(policy->lifecycle_burst_limit, 8);
    assert_int_equal(policy->owner_time_budget_ms, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex94_zero_is_refused_by_name),
        cmocka_unit_test(test_ex94_what_does_not_fit_is_refused_by_name),
        cmocka_unit_test(test_ex94_a_fixed_cost_of_zero_is_allowed),
        cmocka_unit_test(test_ex94_the_first_bad_field_is_named),
        cmocka_unit_test(test_ex94_the_defaults),
    };

    return zlink_test_main(tests);
}
