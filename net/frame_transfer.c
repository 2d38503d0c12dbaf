#include "net/frame_transfer.h"

#include <assert.h>
#include <string.h>

#include "base/container_of.h"
#include "base/memory.h"

#define OUTBOUND_BYTES_MAX  (512u * 1024u) /* of the stream, up to which it is supplied: two sends */
#define OUTBOUND_BYTES_ROOM (256u * 1024u) /* where it is again */

struct zlink_frame_transfer {
    zlink_frame_transfers_t *transfers; /* NULL: the connection is gone */
    TAILQ_ENTRY(zlink_frame_transfer) link;
    uint64_t id; /* 0 while it is queued */
    const uint8_t *payload;
    size_t head_bytes;
    size_t bytes; /* head and payload */
    size_t sent;
    bool oversize;
    unsigned holders;          /* this list, and every chunk that the stream sends from the payload */
    zlink_output_hold_t *hold; /* NULL: the payload is a copy */
    uint8_t head[];
};

/* A chunk that is sent from where it lies. */
typedef struct zlink_frame_chunk {
    zlink_output_hold_t hold;
    zlink_frame_transfer_t *transfer;
} zlink_frame_chunk_t;

static void transfer_free(zlink_frame_transfer_t *transfer)
{
    zlink_output_hold_t *hold = transfer->hold;

    zlink_free(transfer);
    if (hold != NULL)
        hold->release(hold);
}

/* Not from inside somebody's call: whoever is told does what he likes. */
static void transfer_let_go(zlink_frame_transfer_t *transfer)
{
    zlink_frame_transfers_t *transfers = transfer->transfers;

    if (--transfer->holders > 0)
        return;
    if (transfers == NULL) {
        transfer_free(transfer);
        return;
    }
    TAILQ_REMOVE(&transfers->written, transfer, link);
    TAILQ_INSERT_TAIL(&transfers->finished, transfer, link);
    zlink_tick_list_add(zlink_reactor_next_tick(zlink_stream_reactor(transfers->stream)), &transfers->finish);
}

static void transfers_finish(zlink_tick_task_t *task)
{
    zlink_frame_transfers_t *transfers = ZLINK_CONTAINER_OF(task, zlink_frame_transfers_t, finish);
    zlink_frame_transfer_t *transfer;

    while ((transfer = TAILQ_FIRST(&transfers->finished)) != NULL) {
        TAILQ_REMOVE(&transfers->finished, transfer, link);
        transfer_free(transfer);
    }
}

static void chunk_sent(zlink_output_hold_t *hold)
{
    zlink_frame_chunk_t *chunk = ZLINK_CONTAINER_OF(hold, zlink_frame_chunk_t, hold);
    zlink_frame_transfer_t *transfer = chunk->transfer;

    zlink_free(chunk);
    transfer_let_go(transfer);
}

void zlink_frame_transfers_init(zlink_frame_transfers_t *transfers, zlink_stream_t *stream)
{
    *transfers =
        (zlink_frame_transfers_t){.stream = stream, .max_body_bytes = UINT32_MAX, .finish.run = transfers_finish};
    TAILQ_INIT(&transfers->open);
    TAILQ_INIT(&transfers->queued);
    TAILQ_INIT(&transfers->written);
    TAILQ_INIT(&transfers->finished);
}

/* So many bytes of the transfer were unsent, and now are so many. */
static void transfers_owe(zlink_frame_transfers_t *transfers, const zlink_frame_transfer_t *transfer, size_t before,
                          size_t now)
{
    size_t *bytes = transfer->oversize ? &transfers->oversize_bytes : &transfers->unsent_bytes;

    assert(*bytes >= before);
    *bytes = *bytes - before + now;
    zlink_stream_owe(transfers->stream, transfers->unsent_bytes, transfers->oversize_bytes);
}

static size_t body_bytes_of(const zlink_frame_transfer_t *transfer)
{
    return transfer->bytes - ZLINK_FRAME_PREFIX_BYTES;
}

static void transfers_open_more(zlink_frame_transfers_t *transfers)
{
    zlink_frame_transfer_t *transfer;

    while ((transfer = TAILQ_FIRST(&transfers->queued)) != NULL && transfers->open_count < ZLINK_FRAME_TRANSFERS_MAX &&
           transfers->open_bytes + body_bytes_of(transfer) <= transfers->max_body_bytes) {
        TAILQ_REMOVE(&transfers->queued, transfer, link);
        TAILQ_INSERT_TAIL(&transfers->open, transfer, link);
        transfer->id = ++transfers->last_id;
        transfers->open_count++;
        transfers->open_bytes += body_bytes_of(transfer);
    }
}

static void transfers_close_one(zlink_frame_transfers_t *transfers, zlink_frame_transfer_t *transfer)
{
    TAILQ_REMOVE(&transfers->open, transfer, link);
    transfers->open_count--;
    transfers->open_bytes -= body_bytes_of(transfer);
    transfers_owe(transfers, transfer, transfer->bytes - transfer->sent, 0);
    TAILQ_INSERT_TAIL(&transfers->written, transfer, link);
    transfer_let_go(transfer);
}

/* Held where the stream can send it from there and there is memory to remember that, else copied. */
static zlink_status_t chunk_write(zlink_frame_transfers_t *transfers, zlink_frame_transfer_t *transfer,
                                  const zlink_slice_t slices[3])
{
    zlink_frame_chunk_t *chunk = zlink_malloc(sizeof(*chunk));
    bool held = false;
    zlink_status_t status;

    if (chunk == NULL)
        return zlink_stream_write_slices_forced(transfers->stream, slices, 3);
    chunk->hold.release = chunk_sent;
    chunk->transfer = transfer;
    status = zlink_stream_write_held_forced(transfers->stream, slices, 3, &chunk->hold, &held);
    if (held)
        transfer->holders++;
    else
        zlink_free(chunk);
    return status;
}

static zlink_status_t transfer_send_chunk(zlink_frame_transfers_t *transfers, zlink_frame_transfer_t *transfer)
{
    const size_t left = transfer->bytes - transfer->sent;
    const size_t part = left < ZLINK_FRAME_CHUNK_BYTES_MAX ? left : ZLINK_FRAME_CHUNK_BYTES_MAX;
    const size_t head_left = transfer->sent < transfer->head_bytes ? transfer->head_bytes - transfer->sent : 0;
    const size_t head_part = head_left < part ? head_left : part;
    const zlink_frame_prefix_t prefix = {
        .kind = ZLINK_FRAME_CHUNK, .reply_route_id = transfer->id, .body_bytes = (uint32_t)part};
    uint8_t bytes[ZLINK_FRAME_PREFIX_BYTES];
    zlink_status_t status;

    zlink_frame_prefix_encode(&prefix, bytes);
    const zlink_slice_t slices[3] = {
        {bytes, sizeof(bytes)},
        {transfer->head + (transfer->head_bytes - head_left), head_part},
        {transfer->payload + (transfer->sent + head_part - transfer->head_bytes), part - head_part},
    };
    transfers_owe(transfers, transfer, part, 0); /* before the stream counts it as written */
    status = chunk_write(transfers, transfer, slices);
    if (status == ZLINK_OK)
        transfer->sent += part;
    else
        transfers_owe(transfers, transfer, 0, part);
    return status;
}

/* One chunk of whoever has its turn; false: nothing was sent. */
static bool transfers_step(zlink_frame_transfers_t *transfers)
{
    zlink_frame_transfer_t *transfer = TAILQ_FIRST(&transfers->open);

    if (transfer == NULL || transfer_send_chunk(transfers, transfer) != ZLINK_OK)
        return false; /* a closing stream takes nothing more; without memory it is tried again */
    if (transfer->sent == transfer->bytes) {
        transfers_close_one(transfers, transfer);
        transfers_open_more(transfers);
    } else {
        TAILQ_REMOVE(&transfers->open, transfer, link);
        TAILQ_INSERT_TAIL(&transfers->open, transfer, link);
    }
    return true;
}

void zlink_frame_transfers_pump(zlink_frame_transfers_t *transfers)
{
    while (zlink_stream_outbound_bytes(transfers->stream) < OUTBOUND_BYTES_MAX && transfers_step(transfers))
        ;
    if (!TAILQ_EMPTY(&transfers->open))
        zlink_stream_want_room(transfers->stream, OUTBOUND_BYTES_ROOM);
}

zlink_status_t zlink_frame_transfers_begin(zlink_frame_transfers_t *transfers, const zlink_slice_t head[2],
                                           const zlink_slice_t *payload, zlink_output_hold_t *hold, bool oversize)
{
    const size_t head_bytes = head[0].size + head[1].size;
    const size_t copied_bytes = hold == NULL ? payload->size : 0;
    zlink_frame_transfer_t *transfer = zlink_malloc(sizeof(*transfer) + head_bytes + copied_bytes);

    if (transfer == NULL)
        return ZLINK_CAPACITY_EXCEEDED;
    *transfer = (zlink_frame_transfer_t){.transfers = transfers,
                                         .payload = payload->data,
                                         .head_bytes = head_bytes,
                                         .bytes = head_bytes + payload->size,
                                         .oversize = oversize,
                                         .holders = 1,
                                         .hold = hold};
    memcpy(transfer->head, head[0].data, head[0].size);
    if (head[1].size > 0)
        memcpy(transfer->head + head[0].size, head[1].data, head[1].size);
    if (copied_bytes > 0) {
        memcpy(transfer->head + head_bytes, payload->data, copied_bytes);
        transfer->payload = transfer->head + head_bytes;
    }
    assert(body_bytes_of(transfer) > ZLINK_FRAME_WHOLE_BYTES_MAX);
    transfers_owe(transfers, transfer, 0, transfer->bytes);
    TAILQ_INSERT_TAIL(&transfers->queued, transfer, link);
    transfers_open_more(transfers);
    zlink_frame_transfers_pump(transfers);
    return ZLINK_OK;
}

static zlink_frame_transfer_t *find_held(struct zlink_frame_transfer_list *list, const zlink_output_hold_t *hold)
{
    zlink_frame_transfer_t *transfer;

    TAILQ_FOREACH(transfer, list, link)
    {
        if (transfer->hold == hold)
            break;
    }
    return transfer;
}

void zlink_frame_transfers_abandon(zlink_frame_transfers_t *transfers, const zlink_output_hold_t *hold)
{
    zlink_frame_transfer_t *transfer = find_held(&transfers->queued, hold);
    uint8_t bytes[ZLINK_FRAME_PREFIX_BYTES];

    if (transfer != NULL) {
        TAILQ_REMOVE(&transfers->queued, transfer, link);
        transfers_owe(transfers, transfer, transfer->bytes, 0);
        TAILQ_INSERT_TAIL(&transfers->written, transfer, link);
        transfer_let_go(transfer);
        return;
    }
    transfer = find_held(&transfers->open, hold);
    if (transfer == NULL)
        return;
    if (transfer->sent > 0) { /* an empty chunk tells the peer */
        zlink_frame_prefix_encode(&(zlink_frame_prefix_t){.kind = ZLINK_FRAME_CHUNK, .reply_route_id = transfer->id},
                                  bytes);
        if (zlink_stream_write_forced(transfers->stream, bytes, sizeof(bytes)) != ZLINK_OK)
            return; /* without the word it has to be sent to its end */
    }
    transfers_close_one(transfers, transfer);
    transfers_open_more(transfers);
    zlink_frame_transfers_pump(transfers);
}

void zlink_frame_transfers_flush(zlink_frame_transfers_t *transfers)
{
    while (transfers_step(transfers))
        ;
}

static void transfers_drop(struct zlink_frame_transfer_list *list, bool holds)
{
    zlink_frame_transfer_t *transfer;

    while ((transfer = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, transfer, link);
        transfer->transfers = NULL;
        if (holds)
            transfer_let_go(transfer);
    }
}

void zlink_frame_transfers_close(zlink_frame_transfers_t *transfers)
{
    zlink_tick_list_remove(zlink_reactor_next_tick(zlink_stream_reactor(transfers->stream)), &transfers->finish);
    transfers_finish(&transfers->finish);
    transfers_drop(&transfers->open, true);
    transfers_drop(&transfers->queued, true);
    transfers_drop(&transfers->written, false); /* only the stream holds them */
    transfers->unsent_bytes = transfers->oversize_bytes = transfers->open_bytes = transfers->open_count = 0;
}
