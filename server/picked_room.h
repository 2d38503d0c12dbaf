/*
 * server/picked_room.h: a one-way message of this node for a channel of which the mesh has picked this node itself,
 * while its lane is full: it waits for room (server/application/room_wait.h), and the call with it, up to its time.
 *
 * Owned by itself: made on the reactor thread, gone when the call was completed there.
 */
#ifndef ZLINK_SERVER_PICKED_ROOM_H
#define ZLINK_SERVER_PICKED_ROOM_H

#include <zlink/status.h>

#include "server/application/invocation.h"
#include "server/mesh/mesh.h"

/* Reactor thread, after zlink_channel_host_execute found the lane full; takes the invocation over. ZLINK_OK: it waits,
 * and the call is completed later. Else the call is the caller's to complete with the answer. */
zlink_status_t zlink_picked_room_wait(zlink_mesh_t *mesh, zlink_outbound_call_t *call, zlink_invocation_t *invocation);

#endif
