/*
 * server/application/invocation.h: one message on its way through a handler: the turn with everything around it.
 *
 * Made where the message arrives (the reactor for a peer's frame, a worker for a local call), handed to a coordinator,
 * run once on a turn, and given to `deliver` at its end, which owns it from then on. If the coordinator refuses it, it
 * still belongs to whoever made it. The payload is decoded on the turn, not before. Every turn that user code sees is
 * an invocation, lifecycle callbacks included.
 */
#ifndef ZLINK_SERVER_INVOCATION_H
#define ZLINK_SERVER_INVOCATION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <zlink/filter.h>
#include <zlink/handler.h>

#include "exec/turn.h"
#include "net/reactor.h"
#include "proto/trace.h"

typedef struct zlink_application_host zlink_application_host_t;
typedef struct zlink_invocation zlink_invocation_t;
typedef struct zlink_spot zlink_spot_t;
typedef struct zlink_channel_host zlink_channel_host_t;

/* Called on the turn, as its last act, with the result in the invocation. Takes the invocation over. */
typedef void (*zlink_invocation_deliver_t)(zlink_invocation_t *invocation);

/* A lifecycle callback: what runs instead of a handler. */
typedef zlink_status_t (*zlink_invocation_callback_t)(zlink_invocation_t *invocation);

/* A piece of memory from zlink_turn_alloc. */
typedef struct zlink_turn_memory {
    struct zlink_turn_memory *next;
    size_t size_bytes;
} zlink_turn_memory_t;

struct zlink_invocation {
    zlink_turn_t turn; /* first: a turn pointer is an invocation pointer */
    zlink_application_host_t *host;
    zlink_spot_t *spot;            /* the owner is either a Spot … */
    zlink_channel_host_t *channel; /* … or this node's part of a channel */
    void *self;                    /* the owner's state */

    const zlink_handler_t *handler; /* NULL for a lifecycle callback */
    const zlink_filter_t *filters;  /* before it; NULL: none */
    zlink_invocation_callback_t callback;
    const uint8_t *payload;
    size_t payload_bytes;
    void *payload_memory; /* where a large payload was taken over: freed as soon as it is decoded */
    const char *source;   /* node id of the caller */
    char *metadata;       /* text of a zlink_metadata_t, its own; NULL: none */
    size_t metadata_bytes;
    zlink_trace_t *trace; /* its own; NULL: none */
    uint64_t deadline_ms; /* on the host's clock; 0 = none */
    bool holds_permit;    /* of the application job queue */
    /* NULL, or true there: nobody waits for it any more, so that its handler need not start … */
    const _Atomic bool *unwanted;
    bool dropped;           /* … and did not */
    _Atomic bool cancelled; /* where `unwanted` may point to */

    void *request_message; /* decoded on the turn */
    void *reply_message;
    zlink_turn_memory_t *memory;
    size_t memory_bytes;
    void *open_then; /* the record of a `_then` call whose continuation has not run (turn_call.c, work_api.c) … */
    void (*drop_then)(zlink_invocation_t *invocation); /* … which this frees where it never runs */

    /* The result, for `deliver`. */
    zlink_status_t status;
    uint8_t *reply; /* encoded; empty unless status is ZLINK_OK and it was a request */
    size_t reply_bytes;

    /* The way back. What the fields mean is `deliver`'s business. */
    zlink_invocation_deliver_t deliver;
    void *route;
    uint64_t route_link;
    uint64_t route_id;
    LIST_ENTRY(zlink_invocation) in_open; /* server/open_requests.h */
    zlink_mail_t mail;
};

/* A message for `handler`: copies `payload` and `source`. Where `payload_memory` is not NULL the payload lies in there,
 * is not copied, and the memory is the invocation's from here on, also where it cannot be made. `deadline_ms` 0 = none.
 * NULL when out of memory. */
zlink_invocation_t *zlink_invocation_create(zlink_application_host_t *host, const zlink_handler_t *handler,
                                            const char *source, const uint8_t *payload, size_t payload_bytes,
                                            void *payload_memory, uint64_t deadline_ms);

/* The metadata that came with the message, copied. False: out of memory. Nothing to do for `text_bytes` 0. */
bool zlink_invocation_set_metadata(zlink_invocation_t *invocation, const char *text, size_t text_bytes);

/* The same for what it says of itself. Nothing to do for NULL. */
bool zlink_invocation_set_trace(zlink_invocation_t *invocation, const zlink_trace_t *trace);

/* A lifecycle callback of an owner. Its `deliver` is called at its end like any other's. */
zlink_invocation_t *zlink_invocation_create_lifecycle(zlink_application_host_t *host,
                                                      zlink_invocation_callback_t callback,
                                                      zlink_invocation_deliver_t deliver);

/* The invocation of a turn that user code holds. */
static inline zlink_invocation_t *zlink_invocation_of(const zlink_turn_t *turn)
{
    return (zlink_invocation_t *)(uintptr_t)turn;
}

/* Frees it with its memory, giving back a permit that it still holds. */
void zlink_invocation_free(zlink_invocation_t *invocation);

/* For `deliver` of a one-way message: logs and counts a failure, then frees. */
void zlink_invocation_deliver_nowhere(zlink_invocation_t *invocation);

#endif
