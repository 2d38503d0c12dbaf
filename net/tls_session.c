#include "net/tls_session.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "net/tls_context_internal.h"
#include "net/tls_resumption_internal.h"
#include "net/tls_trust.h"

#define HANDSHAKE_BYTES_MAX (64u * 1024u)
#define HANDSHAKE_STEPS_MAX 256u
#define RECORD_BYTES        16384u
#define READ_BYTES_MIN      2048u

struct zlink_tls_session {
    mbedtls_ssl_context ssl;
    const zlink_tls_context_t *context;
    zlink_tls_resumption_t *resumption; /* of a client that has one */
    bool offered;                       /* what is remembered there was looked at */
    bool verified;                      /* a certificate was verified in this handshake: it is no resumed one */
    bool handshaken;
    bool failed;
    unsigned steps;
    size_t handshake_bytes;

    /* During a call only: what mbedtls reads from and writes to. */
    const uint8_t *input;
    size_t input_size;
    zlink_byte_buffer_t *wire;

    zlink_peer_identity_t identity;
    char reason[256];
};

static const struct {
    int code;
    const char *words;
} alerts[] = {
    {MBEDTLS_SSL_ALERT_MSG_UNEXPECTED_MESSAGE, "unexpected message"},
    {MBEDTLS_SSL_ALERT_MSG_BAD_RECORD_MAC, "bad record"},
    {MBEDTLS_SSL_ALERT_MSG_RECORD_OVERFLOW, "record too large"},
    {MBEDTLS_SSL_ALERT_MSG_HANDSHAKE_FAILURE, "no common TLS parameters, or no certificate was shown"},
    {MBEDTLS_SSL_ALERT_MSG_NO_CERT, "no certificate was shown"},
    {MBEDTLS_SSL_ALERT_MSG_BAD_CERT, "bad certificate"},
    {MBEDTLS_SSL_ALERT_MSG_UNSUPPORTED_CERT, "unsupported certificate"},
    {MBEDTLS_SSL_ALERT_MSG_CERT_REVOKED, "revoked certificate"},
    {MBEDTLS_SSL_ALERT_MSG_CERT_EXPIRED, "expired certificate"},
    {MBEDTLS_SSL_ALERT_MSG_CERT_UNKNOWN, "certificate not accepted"},
    {MBEDTLS_SSL_ALERT_MSG_ILLEGAL_PARAMETER, "illegal parameter"},
    {MBEDTLS_SSL_ALERT_MSG_UNKNOWN_CA, "certificate of an unknown authority"},
    {MBEDTLS_SSL_ALERT_MSG_ACCESS_DENIED, "access denied"},
    {MBEDTLS_SSL_ALERT_MSG_DECODE_ERROR, "message not understood"},
    {MBEDTLS_SSL_ALERT_MSG_DECRYPT_ERROR, "wrong signature or decryption failed"},
    {MBEDTLS_SSL_ALERT_MSG_PROTOCOL_VERSION, "TLS version not supported (1.2 is needed)"},
    {MBEDTLS_SSL_ALERT_MSG_INSUFFICIENT_SECURITY, "insufficient security"},
    {MBEDTLS_SSL_ALERT_MSG_INTERNAL_ERROR, "internal error"},
    {MBEDTLS_SSL_ALERT_MSG_USER_CANCELED, "cancelled"},
};

static int session_receive(void *context, unsigned char *bytes, size_t size)
{
    zlink_tls_session_t *session = context;

    if (session->input_size == 0)
        return MBEDTLS_ERR_SSL_WANT_READ;
    if (size > session->input_size)
        size = session->input_size;
    memcpy(bytes, session->input, size);
    session->input += size;
    session->input_size -= size;
    return (int)size;
}

/* Never refuses but without memory: a record that is half taken would have to be offered again byte for byte. */
static int session_send(void *context, const unsigned char *bytes, size_t size)
{
    zlink_tls_session_t *session = context;

    if (size > INT32_MAX || !zlink_byte_buffer_append(session->wire, bytes, size))
        return MBEDTLS_ERR_SSL_ALLOC_FAILED;
    return (int)size;
}

/* Called for each certificate of a chain that is being verified; what is found stands in `flags` already. */
static int session_verifying(void *context, mbedtls_x509_crt *certificate, int depth, uint32_t *flags)
{
    zlink_tls_session_t *session = context;

    (void)certificate;
    (void)depth;
    (void)flags;
    session->verified = true;
    return 0;
}

zlink_tls_session_t *zlink_tls_session_create(const zlink_tls_context_t *context, zlink_tls_side_t side)
{
    zlink_tls_session_t *session = zlink_calloc(1, sizeof(*session));

    if (session == NULL)
        return NULL;
    session->context = context;
    mbedtls_ssl_init(&session->ssl);
    if (mbedtls_ssl_setup(&session->ssl, side == ZLINK_TLS_SERVER ? &context->server : &context->client) != 0)
        goto failed;
    /* A client that never calls it accepts any certificate of the authority (CVE-2025-27809). We have no host name to
     * compare: the identity is checked after the handshake. */
    if (side == ZLINK_TLS_CLIENT && mbedtls_ssl_set_hostname(&session->ssl, NULL) != 0)
        goto failed;
    mbedtls_ssl_set_verify(&session->ssl, session_verifying, session);
    mbedtls_ssl_set_bio(&session->ssl, session, session_send, session_receive, NULL);
    return session;

failed:
    mbedtls_ssl_free(&session->ssl);
    zlink_free(session);
    return NULL;
}

void zlink_tls_session_destroy(zlink_tls_session_t *session)
{
    if (session == NULL)
        return;
    mbedtls_ssl_free(&session->ssl);
    zlink_tls_resumption_release(session->resumption);
    mbedtls_platform_zeroize(session, sizeof(*session));
    zlink_free(session);
}

void zlink_tls_session_remember(zlink_tls_session_t *session, zlink_tls_resumption_t *resumption)
{
    assert(session->resumption == NULL && session->steps == 0);
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
    const uint32_t flags = mbedtls_ssl_get_verify_result(&session->ssl);
    char words[192] = "";

    if (flags == 0 || flags == UINT32_MAX || mbedtls_x509_crt_verify_info(words, sizeof(words), "", flags) < 0)
        snprintf(words, sizeof(words), "it cannot be read");
    for (char *byte = words; *byte != '\0'; byte++) {
        if (*byte == '\n')
            *byte = byte[1] == '\0' ? '\0' : ';';
    }
    return session_fail(session, "the peer's certificate is refused: %s", words);
}

static zlink_tls_progress_t session_fail_error(zlink_tls_session_t *session, int error)
{
    char words[160];

    switch (error) {
    case MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE:
        return session_fail(session, "the peer refused: %s", alert_words(zlink_mbedtls_received_alert(&session->ssl)));
    case MBEDTLS_ERR_X509_CERT_VERIFY_FAILED:
    case ZLINK_MBEDTLS_BAD_CERTIFICATE: /* also a certificate that is for another use */
        return session_fail_verify(session);
#ifdef MBEDTLS_ERR_SSL_NO_CLIENT_CERTIFICATE
    case MBEDTLS_ERR_SSL_NO_CLIENT_CERTIFICATE:
        return session_fail(session, "%s", "the peer showed no certificate");
#endif
    default:
        mbedtls_strerror(error, words, sizeof(words));
        return session_fail(session, "%s", words);
    }
}

/* Asked after every handshake, whatever callbacks ran: a resumed one has not verified anything. */
static bool session_take_identity(zlink_tls_session_t *session)
{
    char reason[ZLINK_TLS_REASON_BYTES];

    if (zlink_tls_trusts(session->context, mbedtls_ssl_get_peer_cert(&session->ssl), &session->identity, reason))
        return true;
    session_fail(session, "the peer's certificate is refused: %s", reason);
    (void)mbedtls_ssl_send_alert_message(&session->ssl, MBEDTLS_SSL_ALERT_LEVEL_FATAL, MBEDTLS_SSL_ALERT_MSG_BAD_CERT);
    return false;
}

static zlink_tls_progress_t session_handshake(zlink_tls_session_t *session)
{
    if (session->resumption != NULL && !session->offered)
        zlink_tls_resumption_offer(session->resumption, &session->ssl);
    session->offered = true;
    while (!zlink_mbedtls_handshake_is_over(&session->ssl)) {
        int result;

        result = mbedtls_ssl_handshake_step(&session->ssl);
        if (result == MBEDTLS_ERR_SSL_WANT_READ && session->handshake_bytes > HANDSHAKE_BYTES_MAX)
            return session_fail(session, "%s", "the handshake takes too many bytes");
        if (result == MBEDTLS_ERR_SSL_WANT_READ && session->input_size == 0)
            return ZLINK_TLS_MORE;
        /* WANT_READ with bytes left: it dealt with a message that was none of the expected ones. */
        if (result != 0 && result != MBEDTLS_ERR_SSL_WANT_READ)
            return session_fail_error(session, result);
        if (++session->steps > HANDSHAKE_STEPS_MAX)
            return session_fail(session, "%s", "the handshake takes too many steps");
    }
    if (!session_take_identity(session))
        return ZLINK_TLS_FAILED;
    session->handshaken = true;
    if (session->resumption != NULL && session->verified)
        zlink_tls_resumption_keep(session->resumption, &session->ssl);
    return ZLINK_TLS_HANDSHAKEN;
}

static zlink_tls_progress_t session_read(zlink_tls_session_t *session, zlink_byte_buffer_t *plain)
{
    for (;;) {
        size_t room = READ_BYTES_MIN;
        uint8_t *end;
        int result;

        if (mbedtls_ssl_get_bytes_avail(&session->ssl) > room)
            room = mbedtls_ssl_get_bytes_avail(&session->ssl);
        end = zlink_byte_buffer_reserve(plain, room);
        if (end == NULL)
            return session_fail(session, "%s", "no memory for received bytes");
        room = zlink_byte_buffer_room(plain);
        result = mbedtls_ssl_read(&session->ssl, end, room < INT32_MAX ? room : INT32_MAX);
        if (result > 0) {
            zlink_byte_buffer_commit(plain, (size_t)result);
            continue;
        }
        switch (result) {
        case MBEDTLS_ERR_SSL_WANT_READ:
            if (session->input_size > 0)
                continue; /* it dealt with a message that carries no bytes for us */
            return ZLINK_TLS_MORE;
        case MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY:
        case 0:
            return ZLINK_TLS_ENDED;
        default:
            return session_fail_error(session, result);
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
    const int expansion = mbedtls_ssl_get_record_expansion(&session->ssl);
    const size_t records = size / RECORD_BYTES + 1;
    zlink_status_t status = ZLINK_OK;

    assert(session->handshaken && !session->failed);
    /* All the room first: no record may fail in the middle. */
    if (expansion < 0 || zlink_byte_buffer_reserve(wire, size + records * (size_t)expansion) == NULL)
        return ZLINK_CAPACITY_EXCEEDED;
    session->wire = wire;
    while (size > 0 && status == ZLINK_OK) { /* never with 0 bytes: that would send an empty record */
        int written = mbedtls_ssl_write(&session->ssl, bytes, size < RECORD_BYTES ? size : RECORD_BYTES);

        if (written <= 0) {
            session_fail_error(session, written);
            status = ZLINK_INTERNAL_FAILURE;
            break;
        }
        bytes += written;
        size -= (size_t)written;
    }
    session->wire = NULL;
    return status;
}

void zlink_tls_session_end(zlink_tls_session_t *session, zlink_byte_buffer_t *wire)
{
    if (session->failed || !session->handshaken)
        return;
    session->wire = wire;
    (void)mbedtls_ssl_close_notify(&session->ssl);
    session->wire = NULL;
}

bool zlink_tls_session_is_handshaken(const zlink_tls_session_t *session)
{
    return session->handshaken;
}

bool zlink_tls_session_is_resumed(const zlink_tls_session_t *session)
{
    return session->handshaken && !session->verified;
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
    const bool trusted = zlink_tls_trusts(context, mbedtls_ssl_get_peer_cert(&session->ssl), &identity, text);

    if (!trusted)
        snprintf(reason, size, "%s", text);
    return trusted;
}

const char *zlink_tls_session_cipher(const zlink_tls_session_t *session)
{
    return session->handshaken ? mbedtls_ssl_get_ciphersuite(&session->ssl) : "";
}

const char *zlink_tls_session_reason(const zlink_tls_session_t *session)
{
    return session->reason;
}
