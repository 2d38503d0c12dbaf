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

void zlink_status_event_state(zlink_status_observers_t *observers, const char *state)
{
    if (observers)
        tell(observers, event_of("state"), "state", state, NULL, NULL);
}

void zlink_status_event_link_ready(zlink_status_observers_t *observers, const zlink_peer_link_t *link)
{
    if (observers)
        tell(observers, event_of("link_ready"), "peer", link->peer.node_id, "name", link->name);
}

void zlink_status_event_link_lost(zlink_status_observers_t *observers, const zlink_peer_link_t *link,
                                  const char *reason)
{
    if (observers)
        tell(observers, event_of("link_lost"), "peer", link->peer.node_id, "reason", reason);
}

void zlink_status_event_unreachable(zlink_status_observers_t *observers, const char *address, const char *reason)
{
    if (observers)
        tell(observers, event_of("unreachable"), "address", address, "reason", reason);
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
