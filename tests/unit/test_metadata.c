/*
 * Metadata: what may be in it, how much, and its way through the call envelope.
 */
#include "harness.h"

#include <string.h>

#include "proto/wire.h"

static const char *add(zlink_metadata_t *metadata, const char *key, const char *value)
{
    return zlink_metadata_add(metadata, key, strlen(key), value, strlen(value));
}

static const char *find(const zlink_metadata_t *metadata, const char *key)
{
    return zlink_metadata_find(metadata->text, metadata->text_bytes, key);
}

static void test_what_is_added_is_found(void **state)
{
    zlink_metadata_t metadata = {0}, again;
    const char *key, *value;
    size_t at = 0;

    (void)state;
    assert_null(find(&metadata, "a"));
    assert_false(zlink_metadata_next(metadata.text, 0, &at, &key, &value));
    assert_null(add(&metadata, "a", "1"));
    assert_null(add(&metadata, "ab", ""));
    assert_null(add(&metadata, "b", "line\nnext \x7f é \xc2\x85"));
    assert_string_equal(find(&metadata, "a"), "1");
    assert_string_equal(find(&metadata, "ab"), "");
    assert_null(find(&metadata, "1"));
    assert_null(find(&metadata, ""));
    assert_int_equal(metadata.cost, 2 + 5 + 5 + 4 + strlen(find(&metadata, "b")));
    zlink_metadata_restore(&again, metadata.text, metadata.text_bytes);
    assert_int_equal(again.cost, metadata.cost);
    assert_memory_equal(again.text, metadata.text, metadata.text_bytes);
    assert_true(zlink_metadata_next(again.text, again.text_bytes, &at, &key, &value));
    assert_string_equal(key, "a");
    assert_true(zlink_metadata_next(again.text, again.text_bytes, &at, &key, &value));
    assert_true(zlink_metadata_next(again.text, again.text_bytes, &at, &key, &value));
    assert_string_equal(key, "b");
    assert_false(zlink_metadata_next(again.text, again.text_bytes, &at, &key, &value));
    zlink_metadata_restore(&again, NULL, 0);
    assert_int_equal(again.cost, 0);
}

/* TR-24: 1,024 bytes pass and one more does not, in one entry or in many. */
static void test_tr24_metadata_limit(void **state)
{
    zlink_metadata_t metadata = {0};
    char long_key[257] = {0}, long_value[1025] = {0}, key[8];
    size_t entries = 0;

    (void)state;
    memset(long_key, 'k', 256);
    memset(long_value, 'v', 1024);
    assert_string_equal(add(&metadata, long_key, ""), "metadata key outside 1..255 bytes");
    assert_string_equal(add(&metadata, "", ""), "metadata key outside 1..255 bytes");
    assert_string_equal(zlink_metadata_add(&metadata, "k", 1, long_value, 1019), "metadata over 1,024 bytes");
    assert_int_equal(metadata.cost, 0);
    assert_null(zlink_metadata_add(&metadata, "k", 1, long_value, 1018));
    assert_int_equal(metadata.cost, ZLINK_METADATA_BYTES_MAX);
    assert_string_equal(add(&metadata, "l", ""), "metadata over 1,024 bytes");
    assert_string_equal(zlink_metadata_add(&metadata, "k", 1, long_value, SIZE_MAX), "metadata over 1,024 bytes");

    memset(&metadata, 0, sizeof(metadata));
    do
        snprintf(key, sizeof(key), "%03zu", entries++);
    while (add(&metadata, key, "") == NULL);
    assert_int_equal(entries - 1, (ZLINK_METADATA_BYTES_MAX - 2) / 6);
}

/* TR-25: a key stands once; of what a maker sets twice the last counts. */
static void test_tr25_metadata_keys_stand_once(void **state)
{
    static const zlink_metadata_entry_t entries[] = {{"a", "1"}, {"b", "2"}, {"a", "3"}, {"a", "4"}};
    static const zlink_metadata_entry_t no_key[] = {{NULL, "1"}, {"b", "2"}}, no_value[] = {{"a", NULL}};
    zlink_metadata_t metadata = {0};

    (void)state;
    assert_null(add(&metadata, "a", "1"));
    assert_string_equal(add(&metadata, "a", "2"), "metadata key stands twice");
    assert_string_equal(find(&metadata, "a"), "1");
    assert_null(zlink_metadata_pack(&metadata, entries, 4));
    assert_string_equal(find(&metadata, "a"), "4");
    assert_string_equal(find(&metadata, "b"), "2");
    assert_int_equal(metadata.cost, 2 + 5 + 5);
    assert_non_null(zlink_metadata_pack(&metadata, no_key, 2));
    assert_non_null(zlink_metadata_pack(&metadata, no_value, 1));
    assert_non_null(zlink_metadata_pack(&metadata, NULL, 1));
    assert_non_null(zlink_metadata_pack(&metadata, entries, ZLINK_METADATA_BYTES_MAX + 1));
}

static void test_metadata_is_utf8_without_nul(void **state)
{
    static const char *const wrong[] = {"\xff", "\xc2", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "a\x80"};
    zlink_metadata_t metadata = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_non_null(add(&metadata, wrong[i], "v"));
        assert_non_null(add(&metadata, "k", wrong[i]));
    }
    assert_non_null(zlink_metadata_add(&metadata, "a\0b", 3, "v", 1));
    assert_non_null(zlink_metadata_add(&metadata, "k", 1, "\0", 1));
    assert_int_equal(metadata.cost, 0);
}

/* ---- the envelope ---- */

static const zlink_frame_prefix_t numbered = {.kind = ZLINK_FRAME_REQUEST, .target_id = 1, .packet_id = 1};
static const zlink_frame_prefix_t open_names = {.kind = ZLINK_FRAME_SEND};
static const zlink_frame_prefix_t reply = {.kind = ZLINK_FRAME_REPLY, .packet_id = 1};

static zlink_status_t travel(const zlink_frame_prefix_t *prefix, const zlink_wire_call_t *call, zlink_wire_call_t *read,
                             const char **reason)
{
    uint8_t bytes[ZLINK_WIRE_SMALL_ENVELOPE_MAX];
    size_t size = 0;

    assert_int_equal(zlink_wire_call_encode(call, bytes, sizeof(bytes), &size), ZLINK_OK);
    return zlink_wire_call_decode(prefix, bytes, size, read, reason);
}

/* The most that an envelope can hold fits the small buffer, whatever the entries look like. */
static void test_metadata_travels_in_the_envelope(void **state)
{
    zlink_wire_call_t call = {.target = {ZLINK_TARGET_INSTANCE_SPOT, "", ""}}, read;
    const char *reason = NULL;
    char key[8];

    (void)state;
    memset(call.target.name, 'n', ZLINK_WIRE_NAME_BYTES_MAX);
    memset(call.target.spot_id, 's', ZLINK_WIRE_NAME_BYTES_MAX);
    memset(call.packet, 'p', ZLINK_WIRE_NAME_BYTES_MAX);
    for (size_t length = 1; length < 5; length++) {
        memset(&call.metadata, 0, sizeof(call.metadata));
        for (unsigned i = 0;; i++) {
            snprintf(key, sizeof(key), "%c%c%c%c", 'a' + i % 26, 'a' + i / 26 % 26, 'a' + i / 676 % 26, 'x');
            if (zlink_metadata_add(&call.metadata, key, length, "vv", i % 2) != NULL)
                break;
        }
        assert_int_equal(travel(&open_names, &call, &read, &reason), ZLINK_OK);
        assert_int_equal(read.metadata.cost, call.metadata.cost);
        assert_memory_equal(read.metadata.text, call.metadata.text, call.metadata.text_bytes);
    }
    call.target.kind = ZLINK_TARGET_NONE;
    call.target.name[0] = call.target.spot_id[0] = call.packet[0] = 0;
    assert_int_equal(travel(&numbered, &call, &read, &reason), ZLINK_OK);
    assert_int_equal(read.metadata.cost, call.metadata.cost);
    assert_int_equal(zlink_wire_call_decode(&numbered, NULL, 0, &read, &reason), ZLINK_OK);
    assert_int_equal(read.metadata.cost, 0);
}

/* TR-26: a reply that carries some is no reply. */
static void test_tr26_a_reply_has_no_metadata(void **state)
{
    zlink_wire_call_t call = {.target.kind = ZLINK_TARGET_NONE}, read;
    const char *reason = NULL;

    (void)state;
    assert_null(add(&call.metadata, "k", "v"));
    assert_int_equal(travel(&reply, &call, &read, &reason), ZLINK_PROTOCOL_ERROR);
    assert_string_equal(reason, "a reply with metadata");
}

/* TR-24, TR-25: what the wire brings is held to the same rules. */
static void test_tr24_tr25_metadata_from_the_wire(void **state)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *why; /* NULL: fine */
    } cases[] = {
        {"\x2a\x04\x0a\x02kk", 6, NULL},
        {"\x2a\x06\x0a\x01k\x12\x01v", 8, NULL},
        {"\x2a\x06\x12\x01v\x0a\x01k", 8, NULL},
        {"\x2a\x06\x0a\x01k\x1a\x01x", 8, NULL}, /* a field of a later version */
        {"\x2a\x06\x0a\x01k\x12\x01v\x2a\x03\x0a\x01k", 13, "metadata key stands twice"},
        {"\x2a\x06\x0a\x01k\x0a\x01k", 8, "field stands twice"},
        {"\x2a\x00", 2, "metadata key outside 1..255 bytes"},
        {"\x2a\x03\x12\x01v", 5, "metadata key outside 1..255 bytes"},
        {"\x2a\x06\x0a\x01k\x12\x01\x00", 8, "metadata is not UTF-8 or holds a NUL"},
        {"\x2a\x06\x0a\x01k\x12\x01\xff", 8, "metadata is not UTF-8 or holds a NUL"},
        {"\x2a\x06\x0a\x01k\x12\x02v", 8, "message cut short"},
        {"\x2a\x07\x0a\x01k\x12\x01v", 8, "message cut short"},
        {"\x28\x01", 2, "bad field"},
        {"\x2a\x02\x08\x01", 4, "bad field"},
    };
    uint8_t bytes[1200] = {0x2a, 0x84, 0x08, 0x0a, 0x01, 'k', 0x12, 0xfe, 0x07}; /* key of 1, value of 1,022 */
    zlink_wire_call_t read;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *reason = NULL;
        assert_int_equal(
            zlink_wire_call_decode(&numbered, (const uint8_t *)cases[i].bytes, cases[i].size, &read, &reason),
            cases[i].why == NULL ? ZLINK_OK : ZLINK_PROTOCOL_ERROR);
        if (cases[i].why != NULL)
            assert_string_equal(reason, cases[i].why);
    }
    memset(bytes + 9, 'v', 1022);
    for (uint8_t value_bytes = 0xf8; value_bytes <= 0xfe; value_bytes++) { /* 1,016 to 1,022 */
        bytes[7] = value_bytes;
        const size_t value = (value_bytes & 0x7fu) + 7 * 128;
        bytes[1] = (uint8_t)(((value + 6) & 0x7f) | 0x80);
        bytes[2] = (uint8_t)((value + 6) >> 7);
        assert_int_equal(zlink_wire_call_decode(&numbered, bytes, 9 + value, &read, NULL),
                         value <= 1018 ? ZLINK_OK : ZLINK_PROTOCOL_ERROR);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_added_is_found),           cmocka_unit_test(test_tr24_metadata_limit),
        cmocka_unit_test(test_tr25_metadata_keys_stand_once),    cmocka_unit_test(test_metadata_is_utf8_without_nul),
        cmocka_unit_test(test_metadata_travels_in_the_envelope), cmocka_unit_test(test_tr26_a_reply_has_no_metadata),
        cmocka_unit_test(test_tr24_tr25_metadata_from_the_wire),
    };

    return zlink_test_main(tests);
}
