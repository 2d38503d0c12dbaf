/*
 * zlink/node_handlers.h: handlers of the node itself, for calls that are meant for this one process.
 *
 * Whoever knows this node's id (it is what zlink_turn_source tells) reaches them with the zlink_node_* calls; nobody
 * else ever gets such a call in its place. Several modules may register some: all handlers of a node share one
 * serial queue and one gate, they run one at a time, in the order of arrival. They may wait with `_async` (which
 * holds the gate), not with `_yield`. A packet may be handled here and in channels or Spots as well; two
 * handlers of one kind for one packet here stop the node's start, and so does any in a node whose
 * object_role is client.
 */
#ifndef ZLINK_NODE_HANDLERS_H
#define ZLINK_NODE_HANDLERS_H

#include <stddef.h>

#include <zlink/filter.h>
#include <zlink/handler.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zlink_node_handlers {
    size_t state_size;               /* bytes of zeroed state for these handlers: `self`; lives as long as the node */
    const zlink_handler_t *handlers; /* ends with ZLINK_HANDLERS_END */
    const zlink_filter_t *filters;   /* optional; before each of these handlers; ends with ZLINK_FILTERS_END */
} zlink_node_handlers_t;

#ifdef __cplusplus
}
#endif

#endif
