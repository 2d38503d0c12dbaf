/*
 * server/application/turn_call.h: a call that a handler makes (include/zlink/call.h), from its turn to its answer.
 *
 * Made on the caller's turn. A call to an object of this node goes straight to that object's queue and back, with its
 * deadline kept by the caller's worker; any other goes to the mesh. Either way one party decides the outcome once and
 * completes the wait; the answer is decoded on the caller's turn. Two parties may hold a local call (the caller and the
 * invocation that answers it), so it is counted.
 */
#ifndef ZLINK_SERVER_TURN_CALL_H
#define ZLINK_SERVER_TURN_CALL_H

#include <stdatomic.h>

#include <zlink/call.h>

#include "base/timer_wheel.h"
#include "exec/turn.h"
#include "server/application/application_host.h"
#include "server/mesh/outbound_call.h"

/* Everything that the public functions say of a call. */
typedef struct zlink_turn_call_plan {
    zlink_target_kind_t target;
    const char *name;
    const char *spot_id; /* "" but for a Spot */
    zlink_ask_t ask;
    const zlink_reply_t *reply; /* NULL: one-way */
    zlink_wait_mode_t mode;
    zlink_then_t then; /* NULL: the handler waits on its stack */
    void *context;
} zlink_turn_call_plan_t;

/* Makes the call and, without `then`, waits for its end. */
zlink_status_t zlink_turn_call(zlink_turn_t *turn, const zlink_turn_call_plan_t *plan);

#endif
