/*
 * server/control.h: the node's local control socket: a unix socket (mode 0600) for the person who runs the node.
 *
 * One line in, one JSON text out, then it closes: "status\n", or "weight NUMBER CHANNEL\n", which answers
 * {"weight":NUMBER}. "watch\n" stays open and gets the node's events (server/status_observers.h); "stop\n" makes the
 * node stop and gets {"outcome":…,"reason":…} when it has. Where it did not work the text is {"error":"reason"}.
 * Reactor thread only.
 */
#ifndef ZLINK_SERVER_CONTROL_H
#define ZLINK_SERVER_CONTROL_H

#include <zlink/status.h>

#include "base/refusal.h"
#include "net/reactor.h"

typedef struct zlink_control zlink_control_t;
typedef struct zlink_node zlink_node_t;

zlink_status_t zlink_control_open(zlink_reactor_t *reactor, const char *path, zlink_node_t *node,
                                  zlink_control_t **control, zlink_refusal_t *why);

/* Whoever asked for a stop is told how it ended; `told` is called, maybe inside, when they all were or have gone. Once.
 * NULL is allowed. */
void zlink_control_ended(zlink_control_t *control, const char *outcome, const char *reason, void (*told)(void *context),
                         void *context);

/* NULL is allowed. The socket file goes. */
void zlink_control_close(zlink_control_t *control);

#endif
