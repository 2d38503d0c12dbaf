/*
 * exec/name_map.h: from a name to the thing that bears it, for the maps of a coordinator. Private to exec.
 *
 * An ordinary hash map with links inside the things: an entry costs no allocation, only the buckets do. No lock: the
 * owner's state lane guards it. It must not move while it holds entries.
 */
#ifndef ZLINK_EXEC_NAME_MAP_H
#define ZLINK_EXEC_NAME_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include <zlink/status.h>

#define ZLINK_MAP_NAME_BYTES_MAX 255

typedef struct zlink_name_entry zlink_name_entry_t;

/* Embedded in the thing. `name` is set by its owner and stays as long as the entry does. */
struct zlink_name_entry {
    const char *name;
    zlink_name_entry_t *next;
    uint32_t hash;
    bool in_map;
};

typedef struct zlink_name_map {
    zlink_name_entry_t **buckets;
    uint32_t bucket_count; /* a power of two, or 0 */
    uint32_t count;
} zlink_name_map_t;

void zlink_name_map_init(zlink_name_map_t *map);

/* Frees the buckets; the map is empty. */
void zlink_name_map_destroy(zlink_name_map_t *map);

/* 1..255 bytes? */
bool zlink_name_map_takes(const char *name);

/* NULL where nobody bears the name. */
zlink_name_entry_t *zlink_name_map_find(const zlink_name_map_t *map, const char *name);

/* Of a name that nobody bears. ZLINK_CAPACITY_EXCEEDED: no memory for the first buckets (a map that has some only gets
 * slower where there is none for more). */
zlink_status_t zlink_name_map_add(zlink_name_map_t *map, zlink_name_entry_t *entry);

void zlink_name_map_remove(zlink_name_map_t *map, zlink_name_entry_t *entry);

/* Takes every entry out and calls `taken`, which may free it. */
void zlink_name_map_take_all(zlink_name_map_t *map, void (*taken)(zlink_name_entry_t *entry, void *context),
                             void *context);

#endif
