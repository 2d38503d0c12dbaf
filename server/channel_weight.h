/*
 * server/channel_weight.h: the way of a weight to the mesh, or to the channel's server in ClientServer.
 */
#ifndef ZLINK_SERVER_CHANNEL_WEIGHT_H
#define ZLINK_SERVER_CHANNEL_WEIGHT_H

#include <stdint.h>

#include <zlink/status.h>

#include "server/node.h"

/* Reactor thread. The answers are those of zlink_mesh_set_weight. */
zlink_status_t zlink_channel_weight_set(const zlink_node_t *node, const char *channel, uint32_t weight);

/* Any thread, for a channel that this node serves and a weight that is one. It is changed on the reactor, behind the
 * calls that are on their way there. ZLINK_UNAVAILABLE before there is a mesh, ZLINK_CAPACITY_EXCEEDED without memory.
 */
zlink_status_t zlink_channel_weight_post(zlink_node_t *node, const char *channel, uint32_t weight);

#endif
