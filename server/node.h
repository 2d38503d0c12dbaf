/*
 * server/node.h: the node: everything put together, from its start to its end.
 *
 *   PREPARING -> SERVING -> DRAINING -> STOPPED       a refused start, or a forced stop: the process ends with 1
 *
 * The main thread makes it, waits for signals and takes it apart. Everything else reads it: `state` any thread, the
 * rest is set before the node serves.
 */
#ifndef ZLINK_SERVER_NODE_H
#define ZLINK_SERVER_NODE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <zlink/node.h>

#include "base/clock.h"
#include "base/refusal.h"
#include "server/application/application_host.h"
#include "server/application/catalogue.h"
#include "server/client_server/client_servers.h"
#include "server/config/config.h"
#include "server/control.h"
#include "server/ingress.h"
#include "server/mesh/mesh.h"
#include "server/mesh/node_identity.h"
#include "server/status_observers.h"

/* Numbers of the contract (host states). */
typedef enum zlink_node_state {
    ZLINK_NODE_PREPARING = 0,
    ZLINK_NODE_SERVING = 1,
    ZLINK_NODE_DRAINING = 4,
    ZLINK_NODE_STOPPED = 5,
} zlink_node_state_t;

typedef struct zlink_node {
    const zlink_clock_t *clock;
    zlink_config_t *config;
    zlink_node_identity_t identity;
    zlink_catalogue_t *catalogue;
    zlink_tls_context_t *tls;
    zlink_worker_pool_t *pool;
    zlink_reactor_t *reactor;
    zlink_application_host_t *host;
    zlink_ingress_t ingress;
    zlink_mesh_t *mesh;
    zlink_client_servers_t *client_servers; /* NULL: none */
    /* Handlers may reach `mesh` and `client_servers`: those that a channel's on_start woke run before they are there.
     */
    _Atomic bool mesh_open, client_servers_open;
    size_t transports_open; /* reactor thread: what is not closed yet, of the two */
    zlink_control_t *control;
    zlink_status_observers_t observers; /* reactor thread */
    _Atomic bool stop_requested, outcome_told;
    _Atomic int state;
    uint64_t started_ms;
    uint64_t draining_since_ms;
    int progress_fd; /* an eventfd: a stage of the stop has ended */
} zlink_node_t;

const char *zlink_node_state_name(zlink_node_state_t state);

/* Makes everything and serves. On refusal nothing is left and `why` has the line. Main thread. */
zlink_status_t zlink_node_start(const char *config_path, zlink_node_t *node, zlink_refusal_t *why);

/* Any thread. As if SIGTERM had come, unless a stop is under way. */
void zlink_node_request_stop(zlink_node_t *node);

/* How a stop ended: as Stopped, or as ForceStopped for one of two reasons. */
typedef enum zlink_shutdown_reason {
    ZLINK_SHUTDOWN_NONE = 0,          /* everything ended in order */
    ZLINK_SHUTDOWN_DEADLINE_EXCEEDED, /* time was over or a second signal came: the process has to end as it is */
    ZLINK_SHUTDOWN_TEARDOWN_FAILED,   /* everything has ended, but not every on_closing could be run */
} zlink_shutdown_reason_t;

/* Drains and takes everything apart within `timeout_ms`; `signal_fd` (a signalfd) cuts it short. Whoever asked over the
 * control socket has been told when it returns. Main thread. */
zlink_shutdown_reason_t zlink_node_stop(zlink_node_t *node, uint32_t timeout_ms, int signal_fd);

#endif
