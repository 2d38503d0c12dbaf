/*
 * net/tls_trust.h: whether the holder of a certificate may be a peer now, and which chains of certificates are good.
 *
 * Asked in every full handshake, after every handshake, and for every ticket before it is taken: a resumed handshake
 * verifies nothing by itself. Reads the context only; any thread.
 */
#ifndef ZLINK_NET_TLS_TRUST_H
#define ZLINK_NET_TLS_TRUST_H

#include "net/tls_context_internal.h"

#define ZLINK_TLS_REASON_BYTES 160

/* Its identity is a good one, today lies in its dates, no list of revoked certificates has it, and `tls.allow`, where
 * there is one, names it. The authority's signature was checked by the full handshake at the beginning. False with the
 * reason. `certificate` may be NULL: none was shown. */
bool zlink_tls_trusts(const zlink_tls_context_t *context, X509 *certificate, zlink_peer_identity_t *identity,
                      char reason[ZLINK_TLS_REASON_BYTES]);

/* ECDSA on P-256, the one curve of certificates here. */
bool zlink_tls_is_p256(const EVP_PKEY *key);

/* What a verification by `store` goes by: the authorities of the context, its lists of revoked certificates, ECDSA on
 * P-256 with SHA-256 or SHA-384 all the way. False without memory. */
bool zlink_tls_trust_store(const zlink_tls_context_t *context, X509_STORE *store);

/* A verification callback for such a store. */
int zlink_tls_verifying(int good, X509_STORE_CTX *verification);

/* For a server's tickets: takes back only those of whom would be let in today, and makes none that outlives the own
 * certificate. */
void zlink_tls_trust_tickets(zlink_tls_context_t *context);

#endif
