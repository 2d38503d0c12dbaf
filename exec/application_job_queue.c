#include "exec/application_job_queue.h"

#include <assert.h>
#include <stddef.h>

#define REFUSED   (UINT64_C(1) << 63) /* somebody was, and has not been told yet */
#define FREE_MASK UINT64_C(0xffffffff)

void zlink_application_job_queue_init(zlink_application_job_queue_t *queue, uint32_t limit)
{
    assert(limit > 0);
    atomic_init(&queue->word, limit);
    queue->limit = limit;
    queue->permit_free = NULL;
    queue->context = NULL;
}

void zlink_application_job_queue_set_waiter(zlink_application_job_queue_t *queue, void (*permit_free)(void *context),
                                            void *context)
{
    assert(zlink_application_job_queue_jobs(queue) == 0);
    queue->permit_free = permit_free;
    queue->context = context;
}

bool zlink_application_job_queue_take(zlink_application_job_queue_t *queue)
{
    uint64_t word = atomic_load_explicit(&queue->word, memory_order_relaxed);
    uint64_t next;

    /* Saying that one was refused is a step of the same word, so no permit can come back in between unseen. */
    do {
        next = (word & FREE_MASK) ? word - 1 : word | REFUSED;
    } while (
        !atomic_compare_exchange_weak_explicit(&queue->word, &word, next, memory_order_acq_rel, memory_order_relaxed));
    return (word & FREE_MASK) != 0;
}

void zlink_application_job_queue_give_back(zlink_application_job_queue_t *queue)
{
    uint64_t word = atomic_load_explicit(&queue->word, memory_order_relaxed);
    uint64_t next;

    do {
        assert((word & FREE_MASK) < queue->limit && "more given back than taken");
        next = (word & ~REFUSED) + 1;
    } while (
        !atomic_compare_exchange_weak_explicit(&queue->word, &word, next, memory_order_acq_rel, memory_order_relaxed));
    if ((word & REFUSED) && queue->permit_free)
        queue->permit_free(queue->context);
}

uint32_t zlink_application_job_queue_jobs(const zlink_application_job_queue_t *queue)
{
    return queue->limit - (uint32_t)(atomic_load_explicit(&queue->word, memory_order_relaxed) & FREE_MASK);
}
