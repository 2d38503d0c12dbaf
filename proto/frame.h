/*
 * proto/frame.h: the 32 bytes in front of every frame between two nodes.
 *
 * A frame is this prefix, then the envelope (a small protobuf message, often empty), then the payload's bytes. The
 * prefix has one layout for all kinds, is big-endian and holds everything that the common request and its reply
 * need. Layout (offset, size):
 *
 *    0 2 magic "ZL"        4 4 body_bytes        11 1 error            24 4 target_id
 *    2 1 version, 1        8 2 envelope_bytes    12 4 deadline_ms      28 4 packet_id
 *    3 1 kind             10 1 flags, 0          16 8 reply_route_id
 *
 * Pure functions over the caller's bytes: no memory, no state, any thread. docs/wire.md says the same for people
 * who write a peer in another language.
 */
#ifndef ZLINK_PROTO_FRAME_H
#define ZLINK_PROTO_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include <zlink/status.h>

#define ZLINK_FRAME_PREFIX_BYTES 32
#define ZLINK_FRAME_VERSION      1
#define ZLINK_FRAME_CHARGE_BYTES                                                                                       \
    64 /* what a frame counts against its connection's limit, beside envelope and payload */

/* The largest envelope. Frames without payload (HELLO to ANNOUNCE, ERROR) cannot be larger than this either, so it
 * is also the body limit of a connection that is not admitted yet. */
#define ZLINK_FRAME_ENVELOPE_BYTES_MAX 65535u

/* A REQUEST, SEND or REPLY with a longer body (than 64 KiB and a bit around them) is sent as CHUNKs, so that others'
 * frames go between: all of their payloads make the whole frame, prefix included. At most ZLINK_FRAME_TRANSFERS_MAX
 * such frames are on their way at a time in one direction of a connection, with bodies that together keep to the
 * receiver's limit. */
#define ZLINK_FRAME_WHOLE_BYTES_MAX 69632u
#define ZLINK_FRAME_CHUNK_BYTES_MAX 65536u /* of the payload of each */
#define ZLINK_FRAME_TRANSFERS_MAX   16u

typedef enum zlink_frame_kind {
    ZLINK_FRAME_HELLO = 1, /* the dialer's first frame */
    ZLINK_FRAME_ADMIT,     /* the acceptor's yes */
    ZLINK_FRAME_REJECT,    /* the acceptor's no; the connection closes after it */
    ZLINK_FRAME_UPDATE,    /* changed weights or drain state */
    ZLINK_FRAME_ANNOUNCE,  /* a number for a name, used by later frames of this connection and direction */
    ZLINK_FRAME_PROBE,     /* are you there? */
    ZLINK_FRAME_PROBE_ACK, /* yes, with the probe's id */
    ZLINK_FRAME_REQUEST,   /* wants a REPLY or an ERROR */
    ZLINK_FRAME_SEND,      /* one-way */
    ZLINK_FRAME_REPLY,
    ZLINK_FRAME_ERROR,
    ZLINK_FRAME_CANCEL,     /* the caller no longer waits for reply_route_id */
    ZLINK_FRAME_CHUNK,      /* the next bytes of a frame that is too large to go in one piece */
    ZLINK_FRAME_FLOW_STATE, /* whether the sender takes new calls now */
} zlink_frame_kind_t;

#define ZLINK_FRAME_KIND_MAX  ZLINK_FRAME_FLOW_STATE
#define ZLINK_FRAME_ERROR_MAX 12 /* published error kinds are 0..12 */

typedef struct zlink_frame_prefix {
    uint32_t body_bytes;     /* envelope and payload, after the prefix */
    uint32_t envelope_bytes; /* the first part of the body; at most ZLINK_FRAME_ENVELOPE_BYTES_MAX */
    uint8_t kind;            /* zlink_frame_kind_t */
    uint8_t flags;           /* none is defined: 0 */
    uint8_t error;           /* ERROR: published error kind, 0..12; FLOW_STATE: 1 paused, 0 running; else 0 */
    uint64_t reply_route_id; /* REQUEST, REPLY, ERROR, CANCEL, the id of PROBE, PROBE_ACK and CHUNK, the epoch of
                                FLOW_STATE: not 0; else 0 */
    uint32_t deadline_ms;    /* REQUEST: what is left of the call's time, 1..INT32_MAX; else 0 */
    uint32_t target_id;      /* REQUEST, SEND: announced target, 0 = named in the envelope; else 0 */
    uint32_t packet_id;      /* REQUEST, SEND, REPLY: announced packet, 0 = named in the envelope; else 0 */
} zlink_frame_prefix_t;

/* Writes the 32 bytes. The prefix must keep the rules above (asserted): a wrong one is this program's mistake. */
void zlink_frame_prefix_encode(const zlink_frame_prefix_t *prefix, uint8_t bytes[ZLINK_FRAME_PREFIX_BYTES]);

/* ZLINK_OK, or ZLINK_PROTOCOL_ERROR with a static text in `*reason` (NULL allowed) and `prefix` untouched. Checks
 * everything that the prefix alone can show: magic, version, kind, reserved bits, fields that the kind does not
 * use, both lengths against each other and `body_bytes` against `max_body_bytes`. */
zlink_status_t zlink_frame_prefix_decode(const uint8_t bytes[ZLINK_FRAME_PREFIX_BYTES], uint32_t max_body_bytes,
                                         zlink_frame_prefix_t *prefix, const char **reason);

/* The rules alone, for a prefix in its C form: NULL when it keeps them, else a static text. */
const char *zlink_frame_prefix_check(const zlink_frame_prefix_t *prefix);

/* "REQUEST"; "?" for an unknown kind. Static. */
const char *zlink_frame_kind_name(uint8_t kind);

/* A status that is an error travels as its published number, which is one less. */
static inline uint8_t zlink_frame_error_of(zlink_status_t status)
{
    return (uint8_t)((unsigned)status - 1u);
}

static inline zlink_status_t zlink_frame_status_of(uint8_t error)
{
    return (zlink_status_t)(error + 1);
}

#endif
