/*
 * server/mesh/mesh_links.c: links from their making to their end, and the routes over them.
 */
#include <assert.h>
#include <string.h>

#include "base/counters.h"
#include "base/log.h"
#include "base/memory.h"
#include "server/client_server/unready_calls.h"
#include "server/mesh/application_watch.h"
#include "server/mesh/mesh.h"

ZLINK_COUNTER_DEFINE(ready_links, ZLINK_GAUGE, "zlink.mesh_node.peers.ready", "Peers with a ready link");
ZLINK_COUNTER_DEFINE(lost_links, ZLINK_COUNTER, "zlink.mesh_node.peers.lost", "Ready links that were lost or closed");

#undef uthash_nonfatal_oom
#define uthash_nonfatal_oom(element) ((element)->number = 0)

zlink_peer_link_t *zlink_mesh_make_link(zlink_mesh_t *mesh, zlink_mesh_dialer_t *dialer)
{
    zlink_peer_link_t *link = zlink_calloc(1, sizeof(*link));
    if (!link)
        return NULL;
    link->mesh = mesh;
    link->number = ++mesh->last_number;
    link->dialled = dialer != NULL;
    link->dialer = dialer;
    TAILQ_INIT(&link->calls);
    TAILQ_INIT(&link->waiting);
    zlink_large_calls_init(&link->large);
    HASH_ADD(by_number, mesh->by_number, number, sizeof(link->number), link);
    if (!link->number) {
        zlink_free(link);
        return NULL;
    }
    TAILQ_INSERT_TAIL(&mesh->links, link, in_mesh);
    return link;
}

/* The decoded lists are the mesh's scratch; the link keeps copies of its own. */
zlink_status_t zlink_mesh_set_peer(zlink_peer_link_t *link, const zlink_wire_hello_t *peer)
{
    assert(!link->peer.channels && !link->peer.spot_types);
    size_t channels = peer->channel_count * sizeof(*peer->channels);
    size_t types = peer->spot_type_count * sizeof(*peer->spot_types);
    zlink_wire_channel_t *channel_copy = zlink_malloc(channels + 1);
    zlink_wire_spot_type_t *type_copy = zlink_malloc(types + 1);
    if (!channel_copy || !type_copy) {
        zlink_free(channel_copy);
        zlink_free(type_copy);
        return ZLINK_CAPACITY_EXCEEDED;
    }
    if (channels)
        memcpy(channel_copy, peer->channels, channels);
    if (types)
        memcpy(type_copy, peer->spot_types, types);
    link->peer = *peer;
    link->peer.channels = channel_copy;
    link->peer.spot_types = type_copy;
    return ZLINK_OK;
}

/* Of whom it is not known yet, too. Clients that serve nothing may share a certificate. */
static bool owns_its_name(const zlink_wire_hello_t *peer)
{
    return peer->role != ZLINK_ROLE_CLIENT || (peer->topology == ZLINK_TOPOLOGY_ROUTE_MESH && peer->channel_count > 0);
}

zlink_peer_link_t *zlink_mesh_find_peer(zlink_mesh_t *mesh, const char *name, const zlink_peer_link_t *except)
{
    zlink_peer_link_t *link;
    TAILQ_FOREACH(link, &mesh->links, in_mesh)
    {
        if (link != except && link->state != ZLINK_LINK_CLOSING && owns_its_name(&link->peer) &&
            strcmp(link->name, name) == 0)
            return link;
    }
    return NULL;
}

zlink_peer_link_t *zlink_mesh_find_life(zlink_mesh_t *mesh, const char *node_id, const zlink_peer_link_t *except)
{
    zlink_peer_link_t *link;
    TAILQ_FOREACH(link, &mesh->links, in_mesh)
    {
        if (link != except && link->state != ZLINK_LINK_CLOSING && strcmp(link->peer.node_id, node_id) == 0)
            return link;
    }
    return NULL;
}

zlink_peer_link_t *zlink_mesh_find_same(zlink_peer_link_t *link, const zlink_wire_hello_t *peer)
{
    return owns_its_name(peer) ? zlink_mesh_find_peer(link->mesh, link->name, link)
                               : zlink_mesh_find_life(link->mesh, peer->node_id, link);
}

/* ---- routes ---- */

static zlink_status_t join_route(zlink_peer_link_t *link, const zlink_wire_channel_t *channel)
{
    zlink_channel_routes_t *routes = link->mesh->routes;
    if (link->state != ZLINK_LINK_READY)
        return ZLINK_OK;
    if (zlink_mesh_is_client_server(link->mesh) && !link->dialled) /* it names the channel that it calls */
        return ZLINK_OK;
    if (link->peer.draining) /* known, but not to be had now (TR-32) */
        return zlink_channel_routes_know(routes, channel->name);
    return zlink_channel_routes_add(routes, channel->name, link, link->peer.node_id, channel->weight);
}

static void members_changed(zlink_mesh_t *mesh, const char *channel)
{
    const zlink_mesh_events_t *events = &mesh->options.events;
    size_t members = zlink_channel_routes_members(mesh->routes, channel);
    zlink_send_gates_set(mesh->gates, ZLINK_SEND_TO_CHANNEL, channel, members > 0);
    if (events->members_changed)
        events->members_changed(events->context, channel, members);
}

static void leave_routes(zlink_peer_link_t *link)
{
    for (size_t i = 0; i < link->peer.channel_count; i++) {
        const char *channel = link->peer.channels[i].name;
        zlink_channel_routes_remove(link->mesh->routes, channel, link);
        members_changed(link->mesh, channel);
    }
}

static void join_routes(zlink_peer_link_t *link)
{
    for (size_t i = 0; i < link->peer.channel_count; i++) {
        const zlink_wire_channel_t *channel = &link->peer.channels[i];
        if (join_route(link, channel) != ZLINK_OK)
            zlink_log(ZLINK_LOG_ERROR, "zlink.channel.unroutable", ZLINK_LOG_S("channel", channel->name),
                      ZLINK_LOG_S("peer", link->peer.node_id),
                      ZLINK_LOG_S("reason", "too many channels, or no memory"));
        members_changed(link->mesh, channel->name);
    }
}

void zlink_mesh_reroute(zlink_peer_link_t *link, const zlink_wire_update_t *update)
{
    bool stays = !link->peer.draining && !update->draining;
    if (!stays)
        leave_routes(link);
    link->peer.revision = update->revision;
    link->peer.draining = update->draining;
    for (size_t i = 0; i < link->peer.channel_count; i++) {
        zlink_wire_channel_t *channel = &link->peer.channels[i];
        channel->weight = update->channels[i].weight;
        if (stays && zlink_channel_routes_set_weight(link->mesh->routes, channel->name, link, channel->weight))
            members_changed(link->mesh, channel->name);
    }
    if (!stays)
        join_routes(link);
    zlink_mesh_link_changed(link);
    zlink_unready_calls_retry(link->mesh);
}

void zlink_mesh_link_changed(const zlink_peer_link_t *link)
{
    const zlink_mesh_events_t *events = &link->mesh->options.events;
    if (link->state == ZLINK_LINK_READY && events->link_changed)
        events->link_changed(events->context, link);
}

/* ---- life ---- */

void zlink_mesh_link_ready(zlink_peer_link_t *link)
{
    zlink_mesh_t *mesh = link->mesh;
    const zlink_mesh_events_t *events = &mesh->options.events;
    zlink_stream_t *stream = zlink_frame_connection_stream(link->ends[ZLINK_CONNECTION_APPLICATION]->connection);

    link->state = ZLINK_LINK_READY;
    link->ready_since_ms = zlink_reactor_now_ms(mesh->reactor);
    for (size_t lane = 0; lane < 2; lane++)
        zlink_frame_connection_set_peer_body_limit(link->ends[lane]->connection, zlink_peer_link_body_bytes_max(link));
    if (zlink_mesh_is_client_server(mesh)) {
        zlink_frame_connection_set_body_limit(link->ends[0]->connection, zlink_peer_link_body_bytes_max(link));
        if (link->dialled) /* its probes may stand behind its calls, which the server lets wait */
            zlink_frame_connection_trust_probes(link->ends[0]->connection);
    }
    /* Only here: on the Application connection a probe could stand behind a call that waits for a permit, and a link
     * must not die because handlers are slow. */
    zlink_frame_connection_start_liveness(link->ends[ZLINK_CONNECTION_COMPLETION]->connection);
    if (!zlink_mesh_is_client_server(mesh))
        zlink_application_watch_start(link);
    if (link->dialer && link->dialer->dialer) {
        zlink_dialer_settled(link->dialer->dialer);
        link->dialer->failure_told = false;
    }
    zlink_counter_add(&ready_links, 1);
    join_routes(link);
    if (link->peer.role == ZLINK_ROLE_SERVER)
        zlink_send_gates_set(mesh->gates, ZLINK_SEND_TO_NODE, link->name, true);
    zlink_log(ZLINK_LOG_INFO, "zlink.peer.ready", ZLINK_LOG_S("peer", link->peer.node_id),
              ZLINK_LOG_S("address", zlink_stream_peer_address(stream)),
              ZLINK_LOG_S("dialled_by", link->dialled ? "this node" : "the peer"),
              ZLINK_LOG_S("cipher", zlink_stream_cipher(stream)), ZLINK_LOG_I("channels", link->peer.channel_count));
    zlink_mesh_tell_flow(link);
    if (events->link_ready)
        events->link_ready(events->context, link);
    zlink_unready_calls_retry(mesh);
}

const char *zlink_mesh_dialer_state(const zlink_mesh_dialer_t *dialer)
{
    if (dialer->link && dialer->link->state == ZLINK_LINK_READY)
        return "ready";
    if (dialer->not_required)
        return "not_required";
    return dialer->standby_for[0] ? "standing by" : "dialling";
}

static void end_calls(zlink_peer_link_t *link, zlink_status_t status)
{
    zlink_outbound_call_t *call;
    while ((call = TAILQ_FIRST(&link->calls)) != NULL || (call = TAILQ_FIRST(&link->waiting)) != NULL ||
           (call = zlink_large_calls_parked(&link->large)) != NULL) {
        zlink_peer_link_forget(link, call);
        zlink_mesh_complete(link->mesh, call, status, NULL);
    }
    zlink_large_calls_close(&link->large);
}

/* An attempt to reach a configured address that came to nothing. One that gave way to another link is none. */
static void tell_failure(const zlink_peer_link_t *link, zlink_status_t status, const char *reason)
{
    zlink_mesh_dialer_t *dialer = link->dialer;
    const zlink_mesh_events_t *events = &link->mesh->options.events;
    if (!dialer || !dialer->dialer || link->mesh->draining)
        return;
    bool failed = !dialer->standby_for[0] && !dialer->not_required;
    if (failed && dialer->failure_told)
        return;
    if (failed) {
        dialer->failure_told = true;
        zlink_log(ZLINK_LOG_WARN, "zlink.peer.unreachable",
                  ZLINK_LOG_S("address", zlink_dialer_address(dialer->dialer)),
                  ZLINK_LOG_S("status", zlink_status_name(status)), ZLINK_LOG_S("reason", reason));
    }
    if (events->address_changed)
        events->address_changed(events->context, dialer, reason);
}

/* A node that stops has replies on their way. For the peer the link ends with its first connection, so Completion is
 * closed alone: the peer has read it to its end when it closes, too, and then Application follows (link_end_closed). */
static void close_ends(const zlink_peer_link_t *link, const char *reason)
{
    const zlink_link_end_t *application = link->ends[ZLINK_CONNECTION_APPLICATION];
    const zlink_link_end_t *completion = link->ends[ZLINK_CONNECTION_COMPLETION];
    if (completion && completion->connection)
        zlink_frame_connection_close(completion->connection, reason);
    if (application && application->connection && !(link->mesh->closing && completion))
        zlink_frame_connection_close(application->connection, reason);
}

/* Both connections go; what waits for this peer ends now, exactly once each. The link itself goes with its last end. */
void zlink_mesh_close_link(zlink_peer_link_t *link, zlink_status_t status, const char *reason)
{
    zlink_mesh_t *mesh = link->mesh;
    const zlink_mesh_events_t *events = &mesh->options.events;
    bool was_ready = link->state == ZLINK_LINK_READY;
    if (link->state == ZLINK_LINK_CLOSING)
        return;

    link->state = ZLINK_LINK_CLOSING;
    zlink_application_watch_stop(link);
    zlink_mesh_peer_paused(link, false);
    if (was_ready) {
        zlink_counter_add(&ready_links, -1);
        zlink_counter_add(&lost_links, 1);
        leave_routes(link);
        if (!zlink_mesh_find_peer(mesh, link->name, link))
            zlink_send_gates_set(mesh->gates, ZLINK_SEND_TO_NODE, link->name, false);
        zlink_log(ZLINK_LOG_INFO, "zlink.peer.lost", ZLINK_LOG_S("peer", link->peer.node_id),
                  ZLINK_LOG_S("status", zlink_status_name(status)), ZLINK_LOG_S("reason", reason));
    } else {
        tell_failure(link, status, reason);
    }
    end_calls(link, mesh->closing ? ZLINK_SHUTTING_DOWN : ZLINK_UNAVAILABLE);
    close_ends(link, reason);
    if (events->link_lost)
        events->link_lost(events->context, was_ready ? link : NULL,
                          link->dialer && link->dialer->dialer ? zlink_dialer_address(link->dialer->dialer) : "",
                          reason);
}

void zlink_mesh_fail(zlink_link_end_t *end, zlink_status_t status, const char *reason)
{
    zlink_frame_connection_fail(end->connection, status, reason);
    if (end->link)
        zlink_mesh_close_link(end->link, status, reason);
}

zlink_frame_verdict_t zlink_mesh_broken(zlink_link_end_t *end, const char *reason)
{
    zlink_mesh_fail(end, ZLINK_PROTOCOL_ERROR, reason);
    return ZLINK_FRAME_BROKEN;
}

/* Dialers that stood by because the peer had dialled this node try again when that link is gone. */
static void wake_standby(zlink_mesh_t *mesh, const char *name)
{
    for (size_t i = 0; i < mesh->dialer_count; i++) {
        zlink_mesh_dialer_t *dialer = &mesh->dialers[i];
        if (!dialer->standby_for[0] || strcmp(dialer->standby_for, name) != 0)
            continue;
        dialer->standby_for[0] = '\0';
        if (dialer->dialer && !dialer->link && !mesh->draining)
            zlink_dialer_redial(dialer->dialer);
    }
}

static void link_gone(zlink_peer_link_t *link)
{
    zlink_mesh_t *mesh = link->mesh;
    zlink_mesh_dialer_t *dialer = link->dialer;
    bool wanted = dialer && dialer->dialer && !dialer->not_required && !mesh->draining && mesh->options.redial;

    TAILQ_REMOVE(&mesh->links, link, in_mesh);
    HASH_DELETE(by_number, mesh->by_number, link);
    if (dialer)
        dialer->link = NULL;
    if (wanted && !dialer->standby_for[0])
        zlink_dialer_redial(dialer->dialer);
    /* An attempt that gave way to another link of the same peer must not wake what waits for that one, nor one that
     * reached this node itself. */
    bool gave_way = dialer && dialer->standby_for[0];
    bool itself = !zlink_mesh_is_client_server(mesh) && strcmp(link->name, mesh->identity.name) == 0;
    if (link->name[0] && !gave_way && !itself && !zlink_mesh_find_peer(mesh, link->name, link))
        wake_standby(mesh, link->name);
    zlink_free(link->peer.channels);
    zlink_free(link->peer.spot_types);
    zlink_free(link);
}

void zlink_mesh_link_end_closed(zlink_link_end_t *end, zlink_status_t status, const char *reason)
{
    zlink_mesh_t *mesh = end->mesh;
    zlink_peer_link_t *link = end->link;

    zlink_reactor_timer_cancel(mesh->reactor, &end->admission);
    if (mesh->options.events.source_gone)
        mesh->options.events.source_gone(mesh->options.events.context, &end->permit);
    LIST_REMOVE(end, in_mesh);
    if (link) {
        for (size_t lane = 0; lane < 2; lane++) /* in ClientServer it is both */
            if (link->ends[lane] == end)
                link->ends[lane] = NULL;
        zlink_mesh_close_link(link, status, reason);
        close_ends(link, reason);
        if (!link->ends[0] && !link->ends[1])
            link_gone(link);
    }
    zlink_outgoing_names_destroy(end->outgoing);
    zlink_incoming_names_destroy(end->incoming);
    zlink_free(end);
    if (mesh->closing && LIST_EMPTY(&mesh->ends))
        zlink_reactor_timer_start(mesh->reactor, &mesh->closing_check, zlink_reactor_now_ms(mesh->reactor));
}
