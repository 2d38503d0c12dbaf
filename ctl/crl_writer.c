#include "ctl/crl_writer.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <mbedtls/asn1write.h>
#include <mbedtls/oid.h>
#include <mbedtls/pem.h>
#include <mbedtls/sha256.h>

#include "base/memory.h"
#include "net/tls_mbedtls_compat.h"

#define FIXED_BYTES     2048u /* everything but the entries */
#define ENTRY_BYTES     64u   /* of one: a serial of up to 20 bytes and a time */
#define TIME_BYTES      14u
#define SEQUENCE        (MBEDTLS_ASN1_CONSTRUCTED | MBEDTLS_ASN1_SEQUENCE)
#define OID_CRL_NUMBER  "\x55\x1d\x14" /* 2.5.29.20 */
#define CRL_PEM_BEGIN   "-----BEGIN X509 CRL-----\n"
#define CRL_PEM_END     "-----END X509 CRL-----\n"
#define HASH_BYTES      32u
#define SIGNATURE_BYTES MBEDTLS_PK_SIGNATURE_MAX_SIZE

/* DER is written from its end: what comes last in the text comes first here. After an error nothing more is written. */
typedef struct der {
    unsigned char *start;
    unsigned char *at;
    int error;
} der_t;

static void took(der_t *der, int written)
{
    if (written < 0 && der->error == 0)
        der->error = written;
}

static void put_raw(der_t *der, const unsigned char *bytes, size_t size)
{
    if (der->error == 0)
        took(der, mbedtls_asn1_write_raw_buffer(&der->at, der->start, bytes, size));
}

/* Puts the head of what was written since `end`. */
static void put_head(der_t *der, const unsigned char *end, unsigned tag)
{
    if (der->error == 0)
        took(der, mbedtls_asn1_write_len(&der->at, der->start, (size_t)(end - der->at)));
    if (der->error == 0)
        took(der, mbedtls_asn1_write_tag(&der->at, der->start, (unsigned char)tag));
}

static void put_time(der_t *der, const char *time)
{
    const bool short_year = strncmp(time, "2050", 4) < 0; /* the rule of RFC 5280 */
    const unsigned char *end = der->at;

    put_raw(der, (const unsigned char *)"Z", 1);
    put_raw(der, (const unsigned char *)time + (short_year ? 2 : 0), TIME_BYTES - (short_year ? 2 : 0));
    put_head(der, end, short_year ? MBEDTLS_ASN1_UTC_TIME : MBEDTLS_ASN1_GENERALIZED_TIME);
}

static void put_algorithm(der_t *der)
{
    const unsigned char *end = der->at;

    if (der->error == 0)
        took(der, mbedtls_asn1_write_oid(&der->at, der->start, MBEDTLS_OID_ECDSA_SHA256,
                                         MBEDTLS_OID_SIZE(MBEDTLS_OID_ECDSA_SHA256)));
    put_head(der, end, SEQUENCE);
}

static void put_entries(der_t *der, const zlink_crl_wish_t *wish)
{
    const unsigned char *all = der->at;
    const unsigned char *end;

    put_time(der, wish->this_update);
    end = der->at;
    put_raw(der, wish->revoked->serial.p, wish->revoked->serial.len);
    put_head(der, end, MBEDTLS_ASN1_INTEGER);
    put_head(der, all, SEQUENCE);
    for (const mbedtls_x509_crl_entry *entry = wish->earlier == NULL ? NULL : &wish->earlier->entry;
         entry != NULL && entry->raw.p != NULL; entry = entry->next) {
        end = der->at;
        put_raw(der, entry->raw.p, entry->raw.len);
        put_head(der, end, SEQUENCE);
    }
    put_head(der, all, SEQUENCE);
}

/* [0] { { cRLNumber, { INTEGER } } } */
static void put_number(der_t *der, time_t number)
{
    unsigned char bytes[9] = {0};
    const unsigned char *end = der->at;

    for (size_t i = 0; i < 8; i++)
        bytes[8 - i] = (unsigned char)((uint64_t)number >> 8 * i);
    size_t skip = 0;
    while (skip < 8 && bytes[skip] == 0 && (bytes[skip + 1] & 0x80) == 0)
        skip++;
    put_raw(der, bytes + skip, sizeof(bytes) - skip);
    put_head(der, end, MBEDTLS_ASN1_INTEGER);
    put_head(der, end, MBEDTLS_ASN1_OCTET_STRING);
    if (der->error == 0)
        took(der, mbedtls_asn1_write_oid(&der->at, der->start, OID_CRL_NUMBER, sizeof(OID_CRL_NUMBER) - 1));
    put_head(der, end, SEQUENCE);
    put_head(der, end, SEQUENCE);
    put_head(der, end, MBEDTLS_ASN1_CONTEXT_SPECIFIC | MBEDTLS_ASN1_CONSTRUCTED);
}

/* What is signed. */
static void put_list(der_t *der, const zlink_crl_wish_t *wish)
{
    const unsigned char *end = der->at;

    put_number(der, wish->now);
    put_entries(der, wish);
    put_time(der, wish->next_update);
    put_time(der, wish->this_update);
    put_raw(der, wish->authority->subject_raw.p, wish->authority->subject_raw.len);
    put_algorithm(der);
    if (der->error == 0)
        took(der, mbedtls_asn1_write_int(&der->at, der->start, 1)); /* version 2 */
    put_head(der, end, SEQUENCE);
}

static int sign(const zlink_crl_wish_t *wish, const der_t *list, const unsigned char *end,
                unsigned char signature[SIGNATURE_BYTES], size_t *size)
{
    unsigned char hash[HASH_BYTES];
    int error;

#if MBEDTLS_VERSION_NUMBER >= 0x03000000
    error = mbedtls_sha256(list->at, (size_t)(end - list->at), hash, 0);
#else
    error = mbedtls_sha256_ret(list->at, (size_t)(end - list->at), hash, 0);
#endif
    if (error != 0)
        return error;
    return zlink_mbedtls_sign(wish->authority_key, hash, sizeof(hash), signature, SIGNATURE_BYTES, size, wish->random,
                              wish->random_context);
}

static int to_pem(const der_t *der, const unsigned char *end, char **pem)
{
    const size_t room = (size_t)(end - der->at) * 2 + 256;
    size_t size = 0;
    int error;

    *pem = zlink_malloc(room);
    if (*pem == NULL)
        return MBEDTLS_ERR_PEM_ALLOC_FAILED;
    error = mbedtls_pem_write_buffer(CRL_PEM_BEGIN, CRL_PEM_END, der->at, (size_t)(end - der->at),
                                     (unsigned char *)*pem, room, &size);
    if (error != 0) {
        zlink_free(*pem);
        *pem = NULL;
    }
    return error;
}

/* The list at the end of one buffer is signed, and copied in front of the signature at the end of another. */
int zlink_crl_write(const zlink_crl_wish_t *wish, char **pem)
{
    const size_t size = FIXED_BYTES + ENTRY_BYTES + wish->authority->subject_raw.len +
                        (wish->earlier == NULL ? 0 : wish->earlier->raw.len);
    unsigned char *memory = zlink_malloc(2 * size);
    unsigned char signature[SIGNATURE_BYTES];
    size_t signature_bytes = 0;

    *pem = NULL;
    if (memory == NULL)
        return MBEDTLS_ERR_PEM_ALLOC_FAILED;
    der_t list = {.start = memory, .at = memory + size};
    der_t whole = {.start = memory + size, .at = memory + 2 * size};

    put_list(&list, wish);
    if (list.error == 0)
        list.error = sign(wish, &list, memory + size, signature, &signature_bytes);
    if (list.error == 0) {
        put_raw(&whole, signature, signature_bytes);
        put_raw(&whole, (const unsigned char *)"", 1); /* of a BIT STRING: no unused bits */
        put_head(&whole, memory + 2 * size, MBEDTLS_ASN1_BIT_STRING);
        put_algorithm(&whole);
        put_raw(&whole, list.at, (size_t)(memory + size - list.at));
        put_head(&whole, memory + 2 * size, SEQUENCE);
    }
    int error = list.error != 0 ? list.error : whole.error;

    if (error == 0)
        error = to_pem(&whole, memory + 2 * size, pem);
    zlink_free(memory);
    return error;
}
