#include "net/stream.h"

#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/container_of.h"
#include "base/log.h"
#include "base/memory.h"
#include "net/stream_internal.h"

#define OUTPUT_BYTES_DEFAULT      (4u * 1024u * 1024u)
#define OUTPUT_HARD_BYTES_DEFAULT (64u * 1024u * 1024u)
#define INPUT_BYTES_DEFAULT       (1024u * 1024u)
#define HANDSHAKE_TIMEOUT_MS      5000u
#define LINGER_MS                 5000u
#define TRIM_AFTER_MS             1000u
#define RETRANSMIT_MAX_MS         15000
#define UNHEARD_RETRANSMITS       4

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44 /* Linux 6.15 */
#endif

ZLINK_COUNTER_DEFINE(zlink_counter_net_connections_open, ZLINK_GAUGE, "zlink.net.connections.open",
                     "Sockets that are connected now");

#define MAY(STATE) (1u << (ZLINK_STREAM_##STATE))

/* From each state, where a stream may go. */
static const unsigned transitions[] = {
    [ZLINK_STREAM_CONNECTING] = MAY(HANDSHAKING) | MAY(CLOSING),
    [ZLINK_STREAM_HANDSHAKING] = MAY(OPEN) | MAY(FLUSHING) | MAY(CLOSING),
    [ZLINK_STREAM_OPEN] = MAY(FLUSHING) | MAY(CLOSING),
    [ZLINK_STREAM_FLUSHING] = MAY(LINGERING) | MAY(CLOSING),
    [ZLINK_STREAM_LINGERING] = MAY(CLOSING),
    [ZLINK_STREAM_CLOSING] = MAY(CLOSED),
    [ZLINK_STREAM_CLOSED] = 0,
};

static void stream_move(zlink_stream_t *stream, zlink_stream_state_t to)
{
    const zlink_stream_state_t from = stream->state;

    assert((transitions[from] & 1u << to) != 0);
    stream->state = to;
    if (stream->moved != NULL)
        stream->moved(stream, from);
}

void zlink_stream_settle_later(zlink_stream_t *stream)
{
    if (stream->state != ZLINK_STREAM_CLOSED)
        zlink_tick_list_add(zlink_reactor_tick_end(stream->reactor), &stream->settle);
}

/* The first reason stays. */
static bool stream_decide_end(zlink_stream_t *stream, zlink_status_t status, const char *reason)
{
    if (stream->end_decided)
        return false;
    stream->end_decided = true;
    stream->end_status = status;
    snprintf(stream->end_reason, sizeof(stream->end_reason), "%s", reason == NULL ? "" : reason);
    return true;
}

/* ---- the end ---- */

static void stream_free(zlink_tick_task_t *task)
{
    zlink_stream_t *stream = ZLINK_CONTAINER_OF(task, zlink_stream_t, gone);

    assert(stream->slot.in_flight == 0);
    zlink_stream_handshake_release(stream);
    zlink_tls_context_release(stream->trust);
    zlink_byte_buffer_release(&stream->input);
    zlink_output_queue_release(&stream->plain);
    zlink_byte_buffer_release(&stream->wire);
    zlink_output_queue_release(&stream->sending);
    zlink_free(stream);
}

/* Nothing of it is with the kernel: give the socket back and tell. */
static void stream_finish(zlink_stream_t *stream)
{
    zlink_reactor_t *reactor = stream->reactor;

    if (stream->fd >= 0) {
        close(stream->fd);
        stream->fd = -1;
        zlink_counter_add(&zlink_counter_net_connections_open, -1);
    }
    stream_move(stream, ZLINK_STREAM_CLOSED);
    zlink_reactor_slot_remove(reactor, &stream->slot);
    zlink_reactor_resident_remove(reactor, &stream->resident);
    zlink_reactor_timer_cancel(reactor, &stream->deadline);
    zlink_reactor_timer_cancel(reactor, &stream->trim);
    zlink_tick_list_remove(zlink_reactor_next_tick(reactor), &stream->offer);
    zlink_tick_list_remove(zlink_reactor_starved(reactor), &stream->starved);
    zlink_tick_list_remove(zlink_reactor_tick_end(reactor), &stream->settle);
    if (stream->events != NULL)
        stream->events->closed(stream, stream->end_status, stream->end_reason);
    zlink_tick_list_add(zlink_reactor_frees(reactor), &stream->gone);
}

/* Ends both directions and takes back what the kernel still does for this socket. close() would not: a receive that
 * waits holds the socket open, and the peer would not even see the end. */
static void stream_start_closing(zlink_stream_t *stream)
{
    stream_move(stream, ZLINK_STREAM_CLOSING);
    zlink_stream_handshake_withdraw(stream);
    if (stream->connector != NULL) {
        zlink_connector_cancel(stream->connector);
        stream->connector = NULL;
    }
    if (stream->fd >= 0) {
        (void)shutdown(stream->fd, SHUT_RDWR);
        if (stream->slot.in_flight > 0) {
            struct io_uring_sqe *sqe = zlink_reactor_sqe(stream->reactor);

            io_uring_prep_cancel_fd(sqe, stream->fd, IORING_ASYNC_CANCEL_ALL);
            zlink_reactor_start(stream->reactor, sqe, &stream->slot, ZLINK_STREAM_OPERATION_CANCEL);
        }
    }
    zlink_stream_settle_later(stream);
}

static void stream_start_flushing(zlink_stream_t *stream)
{
    stream_move(stream, ZLINK_STREAM_FLUSHING);
    zlink_reactor_timer_start(stream->reactor, &stream->deadline, zlink_reactor_now_ms(stream->reactor) + LINGER_MS);
    zlink_stream_settle_later(stream);
}

void zlink_stream_close(zlink_stream_t *stream, const char *reason)
{
    zlink_stream_close_with(stream, ZLINK_OK, reason);
}

void zlink_stream_close_with(zlink_stream_t *stream, zlink_status_t status, const char *reason)
{
    assert(zlink_reactor_is_current(stream->reactor));
    if (!stream_decide_end(stream, status, reason))
        return;
    if (stream->state == ZLINK_STREAM_OPEN)
        stream_start_flushing(stream);
    else
        stream_start_closing(stream);
}

void zlink_stream_abort(zlink_stream_t *stream, zlink_status_t status, const char *reason)
{
    assert(zlink_reactor_is_current(stream->reactor));
    (void)stream_decide_end(stream, status, reason);
    if (stream->state < ZLINK_STREAM_CLOSING)
        stream_start_closing(stream);
}

static void stream_stop(zlink_resident_t *resident)
{
    zlink_stream_close_with(ZLINK_CONTAINER_OF(resident, zlink_stream_t, resident), ZLINK_SHUTTING_DOWN,
                            "this node stops");
}

/* ---- the handshake ---- */

void zlink_stream_handshaken(zlink_stream_t *stream)
{
    zlink_reactor_timer_cancel(stream->reactor, &stream->deadline);
    stream_move(stream, ZLINK_STREAM_OPEN);
    if (stream->events == NULL)
        zlink_stream_abort(stream, ZLINK_NOT_CONFIGURED, "nobody took the connection");
    else if (stream->events->opened != NULL)
        stream->events->opened(stream);
}

void zlink_stream_tls_failed(zlink_stream_t *stream)
{
    const char *reason = zlink_tls_session_reason(stream->tls);
    const bool handshaking = stream->state == ZLINK_STREAM_HANDSHAKING;

    if (handshaking)
        zlink_stream_log_refused(stream, reason);
    else
        zlink_log(ZLINK_LOG_WARN, "zlink.net.tls.failed", ZLINK_LOG_S("address", stream->peer),
                  ZLINK_LOG_S("reason", reason));
    if (!stream_decide_end(stream, handshaking ? ZLINK_REJECTED : ZLINK_PROTOCOL_ERROR, reason))
        return;
    /* What was written and not sealed can never be sealed now; the alert in `wire` goes out. */
    zlink_output_queue_release(&stream->plain);
    stream_start_flushing(stream);
}

static void stream_deadline(zlink_timer_t *timer)
{
    zlink_stream_t *stream = ZLINK_CONTAINER_OF(timer, zlink_stream_t, deadline);

    if (stream->state == ZLINK_STREAM_HANDSHAKING) {
        zlink_stream_log_refused(stream, "not finished within 5 s");
        zlink_stream_abort(stream, ZLINK_UNAVAILABLE, "the TLS handshake was not finished within 5 s");
    } else if (stream->state == ZLINK_STREAM_OPEN) {
        /* The peer has ended, but what it sent before was not taken for 5 s. */
        stream->paused = false;
        zlink_stream_abort(stream, ZLINK_UNAVAILABLE, "closed by the peer");
    } else {
        zlink_stream_abort(stream, stream->end_status, stream->end_reason);
    }
}

/* ---- the tick ---- */

static void stream_complete(zlink_ring_slot_t *slot, unsigned operation, int32_t result, uint32_t flags)
{
    zlink_stream_t *stream = ZLINK_CONTAINER_OF(slot, zlink_stream_t, slot);

    if (operation == ZLINK_STREAM_OPERATION_RECEIVE)
        zlink_stream_received(stream, result, flags);
    else if (operation == ZLINK_STREAM_OPERATION_SEND)
        zlink_stream_sent(stream, result);
    else
        stream->receive_cancelling = false; /* where it did not help, it is tried again */
    zlink_stream_settle_later(stream);
}

static void stream_settle_peer_end(zlink_stream_t *stream)
{
    const bool leftover = zlink_byte_buffer_size(&stream->input) > 0;

    if (!stream->ended_told) {
        stream->ended_told = true;
        if (stream->events->ended != NULL)
            stream->events->ended(stream);
        if (stream->state != ZLINK_STREAM_OPEN)
            return;
    }
    /* Bytes that are there and can still be taken are offered first, for 5 s. */
    if (leftover && (stream->paused || zlink_tick_task_is_waiting(&stream->offer) || stream->offer_pending)) {
        if (!zlink_timer_is_running(&stream->deadline))
            zlink_reactor_timer_start(stream->reactor, &stream->deadline,
                                      zlink_reactor_now_ms(stream->reactor) + LINGER_MS);
        return;
    }
    if (!stream->peer_ended_cleanly)
        stream_decide_end(stream, ZLINK_UNAVAILABLE, "the connection was cut without TLS close_notify");
    else if (leftover)
        stream_decide_end(stream, ZLINK_UNAVAILABLE, "closed by the peer in the middle of a message");
    else
        stream_decide_end(stream, ZLINK_OK, "closed by the peer");
    stream_start_flushing(stream);
}

static bool stream_output_is_empty(const zlink_stream_t *stream)
{
    return !stream->send_armed && zlink_stream_outbound_bytes(stream) == 0;
}

static void stream_settle_close(zlink_stream_t *stream)
{
    if (stream->state == ZLINK_STREAM_FLUSHING && stream_output_is_empty(stream)) {
        if (stream->trust != NULL && !stream->end_sealed) {
            stream->end_sealed = true;
            zlink_tls_session_end(stream->tls, &stream->wire);
            zlink_stream_output_settle(stream);
        }
        if (stream->state == ZLINK_STREAM_FLUSHING && stream_output_is_empty(stream)) {
            (void)shutdown(stream->fd, SHUT_WR);
            stream_move(stream, ZLINK_STREAM_LINGERING);
        }
    }
    /* Closing with unread bytes would send a reset, which can overtake our last bytes: wait for the peer's end. */
    if (stream->state == ZLINK_STREAM_LINGERING && stream->peer_ended)
        stream_start_closing(stream);
    if (stream->state == ZLINK_STREAM_CLOSING && stream->slot.in_flight == 0 && !stream->job.away)
        stream_finish(stream);
}

static void stream_settle(zlink_tick_task_t *task)
{
    zlink_stream_t *stream = ZLINK_CONTAINER_OF(task, zlink_stream_t, settle);

    if (stream->state == ZLINK_STREAM_HANDSHAKING && stream->trust == NULL)
        zlink_stream_handshaken(stream); /* there is nothing to shake hands about */
    zlink_stream_handshake_settle(stream);
    zlink_stream_input_settle(stream);
    if (stream->state == ZLINK_STREAM_OPEN && stream->peer_ended)
        stream_settle_peer_end(stream);
    zlink_stream_output_settle(stream);
    stream_settle_close(stream);
}

static void stream_starved(zlink_tick_task_t *task)
{
    zlink_stream_settle_later(ZLINK_CONTAINER_OF(task, zlink_stream_t, starved));
}

static void stream_offer_again(zlink_tick_task_t *task)
{
    zlink_stream_t *stream = ZLINK_CONTAINER_OF(task, zlink_stream_t, offer);

    stream->offer_pending = true;
    zlink_stream_settle_later(stream);
}

static void stream_trim(zlink_timer_t *timer)
{
    zlink_stream_t *stream = ZLINK_CONTAINER_OF(timer, zlink_stream_t, trim);

    zlink_byte_buffer_trim(&stream->input);
    zlink_byte_buffer_trim(&stream->plain.copied);
    zlink_byte_buffer_trim(&stream->wire);
    if (!stream->send_armed)
        zlink_byte_buffer_trim(&stream->sending.copied);
}

/* Only after a second, so that a busy stream keeps its buffers. */
void zlink_stream_trim_later(zlink_stream_t *stream)
{
    const bool big = stream->input.capacity > ZLINK_BYTE_BUFFER_IDLE_BYTES ||
                     stream->plain.copied.capacity > ZLINK_BYTE_BUFFER_IDLE_BYTES ||
                     stream->wire.capacity > ZLINK_BYTE_BUFFER_IDLE_BYTES ||
                     stream->sending.copied.capacity > ZLINK_BYTE_BUFFER_IDLE_BYTES;

    if (big && !zlink_timer_is_running(&stream->trim) && stream->state < ZLINK_STREAM_CLOSING)
        zlink_reactor_timer_start(stream->reactor, &stream->trim,
                                  zlink_reactor_now_ms(stream->reactor) + TRIM_AFTER_MS);
}

/* ---- making one ---- */

zlink_status_t zlink_stream_create(zlink_reactor_t *reactor, const zlink_tls_context_t *tls, zlink_tls_side_t side,
                                   const zlink_stream_events_t *events, const zlink_stream_limits_t *limits,
                                   zlink_stream_t **stream_out)
{
    zlink_stream_t *stream = zlink_calloc(1, sizeof(*stream));

    if (stream == NULL)
        return ZLINK_CAPACITY_EXCEEDED;
    stream->reactor = reactor;
    stream->fd = -1;
    stream->side = side;
    stream->events = events;
    stream->limits = *limits;
    if (stream->limits.output_bytes == 0)
        stream->limits.output_bytes = OUTPUT_BYTES_DEFAULT;
    if (stream->limits.output_hard_bytes == 0)
        stream->limits.output_hard_bytes = OUTPUT_HARD_BYTES_DEFAULT;
    if (stream->limits.input_bytes == 0)
        stream->limits.input_bytes = INPUT_BYTES_DEFAULT;
    stream->slot.complete = stream_complete;
    stream->resident.stop = stream_stop;
    stream->deadline.fire = stream_deadline;
    stream->trim.fire = stream_trim;
    stream->settle.run = stream_settle;
    stream->starved.run = stream_starved;
    stream->offer.run = stream_offer_again;
    stream->gone.run = stream_free;
    zlink_stream_handshake_init(stream);
    if (zlink_reactor_slot_add(reactor, &stream->slot) != ZLINK_OK) {
        zlink_free(stream);
        return ZLINK_CAPACITY_EXCEEDED;
    }
    if (tls != NULL)
        stream->trust = zlink_tls_context_hold(tls);
    zlink_reactor_resident_add(reactor, &stream->resident);
    *stream_out = stream;
    return ZLINK_OK;
}

void zlink_stream_attach(zlink_stream_t *stream, int fd, const char *peer)
{
    const int on = 1, retransmit_max_ms = RETRANSMIT_MAX_MS;

    /* We collect a tick's writes ourselves; the kernel must not wait for more. (Fails on a unix socket.) */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    /* Where a network was slow, TCP waits up to two minutes before it sends again what was lost: so long calls would
     * hang although the network is well again. Not shorter than liveness, or a slow one would be filled with what is
     * only late. (Older kernels know no other wait.) */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, &retransmit_max_ms, sizeof(retransmit_max_ms));
    stream->fd = fd;
    snprintf(stream->peer, sizeof(stream->peer), "%s", peer);
    zlink_counter_add(&zlink_counter_net_connections_open, 1);
    stream_move(stream, ZLINK_STREAM_HANDSHAKING);
    zlink_reactor_timer_start(stream->reactor, &stream->deadline,
                              zlink_reactor_now_ms(stream->reactor) + HANDSHAKE_TIMEOUT_MS);
    zlink_stream_settle_later(stream);
}

static void stream_connected(void *context, int fd, const zlink_endpoint_t *peer, const char *reason)
{
    zlink_stream_t *stream = context;
    char text[ZLINK_ADDRESS_TEXT_BYTES];

    stream->connector = NULL;
    if (fd < 0) {
        zlink_stream_abort(stream, ZLINK_UNAVAILABLE, reason);
        return;
    }
    zlink_endpoint_text(peer, text);
    zlink_stream_attach(stream, fd, text); /* at the end of the tick the handshake begins */
}

void zlink_stream_connect(zlink_stream_t *stream, const zlink_address_t *address)
{
    assert(stream->state == ZLINK_STREAM_CONNECTING && stream->connector == NULL);
    snprintf(stream->peer, sizeof(stream->peer), "%s", address->text);
    if (zlink_connector_start(stream->reactor, address, stream_connected, stream, &stream->connector) != ZLINK_OK)
        zlink_stream_abort(stream, ZLINK_CAPACITY_EXCEEDED, "no memory to connect");
}

/* ---- small things ---- */

void zlink_stream_set_events(zlink_stream_t *stream, const zlink_stream_events_t *events)
{
    assert(stream->state <= ZLINK_STREAM_HANDSHAKING && events->bytes != NULL && events->closed != NULL);
    stream->events = events;
}

void zlink_stream_set_context(zlink_stream_t *stream, void *context)
{
    stream->context = context;
}

void *zlink_stream_context(const zlink_stream_t *stream)
{
    return stream->context;
}

const zlink_peer_identity_t *zlink_stream_peer_identity(const zlink_stream_t *stream)
{
    return stream->tls == NULL || stream->job.away ? NULL : zlink_tls_session_identity(stream->tls);
}

bool zlink_stream_is_trusted_by(const zlink_stream_t *stream, const zlink_tls_context_t *tls, char *reason, size_t size)
{
    const bool stays = stream->trust == NULL || stream->trust == tls || stream->state > ZLINK_STREAM_OPEN;

    if (!stays && stream->state == ZLINK_STREAM_OPEN)
        return zlink_tls_session_is_trusted_by(stream->tls, tls, reason, size);
    if (!stays)
        snprintf(reason, size, "the certificates were read anew while it shook hands");
    return stays;
}

const char *zlink_stream_cipher(const zlink_stream_t *stream)
{
    return stream->tls == NULL || stream->job.away ? "" : zlink_tls_session_cipher(stream->tls);
}

const char *zlink_stream_peer_address(const zlink_stream_t *stream)
{
    return stream->peer;
}

bool zlink_stream_is_unheard(const zlink_stream_t *stream, uint32_t quiet_ms)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof(info);

    if (stream->fd < 0 || getsockopt(stream->fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return false;
    /* On a slow network an acknowledgement may take long, but then TCP has not repeated itself so often. */
    return info.tcpi_unacked > 0 && info.tcpi_retransmits >= UNHEARD_RETRANSMITS && info.tcpi_last_ack_recv >= quiet_ms;
}

zlink_reactor_t *zlink_stream_reactor(const zlink_stream_t *stream)
{
    return stream->reactor;
}
