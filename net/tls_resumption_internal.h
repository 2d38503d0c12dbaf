/*
 * net/tls_resumption_internal.h: what a session does with a zlink_tls_resumption_t. Any thread.
 */
#ifndef ZLINK_NET_TLS_RESUMPTION_INTERNAL_H
#define ZLINK_NET_TLS_RESUMPTION_INTERNAL_H

#include <openssl/ssl.h>

#include "net/tls_resumption.h"

/* Before the handshake. Without effect where nothing is remembered. */
void zlink_tls_resumption_offer(zlink_tls_resumption_t *resumption, SSL *ssl);

/* After a full handshake. What was remembered before is gone in any case. */
void zlink_tls_resumption_keep(zlink_tls_resumption_t *resumption, SSL *ssl);

#endif
