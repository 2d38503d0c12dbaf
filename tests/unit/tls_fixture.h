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

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <pthread.h>

#include "net/tls_context.h"
#include "net/tls_context_internal.h"

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
    const char *curve; /* NULL = P-256 */
    bool is_authority;
    bool server_only; /* extended key usage serverAuth alone */
} tls_wish_t;

typedef struct tls_fixture {
    char directory[64];
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
}

static inline void tls_fixture_release(tls_fixture_t *fixture)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf '%s'", fixture->directory);
    assert(system(command) == 0);
}

static inline void tls_add_extension(X509 *certificate, int which, const char *text)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, which, text);

    assert(extension != NULL && X509_add_ext(certificate, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

/* As bytes: what OpenSSL's own text form would take for something else is a name, too. */
static inline void tls_set_names(X509 *certificate, const tls_wish_t *wish)
{
    GENERAL_NAMES *names = GENERAL_NAMES_new();

    for (size_t i = 0; i < TLS_NAMES_MAX && wish->uris[i] != NULL; i++) {
        GENERAL_NAME *name = GENERAL_NAME_new();
        ASN1_IA5STRING *uri = ASN1_IA5STRING_new();

        assert(ASN1_STRING_set(uri, wish->uris[i], (int)strlen(wish->uris[i])) == 1);
        GENERAL_NAME_set0_value(name, GEN_URI, uri);
        sk_GENERAL_NAME_push(names, name);
    }
    if (sk_GENERAL_NAME_num(names) > 0)
        assert(X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) == 1);
    GENERAL_NAMES_free(names);
}

static inline EVP_PKEY *tls_load_key(const char *path)
{
    FILE *file = fopen(path, "re");
    EVP_PKEY *key = file == NULL ? NULL : PEM_read_PrivateKey(file, NULL, NULL, NULL);

    assert(key != NULL);
    fclose(file);
    return key;
}

static inline void tls_set_name(X509_NAME *name, const char *common)
{
    assert(X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_UTF8, (const unsigned char *)common, -1, -1, 0) ==
           1);
}

static inline void tls_set_time(ASN1_TIME *when, const char *text)
{
    char with_zone[24];

    snprintf(with_zone, sizeof(with_zone), "%sZ", text);
    assert(ASN1_TIME_set_string_X509(when, with_zone) == 1);
}

static inline void tls_write_pair(const tls_files_t *files, X509 *certificate, EVP_PKEY *key)
{
    FILE *file = fopen(files->certificate, "we");

    assert(file != NULL && PEM_write_X509(file, certificate) == 1 && fclose(file) == 0);
    tls_fixture_write(files->key, "", 0, 0600);
    file = fopen(files->key, "we");
    assert(file != NULL && PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) == 1 && fclose(file) == 0);
}

/* Makes NAME.pem and NAME.key and says where they and the authority are. */
static inline tls_files_t tls_fixture_make(tls_fixture_t *fixture, const tls_wish_t *wish)
{
    const char *authority = wish->authority == NULL ? wish->name : wish->authority;
    X509 *certificate = X509_new();
    EVP_PKEY *key = EVP_EC_gen(wish->curve == NULL ? "P-256" : wish->curve);
    EVP_PKEY *issuer = key;
    tls_files_t files;
    char path[160];

    assert(certificate != NULL && key != NULL);
    tls_fixture_path(fixture, authority, "pem", files.ca);
    tls_fixture_path(fixture, wish->name, "pem", files.certificate);
    tls_fixture_path(fixture, wish->name, "key", files.key);
    if (wish->authority != NULL) {
        tls_fixture_path(fixture, wish->authority, "key", path);
        issuer = tls_load_key(path);
    }
    assert(X509_set_version(certificate, X509_VERSION_3) == 1 && X509_set_pubkey(certificate, key) == 1);
    assert(ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++fixture->serial) == 1);
    tls_set_name(X509_get_subject_name(certificate), wish->name);
    tls_set_name(X509_get_issuer_name(certificate), authority);
    tls_set_time(X509_getm_notBefore(certificate), wish->not_before == NULL ? "20200101000000" : wish->not_before);
    tls_set_time(X509_getm_notAfter(certificate), wish->not_after == NULL ? "20991231235959" : wish->not_after);
    tls_add_extension(certificate, NID_basic_constraints, wish->is_authority ? "CA:TRUE" : "CA:FALSE");
    if (wish->server_only)
        tls_add_extension(certificate, NID_ext_key_usage, "serverAuth");
    tls_set_names(certificate, wish);
    assert(X509_sign(certificate, issuer, EVP_sha256()) > 0);
    tls_write_pair(&files, certificate, key);
    if (issuer != key)
        EVP_PKEY_free(issuer);
    EVP_PKEY_free(key);
    X509_free(certificate);
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

/* While the test has the lock, whoever drives a session of the context that was made since stands still at its next
 * message. */
static inline void tls_fixture_stand(int writing, int version, int type, const void *bytes, size_t size, SSL *ssl,
                                     void *lock)
{
    (void)writing, (void)version, (void)type, (void)bytes, (void)size, (void)ssl;
    pthread_mutex_lock(lock);
    pthread_mutex_unlock(lock);
}

static inline void tls_fixture_stop_at(zlink_tls_context_t *context, pthread_mutex_t *lock)
{
    SSL_CTX *sides[] = {context->server, context->client};

    for (size_t i = 0; i < 2; i++) {
        SSL_CTX_set_msg_callback(sides[i], tls_fixture_stand);
        SSL_CTX_set_msg_callback_arg(sides[i], lock);
    }
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
