/*
 * server/application/application_host.h: the application side of a node: its Spots, channels and what their turns
 * share.
 *
 * Made at start on the main thread; immutable afterwards but for what is atomic or has a lock of its own. Any thread
 * may submit an invocation. It knows nothing of peers: `outbound` is the door to the mesh.
 */
#ifndef ZLINK_SERVER_APPLICATION_HOST_H
#define ZLINK_SERVER_APPLICATION_HOST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <zlink/status.h>

#include "base/clock.h"
#include "base/refusal.h"
#include "exec/application_job_queue.h"
#include "exec/execution_lane_policy.h"
#include "exec/worker_pool.h"
#include "server/application/catalogue.h"
#include "server/application/invocation.h"
#include "server/application/node_host.h"
#include "server/application/spot_registry.h"
#include "server/application/work_host.h"
#include "server/mesh/outbound_call.h"

/* What this node is in a channel of ClientServer. */
typedef enum zlink_channel_side {
    ZLINK_CHANNEL_OF_THE_MESH = 0, /* it is none */
    ZLINK_CHANNEL_CALLED,
    ZLINK_CHANNEL_ONLY_SERVED,
} zlink_channel_side_t;

/* Where calls that leave the node go. `submit` may be called on any thread; the call is completed on the reactor. */
typedef struct zlink_outbound {
    void (*submit)(void *context, zlink_outbound_call_t *call);
    /* A one-way call that may count as taken at once: true, and nobody need wait for its completion. */
    bool (*take)(void *context, zlink_outbound_call_t *call);
    /* The node that the Spots of `type` live on where this node does not host it; NULL = nobody knows. */
    const char *(*spot_home)(void *context, const char *type);
    /* What this node weighs in a channel that it serves from now on. */
    zlink_status_t (*set_weight)(void *context, const char *channel, uint32_t weight);
    /* Gives a call up that was submitted; any thread, once. Its `hold` was called before, and `release` follows. */
    void (*cancel)(void *context, zlink_outbound_call_t *call);
    /* NULL: there are none of ClientServer. */
    zlink_channel_side_t (*channel_side)(void *context, const char *channel);
    void *context;
    /* The send timeout of a ClientServer channel; NULL: that of the node. */
    uint32_t (*send_timeout_ms)(void *context, const char *channel);
} zlink_outbound_t;

typedef struct zlink_application_host_options {
    const zlink_clock_t *clock;
    const char *node_id; /* must outlive the host */
    const char *mesh;    /* so must this */
    zlink_execution_lane_policy_t policy;
    uint32_t request_timeout_ms;
    uint32_t send_timeout_ms;
    size_t message_bytes_max;
    uint32_t spots_max;
    uint32_t jobs_max;      /* permits of the application job queue */
    unsigned pause_percent; /* of these: its marks; 0: the default ones */
    unsigned resume_percent;
    zlink_work_host_options_t work;
    zlink_outbound_t outbound;
} zlink_application_host_options_t;

struct zlink_application_host {
    const zlink_clock_t *clock;
    const char *node_id;
    const char *mesh;
    zlink_worker_pool_t *pool;
    const zlink_catalogue_t *catalogue;
    zlink_execution_lane_policy_t policy;
    uint32_t request_timeout_ms;
    uint32_t send_timeout_ms;
    size_t message_bytes_max;
    zlink_outbound_t outbound;

    zlink_application_job_queue_t job_queue;
    zlink_work_host_t *work;
    zlink_spot_registry_t *spots;
    zlink_channel_host_t **channels; /* as many as the catalogue has, in its order; NULL where it is only called */
    zlink_node_host_t *node;         /* NULL: no handlers of the node itself */

    struct {
        void (*closed)(void *context);
        void *context;
        _Atomic size_t channels_left;
    } closing;

    _Atomic bool teardown_failed; /* an on_closing could not be run */
    _Atomic bool draining;        /* `idle` is wanted: no tick of a timer begins any more */
    _Atomic uint64_t live;        /* accepted invocations that have not ended; the top bit says that `idle` is wanted */
    void (*idle)(void *context);
    void *idle_context;
};

/* Takes neither pool nor catalogue over. Starts every channel (its on_start runs as a turn); waits for them, so it must
 * not be called on a worker or the reactor. On refusal the line names the channel, and those that had started are
 * closed again. */
zlink_status_t zlink_application_host_create(zlink_worker_pool_t *pool, const zlink_catalogue_t *catalogue,
                                             const zlink_application_host_options_t *options,
                                             zlink_application_host_t **host, zlink_refusal_t *why);

/* The local part of a channel, NULL where this node does not serve it. */
zlink_channel_host_t *zlink_application_host_find_channel(const zlink_application_host_t *host, const char *name);

/* Calls `idle` once, on any thread, as soon as no accepted invocation is left. Nothing new may be submitted from
 * outside after this; running handlers may still submit, and are waited for. */
void zlink_application_host_when_idle(zlink_application_host_t *host, void (*idle)(void *context), void *context);

/* Runs on_closing of every Spot and channel as their last turn, tells work off the turn to stop, and calls `closed`
 * once, on any thread, when all are gone. After `when_idle` has called back. Where there was no memory to run an
 * on_closing, `teardown_failed` says so afterwards. */
void zlink_application_host_close(zlink_application_host_t *host, void (*closed)(void *context), void *context);

/* After `closed` and after the pool has stopped. */
void zlink_application_host_destroy(zlink_application_host_t *host);

/* For coordinators' owners: an invocation was accepted / has ended or was refused after all. */
void zlink_application_host_accepted(zlink_application_host_t *host);
void zlink_application_host_ended(zlink_application_host_t *host);

#endif
