/*
 * Name tables: numbers in order, bounds on both sides, and what happens without memory.
 */
#include "proto/name_table.h"

#include <string.h>

#include "base/memory.h"
#include "harness.h"

static zlink_outgoing_names_t *make_outgoing(uint32_t names_max, uint32_t bytes_max)
{
    const zlink_name_table_limits_t limits = {names_max, bytes_max};
    zlink_outgoing_names_t *names = NULL;

    assert_int_equal(zlink_outgoing_names_create(&limits, &names), ZLINK_OK);
    return names;
}

static zlink_incoming_names_t *make_incoming(uint32_t names_max, uint32_t bytes_max)
{
    const zlink_name_table_limits_t limits = {names_max, bytes_max};
    zlink_incoming_names_t *names = NULL;

    assert_int_equal(zlink_incoming_names_create(&limits, &names), ZLINK_OK);
    return names;
}

static void test_numbers_are_given_in_order_and_kept(void **state)
{
    zlink_outgoing_names_t *names = make_outgoing(0, 0);
    bool announce;

    (void)state;
    assert_int_equal(zlink_outgoing_names_target(names, ZLINK_TARGET_CHANNEL, "prices", "", &announce), 1);
    assert_true(announce);
    assert_int_equal(zlink_outgoing_names_target(names, ZLINK_TARGET_INSTANCE_SPOT, "prices", "x", &announce), 2);
    assert_true(announce);
    assert_int_equal(zlink_outgoing_names_target(names, ZLINK_TARGET_INSTANCE_SPOT, "price", "sx", &announce), 3);
    assert_true(announce);
    assert_int_equal(zlink_outgoing_names_packet(names, "prices", &announce), 1); /* numbered apart */
    assert_true(announce);

    assert_int_equal(zlink_outgoing_names_target(names, ZLINK_TARGET_CHANNEL, "prices", "", &announce), 1);
    assert_false(announce);
    assert_int_equal(zlink_outgoing_names_target(names, ZLINK_TARGET_INSTANCE_SPOT, "price", "sx", &announce), 3);
    assert_false(announce);
    assert_int_equal(zlink_outgoing_names_packet(names, "prices", &announce), 1);
    assert_false(announce);
    zlink_outgoing_names_destroy(names);
    zlink_outgoing_names_destroy(NULL);
}

/* Both ends with the default bounds: all 65,536 names arrive, the next one goes inline. */
static void test_a_full_table_puts_names_inline(void **state)
{
    zlink_outgoing_names_t *outgoing = make_outgoing(0, 0);
    zlink_incoming_names_t *incoming = make_incoming(0, 0);
    zlink_wire_announce_t announced = {.kind = ZLINK_ANNOUNCE_TARGET,
                                       .target = {.kind = ZLINK_TARGET_INSTANCE_SPOT, .name = "room"}};
    bool announce;

    (void)state;
    for (uint32_t i = 1; i <= ZLINK_NAME_TABLE_NAMES_MAX; i++) {
        snprintf(announced.target.spot_id, sizeof(announced.target.spot_id), "spot-%u", (unsigned)i);
        announced.id = zlink_outgoing_names_target(outgoing, ZLINK_TARGET_INSTANCE_SPOT, "room",
                                                   announced.target.spot_id, &announce);
        assert_int_equal(announced.id, i);
        assert_true(announce);
        assert_int_equal(zlink_incoming_names_add(incoming, &announced, NULL), ZLINK_OK);
    }
    assert_int_equal(zlink_outgoing_names_target(outgoing, ZLINK_TARGET_CHANNEL, "new", "", &announce), 0);
    assert_false(announce);
    assert_int_equal(zlink_outgoing_names_packet(outgoing, "new", &announce), 0); /* the bound is shared */
    assert_int_equal(zlink_outgoing_names_target(outgoing, ZLINK_TARGET_INSTANCE_SPOT, "room", "spot-777", &announce),
                     777);
    assert_false(announce);
    assert_string_equal(zlink_incoming_names_target(incoming, 777)->spot_id, "spot-777");
    zlink_outgoing_names_destroy(outgoing);
    zlink_incoming_names_destroy(incoming);
}

static void test_the_byte_bound(void **state)
{
    zlink_outgoing_names_t *names = make_outgoing(0, 10);
    bool announce;

    (void)state;
    assert_int_equal(zlink_outgoing_names_packet(names, "123456", &announce), 1);
    assert_int_equal(zlink_outgoing_names_packet(names, "12345", &announce), 0);
    assert_int_equal(zlink_outgoing_names_target(names, ZLINK_TARGET_INSTANCE_SPOT, "12", "34", &announce), 1);
    assert_int_equal(zlink_outgoing_names_packet(names, "1", &announce), 0);
    zlink_outgoing_names_destroy(names);
}

static void test_a_number_can_be_withdrawn(void **state)
{
    zlink_outgoing_names_t *names = make_outgoing(40, 0);
    char name[16];
    bool announce;

    (void)state;
    for (unsigned i = 1; i <= 40; i++) {
        snprintf(name, sizeof(name), "packet-%u", i);
        assert_int_equal(zlink_outgoing_names_packet(names, name, &announce), i);
        zlink_outgoing_names_withdraw(names, ZLINK_ANNOUNCE_PACKET, i);
        assert_int_equal(zlink_outgoing_names_packet(names, name, &announce), i);
        assert_true(announce);
    }
    assert_int_equal(zlink_outgoing_names_packet(names, "one more", &announce), 0);
    zlink_outgoing_names_withdraw(names, ZLINK_ANNOUNCE_PACKET, 40);
    assert_int_equal(zlink_outgoing_names_packet(names, "one more", &announce), 40);
    for (unsigned i = 1; i < 40; i++) {
        snprintf(name, sizeof(name), "packet-%u", i);
        assert_int_equal(zlink_outgoing_names_packet(names, name, &announce), i);
        assert_false(announce);
    }
    zlink_outgoing_names_destroy(names);
}

/* Memory that is short costs the number, not the call. */
static void test_without_memory_names_go_inline(void **state)
{
    zlink_outgoing_names_t *names = NULL;
    bool announce;

    (void)state;
    zlink_memory_fail_after(0);
    assert_int_equal(zlink_outgoing_names_create(NULL, &names), ZLINK_CAPACITY_EXCEEDED);
    assert_null(names);

    for (int64_t n = 0; n < 3; n++) { /* slots, entries, entry */
        names = make_outgoing(0, 0);
        zlink_memory_fail_after(n);
        assert_int_equal(zlink_outgoing_names_packet(names, "a.B", &announce), 0);
        assert_false(announce);
        zlink_memory_fail_after(-1);
        assert_int_equal(zlink_outgoing_names_packet(names, "a.B", &announce), 1);
        assert_true(announce);
        zlink_outgoing_names_destroy(names);
    }
}

static zlink_wire_announce_t packet(uint32_t id, const char *name)
{
    zlink_wire_announce_t announce = {.id = id, .kind = ZLINK_ANNOUNCE_PACKET};

    snprintf(announce.packet, sizeof(announce.packet), "%s", name);
    return announce;
}

static void test_incoming_numbers(void **state)
{
    zlink_incoming_names_t *names = make_incoming(0, 0);
    const zlink_wire_announce_t target = {
        .id = 1, .kind = ZLINK_ANNOUNCE_TARGET, .target = {ZLINK_TARGET_INSTANCE_SPOT, "counter", "main"}};
    zlink_wire_announce_t announce = packet(1, "a.B");
    zlink_incoming_name_t *found;
    int thing;

    (void)state;
    assert_null(zlink_incoming_names_packet(names, 1));
    assert_int_equal(zlink_incoming_names_add(names, &announce, NULL), ZLINK_OK);
    assert_int_equal(zlink_incoming_names_add(names, &target, NULL), ZLINK_OK);

    found = zlink_incoming_names_target(names, 1);
    assert_non_null(found);
    assert_int_equal(found->kind, ZLINK_TARGET_INSTANCE_SPOT);
    assert_string_equal(found->name, "counter");
    assert_string_equal(found->spot_id, "main");
    assert_null(found->resolved);
    found->resolved = &thing;
    announce = packet(2, "a.C");
    assert_int_equal(zlink_incoming_names_add(names, &announce, NULL), ZLINK_OK);
    assert_ptr_equal(zlink_incoming_names_target(names, 1), found);
    assert_ptr_equal(found->resolved, &thing);

    found = zlink_incoming_names_packet(names, 2);
    assert_int_equal(found->kind, ZLINK_TARGET_NONE);
    assert_string_equal(found->name, "a.C");
    assert_null(zlink_incoming_names_packet(names, 0));
    assert_null(zlink_incoming_names_packet(names, 3));
    assert_null(zlink_incoming_names_target(names, UINT32_MAX));
    zlink_incoming_names_destroy(names);
    zlink_incoming_names_destroy(NULL);
}

/* TR-22, TR-25 */
static void test_tr22_tr25_doubled_and_skipped_numbers_are_refused(void **state)
{
    zlink_incoming_names_t *names = make_incoming(2, 0);
    zlink_wire_announce_t announce = packet(2, "a.B");
    const char *reason = NULL;

    (void)state;
    assert_int_equal(zlink_incoming_names_add(names, &announce, &reason), ZLINK_PROTOCOL_ERROR);
    assert_string_equal(reason, "announced number is not the next one");
    announce.id = UINT32_MAX;
    assert_int_equal(zlink_incoming_names_add(names, &announce, &reason), ZLINK_PROTOCOL_ERROR);
    announce.id = 1;
    assert_int_equal(zlink_incoming_names_add(names, &announce, &reason), ZLINK_OK);
    assert_int_equal(zlink_incoming_names_add(names, &announce, &reason), ZLINK_PROTOCOL_ERROR);
    assert_string_equal(reason, "number announced twice");
    announce.id = 2;
    assert_int_equal(zlink_incoming_names_add(names, &announce, &reason), ZLINK_OK);
    announce.id = 3;
    assert_int_equal(zlink_incoming_names_add(names, &announce, &reason), ZLINK_PROTOCOL_ERROR);
    assert_string_equal(reason, "too many names announced");
    zlink_incoming_names_destroy(names);

    names = make_incoming(0, 4);
    announce = packet(1, "12345");
    assert_int_equal(zlink_incoming_names_add(names, &announce, &reason), ZLINK_PROTOCOL_ERROR);
    zlink_incoming_names_destroy(names);
}

static void test_incoming_without_memory(void **state)
{
    const zlink_wire_announce_t announce = packet(1, "a.B");
    zlink_incoming_names_t *names = NULL;

    (void)state;
    zlink_memory_fail_after(0);
    assert_int_equal(zlink_incoming_names_create(NULL, &names), ZLINK_CAPACITY_EXCEEDED);
    names = make_incoming(0, 0);
    for (int64_t n = 0; n < 2; n++) {
        zlink_memory_fail_after(n); /* the list the first time, the entry the second */
        assert_int_equal(zlink_incoming_names_add(names, &announce, NULL), ZLINK_CAPACITY_EXCEEDED);
        assert_null(zlink_incoming_names_packet(names, 1));
        if (n == 0)
            zlink_memory_fail_after(-1);
        else
            assert_int_equal(zlink_incoming_names_add(names, &announce, NULL), ZLINK_OK);
    }
    zlink_incoming_names_destroy(names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_are_given_in_order_and_kept),
        cmocka_unit_test(test_a_full_table_puts_names_inline),
        cmocka_unit_test(test_the_byte_bound),
        cmocka_unit_test(test_a_number_can_be_withdrawn),
        cmocka_unit_test(test_without_memory_names_go_inline),
        cmocka_unit_test(test_incoming_numbers),
        cmocka_unit_test(test_tr22_tr25_doubled_and_skipped_numbers_are_refused),
        cmocka_unit_test(test_incoming_without_memory),
    };

    return zlink_test_main(tests);
}
