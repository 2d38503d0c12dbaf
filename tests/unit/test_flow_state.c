/*
 * PAUSED and RUNNING between a mesh and a peer of plain sockets: who is told what and when, and what a peer that says
 * so gets meanwhile.
 */
#include "mesh_fixture.h"
#include "raw_peer.h"

#include "base/memory.h"

#define LARGE_BYTES 300000u

static const char *const prices[] = {"prices"};
static virtual_clock_t still;
static raw_frame_t frame;
static uint8_t large[LARGE_BYTES];

typedef struct stage {
    node_t node;
    raw_link_t peer;
} stage_t;

static void stage_open(stage_t *stage)
{
    virtual_clock_init(&still);
    node_init(&stage->node, "node");
    stage->node.clock = &still.clock;
    stage->node.options.channels = prices;
    stage->node.options.channel_count = 1;
    node_start(&stage->node);
}

static void stage_join(stage_t *stage)
{
    stage->peer = raw_join(stage->node.address, "raw" RAW_UUID, 9);
    node_wait_links(&stage->node, 1);
}

static void stage_close(stage_t *stage)
{
    raw_leave(&stage->peer);
    node_stop(&stage->node);
}

typedef struct pausing {
    node_t *node;
    bool paused;
} pausing_t;

static void set_paused_here(void *context)
{
    const pausing_t *pausing = context;
    zlink_mesh_set_paused(pausing->node->mesh, pausing->paused);
}

static void set_paused(node_t *node, bool paused)
{
    pausing_t pausing = {node, paused};
    zlink_reactor_call(node->reactor, set_paused_here, &pausing);
}

static void is_paused_here(void *context)
{
    pausing_t *pausing = context;
    const zlink_peer_link_t *link = TAILQ_FIRST(&pausing->node->mesh->links);
    pausing->paused = link != NULL && link->peer_paused;
}

static void wait_peer_paused(node_t *node, bool paused)
{
    const time_t until = time(NULL) + FIXTURE_PATIENCE_S;
    pausing_t seen = {node, !paused};

    while (seen.paused != paused) {
        assert_true(time(NULL) < until);
        zlink_reactor_call(node->reactor, is_paused_here, &seen);
    }
}

static void expect_flow(int fd, bool paused, uint64_t epoch)
{
    raw_expect_call(fd, ZLINK_FRAME_FLOW_STATE, &frame);
    assert_int_equal(frame.prefix.error, paused);
    assert_int_equal(frame.prefix.reply_route_id, epoch);
}

/* EX-72: each change is told once, with a rising epoch, and the same again is not told. */
static void test_ex72_changes_are_told_once(void **state)
{
    stage_t stage;

    (void)state;
    stage_open(&stage);
    stage_join(&stage);
    set_paused(&stage.node, false);
    set_paused(&stage.node, true);
    set_paused(&stage.node, true);
    expect_flow(stage.peer.completion, true, 1);
    set_paused(&stage.node, false);
    set_paused(&stage.node, false);
    expect_flow(stage.peer.completion, false, 2);
    raw_request(stage.peer.application, 5, "nothing else came");
    raw_expect_call(stage.peer.completion, ZLINK_FRAME_REPLY, &frame);
    stage_close(&stage);
}

/* TR-56, EX-72: who joins while the node is paused hears it in the answer that makes its link usable, not behind it. */
static void test_tr56_ex72_a_newcomer_is_told_first(void **state)
{
    zlink_wire_channel_t channels[4];
    zlink_wire_spot_type_t types[4];
    zlink_wire_hello_t admit = {
        .channels = channels, .channel_capacity = 4, .spot_types = types, .spot_type_capacity = 4};
    stage_t stage;

    (void)state;
    stage_open(&stage);
    set_paused(&stage.node, true);
    stage.peer.application = raw_connect(stage.node.address);
    raw_say_hello(stage.peer.application, "raw" RAW_UUID, ZLINK_CONNECTION_APPLICATION, 9);
    raw_expect(stage.peer.application, ZLINK_FRAME_ADMIT, &frame);
    stage.peer.completion = raw_connect(stage.node.address);
    raw_say_hello(stage.peer.completion, "raw" RAW_UUID, ZLINK_CONNECTION_COMPLETION, 9);
    raw_expect(stage.peer.completion, ZLINK_FRAME_ADMIT, &frame);
    assert_int_equal(zlink_wire_hello_decode(frame.body, frame.prefix.envelope_bytes, &admit, NULL), ZLINK_OK);
    assert_true(admit.paused);
    node_wait_links(&stage.node, 1);
    set_paused(&stage.node, true); /* it knows */
    set_paused(&stage.node, false);
    expect_flow(stage.peer.completion, false, 1);
    stage_close(&stage);
}

/* TR-56: and a peer that says so in its HELLO gets nothing before it says otherwise. */
static void test_tr56_a_paused_newcomer_gets_nothing(void **state)
{
    zlink_wire_hello_t hello = raw_hello("raw" RAW_UUID, ZLINK_CONNECTION_COMPLETION, 9);
    test_call_t call;
    stage_t stage;

    (void)state;
    stage_open(&stage);
    stage.peer.application = raw_connect(stage.node.address);
    raw_say_hello(stage.peer.application, "raw" RAW_UUID, ZLINK_CONNECTION_APPLICATION, 9);
    raw_expect(stage.peer.application, ZLINK_FRAME_ADMIT, &frame);
    stage.peer.completion = raw_connect(stage.node.address);
    hello.paused = true;
    raw_say(stage.peer.completion, ZLINK_FRAME_HELLO, &hello);
    raw_expect(stage.peer.completion, ZLINK_FRAME_ADMIT, &frame);
    node_wait_links(&stage.node, 1);
    test_call_init(&call, &stage.node, "raw", "x");
    call.call.deadline_ms = zlink_clock_now_ms(&still.clock) + 60000;
    test_call_submit(&call);
    assert_int_equal(node_look(&stage.node).waiting, 1);
    raw_say_flow(stage.peer.completion, false, 1);
    raw_expect_call(stage.peer.application, ZLINK_FRAME_REQUEST, &frame);
    raw_error(stage.peer.completion, frame.prefix.reply_route_id, ZLINK_REJECTED);
    test_call_wait(&call);
    test_call_release(&call);
    stage_close(&stage);
}

/* TR-57, EX-39: while a peer pauses, calls to it wait, and replies pass in both directions; RUNNING lets the calls go,
 * in their order and once each. */
static void test_tr57_ex39_replies_pass_while_paused(void **state)
{
    enum { CALLS = 5 };
    test_call_t before, calls[CALLS];
    uint64_t last = 0;
    stage_t stage;

    (void)state;
    stage_open(&stage);
    stage_join(&stage);
    test_call_init(&before, &stage.node, "raw", "before");
    before.call.deadline_ms = zlink_clock_now_ms(&still.clock) + 60000;
    test_call_submit(&before);
    raw_expect_call(stage.peer.application, ZLINK_FRAME_REQUEST, &frame);
    const uint64_t route = frame.prefix.reply_route_id;
    raw_say_flow(stage.peer.completion, true, 1);
    wait_peer_paused(&stage.node, true);
    for (size_t i = 0; i < CALLS; i++) {
        test_call_init(&calls[i], &stage.node, "raw", "during");
        calls[i].call.deadline_ms = zlink_clock_now_ms(&still.clock) + 60000;
        test_call_submit(&calls[i]);
    }
    assert_int_equal(node_look(&stage.node).waiting, CALLS);
    raw_error(stage.peer.completion, route, ZLINK_REJECTED); /* the reply to what was sent before */
    test_call_wait(&before);
    assert_int_equal(before.status, ZLINK_REJECTED);
    raw_request(stage.peer.application, 77, "the other way"); /* who pauses may call */
    raw_expect_call(stage.peer.completion, ZLINK_FRAME_REPLY, &frame);
    assert_int_equal(frame.prefix.reply_route_id, 77);
    assert_int_equal(node_look(&stage.node).waiting, CALLS);
    raw_say_flow(stage.peer.completion, false, 2);
    for (size_t i = 0; i < CALLS; i++) {
        raw_expect_call(stage.peer.application, ZLINK_FRAME_REQUEST, &frame);
        assert_true(frame.prefix.reply_route_id > last);
        last = frame.prefix.reply_route_id;
        raw_error(stage.peer.completion, last, ZLINK_REJECTED);
        test_call_wait(&calls[i]);
        test_call_release(&calls[i]);
    }
    test_call_release(&before);
    stage_close(&stage);
}

/* EX-72: an older epoch changes nothing, a state that there is not and epoch 0 end the link, as does the frame on the
 * wrong connection. */
static void test_ex72_stale_and_malformed_states(void **state)
{
    stage_t stage;

    (void)state;
    for (unsigned bad = 0; bad < 4; bad++) {
        uint8_t bytes[ZLINK_FRAME_PREFIX_BYTES];
        stage_open(&stage);
        stage_join(&stage);
        raw_say_flow(stage.peer.completion, true, 7);
        wait_peer_paused(&stage.node, true);
        raw_say_flow(stage.peer.completion, false, 7);
        raw_say_flow(stage.peer.completion, false, 3);
        raw_request(stage.peer.application, 5, "after them");
        raw_expect_call(stage.peer.completion, ZLINK_FRAME_REPLY, &frame);
        wait_peer_paused(&stage.node, true);
        zlink_frame_prefix_encode(&(zlink_frame_prefix_t){.kind = ZLINK_FRAME_FLOW_STATE, .reply_route_id = 8}, bytes);
        if (bad == 1)
            bytes[11] = 2; /* the state */
        if (bad == 2)
            memset(bytes + 16, 0, 8); /* the epoch */
        raw_write(bad == 3 ? stage.peer.application : stage.peer.completion, bytes, sizeof(bytes));
        if (bad == 0)
            wait_peer_paused(&stage.node, false);
        else
            fixture_wait_for(&stage.node.lost, 1);
        stage_close(&stage);
    }
}

/* TR-62: a one-way message to a paused peer ends with DeadlineExceeded at its time. */
static void test_tr62_a_send_to_a_paused_peer_ends_in_time(void **state)
{
    test_call_t call;
    stage_t stage;

    (void)state;
    stage_open(&stage);
    stage_join(&stage);
    raw_say_flow(stage.peer.completion, true, 1);
    wait_peer_paused(&stage.node, true);
    test_call_init(&call, &stage.node, "raw", "x");
    call.call.one_way = true;
    call.call.deadline_ms = zlink_clock_now_ms(&still.clock) + 500;
    test_call_submit(&call);
    virtual_clock_advance(&still, stage.node.reactor, 499);
    assert_int_equal(atomic_load(&call.completions), 0);
    virtual_clock_advance(&still, stage.node.reactor, 1);
    test_call_wait(&call);
    assert_int_equal(call.status, ZLINK_DEADLINE_EXCEEDED);
    raw_say_flow(stage.peer.completion, false, 2); /* it is not sent afterwards */
    wait_peer_paused(&stage.node, false);
    test_call_release(&call);
    test_call_init(&call, &stage.node, "raw", "y");
    call.call.deadline_ms = zlink_clock_now_ms(&still.clock) + 60000;
    test_call_submit(&call);
    raw_expect_call(stage.peer.application, ZLINK_FRAME_REQUEST, &frame);
    raw_error(stage.peer.completion, frame.prefix.reply_route_id, ZLINK_REJECTED);
    test_call_wait(&call);
    test_call_release(&call);
    stage_close(&stage);
}

/* TR-60: a message that has begun to go in chunks goes on to its end; the next one waits. */
static void test_tr60_a_message_is_not_split(void **state)
{
    test_call_t calls[2];
    size_t bytes = 0;
    stage_t stage;

    (void)state;
    stage_open(&stage);
    stage.peer = raw_join_slow(stage.node.address, "raw" RAW_UUID, 9, 4096);
    node_wait_links(&stage.node, 1);
    for (size_t i = 0; i < 2; i++) {
        test_call_init(&calls[i], &stage.node, "raw", "");
        calls[i].call.deadline_ms = zlink_clock_now_ms(&still.clock) + 60000;
    }
    calls[0].call.payload = large;
    calls[0].call.payload_bytes = sizeof(large);
    test_call_submit(&calls[0]);
    raw_expect_call(stage.peer.application, ZLINK_FRAME_CHUNK, &frame); /* it has begun */
    bytes += frame.prefix.body_bytes;
    raw_say_flow(stage.peer.completion, true, 1);
    wait_peer_paused(&stage.node, true);
    test_call_submit(&calls[1]);
    while (bytes < sizeof(large)) {
        raw_expect_call(stage.peer.application, ZLINK_FRAME_CHUNK, &frame);
        bytes += frame.prefix.body_bytes;
    }
    assert_int_equal(node_look(&stage.node).waiting, 1);
    raw_say_flow(stage.peer.completion, false, 2);
    raw_expect_call(stage.peer.application, ZLINK_FRAME_REQUEST, &frame);
    raw_leave(&stage.peer);
    for (size_t i = 0; i < 2; i++) {
        test_call_wait(&calls[i]);
        test_call_release(&calls[i]);
    }
    node_stop(&stage.node);
}

/* TR-59: RUNNING does not let go what waits for room: with a full connection the calls still wait until it is read. */
static void test_tr59_running_is_not_room(void **state)
{
    enum { CALLS = 200, BYTES = 32768 };
    static test_call_t calls[CALLS];
    stage_t stage;

    (void)state;
    virtual_clock_init(&still);
    node_init(&stage.node, "node");
    stage.node.clock = &still.clock;
    stage.node.options.channels = prices;
    stage.node.options.channel_count = 1;
    stage.node.options.outbound_bytes = 4096;
    node_start(&stage.node);
    stage.peer = raw_join_slow(stage.node.address, "raw" RAW_UUID, 9, 4096);
    node_wait_links(&stage.node, 1);
    for (size_t i = 0; i < CALLS; i++) {
        test_call_init(&calls[i], &stage.node, "raw", "");
        calls[i].call.payload = large;
        calls[i].call.payload_bytes = BYTES;
        calls[i].call.deadline_ms = zlink_clock_now_ms(&still.clock) + 60000;
        test_call_submit(&calls[i]);
    }
    assert_true(node_look(&stage.node).waiting > CALLS / 2);
    raw_say_flow(stage.peer.completion, true, 1);
    wait_peer_paused(&stage.node, true);
    raw_say_flow(stage.peer.completion, false, 2);
    wait_peer_paused(&stage.node, false);
    assert_true(node_look(&stage.node).waiting > CALLS / 2); /* the kernel may have taken a few more */
    for (size_t i = 0; i < CALLS; i++) {
        raw_expect_call(stage.peer.application, ZLINK_FRAME_REQUEST, &frame);
        raw_error(stage.peer.completion, frame.prefix.reply_route_id, ZLINK_REJECTED);
    }
    for (size_t i = 0; i < CALLS; i++) {
        test_call_wait(&calls[i]);
        test_call_release(&calls[i]);
    }
    stage_close(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex72_changes_are_told_once),
        cmocka_unit_test(test_tr56_ex72_a_newcomer_is_told_first),
        cmocka_unit_test(test_tr56_a_paused_newcomer_gets_nothing),
        cmocka_unit_test(test_tr57_ex39_replies_pass_while_paused),
        cmocka_unit_test(test_ex72_stale_and_malformed_states),
        cmocka_unit_test(test_tr62_a_send_to_a_paused_peer_ends_in_time),
        cmocka_unit_test(test_tr60_a_message_is_not_split),
        cmocka_unit_test(test_tr59_running_is_not_room),
    };

    return zlink_test_main(tests);
}
