/*
 * proto/wire.h: the envelopes of frames, as plain C structs, and their way to and from bytes.
 *
 * Each envelope is one flat protobuf message (zlink_wire.proto). Encoding writes into the caller's buffer, decoding
 * reads from it and fills the caller's struct; nothing is allocated and nothing is kept, so any thread may call
 * these functions. Decoding trusts nothing: lengths, numbers, UTF-8, control characters, doubled fields and
 * truncation are checked here, and a message that breaks a rule is ZLINK_PROTOCOL_ERROR with a static text in
 * `*reason` (NULL allowed). Fields that this version does not know are skipped. Encoding keeps the same rules:
 * ZLINK_INVALID_OPERATION for a struct that breaks one, ZLINK_CAPACITY_EXCEEDED where the buffer is too small.
 */
#ifndef ZLINK_PROTO_WIRE_H
#define ZLINK_PROTO_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zlink/status.h>

#include "proto/frame.h"
#include "proto/metadata.h"
#include "proto/trace.h"

#define ZLINK_WIRE_PROTOCOL_MAJOR 1u

#define ZLINK_WIRE_NAME_BYTES_MAX     255 /* channel, Spot type, Spot id, packet; UTF-8, at least 1 */
#define ZLINK_WIRE_REASON_BYTES_MAX   255 /* the text of a REJECT or ERROR */
#define ZLINK_WIRE_MESH_BYTES_MAX     64  /* of [A-Za-z0-9._-] */
#define ZLINK_WIRE_NODE_ID_BYTES_MAX  127 /* of [A-Za-z0-9._-] */
#define ZLINK_WIRE_CHANNELS_MAX       256
#define ZLINK_WIRE_SPOT_TYPES_MAX     256
#define ZLINK_WIRE_WEIGHT_MAX         10000u
#define ZLINK_WIRE_BODY_BYTES_MIN     65536u      /* the least that a node may say in max_body_bytes */
#define ZLINK_WIRE_BODY_BYTES_MAX     0x7fffffffu /* and the most */
#define ZLINK_WIRE_SMALL_ENVELOPE_MAX 3072        /* buffer that holds any ANNOUNCE, call, REJECT or ERROR envelope */

typedef enum zlink_connection_lane {
    ZLINK_CONNECTION_APPLICATION = 0, /* requests and sends */
    ZLINK_CONNECTION_COMPLETION = 1,  /* replies and errors */
} zlink_connection_lane_t;

typedef enum zlink_wire_topology {
    ZLINK_TOPOLOGY_ROUTE_MESH = 0,    /* two connections, both sides call */
    ZLINK_TOPOLOGY_CLIENT_SERVER = 1, /* one connection for one channel, the dialer calls */
} zlink_wire_topology_t;

/* In a RouteMesh of objects, in ClientServer of the one channel. */
typedef enum zlink_wire_role {
    ZLINK_ROLE_CLIENT = 1, /* hosts no Spot and has no handlers of its own; it may serve channels of a RouteMesh */
    ZLINK_ROLE_SERVER = 2,
} zlink_wire_role_t;

typedef enum zlink_target_kind {
    ZLINK_TARGET_NONE = 0, /* absent: the prefix has the number */
    ZLINK_TARGET_CHANNEL = 1,
    ZLINK_TARGET_INSTANCE_SPOT = 2,
    ZLINK_TARGET_NODE = 3, /* the handlers of exactly one node */
} zlink_target_kind_t;

typedef enum zlink_reject_code {
    ZLINK_REJECT_VERSION = 1,
    ZLINK_REJECT_TOPOLOGY,
    ZLINK_REJECT_IDENTITY,          /* the node id is not one that the certificate allows, or not the expected one */
    ZLINK_REJECT_SECURITY_IDENTITY, /* the certificate belongs to another mesh */
    ZLINK_REJECT_CHANNEL,
    ZLINK_REJECT_STALE_GENERATION,
    ZLINK_REJECT_STALE_REVISION,
    ZLINK_REJECT_CAPABILITY,
    ZLINK_REJECT_NOT_SERVING, /* draining */
    ZLINK_REJECT_DUPLICATE,   /* there is a link already, or both ends are the same node */
    ZLINK_REJECT_INVALID_DESCRIPTOR,
    ZLINK_REJECT_RESOURCE_LIMIT,
    ZLINK_REJECT_NOT_REQUIRED, /* neither end serves anything: no fault, and nothing to try again */
} zlink_reject_code_t;

#define ZLINK_REJECT_CODE_MAX ZLINK_REJECT_NOT_REQUIRED

typedef struct zlink_wire_channel {
    char name[ZLINK_WIRE_NAME_BYTES_MAX + 1];
    uint32_t weight; /* 0..10000; 0 = member that gets no new calls */
} zlink_wire_channel_t;

typedef struct zlink_wire_spot_type {
    char name[ZLINK_WIRE_NAME_BYTES_MAX + 1];
} zlink_wire_spot_type_t;

/* Lists belong to the caller and have `..._capacity` places (used by decoding only, which refuses a longer list).
 * They are strictly ascending by unsigned bytes of the name, so that a name cannot stand twice. */

/* HELLO and ADMIT: what a node says of itself. In ClientServer `channels` holds the one channel (a client's with weight
 * 0), `lane` is APPLICATION and there are no Spot types. */
typedef struct zlink_wire_hello {
    uint32_t protocol_major; /* not 0; another major than ours decodes, so that it can be rejected by code */
    zlink_wire_topology_t topology;
    char mesh[ZLINK_WIRE_MESH_BYTES_MAX + 1];
    char node_id[ZLINK_WIRE_NODE_ID_BYTES_MAX + 1];
    zlink_connection_lane_t lane;
    uint64_t link_id;    /* not 0; chosen by the dialer, the same on both connections of a link; ADMIT repeats it */
    uint64_t generation; /* 1..2^63-1, new at every start of the process */
    uint64_t revision;   /* of channels and draining: 1 at the start, higher with every UPDATE */
    zlink_wire_role_t role;
    uint32_t max_body_bytes; /* the largest body that this node takes: ZLINK_WIRE_BODY_BYTES_MIN..MAX */
    bool draining;           /* takes no new work */
    bool paused;             /* takes no new calls until a FLOW_STATE says so */
    zlink_wire_channel_t *channels;
    size_t channel_count, channel_capacity;
    zlink_wire_spot_type_t *spot_types; /* Instance Spot types that this node hosts */
    size_t spot_type_count, spot_type_capacity;
} zlink_wire_hello_t;

typedef struct zlink_wire_reject {
    uint32_t code; /* zlink_reject_code_t */
    char reason[ZLINK_WIRE_REASON_BYTES_MAX + 1];
} zlink_wire_reject_t;

/* UPDATE: the whole of what may change, not a difference. */
typedef struct zlink_wire_update {
    uint64_t revision; /* not 0 */
    bool draining;
    zlink_wire_channel_t *channels; /* the channels of the HELLO or ADMIT with their weights of now */
    size_t channel_count, channel_capacity;
} zlink_wire_update_t;

typedef struct zlink_wire_target {
    zlink_target_kind_t kind;
    char name[ZLINK_WIRE_NAME_BYTES_MAX + 1];    /* ChannelName, Spot type or node id */
    char spot_id[ZLINK_WIRE_NAME_BYTES_MAX + 1]; /* "" but for a Spot */
} zlink_wire_target_t;

typedef enum zlink_announce_kind {
    ZLINK_ANNOUNCE_TARGET = 1,
    ZLINK_ANNOUNCE_PACKET = 2,
} zlink_announce_kind_t;

typedef struct zlink_wire_announce {
    uint32_t id; /* not 0; targets and packets are numbered apart, each 1, 2, 3, ... */
    zlink_announce_kind_t kind;
    zlink_wire_target_t target;                 /* kind TARGET */
    char packet[ZLINK_WIRE_NAME_BYTES_MAX + 1]; /* kind PACKET */
} zlink_wire_announce_t;

/* REQUEST, SEND and REPLY: the names that the prefix has no number for. A REPLY has no metadata. */
typedef struct zlink_wire_call {
    zlink_wire_target_t target;                 /* kind NONE = absent */
    char packet[ZLINK_WIRE_NAME_BYTES_MAX + 1]; /* "" = absent */
    zlink_metadata_t metadata;
    zlink_trace_t trace; /* of a SEND without correlation id, of a REPLY empty */
} zlink_wire_call_t;

/* Each encode answers the bytes written in `*size`. */
zlink_status_t zlink_wire_hello_encode(const zlink_wire_hello_t *hello, uint8_t *bytes, size_t capacity, size_t *size);
zlink_status_t zlink_wire_reject_encode(const zlink_wire_reject_t *reject, uint8_t *bytes, size_t capacity,
                                        size_t *size);
zlink_status_t zlink_wire_update_encode(const zlink_wire_update_t *update, uint8_t *bytes, size_t capacity,
                                        size_t *size);
zlink_status_t zlink_wire_announce_encode(const zlink_wire_announce_t *announce, uint8_t *bytes, size_t capacity,
                                          size_t *size);
zlink_status_t zlink_wire_call_encode(const zlink_wire_call_t *call, uint8_t *bytes, size_t capacity, size_t *size);
/* An ERROR's text for people, "" = none (0 bytes). One that is too long or not clean is cut, not refused. */
zlink_status_t zlink_wire_error_encode(const char *text, uint8_t *bytes, size_t capacity, size_t *size);

/* Before the call `hello` holds the lists' pointers and capacities (NULL and 0 where none is wanted: then a list
 * with an entry is refused); every other field is set. The same for `update`. */
zlink_status_t zlink_wire_hello_decode(const uint8_t *bytes, size_t size, zlink_wire_hello_t *hello,
                                       const char **reason);
zlink_status_t zlink_wire_reject_decode(const uint8_t *bytes, size_t size, zlink_wire_reject_t *reject,
                                        const char **reason);
zlink_status_t zlink_wire_update_decode(const uint8_t *bytes, size_t size, zlink_wire_update_t *update,
                                        const char **reason);
zlink_status_t zlink_wire_announce_decode(const uint8_t *bytes, size_t size, zlink_wire_announce_t *announce,
                                          const char **reason);
/* With the prefix, because the two must fit: a name is in the envelope exactly where the prefix has 0 (and the kind
 * has such a name). Fields of `call` that the prefix has a number for are empty afterwards. */
zlink_status_t zlink_wire_call_decode(const zlink_frame_prefix_t *prefix, const uint8_t *bytes, size_t size,
                                      zlink_wire_call_t *call, const char **reason);
zlink_status_t zlink_wire_error_decode(const uint8_t *bytes, size_t size, char text[ZLINK_WIRE_REASON_BYTES_MAX + 1],
                                       const char **reason);

/* 1..255 bytes of UTF-8 without NUL, C0 and C1 control characters and DEL: what a name may be. */
bool zlink_wire_name_is_valid(const char *name);

/* Whether `node_id` is "<name>-<lowercase uuid, version 4>". */
bool zlink_wire_node_id_belongs_to(const char *node_id, const char *name);

/* Put lists into the order that the wire asks for. */
void zlink_wire_channels_sort(zlink_wire_channel_t *channels, size_t count);
void zlink_wire_spot_types_sort(zlink_wire_spot_type_t *spot_types, size_t count);

#endif
