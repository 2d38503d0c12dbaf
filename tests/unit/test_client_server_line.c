/*
 * ClientServer: what it means that one connection carries everything: late replies, pausing, liveness, room, limits.
 */
#include "client_server_fixture.h"

#include "base/memory.h"
#include "net/liveness.h"

/* ---- late, or not at all ---- */

/* EX-40, TR-58: a request behind data that the server does not take yet ends once, in time; the reply that comes later
 * changes nothing, and the link stays. */
static void test_ex40_tr58_a_reply_that_is_late(void **state)
{
    test_call_t data, request;
    pair_t pair;

    (void)state;
    both_init(&pair, false);
    pair_start(&pair);
    atomic_store(&pair.server.habit, NODE_WAITS);
    test_call_init(&data, &pair.caller, "prices", "data");
    data.call.one_way = true;
    test_call_submit(&data);
    assert_int_equal(test_call_wait(&data), ZLINK_OK);
    fixture_wait_for(&pair.server.waits, 1);
    test_call_init(&request, &pair.caller, "prices", "request");
    request.call.deadline_ms = zlink_clock_now_ms(pair.caller.clock) + 50;
    test_call_submit(&request);
    assert_int_equal(test_call_wait(&request), ZLINK_DEADLINE_EXCEEDED);
    assert_int_equal(atomic_load(&pair.server.messages) + atomic_load(&pair.server.requests), 0);
    atomic_store(&pair.server.habit, NODE_ECHOES);
    zlink_reactor_call(pair.server.reactor, node_resume_here, &pair.server);
    assert_int_equal(node_ask(&pair.caller, "prices", "next"), ZLINK_OK); /* behind the late reply */
    assert_int_equal(atomic_load(&pair.server.messages), 1);
    assert_int_equal(atomic_load(&pair.server.requests), 2);
    assert_int_equal(atomic_load(&pair.caller.lost), 0);
    test_call_release(&data);
    test_call_release(&request);
    pair_stop(&pair);
}

static void raw_flow(int fd, uint64_t epoch, bool paused)
{
    raw_send(fd,
             (zlink_frame_prefix_t){.kind = ZLINK_FRAME_FLOW_STATE, .reply_route_id = epoch, .error = paused ? 1 : 0},
             NULL, 0, NULL, 0);
    raw_number(fd, ZLINK_FRAME_PROBE, epoch);
    raw_expect(fd, ZLINK_FRAME_PROBE_ACK, &frame); /* it has been heard, and nothing came before */
}

/* TR-58: a call to a server that has paused may time out, once, and is not sent; a reply on the same connection comes
 * through, and RUNNING lets the next calls go. */
static void test_tr58_a_server_that_has_paused(void **state)
{
    test_call_t before, meanwhile, after;
    lonely_t lonely;

    (void)state;
    lonely_start(&lonely);
    int fd = raw_server(lonely.listener, "raw" RAW_UUID);
    fixture_wait_for(&lonely.client.ready, 1);
    test_call_init(&before, &lonely.client, "prices", "before");
    test_call_submit(&before);
    raw_expect_call(fd, ZLINK_FRAME_REQUEST, &frame);
    const uint64_t route = frame.prefix.reply_route_id;
    raw_flow(fd, 1, true);
    test_call_init(&meanwhile, &lonely.client, "prices", "meanwhile");
    meanwhile.call.deadline_ms = zlink_clock_now_ms(lonely.client.clock) + 1000;
    test_call_submit(&meanwhile);
    raw_reply(fd, route, "here");
    assert_int_equal(test_call_wait(&before), ZLINK_OK);
    virtual_clock_advance(&lonely.clock, lonely.client.reactor, 1000);
    assert_int_equal(test_call_wait(&meanwhile), ZLINK_DEADLINE_EXCEEDED);
    raw_flow(fd, 2, false);
    test_call_init(&after, &lonely.client, "prices", "after");
    test_call_submit(&after);
    raw_expect_call(fd, ZLINK_FRAME_REQUEST, &frame);
    assert_memory_equal(frame.body + frame.prefix.envelope_bytes, "after", 5);
    raw_error(fd, frame.prefix.reply_route_id, ZLINK_REJECTED);
    assert_int_equal(test_call_wait(&after), ZLINK_REJECTED);
    test_call_release(&before);
    test_call_release(&meanwhile);
    test_call_release(&after);
    close(fd);
    lonely_stop(&lonely);
}

/* EX-36: calls that wait for room do not end the link, though the answers to the server's probes stand behind them; it
 * goes on probing, so that its client knows that it is there. When it hears again the 15 s count. */
static void test_ex36_a_server_that_does_not_hear(void **state)
{
    virtual_clock_t clock;
    node_t server;

    (void)state;
    virtual_clock_init(&clock);
    server_init(&server, "server");
    server.clock = &clock.clock;
    node_start(&server);
    int fd = raw_client(server.address, 0);
    atomic_store(&server.habit, NODE_WAITS);
    raw_message(fd, "prices", "data", 4);
    fixture_wait_for(&server.waits, 1);
    for (int i = 0; i < 12; i++) {
        virtual_clock_advance(&clock, server.reactor, ZLINK_LIVENESS_PROBE_MS);
        raw_expect(fd, ZLINK_FRAME_PROBE, &frame);
        assert_int_equal(frame.prefix.reply_route_id, 1); /* the answer is not heard */
    }
    atomic_store(&server.habit, NODE_ECHOES);
    zlink_reactor_call(server.reactor, node_resume_here, &server);
    fixture_wait_for(&server.messages, 1);
    for (int i = 0; i < 3; i++) { /* the first of the three was held, at least in part */
        virtual_clock_advance(&clock, server.reactor, ZLINK_LIVENESS_PROBE_MS);
        raw_expect(fd, ZLINK_FRAME_PROBE, &frame);
    }
    virtual_clock_advance(&clock, server.reactor, ZLINK_LIVENESS_PROBE_MS);
    raw_expect_end(fd);
    node_stop(&server);
}

/* EX-36: a client whose own probe is not answered is kept by the server's probes, and by nothing else. */
static void test_ex36_a_client_that_is_not_heard(void **state)
{
    lonely_t lonely;

    (void)state;
    lonely_start(&lonely);
    int fd = raw_server(lonely.listener, "raw" RAW_UUID);
    fixture_wait_for(&lonely.client.ready, 1);
    for (uint64_t i = 1; i <= 12; i++) {
        virtual_clock_advance(&lonely.clock, lonely.client.reactor, ZLINK_LIVENESS_PROBE_MS);
        raw_expect(fd, ZLINK_FRAME_PROBE, &frame);
        raw_number(fd, ZLINK_FRAME_PROBE, i);
        raw_expect(fd, ZLINK_FRAME_PROBE_ACK, &frame);
        assert_int_equal(frame.prefix.reply_route_id, i);
    }
    for (int i = 0; i < 2; i++) {
        virtual_clock_advance(&lonely.clock, lonely.client.reactor, ZLINK_LIVENESS_PROBE_MS);
        raw_expect(fd, ZLINK_FRAME_PROBE, &frame);
        raw_error(fd, 4711, ZLINK_REJECTED); /* traffic, but no probe */
    }
    virtual_clock_advance(&lonely.clock, lonely.client.reactor, ZLINK_LIVENESS_PROBE_MS);
    fixture_wait_for(&lonely.client.lost, 1);
    raw_expect_end(fd);
    lonely_stop(&lonely);
}

/* TR-50: a server that hears takes nothing but the answer for one: neither a client's calls nor its probes. */
static void test_tr50_a_client_that_does_not_answer(void **state)
{
    virtual_clock_t clock;
    node_t server;

    (void)state;
    virtual_clock_init(&clock);
    server_init(&server, "server");
    server.clock = &clock.clock;
    node_start(&server);
    int fd = raw_client(server.address, 0);
    for (uint64_t i = 1; i <= 2; i++) {
        virtual_clock_advance(&clock, server.reactor, ZLINK_LIVENESS_PROBE_MS);
        raw_expect(fd, ZLINK_FRAME_PROBE, &frame);
        raw_message(fd, "prices", "data", 4);
        raw_number(fd, ZLINK_FRAME_PROBE, i);
        raw_expect(fd, ZLINK_FRAME_PROBE_ACK, &frame);
    }
    virtual_clock_advance(&clock, server.reactor, ZLINK_LIVENESS_PROBE_MS);
    raw_expect_end(fd);
    assert_int_equal(atomic_load(&server.messages), 2);
    node_stop(&server);
}

/* ---- room for replies ---- */

#define FLOOD_REQUESTS 400u
#define FLOOD_BYTES    60000u

static void *flood(void *context)
{
    static char text[FLOOD_BYTES + 1];
    int fd = *(const int *)context;

    memset(text, 'x', FLOOD_BYTES);
    for (uint64_t i = 1; i <= FLOOD_REQUESTS; i++)
        raw_request(fd, i, text);
    return NULL;
}

typedef struct outbound_look {
    node_t *node;
    size_t bytes;
} outbound_look_t;

static void outbound_here(void *context)
{
    outbound_look_t *look = context;
    const zlink_peer_link_t *link = TAILQ_FIRST(&look->node->mesh->links);

    look->bytes = zlink_stream_outbound_bytes(zlink_frame_connection_stream(link->ends[0]->connection));
}

/* EX-52: replies to a client that does not read them hold its next requests back, not the other way round; all are
 * answered in the end. */
static void test_ex52_a_client_that_does_not_take_its_replies(void **state)
{
    const time_t until = time(NULL) + FIXTURE_PATIENCE_S;
    outbound_look_t look;
    pthread_t thread;
    node_t server;
    size_t seen = 0;

    (void)state;
    server_init(&server, "server");
    server.options.outbound_bytes = 2 * FLOOD_BYTES;
    node_start(&server);
    look.node = &server;
    int fd = raw_client(server.address, 4096);
    assert_int_equal(pthread_create(&thread, NULL, flood, &fd), 0);
    for (int still = 0; still < 100; still++) {
        zlink_reactor_call(server.reactor, outbound_here, &look);
        assert_true(time(NULL) < until);
        assert_true(look.bytes <= 4 * (size_t)FLOOD_BYTES);
        if (look.bytes < FLOOD_BYTES || atomic_load(&server.requests) != seen)
            still = 0;
        seen = atomic_load(&server.requests);
    }
    assert_in_range(seen, 1, FLOOD_REQUESTS - 1);
    for (uint64_t i = 1; i <= FLOOD_REQUESTS; i++) {
        raw_expect_call(fd, ZLINK_FRAME_REPLY, &frame);
        assert_int_equal(frame.prefix.reply_route_id, i);
    }
    pthread_join(thread, NULL);
    close(fd);
    node_stop(&server);
}

/* The longest message is the smaller of what both take, in both directions. */
static void test_the_smaller_of_both_limits_counts(void **state)
{
    static char large[200001];
    zlink_wire_hello_t hello = raw_side("raw" RAW_UUID, ZLINK_ROLE_CLIENT, "prices");
    test_call_t call;
    pair_t pair;

    (void)state;
    memset(large, 'x', sizeof(large) - 1);
    both_init(&pair, false);
    pair.caller.options.max_body_bytes = 128 * 1024;
    pair_start(&pair);
    test_call_init(&call, &pair.caller, "prices", large);
    test_call_submit(&call);
    assert_int_equal(test_call_wait(&call), ZLINK_PROTOCOL_ERROR);
    test_call_release(&call);
    test_call_init(&call, &pair.caller, "prices", large + 100000);
    test_call_submit(&call);
    assert_int_equal(test_call_wait(&call), ZLINK_OK);
    assert_int_equal(call.answer_bytes, 100000);
    test_call_release(&call);

    int fd = raw_connect(pair.server.address);
    hello.max_body_bytes = ZLINK_WIRE_BODY_BYTES_MIN;
    raw_say(fd, ZLINK_FRAME_HELLO, &hello);
    raw_expect(fd, ZLINK_FRAME_ADMIT, &frame);
    raw_message(fd, "prices", large, 65400);
    raw_number(fd, ZLINK_FRAME_PROBE, 9);
    raw_expect(fd, ZLINK_FRAME_PROBE_ACK, &frame);
    raw_message(fd, "prices", large, 66000);
    raw_expect_end(fd);
    assert_int_equal(atomic_load(&pair.server.messages), 1);
    pair_stop(&pair);
}

/* ---- memory ---- */

/* The n-th allocation fails while a client is made and linked: nothing leaks, and it is linked in the end. */
static void test_it_comes_up_whatever_allocation_failed(void **state)
{
    pair_t pair;

    (void)state;
    both_init(&pair, true);
    pair_start(&pair);
    for (int64_t n = 0; n < 60; n++) {
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex40_tr58_a_reply_that_is_late),
        cmocka_unit_test(test_tr58_a_server_that_has_paused),
        cmocka_unit_test(test_ex36_a_server_that_does_not_hear),
        cmocka_unit_test(test_ex36_a_client_that_is_not_heard),
        cmocka_unit_test(test_tr50_a_client_that_does_not_answer),
        cmocka_unit_test(test_ex52_a_client_that_does_not_take_its_replies),
        cmocka_unit_test(test_the_smaller_of_both_limits_counts),
        cmocka_unit_test(test_it_comes_up_whatever_allocation_failed),
    };
    zlink_log_set_level(ZLINK_LOG_OFF);
    return zlink_test_main(tests);
}
