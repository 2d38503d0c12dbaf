#include "net/frame_connection.h"

#include <assert.h>
#include <string.h>

#include "base/container_of.h"
#include "base/log.h"
#include "base/memory.h"
#include "net/frame_assembly.h"
#include "net/frame_transfer.h"
#include "net/liveness.h"

#define ROTATION_FRAMES 64u
#define ROTATION_BYTES  (256u * 1024u)
#define FRAME_MS        15000u /* for all of a frame, from its first byte */
#define TAKE_BYTES_MIN  16384u /* of a payload whose copy costs more than an allocation */

struct zlink_frame_connection {
    zlink_stream_t *stream;
    const zlink_frame_connection_events_t *events;
    void *context;
    uint32_t max_body_bytes;
    uint32_t peer_max_body_bytes;
    bool waiting;       /* a frame was refused with ZLINK_FRAME_WAIT */
    bool over;          /* closed or aborted from here: nothing more is handed over */
    bool held;          /* the same at any time since the liveness was last looked at */
    bool live;          /* liveness runs */
    bool trusts_probes; /* the peer's probes count like acknowledgements */
    bool payload_taken; /* of the frame that is being handed over, with the memory that it lies in */
    zlink_liveness_t liveness;
    zlink_timer_t check; /* of the liveness */
    uint64_t begun_ms;   /* when the frame that is coming in had its first byte; 0 = none is */
    zlink_timer_t slow;  /* looks at that now and then, which is cheaper than a timer for each frame */
    zlink_frame_transfers_t transfers;
    zlink_frame_assemblies_t assemblies;
    zlink_frame_assembly_t *filling; /* whose chunk is coming in … */
    size_t chunk_left;               /* … with so many bytes to come */
    zlink_frame_assembly_t *handed;  /* whole, and being handed over */
};

static zlink_frame_connection_t *connection_of(zlink_stream_t *stream)
{
    return zlink_stream_context(stream);
}

/* ---- out ---- */

/* A frame that is ready to be written: `slices` point into it. */
typedef struct zlink_outbound_frame {
    uint8_t head[ZLINK_FRAME_PREFIX_BYTES];
    zlink_slice_t slices[3];
} zlink_outbound_frame_t;

static zlink_status_t frame_make(const zlink_frame_connection_t *connection, const zlink_frame_prefix_t *prefix,
                                 const void *envelope, uint32_t envelope_bytes, const void *payload,
                                 uint32_t payload_bytes, zlink_outbound_frame_t *frame)
{
    zlink_frame_prefix_t filled = *prefix;

    if (envelope_bytes > ZLINK_FRAME_ENVELOPE_BYTES_MAX || payload_bytes > connection->peer_max_body_bytes ||
        envelope_bytes > connection->peer_max_body_bytes - payload_bytes)
        return ZLINK_INVALID_OPERATION;
    filled.envelope_bytes = envelope_bytes;
    filled.body_bytes = envelope_bytes + payload_bytes;
    zlink_frame_prefix_encode(&filled, frame->head);
    frame->slices[0] = (zlink_slice_t){frame->head, sizeof(frame->head)};
    frame->slices[1] = (zlink_slice_t){envelope, envelope_bytes};
    frame->slices[2] = (zlink_slice_t){payload, payload_bytes};
    return ZLINK_OK;
}

static bool frame_is_large(const zlink_outbound_frame_t *frame)
{
    return frame->slices[1].size + frame->slices[2].size > ZLINK_FRAME_WHOLE_BYTES_MAX;
}

/* `hold` NULL: the payload is copied. */
static zlink_status_t connection_send_large(zlink_frame_connection_t *connection, const zlink_outbound_frame_t *frame,
                                            zlink_output_hold_t *hold, bool forced)
{
    const size_t size = frame->slices[0].size + frame->slices[1].size + frame->slices[2].size;
    const bool oversize = !forced && zlink_stream_is_oversize(connection->stream, size);
    zlink_status_t status = zlink_stream_admit(connection->stream, size, forced);

    return status == ZLINK_OK
               ? zlink_frame_transfers_begin(&connection->transfers, frame->slices, &frame->slices[2], hold, oversize)
               : status;
}

zlink_status_t zlink_frame_connection_send(zlink_frame_connection_t *connection, const zlink_frame_prefix_t *prefix,
                                           const void *envelope, uint32_t envelope_bytes, const void *payload,
                                           uint32_t payload_bytes)
{
    zlink_outbound_frame_t frame;
    zlink_status_t status = frame_make(connection, prefix, envelope, envelope_bytes, payload, payload_bytes, &frame);

    if (status == ZLINK_OK && frame_is_large(&frame))
        return connection_send_large(connection, &frame, NULL, false);
    return status == ZLINK_OK ? zlink_stream_write_slices(connection->stream, frame.slices, 3) : status;
}

zlink_status_t zlink_frame_connection_send_held(zlink_frame_connection_t *connection,
                                                const zlink_frame_prefix_t *prefix, const void *envelope,
                                                uint32_t envelope_bytes, const void *payload, uint32_t payload_bytes,
                                                zlink_output_hold_t *hold, bool *held)
{
    zlink_outbound_frame_t frame;
    zlink_status_t status = frame_make(connection, prefix, envelope, envelope_bytes, payload, payload_bytes, &frame);

    *held = false;
    if (status == ZLINK_OK && frame_is_large(&frame)) {
        status = connection_send_large(connection, &frame, hold, false);
        *held = status == ZLINK_OK;
        return status;
    }
    return status == ZLINK_OK ? zlink_stream_write_held(connection->stream, frame.slices, 3, hold, held) : status;
}

zlink_status_t zlink_frame_connection_send_forced(zlink_frame_connection_t *connection,
                                                  const zlink_frame_prefix_t *prefix, const void *envelope,
                                                  uint32_t envelope_bytes, const void *payload, uint32_t payload_bytes)
{
    zlink_outbound_frame_t frame;
    zlink_status_t status = frame_make(connection, prefix, envelope, envelope_bytes, payload, payload_bytes, &frame);

    if (status == ZLINK_OK && frame_is_large(&frame))
        return connection_send_large(connection, &frame, NULL, true);
    return status == ZLINK_OK ? zlink_stream_write_slices_forced(connection->stream, frame.slices, 3) : status;
}

void zlink_frame_connection_abandon(zlink_frame_connection_t *connection, const zlink_output_hold_t *hold)
{
    zlink_frame_transfers_abandon(&connection->transfers, hold);
}

bool zlink_frame_connection_has_room(zlink_frame_connection_t *connection)
{
    return zlink_stream_admit(connection->stream, ZLINK_FRAME_PREFIX_BYTES, false) == ZLINK_OK;
}

/* ---- liveness ---- */

static void connection_send_probe(zlink_frame_connection_t *connection, zlink_frame_kind_t kind, uint64_t id)
{
    const zlink_frame_prefix_t prefix = {.kind = (uint8_t)kind, .reply_route_id = id};

    /* Past the hard limit the stream aborts itself: nothing else to do here. */
    (void)zlink_frame_connection_send_forced(connection, &prefix, NULL, 0, NULL, 0);
}

/* An acknowledgement that came may stand behind a frame that waits here. Whoever does not take what he is sent is not
 * excused by that. */
static void connection_excuse(zlink_frame_connection_t *connection, uint64_t now_ms)
{
    if (connection->held && zlink_frame_connection_has_room(connection))
        zlink_liveness_put_off(&connection->liveness, now_ms);
    connection->held = connection->waiting;
}

static void connection_check(zlink_timer_t *timer)
{
    zlink_frame_connection_t *connection = ZLINK_CONTAINER_OF(timer, zlink_frame_connection_t, check);
    zlink_reactor_t *reactor = zlink_stream_reactor(connection->stream);
    uint64_t id = 0;

    connection_excuse(connection, zlink_reactor_now_ms(reactor));

    switch (zlink_liveness_check(&connection->liveness, zlink_reactor_now_ms(reactor), &id)) {
    case ZLINK_LIVENESS_EXPIRED:
        zlink_log(ZLINK_LOG_WARN, "zlink.net.liveness.expired",
                  ZLINK_LOG_S("address", zlink_stream_peer_address(connection->stream)));
        zlink_frame_connection_abort(connection, ZLINK_UNAVAILABLE, "no probe was acknowledged for 15 s");
        return;
    case ZLINK_LIVENESS_PROBE:
        connection_send_probe(connection, ZLINK_FRAME_PROBE, id);
        break;
    case ZLINK_LIVENESS_WAIT:
        break;
    }
    if (!connection->over)
        zlink_reactor_timer_start(reactor, &connection->check, zlink_liveness_next_ms(&connection->liveness));
}

void zlink_frame_connection_start_liveness(zlink_frame_connection_t *connection)
{
    zlink_reactor_t *reactor = zlink_stream_reactor(connection->stream);

    if (connection->live || connection->over)
        return;
    connection->live = true;
    zlink_liveness_start(&connection->liveness, zlink_reactor_now_ms(reactor));
    zlink_reactor_timer_start(reactor, &connection->check, zlink_liveness_next_ms(&connection->liveness));
}

void zlink_frame_connection_trust_probes(zlink_frame_connection_t *connection)
{
    connection->trusts_probes = true;
}

/* ---- the minimum rate ---- */

static void connection_slow(zlink_timer_t *timer)
{
    zlink_frame_connection_t *connection = ZLINK_CONTAINER_OF(timer, zlink_frame_connection_t, slow);
    zlink_reactor_t *reactor = zlink_stream_reactor(connection->stream);
    const uint64_t now_ms = zlink_reactor_now_ms(reactor);
    uint64_t oldest_ms = zlink_frame_assemblies_oldest_ms(&connection->assemblies);

    if (connection->waiting && oldest_ms != UINT64_MAX)
        oldest_ms = now_ms; /* this node makes it wait, not the peer */
    if (connection->begun_ms != 0 && connection->begun_ms < oldest_ms)
        oldest_ms = connection->begun_ms;
    if (oldest_ms == UINT64_MAX || connection->over)
        return;
    if (now_ms < oldest_ms + FRAME_MS) {
        zlink_reactor_timer_start(reactor, timer, oldest_ms + FRAME_MS);
        return;
    }
    zlink_log(ZLINK_LOG_WARN, "zlink.net.frame.slow",
              ZLINK_LOG_S("address", zlink_stream_peer_address(connection->stream)));
    zlink_frame_connection_abort(connection, ZLINK_UNAVAILABLE, "a frame was not complete within 15 s");
}

/* Bytes were looked at: `used` of them were frames, `left` are the beginning of one. */
static void connection_watch(zlink_frame_connection_t *connection, size_t used, size_t left)
{
    zlink_reactor_t *reactor = zlink_stream_reactor(connection->stream);

    if (left == 0)
        connection->begun_ms = 0;
    else if (used > 0 || connection->begun_ms == 0)
        connection->begun_ms = zlink_reactor_now_ms(reactor);
    if ((left > 0 || connection->assemblies.count > 0) && !connection->over &&
        !zlink_timer_is_running(&connection->slow))
        zlink_reactor_timer_start(reactor, &connection->slow, zlink_reactor_now_ms(reactor) + FRAME_MS);
}

/* ---- in ---- */

static void connection_malformed(zlink_frame_connection_t *connection, const char *reason)
{
    zlink_log(ZLINK_LOG_WARN, "zlink.net.frame.malformed",
              ZLINK_LOG_S("address", zlink_stream_peer_address(connection->stream)), ZLINK_LOG_S("reason", reason));
    /* Not in order: whoever sends such bytes would be waited for, and his connection would look usable meanwhile. */
    zlink_frame_connection_abort(connection, ZLINK_PROTOCOL_ERROR, reason);
}

static zlink_frame_verdict_t connection_take(zlink_frame_connection_t *connection, const zlink_frame_prefix_t *prefix,
                                             const uint8_t *body)
{
    switch (prefix->kind) {
    case ZLINK_FRAME_PROBE:
        connection_send_probe(connection, ZLINK_FRAME_PROBE_ACK, prefix->reply_route_id);
        if (connection->live && connection->trusts_probes)
            zlink_liveness_put_off(&connection->liveness,
                                   zlink_reactor_now_ms(zlink_stream_reactor(connection->stream)));
        return ZLINK_FRAME_TAKEN;
    case ZLINK_FRAME_PROBE_ACK:
        if (connection->live)
            (void)zlink_liveness_acknowledge(&connection->liveness, prefix->reply_route_id,
                                             zlink_reactor_now_ms(zlink_stream_reactor(connection->stream)));
        return ZLINK_FRAME_TAKEN;
    default:
        return connection->events->frame(connection, prefix, body, body + prefix->envelope_bytes,
                                         prefix->body_bytes - prefix->envelope_bytes);
    }
}

/* ---- in, in chunks ---- */

/* How much of a chunk has to be there before it can be begun: what tells its frame. Its bytes are then taken as they
 * come. */
static size_t chunk_head_size(zlink_frame_connection_t *connection, const zlink_frame_prefix_t *prefix)
{
    const bool known = zlink_frame_assemblies_find(&connection->assemblies, prefix->reply_route_id) != NULL;

    return known ? ZLINK_FRAME_PREFIX_BYTES : 2 * (size_t)ZLINK_FRAME_PREFIX_BYTES;
}

static zlink_frame_verdict_t chunk_broken(zlink_frame_connection_t *connection, const char *reason)
{
    connection_malformed(connection, reason);
    return ZLINK_FRAME_BROKEN;
}

/* `head` is what stands behind the chunk's prefix, where it is the first of its frame. */
static zlink_frame_verdict_t chunk_begin(zlink_frame_connection_t *connection, const zlink_frame_prefix_t *prefix,
                                         const uint8_t *head)
{
    zlink_frame_assembly_t *assembly = zlink_frame_assemblies_find(&connection->assemblies, prefix->reply_route_id);
    size_t size = prefix->body_bytes;
    const char *reason = NULL;

    if (assembly != NULL && size == 0) { /* the peer has given it up */
        zlink_frame_assemblies_remove(&connection->assemblies, assembly);
        return ZLINK_FRAME_TAKEN;
    }
    if (assembly == NULL) {
        if (size <= ZLINK_FRAME_PREFIX_BYTES)
            return chunk_broken(connection, "a first chunk without its frame's prefix and more");
        zlink_status_t status = zlink_frame_assemblies_begin(
            &connection->assemblies, prefix->reply_route_id, head, connection->max_body_bytes,
            zlink_reactor_now_ms(zlink_stream_reactor(connection->stream)), &assembly, &reason);
        if (status == ZLINK_PROTOCOL_ERROR)
            return chunk_broken(connection, reason);
        if (status != ZLINK_OK) {
            zlink_frame_connection_abort(connection, status, reason);
            return ZLINK_FRAME_BROKEN;
        }
        size -= ZLINK_FRAME_PREFIX_BYTES;
    }
    if (size > assembly->prefix.body_bytes - assembly->filled)
        return chunk_broken(connection, "more chunks than the frame has bytes");
    connection->filling = assembly;
    connection->chunk_left = size;
    return ZLINK_FRAME_TAKEN;
}

/* The time that the transfer took is off the call's. */
static void take_off_deadline(zlink_frame_prefix_t *prefix, uint64_t elapsed_ms)
{
    if (prefix->deadline_ms != 0)
        prefix->deadline_ms = elapsed_ms < prefix->deadline_ms ? prefix->deadline_ms - (uint32_t)elapsed_ms : 1;
}

/* The frame is whole. Where it has to wait its last bytes are offered, and copied, again. */
static zlink_frame_verdict_t assembly_hand_over(zlink_frame_connection_t *connection, zlink_frame_assembly_t *assembly)
{
    zlink_reactor_t *reactor = zlink_stream_reactor(connection->stream);
    zlink_frame_prefix_t prefix = assembly->prefix;
    zlink_frame_verdict_t verdict;

    take_off_deadline(&prefix, zlink_reactor_now_ms(reactor) - assembly->begun_ms);
    connection->handed = assembly;
    verdict = connection->events->frame(connection, &prefix, assembly->body, assembly->body + prefix.envelope_bytes,
                                        prefix.body_bytes - prefix.envelope_bytes);
    connection->handed = NULL;
    if (verdict == ZLINK_FRAME_TAKEN) {
        zlink_frame_assemblies_remove(&connection->assemblies, assembly);
        connection->filling = NULL;
        connection->chunk_left = 0;
    }
    return verdict;
}

/* `size` bytes of the chunk that was begun, straight to their last place. */
static zlink_frame_verdict_t chunk_fill(zlink_frame_connection_t *connection, const uint8_t *bytes, size_t size)
{
    zlink_frame_assembly_t *assembly = connection->filling;

    memcpy(assembly->body + assembly->filled, bytes, size);
    if (assembly->filled + size == assembly->prefix.body_bytes)
        return assembly_hand_over(connection, assembly);
    assembly->filled += size;
    connection->chunk_left -= size;
    if (connection->chunk_left == 0) {
        assembly->touched_ms = zlink_reactor_now_ms(zlink_stream_reactor(connection->stream));
        connection->filling = NULL;
    }
    return ZLINK_FRAME_TAKEN;
}

/* ---- in, frame by frame ---- */

/* The size of the frame at `bytes`, or 0: not complete, or broken. Of a CHUNK: of what it begins with. */
static size_t connection_frame_size(zlink_frame_connection_t *connection, const uint8_t *bytes, size_t size,
                                    zlink_frame_prefix_t *prefix)
{
    const char *reason = "malformed frame";

    if (size < ZLINK_FRAME_PREFIX_BYTES) {
        if (size > 0)
            zlink_stream_expect(connection->stream, ZLINK_FRAME_PREFIX_BYTES);
        return 0;
    }
    if (zlink_frame_prefix_decode(bytes, connection->max_body_bytes, prefix, &reason) != ZLINK_OK) {
        connection_malformed(connection, reason);
        return 0;
    }
    if (prefix->kind == ZLINK_FRAME_CHUNK && prefix->body_bytes > ZLINK_FRAME_PREFIX_BYTES) {
        const size_t head = chunk_head_size(connection, prefix);

        if (size < head)
            zlink_stream_expect(connection->stream, head);
        return size < head ? 0 : head;
    }
    if (prefix->kind == ZLINK_FRAME_CHUNK)
        return ZLINK_FRAME_PREFIX_BYTES;
    if (size - ZLINK_FRAME_PREFIX_BYTES < prefix->body_bytes) {
        zlink_stream_expect(connection->stream, ZLINK_FRAME_PREFIX_BYTES + (size_t)prefix->body_bytes);
        return 0;
    }
    return ZLINK_FRAME_PREFIX_BYTES + (size_t)prefix->body_bytes;
}

/* What is taken next, and how many bytes of it: a whole frame, the beginning of a chunk, or some of the chunk that was
 * begun. 0: nothing yet. */
static size_t connection_next(zlink_frame_connection_t *connection, const uint8_t *bytes, size_t size,
                              zlink_frame_prefix_t *prefix)
{
    if (connection->filling == NULL)
        return connection_frame_size(connection, bytes, size, prefix);
    return size < connection->chunk_left ? size : connection->chunk_left;
}

static zlink_frame_verdict_t connection_take_next(zlink_frame_connection_t *connection,
                                                  const zlink_frame_prefix_t *prefix, const uint8_t *bytes, size_t size)
{
    if (connection->filling != NULL)
        return chunk_fill(connection, bytes, size);
    if (prefix->kind == ZLINK_FRAME_CHUNK)
        return chunk_begin(connection, prefix, bytes + ZLINK_FRAME_PREFIX_BYTES);
    return connection_take(connection, prefix, bytes + ZLINK_FRAME_PREFIX_BYTES);
}

static size_t connection_bytes(zlink_stream_t *stream, const uint8_t *bytes, size_t size)
{
    zlink_frame_connection_t *connection = connection_of(stream);
    size_t used = 0;
    unsigned frames = 0;

    while (!connection->over) {
        zlink_frame_prefix_t prefix;
        const size_t frame = connection_next(connection, bytes + used, size - used, &prefix);

        if (frame == 0)
            break;
        if (frames == ROTATION_FRAMES || used >= ROTATION_BYTES) {
            zlink_stream_offer_later(stream); /* a flood here must not keep the others waiting */
            break;
        }
        switch (connection_take_next(connection, &prefix, bytes + used, frame)) {
        case ZLINK_FRAME_TAKEN:
            break;
        case ZLINK_FRAME_WAIT:
            connection->waiting = connection->held = true;
            connection->begun_ms = 0; /* this node makes it wait, not the peer */
            zlink_stream_pause_intake(stream);
            return used;
        case ZLINK_FRAME_BROKEN:
            assert(!connection->payload_taken);
            if (!connection->over)
                connection_malformed(connection, "a frame was not understood");
            return used;
        }
        used += frame;
        frames++;
        if (connection->payload_taken)
            break; /* what is behind it has another place now, and is offered there */
    }
    connection->payload_taken = false;
    connection_watch(connection, used, size - used);
    return used;
}

void *zlink_frame_connection_take_payload(zlink_frame_connection_t *connection, const uint8_t *payload,
                                          size_t payload_bytes)
{
    void *memory = NULL;

    if (connection->handed != NULL) {
        memory = connection->handed->body;
        connection->handed->body = NULL;
        return memory;
    }
    if (payload_bytes >= TAKE_BYTES_MIN)
        memory = zlink_stream_take_memory(connection->stream, payload, payload_bytes);
    connection->payload_taken = memory != NULL;
    return memory;
}

void zlink_frame_connection_resume(zlink_frame_connection_t *connection)
{
    if (!connection->waiting)
        return;
    connection->waiting = false;
    zlink_frame_assemblies_touch(&connection->assemblies,
                                 zlink_reactor_now_ms(zlink_stream_reactor(connection->stream)));
    zlink_stream_resume_intake(connection->stream);
}

/* ---- life ---- */

static void connection_end(zlink_frame_connection_t *connection)
{
    connection->over = true;
    zlink_reactor_timer_cancel(zlink_stream_reactor(connection->stream), &connection->check);
    zlink_reactor_timer_cancel(zlink_stream_reactor(connection->stream), &connection->slow);
}

static void connection_opened(zlink_stream_t *stream)
{
    zlink_frame_connection_t *connection = connection_of(stream);

    if (connection->events->opened != NULL)
        connection->events->opened(connection);
}

static void connection_drained(zlink_stream_t *stream)
{
    zlink_frame_connection_t *connection = connection_of(stream);

    if (connection->events->drained != NULL)
        connection->events->drained(connection);
}

static void connection_room(zlink_stream_t *stream)
{
    zlink_frame_transfers_pump(&connection_of(stream)->transfers);
}

static void connection_ended(zlink_stream_t *stream)
{
    zlink_frame_connection_t *connection = connection_of(stream);

    if (connection->events->ended != NULL)
        connection->events->ended(connection);
}

static void connection_closed(zlink_stream_t *stream, zlink_status_t status, const char *reason)
{
    zlink_frame_connection_t *connection = connection_of(stream);

    connection_end(connection);
    zlink_frame_transfers_close(&connection->transfers);
    zlink_frame_assemblies_clear(&connection->assemblies);
    connection->events->closed(connection, status, reason);
    zlink_free(connection);
}

static const zlink_stream_events_t stream_events = {
    .opened = connection_opened,
    .bytes = connection_bytes,
    .drained = connection_drained,
    .room = connection_room,
    .ended = connection_ended,
    .closed = connection_closed,
};

zlink_status_t zlink_frame_connection_create(zlink_stream_t *stream, const zlink_frame_connection_events_t *events,
                                             uint32_t max_body_bytes, void *context,
                                             zlink_frame_connection_t **connection_out)
{
    zlink_frame_connection_t *connection = zlink_calloc(1, sizeof(*connection));

    assert(events->frame != NULL && events->closed != NULL);
    if (connection == NULL)
        return ZLINK_CAPACITY_EXCEEDED;
    connection->stream = stream;
    connection->events = events;
    connection->context = context;
    connection->peer_max_body_bytes = UINT32_MAX;
    connection->check.fire = connection_check;
    connection->slow.fire = connection_slow;
    zlink_frame_transfers_init(&connection->transfers, stream);
    zlink_frame_connection_set_body_limit(connection, max_body_bytes);
    zlink_stream_set_events(stream, &stream_events);
    zlink_stream_set_context(stream, connection);
    *connection_out = connection;
    return ZLINK_OK;
}

void zlink_frame_connection_close(zlink_frame_connection_t *connection, const char *reason)
{
    zlink_frame_connection_fail(connection, ZLINK_OK, reason);
}

void zlink_frame_connection_fail(zlink_frame_connection_t *connection, zlink_status_t status, const char *reason)
{
    if (!connection->over)
        zlink_frame_transfers_flush(&connection->transfers);
    connection_end(connection);
    zlink_stream_close_with(connection->stream, status, reason);
}

void zlink_frame_connection_abort(zlink_frame_connection_t *connection, zlink_status_t status, const char *reason)
{
    connection_end(connection);
    zlink_stream_abort(connection->stream, status, reason);
}

/* ---- small things ---- */

void *zlink_frame_connection_context(const zlink_frame_connection_t *connection)
{
    return connection->context;
}

void zlink_frame_connection_set_context(zlink_frame_connection_t *connection, void *context)
{
    connection->context = context;
}

zlink_stream_t *zlink_frame_connection_stream(const zlink_frame_connection_t *connection)
{
    return connection->stream;
}

void zlink_frame_connection_set_body_limit(zlink_frame_connection_t *connection, uint32_t max_body_bytes)
{
    connection->max_body_bytes = max_body_bytes == 0 ? ZLINK_FRAME_BODY_BYTES_DEFAULT : max_body_bytes;
}

void zlink_frame_connection_set_peer_body_limit(zlink_frame_connection_t *connection, uint32_t max_body_bytes)
{
    connection->peer_max_body_bytes = max_body_bytes;
    connection->transfers.max_body_bytes = max_body_bytes;
}
