/*
 * net/tls_session.h: one TLS connection without a socket: bytes in, bytes out.
 *
 * One owner at a time: nothing in it is tied to a thread, so a session may be handed to a helper for its handshake and
 * back. The context that it was made from must outlive it. After any failure the session is good for nothing but
 * taking the alert that it wrote and being destroyed: on TCP there is no way back.
 *
 * A handshake has budgets of bytes and steps here; its deadline is the caller's.
 */
#ifndef ZLINK_NET_TLS_SESSION_H
#define ZLINK_NET_TLS_SESSION_H

#include "net/byte_buffer.h"
#include "net/tls_context.h"
#include "net/tls_resumption.h"

typedef struct zlink_tls_session zlink_tls_session_t;

typedef enum zlink_tls_side { ZLINK_TLS_CLIENT, ZLINK_TLS_SERVER } zlink_tls_side_t;

typedef enum zlink_tls_progress {
    ZLINK_TLS_MORE,       /* all input used; more is needed */
    ZLINK_TLS_HANDSHAKEN, /* the handshake is over and the peer's identity known; call again for what is left of the
                             input */
    ZLINK_TLS_ENDED,      /* the peer sent close_notify */
    ZLINK_TLS_FAILED,     /* zlink_tls_session_reason() says why; an alert may be in the output */
} zlink_tls_progress_t;

/* NULL without memory. */
zlink_tls_session_t *zlink_tls_session_create(const zlink_tls_context_t *context, zlink_tls_side_t side);
void zlink_tls_session_destroy(zlink_tls_session_t *session);

/* A client's, before its first bytes: resumes what is remembered there, and remembers the next session. Takes a hold.
 */
void zlink_tls_session_remember(zlink_tls_session_t *session, zlink_tls_resumption_t *resumption);

/* Takes `size` bytes from the peer, all of them unless it answers HANDSHAKEN (`*used` says how many; the rest is
 * for the next call) or fails. Plain bytes are appended to `plain`, records for the peer to `wire`. A client starts
 * with no bytes at all. */
zlink_tls_progress_t zlink_tls_session_feed(zlink_tls_session_t *session, const uint8_t *bytes, size_t size,
                                            size_t *used, zlink_byte_buffer_t *plain, zlink_byte_buffer_t *wire);

/* Seals into records of up to 16 KiB, appended to `wire`. After the handshake. */
zlink_status_t zlink_tls_session_seal(zlink_tls_session_t *session, const uint8_t *bytes, size_t size,
                                      zlink_byte_buffer_t *wire);

/* Appends close_notify. */
void zlink_tls_session_end(zlink_tls_session_t *session, zlink_byte_buffer_t *wire);

bool zlink_tls_session_is_handshaken(const zlink_tls_session_t *session);

/* After the handshake: it went on from an earlier session instead of verifying certificates anew. */
bool zlink_tls_session_is_resumed(const zlink_tls_session_t *session);

/* From the peer's certificate, after the handshake; NULL before. */
const zlink_peer_identity_t *zlink_tls_session_identity(const zlink_tls_session_t *session);
/* After the handshake: whether `context` trusts the peer, too; see net/tls_trust.h. `reason` is set with false. */
bool zlink_tls_session_is_trusted_by(const zlink_tls_session_t *session, const zlink_tls_context_t *context,
                                     char *reason, size_t size);
const char *zlink_tls_session_cipher(const zlink_tls_session_t *session);

/* Why it failed, in words. */
const char *zlink_tls_session_reason(const zlink_tls_session_t *session);

#endif
