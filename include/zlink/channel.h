/*
 * zlink/channel.h: a ChannelName that this node serves, with its handlers.
 *
 * Every node that loads the module serves the channel, unless its configuration makes it a mere client of it; a
 * request to the channel goes to one of them, in turn and as often as their weights say. The configuration also says
 * whether the channel is one of the mesh or stands apart (ClientServer); handlers and calls are the same.
 * All handlers of one ChannelName on one node share one serial queue and one gate: they run one at a
 * time, in the order of arrival. They may wait with `_async` (which holds the gate), not with `_yield`.
 */
#ifndef ZLINK_CHANNEL_H
#define ZLINK_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

#include <zlink/filter.h>
#include <zlink/handler.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zlink_channel_type {
    const char *name;  /* ChannelName: 1..255 bytes of UTF-8, unique in the node */
    size_t state_size; /* bytes of zeroed state for this node's part of the channel: `self` */

    /* Optional; an error stops the node's start. It runs before the node listens and dials: a call to a channel that
     * has not started yet (its own included), or to another node, ends with ZLINK_UNAVAILABLE. */
    zlink_status_t (*on_start)(zlink_turn_t *turn, void *self);
    void (*on_closing)(zlink_turn_t *turn, void *self); /* optional; the channel's last turn */

    const zlink_handler_t *handlers; /* ends with ZLINK_HANDLERS_END */
    const zlink_filter_t *filters;   /* optional; before each of the handlers; ends with ZLINK_FILTERS_END */
} zlink_channel_type_t;

/* What this node weighs in `channel` from now on, 0 (no new calls) to 10000, as `zlinkctl weight` would say it: for
 * calls that are made, here and elsewhere, when the word has got round. ZLINK_INVALID_OPERATION outside that range or
 * the turn, ZLINK_NOT_FOUND where this node does not serve the channel, ZLINK_UNAVAILABLE in an `on_start`,
 * ZLINK_CAPACITY_EXCEEDED without memory. */
ZLINK_API ZLINK_MUST_USE zlink_status_t zlink_channel_set_weight(zlink_turn_t *turn, const char *channel,
                                                                 int32_t weight);

#ifdef __cplusplus
}
#endif

#endif
