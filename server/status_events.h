/*
 * server/status_events.h: the events of a node's status, as its observers get them. docs/operations.md has the list.
 *
 * Reactor thread only. `observers` may be NULL: nobody is told.
 */
#ifndef ZLINK_SERVER_STATUS_EVENTS_H
#define ZLINK_SERVER_STATUS_EVENTS_H

#include "server/mesh/mesh.h"
#include "server/status_observers.h"

void zlink_status_event_state(zlink_status_observers_t *observers, const char *state);
void zlink_status_event_link_ready(zlink_status_observers_t *observers, const zlink_peer_link_t *link);
void zlink_status_event_link_changed(zlink_status_observers_t *observers, const zlink_peer_link_t *link);
void zlink_status_event_link_lost(zlink_status_observers_t *observers, const zlink_peer_link_t *link,
                                  const char *reason);
void zlink_status_event_peer(zlink_status_observers_t *observers, const zlink_mesh_dialer_t *dialer,
                             const char *reason);
void zlink_status_event_weight(zlink_status_observers_t *observers, const char *channel, uint32_t weight);
void zlink_status_event_pressure(zlink_status_observers_t *observers, bool paused);

#endif
