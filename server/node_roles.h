/*
 * server/node_roles.h: what the configuration makes of what the modules registered: which channels this node serves and
 * what it weighs in them, and whether it may host objects.
 *
 * Main thread, between the loading of modules and the making of the host.
 */
#ifndef ZLINK_SERVER_NODE_ROLES_H
#define ZLINK_SERVER_NODE_ROLES_H

#include <stddef.h>
#include <stdint.h>

#include <zlink/status.h>

#include "base/refusal.h"
#include "server/application/application_host.h"
#include "server/application/catalogue.h"
#include "server/config/config.h"

/* Marks the channels that this node only calls, and those of ClientServer. ZLINK_NOT_CONFIGURED with "FILE: KEY:
 * reason" where the two do not go together: a served channel that no module has, an object Client with Spot types or
 * node handlers (TR-5). */
zlink_status_t zlink_node_roles_apply(const zlink_config_t *config, zlink_catalogue_t *catalogue,
                                      const char *config_path, zlink_refusal_t *why);

/* What this node is in a channel, if it is one of ClientServer. Any thread. */
zlink_channel_side_t zlink_node_roles_side(const zlink_config_t *config, const char *channel);

/* The channels of the mesh that this node is a member of, each with its weight; answers how many. Both arrays have
 * ZLINK_CATALOGUE_TYPES_MAX places, and the names live as long as the catalogue. */
size_t zlink_node_roles_memberships(const zlink_config_t *config, const zlink_catalogue_t *catalogue,
                                    const char **channels, uint32_t *weights);

#endif
