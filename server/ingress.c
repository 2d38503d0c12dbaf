#include "server/ingress.h"

#include <assert.h>
#include <string.h>

#include "base/admission_error.h"
#include "base/container_of.h"
#include "base/counters.h"
#include "base/log.h"
#include "server/application/channel_host.h"
#include "server/application/dispatch_error.h"
#include "server/application/spot_registry.h"
#include "server/picked_room.h"
#include "server/status_events.h"

ZLINK_COUNTER_DEFINE(no_handler, ZLINK_COUNTER, "zlink.mesh_node.messages.dropped.no_handler",
                     "Messages for which no handler is registered");
ZLINK_COUNTER_DEFINE(backpressure, ZLINK_COUNTER, "zlink.mesh_node.messages.dropped.backpressure",
                     "One-way messages of peers that found their queue full");
ZLINK_COUNTER_DEFINE(shutdown_drops, ZLINK_COUNTER, "zlink.mesh_node.messages.dropped.shutdown",
                     "Messages that arrived while the node was draining");
ZLINK_COUNTER_DEFINE(pressure_state, ZLINK_GAUGE, "zlink.host.application_job_queue.pressure_state",
                     "1 while peers are told to pause, 0 while they may call");
ZLINK_COUNTER_DEFINE(pressure_transitions, ZLINK_COUNTER, "zlink.host.application_job_queue.pressure_transitions",
                     "Times that peers were told to pause, or to go on");
ZLINK_COUNTER_DEFINE(pause_ns, ZLINK_COUNTER, "zlink.host.application_job_queue.pause_duration",
                     "Nanoseconds that peers have paused, in finished pauses");

/* Who is meant, looked up before a permit is taken. */
typedef struct zlink_ingress_target {
    zlink_channel_host_t *channel;
    const zlink_catalogue_spot_type_t *spot_type;
    bool node;            /* this node itself … */
    size_t node_handlers; /* … and the registration of the handler */
    const zlink_handler_t *handler;
} zlink_ingress_target_t;

/* A channel is found in the topology that it has, and in no other. */
static zlink_channel_host_t *find_channel(const zlink_application_host_t *host, const char *name, bool client_server)
{
    zlink_channel_host_t *channel = zlink_application_host_find_channel(host, name);
    return channel && channel->channel->client_server == client_server ? channel : NULL;
}

static bool find_target(const zlink_application_host_t *host, bool client_server, zlink_target_kind_t kind,
                        const char *name, const char *packet, bool one_way, zlink_ingress_target_t *target)
{
    zlink_handler_kind_t wanted = one_way ? ZLINK_HANDLER_SEND : ZLINK_HANDLER_REQUEST;
    const zlink_handler_table_t *handlers = NULL;
    *target = (zlink_ingress_target_t){0};
    if (kind == ZLINK_TARGET_CHANNEL) {
        target->channel = find_channel(host, name, client_server);
        handlers = target->channel ? &target->channel->channel->handlers : NULL;
    } else if (kind == ZLINK_TARGET_INSTANCE_SPOT) {
        target->spot_type = zlink_catalogue_find_spot_type(host->catalogue, name);
        handlers = target->spot_type ? &target->spot_type->handlers : NULL;
    } else if (kind == ZLINK_TARGET_NODE) {
        target->node = strcmp(name, host->node_id) == 0; /* not an earlier life's, and never passed on */
        if (target->node)
            target->handler =
                zlink_catalogue_find_node_handler(host->catalogue, wanted, packet, &target->node_handlers);
        return target->handler != NULL;
    }
    target->handler = handlers ? zlink_handler_table_find(handlers, wanted, packet) : NULL;
    return target->handler != NULL;
}

static zlink_status_t execute(zlink_application_host_t *host, const zlink_ingress_target_t *target, const char *spot_id,
                              zlink_invocation_t *invocation, zlink_admission_resource_t *full)
{
    *full = ZLINK_ADMISSION_APPLICATION_LANE;
    if (target->node)
        return zlink_node_host_execute(host->node, target->node_handlers, invocation);
    return target->channel ? zlink_channel_host_execute(target->channel, invocation)
                           : zlink_spot_registry_execute(host->spots, target->spot_type, spot_id, invocation, full);
}

static zlink_admission_operation_t operation_of(bool one_way)
{
    return one_way ? ZLINK_ADMISSION_SEND : ZLINK_ADMISSION_REQUEST;
}

/* ---- from a peer ---- */

static zlink_peer_link_t *find_link(const zlink_ingress_t *ingress, uint64_t number)
{
    zlink_peer_link_t *link = zlink_mesh_find_link(ingress->mesh, number);
    return link || !ingress->client_servers ? link : zlink_client_servers_find_link(ingress->client_servers, number);
}

static void reply_on_reactor(zlink_mail_t *mail)
{
    zlink_invocation_t *invocation = ZLINK_CONTAINER_OF(mail, zlink_invocation_t, mail);
    zlink_ingress_t *ingress = invocation->route;
    zlink_peer_link_t *link = find_link(ingress, invocation->route_link);
    zlink_open_requests_remove(invocation);
    if (link && !invocation->dropped)
        zlink_peer_link_reply(link, invocation->route_id, invocation->status, invocation->handler->reply.packet,
                              invocation->reply, invocation->reply_bytes);
    zlink_invocation_free(invocation);
}

static void deliver_to_peer(zlink_invocation_t *invocation)
{
    zlink_ingress_t *ingress = invocation->route;
    invocation->mail.deliver = reply_on_reactor;
    zlink_reactor_post(ingress->reactor, &invocation->mail);
}

/* What a peer is told of a resource of this node. */
static zlink_status_t told(zlink_admission_resource_t resource, bool one_way)
{
    return zlink_admission_error(resource, operation_of(one_way), false).status;
}

/* A refusal before any handler: an error for a request, a counted drop for a one-way message. */
static zlink_frame_verdict_t refuse(const zlink_mesh_arrival_t *arrival, zlink_status_t status,
                                    zlink_counter_t *counter, const char *reason)
{
    if (counter)
        zlink_counter_add(counter, 1);
    zlink_dispatch_error_log(&(zlink_dispatch_error_t){
        .reason = reason,
        .target = arrival->name,
        .spot_id = arrival->spot_id,
        .packet = arrival->packet,
        .source = arrival->link->peer.node_id,
        .detail = zlink_status_name(status),
        .trace = arrival->trace,
    });
    if (arrival->reply_route_id)
        zlink_peer_link_reply(arrival->link, arrival->reply_route_id, status, "", NULL, 0);
    return ZLINK_FRAME_TAKEN;
}

/* What of the target is missing: all of them look alike to the sender, but not to the person who mends it. */
static const char *why_not_found(const zlink_application_host_t *host, const zlink_mesh_arrival_t *arrival,
                                 const zlink_ingress_target_t *target, bool one_way)
{
    zlink_handler_kind_t other = one_way ? ZLINK_HANDLER_REQUEST : ZLINK_HANDLER_SEND;
    const zlink_handler_table_t *handlers = NULL;
    size_t at;
    if (arrival->target == ZLINK_TARGET_NODE && !target->node)
        return "no_node";
    if (target->node)
        return zlink_catalogue_find_node_handler(host->catalogue, other, arrival->packet, &at) ? "wrong_kind"
                                                                                               : "no_handler";
    if (target->channel)
        handlers = &target->channel->channel->handlers;
    else if (target->spot_type)
        handlers = &target->spot_type->handlers;
    if (!handlers)
        return arrival->target == ZLINK_TARGET_CHANNEL ? "no_channel" : "no_spot_type";
    return zlink_handler_table_find(handlers, other, arrival->packet) ? "wrong_kind" : "no_handler";
}

zlink_frame_verdict_t zlink_ingress_arrived(void *context, const zlink_mesh_arrival_t *arrival)
{
    zlink_ingress_t *ingress = context;
    zlink_application_host_t *host = ingress->host;
    bool one_way = arrival->reply_route_id == 0;
    zlink_ingress_target_t target;

    if (ingress->draining) {
        zlink_permit_line_leave(&ingress->line, arrival->source);
        return refuse(arrival, told(ZLINK_ADMISSION_OPEN, one_way), &shutdown_drops, "shutdown");
    }
    if (!find_target(host, zlink_mesh_is_client_server(arrival->link->mesh), arrival->target, arrival->name,
                     arrival->packet, one_way, &target))
        return refuse(arrival, told(ZLINK_ADMISSION_TARGET, one_way), &no_handler,
                      why_not_found(host, arrival, &target, one_way));
    if (!zlink_permit_line_take(&ingress->line, arrival->source))
        return ZLINK_FRAME_WAIT;
    uint64_t deadline_ms = one_way ? 0 : zlink_clock_now_ms(host->clock) + arrival->deadline_ms;
    void *memory = zlink_frame_connection_take_payload(arrival->connection, arrival->payload, arrival->payload_bytes);
    zlink_invocation_t *invocation =
        zlink_invocation_create(host, target.handler, arrival->link->peer.node_id, arrival->payload,
                                arrival->payload_bytes, memory, deadline_ms);
    if (invocation && (!zlink_invocation_set_metadata(invocation, arrival->metadata, arrival->metadata_bytes) ||
                       !zlink_invocation_set_trace(invocation, arrival->trace))) {
        zlink_invocation_free(invocation);
        invocation = NULL;
    }
    if (!invocation) {
        zlink_application_job_queue_give_back(&host->job_queue);
        return refuse(arrival, told(ZLINK_ADMISSION_MEMORY, one_way), &backpressure, "out of memory");
    }
    invocation->holds_permit = true;
    invocation->deliver = one_way ? zlink_invocation_deliver_nowhere : deliver_to_peer;
    invocation->route = ingress;
    invocation->route_link = arrival->link->number;
    invocation->route_id = arrival->reply_route_id;
    zlink_admission_resource_t full;
    if (!one_way)
        zlink_open_requests_add(&ingress->open, invocation);
    zlink_status_t status = execute(host, &target, arrival->spot_id, invocation, &full);
    if (status == ZLINK_OK)
        return ZLINK_FRAME_TAKEN;
    if (!one_way)
        zlink_open_requests_remove(invocation);
    zlink_invocation_free(invocation);
    bool no_room = status == ZLINK_CAPACITY_EXCEEDED;
    return refuse(arrival, no_room ? told(full, one_way) : status, one_way ? &backpressure : NULL,
                  no_room ? "backpressure" : "stale_target");
}

/* ---- from this node, which the mesh picked as a channel's member ---- */

static void complete_on_reactor(zlink_mail_t *mail)
{
    zlink_invocation_t *invocation = ZLINK_CONTAINER_OF(mail, zlink_invocation_t, mail);
    zlink_ingress_t *ingress = invocation->route;
    zlink_call_answer_t answer = {invocation->handler->reply.packet, invocation->reply, invocation->reply_bytes, NULL};
    zlink_open_requests_remove(invocation);
    zlink_mesh_complete_local(ingress->mesh, invocation->route_id, invocation->status,
                              invocation->status == ZLINK_OK ? &answer : NULL);
    zlink_invocation_free(invocation);
}

static void deliver_to_self(zlink_invocation_t *invocation)
{
    zlink_ingress_t *ingress = invocation->route;
    invocation->mail.deliver = complete_on_reactor;
    zlink_reactor_post(ingress->reactor, &invocation->mail);
}

void zlink_ingress_picked_local(void *context, zlink_outbound_call_t *call)
{
    zlink_ingress_t *ingress = context;
    zlink_application_host_t *host = ingress->host;
    zlink_ingress_target_t target;
    zlink_invocation_t *invocation = NULL;
    zlink_admission_resource_t failed = ZLINK_ADMISSION_TARGET;
    zlink_status_t status = ZLINK_NOT_FOUND;

    if (find_target(host, false, call->target, call->name, call->packet, call->one_way, &target)) {
        failed = ZLINK_ADMISSION_MEMORY;
        status = ZLINK_CAPACITY_EXCEEDED;
        invocation = zlink_invocation_create(host, target.handler, host->node_id, call->payload, call->payload_bytes,
                                             NULL, call->one_way ? 0 : call->deadline_ms);
    }
    if (invocation && (!zlink_invocation_set_metadata(invocation, call->metadata, call->metadata_bytes) ||
                       !zlink_invocation_set_trace(invocation, call->trace))) {
        zlink_invocation_free(invocation);
        invocation = NULL;
    }
    if (invocation) {
        invocation->deliver = call->one_way ? zlink_invocation_deliver_nowhere : deliver_to_self;
        invocation->route = ingress;
        invocation->route_id = call->reply_route_id;
        if (!call->one_way)
            zlink_open_requests_add(&ingress->open, invocation);
        status = execute(host, &target, call->spot_id, invocation, &failed);
        if (status == ZLINK_CAPACITY_EXCEEDED && call->one_way && !call->behind_local) {
            status = zlink_picked_room_wait(ingress->mesh, call, invocation);
            if (status != ZLINK_OK)
                zlink_mesh_complete(ingress->mesh, call, status, NULL);
            return;
        }
        if (status != ZLINK_OK) {
            if (!call->one_way)
                zlink_open_requests_remove(invocation);
            zlink_invocation_free(invocation);
        }
    }
    if (status == ZLINK_CAPACITY_EXCEEDED)
        status = zlink_admission_error(failed, operation_of(call->one_way), true).status;
    if (status != ZLINK_OK || call->one_way)
        zlink_mesh_complete(ingress->mesh, call, status, NULL);
}

/* One that is still queued is dropped when its turn comes; one whose handler has begun goes on. */
void zlink_ingress_cancelled(void *context, uint64_t link, uint64_t reply_route_id)
{
    zlink_ingress_t *ingress = context;
    zlink_invocation_t *invocation = zlink_open_requests_find(&ingress->open, link, reply_route_id);
    if (invocation)
        atomic_store_explicit(&invocation->cancelled, true, memory_order_release);
}

void zlink_ingress_members_changed(void *context, const char *channel, size_t members)
{
    zlink_ingress_t *ingress = context;
    zlink_channel_host_t *here = zlink_application_host_find_channel(ingress->host, channel);
    if (here)
        atomic_store_explicit(&here->remote_members, (uint32_t)members, memory_order_relaxed);
}

void zlink_ingress_own_weight(void *context, const char *channel, uint32_t weight)
{
    zlink_ingress_t *ingress = context;
    zlink_channel_host_t *here = zlink_application_host_find_channel(ingress->host, channel);
    if (here)
        atomic_store_explicit(&here->weightless, weight == 0, memory_order_relaxed);
    zlink_status_event_weight(ingress->observers, channel, weight);
}

/* Whether handlers here may call such a channel has nothing to do with what its server weighs. */
void zlink_ingress_own_weight_as_server(void *context, const char *channel, uint32_t weight)
{
    zlink_status_event_weight(((zlink_ingress_t *)context)->observers, channel, weight);
}

void zlink_ingress_link_ready(void *context, zlink_peer_link_t *link)
{
    zlink_status_event_link_ready(((zlink_ingress_t *)context)->observers, link);
}

void zlink_ingress_link_changed(void *context, const zlink_peer_link_t *link)
{
    zlink_status_event_link_changed(((zlink_ingress_t *)context)->observers, link);
}

/* Attempts that came to nothing are told of by their address. */
void zlink_ingress_link_lost(void *context, zlink_peer_link_t *link, const char *address, const char *reason)
{
    (void)address;
    if (link)
        zlink_status_event_link_lost(((zlink_ingress_t *)context)->observers, link, reason);
}

void zlink_ingress_address_changed(void *context, const zlink_mesh_dialer_t *dialer, const char *reason)
{
    zlink_status_event_peer(((zlink_ingress_t *)context)->observers, dialer, reason);
}

/* ---- permits ---- */

static void permit_on_reactor(zlink_mail_t *mail)
{
    zlink_ingress_t *ingress = ZLINK_CONTAINER_OF(mail, zlink_ingress_t, permit_mail);
    atomic_store(&ingress->permit_mailed, false);
    zlink_permit_line_hand_out(&ingress->line, zlink_mesh_resume_source);
}

/* Any thread, after a take was refused. */
static void permit_free(void *context)
{
    zlink_ingress_t *ingress = context;
    if (!atomic_exchange(&ingress->permit_mailed, true))
        zlink_reactor_post(ingress->reactor, &ingress->permit_mail);
}

void zlink_ingress_source_gone(void *context, zlink_permit_waiter_t *source)
{
    zlink_ingress_t *ingress = context;
    zlink_permit_line_leave(&ingress->line, source);
}

/* ---- pressure ---- */

void zlink_ingress_tell_flow(zlink_ingress_t *ingress)
{
    const bool paused = ingress->paused_since_ns != 0;
    if (ingress->mesh)
        zlink_mesh_set_paused(ingress->mesh, paused);
    if (ingress->client_servers)
        zlink_client_servers_set_paused(ingress->client_servers, paused);
}

/* What is the case now goes out, however often it has changed since the mail was sent. */
static void flow_on_reactor(zlink_mail_t *mail)
{
    zlink_ingress_t *ingress = ZLINK_CONTAINER_OF(mail, zlink_ingress_t, flow_mail);
    uint64_t now_ns = zlink_clock_now_ns(ingress->host->clock);
    atomic_store(&ingress->flow_mailed, false);
    bool paused = zlink_application_job_queue_is_paused(&ingress->host->job_queue);
    if (paused == (ingress->paused_since_ns != 0))
        return;
    zlink_counter_add(&pressure_transitions, 1);
    zlink_counter_add(&pressure_state, paused ? 1 : -1);
    if (!paused)
        zlink_counter_add(&pause_ns, (int64_t)(now_ns - ingress->paused_since_ns));
    ingress->paused_since_ns = paused ? now_ns | 1 : 0;
    zlink_status_event_pressure(ingress->observers, paused);
    zlink_ingress_tell_flow(ingress);
}

/* Any thread. */
static void pressure_changed(void *context)
{
    zlink_ingress_t *ingress = context;
    if (!atomic_exchange(&ingress->flow_mailed, true))
        zlink_reactor_post(ingress->reactor, &ingress->flow_mail);
}

void zlink_ingress_init(zlink_ingress_t *ingress, zlink_reactor_t *reactor, zlink_application_host_t *host)
{
    *ingress = (zlink_ingress_t){
        .reactor = reactor,
        .host = host,
        .permit_mail.deliver = permit_on_reactor,
        .flow_mail.deliver = flow_on_reactor,
    };
    zlink_permit_line_init(&ingress->line, &host->job_queue, host->clock);
    zlink_application_job_queue_set_waiter(&host->job_queue, permit_free, pressure_changed, ingress);
}
