/*
 * server/mesh/mesh_weights.c: what this node weighs in its channels, changed while it runs, and how peers learn of it.
 */
#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "server/mesh/mesh.h"

static zlink_status_t send_update(zlink_peer_link_t *link)
{
    const zlink_mesh_t *mesh = link->mesh;
    const zlink_frame_prefix_t prefix = {.kind = ZLINK_FRAME_UPDATE};
    const zlink_wire_update_t update = {
        .revision = mesh->self.revision,
        .draining = mesh->self.draining,
        .channels = mesh->self.channels,
        .channel_count = mesh->self.channel_count,
    };
    size_t size = 0;
    zlink_status_t status =
        zlink_wire_update_encode(&update, mesh->scratch_envelope, ZLINK_FRAME_ENVELOPE_BYTES_MAX, &size);
    if (status == ZLINK_OK)
        status = zlink_frame_connection_send_forced(link->ends[ZLINK_CONNECTION_APPLICATION]->connection, &prefix,
                                                    mesh->scratch_envelope, (uint32_t)size, NULL, 0);
    return status;
}

/* Before ADMIT nobody listens: the dialer makes up for it when it is admitted. */
void zlink_mesh_tell_revision(zlink_peer_link_t *link)
{
    const zlink_link_end_t *application = link->ends[ZLINK_CONNECTION_APPLICATION];
    bool admitted = link->state == ZLINK_LINK_COMPLETING || link->state == ZLINK_LINK_READY;
    if (!admitted || !application || !application->admitted || link->told_revision == link->mesh->self.revision)
        return;
    link->told_revision = link->mesh->self.revision;
    if (send_update(link) != ZLINK_OK) /* a peer that goes by old weights is worse than one that links anew */
        zlink_mesh_close_link(link, ZLINK_CAPACITY_EXCEEDED, "no memory to tell the peer what has changed");
}

static zlink_wire_channel_t *own_channel(const zlink_mesh_t *mesh, const char *name)
{
    for (size_t i = 0; i < mesh->self.channel_count; i++)
        if (strcmp(mesh->self.channels[i].name, name) == 0)
            return &mesh->self.channels[i];
    return NULL;
}

zlink_status_t zlink_mesh_set_weight(zlink_mesh_t *mesh, const char *name, uint32_t weight)
{
    const zlink_mesh_events_t *events = &mesh->options.events;
    zlink_wire_channel_t *channel = own_channel(mesh, name);
    zlink_peer_link_t *link;

    assert(zlink_reactor_is_current(mesh->reactor));
    if (weight > ZLINK_WIRE_WEIGHT_MAX)
        return ZLINK_INVALID_OPERATION;
    if (!channel)
        return ZLINK_NOT_FOUND;
    if (channel->weight == weight)
        return ZLINK_OK;
    channel->weight = weight;
    mesh->self.revision++;
    zlink_channel_routes_set_weight(mesh->routes, name, NULL, weight);
    if (events->own_weight)
        events->own_weight(events->context, name, weight);
    TAILQ_FOREACH(link, &mesh->links, in_mesh)
    {
        zlink_mesh_tell_revision(link);
    }
    zlink_log(ZLINK_LOG_INFO, "zlink.channel.weight", ZLINK_LOG_S("channel", name), ZLINK_LOG_I("weight", weight),
              ZLINK_LOG_I("revision", mesh->self.revision));
    return ZLINK_OK;
}
