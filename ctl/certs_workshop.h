/*
 * ctl/certs_workshop.h: what is needed to make anything that a mesh's authority signs. For certs.c and certs_revoke.c.
 *
 * Made and thrown away by one call; one thread. Everything that is refused leaves one line in `why`.
 */
#ifndef ZLINK_CTL_CERTS_WORKSHOP_H
#define ZLINK_CTL_CERTS_WORKSHOP_H

#include <limits.h>

#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/pk.h>
#include <mbedtls/x509_crt.h>

#include "ctl/certs.h"
#include "server/config/config_value.h"

#define AUTHORITY_ORGANISATION "zlink mesh authority" /* the spaces keep it apart from every mesh and node name */
#define AUTHORITY_CERTIFICATE  "ca.pem"
#define AUTHORITY_KEY          "ca.key"
#define HOST_BYTES             253
#define KEY_FILE_BYTES         4096
#define NAMES_BYTES            (ZLINK_CERTS_HOSTS * (HOST_BYTES + 8) + 256)
#define PEM_BYTES              (NAMES_BYTES * 2 + 4096)
#define TIME_TEXT_BYTES        16 /* YYYYMMDDhhmmss, which sorts like the times it stands for */

/* Everything that one certificate needs; made and thrown away by one call. */
typedef struct zlink_workshop {
    mbedtls_entropy_context entropy;
    mbedtls_ctr_drbg_context random;
    mbedtls_pk_context key;
    mbedtls_x509_crt authority;
    mbedtls_pk_context authority_key;
    mbedtls_x509write_cert certificate;
    mbedtls_mpi serial;
    char mesh[ZLINK_CONFIG_NAME_BYTES + 1];
    char not_before[TIME_TEXT_BYTES];
    char not_after[TIME_TEXT_BYTES];
    unsigned char names[NAMES_BYTES];
    unsigned char certificate_pem[PEM_BYTES];
    unsigned char key_pem[KEY_FILE_BYTES];
    zlink_refusal_t *why;
} zlink_workshop_t;

zlink_status_t zlink_workshop_open(zlink_workshop_t *shop, zlink_refusal_t *why);
void zlink_workshop_close(zlink_workshop_t *shop);

/* ZLINK_INTERNAL_FAILURE, in the library's words. */
zlink_status_t zlink_workshop_refuse(zlink_workshop_t *shop, const char *what, int error);

/* From five minutes ago on. */
zlink_status_t zlink_workshop_set_validity(zlink_workshop_t *shop, unsigned days);

/* Certificate and key of the folder's authority; its end limits the validity. */
zlink_status_t zlink_workshop_load_authority(zlink_workshop_t *shop, const char *folder);

zlink_status_t zlink_workshop_check_name(const char *what, const char *name, zlink_refusal_t *why);

#endif
