/*
 * exec/ready_ring.h: the owners that are ready to run on one worker, oldest first.
 *
 * Any thread pushes; the worker pops its own; idle workers steal. A queue in a ring is `scheduled` and nobody runs it,
 * so whether it may move to another worker (no handler of it waits, contract 003 §12) cannot change while it stands
 * here. Movable and pinned owners therefore stand in two lists, and tickets keep the order between them.
 */
#ifndef ZLINK_EXEC_READY_RING_H
#define ZLINK_EXEC_READY_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "exec/serial_execution_queue.h"

typedef struct zlink_ready_list {
    zlink_serial_execution_queue_t *first;
    zlink_serial_execution_queue_t *last;
} zlink_ready_list_t;

/* Zero-initialise. */
typedef struct zlink_ready_ring {
    _Atomic uint32_t lock; /* held for a few instructions */
    uint32_t next_ticket;
    _Atomic uint64_t counts; /* all in the low half, movable ones in the high half */
    zlink_ready_list_t movable;
    zlink_ready_list_t pinned;
} zlink_ready_ring_t;

void zlink_ready_ring_push(zlink_ready_ring_t *ring, zlink_serial_execution_queue_t *queue);

/* The oldest, NULL where there is none. */
zlink_serial_execution_queue_t *zlink_ready_ring_pop(zlink_ready_ring_t *ring);

/* The oldest movable one. */
zlink_serial_execution_queue_t *zlink_ready_ring_steal(zlink_ready_ring_t *ring);

/* Sequentially consistent with push, so that a worker may decide to sleep on it. */
static inline bool zlink_ready_ring_is_empty(const zlink_ready_ring_t *ring)
{
    return (uint32_t)atomic_load(&ring->counts) == 0;
}

static inline bool zlink_ready_ring_has_movable(const zlink_ready_ring_t *ring)
{
    return atomic_load(&ring->counts) >> 32 != 0;
}

#endif
