#include "server/client_server/client_servers.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

#define NUMBERS_SHIFT 48u /* links of a side are numbered above its own number shifted by this */

struct zlink_client_servers {
    size_t count;
    size_t open; /* not closed yet */
    void (*closed)(void *context);
    void *closed_context;
    zlink_client_server_side_t sides[]; /* servers first */
};

static zlink_client_server_side_t *find_side(const zlink_client_servers_t *servers, const char *channel,
                                             zlink_wire_role_t role)
{
    for (size_t i = 0; i < servers->count; i++) {
        const zlink_client_server_side_t *side = &servers->sides[i];
        if (side->role == role && strcmp(side->config->channel, channel) == 0)
            return (zlink_client_server_side_t *)(uintptr_t)side;
    }
    return NULL;
}

/* ---- start ---- */

/* Where this process reaches a listener of its own: a wildcard is everywhere, so it is here, too. */
static void address_here(const char *bound, char *address, size_t size)
{
    static const struct {
        const char *wildcard, *here;
    } hosts[] = {{"0.0.0.0:", "127.0.0.1:"}, {"[::]:", "[::1]:"}};

    snprintf(address, size, "%s", bound);
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        size_t length = strlen(hosts[i].wildcard);
        if (strncmp(bound, hosts[i].wildcard, length) == 0)
            snprintf(address, size, "%s%s", hosts[i].here, bound + length);
    }
}

/* Whom a client dials: the server of this process first, where there is one. */
static zlink_status_t list_servers(zlink_client_server_side_t *side, zlink_mesh_options_t *options)
{
    const zlink_config_client_server_t *config = side->config;
    const zlink_client_server_side_t *own = find_side(side->servers, config->channel, ZLINK_ROLE_SERVER);
    size_t count = 0;

    side->addresses = zlink_calloc(config->server_count + 1, sizeof(char *));
    side->expected = zlink_calloc(config->server_count + 1, sizeof(char *));
    if (!side->addresses || !side->expected)
        return ZLINK_CAPACITY_EXCEEDED;
    if (own) {
        address_here(zlink_mesh_address(own->mesh), side->own_address, sizeof(side->own_address));
        side->addresses[count] = side->own_address;
        side->expected[count++] = options->identity->node_id;
    }
    for (size_t i = 0; i < config->server_count; i++, count++) {
        side->addresses[count] = config->servers[i];
        side->expected[count] = config->expected_servers[i];
    }
    options->peers = side->addresses;
    options->expected_peers = side->expected;
    options->peer_count = count;
    return ZLINK_OK;
}

static zlink_status_t open_side(zlink_client_servers_t *servers, const zlink_mesh_options_t *base,
                                const zlink_config_client_server_t *config, zlink_wire_role_t role,
                                zlink_refusal_t *why)
{
    zlink_client_server_side_t *side = &servers->sides[servers->count];
    const uint32_t weight = role == ZLINK_ROLE_SERVER ? config->weight : 0;
    zlink_mesh_options_t options = *base;
    zlink_status_t status = ZLINK_OK;

    *side = (zlink_client_server_side_t){.config = config, .role = role, .servers = servers};
    options.topology = ZLINK_TOPOLOGY_CLIENT_SERVER;
    options.numbers_from = (uint64_t)(servers->count + 1) << NUMBERS_SHIFT;
    options.role = role;
    options.redial = true;
    options.channels = &config->channel;
    options.channel_weights = &weight;
    options.channel_count = 1;
    if (role == ZLINK_ROLE_SERVER)
        options.listen = config->listen;
    else
        status = list_servers(side, &options);
    if (status == ZLINK_OK)
        status = zlink_mesh_create(&options, &side->mesh, why);
    else
        zlink_refuse(why, "out of memory");
    servers->count++;
    return status;
}

zlink_status_t zlink_client_servers_open(const zlink_config_t *config, const zlink_mesh_options_t *base,
                                         zlink_client_servers_t **opened, zlink_refusal_t *why)
{
    static const zlink_wire_role_t order[] = {ZLINK_ROLE_SERVER, ZLINK_ROLE_CLIENT};
    const size_t sides = 2 * config->client_server_count;
    zlink_client_servers_t *servers = zlink_calloc(1, sizeof(*servers) + sides * sizeof(servers->sides[0]));

    if (!servers) {
        zlink_refuse(why, "client_servers: out of memory");
        return ZLINK_CAPACITY_EXCEEDED;
    }
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < config->client_server_count; i++) {
            const zlink_config_client_server_t *entry = &config->client_servers[i];
            if (order[k] == ZLINK_ROLE_SERVER ? !entry->server : !entry->client)
                continue;
            zlink_status_t status = open_side(servers, base, entry, order[k], why);
            if (status != ZLINK_OK) {
                bool named = strncmp(why->line, "listen: ", strlen("listen: ")) == 0;
                zlink_refusal_prefix(why, named ? "client_servers[%zu]." : "client_servers[%zu]: ", i);
                zlink_client_servers_destroy(servers);
                return status;
            }
        }
    }
    *opened = servers;
    return ZLINK_OK;
}

/* ---- while it runs ---- */

zlink_mesh_t *zlink_client_servers_find(const zlink_client_servers_t *servers, const char *channel,
                                        zlink_wire_role_t role)
{
    const zlink_client_server_side_t *side = find_side(servers, channel, role);
    return side ? side->mesh : NULL;
}

size_t zlink_client_servers_count(const zlink_client_servers_t *servers)
{
    return servers->count;
}

const zlink_client_server_side_t *zlink_client_servers_at(const zlink_client_servers_t *servers, size_t index)
{
    return &servers->sides[index];
}

zlink_peer_link_t *zlink_client_servers_find_link(const zlink_client_servers_t *servers, uint64_t number)
{
    uint64_t side = number >> NUMBERS_SHIFT; /* 0 is the RouteMesh */
    return side > 0 && side <= servers->count ? zlink_mesh_find_link(servers->sides[side - 1].mesh, number) : NULL;
}

void zlink_client_servers_set_paused(const zlink_client_servers_t *servers, bool paused)
{
    for (size_t i = 0; i < servers->count; i++)
        zlink_mesh_set_paused(servers->sides[i].mesh, paused);
}

size_t zlink_client_servers_set_tls(const zlink_client_servers_t *servers, const zlink_tls_context_t *tls)
{
    size_t ended = 0;
    for (size_t i = 0; i < servers->count; i++)
        ended += zlink_mesh_set_tls(servers->sides[i].mesh, tls);
    return ended;
}

/* ---- end ---- */

void zlink_client_servers_drain(const zlink_client_servers_t *servers)
{
    for (size_t i = 0; i < servers->count; i++)
        zlink_mesh_drain(servers->sides[i].mesh);
}

static void side_closed(void *context)
{
    zlink_client_servers_t *servers = context;
    if (--servers->open == 0)
        servers->closed(servers->closed_context);
}

void zlink_client_servers_close(zlink_client_servers_t *servers, void (*closed)(void *context), void *context)
{
    servers->closed = closed;
    servers->closed_context = context;
    servers->open = servers->count;
    for (size_t i = 0; i < servers->count; i++)
        zlink_mesh_close(servers->sides[i].mesh, side_closed, servers);
}

void zlink_client_servers_destroy(zlink_client_servers_t *servers)
{
    if (!servers)
        return;
    for (size_t i = 0; i < servers->count; i++) {
        zlink_mesh_destroy(servers->sides[i].mesh);
        zlink_free(servers->sides[i].addresses);
        zlink_free(servers->sides[i].expected);
    }
    zlink_free(servers);
}
