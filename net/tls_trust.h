/*
 * net/tls_trust.h: whether the holder of a certificate may be a peer now.
 *
 * Asked after every handshake, and for every ticket before it is taken: a resumed handshake verifies nothing by itself.
 * Reads the context only; any thread.
 */
#ifndef ZLINK_NET_TLS_TRUST_H
#define ZLINK_NET_TLS_TRUST_H

#include "net/tls_context_internal.h"

#define ZLINK_TLS_REASON_BYTES 160

/* Its identity is a good one, today lies in its dates, no list of revoked certificates has it, and `tls.allow`, where
 * there is one, names it. The authority's signature was checked by the full handshake at the beginning. False with the
 * reason. `certificate` may be NULL: none was shown. */
bool zlink_tls_trusts(const zlink_tls_context_t *context, const mbedtls_x509_crt *certificate,
                      zlink_peer_identity_t *identity, char reason[ZLINK_TLS_REASON_BYTES]);

/* mbedtls calls these for a server; `context` is the zlink_tls_context_t. */
int zlink_tls_ticket_write(void *context, const mbedtls_ssl_session *session, unsigned char *start,
                           const unsigned char *end, size_t *size, uint32_t *lifetime_s);
int zlink_tls_ticket_parse(void *context, mbedtls_ssl_session *session, unsigned char *bytes, size_t size);

#endif
