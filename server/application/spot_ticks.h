/*
 * server/application/spot_ticks.h: a Spot's timers, each tick of which is an invocation on the Spot's queues.
 *
 * Made and ended with the Spot. A tick counts among what the Spot and the host have accepted, like a message; a node
 * that drains lets none begin.
 */
#ifndef ZLINK_SERVER_SPOT_TICKS_H
#define ZLINK_SERVER_SPOT_TICKS_H

#include "exec/spot_timer.h"
#include "server/application/invocation.h"

/* For a Spot that nobody else knows yet. NULL when out of memory. */
zlink_spot_timers_t *zlink_spot_ticks_create(zlink_spot_t *spot, zlink_application_host_t *host);

#endif
