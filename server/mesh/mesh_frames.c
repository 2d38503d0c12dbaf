/*
 * server/mesh/mesh_frames.c: what admitted connections carry: announcements, requests, one-way messages, replies.
 */
#include <assert.h>
#include <string.h>

#include "base/counters.h"
#include "server/mesh/mesh.h"

ZLINK_COUNTER_DEFINE(requests_received, ZLINK_COUNTER, "zlink.requests.received", "Requests taken from peers");
ZLINK_COUNTER_DEFINE(messages_received, ZLINK_COUNTER, "zlink.messages.received", "One-way messages taken from peers");
ZLINK_COUNTER_DEFINE(replies_received, ZLINK_COUNTER, "zlink.replies.received", "Replies and error replies from peers");
ZLINK_COUNTER_DEFINE(late_replies, ZLINK_COUNTER, "zlink.replies.late", "Replies that nobody waited for any more");

static zlink_frame_verdict_t on_announce(zlink_link_end_t *end, const uint8_t *envelope, size_t size)
{
    zlink_wire_announce_t announcement;
    const char *reason = "ANNOUNCE refused";
    if (zlink_wire_announce_decode(envelope, size, &announcement, &reason) != ZLINK_OK ||
        zlink_incoming_names_add(end->incoming, &announcement, &reason) != ZLINK_OK)
        return zlink_mesh_broken(end, reason);
    return ZLINK_FRAME_TAKEN;
}

/* Names come by number, or in the envelope; `inlined` is where the latter are decoded to. */
static const char *resolve(zlink_link_end_t *end, const zlink_frame_prefix_t *prefix, const uint8_t *envelope,
                           zlink_wire_call_t *inlined, zlink_mesh_arrival_t *arrival)
{
    const char *reason = "bad call envelope";
    bool has_target = prefix->kind != ZLINK_FRAME_REPLY;
    if ((has_target && prefix->target_id == 0) || prefix->packet_id == 0 || prefix->envelope_bytes > 0) {
        if (zlink_wire_call_decode(prefix, envelope, prefix->envelope_bytes, inlined, &reason) != ZLINK_OK)
            return reason;
        arrival->target = inlined->target.kind;
        arrival->name = inlined->target.name;
        arrival->spot_id = inlined->target.spot_id;
        arrival->packet = inlined->packet;
        arrival->metadata = inlined->metadata.text;
        arrival->metadata_bytes = inlined->metadata.text_bytes;
        arrival->trace = zlink_trace_is_empty(&inlined->trace) ? NULL : &inlined->trace;
    }
    if (has_target && prefix->target_id != 0) {
        const zlink_incoming_name_t *target = zlink_incoming_names_target(end->incoming, prefix->target_id);
        if (!target)
            return "a target number that was never announced";
        arrival->target = target->kind;
        arrival->name = target->name;
        arrival->spot_id = target->spot_id;
    }
    if (prefix->packet_id != 0) {
        const zlink_incoming_name_t *packet = zlink_incoming_names_packet(end->incoming, prefix->packet_id);
        if (!packet)
            return "a packet number that was never announced";
        arrival->packet = packet->name;
    }
    return NULL;
}

static zlink_frame_verdict_t on_call(zlink_link_end_t *end, const zlink_frame_prefix_t *prefix, const uint8_t *envelope,
                                     const uint8_t *payload, size_t payload_bytes)
{
    zlink_wire_call_t inlined;
    zlink_mesh_arrival_t arrival = {
        .link = end->link,
        .connection = end->connection,
        .source = &end->permit,
        .reply_route_id = prefix->reply_route_id,
        .deadline_ms = prefix->deadline_ms,
        .payload = payload,
        .payload_bytes = payload_bytes,
    };
    const char *problem = resolve(end, prefix, envelope, &inlined, &arrival);
    if (problem)
        return zlink_mesh_broken(end, problem);
    const zlink_mesh_events_t *events = &end->mesh->options.events;
    if (zlink_mesh_is_client_server(end->mesh)) {
        if (arrival.target != ZLINK_TARGET_CHANNEL || strcmp(arrival.name, end->mesh->self.channels[0].name) != 0)
            return zlink_mesh_broken(end, "a call to something else than the channel of the connection");
        if (!zlink_frame_connection_has_room(end->connection)) {
            if (events->source_gone) /* others can use its permit meanwhile */
                events->source_gone(events->context, &end->permit);
            return ZLINK_FRAME_WAIT; /* a client that does not take its replies is not heard */
        }
    }
    zlink_frame_verdict_t verdict = events->arrived(events->context, &arrival);
    if (verdict == ZLINK_FRAME_TAKEN)
        zlink_counter_add(prefix->kind == ZLINK_FRAME_REQUEST ? &requests_received : &messages_received, 1);
    return verdict;
}

static zlink_frame_verdict_t on_answer(zlink_link_end_t *end, const zlink_frame_prefix_t *prefix,
                                       const uint8_t *envelope, const uint8_t *payload, size_t payload_bytes)
{
    zlink_mesh_t *mesh = end->mesh;
    zlink_wire_call_t inlined;
    zlink_mesh_arrival_t names = {0};
    zlink_status_t status = ZLINK_OK;
    if (prefix->kind == ZLINK_FRAME_ERROR) {
        char text[ZLINK_WIRE_REASON_BYTES_MAX + 1];
        const char *reason = "bad ERROR envelope";
        if (zlink_wire_error_decode(envelope, prefix->envelope_bytes, text, &reason) != ZLINK_OK)
            return zlink_mesh_broken(end, reason);
        status = zlink_frame_status_of(prefix->error);
    } else {
        const char *problem = resolve(end, prefix, envelope, &inlined, &names);
        if (problem)
            return zlink_mesh_broken(end, problem);
    }
    zlink_counter_add(&replies_received, 1);

    /* Only the link that the request went out on may answer it. */
    zlink_outbound_call_t *call = zlink_pending_operations_find(&mesh->pending, prefix->reply_route_id);
    if (call && call->link != end->link)
        return zlink_mesh_broken(end, "a reply to another peer's request");
    if (!call) {
        zlink_counter_add(&late_replies, 1);
        return ZLINK_FRAME_TAKEN;
    }
    zlink_peer_link_forget(end->link, call);
    zlink_call_answer_t answer = {names.packet, payload, payload_bytes, end->connection};
    zlink_mesh_complete(mesh, call, status, status == ZLINK_OK ? &answer : NULL);
    return ZLINK_FRAME_TAKEN;
}

/* Advice: what has begun or was answered is not touched, and a number that nobody knows is no fault. */
static zlink_frame_verdict_t on_cancel(const zlink_link_end_t *end, const zlink_frame_prefix_t *prefix)
{
    const zlink_mesh_events_t *events = &end->mesh->options.events;
    if (events->cancelled)
        events->cancelled(events->context, end->link->number, prefix->reply_route_id);
    return ZLINK_FRAME_TAKEN;
}

/* In a RouteMesh each lane has its own, in ClientServer each side: a server never calls (TR-40). */
static zlink_frame_verdict_t misplaced(zlink_link_end_t *end, const char *in_mesh, const char *in_client_server)
{
    return zlink_mesh_broken(end, zlink_mesh_is_client_server(end->mesh) ? in_client_server : in_mesh);
}

zlink_frame_verdict_t zlink_mesh_on_frame(zlink_link_end_t *end, const zlink_frame_prefix_t *prefix,
                                          const uint8_t *envelope, const uint8_t *payload, size_t payload_bytes)
{
    bool client_server = zlink_mesh_is_client_server(end->mesh);
    bool calls = client_server ? !end->link->dialled : end->lane == ZLINK_CONNECTION_APPLICATION;
    /* A dialer calls when it has read the second ADMIT, and that is sent after the link is ready here. In the other
     * direction a call may overtake that ADMIT, which is on the other connection. */
    bool too_early = end->link->state == ZLINK_LINK_COMPLETING && !end->link->dialled;
    switch (prefix->kind) {
    case ZLINK_FRAME_ANNOUNCE:
        return on_announce(end, envelope, prefix->envelope_bytes);
    case ZLINK_FRAME_REQUEST:
    case ZLINK_FRAME_SEND:
        if (too_early)
            return zlink_mesh_broken(end, "a call before both connections were admitted");
        return calls ? on_call(end, prefix, envelope, payload, payload_bytes)
                     : misplaced(end, "a call on the Completion connection", "a call from a server");
    case ZLINK_FRAME_REPLY:
    case ZLINK_FRAME_ERROR:
        return calls ? misplaced(end, "an answer on the Application connection", "an answer from a client")
                     : on_answer(end, prefix, envelope, payload, payload_bytes);
    case ZLINK_FRAME_FLOW_STATE:
        return zlink_mesh_on_flow_state(end, prefix);
    case ZLINK_FRAME_CANCEL:
        return calls ? on_cancel(end, prefix)
                     : misplaced(end, "CANCEL on the Completion connection", "CANCEL from a server");
    default:
        return zlink_mesh_broken(end, "a frame that does not belong after admission");
    }
}
