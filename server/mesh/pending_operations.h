/*
 * server/mesh/pending_operations.h: the calls that wait for a reply, by reply route id.
 *
 * Owned by the reactor. An entry is registered before its request is submitted, in the same turn; reply, remote error,
 * timeout, disconnect and shutdown compete by taking it, and whoever comes later finds nothing (EX-48). A reply route
 * id is never 0 and is not used again before 2^40 others.
 */
#ifndef ZLINK_SERVER_PENDING_OPERATIONS_H
#define ZLINK_SERVER_PENDING_OPERATIONS_H

#include <stdint.h>

#include <zlink/status.h>

#include "server/mesh/outbound_call.h"

typedef struct zlink_pending_slot {
    zlink_outbound_call_t *call;
    uint64_t reply_route_id; /* of `call`; 0 in a free slot */
    uint32_t next_free;
} zlink_pending_slot_t;

typedef struct zlink_pending_operations {
    zlink_pending_slot_t *slots;
    uint32_t capacity; /* slots made so far; grows by doubling to `limit` */
    uint32_t limit;
    uint32_t count;
    uint32_t first_free;
    uint32_t cursor; /* where `any` looks next, so that taking all of them is one walk */
    uint64_t rounds; /* makes ids unique over time */
} zlink_pending_operations_t;

/* `limit` 1..2^23. Allocates nothing yet. */
void zlink_pending_operations_init(zlink_pending_operations_t *operations, uint32_t limit);
void zlink_pending_operations_destroy(zlink_pending_operations_t *operations);

/* Sets call->reply_route_id. ZLINK_CAPACITY_EXCEEDED at the limit or without memory; ZLINK_INVALID_OPERATION inside a
 * turn: it is infrastructure's. */
zlink_status_t zlink_pending_operations_register(zlink_pending_operations_t *operations, zlink_outbound_call_t *call);

/* The call, still registered; NULL when somebody has taken it. */
zlink_outbound_call_t *zlink_pending_operations_find(const zlink_pending_operations_t *operations,
                                                     uint64_t reply_route_id);

/* Any registered call, NULL where there is none: for the end of the mesh. */
zlink_outbound_call_t *zlink_pending_operations_any(zlink_pending_operations_t *operations);

/* The call, now the caller's alone; NULL when somebody took it before. */
zlink_outbound_call_t *zlink_pending_operations_take(zlink_pending_operations_t *operations, uint64_t reply_route_id);

#endif
