/*
 * server/mesh/outbound_call.h: one call on its way to a peer.
 *
 * Whoever makes the call fills the first part, submits it to the mesh and leaves it alone until `completed` is called:
 * once, on the reactor thread, with the call handed back. A one-way call is completed when a connection has taken it.
 */
#ifndef ZLINK_SERVER_OUTBOUND_CALL_H
#define ZLINK_SERVER_OUTBOUND_CALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <zlink/status.h>

#include "base/timer_wheel.h"
#include "net/mailbox.h"
#include "net/output_queue.h"
#include "proto/wire.h"

typedef struct zlink_outbound_call zlink_outbound_call_t;
typedef struct zlink_peer_link zlink_peer_link_t;
typedef struct zlink_mesh zlink_mesh_t;
typedef struct zlink_frame_connection zlink_frame_connection_t;
typedef struct zlink_send_gate zlink_send_gate_t;
typedef struct zlink_large_calls zlink_large_calls_t;

typedef enum zlink_call_route {
    ZLINK_ROUTE_CHANNEL = 0, /* one ready member of the channel `name`, this node included */
    ZLINK_ROUTE_NODE,        /* the ready peer of the name `node` */
    ZLINK_ROUTE_EXACT_NODE,  /* the ready peer of the node id `node`, and no other life of it */
    ZLINK_ROUTE_LINK,        /* the link of the number `link_number` */
} zlink_call_route_t;

/* What came back. Valid during `completed`. */
typedef struct zlink_call_answer {
    const char *packet; /* name of the reply's packet; NULL unless the status is ZLINK_OK and it was a request */
    const uint8_t *payload;
    size_t payload_bytes;
    zlink_frame_connection_t *connection; /* for zlink_frame_connection_take_payload; NULL: it did not come from one */
} zlink_call_answer_t;

typedef void (*zlink_call_completed_t)(zlink_outbound_call_t *call, zlink_status_t status,
                                       const zlink_call_answer_t *answer);

struct zlink_outbound_call {
    /* Filled by the maker; all strings and bytes stay valid until `completed`. */
    zlink_call_route_t route;
    bool one_way;
    bool exclude_local; /* the caller holds the gate of its own node's part of the channel … */
    bool behind_local;  /* … and, of a one-way call, does not wait for room in its lane */
    const char *node;
    uint64_t link_number;
    zlink_target_kind_t target;
    const char *name;
    const char *spot_id; /* "" but for a Spot */
    const char *packet;
    const uint8_t *payload;
    size_t payload_bytes;
    const char *metadata;       /* text of a zlink_metadata_t */
    size_t metadata_bytes;      /* 0: none */
    const zlink_trace_t *trace; /* NULL: none */
    uint64_t deadline_ms;       /* on the reactor's clock */
    zlink_call_completed_t completed;
    /* May be NULL. Once, on the reactor thread, before `completed`: a one-way call has to wait, for room on its link or
     * for a ready server. */
    void (*waits)(zlink_outbound_call_t *call);
    /* A maker that sets both lets a large payload be sent from where it lies: between the two, which may reach beyond
     * `completed`, the call and its payload stay where they are. One `release`, on the reactor thread, for each `hold`.
     * Only such a call can be cancelled. */
    void (*hold)(zlink_outbound_call_t *call);
    void (*release)(zlink_outbound_call_t *call);

    /* The mesh's own. */
    zlink_mail_t mail;
    zlink_mesh_t *mesh;
    zlink_peer_link_t *link;
    uint64_t reply_route_id; /* 0 while it is not registered */
    zlink_timer_t timer;
    zlink_send_gate_t *gate; /* of a one-way message that its sender does not wait for */
    uint64_t place;          /* on its link: whoever was submitted before has a smaller one */
    bool waiting;            /* for room on its link */
    bool unready;            /* it waits for a ready server: server/client_server/unready_calls.h */
    bool has_waited;         /* `waits` was called */
    bool at_home;            /* it waits for room in a queue of this node: server/picked_room.h */
    bool over;               /* `completed` was called */
    _Atomic bool cancelled;  /* what was not sent yet is not sent any more */
    zlink_mail_t cancel_mail;
    zlink_output_hold_t payload_hold;
    TAILQ_ENTRY(zlink_outbound_call) on_link;
    bool parked;                     /* it waits in its link's large calls … */
    zlink_large_calls_t *sending_on; /* … or its payload is on its way from there */
    TAILQ_ENTRY(zlink_outbound_call) in_large;
};

TAILQ_HEAD(zlink_outbound_calls, zlink_outbound_call);

#endif
