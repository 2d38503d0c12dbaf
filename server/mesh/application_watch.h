/*
 * server/mesh/application_watch.h: is what a link's Application connection sends still heard?
 *
 * Probes run on the Completion connection, because on the other one they could stand behind a call that waits for room.
 * So a network that loses the Application connection alone (a middlebox that has forgotten it) would not be noticed,
 * and calls would end by their own time for as long as TCP has patience: minutes. Every 5 s the kernel is asked whether
 * the peer's kernel has acknowledged anything; 15 s of silence about what was sent again and again end the link. A
 * connection on which nothing is on its way is left alone.
 *
 * A link's watch runs while it is READY; reactor thread.
 */
#ifndef ZLINK_SERVER_APPLICATION_WATCH_H
#define ZLINK_SERVER_APPLICATION_WATCH_H

#include "server/mesh/peer_link.h"

void zlink_application_watch_start(zlink_peer_link_t *link);
/* Also where it does not run. */
void zlink_application_watch_stop(zlink_peer_link_t *link);

#endif
