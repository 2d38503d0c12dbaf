#include "server/mesh/mesh.h"

#include <assert.h>
#include <string.h>

#include "base/admission_error.h"
#include "base/container_of.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/memory.h"
#include "server/client_server/unready_calls.h"

ZLINK_COUNTER_DEFINE(timeouts, ZLINK_COUNTER, "zlink.request.timeouts", "Calls to peers whose time was over");
ZLINK_COUNTER_DEFINE(no_member, ZLINK_COUNTER, "zlink.channel.selection_failures.no_member",
                     "Calls to a channel that nobody was ever known to serve, or to a node that is not there");
ZLINK_COUNTER_DEFINE(not_ready, ZLINK_COUNTER, "zlink.channel.selection_failures.not_ready",
                     "Calls to a known channel or node without a ready link");

ZLINK_COUNTER_DEFINE(cancels, ZLINK_COUNTER, "zlink.request.cancelled", "Calls to peers that were given up from here");
ZLINK_COUNTER_DEFINE(lost, ZLINK_COUNTER, "zlink.mesh_node.messages.lost",
                     "One-way messages that were taken and could not be sent");

#define OUTPUT_HARD_BYTES_MIN ((size_t)64 << 20)

/* ---- calls ---- */

void zlink_mesh_complete(zlink_mesh_t *mesh, zlink_outbound_call_t *call, zlink_status_t status,
                         const zlink_call_answer_t *answer)
{
    static const zlink_call_answer_t nothing;
    assert(!call->link);
    if (call->unready)
        zlink_unready_calls_remove(call);
    if (call->reply_route_id)
        zlink_pending_operations_take(&mesh->pending, call->reply_route_id);
    zlink_reactor_timer_cancel(mesh->reactor, &call->timer);
    if (call->gate) {
        zlink_send_gate_give_back(call->gate, call->payload_bytes);
        if (status != ZLINK_OK) /* its sender has gone on: this is the only place that knows */
            zlink_counter_add(&lost, 1);
    }
    call->over = true;
    call->completed(call, status, answer ? answer : &nothing);
}

void zlink_mesh_call_waits(zlink_outbound_call_t *call)
{
    if (!call->one_way || !call->waits || call->has_waited)
        return;
    call->has_waited = true;
    call->waits(call);
}

static void expired(zlink_timer_t *timer)
{
    zlink_outbound_call_t *call = ZLINK_CONTAINER_OF(timer, zlink_outbound_call_t, timer);
    if (call->link)
        zlink_peer_link_forget(call->link, call);
    zlink_counter_add(&timeouts, 1);
    zlink_mesh_complete(call->mesh, call, ZLINK_DEADLINE_EXCEEDED, NULL);
}

/* A node that is named exactly is there now or not known: there is nobody in its place (TR-30). */
static zlink_status_t find_target(zlink_mesh_t *mesh, const zlink_outbound_call_t *call, zlink_channel_pick_t *picked)
{
    zlink_peer_link_t *link = NULL;
    switch (call->route) {
    case ZLINK_ROUTE_CHANNEL:
        return zlink_channel_routes_pick(mesh->routes, call->name, call->exclude_local, picked);
    case ZLINK_ROUTE_NODE:
        link = zlink_mesh_find_peer(mesh, call->node, NULL);
        break;
    case ZLINK_ROUTE_EXACT_NODE:
        link = zlink_mesh_find_life(mesh, call->node, NULL);
        break;
    case ZLINK_ROUTE_LINK:
        link = zlink_mesh_find_link(mesh, call->link_number);
        break;
    }
    bool ready = link && link->state == ZLINK_LINK_READY;
    if (ready && (call->route == ZLINK_ROUTE_LINK || link->peer.role == ZLINK_ROLE_SERVER)) {
        picked->link = link;
        return ZLINK_OK;
    }
    return call->route == ZLINK_ROUTE_EXACT_NODE ? ZLINK_NOT_FOUND : ZLINK_UNAVAILABLE;
}

/* A client of ClientServer knows one channel, and waits for who is to serve it. That its own node's server is the only
 * one does not help a handler that keeps it busy. */
static zlink_status_t pick_server(zlink_mesh_t *mesh, const zlink_outbound_call_t *call, zlink_channel_pick_t *picked)
{
    zlink_status_t status = zlink_channel_routes_pick(mesh->routes, call->name, call->exclude_local, picked);
    if (status == ZLINK_OK)
        return ZLINK_OK;
    return zlink_channel_routes_members(mesh->routes, call->name) > 0 ? ZLINK_INVALID_OPERATION : ZLINK_UNAVAILABLE;
}

zlink_status_t zlink_mesh_pick(zlink_mesh_t *mesh, const zlink_outbound_call_t *call, zlink_channel_pick_t *picked)
{
    if (zlink_mesh_is_client_server(mesh))
        return pick_server(mesh, call, picked);
    zlink_status_t status = find_target(mesh, call, picked);
    if (status == ZLINK_NOT_FOUND)
        zlink_counter_add(&no_member, 1);
    else if (status == ZLINK_UNAVAILABLE)
        zlink_counter_add(&not_ready, 1);
    return status;
}

/* The pending operation is registered before anything is submitted, in the same turn of the reactor. */
void zlink_mesh_start_call(zlink_mesh_t *mesh, zlink_outbound_call_t *call, zlink_status_t status,
                           const zlink_channel_pick_t *picked)
{
    zlink_admission_operation_t operation = call->one_way ? ZLINK_ADMISSION_SEND : ZLINK_ADMISSION_REQUEST;
    if (status == ZLINK_OK && !call->one_way && zlink_pending_operations_register(&mesh->pending, call) != ZLINK_OK)
        status = zlink_admission_error(ZLINK_ADMISSION_OPERATION_TABLE, operation, true).status;
    if (status != ZLINK_OK) {
        zlink_mesh_complete(mesh, call, status, NULL);
        return;
    }
    if (!call->one_way) /* a one-way call is timed only where it has to wait */
        zlink_reactor_timer_start(mesh->reactor, &call->timer, call->deadline_ms);
    if (picked->local)
        mesh->options.events.picked_local(mesh->options.events.context, call);
    else
        zlink_peer_link_submit(picked->link, call);
}

static void submit(zlink_mail_t *mail)
{
    zlink_outbound_call_t *call = ZLINK_CONTAINER_OF(mail, zlink_outbound_call_t, mail);
    zlink_mesh_t *mesh = call->mesh;
    zlink_channel_pick_t picked = {NULL, false};
    zlink_status_t status = ZLINK_OK;

    if (mesh->closing)
        status = zlink_admission_error(ZLINK_ADMISSION_OPEN,
                                       call->one_way ? ZLINK_ADMISSION_SEND : ZLINK_ADMISSION_REQUEST, true)
                     .status;
    else if (atomic_load_explicit(&call->cancelled, memory_order_relaxed))
        status = ZLINK_CANCELLED;
    else if (zlink_reactor_now_ms(mesh->reactor) >= call->deadline_ms)
        status = ZLINK_DEADLINE_EXCEEDED;
    call->timer.fire = expired;
    if (status == ZLINK_OK) {
        status = zlink_mesh_pick(mesh, call, &picked);
        if (status == ZLINK_UNAVAILABLE && zlink_mesh_is_client_server(mesh)) {
            zlink_unready_calls_wait(mesh, call);
            return;
        }
    }
    zlink_mesh_start_call(mesh, call, status, &picked);
}

static void post(zlink_mesh_t *mesh, zlink_outbound_call_t *call, zlink_send_gate_t *gate)
{
    call->mesh = mesh;
    call->link = NULL;
    call->gate = gate;
    call->reply_route_id = 0;
    call->waiting = false;
    call->unready = false;
    call->has_waited = false;
    call->at_home = false;
    call->parked = false;
    call->over = false;
    call->timer = (zlink_timer_t){0};
    call->mail.deliver = submit;
    zlink_reactor_post(mesh->reactor, &call->mail);
}

void zlink_mesh_submit(zlink_mesh_t *mesh, zlink_outbound_call_t *call)
{
    post(mesh, call, NULL);
}

bool zlink_mesh_take(zlink_mesh_t *mesh, zlink_outbound_call_t *call)
{
    bool to_node = call->route == ZLINK_ROUTE_NODE;
    assert(call->one_way && call->route != ZLINK_ROUTE_LINK);
    if (call->route == ZLINK_ROUTE_EXACT_NODE) /* node ids come and go: there are no gates for them */
        return false;
    zlink_send_gate_t *gate = zlink_send_gates_take(mesh->gates, to_node ? ZLINK_SEND_TO_NODE : ZLINK_SEND_TO_CHANNEL,
                                                    to_node ? call->node : call->name, call->payload_bytes);
    if (gate)
        post(mesh, call, gate);
    return gate != NULL;
}

/* The mail of the submission came before this one: the call is over, or with a link, or with this node itself. */
static void cancel(zlink_mail_t *mail)
{
    zlink_outbound_call_t *call = ZLINK_CONTAINER_OF(mail, zlink_outbound_call_t, cancel_mail);
    if (!call->over && !call->at_home) { /* there it ends soon enough */
        zlink_counter_add(&cancels, 1);
        if (call->link)
            zlink_peer_link_cancel(call->link, call);
        else if (!call->unready && call->mesh->options.events.cancelled)
            call->mesh->options.events.cancelled(call->mesh->options.events.context, 0, call->reply_route_id);
        zlink_mesh_complete(call->mesh, call, ZLINK_CANCELLED, NULL);
    }
    call->release(call);
}

void zlink_mesh_cancel(zlink_mesh_t *mesh, zlink_outbound_call_t *call)
{
    atomic_store_explicit(&call->cancelled, true, memory_order_relaxed);
    call->cancel_mail.deliver = cancel;
    zlink_reactor_post(mesh->reactor, &call->cancel_mail);
}

void zlink_mesh_complete_local(zlink_mesh_t *mesh, uint64_t reply_route_id, zlink_status_t status,
                               const zlink_call_answer_t *answer)
{
    zlink_outbound_call_t *call = zlink_pending_operations_take(&mesh->pending, reply_route_id);
    if (call)
        zlink_mesh_complete(mesh, call, status, answer);
}

/* ---- start ---- */

static zlink_status_t describe_self(zlink_mesh_t *mesh, zlink_refusal_t *why)
{
    const zlink_mesh_options_t *options = &mesh->options;
    zlink_wire_hello_t *self = &mesh->self;
    size_t size;

    self->protocol_major = ZLINK_WIRE_PROTOCOL_MAJOR;
    self->topology = options->topology;
    strcpy(self->mesh, mesh->identity.mesh);
    strcpy(self->node_id, mesh->identity.node_id);
    self->generation = mesh->identity.generation;
    self->revision = 1;
    self->role = options->role;
    self->link_id = 1; /* any: replaced on every connection */
    self->max_body_bytes = options->max_body_bytes;
    self->channels = zlink_calloc(options->channel_count + 1, sizeof(*self->channels));
    self->spot_types = zlink_calloc(options->spot_type_count + 1, sizeof(*self->spot_types));
    if (!self->channels || !self->spot_types) {
        zlink_refuse(why, "mesh %s: out of memory", mesh->identity.mesh);
        return ZLINK_CAPACITY_EXCEEDED;
    }
    for (size_t i = 0; i < options->channel_count; i++) {
        strcpy(self->channels[i].name, options->channels[i]);
        self->channels[i].weight = options->channel_weights ? options->channel_weights[i] : ZLINK_MESH_WEIGHT_DEFAULT;
    }
    for (size_t i = 0; i < options->spot_type_count; i++)
        strcpy(self->spot_types[i].name, options->spot_types[i]);
    self->channel_count = options->channel_count;
    self->spot_type_count = options->spot_type_count;
    zlink_wire_channels_sort(self->channels, self->channel_count);
    zlink_wire_spot_types_sort(self->spot_types, self->spot_type_count);
    zlink_status_t status =
        zlink_wire_hello_encode(self, mesh->scratch_envelope, ZLINK_FRAME_ENVELOPE_BYTES_MAX, &size);
    if (status != ZLINK_OK)
        zlink_refuse(why, "mesh %s: the names of this node's channels and Spot types do not fit one HELLO: %s",
                     mesh->identity.mesh, zlink_status_name(status));
    return status;
}

static zlink_status_t route_to_self(zlink_mesh_t *mesh, zlink_refusal_t *why)
{
    const zlink_mesh_events_t *events = &mesh->options.events;
    if (zlink_mesh_is_client_server(mesh))
        return ZLINK_OK; /* its own server is one of the servers that it dials */
    for (size_t i = 0; i < mesh->self.channel_count; i++) {
        const zlink_wire_channel_t *channel = &mesh->self.channels[i];
        zlink_status_t status = zlink_channel_routes_add_local(mesh->routes, channel->name, channel->weight);
        if (status != ZLINK_OK) {
            zlink_refuse(why, "mesh %s: out of memory", mesh->identity.mesh);
            return status;
        }
        if (events->own_weight)
            events->own_weight(events->context, channel->name, channel->weight);
    }
    return ZLINK_OK;
}

/* Replies may go beyond the limit at which senders wait, and one message may be larger than both. */
static zlink_stream_limits_t connection_limits(const zlink_mesh_options_t *options)
{
    const size_t hard_bytes = 2 * (size_t)options->max_body_bytes;
    return (zlink_stream_limits_t){
        .output_bytes = options->outbound_bytes,
        .output_hard_bytes = hard_bytes > OUTPUT_HARD_BYTES_MIN ? hard_bytes : OUTPUT_HARD_BYTES_MIN,
        .input_bytes = options->inbound_bytes,
        .write_cost = ZLINK_FRAME_CHARGE_BYTES - ZLINK_FRAME_PREFIX_BYTES,
    };
}

static zlink_status_t open_listener(zlink_mesh_t *mesh, zlink_refusal_t *why)
{
    const zlink_mesh_options_t *options = &mesh->options;
    zlink_listener_options_t listener = {
        .address = options->listen,
        .tls = options->tls,
        .limits = connection_limits(options),
        .accepted = zlink_mesh_accepted,
        .context = mesh,
        .connections_max = options->connections_max,
        .connections_per_address_max = options->connections_per_address_max,
        .handshakes_max = options->handshakes_max,
    };
    if (!options->listen)
        return ZLINK_OK;
    zlink_status_t status = zlink_listener_open(mesh->reactor, &listener, &mesh->listener, why);
    if (status != ZLINK_OK)
        zlink_refusal_prefix(why, "listen: ");
    return status;
}

static zlink_status_t open_dialers(zlink_mesh_t *mesh, zlink_refusal_t *why)
{
    const zlink_mesh_options_t *options = &mesh->options;
    mesh->dialers = zlink_calloc(options->peer_count + 1, sizeof(zlink_mesh_dialer_t));
    if (!mesh->dialers) {
        zlink_refuse(why, "mesh %s: out of memory", mesh->identity.mesh);
        return ZLINK_CAPACITY_EXCEEDED;
    }
    for (size_t i = 0; i < options->peer_count; i++) {
        zlink_mesh_dialer_t *dialer = &mesh->dialers[i];
        zlink_dialer_options_t dial = {
            .address = options->peers[i],
            .tls = options->tls,
            .limits = connection_limits(options),
            .connecting = zlink_mesh_connecting,
            .context = dialer,
        };
        dialer->mesh = mesh;
        dialer->expected = options->expected_peers ? options->expected_peers[i] : NULL;
        mesh->dialer_count = i + 1;
        zlink_status_t status = zlink_dialer_open(mesh->reactor, &dial, &dialer->dialer, why);
        if (status != ZLINK_OK) {
            zlink_refusal_prefix(why, "peers[%zu]: ", i);
            return status;
        }
    }
    return ZLINK_OK;
}

zlink_status_t zlink_mesh_create(const zlink_mesh_options_t *options, zlink_mesh_t **created, zlink_refusal_t *why)
{
    zlink_status_t status = ZLINK_CAPACITY_EXCEEDED;
    zlink_mesh_t *mesh = zlink_calloc(1, sizeof(*mesh));
    if (!mesh)
        goto no_memory;
    assert(zlink_reactor_is_current(options->reactor));
    mesh->reactor = options->reactor;
    mesh->options = *options;
    mesh->identity = *options->identity;
    mesh->last_number = options->numbers_from;
    mesh->scratch_channel_count = zlink_mesh_is_client_server(mesh) ? 1 : ZLINK_WIRE_CHANNELS_MAX;
    mesh->scratch_spot_type_count = zlink_mesh_is_client_server(mesh) ? 0 : ZLINK_WIRE_SPOT_TYPES_MAX;
    TAILQ_INIT(&mesh->links);
    TAILQ_INIT(&mesh->unready);
    LIST_INIT(&mesh->ends);
    zlink_pending_operations_init(&mesh->pending, options->pending_max);
    mesh->routes = zlink_channel_routes_create(mesh->identity.node_id);
    mesh->gates = zlink_send_gates_create();
    mesh->scratch_channels = zlink_calloc(mesh->scratch_channel_count, sizeof(zlink_wire_channel_t));
    mesh->scratch_spot_types = zlink_calloc(mesh->scratch_spot_type_count + 1, sizeof(zlink_wire_spot_type_t));
    mesh->scratch_envelope = zlink_malloc(ZLINK_FRAME_ENVELOPE_BYTES_MAX);
    if (!mesh->routes || !mesh->gates || !mesh->scratch_channels || !mesh->scratch_spot_types ||
        !mesh->scratch_envelope)
        goto no_memory;
    status = describe_self(mesh, why);
    if (status == ZLINK_OK)
        status = route_to_self(mesh, why);
    if (status == ZLINK_OK)
        status = open_listener(mesh, why);
    if (status == ZLINK_OK)
        status = open_dialers(mesh, why);
    if (status == ZLINK_OK)
        *created = mesh;
    else
        zlink_mesh_destroy(mesh);
    return status;

no_memory:
    zlink_refuse(why, "mesh %s: out of memory", options->identity->mesh);
    zlink_mesh_destroy(mesh);
    return status;
}

/* ---- new certificates ---- */

size_t zlink_mesh_set_tls(zlink_mesh_t *mesh, const zlink_tls_context_t *tls)
{
    zlink_link_end_t *end;
    size_t ended = 0;

    mesh->options.tls = tls;
    if (mesh->listener)
        zlink_listener_set_tls(mesh->listener, tls);
    for (size_t i = 0; i < mesh->dialer_count; i++)
        if (mesh->dialers[i].dialer)
            zlink_dialer_set_tls(mesh->dialers[i].dialer, tls);
    LIST_FOREACH(end, &mesh->ends, in_mesh)
    {
        char reason[128];
        zlink_stream_t *stream = end->connection ? zlink_frame_connection_stream(end->connection) : NULL;
        if (!stream || zlink_stream_is_trusted_by(stream, tls, reason, sizeof(reason)))
            continue;
        ended++;
        zlink_log(ZLINK_LOG_WARN, "zlink.peer.distrusted", ZLINK_LOG_S("name", end->link ? end->link->name : ""),
                  ZLINK_LOG_S("address", zlink_stream_peer_address(stream)), ZLINK_LOG_S("reason", reason));
        if (end->link && end->link->state != ZLINK_LINK_CLOSING)
            zlink_mesh_close_link(end->link, ZLINK_REJECTED, reason);
        zlink_frame_connection_abort(end->connection, ZLINK_REJECTED, reason); /* nothing of it is heard any more */
    }
    return ended;
}

/* ---- end ---- */

void zlink_mesh_drain(zlink_mesh_t *mesh)
{
    zlink_peer_link_t *link;
    if (mesh->draining)
        return;
    mesh->draining = true;
    mesh->self.draining = true;
    mesh->self.revision++;
    TAILQ_FOREACH(link, &mesh->links, in_mesh)
    {
        if (link->state == ZLINK_LINK_OPENING || link->state == ZLINK_LINK_COMPLETING) /* no HELLO, no ADMIT any more */
            zlink_mesh_close_link(link, ZLINK_SHUTTING_DOWN, "this node stops");
        else
            zlink_mesh_tell_revision(link);
    }
}

/* A timer asks, so that `closed` comes from the reactor's loop and never from inside somebody's call. */
static void check_closed(zlink_timer_t *timer)
{
    zlink_mesh_t *mesh = ZLINK_CONTAINER_OF(timer, zlink_mesh_t, closing_check);
    if (LIST_EMPTY(&mesh->ends) && mesh->closed) {
        void (*closed)(void *) = mesh->closed;
        mesh->closed = NULL;
        closed(mesh->closed_context);
    }
}

static void close_listener_and_dialers(zlink_mesh_t *mesh)
{
    if (mesh->listener)
        zlink_listener_close(mesh->listener);
    mesh->listener = NULL;
    for (size_t i = 0; i < mesh->dialer_count; i++) {
        if (mesh->dialers[i].dialer)
            zlink_dialer_close(mesh->dialers[i].dialer);
        mesh->dialers[i].dialer = NULL;
    }
}

void zlink_mesh_close(zlink_mesh_t *mesh, void (*closed)(void *context), void *context)
{
    zlink_outbound_call_t *call;
    zlink_peer_link_t *link;
    zlink_link_end_t *end;

    mesh->draining = true;
    mesh->closing = true;
    mesh->closed = closed;
    mesh->closed_context = context;
    close_listener_and_dialers(mesh);
    while ((call = zlink_pending_operations_any(&mesh->pending)) != NULL) {
        if (call->link)
            zlink_peer_link_forget(call->link, call);
        zlink_mesh_complete(mesh, call, ZLINK_SHUTTING_DOWN, NULL);
    }
    while ((call = TAILQ_FIRST(&mesh->unready)) != NULL)
        zlink_mesh_complete(mesh, call, ZLINK_SHUTTING_DOWN, NULL);
    TAILQ_FOREACH(link, &mesh->links, in_mesh)
    {
        zlink_mesh_close_link(link, ZLINK_SHUTTING_DOWN, "this node stops");
    }
    LIST_FOREACH(end, &mesh->ends, in_mesh)
    {
        if (!end->link && end->connection) /* nothing was agreed on: whoever stays silent is not waited for */
            zlink_frame_connection_abort(end->connection, ZLINK_SHUTTING_DOWN, "this node stops");
    }
    mesh->closing_check.fire = check_closed;
    zlink_reactor_timer_start(mesh->reactor, &mesh->closing_check, zlink_reactor_now_ms(mesh->reactor));
}

void zlink_mesh_destroy(zlink_mesh_t *mesh)
{
    if (!mesh)
        return;
    assert(LIST_EMPTY(&mesh->ends) && TAILQ_EMPTY(&mesh->links));
    close_listener_and_dialers(mesh); /* a mesh whose start was refused */
    if (mesh->pending.limit)
        zlink_pending_operations_destroy(&mesh->pending);
    zlink_channel_routes_destroy(mesh->routes);
    zlink_send_gates_destroy(mesh->gates);
    zlink_free(mesh->dialers);
    zlink_free(mesh->self.channels);
    zlink_free(mesh->self.spot_types);
    zlink_free(mesh->scratch_channels);
    zlink_free(mesh->scratch_spot_types);
    zlink_free(mesh->scratch_envelope);
    zlink_free(mesh);
}

/* ---- small answers ---- */

zlink_peer_link_t *zlink_mesh_find_link(zlink_mesh_t *mesh, uint64_t number)
{
    zlink_peer_link_t *link = NULL;
    HASH_FIND(by_number, mesh->by_number, &number, sizeof(number), link);
    return link;
}

void zlink_mesh_resume_source(zlink_permit_waiter_t *source)
{
    zlink_frame_connection_resume(ZLINK_CONTAINER_OF(source, zlink_link_end_t, permit)->connection);
}

const char *zlink_mesh_address(const zlink_mesh_t *mesh)
{
    return mesh->listener ? zlink_listener_address(mesh->listener) : NULL;
}
