/*
 * server/mesh/peer_link.h: the link to one peer: its two connections, the names announced on them, and its calls. In
 * ClientServer both are one and the same.
 *
 *   OPENING -> COMPLETING -> READY -> CLOSING -> gone
 *
 * OPENING: the Application connection is there, nobody is admitted yet (a link of the dialer only). COMPLETING:
 * admitted, the Completion connection is on its way. READY: both are admitted; calls go out. CLOSING: one of the two
 * was lost or the link was told to close; both are closed and every call on it has been ended with ZLINK_UNAVAILABLE.
 *
 * Owned by the mesh, used on the reactor thread only. Other threads name a link by its number, which is never used
 * again; a number that no longer exists is simply not found.
 */
#ifndef ZLINK_SERVER_PEER_LINK_H
#define ZLINK_SERVER_PEER_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <zlink/status.h>

#include "base/hash.h"
#include "net/frame_connection.h"
#include "proto/name_table.h"
#include "proto/wire.h"
#include "server/mesh/large_calls.h"
#include "server/mesh/outbound_call.h"
#include "server/mesh/permit_waiter.h"

typedef struct zlink_mesh_dialer zlink_mesh_dialer_t;

typedef enum zlink_link_state {
    ZLINK_LINK_OPENING = 0,
    ZLINK_LINK_COMPLETING,
    ZLINK_LINK_READY,
    ZLINK_LINK_CLOSING,
} zlink_link_state_t;

/* One of the link's two connections, also before it is known to which link an accepted one belongs. */
typedef struct zlink_link_end {
    zlink_mesh_t *mesh;
    zlink_peer_link_t *link;     /* NULL until the HELLO of an accepted connection was admitted, and after a refusal */
    zlink_mesh_dialer_t *dialer; /* NULL on accepted connections */
    zlink_connection_lane_t lane;
    zlink_frame_connection_t *connection;
    bool admitted;
    zlink_timer_t admission; /* a connection that says nothing is not kept */
    zlink_outgoing_names_t *outgoing;
    zlink_incoming_names_t *incoming;
    zlink_permit_waiter_t permit; /* for the events' owner; see zlink_mesh_arrival_t */
    LIST_ENTRY(zlink_link_end) in_mesh;
} zlink_link_end_t;

struct zlink_peer_link {
    zlink_mesh_t *mesh;
    uint64_t number;
    zlink_link_state_t state;
    bool dialled; /* by this node */
    zlink_mesh_dialer_t *dialer;
    uint64_t link_id;
    zlink_link_end_t *ends[2]; /* by lane */
    uint64_t ready_since_ms;
    zlink_timer_t watch; /* see server/mesh/application_watch.h */

    /* What the peer said of itself; lists are the link's own copies. `name` comes from its certificate. */
    zlink_wire_hello_t peer;
    uint64_t told_revision; /* the newest of this node's that the peer was told */
    bool told_paused;       /* what it was told of whether this node takes new calls, … */
    uint64_t told_epoch;    /* … and how often since its HELLO or ADMIT */
    bool peer_paused;       /* it takes no new calls now, as it said last, … */
    uint64_t peer_epoch;    /* … with this epoch; 0: in its HELLO or ADMIT */
    char name[ZLINK_WIRE_MESH_BYTES_MAX + 1];

    struct zlink_outbound_calls calls; /* registered, submitted, not answered */
    /* For room in the Application connection's output, or for the peer to go on; in the order of their places. */
    struct zlink_outbound_calls waiting;
    uint64_t last_place;
    zlink_large_calls_t large; /* what goes in chunks, and what waits for that */
    uint32_t waiting_count;    /* of those that wait, the ones that came through no send gate */

    UT_hash_handle by_number;
    TAILQ_ENTRY(zlink_peer_link) in_mesh;
};

TAILQ_HEAD(zlink_peer_links, zlink_peer_link);

/* The longest body that goes over the link: in a RouteMesh what the peer takes, in ClientServer the smaller of what
 * both take, in both directions. */
uint32_t zlink_peer_link_body_bytes_max(const zlink_peer_link_t *link);

/* Calls that may wait for room on one link; one more ends with ZLINK_DEADLINE_EXCEEDED at once (EX-43). */
#define ZLINK_LINK_WAITING_MAX 1024u

/* Sends a registered request or a one-way call, or lets it wait for room. Completes it where that fails, and a one-way
 * call as soon as the connection has taken it. The link must be READY. */
void zlink_peer_link_submit(zlink_peer_link_t *link, zlink_outbound_call_t *call);

/* The Application connection has room again. */
void zlink_peer_link_drained(zlink_peer_link_t *link);

/* The call leaves the link's lists: it was answered, timed out or lost. */
void zlink_peer_link_forget(zlink_peer_link_t *link, zlink_outbound_call_t *call);

/* The same, because this node gave it up: the peer is told of a request that was sent. */
void zlink_peer_link_cancel(zlink_peer_link_t *link, zlink_outbound_call_t *call);

/* Answers a request of the peer on the Completion connection. `packet` and the payload are sent for ZLINK_OK; a payload
 * that the peer does not take becomes ZLINK_CAPACITY_EXCEEDED. */
void zlink_peer_link_reply(zlink_peer_link_t *link, uint64_t reply_route_id, zlink_status_t status, const char *packet,
                           const uint8_t *payload, size_t payload_bytes);

#endif
