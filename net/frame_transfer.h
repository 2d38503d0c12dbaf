/*
 * net/frame_transfer.h: frames that go out in CHUNKs, so that the small frames of others go between them.
 *
 * A value owned by its connection, reactor thread only. The stream is kept supplied with a little more than it sends in
 * one go and never with more: what else is written to it meanwhile stands behind that much at most. Frames take turns,
 * chunk by chunk, as many at a time as the peer allows; the others wait in their order.
 *
 * The payload is sent from where it lies. Its owner's hold is released from the reactor's loop when the last byte has
 * been sent or copied, or never will be; without a hold the payload is copied when the transfer begins.
 */
#ifndef ZLINK_NET_FRAME_TRANSFER_H
#define ZLINK_NET_FRAME_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <zlink/status.h>

#include "net/output_queue.h"
#include "net/reactor_loop.h"
#include "net/stream.h"
#include "proto/frame.h"

typedef struct zlink_frame_transfer zlink_frame_transfer_t;

TAILQ_HEAD(zlink_frame_transfer_list, zlink_frame_transfer);

typedef struct zlink_frame_transfers {
    zlink_stream_t *stream;
    struct zlink_frame_transfer_list open;     /* the peer knows of them; the first has its turn */
    struct zlink_frame_transfer_list queued;   /* it does not yet */
    struct zlink_frame_transfer_list written;  /* the stream still sends from their payloads */
    struct zlink_frame_transfer_list finished; /* to be let go of */
    unsigned open_count;
    size_t open_bytes;       /* bodies of those that are open, whole */
    size_t unsent_bytes;     /* of all of them: not handed to the stream yet; it is told of that … */
    size_t oversize_bytes;   /* … and of what of it was larger than its limit, which is counted here instead */
    uint32_t max_body_bytes; /* what the peer takes: of one, and of all that are open */
    uint64_t last_id;
    zlink_tick_task_t finish;
} zlink_frame_transfers_t;

void zlink_frame_transfers_init(zlink_frame_transfers_t *transfers, zlink_stream_t *stream);

/* `head` is prefix and envelope of the frame, copied. `hold` NULL: the payload is copied, too; else it and the payload
 * are the transfer's until its release. `oversize`: see zlink_stream_owe. ZLINK_CAPACITY_EXCEEDED without memory.
 * Begins to send at once. */
zlink_status_t zlink_frame_transfers_begin(zlink_frame_transfers_t *transfers, const zlink_slice_t head[2],
                                           const zlink_slice_t *payload, zlink_output_hold_t *hold, bool oversize);

/* The stream has room. */
void zlink_frame_transfers_pump(zlink_frame_transfers_t *transfers);

/* Nobody wants the frame any more that was begun with `hold`: what was not sent of it is not. Its release still comes.
 * Nothing where it has been sent. */
void zlink_frame_transfers_abandon(zlink_frame_transfers_t *transfers, const zlink_output_hold_t *hold);

/* Before an orderly close: everything goes to the stream now. */
void zlink_frame_transfers_flush(zlink_frame_transfers_t *transfers);

/* The connection is gone. From the reactor's loop: holds are released here or, where the stream still has their bytes,
 * when it lets go of them. */
void zlink_frame_transfers_close(zlink_frame_transfers_t *transfers);

#endif
