#include "ctl/mesh_client.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define BODY_BYTES_MAX   (64u << 20)
#define OUTBOUND_BYTES   ((size_t)16 << 20)
#define PENDING_MAX      1000000u
#define LEAVE_TIMEOUT_MS 6000

static size_t address_of(const zlink_mesh_client_t *client, const zlink_peer_link_t *link)
{
    return (size_t)(link->dialer - client->mesh->dialers);
}

/* ---- reactor thread ---- */

static void tell(zlink_mesh_client_t *client)
{
    if (!client->told)
        sem_post(&client->progress);
    client->told = true;
}

static void link_ready(void *context, zlink_peer_link_t *link)
{
    zlink_mesh_client_t *client = context;
    client->links[address_of(client, link)] = link->number;
    if (++client->ready == client->options.address_count)
        tell(client);
}

static void link_lost(void *context, zlink_peer_link_t *link, const char *address, const char *reason)
{
    zlink_mesh_client_t *client = context;
    if (link) {
        client->links[address_of(client, link)] = 0;
        client->ready--;
        return;
    }
    bool named = strncmp(reason, address, strlen(address)) == 0;
    zlink_refuse(&client->last_failure, "%s%s%s", named ? "" : address, named ? "" : ": ", reason);
    if (!client->options.reconnect)
        tell(client); /* an attempt failed, and there is no second one */
}

static zlink_frame_verdict_t arrived(void *context, const zlink_mesh_arrival_t *arrival)
{
    (void)context;
    if (arrival->reply_route_id) /* a Client has no handlers */
        zlink_peer_link_reply(arrival->link, arrival->reply_route_id, ZLINK_NOT_FOUND, "", NULL, 0);
    return ZLINK_FRAME_TAKEN;
}

typedef struct zlink_mesh_client_errand {
    zlink_mesh_client_t *client;
    zlink_status_t status;
    zlink_refusal_t *why;
} zlink_mesh_client_errand_t;

static void open_mesh(void *context)
{
    zlink_mesh_client_errand_t *errand = context;
    zlink_mesh_client_t *client = errand->client;
    const zlink_mesh_options_t options = {
        .reactor = client->reactor,
        .tls = client->tls,
        .identity = &client->identity,
        .role = ZLINK_ROLE_CLIENT,
        .peers = client->options.addresses,
        .peer_count = client->options.address_count,
        .redial = client->options.reconnect,
        .max_body_bytes = BODY_BYTES_MAX,
        .outbound_bytes = OUTBOUND_BYTES,
        .pending_max = PENDING_MAX,
        .events = {.arrived = arrived, .link_ready = link_ready, .link_lost = link_lost, .context = client},
    };
    errand->status = zlink_mesh_create(&options, &client->mesh, errand->why);
}

static void mesh_closed(void *context)
{
    zlink_mesh_client_t *client = context;
    sem_post(&client->progress);
}

static void close_mesh(void *context)
{
    zlink_mesh_client_t *client = context;
    client->told = true; /* what fails from now on is no news */
    zlink_mesh_close(client->mesh, mesh_closed, client);
}

static void destroy_mesh(void *context)
{
    zlink_mesh_client_t *client = context;
    zlink_mesh_destroy(client->mesh);
}

/* ---- main thread ---- */

static bool wait_progress(zlink_mesh_client_t *client, uint32_t timeout_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until); /* what sem_timedwait measures by */
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    while (sem_timedwait(&client->progress, &until) != 0)
        if (errno != EINTR)
            return false;
    return true;
}

static zlink_status_t prepare(zlink_mesh_client_t *client, zlink_refusal_t *why)
{
    const zlink_mesh_client_options_t *options = &client->options;
    const zlink_tls_options_t tls = {
        .ca_file = options->ca, .certificate_file = options->certificate, .key_file = options->key};
    const char *mesh = options->mesh, *name = "zlinkctl";
    zlink_status_t status = ZLINK_OK;
    if (options->certificate) {
        status = zlink_tls_context_create(&tls, &client->tls, why);
        if (status != ZLINK_OK)
            return status;
        mesh = zlink_tls_context_identity(client->tls)->mesh;
        name = zlink_tls_context_identity(client->tls)->name;
    }
    status = zlink_node_identity_make(&client->identity, mesh, name);
    if (status != ZLINK_OK) {
        zlink_refuse(why, "the kernel gives no random bytes");
        return status;
    }
    return zlink_reactor_create(NULL, &client->reactor, why);
}

zlink_status_t zlink_mesh_client_join(const zlink_mesh_client_options_t *options, zlink_mesh_client_t *client,
                                      zlink_refusal_t *why)
{
    memset(client, 0, sizeof(*client));
    client->options = *options;
    sem_init(&client->progress, 0, 0);
    zlink_status_t status = prepare(client, why);
    if (status == ZLINK_OK) {
        zlink_mesh_client_errand_t errand = {client, ZLINK_OK, why};
        zlink_reactor_call(client->reactor, open_mesh, &errand);
        status = errand.status;
    }
    if (status == ZLINK_OK) {
        bool in_time = wait_progress(client, options->join_timeout_ms);
        if (!in_time || client->last_failure.line[0]) {
            status = ZLINK_UNAVAILABLE;
            zlink_refuse(why, "%s",
                         client->last_failure.line[0] ? client->last_failure.line : "no node answered in time");
        }
        if (in_time && options->reconnect)
            status = ZLINK_OK; /* an attempt may have failed before the one that worked */
    }
    if (status != ZLINK_OK)
        zlink_mesh_client_leave(client);
    return status;
}

void zlink_mesh_client_leave(zlink_mesh_client_t *client)
{
    if (client->mesh) {
        while (sem_trywait(&client->progress) == 0)
            ; /* news of joining that nobody waited for */
        zlink_reactor_call(client->reactor, close_mesh, client);
        wait_progress(client, LEAVE_TIMEOUT_MS);
        zlink_reactor_call(client->reactor, destroy_mesh, client);
    }
    if (client->reactor)
        zlink_reactor_destroy(client->reactor);
    zlink_tls_context_release(client->tls);
    sem_destroy(&client->progress);
}
