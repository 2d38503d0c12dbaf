/*
 * server/status_observers.h: who watches this node, and what each has not read yet.
 *
 * Every change of what `status` tells is an event with a number, one higher each time. An observer gets a snapshot
 * first, then the events behind it. One that does not read keeps up to ZLINK_STATUS_SLOTS events in places of its own;
 * what comes when they are full is lost for it alone and counted: the next event that it gets has a gap in front and
 * the count in it, and a new snapshot tells all that it has missed. Nobody is ever waited for. Belongs to the node;
 * reactor thread only.
 */
#ifndef ZLINK_SERVER_STATUS_OBSERVERS_H
#define ZLINK_SERVER_STATUS_OBSERVERS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include <zlink/status.h>

#include "net/stream.h"

#define ZLINK_STATUS_OBSERVERS_MAX 8u
#define ZLINK_STATUS_SLOTS         256u

typedef struct zlink_status_observer {
    zlink_stream_t *stream; /* NULL: the place is free */
    char *slots[ZLINK_STATUS_SLOTS];
    uint32_t first, count;
    uint64_t lost;
} zlink_status_observer_t;

typedef struct zlink_status_observers {
    uint64_t sequence; /* of the last event */
    zlink_status_observer_t *list[ZLINK_STATUS_OBSERVERS_MAX];
} zlink_status_observers_t;

/* The stream stays its owner's, who calls `drained` and `remove` for it. `status` is the text of a JSON object.
 * ZLINK_CAPACITY_EXCEEDED: there are as many as may be, or no memory. */
zlink_status_t zlink_status_observers_add(zlink_status_observers_t *observers, zlink_stream_t *stream,
                                          const char *status);
void zlink_status_observers_drained(zlink_status_observers_t *observers, const zlink_stream_t *stream);
void zlink_status_observers_remove(zlink_status_observers_t *observers, const zlink_stream_t *stream);

/* Numbers the event and gives it to all. Takes `event` over; NULL (no memory for it) is an event that everybody has
 * lost. */
void zlink_status_observers_tell(zlink_status_observers_t *observers, cJSON *event);

#endif
