/*
 * net/completion_batch.h: completions copied out of the ring and not handled yet.
 *
 * Copying first and calling later keeps callbacks out of the ring's queue: one that submits, and so makes room in a
 * full queue, cannot disturb the reading. The size bounds how long mail and timers wait. Reactor thread only.
 */
#ifndef ZLINK_NET_COMPLETION_BATCH_H
#define ZLINK_NET_COMPLETION_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#define ZLINK_COMPLETION_BATCH_MAX 512u

struct io_uring;

typedef struct zlink_completion {
    uint64_t user_data;
    int32_t result;
    uint32_t flags;
} zlink_completion_t;

typedef struct zlink_completion_batch {
    zlink_completion_t entries[ZLINK_COMPLETION_BATCH_MAX];
    unsigned next;
    unsigned count;
} zlink_completion_batch_t;

/* Takes what is ready, as far as there is room behind what is still to be handled. */
void zlink_completion_batch_collect(zlink_completion_batch_t *batch, struct io_uring *ring);

/* The next one into `completion`; false when there is none. */
bool zlink_completion_batch_take(zlink_completion_batch_t *batch, zlink_completion_t *completion);

#endif
