#include "net/tls_session.h"

#include <assert.h>
#include <openssl/err.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "net/tls_context_internal.h"
#include "net/tls_resumption_internal.h"
#include "net/tls_trust.h"

#define HANDSHAKE_BYTES_MAX (64u * 1024u)
#define RECORD_BYTES        16384u
#define RECORD_EXTRA_BYTES  64u /* more than any suite of ours adds to a record */
#define READ_BYTES_MIN      2048u

struct zlink_tls_session {
    SSL *ssl;
    const zlink_tls_context_t *context;
    zlink_tls_resumption_t *resumption; /* of a client that has one */
    bool offered;                       /* what is remembered there was looked at */
    bool handshaken;
    bool failed;
    bool asked_again; /* the peer wants another handshake */
    bool no_memory;   /* for what it wrote */
    size_t handshake_bytes;

    /* During a call only: what the library reads from and writes to. */
    const uint8_t *input;
    size_t input_size;
    zlink_byte_buffer_t *wire;

    zlink_peer_identity_t identity;
    char distrust[ZLINK_TLS_REASON_BYTES]; /* why the peer's certificate, which is good, is not good enough */
    char reason[256];
};

static const struct {
    int code;
    const char *words;
} alerts[] = {
    {SSL_AD_UNEXPECTED_MESSAGE, "unexpected message"},
    {SSL_AD_BAD_RECORD_MAC, "bad record"},
    {SSL_AD_RECORD_OVERFLOW, "record too large"},
    {SSL_AD_HANDSHAKE_FAILURE, "no common TLS parameters, or no certificate was shown"},
    {SSL_AD_NO_CERTIFICATE, "no certificate was shown"},
    {SSL_AD_BAD_CERTIFICATE, "bad certificate"},
    {SSL_AD_UNSUPPORTED_CERTIFICATE, "unsupported certificate"},
    {SSL_AD_CERTIFICATE_REVOKED, "revoked certificate"},
    {SSL_AD_CERTIFICATE_EXPIRED, "expired certificate"},
    {SSL_AD_CERTIFICATE_UNKNOWN, "certificate not accepted"},
    {SSL_AD_ILLEGAL_PARAMETER, "illegal parameter"},
    {SSL_AD_UNKNOWN_CA, "certificate of an unknown authority"},
    {SSL_AD_ACCESS_DENIED, "access denied"},
    {SSL_AD_DECODE_ERROR, "message not understood"},
    {SSL_AD_DECRYPT_ERROR, "wrong signature or decryption failed"},
    {SSL_AD_PROTOCOL_VERSION, "TLS version not supported (1.2 is needed)"},
    {SSL_AD_INSUFFICIENT_SECURITY, "insufficient security"},
    {SSL_AD_INTERNAL_ERROR, "internal error"},
    {SSL_AD_USER_CANCELLED, "cancelled"},
};

/* ---- the library's input and output: straight from and to the caller's buffers ---- */

static int bio_read(BIO *bio, char *bytes, size_t size, size_t *got)
{
    zlink_tls_session_t *session = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    *got = size < session->input_size ? size : session->input_size;
    if (*got == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    memcpy(bytes, session->input, *got);
    session->input += *got;
    session->input_size -= *got;
    return 1;
}

/* Never refuses but without memory. */
static int bio_write(BIO *bio, const char *bytes, size_t size, size_t *written)
{
    zlink_tls_session_t *session = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    *written = 0;
    if (session->wire == NULL || !zlink_byte_buffer_append(session->wire, bytes, size)) {
        session->no_memory = true;
        return 0;
    }
    *written = size;
    return 1;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static int bio_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

static BIO_METHOD *bio_method;
static int session_index = -1; /* of a session's place in its SSL */

static void make_method(void)
{
    bio_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "zlink session");
    session_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
    if (bio_method == NULL || session_index < 0)
        return;
    BIO_meth_set_create(bio_method, bio_create);
    BIO_meth_set_read_ex(bio_method, bio_read);
    BIO_meth_set_write_ex(bio_method, bio_write);
    BIO_meth_set_ctrl(bio_method, bio_control);
}

/* ---- making one ---- */

/* Called for each certificate of a chain that is being verified, the peer's own last: who it is, and whether that is
 * somebody who may be a peer, is looked at while there is still a way to say so. */
static int session_verifying(int good, X509_STORE_CTX *verification)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(verification, SSL_get_ex_data_X509_STORE_CTX_idx());
    zlink_tls_session_t *session = SSL_get_ex_data(ssl, session_index);

    if (!zlink_tls_verifying(good, verification))
        return 0;
    if (!good || X509_STORE_CTX_get_error_depth(verification) > 0 ||
        zlink_tls_trusts(session->context, X509_STORE_CTX_get_current_cert(verification), &session->identity,
                         session->distrust))
        return 1;
    X509_STORE_CTX_set_error(verification, X509_V_ERR_CERT_REJECTED);
    return 0;
}

/* A second handshake on a connection is refused with a warning, after which a peer could ask again and again. */
static void session_hears(const SSL *ssl, int where, int value)
{
    zlink_tls_session_t *session = SSL_get_ex_data(ssl, session_index);

    if ((where & SSL_CB_WRITE_ALERT) == SSL_CB_WRITE_ALERT && (value & 0xff) == SSL_AD_NO_RENEGOTIATION)
        session->asked_again = true;
}

zlink_tls_session_t *zlink_tls_session_create(const zlink_tls_context_t *context, zlink_tls_side_t side)
{
    static pthread_once_t made = PTHREAD_ONCE_INIT;
    zlink_tls_session_t *session = zlink_calloc(1, sizeof(*session));
    BIO *bio = NULL;

    pthread_once(&made, make_method);
    if (session == NULL)
        return NULL;
    session->context = context;
    session->ssl = SSL_new(side == ZLINK_TLS_SERVER ? context->server : context->client);
    if (session->ssl != NULL && bio_method != NULL)
        bio = BIO_new(bio_method);
    if (bio == NULL || SSL_set_ex_data(session->ssl, session_index, session) != 1)
        goto failed;
    BIO_set_data(bio, session);
    SSL_set_bio(session->ssl, bio, bio);
    SSL_set_verify(session->ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, session_verifying);
    SSL_set_info_callback(session->ssl, session_hears);
    if (side == ZLINK_TLS_SERVER)
        SSL_set_accept_state(session->ssl);
    else
        SSL_set_connect_state(session->ssl);
    return session;

failed:
    BIO_free(bio);
    SSL_free(session->ssl);
    ERR_clear_error();
    zlink_free(session);
    return NULL;
}

void zlink_tls_session_destroy(zlink_tls_session_t *session)
{
    if (session == NULL)
        return;
    /* However the connection ended: what was agreed on may be resumed. */
    SSL_set_shutdown(session->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(session->ssl);
    zlink_tls_resumption_release(session->resumption);
    zlink_free(session);
}

void zlink_tls_session_remember(zlink_tls_session_t *session, zlink_tls_resumption_t *resumption)
{
    assert(session->resumption == NULL && !session->offered);
    session->resumption = zlink_tls_resumption_hold(resumption);
}

static const char *alert_words(int code)
{
    for (size_t i = 0; i < sizeof(alerts) / sizeof(alerts[0]); i++) {
        if (alerts[i].code == code)
            return alerts[i].words;
    }
    return "unknown reason";
}

static zlink_tls_progress_t session_fail(zlink_tls_session_t *session, const char *format, const char *words)
{
    session->failed = true;
    if (session->resumption != NULL && !session->handshaken)
        zlink_tls_resumption_forget(session->resumption);
    snprintf(session->reason, sizeof(session->reason), format, words);
    return ZLINK_TLS_FAILED;
}

static zlink_tls_progress_t session_fail_verify(zlink_tls_session_t *session)
{
    const int error = (int)SSL_get_verify_result(session->ssl);
    char words[192];

    if (error == X509_V_ERR_CERT_REJECTED && session->distrust[0] != '\0')
        return session_fail(session, "the peer's certificate is refused: %s", session->distrust);
    zlink_tls_verify_text(error, words, sizeof(words));
    return session_fail(session, "the peer's certificate is refused: %s", words);
}

/* What the library says of its failure: its first word of it. */
static zlink_tls_progress_t session_fail_error(zlink_tls_session_t *session)
{
    const unsigned long error = ERR_peek_error();
    const int reason = ERR_GET_REASON(error);
    const char *words = error == 0 ? NULL : ERR_reason_error_string(error);

    ERR_clear_error();
    if (session->no_memory)
        return session_fail(session, "%s", "no memory for records");
    if (ERR_GET_LIB(error) == ERR_LIB_SSL && reason > SSL_AD_REASON_OFFSET)
        return session_fail(session, "the peer refused: %s", alert_words(reason - SSL_AD_REASON_OFFSET));
    switch (ERR_GET_LIB(error) == ERR_LIB_SSL ? reason : 0) {
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
        return session_fail_verify(session);
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        return session_fail(session, "%s", "the peer showed no certificate");
    default:
        return session_fail(session, "%s", words != NULL ? words : "the TLS library failed");
    }
}

/* Asked after every handshake, whatever callbacks ran: a resumed one has not verified anything. */
static bool session_take_identity(zlink_tls_session_t *session)
{
    char reason[ZLINK_TLS_REASON_BYTES];

    if (zlink_tls_trusts(session->context, SSL_get0_peer_certificate(session->ssl), &session->identity, reason))
        return true;
    session_fail(session, "the peer's certificate is refused: %s", reason);
    return false;
}

static zlink_tls_progress_t session_handshake(zlink_tls_session_t *session)
{
    if (session->resumption != NULL && !session->offered)
        zlink_tls_resumption_offer(session->resumption, session->ssl);
    session->offered = true;
    if (session->handshake_bytes > HANDSHAKE_BYTES_MAX)
        return session_fail(session, "%s", "the handshake takes too many bytes");
    const int result = SSL_do_handshake(session->ssl);
    if (result != 1 && SSL_get_error(session->ssl, result) == SSL_ERROR_WANT_READ)
        return ZLINK_TLS_MORE;
    if (result != 1)
        return session_fail_error(session);
    if (!session_take_identity(session))
        return ZLINK_TLS_FAILED;
    session->handshaken = true;
    if (session->resumption != NULL && !SSL_session_reused(session->ssl))
        zlink_tls_resumption_keep(session->resumption, session->ssl);
    return ZLINK_TLS_HANDSHAKEN;
}

static zlink_tls_progress_t session_read(zlink_tls_session_t *session, zlink_byte_buffer_t *plain)
{
    for (;;) {
        size_t room = (size_t)SSL_pending(session->ssl);
        size_t got = 0;
        uint8_t *end = zlink_byte_buffer_reserve(plain, room > READ_BYTES_MIN ? room : READ_BYTES_MIN);

        if (end == NULL)
            return session_fail(session, "%s", "no memory for received bytes");
        const int result = SSL_read_ex(session->ssl, end, zlink_byte_buffer_room(plain), &got);
        zlink_byte_buffer_commit(plain, got);
        if (session->asked_again)
            return session_fail(session, "%s", "the peer asks for another handshake (renegotiation)");
        if (result == 1)
            continue;
        switch (SSL_get_error(session->ssl, result)) {
        case SSL_ERROR_WANT_READ:
            return ZLINK_TLS_MORE;
        case SSL_ERROR_ZERO_RETURN:
            return ZLINK_TLS_ENDED;
        default:
            return session_fail_error(session);
        }
    }
}

zlink_tls_progress_t zlink_tls_session_feed(zlink_tls_session_t *session, const uint8_t *bytes, size_t size,
                                            size_t *used, zlink_byte_buffer_t *plain, zlink_byte_buffer_t *wire)
{
    zlink_tls_progress_t progress;

    assert(!session->failed);
    session->input = bytes;
    session->input_size = size;
    session->wire = wire;
    ERR_clear_error();
    if (session->handshaken) {
        progress = session_read(session, plain);
    } else {
        session->handshake_bytes += size;
        progress = session_handshake(session);
    }
    assert(progress != ZLINK_TLS_MORE || session->input_size == 0);
    *used = size - session->input_size;
    session->input = NULL;
    session->input_size = 0;
    session->wire = NULL;
    return progress;
}

zlink_status_t zlink_tls_session_seal(zlink_tls_session_t *session, const uint8_t *bytes, size_t size,
                                      zlink_byte_buffer_t *wire)
{
    zlink_status_t status = ZLINK_OK;

    assert(session->handshaken && !session->failed);
    /* All the room first: no record may fail in the middle. */
    if (zlink_byte_buffer_reserve(wire, size + (size / RECORD_BYTES + 1) * RECORD_EXTRA_BYTES) == NULL)
        return ZLINK_CAPACITY_EXCEEDED;
    session->wire = wire;
    ERR_clear_error();
    while (size > 0 && status == ZLINK_OK) { /* never with 0 bytes: that would be an error */
        size_t written = 0;

        if (SSL_write_ex(session->ssl, bytes, size < RECORD_BYTES ? size : RECORD_BYTES, &written) != 1) {
            session_fail_error(session);
            status = ZLINK_INTERNAL_FAILURE;
            break;
        }
        bytes += written;
        size -= written;
    }
    session->wire = NULL;
    return status;
}

void zlink_tls_session_end(zlink_tls_session_t *session, zlink_byte_buffer_t *wire)
{
    if (session->failed || !session->handshaken)
        return;
    session->wire = wire;
    ERR_clear_error();
    (void)SSL_shutdown(session->ssl);
    ERR_clear_error();
    session->wire = NULL;
}

bool zlink_tls_session_is_handshaken(const zlink_tls_session_t *session)
{
    return session->handshaken;
}

bool zlink_tls_session_is_resumed(const zlink_tls_session_t *session)
{
    return session->handshaken && SSL_session_reused(session->ssl) == 1;
}

const zlink_peer_identity_t *zlink_tls_session_identity(const zlink_tls_session_t *session)
{
    return session->handshaken ? &session->identity : NULL;
}

bool zlink_tls_session_is_trusted_by(const zlink_tls_session_t *session, const zlink_tls_context_t *context,
                                     char *reason, size_t size)
{
    zlink_peer_identity_t identity;
    char text[ZLINK_TLS_REASON_BYTES];
    const bool trusted = zlink_tls_trusts(context, SSL_get0_peer_certificate(session->ssl), &identity, text);

    if (!trusted)
        snprintf(reason, size, "%s", text);
    return trusted;
}

const char *zlink_tls_session_cipher(const zlink_tls_session_t *session)
{
    return session->handshaken ? SSL_get_cipher_name(session->ssl) : "";
}

const char *zlink_tls_session_reason(const zlink_tls_session_t *session)
{
    return session->reason;
}
