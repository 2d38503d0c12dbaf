#include "floor_tls.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void floor_die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

void floor_tls_init(floor_tls_t *tls, bool server, const char *certificates, const char *name, const char *cipher)
{
    const char *suite =
        strcmp(cipher, "aes128") == 0 ? "ECDHE-ECDSA-AES128-GCM-SHA256" : "ECDHE-ECDSA-CHACHA20-POLY1305";
    char path[4096];

    tls->context = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
    if (!tls->context)
        floor_die("no TLS");
    SSL_CTX_set_min_proto_version(tls->context, TLS1_2_VERSION);
    SSL_CTX_set_max_proto_version(tls->context, TLS1_2_VERSION);
    SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_session_id_context(tls->context, (const unsigned char *)"floor", 5);
    SSL_CTX_set_session_cache_mode(tls->context, SSL_SESS_CACHE_OFF);
    snprintf(path, sizeof(path), "%s/ca.pem", certificates);
    if (SSL_CTX_load_verify_file(tls->context, path) != 1)
        floor_die("%s cannot be used", path);
    snprintf(path, sizeof(path), "%s/%s.pem", certificates, name);
    if (SSL_CTX_use_certificate_chain_file(tls->context, path) != 1)
        floor_die("%s cannot be used", path);
    snprintf(path, sizeof(path), "%s/%s.key", certificates, name);
    if (SSL_CTX_use_PrivateKey_file(tls->context, path, SSL_FILETYPE_PEM) != 1)
        floor_die("%s cannot be used", path);
    if (SSL_CTX_set_cipher_list(tls->context, suite) != 1 || SSL_CTX_set1_groups_list(tls->context, "P-256") != 1)
        floor_die("no suite %s", suite);
}

/* ---- a session's bytes ---- */

typedef struct io {
    int (*send)(void *context, const unsigned char *bytes, size_t size);
    size_t (*receive)(void *context, unsigned char *bytes, size_t size);
    void *context;
} io_t;

static int io_read(BIO *bio, char *bytes, int size)
{
    io_t *io = BIO_get_data(bio);
    size_t got = io->receive(io->context, (unsigned char *)bytes, (size_t)size);
    BIO_clear_retry_flags(bio);
    if (got == 0)
        BIO_set_retry_read(bio);
    return got > 0 ? (int)got : -1;
}

static int io_write(BIO *bio, const char *bytes, int size)
{
    io_t *io = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    return io->send(io->context, (const unsigned char *)bytes, (size_t)size);
}

static long io_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

SSL *floor_tls_session(const floor_tls_t *tls, int (*send)(void *context, const unsigned char *bytes, size_t size),
                       size_t (*receive)(void *context, unsigned char *bytes, size_t size), void *context)
{
    static BIO_METHOD *method;
    io_t *io = malloc(sizeof(*io));
    SSL *ssl = SSL_new(tls->context);
    if (!method && (method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "floor")) != NULL) {
        BIO_meth_set_read(method, io_read);
        BIO_meth_set_write(method, io_write);
        BIO_meth_set_ctrl(method, io_control);
    }
    BIO *bio = method ? BIO_new(method) : NULL;
    if (!io || !ssl || !bio)
        floor_die("TLS set-up");
    *io = (io_t){send, receive, context};
    BIO_set_data(bio, io);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    return ssl;
}
