/*
 * net/listener.h: a socket that accepts streams.
 *
 * Reactor thread only (zlink_reactor_call() brings the main thread there). Addresses are numeric: "127.0.0.1:5001",
 * "[::]:5001", port 0 for one that the kernel chooses, or "unix:/path". A stale socket file is replaced only if nobody
 * listens on it; the file is removed again at close. A lack of descriptors or memory makes the listener wait, not spin.
 */
#ifndef ZLINK_NET_LISTENER_H
#define ZLINK_NET_LISTENER_H

#include "net/stream.h"

typedef struct zlink_listener zlink_listener_t;

typedef struct zlink_listener_options {
    const char *address;
    uint32_t unix_mode;                  /* of the socket file, 0 = 0600 */
    const zlink_tls_context_t *tls;      /* NULL: plain */
    const zlink_stream_events_t *events; /* NULL where `accepted` sets them */
    zlink_stream_limits_t limits;
    /* A connection was accepted (with TLS: not handshaken yet). Set the stream's context here; `opened` follows.
     * Aborting it here is allowed. */
    void (*accepted)(zlink_listener_t *listener, zlink_stream_t *stream);
    void *context;
    /* Beyond these a connection is closed on arrival, before a byte of it is read. */
    unsigned connections_max;             /* open at once. 0 = 16,384 */
    unsigned connections_per_address_max; /* of these, from one address (net/address_counts.h). 0 = 4,096 */
    unsigned handshakes_max;              /* of these, not handshaken yet. 0 = 1,024 */
} zlink_listener_options_t;

zlink_status_t zlink_listener_open(zlink_reactor_t *reactor, const zlink_listener_options_t *options,
                                   zlink_listener_t **listener, zlink_refusal_t *why);

/* For connections from now on, where it serves TLS. The caller keeps a hold as long as the listener uses it. */
void zlink_listener_set_tls(zlink_listener_t *listener, const zlink_tls_context_t *tls);

/* Stops accepting and frees the listener at the end of the tick or later. Accepted streams live on. */
void zlink_listener_close(zlink_listener_t *listener);

/* What it is bound to, with the real port: "127.0.0.1:40123" or "unix:/path". */
const char *zlink_listener_address(const zlink_listener_t *listener);

/* 0 for a unix socket. */
uint16_t zlink_listener_port(const zlink_listener_t *listener);

void *zlink_listener_context(const zlink_listener_t *listener);

#endif
