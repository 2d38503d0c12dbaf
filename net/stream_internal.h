/*
 * net/stream_internal.h: the stream's inside, shared by stream.c (life), stream_handshake.c, stream_input.c and
 * stream_output.c, and what
 * listeners and dialers need to make one. Reactor thread only.
 *
 * Three output buffers: `plain` collects what is written in this tick; with TLS it is sealed into `wire`; `sending` is
 * what the kernel has in its hands and is not touched until the send's completion. Without TLS `plain` and `sending`
 * are swapped and `wire` stays empty; only then bytes are held instead of copied, as the cipher copies anyway.
 */
#ifndef ZLINK_NET_STREAM_INTERNAL_H
#define ZLINK_NET_STREAM_INTERNAL_H

#include <sys/socket.h>

#include "base/counters.h"
#include "net/address_counts.h"
#include "net/byte_buffer.h"
#include "net/connector.h"
#include "net/handshake_pool.h"
#include "net/reactor_loop.h"
#include "net/stream.h"
#include "net/tls_session.h"

#define ZLINK_STREAM_OPERATION_RECEIVE 1u
#define ZLINK_STREAM_OPERATION_SEND    2u
#define ZLINK_STREAM_OPERATION_CANCEL  3u

#define ZLINK_STREAM_PIECES_MAX 8u /* of one send */

typedef enum zlink_stream_state {
    ZLINK_STREAM_CONNECTING,  /* no socket yet */
    ZLINK_STREAM_HANDSHAKING, /* a socket; TLS under way (without TLS only until the end of the tick) */
    ZLINK_STREAM_OPEN,
    ZLINK_STREAM_FLUSHING,  /* closing: what was written still goes out, what comes is dropped */
    ZLINK_STREAM_LINGERING, /* our direction has ended; waiting for the peer to end too */
    ZLINK_STREAM_CLOSING,   /* cancelled; waiting until the kernel holds nothing */
    ZLINK_STREAM_CLOSED,
} zlink_stream_state_t;

struct zlink_stream {
    zlink_reactor_t *reactor;
    zlink_resident_t resident;
    zlink_ring_slot_t slot;
    zlink_stream_state_t state;
    int fd;
    const zlink_stream_events_t *events;
    void *context;
    zlink_stream_limits_t limits;

    zlink_connector_t *connector;     /* CONNECTING */
    const zlink_tls_context_t *trust; /* NULL: plain */
    zlink_tls_session_t *tls;         /* made with the first record; a helper's while `job.away` */
    zlink_tls_side_t side;
    zlink_tls_resumption_t *resumption; /* of the dialer; NULL: none */
    zlink_handshake_job_t job;
    zlink_byte_buffer_t collected; /* HANDSHAKING: what came and no helper has */
    zlink_timer_t deadline;        /* of the handshake, later of the close */
    zlink_timer_t trim;            /* gives big idle buffers back */
    zlink_tick_task_t settle;
    zlink_tick_task_t starved;
    zlink_tick_task_t offer;
    zlink_tick_task_t gone;

    /* Input. */
    zlink_byte_buffer_t input; /* plain bytes that were not consumed */
    size_t expected;
    size_t taken; /* how many of the bytes that are being offered went away with their memory */
    bool receive_armed;
    bool receive_cancelling;
    bool paused;
    bool offer_pending; /* offer what is there at the end of the tick */
    bool peer_ended;    /* the peer sends nothing more */
    bool peer_ended_cleanly;
    bool ended_told;

    /* Output. */
    zlink_output_queue_t plain;
    zlink_byte_buffer_t wire;
    zlink_output_queue_t sending;
    struct msghdr message; /* of a send in several pieces */
    struct iovec pieces[ZLINK_STREAM_PIECES_MAX];
    size_t plain_cost;   /* of the writes that are in `plain` … */
    size_t sending_cost; /* … and in `sending`: charged until that is empty */
    size_t plain_forced; /* of the charge of `plain`: what was written without asking */
    size_t owed_bytes;
    size_t owed_oversize_bytes;
    bool send_armed;
    bool end_sealed;    /* close_notify was written */
    bool write_refused; /* `drained` is owed */
    bool room_wanted;   /* `room` is owed, at … */
    size_t room_bytes;  /* … so many outbound bytes */

    zlink_status_t end_status;
    bool end_decided;
    char end_reason[256];
    char peer[ZLINK_ADDRESS_TEXT_BYTES];

    /* The listener's: every change of state. NULL for a dialled stream. */
    void (*moved)(zlink_stream_t *stream, zlink_stream_state_t from);
    void *owner;
    zlink_address_count_t *counted; /* the listener's, too */
};

extern zlink_counter_t zlink_counter_net_bytes_sent;
extern zlink_counter_t zlink_counter_net_bytes_received;

/* CONNECTING, without a socket. `tls` NULL: plain. `events` may come later. */
zlink_status_t zlink_stream_create(zlink_reactor_t *reactor, const zlink_tls_context_t *tls, zlink_tls_side_t side,
                                   const zlink_stream_events_t *events, const zlink_stream_limits_t *limits,
                                   zlink_stream_t **stream);
/* Gives it a connected socket. */
void zlink_stream_attach(zlink_stream_t *stream, int fd, const char *peer);
/* Starts to connect. A failure is reported by `closed`. */
void zlink_stream_connect(zlink_stream_t *stream, const zlink_address_t *address);

/* Before it connects. Takes a hold. */
void zlink_stream_set_resumption(zlink_stream_t *stream, zlink_tls_resumption_t *resumption);

/* stream_handshake.c, for stream.c and stream_input.c */
void zlink_stream_handshake_init(zlink_stream_t *stream);
void zlink_stream_handshake_collect(zlink_stream_t *stream, const uint8_t *bytes, size_t size);
/* No more is to be received until a helper has taken what there is. */
bool zlink_stream_handshake_is_full(const zlink_stream_t *stream);
/* At the end of a tick: hands the session to a helper if it can get on. */
void zlink_stream_handshake_settle(zlink_stream_t *stream);
/* The stream closes: if no helper has begun with it the session comes back at once. */
void zlink_stream_handshake_withdraw(zlink_stream_t *stream);
void zlink_stream_handshake_release(zlink_stream_t *stream);
void zlink_stream_log_refused(zlink_stream_t *stream, const char *reason);

/* stream.c, for the other files. */
void zlink_stream_settle_later(zlink_stream_t *stream);
void zlink_stream_handshaken(zlink_stream_t *stream);
/* TLS failed: the alert in `wire` still goes out. */
void zlink_stream_tls_failed(zlink_stream_t *stream);
void zlink_stream_trim_later(zlink_stream_t *stream);

/* stream_input.c */
void zlink_stream_received(zlink_stream_t *stream, int32_t result, uint32_t flags);
/* OPEN: decrypts and offers. */
void zlink_stream_feed_tls(zlink_stream_t *stream, const uint8_t *bytes, size_t size);
/* At the end of a tick: offers what is owed, then arms or cancels the receive. */
void zlink_stream_input_settle(zlink_stream_t *stream);

/* stream_output.c */
void zlink_stream_sent(zlink_stream_t *stream, int32_t result);
/* At the end of a tick: seals and sends. */
void zlink_stream_output_settle(zlink_stream_t *stream);

#endif
