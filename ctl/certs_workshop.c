#include "ctl/certs_workshop.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"

#define BACKDATE_S 300 /* for clocks that are a little behind */
#define DAY_S      86400

zlink_status_t zlink_workshop_refuse(zlink_workshop_t *shop, const char *what)
{
    const unsigned long error = ERR_peek_last_error();
    const char *words = error == 0 ? NULL : ERR_reason_error_string(error);

    zlink_refuse(shop->why, "%s: %s", what, words != NULL ? words : "no memory");
    ERR_clear_error();
    return ZLINK_INTERNAL_FAILURE;
}

zlink_status_t zlink_workshop_open(zlink_workshop_t *shop, zlink_refusal_t *why)
{
    memset(shop, 0, sizeof(*shop));
    shop->why = why;
    OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
    shop->certificate = X509_new();
    return shop->certificate != NULL ? ZLINK_OK : zlink_workshop_refuse(shop, "no certificate can be made");
}

void zlink_workshop_close(zlink_workshop_t *shop)
{
    X509_free(shop->certificate);
    EVP_PKEY_free(shop->authority_key);
    X509_free(shop->authority);
    EVP_PKEY_free(shop->key);
    OPENSSL_cleanse(shop, sizeof(*shop));
}

char *zlink_workshop_text(BIO *bio)
{
    char *bytes = NULL;
    const long size = BIO_get_mem_data(bio, &bytes);
    char *text = size > 0 ? zlink_malloc((size_t)size + 1) : NULL;

    if (text != NULL) {
        memcpy(text, bytes, (size_t)size);
        text[size] = '\0';
    }
    return text;
}

void zlink_workshop_forget(char *text)
{
    if (text != NULL)
        OPENSSL_cleanse(text, strlen(text));
    zlink_free(text);
}

ASN1_TIME *zlink_workshop_time(const char text[TIME_TEXT_BYTES])
{
    ASN1_TIME *made = ASN1_TIME_new();
    char with_zone[TIME_TEXT_BYTES + 1];

    snprintf(with_zone, sizeof(with_zone), "%sZ", text);
    if (made != NULL && ASN1_TIME_set_string_X509(made, with_zone) == 1)
        return made;
    ASN1_TIME_free(made);
    return NULL;
}

X509 *zlink_workshop_load_certificate(zlink_workshop_t *shop, const char *file)
{
    BIO *text = BIO_new_file(file, "re");
    X509 *certificate = text == NULL ? NULL : PEM_read_bio_X509(text, NULL, NULL, NULL);

    if (certificate == NULL)
        (void)zlink_workshop_refuse(shop, file);
    BIO_free(text);
    return certificate;
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
    char authority_end[TIME_TEXT_BYTES];
    char now[TIME_TEXT_BYTES];
    struct tm end;

    if (ASN1_TIME_to_tm(X509_get0_notAfter(shop->authority), &end) != 1 || !time_text(timegm(&end), authority_end)) {
        zlink_refuse(shop->why, "%s: its end cannot be read", authority_file);
        return ZLINK_NOT_CONFIGURED;
    }
    if (!time_text(time(NULL), now) || strcmp(authority_end, now) <= 0) {
        zlink_refuse(shop->why, "%s: has expired", authority_file);
        return ZLINK_NOT_CONFIGURED;
    }
    if (strcmp(shop->not_after, authority_end) > 0)
        memcpy(shop->not_after, authority_end, sizeof(authority_end));
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

static int no_password(char *password, int size, int writing, void *context)
{
    (void)password;
    (void)size;
    (void)writing;
    (void)context;
    return -1;
}

static zlink_status_t parse_authority_key(zlink_workshop_t *shop, const char *file, const char *text, size_t size)
{
    BIO *bio = BIO_new_mem_buf(text, (int)size);

    shop->authority_key = bio == NULL ? NULL : PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL);
    BIO_free(bio);
    if (shop->authority_key != NULL && X509_check_private_key(shop->authority, shop->authority_key) == 1)
        return ZLINK_OK;
    (void)zlink_workshop_refuse(shop, file);
    return ZLINK_NOT_CONFIGURED;
}

/* The authority's key, which nobody but its owner may be able to read. */
static zlink_status_t load_authority_key(zlink_workshop_t *shop, const char *file)
{
    char text[KEY_FILE_BYTES];
    struct stat about;
    ssize_t size = -1;
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd >= 0 && fstat(fd, &about) == 0)
        size = read(fd, text, sizeof(text));
    const int error = errno;
    if (fd >= 0)
        close(fd);
    if (size < 0) {
        zlink_refuse(shop->why, "%s: cannot be read: %s", file, strerror(error));
        return ZLINK_NOT_CONFIGURED;
    }
    if ((about.st_mode & 077) != 0) {
        OPENSSL_cleanse(text, sizeof(text));
        zlink_refuse(shop->why, "%s: others may read it (mode %04o); make it 0600", file,
                     (unsigned)about.st_mode & 07777u);
        return ZLINK_NOT_CONFIGURED;
    }
    const zlink_status_t status = parse_authority_key(shop, file, text, (size_t)size);
    OPENSSL_cleanse(text, sizeof(text));
    return status;
}

zlink_status_t zlink_workshop_load_authority(zlink_workshop_t *shop, const char *folder)
{
    char file[PATH_MAX];
    char organisation[64] = "";
    zlink_status_t status;

    snprintf(file, sizeof(file), "%s/%s", folder, AUTHORITY_CERTIFICATE);
    if (access(file, R_OK) != 0) {
        zlink_refuse(shop->why, "%s: cannot be read: %s; 'certs init' makes it", file, strerror(errno));
        return ZLINK_NOT_CONFIGURED;
    }
    shop->authority = zlink_workshop_load_certificate(shop, file);
    if (shop->authority == NULL)
        return ZLINK_NOT_CONFIGURED;
    X509_NAME *subject = X509_get_subject_name(shop->authority);
    if ((X509_get_key_usage(shop->authority) & KU_KEY_CERT_SIGN) == 0 ||
        X509_NAME_get_text_by_NID(subject, NID_organizationName, organisation, sizeof(organisation)) < 0 ||
        strcmp(organisation, AUTHORITY_ORGANISATION) != 0 ||
        X509_NAME_get_text_by_NID(subject, NID_commonName, shop->mesh, sizeof(shop->mesh)) < 0 ||
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
