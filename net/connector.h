/*
 * net/connector.h: one attempt to connect: resolve, then try the addresses in turn, 5 s for all of it.
 *
 * Reactor thread only. `done` is called once, from the loop, unless the connector was cancelled; afterwards it frees
 * itself. It may outlive its owner while the kernel still holds an operation.
 */
#ifndef ZLINK_NET_CONNECTOR_H
#define ZLINK_NET_CONNECTOR_H

#include "net/address.h"
#include "net/reactor.h"

#define ZLINK_CONNECT_TIMEOUT_MS 5000u

typedef struct zlink_connector zlink_connector_t;

/* `fd` is a connected socket, now the callee's, and `peer` its address; or -1 and `reason`. */
typedef void (*zlink_connected_t)(void *context, int fd, const zlink_endpoint_t *peer, const char *reason);

zlink_status_t zlink_connector_start(zlink_reactor_t *reactor, const zlink_address_t *address, zlink_connected_t done,
                                     void *context, zlink_connector_t **connector);
void zlink_connector_cancel(zlink_connector_t *connector);

#endif
