/*
 * net/buffer_ring.h: the receive buffers of a reactor, shared by all of its sockets.
 *
 * A ring of buffer descriptors, mapped by hand and registered with the kernel, which takes the next buffer when bytes
 * arrive and names it in the completion. The reactor gives each buffer back as soon as its completion has been
 * handled, whatever the completion said. When none is left a receive ends with -ENOBUFS and the bytes stay in the
 * socket; it is armed again once zlink_buffer_ring_replenished() says so, never before. Reactor thread only. Under the
 * address sanitizer a buffer that the kernel owns is poisoned.
 */
#ifndef ZLINK_NET_BUFFER_RING_H
#define ZLINK_NET_BUFFER_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zlink/status.h>

#include "base/refusal.h"

#define ZLINK_BUFFER_RING_GROUP 0 /* the only group of the ring */

struct io_uring;
struct io_uring_buf_ring;

typedef struct zlink_buffer_ring {
    struct io_uring_buf_ring *ring;
    uint8_t *memory;
    size_t ring_bytes;
    size_t memory_bytes;
    unsigned count;
    unsigned buffer_bytes;
    unsigned available; /* given to the kernel and, as far as completions were read, not used by it */
} zlink_buffer_ring_t;

/* `count`: a power of two, 1..32,768. */
zlink_status_t zlink_buffer_ring_open(zlink_buffer_ring_t *buffers, struct io_uring *ring, unsigned count,
                                      unsigned buffer_bytes, zlink_refusal_t *why);
/* When no receive is in flight any more. */
void zlink_buffer_ring_close(zlink_buffer_ring_t *buffers, struct io_uring *ring);

/* A completion named this buffer: it is ours until recycled. */
uint8_t *zlink_buffer_ring_take(zlink_buffer_ring_t *buffers, unsigned id);
void zlink_buffer_ring_recycle(zlink_buffer_ring_t *buffers, unsigned id);

/* At least half of the buffers are with the kernel again. */
bool zlink_buffer_ring_replenished(const zlink_buffer_ring_t *buffers);

#endif
