/*
 * server/client_server/client_servers.h: this node's sides of its ClientServer channels.
 *
 * Each side is a zlink_mesh_t of that topology (server/mesh/mesh.h). A server listens on an address of its own; a
 * client dials the servers that the configuration names and, where this process is a server of the channel, too, that
 * one: over the same transport, so that a call takes the same way and the same time to whichever server has its turn
 * (TR-37). Belongs to the node. Made and used on the reactor thread; zlink_client_servers_find may be called on any
 * thread, as nothing in here changes between open and destroy.
 */
#ifndef ZLINK_SERVER_CLIENT_SERVERS_H
#define ZLINK_SERVER_CLIENT_SERVERS_H

#include <stddef.h>
#include <stdint.h>

#include <zlink/status.h>

#include "base/refusal.h"
#include "server/config/config.h"
#include "server/mesh/mesh.h"

typedef struct zlink_client_servers zlink_client_servers_t;

/* One side of a channel. */
typedef struct zlink_client_server_side {
    const zlink_config_client_server_t *config;
    zlink_wire_role_t role;
    zlink_mesh_t *mesh;
    const char **addresses;          /* of a client: whom it dials … */
    const char **expected;           /* … and who is to answer */
    char own_address[64];            /* of the server of this process, where it is one of them */
    zlink_client_servers_t *servers; /* that it belongs to */
} zlink_client_server_side_t;

/* `base` holds what all sides have alike: reactor, tls, identity, limits, events. All of it must outlive the answer. A
 * refusal ("client_servers[0].listen: …") leaves nothing; ZLINK_ALREADY_EXISTS is a port in use. */
zlink_status_t zlink_client_servers_open(const zlink_config_t *config, const zlink_mesh_options_t *base,
                                         zlink_client_servers_t **opened, zlink_refusal_t *why);

/* Any thread. NULL where this node has not that side of the channel. */
zlink_mesh_t *zlink_client_servers_find(const zlink_client_servers_t *servers, const char *channel,
                                        zlink_wire_role_t role);

size_t zlink_client_servers_count(const zlink_client_servers_t *servers);
const zlink_client_server_side_t *zlink_client_servers_at(const zlink_client_servers_t *servers, size_t index);

/* What zlink_mesh_* of these names does, for all sides. */
zlink_peer_link_t *zlink_client_servers_find_link(const zlink_client_servers_t *servers, uint64_t number);
void zlink_client_servers_set_paused(const zlink_client_servers_t *servers, bool paused);
size_t zlink_client_servers_set_tls(const zlink_client_servers_t *servers, const zlink_tls_context_t *tls);
void zlink_client_servers_drain(const zlink_client_servers_t *servers);

/* `closed` comes once, when the last side is closed, not inside this call. */
void zlink_client_servers_close(zlink_client_servers_t *servers, void (*closed)(void *context), void *context);

/* After `closed`. NULL is allowed. */
void zlink_client_servers_destroy(zlink_client_servers_t *servers);

#endif
