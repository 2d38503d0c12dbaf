/*
 * ctl/certs_workshop.h: what is needed to make anything that a mesh's authority signs. For certs.c and certs_revoke.c.
 *
 * Made and thrown away by one call; one thread. Everything that is refused leaves one line in `why`.
 */
#ifndef ZLINK_CTL_CERTS_WORKSHOP_H
#define ZLINK_CTL_CERTS_WORKSHOP_H

#include <limits.h>

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "ctl/certs.h"
#include "server/config/config_value.h"

#define AUTHORITY_ORGANISATION "zlink mesh authority" /* the spaces keep it apart from every mesh and node name */
#define AUTHORITY_CERTIFICATE  "ca.pem"
#define AUTHORITY_KEY          "ca.key"
#define HOST_BYTES             253
#define KEY_FILE_BYTES         4096
#define TIME_TEXT_BYTES        16 /* YYYYMMDDhhmmss, which sorts like the times it stands for */

/* Everything that one certificate needs; made and thrown away by one call. */
typedef struct zlink_workshop {
    EVP_PKEY *key;
    X509 *authority;
    EVP_PKEY *authority_key;
    X509 *certificate;
    char mesh[ZLINK_CONFIG_NAME_BYTES + 1];
    char not_before[TIME_TEXT_BYTES];
    char not_after[TIME_TEXT_BYTES];
    zlink_refusal_t *why;
} zlink_workshop_t;

zlink_status_t zlink_workshop_open(zlink_workshop_t *shop, zlink_refusal_t *why);
void zlink_workshop_close(zlink_workshop_t *shop);

/* ZLINK_INTERNAL_FAILURE, in the library's last words. */
zlink_status_t zlink_workshop_refuse(zlink_workshop_t *shop, const char *what);

/* The one certificate that is in the file; NULL with a refusal. */
X509 *zlink_workshop_load_certificate(zlink_workshop_t *shop, const char *file);

/* What stands in a memory BIO as text of its own, to be wiped and freed with zlink_workshop_forget; NULL without
 * memory. */
char *zlink_workshop_text(BIO *bio);
void zlink_workshop_forget(char *text);

/* From five minutes ago on. */
zlink_status_t zlink_workshop_set_validity(zlink_workshop_t *shop, unsigned days);
/* A time as these texts have it, by the rule of RFC 5280; NULL without memory. */
ASN1_TIME *zlink_workshop_time(const char text[TIME_TEXT_BYTES]);

/* Certificate and key of the folder's authority; its end limits the validity. */
zlink_status_t zlink_workshop_load_authority(zlink_workshop_t *shop, const char *folder);

zlink_status_t zlink_workshop_check_name(const char *what, const char *name, zlink_refusal_t *why);

#endif
