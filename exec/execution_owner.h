/*
 * exec/execution_owner.h: what a turn knows of the coordinator that it runs for: whether that one goes on.
 *
 * Embedded in every coordinator and living as long; the state may be changed and read on any thread. A member Actor
 * stands under its Spot, and what ends the Spot ends it. Private to exec.
 */
#ifndef ZLINK_EXEC_EXECUTION_OWNER_H
#define ZLINK_EXEC_EXECUTION_OWNER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <zlink/status.h>

#define ZLINK_OWNER_CLOSED 1u /* for good: nothing new */
#define ZLINK_OWNER_SEALED 2u /* its unit is on the move */

typedef struct zlink_execution_owner zlink_execution_owner_t;

struct zlink_execution_owner {
    _Atomic(zlink_execution_owner_t *) above; /* NULL: nobody. Changes on the owner's own turns only */
    _Atomic uint8_t state;                    /* ZLINK_OWNER_… */
};

static inline void zlink_execution_owner_init(zlink_execution_owner_t *owner)
{
    atomic_init(&owner->above, NULL);
    atomic_init(&owner->state, 0);
}

/* Its own state and that of who stands above it. On a turn of the owner, which keeps both. */
static inline unsigned zlink_execution_owner_state(const zlink_execution_owner_t *owner)
{
    const zlink_execution_owner_t *above = atomic_load_explicit(&owner->above, memory_order_relaxed);
    unsigned state = atomic_load_explicit(&owner->state, memory_order_acquire);
    return above ? state | atomic_load_explicit(&above->state, memory_order_acquire) : state;
}

/* May new work come in? ZLINK_SHUTTING_DOWN: closed. ZLINK_UNAVAILABLE: sealed. The owner's own state only. */
static inline zlink_status_t zlink_execution_owner_admit(const zlink_execution_owner_t *owner)
{
    unsigned state = atomic_load_explicit(&owner->state, memory_order_acquire);
    if (state & ZLINK_OWNER_CLOSED)
        return ZLINK_SHUTTING_DOWN;
    return state & ZLINK_OWNER_SEALED ? ZLINK_UNAVAILABLE : ZLINK_OK;
}

#endif
