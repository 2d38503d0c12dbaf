/*
 * server/mesh/permit_waiter.h: a connection's place among those that wait until a call of theirs may be taken.
 *
 * A field of the connection, which only carries it; who hands out permits keeps the line (server/permit_line.h).
 * Reactor thread only.
 */
#ifndef ZLINK_SERVER_PERMIT_WAITER_H
#define ZLINK_SERVER_PERMIT_WAITER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

typedef enum zlink_permit_state {
    ZLINK_PERMIT_NONE = 0,
    ZLINK_PERMIT_WAITED_FOR, /* it stands in the line */
    ZLINK_PERMIT_HANDED_OUT, /* a permit is its own, for the call that it waits with */
} zlink_permit_state_t;

typedef struct zlink_permit_waiter {
    zlink_permit_state_t state;
    uint64_t since_ns;
    TAILQ_ENTRY(zlink_permit_waiter) in_line;
} zlink_permit_waiter_t;

#endif
