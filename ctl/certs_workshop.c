#include "ctl/certs_workshop.h"

#include <errno.h>
#include <fcntl.h>
#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/error.h>
#include <mbedtls/oid.h>
#include <mbedtls/pk.h>
#include <mbedtls/platform_util.h>
#include <mbedtls/version.h>
#include <mbedtls/x509_crt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BACKDATE_S 300 /* for clocks that are a little behind */
#define DAY_S      86400

zlink_status_t zlink_workshop_refuse(zlink_workshop_t *shop, const char *what, int error)
{
    char text[128];

    mbedtls_strerror(error, text, sizeof(text));
    zlink_refuse(shop->why, "%s: %s", what, text);
    return ZLINK_INTERNAL_FAILURE;
}

zlink_status_t zlink_workshop_open(zlink_workshop_t *shop, zlink_refusal_t *why)
{
    static const unsigned char purpose[] = "zlinkctl certs";
    int error;

    memset(shop, 0, sizeof(*shop));
    shop->why = why;
    mbedtls_entropy_init(&shop->entropy);
    mbedtls_ctr_drbg_init(&shop->random);
    mbedtls_pk_init(&shop->key);
    mbedtls_x509_crt_init(&shop->authority);
    mbedtls_pk_init(&shop->authority_key);
    mbedtls_x509write_crt_init(&shop->certificate);
    mbedtls_mpi_init(&shop->serial);
    error = mbedtls_ctr_drbg_seed(&shop->random, mbedtls_entropy_func, &shop->entropy, purpose, sizeof(purpose) - 1);
    return error == 0 ? ZLINK_OK : zlink_workshop_refuse(shop, "no random numbers", error);
}

void zlink_workshop_close(zlink_workshop_t *shop)
{
    mbedtls_mpi_free(&shop->serial);
    mbedtls_x509write_crt_free(&shop->certificate);
    mbedtls_pk_free(&shop->authority_key);
    mbedtls_x509_crt_free(&shop->authority);
    mbedtls_pk_free(&shop->key);
    mbedtls_ctr_drbg_free(&shop->random);
    mbedtls_entropy_free(&shop->entropy);
    mbedtls_platform_zeroize(shop, sizeof(*shop));
}

static bool time_text(time_t time, char text[TIME_TEXT_BYTES])
{
    struct tm parts;

    return gmtime_r(&time, &parts) != NULL && strftime(text, TIME_TEXT_BYTES, "%Y%m%d%H%M%S", &parts) == 14;
}

zlink_status_t zlink_workshop_set_validity(zlink_workshop_t *shop, unsigned days)
{
    time_t now = time(NULL);

    if (time_text(now - BACKDATE_S, shop->not_before) && time_text(now + (time_t)days * DAY_S, shop->not_after))
        return ZLINK_OK;
    zlink_refuse(shop->why, "the system's clock is not set");
    return ZLINK_INTERNAL_FAILURE;
}

/* A leaf that outlives its authority would be refused from then on anyway; say the true end. */
static zlink_status_t limit_validity(zlink_workshop_t *shop, const char *authority_file)
{
    const mbedtls_x509_time *end = &shop->authority.valid_to;
    char authority_end[TIME_TEXT_BYTES * 4];
    char now[TIME_TEXT_BYTES];

    snprintf(authority_end, sizeof(authority_end), "%04d%02d%02d%02d%02d%02d", end->year, end->mon, end->day, end->hour,
             end->min, end->sec);
    if (!time_text(time(NULL), now) || strcmp(authority_end, now) <= 0) {
        zlink_refuse(shop->why, "%s: has expired", authority_file);
        return ZLINK_NOT_CONFIGURED;
    }
    if (strcmp(shop->not_after, authority_end) > 0)
        memcpy(shop->not_after, authority_end, 15);
    return ZLINK_OK;
}

zlink_status_t zlink_workshop_check_name(const char *what, const char *name, zlink_refusal_t *why)
{
    zlink_refusal_t reason;

    if (zlink_config_value_name(name, &reason))
        return ZLINK_OK;
    zlink_refuse(why, "%s: %s", what, reason.line);
    return ZLINK_INVALID_OPERATION;
}

/* The authority's key, which nobody but its owner may be able to read. */
static zlink_status_t load_authority_key(zlink_workshop_t *shop, const char *file)
{
    unsigned char *text = shop->key_pem; /* free until the new key is written, and wiped at the end */
    struct stat about;
    ssize_t size = -1;
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int error;

    if (fd >= 0 && fstat(fd, &about) == 0)
        size = read(fd, text, sizeof(shop->key_pem) - 1);
    error = errno;
    if (fd >= 0)
        close(fd);
    if (size < 0) {
        zlink_refuse(shop->why, "%s: cannot be read: %s", file, strerror(error));
        return ZLINK_NOT_CONFIGURED;
    }
    if ((about.st_mode & 077) != 0) {
        zlink_refuse(shop->why, "%s: others may read it (mode %04o); make it 0600", file,
                     (unsigned)about.st_mode & 07777u);
        return ZLINK_NOT_CONFIGURED;
    }
    text[size] = '\0';
#if MBEDTLS_VERSION_NUMBER >= 0x03000000
    error = mbedtls_pk_parse_key(&shop->authority_key, text, (size_t)size + 1, NULL, 0, mbedtls_ctr_drbg_random,
                                 &shop->random);
    if (error == 0)
        error =
            mbedtls_pk_check_pair(&shop->authority.pk, &shop->authority_key, mbedtls_ctr_drbg_random, &shop->random);
#else
    error = mbedtls_pk_parse_key(&shop->authority_key, text, (size_t)size + 1, NULL, 0);
    if (error == 0)
        error = mbedtls_pk_check_pair(&shop->authority.pk, &shop->authority_key);
#endif
    if (error == 0)
        return ZLINK_OK;
    (void)zlink_workshop_refuse(shop, file, error);
    return ZLINK_NOT_CONFIGURED;
}

/* Copies the value of the subject's part `oid`; false where there is none or it does not fit. */
static bool subject_part(const mbedtls_x509_crt *certificate, const char *oid, size_t oid_bytes, char *text,
                         size_t size)
{
    for (const mbedtls_x509_name *part = &certificate->subject; part != NULL; part = part->next) {
        if (part->oid.len != oid_bytes || memcmp(part->oid.p, oid, oid_bytes) != 0)
            continue;
        if (part->val.len >= size)
            return false;
        memcpy(text, part->val.p, part->val.len);
        text[part->val.len] = '\0';
        return true;
    }
    return false;
}

zlink_status_t zlink_workshop_load_authority(zlink_workshop_t *shop, const char *folder)
{
    char file[PATH_MAX];
    char organisation[64];
    zlink_status_t status;
    int error;

    snprintf(file, sizeof(file), "%s/%s", folder, AUTHORITY_CERTIFICATE);
    if (access(file, R_OK) != 0) {
        zlink_refuse(shop->why, "%s: cannot be read: %s; 'certs init' makes it", file, strerror(errno));
        return ZLINK_NOT_CONFIGURED;
    }
    error = mbedtls_x509_crt_parse_file(&shop->authority, file);
    if (error != 0) {
        (void)zlink_workshop_refuse(shop, file, error < 0 ? error : MBEDTLS_ERR_X509_INVALID_FORMAT);
        return ZLINK_NOT_CONFIGURED;
    }
    if (mbedtls_x509_crt_check_key_usage(&shop->authority, MBEDTLS_X509_KU_KEY_CERT_SIGN) != 0 ||
        !subject_part(&shop->authority, MBEDTLS_OID_AT_ORGANIZATION, MBEDTLS_OID_SIZE(MBEDTLS_OID_AT_ORGANIZATION),
                      organisation, sizeof(organisation)) ||
        strcmp(organisation, AUTHORITY_ORGANISATION) != 0 ||
        !subject_part(&shop->authority, MBEDTLS_OID_AT_CN, MBEDTLS_OID_SIZE(MBEDTLS_OID_AT_CN), shop->mesh,
                      sizeof(shop->mesh)) ||
        !zlink_config_value_name(shop->mesh, NULL)) {
        zlink_refuse(shop->why, "%s: is not a mesh's authority as 'certs init' makes it", file);
        return ZLINK_NOT_CONFIGURED;
    }
    status = limit_validity(shop, file);
    if (status != ZLINK_OK)
        return status;
    snprintf(file, sizeof(file), "%s/%s", folder, AUTHORITY_KEY);
    return load_authority_key(shop, file);
}
