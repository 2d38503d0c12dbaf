/*
 * server/application/full_queue.h: what a caller is told when a bounded queue has no room: the one place of that
 * decision.
 *
 * The framework's rule (generation G1): a request to a full queue of the same process is ZLINK_CAPACITY_EXCEEDED, to
 * one on another node ZLINK_UNAVAILABLE; a one-way message ends with ZLINK_DEADLINE_EXCEEDED when no place to wait for
 * room is left (this node keeps none for its own lanes yet). Any other status passes unchanged.
 */
#ifndef ZLINK_SERVER_FULL_QUEUE_H
#define ZLINK_SERVER_FULL_QUEUE_H

#include <stdbool.h>

#include <zlink/status.h>

static inline zlink_status_t zlink_full_queue_status(zlink_status_t status, bool one_way, bool caller_is_remote)
{
    if (status != ZLINK_CAPACITY_EXCEEDED)
        return status;
    if (caller_is_remote)
        return ZLINK_UNAVAILABLE;
    return one_way ? ZLINK_DEADLINE_EXCEEDED : ZLINK_CAPACITY_EXCEEDED;
}

#endif
