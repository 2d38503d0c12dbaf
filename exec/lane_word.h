/*
 * exec/lane_word.h: the 16-byte word that decides admission to a lane in one step. Private to exec.
 *
 *   chain     the newest item, each pointing at the one before it; bit 0 (application lane only): something stands in
 *             the lifecycle lane or the barrier slot that the holder has not looked at yet. Nothing while `scheduled`
 *             is clear: the first item of an idle queue goes by hand, see serial_execution_queue.c
 *   counters  bits 0-37 reserved bytes, 38-61 items, 62 scheduled (application lane only), 63 closed
 *
 * Every change that must be one step goes through zlink_lane_word_replace, a compare-and-swap of both halves. The
 * halves are first read apart: a torn read only makes the swap fail, which answers with the true value (on aarch64,
 * where a failed swap has only loaded, perhaps with another torn one). So nothing may be decided on both halves
 * together before a swap has succeeded; on one of them it may.
 */
#ifndef ZLINK_EXEC_LANE_WORD_H
#define ZLINK_EXEC_LANE_WORD_H

#include <stdbool.h>
#include <stdint.h>

#include "exec/serial_execution_queue.h"

#define ZLINK_CHAIN_ATTENTION   UINT64_C(1)
#define ZLINK_COUNTER_BYTES     ((UINT64_C(1) << 38) - 1)
#define ZLINK_COUNTER_ONE_ITEM  (UINT64_C(1) << 38)
#define ZLINK_COUNTER_ITEMS_MAX ((UINT64_C(1) << 24) - 1)
#define ZLINK_COUNTER_SCHEDULED (UINT64_C(1) << 62)
#define ZLINK_COUNTER_CLOSED    (UINT64_C(1) << 63)

static inline uint64_t zlink_lane_word_items(uint64_t counters)
{
    return counters >> 38 & ZLINK_COUNTER_ITEMS_MAX;
}

static inline zlink_work_item_t *zlink_lane_word_newest(uint64_t chain)
{
    return (zlink_work_item_t *)(uintptr_t)(chain & ~ZLINK_CHAIN_ATTENTION);
}

static inline uint64_t zlink_lane_word_chain(const zlink_lane_word_t *word)
{
    return __atomic_load_n(&word->chain, __ATOMIC_RELAXED);
}

static inline uint64_t zlink_lane_word_counters(const zlink_lane_word_t *word)
{
    return __atomic_load_n(&word->counters, __ATOMIC_RELAXED);
}

static inline zlink_lane_word_t zlink_lane_word_read(const zlink_lane_word_t *word)
{
    return (zlink_lane_word_t){.chain = zlink_lane_word_chain(word), .counters = zlink_lane_word_counters(word)};
}

/* A full barrier. Where it fails, `expected` becomes what is there. */
static inline bool zlink_lane_word_replace(zlink_lane_word_t *word, zlink_lane_word_t *expected, zlink_lane_word_t next)
{
    unsigned __int128 found = __sync_val_compare_and_swap(&word->whole, expected->whole, next.whole);
    if (found == expected->whole)
        return true;
    expected->whole = found;
    return false;
}

/* Of the application lane: the word when `item` has its place: on the chain, or, where the queue is idle, by hand. */
static inline zlink_lane_word_t zlink_lane_word_with(zlink_lane_word_t seen, zlink_work_item_t *item)
{
    zlink_lane_word_t next = {.chain = seen.chain, .counters = seen.counters | ZLINK_COUNTER_SCHEDULED};

    if (seen.counters & ZLINK_COUNTER_SCHEDULED) {
        item->next = zlink_lane_word_newest(seen.chain);
        next.chain = (uint64_t)(uintptr_t)item | (seen.chain & ZLINK_CHAIN_ATTENTION);
    }
    return next;
}

/* Takes reservations out of the counters. */
static inline void zlink_lane_word_give_back(zlink_lane_word_t *word, uint64_t amount)
{
    zlink_lane_word_t seen = zlink_lane_word_read(word);
    zlink_lane_word_t next;

    do {
        next.chain = seen.chain;
        next.counters = seen.counters - amount;
    } while (!zlink_lane_word_replace(word, &seen, next));
}

/* Sets flags; answers the counters as they were. */
static inline uint64_t zlink_lane_word_set(zlink_lane_word_t *word, uint64_t flags)
{
    zlink_lane_word_t seen = zlink_lane_word_read(word);
    zlink_lane_word_t next;

    do {
        next.chain = seen.chain;
        next.counters = seen.counters | flags;
    } while (!zlink_lane_word_replace(word, &seen, next));
    return seen.counters;
}

/* States of `hold`. */
#define ZLINK_HOLD_NONE     0 /* nothing is held, or it is taken up again */
#define ZLINK_HOLD_STANDING 1 /* the queue stands still */
#define ZLINK_HOLD_READY    2 /* the held item is to go on */

#endif
