/*
 * zlink/turn.h: the turn, the interval in which one handler runs and nothing else of its owner does.
 *
 * The node makes a turn and hands it to the handler; it is valid until the handler has ended (which,
 * after a `_then` call, is when the last continuation has returned). Only the handler that it was
 * given to may use it, on the thread that runs the handler: a turn passed to another thread is an
 * error that the library answers with ZLINK_INVALID_OPERATION where it can see it.
 */
#ifndef ZLINK_TURN_H
#define ZLINK_TURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zlink/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zlink_turn zlink_turn_t;

/* The id (not the type) of the Spot whose turn this is, the ChannelName of a channel handler's turn, or the MeshName
 * of a node handler's. Valid as long as the turn is. */
ZLINK_API const char *zlink_turn_owner_name(const zlink_turn_t *turn);

/* The node id of the caller ("b-6f2c…"); this node's own for a local call, a lifecycle callback and a timer's tick. */
ZLINK_API const char *zlink_turn_source(const zlink_turn_t *turn);

/* The packet name of the message that this turn handles; "" in a lifecycle callback or a timer's tick. */
ZLINK_API const char *zlink_turn_packet(const zlink_turn_t *turn);

/* The name of the mesh that this node belongs to. */
ZLINK_API const char *zlink_turn_mesh(const zlink_turn_t *turn);

/* Milliseconds left of the request that this handler answers; -1 where no time was set (a one-way
 * message). 0 means that nobody waits for the reply any more. */
ZLINK_API int32_t zlink_turn_remaining_ms(const zlink_turn_t *turn);

/* The value that the caller has set for `key` (zlink/call_options.h), NULL where it has set none. Valid as long as the
 * turn is. */
ZLINK_API const char *zlink_turn_metadata(const zlink_turn_t *turn, const char *key);

/* All of them, one after the other: `*position` is 0 before the first. False after the last. */
ZLINK_API bool zlink_turn_next_metadata(const zlink_turn_t *turn, size_t *position, const char **key,
                                        const char **value);

/* What the caller has said of the request and of the flow that it belongs to (zlink/call_options.h); "" where it has
 * said nothing. Valid as long as the turn is. */
ZLINK_API const char *zlink_turn_correlation_id(const zlink_turn_t *turn);
ZLINK_API const char *zlink_turn_flow_id(const zlink_turn_t *turn);
/* Who began the flow, by the caller's word; 0 where there is none. */
ZLINK_API uint8_t zlink_turn_flow_origin(const zlink_turn_t *turn);

/* `size_bytes` of zeroed memory, aligned for any type, that lives until the handler has ended and is
 * then freed by the node: the place for what a continuation needs. NULL when memory or the turn's
 * limit of 1 MiB (with a little for each piece) is used up. */
ZLINK_API void *zlink_turn_alloc(zlink_turn_t *turn, size_t size_bytes);

#ifdef __cplusplus
}
#endif

#endif
