#include "net/tls_context.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "net/tls_context_internal.h"
#include "net/tls_identity.h"
#include "net/tls_trust.h"

#define FILE_BYTES_MAX    (1024u * 1024u)
#define TICKET_LIFETIME_S 3600

/* ChaCha20-Poly1305 first: the packaged mbedtls seals it 1.7 times faster than AES-GCM. */
static const int cipher_suites[] = {
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    0,
};

/* ECDSA on P-256 with SHA-256 or SHA-384, from the authority down. */
static const mbedtls_x509_crt_profile certificate_profile = {
    .allowed_mds = MBEDTLS_X509_ID_FLAG(MBEDTLS_MD_SHA256) | MBEDTLS_X509_ID_FLAG(MBEDTLS_MD_SHA384),
    .allowed_pks = MBEDTLS_X509_ID_FLAG(MBEDTLS_PK_ECDSA) | MBEDTLS_X509_ID_FLAG(MBEDTLS_PK_ECKEY),
    .allowed_curves = MBEDTLS_X509_ID_FLAG(MBEDTLS_ECP_DP_SECP256R1),
    .rsa_min_bitlen = 0,
};

static int context_random(void *argument, unsigned char *bytes, size_t size)
{
    zlink_tls_context_t *context = argument;
    int result;

    pthread_mutex_lock(&context->random_lock);
    result = mbedtls_ctr_drbg_random(&context->random, bytes, size);
    pthread_mutex_unlock(&context->random_lock);
    return result;
}

static void error_text(int error, char text[128])
{
    mbedtls_strerror(error, text, 128);
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
            mbedtls_platform_zeroize(bytes, *size);
        zlink_free(bytes);
        return NULL;
    }
    bytes[*size] = '\0';
    return bytes;
}

static void forget_file(uint8_t *bytes, size_t size)
{
    mbedtls_platform_zeroize(bytes, size);
    zlink_free(bytes);
}

static bool load_certificates(const char *what, const char *path, mbedtls_x509_crt *chain, zlink_refusal_t *why)
{
    size_t size = 0;
    uint8_t *bytes = read_file(what, path, false, &size, why);
    char text[128];
    int result;

    if (bytes == NULL)
        return false;
    result = mbedtls_x509_crt_parse(chain, bytes, size + 1);
    forget_file(bytes, size);
    if (result == 0)
        return true;
    if (result > 0) {
        zlink_refuse(why, "TLS: %s %s: %d of its certificates cannot be read", what, path, result);
        return false;
    }
    error_text(result, text);
    zlink_refuse(why, "TLS: %s %s: not a PEM certificate: %s", what, path, text);
    return false;
}

static bool load_key(zlink_tls_context_t *context, const char *path, zlink_refusal_t *why)
{
    size_t size = 0;
    uint8_t *bytes = read_file("key", path, true, &size, why);
    char text[128];
    int result;

    if (bytes == NULL)
        return false;
    result = zlink_mbedtls_parse_key(&context->key, bytes, size + 1, context_random, context);
    forget_file(bytes, size);
    if (result != 0) {
        error_text(result, text);
        zlink_refuse(why, "TLS: key %s: not a PEM private key without password: %s", path, text);
        return false;
    }
    return true;
}

static bool load_revoked(zlink_tls_context_t *context, const char *path, zlink_refusal_t *why)
{
    size_t size = 0;
    uint8_t *bytes;
    char text[128];
    int result;

    if (path == NULL)
        return true;
    bytes = read_file("revocation list", path, false, &size, why);
    if (bytes == NULL)
        return false;
    result = mbedtls_x509_crl_parse(&context->revoked, bytes, size + 1);
    forget_file(bytes, size);
    if (result == 0)
        return true;
    error_text(result, text);
    zlink_refuse(why, "TLS: revocation list %s: not a PEM list (X509 CRL): %s", path, text);
    return false;
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

static bool is_p256(const mbedtls_pk_context *key)
{
    return mbedtls_pk_can_do(key, MBEDTLS_PK_ECDSA) && mbedtls_pk_get_bitlen(key) == 256 &&
           mbedtls_pk_ec(*key)->ZLINK_MBEDTLS_PRIVATE(grp).id == MBEDTLS_ECP_DP_SECP256R1;
}

static int64_t unix_time(const mbedtls_x509_time *when)
{
    struct tm parts = {.tm_year = when->year - 1900,
                       .tm_mon = when->mon - 1,
                       .tm_mday = when->day,
                       .tm_hour = when->hour,
                       .tm_min = when->min,
                       .tm_sec = when->sec};

    return timegm(&parts);
}

/* The flags of a failed verification as one line: mbedtls writes one line for each. */
static void verify_text(uint32_t flags, char *text, size_t size)
{
    int length = mbedtls_x509_crt_verify_info(text, size, "", flags);

    if (length < 0) {
        text[0] = '\0';
        return;
    }
    for (char *byte = text; *byte != '\0'; byte++) {
        if (*byte == '\n')
            *byte = byte[1] == '\0' ? '\0' : ';';
    }
}

#define BAD_LIST_FLAGS                                                                                                 \
    (MBEDTLS_X509_BADCRL_NOT_TRUSTED | MBEDTLS_X509_BADCRL_EXPIRED | MBEDTLS_X509_BADCRL_FUTURE |                      \
     MBEDTLS_X509_BADCRL_BAD_MD | MBEDTLS_X509_BADCRL_BAD_PK | MBEDTLS_X509_BADCRL_BAD_KEY)

static mbedtls_x509_crl *context_revoked(zlink_tls_context_t *context)
{
    return context->revoked.raw.p == NULL ? NULL : &context->revoked;
}

/* A list of somebody else would be passed over in silence. */
static bool check_revoked(zlink_tls_context_t *context, const zlink_tls_options_t *options, zlink_refusal_t *why)
{
    for (const mbedtls_x509_crl *list = context_revoked(context); list != NULL; list = list->next) {
        const mbedtls_x509_crt *authority = &context->authorities;

        while (authority != NULL && (authority->subject_raw.len != list->issuer_raw.len ||
                                     memcmp(authority->subject_raw.p, list->issuer_raw.p, list->issuer_raw.len) != 0))
            authority = authority->next;
        if (authority == NULL) {
            zlink_refuse(why, "TLS: revocation list %s: it is of none of the authorities in %s", options->crl_file,
                         options->ca_file);
            return false;
        }
    }
    return true;
}

static bool check_certificate(zlink_tls_context_t *context, const zlink_tls_options_t *options, zlink_refusal_t *why)
{
    const mbedtls_x509_crt *own = &context->certificate;
    const char *file = options->certificate_file;
    const char *reason = NULL;
    char text[256];
    uint32_t flags = 0;

    if (mbedtls_x509_time_is_past(&own->valid_to)) {
        zlink_refuse(why, "TLS: certificate %s: it expired on %04d-%02d-%02d", file, own->valid_to.year,
                     own->valid_to.mon, own->valid_to.day);
        return false;
    }
    if (mbedtls_x509_time_is_future(&own->valid_from)) {
        zlink_refuse(why, "TLS: certificate %s: it is not valid before %04d-%02d-%02d (is the clock right?)", file,
                     own->valid_from.year, own->valid_from.mon, own->valid_from.day);
        return false;
    }
    if (!is_p256(&own->pk)) {
        zlink_refuse(why, "TLS: certificate %s: its key is not ECDSA on P-256 (secp256r1)", file);
        return false;
    }
    if (!zlink_tls_identity_of(own, &context->identity, &reason)) {
        zlink_refuse(why, "TLS: certificate %s: %s", file, reason);
        return false;
    }
    if (zlink_mbedtls_check_pair(&own->pk, &context->key, context_random, context) != 0) {
        zlink_refuse(why, "TLS: key %s: it does not belong to certificate %s", options->key_file, file);
        return false;
    }
    if (mbedtls_x509_crt_verify_with_profile(&context->certificate, &context->authorities, context_revoked(context),
                                             &certificate_profile, NULL, &flags, NULL, NULL) != 0) {
        verify_text(flags, text, sizeof(text));
        if ((flags & BAD_LIST_FLAGS) != 0)
            zlink_refuse(why, "TLS: revocation list %s: %s", options->crl_file, text);
        else if (flags == MBEDTLS_X509_BADCERT_REVOKED)
            zlink_refuse(why, "TLS: certificate %s: it is revoked in %s", file, options->crl_file);
        else
            zlink_refuse(why, "TLS: certificate %s: the authorities in %s do not vouch for it: %s", file,
                         options->ca_file, text);
        return false;
    }
    context->expires_at = unix_time(&own->valid_to);
    return true;
}

static bool check_authorities(zlink_tls_context_t *context, const char *file, zlink_refusal_t *why)
{
    for (const mbedtls_x509_crt *authority = &context->authorities; authority != NULL; authority = authority->next) {
        if (!is_p256(&authority->pk)) {
            zlink_refuse(why, "TLS: authority %s: a key in it is not ECDSA on P-256 (secp256r1)", file);
            return false;
        }
        if (authority->ZLINK_MBEDTLS_PRIVATE(ca_istrue) == 0) {
            zlink_refuse(why, "TLS: authority %s: a certificate in it is not an authority's (CA:TRUE is missing)",
                         file);
            return false;
        }
    }
    return true;
}

/* ---- what mbedtls computes lazily and without a lock, computed before threads share it ---- */

/* 2.28 finds out about the processor's AES instructions in an unguarded static (CVE-2025-52496). */
static int warm_up_aes(void)
{
    static const unsigned char key[16] = {0};
    static const unsigned char nonce[12] = {0};
    unsigned char block[16] = {0};
    unsigned char tag[16];
    mbedtls_gcm_context gcm;
    int result;

    mbedtls_gcm_init(&gcm);
    result = mbedtls_gcm_setkey(&gcm, MBEDTLS_CIPHER_ID_AES, key, 128);
    if (result == 0)
        result = mbedtls_gcm_crypt_and_tag(&gcm, MBEDTLS_GCM_ENCRYPT, sizeof(block), nonce, sizeof(nonce), NULL, 0,
                                           block, block, sizeof(tag), tag);
    mbedtls_gcm_free(&gcm);
    return result;
}

/* The first use of a key keeps a table of multiples in the key's own group: one signature with ours, one (failing)
 * verification with each authority's. */
static int warm_up_keys(zlink_tls_context_t *context)
{
    static const unsigned char hash[32] = {1};
    static const unsigned char no_signature[] = {0x30, 0x06, 0x02, 0x01, 0x01, 0x02, 0x01, 0x01}; /* r = s = 1 */
    unsigned char signature[MBEDTLS_PK_SIGNATURE_MAX_SIZE];
    size_t size = 0;
    int result = zlink_mbedtls_sign(&context->key, hash, sizeof(hash), signature, sizeof(signature), &size,
                                    context_random, context);

    if (result == 0)
        result = mbedtls_pk_verify(&context->certificate.pk, MBEDTLS_MD_SHA256, hash, sizeof(hash), signature, size);
    for (mbedtls_x509_crt *authority = &context->authorities; authority != NULL; authority = authority->next)
        (void)mbedtls_pk_verify(&authority->pk, MBEDTLS_MD_SHA256, hash, sizeof(hash), no_signature,
                                sizeof(no_signature));
    return result;
}

/* ---- configuration ---- */

static int configure(zlink_tls_context_t *context, mbedtls_ssl_config *config, int endpoint)
{
    int result =
        mbedtls_ssl_config_defaults(config, endpoint, MBEDTLS_SSL_TRANSPORT_STREAM, MBEDTLS_SSL_PRESET_DEFAULT);

    if (result != 0)
        return result;
    mbedtls_ssl_conf_rng(config, context_random, context);
    zlink_mbedtls_conf_tls12_only(config);
    zlink_mbedtls_conf_p256_only(config);
    mbedtls_ssl_conf_ciphersuites(config, cipher_suites);
    mbedtls_ssl_conf_cert_profile(config, &certificate_profile);
    mbedtls_ssl_conf_authmode(config, MBEDTLS_SSL_VERIFY_REQUIRED); /* a server's default would be none */
    mbedtls_ssl_conf_ca_chain(config, &context->authorities, context_revoked(context));
#if defined(MBEDTLS_SSL_RENEGOTIATION)
    mbedtls_ssl_conf_renegotiation(config, MBEDTLS_SSL_RENEGOTIATION_DISABLED);
#endif
    if (endpoint == MBEDTLS_SSL_IS_CLIENT)
        mbedtls_ssl_conf_session_tickets(config, MBEDTLS_SSL_SESSION_TICKETS_ENABLED);
    else
        mbedtls_ssl_conf_session_tickets_cb(config, zlink_tls_ticket_write, zlink_tls_ticket_parse, context);
    return mbedtls_ssl_conf_own_cert(config, &context->certificate, &context->key);
}

static void context_init(zlink_tls_context_t *context)
{
    atomic_init(&context->holders, 1);
    mbedtls_ssl_config_init(&context->server);
    mbedtls_ssl_config_init(&context->client);
    mbedtls_x509_crt_init(&context->authorities);
    mbedtls_x509_crl_init(&context->revoked);
    mbedtls_ssl_ticket_init(&context->tickets);
    mbedtls_x509_crt_init(&context->certificate);
    mbedtls_pk_init(&context->key);
    mbedtls_entropy_init(&context->entropy);
    mbedtls_ctr_drbg_init(&context->random);
    pthread_mutex_init(&context->random_lock, NULL);
}

zlink_status_t zlink_tls_context_create(const zlink_tls_options_t *options, zlink_tls_context_t **context_out,
                                        zlink_refusal_t *why)
{
    static const unsigned char purpose[] = "zlink";
    zlink_tls_context_t *context = zlink_calloc(1, sizeof(*context));
    zlink_status_t status = ZLINK_INTERNAL_FAILURE;
    char text[128];
    int result;

    if (context == NULL) {
        zlink_refuse(why, "TLS: no memory");
        return ZLINK_CAPACITY_EXCEEDED;
    }
    context_init(context);
    result = zlink_mbedtls_start();
    if (result == 0)
        result = mbedtls_ctr_drbg_seed(&context->random, mbedtls_entropy_func, &context->entropy, purpose,
                                       sizeof(purpose) - 1);
    if (result == 0)
        result = warm_up_aes();
    if (result != 0)
        goto failed;
    status = ZLINK_INVALID_OPERATION;
    if (!load_certificates("authority", options->ca_file, &context->authorities, why) ||
        !load_certificates("certificate", options->certificate_file, &context->certificate, why) ||
        !load_key(context, options->key_file, why) || !load_revoked(context, options->crl_file, why) ||
        !copy_allowed(context, options, why) || !check_authorities(context, options->ca_file, why) ||
        !check_revoked(context, options, why) || !check_certificate(context, options, why))
        goto refused;
    status = ZLINK_INTERNAL_FAILURE;
    result = warm_up_keys(context);
    if (result == 0)
        result = mbedtls_ssl_ticket_setup(&context->tickets, context_random, context, MBEDTLS_CIPHER_AES_256_GCM,
                                          TICKET_LIFETIME_S);
    if (result == 0)
        result = configure(context, &context->server, MBEDTLS_SSL_IS_SERVER);
    if (result == 0)
        result = configure(context, &context->client, MBEDTLS_SSL_IS_CLIENT);
    if (result != 0)
        goto failed;
    *context_out = context;
    return ZLINK_OK;

failed:
    error_text(result, text);
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
    mbedtls_ssl_config_free(&context->server);
    mbedtls_ssl_config_free(&context->client);
    mbedtls_ssl_ticket_free(&context->tickets);
    mbedtls_x509_crl_free(&context->revoked);
    mbedtls_x509_crt_free(&context->authorities);
    mbedtls_x509_crt_free(&context->certificate);
    mbedtls_pk_free(&context->key);
    mbedtls_ctr_drbg_free(&context->random);
    mbedtls_entropy_free(&context->entropy);
    pthread_mutex_destroy(&context->random_lock);
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
