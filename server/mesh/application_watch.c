#include "server/mesh/application_watch.h"

#include "base/container_of.h"
#include "base/log.h"
#include "net/liveness.h"
#include "server/mesh/mesh.h"

static void look_later(zlink_peer_link_t *link)
{
    zlink_reactor_t *reactor = link->mesh->reactor;
    zlink_reactor_timer_start(reactor, &link->watch, zlink_reactor_now_ms(reactor) + ZLINK_LIVENESS_PROBE_MS);
}

static void look(zlink_timer_t *timer)
{
    zlink_peer_link_t *link = ZLINK_CONTAINER_OF(timer, zlink_peer_link_t, watch);
    zlink_frame_connection_t *connection = link->ends[ZLINK_CONNECTION_APPLICATION]->connection;
    const zlink_stream_t *stream = zlink_frame_connection_stream(connection);
    if (!zlink_stream_is_unheard(stream, ZLINK_LIVENESS_DEADLINE_MS)) {
        look_later(link);
        return;
    }
    zlink_log(ZLINK_LOG_WARN, "zlink.net.unheard", ZLINK_LOG_S("address", zlink_stream_peer_address(stream)));
    zlink_frame_connection_abort(connection, ZLINK_UNAVAILABLE, "nothing that was sent was acknowledged for 15 s");
}

void zlink_application_watch_start(zlink_peer_link_t *link)
{
    link->watch.fire = look;
    look_later(link);
}

void zlink_application_watch_stop(zlink_peer_link_t *link)
{
    zlink_reactor_timer_cancel(link->mesh->reactor, &link->watch);
}
