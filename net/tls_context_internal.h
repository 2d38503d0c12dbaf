/*
 * net/tls_context_internal.h: what sessions take from a context. See net/tls_context.h.
 */
#ifndef ZLINK_NET_TLS_CONTEXT_INTERNAL_H
#define ZLINK_NET_TLS_CONTEXT_INTERNAL_H

#include <openssl/ssl.h>
#include <stdatomic.h>

#include "net/tls_context.h"

struct zlink_tls_context {
    _Atomic uint32_t holders;
    SSL_CTX *server; /* its ticket keys are its own, new with each context */
    SSL_CTX *client;
    STACK_OF(X509) * authorities;
    STACK_OF(X509_CRL) * revoked; /* empty: no list */
    STACK_OF(X509) * chain;       /* the own certificate, then intermediates */
    X509 *certificate;            /* the first of these */
    EVP_PKEY *key;
    char **allow;       /* names that may be peers */
    size_t allow_count; /* 0: every name */
    zlink_peer_identity_t identity;
    int64_t expires_at;
};

/* Words for what a verification found, in `text`. */
void zlink_tls_verify_text(int error, char *text, size_t size);

/* The last words that the library left on this thread; its queue is empty afterwards. */
void zlink_tls_error_text(char *text, size_t size);

#endif
