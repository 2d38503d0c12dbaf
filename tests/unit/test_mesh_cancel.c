/*
 * Calls to peers that are given up: before they were handed to a connection, while they wait for room, after they were
 * sent, and too late.
 */
#include "mesh_fixture.h"
#include "raw_peer.h"

static virtual_clock_t still;
static raw_frame_t frame;

typedef struct held_call {
    test_call_t test; /* first */
    _Atomic size_t releases;
} held_call_t;

static void held_hold(zlink_outbound_call_t *call)
{
    (void)call;
}

static void held_release(zlink_outbound_call_t *call)
{
    atomic_fetch_add(&((held_call_t *)(void *)call)->releases, 1);
}

static void held_init(held_call_t *call, node_t *node, const char *channel, const char *text)
{
    memset(call, 0, sizeof(*call));
    test_call_init(&call->test, node, channel, text);
    call->test.call.hold = held_hold;
    call->test.call.release = held_release;
}

static void held_cancel(held_call_t *call)
{
    zlink_mesh_cancel(call->test.node->mesh, &call->test.call);
    fixture_wait_for(&call->releases, 1);
}

static void submit_and_cancel_here(void *context)
{
    held_call_t *call = context;

    test_call_submit(&call->test);                              /* its mail is delivered when this has returned … */
    zlink_mesh_cancel(call->test.node->mesh, &call->test.call); /* … and finds it cancelled */
}

/* EX-59: where the cancellation comes first nothing is handed to a connection, request or one-way message. */
static void test_ex59_cancelled_before_it_was_sent(void **state)
{
    held_call_t call;
    pair_t pair;

    (void)state;
    pair_init(&pair, false);
    pair_start(&pair);
    for (int one_way = 0; one_way < 2; one_way++) {
        held_init(&call, &pair.caller, "prices", "never");
        call.test.call.one_way = one_way;
        zlink_reactor_call(pair.caller.reactor, submit_and_cancel_here, &call);
        assert_int_equal(test_call_wait(&call.test), ZLINK_CANCELLED);
        fixture_wait_for(&call.releases, 1);
        test_call_release(&call.test);
    }
    assert_int_equal(node_ask(&pair.caller, "prices", "behind them"), ZLINK_OK);
    assert_int_equal(atomic_load(&pair.server.requests), 1);
    assert_int_equal(atomic_load(&pair.server.messages), 0);
    assert_int_equal(atomic_load(&pair.server.cancels), 0);
    assert_int_equal(node_look(&pair.caller).pending, 0);
    pair_stop(&pair);
}

/* EX-59: the same where this node would have picked itself. */
static void test_ex59_cancelled_before_this_node_took_it(void **state)
{
    held_call_t call;
    pair_t pair;

    (void)state;
    pair_init(&pair, false);
    pair_start(&pair);
    held_init(&call, &pair.server, "prices", "never");
    zlink_reactor_call(pair.server.reactor, submit_and_cancel_here, &call);
    assert_int_equal(test_call_wait(&call.test), ZLINK_CANCELLED);
    fixture_wait_for(&call.releases, 1);
    test_call_release(&call.test);
    assert_int_equal(node_ask(&pair.server, "prices", "behind it"), ZLINK_OK);
    assert_int_equal(atomic_load(&pair.server.picked), 1);
    pair_stop(&pair);
}

/* EX-57: of a request that was sent the peer is told, and its late answer changes nothing; one that has been answered
 * is left alone. */
static void test_ex57_cancelled_after_it_was_sent(void **state)
{
    held_call_t call;
    pair_t pair;

    (void)state;
    pair_init(&pair, false);
    pair_start(&pair);
    atomic_store(&pair.server.habit, NODE_HOLDS);
    held_init(&call, &pair.caller, "prices", "held");
    test_call_submit(&call.test);
    fixture_wait_for(&pair.server.requests, 1);
    held_cancel(&call);
    assert_int_equal(test_call_wait(&call.test), ZLINK_CANCELLED);
    fixture_wait_for(&pair.server.cancels, 1);
    assert_true(pair.server.cancelled_route == pair.server.held[0].route);
    assert_true(pair.server.cancelled_link == pair.server.held[0].link);
    assert_int_equal(node_look(&pair.caller).pending, 0);
    node_reply(&pair.server, 0, ZLINK_OK);
    atomic_store(&pair.server.habit, NODE_ECHOES);
    assert_int_equal(node_ask(&pair.caller, "prices", "and on"), ZLINK_OK);
    test_call_release(&call.test);

    held_init(&call, &pair.caller, "prices", "answered");
    test_call_submit(&call.test);
    assert_int_equal(test_call_wait(&call.test), ZLINK_OK);
    held_cancel(&call);
    assert_int_equal(node_ask(&pair.caller, "prices", "and on"), ZLINK_OK);
    assert_int_equal(atomic_load(&pair.server.cancels), 1);
    test_call_release(&call.test);
    pair_stop(&pair);
}

/* The flag alone decides: room that comes between it and its mail is not used. */
static void room_comes_late_here(void *context)
{
    held_call_t *call = context;
    zlink_peer_link_t *link = TAILQ_FIRST(&call->test.node->mesh->links);
    const zlink_outbound_call_t *first = TAILQ_FIRST(&link->waiting);

    atomic_store(&((zlink_outbound_call_t *)(uintptr_t)first)->cancelled, true);
    zlink_peer_link_drained(link);
    assert(TAILQ_FIRST(&link->waiting) != first);
}

/* EX-59: what waits for room on its link leaves the line and is never sent, nor is the peer told of it. */
static void test_ex59_cancelled_while_it_waits_for_room(void **state)
{
    enum { CALLS = 400, BYTES = 32768 };
    static const char *const prices[] = {"prices"};
    static uint8_t payload[BYTES];
    held_call_t *calls = calloc(CALLS, sizeof(*calls));
    node_t node;
    size_t sent = 0, told = 0;

    (void)state;
    virtual_clock_init(&still);
    node_init(&node, "node");
    node.clock = &still.clock;
    node.options.channels = prices;
    node.options.channel_count = 1;
    node.options.outbound_bytes = 4096;
    node.options.pending_max = CALLS;
    node_start(&node);
    raw_link_t slow = raw_join_slow(node.address, "raw" RAW_UUID, 9, 4096);
    node_wait_links(&node, 1);
    for (size_t i = 0; i < CALLS; i++) {
        held_init(&calls[i], &node, "raw", "");
        calls[i].test.call.payload = payload;
        calls[i].test.call.payload_bytes = BYTES;
        test_call_submit(&calls[i].test);
    }
    while (node_look(&node).waiting == CALLS)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    zlink_reactor_call(node.reactor, room_comes_late_here, &calls[0]);
    for (size_t i = 0; i < CALLS; i++)
        held_cancel(&calls[i]);
    for (size_t i = 0; i < CALLS; i++)
        assert_int_equal(test_call_wait(&calls[i].test), ZLINK_CANCELLED);
    assert_int_equal(node_look(&node).waiting, 0);
    assert_int_equal(node_look(&node).pending, 0);
    zlink_reactor_call(node.reactor, node_close_here, &node);
    shutdown(slow.application, SHUT_WR);
    while (raw_read(slow.application, &frame)) {
        sent += frame.prefix.kind == ZLINK_FRAME_REQUEST;
        told += frame.prefix.kind == ZLINK_FRAME_CANCEL;
    }
    assert_in_range(sent, 1, CALLS - 1);
    assert_int_equal(told, sent); /* of the others the peer has never heard */
    raw_leave(&slow);
    fixture_wait(&node.closed);
    zlink_reactor_call(node.reactor, node_destroy_here, &node);
    for (size_t i = 0; i < CALLS; i++)
        test_call_release(&calls[i].test);
    node_stop(&node);
    free(calls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex59_cancelled_before_it_was_sent),
        cmocka_unit_test(test_ex59_cancelled_before_this_node_took_it),
        cmocka_unit_test(test_ex57_cancelled_after_it_was_sent),
        cmocka_unit_test(test_ex59_cancelled_while_it_waits_for_room),
    };

    zlink_log_set_level(ZLINK_LOG_OFF);
    return zlink_test_main(tests);
}
