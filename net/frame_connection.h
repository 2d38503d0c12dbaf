/*
 * net/frame_connection.h: frames over a stream.
 *
 * Reactor thread only. It takes over a stream (events and context) in `accepted` or `connecting`, cuts the bytes into
 * frames and hands each over once its body is complete and contiguous. PROBE is answered here with PROBE_ACK on the
 * same connection and both are never handed on. After zlink_frame_connection_start_liveness() it probes every 5 s;
 * without an acknowledgement for 15 s the connection is aborted (net/liveness.h has the rules). While a frame waits
 * here an acknowledgement may stand behind it, so the 15 s do not pass, unless the peer has stopped reading as well. A
 * frame that has begun must be complete within 15 s, too, or the connection is aborted: nobody may hold one open by
 * sending slowly. Bytes that are no frame close the connection with a reason and nothing of them is delivered. At most
 * 64 frames or 256 KiB are handed over in a row, then the other connections have their turn.
 *
 * Frames with more than ZLINK_FRAME_WHOLE_BYTES_MAX of body go in CHUNKs, which nobody above sees: small frames that
 * are sent after such a one, in either direction, arrive before its end. A transfer that gets no chunk for 15 s, while
 * this end takes what comes, ends the connection.
 *
 * The connection is freed after `closed` returned. No event is called from inside a function of this header.
 */
#ifndef ZLINK_NET_FRAME_CONNECTION_H
#define ZLINK_NET_FRAME_CONNECTION_H

#include "net/stream.h"
#include "proto/frame.h"

typedef struct zlink_frame_connection zlink_frame_connection_t;

typedef enum zlink_frame_verdict {
    ZLINK_FRAME_TAKEN,
    ZLINK_FRAME_WAIT,   /* not now: the frame is kept and offered again after zlink_frame_connection_resume() */
    ZLINK_FRAME_BROKEN, /* the connection is closed with ZLINK_PROTOCOL_ERROR; use _fail() before for a reason */
} zlink_frame_verdict_t;

typedef struct zlink_frame_connection_events {
    /* May be NULL. */
    void (*opened)(zlink_frame_connection_t *connection);
    /* One frame. `envelope` has prefix->envelope_bytes bytes and the payload follows it directly; both are valid
     * during the call only. */
    zlink_frame_verdict_t (*frame)(zlink_frame_connection_t *connection, const zlink_frame_prefix_t *prefix,
                                   const uint8_t *envelope, const uint8_t *payload, size_t payload_bytes);
    /* See net/stream.h. May be NULL. */
    void (*drained)(zlink_frame_connection_t *connection);
    void (*ended)(zlink_frame_connection_t *connection);
    /* The last event, exactly once. */
    void (*closed)(zlink_frame_connection_t *connection, zlink_status_t status, const char *reason);
} zlink_frame_connection_events_t;

#define ZLINK_FRAME_BODY_BYTES_DEFAULT (4u * 1024u * 1024u)

/* Takes the stream over. `max_body_bytes` 0 = ZLINK_FRAME_BODY_BYTES_DEFAULT. On failure (no memory) the stream is
 * untouched: abort it. */
zlink_status_t zlink_frame_connection_create(zlink_stream_t *stream, const zlink_frame_connection_events_t *events,
                                             uint32_t max_body_bytes, void *context,
                                             zlink_frame_connection_t **connection);

void *zlink_frame_connection_context(const zlink_frame_connection_t *connection);
void zlink_frame_connection_set_context(zlink_frame_connection_t *connection, void *context);

/* Address, identity, cipher and outbound bytes are asked of the stream. Closing goes through this header. */
zlink_stream_t *zlink_frame_connection_stream(const zlink_frame_connection_t *connection);

/* What this end accepts from the next frame on; a connection that is not admitted yet needs no more than
 * ZLINK_FRAME_ENVELOPE_BYTES_MAX. 0 = ZLINK_FRAME_BODY_BYTES_DEFAULT. */
void zlink_frame_connection_set_body_limit(zlink_frame_connection_t *connection, uint32_t max_body_bytes);

/* What the peer accepts (its hello said so); a longer body is refused with ZLINK_INVALID_OPERATION. Default: no bound
 * but 2^32-1. */
void zlink_frame_connection_set_peer_body_limit(zlink_frame_connection_t *connection, uint32_t max_body_bytes);

/* Sends one frame; the bytes are copied. prefix->body_bytes and prefix->envelope_bytes are filled in from the
 * arguments. The answers are those of zlink_stream_write() and zlink_stream_write_forced(). */
zlink_status_t zlink_frame_connection_send(zlink_frame_connection_t *connection, const zlink_frame_prefix_t *prefix,
                                           const void *envelope, uint32_t envelope_bytes, const void *payload,
                                           uint32_t payload_bytes);
/* The same, but a large payload may be sent from where it lies: see zlink_stream_write_held. One that goes in CHUNKs
 * is, and counts against the output limit until its last chunk was handed to the stream. */
zlink_status_t zlink_frame_connection_send_held(zlink_frame_connection_t *connection,
                                                const zlink_frame_prefix_t *prefix, const void *envelope,
                                                uint32_t envelope_bytes, const void *payload, uint32_t payload_bytes,
                                                zlink_output_hold_t *hold, bool *held);
zlink_status_t zlink_frame_connection_send_forced(zlink_frame_connection_t *connection,
                                                  const zlink_frame_prefix_t *prefix, const void *envelope,
                                                  uint32_t envelope_bytes, const void *payload, uint32_t payload_bytes);

/* The frame that was sent with `hold`, which is not released yet, is not wanted any more: what was not sent of it need
 * not be. */
void zlink_frame_connection_abandon(zlink_frame_connection_t *connection, const zlink_output_hold_t *hold);

/* From `frame`, which then answers ZLINK_FRAME_TAKEN: keeps the payload without a copy. The memory that it lies in, to
 * be freed with zlink_free, or NULL: copy it (a small payload, or no memory). */
void *zlink_frame_connection_take_payload(zlink_frame_connection_t *connection, const uint8_t *payload,
                                          size_t payload_bytes);

/* After ZLINK_FRAME_WAIT: offer the frame again, in this tick's end. */
void zlink_frame_connection_resume(zlink_frame_connection_t *connection);

/* From readiness on. Calling it again changes nothing. */
void zlink_frame_connection_start_liveness(zlink_frame_connection_t *connection);

/* The peer may let frames of this end wait, probes among them: its own probes show as well that it is there, and move
 * the deadline like an acknowledgement. */
void zlink_frame_connection_trust_probes(zlink_frame_connection_t *connection);

/* May anything but a forced frame be sent now? Where not, `drained` follows. */
bool zlink_frame_connection_has_room(zlink_frame_connection_t *connection);

/* Orderly; what was sent before still arrives. No frame is handed over any more. */
void zlink_frame_connection_close(zlink_frame_connection_t *connection, const char *reason);

/* Orderly towards the peer, reported as `status`. */
void zlink_frame_connection_fail(zlink_frame_connection_t *connection, zlink_status_t status, const char *reason);

/* At once. */
void zlink_frame_connection_abort(zlink_frame_connection_t *connection, zlink_status_t status, const char *reason);

#endif
