/*
 * floor_tls.h: the TLS set-up of the floor programs: as the node's (TLS 1.2, certificates on both sides, P-256), with
 * one cipher suite. Program-wide; read only once it is set up. A failure ends the program.
 */
#ifndef BENCH_FLOOR_TLS_H
#define BENCH_FLOOR_TLS_H

#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/pk.h>
#include <mbedtls/ssl.h>
#include <mbedtls/ssl_ticket.h>
#include <mbedtls/x509_crt.h>
#include <stdbool.h>

typedef struct floor_tls {
    mbedtls_entropy_context entropy;
    mbedtls_ctr_drbg_context random;
    mbedtls_x509_crt ca, certificate;
    mbedtls_pk_context key;
    mbedtls_ssl_config config;
    mbedtls_ssl_ticket_context tickets; /* a server's */
} floor_tls_t;

/* `certificates` is a folder with ca.pem and NAME.pem, NAME.key; `cipher` is "chacha" or "aes128". */
void floor_tls_init(floor_tls_t *tls, bool server, const char *certificates, const char *name, const char *cipher);

/* Prints the line and ends the program. */
void floor_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
