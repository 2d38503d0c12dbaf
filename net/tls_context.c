#include "net/tls_context.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "net/tls_context_internal.h"
#include "net/tls_identity.h"
#include "net/tls_trust.h"

#define FILE_BYTES_MAX (1024u * 1024u)

/* AES first: it has instructions of its own, which seal full records 1.2 times faster than ChaCha20-Poly1305. */
#define CIPHER_SUITES "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES256-GCM-SHA384"
#define SIGNATURES    "ECDSA+SHA256:ECDSA+SHA384"
#define CURVES        "P-256"

/* Not what a file of the machine's says, and nothing at the process's end, when helpers may still be at work. */
static void start_library(void)
{
    OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL);
}

void zlink_tls_error_text(char *text, size_t size)
{
    const unsigned long error = ERR_peek_last_error();
    const char *words = error == 0 ? NULL : ERR_reason_error_string(error);

    snprintf(text, size, "%s", words != NULL ? words : "no memory");
    ERR_clear_error();
}

void zlink_tls_verify_text(int error, char *text, size_t size)
{
    switch (error) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_CRL_SIGNATURE_FAILURE:
        snprintf(text, size, "it is not signed by an authority that is trusted here");
        return;
    case X509_V_ERR_INVALID_PURPOSE:
        snprintf(text, size, "it is for another use (its key usage says so)");
        return;
    case X509_V_ERR_EE_KEY_TOO_SMALL:
        snprintf(text, size, "it, or an authority of its, is not ECDSA on P-256 with SHA-256 or SHA-384");
        return;
    default:
        snprintf(text, size, "%s", X509_verify_cert_error_string(error));
    }
}

/* ---- files ---- */

static const char *read_all(int fd, uint8_t *bytes, size_t size)
{
    size_t used = 0;

    while (used < size) {
        ssize_t got = read(fd, bytes + used, size - used);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return strerror(errno);
        if (got == 0)
            return "it changed while it was read";
        used += (size_t)got;
    }
    return NULL;
}

/* What is wrong with an open file before its bytes are looked at. */
static const char *file_problem(int fd, bool secret, size_t *size)
{
    struct stat status;

    if (fstat(fd, &status) != 0)
        return strerror(errno);
    if (!S_ISREG(status.st_mode))
        return "it is not a file";
    if (status.st_size == 0)
        return "it is empty";
    if ((uint64_t)status.st_size > FILE_BYTES_MAX)
        return "it is larger than 1 MiB";
    if (secret && (status.st_mode & 077) != 0)
        return "group or others may use it: set mode 0600 (chmod 600)";
    *size = (size_t)status.st_size;
    return NULL;
}

/* The file's bytes with a NUL behind them, as the PEM parser wants them. NULL with the refusal written. */
static uint8_t *read_file(const char *what, const char *path, bool secret, size_t *size, zlink_refusal_t *why)
{
    const char *problem;
    uint8_t *bytes = NULL;
    int fd;

    if (path == NULL || path[0] == '\0') {
        zlink_refuse(why, "TLS: no %s file is given", what);
        return NULL;
    }
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        zlink_refuse(why, "TLS: %s %s: %s", what, path, strerror(errno));
        return NULL;
    }
    problem = file_problem(fd, secret, size);
    if (problem == NULL) {
        bytes = zlink_malloc(*size + 1);
        problem = bytes == NULL ? "no memory" : read_all(fd, bytes, *size);
    }
    close(fd);
    if (problem != NULL) {
        zlink_refuse(why, "TLS: %s %s: %s", what, path, problem);
        if (bytes != NULL)
            OPENSSL_cleanse(bytes, *size);
        zlink_free(bytes);
        return NULL;
    }
    bytes[*size] = '\0';
    return bytes;
}

static void forget_file(uint8_t *bytes, size_t size)
{
    OPENSSL_cleanse(bytes, size);
    zlink_free(bytes);
}

static bool load_certificates(const char *what, const char *path, STACK_OF(X509) * chain, zlink_refusal_t *why)
{
    size_t size = 0;
    uint8_t *bytes = read_file(what, path, false, &size, why);
    BIO *text = bytes == NULL ? NULL : BIO_new_mem_buf(bytes, (int)size);
    X509 *certificate;
    char words[128];

    ERR_clear_error();
    while (text != NULL && (certificate = PEM_read_bio_X509(text, NULL, NULL, NULL)) != NULL) {
        if (sk_X509_push(chain, certificate) == 0) {
            X509_free(certificate);
            break;
        }
    }
    const bool all = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE && sk_X509_num(chain) > 0;
    BIO_free(text);
    if (bytes == NULL)
        return false;
    forget_file(bytes, size);
    zlink_tls_error_text(words, sizeof(words));
    if (!all)
        zlink_refuse(why, "TLS: %s %s: number %d in it is not a PEM certificate: %s", what, path,
                     sk_X509_num(chain) + 1, words);
    return all;
}

/* A key with a password is asked for none. */
static int no_password(char *password, int size, int writing, void *context)
{
    (void)password;
    (void)size;
    (void)writing;
    (void)context;
    return -1;
}

static bool load_key(zlink_tls_context_t *context, const char *path, zlink_refusal_t *why)
{
    size_t size = 0;
    uint8_t *bytes = read_file("key", path, true, &size, why);
    BIO *text = bytes == NULL ? NULL : BIO_new_mem_buf(bytes, (int)size);
    char words[128];

    if (bytes == NULL)
        return false;
    ERR_clear_error();
    context->key = text == NULL ? NULL : PEM_read_bio_PrivateKey(text, NULL, no_password, NULL);
    BIO_free(text);
    forget_file(bytes, size);
    zlink_tls_error_text(words, sizeof(words));
    if (context->key == NULL)
        zlink_refuse(why, "TLS: key %s: not a PEM private key without password: %s", path, words);
    return context->key != NULL;
}

static bool load_revoked(zlink_tls_context_t *context, const char *path, zlink_refusal_t *why)
{
    size_t size = 0;
    uint8_t *bytes;
    BIO *text;
    X509_CRL *list;
    char words[128];

    if (path == NULL)
        return true;
    bytes = read_file("revocation list", path, false, &size, why);
    if (bytes == NULL)
        return false;
    ERR_clear_error();
    text = BIO_new_mem_buf(bytes, (int)size);
    while (text != NULL && (list = PEM_read_bio_X509_CRL(text, NULL, NULL, NULL)) != NULL) {
        if (sk_X509_CRL_push(context->revoked, list) == 0) {
            X509_CRL_free(list);
            break;
        }
    }
    const bool all =
        ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE && sk_X509_CRL_num(context->revoked) > 0;
    BIO_free(text);
    forget_file(bytes, size);
    zlink_tls_error_text(words, sizeof(words));
    if (!all)
        zlink_refuse(why, "TLS: revocation list %s: not a PEM list (X509 CRL): %s", path, words);
    return all;
}

static bool copy_allowed(zlink_tls_context_t *context, const zlink_tls_options_t *options, zlink_refusal_t *why)
{
    context->allow = zlink_calloc(options->allow_count + 1, sizeof(*context->allow));
    for (size_t i = 0; context->allow != NULL && i < options->allow_count; i++) {
        context->allow[i] = zlink_strdup(options->allow[i]);
        if (context->allow[i] == NULL)
            break;
        context->allow_count = i + 1;
    }
    if (context->allow != NULL && context->allow_count == options->allow_count)
        return true;
    zlink_refuse(why, "TLS: no memory");
    return false;
}

/* ---- checks ---- */

static int64_t unix_time(const ASN1_TIME *when, struct tm *parts)
{
    return ASN1_TIME_to_tm(when, parts) == 1 ? (int64_t)timegm(parts) : 0;
}

/* A list of somebody else would be passed over in silence. */
static bool check_revoked(zlink_tls_context_t *context, const zlink_tls_options_t *options, zlink_refusal_t *why)
{
    for (int i = 0; i < sk_X509_CRL_num(context->revoked); i++) {
        const X509_NAME *issuer = X509_CRL_get_issuer(sk_X509_CRL_value(context->revoked, i));
        bool known = false;

        for (int k = 0; !known && k < sk_X509_num(context->authorities); k++)
            known = X509_NAME_cmp(X509_get_subject_name(sk_X509_value(context->authorities, k)), issuer) == 0;
        if (!known) {
            zlink_refuse(why, "TLS: revocation list %s: it is of none of the authorities in %s", options->crl_file,
                         options->ca_file);
            return false;
        }
    }
    return true;
}

/* The own certificate as a peer will look at it. X509_V_OK, or what is wrong. */
static int verify_own(const zlink_tls_context_t *context)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *verification = X509_STORE_CTX_new();
    int error = X509_V_ERR_OUT_OF_MEM;

    if (store != NULL && verification != NULL && zlink_tls_trust_store(context, store) &&
        X509_STORE_CTX_init(verification, store, context->certificate, context->chain) == 1) {
        X509_STORE_CTX_set_verify_cb(verification, zlink_tls_verifying);
        error = X509_verify_cert(verification) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(verification);
    }
    X509_STORE_CTX_free(verification);
    X509_STORE_free(store);
    return error;
}

static bool is_the_lists(int error)
{
    return error == X509_V_ERR_UNABLE_TO_DECRYPT_CRL_SIGNATURE || error == X509_V_ERR_CRL_SIGNATURE_FAILURE ||
           error == X509_V_ERR_CRL_NOT_YET_VALID || error == X509_V_ERR_CRL_HAS_EXPIRED ||
           error == X509_V_ERR_ERROR_IN_CRL_LAST_UPDATE_FIELD || error == X509_V_ERR_ERROR_IN_CRL_NEXT_UPDATE_FIELD;
}

static bool check_chain(const zlink_tls_context_t *context, const zlink_tls_options_t *options, zlink_refusal_t *why)
{
    const char *file = options->certificate_file;
    const int error = verify_own(context);
    char text[160];

    zlink_tls_verify_text(error, text, sizeof(text));
    ERR_clear_error();
    if (is_the_lists(error))
        zlink_refuse(why, "TLS: revocation list %s: %s", options->crl_file, text);
    else if (error == X509_V_ERR_CERT_REVOKED)
        zlink_refuse(why, "TLS: certificate %s: it is revoked in %s", file, options->crl_file);
    else if (error != X509_V_OK)
        zlink_refuse(why, "TLS: certificate %s: the authorities in %s do not vouch for it: %s", file, options->ca_file,
                     text);
    return error == X509_V_OK;
}

static bool check_certificate(zlink_tls_context_t *context, const zlink_tls_options_t *options, zlink_refusal_t *why)
{
    const char *file = options->certificate_file;
    const char *reason = NULL;
    X509 *own = context->certificate;
    struct tm begins = {0};
    struct tm ends = {0};

    context->expires_at = unix_time(X509_get0_notAfter(own), &ends);
    (void)unix_time(X509_get0_notBefore(own), &begins);
    if (X509_cmp_current_time(X509_get0_notAfter(own)) <= 0) {
        zlink_refuse(why, "TLS: certificate %s: it expired on %04d-%02d-%02d", file, ends.tm_year + 1900,
                     ends.tm_mon + 1, ends.tm_mday);
        return false;
    }
    if (X509_cmp_current_time(X509_get0_notBefore(own)) >= 0) {
        zlink_refuse(why, "TLS: certificate %s: it is not valid before %04d-%02d-%02d (is the clock right?)", file,
                     begins.tm_year + 1900, begins.tm_mon + 1, begins.tm_mday);
        return false;
    }
    if (!zlink_tls_is_p256(X509_get0_pubkey(own))) {
        zlink_refuse(why, "TLS: certificate %s: its key is not ECDSA on P-256 (secp256r1)", file);
        return false;
    }
    if (!zlink_tls_identity_of(own, &context->identity, &reason)) {
        zlink_refuse(why, "TLS: certificate %s: %s", file, reason);
        return false;
    }
    if (X509_check_private_key(own, context->key) != 1) {
        zlink_refuse(why, "TLS: key %s: it does not belong to certificate %s", options->key_file, file);
        return false;
    }
    return check_chain(context, options, why);
}

static bool check_authorities(zlink_tls_context_t *context, const char *file, zlink_refusal_t *why)
{
    for (int i = 0; i < sk_X509_num(context->authorities); i++) {
        X509 *authority = sk_X509_value(context->authorities, i);
        if (!zlink_tls_is_p256(X509_get0_pubkey(authority))) {
            zlink_refuse(why, "TLS: authority %s: a key in it is not ECDSA on P-256 (secp256r1)", file);
            return false;
        }
        if (X509_check_ca(authority) != 1) {
            zlink_refuse(why, "TLS: authority %s: a certificate in it is not an authority's (CA:TRUE is missing)",
                         file);
            return false;
        }
    }
    return true;
}

/* ---- configuration ---- */

static bool show_own(const zlink_tls_context_t *context, SSL_CTX *side)
{
    if (SSL_CTX_use_certificate(side, context->certificate) != 1 || SSL_CTX_use_PrivateKey(side, context->key) != 1)
        return false;
    for (int i = 1; i < sk_X509_num(context->chain); i++) {
        if (SSL_CTX_add1_chain_cert(side, sk_X509_value(context->chain, i)) != 1)
            return false;
    }
    return true;
}

static SSL_CTX *configure(zlink_tls_context_t *context, const SSL_METHOD *method, bool server)
{
    SSL_CTX *side = SSL_CTX_new(method);

    if (side == NULL)
        return NULL;
    SSL_CTX_set_options(side, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(side, SSL_MODE_RELEASE_BUFFERS); /* an idle connection keeps none */
    SSL_CTX_set_session_cache_mode(side, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_verify(side, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    bool good = SSL_CTX_set_min_proto_version(side, TLS1_2_VERSION) == 1 &&
                SSL_CTX_set_max_proto_version(side, TLS1_2_VERSION) == 1 &&
                SSL_CTX_set_cipher_list(side, CIPHER_SUITES) == 1 && SSL_CTX_set1_sigalgs_list(side, SIGNATURES) == 1 &&
                SSL_CTX_set1_groups_list(side, CURVES) == 1 &&
                SSL_CTX_set_session_id_context(side, (const unsigned char *)"zlink", 5) == 1 &&
                zlink_tls_trust_store(context, SSL_CTX_get_cert_store(side)) && show_own(context, side);
    for (int i = 0; good && server && i < sk_X509_num(context->authorities); i++)
        good = SSL_CTX_add_client_CA(side, sk_X509_value(context->authorities, i)) == 1;
    if (good)
        return side;
    SSL_CTX_free(side);
    return NULL;
}

zlink_status_t zlink_tls_context_create(const zlink_tls_options_t *options, zlink_tls_context_t **context_out,
                                        zlink_refusal_t *why)
{
    static pthread_once_t started = PTHREAD_ONCE_INIT;
    zlink_tls_context_t *context = zlink_calloc(1, sizeof(*context));
    zlink_status_t status = ZLINK_INTERNAL_FAILURE;
    char text[128];

    if (context == NULL) {
        zlink_refuse(why, "TLS: no memory");
        return ZLINK_CAPACITY_EXCEEDED;
    }
    pthread_once(&started, start_library);
    atomic_init(&context->holders, 1);
    context->authorities = sk_X509_new_null();
    context->revoked = sk_X509_CRL_new_null();
    context->chain = sk_X509_new_null();
    if (context->authorities == NULL || context->revoked == NULL || context->chain == NULL)
        goto failed;
    status = ZLINK_INVALID_OPERATION;
    if (!load_certificates("authority", options->ca_file, context->authorities, why) ||
        !load_certificates("certificate", options->certificate_file, context->chain, why))
        goto refused;
    context->certificate = sk_X509_value(context->chain, 0);
    if (!load_key(context, options->key_file, why) || !load_revoked(context, options->crl_file, why) ||
        !copy_allowed(context, options, why) || !check_authorities(context, options->ca_file, why) ||
        !check_revoked(context, options, why) || !check_certificate(context, options, why))
        goto refused;
    status = ZLINK_INTERNAL_FAILURE;
    context->server = configure(context, TLS_server_method(), true);
    context->client = configure(context, TLS_client_method(), false);
    if (context->server == NULL || context->client == NULL)
        goto failed;
    zlink_tls_trust_tickets(context);
    *context_out = context;
    return ZLINK_OK;

failed:
    zlink_tls_error_text(text, sizeof(text));
    zlink_refuse(why, "TLS: %s", text);
refused:
    zlink_tls_context_release(context);
    return status;
}

/* Whoever has a hold may not write; the count is nobody's and everybody's. */
static zlink_tls_context_t *counted(const zlink_tls_context_t *context)
{
    return (zlink_tls_context_t *)(uintptr_t)context;
}

const zlink_tls_context_t *zlink_tls_context_hold(const zlink_tls_context_t *context)
{
    atomic_fetch_add_explicit(&counted(context)->holders, 1, memory_order_relaxed);
    return context;
}

void zlink_tls_context_release(const zlink_tls_context_t *held)
{
    zlink_tls_context_t *context = counted(held);

    if (context == NULL || atomic_fetch_sub_explicit(&context->holders, 1, memory_order_acq_rel) != 1)
        return;
    SSL_CTX_free(context->server);
    SSL_CTX_free(context->client);
    EVP_PKEY_free(context->key);
    sk_X509_pop_free(context->authorities, X509_free);
    sk_X509_pop_free(context->chain, X509_free);
    sk_X509_CRL_pop_free(context->revoked, X509_CRL_free);
    for (size_t i = 0; i < context->allow_count; i++)
        zlink_free(context->allow[i]);
    zlink_free(context->allow);
    zlink_free(context);
}

const zlink_peer_identity_t *zlink_tls_context_identity(const zlink_tls_context_t *context)
{
    return &context->identity;
}

int64_t zlink_tls_context_expires_at(const zlink_tls_context_t *context)
{
    return context->expires_at;
}
