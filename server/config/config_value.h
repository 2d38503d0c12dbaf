/*
 * server/config/config_value.h: the one strict reader of the values that stand in a configuration file.
 *
 * YAML libraries guess: `5s` becomes 5, `080` becomes 0, `maybe` becomes true. Here every value arrives as the
 * text that the file holds and is read whole or refused. A refusal is the reason alone ("has no unit; …"): the
 * caller knows the file, the line and the key. Pure functions; any thread.
 */
#ifndef ZLINK_SERVER_CONFIG_VALUE_H
#define ZLINK_SERVER_CONFIG_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/refusal.h"

#define ZLINK_CONFIG_NAME_BYTES    64  /* a mesh's or node's name */
#define ZLINK_CONFIG_NODE_ID_BYTES 101 /* a name, '-', and a UUID */

/* Decimal digits without sign or leading zero, from `minimum` to `maximum`. */
bool zlink_config_value_integer(const char *text, uint64_t minimum, uint64_t maximum, uint64_t *value,
                                zlink_refusal_t *why);

/* "host:port" or "who@host:port", where `who` is a node's name or its node id. Answers where in the text the address
 * begins, which is not looked at; NULL for a bad `who`. */
const char *zlink_config_value_peer(const char *text, zlink_refusal_t *why);

/* A number with its unit: "250ms", "5s", "2m". */
bool zlink_config_value_duration_ms(const char *text, uint64_t minimum_ms, uint64_t maximum_ms, uint64_t *value_ms,
                                    zlink_refusal_t *why);

/* A number with its unit: "512B", "64KiB", "16MiB", "1GiB". */
bool zlink_config_value_bytes(const char *text, uint64_t minimum, uint64_t maximum, uint64_t *value,
                              zlink_refusal_t *why);

/* [A-Za-z0-9._-]{1,64}, the form that a certificate can carry. */
bool zlink_config_value_name(const char *text, zlink_refusal_t *why);

typedef struct zlink_config_address {
    bool wildcard; /* 0.0.0.0 or [::] */
    uint16_t port;
} zlink_config_address_t;

/* "host:port" with a DNS name or an IPv4 address, or "[IPv6]:port". Port 0 passes: the caller knows whether it may. */
bool zlink_config_value_address(const char *text, zlink_config_address_t *address, zlink_refusal_t *why);

/* The same for an address that somebody dials: neither a wildcard nor port 0. */
bool zlink_config_value_dialled(const char *text, zlink_refusal_t *why);

#endif
