/*
 * net/tls_identity.h: who a certificate says its holder is.
 *
 * Pure functions, any thread. zlink_peer_identity_parse() is declared in net/tls_context.h.
 */
#ifndef ZLINK_NET_TLS_IDENTITY_H
#define ZLINK_NET_TLS_IDENTITY_H

#include <openssl/x509.h>

#include "net/tls_context.h"

/* Exactly one URI name of the scheme zlink, and a good one. Other names in the certificate mean nothing here. */
bool zlink_tls_identity_of(X509 *certificate, zlink_peer_identity_t *identity, const char **reason);

#endif
