/*
 * zlink/filter.h: what stands before the handlers of a channel or of the node, and sees every message for them first.
 *
 * A filter runs on the message's turn, before its payload is decoded. It may look at the turn (who asks, which packet,
 * with which metadata), wait with `_async`, and either let the message go on with zlink_filter_next, whose answer is
 * how the rest ended, or not. Filters run in their order on the way in, and what a filter does after zlink_filter_next
 * in the reverse order on the way out; each answers for what is behind it, so it may return another status.
 *
 * A request whose filter returns ZLINK_OK without having let it go on ends with ZLINK_REJECTED; a one-way message is
 * dropped and counted. Where a handler goes on in a continuation (a `_then` call), zlink_filter_next has answered
 * before that.
 */
#ifndef ZLINK_FILTER_H
#define ZLINK_FILTER_H

#include <zlink/turn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zlink_filter_next zlink_filter_next_t;

typedef struct zlink_filter {
    zlink_status_t (*function)(zlink_turn_t *turn, zlink_filter_next_t *next, void *context);
    void *context; /* handed to the function: it must take calls from several threads' turns */
} zlink_filter_t;

/* The last row of every list. A list without it is not found out. */
#define ZLINK_FILTERS_END                                                                                              \
    {                                                                                                                  \
        0, 0                                                                                                           \
    }

/* Runs what is behind this filter, once: a second time, or elsewhere than in the filter that `next` was given to, is
 * ZLINK_INVALID_OPERATION and runs nothing. `next` is valid until the filter returns, and not afterwards, not in a
 * continuation either. */
ZLINK_API ZLINK_MUST_USE zlink_status_t zlink_filter_next(zlink_turn_t *turn, zlink_filter_next_t *next);

#ifdef __cplusplus
}
#endif

#endif
