/*
 * Who links to whom: node ids, who dials, object roles, links that nobody needs, peers that are expected by name, and
 * what a node says twice.
 */
#include "mesh_fixture.h"
#include "raw_peer.h"

static raw_frame_t frame;
static const char *const channels[] = {"here"};

/* ---- identities ---- */

/* TR-76: name, "-", a version 4 UUID; another one at every start. */
static void test_tr76_a_node_id_is_new_at_every_start(void **state)
{
    zlink_node_identity_t lives[16];

    (void)state;
    for (size_t i = 0; i < 16; i++) {
        assert_int_equal(zlink_node_identity_make(&lives[i], "unit", "shop-a.1"), ZLINK_OK);
        assert_true(zlink_wire_node_id_belongs_to(lives[i].node_id, "shop-a.1"));
        assert_true(lives[i].generation >= 1 && lives[i].generation <= INT64_MAX);
        for (size_t earlier = 0; earlier < i; earlier++) {
            assert_string_not_equal(lives[earlier].node_id, lives[i].node_id);
            assert_true(lives[earlier].generation != lives[i].generation);
        }
    }
}

/* TR-9: of each pair exactly one dials, the one with the smaller id, by unsigned bytes and shorter prefix first. */
static void test_tr9_the_smaller_node_id_dials(void **state)
{
    static const char *const rising[] = {"B", "a", "a-", "a-1", "ab", "b", "\xc3\xa9"};
    const size_t count = sizeof(rising) / sizeof(rising[0]);

    (void)state;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < count; k++)
            assert_int_equal(zlink_node_identity_dials(rising[i], rising[k]), i < k);
}

/* ---- links that nobody needs ---- */

typedef struct dialer_look {
    node_t *node;
    bool not_required;
    bool has_link;
} dialer_look_t;

static void look_here(void *context)
{
    dialer_look_t *look = context;
    const zlink_mesh_dialer_t *dialer = &look->node->mesh->dialers[0];

    look->not_required = dialer->not_required;
    look->has_link = dialer->link != NULL;
}

static bool is_not_required(node_t *node)
{
    dialer_look_t look = {.node = node};

    zlink_reactor_call(node->reactor, look_here, &look);
    return look.not_required && !look.has_link;
}

static void clients_init(pair_t *pair, bool virtual_time)
{
    pair_init(pair, virtual_time);
    pair->server.options.channel_count = 0;
    pair->server.options.role = pair->caller.options.role = ZLINK_ROLE_CLIENT;
}

/* TR-11: no link, no further attempt however long it waits, and no failure is counted. */
static void test_tr11_two_clients_that_serve_nothing_part(void **state)
{
    pair_t pair;

    (void)state;
    clients_init(&pair, true);
    node_start(&pair.server);
    node_start(&pair.caller);
    fixture_wait_for(&pair.caller.failed, 1);
    node_wait_ends(&pair.caller, 0);
    node_wait_ends(&pair.server, 0);
    assert_true(is_not_required(&pair.caller));
    for (int second = 0; second < 120; second++) {
        virtual_clock_advance(&pair.clock, pair.caller.reactor, 1000);
        virtual_clock_advance(&pair.clock, pair.server.reactor, 0);
        assert_int_equal(node_look(&pair.caller).ends, 0);
        assert_int_equal(node_look(&pair.server).ends, 0);
    }
    assert_true(is_not_required(&pair.caller));
    assert_int_equal(atomic_load(&pair.caller.failed), 1);
    assert_int_equal(atomic_load(&pair.caller.ready) + atomic_load(&pair.server.ready), 0);
    pair_stop(&pair);
}

/* TR-12: a membership makes the link worth having, with any weight, on either side; its channel can be called. */
static void test_tr12_a_membership_of_weight_0_is_one(void **state)
{
    static const uint32_t nothing[] = {0}, something[] = {1};

    (void)state;
    for (int round = 0; round < 2; round++) {
        pair_t pair;
        clients_init(&pair, false);
        node_t *member = round == 0 ? &pair.server : &pair.caller;
        node_t *other = round == 0 ? &pair.caller : &pair.server;
        member->options.channels = channels;
        member->options.channel_count = 1;
        member->options.channel_weights = nothing;
        pair_start(&pair);
        assert_int_equal(node_ask(other, "here", "x"), ZLINK_UNAVAILABLE);
        pair_stop(&pair);
    }
    pair_t pair;
    clients_init(&pair, false);
    pair.caller.options.channels = channels;
    pair.caller.options.channel_count = 1;
    pair.caller.options.channel_weights = something;
    pair_start(&pair);
    assert_int_equal(node_ask(&pair.server, "here", "x"), ZLINK_OK);
    pair_stop(&pair);
}

/* TR-11: only who serves nothing itself has to believe it; a server keeps trying. */
static void test_tr11_a_server_does_not_believe_it(void **state)
{
    zlink_wire_reject_t reject = {.code = ZLINK_REJECT_NOT_REQUIRED, .reason = "go away"};
    uint8_t envelope[ZLINK_WIRE_SMALL_ENVELOPE_MAX];
    const char *peers[1];
    char address[64];
    size_t size = 0;
    node_t node;

    (void)state;
    int listener = raw_listen(address);
    assert_int_equal(zlink_wire_reject_encode(&reject, envelope, sizeof(envelope), &size), ZLINK_OK);
    node_init(&node, "server");
    peers[0] = address;
    node.options.peers = peers;
    node.options.peer_count = 1;
    node_start(&node);
    for (int attempt = 0; attempt < 2; attempt++) {
        int fd = raw_accept(listener);
        raw_expect(fd, ZLINK_FRAME_HELLO, &frame);
        raw_send(fd, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_REJECT}, envelope, size, NULL, 0);
        close(fd);
    }
    assert_false(is_not_required(&node));
    close(listener);
    node_stop(&node);
}

/* Two object Clients that serve channels and dial each other end with one link, too. */
static void test_two_clients_that_serve_and_dial_each_other_keep_one_link(void **state)
{
    (void)state;
    for (int round = 0; round < 6; round++) {
        node_t nodes[2];
        const char *peers[2];
        char addresses[2][64];

        for (size_t i = 0; i < 2; i++) {
            node_init(&nodes[i], i ? "right" : "left");
            node_start(&nodes[i]);
            snprintf(addresses[i], sizeof(addresses[i]), "%s", nodes[i].address);
        }
        for (size_t i = 0; i < 2; i++)
            node_stop(&nodes[i]);
        for (size_t i = 0; i < 2; i++) {
            node_init(&nodes[i], i ? "right" : "left");
            peers[i] = addresses[1 - i];
            nodes[i].options.listen = addresses[i];
            nodes[i].options.peers = &peers[i];
            nodes[i].options.peer_count = 1;
            nodes[i].options.role = ZLINK_ROLE_CLIENT;
            nodes[i].options.channels = channels;
            nodes[i].options.channel_count = i == 0 || round % 3 != 2; /* one of them may serve nothing */
        }
        node_start(&nodes[round % 2]);
        node_start(&nodes[1 - round % 2]);
        for (size_t i = 0; i < 2; i++)
            node_wait_links(&nodes[i], 1);
        assert_int_equal(node_ask(&nodes[1], "here", "x"), ZLINK_OK);
        for (size_t i = 0; i < 2; i++)
            node_stop(&nodes[i]);
    }
}

/* A client of the name "raw"; its channel, if it has one, is "raw". */
static raw_link_t join_as_client(const node_t *node, const char *node_id, uint64_t link_id, bool serves)
{
    raw_link_t link;
    int *const fds[2] = {&link.application, &link.completion};

    for (int lane = 0; lane < 2; lane++) {
        zlink_wire_hello_t hello = raw_hello(node_id, (zlink_connection_lane_t)lane, link_id);
        hello.role = ZLINK_ROLE_CLIENT;
        hello.channel_count = serves;
        *fds[lane] = raw_connect(node->address);
        raw_say(*fds[lane], ZLINK_FRAME_HELLO, &hello);
        raw_expect(*fds[lane], ZLINK_FRAME_ADMIT, &frame);
    }
    return link;
}

/* The name of a client that serves a channel belongs to one process: a later life takes it over. Those that serve
 * nothing may share it. */
static void test_a_name_belongs_to_who_serves(void **state)
{
    (void)state;
    for (int serves = 0; serves < 2; serves++) {
        node_t node;
        node_init(&node, "node");
        node_start(&node);
        raw_link_t old = join_as_client(&node, "raw" RAW_UUID, 1, serves);
        fixture_wait_for(&node.ready, 1);
        raw_link_t new = join_as_client(&node, "raw-76543210-fedc-4ba9-a765-43210fedcba9", 2, serves);
        fixture_wait_for(&node.ready, 2);
        if (serves) {
            fixture_wait_for(&node.lost, 1);
            assert_string_equal(node_read(&node)->reason, "the peer has started anew");
        }
        assert_int_equal(node_look(&node).ready, serves ? 1 : 2);
        raw_leave(&old);
        raw_leave(&new);
        node_wait_links(&node, 0);
        node_stop(&node);
    }
}

/* ---- who is expected ---- */

/* Dials a server that is not, or is, who is expected there. */
static void expect_peer(const char *expected, bool fits)
{
    const char *expected_peers[1] = {expected};
    pair_t pair;

    pair_init(&pair, false);
    if (!expected)
        expected_peers[0] = pair.server.identity.node_id;
    pair.caller.options.expected_peers = expected_peers;
    if (fits) {
        pair_start(&pair);
        assert_int_equal(node_ask(&pair.caller, "prices", "x"), ZLINK_OK);
    } else {
        node_start(&pair.server);
        node_start(&pair.caller);
        fixture_wait_for(&pair.caller.failed, 2); /* it tries again: the right one may come to that address */
        assert_string_equal(node_read(&pair.caller)->reason, "another node than the expected one answers");
        assert_int_equal(atomic_load(&pair.caller.ready) + atomic_load(&pair.server.ready), 0);
        assert_int_equal(node_ask(&pair.caller, "prices", "x"), ZLINK_NOT_FOUND);
    }
    pair_stop(&pair);
}

/* TR-13: by name, or by the id of one life. */
static void test_tr13_another_node_than_expected_is_never_ready(void **state)
{
    (void)state;
    expect_peer("server", true);
    expect_peer(NULL, true);
    expect_peer("another", false);
    expect_peer("server-76543210-fedc-4ba9-a765-43210fedcba9", false);
}

/* ---- said twice ---- */

typedef struct liveness_look {
    node_t *node;
    uint64_t ready_since_ms, number;
} liveness_look_t;

static void liveness_here(void *context)
{
    liveness_look_t *look = context;
    const zlink_peer_link_t *link = TAILQ_FIRST(&look->node->mesh->links);

    look->ready_since_ms = link->ready_since_ms;
    look->number = link->number;
}

/* TR-29: the same HELLO again on both connections changes nothing, neither what is known nor when the link expires. */
static void test_tr29_the_same_hello_again_changes_nothing(void **state)
{
    virtual_clock_t clock;
    node_t node;

    (void)state;
    virtual_clock_init(&clock);
    node_init(&node, "node");
    node.clock = &clock.clock;
    node.options.channels = pair_channels;
    node.options.channel_count = 1;
    node_start(&node);
    raw_link_t link = raw_join(node.address, "raw" RAW_UUID, 9);
    fixture_wait_for(&node.ready, 1);
    liveness_look_t before = {.node = &node}, after = {.node = &node};
    zlink_reactor_call(node.reactor, liveness_here, &before);

    for (int second = 1; second < 15; second++) { /* nobody answers its probes */
        virtual_clock_advance(&clock, node.reactor, 1000);
        raw_say_hello(link.application, "raw" RAW_UUID, ZLINK_CONNECTION_APPLICATION, 9);
        raw_say_hello(link.completion, "raw" RAW_UUID, ZLINK_CONNECTION_COMPLETION, 9);
    }
    raw_request(link.application, 1, "x");
    fixture_wait_for(&node.requests, 1); /* behind all of them */
    zlink_reactor_call(node.reactor, liveness_here, &after);
    assert_true(before.ready_since_ms == after.ready_since_ms && before.number == after.number);
    assert_int_equal(node_look(&node).links, 1);
    assert_int_equal(node_look(&node).ends, 2);
    assert_int_equal(atomic_load(&node.ready), 1);
    assert_int_equal(atomic_load(&node.members), 1);
    do { /* only its answer to the request and its probes came, no second ADMIT */
        assert_true(raw_read(link.completion, &frame));
        assert_true(frame.prefix.kind != ZLINK_FRAME_ADMIT);
    } while (frame.prefix.kind != ZLINK_FRAME_REPLY);
    virtual_clock_advance(&clock, node.reactor, 1000);
    fixture_wait_for(&node.lost, 1); /* 15 s after it was ready, as if nothing had been said */
    raw_leave(&link);
    node_wait_links(&node, 0);
    node_stop(&node);
}

static void second_hello_ends_the_link(void (*change)(zlink_wire_hello_t *hello))
{
    node_t node;

    node_init(&node, "node");
    node_start(&node);
    raw_link_t link = raw_join(node.address, "raw" RAW_UUID, 9);
    fixture_wait_for(&node.ready, 1);
    zlink_wire_hello_t hello = raw_hello("raw" RAW_UUID, ZLINK_CONNECTION_APPLICATION, 9);
    change(&hello);
    raw_say(link.application, ZLINK_FRAME_HELLO, &hello);
    fixture_wait_for(&node.lost, 1);
    assert_string_equal(node_read(&node)->reason, "a second description that differs from the first");
    raw_leave(&link);
    node_wait_links(&node, 0);
    node_stop(&node);
}

static void change_generation(zlink_wire_hello_t *hello)
{
    hello->generation++;
}

static void change_revision(zlink_wire_hello_t *hello)
{
    hello->revision++;
}

static void change_channels(zlink_wire_hello_t *hello)
{
    hello->channel_count = 0;
}

static void change_link(zlink_wire_hello_t *hello)
{
    hello->link_id++;
}

static void test_tr29_another_hello_ends_the_link(void **state)
{
    (void)state;
    second_hello_ends_the_link(change_generation);
    second_hello_ends_the_link(change_revision);
    second_hello_ends_the_link(change_channels);
    second_hello_ends_the_link(change_link);
}

/* ---- linked anew ---- */

/* The dialer's whole handshake with a raw acceptor; answers its link id. The caller closes the two connections. */
static uint64_t admit_both(int listener, int fds[2], uint64_t last_link_id)
{
    uint64_t link_id = 0;

    for (int lane = 0; lane < 2; lane++) {
        zlink_wire_hello_t said = {.channel_capacity = 0};
        fds[lane] = raw_accept(listener);
        raw_expect(fds[lane], ZLINK_FRAME_HELLO, &frame);
        assert_int_equal(zlink_wire_hello_decode(frame.body, frame.prefix.envelope_bytes, &said, NULL), ZLINK_OK);
        assert_int_equal(said.lane, lane);
        assert_true(said.link_id != 0 && said.link_id != last_link_id);
        assert_true(lane == 0 || said.link_id == link_id);
        link_id = said.link_id;
        zlink_wire_hello_t admit = raw_hello("raw" RAW_UUID, (zlink_connection_lane_t)lane, link_id);
        raw_say(fds[lane], ZLINK_FRAME_ADMIT, &admit);
    }
    return link_id;
}

/* TR-53: after a loss everything begins at HELLO again: a new link id, both connections, and every name announced
 * anew. */
static void test_tr53_a_lost_link_is_admitted_anew(void **state)
{
    const char *peers[1];
    char address[64];
    uint64_t link_id = 0;
    node_t node;

    (void)state;
    int listener = raw_listen(address);
    node_init(&node, "node");
    peers[0] = address;
    node.options.peers = peers;
    node.options.peer_count = 1;
    node_start(&node);
    for (size_t life = 0; life < 3; life++) {
        test_call_t call;
        int fds[2];

        link_id = admit_both(listener, fds, link_id);
        fixture_wait_for(&node.ready, life + 1);
        test_call_init(&call, &node, "raw", "x");
        test_call_submit(&call);
        raw_expect(fds[0], ZLINK_FRAME_ANNOUNCE, &frame);
        raw_expect(fds[0], ZLINK_FRAME_ANNOUNCE, &frame);
        raw_expect(fds[0], ZLINK_FRAME_REQUEST, &frame);
        assert_int_equal(frame.prefix.target_id, 1);
        close(fds[1]);
        assert_int_equal(test_call_wait(&call), ZLINK_UNAVAILABLE); /* what was open ends, and is not sent again */
        test_call_release(&call);
        close(fds[0]);
    }
    close(listener);
    node_stop(&node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tr76_a_node_id_is_new_at_every_start),
        cmocka_unit_test(test_tr9_the_smaller_node_id_dials),
        cmocka_unit_test(test_tr11_two_clients_that_serve_nothing_part),
        cmocka_unit_test(test_tr12_a_membership_of_weight_0_is_one),
        cmocka_unit_test(test_tr11_a_server_does_not_believe_it),
        cmocka_unit_test(test_two_clients_that_serve_and_dial_each_other_keep_one_link),
        cmocka_unit_test(test_a_name_belongs_to_who_serves),
        cmocka_unit_test(test_tr13_another_node_than_expected_is_never_ready),
        cmocka_unit_test(test_tr29_the_same_hello_again_changes_nothing),
        cmocka_unit_test(test_tr29_another_hello_ends_the_link),
        cmocka_unit_test(test_tr53_a_lost_link_is_admitted_anew),
    };
    zlink_log_set_level(ZLINK_LOG_OFF);
    return zlink_test_main(tests);
}
