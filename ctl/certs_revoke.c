#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <mbedtls/x509_crl.h>

#include "base/memory.h"
#include "ctl/certs_workshop.h"
#include "ctl/crl_writer.h"
#include "ctl/new_files.h"

#define REVOCATION_LIST "crl.pem"

/* Reads a certificate that this authority has signed. */
static zlink_status_t load_revoked(zlink_workshop_t *shop, const char *file, mbedtls_x509_crt *certificate)
{
    const mbedtls_x509_crt *authority = &shop->authority;
    int error;

    if (access(file, R_OK) != 0) {
        zlink_refuse(shop->why, "%s: cannot be read: %s", file, strerror(errno));
        return ZLINK_NOT_CONFIGURED;
    }
    error = mbedtls_x509_crt_parse_file(certificate, file);
    if (error != 0) {
        (void)zlink_workshop_refuse(shop, file, error < 0 ? error : MBEDTLS_ERR_X509_INVALID_FORMAT);
        return ZLINK_NOT_CONFIGURED;
    }
    if (certificate->raw.len == authority->raw.len &&
        memcmp(certificate->raw.p, authority->raw.p, authority->raw.len) == 0) {
        zlink_refuse(shop->why, "%s: is the authority itself", file);
        return ZLINK_NOT_CONFIGURED;
    }
    if (certificate->issuer_raw.len == authority->subject_raw.len &&
        memcmp(certificate->issuer_raw.p, authority->subject_raw.p, authority->subject_raw.len) == 0)
        return ZLINK_OK;
    zlink_refuse(shop->why, "%s: is not a certificate of this folder's authority", file);
    return ZLINK_NOT_CONFIGURED;
}

/* The list so far; none is no error. */
static zlink_status_t load_list(zlink_workshop_t *shop, const char *file, const mbedtls_x509_crt *certificate,
                                mbedtls_x509_crl *list)
{
    const mbedtls_x509_crt *authority = &shop->authority;
    int error;

    if (access(file, F_OK) != 0 && errno == ENOENT)
        return ZLINK_OK;
    error = mbedtls_x509_crl_parse_file(list, file);
    if (error == 0 && (list->next != NULL || list->issuer_raw.len != authority->subject_raw.len ||
                       memcmp(list->issuer_raw.p, authority->subject_raw.p, list->issuer_raw.len) != 0))
        error = MBEDTLS_ERR_X509_INVALID_FORMAT;
    if (error != 0) {
        (void)zlink_workshop_refuse(shop, file, error);
        return ZLINK_NOT_CONFIGURED;
    }
    if (mbedtls_x509_crt_is_revoked(certificate, list) == 0)
        return ZLINK_OK;
    zlink_refuse(shop->why, "%s: the certificate is on it already", file);
    return ZLINK_ALREADY_EXISTS;
}

/* A reader sees the old list or the new one. */
static zlink_status_t replace_list(const char *folder, const char *file, const char *pem, zlink_refusal_t *why)
{
    static const char *const name = REVOCATION_LIST ".new";
    const zlink_new_file_t new_file = {name, pem, strlen(pem), 0644};
    char path[PATH_MAX + 8];
    zlink_status_t status = zlink_new_files_write(folder, &new_file, 1, why);

    if (status != ZLINK_OK)
        return status;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (rename(path, file) == 0)
        return ZLINK_OK;
    zlink_refuse(why, "%s: cannot be replaced: %s", file, strerror(errno));
    (void)unlink(path);
    return ZLINK_INTERNAL_FAILURE;
}

static zlink_status_t write_list(zlink_workshop_t *shop, const char *folder, const char *file,
                                 const mbedtls_x509_crt *certificate, const mbedtls_x509_crl *earlier)
{
    const zlink_crl_wish_t wish = {
        .authority = &shop->authority,
        .authority_key = &shop->authority_key,
        .earlier = earlier->raw.p == NULL ? NULL : earlier,
        .revoked = certificate,
        .now = time(NULL),
        .this_update = shop->not_before,
        .next_update = shop->not_after,
        .random = mbedtls_ctr_drbg_random,
        .random_context = &shop->random,
    };
    zlink_status_t status;
    char *pem = NULL;
    int error = zlink_crl_write(&wish, &pem);

    if (error != 0)
        return zlink_workshop_refuse(shop, "the list cannot be written", error);
    status = replace_list(folder, file, pem, shop->why);
    zlink_free(pem);
    return status;
}

zlink_status_t zlink_certs_revoke(const char *folder, const char *name, zlink_certs_made_t *made, zlink_refusal_t *why)
{
    mbedtls_x509_crt certificate;
    mbedtls_x509_crl list;
    zlink_workshop_t shop;
    zlink_status_t status = zlink_workshop_check_name("--name", name, why);

    if (status != ZLINK_OK)
        return status;
    memset(made, 0, sizeof(*made));
    snprintf(made->certificate_file, sizeof(made->certificate_file), "%s/%s.pem", folder, name);
    snprintf(made->key_file, sizeof(made->key_file), "%s/%s", folder, REVOCATION_LIST);
    mbedtls_x509_crt_init(&certificate);
    mbedtls_x509_crl_init(&list);
    status = zlink_workshop_open(&shop, why);
    if (status == ZLINK_OK)
        status = zlink_workshop_set_validity(&shop, ZLINK_CERTS_DAYS);
    if (status == ZLINK_OK)
        status = zlink_workshop_load_authority(&shop, folder);
    if (status == ZLINK_OK)
        status = load_revoked(&shop, made->certificate_file, &certificate);
    if (status == ZLINK_OK)
        status = load_list(&shop, made->key_file, &certificate, &list);
    if (status == ZLINK_OK)
        status = write_list(&shop, folder, made->key_file, &certificate, &list);
    zlink_workshop_close(&shop);
    mbedtls_x509_crl_free(&list);
    mbedtls_x509_crt_free(&certificate);
    return status;
}
