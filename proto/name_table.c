#include "proto/name_table.h"

#include <assert.h>
#include <string.h>
#include <sys/random.h>

#include "base/memory.h"

/* ---- what both sides need: names in the order of their numbers ---- */

typedef struct entry {
    zlink_incoming_name_t name;
    uint64_t hash; /* outgoing only */
    char bytes[];  /* the name, NUL, the Spot id, NUL */
} entry_t;

typedef struct entries {
    entry_t **at; /* number n stands at n - 1 */
    uint32_t count, room;
} entries_t;

/* The bound that targets and packets of one table share. */
typedef struct usage {
    zlink_name_table_limits_t limits;
    uint32_t names, bytes;
} usage_t;

static void usage_init(usage_t *usage, const zlink_name_table_limits_t *limits)
{
    if (limits != NULL)
        usage->limits = *limits;
    if (usage->limits.names_max == 0)
        usage->limits.names_max = ZLINK_NAME_TABLE_NAMES_MAX;
    if (usage->limits.bytes_max == 0)
        usage->limits.bytes_max = ZLINK_NAME_TABLE_BYTES_MAX;
}

static bool usage_fits(const usage_t *usage, size_t bytes)
{
    return usage->names < usage->limits.names_max && bytes <= usage->limits.bytes_max - usage->bytes;
}

static void usage_add(usage_t *usage, size_t bytes)
{
    usage->names++;
    usage->bytes += (uint32_t)bytes;
}

static size_t entry_bytes(const entry_t *entry)
{
    return strlen(entry->name.name) + strlen(entry->name.spot_id);
}

/* NULL without memory. */
static entry_t *entries_append(entries_t *entries, zlink_target_kind_t kind, const char *name, size_t name_bytes,
                               const char *spot_id, size_t spot_bytes)
{
    entry_t *entry;
    char *copy;

    if (entries->count == entries->room) {
        uint32_t room = entries->room > 0 ? entries->room * 2 : 8;
        entry_t **at = zlink_realloc(entries->at, room * sizeof(*at));

        if (at == NULL)
            return NULL;
        entries->at = at;
        entries->room = room;
    }
    entry = zlink_calloc(1, sizeof(*entry) + name_bytes + spot_bytes + 2);
    if (entry == NULL)
        return NULL;
    memcpy(entry->bytes, name, name_bytes);
    copy = entry->bytes + name_bytes + 1;
    memcpy(copy, spot_id, spot_bytes);
    entry->name = (zlink_incoming_name_t){.kind = kind, .name = entry->bytes, .spot_id = copy};
    entries->at[entries->count++] = entry;
    return entry;
}

static void entries_clear(entries_t *entries)
{
    for (uint32_t i = 0; i < entries->count; i++)
        zlink_free(entries->at[i]);
    zlink_free(entries->at);
}

/* ---- the sender's side ---- */

/* An open hash over one kind's entries; slots hold numbers, 0 = free. At most half full. */
typedef struct index {
    entries_t entries;
    uint32_t *slots;
    uint32_t slot_count; /* a power of two, or 0 */
} index_t;

struct zlink_outgoing_names {
    usage_t usage;
    uint64_t seed; /* Spot ids are often chosen by strangers: they must not be able to choose their slots */
    index_t targets, packets;
};

/* Folded 64x64 multiplication: every input bit reaches every output bit, at the price of one instruction. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 wide_t;
    wide_t product = (wide_t)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_text(uint64_t hash, const char *text, size_t size)
{
    uint64_t word;

    hash ^= size * 0x9e3779b97f4a7c15u;
    for (; size >= sizeof(word); text += sizeof(word), size -= sizeof(word)) {
        memcpy(&word, text, sizeof(word));
        hash = fold(hash ^ word, 0xd6e8feb86659fd93u);
    }
    word = 0;
    memcpy(&word, text, size);
    return fold(hash ^ word, 0xa0761d6478bd642fu);
}

zlink_status_t zlink_outgoing_names_create(const zlink_name_table_limits_t *limits, zlink_outgoing_names_t **names)
{
    zlink_outgoing_names_t *made = zlink_calloc(1, sizeof(*made));

    if (made == NULL)
        return ZLINK_CAPACITY_EXCEEDED;
    usage_init(&made->usage, limits);
    if (getrandom(&made->seed, sizeof(made->seed), GRND_NONBLOCK) != (ssize_t)sizeof(made->seed))
        made->seed = (uint64_t)(uintptr_t)made; /* early boot: the address will do */
    *names = made;
    return ZLINK_OK;
}

static void index_clear(index_t *index)
{
    entries_clear(&index->entries);
    zlink_free(index->slots);
}

void zlink_outgoing_names_destroy(zlink_outgoing_names_t *names)
{
    if (names == NULL)
        return;
    index_clear(&names->targets);
    index_clear(&names->packets);
    zlink_free(names);
}

/* The slot that holds the name, or the free one where it belongs. */
static uint32_t *index_slot(const index_t *index, uint64_t hash, zlink_target_kind_t kind, const char *name,
                            const char *spot_id)
{
    for (uint32_t i = (uint32_t)hash;; i++) {
        uint32_t *slot = &index->slots[i & (index->slot_count - 1)];
        const entry_t *entry;

        if (*slot == 0)
            return slot;
        entry = index->entries.at[*slot - 1];
        if (entry->hash == hash && entry->name.kind == kind && strcmp(entry->name.name, name) == 0 &&
            strcmp(entry->name.spot_id, spot_id) == 0)
            return slot;
    }
}

/* Room for one more entry; false without memory. */
static bool index_reserve(index_t *index)
{
    uint32_t slot_count = index->slot_count > 0 ? index->slot_count * 2 : 16;
    uint32_t *slots;

    if ((index->entries.count + 1) * 2 <= index->slot_count)
        return true;
    slots = zlink_calloc(slot_count, sizeof(*slots));
    if (slots == NULL)
        return false;
    for (uint32_t number = 1; number <= index->entries.count; number++) {
        uint32_t i = (uint32_t)index->entries.at[number - 1]->hash;

        while (slots[i & (slot_count - 1)] != 0)
            i++;
        slots[i & (slot_count - 1)] = number;
    }
    zlink_free(index->slots);
    index->slots = slots;
    index->slot_count = slot_count;
    return true;
}

static uint32_t find_or_assign(zlink_outgoing_names_t *names, index_t *index, zlink_target_kind_t kind,
                               const char *name, const char *spot_id, bool *announce)
{
    size_t name_bytes = strlen(name), spot_bytes = strlen(spot_id);
    uint64_t hash = hash_text(hash_text(names->seed + (uint64_t)kind, name, name_bytes), spot_id, spot_bytes);
    entry_t *entry;
    uint32_t *slot;

    *announce = false;
    if (index->slot_count > 0) {
        slot = index_slot(index, hash, kind, name, spot_id);
        if (*slot != 0)
            return *slot;
    }
    assert(zlink_wire_name_is_valid(name));
    assert(kind == ZLINK_TARGET_INSTANCE_SPOT ? zlink_wire_name_is_valid(spot_id) : spot_bytes == 0);

    if (!usage_fits(&names->usage, name_bytes + spot_bytes) || !index_reserve(index))
        return 0;
    entry = entries_append(&index->entries, kind, name, name_bytes, spot_id, spot_bytes);
    if (entry == NULL)
        return 0;
    entry->hash = hash;
    usage_add(&names->usage, name_bytes + spot_bytes);
    slot = index_slot(index, hash, kind, name, spot_id);
    *slot = index->entries.count;
    *announce = true;
    return *slot;
}

uint32_t zlink_outgoing_names_target(zlink_outgoing_names_t *names, zlink_target_kind_t kind, const char *name,
                                     const char *spot_id, bool *announce)
{
    assert(kind == ZLINK_TARGET_CHANNEL || kind == ZLINK_TARGET_INSTANCE_SPOT || kind == ZLINK_TARGET_NODE);
    return find_or_assign(names, &names->targets, kind, name, spot_id, announce);
}

uint32_t zlink_outgoing_names_packet(zlink_outgoing_names_t *names, const char *packet, bool *announce)
{
    return find_or_assign(names, &names->packets, ZLINK_TARGET_NONE, packet, "", announce);
}

void zlink_outgoing_names_withdraw(zlink_outgoing_names_t *names, zlink_announce_kind_t kind, uint32_t id)
{
    index_t *index = kind == ZLINK_ANNOUNCE_TARGET ? &names->targets : &names->packets;
    entry_t *entry;

    assert(id != 0 && id == index->entries.count);
    entry = index->entries.at[id - 1];
    /* It was the last one in, so no other entry's way leads over its slot. */
    *index_slot(index, entry->hash, entry->name.kind, entry->name.name, entry->name.spot_id) = 0;
    names->usage.names--;
    names->usage.bytes -= (uint32_t)entry_bytes(entry);
    index->entries.count--;
    zlink_free(entry);
}

/* ---- the receiver's side ---- */

struct zlink_incoming_names {
    usage_t usage;
    entries_t targets, packets;
};

zlink_status_t zlink_incoming_names_create(const zlink_name_table_limits_t *limits, zlink_incoming_names_t **names)
{
    zlink_incoming_names_t *made = zlink_calloc(1, sizeof(*made));

    if (made == NULL)
        return ZLINK_CAPACITY_EXCEEDED;
    usage_init(&made->usage, limits);
    *names = made;
    return ZLINK_OK;
}

void zlink_incoming_names_destroy(zlink_incoming_names_t *names)
{
    if (names == NULL)
        return;
    entries_clear(&names->targets);
    entries_clear(&names->packets);
    zlink_free(names);
}

static zlink_status_t refuse(const char **reason, const char *why)
{
    if (reason != NULL)
        *reason = why;
    return ZLINK_PROTOCOL_ERROR;
}

zlink_status_t zlink_incoming_names_add(zlink_incoming_names_t *names, const zlink_wire_announce_t *announce,
                                        const char **reason)
{
    bool is_target = announce->kind == ZLINK_ANNOUNCE_TARGET;
    entries_t *entries = is_target ? &names->targets : &names->packets;
    const char *name = is_target ? announce->target.name : announce->packet;
    const char *spot_id = is_target ? announce->target.spot_id : "";
    size_t name_bytes = strlen(name), spot_bytes = strlen(spot_id);

    if (announce->id <= entries->count)
        return refuse(reason, "number announced twice");
    if (announce->id != entries->count + 1)
        return refuse(reason, "announced number is not the next one");
    if (!usage_fits(&names->usage, name_bytes + spot_bytes))
        return refuse(reason, "too many names announced");
    if (entries_append(entries, is_target ? announce->target.kind : ZLINK_TARGET_NONE, name, name_bytes, spot_id,
                       spot_bytes) == NULL)
        return ZLINK_CAPACITY_EXCEEDED;
    usage_add(&names->usage, name_bytes + spot_bytes);
    return ZLINK_OK;
}

static zlink_incoming_name_t *entries_find(const entries_t *entries, uint32_t id)
{
    return id != 0 && id <= entries->count ? &entries->at[id - 1]->name : NULL;
}

zlink_incoming_name_t *zlink_incoming_names_target(const zlink_incoming_names_t *names, uint32_t id)
{
    return entries_find(&names->targets, id);
}

zlink_incoming_name_t *zlink_incoming_names_packet(const zlink_incoming_names_t *names, uint32_t id)
{
    return entries_find(&names->packets, id);
}
