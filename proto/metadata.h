/*
 * proto/metadata.h: the short texts that travel beside a message: keys and values, each key once.
 *
 * A value of whoever fills it; zero-initialised is empty. Between the nodes they are fields of the call's envelope, in
 * here one run of bytes, "key NUL value NUL" for each, so that a snapshot is one copy and a lookup gives C strings.
 * Pure functions, any thread.
 */
#ifndef ZLINK_PROTO_METADATA_H
#define ZLINK_PROTO_METADATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zlink/call_options.h>

#define ZLINK_METADATA_KEY_BYTES_MAX 255
#define ZLINK_METADATA_HEAD_COST     2u /* of what a message's metadata may take: before the first entry … */
#define ZLINK_METADATA_ENTRY_COST    3u /* … and for each beside its bytes */

typedef struct zlink_metadata {
    uint16_t text_bytes; /* 0: empty */
    uint16_t cost;       /* as ZLINK_METADATA_BYTES_MAX counts it; 0: empty */
    char text[ZLINK_METADATA_BYTES_MAX];
} zlink_metadata_t;

/* NULL, or what is wrong as a static text: a key without or over 255 bytes, a text that is not UTF-8 or holds NUL, a
 * key that is there already, or more than ZLINK_METADATA_BYTES_MAX in all; then nothing has changed. */
const char *zlink_metadata_add(zlink_metadata_t *metadata, const char *key, size_t key_bytes, const char *value,
                               size_t value_bytes);

/* What a maker of a call gives: the last of two equal keys counts. NULL or what is wrong, as above. */
const char *zlink_metadata_pack(zlink_metadata_t *metadata, const zlink_metadata_entry_t *entries, size_t count);

/* From its text alone, `text_bytes` 0 for none. */
void zlink_metadata_restore(zlink_metadata_t *metadata, const char *text, size_t text_bytes);

/* The value, or NULL. `text` is that of a zlink_metadata_t or a copy of it. */
const char *zlink_metadata_find(const char *text, size_t text_bytes, const char *key);

/* One after the other, `*at` 0 before the first. False after the last. */
bool zlink_metadata_next(const char *text, size_t text_bytes, size_t *at, const char **key, const char **value);

#endif
