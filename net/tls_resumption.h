/*
 * net/tls_resumption.h: what a dialer remembers of its last TLS session with an address, to make the next one cheap.
 *
 * It holds keys, so it stays in memory and is wiped. Shared by the dialer and the sessions that it starts, each with a
 * hold of its own; any thread, locked inside. Resuming verifies no certificate: whoever uses it checks the peer's
 * certificate, which the session keeps, after every handshake (net/tls_session.c does).
 */
#ifndef ZLINK_NET_TLS_RESUMPTION_H
#define ZLINK_NET_TLS_RESUMPTION_H

typedef struct zlink_tls_resumption zlink_tls_resumption_t;

/* With one hold; NULL without memory. */
zlink_tls_resumption_t *zlink_tls_resumption_create(void);
zlink_tls_resumption_t *zlink_tls_resumption_hold(zlink_tls_resumption_t *resumption);
/* NULL is allowed. The last one wipes and frees it. */
void zlink_tls_resumption_release(zlink_tls_resumption_t *resumption);

/* Nothing is remembered any more: the peer, or its certificate, was refused. */
void zlink_tls_resumption_forget(zlink_tls_resumption_t *resumption);

#endif
