#include "exec/application_job_queue.h"

#include <assert.h>
#include <stddef.h>

#define REFUSED   (UINT64_C(1) << 63) /* somebody was, and has not been told yet */
#define PAUSED    (UINT64_C(1) << 62)
#define FREE_MASK UINT64_C(0xffffffff)

static uint32_t jobs_in(const zlink_application_job_queue_t *queue, uint64_t word)
{
    return queue->limit - (uint32_t)(word & FREE_MASK);
}

void zlink_application_job_queue_init(zlink_application_job_queue_t *queue, uint32_t limit)
{
    assert(limit > 0 && limit <= ZLINK_JOBS_MAX);
    *queue = (zlink_application_job_queue_t){.limit = limit};
    atomic_init(&queue->word, limit);
    (void)zlink_application_job_queue_set_marks(queue, ZLINK_JOBS_PAUSE_PERCENT_DEFAULT,
                                                ZLINK_JOBS_RESUME_PERCENT_DEFAULT);
}

bool zlink_application_job_queue_set_marks(zlink_application_job_queue_t *queue, unsigned pause_percent,
                                           unsigned resume_percent)
{
    if (pause_percent < 1 || pause_percent > 100 || resume_percent >= pause_percent)
        return false;
    assert(zlink_application_job_queue_jobs(queue) == 0);
    queue->pause_jobs = (uint32_t)(((uint64_t)queue->limit * pause_percent + 99) / 100);
    queue->resume_jobs = (uint32_t)((uint64_t)queue->limit * resume_percent / 100);
    return true;
}

void zlink_application_job_queue_set_waiter(zlink_application_job_queue_t *queue, void (*permit_free)(void *context),
                                            void (*pressure_changed)(void *context), void *context)
{
    assert(zlink_application_job_queue_jobs(queue) == 0);
    queue->permit_free = permit_free;
    queue->pressure_changed = pressure_changed;
    queue->context = context;
}

static void tell_pressure(zlink_application_job_queue_t *queue, uint64_t before, uint64_t after)
{
    if (((before ^ after) & PAUSED) == 0)
        return;
    atomic_fetch_add_explicit(&queue->transitions, 1, memory_order_relaxed);
    if (queue->pressure_changed)
        queue->pressure_changed(queue->context);
}

bool zlink_application_job_queue_take(zlink_application_job_queue_t *queue)
{
    uint64_t word = atomic_load_explicit(&queue->word, memory_order_relaxed);
    uint64_t next;

    /* Saying that one was refused is a step of the same word, so no permit can come back in between unseen. */
    do {
        next = (word & FREE_MASK) ? word - 1 : word | REFUSED;
        if (jobs_in(queue, next) >= queue->pause_jobs)
            next |= PAUSED;
    } while (
        !atomic_compare_exchange_weak_explicit(&queue->word, &word, next, memory_order_acq_rel, memory_order_relaxed));
    tell_pressure(queue, word, next);
    return (word & FREE_MASK) != 0;
}

void zlink_application_job_queue_give_back(zlink_application_job_queue_t *queue)
{
    uint64_t word = atomic_load_explicit(&queue->word, memory_order_relaxed);
    uint64_t next;

    do {
        assert((word & FREE_MASK) < queue->limit && "more given back than taken");
        next = (word & ~REFUSED) + 1;
        if (jobs_in(queue, next) <= queue->resume_jobs)
            next &= ~PAUSED;
    } while (
        !atomic_compare_exchange_weak_explicit(&queue->word, &word, next, memory_order_acq_rel, memory_order_relaxed));
    tell_pressure(queue, word, next);
    if ((word & REFUSED) && queue->permit_free)
        queue->permit_free(queue->context);
}

uint32_t zlink_application_job_queue_jobs(const zlink_application_job_queue_t *queue)
{
    return jobs_in(queue, atomic_load_explicit(&queue->word, memory_order_relaxed));
}

bool zlink_application_job_queue_is_paused(const zlink_application_job_queue_t *queue)
{
    return (atomic_load_explicit(&queue->word, memory_order_acquire) & PAUSED) != 0;
}

uint64_t zlink_application_job_queue_transitions(const zlink_application_job_queue_t *queue)
{
    return atomic_load_explicit(&queue->transitions, memory_order_relaxed);
}
