/*
 * server/application/catalogue.h: what the loaded modules registered: Spot types, channels, handlers of the node.
 *
 * Filled on the main thread while modules load, then frozen; after that it is read by every thread without a lock.
 * A registration that is wrong (a missing name, a duplicate, no relocation policy, a bad handler row) is refused with
 * one line that names it; the first such line is kept and stops the start.
 */
#ifndef ZLINK_SERVER_CATALOGUE_H
#define ZLINK_SERVER_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>

#include <zlink/channel.h>
#include <zlink/module.h>
#include <zlink/spot.h>

#include "base/refusal.h"

#define ZLINK_CATALOGUE_TYPES_MAX    256  /* of each kind, in one node */
#define ZLINK_CATALOGUE_NODE_MAX     256  /* registrations of node handlers */
#define ZLINK_CATALOGUE_HANDLERS_MAX 1024 /* of one type */
#define ZLINK_CATALOGUE_FILTERS_MAX  64   /* of one type */
#define ZLINK_NAME_BYTES_MAX         255  /* ChannelName, Spot type, Spot id */

/* One registered type with its handlers in an order that can be searched. */
typedef struct zlink_handler_table {
    const zlink_handler_t **sorted; /* by packet name, then kind */
    size_t count;
} zlink_handler_table_t;

typedef struct zlink_catalogue_spot_type {
    const zlink_spot_type_t *type;
    zlink_handler_table_t handlers;
} zlink_catalogue_spot_type_t;

typedef struct zlink_catalogue_channel {
    const zlink_channel_type_t *type;
    zlink_handler_table_t handlers;
    bool client;        /* the configuration says that this node only calls it: its handlers are not hosted here */
    bool client_server; /* it is no channel of the mesh, but one of ClientServer */
} zlink_catalogue_channel_t;

typedef struct zlink_catalogue_node_handlers {
    const zlink_node_handlers_t *registered;
    zlink_handler_table_t handlers;
} zlink_catalogue_node_handlers_t;

typedef struct zlink_catalogue {
    zlink_catalogue_spot_type_t spot_types[ZLINK_CATALOGUE_TYPES_MAX];
    size_t spot_type_count;
    zlink_catalogue_channel_t channels[ZLINK_CATALOGUE_TYPES_MAX];
    size_t channel_count;
    zlink_catalogue_node_handlers_t node_handlers[ZLINK_CATALOGUE_NODE_MAX];
    size_t node_handlers_count;
} zlink_catalogue_t;

/* What a module's body is given: the catalogue, and the first refusal. */
struct zlink_module {
    zlink_catalogue_t *catalogue;
    const char *name;
    zlink_status_t status;
    zlink_refusal_t refusal;
};

zlink_catalogue_t *zlink_catalogue_create(void);
void zlink_catalogue_destroy(zlink_catalogue_t *catalogue);

/* NULL where nothing of that name is registered. */
const zlink_catalogue_spot_type_t *zlink_catalogue_find_spot_type(const zlink_catalogue_t *catalogue, const char *name);
const zlink_catalogue_channel_t *zlink_catalogue_find_channel(const zlink_catalogue_t *catalogue, const char *name);

/* The node's handler for a packet, with its registration in `*at`; NULL where there is none. */
const zlink_handler_t *zlink_catalogue_find_node_handler(const zlink_catalogue_t *catalogue, zlink_handler_kind_t kind,
                                                         const char *packet, size_t *at);

/* The handler for a packet, NULL where there is none. */
const zlink_handler_t *zlink_handler_table_find(const zlink_handler_table_t *table, zlink_handler_kind_t kind,
                                                const char *packet);

#endif
