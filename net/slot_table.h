/*
 * net/slot_table.h: from the number in a completion to the slot that it is for.
 *
 * Indexes are reused, generations are not (they wrap after 2^32 uses of one index). Reactor thread only.
 */
#ifndef ZLINK_NET_SLOT_TABLE_H
#define ZLINK_NET_SLOT_TABLE_H

#include "net/reactor_loop.h"

#define ZLINK_SLOTS_MAX (1u << 24)

typedef struct zlink_slot_entry {
    zlink_ring_slot_t *slot; /* NULL = free */
    uint32_t generation;     /* of the slot, or of the last one */
    uint32_t next_free;      /* index plus one */
} zlink_slot_entry_t;

typedef struct zlink_slot_table {
    zlink_slot_entry_t *entries;
    uint32_t capacity;
    uint32_t used;       /* entries ever used */
    uint32_t first_free; /* index plus one; 0 = none */
    uint32_t live;
} zlink_slot_table_t;

zlink_status_t zlink_slot_table_add(zlink_slot_table_t *table, zlink_ring_slot_t *slot);
void zlink_slot_table_remove(zlink_slot_table_t *table, zlink_ring_slot_t *slot);
/* NULL where no slot of that generation is there. */
zlink_ring_slot_t *zlink_slot_table_find(const zlink_slot_table_t *table, uint32_t index, uint32_t generation);
void zlink_slot_table_release(zlink_slot_table_t *table);

#endif
