#include "net/slot_table.h"

#include <assert.h>

#include "base/memory.h"

#define CAPACITY_FIRST 64u

static zlink_status_t slot_table_grow(zlink_slot_table_t *table)
{
    const uint32_t capacity = table->capacity == 0 ? CAPACITY_FIRST : table->capacity * 2;
    zlink_slot_entry_t *entries;

    if (capacity > ZLINK_SLOTS_MAX)
        return ZLINK_CAPACITY_EXCEEDED;
    entries = zlink_realloc(table->entries, capacity * sizeof(*entries));
    if (entries == NULL)
        return ZLINK_CAPACITY_EXCEEDED;
    table->entries = entries;
    table->capacity = capacity;
    return ZLINK_OK;
}

zlink_status_t zlink_slot_table_add(zlink_slot_table_t *table, zlink_ring_slot_t *slot)
{
    zlink_slot_entry_t *entry;

    if (table->first_free != 0) {
        slot->index = table->first_free - 1;
        entry = &table->entries[slot->index];
        table->first_free = entry->next_free;
    } else {
        if (table->used == table->capacity && slot_table_grow(table) != ZLINK_OK)
            return ZLINK_CAPACITY_EXCEEDED;
        slot->index = table->used++;
        entry = &table->entries[slot->index];
        entry->generation = 0;
    }
    entry->generation++;
    if (entry->generation == 0) /* 0 means: not in the table */
        entry->generation = 1;
    entry->slot = slot;
    entry->next_free = 0;
    slot->generation = entry->generation;
    slot->in_flight = 0;
    table->live++;
    return ZLINK_OK;
}

void zlink_slot_table_remove(zlink_slot_table_t *table, zlink_ring_slot_t *slot)
{
    zlink_slot_entry_t *entry;

    if (slot->generation == 0)
        return;
    assert(slot->in_flight == 0);
    entry = &table->entries[slot->index];
    assert(entry->slot == slot);
    entry->slot = NULL;
    entry->next_free = table->first_free;
    table->first_free = slot->index + 1;
    table->live--;
    slot->generation = 0;
}

zlink_ring_slot_t *zlink_slot_table_find(const zlink_slot_table_t *table, uint32_t index, uint32_t generation)
{
    if (index >= table->used || table->entries[index].generation != generation)
        return NULL;
    return table->entries[index].slot;
}

void zlink_slot_table_release(zlink_slot_table_t *table)
{
    assert(table->live == 0);
    zlink_free(table->entries);
    *table = (zlink_slot_table_t){0};
}
