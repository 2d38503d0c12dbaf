/*
 * exec/deadline_scheduler.h: the deadlines of a whole worker pool: one for all Spots, however many timers they have.
 *
 * One per worker pool, embedded in it. It has no thread: the workers carry it on between two owners, and one of them at
 * a time, the timekeeper, sleeps no longer than its next deadline (see worker.c). Any thread may start and cancel. What
 * has expired is handed out in batches to whichever worker comes first; `expired` then runs on that worker, outside
 * every turn and every lock of this. Resolution 1 ms of the pool's clock, never early.
 *
 * Memory: the owner of a deadline counts one reference for it from the start that answered false until a cancel that
 * answered true, or until `expired` has returned.
 */
#ifndef ZLINK_EXEC_DEADLINE_SCHEDULER_H
#define ZLINK_EXEC_DEADLINE_SCHEDULER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/timer_wheel.h"

typedef struct zlink_deadline_scheduler zlink_deadline_scheduler_t;
typedef struct zlink_deadline zlink_deadline_t;

#define ZLINK_DEADLINE_BATCH 64 /* handed out at once */

/* Zero-initialise, then set `expired`; the rest is the scheduler's. `now_ms` is at or past the deadline. A deadline
 * that was started anew while its call was on the way is called for both starts: the owner tells them apart by the
 * time. */
struct zlink_deadline {
    zlink_timer_t timer;
    zlink_deadline_scheduler_t *scheduler;
    zlink_deadline_t *next; /* among those that have expired and were not handed out */
    zlink_deadline_t **link;
    void (*expired)(zlink_deadline_t *deadline, uint64_t now_ms);
};

struct zlink_deadline_scheduler {
    const zlink_clock_t *clock;
    void (*sooner)(void *context); /* the next deadline is earlier than any that was published before */
    void *context;
    _Atomic uint64_t next_ms; /* when a worker has to look: 0 = at once, UINT64_MAX = nothing is running */

    pthread_mutex_t lock; /* over all that follows */
    zlink_timer_wheel_t wheel;
    zlink_deadline_t *expired; /* oldest first */
    zlink_deadline_t **expired_end;
};

/* `sooner` is called on the thread that started the deadline, outside the lock, after next_ms shows it. */
void zlink_deadline_scheduler_init(zlink_deadline_scheduler_t *scheduler, const zlink_clock_t *clock,
                                   void (*sooner)(void *context), void *context);

/* Nothing may be running. */
void zlink_deadline_scheduler_destroy(zlink_deadline_scheduler_t *scheduler);

/* (Re)start so that it expires at `deadline_ms` of the clock; a past one at once. Any thread. True: it was running, and
 * now is for the new time only. */
bool zlink_deadline_start(zlink_deadline_scheduler_t *scheduler, zlink_deadline_t *deadline, uint64_t deadline_ms);

/* Any thread. True: it was running, and `expired` will not be called. False: it was not, or its call is on the way. */
bool zlink_deadline_cancel(zlink_deadline_scheduler_t *scheduler, zlink_deadline_t *deadline);

/* On a worker, outside every turn: hands out one batch of what has expired by `now_ms`. Returns at once where there is
 * nothing to do or somebody else is at it; next_ms tells whether more is due. */
void zlink_deadline_scheduler_run(zlink_deadline_scheduler_t *scheduler, uint64_t now_ms);

static inline uint64_t zlink_deadline_scheduler_next_ms(const zlink_deadline_scheduler_t *scheduler)
{
    return atomic_load(&scheduler->next_ms);
}

static inline uint64_t zlink_deadline_scheduler_now_ms(const zlink_deadline_scheduler_t *scheduler)
{
    return zlink_clock_now_ms(scheduler->clock);
}

#endif
