/*
 * net/stream.h: a byte stream: a TCP or unix socket, with or without TLS.
 *
 * A stream belongs to its reactor and is used on the reactor thread only. A listener or a dialer makes it; `closed` is
 * its last event, comes exactly once, and the stream is freed after it returned. No event is called from inside a
 * function of this header: they come from the reactor's loop, so any of these functions may be called in any event.
 *
 *   CONNECTING -> HANDSHAKING -> OPEN -> FLUSHING -> LINGERING -> CLOSING -> CLOSED
 *
 * Writes are copied (but see zlink_stream_write_held); all of one tick are sealed into as few TLS records as possible
 * and sent with one operation at its end. Bytes come decrypted, in one contiguous buffer. An orderly close sends
 * everything written before it, then TLS's close_notify, then ends the sending direction, reads (and drops) until the
 * peer ends as well, and only then closes: so a reset cannot overtake the last bytes. All of that ends after 5 s at the
 * latest.
 */
#ifndef ZLINK_NET_STREAM_H
#define ZLINK_NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zlink/status.h>

#include "net/output_queue.h"
#include "net/reactor.h"
#include "net/tls_context.h"

typedef struct zlink_stream zlink_stream_t;

typedef struct zlink_stream_events {
    /* Connected and, with TLS, handshaken and the peer's identity known. May be NULL. */
    void (*opened)(zlink_stream_t *stream);
    /* Answers how many bytes it consumed; the rest is kept and offered again together with more, or after
     * zlink_stream_resume_intake() or zlink_stream_offer_later(). `data` is valid during the call. */
    size_t (*bytes)(zlink_stream_t *stream, const uint8_t *data, size_t size);
    /* The charge fell to half of its limit, rounded up, after a write was refused. May be NULL. */
    void (*drained)(zlink_stream_t *stream);
    /* Outbound has come down to what zlink_stream_want_room() asked for. May be NULL. */
    void (*room)(zlink_stream_t *stream);
    /* The peer will send nothing more. Bytes that came before it are still offered, then the stream closes by
     * itself. May be NULL. Not called where the stream ends in another way. */
    void (*ended)(zlink_stream_t *stream);
    /* The last event. ZLINK_OK after zlink_stream_close() here or an orderly end of the peer; else what went wrong
     * (ZLINK_UNAVAILABLE: connection lost or not made; ZLINK_REJECTED: TLS refused; ...). `reason` is never NULL. */
    void (*closed)(zlink_stream_t *stream, zlink_status_t status, const char *reason);
} zlink_stream_events_t;

/* 0 means the default. */
typedef struct zlink_stream_limits {
    size_t output_bytes;      /* a write that would take the charge past it is refused; default 4 MiB */
    size_t output_hard_bytes; /* the same for forced writes; past it the stream is aborted; default 64 MiB */
    size_t input_bytes;       /* unconsumed bytes at which receiving stops; default 1 MiB. What the reactor has received
                                 by then, in its receive buffers, still comes */
    size_t write_cost;        /* what each write is charged beside its bytes; default none */
} zlink_stream_limits_t;

typedef struct zlink_slice {
    const void *data;
    size_t size;
} zlink_slice_t;

/* Replaces the events, in `accepted` or `connecting` only. They must outlive the stream. */
void zlink_stream_set_events(zlink_stream_t *stream, const zlink_stream_events_t *events);

/* Whatever the user of the stream wants to find again. */
void zlink_stream_set_context(zlink_stream_t *stream, void *context);
void *zlink_stream_context(const zlink_stream_t *stream);

/* Copies and queues the bytes, all or none. ZLINK_CAPACITY_EXCEEDED over the limit (then every write is refused until
 * `drained` is due) or without memory; with nothing outbound one write may be larger than the limit.
 * ZLINK_INVALID_OPERATION before `opened`; ZLINK_UNAVAILABLE once it is closing. */
zlink_status_t zlink_stream_write(zlink_stream_t *stream, const void *data, size_t size);
zlink_status_t zlink_stream_write_slices(zlink_stream_t *stream, const zlink_slice_t *slices, unsigned count);

/* The same, but the last slice may be sent from where it lies: then `*held` is true, and the bytes and `hold` (its
 * `release` is set) are the stream's until it is called. Else everything was copied, or refused. `count` at least 1. */
zlink_status_t zlink_stream_write_held(zlink_stream_t *stream, const zlink_slice_t *slices, unsigned count,
                                       zlink_output_hold_t *hold, bool *held);

/* The same for a piece of something that was admitted elsewhere: up to the hard limit, as below. */
zlink_status_t zlink_stream_write_held_forced(zlink_stream_t *stream, const zlink_slice_t *slices, unsigned count,
                                              zlink_output_hold_t *hold, bool *held);

/* May so many bytes be written, at once or in pieces as above, forced or not? The answer is that of the write. */
zlink_status_t zlink_stream_admit(zlink_stream_t *stream, size_t size, bool forced);

/* `room` is called once as soon as at most this many outbound bytes are left, at the end of this tick at the earliest.
 */
void zlink_stream_want_room(zlink_stream_t *stream, size_t outbound_bytes);

/* For what must not wait: replies, control. Goes beyond the limit up to the hard limit; there the peer is too slow
 * to be kept and the stream is aborted (ZLINK_CAPACITY_EXCEEDED). */
zlink_status_t zlink_stream_write_forced(zlink_stream_t *stream, const void *data, size_t size);
zlink_status_t zlink_stream_write_slices_forced(zlink_stream_t *stream, const zlink_slice_t *slices, unsigned count);

/* Bytes written that the kernel has not taken yet. */
size_t zlink_stream_outbound_bytes(const zlink_stream_t *stream);

/* What its user has admitted and will write later: charged as if it were written. Of `oversize_bytes`, of something
 * that is larger than the limit and was admitted alone, half of the limit is charged at most, so that others pass it.
 */
void zlink_stream_owe(zlink_stream_t *stream, size_t bytes, size_t oversize_bytes);

/* Outbound and owed bytes. */
size_t zlink_stream_unsent_bytes(const zlink_stream_t *stream);

/* Larger than the limit, so that it is only admitted alone? */
bool zlink_stream_is_oversize(const zlink_stream_t *stream, size_t size);

/* While paused, `bytes` is not called; receiving goes on up to the input limit, then TCP stalls the sender. */
void zlink_stream_pause_intake(zlink_stream_t *stream);
void zlink_stream_resume_intake(zlink_stream_t *stream);

/* From `bytes`: offer the rest again in the next tick, when the other connections have had their turn. */
void zlink_stream_offer_later(zlink_stream_t *stream);

/* From `bytes`: this many bytes are needed in one piece before anything can be consumed (the input limit does not
 * apply below it). Taken back when they have been offered. */
void zlink_stream_expect(zlink_stream_t *stream, size_t size);

/* From `bytes`, for a large message: the memory in which `data` lies becomes the caller's (zlink_free), so that nothing
 * is copied. NULL: it lies elsewhere, or with too much else around it to be worth its memory, or there is no memory;
 * copy. After it the callback consumes exactly up to the end of this data and looks at nothing behind it; what is there
 * is offered anew. */
void *zlink_stream_take_memory(zlink_stream_t *stream, const uint8_t *data, size_t size);

/* Orderly. `reason` is copied and handed to `closed` with ZLINK_OK. */
void zlink_stream_close(zlink_stream_t *stream, const char *reason);

/* Orderly towards the peer, but `closed` reports `status`: for refusals that the peer should still read. */
void zlink_stream_close_with(zlink_stream_t *stream, zlink_status_t status, const char *reason);

/* At once: what is queued is dropped. Only the first close or abort sets status and reason. */
void zlink_stream_abort(zlink_stream_t *stream, zlink_status_t status, const char *reason);

/* NULL without TLS and before `opened`. Valid as long as the stream. */
const zlink_peer_identity_t *zlink_stream_peer_identity(const zlink_stream_t *stream);

/* Would its peer be let in by `tls` as well, of what the handshake's arithmetic does not have to be done again for:
 * name, dates, revocation? One that has not ended its handshake would not, as it goes by what was in force before;
 * a plain or closing stream is left alone. `reason` has `size` bytes and is set with false. */
bool zlink_stream_is_trusted_by(const zlink_stream_t *stream, const zlink_tls_context_t *tls, char *reason,
                                size_t size);

/* "ECDHE-ECDSA-AES128-GCM-SHA256"; "" without TLS. */
const char *zlink_stream_cipher(const zlink_stream_t *stream);

/* "10.0.0.7:5001", "[::1]:5001" or "unix:/path". Never NULL. */
const char *zlink_stream_peer_address(const zlink_stream_t *stream);

/* Has the peer's kernel acknowledged nothing for `quiet_ms`, although what is on its way to it was sent again and
 * again? A peer that does not read is heard all the same. False where the kernel cannot tell, as of a unix socket. */
bool zlink_stream_is_unheard(const zlink_stream_t *stream, uint32_t quiet_ms);

zlink_reactor_t *zlink_stream_reactor(const zlink_stream_t *stream);

#endif
