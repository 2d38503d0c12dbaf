/*
 * server/application/spot_registry.h: which Spots live on this node: (type, id) -> Spot.
 *
 * Any thread may submit. The map is cut into stripes with a mutex each; a stripe is held for one lookup and one
 * enqueue, never while user code runs or anything waits. Holding it over the enqueue is what keeps a Spot alive between
 * being found and being used.
 *
 * Provisional: until the Location Store exists, a Spot lives on the node that the call reaches.
 */
#ifndef ZLINK_SERVER_SPOT_REGISTRY_H
#define ZLINK_SERVER_SPOT_REGISTRY_H

#include <stdint.h>

#include <zlink/status.h>

#include "base/admission_error.h"
#include "server/application/catalogue.h"
#include "server/application/invocation.h"
#include "server/application/spot.h"

/* `spots_max` bounds the Spots of all types together. NULL when out of memory. */
zlink_spot_registry_t *zlink_spot_registry_create(zlink_application_host_t *host, uint32_t spots_max);
void zlink_spot_registry_destroy(zlink_spot_registry_t *registry);
zlink_application_host_t *zlink_spot_registry_host(const zlink_spot_registry_t *registry);

/* Finds or activates the Spot and hands it the invocation, whose `deliver` is set. On refusal the invocation still is
 * the caller's: ZLINK_CAPACITY_EXCEEDED, with what is `full` (its lane, the place for one more Spot, or memory),
 * ZLINK_UNAVAILABLE (the Spot is closing), ZLINK_SHUTTING_DOWN. */
zlink_status_t zlink_spot_registry_execute(zlink_spot_registry_t *registry, const zlink_catalogue_spot_type_t *type,
                                           const char *id, zlink_invocation_t *invocation,
                                           zlink_admission_resource_t *full);

/* The same for a message that may wait. Where the Spot's lane is full `*held` is true, and the message counts as
 * accepted there: zlink_room_wait_begin comes next. */
zlink_status_t zlink_spot_registry_execute_or_hold(zlink_spot_registry_t *registry,
                                                   const zlink_catalogue_spot_type_t *type, const char *id,
                                                   zlink_invocation_t *invocation, zlink_admission_resource_t *full,
                                                   bool *held);

/* True while (type, id) is `spot`: for the same-gate check of a call. */
bool zlink_spot_registry_is(const zlink_spot_t *spot, const zlink_catalogue_spot_type_t *type, const char *id);

/* On a turn of the Spot: begin its end (zlink_spot_close). */
void zlink_spot_registry_close_spot(zlink_spot_registry_t *registry, zlink_spot_t *spot);

/* Closes every Spot; `closed` is called once, on any thread, when none is left. Nothing is activated any more. */
void zlink_spot_registry_close(zlink_spot_registry_t *registry, void (*closed)(void *context), void *context);

/* Called by a Spot: its on_create refused; take it out of the map; it is out. */
void zlink_spot_registry_refused(zlink_spot_registry_t *registry, zlink_spot_t *spot);
void zlink_spot_registry_remove(zlink_spot_registry_t *registry, zlink_spot_t *spot);
void zlink_spot_registry_removed(zlink_spot_registry_t *registry);

#endif
