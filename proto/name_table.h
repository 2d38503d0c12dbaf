/*
 * proto/name_table.h: numbers for names, per connection and direction.
 *
 * The sender of a direction gives each target and each packet name a number the first time that it uses it, says so in
 * an ANNOUNCE frame and from then on sends the number alone. Targets and packets are numbered apart, each 1, 2, 3, ...
 * in the order of their announcement. Both ends bound the table by the same numbers; a sender whose table is full (or
 * who has no memory) answers 0: the name goes into the frame's envelope. A name is never taken back, except
 * by `withdraw` right after it was given. A table belongs to its connection's thread and ends with the connection.
 */
#ifndef ZLINK_PROTO_NAME_TABLE_H
#define ZLINK_PROTO_NAME_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zlink/status.h>

#include "proto/wire.h"

/* Part of the wire's contract: targets and packets of one direction together. */
#define ZLINK_NAME_TABLE_NAMES_MAX 65536u
#define ZLINK_NAME_TABLE_BYTES_MAX (8u * 1024u * 1024u) /* of name bytes: ChannelName or type, Spot id, packet */

typedef struct zlink_name_table_limits {
    uint32_t names_max; /* 0 = ZLINK_NAME_TABLE_NAMES_MAX */
    uint32_t bytes_max; /* 0 = ZLINK_NAME_TABLE_BYTES_MAX */
} zlink_name_table_limits_t;

/* ---- the sender's side ---- */

typedef struct zlink_outgoing_names zlink_outgoing_names_t;

/* `limits` NULL = the defaults. ZLINK_CAPACITY_EXCEEDED without memory. */
zlink_status_t zlink_outgoing_names_create(const zlink_name_table_limits_t *limits, zlink_outgoing_names_t **names);
void zlink_outgoing_names_destroy(zlink_outgoing_names_t *names); /* NULL is allowed */

/* The name's number, 0 = inline. `*announce` is true when the number is new: the ANNOUNCE goes out before the frame
 * that uses it. `spot_id` is "" but for a Spot. The strings must be valid names (asserted); they are copied. */
uint32_t zlink_outgoing_names_target(zlink_outgoing_names_t *names, zlink_target_kind_t kind, const char *name,
                                     const char *spot_id, bool *announce);
uint32_t zlink_outgoing_names_packet(zlink_outgoing_names_t *names, const char *packet, bool *announce);

/* The ANNOUNCE could not be queued: take the number back. Only the newest number of its kind. */
void zlink_outgoing_names_withdraw(zlink_outgoing_names_t *names, zlink_announce_kind_t kind, uint32_t id);

/* ---- the receiver's side ---- */

typedef struct zlink_incoming_names zlink_incoming_names_t;

/* What a number stands for. Valid as long as the table; does not move. `resolved` is the owner's to use, NULL at
 * first: a place for what it found under this name, to look it up once. */
typedef struct zlink_incoming_name {
    zlink_target_kind_t kind; /* ZLINK_TARGET_NONE: a packet */
    const char *name;         /* ChannelName, Spot type, node id or packet */
    const char *spot_id;      /* "" where there is none */
    void *resolved;
} zlink_incoming_name_t;

zlink_status_t zlink_incoming_names_create(const zlink_name_table_limits_t *limits, zlink_incoming_names_t **names);
void zlink_incoming_names_destroy(zlink_incoming_names_t *names); /* NULL is allowed */

/* Take a decoded ANNOUNCE. ZLINK_PROTOCOL_ERROR with a static text in `*reason` (NULL allowed) when its number is
 * not the next one of its kind or the table is full; ZLINK_CAPACITY_EXCEEDED without memory. Both close the connection.
 */
zlink_status_t zlink_incoming_names_add(zlink_incoming_names_t *names, const zlink_wire_announce_t *announce,
                                        const char **reason);

/* NULL for a number that was not announced (0 included): a protocol error of the peer. */
zlink_incoming_name_t *zlink_incoming_names_target(const zlink_incoming_names_t *names, uint32_t id);
zlink_incoming_name_t *zlink_incoming_names_packet(const zlink_incoming_names_t *names, uint32_t id);

#endif
