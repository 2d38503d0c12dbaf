/*
 * tests/unit/tls_fixture.h: certificates made on the spot, so that a test can have any that it wants: expired, with two
 * names, of a foreign authority. They live in a directory of the test's own, which is removed at its end.
 */
#ifndef ZLINK_TESTS_UNIT_TLS_FIXTURE_H
#define ZLINK_TESTS_UNIT_TLS_FIXTURE_H

#undef NDEBUG /* assertions are part of the tests, in every build */
#include <assert.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/oid.h>
#include <mbedtls/pk.h>
#include <mbedtls/rsa.h>
#include <mbedtls/x509_crt.h>

#include "net/tls_context.h"

#define TLS_NAMES_MAX 3

typedef struct tls_files {
    char ca[160]; /* the authority's certificate */
    char certificate[160];
    char key[160];
} tls_files_t;

typedef struct tls_wish {
    const char *name;                /* of the files */
    const char *authority;           /* name of the issuing authority; NULL = signs itself */
    const char *uris[TLS_NAMES_MAX]; /* URI names */
    const char *not_before;          /* "20200101000000" */
    const char *not_after;
    mbedtls_ecp_group_id curve; /* 0 = secp256r1 */
    bool is_authority;
    bool server_only; /* extended key usage serverAuth alone */
} tls_wish_t;

typedef struct tls_fixture {
    char directory[64];
    mbedtls_entropy_context entropy;
    mbedtls_ctr_drbg_context random;
    int serial;
} tls_fixture_t;

static inline void tls_fixture_path(const tls_fixture_t *fixture, const char *name, const char *suffix, char path[160])
{
    snprintf(path, 160, "%s/%s.%s", fixture->directory, name, suffix);
}

static inline void tls_fixture_write(const char *path, const void *bytes, size_t size, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert(fd >= 0);
    assert(write(fd, bytes, size) == (ssize_t)size);
    assert(fchmod(fd, mode) == 0);
    close(fd);
}

static inline void tls_fixture_init(tls_fixture_t *fixture)
{
    const char *folder = getenv("TMPDIR");

    memset(fixture, 0, sizeof(*fixture));
    if (folder == NULL || strlen(folder) >= 32)
        folder = "/tmp";
    snprintf(fixture->directory, sizeof(fixture->directory), "%s/zlink-tls-XXXXXX", folder);
    assert(mkdtemp(fixture->directory) != NULL);
    mbedtls_entropy_init(&fixture->entropy);
    mbedtls_ctr_drbg_init(&fixture->random);
    assert(mbedtls_ctr_drbg_seed(&fixture->random, mbedtls_entropy_func, &fixture->entropy, NULL, 0) == 0);
}

static inline void tls_fixture_release(tls_fixture_t *fixture)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf '%s'", fixture->directory);
    assert(system(command) == 0);
    mbedtls_ctr_drbg_free(&fixture->random);
    mbedtls_entropy_free(&fixture->entropy);
}

/* DER: tag, length (up to 65535), bytes. */
static inline size_t tls_der(uint8_t *out, uint8_t tag, const uint8_t *bytes, size_t size)
{
    size_t head = 0;

    out[head++] = tag;
    if (size > 127) {
        out[head++] = 0x82;
        out[head++] = (uint8_t)(size >> 8);
    }
    out[head++] = (uint8_t)size;
    memcpy(out + head, bytes, size);
    return head + size;
}

static inline void tls_set_names(mbedtls_x509write_cert *certificate, const tls_wish_t *wish)
{
    uint8_t names[1024];
    uint8_t sequence[1100];
    size_t size = 0;

    for (size_t i = 0; i < TLS_NAMES_MAX && wish->uris[i] != NULL; i++)
        size += tls_der(names + size, 0x86, (const uint8_t *)wish->uris[i], strlen(wish->uris[i]));
    if (size == 0)
        return;
    size = tls_der(sequence, 0x30, names, size);
    assert(mbedtls_x509write_crt_set_extension(certificate, MBEDTLS_OID_SUBJECT_ALT_NAME,
                                               MBEDTLS_OID_SIZE(MBEDTLS_OID_SUBJECT_ALT_NAME), 0, sequence, size) == 0);
}

static inline void tls_load_issuer(tls_fixture_t *fixture, const char *name, mbedtls_pk_context *key)
{
    char path[160];

    tls_fixture_path(fixture, name, "key", path);
    assert(mbedtls_pk_parse_keyfile(key, path, NULL) == 0);
}

/* Makes NAME.pem and NAME.key and says where they and the authority are. */
static inline tls_files_t tls_fixture_make(tls_fixture_t *fixture, const tls_wish_t *wish)
{
    static const uint8_t server_auth[] = {0x30, 0x0a, 0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01};
    const mbedtls_ecp_group_id curve = wish->curve == MBEDTLS_ECP_DP_NONE ? MBEDTLS_ECP_DP_SECP256R1 : wish->curve;
    tls_files_t files;
    mbedtls_x509write_cert certificate;
    mbedtls_pk_context key;
    mbedtls_pk_context issuer;
    mbedtls_mpi serial;
    unsigned char pem[4096];
    char subject[96];
    char issuer_name[96];

    mbedtls_x509write_crt_init(&certificate);
    mbedtls_pk_init(&key);
    mbedtls_pk_init(&issuer);
    mbedtls_mpi_init(&serial);
    assert(mbedtls_pk_setup(&key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY)) == 0);
    assert(mbedtls_ecp_gen_key(curve, mbedtls_pk_ec(key), mbedtls_ctr_drbg_random, &fixture->random) == 0);
    if (wish->authority != NULL)
        tls_load_issuer(fixture, wish->authority, &issuer);
    snprintf(subject, sizeof(subject), "CN=%s", wish->name);
    snprintf(issuer_name, sizeof(issuer_name), "CN=%s", wish->authority == NULL ? wish->name : wish->authority);
    assert(mbedtls_mpi_lset(&serial, ++fixture->serial) == 0);
    mbedtls_x509write_crt_set_version(&certificate, MBEDTLS_X509_CRT_VERSION_3);
    mbedtls_x509write_crt_set_md_alg(&certificate, MBEDTLS_MD_SHA256);
    mbedtls_x509write_crt_set_subject_key(&certificate, &key);
    mbedtls_x509write_crt_set_issuer_key(&certificate, wish->authority == NULL ? &key : &issuer);
    assert(mbedtls_x509write_crt_set_serial(&certificate, &serial) == 0);
    assert(mbedtls_x509write_crt_set_subject_name(&certificate, subject) == 0);
    assert(mbedtls_x509write_crt_set_issuer_name(&certificate, issuer_name) == 0);
    assert(mbedtls_x509write_crt_set_validity(&certificate,
                                              wish->not_before == NULL ? "20200101000000" : wish->not_before,
                                              wish->not_after == NULL ? "20991231235959" : wish->not_after) == 0);
    assert(mbedtls_x509write_crt_set_basic_constraints(&certificate, wish->is_authority ? 1 : 0, -1) == 0);
    if (wish->server_only)
        assert(mbedtls_x509write_crt_set_extension(&certificate, MBEDTLS_OID_EXTENDED_KEY_USAGE,
                                                   MBEDTLS_OID_SIZE(MBEDTLS_OID_EXTENDED_KEY_USAGE), 0, server_auth,
                                                   sizeof(server_auth)) == 0);
    tls_set_names(&certificate, wish);

    tls_fixture_path(fixture, wish->authority == NULL ? wish->name : wish->authority, "pem", files.ca);
    tls_fixture_path(fixture, wish->name, "pem", files.certificate);
    tls_fixture_path(fixture, wish->name, "key", files.key);
    assert(mbedtls_x509write_crt_pem(&certificate, pem, sizeof(pem), mbedtls_ctr_drbg_random, &fixture->random) == 0);
    tls_fixture_write(files.certificate, pem, strlen((char *)pem), 0644);
    assert(mbedtls_pk_write_key_pem(&key, pem, sizeof(pem)) == 0);
    tls_fixture_write(files.key, pem, strlen((char *)pem), 0600);
    mbedtls_x509write_crt_free(&certificate);
    mbedtls_pk_free(&key);
    mbedtls_pk_free(&issuer);
    mbedtls_mpi_free(&serial);
    return files;
}

static inline void tls_fixture_authority(tls_fixture_t *fixture, const char *name)
{
    const tls_wish_t wish = {.name = name, .is_authority = true};

    (void)tls_fixture_make(fixture, &wish);
}

/* An ordinary node certificate: file NAME, URI zlink://MESH/NAME. */
static inline tls_files_t tls_fixture_node(tls_fixture_t *fixture, const char *authority, const char *mesh,
                                           const char *name)
{
    char uri[160];
    const tls_wish_t wish = {.name = name, .authority = authority, .uris = {uri}};

    snprintf(uri, sizeof(uri), "zlink://%s/%s", mesh, name);
    return tls_fixture_make(fixture, &wish);
}

static inline zlink_tls_context_t *tls_fixture_context(const tls_files_t *files)
{
    const zlink_tls_options_t options = {
        .ca_file = files->ca, .certificate_file = files->certificate, .key_file = files->key};
    zlink_tls_context_t *context = NULL;
    zlink_refusal_t why = {{0}};

    if (zlink_tls_context_create(&options, &context, &why) != ZLINK_OK)
        fprintf(stderr, "%s\n", why.line);
    assert(context != NULL);
    return context;
}

/* ca.pem becomes the files of `first` and `second` behind each other. */
static inline void tls_fixture_bundle(tls_fixture_t *fixture, const char *first, const char *second, char path[160])
{
    char command[600];
    char one[160];
    char two[160];

    tls_fixture_path(fixture, first, "pem", one);
    tls_fixture_path(fixture, second, "pem", two);
    snprintf(path, 160, "%s/bundle.pem", fixture->directory);
    snprintf(command, sizeof(command), "cat '%s' '%s' > '%s'", one, two, path);
    assert(system(command) == 0);
}

#endif
