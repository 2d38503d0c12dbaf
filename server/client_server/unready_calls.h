/*
 * server/client_server/unready_calls.h: the calls to a ClientServer channel that wait until one of its servers is
 * ready.
 *
 * A RouteMesh never waits for a member; a ClientServer client does, for the time that its call has and 5 s at most
 * (TR-39), then the call ends with ZLINK_DEADLINE_EXCEEDED. They go on in the order in which they came. The list is a
 * field of the mesh that is the client's side; reactor thread only.
 */
#ifndef ZLINK_SERVER_UNREADY_CALLS_H
#define ZLINK_SERVER_UNREADY_CALLS_H

#include "server/mesh/outbound_call.h"

#define ZLINK_UNREADY_CALLS_MS  5000u
#define ZLINK_UNREADY_CALLS_MAX 1024u /* that nobody else has bounded; one more ends at once (EX-43) */

/* The call has just found no ready server. Completes it where there is no place to wait. */
void zlink_unready_calls_wait(zlink_mesh_t *mesh, zlink_outbound_call_t *call);

/* It waits no longer: it goes on, or it is over. */
void zlink_unready_calls_remove(zlink_outbound_call_t *call);

/* A server is ready, or weighs something again. */
void zlink_unready_calls_retry(zlink_mesh_t *mesh);

#endif
