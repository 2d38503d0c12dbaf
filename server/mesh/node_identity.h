/*
 * server/mesh/node_identity.h: who this process is in its mesh, new at every start.
 */
#ifndef ZLINK_SERVER_NODE_IDENTITY_H
#define ZLINK_SERVER_NODE_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include <zlink/status.h>

#include "proto/wire.h"

typedef struct zlink_node_identity {
    char mesh[ZLINK_WIRE_MESH_BYTES_MAX + 1];
    char name[ZLINK_WIRE_MESH_BYTES_MAX + 1];       /* the certificate's */
    char node_id[ZLINK_WIRE_NODE_ID_BYTES_MAX + 1]; /* <name>-<lowercase uuid, version 4> */
    uint64_t generation;                            /* 1..2^63-1, random */
} zlink_node_identity_t;

/* Names of at most 64 bytes. ZLINK_INTERNAL_FAILURE where the kernel gives no random bytes. */
zlink_status_t zlink_node_identity_make(zlink_node_identity_t *identity, const char *mesh, const char *name);

/* Of two nodes that know of each other the one dials whose node id is smaller, byte by byte (TR-9). */
bool zlink_node_identity_dials(const char *own_node_id, const char *peer_node_id);

/* A random number that is not 0. */
zlink_status_t zlink_random_nonzero(uint64_t *number);

#endif
