/*
 * server/mesh/mesh.h: this node's place in one RouteMesh: listener, dialers, links, and the calls that go over them.
 *
 * With the topology ClientServer it is one side of one channel instead: its server, who listens and is called, or its
 * client, who dials and calls. Then a link is one connection, and a call waits for a ready server; what differs is
 * asked of zlink_mesh_is_client_server(). Both sides of a process are two of these (server/client_server/).
 *
 * Owned by the node (or by a tool that joins as Client), used on the reactor thread only, except for
 * zlink_mesh_submit and zlink_mesh_take, which post. It knows nothing of Spots, turns or workers: what arrives goes
 * to `events`. The struct's fields are shared by the files mesh*.c and peer_link.c and by nobody else.
 */
#ifndef ZLINK_SERVER_MESH_H
#define ZLINK_SERVER_MESH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zlink/status.h>

#include "base/refusal.h"
#include "net/dialer.h"
#include "net/listener.h"
#include "net/reactor.h"
#include "server/mesh/channel_routes.h"
#include "server/mesh/node_identity.h"
#include "server/mesh/outbound_call.h"
#include "server/mesh/peer_link.h"
#include "server/mesh/pending_operations.h"
#include "server/mesh/send_gates.h"

/* A request or one-way message of a peer. Valid during `arrived`. */
typedef struct zlink_mesh_arrival {
    zlink_peer_link_t *link;
    zlink_frame_connection_t *connection; /* for zlink_frame_connection_take_payload */
    zlink_permit_waiter_t *source;        /* the connection's, for who lets it wait: zlink_mesh_resume_source */
    uint64_t reply_route_id;              /* 0: one-way */
    uint32_t deadline_ms;                 /* what is left of the caller's time; 0: one-way */
    zlink_target_kind_t target;
    const char *name;
    const char *spot_id;
    const char *packet;
    const uint8_t *payload;
    size_t payload_bytes;
    const char *metadata;       /* text of a zlink_metadata_t */
    size_t metadata_bytes;      /* 0: none */
    const zlink_trace_t *trace; /* NULL: none */
} zlink_mesh_arrival_t;

typedef struct zlink_mesh_events {
    /* May answer ZLINK_FRAME_WAIT; then zlink_mesh_resume_source brings it again. */
    zlink_frame_verdict_t (*arrived)(void *context, const zlink_mesh_arrival_t *arrival);
    /* A connection that `arrived` may have let wait is gone. May be NULL. */
    void (*source_gone)(void *context, zlink_permit_waiter_t *source);
    /* The picked member of a channel is this node. Complete the call with zlink_mesh_complete_local. */
    void (*picked_local)(void *context, zlink_outbound_call_t *call);
    /* Nobody waits for the reply to an earlier `arrived` of that link any more, or (`link` 0) to a `picked_local`. May
     * be NULL. */
    void (*cancelled)(void *context, uint64_t link, uint64_t reply_route_id);
    /* How many ready links serve the channel now. */
    void (*members_changed)(void *context, const char *channel, size_t members);
    /* What this node itself weighs in a channel that it serves: at the start, and after each change. */
    void (*own_weight)(void *context, const char *channel, uint32_t weight);
    void (*link_ready)(void *context, zlink_peer_link_t *link);
    /* The peer of a ready link drains, is paused or goes on, or weighs something else. May be NULL. */
    void (*link_changed)(void *context, const zlink_peer_link_t *link);
    /* A link that was ready is gone, or (`link` NULL) an attempt to reach `address` failed. */
    void (*link_lost)(void *context, zlink_peer_link_t *link, const char *address, const char *reason);
    /* zlink_mesh_dialer_state() of a configured address is another one than "ready" now; for "dialling" once for each
     * time that the peer gets out of reach. May be NULL. */
    void (*address_changed)(void *context, const zlink_mesh_dialer_t *dialer, const char *reason);
    void *context;
} zlink_mesh_events_t;

typedef struct zlink_mesh_options {
    zlink_wire_topology_t topology; /* ClientServer: `role` is this side's, `channels` is the one channel */
    uint64_t numbers_from;          /* links are numbered above it: a process may have several meshes */
    zlink_reactor_t *reactor;
    const zlink_tls_context_t *tls; /* NULL: plain, unauthenticated */
    const zlink_node_identity_t *identity;
    zlink_wire_role_t role;
    const char *listen;                /* NULL: no listener */
    const char *const *peers;          /* addresses to dial */
    const char *const *expected_peers; /* who is to answer there: a name or a node id; NULL, all or one: anybody */
    size_t peer_count;
    bool redial;                     /* false: one attempt per address (a tool) */
    const char *const *channels;     /* that this node serves */
    const uint32_t *channel_weights; /* as many; NULL: ZLINK_MESH_WEIGHT_DEFAULT each */
    size_t channel_count;
    const char *const *spot_types; /* that it hosts */
    size_t spot_type_count;
    uint32_t max_body_bytes;
    size_t outbound_bytes; /* charged to one connection, before senders wait */
    size_t inbound_bytes;  /* unread on one connection, before it is not read any more; 0: a default */
    uint32_t pending_max;
    uint32_t connections_max; /* these three: of the listener, 0 = its default */
    uint32_t connections_per_address_max;
    uint32_t handshakes_max;
    zlink_mesh_events_t events;
} zlink_mesh_options_t;

#define ZLINK_MESH_WEIGHT_DEFAULT 100u
#define ZLINK_MESH_REPLACED_MAX   16

/* A configured address. */
struct zlink_mesh_dialer {
    zlink_mesh_t *mesh;
    zlink_dialer_t *dialer;
    const char *expected;                            /* name or node id of who is to answer; NULL: anybody */
    zlink_peer_link_t *link;                         /* being opened or open through it */
    char standby_for[ZLINK_WIRE_MESH_BYTES_MAX + 1]; /* the peer's name: a link to it exists that it dialled */
    bool not_required; /* neither end serves anything: no failure, and no further attempt in this process */
    bool failure_told; /* one line for each time that the peer gets out of reach, not for each attempt */
};

struct zlink_mesh {
    zlink_reactor_t *reactor;
    zlink_mesh_options_t options;
    zlink_node_identity_t identity;
    zlink_wire_hello_t self; /* what this node says of itself; lists are the mesh's own */
    zlink_listener_t *listener;
    zlink_mesh_dialer_t *dialers;
    size_t dialer_count;
    struct zlink_peer_links links; /* all that are not gone */
    zlink_peer_link_t *by_number;
    uint64_t last_number;
    LIST_HEAD(, zlink_link_end) ends; /* every connection of the mesh, admitted or not */
    zlink_channel_routes_t *routes;
    zlink_send_gates_t *gates; /* used by any thread */
    zlink_pending_operations_t pending;
    struct zlink_outbound_calls unready;    /* of a ClientServer client: no server is ready for them */
    size_t unready_count;                   /* of these, the ones that came through no send gate */
    zlink_wire_channel_t *scratch_channels; /* where a peer's lists are decoded to */
    zlink_wire_spot_type_t *scratch_spot_types;
    size_t scratch_channel_count, scratch_spot_type_count;
    uint8_t *scratch_envelope; /* ZLINK_FRAME_ENVELOPE_BYTES_MAX */
    char replaced[ZLINK_MESH_REPLACED_MAX]
                 [ZLINK_WIRE_NODE_ID_BYTES_MAX + 1]; /* node ids that a newer life took over from */
    size_t replaced_next;
    bool paused; /* this node takes no new calls now */
    bool draining;
    bool closing;
    zlink_timer_t closing_check;
    void (*closed)(void *context);
    void *closed_context;
};

/* Reactor thread. Opens the listener and starts dialling. A refusal (a bad address, a port in use) is one line. */
zlink_status_t zlink_mesh_create(const zlink_mesh_options_t *options, zlink_mesh_t **mesh, zlink_refusal_t *why);

/* Any thread: the call is made on the reactor. See server/mesh/outbound_call.h. */
void zlink_mesh_submit(zlink_mesh_t *mesh, zlink_outbound_call_t *call);

/* Any thread. A one-way call for which somebody is ready and room is left counts as taken at once: true, and its maker
 * need not wait for `completed` (which still comes, to give its memory back). False: nothing has happened, submit it.
 */
bool zlink_mesh_take(zlink_mesh_t *mesh, zlink_outbound_call_t *call);

/* Any thread, at most once for a call that was submitted, whose `hold` was called for it before: `release` follows. A
 * call that is not over by then ends with ZLINK_CANCELLED: what was not handed to a connection yet never will be, of a
 * request that was the peer is told. */
void zlink_mesh_cancel(zlink_mesh_t *mesh, zlink_outbound_call_t *call);

/* The answer of this node to a call that it picked itself for. Reactor thread. */
void zlink_mesh_complete_local(zlink_mesh_t *mesh, uint64_t reply_route_id, zlink_status_t status,
                               const zlink_call_answer_t *answer);

/* Reactor thread. What this node weighs in `channel` from now on, for its own calls and, by an UPDATE on the links that
 * exist, for everybody else's; calls that were made stay where they are. ZLINK_INVALID_OPERATION over
 * ZLINK_WIRE_WEIGHT_MAX, ZLINK_NOT_FOUND where this node does not serve the channel. */
zlink_status_t zlink_mesh_set_weight(zlink_mesh_t *mesh, const char *channel, uint32_t weight);

/* Reactor thread. NULL where the link is gone. */
zlink_peer_link_t *zlink_mesh_find_link(zlink_mesh_t *mesh, uint64_t number);

/* Reactor thread. After an `arrived` that answered ZLINK_FRAME_WAIT: it comes again at the end of this tick. */
void zlink_mesh_resume_source(zlink_permit_waiter_t *source);

/* Reactor thread. Every peer, and whoever links from now on, is told to make no new calls, or that it may again; see
 * server/mesh/flow_state.c. */
void zlink_mesh_set_paused(zlink_mesh_t *mesh, bool paused);

/* Reactor thread. `tls` instead of the one from before, for every handshake from now on; whoever it does not trust
 * loses his link. The caller keeps a hold. Answers how many links, and connections without one, were ended. */
size_t zlink_mesh_set_tls(zlink_mesh_t *mesh, const zlink_tls_context_t *tls);

/* Reactor thread. Tells every peer that this node takes nothing new, admits nobody, dials nobody. */
void zlink_mesh_drain(zlink_mesh_t *mesh);

/* Reactor thread. Ends every pending call with ZLINK_SHUTTING_DOWN, closes every connection in order and calls `closed`
 * (reactor thread, not inside this call) when the last one is gone. */
void zlink_mesh_close(zlink_mesh_t *mesh, void (*closed)(void *context), void *context);

/* Reactor thread, after `closed`. */
void zlink_mesh_destroy(zlink_mesh_t *mesh);

/* "127.0.0.1:7001" with the real port; NULL without a listener. */
const char *zlink_mesh_address(const zlink_mesh_t *mesh);

static inline bool zlink_mesh_is_client_server(const zlink_mesh_t *mesh)
{
    return mesh->options.topology == ZLINK_TOPOLOGY_CLIENT_SERVER;
}

/* ---- between the mesh's own files ---- */

/* Whose turn it is to get the call. ZLINK_UNAVAILABLE, and in a RouteMesh ZLINK_NOT_FOUND: nobody is there for it now.
 * ZLINK_INVALID_OPERATION: only this node is, whose gate the caller holds (in ClientServer). */
zlink_status_t zlink_mesh_pick(zlink_mesh_t *mesh, const zlink_outbound_call_t *call, zlink_channel_pick_t *picked);

/* With the status of the pick: the call goes to whoever was picked, or ends. */
void zlink_mesh_start_call(zlink_mesh_t *mesh, zlink_outbound_call_t *call, zlink_status_t status,
                           const zlink_channel_pick_t *picked);

/* Tells the maker of a one-way call that it has to wait now. */
void zlink_mesh_call_waits(zlink_outbound_call_t *call);

/* Ends a call that is on no list of a link: takes it out of the pending table and calls `completed`. */
void zlink_mesh_complete(zlink_mesh_t *mesh, zlink_outbound_call_t *call, zlink_status_t status,
                         const zlink_call_answer_t *answer);

/* mesh_admission.c: HELLO, ADMIT, REJECT, UPDATE and the connections' life. */
extern const zlink_frame_connection_events_t zlink_mesh_connection_events;
void zlink_mesh_connecting(zlink_dialer_t *dialer, zlink_stream_t *stream);
void zlink_mesh_accepted(zlink_listener_t *listener, zlink_stream_t *stream);
void zlink_mesh_close_link(zlink_peer_link_t *link, zlink_status_t status, const char *reason);

/* mesh_weights.c: brings a peer that was told an older revision up to date, as soon as it may be told. */
void zlink_mesh_tell_revision(zlink_peer_link_t *link);

/* flow_state.c: tells a peer that was told something else; what a peer says. */
void zlink_mesh_tell_flow(zlink_peer_link_t *link);
void zlink_mesh_peer_paused(zlink_peer_link_t *link, bool paused);
zlink_frame_verdict_t zlink_mesh_on_flow_state(zlink_link_end_t *end, const zlink_frame_prefix_t *prefix);

/* mesh_links.c: links from their making to their end, and the routes over them. */
zlink_peer_link_t *zlink_mesh_make_link(zlink_mesh_t *mesh, zlink_mesh_dialer_t *dialer);
zlink_status_t zlink_mesh_set_peer(zlink_peer_link_t *link, const zlink_wire_hello_t *peer);
/* The peer of that name, which belongs to one process where it serves anything; the peer of that node id, whatever it
 * is; and that of the two which `peer` would be a second link to. */
zlink_peer_link_t *zlink_mesh_find_peer(zlink_mesh_t *mesh, const char *name, const zlink_peer_link_t *except);
zlink_peer_link_t *zlink_mesh_find_life(zlink_mesh_t *mesh, const char *node_id, const zlink_peer_link_t *except);
zlink_peer_link_t *zlink_mesh_find_same(zlink_peer_link_t *link, const zlink_wire_hello_t *peer);
void zlink_mesh_link_ready(zlink_peer_link_t *link);
void zlink_mesh_reroute(zlink_peer_link_t *link, const zlink_wire_update_t *update);

/* What the peer says of itself has changed: `link_changed`, where the link is ready. */
void zlink_mesh_link_changed(const zlink_peer_link_t *link);

/* "dialling", "ready", "not_required" (neither end serves anything) or "standing by" (the peer has dialled, or it is
 * this node). */
const char *zlink_mesh_dialer_state(const zlink_mesh_dialer_t *dialer);
/* The connection ends in order, and its link with it, now: the peer may take its time to let go of the socket. */
void zlink_mesh_fail(zlink_link_end_t *end, zlink_status_t status, const char *reason);
zlink_frame_verdict_t zlink_mesh_broken(zlink_link_end_t *end, const char *reason);
void zlink_mesh_link_end_closed(zlink_link_end_t *end, zlink_status_t status, const char *reason);

/* mesh_frames.c: what admitted connections carry. */
zlink_frame_verdict_t zlink_mesh_on_frame(zlink_link_end_t *end, const zlink_frame_prefix_t *prefix,
                                          const uint8_t *envelope, const uint8_t *payload, size_t payload_bytes);

#endif
