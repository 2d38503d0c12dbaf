/*
 * exec/ready_ring.h: the owners that are ready to run on one worker.
 *
 * Any thread pushes; the worker pops its own; idle workers steal. A queue in a ring is `scheduled` and nobody runs it,
 * so whether it may move to another worker (no handler of it waits, contract 003 §12) cannot change while it stands
 * here: movable and pinned owners go different ways, so that a thief never meets one that must stay.
 *
 * Pushes go to an inbox, one for movable and one for pinned owners. When the worker's round is over, everything that
 * stands in the inboxes becomes its next round. The order that this gives: no owner runs a second time before each
 * owner that was ready at the worker's last look has run once; within a round, movable ones run in the order in which
 * they became ready, then pinned ones in theirs. A thief takes the oldest movable owner of the round, or, where there
 * is none, the inbox of movable ones as a whole, which becomes its own round.
 *
 * A push is one locked instruction; a pop is one, and one more for each new round that has movable owners for others to
 * take. Nothing here is limited: owners are linked through themselves.
 */
#ifndef ZLINK_EXEC_READY_RING_H
#define ZLINK_EXEC_READY_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "exec/serial_execution_queue.h"

/* Zero-initialise. */
typedef struct zlink_ready_ring {
    /* Any thread; newest first. */
    _Atomic(zlink_serial_execution_queue_t *) inbox;
    _Atomic(zlink_serial_execution_queue_t *) pinned_inbox;

    /* The worker and thieves: oldest first. Only the worker puts something here, and only where nothing is. */
    _Atomic(zlink_serial_execution_queue_t *) round;
    _Atomic uint32_t lock; /* held for a few instructions by whoever takes from the round */

    /* The worker. */
    zlink_serial_execution_queue_t *pinned_round;
} zlink_ready_ring_t;

typedef enum zlink_ready_push {
    ZLINK_READY_MOVABLE,
    ZLINK_READY_PINNED,
} zlink_ready_push_t;

/* A full barrier. True: movable ones stood in the inbox already. */
bool zlink_ready_ring_push(zlink_ready_ring_t *ring, zlink_serial_execution_queue_t *queue, zlink_ready_push_t how);

/* The worker's next, NULL where there is none. `*shared` becomes true where it has put owners within a thief's reach
 * that were not for a moment; that, too, is a full barrier. */
zlink_serial_execution_queue_t *zlink_ready_ring_pop(zlink_ready_ring_t *ring, bool *shared);

/* The oldest movable one of `victim`. May put others into `ring`, the thief's own, whose round is over. */
zlink_serial_execution_queue_t *zlink_ready_ring_steal(zlink_ready_ring_t *victim, zlink_ready_ring_t *ring);

/* For tests, on the worker's thread: takes everything that is ready into the round and pops number pick(context, n). */
zlink_serial_execution_queue_t *
zlink_ready_ring_pop_picked(zlink_ready_ring_t *ring, unsigned (*pick)(void *context, unsigned count), void *context);

/* Sequentially consistent with push. */
static inline bool zlink_ready_ring_has_movable(const zlink_ready_ring_t *ring)
{
    return atomic_load(&ring->inbox) || atomic_load(&ring->round);
}

/* The worker's: does nothing stand ahead of what is in the inbox of movable ones? */
static inline bool zlink_ready_ring_is_next(const zlink_ready_ring_t *ring)
{
    return !atomic_load_explicit(&ring->round, memory_order_relaxed) && !ring->pinned_round;
}

/* The worker's question before it goes to sleep. */
static inline bool zlink_ready_ring_is_empty(const zlink_ready_ring_t *ring)
{
    return !zlink_ready_ring_has_movable(ring) && !atomic_load(&ring->pinned_inbox) && !ring->pinned_round;
}

#endif
