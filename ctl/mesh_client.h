/*
 * ctl/mesh_client.h: a tool that joins a mesh as a Client: no listener, no handlers, its own certificate.
 *
 * The main thread makes and ends it; everything else happens on the reactor. It dials each address once (again after a
 * loss where `reconnect` says so) and counts as joined when every address has a ready link.
 */
#ifndef ZLINK_CTL_MESH_CLIENT_H
#define ZLINK_CTL_MESH_CLIENT_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zlink/status.h>

#include "base/refusal.h"
#include "server/mesh/mesh.h"

#define ZLINK_MESH_CLIENT_ADDRESSES_MAX 64

typedef struct zlink_mesh_client_options {
    const char *addresses[ZLINK_MESH_CLIENT_ADDRESSES_MAX];
    size_t address_count;
    const char *ca, *certificate, *key; /* all NULL: plain, and then `mesh` is needed */
    const char *mesh;
    uint32_t join_timeout_ms;
    bool reconnect;
} zlink_mesh_client_options_t;

typedef struct zlink_mesh_client {
    zlink_mesh_client_options_t options;
    zlink_reactor_t *reactor;
    zlink_tls_context_t *tls;
    zlink_node_identity_t identity;
    zlink_mesh_t *mesh;
    /* Reactor thread only: the number of the ready link to each address, 0 = none now. */
    uint64_t links[ZLINK_MESH_CLIENT_ADDRESSES_MAX];
    size_t ready;
    bool told; /* `progress` was posted for the outcome of joining */
    sem_t progress;
    zlink_refusal_t last_failure;
} zlink_mesh_client_t;

/* Joins and waits for it. On failure everything is taken back and `why` names the address and the reason. */
zlink_status_t zlink_mesh_client_join(const zlink_mesh_client_options_t *options, zlink_mesh_client_t *client,
                                      zlink_refusal_t *why);

/* Closes all links in order and frees everything. No call may be under way. */
void zlink_mesh_client_leave(zlink_mesh_client_t *client);

#endif
