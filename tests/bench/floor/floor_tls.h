/*
 * floor_tls.h: the TLS set-up of the floor programs: as the node's (TLS 1.2, certificates on both sides, P-256), with
 * one cipher suite. Program-wide; read only once it is set up. A failure ends the program.
 */
#ifndef BENCH_FLOOR_TLS_H
#define BENCH_FLOOR_TLS_H

#include <openssl/ssl.h>
#include <stdbool.h>

typedef struct floor_tls {
    SSL_CTX *context;
} floor_tls_t;

/* `certificates` is a folder with ca.pem and NAME.pem, NAME.key; `cipher` is "chacha" or "aes128". */
void floor_tls_init(floor_tls_t *tls, bool server, const char *certificates, const char *name, const char *cipher);

/* A session whose bytes go through two functions: `send` takes all, `receive` answers how many there were. */
SSL *floor_tls_session(const floor_tls_t *tls, int (*send)(void *context, const unsigned char *bytes, size_t size),
                       size_t (*receive)(void *context, unsigned char *bytes, size_t size), void *context);

/* Prints the line and ends the program. */
void floor_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
