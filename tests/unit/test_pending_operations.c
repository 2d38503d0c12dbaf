/*
 * The table of calls that wait for a reply: one taker per id, ids that do not come back, the limit, no memory.
 */
#include <stdlib.h>

#include "harness.h"

#include "base/domain.h"
#include "base/memory.h"
#include "server/mesh/pending_operations.h"

static void test_register_find_take(void **state)
{
    zlink_pending_operations_t operations;
    zlink_outbound_call_t first = {0}, second = {0};

    (void)state;
    zlink_pending_operations_init(&operations, 16);
    assert_null(zlink_pending_operations_find(&operations, 0));
    assert_null(zlink_pending_operations_find(&operations, 1));
    assert_null(zlink_pending_operations_any(&operations));

    assert_int_equal(zlink_pending_operations_register(&operations, &first), ZLINK_OK);
    assert_int_equal(zlink_pending_operations_register(&operations, &second), ZLINK_OK);
    assert_true(first.reply_route_id != 0 && second.reply_route_id != 0);
    assert_true(first.reply_route_id != second.reply_route_id);
    assert_ptr_equal(zlink_pending_operations_find(&operations, first.reply_route_id), &first);
    assert_ptr_equal(zlink_pending_operations_take(&operations, second.reply_route_id), &second);
    assert_ptr_equal(zlink_pending_operations_any(&operations), &first);
    assert_ptr_equal(zlink_pending_operations_take(&operations, first.reply_route_id), &first);
    assert_null(zlink_pending_operations_any(&operations));
    zlink_pending_operations_destroy(&operations);
}

/* EX-48: whoever comes second finds nothing, and no id of the past or of nowhere is found either. */
static void test_ex48_only_one_taker(void **state)
{
    zlink_pending_operations_t operations;
    zlink_outbound_call_t call = {0}, next = {0};

    (void)state;
    zlink_pending_operations_init(&operations, 1);
    assert_int_equal(zlink_pending_operations_register(&operations, &call), ZLINK_OK);
    const uint64_t old = call.reply_route_id;
    assert_ptr_equal(zlink_pending_operations_take(&operations, old), &call);
    assert_null(zlink_pending_operations_take(&operations, old));

    /* The same slot, another call: the old id does not reach it. */
    assert_int_equal(zlink_pending_operations_register(&operations, &next), ZLINK_OK);
    assert_true(next.reply_route_id != old);
    assert_null(zlink_pending_operations_find(&operations, old));
    assert_null(zlink_pending_operations_take(&operations, old));
    assert_null(zlink_pending_operations_find(&operations, UINT64_MAX));
    assert_null(zlink_pending_operations_find(&operations, next.reply_route_id + 1));
    assert_ptr_equal(zlink_pending_operations_take(&operations, next.reply_route_id), &next);
    zlink_pending_operations_destroy(&operations);
}

/* IC-10: an entry is registered by infrastructure only; a turn that tries is told so at once and changes nothing. */
static void test_ic10_no_turn_registers_an_operation(void **state)
{
    zlink_pending_operations_t operations;
    zlink_outbound_call_t call = {0};

    (void)state;
    zlink_pending_operations_init(&operations, 1);
    zlink_domain_enter(ZLINK_DOMAIN_APPLICATION);
    assert_int_equal(zlink_pending_operations_register(&operations, &call), ZLINK_INVALID_OPERATION);
    zlink_domain_enter(ZLINK_DOMAIN_INFRASTRUCTURE);
    assert_int_equal(operations.count, 0);
    assert_int_equal(call.reply_route_id, 0);
    assert_int_equal(zlink_pending_operations_register(&operations, &call), ZLINK_OK);
    zlink_domain_enter(ZLINK_DOMAIN_NONE);
    assert_ptr_equal(zlink_pending_operations_take(&operations, call.reply_route_id), &call);
    zlink_pending_operations_destroy(&operations);
}

static int by_number(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* Ids stay apart over many rounds of a small table. */
static void test_ids_are_not_used_again(void **state)
{
    enum { CALLS = 3, ROUNDS = 4000 };
    static uint64_t ids[CALLS * ROUNDS];
    zlink_pending_operations_t operations;
    zlink_outbound_call_t calls[CALLS] = {{0}};
    size_t count = 0;

    (void)state;
    zlink_pending_operations_init(&operations, CALLS);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CALLS; i++) {
            assert_int_equal(zlink_pending_operations_register(&operations, &calls[i]), ZLINK_OK);
            ids[count++] = calls[i].reply_route_id;
        }
        for (int i = 0; i < CALLS; i++)
            assert_ptr_equal(zlink_pending_operations_take(&operations, calls[i].reply_route_id), &calls[i]);
    }
    qsort(ids, count, sizeof(ids[0]), by_number);
    assert_true(ids[0] != 0);
    for (size_t i = 1; i < count; i++)
        assert_true(ids[i] != ids[i - 1]);
    zlink_pending_operations_destroy(&operations);
}

static void test_the_limit_and_growth(void **state)
{
    enum { LIMIT = 1000 }; /* not a power of two: the last growth is a short one */
    zlink_pending_operations_t operations;
    zlink_outbound_call_t *calls = calloc(LIMIT + 1, sizeof(*calls));

    (void)state;
    zlink_pending_operations_init(&operations, LIMIT);
    for (int i = 0; i < LIMIT; i++)
        assert_int_equal(zlink_pending_operations_register(&operations, &calls[i]), ZLINK_OK);
    assert_int_equal(zlink_pending_operations_register(&operations, &calls[LIMIT]), ZLINK_CAPACITY_EXCEEDED);
    assert_int_equal(calls[LIMIT].reply_route_id, 0);
    assert_int_equal(operations.count, LIMIT);
    for (int i = 0; i < LIMIT; i++)
        assert_ptr_equal(zlink_pending_operations_find(&operations, calls[i].reply_route_id), &calls[i]);

    assert_non_null(zlink_pending_operations_take(&operations, calls[500].reply_route_id));
    assert_int_equal(zlink_pending_operations_register(&operations, &calls[LIMIT]), ZLINK_OK);
    calls[500] = calls[LIMIT];

    /* The end of a mesh: any, again and again, reaches each one once. */
    int taken = 0;
    for (zlink_outbound_call_t *call; (call = zlink_pending_operations_any(&operations)) != NULL; taken++)
        assert_ptr_equal(zlink_pending_operations_take(&operations, call->reply_route_id), call);
    assert_int_equal(taken, LIMIT);
    assert_int_equal(operations.count, 0);
    zlink_pending_operations_destroy(&operations);
    free(calls);
}

static void test_no_memory_refuses_and_changes_nothing(void **state)
{
    enum { FIRST = 64 }; /* what the table is made with at first */
    zlink_pending_operations_t operations;
    zlink_outbound_call_t *calls = calloc(FIRST + 1, sizeof(*calls));

    (void)state;
    zlink_pending_operations_init(&operations, 256);
    zlink_memory_fail_after(0);
    assert_int_equal(zlink_pending_operations_register(&operations, &calls[0]), ZLINK_CAPACITY_EXCEEDED);
    zlink_memory_fail_after(-1);
    assert_int_equal(operations.count, 0);
    for (int i = 0; i < FIRST; i++)
        assert_int_equal(zlink_pending_operations_register(&operations, &calls[i]), ZLINK_OK);
    zlink_memory_fail_after(0);
    assert_int_equal(zlink_pending_operations_register(&operations, &calls[FIRST]), ZLINK_CAPACITY_EXCEEDED);
    zlink_memory_fail_after(-1);
    for (int i = 0; i < FIRST; i++)
        assert_ptr_equal(zlink_pending_operations_find(&operations, calls[i].reply_route_id), &calls[i]);
    assert_int_equal(zlink_pending_operations_register(&operations, &calls[FIRST]), ZLINK_OK);
    for (int i = 0; i <= FIRST; i++)
        assert_ptr_equal(zlink_pending_operations_take(&operations, calls[i].reply_route_id), &calls[i]);
    zlink_pending_operations_destroy(&operations);
    free(calls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_register_find_take),
        cmocka_unit_test(test_ex48_only_one_taker),
        cmocka_unit_test(test_ic10_no_turn_registers_an_operation),
        cmocka_unit_test(test_ids_are_not_used_again),
        cmocka_unit_test(test_the_limit_and_growth),
        cmocka_unit_test(test_no_memory_refuses_and_changes_nothing),
    };
    return zlink_test_main(tests);
}
