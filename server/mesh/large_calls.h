/*
 * server/mesh/large_calls.h: the calls of a link whose payload is on its way in chunks, and those that wait for them.
 *
 * Small calls go between the chunks of large ones, but not those to the same target: two calls to one target arrive in
 * the order in which they were made. Of large ones as many go at a time as the peer has room for, in their order. Owned
 * by the link, reactor thread only. A call that is being sent stays in here until its payload is let go of, also when
 * it has long been answered or given up; `hold` keeps it that long.
 */
#ifndef ZLINK_SERVER_LARGE_CALLS_H
#define ZLINK_SERVER_LARGE_CALLS_H

#include <stdbool.h>
#include <stddef.h>

#include "server/mesh/outbound_call.h"

struct zlink_large_calls {
    struct zlink_outbound_calls calls; /* those that are being sent, then the others in the order in which they came */
    size_t sending_bytes;
};

void zlink_large_calls_init(zlink_large_calls_t *large);

/* Must this call wait here, rather than be sent now? `bytes_max` is what the peer takes at a time. */
bool zlink_large_calls_hold_up(const zlink_large_calls_t *large, const zlink_outbound_call_t *call, size_t bytes_max);

/* It waits, or its payload is held and on its way. */
void zlink_large_calls_park(zlink_large_calls_t *large, zlink_outbound_call_t *call);
void zlink_large_calls_send(zlink_large_calls_t *large, zlink_outbound_call_t *call);

/* Out of here: it was parked, or its payload was let go of. */
void zlink_large_calls_remove(zlink_large_calls_t *large, zlink_outbound_call_t *call);

/* The first that waits; the first of those that nothing holds up any more. NULL: none. */
zlink_outbound_call_t *zlink_large_calls_parked(const zlink_large_calls_t *large);
zlink_outbound_call_t *zlink_large_calls_next(const zlink_large_calls_t *large, size_t bytes_max);

/* Those that are being sent will not come back here: the link ends. */
void zlink_large_calls_close(zlink_large_calls_t *large);

/* Does its payload go in chunks? One that just fits a frame counts, too. */
bool zlink_large_calls_is(const zlink_outbound_call_t *call);

#endif
