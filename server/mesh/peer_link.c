#include "server/mesh/peer_link.h"

#include <assert.h>
#include <string.h>

#include "base/admission_error.h"
#include "base/container_of.h"
#include "base/counters.h"
#include "base/log.h"
#include "server/mesh/mesh.h"

ZLINK_COUNTER_DEFINE(requests_sent, ZLINK_COUNTER, "zlink.requests.sent", "Requests sent to peers");
ZLINK_COUNTER_DEFINE(messages_sent, ZLINK_COUNTER, "zlink.messages.sent", "One-way messages sent to peers");
ZLINK_COUNTER_DEFINE(replies_sent, ZLINK_COUNTER, "zlink.replies.sent", "Replies and error replies sent to peers");
ZLINK_COUNTER_DEFINE(waits, ZLINK_COUNTER, "zlink.mesh_node.send_waits",
                     "Calls that had to wait for room on their link");

uint32_t zlink_peer_link_body_bytes_max(const zlink_peer_link_t *link)
{
    uint32_t own = link->mesh->options.max_body_bytes, peer = link->peer.max_body_bytes;
    return zlink_mesh_is_client_server(link->mesh) && own < peer ? own : peer;
}

static zlink_status_t announce(zlink_link_end_t *end, const zlink_wire_announce_t *announcement)
{
    uint8_t envelope[ZLINK_WIRE_SMALL_ENVELOPE_MAX];
    size_t size = 0;
    zlink_frame_prefix_t prefix = {.kind = ZLINK_FRAME_ANNOUNCE};
    zlink_status_t status = zlink_wire_announce_encode(announcement, envelope, sizeof(envelope), &size);
    if (status == ZLINK_OK)
        status = zlink_frame_connection_send_forced(end->connection, &prefix, envelope, (uint32_t)size, NULL, 0);
    if (status != ZLINK_OK)
        zlink_outgoing_names_withdraw(end->outgoing, announcement->kind, announcement->id);
    return status;
}

/* The number of a target on this connection, announced first where it is new; 0 = it has to go inline. */
static uint32_t target_number(zlink_link_end_t *end, zlink_target_kind_t kind, const char *name, const char *spot_id)
{
    bool is_new = false;
    uint32_t number = zlink_outgoing_names_target(end->outgoing, kind, name, spot_id, &is_new);
    if (!is_new)
        return number;
    zlink_wire_announce_t announcement = {.id = number, .kind = ZLINK_ANNOUNCE_TARGET, .target.kind = kind};
    strcpy(announcement.target.name, name);
    strcpy(announcement.target.spot_id, spot_id);
    return announce(end, &announcement) == ZLINK_OK ? number : 0;
}

static uint32_t packet_number(zlink_link_end_t *end, const char *packet)
{
    bool is_new = false;
    uint32_t number = zlink_outgoing_names_packet(end->outgoing, packet, &is_new);
    if (!is_new)
        return number;
    zlink_wire_announce_t announcement = {.id = number, .kind = ZLINK_ANNOUNCE_PACKET};
    strcpy(announcement.packet, packet);
    return announce(end, &announcement) == ZLINK_OK ? number : 0;
}

/* The envelope of a call holds metadata and the names that have no number: usually nothing, and then nothing is
 * encoded. */
static zlink_status_t name_envelope(const zlink_outbound_call_t *call, bool target, bool packet, uint8_t *bytes,
                                    size_t capacity, size_t *size)
{
    *size = 0;
    if (!target && !packet && call->metadata_bytes == 0 && !call->trace)
        return ZLINK_OK;
    zlink_wire_call_t names = {.target.kind = ZLINK_TARGET_NONE};
    if (target) {
        names.target.kind = call->target;
        strcpy(names.target.name, call->name);
        strcpy(names.target.spot_id, call->spot_id);
    }
    if (packet)
        strcpy(names.packet, call->packet);
    zlink_metadata_restore(&names.metadata, call->metadata, call->metadata_bytes);
    if (call->trace)
        names.trace = *call->trace;
    return zlink_wire_call_encode(&names, bytes, capacity, size);
}

static void payload_sent(zlink_output_hold_t *hold);

/* Bodies that may be on their way in chunks at a time. */
static size_t large_bytes_max(const zlink_peer_link_t *link)
{
    size_t own = link->mesh->options.max_body_bytes;
    return link->peer.max_body_bytes < own ? link->peer.max_body_bytes : own;
}

static zlink_status_t send_frame(zlink_link_end_t *end, zlink_outbound_call_t *call, const zlink_frame_prefix_t *prefix,
                                 const uint8_t *envelope, size_t envelope_bytes)
{
    bool held = false;
    if (!call->hold)
        return zlink_frame_connection_send(end->connection, prefix, envelope, (uint32_t)envelope_bytes, call->payload,
                                           (uint32_t)call->payload_bytes);
    call->payload_hold.release = payload_sent;
    zlink_status_t status =
        zlink_frame_connection_send_held(end->connection, prefix, envelope, (uint32_t)envelope_bytes, call->payload,
                                         (uint32_t)call->payload_bytes, &call->payload_hold, &held);
    if (held) {
        call->hold(call);
        if (zlink_large_calls_is(call))
            zlink_large_calls_send(&end->link->large, call);
    }
    return status;
}

static zlink_status_t send_call(zlink_peer_link_t *link, zlink_outbound_call_t *call)
{
    zlink_link_end_t *end = link->ends[ZLINK_CONNECTION_APPLICATION];
    uint8_t envelope[ZLINK_WIRE_SMALL_ENVELOPE_MAX];
    size_t envelope_bytes = 0;
    if (atomic_load_explicit(&call->cancelled, memory_order_relaxed))
        return ZLINK_CANCELLED;
    zlink_frame_prefix_t prefix = {
        .kind = call->one_way ? ZLINK_FRAME_SEND : ZLINK_FRAME_REQUEST,
        .reply_route_id = call->one_way ? 0 : call->reply_route_id,
        .target_id = target_number(end, call->target, call->name, call->spot_id),
        .packet_id = packet_number(end, call->packet),
    };
    if (!call->one_way) {
        uint64_t now_ms = zlink_reactor_now_ms(link->mesh->reactor);
        if (now_ms >= call->deadline_ms)
            return ZLINK_DEADLINE_EXCEEDED;
        uint64_t left_ms = call->deadline_ms - now_ms;
        prefix.deadline_ms = left_ms > INT32_MAX ? INT32_MAX : (uint32_t)left_ms;
    }
    zlink_status_t status =
        name_envelope(call, prefix.target_id == 0, prefix.packet_id == 0, envelope, sizeof(envelope), &envelope_bytes);
    if (status != ZLINK_OK)
        return status;
    return send_frame(end, call, &prefix, envelope, envelope_bytes);
}

void zlink_peer_link_forget(zlink_peer_link_t *link, zlink_outbound_call_t *call)
{
    zlink_link_end_t *end = link->ends[ZLINK_CONNECTION_APPLICATION];
    assert(call->link == link);
    if (call->waiting) {
        if (call->parked)
            zlink_large_calls_remove(&link->large, call);
        else
            TAILQ_REMOVE(&link->waiting, call, on_link);
        if (!call->gate)
            link->waiting_count--;
        call->waiting = false;
    } else {
        TAILQ_REMOVE(&link->calls, call, on_link);
        if (call->sending_on && end && end->connection) /* what is not sent yet is for nobody */
            zlink_frame_connection_abandon(end->connection, &call->payload_hold);
    }
    call->link = NULL;
}

void zlink_peer_link_cancel(zlink_peer_link_t *link, zlink_outbound_call_t *call)
{
    zlink_link_end_t *end = link->ends[ZLINK_CONNECTION_APPLICATION];
    const zlink_frame_prefix_t prefix = {.kind = ZLINK_FRAME_CANCEL, .reply_route_id = call->reply_route_id};
    bool sent = !call->waiting;
    zlink_peer_link_forget(link, call);
    if (sent && link->state == ZLINK_LINK_READY && end && end->connection)
        (void)zlink_frame_connection_send_forced(end->connection, &prefix, NULL, 0, NULL, 0); /* or the link ends */
}

/* A call that is on neither list yet, or the first that waits. True when the link took it or it has ended. */
static bool try_submit(zlink_peer_link_t *link, zlink_outbound_call_t *call)
{
    zlink_status_t status = send_call(link, call);
    if (status == ZLINK_CAPACITY_EXCEEDED)
        return false;
    if (call->waiting)
        zlink_peer_link_forget(link, call);
    if (status != ZLINK_OK || call->one_way) {
        if (status == ZLINK_OK)
            zlink_counter_add(&messages_sent, 1);
        zlink_mesh_complete(link->mesh, call, status, NULL);
        return true;
    }
    zlink_counter_add(&requests_sent, 1);
    call->link = link;
    TAILQ_INSERT_TAIL(&link->calls, call, on_link);
    return true;
}

void zlink_peer_link_submit(zlink_peer_link_t *link, zlink_outbound_call_t *call)
{
    assert(link->state == ZLINK_LINK_READY);
    call->place = ++link->last_place;
    if (call->payload_bytes > zlink_peer_link_body_bytes_max(link) - ZLINK_WIRE_SMALL_ENVELOPE_MAX) {
        zlink_mesh_complete(link->mesh, call, ZLINK_PROTOCOL_ERROR, NULL); /* the peer takes no message that long */
        return;
    }
    /* First come, first served: nobody overtakes calls that wait for room. The first of them tries again now: where it
     * was memory that was missing, no `drained` will come. */
    zlink_peer_link_drained(link);
    bool first = TAILQ_EMPTY(&link->waiting) && !link->peer_paused;
    bool park = first && zlink_large_calls_hold_up(&link->large, call, large_bytes_max(link));
    if (first && !park && try_submit(link, call))
        return;
    if (link->waiting_count == ZLINK_LINK_WAITING_MAX && !call->gate) {
        zlink_admission_error_t error = zlink_admission_error(
            ZLINK_ADMISSION_WAITER_SLOT, call->one_way ? ZLINK_ADMISSION_SEND : ZLINK_ADMISSION_REQUEST, true);
        zlink_mesh_complete(link->mesh, call, error.status, NULL);
        return;
    }
    zlink_counter_add(&waits, 1);
    if (call->one_way)
        zlink_reactor_timer_start(link->mesh->reactor, &call->timer, call->deadline_ms);
    call->link = link;
    call->waiting = true;
    if (!call->gate) /* a gate has bounded its messages already */
        link->waiting_count++;
    if (park)
        zlink_large_calls_park(&link->large, call);
    else
        TAILQ_INSERT_TAIL(&link->waiting, call, on_link);
    zlink_mesh_call_waits(call);
}

void zlink_peer_link_drained(zlink_peer_link_t *link)
{
    zlink_outbound_call_t *call;
    while (link->state == ZLINK_LINK_READY && !link->peer_paused && (call = TAILQ_FIRST(&link->waiting)) != NULL) {
        if (zlink_large_calls_hold_up(&link->large, call, large_bytes_max(link))) {
            TAILQ_REMOVE(&link->waiting, call, on_link);
            zlink_large_calls_park(&link->large, call);
        } else if (!try_submit(link, call)) {
            return;
        }
    }
}

/* Among those that wait for room. Whoever came later, also to the same target, may be there already. */
static void wait_at_its_place(zlink_peer_link_t *link, zlink_outbound_call_t *call)
{
    zlink_outbound_call_t *later;
    TAILQ_FOREACH(later, &link->waiting, on_link)
    {
        if (later->place > call->place) {
            TAILQ_INSERT_BEFORE(later, call, on_link);
            return;
        }
    }
    TAILQ_INSERT_TAIL(&link->waiting, call, on_link);
}

/* Whoever has waited for the end of a large payload goes where it would have gone without: out, or to its place among
 * those that wait for room. */
static void large_go_on(zlink_peer_link_t *link)
{
    zlink_outbound_call_t *call;
    while (link->state == ZLINK_LINK_READY &&
           (call = zlink_large_calls_next(&link->large, large_bytes_max(link))) != NULL) {
        zlink_large_calls_remove(&link->large, call);
        wait_at_its_place(link, call);
        if (TAILQ_FIRST(&link->waiting) == call && !link->peer_paused)
            try_submit(link, call);
    }
}

static void payload_sent(zlink_output_hold_t *hold)
{
    zlink_outbound_call_t *call = ZLINK_CONTAINER_OF(hold, zlink_outbound_call_t, payload_hold);
    zlink_large_calls_t *large = call->sending_on;
    if (large)
        zlink_large_calls_remove(large, call);
    call->release(call);
    if (large)
        large_go_on(ZLINK_CONTAINER_OF(large, zlink_peer_link_t, large));
}

static void send_error(zlink_link_end_t *end, uint64_t reply_route_id, zlink_status_t status)
{
    zlink_frame_prefix_t prefix = {
        .kind = ZLINK_FRAME_ERROR,
        .reply_route_id = reply_route_id,
        .error = zlink_frame_error_of(status),
    };
    zlink_frame_connection_send_forced(end->connection, &prefix, NULL, 0, NULL, 0);
}

void zlink_peer_link_reply(zlink_peer_link_t *link, uint64_t reply_route_id, zlink_status_t status, const char *packet,
                           const uint8_t *payload, size_t payload_bytes)
{
    zlink_link_end_t *end = link->ends[ZLINK_CONNECTION_COMPLETION];
    uint8_t envelope[ZLINK_WIRE_SMALL_ENVELOPE_MAX];
    size_t envelope_bytes = 0;
    if (link->state == ZLINK_LINK_CLOSING || !end || !end->connection)
        return; /* nobody is there to read it */

    zlink_counter_add(&replies_sent, 1);
    if (status == ZLINK_OK && payload_bytes > zlink_peer_link_body_bytes_max(link) - ZLINK_WIRE_SMALL_ENVELOPE_MAX)
        status = ZLINK_CAPACITY_EXCEEDED;
    if (status != ZLINK_OK) {
        send_error(end, reply_route_id, status);
        return;
    }
    zlink_frame_prefix_t prefix = {
        .kind = ZLINK_FRAME_REPLY,
        .reply_route_id = reply_route_id,
        .packet_id = packet_number(end, packet),
    };
    if (prefix.packet_id == 0) {
        zlink_wire_call_t names = {.target.kind = ZLINK_TARGET_NONE};
        strcpy(names.packet, packet);
        status = zlink_wire_call_encode(&names, envelope, sizeof(envelope), &envelope_bytes);
    }
    if (status == ZLINK_OK)
        status = zlink_frame_connection_send_forced(end->connection, &prefix, envelope, (uint32_t)envelope_bytes,
                                                    payload, (uint32_t)payload_bytes);
    if (status != ZLINK_OK)
        send_error(end, reply_route_id, status);
}
