/*
 * net/tls_context_internal.h: what sessions take from a context. See net/tls_context.h.
 */
#ifndef ZLINK_NET_TLS_CONTEXT_INTERNAL_H
#define ZLINK_NET_TLS_CONTEXT_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "net/tls_context.h"
#include "net/tls_mbedtls_compat.h"

struct zlink_tls_context {
    _Atomic uint32_t holders;
    mbedtls_ssl_config server;
    mbedtls_ssl_config client;
    mbedtls_x509_crt authorities;
    mbedtls_x509_crl revoked; /* `raw` empty: no list */
    mbedtls_x509_crt certificate;
    mbedtls_pk_context key;
    mbedtls_entropy_context entropy;
    mbedtls_ctr_drbg_context random;
    pthread_mutex_t random_lock;        /* not every build of mbedtls locks its generator */
    mbedtls_ssl_ticket_context tickets; /* has a lock of its own; its keys are new at every start */
    char **allow;                       /* names that may be peers */
    size_t allow_count;                 /* 0: every name */
    zlink_peer_identity_t identity;
    int64_t expires_at;
};

#endif
