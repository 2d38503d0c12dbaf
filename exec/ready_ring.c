#include "exec/ready_ring.h"

#include <assert.h>
#include <sched.h>

#define ONE         UINT64_C(1)
#define ONE_MOVABLE (UINT64_C(1) << 32)
#define SPINS       64

static void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void lock_ring(zlink_ready_ring_t *ring)
{
    unsigned spins = 0;

    while (atomic_exchange_explicit(&ring->lock, 1, memory_order_acquire) != 0) {
        do {
            if (++spins % SPINS)
                cpu_relax();
            else
                sched_yield(); /* its holder was taken off the processor */
        } while (atomic_load_explicit(&ring->lock, memory_order_relaxed) != 0);
    }
}

static void unlock_ring(zlink_ready_ring_t *ring)
{
    atomic_store_explicit(&ring->lock, 0, memory_order_release);
}

static zlink_serial_execution_queue_t *list_pop(zlink_ready_list_t *list)
{
    zlink_serial_execution_queue_t *queue = list->first;
    if (queue)
        list->first = queue->ready_next;
    return queue;
}

/* Only under the lock, so a load and a store are enough; only growing must be ordered with a worker's going to sleep.
 */
static void count_down(zlink_ready_ring_t *ring, uint64_t amount)
{
    uint64_t counts = atomic_load_explicit(&ring->counts, memory_order_relaxed);
    atomic_store_explicit(&ring->counts, counts - amount, memory_order_relaxed);
}

void zlink_ready_ring_push(zlink_ready_ring_t *ring, zlink_serial_execution_queue_t *queue)
{
    bool pinned = queue->suspended != 0 || queue->held != NULL;
    zlink_ready_list_t *list = pinned ? &ring->pinned : &ring->movable;

    queue->ready_next = NULL;
    lock_ring(ring);
    queue->ready_ticket = ring->next_ticket++;
    if (list->first)
        list->last->ready_next = queue;
    else
        list->first = queue;
    list->last = queue;
    atomic_fetch_add(&ring->counts, pinned ? ONE : ONE | ONE_MOVABLE);
    unlock_ring(ring);
}

zlink_serial_execution_queue_t *zlink_ready_ring_pop(zlink_ready_ring_t *ring)
{
    if (zlink_ready_ring_is_empty(ring))
        return NULL;
    lock_ring(ring);
    const zlink_serial_execution_queue_t *movable = ring->movable.first;
    const zlink_serial_execution_queue_t *pinned = ring->pinned.first;
    zlink_serial_execution_queue_t *queue = NULL;
    if (movable && (!pinned || (int32_t)(movable->ready_ticket - pinned->ready_ticket) < 0)) {
        queue = list_pop(&ring->movable);
        count_down(ring, ONE | ONE_MOVABLE);
    } else if (pinned) {
        queue = list_pop(&ring->pinned);
        count_down(ring, ONE);
    }
    unlock_ring(ring);
    return queue;
}

zlink_serial_execution_queue_t *zlink_ready_ring_steal(zlink_ready_ring_t *ring)
{
    if (!zlink_ready_ring_has_movable(ring))
        return NULL;
    lock_ring(ring);
    zlink_serial_execution_queue_t *queue = list_pop(&ring->movable);
    if (queue)
        count_down(ring, ONE | ONE_MOVABLE);
    unlock_ring(ring);
    return queue;
}
