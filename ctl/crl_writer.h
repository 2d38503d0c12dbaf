/*
 * ctl/crl_writer.h: an authority's list of revoked certificates, written and signed.
 *
 * mbedtls reads such lists but writes none. Pure functions over memory; one thread.
 */
#ifndef ZLINK_CTL_CRL_WRITER_H
#define ZLINK_CTL_CRL_WRITER_H

#include <stddef.h>
#include <time.h>

#include <mbedtls/pk.h>
#include <mbedtls/x509_crl.h>
#include <mbedtls/x509_crt.h>

typedef struct zlink_crl_wish {
    const mbedtls_x509_crt *authority;
    mbedtls_pk_context *authority_key;
    const mbedtls_x509_crl *earlier;       /* its entries are taken over; NULL: none */
    const mbedtls_x509_crt *revoked;       /* the new entry */
    time_t now;                            /* also the number of the list, so lists must not be made within a second */
    const char *this_update, *next_update; /* YYYYMMDDhhmmss */
    int (*random)(void *, unsigned char *, size_t);
    void *random_context;
} zlink_crl_wish_t;

/* 0 and a NUL-terminated PEM text, which the caller frees with zlink_free; or an error of mbedtls. */
int zlink_crl_write(const zlink_crl_wish_t *wish, char **pem);

#endif
