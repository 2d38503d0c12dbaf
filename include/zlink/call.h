/*
 * zlink/call.h: calls that a handler makes.
 *
 * The verb at the end of the name says how it waits:
 *
 *   _send         one-way. Ends when this node has taken the message. The turn is kept, but where there is no
 *                 room for it: then it waits for room, up to the send timeout, and holds no gate meanwhile.
 *                 Other turns of this Spot may so run before it returns: read state again after a `_send`,
 *                 or do not count on its time. (An owner that may not yield keeps its turn then, too.)
 *   _async        waits for the reply and holds the turn: nothing else of this owner runs meanwhile.
 *   _yield        waits for the reply and gives the gate back: other turns of this Spot run. The handler
 *                 goes on in a new turn at the back of the Spot's queue. Read state again afterwards.
 *                 Offered where the owner is an Instance Spot; elsewhere ZLINK_INVALID_OPERATION before
 *                 anything is sent.
 *   _async_then   the same two without a stack: the function returns at once, and when the reply is
 *   _yield_then   there `then` runs. The handler returns ZLINK_OK after such a call and has ended only
 *                 when `then` has; what `then` returns is the handler's status. `then` may make calls
 *                 in turn. The reply is decoded into memory that must live that long (zlink_turn_alloc).
 *                 A handler that returns an error after such a call ends with that error as soon as the
 *                 call has, and `then` never runs, although the request is on its way. While such a call is open the
 * turn makes no other call that waits, and a `_send` to another node does wait: ZLINK_INVALID_OPERATION.
 *
 * A call is made once and never sent again by the library. Where it fails the status says why:
 *   ZLINK_INVALID_OPERATION  not allowed here (no turn, a wait for the caller itself or for a target
 *                            behind the gate that the caller holds, `_yield` where it is not offered,
 *                            a bad argument); nothing was sent
 *   ZLINK_NOT_FOUND          no node known serves the channel or hosts the Spot type
 *   ZLINK_NOT_CONFIGURED     a ClientServer channel of which this node is no client
 *   ZLINK_UNAVAILABLE        known, but not reachable or lost before the reply; or its queue is full
 *   ZLINK_CAPACITY_EXCEEDED  a queue or table of this process is full (a `_send` waits for room in a queue), or
 *                            there is no room for one more Spot
 *   ZLINK_DEADLINE_EXCEEDED  the time was over; the other side may still do the work. Of a ClientServer channel no
 *                            server was ready in that time, or within 5 s. Of a `_send`: no room in its time; at
 *                            once where too many wait already, where the turn has no way to wait, or where the
 *                            full queue is the caller's own, which it would wait for in vain
 *   ZLINK_CANCELLED          it was given up from here (zlink/cancellation.h); the other side may still do the work
 *   ZLINK_SHUTTING_DOWN      this node or the owner is closing
 *   ZLINK_PROTOCOL_ERROR     the request cannot be encoded, or the reply cannot be decoded
 *   any other                what the target's handler returned
 */
#ifndef ZLINK_CALL_H
#define ZLINK_CALL_H

#include <zlink/message.h>
#include <zlink/turn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What runs after a `_then` call: `self` is the owner's state, `status` how the call ended (the reply is
 * decoded only for ZLINK_OK), `context` what the caller gave. */
typedef zlink_status_t (*zlink_then_t)(zlink_turn_t *turn, void *self, zlink_status_t status, void *context);

/* ---- channels: one of the nodes that serve `channel` is picked, once, when the call starts ---- */

ZLINK_API ZLINK_MUST_USE zlink_status_t zlink_channel_send(zlink_turn_t *turn, const char *channel,
                                                           zlink_ask_t message);
ZLINK_API ZLINK_MUST_USE zlink_status_t zlink_channel_request_async(zlink_turn_t *turn, const char *channel,
                                                                    zlink_ask_t ask, zlink_reply_t reply);
ZLINK_API ZLINK_MUST_USE zlink_status_t zlink_channel_request_yield(zlink_turn_t *turn, const char *channel,
                                                                    zlink_ask_t ask, zlink_reply_t reply);
ZLINK_API ZLINK_MUST_USE zlink_status_t zlink_channel_request_async_then(zlink_turn_t *turn, const char *channel,
                                                                         zlink_ask_t ask, zlink_reply_t reply,
                                                                         zlink_then_t then, void *context);
ZLINK_API ZLINK_MUST_USE zlink_status_t zlink_channel_request_yield_then(zlink_turn_t *turn, const char *channel,
                                                                         zlink_ask_t ask, zlink_reply_t reply,
                                                                         zlink_then_t then, void *context);

/* ---- Instance Spots: the first call to (`type`, `id`) activates it; `id` is 1..255 bytes of UTF-8 ---- */

ZLINK_API ZLINK_MUST_USE zlink_status_t zlink_instance_spot_send(zlink_turn_t *turn, const char *type, const char *id,
                                                                 zlink_ask_t message);
ZLINK_API ZLINK_MUST_USE zlink_status_t zlink_instance_spot_request_async(zlink_turn_t *turn, const char *type,
                                                                          const char *id, zlink_ask_t ask,
                                                                          zlink_reply_t reply);
ZLINK_API ZLINK_MUST_USE zlink_status_t zlink_instance_spot_request_yield(zlink_turn_t *turn, const char *type,
                                                                          const char *id, zlink_ask_t ask,
                                                                          zlink_reply_t reply);
ZLINK_API ZLINK_MUST_USE zlink_status_t zlink_instance_spot_request_async_then(zlink_turn_t *turn, const char *type,
                                                                               const char *id, zlink_ask_t ask,
                                                                               zlink_reply_t reply, zlink_then_t then,
                                                                               void *context);
ZLINK_API ZLINK_MUST_USE zlink_status_t zlink_instance_spot_request_yield_then(zlink_turn_t *turn, const char *type,
                                                                               const char *id, zlink_ask_t ask,
                                                                               zlink_reply_t reply, zlink_then_t then,
                                                                               void *context);

/* ---- nodes: the node of exactly this id, with the handlers that its modules registered for it ----
 *
 * ZLINK_NOT_FOUND where no node of that id is linked and ready now, where its object_role is client, or where it has no
 * such handler: nobody else gets the call, and a node that has started anew has a new id. A `_send` waits for the word
 * of this node's network thread. */

ZLINK_API ZLINK_MUST_USE zlink_status_t zlink_node_send(zlink_turn_t *turn, const char *node_id, zlink_ask_t message);
ZLINK_API ZLINK_MUST_USE zlink_status_t zlink_node_request_async(zlink_turn_t *turn, const char *node_id,
                                                                 zlink_ask_t ask, zlink_reply_t reply);
ZLINK_API ZLINK_MUST_USE zlink_status_t zlink_node_request_yield(zlink_turn_t *turn, const char *node_id,
                                                                 zlink_ask_t ask, zlink_reply_t reply);
ZLINK_API ZLINK_MUST_USE zlink_status_t zlink_node_request_async_then(zlink_turn_t *turn, const char *node_id,
                                                                      zlink_ask_t ask, zlink_reply_t reply,
                                                                      zlink_then_t then, void *context);
ZLINK_API ZLINK_MUST_USE zlink_status_t zlink_node_request_yield_then(zlink_turn_t *turn, const char *node_id,
                                                                      zlink_ask_t ask, zlink_reply_t reply,
                                                                      zlink_then_t then, void *context);

#ifdef __cplusplus
}
#endif

#endif
