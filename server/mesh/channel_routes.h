/*
 * server/mesh/channel_routes.h: which ready links serve a channel, and whose turn it is.
 *
 * Owned by the reactor. Members, this node among them where it serves the channel, take turns by smooth weighted round
 * robin: each member that may be picked gains its weight, the one that has gained most is picked (of equals the smaller
 * node id) and loses what all have gained. Weights 100 and 300 give B, A, B, B. What a member has gained survives the
 * coming, going and re-weighting of others, so turns depend on nothing but the sequence of calls (TR-33 to TR-36). A
 * member of weight 0 gets no call. A channel that was ever known stays known: without a ready member its calls are
 * ZLINK_UNAVAILABLE, while a name that nobody ever served is ZLINK_NOT_FOUND (TR-31, TR-32). Only where
 * ZLINK_CHANNEL_ROUTES_MAX names are known are those forgotten that have no member, or a peer with ever new names would
 * keep all others from being routed.
 */
#ifndef ZLINK_SERVER_CHANNEL_ROUTES_H
#define ZLINK_SERVER_CHANNEL_ROUTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zlink/status.h>

typedef struct zlink_peer_link zlink_peer_link_t;
typedef struct zlink_channel_routes zlink_channel_routes_t;

/* A pick: a link, or this node itself. */
typedef struct zlink_channel_pick {
    zlink_peer_link_t *link;
    bool local;
} zlink_channel_pick_t;

#define ZLINK_CHANNEL_ROUTES_MAX 65536 /* names known at once */

zlink_channel_routes_t *zlink_channel_routes_create(const char *own_node_id);
void zlink_channel_routes_destroy(zlink_channel_routes_t *routes);

/* This node serves the channel. ZLINK_CAPACITY_EXCEEDED at the limit or without memory. */
zlink_status_t zlink_channel_routes_add_local(zlink_channel_routes_t *routes, const char *channel, uint32_t weight);

/* Somebody serves the channel, but takes no new calls now. ZLINK_CAPACITY_EXCEEDED as above. */
zlink_status_t zlink_channel_routes_know(zlink_channel_routes_t *routes, const char *channel);

/* `node_id` orders the members and must live as long as the link. */
zlink_status_t zlink_channel_routes_add(zlink_channel_routes_t *routes, const char *channel, zlink_peer_link_t *link,
                                        const char *node_id, uint32_t weight);

/* For later picks; `link` NULL: this node. False where it is no member. */
bool zlink_channel_routes_set_weight(zlink_channel_routes_t *routes, const char *channel, const zlink_peer_link_t *link,
                                     uint32_t weight);
void zlink_channel_routes_remove(zlink_channel_routes_t *routes, const char *channel, const zlink_peer_link_t *link);

/* Links that serve the channel now, with any weight but 0. */
size_t zlink_channel_routes_members(const zlink_channel_routes_t *routes, const char *channel);

/* With `exclude_local` not this node, also where it is reached by a link (in ClientServer). */
zlink_status_t zlink_channel_routes_pick(zlink_channel_routes_t *routes, const char *channel, bool exclude_local,
                                         zlink_channel_pick_t *pick);

#endif
