/*
 * net/tls_mbedtls_compat.h: the one place that knows which mbedtls this is.
 *
 * Tested with 2.28 (Debian 12). The branches for 3.x follow its migration guide and are untested: no machine of this
 * project has 3.6. Everything else in net/ is written against the names below.
 */
#ifndef ZLINK_NET_TLS_MBEDTLS_COMPAT_H
#define ZLINK_NET_TLS_MBEDTLS_COMPAT_H

#include <mbedtls/version.h>

#if MBEDTLS_VERSION_NUMBER >= 0x03000000
#include <mbedtls/build_info.h>
#include <psa/crypto.h>
#endif

#include <mbedtls/ctr_drbg.h>
#include <mbedtls/ecp.h>
#include <mbedtls/entropy.h>
#include <mbedtls/error.h>
#include <mbedtls/gcm.h>
#include <mbedtls/pk.h>
#include <mbedtls/platform_util.h>
#include <mbedtls/ssl.h>
#include <mbedtls/ssl_ticket.h>
#include <mbedtls/x509_crl.h>
#include <mbedtls/x509_crt.h>

#if MBEDTLS_VERSION_NUMBER >= 0x03000000

#define ZLINK_MBEDTLS_PRIVATE(FIELD)  MBEDTLS_PRIVATE(FIELD)
#define ZLINK_MBEDTLS_BAD_CERTIFICATE MBEDTLS_ERR_SSL_BAD_CERTIFICATE

static inline int zlink_mbedtls_start(void)
{
    return psa_crypto_init() == PSA_SUCCESS ? 0 : -1;
}

static inline void zlink_mbedtls_conf_tls12_only(mbedtls_ssl_config *config)
{
    mbedtls_ssl_conf_min_tls_version(config, MBEDTLS_SSL_VERSION_TLS1_2);
    mbedtls_ssl_conf_max_tls_version(config, MBEDTLS_SSL_VERSION_TLS1_2);
}

static inline void zlink_mbedtls_conf_p256_only(mbedtls_ssl_config *config)
{
    static const uint16_t groups[] = {MBEDTLS_SSL_IANA_TLS_GROUP_SECP256R1, MBEDTLS_SSL_IANA_TLS_GROUP_NONE};
    static const uint16_t signatures[] = {MBEDTLS_TLS1_3_SIG_ECDSA_SECP256R1_SHA256,
                                          MBEDTLS_TLS1_3_SIG_ECDSA_SECP384R1_SHA384, MBEDTLS_TLS1_3_SIG_NONE};

    mbedtls_ssl_conf_groups(config, groups);
    mbedtls_ssl_conf_sig_algs(config, signatures);
}

static inline int zlink_mbedtls_parse_key(mbedtls_pk_context *key, const unsigned char *text, size_t size,
                                          int (*random)(void *, unsigned char *, size_t), void *context)
{
    return mbedtls_pk_parse_key(key, text, size, NULL, 0, random, context);
}

static inline int zlink_mbedtls_check_pair(const mbedtls_pk_context *public_key, const mbedtls_pk_context *key,
                                           int (*random)(void *, unsigned char *, size_t), void *context)
{
    return mbedtls_pk_check_pair(public_key, key, random, context);
}

static inline int zlink_mbedtls_sign(mbedtls_pk_context *key, const unsigned char *hash, size_t hash_size,
                                     unsigned char *signature, size_t signature_size, size_t *size,
                                     int (*random)(void *, unsigned char *, size_t), void *context)
{
    return mbedtls_pk_sign(key, MBEDTLS_MD_SHA256, hash, hash_size, signature, signature_size, size, random, context);
}

static inline int zlink_mbedtls_handshake_is_over(const mbedtls_ssl_context *ssl)
{
    return mbedtls_ssl_is_handshake_over(ssl);
}

#else

#define ZLINK_MBEDTLS_PRIVATE(FIELD)  FIELD
#define ZLINK_MBEDTLS_BAD_CERTIFICATE MBEDTLS_ERR_SSL_BAD_HS_CERTIFICATE

static inline int zlink_mbedtls_start(void)
{
    return 0;
}

static inline void zlink_mbedtls_conf_tls12_only(mbedtls_ssl_config *config)
{
    mbedtls_ssl_conf_min_version(config, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
    mbedtls_ssl_conf_max_version(config, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
}

static inline void zlink_mbedtls_conf_p256_only(mbedtls_ssl_config *config)
{
    static const mbedtls_ecp_group_id curves[] = {MBEDTLS_ECP_DP_SECP256R1, MBEDTLS_ECP_DP_NONE};
    static const int hashes[] = {MBEDTLS_MD_SHA256, MBEDTLS_MD_SHA384, MBEDTLS_MD_NONE};

    mbedtls_ssl_conf_curves(config, curves);
    mbedtls_ssl_conf_sig_hashes(config, hashes);
}

static inline int zlink_mbedtls_parse_key(mbedtls_pk_context *key, const unsigned char *text, size_t size,
                                          int (*random)(void *, unsigned char *, size_t), void *context)
{
    (void)random;
    (void)context;
    return mbedtls_pk_parse_key(key, text, size, NULL, 0);
}

static inline int zlink_mbedtls_check_pair(const mbedtls_pk_context *public_key, const mbedtls_pk_context *key,
                                           int (*random)(void *, unsigned char *, size_t), void *context)
{
    (void)random;
    (void)context;
    return mbedtls_pk_check_pair(public_key, key);
}

static inline int zlink_mbedtls_sign(mbedtls_pk_context *key, const unsigned char *hash, size_t hash_size,
                                     unsigned char *signature, size_t signature_size, size_t *size,
                                     int (*random)(void *, unsigned char *, size_t), void *context)
{
    (void)signature_size;
    return mbedtls_pk_sign(key, MBEDTLS_MD_SHA256, hash, hash_size, signature, size, random, context);
}

static inline int zlink_mbedtls_handshake_is_over(const mbedtls_ssl_context *ssl)
{
    return ssl->state == MBEDTLS_SSL_HANDSHAKE_OVER;
}

#endif

/* The description byte of the alert that ended the connection; the message is still in the input. */
static inline int zlink_mbedtls_received_alert(const mbedtls_ssl_context *ssl)
{
    return ssl->ZLINK_MBEDTLS_PRIVATE(in_msg) == NULL ? -1 : ssl->ZLINK_MBEDTLS_PRIVATE(in_msg)[1];
}

#endif
