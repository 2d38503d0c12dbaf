/*
 * Meshes without memory: the n-th allocation fails while a mesh is made, while a link comes up, and during a call.
 */
#include "mesh_fixture.h"

#include "base/memory.h"

/* The n-th allocation fails while a link comes up, on either side: nothing leaks, and the link comes up in the end. */
static void test_a_link_comes_up_whatever_allocation_failed(void **state)
{
    pair_t pair;

    (void)state;
    pair_init(&pair, true);
    pair_start(&pair);
    for (int64_t n = 0; n < 80; n++) {
        const size_t lost = atomic_load(&pair.caller.lost);
        zlink_memory_fail_after(n);
        zlink_reactor_call(pair.caller.reactor, node_cut_here, &pair.caller);
        fixture_wait_for(&pair.caller.lost, lost + 1);
        node_pass_time_until_ready(&pair.caller, &pair.clock, 1);
        node_pass_time_until_ready(&pair.server, &pair.clock, 1);
        zlink_memory_fail_after(-1);
        assert_int_equal(node_ask(&pair.caller, "prices", "after all"), ZLINK_OK);
    }
    pair_stop(&pair);
}

/* The n-th allocation fails on a call's way: it ends exactly once, and the node serves the next one. */
static void test_a_call_ends_once_whatever_allocation_failed(void **state)
{
    uint8_t *bytes = pattern_make(3, 40000);
    pair_t pair;

    (void)state;
    pair_init(&pair, true);
    pair_start(&pair);
    for (int64_t n = 0; n < 30; n++) {
        test_call_t call;
        test_call_init(&call, &pair.caller, "prices", "");
        call.call.payload = bytes;
        call.call.payload_bytes = 40000 - (size_t)n;
        zlink_memory_fail_after(n);
        test_call_submit(&call);
        const time_t until = time(NULL) + FIXTURE_PATIENCE_S;
        while (atomic_load(&call.completions) == 0) {
            assert_true(time(NULL) < until);
            virtual_clock_advance(&pair.clock, pair.caller.reactor, 50);
        }
        zlink_memory_fail_after(-1);
        node_pass_time_until_ready(&pair.caller, &pair.clock, 1);
        node_pass_time_until_ready(&pair.server, &pair.clock, 1);
        assert_int_equal(node_ask(&pair.caller, "prices", "next"), ZLINK_OK);
        test_call_release(&call);
    }
    pair_stop(&pair);
    free(bytes);
}

static void test_a_mesh_that_cannot_be_made_leaves_nothing(void **state)
{
    static const char *const many[] = {"a", "b", "c"};
    static const char *const peers[] = {"127.0.0.1:1", "127.0.0.1:2"};
    static const char *const bad[] = {"127.0.0.1:1", "no port"};
    node_t node;
    size_t refused = 0;

    (void)state;
    node_init(&node, "poor");
    node.options.channels = many;
    node.options.channel_count = 3;
    node.options.peers = peers;
    node.options.peer_count = 2;
    node.reactor = fixture_reactor(NULL);
    for (int64_t n = 0; n < 40; n++) {
        zlink_memory_fail_after(n);
        node_try_start(&node);
        zlink_memory_fail_after(-1);
        if (node.status == ZLINK_OK) {
            zlink_reactor_call(node.reactor, node_close_here, &node);
            fixture_wait(&node.closed);
            zlink_reactor_call(node.reactor, node_destroy_here, &node);
        } else {
            assert_true(node.why.line[0] != '\0');
            refused++;
        }
    }
    assert_in_range(refused, 8, 39);
    node.options.peers = bad;
    node_try_start(&node);
    assert_int_equal(node.status, ZLINK_INVALID_OPERATION);
    assert_non_null(strstr(node.why.line, "no port"));
    node.options.peer_count = 0;
    node.options.listen = "not an address";
    node_try_start(&node);
    assert_int_equal(node.status, ZLINK_INVALID_OPERATION);
    assert_non_null(strstr(node.why.line, "not an address"));
    node_stop(&node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_link_comes_up_whatever_allocation_failed),
        cmocka_unit_test(test_a_call_ends_once_whatever_allocation_failed),
        cmocka_unit_test(test_a_mesh_that_cannot_be_made_leaves_nothing),
    };
    zlink_log_set_level(ZLINK_LOG_OFF);
    return zlink_test_main(tests);
}
