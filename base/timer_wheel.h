/*
 * base/timer_wheel.h: many deadlines at the price of one.
 *
 * A hierarchical wheel of intrusive timers with 1 ms resolution. It belongs to one thread (the reactor
 * has one, each worker has one) and is not locked. Starting and cancelling are constant time. A timer
 * never fires early; it fires in the first `advance` whose time is at or past its deadline. A fired or
 * cancelled timer may be started again, or freed, also from inside its own callback.
 */
#ifndef ZLINK_BASE_TIMER_WHEEL_H
#define ZLINK_BASE_TIMER_WHEEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct zlink_timer zlink_timer_t;
typedef void (*zlink_timer_fire_t)(zlink_timer_t *timer);

/* Zero-initialise, then set `fire`. Recover the owner with container arithmetic. */
struct zlink_timer {
    zlink_timer_t *next;
    zlink_timer_t **link; /* what points at this timer; NULL when it is not running */
    uint64_t deadline_ms;
    zlink_timer_fire_t fire;
};

#define ZLINK_TIMER_WHEEL_LEVELS 6 /* 64^6 ms: more than two years; a later deadline waits in the last level */
#define ZLINK_TIMER_WHEEL_SLOTS  64

typedef struct zlink_timer_wheel {
    uint64_t now_ms;
    size_t count;                                /* running timers */
    zlink_timer_t *due;                          /* their deadline is over: they fire at the next advance */
    uint64_t occupied[ZLINK_TIMER_WHEEL_LEVELS]; /* a bit per slot that may hold timers */
    zlink_timer_t *slots[ZLINK_TIMER_WHEEL_LEVELS][ZLINK_TIMER_WHEEL_SLOTS];
} zlink_timer_wheel_t;

void zlink_timer_wheel_init(zlink_timer_wheel_t *wheel, uint64_t now_ms);

/* (Re)start `timer` so that it fires at `deadline_ms`; a past deadline fires at the next advance. */
void zlink_timer_wheel_start(zlink_timer_wheel_t *wheel, zlink_timer_t *timer, uint64_t deadline_ms);

/* Stop it. Harmless where it is not running. */
void zlink_timer_wheel_cancel(zlink_timer_wheel_t *wheel, zlink_timer_t *timer);

static inline bool zlink_timer_is_running(const zlink_timer_t *timer)
{
    return timer->link != NULL;
}

/* Move to `now_ms` and fire what is due, in order of deadline as far as slots tell. Returns the number fired.
 * A callback may start and cancel any timer of the wheel. */
size_t zlink_timer_wheel_advance(zlink_timer_wheel_t *wheel, uint64_t now_ms);

/* A time at or before the next deadline (exact within the first level), UINT64_MAX where none is running:
 * the longest that the owner may sleep. */
uint64_t zlink_timer_wheel_next_ms(const zlink_timer_wheel_t *wheel);

#endif
