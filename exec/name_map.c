#include "exec/name_map.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"

#define BUCKETS_FIRST 8u
#define BUCKETS_MAX   (UINT32_C(1) << 20)

void zlink_name_map_init(zlink_name_map_t *map)
{
    memset(map, 0, sizeof(*map));
}

void zlink_name_map_destroy(zlink_name_map_t *map)
{
    assert(map->count == 0);
    zlink_free(map->buckets);
    map->buckets = NULL;
    map->bucket_count = 0;
}

bool zlink_name_map_takes(const char *name)
{
    return name && name[0] && strnlen(name, ZLINK_MAP_NAME_BYTES_MAX + 1) <= ZLINK_MAP_NAME_BYTES_MAX;
}

static uint64_t mix(uint64_t value, uint64_t factor)
{
    unsigned __int128 product = (unsigned __int128)value * factor;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Names may be chosen by strangers. Where the map lies is nothing that they know, so it is the seed. */
static uint32_t hash_of(const zlink_name_map_t *map, const char *name)
{
    const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t seed = mix((uint64_t)(uintptr_t)map ^ factor, factor);
    uint64_t hash = seed;

    for (size_t left = strlen(name); left > 0;) {
        uint64_t piece = 0;
        size_t size = left < sizeof(piece) ? left : sizeof(piece);
        memcpy(&piece, name, size);
        hash = mix(hash ^ piece, factor ^ seed);
        name += size;
        left -= size;
    }
    return (uint32_t)(hash ^ hash >> 32);
}

static zlink_name_entry_t **bucket_of(const zlink_name_map_t *map, uint32_t hash)
{
    return &map->buckets[hash & (map->bucket_count - 1)];
}

zlink_name_entry_t *zlink_name_map_find(const zlink_name_map_t *map, const char *name)
{
    if (map->count == 0)
        return NULL;
    uint32_t hash = hash_of(map, name);
    for (zlink_name_entry_t *entry = *bucket_of(map, hash); entry; entry = entry->next)
        if (entry->hash == hash && strcmp(entry->name, name) == 0)
            return entry;
    return NULL;
}

static void link_in(zlink_name_map_t *map, zlink_name_entry_t *entry)
{
    zlink_name_entry_t **bucket = bucket_of(map, entry->hash);
    entry->next = *bucket;
    *bucket = entry;
}

/* False: there is no memory. */
static bool grow(zlink_name_map_t *map)
{
    uint32_t before = map->bucket_count;
    zlink_name_entry_t **old = map->buckets;
    uint32_t count = before ? before * 2 : BUCKETS_FIRST;
    zlink_name_entry_t **buckets = zlink_calloc(count, sizeof(zlink_name_entry_t *));

    if (!buckets)
        return false;
    map->buckets = buckets;
    map->bucket_count = count;
    for (uint32_t i = 0; i < before; i++)
        for (zlink_name_entry_t *entry = old[i], *next; entry; entry = next) {
            next = entry->next;
            link_in(map, entry);
        }
    zlink_free(old);
    return true;
}

zlink_status_t zlink_name_map_add(zlink_name_map_t *map, zlink_name_entry_t *entry)
{
    assert(!entry->in_map && !zlink_name_map_find(map, entry->name));
    if (map->count >= map->bucket_count && map->bucket_count < BUCKETS_MAX && !grow(map) && map->bucket_count == 0)
        return ZLINK_CAPACITY_EXCEEDED;
    entry->hash = hash_of(map, entry->name);
    entry->in_map = true;
    link_in(map, entry);
    map->count++;
    return ZLINK_OK;
}

void zlink_name_map_remove(zlink_name_map_t *map, zlink_name_entry_t *entry)
{
    zlink_name_entry_t **place = bucket_of(map, entry->hash);

    assert(entry->in_map);
    while (*place != entry)
        place = &(*place)->next;
    *place = entry->next;
    entry->in_map = false;
    map->count--;
}

void zlink_name_map_take_all(zlink_name_map_t *map, void (*taken)(zlink_name_entry_t *entry, void *context),
                             void *context)
{
    for (uint32_t i = 0; i < map->bucket_count; i++) {
        zlink_name_entry_t *entry = map->buckets[i];
        map->buckets[i] = NULL;
        for (zlink_name_entry_t *next; entry; entry = next) {
            next = entry->next;
            entry->in_map = false;
            map->count--;
            taken(entry, context);
        }
    }
}
