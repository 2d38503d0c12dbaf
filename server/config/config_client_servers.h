/*
 * server/config/config_client_servers.h: the `client_servers` of a configuration file, checked and in C.
 *
 * A part of the reading in config.c, in a file of its own. Pure but for the memory that it answers; any thread.
 */
#ifndef ZLINK_SERVER_CONFIG_CLIENT_SERVERS_H
#define ZLINK_SERVER_CONFIG_CLIENT_SERVERS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/refusal.h"
#include "server/config/config_schema.h"

#define ZLINK_CONFIG_PATH_BYTES 64

/* What is wrong, and with which key. */
typedef struct zlink_config_problem {
    char path[ZLINK_CONFIG_PATH_BYTES]; /* "" where it is memory that is missing */
    zlink_refusal_t reason;
} zlink_config_problem_t;

/* `raw->client_servers` into one piece of memory, to be freed with zlink_free; its texts are `raw`'s, which are cut at
 * the '@' of a server. False: `problem` is set and nothing is left. A channel that `raw->channels` names, too, is
 * refused: it has one topology (TR-2). */
bool zlink_config_client_servers_read(zlink_config_raw_t *raw, zlink_config_client_server_t **list,
                                      zlink_config_problem_t *problem);

#endif
