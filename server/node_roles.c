#include "server/node_roles.h"

#include <string.h>

static const zlink_config_channel_t *find_channel(const zlink_config_t *config, const char *name)
{
    for (size_t i = 0; i < config->channel_count; i++)
        if (strcmp(config->channels[i].name, name) == 0)
            return &config->channels[i];
    return NULL;
}

static bool is_registered(const zlink_catalogue_t *catalogue, const char *name)
{
    for (size_t i = 0; i < catalogue->channel_count; i++)
        if (strcmp(catalogue->channels[i].type->name, name) == 0)
            return true;
    return false;
}

/* The sides that this node has in a channel of ClientServer. */
static unsigned sides_of(const zlink_config_t *config, const char *name)
{
    unsigned sides = 0;
    for (size_t i = 0; i < config->client_server_count; i++) {
        const zlink_config_client_server_t *entry = &config->client_servers[i];
        if (strcmp(entry->channel, name) == 0)
            sides |= (entry->client ? ZLINK_CONFIG_SIDE_CLIENT : 0u) | (entry->server ? ZLINK_CONFIG_SIDE_SERVER : 0u);
    }
    return sides;
}

zlink_channel_side_t zlink_node_roles_side(const zlink_config_t *config, const char *channel)
{
    unsigned sides = sides_of(config, channel);
    if (sides == 0)
        return ZLINK_CHANNEL_OF_THE_MESH;
    return sides & ZLINK_CONFIG_SIDE_CLIENT ? ZLINK_CHANNEL_CALLED : ZLINK_CHANNEL_ONLY_SERVED;
}

static bool client_servers_fit(const zlink_config_t *config, const zlink_catalogue_t *catalogue,
                               const char *config_path, zlink_refusal_t *why)
{
    for (size_t i = 0; i < config->client_server_count; i++) {
        const zlink_config_client_server_t *entry = &config->client_servers[i];
        if (!entry->server || is_registered(catalogue, entry->channel))
            continue;
        zlink_refuse(why, "%s: client_servers[%zu].channel: no module has a channel %s to serve", config_path, i,
                     entry->channel);
        return false;
    }
    return true;
}

zlink_status_t zlink_node_roles_apply(const zlink_config_t *config, zlink_catalogue_t *catalogue,
                                      const char *config_path, zlink_refusal_t *why)
{
    for (size_t i = 0; i < config->channel_count; i++) {
        const zlink_config_channel_t *channel = &config->channels[i];
        if (channel->role == ZLINK_CONFIG_CLIENT || is_registered(catalogue, channel->name))
            continue;
        zlink_refuse(why, "%s: channels[%zu].name: no module has a channel %s to serve", config_path, i, channel->name);
        return ZLINK_NOT_CONFIGURED;
    }
    if (!client_servers_fit(config, catalogue, config_path, why))
        return ZLINK_NOT_CONFIGURED;
    for (size_t i = 0; i < catalogue->channel_count; i++) {
        zlink_catalogue_channel_t *entry = &catalogue->channels[i];
        const zlink_config_channel_t *channel = find_channel(config, entry->type->name);
        unsigned sides = sides_of(config, entry->type->name);
        entry->client_server = sides != 0;
        entry->client = sides == ZLINK_CONFIG_SIDE_CLIENT || (channel && channel->role == ZLINK_CONFIG_CLIENT);
    }
    if (config->object_role != ZLINK_CONFIG_CLIENT)
        return ZLINK_OK;
    if (catalogue->node_handlers_count > 0)
        zlink_refuse(why, "%s: object_role: is client, but a module has handlers of the node itself", config_path);
    else if (catalogue->spot_type_count > 0)
        zlink_refuse(why, "%s: object_role: is client, but a module has the Spot type %s", config_path,
                     catalogue->spot_types[0].type->name);
    else
        return ZLINK_OK;
    return ZLINK_NOT_CONFIGURED;
}

size_t zlink_node_roles_memberships(const zlink_config_t *config, const zlink_catalogue_t *catalogue,
                                    const char **channels, uint32_t *weights)
{
    size_t count = 0;
    for (size_t i = 0; i < catalogue->channel_count; i++) {
        if (catalogue->channels[i].client || catalogue->channels[i].client_server)
            continue;
        channels[count] = catalogue->channels[i].type->name;
        const zlink_config_channel_t *channel = find_channel(config, channels[count]);
        weights[count++] = channel ? channel->weight : ZLINK_CONFIG_WEIGHT;
    }
    return count;
}
