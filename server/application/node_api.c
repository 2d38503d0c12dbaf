/*
 * server/application/node_api.c: the calls to one node, of include/zlink/call.h, on top of turn_call.
 */
#include <zlink/zlink.h>

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
