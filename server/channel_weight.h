/*
 * server/channel_weight.h: the way of a weight from a handler to the mesh.
 */
#ifndef ZLINK_SERVER_CHANNEL_WEIGHT_H
#define ZLINK_SERVER_CHANNEL_WEIGHT_H

#include <stdint.h>

#include <zlink/status.h>

#include "server/node.h"

/* Any thread, for a channel that this node serves and a weight that is one. It is changed on the reactor, behind the
 * calls that are on their way there. ZLINK_UNAVAILABLE before there is a mesh, ZLINK_CAPACITY_EXCEEDED without memory.
 */
zlink_status_t zlink_channel_weight_post(zlink_node_t *node, const char *channel, uint32_t weight);

#endif
