/*
 * net/resolver.h: names to addresses without stopping the reactor.
 *
 * getaddrinfo() blocks, for seconds where a name server is gone: each question runs on a short-lived thread of its own,
 * at most 16 at a time, and the answer comes back by mail. A question that nobody waits for any more ends by itself,
 * even after its reactor has gone. Reactor thread only, except that open is called before it runs.
 */
#ifndef ZLINK_NET_RESOLVER_H
#define ZLINK_NET_RESOLVER_H

#include "net/address.h"
#include "net/reactor.h"

#define ZLINK_RESOLVER_ENDPOINTS_MAX 8
#define ZLINK_RESOLVER_THREADS_MAX   16

typedef struct zlink_resolver zlink_resolver_t;
typedef struct zlink_resolution zlink_resolution_t;

zlink_resolver_t *zlink_resolver_open(zlink_reactor_t *reactor);
/* No answer comes after this. */
void zlink_resolver_close(zlink_resolver_t *resolver);

/* `count` endpoints, or 0 and why. The endpoints are valid during the call; the resolution is gone after it. */
typedef void (*zlink_resolved_t)(void *context, const zlink_endpoint_t *endpoints, unsigned count, const char *reason);

/* Starts the question; `address` must be a ZLINK_ADDRESS_NAME. ZLINK_CAPACITY_EXCEEDED where 16 are running or there is
 * no thread or memory; then `resolved` is not called. */
zlink_status_t zlink_resolver_ask(zlink_resolver_t *resolver, const zlink_address_t *address, zlink_resolved_t resolved,
                                  void *context, zlink_resolution_t **resolution);
/* `resolved` will not be called. */
void zlink_resolution_cancel(zlink_resolution_t *resolution);

#endif
