#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "ctl/certs_workshop.h"
#include "ctl/new_files.h"

#define REVOCATION_LIST "crl.pem"

/* Reads a certificate that this authority has signed. */
static zlink_status_t load_revoked(zlink_workshop_t *shop, const char *file, X509 **certificate)
{
    if (access(file, R_OK) != 0) {
        zlink_refuse(shop->why, "%s: cannot be read: %s", file, strerror(errno));
        return ZLINK_NOT_CONFIGURED;
    }
    *certificate = zlink_workshop_load_certificate(shop, file);
    if (*certificate == NULL)
        return ZLINK_NOT_CONFIGURED;
    if (X509_cmp(*certificate, shop->authority) == 0) {
        zlink_refuse(shop->why, "%s: is the authority itself", file);
        return ZLINK_NOT_CONFIGURED;
    }
    if (X509_NAME_cmp(X509_get_issuer_name(*certificate), X509_get_subject_name(shop->authority)) == 0)
        return ZLINK_OK;
    zlink_refuse(shop->why, "%s: is not a certificate of this folder's authority", file);
    return ZLINK_NOT_CONFIGURED;
}

/* The list so far, or a new one. */
static zlink_status_t load_list(zlink_workshop_t *shop, const char *file, X509 *certificate, X509_CRL **list)
{
    X509_REVOKED *entry;
    BIO *text;

    if (access(file, F_OK) != 0 && errno == ENOENT) {
        *list = X509_CRL_new();
        return *list != NULL ? ZLINK_OK : zlink_workshop_refuse(shop, file);
    }
    text = BIO_new_file(file, "re");
    *list = text == NULL ? NULL : PEM_read_bio_X509_CRL(text, NULL, NULL, NULL);
    BIO_free(text);
    if (*list == NULL) {
        (void)zlink_workshop_refuse(shop, file);
        return ZLINK_NOT_CONFIGURED;
    }
    if (X509_NAME_cmp(X509_CRL_get_issuer(*list), X509_get_subject_name(shop->authority)) != 0) {
        zlink_refuse(shop->why, "%s: is not a list of this folder's authority", file);
        return ZLINK_NOT_CONFIGURED;
    }
    if (X509_CRL_get0_by_cert(*list, &entry, certificate) != 1)
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

static bool add_entry(X509_CRL *list, const X509 *certificate, ASN1_TIME *when)
{
    X509_REVOKED *entry = X509_REVOKED_new();

    if (entry != NULL &&
        X509_REVOKED_set_serialNumber(entry, (ASN1_INTEGER *)(uintptr_t)X509_get0_serialNumber(certificate)) == 1 &&
        X509_REVOKED_set_revocationDate(entry, when) == 1 && X509_CRL_add0_revoked(list, entry) == 1)
        return true;
    X509_REVOKED_free(entry);
    return false;
}

/* The number of a list is the time, so lists must not be made within a second. */
static bool set_number(X509_CRL *list)
{
    ASN1_INTEGER *number = ASN1_INTEGER_new();
    const bool set = number != NULL && ASN1_INTEGER_set_int64(number, (int64_t)time(NULL)) == 1 &&
                     X509_CRL_add1_ext_i2d(list, NID_crl_number, number, 0, X509V3_ADD_REPLACE) == 1;

    ASN1_INTEGER_free(number);
    return set;
}

static bool complete_list(zlink_workshop_t *shop, X509_CRL *list, const X509 *certificate)
{
    ASN1_TIME *now = zlink_workshop_time(shop->not_before);
    ASN1_TIME *next = zlink_workshop_time(shop->not_after);
    const bool good = now != NULL && next != NULL && X509_CRL_set_version(list, X509_CRL_VERSION_2) == 1 &&
                      X509_CRL_set_issuer_name(list, X509_get_subject_name(shop->authority)) == 1 &&
                      X509_CRL_set1_lastUpdate(list, now) == 1 && X509_CRL_set1_nextUpdate(list, next) == 1 &&
                      add_entry(list, certificate, now) && set_number(list) && X509_CRL_sort(list) == 1 &&
                      X509_CRL_sign(list, shop->authority_key, EVP_sha256()) > 0;

    ASN1_TIME_free(now);
    ASN1_TIME_free(next);
    return good;
}

static zlink_status_t write_list(zlink_workshop_t *shop, const char *folder, const char *file, const X509 *certificate,
                                 X509_CRL *list)
{
    zlink_status_t status;
    BIO *text = BIO_new(BIO_s_mem());
    char *pem = NULL;

    if (text != NULL && complete_list(shop, list, certificate) && PEM_write_bio_X509_CRL(text, list) == 1)
        pem = zlink_workshop_text(text);
    status = pem != NULL ? replace_list(folder, file, pem, shop->why)
                         : zlink_workshop_refuse(shop, "the list cannot be written");
    zlink_workshop_forget(pem);
    BIO_free(text);
    return status;
}

zlink_status_t zlink_certs_revoke(const char *folder, const char *name, zlink_certs_made_t *made, zlink_refusal_t *why)
{
    X509 *certificate = NULL;
    X509_CRL *list = NULL;
    zlink_workshop_t shop;
    zlink_status_t status = zlink_workshop_check_name("--name", name, why);

    if (status != ZLINK_OK)
        return status;
    memset(made, 0, sizeof(*made));
    snprintf(made->certificate_file, sizeof(made->certificate_file), "%s/%s.pem", folder, name);
    snprintf(made->key_file, sizeof(made->key_file), "%s/%s", folder, REVOCATION_LIST);
    status = zlink_workshop_open(&shop, why);
    if (status == ZLINK_OK)
        status = zlink_workshop_set_validity(&shop, ZLINK_CERTS_DAYS);
    if (status == ZLINK_OK)
        status = zlink_workshop_load_authority(&shop, folder);
    if (status == ZLINK_OK)
        status = load_revoked(&shop, made->certificate_file, &certificate);
    if (status == ZLINK_OK)
        status = load_list(&shop, made->key_file, certificate, &list);
    if (status == ZLINK_OK)
        status = write_list(&shop, folder, made->key_file, certificate, list);
    zlink_workshop_close(&shop);
    X509_CRL_free(list);
    X509_free(certificate);
    return status;
}
