/*
 * exec/application_job_queue.h: how many jobs from the network may wait for their handler at once.
 *
 * A count of permits. The reactor takes one before it takes a record out of a connection's input; it goes back right
 * before the handler's first instruction, or where the record ends earlier. It holds nothing else: the records stand in
 * their owners' queues. Any thread may take and give back; nobody ever waits in here. One source that was refused is
 * told, once, when a permit is free again.
 */
#ifndef ZLINK_EXEC_APPLICATION_JOB_QUEUE_H
#define ZLINK_EXEC_APPLICATION_JOB_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct zlink_application_job_queue {
    _Atomic uint64_t word; /* free permits, and a bit that says that somebody was refused */
    uint32_t limit;
    void (*permit_free)(void *context);
    void *context;
} zlink_application_job_queue_t;

/* `limit` permits, at least 1. */
void zlink_application_job_queue_init(zlink_application_job_queue_t *queue, uint32_t limit);

/* Whom to tell; before the first take, or while nothing is taken. `permit_free` is called on the thread that gives the
 * permit back, once for any number of refusals since the last call. */
void zlink_application_job_queue_set_waiter(zlink_application_job_queue_t *queue, void (*permit_free)(void *context),
                                            void *context);

/* False where none is free: then `permit_free` will be called. */
bool zlink_application_job_queue_take(zlink_application_job_queue_t *queue);

void zlink_application_job_queue_give_back(zlink_application_job_queue_t *queue);

/* Permits in use. */
uint32_t zlink_application_job_queue_jobs(const zlink_application_job_queue_t *queue);

static inline uint32_t zlink_application_job_queue_limit(const zlink_application_job_queue_t *queue)
{
    return queue->limit;
}

#endif
