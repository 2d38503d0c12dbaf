/*
 * net/output_queue.h: the bytes that a stream still has to send, in order: most are copied into one buffer, large ones
 * may lie elsewhere and are held until they have been sent.
 *
 * A value owned by its stream; zero-initialised is empty. Reactor thread only.
 */
#ifndef ZLINK_NET_OUTPUT_QUEUE_H
#define ZLINK_NET_OUTPUT_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "net/byte_buffer.h"

typedef struct zlink_output_hold zlink_output_hold_t;

/* Bytes that are sent from where they lie. Embedded in what owns them, which leaves it and them alone until `release`:
 * called once, from the reactor's loop, when they have been sent or never will be. It may free the hold. */
struct zlink_output_hold {
    void (*release)(zlink_output_hold_t *hold);

    /* The queue's own. */
    zlink_output_hold_t *next;
    const uint8_t *data;
    size_t size;
    size_t before; /* copied bytes between the hold before this one and this one */
};

typedef struct zlink_output_queue {
    zlink_byte_buffer_t copied;
    zlink_output_hold_t *first;
    zlink_output_hold_t *last;
    size_t held_bytes;
    size_t before_bytes; /* of all holds: copied bytes that have one behind them */
} zlink_output_queue_t;

static inline size_t zlink_output_queue_size(const zlink_output_queue_t *queue)
{
    return zlink_byte_buffer_size(&queue->copied) + queue->held_bytes;
}

/* Behind what was copied so far. `size` at least 1. */
void zlink_output_queue_hold(zlink_output_queue_t *queue, zlink_output_hold_t *hold, const void *data, size_t size);

/* The first pieces, at most `bytes_max` bytes in `count_max` pieces. The answer is how many; they are valid until the
 * queue is changed. */
unsigned zlink_output_queue_pieces(const zlink_output_queue_t *queue, struct iovec *pieces, unsigned count_max,
                                   size_t bytes_max);

/* The first `size` bytes have been sent. */
void zlink_output_queue_consume(zlink_output_queue_t *queue, size_t size);

void zlink_output_queue_swap(zlink_output_queue_t *one, zlink_output_queue_t *other);

/* Empties it and gives its memory back. */
void zlink_output_queue_release(zlink_output_queue_t *queue);

#endif
