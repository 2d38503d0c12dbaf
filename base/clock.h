/*
 * base/clock.h: where time comes from.
 *
 * Everything that needs the time is given a clock, so that tests can run on a virtual one. A clock is
 * immutable and may be shared by all threads; `now_ns` must be callable from any thread. The system
 * clock is CLOCK_MONOTONIC: a change of the wall clock moves no deadline.
 */
#ifndef ZLINK_BASE_CLOCK_H
#define ZLINK_BASE_CLOCK_H

#include <stdint.h>

typedef struct zlink_clock {
    uint64_t (*now_ns)(void *context);
    void *context;
} zlink_clock_t;

#define ZLINK_NS_PER_MS 1000000ull

extern const zlink_clock_t zlink_clock_system;

static inline uint64_t zlink_clock_now_ns(const zlink_clock_t *clock)
{
    return clock->now_ns(clock->context);
}

static inline uint64_t zlink_clock_now_ms(const zlink_clock_t *clock)
{
    return clock->now_ns(clock->context) / ZLINK_NS_PER_MS;
}

#endif
