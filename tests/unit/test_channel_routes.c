/*
 * Which member of a channel is picked: order, turns, this node among them, and what a channel without members answers.
 */
#include <stdio.h>
#include <string.h>

#include "harness.h"

#include "base/memory.h"
#include "server/mesh/channel_routes.h"
#include "server/mesh/peer_link.h"

static zlink_peer_link_t a, b, c; /* only their addresses matter */

static zlink_channel_routes_t *make_routes(void)
{
    zlink_channel_routes_t *routes = zlink_channel_routes_create("node-m");
    assert_non_null(routes);
    return routes;
}

static void expect_pick(zlink_channel_routes_t *routes, bool exclude_local, const zlink_peer_link_t *link)
{
    zlink_channel_pick_t pick = {NULL, false};
    assert_int_equal(zlink_channel_routes_pick(routes, "prices", exclude_local, &pick), ZLINK_OK);
    assert_ptr_equal(pick.link, link);
    assert_int_equal(pick.local, link == NULL);
}

static void add(zlink_channel_routes_t *routes, zlink_peer_link_t *link, const char *node_id)
{
    assert_int_equal(zlink_channel_routes_add(routes, "prices", link, node_id, 100), ZLINK_OK);
}

/* TR-31: a name that nobody ever served is not found, whatever else is known. */
static void test_tr31_unknown_channel_is_not_found(void **state)
{
    zlink_channel_routes_t *routes = make_routes();
    zlink_channel_pick_t pick;

    (void)state;
    assert_int_equal(zlink_channel_routes_pick(routes, "prices", false, &pick), ZLINK_NOT_FOUND);
    assert_int_equal(zlink_channel_routes_add_local(routes, "orders", 100), ZLINK_OK);
    assert_int_equal(zlink_channel_routes_pick(routes, "prices", false, &pick), ZLINK_NOT_FOUND);
    assert_int_equal(zlink_channel_routes_members(routes, "prices"), 0);
    zlink_channel_routes_remove(routes, "prices", &a); /* harmless */
    zlink_channel_routes_destroy(routes);
}

/* TR-32: a channel that was known once and has no member now is unavailable. */
static void test_tr32_known_channel_without_member_is_unavailable(void **state)
{
    zlink_channel_routes_t *routes = make_routes();
    zlink_channel_pick_t pick;

    (void)state;
    add(routes, &a, "node-a");
    zlink_channel_routes_remove(routes, "prices", &b); /* not a member: nothing happens */
    expect_pick(routes, false, &a);
    zlink_channel_routes_remove(routes, "prices", &a);
    assert_int_equal(zlink_channel_routes_pick(routes, "prices", false, &pick), ZLINK_UNAVAILABLE);
    add(routes, &a, "node-a");
    expect_pick(routes, false, &a);
    zlink_channel_routes_destroy(routes);
}

static void test_a_channel_that_is_only_known_is_unavailable(void **state)
{
    zlink_channel_routes_t *routes = make_routes();
    zlink_channel_pick_t pick;

    (void)state;
    assert_int_equal(zlink_channel_routes_know(routes, "prices"), ZLINK_OK);
    assert_int_equal(zlink_channel_routes_pick(routes, "prices", false, &pick), ZLINK_UNAVAILABLE);
    assert_int_equal(zlink_channel_routes_know(routes, "prices"), ZLINK_OK);
    add(routes, &a, "node-a");
    expect_pick(routes, false, &a);
    zlink_channel_routes_destroy(routes);
}

static void test_members_take_turns_in_the_order_of_their_node_ids(void **state)
{
    zlink_channel_routes_t *routes = make_routes();

    (void)state;
    add(routes, &c, "node-z");
    assert_int_equal(zlink_channel_routes_add_local(routes, "prices", 100), ZLINK_OK);
    add(routes, &a, "node-a");
    assert_int_equal(zlink_channel_routes_members(routes, "prices"), 2); /* links only */
    zlink_peer_link_t *seen[6];
    for (size_t i = 0; i < 6; i++) {
        zlink_channel_pick_t pick;
        assert_int_equal(zlink_channel_routes_pick(routes, "prices", false, &pick), ZLINK_OK);
        seen[i] = pick.link;
    }
    for (size_t i = 0; i < 3; i++)
        assert_ptr_equal(seen[i], seen[i + 3]);
    for (size_t i = 0; i < 3; i++) { /* a, this node, c, wherever it began */
        zlink_peer_link_t *const order[] = {&a, NULL, &c};
        size_t at = seen[i] == &a ? 0 : seen[i] == NULL ? 1 : 2;
        assert_ptr_equal(seen[i + 1], order[(at + 1) % 3]);
    }
    zlink_channel_routes_destroy(routes);
}

static void test_a_caller_that_holds_its_own_gate_gets_somebody_else(void **state)
{
    zlink_channel_routes_t *routes = make_routes();
    zlink_channel_pick_t pick;

    (void)state;
    assert_int_equal(zlink_channel_routes_add_local(routes, "prices", 100), ZLINK_OK);
    assert_int_equal(zlink_channel_routes_pick(routes, "prices", true, &pick), ZLINK_UNAVAILABLE);
    expect_pick(routes, false, NULL);
    add(routes, &b, "node-b");
    for (int i = 0; i < 4; i++)
        expect_pick(routes, true, &b);
    zlink_channel_routes_destroy(routes);
}

/* TR-33: 100 and 300 give B, A, B, B, again and again. */
static void test_tr33_weights_100_and_300_give_b_a_b_b(void **state)
{
    zlink_channel_routes_t *routes = make_routes();

    (void)state;
    assert_int_equal(zlink_channel_routes_add(routes, "prices", &b, "node-b", 300), ZLINK_OK);
    assert_int_equal(zlink_channel_routes_add(routes, "prices", &a, "node-a", 100), ZLINK_OK);
    for (int round = 0; round < 3; round++) {
        expect_pick(routes, false, &b);
        expect_pick(routes, false, &a);
        expect_pick(routes, false, &b);
        expect_pick(routes, false, &b);
    }
    zlink_channel_routes_destroy(routes);
}

static unsigned picks_of(zlink_channel_routes_t *routes, const zlink_peer_link_t *link, unsigned calls)
{
    unsigned found = 0;
    for (unsigned i = 0; i < calls; i++) {
        zlink_channel_pick_t pick;
        assert_int_equal(zlink_channel_routes_pick(routes, "prices", false, &pick), ZLINK_OK);
        found += pick.link == link;
    }
    return found;
}

/* TR-34: of 800 calls at 100 and 300 the heavier one gets 65 to 85 in a hundred; at these, exactly 75. TR-35: equal
 * weights alternate. */
static void test_tr34_tr35_shares_follow_the_weights(void **state)
{
    zlink_channel_routes_t *routes = make_routes();

    (void)state;
    assert_int_equal(zlink_channel_routes_add(routes, "prices", &a, "node-a", 100), ZLINK_OK);
    assert_int_equal(zlink_channel_routes_add(routes, "prices", &b, "node-b", 300), ZLINK_OK);
    assert_int_equal(picks_of(routes, &b, 800), 600);
    assert_true(zlink_channel_routes_set_weight(routes, "prices", &b, 100));
    for (int i = 0; i < 4; i++) {
        expect_pick(routes, false, &a);
        expect_pick(routes, false, &b);
    }
    assert_false(zlink_channel_routes_set_weight(routes, "prices", &c, 1));
    zlink_channel_routes_destroy(routes);
}

/* TR-36: weight 0 stays a member and gets nothing; with nobody else the channel is unavailable. */
static void test_tr36_weight_0_gets_no_call(void **state)
{
    zlink_channel_routes_t *routes = make_routes();
    zlink_channel_pick_t pick;

    (void)state;
    add(routes, &a, "node-a");
    assert_int_equal(zlink_channel_routes_add(routes, "prices", &b, "node-b", 0), ZLINK_OK);
    assert_int_equal(picks_of(routes, &a, 5), 5);
    assert_int_equal(zlink_channel_routes_members(routes, "prices"), 1);
    assert_true(zlink_channel_routes_set_weight(routes, "prices", &a, 0));
    assert_int_equal(zlink_channel_routes_pick(routes, "prices", false, &pick), ZLINK_UNAVAILABLE);
    assert_true(zlink_channel_routes_set_weight(routes, "prices", &b, 10000));
    assert_int_equal(picks_of(routes, &b, 5), 5);
    zlink_channel_routes_destroy(routes);
}

/* Who comes and goes changes nothing of what the others have gained. */
static void test_turns_survive_changes(void **state)
{
    zlink_channel_routes_t *routes = make_routes();

    (void)state;
    add(routes, &a, "node-a");
    add(routes, &c, "node-c");
    expect_pick(routes, false, &a); /* a -100, c 100 */
    add(routes, &b, "node-Z");      /* smaller than "node-a" */
    expect_pick(routes, false, &c); /* Z 100, a 0, c -100 */
    expect_pick(routes, false, &b); /* Z -100, a 100, c 0 */
    zlink_channel_routes_remove(routes, "prices", &b);
    expect_pick(routes, false, &a); /* a 0, c 100 */
    expect_pick(routes, false, &c);
    zlink_channel_routes_remove(routes, "prices", &a);
    expect_pick(routes, false, &c);
    zlink_channel_routes_remove(routes, "prices", &c);
    zlink_channel_routes_destroy(routes);
}

static void test_many_members_and_no_memory(void **state)
{
    enum { MANY = 40 };
    static zlink_peer_link_t links[MANY];
    char ids[MANY][16];

    (void)state;
    for (int64_t failing = 0; failing < 12; failing++) {
        zlink_channel_routes_t *routes = make_routes();
        size_t members = 0;
        bool refused = false;
        zlink_memory_fail_after(failing);
        for (size_t i = 0; i < MANY; i++) {
            snprintf(ids[i], sizeof(ids[i]), "node-%02zu", (i * 7) % MANY);
            zlink_status_t status = zlink_channel_routes_add(routes, "prices", &links[i], ids[i], 100);
            assert_true(status == ZLINK_OK || status == ZLINK_CAPACITY_EXCEEDED);
            refused = refused || status != ZLINK_OK;
            members += status == ZLINK_OK;
        }
        zlink_memory_fail_after(-1);
        assert_int_equal(zlink_channel_routes_members(routes, "prices"), members);
        assert_true(members >= MANY - 1);
        assert_true(refused || failing > 0);
        for (size_t i = 0; i < members; i++) { /* each once in a round */
            zlink_channel_pick_t pick;
            assert_int_equal(zlink_channel_routes_pick(routes, "prices", false, &pick), ZLINK_OK);
        }
        zlink_channel_routes_destroy(routes);
    }
    zlink_memory_fail_after(0);
    assert_null(zlink_channel_routes_create("node-m"));
    zlink_memory_fail_after(-1);
}

/* Ever new names, each served for a moment, leave room for one more; names that are served are not forgotten. */
static void test_names_that_nobody_serves_make_room(void **state)
{
    zlink_channel_routes_t *routes = make_routes();
    zlink_channel_pick_t pick;
    char name[32];

    (void)state;
    add(routes, &a, "node-a");
    for (int i = 0; i < ZLINK_CHANNEL_ROUTES_MAX; i++) {
        snprintf(name, sizeof(name), "moment-%d", i);
        assert_int_equal(zlink_channel_routes_add(routes, name, &b, "node-b", 100), ZLINK_OK);
        zlink_channel_routes_remove(routes, name, &b);
    }
    expect_pick(routes, false, &a);
    assert_int_equal(zlink_channel_routes_pick(routes, "moment-0", false, &pick), ZLINK_NOT_FOUND);
    assert_int_equal(zlink_channel_routes_pick(routes, name, false, &pick), ZLINK_UNAVAILABLE);
    for (int i = 1; i < ZLINK_CHANNEL_ROUTES_MAX - 1; i++) {
        snprintf(name, sizeof(name), "lasting-%d", i);
        assert_int_equal(zlink_channel_routes_add(routes, name, &b, "node-b", 100), ZLINK_OK);
    }
    assert_int_equal(zlink_channel_routes_add(routes, "last", &b, "node-b", 100), ZLINK_OK);
    assert_int_equal(zlink_channel_routes_add(routes, "too many", &b, "node-b", 100), ZLINK_CAPACITY_EXCEEDED);
    expect_pick(routes, false, &a);
    zlink_channel_routes_destroy(routes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tr31_unknown_channel_is_not_found),
        cmocka_unit_test(test_tr32_known_channel_without_member_is_unavailable),
        cmocka_unit_test(test_a_channel_that_is_only_known_is_unavailable),
        cmocka_unit_test(test_members_take_turns_in_the_order_of_their_node_ids),
        cmocka_unit_test(test_a_caller_that_holds_its_own_gate_gets_somebody_else),
        cmocka_unit_test(test_tr33_weights_100_and_300_give_b_a_b_b),
        cmocka_unit_test(test_tr34_tr35_shares_follow_the_weights),
        cmocka_unit_test(test_tr36_weight_0_gets_no_call),
        cmocka_unit_test(test_turns_survive_changes),
        cmocka_unit_test(test_many_members_and_no_memory),
        cmocka_unit_test(test_names_that_nobody_serves_make_room),
    };
    return zlink_test_main(tests);
}
