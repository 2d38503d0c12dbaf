#include "exec/spot_timer.h"

#include <assert.h>
#include <pthread.h>
#include <stdalign.h>
#include <string.h>

#include "base/container_of.h"
#include "base/memory.h"

/* Everything but the name is under the lock of its set. */
struct zlink_spot_timer {
    zlink_deadline_t deadline;
    zlink_spot_timers_t *timers;
    zlink_spot_timer_t *next;
    uint32_t references;   /* the set's, the armed deadline's, the tick's */
    bool started;          /* false once it was cancelled; it stays in the set while its tick is on the way */
    bool armed;            /* for due_ms */
    bool on_its_way;       /* a tick was submitted and has not ended */
    bool began;            /* … and its handler has begun */
    bool overdue;          /* the new registration came due while a tick of an old one was on its way */
    uint8_t held;          /* how often in a row a tick was held */
    uint64_t generation;   /* of the registration that counts */
    uint64_t submitted_as; /* the generation of the tick on its way */

    zlink_timer_options_t options;
    zlink_timer_handler_t handler;
    uint64_t due_ms;
    uint64_t first_ms;     /* planned time of tick 1 */
    uint64_t scheduled_ms; /* under ZLINK_TIMER_DELAY_NEXT_TICK: planned time of the next */
    uint64_t last_scheduled_index;
    uint64_t last_delivery_index;

    zlink_tick_t tick; /* the one on its way; a new registration does not touch it */
    char name[];
};

struct zlink_spot_timers {
    zlink_deadline_scheduler_t *deadlines;
    zlink_spot_timer_owner_t owner;
    uint32_t timers_max;

    pthread_mutex_t lock; /* over all that follows */
    bool closed;
    uint32_t references; /* the owner's, and one for each timer */
    uint32_t count;      /* of those in the set */
    zlink_spot_timer_t *first;
};

/* ---- life ---- */

zlink_spot_timers_t *zlink_spot_timers_create(zlink_worker_pool_t *pool, const zlink_spot_timer_owner_t *owner,
                                              uint32_t timers_max)
{
    zlink_spot_timers_t *timers = zlink_calloc(1, sizeof(*timers));
    if (!timers)
        return NULL;
    timers->deadlines = zlink_worker_pool_deadlines(pool);
    timers->owner = *owner;
    timers->timers_max = timers_max ? timers_max : ZLINK_TIMERS_PER_SPOT_MAX;
    timers->references = 1;
    pthread_mutex_init(&timers->lock, NULL); /* never fails for a default mutex on Linux */
    return timers;
}

/* Gives one reference to the set back, and its lock. */
static void unlock_and_let_go(zlink_spot_timers_t *timers)
{
    bool last = --timers->references == 0;

    pthread_mutex_unlock(&timers->lock);
    if (!last)
        return;
    assert(!timers->first);
    pthread_mutex_destroy(&timers->lock);
    zlink_free(timers);
}

void zlink_spot_timers_let_go(zlink_spot_timers_t *timers)
{
    if (!timers)
        return;
    pthread_mutex_lock(&timers->lock);
    assert(timers->closed);
    unlock_and_let_go(timers);
}

/* Gives `references` to the timer back, and the lock of its set. */
static void unlock_timer(zlink_spot_timer_t *timer, uint32_t references)
{
    zlink_spot_timers_t *timers = timer->timers;

    assert(timer->references >= references);
    timer->references -= references;
    if (timer->references != 0) {
        pthread_mutex_unlock(&timers->lock);
        return;
    }
    zlink_free(timer);
    unlock_and_let_go(timers);
}

static zlink_spot_timer_t **find(zlink_spot_timers_t *timers, const char *name)
{
    zlink_spot_timer_t **at = &timers->first;

    while (*at && strcmp((*at)->name, name) != 0)
        at = &(*at)->next;
    return at;
}

/* ---- arming; under the lock ---- */

static void arm(zlink_spot_timer_t *timer, uint64_t due_ms)
{
    timer->armed = true;
    timer->due_ms = due_ms;
    if (!zlink_deadline_start(timer->timers->deadlines, &timer->deadline, due_ms))
        timer->references++;
}

static void disarm(zlink_spot_timer_t *timer)
{
    timer->armed = false;
    if (zlink_deadline_cancel(timer->timers->deadlines, &timer->deadline))
        timer->references--;
}

static void hold(zlink_spot_timer_t *timer)
{
    uint64_t now_ms = zlink_deadline_scheduler_now_ms(timer->timers->deadlines);

    arm(timer, now_ms + ((uint64_t)ZLINK_TIMER_HOLD_MS << timer->held));
    if (timer->held < ZLINK_TIMER_HOLD_DOUBLINGS_MAX)
        timer->held++;
}

static void submit(zlink_spot_timer_t *timer)
{
    const zlink_spot_timer_owner_t *owner = &timer->timers->owner;

    assert(timer->started && !timer->armed && !timer->on_its_way);
    timer->on_its_way = true;
    timer->began = false;
    timer->overdue = false;
    timer->submitted_as = timer->generation;
    timer->references++;
    if (owner->admission_open(owner->context) && owner->submit(owner->context, timer) == ZLINK_OK)
        return;
    timer->on_its_way = false;
    timer->references--;
    hold(timer);
}

static void expired(zlink_deadline_t *deadline, uint64_t now_ms)
{
    zlink_spot_timer_t *timer = ZLINK_CONTAINER_OF(deadline, zlink_spot_timer_t, deadline);

    pthread_mutex_lock(&timer->timers->lock);
    /* Otherwise it was cancelled or started anew when this call was on its way already. */
    if (timer->armed && now_ms >= timer->due_ms) {
        disarm(timer); /* it may have been armed for the same time again, and then is in the scheduler still */
        if (timer->on_its_way)
            timer->overdue = true;
        else
            submit(timer);
    }
    unlock_timer(timer, 1);
}

/* ---- start, cancel, close ---- */

static bool options_are_valid(const zlink_timer_options_t *options)
{
    return options->first_delay_ms <= INT32_MAX && options->period_ms <= INT32_MAX &&
           (unsigned)options->overrun_policy <= ZLINK_TIMER_DELAY_NEXT_TICK &&
           (options->overrun_policy != ZLINK_TIMER_CATCH_UP_BOUNDED || options->max_catch_up_ticks <= INT32_MAX);
}

/* Under the lock; into the set at `at`. */
static zlink_status_t add(zlink_spot_timers_t *timers, const char *name, zlink_spot_timer_t **at)
{
    if (timers->count >= timers->timers_max)
        return ZLINK_CAPACITY_EXCEEDED;
    size_t name_bytes = strlen(name) + 1;
    zlink_spot_timer_t *timer = zlink_calloc(1, sizeof(*timer) + name_bytes);
    if (!timer)
        return ZLINK_CAPACITY_EXCEEDED;
    memcpy(timer->name, name, name_bytes);
    timer->timers = timers;
    timer->deadline.expired = expired;
    timer->references = 1;
    timers->references++;
    timers->count++;
    *at = timer;
    return ZLINK_OK;
}

static void start(zlink_spot_timer_t *timer, const zlink_timer_options_t *options, zlink_timer_handler_t handler)
{
    timer->started = true;
    timer->overdue = false;
    timer->held = 0;
    timer->generation++;
    timer->options = *options;
    if (timer->options.max_catch_up_ticks == 0)
        timer->options.max_catch_up_ticks = 1;
    timer->handler = handler;
    timer->last_scheduled_index = 0;
    timer->last_delivery_index = 0;
    timer->first_ms = zlink_deadline_scheduler_now_ms(timer->timers->deadlines) + options->first_delay_ms;
    timer->scheduled_ms = timer->first_ms;
    arm(timer, timer->first_ms);
}

zlink_status_t zlink_spot_timers_start(zlink_spot_timers_t *timers, const char *name,
                                       const zlink_timer_options_t *options, zlink_timer_handler_t handler)
{
    zlink_status_t status = ZLINK_OK;
    size_t name_bytes = name ? strnlen(name, ZLINK_TIMER_NAME_BYTES_MAX + 1) : 0;

    if (name_bytes == 0 || name_bytes > ZLINK_TIMER_NAME_BYTES_MAX || !handler || !options_are_valid(options))
        return ZLINK_INVALID_OPERATION;
    pthread_mutex_lock(&timers->lock);
    if (timers->closed) {
        status = ZLINK_SHUTTING_DOWN;
    } else {
        zlink_spot_timer_t **at = find(timers, name);
        if (!*at)
            status = add(timers, name, at);
        if (status == ZLINK_OK)
            start(*at, options, handler);
    }
    pthread_mutex_unlock(&timers->lock);
    return status;
}

/* Under the lock: no tick of it begins any more. True: it is out of the set, whose reference is the caller's. */
static bool stop(zlink_spot_timers_t *timers, zlink_spot_timer_t **at)
{
    zlink_spot_timer_t *timer = *at;

    assert(timer);
    timer->started = false;
    disarm(timer);
    if (timer->on_its_way)
        return false;
    *at = timer->next;
    timers->count--;
    if (!timers->closed)
        timers->owner.gone(timers->owner.context, timer->name);
    return true;
}

zlink_status_t zlink_spot_timers_cancel(zlink_spot_timers_t *timers, const char *name)
{
    if (!name)
        return ZLINK_INVALID_OPERATION;
    pthread_mutex_lock(&timers->lock);
    zlink_spot_timer_t **at = find(timers, name);
    zlink_spot_timer_t *timer = *at;
    if (!timer || !timer->started) {
        pthread_mutex_unlock(&timers->lock);
        return ZLINK_NOT_FOUND;
    }
    unlock_timer(timer, stop(timers, at) ? 1 : 0);
    return ZLINK_OK;
}

void zlink_spot_timers_close(zlink_spot_timers_t *timers)
{
    pthread_mutex_lock(&timers->lock);
    timers->closed = true;
    zlink_spot_timer_t **at = &timers->first;
    while (*at) {
        zlink_spot_timer_t *timer = *at;
        if (!stop(timers, at)) {
            at = &timer->next;
            continue;
        }
        if (--timer->references == 0) { /* not unlock_timer: the owner's reference keeps the set */
            zlink_free(timer);
            timers->references--;
        }
    }
    pthread_mutex_unlock(&timers->lock);
}

uint32_t zlink_spot_timers_count(zlink_spot_timers_t *timers)
{
    pthread_mutex_lock(&timers->lock);
    uint32_t count = timers->count;
    pthread_mutex_unlock(&timers->lock);
    return count;
}

/* ---- the tick ---- */

const char *zlink_spot_timer_name(const zlink_spot_timer_t *timer)
{
    return timer->name;
}

static uint64_t planned_ms(const zlink_spot_timer_t *timer, uint64_t index)
{
    if (timer->options.overrun_policy == ZLINK_TIMER_DELAY_NEXT_TICK)
        return timer->scheduled_ms;
    return timer->first_ms + (index - 1) * timer->options.period_ms;
}

/* Which planned tick begins at `now_ms`: see the header. */
static uint64_t scheduled_index(const zlink_spot_timer_t *timer, uint64_t now_ms)
{
    const zlink_timer_options_t *options = &timer->options;
    uint64_t next = timer->last_scheduled_index + 1;

    if (options->period_ms == 0 || options->overrun_policy == ZLINK_TIMER_DELAY_NEXT_TICK)
        return next;
    assert(now_ms >= timer->first_ms && "a deadline is never early");
    uint64_t due = 1 + (now_ms - timer->first_ms) / options->period_ms;
    if (options->overrun_policy == ZLINK_TIMER_CATCH_UP_BOUNDED)
        due -= due < options->max_catch_up_ticks ? due - 1 : options->max_catch_up_ticks - 1;
    return due > next ? due : next;
}

const zlink_tick_t *zlink_spot_timer_begin(zlink_spot_timer_t *timer, zlink_timer_handler_t *handler)
{
    zlink_spot_timers_t *timers = timer->timers;
    const zlink_tick_t *tick = NULL;

    pthread_mutex_lock(&timers->lock);
    assert(timer->on_its_way && !timer->began);
    /* Not in this order by chance: a set that is closed no longer asks its owner. */
    if (timer->started && timer->submitted_as == timer->generation &&
        timers->owner.admission_open(timers->owner.context)) {
        uint64_t now_ms = zlink_deadline_scheduler_now_ms(timers->deadlines);
        uint64_t index = scheduled_index(timer, now_ms);
        timer->began = true;
        timer->held = 0;
        timer->tick = (zlink_tick_t){
            .name = timer->name,
            .delivery_index = ++timer->last_delivery_index,
            .scheduled_index = index,
            .skipped_ticks = index - timer->last_scheduled_index - 1,
            .period_ms = timer->options.period_ms,
            .scheduled_ms = planned_ms(timer, index),
            .started_ms = now_ms,
        };
        timer->last_scheduled_index = index;
        *handler = timer->handler;
        tick = &timer->tick;
    }
    pthread_mutex_unlock(&timers->lock);
    return tick;
}

/* Under the lock: the registration that counts goes on after its own tick. */
static void plan_next(zlink_spot_timer_t *timer)
{
    uint64_t now_ms = zlink_deadline_scheduler_now_ms(timer->timers->deadlines);

    if (timer->options.overrun_policy == ZLINK_TIMER_DELAY_NEXT_TICK) {
        timer->scheduled_ms = now_ms + timer->options.period_ms;
        arm(timer, timer->scheduled_ms);
        return;
    }
    uint64_t next_ms = planned_ms(timer, timer->last_scheduled_index + 1);
    if (next_ms <= now_ms)
        submit(timer); /* at the back of the queue: what came meanwhile runs first */
    else
        arm(timer, next_ms);
}

void zlink_spot_timer_end(zlink_spot_timer_t *timer, zlink_status_t status)
{
    zlink_spot_timers_t *timers = timer->timers;
    uint32_t references = 1;

    pthread_mutex_lock(&timers->lock);
    assert(timer->on_its_way);
    timer->on_its_way = false;
    bool own = timer->started && timer->submitted_as == timer->generation;
    if (own && timer->began &&
        (timer->options.period_ms == 0 || (timer->options.stop_on_failure && status != ZLINK_OK)))
        timer->started = false;
    if (!timer->started)
        references += stop(timers, find(timers, timer->name)) ? 1 : 0;
    else if (timer->overdue)
        submit(timer);
    else if (own && timer->began)
        plan_next(timer);
    else if (own)
        hold(timer);
    unlock_timer(timer, references);
}
