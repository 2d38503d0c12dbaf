/*
 * The frame prefix: its bytes, its round trip, and that nothing reserved gets through.
 */
#include "proto/frame.h"

#include <string.h>

#include "harness.h"

#define LIMIT (16u * 1024 * 1024)

/* One good prefix per kind. */
static const zlink_frame_prefix_t samples[] = {
    {.kind = ZLINK_FRAME_HELLO, .body_bytes = 90, .envelope_bytes = 90},
    {.kind = ZLINK_FRAME_ADMIT, .body_bytes = 65535, .envelope_bytes = 65535},
    {.kind = ZLINK_FRAME_REJECT, .body_bytes = 5, .envelope_bytes = 5},
    {.kind = ZLINK_FRAME_UPDATE, .body_bytes = 9, .envelope_bytes = 9},
    {.kind = ZLINK_FRAME_ANNOUNCE, .body_bytes = 30, .envelope_bytes = 30},
    {.kind = ZLINK_FRAME_PROBE, .reply_route_id = 1},
    {.kind = ZLINK_FRAME_PROBE_ACK, .reply_route_id = UINT64_MAX},
    {.kind = ZLINK_FRAME_REQUEST,
     .body_bytes = 7,
     .reply_route_id = 0x0102030405060708,
     .deadline_ms = 5000,
     .target_id = 3,
     .packet_id = 4},
    {.kind = ZLINK_FRAME_SEND, .body_bytes = 300, .envelope_bytes = 44},
    {.kind = ZLINK_FRAME_REPLY, .body_bytes = 2, .reply_route_id = 9, .packet_id = 0xfffffffe},
    {.kind = ZLINK_FRAME_ERROR, .error = 12, .reply_route_id = 9},
    {.kind = ZLINK_FRAME_CANCEL, .reply_route_id = 9},
    {.kind = ZLINK_FRAME_CHUNK, .body_bytes = ZLINK_FRAME_CHUNK_BYTES_MAX, .reply_route_id = 9},
    {.kind = ZLINK_FRAME_FLOW_STATE, .error = 1, .reply_route_id = 3},
};

#define SAMPLES (sizeof(samples) / sizeof(samples[0]))

static zlink_status_t decode(const uint8_t *bytes, zlink_frame_prefix_t *prefix)
{
    const char *reason = NULL;
    zlink_status_t status = zlink_frame_prefix_decode(bytes, LIMIT, prefix, &reason);

    assert_true((status == ZLINK_OK) == (reason == NULL));
    return status;
}

static bool is_refused(const uint8_t *bytes)
{
    zlink_frame_prefix_t prefix;

    memset(&prefix, 0xee, sizeof(prefix));
    if (decode(bytes, &prefix) == ZLINK_OK)
        return false;
    for (size_t i = 0; i < sizeof(prefix); i++)
        assert_int_equal(((const uint8_t *)&prefix)[i], 0xee);
    return true;
}

/* TR-18 */
static void test_tr18_prefix_is_32_big_endian_bytes(void **state)
{
    static const uint8_t expected[ZLINK_FRAME_PREFIX_BYTES] = {
        'Z',  'L',  1,    8,                            /* magic, version, kind */
        0x0a, 0x0b, 0x0c, 0x0d,                         /* body_bytes */
        0x01, 0x02, 0,    0,                            /* envelope_bytes, flags, error */
        0x7f, 0x02, 0x03, 0x04,                         /* deadline_ms */
        0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, /* reply_route_id */
        0x21, 0x22, 0x23, 0x24,                         /* target_id */
        0x31, 0x32, 0x33, 0x34,                         /* packet_id */
    };
    const zlink_frame_prefix_t prefix = {
        .kind = ZLINK_FRAME_REQUEST,
        .body_bytes = 0x0a0b0c0d,
        .envelope_bytes = 0x0102,
        .deadline_ms = 0x7f020304,
        .reply_route_id = 0x1112131415161718,
        .target_id = 0x21222324,
        .packet_id = 0x31323334,
    };
    uint8_t bytes[ZLINK_FRAME_PREFIX_BYTES];

    (void)state;
    zlink_frame_prefix_encode(&prefix, bytes);
    assert_memory_equal(bytes, expected, sizeof(expected));
}

static void test_every_kind_comes_back_as_it_went(void **state)
{
    (void)state;
    assert_int_equal(SAMPLES, ZLINK_FRAME_KIND_MAX);
    for (size_t i = 0; i < SAMPLES; i++) {
        uint8_t bytes[ZLINK_FRAME_PREFIX_BYTES];
        zlink_frame_prefix_t read;

        zlink_frame_prefix_encode(&samples[i], bytes);
        assert_int_equal(decode(bytes, &read), ZLINK_OK);
        assert_int_equal(read.body_bytes, samples[i].body_bytes);
        assert_int_equal(read.envelope_bytes, samples[i].envelope_bytes);
        assert_int_equal(read.kind, samples[i].kind);
        assert_int_equal(read.flags, samples[i].flags);
        assert_int_equal(read.error, samples[i].error);
        assert_int_equal(read.reply_route_id, samples[i].reply_route_id);
        assert_int_equal(read.deadline_ms, samples[i].deadline_ms);
        assert_int_equal(read.target_id, samples[i].target_id);
        assert_int_equal(read.packet_id, samples[i].packet_id);
    }
}

/* Whether the kind leaves this byte of the prefix at 0. */
static bool is_reserved(uint8_t kind, size_t offset)
{
    bool call = kind == ZLINK_FRAME_REQUEST || kind == ZLINK_FRAME_SEND;
    bool routed = kind == ZLINK_FRAME_PROBE || kind == ZLINK_FRAME_PROBE_ACK || kind == ZLINK_FRAME_REQUEST ||
                  kind >= ZLINK_FRAME_REPLY;

    if (offset == 10)
        return true; /* flags */
    if (offset == 11)
        return kind != ZLINK_FRAME_ERROR;
    if (offset >= 12 && offset < 16)
        return kind != ZLINK_FRAME_REQUEST;
    if (offset >= 16 && offset < 24)
        return !routed;
    if (offset >= 24 && offset < 28)
        return !call;
    if (offset >= 28)
        return !call && kind != ZLINK_FRAME_REPLY;
    return false;
}

/* TR-19, TR-22 */
static void test_tr19_tr22_every_flipped_reserved_bit_is_refused(void **state)
{
    unsigned flipped = 0;

    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        for (size_t bit = 0; bit < ZLINK_FRAME_PREFIX_BYTES * 8; bit++) {
            uint8_t bytes[ZLINK_FRAME_PREFIX_BYTES];
            size_t offset = bit / 8;

            zlink_frame_prefix_encode(&samples[i], bytes);
            if (offset > 2 && !is_reserved(samples[i].kind, offset))
                continue; /* what is left: magic, version, and all that this kind does not use */
            if (samples[i].kind == ZLINK_FRAME_FLOW_STATE && bit == 11 * 8)
                continue; /* the state */
            bytes[offset] ^= (uint8_t)(1u << bit % 8);
            assert_true(is_refused(bytes));
            flipped++;
        }
    }
    assert_true(flipped > 13 * 24);
}

/* TR-22 */
static void test_tr22_unknown_kinds_are_refused(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind <= UINT8_MAX; kind++) {
        uint8_t bytes[ZLINK_FRAME_PREFIX_BYTES];

        zlink_frame_prefix_encode(&samples[0], bytes);
        bytes[3] = (uint8_t)kind;
        if (kind == 0 || kind > ZLINK_FRAME_KIND_MAX) {
            assert_true(is_refused(bytes));
            assert_string_equal(zlink_frame_kind_name((uint8_t)kind), "?");
        } else {
            assert_string_not_equal(zlink_frame_kind_name((uint8_t)kind), "?");
        }
    }
}

#define REFUSED(KIND, ...)                                                                                             \
    do {                                                                                                               \
        zlink_frame_prefix_t prefix = samples[(KIND)-1];                                                               \
        assert_null(zlink_frame_prefix_check(&prefix));                                                                \
        __VA_ARGS__;                                                                                                   \
        assert_non_null(zlink_frame_prefix_check(&prefix));                                                            \
    } while (0)

/* TR-19: what our prefix has in place of sequence 0 and forbidden combinations. */
static void test_tr19_fields_that_a_kind_needs(void **state)
{
    (void)state;
    REFUSED(ZLINK_FRAME_PROBE, prefix.reply_route_id = 0);
    REFUSED(ZLINK_FRAME_PROBE_ACK, prefix.reply_route_id = 0);
    REFUSED(ZLINK_FRAME_REQUEST, prefix.reply_route_id = 0);
    REFUSED(ZLINK_FRAME_REPLY, prefix.reply_route_id = 0);
    REFUSED(ZLINK_FRAME_ERROR, prefix.reply_route_id = 0);
    REFUSED(ZLINK_FRAME_CANCEL, prefix.reply_route_id = 0);
    REFUSED(ZLINK_FRAME_CHUNK, prefix.reply_route_id = 0);
    REFUSED(ZLINK_FRAME_FLOW_STATE, prefix.reply_route_id = 0);
    REFUSED(ZLINK_FRAME_FLOW_STATE, prefix.error = 2);
    REFUSED(ZLINK_FRAME_REQUEST, prefix.deadline_ms = 0);
    REFUSED(ZLINK_FRAME_REQUEST, prefix.deadline_ms = (uint32_t)INT32_MAX + 1);
    REFUSED(ZLINK_FRAME_REQUEST, prefix.target_id = 0); /* no envelope that could name it */
    REFUSED(ZLINK_FRAME_REQUEST, prefix.packet_id = 0);
    REFUSED(ZLINK_FRAME_REPLY, prefix.packet_id = 0);
    REFUSED(ZLINK_FRAME_SEND, prefix.envelope_bytes = 0);
    REFUSED(ZLINK_FRAME_ERROR, prefix.error = ZLINK_FRAME_ERROR_MAX + 1);
    REFUSED(ZLINK_FRAME_ERROR, prefix.error = UINT8_MAX);
}

/* TR-22: trailing bytes and truncation, as far as the lengths show them. */
static void test_tr22_lengths_that_do_not_fit_the_kind(void **state)
{
    (void)state;
    for (uint8_t kind = ZLINK_FRAME_HELLO; kind <= ZLINK_FRAME_ANNOUNCE; kind++) {
        REFUSED(kind, prefix.body_bytes++);
        REFUSED(kind, prefix.body_bytes--);
        REFUSED(kind, prefix.body_bytes = prefix.envelope_bytes = 0);
    }
    REFUSED(ZLINK_FRAME_PROBE, prefix.body_bytes = 1);
    REFUSED(ZLINK_FRAME_PROBE, prefix.body_bytes = prefix.envelope_bytes = 1);
    REFUSED(ZLINK_FRAME_PROBE_ACK, prefix.body_bytes = 1);
    REFUSED(ZLINK_FRAME_CANCEL, prefix.body_bytes = prefix.envelope_bytes = 1);
    REFUSED(ZLINK_FRAME_ERROR, prefix.body_bytes = 1);
    REFUSED(ZLINK_FRAME_CHUNK, prefix.envelope_bytes = 1);
    REFUSED(ZLINK_FRAME_FLOW_STATE, prefix.body_bytes = 1);
    REFUSED(ZLINK_FRAME_CHUNK, prefix.body_bytes++);
    REFUSED(ZLINK_FRAME_REQUEST, prefix.envelope_bytes = prefix.body_bytes + 1);
    REFUSED(ZLINK_FRAME_SEND, prefix.envelope_bytes = ZLINK_FRAME_ENVELOPE_BYTES_MAX + 1);
}

/* TR-20: the largest control body passes, one byte more does not. */
static void test_tr20_control_body_limit(void **state)
{
    uint8_t bytes[ZLINK_FRAME_PREFIX_BYTES];
    zlink_frame_prefix_t prefix;

    (void)state;
    zlink_frame_prefix_encode(&samples[ZLINK_FRAME_ADMIT - 1], bytes);
    assert_int_equal(decode(bytes, &prefix), ZLINK_OK);
    assert_int_equal(prefix.envelope_bytes, ZLINK_FRAME_ENVELOPE_BYTES_MAX);
    bytes[5] = 1; /* body 131,071 */
    assert_true(is_refused(bytes));
    bytes[6] = bytes[7] = 0; /* body 65,536 */
    assert_true(is_refused(bytes));
}

/* TR-23 */
static void test_tr23_huge_body_is_refused_before_anything_else(void **state)
{
    uint8_t bytes[ZLINK_FRAME_PREFIX_BYTES];
    zlink_frame_prefix_t prefix;
    const char *reason = NULL;

    (void)state;
    zlink_frame_prefix_encode(&samples[ZLINK_FRAME_REQUEST - 1], bytes);
    memset(bytes + 4, 0xff, 4);
    assert_int_equal(zlink_frame_prefix_decode(bytes, LIMIT, &prefix, &reason), ZLINK_PROTOCOL_ERROR);
    assert_string_equal(reason, "body over the limit");

    zlink_frame_prefix_encode(&samples[ZLINK_FRAME_REQUEST - 1], bytes);
    assert_int_equal(zlink_frame_prefix_decode(bytes, 7, &prefix, NULL), ZLINK_OK);
    assert_int_equal(zlink_frame_prefix_decode(bytes, 6, &prefix, NULL), ZLINK_PROTOCOL_ERROR);
}

static void test_error_kinds_travel_as_their_published_numbers(void **state)
{
    (void)state;
    assert_int_equal(zlink_frame_error_of(ZLINK_NOT_FOUND), 0);
    assert_int_equal(zlink_frame_error_of(ZLINK_INTERNAL_FAILURE), 12);
    for (uint8_t error = 0; error <= ZLINK_FRAME_ERROR_MAX; error++)
        assert_int_equal(zlink_frame_error_of(zlink_frame_status_of(error)), error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tr18_prefix_is_32_big_endian_bytes),
        cmocka_unit_test(test_every_kind_comes_back_as_it_went),
        cmocka_unit_test(test_tr19_tr22_every_flipped_reserved_bit_is_refused),
        cmocka_unit_test(test_tr22_unknown_kinds_are_refused),
        cmocka_unit_test(test_tr19_fields_that_a_kind_needs),
        cmocka_unit_test(test_tr22_lengths_that_do_not_fit_the_kind),
        cmocka_unit_test(test_tr20_control_body_limit),
        cmocka_unit_test(test_tr23_huge_body_is_refused_before_anything_else),
        cmocka_unit_test(test_error_kinds_travel_as_their_published_numbers),
    };

    return zlink_test_main(tests);
}
