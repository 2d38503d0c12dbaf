/* The sending half of a stream. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "net/stream_internal.h"

#define SEND_BYTES_MAX   (256u * 1024u) /* of one send: progress shows at least this often */
#define SEAL_BYTES_MAX   (256u * 1024u) /* sealed at once: the loop is not held longer than about a millisecond */
#define RECORD_BYTES_MAX 16384u
#define HOLD_BYTES_MIN   16384u /* below it a copy costs less than a piece of its own */

ZLINK_COUNTER_DEFINE(zlink_counter_net_bytes_sent, ZLINK_COUNTER, "zlink.net.bytes.sent", "Bytes sent to sockets");
ZLINK_COUNTER_DEFINE(zlink_counter_net_records_sealed, ZLINK_COUNTER, "zlink.net.records.sealed",
                     "TLS records sealed for sending");

size_t zlink_stream_outbound_bytes(const zlink_stream_t *stream)
{
    return zlink_output_queue_size(&stream->plain) + zlink_byte_buffer_size(&stream->wire) +
           zlink_output_queue_size(&stream->sending);
}

size_t zlink_stream_unsent_bytes(const zlink_stream_t *stream)
{
    return zlink_stream_outbound_bytes(stream) + stream->owed_bytes + stream->owed_oversize_bytes;
}

/* ---- the charge: what counts against the limit ---- */

/* Where a full stream opens again. */
static size_t low_mark(const zlink_stream_t *stream)
{
    return stream->limits.output_bytes - stream->limits.output_bytes / 2;
}

static size_t charged_bytes(const zlink_stream_t *stream)
{
    const size_t low = low_mark(stream);
    const size_t oversize = stream->owed_oversize_bytes;

    return zlink_stream_outbound_bytes(stream) + stream->plain_cost + stream->sending_cost + stream->owed_bytes +
           (oversize < low ? oversize : low);
}

bool zlink_stream_is_oversize(const zlink_stream_t *stream, size_t size)
{
    return size + stream->limits.write_cost > stream->limits.output_bytes;
}

void zlink_stream_owe(zlink_stream_t *stream, size_t bytes, size_t oversize_bytes)
{
    assert(zlink_reactor_is_current(stream->reactor));
    stream->owed_bytes = bytes;
    stream->owed_oversize_bytes = oversize_bytes;
    if (stream->write_refused)
        zlink_stream_settle_later(stream);
}

/* ---- writing ---- */

static zlink_status_t write_check(const zlink_stream_t *stream)
{
    assert(zlink_reactor_is_current(stream->reactor));
    if (stream->state < ZLINK_STREAM_OPEN)
        return ZLINK_INVALID_OPERATION;
    return stream->state == ZLINK_STREAM_OPEN ? ZLINK_OK : ZLINK_UNAVAILABLE;
}

/* All or none: the room is made first. */
static zlink_status_t write_take(zlink_stream_t *stream, const zlink_slice_t *slices, unsigned count, size_t size)
{
    if (size == 0)
        return ZLINK_OK;
    if (zlink_byte_buffer_reserve(&stream->plain.copied, size) == NULL)
        return ZLINK_CAPACITY_EXCEEDED;
    for (unsigned i = 0; i < count; i++)
        (void)zlink_byte_buffer_append(&stream->plain.copied, slices[i].data, slices[i].size);
    stream->plain_cost += stream->limits.write_cost;
    zlink_stream_settle_later(stream);
    return ZLINK_OK;
}

static size_t slices_size(const zlink_slice_t *slices, unsigned count)
{
    size_t size = 0;

    for (unsigned i = 0; i < count; i++)
        size += slices[i].size;
    return size;
}

static zlink_status_t write_admit(zlink_stream_t *stream, size_t size)
{
    const size_t charged = charged_bytes(stream);
    /* One write that is larger than the limit may pass alone, or it could never be sent. What its user has said just
     * before it, and of itself, does not stand in its way. */
    const bool alone = charged == stream->plain_forced && zlink_stream_is_oversize(stream, size);
    const size_t limit = alone ? stream->limits.output_hard_bytes : stream->limits.output_bytes;
    /* Full once, it opens when it is half empty and not at each byte. */
    const bool shut = stream->write_refused && charged > low_mark(stream);
    zlink_status_t status = write_check(stream);

    if (status == ZLINK_OK && (shut || charged + size + stream->limits.write_cost > limit)) {
        stream->write_refused = true;
        status = ZLINK_CAPACITY_EXCEEDED;
    }
    return status;
}

zlink_status_t zlink_stream_write_slices(zlink_stream_t *stream, const zlink_slice_t *slices, unsigned count)
{
    const size_t size = slices_size(slices, count);
    zlink_status_t status = write_admit(stream, size);

    return status == ZLINK_OK ? write_take(stream, slices, count, size) : status;
}

static bool write_may_hold(const zlink_stream_t *stream, const zlink_slice_t *last)
{
    return stream->trust == NULL && last->size >= HOLD_BYTES_MIN;
}

/* The last slice stays where it is. */
static zlink_status_t write_hold(zlink_stream_t *stream, const zlink_slice_t *slices, unsigned count,
                                 zlink_output_hold_t *hold)
{
    const zlink_slice_t *last = &slices[count - 1];
    zlink_status_t status = write_take(stream, slices, count - 1, slices_size(slices, count - 1));

    if (status == ZLINK_OK) {
        zlink_output_queue_hold(&stream->plain, hold, last->data, last->size);
        zlink_stream_settle_later(stream);
    }
    return status;
}

zlink_status_t zlink_stream_write_held(zlink_stream_t *stream, const zlink_slice_t *slices, unsigned count,
                                       zlink_output_hold_t *hold, bool *held)
{
    zlink_status_t status;

    *held = false;
    if (!write_may_hold(stream, &slices[count - 1]))
        return zlink_stream_write_slices(stream, slices, count);
    status = write_admit(stream, slices_size(slices, count));
    if (status == ZLINK_OK)
        status = write_hold(stream, slices, count, hold);
    *held = status == ZLINK_OK;
    return status;
}

static zlink_status_t write_admit_forced(zlink_stream_t *stream, size_t size)
{
    zlink_status_t status = write_check(stream);

    if (status == ZLINK_OK && zlink_stream_unsent_bytes(stream) + size > stream->limits.output_hard_bytes) {
        zlink_stream_abort(stream, ZLINK_CAPACITY_EXCEEDED, "the peer is too slow: the output limit is reached");
        status = ZLINK_CAPACITY_EXCEEDED;
    }
    return status;
}

zlink_status_t zlink_stream_admit(zlink_stream_t *stream, size_t size, bool forced)
{
    return forced ? write_admit_forced(stream, size) : write_admit(stream, size);
}

zlink_status_t zlink_stream_write_held_forced(zlink_stream_t *stream, const zlink_slice_t *slices, unsigned count,
                                              zlink_output_hold_t *hold, bool *held)
{
    zlink_status_t status;

    *held = false;
    status = write_admit_forced(stream, slices_size(slices, count));
    if (status != ZLINK_OK)
        return status;
    if (!write_may_hold(stream, &slices[count - 1]))
        return write_take(stream, slices, count, slices_size(slices, count));
    status = write_hold(stream, slices, count, hold);
    *held = status == ZLINK_OK;
    return status;
}

zlink_status_t zlink_stream_write_slices_forced(zlink_stream_t *stream, const zlink_slice_t *slices, unsigned count)
{
    const size_t size = slices_size(slices, count);
    zlink_status_t status = write_admit_forced(stream, size);

    if (status == ZLINK_OK)
        status = write_take(stream, slices, count, size);
    if (status == ZLINK_OK)
        stream->plain_forced += size + stream->limits.write_cost;
    return status;
}

void zlink_stream_want_room(zlink_stream_t *stream, size_t outbound_bytes)
{
    assert(zlink_reactor_is_current(stream->reactor));
    stream->room_wanted = true;
    stream->room_bytes = outbound_bytes;
    zlink_stream_settle_later(stream);
}

zlink_status_t zlink_stream_write(zlink_stream_t *stream, const void *data, size_t size)
{
    const zlink_slice_t slice = {data, size};

    return zlink_stream_write_slices(stream, &slice, 1);
}

zlink_status_t zlink_stream_write_forced(zlink_stream_t *stream, const void *data, size_t size)
{
    const zlink_slice_t slice = {data, size};

    return zlink_stream_write_slices_forced(stream, &slice, 1);
}

/* ---- sending ---- */

static void output_send(zlink_stream_t *stream)
{
    const zlink_net_fault_t *fault = zlink_reactor_fault(stream->reactor);
    /* Wait for all: one completion instead of one for each bit of room. It may still come short. */
    const unsigned how = MSG_NOSIGNAL | MSG_WAITALL;
    size_t size = zlink_output_queue_size(&stream->sending);
    struct io_uring_sqe *sqe;
    unsigned count;

    assert(!stream->send_armed && size > 0);
    if (size > SEND_BYTES_MAX)
        size = SEND_BYTES_MAX;
    if (fault != NULL && fault->send_size != NULL)
        size = fault->send_size(fault->context, size);
    sqe = zlink_reactor_sqe(stream->reactor);
    count = zlink_output_queue_pieces(&stream->sending, stream->pieces, ZLINK_STREAM_PIECES_MAX, size);
    if (count == 1) {
        io_uring_prep_send(sqe, stream->fd, stream->pieces[0].iov_base, stream->pieces[0].iov_len, (int)how);
    } else {
        stream->message = (struct msghdr){.msg_iov = stream->pieces, .msg_iovlen = count};
        io_uring_prep_sendmsg(sqe, stream->fd, &stream->message, how);
    }
    zlink_reactor_start(stream->reactor, sqe, &stream->slot, ZLINK_STREAM_OPERATION_SEND);
    stream->send_armed = true;
}

void zlink_stream_sent(zlink_stream_t *stream, int32_t result)
{
    stream->send_armed = false;
    if (result > 0) {
        zlink_counter_add(&zlink_counter_net_bytes_sent, result);
        zlink_output_queue_consume(&stream->sending, (size_t)result);
        if (zlink_output_queue_size(&stream->sending) == 0)
            stream->sending_cost = 0;
        return;
    }
    if (result == -EINTR || result == -EAGAIN || result == -ECANCELED)
        return; /* what is left is sent at the end of the tick, unless the stream is closing */
    zlink_stream_abort(stream, ZLINK_UNAVAILABLE, result == 0 ? "the socket takes nothing" : strerror(-result));
}

static bool output_seal(zlink_stream_t *stream)
{
    zlink_byte_buffer_t *plain = &stream->plain.copied;
    const size_t whole = zlink_byte_buffer_size(plain);
    const size_t size = whole < SEAL_BYTES_MAX ? whole : SEAL_BYTES_MAX;
    const size_t cost = stream->plain_cost / whole * size + stream->plain_cost % whole * size / whole;

    if (zlink_tls_session_seal(stream->tls, zlink_byte_buffer_bytes(plain), size, &stream->wire) != ZLINK_OK) {
        zlink_stream_abort(stream, ZLINK_CAPACITY_EXCEEDED, "no memory to seal what was written");
        return false;
    }
    zlink_byte_buffer_consume(plain, size);
    stream->plain_cost -= cost;
    stream->plain_forced = 0;
    stream->sending_cost += cost;
    zlink_counter_add(&zlink_counter_net_records_sealed, (int64_t)((size + RECORD_BYTES_MAX - 1) / RECORD_BYTES_MAX));
    return true;
}

void zlink_stream_output_settle(zlink_stream_t *stream)
{
    if (stream->state < ZLINK_STREAM_HANDSHAKING || stream->state > ZLINK_STREAM_FLUSHING)
        return;
    /* While a send is in flight what is written gathers, and is sealed in fewer records after it. */
    if (!stream->send_armed && zlink_output_queue_size(&stream->sending) == 0) {
        if (stream->trust == NULL) {
            zlink_output_queue_swap(&stream->plain, &stream->sending);
            stream->sending_cost = stream->plain_cost;
            stream->plain_cost = stream->plain_forced = 0;
        } else {
            if (zlink_output_queue_size(&stream->plain) > 0 && !output_seal(stream))
                return;
            zlink_byte_buffer_swap(&stream->wire, &stream->sending.copied);
        }
    }
    if (!stream->send_armed && zlink_output_queue_size(&stream->sending) > 0)
        output_send(stream);
    if (stream->write_refused && stream->state == ZLINK_STREAM_OPEN && charged_bytes(stream) <= low_mark(stream)) {
        stream->write_refused = false;
        if (stream->events->drained != NULL)
            stream->events->drained(stream);
    }
    if (stream->room_wanted && stream->state == ZLINK_STREAM_OPEN &&
        zlink_stream_outbound_bytes(stream) <= stream->room_bytes) {
        stream->room_wanted = false;
        if (stream->events->room != NULL)
            stream->events->room(stream);
    }
}
