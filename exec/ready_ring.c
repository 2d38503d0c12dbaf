#include "exec/ready_ring.h"

#include <assert.h>
#include <sched.h>

#include "exec/cpu_relax.h"

#define SPINS 64

static void lock_round(zlink_ready_ring_t *ring)
{
    unsigned spins = 0;

    while (atomic_exchange_explicit(&ring->lock, 1, memory_order_acquire) != 0) {
        do {
            if (++spins % SPINS)
                zlink_cpu_relax();
            else
                sched_yield(); /* its holder was taken off the processor */
        } while (atomic_load_explicit(&ring->lock, memory_order_relaxed) != 0);
    }
}

static void unlock_round(zlink_ready_ring_t *ring)
{
    atomic_store_explicit(&ring->lock, 0, memory_order_release);
}

/* Turns a chain around; */
static zlink_serial_execution_queue_t *oldest_first(zlink_serial_execution_queue_t *newest)
{
    zlink_serial_execution_queue_t *oldest = NULL;

    while (newest) {
        zlink_serial_execution_queue_t *next = newest->ready_next;
        newest->ready_next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

bool zlink_ready_ring_push(zlink_ready_ring_t *ring, zlink_serial_execution_queue_t *queue, zlink_ready_push_t how)
{
    _Atomic(zlink_serial_execution_queue_t *) *inbox = how == ZLINK_READY_PINNED ? &ring->pinned_inbox : &ring->inbox;
    zlink_serial_execution_queue_t *newest = atomic_load_explicit(inbox, memory_order_relaxed);

    do
        queue->ready_next = newest;
    while (!atomic_compare_exchange_weak(inbox, &newest, queue));
    return newest != NULL;
}

static zlink_serial_execution_queue_t *take(_Atomic(zlink_serial_execution_queue_t *) *inbox)
{
    if (!atomic_load(inbox))
        return NULL;
    return oldest_first(atomic_exchange(inbox, NULL));
}

/* The lock is for those who take: whoever has read the first one reads its link before somebody else can run it. */
static zlink_serial_execution_queue_t *take_from_round(zlink_ready_ring_t *ring)
{
    if (!atomic_load(&ring->round))
        return NULL;
    lock_round(ring);
    zlink_serial_execution_queue_t *queue = atomic_load_explicit(&ring->round, memory_order_acquire);
    if (queue)
        atomic_store_explicit(&ring->round, queue->ready_next, memory_order_relaxed);
    unlock_round(ring);
    return queue;
}

/* The first of a new round, whose rest others may take. */
static zlink_serial_execution_queue_t *begin_round(zlink_ready_ring_t *ring, zlink_serial_execution_queue_t *oldest)
{
    if (oldest && oldest->ready_next) {
        assert(!atomic_load_explicit(&ring->round, memory_order_relaxed));
        atomic_store(&ring->round, oldest->ready_next);
    }
    return oldest;
}

zlink_serial_execution_queue_t *zlink_ready_ring_pop(zlink_ready_ring_t *ring, bool *shared)
{
    zlink_serial_execution_queue_t *queue = take_from_round(ring);

    *shared = false;
    if (queue)
        return queue;
    queue = ring->pinned_round;
    if (!queue) {
        ring->pinned_round = take(&ring->pinned_inbox);
        queue = begin_round(ring, take(&ring->inbox));
        if (queue) {
            *shared = queue->ready_next != NULL;
            return queue;
        }
        queue = ring->pinned_round;
    }
    if (queue)
        ring->pinned_round = queue->ready_next;
    return queue;
}

zlink_serial_execution_queue_t *zlink_ready_ring_steal(zlink_ready_ring_t *victim, zlink_ready_ring_t *ring)
{
    zlink_serial_execution_queue_t *queue = take_from_round(victim);

    return queue ? queue : begin_round(ring, take(&victim->inbox));
}

/* ---- for tests ---- */

static unsigned gather(zlink_serial_execution_queue_t **link, zlink_serial_execution_queue_t *more)
{
    unsigned count = 0;

    for (; *link; link = &(*link)->ready_next)
        count++;
    *link = more;
    for (; more; more = more->ready_next)
        count++;
    return count;
}

static zlink_serial_execution_queue_t *unlink_one(zlink_serial_execution_queue_t **link, unsigned index)
{
    for (; index > 0 && *link; index--)
        link = &(*link)->ready_next;
    zlink_serial_execution_queue_t *queue = *link;
    assert(queue && "a pick is one of those that were counted");
    *link = queue->ready_next;
    return queue;
}

zlink_serial_execution_queue_t *
zlink_ready_ring_pop_picked(zlink_ready_ring_t *ring, unsigned (*pick)(void *context, unsigned count), void *context)
{
    zlink_serial_execution_queue_t *movable = atomic_load(&ring->round);
    unsigned movables = gather(&movable, take(&ring->inbox));
    unsigned pinned = gather(&ring->pinned_round, take(&ring->pinned_inbox));
    zlink_serial_execution_queue_t *queue = NULL;

    if (movables + pinned != 0) {
        unsigned index = pick(context, movables + pinned);
        queue = index < movables ? unlink_one(&movable, index) : unlink_one(&ring->pinned_round, index - movables);
    }
    atomic_store(&ring->round, movable);
    return queue;
}
