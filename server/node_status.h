/*
 * server/node_status.h: what a node tells of itself, as JSON.
 *
 * The fields are described in docs/operations.md; a later version adds fields and renames none.
 */
#ifndef ZLINK_SERVER_NODE_STATUS_H
#define ZLINK_SERVER_NODE_STATUS_H

typedef struct zlink_node zlink_node_t;

/* Reactor thread. One JSON object and a line feed; free() it. NULL when out of memory. */
char *zlink_node_status_json(const zlink_node_t *node);

#endif
