#include "server/node_status.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/counters.h"
#include "server/node.h"

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static void add_process(cJSON *status, const zlink_node_t *node)
{
    struct rusage usage;
    cJSON *process = cJSON_AddObjectToObject(status, "process");
    cJSON_AddNumberToObject(process, "pid", getpid());
    cJSON_AddNumberToObject(process, "uptime_ms", (double)(zlink_clock_now_ms(node->clock) - node->started_ms));
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        cJSON_AddNumberToObject(process, "cpu_seconds", seconds(usage.ru_utime) + seconds(usage.ru_stime));
        cJSON_AddNumberToObject(process, "resident_peak_bytes", (double)usage.ru_maxrss * 1024);
    }
}

/* The channels that a node serves, each with its weight: of this node its own, of a link what the peer has told. */
static void add_weights(cJSON *object, const zlink_wire_hello_t *node)
{
    cJSON *weights = cJSON_AddObjectToObject(object, "weights");
    for (size_t i = 0; i < node->channel_count; i++)
        cJSON_AddNumberToObject(weights, node->channels[i].name, node->channels[i].weight);
}

static void add_links(cJSON *status, const zlink_mesh_t *mesh)
{
    static const char *const roles[] = {"not known yet", "client", "server"};
    static const char *const states[] = {"opening", "completing", "ready", "closing"};
    const zlink_peer_link_t *link;
    uint64_t now_ms = zlink_reactor_now_ms(mesh->reactor);
    cJSON *links = cJSON_AddArrayToObject(status, "links");

    TAILQ_FOREACH(link, &mesh->links, in_mesh)
    {
        const zlink_link_end_t *end = link->ends[ZLINK_CONNECTION_APPLICATION];
        cJSON *entry = cJSON_CreateObject();
        if (!cJSON_AddItemToArray(links, entry)) {
            cJSON_Delete(entry);
            return;
        }
        cJSON_AddStringToObject(entry, "peer", link->peer.node_id);
        cJSON_AddStringToObject(entry, "name", link->name);
        cJSON_AddStringToObject(entry, "state", states[link->state]);
        cJSON_AddStringToObject(entry, "role", roles[link->peer.role]);
        cJSON_AddBoolToObject(entry, "dialled_here", link->dialled);
        cJSON_AddBoolToObject(entry, "draining", link->peer.draining);
        cJSON_AddBoolToObject(entry, "paused", link->peer_paused);
        cJSON_AddNumberToObject(entry, "ready_ms",
                                link->state == ZLINK_LINK_READY ? (double)(now_ms - link->ready_since_ms) : 0);
        add_weights(entry, &link->peer);
        if (end && end->connection) {
            const zlink_stream_t *stream = zlink_frame_connection_stream(end->connection);
            cJSON_AddStringToObject(entry, "address", zlink_stream_peer_address(stream));
            cJSON_AddStringToObject(entry, "cipher", zlink_stream_cipher(stream));
            cJSON_AddNumberToObject(entry, "outbound_bytes", (double)zlink_stream_unsent_bytes(stream));
        }
    }
}

/* The configured addresses, also those that were never reached. */
static void add_peers(cJSON *status, const zlink_mesh_t *mesh)
{
    cJSON *peers = cJSON_AddArrayToObject(status, "peers");
    for (size_t i = 0; i < mesh->dialer_count; i++) {
        const zlink_mesh_dialer_t *dialer = &mesh->dialers[i];
        cJSON *entry = cJSON_CreateObject();
        if (!dialer->dialer || !cJSON_AddItemToArray(peers, entry)) {
            cJSON_Delete(entry);
            return;
        }
        cJSON_AddStringToObject(entry, "address", zlink_dialer_address(dialer->dialer));
        cJSON_AddStringToObject(entry, "state", zlink_mesh_dialer_state(dialer));
        if (dialer->expected)
            cJSON_AddStringToObject(entry, "expected", dialer->expected);
    }
}

/* This node's sides of ClientServer channels: of a server who has dialled it, of a client whom it dials. */
static void add_client_servers(cJSON *status, const zlink_client_servers_t *servers)
{
    cJSON *sides = cJSON_AddArrayToObject(status, "client_servers");
    for (size_t i = 0; servers && i < zlink_client_servers_count(servers); i++) {
        const zlink_client_server_side_t *side = zlink_client_servers_at(servers, i);
        cJSON *entry = cJSON_CreateObject();
        if (!cJSON_AddItemToArray(sides, entry)) {
            cJSON_Delete(entry);
            return;
        }
        cJSON_AddStringToObject(entry, "channel", side->config->channel);
        if (side->role == ZLINK_ROLE_SERVER) {
            cJSON_AddStringToObject(entry, "role", "server");
            cJSON_AddStringToObject(entry, "listen", zlink_mesh_address(side->mesh));
            cJSON_AddStringToObject(entry, "advertise",
                                    side->config->advertise ? side->config->advertise : zlink_mesh_address(side->mesh));
            cJSON_AddNumberToObject(entry, "weight", side->mesh->self.channels[0].weight);
        } else {
            cJSON_AddStringToObject(entry, "role", "client");
            cJSON_AddNumberToObject(entry, "waiting", (double)side->mesh->unready_count);
            add_peers(entry, side->mesh);
        }
        add_links(entry, side->mesh);
    }
}

static void add_types(cJSON *status, const zlink_catalogue_t *catalogue)
{
    cJSON *channels = cJSON_AddArrayToObject(status, "channels");
    cJSON *types = cJSON_AddArrayToObject(status, "spot_types");
    for (size_t i = 0; i < catalogue->channel_count; i++)
        if (!catalogue->channels[i].client)
            cJSON_AddItemToArray(channels, cJSON_CreateString(catalogue->channels[i].type->name));
    for (size_t i = 0; i < catalogue->spot_type_count; i++)
        cJSON_AddItemToArray(types, cJSON_CreateString(catalogue->spot_types[i].type->name));
}

static void add_execution(cJSON *status, const zlink_node_t *node)
{
    zlink_worker_pool_stats_t stats;
    cJSON *execution = cJSON_AddObjectToObject(status, "execution");
    zlink_worker_pool_stats(node->pool, &stats);
    cJSON_AddNumberToObject(execution, "workers", stats.workers);
    cJSON_AddNumberToObject(execution, "items", (double)stats.items);
    cJSON_AddNumberToObject(execution, "suspensions", (double)stats.suspensions);
    cJSON_AddNumberToObject(execution, "steals", (double)stats.steals);
    cJSON_AddNumberToObject(execution, "stacks_live", (double)stats.stacks_live);
    cJSON_AddNumberToObject(execution, "stacks_high_water", (double)stats.stacks_high_water);
    cJSON_AddNumberToObject(execution, "stacks_max", (double)stats.stacks_max);
}

ZLINK_COUNTER_DEFINE(jobs_limit, ZLINK_GAUGE, "zlink.host.application_job_queue.limit",
                     "Permits for calls of other nodes whose handler has not begun");
ZLINK_COUNTER_DEFINE(jobs, ZLINK_GAUGE, "zlink.host.application_job_queue.jobs", "Of these, in use");

/* Gauges of what is counted elsewhere, as it is now. */
static void look_at_job_queue(const zlink_application_job_queue_t *queue)
{
    zlink_counter_add(&jobs_limit, (int64_t)zlink_application_job_queue_limit(queue) - zlink_counter_read(&jobs_limit));
    zlink_counter_add(&jobs, (int64_t)zlink_application_job_queue_jobs(queue) - zlink_counter_read(&jobs));
}

static void add_counter(const zlink_counter_t *counter, void *context)
{
    cJSON_AddNumberToObject(context, counter->name, (double)zlink_counter_read(counter));
}

char *zlink_node_status_json(const zlink_node_t *node)
{
    char features[256];
    cJSON *status = cJSON_CreateObject();
    if (!status)
        return NULL;
    zlink_ring_features_text(zlink_reactor_features(node->reactor), features, sizeof(features));
    const char *address = zlink_mesh_address(node->mesh);
    cJSON_AddStringToObject(status, "version", zlink_version());
    cJSON_AddStringToObject(status, "mesh", node->identity.mesh);
    cJSON_AddStringToObject(status, "name", node->identity.name);
    cJSON_AddStringToObject(status, "node_id", node->identity.node_id);
    cJSON_AddStringToObject(status, "state", zlink_node_state_name((zlink_node_state_t)atomic_load(&node->state)));
    cJSON_AddStringToObject(status, "listen", address ? address : "");
    cJSON_AddStringToObject(status, "io_uring", features);
    add_process(status, node);
    cJSON_AddNumberToObject(status, "sequence", (double)node->observers.sequence);
    cJSON_AddStringToObject(status, "object_role", node->mesh->self.role == ZLINK_ROLE_CLIENT ? "client" : "server");
    add_types(status, node->catalogue);
    add_weights(status, &node->mesh->self);
    add_links(status, node->mesh);
    add_peers(status, node->mesh);
    add_client_servers(status, node->client_servers);
    add_execution(status, node);
    look_at_job_queue(&node->host->job_queue);
    zlink_counters_each(add_counter, cJSON_AddObjectToObject(status, "counters"));

    char *text = cJSON_PrintUnformatted(status);
    cJSON_Delete(status);
    if (!text)
        return NULL;
    size_t length = strlen(text);
    char *line = realloc(text, length + 2);
    if (!line) {
        free(text);
        return NULL;
    }
    memcpy(line + length, "\n", 2);
    return line;
}
