#include "ctl/certs.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "ctl/certs_workshop.h"
#include "ctl/new_files.h"
#include "server/config/config_value.h"

#define SERIAL_BYTES 16

/* Random, not 0, and without a sign. */
static bool set_serial(zlink_workshop_t *shop)
{
    unsigned char bytes[SERIAL_BYTES];
    BIGNUM *number = NULL;

    if (RAND_bytes(bytes, sizeof(bytes)) == 1) {
        bytes[0] = (unsigned char)((bytes[0] & 0x7f) | 0x40);
        number = BN_bin2bn(bytes, sizeof(bytes), NULL);
    }
    const bool set = number != NULL && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(shop->certificate)) != NULL;
    BN_free(number);
    return set;
}

static bool add_part(X509_NAME *name, int part, const char *text)
{
    return X509_NAME_add_entry_by_NID(name, part, MBSTRING_UTF8, (const unsigned char *)text, -1, -1, 0) == 1;
}

/* `organisation` above `common`, which is how both kinds are told apart. */
static bool set_name(X509_NAME *name, const char *organisation, const char *common)
{
    return add_part(name, NID_organizationName, organisation) && add_part(name, NID_commonName, common);
}

static bool set_validity(zlink_workshop_t *shop)
{
    ASN1_TIME *begins = zlink_workshop_time(shop->not_before);
    ASN1_TIME *ends = zlink_workshop_time(shop->not_after);
    const bool set = begins != NULL && ends != NULL && X509_set1_notBefore(shop->certificate, begins) == 1 &&
                     X509_set1_notAfter(shop->certificate, ends) == 1;

    ASN1_TIME_free(begins);
    ASN1_TIME_free(ends);
    return set;
}

static bool add_extension(zlink_workshop_t *shop, X509 *issuer, int which, const char *text)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, shop->certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, which, text);
    const bool added = extension != NULL && X509_add_ext(shop->certificate, extension, -1) == 1;

    X509_EXTENSION_free(extension);
    return added;
}

/* A key, and what authority and leaf have in common. `issuer` NULL: it signs itself. */
static bool set_common(zlink_workshop_t *shop, X509 *issuer, const char *organisation, const char *common)
{
    X509 *made = shop->certificate;
    if (issuer == NULL)
        issuer = made;
    shop->key = EVP_EC_gen("P-256");
    return shop->key != NULL && X509_set_version(made, X509_VERSION_3) == 1 && X509_set_pubkey(made, shop->key) == 1 &&
           set_serial(shop) && set_name(X509_get_subject_name(made), organisation, common) &&
           X509_set_issuer_name(made, X509_get_subject_name(issuer)) == 1 && set_validity(shop) &&
           add_extension(shop, issuer, NID_basic_constraints,
                         issuer == made ? "critical,CA:TRUE,pathlen:0" : "CA:FALSE") &&
           add_extension(shop, issuer, NID_key_usage,
                         issuer == made ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature") &&
           add_extension(shop, issuer, NID_subject_key_identifier, "hash") &&
           add_extension(shop, issuer, NID_authority_key_identifier, "keyid:always");
}

static bool add_name(GENERAL_NAMES *names, int type, const void *bytes, size_t size)
{
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_STRING *value = ASN1_STRING_type_new(type == GEN_IPADD ? V_ASN1_OCTET_STRING : V_ASN1_IA5STRING);

    if (name == NULL || value == NULL || ASN1_STRING_set(value, bytes, (int)size) != 1) {
        GENERAL_NAME_free(name);
        ASN1_STRING_free(value);
        return false;
    }
    GENERAL_NAME_set0_value(name, type, value);
    if (sk_GENERAL_NAME_push(names, name) > 0)
        return true;
    GENERAL_NAME_free(name);
    return false;
}

static bool add_host(GENERAL_NAMES *names, const char *host)
{
    unsigned char address[16];

    if (inet_pton(AF_INET, host, address) == 1)
        return add_name(names, GEN_IPADD, address, 4);
    if (inet_pton(AF_INET6, host, address) == 1)
        return add_name(names, GEN_IPADD, address, 16);
    return add_name(names, GEN_DNS, host, strlen(host));
}

static bool set_names(zlink_workshop_t *shop, const zlink_certs_request_t *request, const char *identity)
{
    GENERAL_NAMES *names = GENERAL_NAMES_new();
    bool good = names != NULL && add_name(names, GEN_URI, identity, strlen(identity));

    for (size_t i = 0; good && i < request->host_count; i++)
        good = add_host(names, request->hosts[i]);
    good = good && X509_add1_ext_i2d(shop->certificate, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) == 1;
    GENERAL_NAMES_free(names);
    return good;
}

/* Signs, and puts certificate and key into the folder. */
static zlink_status_t write_pair(zlink_workshop_t *shop, EVP_PKEY *issuer_key, const char *folder,
                                 const char *const names[2])
{
    zlink_status_t status;
    BIO *certificate = BIO_new(BIO_s_mem());
    BIO *key = BIO_new(BIO_s_secmem());
    char *certificate_pem = NULL;
    char *key_pem = NULL;

    if (certificate != NULL && key != NULL && X509_sign(shop->certificate, issuer_key, EVP_sha256()) > 0 &&
        PEM_write_bio_X509(certificate, shop->certificate) == 1 &&
        PEM_write_bio_PrivateKey(key, shop->key, NULL, NULL, 0, NULL, NULL) == 1) {
        certificate_pem = zlink_workshop_text(certificate);
        key_pem = zlink_workshop_text(key);
    }
    if (certificate_pem != NULL && key_pem != NULL) {
        const zlink_new_file_t files[2] = {
            {names[0], certificate_pem, strlen(certificate_pem), 0644},
            {names[1], key_pem, strlen(key_pem), 0600},
        };
        status = zlink_new_files_write(folder, files, 2, shop->why);
    } else {
        status = zlink_workshop_refuse(shop, "the certificate cannot be written");
    }
    zlink_workshop_forget(key_pem);
    zlink_workshop_forget(certificate_pem);
    BIO_free(key);
    BIO_free(certificate);
    return status;
}

static void tell(const zlink_workshop_t *shop, const char *folder, const char *const names[2], const char *identity,
                 zlink_certs_made_t *made)
{
    const char *end = shop->not_after;

    snprintf(made->certificate_file, sizeof(made->certificate_file), "%s/%s", folder, names[0]);
    snprintf(made->key_file, sizeof(made->key_file), "%s/%s", folder, names[1]);
    snprintf(made->identity, sizeof(made->identity), "%s", identity);
    snprintf(made->expires_at, sizeof(made->expires_at), "%.4s-%.2s-%.2sT%.2s:%.2s:%.2sZ", end, end + 4, end + 6,
             end + 8, end + 10, end + 12);
}

static zlink_status_t check_days(unsigned days, zlink_refusal_t *why)
{
    if (days <= ZLINK_CERTS_DAYS)
        return ZLINK_OK;
    zlink_refuse(why, "--days: '%u' is not between 1 and %d", days, ZLINK_CERTS_DAYS);
    return ZLINK_INVALID_OPERATION;
}

zlink_status_t zlink_certs_make_authority(const char *folder, const char *mesh, unsigned days, zlink_certs_made_t *made,
                                          zlink_refusal_t *why)
{
    static const char *const names[2] = {AUTHORITY_CERTIFICATE, AUTHORITY_KEY};
    zlink_workshop_t shop;
    zlink_status_t status = zlink_workshop_check_name("--mesh", mesh, why);

    if (status == ZLINK_OK)
        status = check_days(days, why);
    if (status == ZLINK_OK)
        status = zlink_new_files_make_folder(folder, why);
    if (status == ZLINK_OK)
        status = zlink_new_files_check(folder, names, 2, why);
    if (status != ZLINK_OK)
        return status;

    status = zlink_workshop_open(&shop, why);
    if (status == ZLINK_OK)
        status = zlink_workshop_set_validity(&shop, days == 0 ? ZLINK_CERTS_AUTHORITY_DAYS : days);
    if (status != ZLINK_OK)
        goto close;
    snprintf(shop.mesh, sizeof(shop.mesh), "%s", mesh);
    status = set_common(&shop, NULL, AUTHORITY_ORGANISATION, mesh)
                 ? write_pair(&shop, shop.key, folder, names)
                 : zlink_workshop_refuse(&shop, "the authority cannot be made");
    if (status == ZLINK_OK)
        tell(&shop, folder, names, mesh, made);
close:
    zlink_workshop_close(&shop);
    return status;
}

static zlink_status_t check_hosts(const zlink_certs_request_t *request, zlink_refusal_t *why)
{
    if (request->host_count > ZLINK_CERTS_HOSTS) {
        zlink_refuse(why, "--host: more than %d of them", ZLINK_CERTS_HOSTS);
        return ZLINK_INVALID_OPERATION;
    }
    for (size_t i = 0; i < request->host_count; i++) {
        const char *host = request->hosts[i];
        zlink_config_address_t address;
        char text[HOST_BYTES + 16];
        bool colon = strchr(host, ':') != NULL;

        snprintf(text, sizeof(text), colon ? "[%s]:1" : "%s:1", host);
        if (strlen(host) > HOST_BYTES || !zlink_config_value_address(text, &address, NULL) || address.wildcard) {
            zlink_refuse(why, "--host: '%.64s' is not a DNS name or an IP address", host);
            return ZLINK_INVALID_OPERATION;
        }
    }
    return ZLINK_OK;
}

static zlink_status_t sign_leaf(zlink_workshop_t *shop, const zlink_certs_request_t *request,
                                const char *const names[2], zlink_certs_made_t *made)
{
    char identity[ZLINK_CONFIG_NAME_BYTES * 2 + 16];
    zlink_status_t status;

    snprintf(identity, sizeof(identity), "zlink://%s/%s", shop->mesh, request->name);
    if (!set_common(shop, shop->authority, shop->mesh, request->name) ||
        !add_extension(shop, shop->authority, NID_ext_key_usage,
                       request->kind == ZLINK_CERTS_NODE ? "serverAuth,clientAuth" : "clientAuth") ||
        !set_names(shop, request, identity))
        return zlink_workshop_refuse(shop, "the certificate cannot be made");
    status = write_pair(shop, shop->authority_key, request->folder, names);
    if (status == ZLINK_OK)
        tell(shop, request->folder, names, identity, made);
    return status;
}

zlink_status_t zlink_certs_make_leaf(const zlink_certs_request_t *request, zlink_certs_made_t *made,
                                     zlink_refusal_t *why)
{
    char certificate_name[ZLINK_CONFIG_NAME_BYTES + 8];
    char key_name[ZLINK_CONFIG_NAME_BYTES + 8];
    const char *const names[2] = {certificate_name, key_name};
    zlink_workshop_t shop;
    zlink_status_t status = zlink_workshop_check_name("--name", request->name, why);

    if (status == ZLINK_OK)
        status = check_days(request->days, why);
    if (status == ZLINK_OK)
        status = check_hosts(request, why);
    if (status != ZLINK_OK)
        return status;
    snprintf(certificate_name, sizeof(certificate_name), "%s.pem", request->name);
    snprintf(key_name, sizeof(key_name), "%s.key", request->name);
    status = zlink_new_files_check(request->folder, names, 2, why);
    if (status != ZLINK_OK)
        return status;

    status = zlink_workshop_open(&shop, why);
    if (status == ZLINK_OK)
        status = zlink_workshop_set_validity(&shop, request->days == 0 ? ZLINK_CERTS_LEAF_DAYS : request->days);
    if (status == ZLINK_OK)
        status = zlink_workshop_load_authority(&shop, request->folder);
    if (status == ZLINK_OK)
        status = sign_leaf(&shop, request, names, made);
    zlink_workshop_close(&shop);
    return status;
}
