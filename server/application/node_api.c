/*
 * server/application/node_api.c: what handlers say to one node: the calls of include/zlink/call.h to another, on top of
 * turn_call, and to their own what it weighs.
 */
#include <zlink/zlink.h>

#include "proto/wire.h"
#include "server/application/turn_call.h"

static zlink_status_t node_call(zlink_turn_t *turn, const char *node_id, zlink_ask_t ask, const zlink_reply_t *reply,
                                zlink_wait_mode_t mode, zlink_then_t then, void *context)
{
    zlink_turn_call_plan_t plan = {ZLINK_TARGET_NODE, node_id, "", ask, reply, mode, then, context};
    return zlink_turn_call(turn, &plan);
}

const char *zlink_turn_mesh(const zlink_turn_t *turn)
{
    return zlink_invocation_of(turn)->host->mesh;
}

zlink_status_t zlink_node_send(zlink_turn_t *turn, const char *node_id, zlink_ask_t message)
{
    return node_call(turn, node_id, message, NULL, ZLINK_WAIT_ASYNC, NULL, NULL);
}

zlink_status_t zlink_node_request_async(zlink_turn_t *turn, const char *node_id, zlink_ask_t ask, zlink_reply_t reply)
{
    return node_call(turn, node_id, ask, &reply, ZLINK_WAIT_ASYNC, NULL, NULL);
}

zlink_status_t zlink_node_request_yield(zlink_turn_t *turn, const char *node_id, zlink_ask_t ask, zlink_reply_t reply)
{
    return node_call(turn, node_id, ask, &reply, ZLINK_WAIT_YIELD, NULL, NULL);
}

zlink_status_t zlink_node_request_async_then(zlink_turn_t *turn, const char *node_id, zlink_ask_t ask,
                                             zlink_reply_t reply, zlink_then_t then, void *context)
{
    return then ? node_call(turn, node_id, ask, &reply, ZLINK_WAIT_ASYNC, then, context) : ZLINK_INVALID_OPERATION;
}

zlink_status_t zlink_node_request_yield_then(zlink_turn_t *turn, const char *node_id, zlink_ask_t ask,
                                             zlink_reply_t reply, zlink_then_t then, void *context)
{
    return then ? node_call(turn, node_id, ask, &reply, ZLINK_WAIT_YIELD, then, context) : ZLINK_INVALID_OPERATION;
}

zlink_status_t zlink_channel_set_weight(zlink_turn_t *turn, const char *channel, int32_t weight)
{
    if (!turn || zlink_turn_current() != turn || !channel || weight < 0 || weight > (int32_t)ZLINK_WIRE_WEIGHT_MAX)
        return ZLINK_INVALID_OPERATION;
    const zlink_application_host_t *host = zlink_invocation_of(turn)->host;
    if (!zlink_application_host_find_channel(host, channel))
        return ZLINK_NOT_FOUND;
    return host->outbound.set_weight(host->outbound.context, channel, (uint32_t)weight);
}
