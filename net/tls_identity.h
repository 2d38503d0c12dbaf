/*
 * net/tls_identity.h: who a certificate says its holder is.
 *
 * Pure functions, any thread. zlink_peer_identity_parse() is declared in net/tls_context.h.
 */
#ifndef ZLINK_NET_TLS_IDENTITY_H
#define ZLINK_NET_TLS_IDENTITY_H

#include "net/tls_context.h"
#include "net/tls_mbedtls_compat.h"

/* Exactly one URI name of the scheme zlink, and a good one. Other names in the certificate mean nothing here. */
bool zlink_tls_identity_of(const mbedtls_x509_crt *certificate, zlink_peer_identity_t *identity, const char **reason);

#endif
