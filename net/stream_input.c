/* The receiving half of a stream. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "net/stream_internal.h"

ZLINK_COUNTER_DEFINE(zlink_counter_net_bytes_received, ZLINK_COUNTER, "zlink.net.bytes.received",
                     "Bytes received from sockets");
ZLINK_COUNTER_DEFINE(zlink_counter_net_buffers_starved, ZLINK_COUNTER, "zlink.net.buffers.starved",
                     "Receives that ended because no receive buffer was left");

#define RECEIVE_BYTES_MAX (1u << 20)
#define OWN_MEMORY_MIN    32768u
#define EXPECTED_SLACK    16384u /* what comes behind the expected bytes in the same record */

/* The callback takes some of `bytes`. What it says is checked: a wrong number would lose or repeat bytes. */
static size_t input_give(zlink_stream_t *stream, const uint8_t *bytes, size_t size)
{
    size_t used;

    stream->expected = 0;
    stream->taken = 0;
    used = stream->events->bytes(stream, bytes, size);
    assert(used <= size && (stream->taken == 0 || used == stream->taken));
    return used - stream->taken;
}

static bool input_may_offer(const zlink_stream_t *stream)
{
    return stream->state == ZLINK_STREAM_OPEN && !stream->paused;
}

static void input_offer(zlink_stream_t *stream)
{
    stream->offer_pending = false;
    do {
        const size_t size = zlink_byte_buffer_size(&stream->input);

        stream->taken = 0;
        if (!input_may_offer(stream) || size == 0 || size < stream->expected)
            return;
        size_t used = input_give(stream, zlink_byte_buffer_bytes(&stream->input), size);

        zlink_byte_buffer_consume(&stream->input, used);
    } while (stream->taken > 0 && !zlink_tick_task_is_waiting(&stream->offer));
}

/* A large message that has hardly begun gets memory of its own, which can be handed on with it, instead of a place in a
 * buffer that a backlog has made much larger. */
static bool input_fits_loosely(const zlink_stream_t *stream)
{
    return stream->expected >= OWN_MEMORY_MIN && stream->input.capacity / 2 > stream->expected &&
           zlink_byte_buffer_size(&stream->input) <= stream->expected / 4;
}

static bool input_change_memory(zlink_stream_t *stream, size_t size)
{
    zlink_byte_buffer_t own = {0};

    if (zlink_byte_buffer_reserve(&own, size) == NULL)
        return false;
    (void)zlink_byte_buffer_append(&own, zlink_byte_buffer_bytes(&stream->input),
                                   zlink_byte_buffer_size(&stream->input));
    zlink_byte_buffer_release(&stream->input);
    stream->input = own;
    return true;
}

/* One piece, however large, without doubling on the way. */
static bool input_make_room(zlink_stream_t *stream, size_t size, size_t slack)
{
    const size_t held = zlink_byte_buffer_size(&stream->input);

    if (input_fits_loosely(stream) && !input_change_memory(stream, stream->expected + slack))
        return false;
    if (stream->expected > held + size)
        size = stream->expected - held + slack;
    return zlink_byte_buffer_reserve(&stream->input, size) != NULL;
}

static void input_out_of_memory(zlink_stream_t *stream)
{
    zlink_stream_abort(stream, ZLINK_CAPACITY_EXCEEDED, "no memory for received bytes");
}

/* As few bytes as possible are moved out of the receive buffer: only what completes the piece that was begun there.
 * What comes behind it is offered where it lies. */
static void input_take_plain(zlink_stream_t *stream, const uint8_t *bytes, size_t size)
{
    while (size > 0 && stream->state == ZLINK_STREAM_OPEN) {
        const size_t held = zlink_byte_buffer_size(&stream->input);
        const bool may_offer = input_may_offer(stream) && !zlink_tick_task_is_waiting(&stream->offer);
        size_t part = size;

        if (may_offer && held == 0 && size >= stream->expected) {
            const size_t used = input_give(stream, bytes, size);

            bytes += used;
            size -= used;
            if (size == 0 || stream->state != ZLINK_STREAM_OPEN)
                return;
            part = size;
        } else if (may_offer && stream->expected > held && stream->expected - held < size) {
            part = stream->expected - held;
        }
        if (!input_make_room(stream, part, 0) || !zlink_byte_buffer_append(&stream->input, bytes, part)) {
            input_out_of_memory(stream);
            return;
        }
        bytes += part;
        size -= part;
        if (held > 0 && !zlink_tick_task_is_waiting(&stream->offer))
            input_offer(stream);
    }
}

void zlink_stream_feed_tls(zlink_stream_t *stream, const uint8_t *bytes, size_t size)
{
    bool more = true;

    while (more && stream->state == ZLINK_STREAM_OPEN) {
        size_t used = 0;

        if (stream->expected > zlink_byte_buffer_size(&stream->input) && !input_make_room(stream, 0, EXPECTED_SLACK)) {
            input_out_of_memory(stream);
            return;
        }
        switch (zlink_tls_session_feed(stream->tls, bytes, size, &used, &stream->input, &stream->wire)) {
        case ZLINK_TLS_HANDSHAKEN: /* was before it was opened */
        case ZLINK_TLS_MORE:
            more = false;
            break;
        case ZLINK_TLS_ENDED:
            stream->peer_ended = stream->peer_ended_cleanly = true;
            more = false;
            break;
        case ZLINK_TLS_FAILED:
            /* Bytes decrypted before the failure are not handed on: nobody knows what else is wrong with them. */
            zlink_stream_tls_failed(stream);
            return;
        }
        if (used > 0) {
            bytes += used;
            size -= used;
        }
    }
    if (!zlink_tick_task_is_waiting(&stream->offer))
        input_offer(stream);
}

static void input_take(zlink_stream_t *stream, size_t size, uint32_t flags)
{
    const uint8_t *bytes = zlink_reactor_buffer(stream->reactor, flags);

    zlink_counter_add(&zlink_counter_net_bytes_received, (int64_t)size);
    /* A closing stream drops what comes: it only waits for the end. */
    if (stream->state > ZLINK_STREAM_OPEN || stream->peer_ended)
        return;
    if (stream->trust == NULL)
        input_take_plain(stream, bytes, size);
    else if (stream->state == ZLINK_STREAM_HANDSHAKING)
        zlink_stream_handshake_collect(stream, bytes, size);
    else
        zlink_stream_feed_tls(stream, bytes, size);
}

void zlink_stream_received(zlink_stream_t *stream, int32_t result, uint32_t flags)
{
    /* Whether the receive goes on is told by this flag alone, whatever `result` is. */
    if ((flags & IORING_CQE_F_MORE) == 0) {
        stream->receive_armed = false;
        stream->receive_cancelling = false;
    }
    if (result > 0) {
        if ((flags & IORING_CQE_F_BUFFER) == 0)
            zlink_stream_abort(stream, ZLINK_INTERNAL_FAILURE, "the kernel named no buffer for received bytes");
        else
            input_take(stream, (size_t)result, flags);
        return;
    }
    switch (-result) {
    case 0: /* the end; there is no buffer in this completion */
        stream->peer_ended_cleanly = stream->peer_ended_cleanly || stream->trust == NULL;
        stream->peer_ended = true;
        break;
    case ENOBUFS: /* the bytes are still in the socket: armed again when buffers are back, not before */
        zlink_counter_add(&zlink_counter_net_buffers_starved, 1);
        if (stream->state < ZLINK_STREAM_CLOSING)
            zlink_tick_list_add(zlink_reactor_starved(stream->reactor), &stream->starved);
        break;
    case ECANCELED:
    case EINTR:
    case EAGAIN:
        break;
    case EINVAL:
        if ((zlink_reactor_features(stream->reactor) & ZLINK_RING_MULTISHOT_RECV) != 0) {
            zlink_reactor_lose_feature(stream->reactor, ZLINK_RING_MULTISHOT_RECV);
            break;
        }
        /* fall through */
    default:
        if (stream->state == ZLINK_STREAM_HANDSHAKING && stream->trust != NULL)
            zlink_stream_log_refused(stream, strerror(-result));
        zlink_stream_abort(stream, ZLINK_UNAVAILABLE, strerror(-result));
        break;
    }
}

/* ---- arming ---- */

static void input_arm(zlink_stream_t *stream)
{
    struct io_uring_sqe *sqe = zlink_reactor_sqe(stream->reactor);

    if ((zlink_reactor_features(stream->reactor) & ZLINK_RING_MULTISHOT_RECV) != 0)
        io_uring_prep_recv_multishot(sqe, stream->fd, NULL, 0, 0);
    else
        io_uring_prep_recv(sqe, stream->fd, NULL, RECEIVE_BYTES_MAX, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = ZLINK_BUFFER_RING_GROUP;
    zlink_reactor_start(stream->reactor, sqe, &stream->slot, ZLINK_STREAM_OPERATION_RECEIVE);
    stream->receive_armed = true;
}

static void input_cancel(zlink_stream_t *stream)
{
    struct io_uring_sqe *sqe = zlink_reactor_sqe(stream->reactor);

    io_uring_prep_cancel64(sqe, zlink_ring_slot_user_data(&stream->slot, ZLINK_STREAM_OPERATION_RECEIVE), 0);
    zlink_reactor_start(stream->reactor, sqe, &stream->slot, ZLINK_STREAM_OPERATION_CANCEL);
    stream->receive_cancelling = true;
}

void zlink_stream_input_settle(zlink_stream_t *stream)
{
    size_t limit;
    bool full;

    if (stream->offer_pending)
        input_offer(stream);
    /* Not at once in the close: that may come from inside the callback that still looks at these bytes. */
    if (stream->state > ZLINK_STREAM_OPEN)
        zlink_byte_buffer_release(&stream->input);
    zlink_stream_trim_later(stream);
    limit = stream->expected > stream->limits.input_bytes ? stream->expected : stream->limits.input_bytes;
    full = zlink_byte_buffer_size(&stream->input) >= limit || zlink_stream_handshake_is_full(stream);
    if (stream->state == ZLINK_STREAM_OPEN && full && !stream->paused && !stream->offer_pending &&
        !zlink_tick_task_is_waiting(&stream->offer)) {
        zlink_stream_abort(stream, ZLINK_CAPACITY_EXCEEDED, "the input limit is reached and nothing is consumed");
        return;
    }
    if (stream->state < ZLINK_STREAM_HANDSHAKING || stream->state >= ZLINK_STREAM_CLOSING || stream->peer_ended)
        return;
    if (full && stream->receive_armed && !stream->receive_cancelling)
        input_cancel(stream); /* from here TCP makes the sender wait */
    if (!full && !stream->receive_armed && !zlink_tick_task_is_waiting(&stream->starved))
        input_arm(stream);
}

/* ---- the public part ---- */

void zlink_stream_pause_intake(zlink_stream_t *stream)
{
    assert(zlink_reactor_is_current(stream->reactor));
    stream->paused = true;
}

void zlink_stream_resume_intake(zlink_stream_t *stream)
{
    assert(zlink_reactor_is_current(stream->reactor));
    stream->paused = false;
    stream->offer_pending = true;
    zlink_stream_settle_later(stream);
}

void zlink_stream_offer_later(zlink_stream_t *stream)
{
    assert(zlink_reactor_is_current(stream->reactor));
    if (stream->state == ZLINK_STREAM_OPEN)
        zlink_tick_list_add(zlink_reactor_next_tick(stream->reactor), &stream->offer);
}

void *zlink_stream_take_memory(zlink_stream_t *stream, const uint8_t *data, size_t size)
{
    zlink_byte_buffer_t *input = &stream->input;
    zlink_byte_buffer_t rest = {0};
    uint8_t *memory = input->data;

    assert(zlink_reactor_is_current(stream->reactor) && stream->taken == 0);
    if (memory == NULL || data < memory + input->start || data + size > memory + input->end ||
        input->capacity / 2 > size)
        return NULL;
    const size_t behind = (size_t)(data - memory) + size;

    if (!zlink_byte_buffer_append(&rest, memory + behind, input->end - behind))
        return NULL;
    stream->taken = behind - input->start;
    *input = rest;
    return memory;
}

void zlink_stream_expect(zlink_stream_t *stream, size_t size)
{
    stream->expected = size;
}
