/*
 * Envelopes: their round trip, and everything that must not get in. (Their bytes: test_golden_frames.c)
 */
#include "proto/wire.h"

#include <stdlib.h>
#include <string.h>

#include "harness.h"

#define BYTES_MAX 4096

typedef struct bytes {
    uint8_t at[BYTES_MAX];
    size_t size;
} bytes_t;

static const zlink_wire_hello_t client_hello = {
    .protocol_major = 1,
    .mesh = "shop",
    .node_id = "tool-01234567-89ab-4cde-8f01-23456789abcd",
    .lane = ZLINK_CONNECTION_APPLICATION,
    .link_id = 0x1112131415161718,
    .generation = 7,
    .revision = 1,
    .role = ZLINK_ROLE_CLIENT,
    .max_body_bytes = 1048576,
};

/* ---- round trips ---- */

static void test_hello_comes_back_as_it_went(void **state)
{
    static zlink_wire_channel_t channels[ZLINK_WIRE_CHANNELS_MAX], read_channels[ZLINK_WIRE_CHANNELS_MAX];
    static zlink_wire_spot_type_t types[ZLINK_WIRE_SPOT_TYPES_MAX], read_types[ZLINK_WIRE_SPOT_TYPES_MAX];
    static uint8_t bytes[ZLINK_FRAME_ENVELOPE_BYTES_MAX];
    zlink_wire_hello_t hello = client_hello;
    zlink_wire_hello_t read = {.channels = read_channels,
                               .channel_capacity = ZLINK_WIRE_CHANNELS_MAX,
                               .spot_types = read_types,
                               .spot_type_capacity = ZLINK_WIRE_SPOT_TYPES_MAX};
    const char *reason = NULL;
    size_t size = 0;

    (void)state;
    for (size_t i = 0; i < ZLINK_WIRE_CHANNELS_MAX; i++) {
        snprintf(channels[i].name, sizeof(channels[i].name), "channel-%zu", 1000 - i);
        channels[i].weight = (uint32_t)i;
        snprintf(types[i].name, sizeof(types[i].name), "type-%zu", 1000 - i);
    }
    hello.role = ZLINK_ROLE_SERVER;
    hello.channels = channels;
    hello.channel_count = ZLINK_WIRE_CHANNELS_MAX;
    hello.spot_types = types;
    hello.spot_type_count = ZLINK_WIRE_SPOT_TYPES_MAX;
    assert_int_equal(zlink_wire_hello_encode(&hello, bytes, sizeof(bytes), &size), ZLINK_INVALID_OPERATION);
    zlink_wire_channels_sort(channels, ZLINK_WIRE_CHANNELS_MAX);
    zlink_wire_spot_types_sort(types, ZLINK_WIRE_SPOT_TYPES_MAX);
    assert_int_equal(zlink_wire_hello_encode(&hello, bytes, sizeof(bytes), &size), ZLINK_OK);
    assert_int_equal(zlink_wire_hello_decode(bytes, size, &read, &reason), ZLINK_OK);

    assert_string_equal(read.mesh, hello.mesh);
    assert_string_equal(read.node_id, hello.node_id);
    assert_int_equal(read.link_id, hello.link_id);
    assert_int_equal(read.generation, hello.generation);
    assert_int_equal(read.channel_count, ZLINK_WIRE_CHANNELS_MAX);
    assert_memory_equal(read_channels, channels, sizeof(channels));
    assert_int_equal(read.spot_type_count, ZLINK_WIRE_SPOT_TYPES_MAX);
    assert_memory_equal(read_types, types, sizeof(types));

    read.channel_capacity--;
    assert_int_equal(zlink_wire_hello_decode(bytes, size, &read, &reason), ZLINK_PROTOCOL_ERROR);
    assert_string_equal(reason, "too many channels");
    assert_int_equal(zlink_wire_hello_encode(&hello, bytes, size - 1, &size), ZLINK_CAPACITY_EXCEEDED);
}

/* TR-22: ClientServer has one channel, one lane and no Spot types, and a client no weight; other topologies there are
 * none. A RouteMesh says nothing of it, or 1. */
static void test_tr22_topologies(void **state)
{
    zlink_wire_channel_t channels[2] = {{.name = "a", .weight = 7}, {.name = "b"}}, read_channels[2];
    zlink_wire_spot_type_t type = {.name = "t"};
    zlink_wire_hello_t good = client_hello, bad, read;
    uint8_t bytes[1024], longer[1024];
    const char *reason = NULL;
    size_t size = 0, mesh_size = 0;

    (void)state;
    assert_int_equal(zlink_wire_hello_encode(&good, bytes, sizeof(bytes), &mesh_size), ZLINK_OK);
    good.topology = ZLINK_TOPOLOGY_CLIENT_SERVER;
    good.role = ZLINK_ROLE_SERVER;
    good.channels = channels;
    good.channel_count = 1;
    assert_int_equal(zlink_wire_hello_encode(&good, bytes, sizeof(bytes), &size), ZLINK_OK);
    read = (zlink_wire_hello_t){.channels = read_channels, .channel_capacity = 2};
    assert_int_equal(zlink_wire_hello_decode(bytes, size, &read, &reason), ZLINK_OK);
    assert_int_equal(read.topology, ZLINK_TOPOLOGY_CLIENT_SERVER);
    assert_string_equal(read_channels[0].name, "a");

    bad = good;
    bad.lane = ZLINK_CONNECTION_COMPLETION;
    assert_int_equal(zlink_wire_hello_encode(&bad, bytes, sizeof(bytes), &size), ZLINK_INVALID_OPERATION);
    bad = good;
    bad.channel_count = 2;
    assert_int_equal(zlink_wire_hello_encode(&bad, bytes, sizeof(bytes), &size), ZLINK_INVALID_OPERATION);
    bad.channel_count = 0;
    assert_int_equal(zlink_wire_hello_encode(&bad, bytes, sizeof(bytes), &size), ZLINK_INVALID_OPERATION);
    bad = good;
    bad.role = ZLINK_ROLE_CLIENT;
    assert_int_equal(zlink_wire_hello_encode(&bad, bytes, sizeof(bytes), &size), ZLINK_INVALID_OPERATION);
    bad = good;
    bad.spot_types = &type;
    bad.spot_type_count = 1;
    assert_int_equal(zlink_wire_hello_encode(&bad, bytes, sizeof(bytes), &size), ZLINK_INVALID_OPERATION);

    assert_int_equal(zlink_wire_hello_encode(&client_hello, bytes, sizeof(bytes), &size), ZLINK_OK);
    assert_int_equal(size, mesh_size);
    for (uint8_t number = 0; number < 4; number++) {
        const uint8_t field[] = {13 << 3 | 5, number, 0, 0, 0}; /* fixed32 topology = 13 */
        memcpy(longer, bytes, size);
        memcpy(longer + size, field, sizeof(field));
        zlink_status_t status = zlink_wire_hello_decode(longer, size + sizeof(field), &read, &reason);
        assert_int_equal(status, number < 2 ? ZLINK_OK : ZLINK_PROTOCOL_ERROR);
        if (status == ZLINK_OK)
            assert_int_equal(read.topology, ZLINK_TOPOLOGY_ROUTE_MESH);
        else
            assert_string_equal(reason, number == 2 ? "not exactly one channel in ClientServer" : "unknown topology");
    }
}

static void test_longest_names_fit_the_small_buffer(void **state)
{
    zlink_wire_announce_t announce = {.id = UINT32_MAX, .kind = ZLINK_ANNOUNCE_TARGET}, read;
    zlink_wire_call_t call, read_call;
    const zlink_frame_prefix_t prefix = {.kind = ZLINK_FRAME_SEND};
    uint8_t bytes[ZLINK_WIRE_SMALL_ENVELOPE_MAX];
    size_t size = 0;

    (void)state;
    announce.target.kind = ZLINK_TARGET_INSTANCE_SPOT;
    memset(announce.target.name, 'n', ZLINK_WIRE_NAME_BYTES_MAX);
    memset(announce.target.spot_id, 's', ZLINK_WIRE_NAME_BYTES_MAX);
    assert_int_equal(zlink_wire_announce_encode(&announce, bytes, sizeof(bytes), &size), ZLINK_OK);
    assert_int_equal(zlink_wire_announce_decode(bytes, size, &read, NULL), ZLINK_OK);
    assert_memory_equal(&read, &announce, sizeof(read));

    call = (zlink_wire_call_t){.target = announce.target};
    memset(call.packet, 'p', ZLINK_WIRE_NAME_BYTES_MAX);
    assert_int_equal(zlink_wire_call_encode(&call, bytes, sizeof(bytes), &size), ZLINK_OK);
    assert_int_equal(zlink_wire_call_decode(&prefix, bytes, size, &read_call, NULL), ZLINK_OK);
    assert_memory_equal(&read_call, &call, offsetof(zlink_wire_call_t, metadata));
}

static void test_error_text_is_cut_and_cleaned(void **state)
{
    char text[ZLINK_WIRE_REASON_BYTES_MAX + 1], dirty[400];
    uint8_t bytes[ZLINK_WIRE_SMALL_ENVELOPE_MAX];
    size_t size = 0;

    (void)state;
    assert_int_equal(zlink_wire_error_encode("", bytes, sizeof(bytes), &size), ZLINK_OK);
    assert_int_equal(size, 0);
    assert_int_equal(zlink_wire_error_decode(bytes, 0, text, NULL), ZLINK_OK);
    assert_string_equal(text, "");

    assert_int_equal(zlink_wire_error_encode("a\nb\xff\xc2\x9b", bytes, sizeof(bytes), &size), ZLINK_OK);
    assert_int_equal(zlink_wire_error_decode(bytes, size, text, NULL), ZLINK_OK);
    assert_string_equal(text, "a?b???");

    memset(dirty, 'x', sizeof(dirty) - 1);
    dirty[sizeof(dirty) - 1] = 0;
    memcpy(dirty + ZLINK_WIRE_REASON_BYTES_MAX - 1, "é", 2); /* would end one byte too late */
    assert_int_equal(zlink_wire_error_encode(dirty, bytes, sizeof(bytes), &size), ZLINK_OK);
    assert_int_equal(zlink_wire_error_decode(bytes, size, text, NULL), ZLINK_OK);
    assert_int_equal(strlen(text), ZLINK_WIRE_REASON_BYTES_MAX - 1);
}

/* ---- what must not get in: messages written by hand ---- */

static void put(bytes_t *out, const void *bytes, size_t size)
{
    assert_true(out->size + size <= sizeof(out->at));
    if (size > 0)
        memcpy(out->at + out->size, bytes, size);
    out->size += size;
}

static void put_varint(bytes_t *out, uint64_t value)
{
    while (value >= 0x80) {
        put(out, &(uint8_t){(uint8_t)(value | 0x80)}, 1);
        value >>= 7;
    }
    put(out, &(uint8_t){(uint8_t)value}, 1);
}

static void put_text(bytes_t *out, unsigned tag, const void *text, size_t size)
{
    put_varint(out, tag << 3 | 2);
    put_varint(out, size);
    put(out, text, size);
}

static void put_string(bytes_t *out, unsigned tag, const char *text)
{
    put_text(out, tag, text, strlen(text));
}

static void put_fixed32(bytes_t *out, unsigned tag, uint32_t value)
{
    put_varint(out, tag << 3 | 5);
    put(out, &value, sizeof(value)); /* protobuf is little-endian, as are the machines that build this */
}

static void put_fixed64(bytes_t *out, unsigned tag, uint64_t value)
{
    put_varint(out, tag << 3 | 1);
    put(out, &value, sizeof(value));
}

/* A good HELLO without the field `skip`. */
static bytes_t raw_hello(unsigned skip)
{
    bytes_t out = {.size = 0};

    for (unsigned tag = 1; tag <= 9; tag++) {
        if (tag == skip)
            continue;
        if (tag == 2)
            put_string(&out, tag, "shop");
        else if (tag == 3)
            put_string(&out, tag, "a-76543210-fedc-4ba9-a765-43210fedcba9");
        else if (tag >= 5 && tag <= 7)
            put_fixed64(&out, tag, 5);
        else
            put_fixed32(&out, tag, tag == 4 ? 0 : tag == 9 ? ZLINK_WIRE_BODY_BYTES_MIN : 1);
    }
    return out;
}

static zlink_status_t decode_hello(const bytes_t *bytes, const char **reason)
{
    zlink_wire_channel_t channels[4];
    zlink_wire_spot_type_t types[4];
    zlink_wire_hello_t hello = {
        .channels = channels, .channel_capacity = 4, .spot_types = types, .spot_type_capacity = 4};
    uint8_t *exact = malloc(bytes->size > 0 ? bytes->size : 1); /* so that the sanitizer sees a read beyond it */
    zlink_status_t status;

    assert_non_null(exact);
    memcpy(exact, bytes->at, bytes->size);
    status = zlink_wire_hello_decode(exact, bytes->size, &hello, reason);
    free(exact);
    return status;
}

static void assert_hello_refused(const bytes_t *bytes, const char *why)
{
    const char *reason = NULL;

    assert_int_equal(decode_hello(bytes, &reason), ZLINK_PROTOCOL_ERROR);
    assert_non_null(reason);
    if (why != NULL)
        assert_string_equal(reason, why);
}

/* TR-22 */
static void test_tr22_hello_needs_its_fields(void **state)
{
    (void)state;
    for (unsigned skip = 0; skip <= 9; skip++) {
        bytes_t bytes = raw_hello(skip);
        const char *reason = NULL;

        if (skip == 0 || skip == 4) /* lane 0 is its default */
            assert_int_equal(decode_hello(&bytes, &reason), ZLINK_OK);
        else
            assert_hello_refused(&bytes, NULL);
    }
}

/* TR-22 */
static void test_tr22_numbers_out_of_range(void **state)
{
    static const struct {
        unsigned tag;
        uint64_t value;
        const char *why;
    } wrong[] = {
        {1, 0, "protocol_major is 0"},
        {4, 2, "unknown lane"},
        {5, 0, "link_id is 0"},
        {6, 0, "generation outside 1..2^63-1"},
        {6, (uint64_t)1 << 63, "generation outside 1..2^63-1"},
        {7, 0, "revision is 0"},
        {8, 3, "unknown role"},
        {8, 0, "unknown role"},
        {9, ZLINK_WIRE_BODY_BYTES_MIN - 1, "max_body_bytes outside 65536..2147483647"},
        {9, (uint64_t)1 << 31, "max_body_bytes outside 65536..2147483647"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        bytes_t bytes = raw_hello(wrong[i].tag);

        if (wrong[i].tag >= 5 && wrong[i].tag <= 7)
            put_fixed64(&bytes, wrong[i].tag, wrong[i].value);
        else
            put_fixed32(&bytes, wrong[i].tag, (uint32_t)wrong[i].value);
        assert_hello_refused(&bytes, wrong[i].why);
    }
}

/* TR-22, TR-25: a field that stands twice, of which a reader could take either. */
static void test_tr25_doubled_fields_are_refused(void **state)
{
    bytes_t bytes = raw_hello(0), announce = {.size = 0};
    zlink_wire_announce_t read;
    const char *reason = NULL;

    (void)state;
    put_fixed64(&bytes, 5, 5);
    assert_hello_refused(&bytes, "field stands twice");
    bytes = raw_hello(0);
    put_string(&bytes, 2, "shop");
    assert_hello_refused(&bytes, "field stands twice");

    put_fixed32(&announce, 1, 1);
    put_fixed32(&announce, 2, ZLINK_ANNOUNCE_PACKET);
    put_string(&announce, 6, "a.B");
    assert_int_equal(zlink_wire_announce_decode(announce.at, announce.size, &read, &reason), ZLINK_OK);
    put_string(&announce, 6, "a.C");
    assert_int_equal(zlink_wire_announce_decode(announce.at, announce.size, &read, &reason), ZLINK_PROTOCOL_ERROR);
    assert_string_equal(reason, "field stands twice");
}

/* TR-25: the same for entries of a list. */
static void test_tr25_doubled_list_entries_are_refused(void **state)
{
    static const char entry_a[] = "\x0a\x01"
                                  "a\x15\x64\x00\x00\x00",
                      entry_b[] = "\x0a\x01"
                                  "b",
                      heavy[] = "\x0a\x01"
                                "c\x15\x11\x27\x00\x00";
    bytes_t bytes = raw_hello(0);
    const char *reason = NULL;

    (void)state;
    put_text(&bytes, 11, entry_a, sizeof(entry_a) - 1);
    put_text(&bytes, 11, entry_b, sizeof(entry_b) - 1);
    put_string(&bytes, 12, "counter");
    put_string(&bytes, 12, "room");
    assert_int_equal(decode_hello(&bytes, &reason), ZLINK_OK);

    put_text(&bytes, 11, entry_b, sizeof(entry_b) - 1);
    assert_hello_refused(&bytes, "channels out of order or doubled");
    bytes = raw_hello(0);
    put_text(&bytes, 11, entry_b, sizeof(entry_b) - 1);
    put_text(&bytes, 11, entry_a, sizeof(entry_a) - 1);
    assert_hello_refused(&bytes, "channels out of order or doubled");
    bytes = raw_hello(0);
    put_string(&bytes, 12, "room");
    put_string(&bytes, 12, "room");
    assert_hello_refused(&bytes, "Spot types out of order or doubled");
    bytes = raw_hello(0);
    put_text(&bytes, 11, heavy, sizeof(heavy) - 1);
    assert_hello_refused(&bytes, "weight over 10000");
    bytes = raw_hello(0);
    put_text(&bytes, 11, "", 0);
    assert_hello_refused(&bytes, "bad channel name");
    bytes = raw_hello(0);
    put_string(&bytes, 12, "");
    assert_hello_refused(&bytes, "empty name");
    bytes = raw_hello(0);
    put_varint(&bytes, 11 << 3 | 0); /* a number where an entry belongs */
    put_varint(&bytes, 0x0a);
    assert_hello_refused(&bytes, "bad field");
    bytes = raw_hello(0);
    for (char name[] = "a"; name[0] <= 'e'; name[0]++)
        put_string(&bytes, 12, name);
    assert_hello_refused(&bytes, "too many Spot types");
}

/* TR-22, TR-21: every cut is either refused, or a whole message that lacks its last fields. */
static void test_tr22_truncation_at_every_byte(void **state)
{
    bytes_t whole = raw_hello(0), cut;

    (void)state;
    put_string(&whole, 12, "counter");
    put_text(&whole, 11, "\x0a\x03xyz", 5);
    assert_int_equal(decode_hello(&whole, NULL), ZLINK_OK);
    for (size_t size = 0; size < whole.size; size++) {
        size_t required = raw_hello(0).size;
        zlink_status_t status;

        cut = whole;
        cut.size = size;
        status = decode_hello(&cut, NULL);
        if (size == required || size == required + 9)
            assert_int_equal(status, ZLINK_OK); /* without the channel, and without the Spot type too */
        else
            assert_int_equal(status, ZLINK_PROTOCOL_ERROR);
    }
}

/* TR-22 */
static void test_tr22_unknown_fields_are_skipped_unless_broken(void **state)
{
    bytes_t bytes = raw_hello(0);

    (void)state;
    put_string(&bytes, 900, "from the future");
    put_string(&bytes, 900, "twice, why not");
    put_fixed64(&bytes, 15, 1);
    put_varint(&bytes, 31 << 3);
    put_varint(&bytes, UINT64_MAX);
    assert_int_equal(decode_hello(&bytes, NULL), ZLINK_OK);

    for (unsigned type = 3; type <= 7; type++) { /* groups and wire types that do not exist; 5 is cut short */
        bytes_t broken = bytes;

        put_varint(&broken, 20 << 3 | type);
        assert_hello_refused(&broken, NULL);
    }
    put_varint(&bytes, 0 << 3 | 2); /* field number 0 */
    put_varint(&bytes, 0);
    assert_hello_refused(&bytes, "bad field");
}

/* TR-23: the declared length is far more than there is. */
static void test_tr23_huge_declared_lengths(void **state)
{
    static const uint64_t lengths[] = {256, 65536, INT32_MAX, UINT32_MAX, UINT64_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (unsigned tag = 11; tag <= 13; tag++) { /* channels, Spot types, unknown */
            bytes_t bytes = raw_hello(0);

            put_varint(&bytes, tag << 3 | 2);
            put_varint(&bytes, lengths[i]);
            put(&bytes, "abc", 3);
            assert_hello_refused(&bytes, NULL);
        }
    }
}

static zlink_status_t decode_packet(const void *name, size_t size)
{
    const zlink_frame_prefix_t prefix = {.kind = ZLINK_FRAME_REPLY};
    bytes_t bytes = {.size = 0};
    zlink_wire_call_t call;

    put_text(&bytes, 4, name, size);
    return zlink_wire_call_decode(&prefix, bytes.at, bytes.size, &call, NULL);
}

/* TR-24: our metadata limit is the length of a name, which is checked before anything looks at it. */
static void test_tr24_name_length_limit(void **state)
{
    char name[ZLINK_WIRE_NAME_BYTES_MAX + 1];

    (void)state;
    memset(name, 'a', sizeof(name));
    assert_int_equal(decode_packet(name, ZLINK_WIRE_NAME_BYTES_MAX), ZLINK_OK);
    assert_int_equal(decode_packet(name, ZLINK_WIRE_NAME_BYTES_MAX + 1), ZLINK_PROTOCOL_ERROR);
    assert_int_equal(decode_packet(name, 0), ZLINK_PROTOCOL_ERROR);
}

static void test_texts_are_utf8_without_controls(void **state)
{
    static const char *const good[] = {"a",
                                       " ",
                                       "é",
                                       "\xc2\xa0",
                                       "\xdf\xbf",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xef\xbf\xbf",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"\n",
                                      "\x1f",
                                      "\x7f",
                                      "\x80",
                                      "\xc2\x80" /* C1 */,
                                      "\xc2\x9f",
                                      "\xc0\x80" /* overlong NUL */,
                                      "\xc1\xbf",
                                      "\xe0\x9f\xbf",
                                      "\xed\xa0\x80" /* surrogate */,
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80" /* beyond U+10FFFF */,
                                      "\xf5\x80\x80\x80",
                                      "\xff",
                                      "\xc3",
                                      "\xe2\x82",
                                      "\xf0\x9f\x98",
                                      "\xc3(",
                                      "\xe2(\xa1"};

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(decode_packet(good[i], strlen(good[i])), ZLINK_OK);
        assert_true(zlink_wire_name_is_valid(good[i]));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(decode_packet(bad[i], strlen(bad[i])), ZLINK_PROTOCOL_ERROR);
        assert_false(zlink_wire_name_is_valid(bad[i]));
    }
    assert_int_equal(decode_packet("a\0b", 3), ZLINK_PROTOCOL_ERROR);
    assert_int_equal(decode_packet("\0", 1), ZLINK_PROTOCOL_ERROR);
}

/* TR-22: names are in the envelope exactly where the prefix leaves them open. */
static void test_tr22_prefix_and_envelope_must_fit(void **state)
{
    static const struct {
        uint8_t kind;
        uint32_t target_id, packet_id;
        bool target, packet;
        const char *why; /* NULL = fine */
    } cases[] = {
        {ZLINK_FRAME_REQUEST, 1, 1, false, false, NULL},
        {ZLINK_FRAME_REQUEST, 0, 1, true, false, NULL},
        {ZLINK_FRAME_REQUEST, 1, 0, false, true, NULL},
        {ZLINK_FRAME_SEND, 0, 0, true, true, NULL},
        {ZLINK_FRAME_REPLY, 0, 0, false, true, NULL},
        {ZLINK_FRAME_REPLY, 0, 1, false, false, NULL},
        {ZLINK_FRAME_REQUEST, 0, 1, false, false, "target missing"},
        {ZLINK_FRAME_SEND, 1, 0, false, false, "packet missing"},
        {ZLINK_FRAME_REQUEST, 1, 1, true, false, "target given twice"},
        {ZLINK_FRAME_SEND, 1, 1, false, true, "packet given twice"},
        {ZLINK_FRAME_REPLY, 0, 1, true, false, "target given twice"},
        {ZLINK_FRAME_REPLY, 0, 0, false, false, "packet missing"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const zlink_frame_prefix_t prefix = {
            .kind = cases[i].kind, .target_id = cases[i].target_id, .packet_id = cases[i].packet_id};
        zlink_wire_call_t call, read;
        uint8_t bytes[ZLINK_WIRE_SMALL_ENVELOPE_MAX];
        const char *reason = NULL;
        size_t size = 0;

        memset(&call, 0, sizeof(call));
        memset(&read, 0xee, sizeof(read));
        if (cases[i].target)
            call.target = (zlink_wire_target_t){ZLINK_TARGET_CHANNEL, "prices", ""};
        if (cases[i].packet)
            strcpy(call.packet, "a.B");
        assert_int_equal(zlink_wire_call_encode(&call, bytes, sizeof(bytes), &size), ZLINK_OK);
        assert_int_equal(zlink_wire_call_decode(&prefix, bytes, size, &read, &reason),
                         cases[i].why == NULL ? ZLINK_OK : ZLINK_PROTOCOL_ERROR);
        if (cases[i].why != NULL)
            assert_string_equal(reason, cases[i].why);
        else
            assert_string_equal(read.packet, call.packet);
    }
}

static zlink_status_t decode_target(uint32_t kind, const char *name, const char *spot_id)
{
    zlink_wire_announce_t read;
    bytes_t bytes = {.size = 0};

    put_fixed32(&bytes, 1, 1);
    put_fixed32(&bytes, 2, ZLINK_ANNOUNCE_TARGET);
    put_fixed32(&bytes, 3, kind);
    if (name != NULL)
        put_string(&bytes, 4, name);
    if (spot_id != NULL)
        put_string(&bytes, 5, spot_id);
    return zlink_wire_announce_decode(bytes.at, bytes.size, &read, NULL);
}

/* TR-22 */
static void test_tr22_targets(void **state)
{
    (void)state;
    assert_int_equal(decode_target(1, "prices", NULL), ZLINK_OK);
    assert_int_equal(decode_target(2, "counter", "main"), ZLINK_OK);
    assert_int_equal(decode_target(0, NULL, NULL), ZLINK_PROTOCOL_ERROR);
    assert_int_equal(decode_target(3, "a-76543210-fedc-4ba9-a765-43210fedcba9", NULL), ZLINK_OK);
    assert_int_equal(decode_target(3, "a-76543210-fedc-4ba9-a765-43210fedcba9", "main"), ZLINK_PROTOCOL_ERROR);
    assert_int_equal(decode_target(3, "no node id", NULL), ZLINK_PROTOCOL_ERROR);
    assert_int_equal(decode_target(3, NULL, NULL), ZLINK_PROTOCOL_ERROR);
    assert_int_equal(decode_target(4, "counter", "main"), ZLINK_PROTOCOL_ERROR);
    assert_int_equal(decode_target(UINT32_MAX, "counter", "main"), ZLINK_PROTOCOL_ERROR);
    assert_int_equal(decode_target(0, "prices", NULL), ZLINK_PROTOCOL_ERROR);
    assert_int_equal(decode_target(1, "prices", "main"), ZLINK_PROTOCOL_ERROR);
    assert_int_equal(decode_target(1, NULL, NULL), ZLINK_PROTOCOL_ERROR);
    assert_int_equal(decode_target(2, "counter", NULL), ZLINK_PROTOCOL_ERROR);
    assert_int_equal(decode_target(2, NULL, "main"), ZLINK_PROTOCOL_ERROR);
}

/* TR-22 */
static void test_tr22_announce_reject_update_rules(void **state)
{
    zlink_wire_announce_t announce;
    zlink_wire_reject_t reject;
    zlink_wire_update_t update = {.revision = 0};
    bytes_t bytes = {.size = 0};

    (void)state;
    put_fixed32(&bytes, 1, 0);
    put_fixed32(&bytes, 2, ZLINK_ANNOUNCE_PACKET);
    put_string(&bytes, 6, "a.B");
    assert_int_equal(zlink_wire_announce_decode(bytes.at, bytes.size, &announce, NULL), ZLINK_PROTOCOL_ERROR);
    bytes.at[1] = 1;
    assert_int_equal(zlink_wire_announce_decode(bytes.at, bytes.size, &announce, NULL), ZLINK_OK);
    bytes.at[6] = 3; /* neither target nor packet */
    assert_int_equal(zlink_wire_announce_decode(bytes.at, bytes.size, &announce, NULL), ZLINK_PROTOCOL_ERROR);
    bytes.at[6] = ZLINK_ANNOUNCE_TARGET;
    assert_int_equal(zlink_wire_announce_decode(bytes.at, bytes.size, &announce, NULL), ZLINK_PROTOCOL_ERROR);

    for (uint32_t code = 0; code <= ZLINK_REJECT_CODE_MAX + 1; code++) {
        bytes.size = 0;
        put_fixed32(&bytes, 1, code);
        assert_int_equal(zlink_wire_reject_decode(bytes.at, bytes.size, &reject, NULL),
                         code >= 1 && code <= ZLINK_REJECT_CODE_MAX ? ZLINK_OK : ZLINK_PROTOCOL_ERROR);
    }

    bytes.size = 0;
    assert_int_equal(zlink_wire_update_decode(bytes.at, 0, &update, NULL), ZLINK_PROTOCOL_ERROR);
    put_fixed64(&bytes, 1, 2);
    assert_int_equal(zlink_wire_update_decode(bytes.at, bytes.size, &update, NULL), ZLINK_OK);
    put_text(&bytes, 3, "\x0a\x01x", 3); /* nobody gave room for a channel */
    assert_int_equal(zlink_wire_update_decode(bytes.at, bytes.size, &update, NULL), ZLINK_PROTOCOL_ERROR);
}

static void test_encoding_keeps_the_same_rules(void **state)
{
    uint8_t bytes[ZLINK_WIRE_SMALL_ENVELOPE_MAX];
    zlink_wire_hello_t hello = client_hello;
    zlink_wire_reject_t reject = {.code = ZLINK_REJECT_CODE_MAX + 1};
    zlink_wire_call_t call = {.packet = "a\nb"};
    size_t size = 0;

    (void)state;
    hello.generation = 0;
    assert_int_equal(zlink_wire_hello_encode(&hello, bytes, sizeof(bytes), &size), ZLINK_INVALID_OPERATION);
    hello = client_hello;
    memset(hello.node_id, 'a', sizeof(hello.node_id)); /* no end */
    assert_int_equal(zlink_wire_hello_encode(&hello, bytes, sizeof(bytes), &size), ZLINK_INVALID_OPERATION);
    assert_int_equal(zlink_wire_reject_encode(&reject, bytes, sizeof(bytes), &size), ZLINK_INVALID_OPERATION);
    assert_int_equal(zlink_wire_call_encode(&call, bytes, sizeof(bytes), &size), ZLINK_INVALID_OPERATION);
}

#define FLOW "01890a5d-ac96-774b-bcce-b302099a8057"

/* A request has both ids, a one-way message the flow only, a reply neither; and what is not well formed is refused at
 * both ends. */
static void test_correlation_and_flow_ids(void **state)
{
    static const char *const bad_flows[] = {"0", "01890a5d-ac96-474b-bcce-b302099a8057",
                                            "01890a5d-ac96-774b-ccce-b302099a8057",
                                            "01890a5d-ac96-774b-bcce-b302099a805G"};
    const zlink_frame_prefix_t request = {
        .kind = ZLINK_FRAME_REQUEST, .reply_route_id = 1, .deadline_ms = 1, .target_id = 1, .packet_id = 1};
    const zlink_frame_prefix_t message = {.kind = ZLINK_FRAME_SEND, .target_id = 1, .packet_id = 1};
    const zlink_frame_prefix_t reply = {.kind = ZLINK_FRAME_REPLY, .reply_route_id = 1, .packet_id = 1};
    zlink_wire_call_t call = {.trace = {.correlation_id = "order-17", .flow_id = FLOW, .flow_origin = 255}};
    zlink_wire_call_t read;
    uint8_t bytes[ZLINK_WIRE_SMALL_ENVELOPE_MAX];
    size_t size = 0;

    (void)state;
    assert_int_equal(zlink_wire_call_encode(&call, bytes, sizeof(bytes), &size), ZLINK_OK);
    assert_int_equal(zlink_wire_call_decode(&request, bytes, size, &read, NULL), ZLINK_OK);
    assert_memory_equal(&read.trace, &call.trace, sizeof(call.trace));
    assert_int_equal(zlink_wire_call_decode(&message, bytes, size, &read, NULL), ZLINK_PROTOCOL_ERROR);
    assert_int_equal(zlink_wire_call_decode(&reply, bytes, size, &read, NULL), ZLINK_PROTOCOL_ERROR);
    uint8_t *version = memmem(bytes, size, "-774b-", 6);
    assert_non_null(version);
    version[1] = '4'; /* another version of UUID, which the encoder would not write */
    assert_int_equal(zlink_wire_call_decode(&request, bytes, size, &read, NULL), ZLINK_PROTOCOL_ERROR);

    call.trace.correlation_id[0] = '\0';
    assert_int_equal(zlink_wire_call_encode(&call, bytes, sizeof(bytes), &size), ZLINK_OK);
    assert_int_equal(zlink_wire_call_decode(&message, bytes, size, &read, NULL), ZLINK_OK);
    assert_string_equal(read.trace.flow_id, FLOW);
    for (size_t i = 0; i < sizeof(bad_flows) / sizeof(bad_flows[0]); i++) {
        strcpy(call.trace.flow_id, bad_flows[i]);
        assert_int_equal(zlink_wire_call_encode(&call, bytes, sizeof(bytes), &size), ZLINK_INVALID_OPERATION);
    }
    call.trace.flow_id[0] = '\0'; /* an origin without a flow */
    assert_int_equal(zlink_wire_call_encode(&call, bytes, sizeof(bytes), &size), ZLINK_INVALID_OPERATION);
}

static void test_node_ids(void **state)
{
    (void)state;
    assert_true(zlink_wire_node_id_belongs_to("a-76543210-fedc-4ba9-a765-43210fedcba9", "a"));
    assert_true(zlink_wire_node_id_belongs_to("a-b-76543210-fedc-4ba9-b765-43210fedcba9", "a-b"));
    assert_false(zlink_wire_node_id_belongs_to("a-b-76543210-fedc-4ba9-b765-43210fedcba9", "a"));
    assert_false(zlink_wire_node_id_belongs_to("a-76543210-fedc-4ba9-a765-43210fedcba9", "b"));
    assert_false(zlink_wire_node_id_belongs_to("a-76543210-FEDC-4ba9-a765-43210fedcba9", "a"));
    assert_false(zlink_wire_node_id_belongs_to("a-76543210-fedc-1ba9-a765-43210fedcba9", "a"));
    assert_false(zlink_wire_node_id_belongs_to("a-76543210-fedc-4ba9-c765-43210fedcba9", "a"));
    assert_false(zlink_wire_node_id_belongs_to("a-76543210-fedc-4ba9-a765-43210fedcba", "a"));
    assert_false(zlink_wire_node_id_belongs_to("a-76543210-fedc-4ba9-a765-43210fedcba9a", "a"));
    assert_false(zlink_wire_node_id_belongs_to("a", "a"));
    assert_false(zlink_wire_node_id_belongs_to("", ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hello_comes_back_as_it_went),
        cmocka_unit_test(test_tr22_topologies),
        cmocka_unit_test(test_longest_names_fit_the_small_buffer),
        cmocka_unit_test(test_error_text_is_cut_and_cleaned),
        cmocka_unit_test(test_tr22_hello_needs_its_fields),
        cmocka_unit_test(test_tr22_numbers_out_of_range),
        cmocka_unit_test(test_tr25_doubled_fields_are_refused),
        cmocka_unit_test(test_tr25_doubled_list_entries_are_refused),
        cmocka_unit_test(test_tr22_truncation_at_every_byte),
        cmocka_unit_test(test_tr22_unknown_fields_are_skipped_unless_broken),
        cmocka_unit_test(test_tr23_huge_declared_lengths),
        cmocka_unit_test(test_tr24_name_length_limit),
        cmocka_unit_test(test_texts_are_utf8_without_controls),
        cmocka_unit_test(test_tr22_prefix_and_envelope_must_fit),
        cmocka_unit_test(test_tr22_targets),
        cmocka_unit_test(test_tr22_announce_reject_update_rules),
        cmocka_unit_test(test_encoding_keeps_the_same_rules),
        cmocka_unit_test(test_correlation_and_flow_ids),
        cmocka_unit_test(test_node_ids),
    };

    return zlink_test_main(tests);
}
