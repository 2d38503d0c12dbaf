/*
 * zlink/timer.h: a Spot's timers: handlers that time calls.
 *
 * A timer belongs to the Spot that started it and has a name there. Its handler runs on a turn of the Spot, in line
 * with the messages: never beside a handler that holds the same gate, and never beside itself. It may make calls,
 * `_yield` included where the Spot offers it. Timers are gone with the Spot, and a node that drains starts no tick any
 * more.
 *
 * Starting a name that is there starts it anew: ticks of the earlier start do not begin any more, and the numbers begin
 * at 1. Only one that is running goes on, and the first new tick waits for its end. The same holds for a cancel.
 */
#ifndef ZLINK_TIMER_H
#define ZLINK_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#include <zlink/turn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What happens to ticks whose time came while the Spot was busy. */
typedef enum zlink_timer_overrun_policy {
    ZLINK_TIMER_SKIP_LATE_TICKS = 0, /* only the latest of them is delivered */
    ZLINK_TIMER_CATCH_UP_BOUNDED,    /* the latest `max_catch_up_ticks` of them, one after the other, in order */
    ZLINK_TIMER_DELAY_NEXT_TICK,     /* none is late: the next comes one period after the end of the last */
} zlink_timer_overrun_policy_t;

typedef struct zlink_timer_options {
    uint32_t first_delay_ms; /* until the first tick, 0..INT32_MAX */
    uint32_t period_ms;      /* between ticks, 1..INT32_MAX; 0 = one tick, then the timer is gone */
    zlink_timer_overrun_policy_t overrun_policy;
    uint32_t max_catch_up_ticks; /* 1..INT32_MAX, 0 = 1; for ZLINK_TIMER_CATCH_UP_BOUNDED only */
    bool stop_on_failure;        /* the timer is cancelled when its handler returns an error */
} zlink_timer_options_t;

/* One tick. The planned time of tick n is the start of the timer + first_delay_ms + (n - 1) * period_ms; under
 * ZLINK_TIMER_DELAY_NEXT_TICK that of the next tick is the end of the last one's handler + period_ms. */
typedef struct zlink_tick {
    const char *name;
    uint64_t delivery_index;  /* 1, 2, 3, …: the ticks that began since the timer was started */
    uint64_t scheduled_index; /* n of the planned tick that this one stands for; never below delivery_index */
    uint64_t skipped_ticks;   /* planned ticks since the one before that nobody gets: the difference of the two
                                 scheduled_index less 1 (scheduled_index - 1 on the first) */
    uint32_t period_ms;
    uint64_t scheduled_ms; /* its planned time … */
    uint64_t
        started_ms; /* … and when it began, both on the node's monotonic clock: how late it is, is the difference */
} zlink_tick_t;

/* `tick` is valid until the handler has ended. An error is logged and counted: nobody waits for it. */
typedef zlink_status_t (*zlink_timer_handler_t)(zlink_turn_t *turn, void *self, const zlink_tick_t *tick);

/* (Re)starts the timer `name` (1..255 bytes of UTF-8) of the Spot whose turn this is. Waits for nothing.
 * ZLINK_INVALID_OPERATION: no turn of a Spot, or an argument out of range. ZLINK_CAPACITY_EXCEEDED: the Spot has 1,024
 * timers, or memory is short. ZLINK_SHUTTING_DOWN: the Spot is closing. */
ZLINK_API ZLINK_MUST_USE zlink_status_t zlink_timer_start(zlink_turn_t *turn, const char *name,
                                                          zlink_timer_options_t options, zlink_timer_handler_t handler);

/* No tick of `name` begins any more; one that runs goes on. ZLINK_NOT_FOUND: there is no such timer.
 * ZLINK_INVALID_OPERATION: as above. */
ZLINK_API zlink_status_t zlink_timer_cancel(zlink_turn_t *turn, const char *name);

#ifdef __cplusplus
}
#endif

#endif
