#include "ctl/certs.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <mbedtls/asn1write.h>
#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/error.h>
#include <mbedtls/oid.h>
#include <mbedtls/pk.h>
#include <mbedtls/platform_util.h>
#include <mbedtls/version.h>
#include <mbedtls/x509_crt.h>

#include "ctl/certs_workshop.h"
#include "ctl/new_files.h"
#include "server/config/config_value.h"

#define SERIAL_BYTES 16

static int set_serial(zlink_workshop_t *shop)
{
    unsigned char bytes[SERIAL_BYTES];
    int error = mbedtls_ctr_drbg_random(&shop->random, bytes, sizeof(bytes));

    bytes[0] = bytes[0] == 0 ? 1 : bytes[0]; /* a leading zero would not be DER */
#if MBEDTLS_VERSION_NUMBER >= 0x03040000
    return error != 0 ? error : mbedtls_x509write_crt_set_serial_raw(&shop->certificate, bytes, sizeof(bytes));
#else
    if (error == 0)
        error = mbedtls_mpi_read_binary(&shop->serial, bytes, sizeof(bytes));
    return error != 0 ? error : mbedtls_x509write_crt_set_serial(&shop->certificate, &shop->serial);
#endif
}

static int make_key(zlink_workshop_t *shop)
{
    int error = mbedtls_pk_setup(&shop->key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY));

    if (error == 0)
        error = mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(shop->key), mbedtls_ctr_drbg_random,
                                    &shop->random);
    return error;
}

/* What authority and leaf have in common. The issuer's key must be set already. */
static int set_common(zlink_workshop_t *shop, const char *subject, bool authority, unsigned key_usage)
{
    char issuer[128];
    int error;

    snprintf(issuer, sizeof(issuer), "CN=%s,O=%s", shop->mesh, AUTHORITY_ORGANISATION);
    mbedtls_x509write_crt_set_version(&shop->certificate, MBEDTLS_X509_CRT_VERSION_3);
    mbedtls_x509write_crt_set_md_alg(&shop->certificate, MBEDTLS_MD_SHA256);
    mbedtls_x509write_crt_set_subject_key(&shop->certificate, &shop->key);
    error = set_serial(shop);
    if (error == 0)
        error = mbedtls_x509write_crt_set_issuer_name(&shop->certificate, issuer);
    if (error == 0)
        error = mbedtls_x509write_crt_set_subject_name(&shop->certificate, subject);
    if (error == 0)
        error = mbedtls_x509write_crt_set_validity(&shop->certificate, shop->not_before, shop->not_after);
    if (error == 0)
        error = mbedtls_x509write_crt_set_basic_constraints(&shop->certificate, authority, authority ? 0 : -1);
    if (error == 0)
        error = mbedtls_x509write_crt_set_key_usage(&shop->certificate, (unsigned char)key_usage);
    if (error == 0)
        error = mbedtls_x509write_crt_set_subject_key_identifier(&shop->certificate);
    if (error == 0)
        error = mbedtls_x509write_crt_set_authority_key_identifier(&shop->certificate);
    return error;
}

/* The ASN.1 writers fill a buffer from its end and answer a length or an error below 0. */
static bool prepend(int written, int *length)
{
    *length = written < 0 ? written : *length + written;
    return written >= 0;
}

/* Wraps what stands at `*at` as a SEQUENCE and sets it as an extension. */
static int set_sequence(zlink_workshop_t *shop, const char *oid, size_t oid_bytes, unsigned char *start,
                        unsigned char *at, int length)
{
    if (length >= 0 && prepend(mbedtls_asn1_write_len(&at, start, (size_t)length), &length))
        (void)prepend(mbedtls_asn1_write_tag(&at, start, MBEDTLS_ASN1_CONSTRUCTED | MBEDTLS_ASN1_SEQUENCE), &length);
    if (length < 0)
        return length;
    return mbedtls_x509write_crt_set_extension(&shop->certificate, oid, oid_bytes, 0, at, (size_t)length);
}

static int set_extended_key_usage(zlink_workshop_t *shop, zlink_certs_kind_t kind)
{
    unsigned char buffer[64];
    unsigned char *at = buffer + sizeof(buffer);
    int length = 0;

    if (prepend(mbedtls_asn1_write_oid(&at, buffer, MBEDTLS_OID_CLIENT_AUTH, MBEDTLS_OID_SIZE(MBEDTLS_OID_CLIENT_AUTH)),
                &length) &&
        kind == ZLINK_CERTS_NODE)
        (void)prepend(
            mbedtls_asn1_write_oid(&at, buffer, MBEDTLS_OID_SERVER_AUTH, MBEDTLS_OID_SIZE(MBEDTLS_OID_SERVER_AUTH)),
            &length);
    return set_sequence(shop, MBEDTLS_OID_EXTENDED_KEY_USAGE, MBEDTLS_OID_SIZE(MBEDTLS_OID_EXTENDED_KEY_USAGE), buffer,
                        at, length);
}

static void write_name(unsigned char **at, unsigned char *start, unsigned tag, const void *bytes, size_t size,
                       int *length)
{
    if (*length >= 0 && prepend(mbedtls_asn1_write_raw_buffer(at, start, bytes, size), length) &&
        prepend(mbedtls_asn1_write_len(at, start, size), length))
        (void)prepend(mbedtls_asn1_write_tag(at, start, (unsigned char)(MBEDTLS_ASN1_CONTEXT_SPECIFIC | tag)), length);
}

static void write_host(unsigned char **at, unsigned char *start, const char *host, int *length)
{
    unsigned char address[16];

    if (inet_pton(AF_INET, host, address) == 1)
        write_name(at, start, MBEDTLS_X509_SAN_IP_ADDRESS, address, 4, length);
    else if (inet_pton(AF_INET6, host, address) == 1)
        write_name(at, start, MBEDTLS_X509_SAN_IP_ADDRESS, address, 16, length);
    else
        write_name(at, start, MBEDTLS_X509_SAN_DNS_NAME, host, strlen(host), length);
}

static int set_names(zlink_workshop_t *shop, const zlink_certs_request_t *request, const char *identity)
{
    unsigned char *at = shop->names + sizeof(shop->names);
    int length = 0;

    for (size_t i = request->host_count; i-- > 0;)
        write_host(&at, shop->names, request->hosts[i], &length);
    write_name(&at, shop->names, MBEDTLS_X509_SAN_UNIFORM_RESOURCE_IDENTIFIER, identity, strlen(identity), &length);
    return set_sequence(shop, MBEDTLS_OID_SUBJECT_ALT_NAME, MBEDTLS_OID_SIZE(MBEDTLS_OID_SUBJECT_ALT_NAME), shop->names,
                        at, length);
}

/* Signs, and puts certificate and key into the folder. */
static zlink_status_t write_pair(zlink_workshop_t *shop, const char *folder, const char *const names[2])
{
    int error = mbedtls_x509write_crt_pem(&shop->certificate, shop->certificate_pem, sizeof(shop->certificate_pem),
                                          mbedtls_ctr_drbg_random, &shop->random);

    if (error == 0)
        error = mbedtls_pk_write_key_pem(&shop->key, shop->key_pem, sizeof(shop->key_pem));
    if (error != 0)
        return zlink_workshop_refuse(shop, "the certificate cannot be written", error);

    const zlink_new_file_t files[2] = {
        {names[0], shop->certificate_pem, strlen((const char *)shop->certificate_pem), 0644},
        {names[1], shop->key_pem, strlen((const char *)shop->key_pem), 0600},
    };

    return zlink_new_files_write(folder, files, 2, shop->why);
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
    char subject[128];
    zlink_status_t status = zlink_workshop_check_name("--mesh", mesh, why);
    int error;

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
    snprintf(subject, sizeof(subject), "CN=%s,O=%s", mesh, AUTHORITY_ORGANISATION);
    error = make_key(&shop);
    mbedtls_x509write_crt_set_issuer_key(&shop.certificate, &shop.key);
    if (error == 0)
        error = set_common(&shop, subject, true, MBEDTLS_X509_KU_KEY_CERT_SIGN | MBEDTLS_X509_KU_CRL_SIGN);
    status = error == 0 ? write_pair(&shop, folder, names)
                        : zlink_workshop_refuse(&shop, "the authority cannot be made", error);
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
    char subject[ZLINK_CONFIG_NAME_BYTES * 2 + 16];
    char identity[ZLINK_CONFIG_NAME_BYTES * 2 + 16];
    zlink_status_t status;
    int error;

    snprintf(subject, sizeof(subject), "CN=%s,O=%s", request->name, shop->mesh);
    snprintf(identity, sizeof(identity), "zlink://%s/%s", shop->mesh, request->name);
    mbedtls_x509write_crt_set_issuer_key(&shop->certificate, &shop->authority_key);
    error = make_key(shop);
    if (error == 0)
        error = set_common(shop, subject, false, MBEDTLS_X509_KU_DIGITAL_SIGNATURE);
    if (error == 0)
        error = set_extended_key_usage(shop, request->kind);
    if (error == 0)
        error = set_names(shop, request, identity);
    if (error != 0)
        return zlink_workshop_refuse(shop, "the certificate cannot be made", error);
    status = write_pair(shop, request->folder, names);
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
