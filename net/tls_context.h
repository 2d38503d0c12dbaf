/*
 * net/tls_context.h: a node's own certificate and the authority that it trusts, ready for sessions.
 *
 * Made from PEM files, at start and when they are read anew; each file is checked and a refusal names it and the
 * reason. After that it is read only and may be shared by all threads; every stream that uses it has a hold. Both sides
 * show a certificate. TLS 1.2 only, ECDHE-ECDSA with AES-GCM or ChaCha20-Poly1305, the
 * server's order, curve secp256r1 only, no renegotiation. Session tickets for an hour at most, under keys that are new
 * at every start; who a peer is, is checked after every handshake, resumed or not.
 */
#ifndef ZLINK_NET_TLS_CONTEXT_H
#define ZLINK_NET_TLS_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zlink/status.h>

#include "base/refusal.h"

typedef struct zlink_tls_context zlink_tls_context_t;

/* From the URI subject alternative name zlink://<mesh>/<name>; both [A-Za-z0-9._-]{1,64}. */
typedef struct zlink_peer_identity {
    char mesh[65];
    char name[65];
} zlink_peer_identity_t;

typedef struct zlink_tls_options {
    const char *ca_file;          /* one or more authorities */
    const char *certificate_file; /* this node's, then intermediates */
    const char *key_file;         /* mode without any right for group and others */
    const char *crl_file;         /* certificates that the authorities have revoked; NULL: none */
    const char *const *allow;     /* names that may be peers, exactly these */
    size_t allow_count;           /* 0: every name that the authorities vouch for */
} zlink_tls_options_t;

zlink_status_t zlink_tls_context_create(const zlink_tls_options_t *options, zlink_tls_context_t **context,
                                        zlink_refusal_t *why);
/* One more who uses it. Any thread. */
const zlink_tls_context_t *zlink_tls_context_hold(const zlink_tls_context_t *context);
/* Gives one hold back, the maker's included; the last one frees it. NULL is allowed. Any thread. */
void zlink_tls_context_release(const zlink_tls_context_t *context);

const zlink_peer_identity_t *zlink_tls_context_identity(const zlink_tls_context_t *context);

/* The last second, in Unix time (UTC), at which the own certificate is valid. */
int64_t zlink_tls_context_expires_at(const zlink_tls_context_t *context);

/* "zlink://<mesh>/<name>" of `size` bytes, not NUL-terminated. False, with a static reason, for anything else. */
bool zlink_peer_identity_parse(const char *uri, size_t size, zlink_peer_identity_t *identity, const char **reason);

#endif
