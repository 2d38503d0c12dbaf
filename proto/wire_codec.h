/*
 * proto/wire_codec.h: nanopb with the checks that it lacks. Used by wire.c only; pure functions, any thread.
 *
 * nanopb takes the last of two equal fields, hides a NUL inside a text and knows no UTF-8. So every message is walked
 * once over its bytes before nanopb fills a struct: what the walk lets through, nanopb cannot misread.
 */
#ifndef ZLINK_PROTO_WIRE_CODEC_H
#define ZLINK_PROTO_WIRE_CODEC_H

#include <pb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zlink/status.h>

typedef enum zlink_wire_field_form {
    ZLINK_WIRE_NUMBER = 0, /* nanopb checks its wire type */
    ZLINK_WIRE_TEXT,       /* 0..255 clean bytes */
    ZLINK_WIRE_NAME,       /* 1..255 clean bytes */
    ZLINK_WIRE_IDENTIFIER, /* of [A-Za-z0-9._-] */
    ZLINK_WIRE_MESSAGE,    /* walked by the callback that takes it */
    ZLINK_WIRE_BYTES,      /* the same: what the bytes may be is the callback's business */
} zlink_wire_field_form_t;

/* One known field; a table of them ends with tag 0. Tags are below 32. */
typedef struct zlink_wire_field {
    uint32_t tag;
    zlink_wire_field_form_t form;
    bool repeated;
} zlink_wire_field_t;

/* NULL, or what is wrong with the message's bytes. */
const char *zlink_wire_walk(const uint8_t *bytes, size_t size, const zlink_wire_field_t *fields);

/* Walks, then decodes into `message`, whose callbacks may be set and whose other fields are set to their defaults. */
zlink_status_t zlink_wire_decode(const uint8_t *bytes, size_t size, const zlink_wire_field_t *fields,
                                 const pb_msgdesc_t *descriptor, void *message, const char **reason);

/* `message` was checked before: a full buffer is all that is left to go wrong. */
zlink_status_t zlink_wire_encode(const pb_msgdesc_t *descriptor, const void *message, uint8_t *bytes, size_t capacity,
                                 size_t *size);

/* ZLINK_PROTOCOL_ERROR, with `why` in `*reason` where that is not NULL. */
zlink_status_t zlink_wire_refuse(const char **reason, const char *why);

#endif
