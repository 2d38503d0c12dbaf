/*
 * zlink/spot.h: a Spot type: a named, addressable piece of state with its handlers.
 *
 * A type is a static table that must live as long as the module. An Instance Spot is never created
 * by hand: the first call that names its type and id activates it. Its state lives in memory and
 * dies with its node, unless the handlers store it themselves.
 */
#ifndef ZLINK_SPOT_H
#define ZLINK_SPOT_H

#include <stddef.h>

#include <zlink/handler.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum zlink_spot_kind {
    ZLINK_SPOT_KIND_UNSET = 0,
    ZLINK_INSTANCE_SPOT, /* one gate for the whole Spot; activated by its first call */
} zlink_spot_kind_t;

/* Which gate the handlers of a User Spot, of its Actors and of its timers share. */
typedef enum zlink_user_spot_execution_mode {
    ZLINK_SPOT_WIDE = 0, /* one gate for all of them; they may yield */
    ZLINK_PER_ACTOR,     /* the Spot, each Actor and each timer run beside each other; nobody yields */
} zlink_user_spot_execution_mode_t;

/* What happens to a Spot when its node hands its work over. A type must name exactly one. */
typedef enum zlink_relocation_policy {
    ZLINK_RELOCATION_UNSET = 0,
    ZLINK_RELOCATION_DISABLED,    /* it stays until it is closed */
    ZLINK_RECREATE_ON_RELOCATION, /* it starts anew, empty, on another node */
} zlink_relocation_policy_t;

typedef struct zlink_spot_type {
    const char *name; /* 1..255 bytes of UTF-8, unique in the node */
    zlink_spot_kind_t kind;
    size_t state_size; /* bytes of zeroed state per Spot, handed to every handler as `self` */
    zlink_relocation_policy_t relocation;

    /* Both callbacks may make calls with `_send`, `_async` and `_async_then`; `_yield` is ZLINK_INVALID_OPERATION in
     * them. */

    /* Optional. Runs as the Spot's first turn, on its lifecycle lane. Anything but ZLINK_OK refuses the Spot:
     * the calls that woke it end with that status and the next call tries again. */
    zlink_status_t (*on_create)(zlink_turn_t *turn, void *self);

    /* Optional. Runs as the Spot's last turn, when the node shuts down or the Spot was closed. */
    void (*on_closing)(zlink_turn_t *turn, void *self);

    const zlink_handler_t *handlers; /* ends with ZLINK_HANDLERS_END */
} zlink_spot_type_t;

/* Ask that the Spot whose turn this is be closed: after this handler nothing new runs in it, what was
 * accepted still runs to its end (calls that it waits for are not given up), then on_closing, then its state is freed.
 * The next call to its id starts a fresh Spot. ZLINK_INVALID_OPERATION where the turn is not a Spot's. */
ZLINK_API zlink_status_t zlink_spot_close(zlink_turn_t *turn);

#ifdef __cplusplus
}
#endif

#endif
