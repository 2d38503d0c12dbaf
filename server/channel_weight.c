#include "server/channel_weight.h"

#include <string.h>

#include "base/container_of.h"
#include "base/memory.h"

typedef struct zlink_channel_weight {
    zlink_mail_t mail;
    const zlink_node_t *node;
    uint32_t weight;
    char channel[];
} zlink_channel_weight_t;

zlink_status_t zlink_channel_weight_set(const zlink_node_t *node, const char *channel, uint32_t weight)
{
    zlink_mesh_t *server = NULL;
    if (node->client_servers)
        server = zlink_client_servers_find(node->client_servers, channel, ZLINK_ROLE_SERVER);
    return zlink_mesh_set_weight(server ? server : node->mesh, channel, weight);
}

static void change(zlink_mail_t *mail)
{
    zlink_channel_weight_t *wanted = ZLINK_CONTAINER_OF(mail, zlink_channel_weight_t, mail);
    (void)zlink_channel_weight_set(wanted->node, wanted->channel,
                                   wanted->weight); /* both were checked where it began */
    zlink_free(wanted);
}

zlink_status_t zlink_channel_weight_post(zlink_node_t *node, const char *channel, uint32_t weight)
{
    size_t size = strlen(channel) + 1;
    if (!atomic_load_explicit(&node->mesh_open, memory_order_acquire))
        return ZLINK_UNAVAILABLE;
    zlink_channel_weight_t *wanted = zlink_malloc(sizeof(*wanted) + size);
    if (!wanted)
        return ZLINK_CAPACITY_EXCEEDED;
    *wanted = (zlink_channel_weight_t){.mail.deliver = change, .node = node, .weight = weight};
    memcpy(wanted->channel, channel, size);
    zlink_reactor_post(node->reactor, &wanted->mail);
    return ZLINK_OK;
}
