/*
 * A deadline is in the wheel, or in the list of those that have expired, or (in nobody's list any more) in a batch on
 * some worker's stack. Only the first two can be cancelled. A batch is an array, because a deadline in it may be
 * started again before its call has come.
 */
#include "exec/deadline_scheduler.h"

#include <assert.h>

#include "base/container_of.h"

void zlink_deadline_scheduler_init(zlink_deadline_scheduler_t *scheduler, const zlink_clock_t *clock,
                                   void (*sooner)(void *context), void *context)
{
    scheduler->clock = clock;
    scheduler->sooner = sooner;
    scheduler->context = context;
    atomic_init(&scheduler->next_ms, UINT64_MAX);
    pthread_mutex_init(&scheduler->lock, NULL); /* never fails for a default mutex on Linux */
    zlink_timer_wheel_init(&scheduler->wheel, zlink_clock_now_ms(clock));
    scheduler->expired = NULL;
    scheduler->expired_end = &scheduler->expired;
}

void zlink_deadline_scheduler_destroy(zlink_deadline_scheduler_t *scheduler)
{
    assert(scheduler->wheel.count == 0 && !scheduler->expired && "a deadline is still running");
    pthread_mutex_destroy(&scheduler->lock);
}

/* ---- under the lock ---- */

static void expire(zlink_timer_t *timer)
{
    zlink_deadline_t *deadline = ZLINK_CONTAINER_OF(timer, zlink_deadline_t, timer);
    zlink_deadline_scheduler_t *scheduler = deadline->scheduler;

    deadline->next = NULL;
    deadline->link = scheduler->expired_end;
    *scheduler->expired_end = deadline;
    scheduler->expired_end = &deadline->next;
}

static void unlist(zlink_deadline_scheduler_t *scheduler, zlink_deadline_t *deadline)
{
    assert(deadline->link);
    *deadline->link = deadline->next;
    if (deadline->next)
        deadline->next->link = deadline->link;
    else
        scheduler->expired_end = deadline->link;
    deadline->link = NULL;
}

static bool stop(zlink_deadline_scheduler_t *scheduler, zlink_deadline_t *deadline)
{
    bool was_running = true;

    if (deadline->link)
        unlist(scheduler, deadline);
    else if (zlink_timer_is_running(&deadline->timer))
        zlink_timer_wheel_cancel(&scheduler->wheel, &deadline->timer);
    else
        was_running = false;
    return was_running;
}

/* True: workers have to look earlier than they knew. */
static bool publish(zlink_deadline_scheduler_t *scheduler)
{
    uint64_t before_ms = atomic_load_explicit(&scheduler->next_ms, memory_order_relaxed);
    uint64_t next_ms = scheduler->expired ? 0 : zlink_timer_wheel_next_ms(&scheduler->wheel);

    if (next_ms != before_ms)
        atomic_store(&scheduler->next_ms, next_ms);
    return next_ms < before_ms;
}

/* Where nothing is due, the wheel may have stood still for long: what starts now would stand far from its place. */
static void wind(zlink_deadline_scheduler_t *scheduler)
{
    uint64_t now_ms = zlink_deadline_scheduler_now_ms(scheduler);
    if (zlink_timer_wheel_next_ms(&scheduler->wheel) > now_ms)
        zlink_timer_wheel_advance(&scheduler->wheel, now_ms);
}

/* ---- any thread ---- */

bool zlink_deadline_start(zlink_deadline_scheduler_t *scheduler, zlink_deadline_t *deadline, uint64_t deadline_ms)
{
    assert(deadline->expired);
    pthread_mutex_lock(&scheduler->lock);
    bool was_running = stop(scheduler, deadline);
    wind(scheduler);
    deadline->scheduler = scheduler;
    deadline->timer.fire = expire;
    zlink_timer_wheel_start(&scheduler->wheel, &deadline->timer, deadline_ms);
    bool sooner = publish(scheduler);
    pthread_mutex_unlock(&scheduler->lock);
    if (sooner)
        scheduler->sooner(scheduler->context);
    return was_running;
}

bool zlink_deadline_cancel(zlink_deadline_scheduler_t *scheduler, zlink_deadline_t *deadline)
{
    pthread_mutex_lock(&scheduler->lock);
    bool was_running = stop(scheduler, deadline);
    (void)publish(scheduler); /* never sooner */
    pthread_mutex_unlock(&scheduler->lock);
    return was_running;
}

/* ---- workers ---- */

void zlink_deadline_scheduler_run(zlink_deadline_scheduler_t *scheduler, uint64_t now_ms)
{
    zlink_deadline_t *batch[ZLINK_DEADLINE_BATCH];
    size_t count = 0;

    if (now_ms < zlink_deadline_scheduler_next_ms(scheduler) || pthread_mutex_trylock(&scheduler->lock) != 0)
        return;
    zlink_timer_wheel_advance(&scheduler->wheel, now_ms);
    now_ms = scheduler->wheel.now_ms; /* a worker's clock may be a little behind what others have seen */
    while (scheduler->expired && count < ZLINK_DEADLINE_BATCH) {
        batch[count++] = scheduler->expired;
        unlist(scheduler, scheduler->expired);
    }
    (void)publish(scheduler); /* this worker looks again before it sleeps or takes up an owner */
    pthread_mutex_unlock(&scheduler->lock);
    for (size_t i = 0; i < count; i++)
        batch[i]->expired(batch[i], now_ms);
}
