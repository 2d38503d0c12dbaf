/*
 * server/mesh/flow_state.c: whether this node and its peers take new calls now. What a node says of itself is absolute:
 * PAUSED or RUNNING, with an epoch that rises on each connection, so that what is older never replaces what is newer.
 * A newcomer hears it in the HELLO or ADMIT of the connection that carries it, before it can call. Replies, errors and
 * cancellations are never held up.
 */
#include <assert.h>

#include "base/counters.h"
#include "base/log.h"
#include "server/mesh/mesh.h"

ZLINK_COUNTER_DEFINE(config_failures, ZLINK_COUNTER, "zlink.host.application_job_queue.flow_state_config_failures",
                     "Times that a peer could not be told whether to pause");
ZLINK_COUNTER_DEFINE(paused_peers, ZLINK_GAUGE, "zlink.mesh_node.peers.paused", "Peers that take no new calls now");

void zlink_mesh_tell_flow(zlink_peer_link_t *link)
{
    const bool paused = link->mesh->paused;
    const zlink_frame_prefix_t prefix = {
        .kind = ZLINK_FRAME_FLOW_STATE,
        .error = paused ? 1 : 0,
        .reply_route_id = link->told_epoch + 1,
    };

    if (link->state != ZLINK_LINK_READY || link->told_paused == paused)
        return;
    link->told_paused = paused;
    link->told_epoch++;
    if (zlink_frame_connection_send_forced(link->ends[ZLINK_CONNECTION_COMPLETION]->connection, &prefix, NULL, 0, NULL,
                                           0) == ZLINK_OK)
        return;
    zlink_counter_add(&config_failures, 1);
    zlink_mesh_close_link(link, ZLINK_CAPACITY_EXCEEDED, "no memory to tell the peer whether to pause");
}

void zlink_mesh_set_paused(zlink_mesh_t *mesh, bool paused)
{
    zlink_peer_link_t *link;

    assert(zlink_reactor_is_current(mesh->reactor));
    mesh->paused = paused;
    TAILQ_FOREACH(link, &mesh->links, in_mesh)
    {
        zlink_mesh_tell_flow(link);
    }
}

void zlink_mesh_peer_paused(zlink_peer_link_t *link, bool paused)
{
    if (link->peer_paused == paused)
        return;
    link->peer_paused = paused;
    zlink_counter_add(&paused_peers, paused ? 1 : -1);
    zlink_mesh_link_changed(link);
    if (!paused)
        zlink_peer_link_drained(link); /* whether there is room is another question */
}

zlink_frame_verdict_t zlink_mesh_on_flow_state(zlink_link_end_t *end, const zlink_frame_prefix_t *prefix)
{
    zlink_peer_link_t *link = end->link;

    if (end->lane != ZLINK_CONNECTION_COMPLETION && !zlink_mesh_is_client_server(end->mesh))
        return zlink_mesh_broken(end, "FLOW_STATE on the Application connection");
    if (prefix->reply_route_id <= link->peer_epoch)
        return ZLINK_FRAME_TAKEN; /* stale */
    link->peer_epoch = prefix->reply_route_id;
    zlink_mesh_peer_paused(link, prefix->error != 0);
    return ZLINK_FRAME_TAKEN;
}
