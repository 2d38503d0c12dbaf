/*
 * server/node_tls.h: the node's certificate, key, authorities and revocation list: read at the start, and anew on
 * demand.
 */
#ifndef ZLINK_SERVER_NODE_TLS_H
#define ZLINK_SERVER_NODE_TLS_H

#include <zlink/status.h>

#include "base/refusal.h"
#include "net/tls_context.h"
#include "server/config/config.h"

typedef struct zlink_node zlink_node_t;

/* What `config` names, with one hold; NULL where the transport is plain. A refusal names file and setting; it is
 * ZLINK_NOT_CONFIGURED where the certificate is another node's. Any thread. */
zlink_status_t zlink_node_tls_open(const zlink_config_t *config, const char *config_path, zlink_tls_context_t **tls,
                                   zlink_refusal_t *why);

/* Reads the same files anew. What is found is in force for every handshake from now on, and links whose peer is not
 * trusted any more are ended; where one file is refused all stay as they were, and a line says why. Main thread, while
 * the node serves. */
void zlink_node_tls_reload(zlink_node_t *node, const char *config_path);

#endif
