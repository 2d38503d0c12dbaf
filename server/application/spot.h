/*
 * server/application/spot.h: one Instance Spot: its coordinator, its state and its life.
 *
 *   CREATING -> READY -> CLOSING -> gone       on_create refused: CREATING -> REFUSED -> gone
 *
 * It belongs to the spot registry, which creates it at the first call to its id and frees it after its last turn.
 * `life` is changed on the Spot's own turns or under the registry's lock, and may be read anywhere.
 */
#ifndef ZLINK_SERVER_SPOT_H
#define ZLINK_SERVER_SPOT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <zlink/status.h>

#include "base/hash.h"
#include "exec/spot_serial_executor.h"
#include "exec/spot_timer.h"
#include "server/application/catalogue.h"
#include "server/application/invocation.h"

typedef struct zlink_spot_registry zlink_spot_registry_t;

typedef enum zlink_spot_life {
    ZLINK_SPOT_CREATING = 0,
    ZLINK_SPOT_READY,
    ZLINK_SPOT_REFUSED, /* on_create said no: what waits ends with `refusal` */
    ZLINK_SPOT_CLOSING, /* nothing new comes in; what was accepted runs, then on_closing */
} zlink_spot_life_t;

struct zlink_spot {
    zlink_spot_serial_executor_t executor;
    zlink_spot_registry_t *registry;
    const zlink_catalogue_spot_type_t *type;
    _Atomic int life;            /* zlink_spot_life_t */
    zlink_status_t refusal;      /* what on_create said; touched on the Spot's turns only */
    _Atomic uint32_t accepted;   /* application invocations not ended, plus one until the Spot closes */
    zlink_spot_timers_t *timers; /* closed before that one is given back */
    UT_hash_handle by_id;
    bool in_map; /* under the registry's lock */
    void *self;  /* the module's state: state_size zeroed bytes */
    char id[ZLINK_NAME_BYTES_MAX + 1];
};

/* A Spot that is not in the registry's map yet. Submits on_create where the type has one. NULL when out of memory. */
zlink_spot_t *zlink_spot_create(zlink_spot_registry_t *registry, zlink_application_host_t *host,
                                const zlink_catalogue_spot_type_t *type, const char *id);

/* Hands `invocation` to the Spot's coordinator. Under the registry's lock. ZLINK_UNAVAILABLE while it is closing. */
zlink_status_t zlink_spot_execute(zlink_spot_t *spot, zlink_invocation_t *invocation);

/* After zlink_spot_execute found the lane full: the message waits for room (server/application/room_wait.h) and counts
 * as accepted until zlink_spot_left. Under the registry's lock. */
void zlink_spot_hold(zlink_spot_t *spot, zlink_invocation_t *invocation);

/* Any thread: tries again with what is held. Answers as zlink_spot_execute. */
zlink_status_t zlink_spot_admit_held(zlink_spot_t *spot, zlink_invocation_t *invocation);

/* For the Spot's timers, which see to it that it is not closing: hands a tick to its coordinator. */
zlink_status_t zlink_spot_execute_timer(zlink_spot_t *spot, const char *timer_name, zlink_invocation_t *tick);

/* On a turn of the Spot: ZLINK_OK, or what its on_create refused with. */
zlink_status_t zlink_spot_usable(const zlink_spot_t *spot);

/* An accepted invocation has ended. The Spot may be gone afterwards. */
void zlink_spot_left(zlink_spot_t *spot);

/* Nothing new from now on. Idempotent; under the registry's lock. What follows happens on its own. */
void zlink_spot_begin_closing(zlink_spot_t *spot);

#endif
