/*
 * net/backoff.h: how long to wait before the next attempt.
 *
 * A value without a clock: 100 ms, doubling up to 5 s, each +-50 % at random so that many peers of a node that
 * came back do not knock at the same moment. One owner, not locked.
 */
#ifndef ZLINK_NET_BACKOFF_H
#define ZLINK_NET_BACKOFF_H

#include <stdint.h>

#define ZLINK_BACKOFF_FIRST_MS 100u
#define ZLINK_BACKOFF_MAX_MS   5000u

typedef struct zlink_backoff {
    uint32_t wait_ms; /* the next wait before the jitter */
    uint64_t random;
} zlink_backoff_t;

/* `seed` 0: from the kernel. */
void zlink_backoff_init(zlink_backoff_t *backoff, uint64_t seed);
/* This wait, in milliseconds; the next is twice as long. */
uint32_t zlink_backoff_next_ms(zlink_backoff_t *backoff);
void zlink_backoff_reset(zlink_backoff_t *backoff);

#endif
