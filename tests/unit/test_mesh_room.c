/*
 * A peer that does not read: calls wait for room on its link, are sent once there is some, or end at their time. One
 * link's wait is nobody else's.
 */
#include "mesh_fixture.h"
#include "raw_peer.h"

#include "base/counters.h"
#include "base/memory.h"

#define PAYLOAD_BYTES 32768u

static const char *const prices[] = {"prices"};
static virtual_clock_t still;
static raw_frame_t frame;
static uint8_t payload[PAYLOAD_BYTES];

typedef struct crowd {
    node_t node;
    raw_link_t slow;
    test_call_t *calls;
    size_t count;
} crowd_t;

/* A node with a tiny output limit and one link to a peer that reads only when the test does. */
static void crowd_start(crowd_t *crowd, size_t count)
{
    virtual_clock_init(&still);
    node_init(&crowd->node, "node");
    crowd->node.clock = &still.clock;
    crowd->node.options.channels = prices;
    crowd->node.options.channel_count = 1;
    crowd->node.options.outbound_bytes = 4096;
    crowd->node.options.pending_max = 4096;
    node_start(&crowd->node);
    crowd->slow = raw_join_slow(crowd->node.address, "raw" RAW_UUID, 9, 4096);
    node_wait_links(&crowd->node, 1);
    crowd->count = count;
    crowd->calls = count > 0 ? calloc(count, sizeof(*crowd->calls)) : NULL;
}

static void crowd_submit(crowd_t *crowd, bool one_way, uint32_t timeout_ms)
{
    for (size_t i = 0; i < crowd->count; i++) {
        test_call_t *call = &crowd->calls[i];
        test_call_init(call, &crowd->node, "raw", "");
        call->call.one_way = one_way;
        call->call.payload = payload;
        call->call.payload_bytes = PAYLOAD_BYTES;
        call->call.deadline_ms = zlink_clock_now_ms(&still.clock) + timeout_ms;
        test_call_submit(call);
    }
}

static void crowd_stop(crowd_t *crowd)
{
    for (size_t i = 0; i < crowd->count; i++)
        test_call_release(&crowd->calls[i]);
    free(crowd->calls);
    raw_leave(&crowd->slow);
    node_stop(&crowd->node);
}

static size_t completed(const crowd_t *crowd)
{
    size_t ended = 0;

    for (size_t i = 0; i < crowd->count; i++)
        ended += atomic_load(&crowd->calls[i].completions);
    return ended;
}

static size_t completed_with(const crowd_t *crowd, zlink_status_t status)
{
    size_t ended = 0;

    for (size_t i = 0; i < crowd->count; i++)
        ended += atomic_load(&crowd->calls[i].completions) == 1 && crowd->calls[i].status == status;
    return ended;
}

/* A request of the slow peer itself is answered on the Completion connection, whatever waits on the other one. */
static void other_work_goes_on(crowd_t *crowd)
{
    raw_request(crowd->slow.application, 4711, "and mine?");
    raw_expect_call(crowd->slow.completion, ZLINK_FRAME_REPLY, &frame);
    assert_int_equal(frame.prefix.reply_route_id, 4711);
}

/* EX-52: replies to a peer of the mesh never wait: with nothing left of the mark, and a peer that reads none of them,
 * each is handed over at once, beyond the mark. */
static void test_ex52_replies_never_wait(void **state)
{
    enum { REPLIES = 64 };
    crowd_t crowd;

    (void)state;
    crowd_start(&crowd, 0);
    static char text[PAYLOAD_BYTES / 2];
    memset(text, 'x', sizeof(text) - 1);
    for (uint64_t route = 1; route <= REPLIES; route++)
        raw_request(crowd.slow.application, route, text);
    fixture_wait_for(&crowd.node.requests, REPLIES); /* all answered, a megabyte, with a mark of 4 KiB */
    assert_int_equal(node_look(&crowd.node).waiting, 0);
    for (uint64_t route = 1; route <= REPLIES; route++) {
        raw_expect_call(crowd.slow.completion, ZLINK_FRAME_REPLY, &frame);
        assert_int_equal(frame.prefix.reply_route_id, route);
    }
    crowd_stop(&crowd);
}

/* TR-62, EX-42: a one-way message that finds no room ends with DeadlineExceeded at its time, not before; what was
 * taken arrives once, and other work goes on meanwhile. */
static void test_tr62_ex42_no_room_until_the_time_is_over(void **state)
{
    crowd_t crowd;

    (void)state;
    crowd_start(&crowd, 1000); /* 32 MB: more than any socket holds */
    crowd_submit(&crowd, true, 500);
    other_work_goes_on(&crowd);
    assert_true(node_look(&crowd.node).waiting > 0);
    virtual_clock_advance(&still, crowd.node.reactor, 499);
    assert_true(node_look(&crowd.node).waiting > 0);
    assert_int_equal(completed_with(&crowd, ZLINK_DEADLINE_EXCEEDED), 0);
    other_work_goes_on(&crowd);
    virtual_clock_advance(&still, crowd.node.reactor, 1);
    assert_int_equal(node_look(&crowd.node).waiting, 0);
    assert_int_equal(completed(&crowd), crowd.count);
    const size_t taken = completed_with(&crowd, ZLINK_OK);
    assert_int_equal(taken + completed_with(&crowd, ZLINK_DEADLINE_EXCEEDED), crowd.count);
    assert_in_range(taken, 1, crowd.count - 1);

    for (size_t i = 0; i < taken; i++) {
        raw_expect_call(crowd.slow.application, ZLINK_FRAME_SEND, &frame);
        assert_int_equal(frame.prefix.body_bytes - frame.prefix.envelope_bytes, PAYLOAD_BYTES);
    }
    zlink_reactor_call(crowd.node.reactor, node_close_here, &crowd.node); /* nothing more comes before the end */
    shutdown(crowd.slow.application, SHUT_WR);
    assert_false(raw_read(crowd.slow.application, &frame));
    raw_leave(&crowd.slow);
    fixture_wait(&crowd.node.closed);
    zlink_reactor_call(crowd.node.reactor, node_destroy_here, &crowd.node);
    for (size_t i = 0; i < crowd.count; i++)
        test_call_release(&crowd.calls[i]);
    free(crowd.calls);
    node_stop(&crowd.node);
}

/* EX-42: with room again each waiting call is submitted once, in order. */
static void test_ex42_room_comes_back(void **state)
{
    crowd_t crowd;
    uint64_t last = 0;

    (void)state;
    crowd_start(&crowd, 600);
    crowd_submit(&crowd, false, 60000);
    other_work_goes_on(&crowd);
    assert_true(node_look(&crowd.node).waiting > 0);
    for (size_t i = 0; i < crowd.count; i++) {
        raw_expect_call(crowd.slow.application, ZLINK_FRAME_REQUEST, &frame);
        assert_true(frame.prefix.reply_route_id > last); /* first come, first served */
        last = frame.prefix.reply_route_id;
        raw_error(crowd.slow.completion, last, ZLINK_REJECTED);
    }
    for (size_t i = 0; i < crowd.count; i++)
        assert_int_equal(test_call_wait(&crowd.calls[i]), ZLINK_REJECTED);
    assert_int_equal(node_look(&crowd.node).pending, 0);
    crowd_stop(&crowd);
}

/* EX-43: with no place left to wait in a call ends with DeadlineExceeded at once: the clock does not move here. */
static void test_ex43_no_place_to_wait(void **state)
{
    crowd_t crowd;

    (void)state;
    crowd_start(&crowd, 3 * ZLINK_LINK_WAITING_MAX);
    crowd_submit(&crowd, false, 60000);
    other_work_goes_on(&crowd);
    node_look_t look = node_look(&crowd.node);
    assert_in_range(look.waiting, 1, ZLINK_LINK_WAITING_MAX);
    const size_t refused = completed_with(&crowd, ZLINK_DEADLINE_EXCEEDED);
    assert_in_range(refused, 1, crowd.count - ZLINK_LINK_WAITING_MAX);
    assert_int_equal(look.pending, crowd.count - refused);

    /* The link goes: the sent and the waiting ones end alike. */
    raw_leave(&crowd.slow);
    for (size_t i = 0; i < crowd.count; i++)
        test_call_wait(&crowd.calls[i]);
    assert_int_equal(completed_with(&crowd, ZLINK_UNAVAILABLE), crowd.count - refused);
    node_wait_links(&crowd.node, 0);
    crowd.slow = (raw_link_t){-1, -1};
    crowd_stop(&crowd);
}

/* EX-48: closing ends the waiting ones as well, one-way or not. */
static void test_ex48_close_ends_what_waits_for_room(void **state)
{
    for (int one_way = 0; one_way < 2; one_way++) {
        crowd_t crowd;

        (void)state;
        crowd_start(&crowd, 600);
        crowd_submit(&crowd, one_way, 60000);
        other_work_goes_on(&crowd);
        assert_true(node_look(&crowd.node).waiting > 0);
        zlink_reactor_call(crowd.node.reactor, node_close_here, &crowd.node);
        for (size_t i = 0; i < crowd.count; i++)
            test_call_wait(&crowd.calls[i]);
        assert_int_equal(completed_with(&crowd, ZLINK_SHUTTING_DOWN) + completed_with(&crowd, ZLINK_OK), crowd.count);
        assert_true(completed_with(&crowd, ZLINK_SHUTTING_DOWN) > 0);
        for (size_t i = 0; i < crowd.count; i++)
            test_call_release(&crowd.calls[i]);
        free(crowd.calls);
        raw_leave(&crowd.slow);
        fixture_wait(&crowd.node.closed);
        zlink_reactor_call(crowd.node.reactor, node_destroy_here, &crowd.node);
        node_stop(&crowd.node);
    }
}

extern zlink_counter_t lost;

/* EX-75: messages that were taken, and whose link is lost before there was room for them, are counted, once each; their
 * senders had gone on long before. */
static void test_ex75_what_was_taken_and_lost_is_counted(void **state)
{
    enum { TAKEN = 20 };
    const int64_t before = zlink_counter_read(&lost);
    test_call_t taken[TAKEN];
    crowd_t crowd;

    (void)state;
    crowd_start(&crowd, 600);
    crowd_submit(&crowd, false, 60000);
    other_work_goes_on(&crowd);
    assert_true(node_look(&crowd.node).waiting > 0);
    for (size_t i = 0; i < TAKEN; i++) {
        test_call_init(&taken[i], &crowd.node, "raw", "");
        taken[i].call.one_way = true;
        assert_true(zlink_mesh_take(crowd.node.mesh, &taken[i].call));
    }
    other_work_goes_on(&crowd);
    assert_int_equal(zlink_counter_read(&lost), before);
    raw_leave(&crowd.slow);
    for (size_t i = 0; i < TAKEN; i++) {
        assert_int_equal(test_call_wait(&taken[i]), ZLINK_UNAVAILABLE);
        test_call_release(&taken[i]);
    }
    assert_int_equal(zlink_counter_read(&lost), before + TAKEN);
    for (size_t i = 0; i < crowd.count; i++)
        assert_int_equal(test_call_wait(&crowd.calls[i]), ZLINK_UNAVAILABLE);
    node_wait_links(&crowd.node, 0);
    crowd.slow = (raw_link_t){-1, -1};
    crowd_stop(&crowd);
}

static void submit_without_memory(void *context)
{
    zlink_memory_fail_after(0); /* the output buffer's, for a payload that it has no room for yet */
    test_call_submit(context);
}

/* A call that waits because memory was short, not room, is sent with the next one: no `drained` ever comes for it. */
static void test_a_write_without_memory_does_not_hold_up_the_link(void **state)
{
    crowd_t crowd;

    (void)state;
    crowd_start(&crowd, 0);
    test_call_t calls[3];
    for (size_t i = 0; i < 3; i++) {
        test_call_init(&calls[i], &crowd.node, "raw", "first");
        calls[i].call.one_way = true;
    }
    test_call_submit(&calls[0]); /* announces the names */
    assert_int_equal(test_call_wait(&calls[0]), ZLINK_OK);
    calls[1].call.payload = payload;
    calls[1].call.payload_bytes = PAYLOAD_BYTES;
    zlink_reactor_call(crowd.node.reactor, submit_without_memory, &calls[1]);
    assert_int_equal(node_look(&crowd.node).waiting, 1);
    zlink_memory_fail_after(-1);
    test_call_submit(&calls[2]);
    assert_int_equal(test_call_wait(&calls[1]), ZLINK_OK);
    /* The second may have to wait for the room that the first one takes. */
    for (size_t i = 0; i < 3; i++)
        raw_expect_call(crowd.slow.application, ZLINK_FRAME_SEND, &frame);
    assert_int_equal(test_call_wait(&calls[2]), ZLINK_OK);
    for (size_t i = 0; i < 3; i++)
        test_call_release(&calls[i]);
    crowd_stop(&crowd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex52_replies_never_wait),
        cmocka_unit_test(test_tr62_ex42_no_room_until_the_time_is_over),
        cmocka_unit_test(test_ex42_room_comes_back),
        cmocka_unit_test(test_ex43_no_place_to_wait),
        cmocka_unit_test(test_ex75_what_was_taken_and_lost_is_counted),
        cmocka_unit_test(test_ex48_close_ends_what_waits_for_room),
        cmocka_unit_test(test_a_write_without_memory_does_not_hold_up_the_link),
    };
    zlink_log_set_level(ZLINK_LOG_OFF);
    return zlink_test_main(tests);
}
