/*
 * Two and three meshes in one process, over plain TCP: links, calls and their ends, duplicates, draining, closing.
 */
#include "mesh_fixture.h"

/* ---- links and calls ---- */

static void test_a_link_has_two_connections(void **state)
{
    pair_t pair;

    (void)state;
    pair_init(&pair, false);
    pair_start(&pair);
    node_look_t here = node_look(&pair.caller), there = node_look(&pair.server);
    assert_int_equal(here.links, 1);
    assert_int_equal(here.ends, 2);
    assert_int_equal(there.links, 1);
    assert_int_equal(there.ends, 2);
    assert_int_equal(atomic_load(&pair.caller.members), 1);
    pair_stop(&pair);
    assert_int_equal(atomic_load(&pair.caller.lost), 1);
    assert_int_equal(atomic_load(&pair.server.lost), 1);
}

static void test_request_reply_error_and_one_way(void **state)
{
    pair_t pair;
    test_call_t call;

    (void)state;
    pair_init(&pair, false);
    pair_start(&pair);
    test_call_init(&call, &pair.caller, "prices", "tea");
    test_call_submit(&call);
    assert_int_equal(test_call_wait(&call), ZLINK_OK);
    assert_string_equal(call.packet, "tests.Echo");
    assert_int_equal(call.answer_bytes, 3);
    assert_memory_equal(call.answer, "tea", 3);
    test_call_release(&call);
    node_read(&pair.server);
    assert_string_equal(pair.server.seen.target, "prices");
    assert_string_equal(pair.server.seen.packet, "tests.Ask");
    assert_string_equal(pair.server.seen.source, pair.caller.identity.node_id);
    assert_int_equal(pair.server.seen.target_kind, ZLINK_TARGET_CHANNEL);
    assert_in_range(pair.server.seen.deadline_ms, 1, 30000);

    for (int i = 0; i < 100; i++)
        assert_int_equal(node_ask(&pair.caller, "prices", "again"), ZLINK_OK); /* by number now */
    assert_int_equal(node_ask(&pair.caller, "prices", ""), ZLINK_OK);

    atomic_store(&pair.server.habit, NODE_REFUSES);
    assert_int_equal(node_ask(&pair.caller, "prices", "tea"), ZLINK_REJECTED);

    test_call_init(&call, &pair.caller, "prices", "note");
    call.call.one_way = true;
    test_call_submit(&call);
    assert_int_equal(test_call_wait(&call), ZLINK_OK);
    test_call_release(&call);
    fixture_wait_for(&pair.server.messages, 1);
    node_read(&pair.server);
    assert_int_equal(pair.server.seen.deadline_ms, 0);
    assert_int_equal(node_look(&pair.caller).pending, 0);
    pair_stop(&pair);
}

static void test_a_spot_of_a_named_node_and_of_a_link(void **state)
{
    pair_t pair;
    test_call_t call;

    (void)state;
    pair_init(&pair, false);
    pair_start(&pair);
    test_call_init(&call, &pair.caller, "counter", "add");
    call.call.route = ZLINK_ROUTE_NODE;
    call.call.node = "server";
    call.call.target = ZLINK_TARGET_INSTANCE_SPOT;
    call.call.spot_id = "cart-7";
    test_call_submit(&call);
    assert_int_equal(test_call_wait(&call), ZLINK_OK);
    test_call_release(&call);
    node_read(&pair.server);
    assert_int_equal(pair.server.seen.target_kind, ZLINK_TARGET_INSTANCE_SPOT);
    assert_string_equal(pair.server.seen.target, "counter");
    assert_string_equal(pair.server.seen.spot_id, "cart-7");

    /* The server calls back over the link that it accepted. */
    test_call_init(&call, &pair.server, "anything", "back");
    call.call.route = ZLINK_ROUTE_LINK;
    call.call.link_number = node_look(&pair.server).first_number;
    test_call_submit(&call);
    assert_int_equal(test_call_wait(&call), ZLINK_OK);
    test_call_release(&call);

    test_call_init(&call, &pair.caller, "counter", "add");
    call.call.route = ZLINK_ROUTE_NODE;
    call.call.node = "nobody";
    test_call_submit(&call);
    assert_int_equal(test_call_wait(&call), ZLINK_UNAVAILABLE);
    test_call_release(&call);
    test_call_init(&call, &pair.caller, "counter", "add");
    call.call.route = ZLINK_ROUTE_LINK;
    call.call.link_number = 999;
    test_call_submit(&call);
    assert_int_equal(test_call_wait(&call), ZLINK_UNAVAILABLE);
    test_call_release(&call);
    pair_stop(&pair);
}

/* TR-31, TR-32: a channel that nobody ever served is not found; a known one without a ready link is unavailable. */
static void test_tr31_tr32_not_found_and_unavailable(void **state)
{
    pair_t pair;

    (void)state;
    pair_init(&pair, false);
    pair_start(&pair);
    assert_int_equal(node_ask(&pair.caller, "orders", "x"), ZLINK_NOT_FOUND);
    assert_int_equal(node_ask(&pair.caller, "prices", "x"), ZLINK_OK);
    node_stop(&pair.server);
    fixture_wait_for(&pair.caller.lost, 1);
    assert_int_equal(node_ask(&pair.caller, "prices", "x"), ZLINK_UNAVAILABLE);
    assert_int_equal(node_ask(&pair.caller, "orders", "x"), ZLINK_NOT_FOUND);
    node_stop(&pair.caller);
}

static void test_large_messages_and_the_peers_limit(void **state)
{
    const size_t fits = (1u << 20) - ZLINK_WIRE_SMALL_ENVELOPE_MAX;
    uint8_t *bytes = pattern_make(7, fits + 1);
    pair_t pair;
    test_call_t call;

    (void)state;
    pair_init(&pair, false);
    pair_start(&pair);
    test_call_init(&call, &pair.caller, "prices", "");
    call.call.payload = bytes;
    call.call.payload_bytes = fits;
    test_call_submit(&call);
    assert_int_equal(test_call_wait(&call), ZLINK_OK);
    assert_int_equal(call.answer_bytes, fits);
    pattern_check(7, call.answer, sizeof(call.answer));
    test_call_release(&call);

    test_call_init(&call, &pair.caller, "prices", "");
    call.call.payload = bytes;
    call.call.payload_bytes = fits + 1;
    test_call_submit(&call);
    assert_int_equal(test_call_wait(&call), ZLINK_PROTOCOL_ERROR); /* the peer said what it takes */
    test_call_release(&call);
    assert_int_equal(node_ask(&pair.caller, "prices", "still there"), ZLINK_OK);
    pair_stop(&pair);
    free(bytes);
}

static void test_the_limit_of_pending_calls(void **state)
{
    enum { LIMIT = 4 };
    pair_t pair;
    test_call_t calls[LIMIT], one_more;

    (void)state;
    pair_init(&pair, false);
    pair.caller.options.pending_max = LIMIT;
    atomic_store(&pair.server.habit, NODE_HOLDS);
    pair_start(&pair);
    for (size_t i = 0; i < LIMIT; i++) {
        test_call_init(&calls[i], &pair.caller, "prices", "held");
        test_call_submit(&calls[i]);
    }
    test_call_init(&one_more, &pair.caller, "prices", "x");
    test_call_submit(&one_more);
    assert_int_equal(test_call_wait(&one_more), ZLINK_CAPACITY_EXCEEDED);
    test_call_release(&one_more);
    fixture_wait_for(&pair.server.held_count, LIMIT);
    for (size_t i = 0; i < LIMIT; i++) {
        node_reply(&pair.server, i, i % 2 ? ZLINK_DATA_LOST : ZLINK_OK);
        assert_int_equal(test_call_wait(&calls[i]), i % 2 ? ZLINK_DATA_LOST : ZLINK_OK);
        assert_string_equal(calls[i].packet, i % 2 ? "" : "tests.Held");
        test_call_release(&calls[i]);
    }
    assert_int_equal(node_look(&pair.caller).pending, 0);
    pair_stop(&pair);
}

/* EX-48, EX-50: a call whose time is over has ended and is not sent again; the answer that comes later finds nobody and
 * harms nothing. */
static void test_ex48_ex50_timeout_then_late_answer(void **state)
{
    pair_t pair;
    test_call_t call;

    (void)state;
    pair_init(&pair, true);
    atomic_store(&pair.server.habit, NODE_HOLDS);
    pair_start(&pair);
    test_call_init(&call, &pair.caller, "prices", "slow");
    call.call.deadline_ms = zlink_clock_now_ms(pair.caller.clock) + 200;
    test_call_submit(&call);
    fixture_wait_for(&pair.server.held_count, 1);
    node_read(&pair.server);
    assert_int_equal(pair.server.seen.deadline_ms, 200);
    virtual_clock_advance(&pair.clock, pair.caller.reactor, 199);
    assert_int_equal(atomic_load(&call.completions), 0);
    virtual_clock_advance(&pair.clock, pair.caller.reactor, 1);
    assert_int_equal(test_call_wait(&call), ZLINK_DEADLINE_EXCEEDED);
    assert_int_equal(node_look(&pair.caller).pending, 0);

    node_reply(&pair.server, 0, ZLINK_OK);
    atomic_store(&pair.server.habit, NODE_ECHOES);
    assert_int_equal(node_ask(&pair.caller, "prices", "next"), ZLINK_OK); /* its reply came behind the late one */
    test_call_release(&call);
    assert_int_equal(atomic_load(&pair.caller.lost), 0);

    /* A call that is late already is not sent. */
    const size_t before = atomic_load(&pair.server.requests);
    test_call_init(&call, &pair.caller, "prices", "too late");
    call.call.deadline_ms = zlink_clock_now_ms(pair.caller.clock);
    test_call_submit(&call);
    assert_int_equal(test_call_wait(&call), ZLINK_DEADLINE_EXCEEDED);
    test_call_release(&call);
    assert_int_equal(node_ask(&pair.caller, "prices", "next"), ZLINK_OK);
    assert_int_equal(atomic_load(&pair.server.requests), before + 1);
    pair_stop(&pair);
}

static void test_a_frame_that_waits_is_brought_again(void **state)
{
    enum { CALLS = 10 };
    pair_t pair;
    test_call_t calls[CALLS];

    (void)state;
    pair_init(&pair, false);
    atomic_store(&pair.server.habit, NODE_WAITS);
    pair_start(&pair);
    for (size_t i = 0; i < CALLS; i++) {
        test_call_init(&calls[i], &pair.caller, "prices", "patience");
        test_call_submit(&calls[i]);
    }
    fixture_wait_for(&pair.server.waits, 1);
    zlink_reactor_call(pair.server.reactor, node_resume_here, &pair.server); /* and it waits once more */
    fixture_wait_for(&pair.server.waits, 2);
    assert_int_equal(atomic_load(&pair.server.requests), 0);
    atomic_store(&pair.server.habit, NODE_ECHOES);
    zlink_reactor_call(pair.server.reactor, node_resume_here, &pair.server);
    for (size_t i = 0; i < CALLS; i++) {
        assert_int_equal(test_call_wait(&calls[i]), ZLINK_OK);
        test_call_release(&calls[i]);
    }
    assert_int_equal(atomic_load(&pair.server.requests), CALLS);
    pair_stop(&pair);
}

/* ---- the end of a link ---- */

/* EX-48, EX-50: what waits for a lost peer ends with Unavailable, each call once; the dialer links again, and nothing
 * of it is sent again. */
static void test_ex48_ex50_link_loss_ends_calls_once(void **state)
{
    enum { CALLS = 20 };
    pair_t pair;
    test_call_t calls[CALLS];

    (void)state;
    pair_init(&pair, false);
    atomic_store(&pair.server.habit, NODE_HOLDS);
    pair_start(&pair);
    for (size_t i = 0; i < CALLS; i++) {
        test_call_init(&calls[i], &pair.caller, "prices", "held");
        test_call_submit(&calls[i]);
    }
    fixture_wait_for(&pair.server.held_count, CALLS);
    zlink_reactor_call(pair.server.reactor, node_cut_here, &pair.server);
    for (size_t i = 0; i < CALLS; i++)
        assert_int_equal(test_call_wait(&calls[i]), ZLINK_UNAVAILABLE);
    fixture_wait_for(&pair.caller.ready, 2);
    fixture_wait_for(&pair.server.ready, 2);
    for (size_t i = 0; i < CALLS; i++)
        node_reply(&pair.server, i, ZLINK_OK); /* to a link that is gone */
    atomic_store(&pair.server.habit, NODE_ECHOES);
    assert_int_equal(node_ask(&pair.caller, "prices", "again"), ZLINK_OK);
    assert_int_equal(node_look(&pair.caller).pending, 0);
    assert_int_equal(atomic_load(&pair.server.requests), CALLS + 1); /* the one that was asked anew behind them */
    for (size_t i = 0; i < CALLS; i++)
        test_call_release(&calls[i]);
    pair_stop(&pair);
}

/* ---- everything at once ---- */

typedef struct race {
    pair_t pair;
    pthread_barrier_t start;
} race_t;

static void *race_reply(void *context)
{
    race_t *race = context;

    pthread_barrier_wait(&race->start);
    node_reply(&race->pair.server, 0, ZLINK_OK);
    return NULL;
}

static void *race_time(void *context)
{
    race_t *race = context;

    pthread_barrier_wait(&race->start);
    virtual_clock_advance(&race->pair.clock, race->pair.caller.reactor, 200);
    return NULL;
}

static void *race_cut(void *context)
{
    race_t *race = context;

    pthread_barrier_wait(&race->start);
    zlink_reactor_call(race->pair.caller.reactor, node_cut_here, &race->pair.caller);
    return NULL;
}

/* TR-44: a reply, the time and the loss of the link at the same moment: the call ends once, by one of them. */
static void test_tr44_reply_timeout_and_loss_at_once(void **state)
{
    static void *(*const racers[])(void *) = {race_reply, race_time, race_cut};
    enum { ROUNDS = 60, RACERS = 3 };
    unsigned ends[ZLINK_STATUS_COUNT] = {0};
    static race_t race;

    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        pthread_t threads[RACERS];
        test_call_t call;
        pair_init(&race.pair, true);
        atomic_store(&race.pair.server.habit, NODE_HOLDS);
        pair_start(&race.pair);
        test_call_init(&call, &race.pair.caller, "prices", "all at once");
        call.call.deadline_ms = zlink_clock_now_ms(race.pair.caller.clock) + 200;
        test_call_submit(&call);
        fixture_wait_for(&race.pair.server.held_count, 1);
        pthread_barrier_init(&race.start, NULL, RACERS);
        for (unsigned i = 0; i < RACERS; i++) /* in another order each time */
            assert_int_equal(pthread_create(&threads[i], NULL, racers[(i + round) % RACERS], &race), 0);
        for (unsigned i = 0; i < RACERS; i++)
            pthread_join(threads[i], NULL);
        ends[test_call_wait(&call)]++;
        assert_int_equal(node_look(&race.pair.caller).pending, 0);
        test_call_release(&call);
        pair_stop(&race.pair);
        pthread_barrier_destroy(&race.start);
    }
    assert_int_equal(ends[ZLINK_OK] + ends[ZLINK_DEADLINE_EXCEEDED] + ends[ZLINK_UNAVAILABLE], ROUNDS);
}

/* EX-48: closing ends what waits with ShuttingDown, and what comes afterwards too. */
static void test_ex48_close_ends_calls_with_shutting_down(void **state)
{
    enum { CALLS = 20 };
    pair_t pair;
    test_call_t calls[CALLS], late;

    (void)state;
    pair_init(&pair, false);
    atomic_store(&pair.server.habit, NODE_HOLDS);
    pair_start(&pair);
    for (size_t i = 0; i < CALLS; i++) {
        test_call_init(&calls[i], &pair.caller, "prices", "held");
        test_call_submit(&calls[i]);
    }
    fixture_wait_for(&pair.server.held_count, CALLS);
    zlink_reactor_call(pair.caller.reactor, node_close_here, &pair.caller);
    test_call_init(&late, &pair.caller, "prices", "late");
    test_call_submit(&late);
    for (size_t i = 0; i < CALLS; i++) {
        assert_int_equal(test_call_wait(&calls[i]), ZLINK_SHUTTING_DOWN);
        test_call_release(&calls[i]);
    }
    assert_int_equal(test_call_wait(&late), ZLINK_SHUTTING_DOWN);
    test_call_release(&late);
    fixture_wait(&pair.caller.closed);
    zlink_reactor_call(pair.caller.reactor, node_destroy_here, &pair.caller);
    fixture_wait_for(&pair.server.lost, 1);
    pair_stop(&pair);
}

static void test_a_peer_that_starts_anew_is_linked_anew(void **state)
{
    pair_t pair;
    char address[64];

    (void)state;
    pair_init(&pair, false);
    pair_start(&pair);
    snprintf(address, sizeof(address), "%s", pair.server.address);
    node_stop(&pair.server);
    fixture_wait_for(&pair.caller.lost, 1);
    node_init(&pair.server, "server");
    pair.server.options.listen = address;
    pair.server.options.channels = pair_channels;
    pair.server.options.channel_count = 1;
    node_start(&pair.server);
    fixture_wait_for(&pair.caller.ready, 2);
    fixture_wait_for(&pair.server.ready, 1);
    assert_int_equal(node_ask(&pair.caller, "prices", "hello"), ZLINK_OK);
    pair_stop(&pair);
}

/* ---- who dials whom ---- */

/* TR-9, TR-10: where two nodes dial each other one link stays, the one that the smaller node id has dialled. */
static void test_tr9_tr10_two_nodes_that_dial_each_other_keep_one_link(void **state)
{
    static const char *const channels[] = {"here"};

    (void)state;
    for (int round = 0; round < 10; round++) {
        node_t nodes[2];
        const char *peers[2];
        node_init(&nodes[0], "left");
        node_init(&nodes[1], "right");
        /* Each has to know the other's address before it starts: ports that were free a moment ago. */
        char addresses[2][64];
        for (size_t i = 0; i < 2; i++)
            node_start(&nodes[i]);
        for (size_t i = 0; i < 2; i++) {
            snprintf(addresses[i], sizeof(addresses[i]), "%s", nodes[i].address);
            node_stop(&nodes[i]);
        }
        node_init(&nodes[0], "left");
        node_init(&nodes[1], "right");
        for (size_t i = 0; i < 2; i++) {
            peers[i] = addresses[1 - i];
            nodes[i].options.listen = addresses[i];
            nodes[i].options.peers = &peers[i];
            nodes[i].options.peer_count = 1;
            nodes[i].options.channels = channels;
            nodes[i].options.channel_count = 1;
        }
        node_start(&nodes[round % 2]);
        node_start(&nodes[1 - round % 2]);
        node_wait_links(&nodes[0], 1);
        node_wait_links(&nodes[1], 1);
        for (size_t i = 0; i < 2; i++) {
            for (int ask = 0; ask < 4; ask++)
                assert_int_equal(node_ask(&nodes[i], "here", "both"), ZLINK_OK);
            assert_int_equal(atomic_load(&nodes[i].picked), 2); /* every other call: the node serves it too */
            assert_int_equal(atomic_load(&nodes[1 - i].requests), 2);
        }
        node_stop(&nodes[0]);
        node_stop(&nodes[1]);
    }
}

static void test_a_node_that_dials_itself_gives_up(void **state)
{
    node_t node;
    const char *peers[1];
    char address[64];

    (void)state;
    node_init(&node, "alone");
    node_start(&node);
    snprintf(address, sizeof(address), "%s", node.address);
    node_stop(&node);
    node_init(&node, "alone");
    peers[0] = address;
    node.options.listen = address;
    node.options.peers = peers;
    node.options.peer_count = 1;
    node_start(&node);
    fixture_wait_for(&node.failed, 1);
    node_wait_ends(&node, 0);
    assert_int_equal(node_look(&node).standby, 1);
    assert_int_equal(node_look(&node).links, 0);
    assert_int_equal(atomic_load(&node.ready), 0);
    node_stop(&node);
}

static void test_another_mesh_is_refused(void **state)
{
    pair_t pair;

    (void)state;
    pair_init(&pair, false);
    strcpy(pair.caller.identity.mesh, "elsewhere");
    node_start(&pair.server);
    node_start(&pair.caller);
    fixture_wait_for(&pair.caller.failed, 2); /* it goes on trying */
    assert_string_equal(node_read(&pair.caller)->reason, "another mesh");
    assert_int_equal(atomic_load(&pair.caller.ready), 0);
    assert_int_equal(atomic_load(&pair.server.ready), 0);
    pair_stop(&pair);
}

/* ---- three nodes ---- */

static void test_members_take_turns_and_a_draining_one_gets_nothing_new(void **state)
{
    node_t first, second, caller, newcomer;
    const char *peers[2];
    test_call_t held;

    (void)state;
    node_init(&first, "first");
    node_init(&second, "second");
    node_init(&caller, "caller");
    node_init(&newcomer, "newcomer");
    first.options.channels = second.options.channels = pair_channels;
    first.options.channel_count = second.options.channel_count = 1;
    node_start(&first);
    node_start(&second);
    peers[0] = first.address;
    peers[1] = second.address;
    caller.options.peers = newcomer.options.peers = peers;
    caller.options.peer_count = 2;
    newcomer.options.peer_count = 1;
    node_start(&caller);
    fixture_wait_for(&caller.ready, 2);
    fixture_wait_for(&first.ready, 1);
    fixture_wait_for(&second.ready, 1);
    for (int i = 0; i < 10; i++)
        assert_int_equal(node_ask(&caller, "prices", "turn"), ZLINK_OK);
    assert_int_equal(atomic_load(&first.requests), 5);
    assert_int_equal(atomic_load(&second.requests), 5);

    /* A call that the first node has taken is still answered while it drains. */
    atomic_store(&first.habit, NODE_HOLDS);
    test_call_init(&held, &caller, "prices", "held");
    held.call.route = ZLINK_ROUTE_NODE;
    held.call.node = "first";
    test_call_submit(&held);
    fixture_wait_for(&first.held_count, 1);
    zlink_reactor_call(first.reactor, node_drain_here, &first);
    while (atomic_load(&caller.members) != 1)
        zlink_reactor_call(caller.reactor, fixture_nothing, NULL);
    for (int i = 0; i < 10; i++)
        assert_int_equal(node_ask(&caller, "prices", "turn"), ZLINK_OK);
    assert_int_equal(atomic_load(&first.requests), 6);
    assert_int_equal(atomic_load(&second.requests), 15);
    node_reply(&first, 0, ZLINK_OK);
    assert_int_equal(test_call_wait(&held), ZLINK_OK);
    test_call_release(&held);

    node_start(&newcomer);
    fixture_wait_for(&newcomer.failed, 1);
    assert_string_equal(node_read(&newcomer)->reason, "draining");
    assert_int_equal(atomic_load(&newcomer.ready), 0);
    node_stop(&newcomer);
    node_stop(&caller);
    node_stop(&second);
    node_stop(&first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_link_has_two_connections),
        cmocka_unit_test(test_request_reply_error_and_one_way),
        cmocka_unit_test(test_a_spot_of_a_named_node_and_of_a_link),
        cmocka_unit_test(test_tr31_tr32_not_found_and_unavailable),
        cmocka_unit_test(test_large_messages_and_the_peers_limit),
        cmocka_unit_test(test_the_limit_of_pending_calls),
        cmocka_unit_test(test_ex48_ex50_timeout_then_late_answer),
        cmocka_unit_test(test_a_frame_that_waits_is_brought_again),
        cmocka_unit_test(test_ex48_ex50_link_loss_ends_calls_once),
        cmocka_unit_test(test_tr44_reply_timeout_and_loss_at_once),
        cmocka_unit_test(test_ex48_close_ends_calls_with_shutting_down),
        cmocka_unit_test(test_a_peer_that_starts_anew_is_linked_anew),
        cmocka_unit_test(test_tr9_tr10_two_nodes_that_dial_each_other_keep_one_link),
        cmocka_unit_test(test_a_node_that_dials_itself_gives_up),
        cmocka_unit_test(test_another_mesh_is_refused),
        cmocka_unit_test(test_members_take_turns_and_a_draining_one_gets_nothing_new),
    };
    zlink_log_set_level(ZLINK_LOG_OFF);
    return zlink_test_main(tests);
}
