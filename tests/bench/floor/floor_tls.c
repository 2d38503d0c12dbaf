#include "floor_tls.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void floor_die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

void floor_tls_init(floor_tls_t *tls, bool server, const char *certificates, const char *name, const char *cipher)
{
    static const int chacha[] = {MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, 0};
    static const int aes128[] = {MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, 0};
    static const mbedtls_ecp_group_id curves[] = {MBEDTLS_ECP_DP_SECP256R1, MBEDTLS_ECP_DP_NONE};
    char path[4096];

    mbedtls_entropy_init(&tls->entropy);
    mbedtls_ctr_drbg_init(&tls->random);
    mbedtls_x509_crt_init(&tls->ca);
    mbedtls_x509_crt_init(&tls->certificate);
    mbedtls_pk_init(&tls->key);
    mbedtls_ssl_config_init(&tls->config);
    if (mbedtls_ctr_drbg_seed(&tls->random, mbedtls_entropy_func, &tls->entropy, NULL, 0))
        floor_die("no random numbers");
    snprintf(path, sizeof(path), "%s/ca.pem", certificates);
    if (mbedtls_x509_crt_parse_file(&tls->ca, path))
        floor_die("%s cannot be used", path);
    snprintf(path, sizeof(path), "%s/%s.pem", certificates, name);
    if (mbedtls_x509_crt_parse_file(&tls->certificate, path))
        floor_die("%s cannot be used", path);
    snprintf(path, sizeof(path), "%s/%s.key", certificates, name);
    if (mbedtls_pk_parse_keyfile(&tls->key, path, NULL))
        floor_die("%s cannot be used", path);
    if (mbedtls_ssl_config_defaults(&tls->config, server ? MBEDTLS_SSL_IS_SERVER : MBEDTLS_SSL_IS_CLIENT,
                                    MBEDTLS_SSL_TRANSPORT_STREAM, MBEDTLS_SSL_PRESET_DEFAULT))
        floor_die("no TLS defaults");
    mbedtls_ssl_conf_rng(&tls->config, mbedtls_ctr_drbg_random, &tls->random);
    mbedtls_ssl_conf_authmode(&tls->config, MBEDTLS_SSL_VERIFY_REQUIRED);
    mbedtls_ssl_conf_ca_chain(&tls->config, &tls->ca, NULL);
    if (mbedtls_ssl_conf_own_cert(&tls->config, &tls->certificate, &tls->key))
        floor_die("%s cannot be used", path);
    mbedtls_ssl_conf_ciphersuites(&tls->config, strcmp(cipher, "aes128") == 0 ? aes128 : chacha);
    mbedtls_ssl_conf_curves(&tls->config, curves);
    if (server) {
        mbedtls_ssl_ticket_init(&tls->tickets);
        if (mbedtls_ssl_ticket_setup(&tls->tickets, mbedtls_ctr_drbg_random, &tls->random, MBEDTLS_CIPHER_AES_256_GCM,
                                     3600))
            floor_die("no tickets");
        mbedtls_ssl_conf_session_tickets_cb(&tls->config, mbedtls_ssl_ticket_write, mbedtls_ssl_ticket_parse,
                                            &tls->tickets);
    }
}
