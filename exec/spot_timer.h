/*
 * exec/spot_timer.h: the timers of one Spot: when a tick is due, which one it is, and that it may begin (EX-87, EX-88).
 *
 * A timer is a name with the registration that counts now: every start of the name raises its generation, and what was
 * queued for an earlier one does not begin. A timer has at most one tick on its way, from its submission to the end of
 * its handler, so a name never overlaps itself, whatever the owner's queues allow; while it is on its way nothing is
 * armed, so ticks that come due meanwhile are one tick that is late. What is late is decided when a tick begins, at
 * `now`, with `last` the scheduled_index of the tick before (0 before the first) and
 *     due = 1 + (now - time of tick 1) / period:
 *
 *     ZLINK_TIMER_SKIP_LATE_TICKS    scheduled_index = due
 *     ZLINK_TIMER_CATCH_UP_BOUNDED   scheduled_index = max(last + 1, due - max_catch_up_ticks + 1)
 *     ZLINK_TIMER_DELAY_NEXT_TICK    scheduled_index = last + 1; the next is armed for the end of this one + period
 *     always                         skipped_ticks = scheduled_index - last - 1, delivery_index = one more than before
 *
 * A tick that finds its queue full or its admission closed is held: it is tried again a little later (10 ms, doubling
 * up to 1,280 ms), and then is late. With the admission closed no handler begins, and when it opens no burst follows.
 *
 * The set belongs to the Spot: any thread may start, cancel and close; the lock is held for a few steps and over
 * `submit`, never while a handler runs. Memory: a timer is held by its set, by its armed deadline, and by its tick on
 * the way, and the set by its owner and by each timer, so neither goes while a tick is queued or running or an
 * expiry is under way. After zlink_spot_timers_close has returned the owner's functions are not called any more.
 */
#ifndef ZLINK_EXEC_SPOT_TIMER_H
#define ZLINK_EXEC_SPOT_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#include <zlink/timer.h>

#include "exec/deadline_scheduler.h"
#include "exec/worker_pool.h"

#define ZLINK_TIMERS_PER_SPOT_MAX      1024u
#define ZLINK_TIMER_NAME_BYTES_MAX     255u
#define ZLINK_TIMER_HOLD_MS            10u
#define ZLINK_TIMER_HOLD_DOUBLINGS_MAX 7u

typedef struct zlink_spot_timers zlink_spot_timers_t;
typedef struct zlink_spot_timer zlink_spot_timer_t;

/* What the owner of a set does for it. All run under the set's lock, on a worker or on the thread that starts or
 * cancels a timer, and must not call back into the set. */
typedef struct zlink_spot_timer_owner {
    /* May a tick begin now? False from the end of the owner's lease on. */
    bool (*admission_open)(void *context);
    /* Makes a turn and gives it to the coordinator's execute_timer. ZLINK_OK: the turn will call zlink_spot_timer_begin
     * and then, as its last act, zlink_spot_timer_end. Anything else: it will not, and the tick is held. */
    zlink_status_t (*submit)(void *context, zlink_spot_timer_t *timer);
    /* The timer is gone, its last tick has ended: the coordinator's remove_timer. Not called for what a close ends. */
    void (*gone)(void *context, const char *timer_name);
    void *context;
} zlink_spot_timer_owner_t;

/* A set without timers; 0 timers = ZLINK_TIMERS_PER_SPOT_MAX. NULL when out of memory. */
zlink_spot_timers_t *zlink_spot_timers_create(zlink_worker_pool_t *pool, const zlink_spot_timer_owner_t *owner,
                                              uint32_t timers_max);

/* Cancels every timer and takes no new one. Idempotent. */
void zlink_spot_timers_close(zlink_spot_timers_t *timers);

/* The owner's last touch, after the close. The set goes when its last tick has ended. NULL is nothing. */
void zlink_spot_timers_let_go(zlink_spot_timers_t *timers);

/* (Re)starts `name`. ZLINK_INVALID_OPERATION for an argument out of range, ZLINK_CAPACITY_EXCEEDED for one timer too
 * many or no memory, ZLINK_SHUTTING_DOWN after the close; then nothing has changed. */
zlink_status_t zlink_spot_timers_start(zlink_spot_timers_t *timers, const char *name,
                                       const zlink_timer_options_t *options, zlink_timer_handler_t handler);

/* ZLINK_NOT_FOUND where no such timer is started. */
zlink_status_t zlink_spot_timers_cancel(zlink_spot_timers_t *timers, const char *name);

/* Timers that count towards the limit: started ones, and cancelled ones whose tick has not ended. */
uint32_t zlink_spot_timers_count(zlink_spot_timers_t *timers);

/* ---- for the turn of a tick ---- */

const char *zlink_spot_timer_name(const zlink_spot_timer_t *timer);

/* The tick and its handler, NULL where it must not begin. What it points at stays until zlink_spot_timer_end. */
const zlink_tick_t *zlink_spot_timer_begin(zlink_spot_timer_t *timer, zlink_timer_handler_t *handler);

/* The turn is over, with what the handler answered where it began. The timer may be gone afterwards. */
void zlink_spot_timer_end(zlink_spot_timer_t *timer, zlink_status_t status);

#endif
