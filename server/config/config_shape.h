/*
 * server/config/config_shape.h: does a YAML text have the shape that a schema asks for, and on which line does a key
 * stand.
 *
 * libcyaml fills structs well but tells badly: its error names no key, its line may be an earlier one, and it takes
 * duplicate keys, aliases and an empty file in silence. So the text is first walked here, event by event, along the
 * same schema; after that libcyaml has nothing left to refuse. Pure functions of their input; any thread.
 */
#ifndef ZLINK_SERVER_CONFIG_SHAPE_H
#define ZLINK_SERVER_CONFIG_SHAPE_H

#include <cyaml/cyaml.h>
#include <stddef.h>

#include <zlink/status.h>

#include "base/refusal.h"

/* ZLINK_OK, or ZLINK_NOT_CONFIGURED with the line "NAME:LINE: KEY: reason", or ZLINK_CAPACITY_EXCEEDED (no memory). The
 * schema's root is a mapping; mappings, sequences, strings and strict enums are known. */
zlink_status_t zlink_config_shape_check(const char *text, size_t size, const char *name,
                                        const cyaml_schema_value_t *schema, zlink_refusal_t *why);

/* The line of the value at a dotted path ("tls.key", "peers[1]") in a text that has passed the check; 0 where there
 * is none. */
size_t zlink_config_shape_line(const char *text, size_t size, const cyaml_schema_value_t *schema, const char *path);

#endif
