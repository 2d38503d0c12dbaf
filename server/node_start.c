/*
 * server/node_start.c: a node's start, in order: configuration, certificates, modules, reactor, workers, Spots and
 * channels, mesh, control socket. Whatever is refused ends it with one line.
 */
#include "server/node.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "exec/usable_cores.h"
#include "net/ring_features.h"
#include "server/application/module_loader.h"
#include "server/channel_weight.h"
#include "server/node_roles.h"
#include "server/node_tls.h"

#define PORT_TRIES   20u /* for a port that a killed node has not let go of yet */
#define PORT_WAIT_NS 100000000l

const char *zlink_node_state_name(zlink_node_state_t state)
{
    switch (state) {
    case ZLINK_NODE_PREPARING:
        return "preparing";
    case ZLINK_NODE_SERVING:
        return "serving";
    case ZLINK_NODE_DRAINING:
        return "draining";
    case ZLINK_NODE_STOPPED:
        return "stopped";
    }
    return "unknown";
}

/* ---- start ---- */

static zlink_status_t load_modules(zlink_node_t *node, const char *config_path, zlink_refusal_t *why)
{
    node->catalogue = zlink_catalogue_create();
    if (!node->catalogue) {
        zlink_refuse(why, "out of memory");
        return ZLINK_CAPACITY_EXCEEDED;
    }
    for (size_t i = 0; i < node->config->module_count; i++) {
        zlink_status_t status = zlink_module_loader_load(node->config->modules[i], node->catalogue, why);
        if (status != ZLINK_OK) {
            zlink_refusal_prefix(why, "%s: modules[%zu]: ", config_path, i);
            return status;
        }
    }
    return ZLINK_OK;
}

static zlink_status_t open_tls(zlink_node_t *node, const char *config_path, zlink_refusal_t *why)
{
    if (node->config->transport == ZLINK_CONFIG_PLAIN)
        zlink_log(
            ZLINK_LOG_WARN, "zlink.transport.plain", ZLINK_LOG_S("config", config_path),
            ZLINK_LOG_S("meaning", "no encryption and no authentication: anybody who reaches the port is a peer"));
    return zlink_node_tls_open(node->config, config_path, &node->tls, why);
}

static zlink_status_t start_workers(zlink_node_t *node, zlink_refusal_t *why)
{
    const zlink_worker_pool_options_t options = {
        .workers = node->config->workers,
        .stack_bytes = node->config->limits.stack_bytes,
        .stacks_max = node->config->limits.stacks,
        .clock = node->clock,
    };
    return zlink_worker_pool_create(&options, &node->pool, why);
}

static zlink_channel_side_t channel_side(void *context, const char *channel)
{
    return zlink_node_roles_side(((const zlink_node_t *)context)->config, channel);
}

static uint32_t send_timeout_ms(void *context, const char *channel)
{
    const zlink_config_t *config = ((const zlink_node_t *)context)->config;
    for (size_t i = 0; i < config->client_server_count; i++)
        if (config->client_servers[i].client && strcmp(config->client_servers[i].channel, channel) == 0)
            return config->client_servers[i].send_timeout_ms;
    return 0;
}

/* What carries the call; NULL where it is not there yet. */
static zlink_mesh_t *transport_of(zlink_node_t *node, const zlink_outbound_call_t *call)
{
    if (call->route == ZLINK_ROUTE_CHANNEL && node->config->client_server_count > 0 &&
        channel_side(node, call->name) != ZLINK_CHANNEL_OF_THE_MESH)
        return atomic_load_explicit(&node->client_servers_open, memory_order_acquire)
                   ? zlink_client_servers_find(node->client_servers, call->name, ZLINK_ROLE_CLIENT)
                   : NULL;
    return atomic_load_explicit(&node->mesh_open, memory_order_acquire) ? node->mesh : NULL;
}

/* A channel's on_start, and whatever it woke, may call before there is a mesh. */
static void submit_to_mesh(void *context, zlink_outbound_call_t *call)
{
    static const zlink_call_answer_t nothing;
    zlink_mesh_t *mesh = transport_of(context, call);
    if (mesh)
        zlink_mesh_submit(mesh, call);
    else
        call->completed(call, ZLINK_UNAVAILABLE, &nothing);
}

static bool take_for_mesh(void *context, zlink_outbound_call_t *call)
{
    zlink_mesh_t *mesh = transport_of(context, call);
    return mesh && zlink_mesh_take(mesh, call);
}

static void cancel_in_mesh(void *context, zlink_outbound_call_t *call)
{
    (void)context;
    if (call->mesh)
        zlink_mesh_cancel(call->mesh, call);
    else
        call->release(call); /* there was no mesh yet, and the call has ended */
}

static const char *spot_home(void *context, const char *type)
{
    const zlink_config_t *config = ((const zlink_node_t *)context)->config;
    for (size_t i = 0; i < config->spot_count; i++)
        if (strcmp(config->spots[i].type, type) == 0)
            return config->spots[i].node;
    return NULL;
}

static zlink_status_t set_weight(void *context, const char *channel, uint32_t weight)
{
    return zlink_channel_weight_post(context, channel, weight);
}

static uint32_t jobs_max(const zlink_node_t *node)
{
    const zlink_config_limits_t *limits = &node->config->limits;
    zlink_worker_pool_stats_t stats;
    unsigned cores = zlink_usable_cores();
    if (limits->max_queued_application_jobs)
        return limits->max_queued_application_jobs;
    zlink_worker_pool_stats(node->pool, &stats);
    return limits->jobs_per_core * (cores < stats.workers ? cores : stats.workers);
}

static zlink_status_t start_host(zlink_node_t *node, const char *config_path, zlink_refusal_t *why)
{
    const zlink_config_t *config = node->config;
    zlink_application_host_options_t options = {
        .clock = node->clock,
        .node_id = node->identity.node_id,
        .mesh = node->identity.mesh,
        .policy = zlink_execution_lane_policy_default,
        .request_timeout_ms = config->request_timeout_ms,
        .send_timeout_ms = config->send_timeout_ms,
        .message_bytes_max = config->limits.message_bytes,
        .spots_max = config->limits.spots,
        .jobs_max = jobs_max(node),
        .pause_percent = config->limits.pause_percent,
        .resume_percent = config->limits.resume_percent,
        .work =
            {
                .cpu_workers_min = config->cpu_workers_min,
                .cpu_workers_max = config->cpu_workers_max,
                .cpu_workers_idle_ms = config->cpu_workers_idle_ms,
                .cpu_works_max = config->limits.cpu_works,
                .cpu_work_bytes_max = config->limits.cpu_work_bytes,
                .io_works_max = config->limits.io_works,
            },
        .outbound = {submit_to_mesh, take_for_mesh, spot_home, set_weight, cancel_in_mesh, NULL, node, NULL},
    };
    if (config->client_server_count > 0) {
        options.outbound.channel_side = channel_side;
        options.outbound.send_timeout_ms = send_timeout_ms;
    }
    options.policy.application_message_capacity = config->limits.application_messages;
    options.policy.application_byte_capacity = config->limits.application_bytes;
    options.policy.lifecycle_message_capacity = config->limits.lifecycle_messages;
    options.policy.lifecycle_byte_capacity = config->limits.lifecycle_bytes;
    options.policy.owner_time_budget_ms = config->owner_time_budget_ms;
    zlink_status_t status = zlink_application_host_create(node->pool, node->catalogue, &options, &node->host, why);
    if (status != ZLINK_OK)
        zlink_refusal_prefix(why, "%s: ", config_path);
    return status;
}

/* What zlink_reactor_call brings to the reactor thread. */
typedef struct zlink_node_errand {
    zlink_node_t *node;
    zlink_status_t status;
    zlink_refusal_t *why;
} zlink_node_errand_t;

/* What the mesh and the sides of ClientServer channels have alike. */
static zlink_mesh_options_t transport_options(zlink_node_t *node)
{
    const zlink_config_t *config = node->config;
    return (zlink_mesh_options_t){
        .reactor = node->reactor,
        .tls = node->tls,
        .identity = &node->identity,
        .redial = true,
        .max_body_bytes = config->limits.message_bytes + ZLINK_FRAME_ENVELOPE_BYTES_MAX,
        .outbound_bytes = config->limits.outbound_bytes,
        .inbound_bytes = config->limits.inbound_bytes,
        .pending_max = config->limits.pending_operations,
        .connections_max = config->limits.connections,
        .connections_per_address_max = config->limits.connections_per_address,
        .handshakes_max = config->limits.handshakes,
        .events = {.arrived = zlink_ingress_arrived,
                   .source_gone = zlink_ingress_source_gone,
                   .link_ready = zlink_ingress_link_ready,
                   .link_changed = zlink_ingress_link_changed,
                   .link_lost = zlink_ingress_link_lost,
                   .address_changed = zlink_ingress_address_changed,
                   .cancelled = zlink_ingress_cancelled,
                   .context = &node->ingress},
    };
}

static void open_mesh(void *context)
{
    zlink_node_errand_t *errand = context;
    zlink_node_t *node = errand->node;
    const zlink_config_t *config = node->config;
    const char *channels[ZLINK_CATALOGUE_TYPES_MAX];
    uint32_t weights[ZLINK_CATALOGUE_TYPES_MAX];
    const char *spot_types[ZLINK_CATALOGUE_TYPES_MAX];

    size_t channel_count = zlink_node_roles_memberships(config, node->catalogue, channels, weights);
    for (size_t i = 0; i < node->catalogue->spot_type_count; i++)
        spot_types[i] = node->catalogue->spot_types[i].type->name;
    zlink_mesh_options_t options = transport_options(node);
    options.role = config->object_role == ZLINK_CONFIG_CLIENT ? ZLINK_ROLE_CLIENT : ZLINK_ROLE_SERVER;
    options.listen = config->listen;
    options.peers = config->peers;
    options.expected_peers = config->expected_peers;
    options.peer_count = config->peer_count;
    options.channels = channels;
    options.channel_weights = weights;
    options.channel_count = channel_count;
    options.spot_types = spot_types;
    options.spot_type_count = node->catalogue->spot_type_count;
    options.events.picked_local = zlink_ingress_picked_local;
    options.events.members_changed = zlink_ingress_members_changed;
    options.events.own_weight = zlink_ingress_own_weight;
    zlink_ingress_init(&node->ingress, node->reactor, node->host);
    node->ingress.observers = &node->observers;
    errand->status = zlink_mesh_create(&options, &node->mesh, errand->why);
    node->ingress.mesh = node->mesh;
    atomic_store_explicit(&node->mesh_open, node->mesh != NULL, memory_order_release);
}

static void open_client_servers(void *context)
{
    zlink_node_errand_t *errand = context;
    zlink_node_t *node = errand->node;
    zlink_mesh_options_t options = transport_options(node);
    options.events.own_weight = zlink_ingress_own_weight_as_server;
    errand->status = zlink_client_servers_open(node->config, &options, &node->client_servers, errand->why);
    node->ingress.client_servers = node->client_servers;
    atomic_store_explicit(&node->client_servers_open, node->client_servers != NULL, memory_order_release);
}

static void open_control(void *context)
{
    zlink_node_errand_t *errand = context;
    zlink_node_t *node = errand->node;
    errand->status = zlink_control_open(node->reactor, node->config->control, node, &node->control, errand->why);
}

/* The kernel lets go of a killed node's ring, and with it of its port, a moment after the process: whoever starts the
 * node again at once should not be refused for that. */
static void open_ports(zlink_node_errand_t *errand, void (*open)(void *context))
{
    for (unsigned tries = 0; tries < PORT_TRIES; tries++) {
        zlink_reactor_call(errand->node->reactor, open, errand);
        if (errand->status != ZLINK_ALREADY_EXISTS)
            break;
        nanosleep(&(struct timespec){.tv_nsec = PORT_WAIT_NS}, NULL);
    }
}

static zlink_status_t serve(zlink_node_t *node, const char *config_path, zlink_refusal_t *why)
{
    zlink_node_errand_t errand = {node, ZLINK_OK, why};
    open_ports(&errand, open_mesh);
    if (errand.status == ZLINK_OK && node->config->client_server_count > 0)
        open_ports(&errand, open_client_servers);
    if (errand.status == ZLINK_OK && node->config->control)
        zlink_reactor_call(node->reactor, open_control, &errand);
    if (errand.status != ZLINK_OK)
        zlink_refusal_prefix(why, "%s: ", config_path);
    return errand.status;
}

static zlink_status_t start_in_order(const char *config_path, zlink_node_t *node, zlink_refusal_t *why)
{
    zlink_status_t status = zlink_config_load(config_path, &node->config, why);
    if (status != ZLINK_OK)
        return status;
    zlink_log_set_level(node->config->log_level);
    zlink_log_set_node(node->config->name);
    status = zlink_node_identity_make(&node->identity, node->config->mesh, node->config->name);
    if (status != ZLINK_OK) {
        zlink_refuse(why, "the kernel gives no random bytes");
        return status;
    }
    status = open_tls(node, config_path, why);
    if (status == ZLINK_OK)
        status = load_modules(node, config_path, why);
    if (status == ZLINK_OK)
        status = zlink_node_roles_apply(node->config, node->catalogue, config_path, why);
    if (status == ZLINK_OK)
        status = zlink_reactor_create(
            &(zlink_reactor_options_t){
                .clock = node->clock,
                .handshake_threads = node->config->limits.handshake_threads,
                .handshakes_waiting = node->config->limits.handshakes_waiting,
            },
            &node->reactor, why);
    if (status == ZLINK_OK)
        status = start_workers(node, why);
    if (status == ZLINK_OK)
        status = start_host(node, config_path, why);
    return status == ZLINK_OK ? serve(node, config_path, why) : status;
}

/* What whoever runs the node somewhere new wants to know first. */
static void log_ring(const zlink_node_t *node)
{
    zlink_ring_surroundings_t surroundings;
    char features[256];
    zlink_ring_surroundings_read(&surroundings);
    zlink_ring_features_text(zlink_reactor_features(node->reactor), features, sizeof(features));
    bool unlimited = surroundings.memlock_bytes == UINT64_MAX;
    zlink_log(ZLINK_LOG_INFO, "zlink.node.io_uring", ZLINK_LOG_S("kernel", surroundings.kernel),
              ZLINK_LOG_S("features", features), ZLINK_LOG_I("seccomp", surroundings.seccomp),
              ZLINK_LOG_I("memlock_kib", unlimited ? -1 : (int64_t)(surroundings.memlock_bytes / 1024)));
}

zlink_status_t zlink_node_start(const char *config_path, zlink_node_t *node, zlink_refusal_t *why)
{
    memset(node, 0, sizeof(*node));
    node->clock = &zlink_clock_system;
    node->started_ms = zlink_clock_now_ms(node->clock);
    node->progress_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (node->progress_fd < 0) {
        zlink_refuse(why, "eventfd: %s", strerror(errno));
        return ZLINK_CAPACITY_EXCEEDED;
    }
    zlink_status_t status = start_in_order(config_path, node, why);
    if (status != ZLINK_OK)
        return status; /* the process ends now: there is nothing that a half-started node could lose */
    atomic_store(&node->state, ZLINK_NODE_SERVING);
    log_ring(node);
    zlink_log(ZLINK_LOG_INFO, "zlink.node.serving", ZLINK_LOG_S("mesh", node->identity.mesh),
              ZLINK_LOG_S("node_id", node->identity.node_id),
              ZLINK_LOG_S("listen", zlink_mesh_address(node->mesh) ? zlink_mesh_address(node->mesh) : "none"),
              ZLINK_LOG_I("peers", node->config->peer_count), ZLINK_LOG_I("modules", node->config->module_count));
    return ZLINK_OK;
}
