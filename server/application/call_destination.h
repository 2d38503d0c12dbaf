/*
 * server/application/call_destination.h: where a handler's call goes: checked and found before anything is made, and
 * how it is handed in where that is on this node.
 *
 * A value on the caller's stack; on its turn only.
 */
#ifndef ZLINK_SERVER_CALL_DESTINATION_H
#define ZLINK_SERVER_CALL_DESTINATION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/admission_error.h"
#include "server/application/turn_call.h"

typedef enum zlink_call_place {
    ZLINK_CALL_TO_MESH = 0,
    ZLINK_CALL_TO_CHANNEL_HERE,
    ZLINK_CALL_TO_SPOT_HERE,
    ZLINK_CALL_TO_NODE_HERE,
} zlink_call_place_t;

typedef struct zlink_call_destination {
    zlink_call_place_t place;
    const zlink_handler_t *handler;
    zlink_channel_host_t *channel;
    const zlink_catalogue_spot_type_t *spot_type;
    size_t node_handlers; /* the registration */
    const char *node;
    bool exclude_local;
    bool served_here;   /* a channel that other nodes serve, too … */
    bool behind_caller; /* … and whose lane here is not worth waiting for */
} zlink_call_destination_t;

/* Nothing is submitted. ZLINK_INVALID_OPERATION: not this turn, a bad argument, or a request that would wait for its
 * own turn's gate; ZLINK_NOT_FOUND: nobody is known to handle it; ZLINK_NOT_CONFIGURED: a channel that is only served
 * here.
 */
zlink_status_t zlink_call_destination_find(const zlink_turn_t *turn, const zlink_turn_call_plan_t *plan,
                                           zlink_call_destination_t *destination);

/* A place on this node: hands the invocation in. ZLINK_CAPACITY_EXCEEDED: `full` says what is. `held` may be NULL; else
 * see zlink_spot_registry_execute_or_hold. */
zlink_status_t zlink_call_destination_execute(const zlink_call_destination_t *destination, const char *spot_id,
                                              zlink_invocation_t *invocation, zlink_admission_resource_t *full,
                                              bool *held);

/* Does the caller's own gate or claim keep the lane there as full as it is? Then no wait would help. */
bool zlink_call_destination_is_behind_caller(const zlink_call_destination_t *destination, const zlink_turn_t *turn,
                                             const char *spot_id);

#endif
