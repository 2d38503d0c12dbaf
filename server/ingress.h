/*
 * server/ingress.h: the door between the two domains: what the mesh brings becomes an invocation, and its result goes
 * back to the mesh.
 *
 * Belongs to the node. `arrived` and `picked_local` run on the reactor; results come from workers and are posted to it.
 */
#ifndef ZLINK_SERVER_INGRESS_H
#define ZLINK_SERVER_INGRESS_H

#include <stdatomic.h>

#include "server/application/application_host.h"
#include "server/client_server/client_servers.h"
#include "server/mesh/mesh.h"
#include "server/open_requests.h"
#include "server/permit_line.h"
#include "server/status_observers.h"

typedef struct zlink_ingress {
    zlink_reactor_t *reactor;
    zlink_mesh_t *mesh;
    zlink_client_servers_t *client_servers; /* NULL: none */
    zlink_application_host_t *host;
    zlink_status_observers_t *observers; /* NULL: nobody is told */
    bool draining;                       /* reactor thread: nothing new is taken */
    zlink_open_requests_t open;          /* that a cancellation may still find */
    zlink_permit_line_t line;            /* of connections that need a permit */
    zlink_mail_t permit_mail;            /* a permit is free again */
    _Atomic bool permit_mailed;          /* it is on its way */
    zlink_mail_t flow_mail;              /* the pressure has changed */
    _Atomic bool flow_mailed;
    uint64_t paused_since_ns; /* 0: peers may call */
} zlink_ingress_t;

/* Call before the mesh is created; sets itself as the job queue's waiter. */
void zlink_ingress_init(zlink_ingress_t *ingress, zlink_reactor_t *reactor, zlink_application_host_t *host);

/* Reactor thread. A mesh is there that has not been told yet whether peers may call. */
void zlink_ingress_tell_flow(zlink_ingress_t *ingress);

/* The mesh's events; `context` is the ingress. */
zlink_frame_verdict_t zlink_ingress_arrived(void *context, const zlink_mesh_arrival_t *arrival);
void zlink_ingress_source_gone(void *context, zlink_permit_waiter_t *source);
void zlink_ingress_picked_local(void *context, zlink_outbound_call_t *call);
void zlink_ingress_cancelled(void *context, uint64_t link, uint64_t reply_route_id);
void zlink_ingress_members_changed(void *context, const char *channel, size_t members);
void zlink_ingress_link_ready(void *context, zlink_peer_link_t *link);
void zlink_ingress_link_changed(void *context, const zlink_peer_link_t *link);
void zlink_ingress_link_lost(void *context, zlink_peer_link_t *link, const char *address, const char *reason);
void zlink_ingress_address_changed(void *context, const zlink_mesh_dialer_t *dialer, const char *reason);
void zlink_ingress_own_weight(void *context, const char *channel, uint32_t weight);
void zlink_ingress_own_weight_as_server(void *context, const char *channel, uint32_t weight); /* in ClientServer */

#endif
