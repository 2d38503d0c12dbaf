/*
 * server/application/node_host.h: the handlers of the node itself: one serial queue and gate for all that the modules
 * registered (contract 003 §2, EX-99).
 *
 * Made at start where there are any, gone at the end; any thread may submit. To its turns it looks like a channel
 * that bears the name of the mesh.
 */
#ifndef ZLINK_SERVER_NODE_HOST_H
#define ZLINK_SERVER_NODE_HOST_H

#include <stddef.h>

#include <zlink/status.h>

#include "base/refusal.h"
#include "exec/turn.h"
#include "server/application/catalogue.h"
#include "server/application/invocation.h"

typedef struct zlink_node_host zlink_node_host_t;

/* What goes wrong is one line in `why`. */
zlink_status_t zlink_node_host_create(zlink_application_host_t *host, zlink_node_host_t **created,
                                      zlink_refusal_t *why);

/* Hands `invocation` to the queue, as one of the registration `at`; on refusal it still is the caller's. */
zlink_status_t zlink_node_host_execute(zlink_node_host_t *node, size_t at, zlink_invocation_t *invocation);

/* What a wait for one of its handlers stands behind (zlink_turn_check_wait). */
zlink_wait_target_t zlink_node_host_wait_target(const zlink_node_host_t *node);

/* What was accepted runs, then `closed`, once, on a worker. */
void zlink_node_host_close(zlink_node_host_t *node, void (*closed)(zlink_application_host_t *host));

/* After `closed`. NULL is allowed. */
void zlink_node_host_destroy(zlink_node_host_t *node);

#endif
