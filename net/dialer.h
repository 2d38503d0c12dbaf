/*
 * net/dialer.h: one address that is dialled again and again, with patience.
 *
 * Reactor thread only. zlink_dialer_open() starts the first attempt. Every attempt makes one stream, shown to
 * `connecting`, and ends with that stream's `closed`: also when the name could not be resolved, the connection was
 * refused, or nothing came within 5 s. The dialer does not redial by itself: whoever knows that the link is
 * still wanted calls zlink_dialer_redial() in or after `closed`. The wait before an attempt starts at 100 ms and
 * doubles up to 5 s, each +-50 % at random; zlink_dialer_settled() starts over. With TLS the last session is kept in
 * memory, and offered again.
 */
#ifndef ZLINK_NET_DIALER_H
#define ZLINK_NET_DIALER_H

#include "net/stream.h"

typedef struct zlink_dialer zlink_dialer_t;

typedef struct zlink_dialer_options {
    const char *address; /* "host:port", "[v6]:port" or "unix:/path"; a name is resolved off this thread */
    const zlink_tls_context_t *tls;
    const zlink_stream_events_t *events; /* NULL where `connecting` sets them */
    zlink_stream_limits_t limits;
    /* A new attempt's stream, not connected yet. Set its context here. */
    void (*connecting)(zlink_dialer_t *dialer, zlink_stream_t *stream);
    void *context;
    uint64_t random_seed; /* of the jitter; 0 = from the kernel */
} zlink_dialer_options_t;

/* ZLINK_INVALID_OPERATION with a reason for a bad address. `connecting` is called in the next tick, not inside. */
zlink_status_t zlink_dialer_open(zlink_reactor_t *reactor, const zlink_dialer_options_t *options,
                                 zlink_dialer_t **dialer, zlink_refusal_t *why);

/* Another attempt after the wait. Does nothing where one is waiting already. */
void zlink_dialer_redial(zlink_dialer_t *dialer);

/* Another attempt in the next tick, beside whatever exists, without touching the wait: a link's second connection. */
void zlink_dialer_connect_now(zlink_dialer_t *dialer);

/* The link works: the next wait is the shortest again. */
void zlink_dialer_settled(zlink_dialer_t *dialer);

/* For attempts from now on, where it dials with TLS; what was remembered for resuming goes with the old one. The caller
 * keeps a hold as long as the dialer uses it. */
void zlink_dialer_set_tls(zlink_dialer_t *dialer, const zlink_tls_context_t *tls);

/* No further attempt; the dialer is freed at the end of the tick. Its streams live on. */
void zlink_dialer_close(zlink_dialer_t *dialer);

const char *zlink_dialer_address(const zlink_dialer_t *dialer);
void *zlink_dialer_context(const zlink_dialer_t *dialer);

#endif
