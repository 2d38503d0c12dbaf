#include "proto/frame.h"

#include <assert.h>
#include <endian.h>
#include <stddef.h>
#include <string.h>

enum {
    OFFSET_MAGIC = 0,
    OFFSET_VERSION = 2,
    OFFSET_KIND = 3,
    OFFSET_BODY = 4,
    OFFSET_ENVELOPE = 8,
    OFFSET_FLAGS = 10,
    OFFSET_ERROR = 11,
    OFFSET_DEADLINE = 12,
    OFFSET_ROUTE = 16,
    OFFSET_TARGET = 24,
    OFFSET_PACKET = 28,
};

#define MAGIC 0x5a4cu /* "ZL" */

/* What a kind may carry. A field that is not named here is 0. */
enum {
    HAS_ROUTE = 1 << 0,    /* reply_route_id is not 0 */
    HAS_DEADLINE = 1 << 1, /* deadline_ms is 1..INT32_MAX */
    HAS_TARGET = 1 << 2,   /* target_id, or the name in the envelope */
    HAS_PACKET = 1 << 3,   /* the same for packet_id */
    HAS_ERROR = 1 << 4,
    MAY_ENVELOPE = 1 << 5,
    NEEDS_ENVELOPE = 1 << 6,
    MAY_PAYLOAD = 1 << 7,
    IS_SHORT = 1 << 8,  /* the body has at most ZLINK_FRAME_CHUNK_BYTES_MAX */
    HAS_STATE = 1 << 9, /* error is 0 or 1 */
};

static const struct {
    const char *name;
    unsigned rules;
} kinds[ZLINK_FRAME_KIND_MAX + 1] = {
    [ZLINK_FRAME_HELLO] = {"HELLO", MAY_ENVELOPE | NEEDS_ENVELOPE},
    [ZLINK_FRAME_ADMIT] = {"ADMIT", MAY_ENVELOPE | NEEDS_ENVELOPE},
    [ZLINK_FRAME_REJECT] = {"REJECT", MAY_ENVELOPE | NEEDS_ENVELOPE},
    [ZLINK_FRAME_UPDATE] = {"UPDATE", MAY_ENVELOPE | NEEDS_ENVELOPE},
    [ZLINK_FRAME_ANNOUNCE] = {"ANNOUNCE", MAY_ENVELOPE | NEEDS_ENVELOPE},
    [ZLINK_FRAME_PROBE] = {"PROBE", HAS_ROUTE},
    [ZLINK_FRAME_PROBE_ACK] = {"PROBE_ACK", HAS_ROUTE},
    [ZLINK_FRAME_REQUEST] = {"REQUEST",
                             HAS_ROUTE | HAS_DEADLINE | HAS_TARGET | HAS_PACKET | MAY_ENVELOPE | MAY_PAYLOAD},
    [ZLINK_FRAME_SEND] = {"SEND", HAS_TARGET | HAS_PACKET | MAY_ENVELOPE | MAY_PAYLOAD},
    [ZLINK_FRAME_REPLY] = {"REPLY", HAS_ROUTE | HAS_PACKET | MAY_ENVELOPE | MAY_PAYLOAD},
    [ZLINK_FRAME_ERROR] = {"ERROR", HAS_ROUTE | HAS_ERROR | MAY_ENVELOPE},
    [ZLINK_FRAME_CANCEL] = {"CANCEL", HAS_ROUTE},
    [ZLINK_FRAME_CHUNK] = {"CHUNK", HAS_ROUTE | MAY_PAYLOAD | IS_SHORT},
    [ZLINK_FRAME_FLOW_STATE] = {"FLOW_STATE", HAS_ROUTE | HAS_STATE},
};

/* Through memcpy, because a receive buffer promises no alignment. */
static void put_u16(uint8_t *bytes, uint16_t value)
{
    value = htobe16(value);
    memcpy(bytes, &value, sizeof(value));
}

static void put_u32(uint8_t *bytes, uint32_t value)
{
    value = htobe32(value);
    memcpy(bytes, &value, sizeof(value));
}

static void put_u64(uint8_t *bytes, uint64_t value)
{
    value = htobe64(value);
    memcpy(bytes, &value, sizeof(value));
}

static uint16_t get_u16(const uint8_t *bytes)
{
    uint16_t value;
    memcpy(&value, bytes, sizeof(value));
    return be16toh(value);
}

static uint32_t get_u32(const uint8_t *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof(value));
    return be32toh(value);
}

static uint64_t get_u64(const uint8_t *bytes)
{
    uint64_t value;
    memcpy(&value, bytes, sizeof(value));
    return be64toh(value);
}

static const char *check_lengths(const zlink_frame_prefix_t *prefix, unsigned rules)
{
    if (prefix->envelope_bytes > ZLINK_FRAME_ENVELOPE_BYTES_MAX)
        return "envelope over 65,535 bytes";
    if (prefix->envelope_bytes > prefix->body_bytes)
        return "envelope longer than the body";
    if (prefix->envelope_bytes > 0 && !(rules & MAY_ENVELOPE))
        return "this kind has no envelope";
    if (prefix->envelope_bytes == 0 && (rules & NEEDS_ENVELOPE))
        return "this kind needs an envelope";
    if (prefix->body_bytes > prefix->envelope_bytes && !(rules & MAY_PAYLOAD))
        return "this kind has no payload";
    if ((rules & IS_SHORT) && prefix->body_bytes > ZLINK_FRAME_CHUNK_BYTES_MAX)
        return "chunk over 65,536 bytes";
    return NULL;
}

static const char *check_names(const zlink_frame_prefix_t *prefix, unsigned rules)
{
    bool inline_names = false;

    if (rules & HAS_TARGET)
        inline_names |= prefix->target_id == 0;
    else if (prefix->target_id != 0)
        return "this kind has no target_id";

    if (rules & HAS_PACKET)
        inline_names |= prefix->packet_id == 0;
    else if (prefix->packet_id != 0)
        return "this kind has no packet_id";

    if (inline_names && prefix->envelope_bytes == 0)
        return "neither a number nor an envelope for a name";
    return NULL;
}

const char *zlink_frame_prefix_check(const zlink_frame_prefix_t *prefix)
{
    const char *wrong;
    unsigned rules;

    if (prefix->kind == 0 || prefix->kind > ZLINK_FRAME_KIND_MAX)
        return "unknown kind";
    rules = kinds[prefix->kind].rules;

    if (prefix->flags != 0)
        return "reserved flag set";
    if (rules & HAS_ERROR ? prefix->error > ZLINK_FRAME_ERROR_MAX : prefix->error > (rules & HAS_STATE ? 1 : 0))
        return rules & HAS_ERROR   ? "unknown error kind"
               : rules & HAS_STATE ? "unknown state"
                                   : "this kind has no error";
    if ((rules & HAS_ROUTE) != 0 && prefix->reply_route_id == 0)
        return "reply_route_id is 0";
    if ((rules & HAS_ROUTE) == 0 && prefix->reply_route_id != 0)
        return "this kind has no reply_route_id";
    if ((rules & HAS_DEADLINE) != 0 && (prefix->deadline_ms == 0 || prefix->deadline_ms > INT32_MAX))
        return "deadline_ms outside 1..2147483647";
    if ((rules & HAS_DEADLINE) == 0 && prefix->deadline_ms != 0)
        return "this kind has no deadline_ms";

    wrong = check_lengths(prefix, rules);
    return wrong != NULL ? wrong : check_names(prefix, rules);
}

void zlink_frame_prefix_encode(const zlink_frame_prefix_t *prefix, uint8_t bytes[ZLINK_FRAME_PREFIX_BYTES])
{
    assert(zlink_frame_prefix_check(prefix) == NULL);

    put_u16(bytes + OFFSET_MAGIC, MAGIC);
    bytes[OFFSET_VERSION] = ZLINK_FRAME_VERSION;
    bytes[OFFSET_KIND] = prefix->kind;
    put_u32(bytes + OFFSET_BODY, prefix->body_bytes);
    put_u16(bytes + OFFSET_ENVELOPE, (uint16_t)prefix->envelope_bytes);
    bytes[OFFSET_FLAGS] = prefix->flags;
    bytes[OFFSET_ERROR] = prefix->error;
    put_u32(bytes + OFFSET_DEADLINE, prefix->deadline_ms);
    put_u64(bytes + OFFSET_ROUTE, prefix->reply_route_id);
    put_u32(bytes + OFFSET_TARGET, prefix->target_id);
    put_u32(bytes + OFFSET_PACKET, prefix->packet_id);
}

zlink_status_t zlink_frame_prefix_decode(const uint8_t bytes[ZLINK_FRAME_PREFIX_BYTES], uint32_t max_body_bytes,
                                         zlink_frame_prefix_t *prefix, const char **reason)
{
    const zlink_frame_prefix_t read = {
        .body_bytes = get_u32(bytes + OFFSET_BODY),
        .envelope_bytes = get_u16(bytes + OFFSET_ENVELOPE),
        .kind = bytes[OFFSET_KIND],
        .flags = bytes[OFFSET_FLAGS],
        .error = bytes[OFFSET_ERROR],
        .reply_route_id = get_u64(bytes + OFFSET_ROUTE),
        .deadline_ms = get_u32(bytes + OFFSET_DEADLINE),
        .target_id = get_u32(bytes + OFFSET_TARGET),
        .packet_id = get_u32(bytes + OFFSET_PACKET),
    };
    const char *wrong;

    if (get_u16(bytes + OFFSET_MAGIC) != MAGIC)
        wrong = "bad magic";
    else if (bytes[OFFSET_VERSION] != ZLINK_FRAME_VERSION)
        wrong = "unknown frame version";
    else if (read.body_bytes > max_body_bytes)
        wrong = "body over the limit";
    else
        wrong = zlink_frame_prefix_check(&read);

    if (wrong != NULL) {
        if (reason != NULL)
            *reason = wrong;
        return ZLINK_PROTOCOL_ERROR;
    }
    *prefix = read;
    return ZLINK_OK;
}

const char *zlink_frame_kind_name(uint8_t kind)
{
    return kind > 0 && kind <= ZLINK_FRAME_KIND_MAX ? kinds[kind].name : "?";
}
