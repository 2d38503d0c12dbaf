#include "server/status_events.h"

static cJSON *event_of(const char *name)
{
    cJSON *event = cJSON_CreateObject();
    if (event && !cJSON_AddStringToObject(event, "event", name)) {
        cJSON_Delete(event);
        event = NULL;
    }
    return event;
}

/* Of a side of a ClientServer channel it tells of which. */
static cJSON *event_of_mesh(const char *name, const zlink_mesh_t *mesh)
{
    cJSON *event = event_of(name);
    if (zlink_mesh_is_client_server(mesh))
        (void)cJSON_AddStringToObject(event, "client_server", mesh->self.channels[0].name);
    return event;
}

/* A text that does not fit into memory is left out: the snapshot has it. */
static void tell(zlink_status_observers_t *observers, cJSON *event, const char *key, const char *value,
                 const char *key_2, const char *value_2)
{
    if (key)
        (void)cJSON_AddStringToObject(event, key, value);
    if (key_2)
        (void)cJSON_AddStringToObject(event, key_2, value_2);
    zlink_status_observers_tell(observers, event);
}

/* What the snapshot has of a link and its peer may change. */
static void tell_link(zlink_status_observers_t *observers, const char *name, const zlink_peer_link_t *link)
{
    cJSON *event = event_of_mesh(name, link->mesh);
    cJSON *weights = cJSON_AddObjectToObject(event, "weights");
    for (size_t i = 0; i < link->peer.channel_count; i++)
        (void)cJSON_AddNumberToObject(weights, link->peer.channels[i].name, link->peer.channels[i].weight);
    (void)cJSON_AddStringToObject(event, "role", link->peer.role == ZLINK_ROLE_CLIENT ? "client" : "server");
    (void)cJSON_AddBoolToObject(event, "draining", link->peer.draining);
    (void)cJSON_AddBoolToObject(event, "paused", link->peer_paused);
    tell(observers, event, "peer", link->peer.node_id, "name", link->name);
}

void zlink_status_event_state(zlink_status_observers_t *observers, const char *state)
{
    if (observers)
        tell(observers, event_of("state"), "state", state, NULL, NULL);
}

void zlink_status_event_link_ready(zlink_status_observers_t *observers, const zlink_peer_link_t *link)
{
    if (observers)
        tell_link(observers, "link_ready", link);
}

void zlink_status_event_link_changed(zlink_status_observers_t *observers, const zlink_peer_link_t *link)
{
    if (observers)
        tell_link(observers, "link_changed", link);
}

void zlink_status_event_link_lost(zlink_status_observers_t *observers, const zlink_peer_link_t *link,
                                  const char *reason)
{
    cJSON *event = observers ? event_of_mesh("link_lost", link->mesh) : NULL;
    if (!observers)
        return;
    (void)cJSON_AddStringToObject(event, "reason", reason);
    tell(observers, event, "peer", link->peer.node_id, "name", link->name);
}

void zlink_status_event_peer(zlink_status_observers_t *observers, const zlink_mesh_dialer_t *dialer, const char *reason)
{
    cJSON *event = observers ? event_of_mesh("peer", dialer->mesh) : NULL;
    if (!observers)
        return;
    (void)cJSON_AddStringToObject(event, "state", zlink_mesh_dialer_state(dialer));
    tell(observers, event, "address", zlink_dialer_address(dialer->dialer), "reason", reason);
}

void zlink_status_event_weight(zlink_status_observers_t *observers, const char *channel, uint32_t weight)
{
    cJSON *event = observers ? event_of("weight") : NULL;
    if (!observers)
        return;
    (void)cJSON_AddNumberToObject(event, "weight", weight);
    tell(observers, event, "channel", channel, NULL, NULL);
}

void zlink_status_event_pressure(zlink_status_observers_t *observers, bool paused)
{
    if (observers)
        tell(observers, event_of("pressure"), "pressure", paused ? "paused" : "running", NULL, NULL);
}
