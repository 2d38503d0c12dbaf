#include "base/clock.h"

#include <time.h>

static uint64_t system_now_ns(void *context)
{
    struct timespec now;

    (void)context;
    /* Cannot fail: the clock exists on every Linux and the pointer is ours. */
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

const zlink_clock_t zlink_clock_system = {.now_ns = system_now_ns, .context = NULL};
