/*
 * Weights that change while nodes run, and calls to exactly one node.
 */
#include "mesh_fixture.h"
#include "raw_peer.h"

#include "base/memory.h"

static raw_frame_t frame;

/* ---- weights ---- */

typedef struct change {
    node_t *node;
    const char *channel;
    uint32_t weight;
    zlink_status_t status;
    uint64_t revision;
} change_t;

static void change_here(void *context)
{
    change_t *change = context;

    change->status = zlink_mesh_set_weight(change->node->mesh, change->channel, change->weight);
    change->revision = change->node->mesh->self.revision;
}

static change_t set_weight(node_t *node, const char *channel, uint32_t weight)
{
    change_t change = {.node = node, .channel = channel, .weight = weight};

    zlink_reactor_call(node->reactor, change_here, &change);
    return change;
}

typedef struct peer_look {
    node_t *node, *peer;
    uint32_t weight;
    uint64_t revision, number;
} peer_look_t;

static void peer_look_here(void *context)
{
    peer_look_t *look = context;
    const zlink_peer_link_t *link = zlink_mesh_find_life(look->node->mesh, look->peer->identity.node_id, NULL);

    look->weight = UINT32_MAX; /* no link */
    if (link == NULL || link->state != ZLINK_LINK_READY)
        return;
    look->weight = link->peer.channels[0].weight;
    look->revision = link->peer.revision;
    look->number = link->number;
}

/* What `node` knows of the weight that `peer` has in its one channel. */
static peer_look_t look_at(node_t *node, node_t *peer)
{
    peer_look_t look = {.node = node, .peer = peer};

    zlink_reactor_call(node->reactor, peer_look_here, &look);
    return look;
}

static void wait_weight(node_t *node, node_t *peer, uint32_t weight)
{
    const time_t until = time(NULL) + FIXTURE_PATIENCE_S;

    while (look_at(node, peer).weight != weight) {
        if (time(NULL) > until)
            fail_msg("the peer never weighed %u", weight);
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    }
}

/* ---- three nodes: `caller` dials `a` and `b`, which serve "prices" ---- */

typedef struct shop {
    node_t a, b, caller;
    const char *peers[2];
} shop_t;

static void shop_start(shop_t *shop, const uint32_t *weight_a, const uint32_t *weight_b)
{
    node_init(&shop->a, "a");
    node_init(&shop->b, "b");
    node_init(&shop->caller, "caller");
    shop->a.options.channels = shop->b.options.channels = pair_channels;
    shop->a.options.channel_count = shop->b.options.channel_count = 1;
    shop->a.options.channel_weights = weight_a;
    shop->b.options.channel_weights = weight_b;
    node_start(&shop->a);
    node_start(&shop->b);
    shop->peers[0] = shop->a.address;
    shop->peers[1] = shop->b.address;
    shop->caller.options.listen = NULL;
    shop->caller.options.peers = shop->peers;
    shop->caller.options.peer_count = 2;
    node_start(&shop->caller);
    fixture_wait_for(&shop->caller.ready, 2);
    fixture_wait_for(&shop->a.ready, 1);
    fixture_wait_for(&shop->b.ready, 1);
}

static void shop_stop(shop_t *shop)
{
    node_stop(&shop->caller);
    node_stop(&shop->a);
    node_stop(&shop->b);
}

/* `calls` requests; answers how many of them `a` got. */
static size_t share_of_a(shop_t *shop, size_t calls)
{
    const size_t before = atomic_load(&shop->a.requests);

    for (size_t i = 0; i < calls; i++)
        assert_int_equal(node_ask(&shop->caller, "prices", "x"), ZLINK_OK);
    return atomic_load(&shop->a.requests) - before;
}

/* TR-4: what a weight may be while the node runs; what is refused changes nothing. */
static void test_tr4_weights_out_of_range_are_refused(void **state)
{
    node_t node;

    (void)state;
    node_init(&node, "node");
    node.options.channels = pair_channels;
    node.options.channel_count = 1;
    node_start(&node);
    assert_int_equal(set_weight(&node, "prices", 10001).status, ZLINK_INVALID_OPERATION);
    assert_int_equal(set_weight(&node, "prices", UINT32_MAX).status, ZLINK_INVALID_OPERATION); /* -1 */
    assert_int_equal(set_weight(&node, "elsewhere", 1).status, ZLINK_NOT_FOUND);
    const change_t same = set_weight(&node, "prices", 100); /* the default: nothing changes */
    assert_int_equal(same.status, ZLINK_OK);
    assert_int_equal(same.revision, 1);
    assert_int_equal(set_weight(&node, "prices", 10000).revision, 2);
    assert_int_equal(set_weight(&node, "prices", 0).revision, 3);
    assert_int_equal(node_ask(&node, "prices", "x"), ZLINK_UNAVAILABLE); /* not even to itself */
    assert_int_equal(set_weight(&node, "prices", 1).revision, 4);
    assert_int_equal(node_ask(&node, "prices", "x"), ZLINK_OK);
    node_stop(&node);
}

/* TR-28: over the links that exist, and for calls that are made afterwards. */
static void test_tr28_a_changed_weight_is_followed_without_a_new_link(void **state)
{
    static const uint32_t one[] = {100}, three[] = {300};
    shop_t shop;

    (void)state;
    shop_start(&shop, one, three);
    const peer_look_t before = look_at(&shop.caller, &shop.a);
    assert_int_equal(before.weight, 100);
    assert_int_equal(look_at(&shop.caller, &shop.b).weight, 300);
    assert_int_equal(share_of_a(&shop, 8), 2);
    assert_int_equal(set_weight(&shop.a, "prices", 900).status, ZLINK_OK);
    wait_weight(&shop.caller, &shop.a, 900);
    assert_int_equal(look_at(&shop.caller, &shop.a).revision, before.revision + 1);
    assert_int_equal(share_of_a(&shop, 8), 6);
    assert_true(look_at(&shop.caller, &shop.a).number == before.number); /* the same link */
    assert_int_equal(atomic_load(&shop.caller.ready), 2);
    assert_int_equal(atomic_load(&shop.caller.lost), 0);
    shop_stop(&shop);
}

/* TR-36: weight 0 gets nothing new; what it has taken it finishes. */
static void test_tr36_weight_0_finishes_what_it_has(void **state)
{
    test_call_t held;
    shop_t shop;

    (void)state;
    shop_start(&shop, NULL, NULL);
    assert_int_equal(set_weight(&shop.b, "prices", 0).status, ZLINK_OK);
    wait_weight(&shop.caller, &shop.b, 0);
    atomic_store(&shop.a.habit, NODE_HOLDS);
    test_call_init(&held, &shop.caller, "prices", "held");
    test_call_submit(&held);
    fixture_wait_for(&shop.a.held_count, 1);

    assert_int_equal(set_weight(&shop.a, "prices", 0).status, ZLINK_OK);
    wait_weight(&shop.caller, &shop.a, 0);
    assert_int_equal(node_ask(&shop.caller, "prices", "x"), ZLINK_UNAVAILABLE); /* both are members, none to be had */
    assert_int_equal(set_weight(&shop.b, "prices", 1).status, ZLINK_OK);
    wait_weight(&shop.caller, &shop.b, 1);
    assert_int_equal(share_of_a(&shop, 10), 0);
    node_reply(&shop.a, 0, ZLINK_OK);
    assert_int_equal(test_call_wait(&held), ZLINK_OK);
    test_call_release(&held);
    shop_stop(&shop);
}

/* TR-28: a change between HELLO and ADMIT is told as soon as the peer listens, and once. */
static void test_tr28_a_change_during_admission_is_not_lost(void **state)
{
    zlink_wire_channel_t list[1];
    const char *peers[1];
    char address[64];
    node_t node;
    int fds[2];

    (void)state;
    int listener = raw_listen(address);
    node_init(&node, "node");
    peers[0] = address;
    node.options.peers = peers;
    node.options.peer_count = 1;
    node.options.channels = pair_channels;
    node.options.channel_count = 1;
    node_start(&node);
    for (int lane = 0; lane < 2; lane++) {
        zlink_wire_hello_t said = {.channels = list, .channel_capacity = 1};
        fds[lane] = raw_accept(listener);
        raw_expect(fds[lane], ZLINK_FRAME_HELLO, &frame);
        assert_int_equal(zlink_wire_hello_decode(frame.body, frame.prefix.envelope_bytes, &said, NULL), ZLINK_OK);
        assert_int_equal(list[0].weight, lane == 0 ? 100 : 7); /* the second HELLO says what is true then */
        if (lane == 0)
            assert_int_equal(set_weight(&node, "prices", 7).status, ZLINK_OK);
        zlink_wire_hello_t admit = raw_hello("raw" RAW_UUID, (zlink_connection_lane_t)lane, said.link_id);
        raw_say(fds[lane], ZLINK_FRAME_ADMIT, &admit);
    }
    zlink_wire_update_t update = {.channels = list, .channel_capacity = 1};
    raw_expect(fds[0], ZLINK_FRAME_UPDATE, &frame);
    assert_int_equal(zlink_wire_update_decode(frame.body, frame.prefix.envelope_bytes, &update, NULL), ZLINK_OK);
    assert_int_equal(update.revision, 2);
    assert_int_equal(list[0].weight, 7);
    fixture_wait_for(&node.ready, 1);
    assert_int_equal(set_weight(&node, "prices", 8).revision, 3);
    raw_expect(fds[0], ZLINK_FRAME_UPDATE, &frame);
    assert_int_equal(zlink_wire_update_decode(frame.body, frame.prefix.envelope_bytes, &update, NULL), ZLINK_OK);
    assert_int_equal(update.revision, 3);
    close(fds[0]);
    close(fds[1]);
    close(listener);
    node_stop(&node);
}

/* A peer that cannot be told goes by old weights no longer: its link ends and is made anew. */
static void change_without_memory_here(void *context)
{
    zlink_memory_fail_after(0);
    change_here(context);
    zlink_memory_fail_after(-1);
}

static void test_a_change_without_memory_is_told_over_a_new_link(void **state)
{
    shop_t shop;

    (void)state;
    shop_start(&shop, NULL, NULL);
    change_t change = {.node = &shop.a, .channel = "prices", .weight = 5};
    zlink_reactor_call(shop.a.reactor, change_without_memory_here, &change);
    assert_int_equal(change.status, ZLINK_OK);
    wait_weight(&shop.caller, &shop.a, 5);
    assert_int_equal(node_look(&shop.caller).ready, 2);
    shop_stop(&shop);
}

/* ---- exactly one node ---- */

static zlink_status_t ask_node(node_t *from, const char *node_id, bool one_way)
{
    test_call_t call;

    test_call_init(&call, from, node_id, "to you");
    call.call.route = ZLINK_ROUTE_EXACT_NODE;
    call.call.target = ZLINK_TARGET_NODE;
    call.call.node = node_id;
    call.call.one_way = one_way;
    if (one_way)
        assert_false(zlink_mesh_take(from->mesh, &call.call)); /* there is no gate: the reactor's word is waited for */
    test_call_submit(&call);
    zlink_status_t status = test_call_wait(&call);
    test_call_release(&call);
    return status;
}

/* TR-30: the named one or nobody, whoever else is there. */
static void test_tr30_a_call_to_a_node_reaches_that_one_only(void **state)
{
    shop_t shop;

    (void)state;
    shop_start(&shop, NULL, NULL);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(ask_node(&shop.caller, shop.a.identity.node_id, i % 2), ZLINK_OK);
        assert_int_equal(ask_node(&shop.a, shop.caller.identity.node_id, false), ZLINK_OK); /* whoever dialled */
    }
    fixture_wait_for(&shop.a.messages, 2);
    assert_int_equal(atomic_load(&shop.a.requests), 2);
    assert_int_equal(atomic_load(&shop.b.requests) + atomic_load(&shop.b.messages), 0);
    assert_int_equal(node_read(&shop.a)->target_kind, ZLINK_TARGET_NODE);
    assert_string_equal(node_read(&shop.a)->target, shop.a.identity.node_id);
    assert_string_equal(node_read(&shop.a)->source, shop.caller.identity.node_id);
    assert_string_equal(node_read(&shop.a)->spot_id, "");

    assert_int_equal(ask_node(&shop.caller, "a", false), ZLINK_NOT_FOUND); /* a name is no id */
    assert_int_equal(ask_node(&shop.caller, "a-76543210-fedc-4ba9-a765-43210fedcba9", true), ZLINK_NOT_FOUND);
    assert_int_equal(ask_node(&shop.a, shop.b.identity.node_id, false), ZLINK_NOT_FOUND); /* no link: not passed on */

    /* Draining does not redirect: the call goes there all the same. */
    zlink_reactor_call(shop.a.reactor, node_drain_here, &shop.a);
    while (look_at(&shop.caller, &shop.a).revision != 2)
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    assert_int_equal(ask_node(&shop.caller, shop.a.identity.node_id, false), ZLINK_OK);
    assert_int_equal(atomic_load(&shop.a.requests), 3);

    /* A life that has ended is nobody, whatever has taken its name over. */
    char gone[ZLINK_WIRE_NODE_ID_BYTES_MAX + 1];
    strcpy(gone, shop.b.identity.node_id);
    node_stop(&shop.b);
    node_wait_links(&shop.caller, 1);
    assert_int_equal(ask_node(&shop.caller, gone, false), ZLINK_NOT_FOUND);
    node_stop(&shop.caller);
    node_stop(&shop.a);
}

/* TR-30: an object Client has no handlers of its own. */
static void test_tr30_an_object_client_is_not_found(void **state)
{
    pair_t pair;

    (void)state;
    pair_init(&pair, false);
    pair.caller.options.role = ZLINK_ROLE_CLIENT;
    pair_start(&pair);
    assert_int_equal(ask_node(&pair.server, pair.caller.identity.node_id, false), ZLINK_NOT_FOUND);
    assert_int_equal(ask_node(&pair.caller, pair.server.identity.node_id, false), ZLINK_OK);
    assert_int_equal(atomic_load(&pair.caller.requests), 0);
    pair_stop(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tr4_weights_out_of_range_are_refused),
        cmocka_unit_test(test_tr28_a_changed_weight_is_followed_without_a_new_link),
        cmocka_unit_test(test_tr36_weight_0_finishes_what_it_has),
        cmocka_unit_test(test_tr28_a_change_during_admission_is_not_lost),
        cmocka_unit_test(test_a_change_without_memory_is_told_over_a_new_link),
        cmocka_unit_test(test_tr30_a_call_to_a_node_reaches_that_one_only),
        cmocka_unit_test(test_tr30_an_object_client_is_not_found),
    };
    zlink_log_set_level(ZLINK_LOG_OFF);
    return zlink_test_main(tests);
}
