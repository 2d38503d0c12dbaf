/*
 * exec/application_job_queue.h: how many jobs from the network may wait for their handler at once, and whether there
 * are so many of them that peers should pause.
 *
 * A count of permits. The reactor takes one before it takes a record out of a connection's input; it goes back right
 * before the handler's first instruction, or where the record ends earlier. It holds nothing else: the records stand in
 * their owners' queues. Any thread may take and give back; nobody ever waits in here. One source that was refused is
 * told, once, when a permit is free again.
 *
 * The pressure is part of the same word, so it changes with exactly the permit that crosses a mark: it is PAUSED from
 * `pause_jobs` on and RUNNING again at `resume_jobs`; between the two it stays what it was.
 */
#ifndef ZLINK_EXEC_APPLICATION_JOB_QUEUE_H
#define ZLINK_EXEC_APPLICATION_JOB_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* For each core that the process may use. */
typedef enum zlink_application_job_queue_profile {
    ZLINK_JOBS_COMPACT = 32,
    ZLINK_JOBS_LOW_LATENCY = 64,
    ZLINK_JOBS_BALANCED = 128,
    ZLINK_JOBS_THROUGHPUT = 256,
} zlink_application_job_queue_profile_t;

#define ZLINK_JOBS_MAX                    INT32_MAX
#define ZLINK_JOBS_PAUSE_PERCENT_DEFAULT  80u
#define ZLINK_JOBS_RESUME_PERCENT_DEFAULT 60u

typedef struct zlink_application_job_queue {
    _Atomic uint64_t word; /* free permits, a bit that says that somebody was refused, and one for PAUSED */
    uint32_t limit;
    uint32_t pause_jobs;
    uint32_t resume_jobs;
    void (*permit_free)(void *context);
    void (*pressure_changed)(void *context);
    void *context;
    _Atomic uint64_t transitions;
} zlink_application_job_queue_t;

/* `limit` permits, 1 to ZLINK_JOBS_MAX, with the default marks. */
void zlink_application_job_queue_init(zlink_application_job_queue_t *queue, uint32_t limit);

/* Other marks, before the first take: PAUSED at ceil(limit * pause / 100), RUNNING at floor(limit * resume / 100).
 * False, with nothing changed: pause is not 1..100 or resume is not below it. */
bool zlink_application_job_queue_set_marks(zlink_application_job_queue_t *queue, unsigned pause_percent,
                                           unsigned resume_percent);

/* Whom to tell; before the first take, or while nothing is taken. `permit_free` is called on the thread that gives the
 * permit back, once for any number of refusals since the last call; `pressure_changed`, which may be NULL, on the
 * thread whose permit crossed the mark: what is the case by then, is_paused() says. */
void zlink_application_job_queue_set_waiter(zlink_application_job_queue_t *queue, void (*permit_free)(void *context),
                                            void (*pressure_changed)(void *context), void *context);

/* False where none is free: then `permit_free` will be called. */
bool zlink_application_job_queue_take(zlink_application_job_queue_t *queue);

void zlink_application_job_queue_give_back(zlink_application_job_queue_t *queue);

/* Permits in use. */
uint32_t zlink_application_job_queue_jobs(const zlink_application_job_queue_t *queue);

bool zlink_application_job_queue_is_paused(const zlink_application_job_queue_t *queue);

/* How often it was paused, and went on, until now. */
uint64_t zlink_application_job_queue_transitions(const zlink_application_job_queue_t *queue);

static inline uint32_t zlink_application_job_queue_limit(const zlink_application_job_queue_t *queue)
{
    return queue->limit;
}

#endif
