#include "server/application/node_host.h"

#include "base/container_of.h"
#include "base/memory.h"
#include "server/application/application_host.h"
#include "server/application/channel_host.h"

struct zlink_node_host {
    zlink_channel_host_t queue; /* what its turns take for their channel */
    zlink_channel_type_t type;
    zlink_catalogue_channel_t entry;
    void (*closed)(zlink_application_host_t *host);
    size_t count;
    void *states[]; /* by registration */
};

zlink_status_t zlink_node_host_create(zlink_application_host_t *host, zlink_node_host_t **created, zlink_refusal_t *why)
{
    const zlink_catalogue_t *catalogue = host->catalogue;
    zlink_status_t status = ZLINK_CAPACITY_EXCEEDED;
    size_t count = catalogue->node_handlers_count;
    zlink_node_host_t *node = zlink_calloc(1, sizeof(*node) + count * sizeof(void *));
    if (!node)
        goto failed;
    node->count = count;
    node->type.name = host->mesh;
    node->entry.type = &node->type;
    node->queue.host = host;
    node->queue.channel = &node->entry;
    for (size_t i = 0; i < count; i++) {
        size_t state_size = catalogue->node_handlers[i].registered->state_size;
        node->states[i] = zlink_calloc(1, state_size ? state_size : 1);
        if (!node->states[i])
            goto failed;
    }
    status = zlink_channel_serial_executor_init(&node->queue.executor, host->pool, &host->policy);
    if (status != ZLINK_OK)
        goto failed;
    *created = node;
    return ZLINK_OK;

failed:
    zlink_refuse(why, "node handlers: %s", zlink_status_name(status));
    zlink_node_host_destroy(node);
    return status;
}

zlink_status_t zlink_node_host_execute(zlink_node_host_t *node, size_t at, zlink_invocation_t *invocation)
{
    zlink_application_host_t *host = node->queue.host;
    invocation->channel = &node->queue;
    invocation->self = node->states[at];
    invocation->filters = host->catalogue->node_handlers[at].registered->filters;
    zlink_application_host_accepted(host);
    zlink_status_t status = zlink_channel_serial_executor_execute_channel(&node->queue.executor, &invocation->turn,
                                                                          invocation->payload_bytes);
    if (status != ZLINK_OK)
        zlink_application_host_ended(host);
    return status;
}

zlink_wait_target_t zlink_node_host_wait_target(const zlink_node_host_t *node)
{
    return zlink_channel_serial_executor_wait_target(&node->queue.executor);
}

static void executor_closed(zlink_channel_serial_executor_t *executor)
{
    zlink_node_host_t *node = ZLINK_CONTAINER_OF(executor, zlink_node_host_t, queue.executor);
    node->closed(node->queue.host);
}

void zlink_node_host_close(zlink_node_host_t *node, void (*closed)(zlink_application_host_t *host))
{
    node->closed = closed;
    zlink_channel_serial_executor_close(&node->queue.executor, executor_closed);
}

void zlink_node_host_destroy(zlink_node_host_t *node)
{
    if (!node)
        return;
    for (size_t i = 0; i < node->count; i++)
        zlink_free(node->states[i]);
    zlink_free(node);
}
