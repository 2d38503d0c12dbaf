#include "server/mesh/send_gates.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/memory.h"

struct zlink_send_gate {
    _Atomic int64_t room;
    _Atomic bool open;
    char kind;
    char name[];
};

/* Open addressing; only the reactor inserts and nobody removes, so a reader may stop at the first empty place. Half of
 * the places stay empty. */
#define PLACES ((size_t)ZLINK_SEND_GATES_MAX * 2)

struct zlink_send_gates {
    size_t count;
    _Atomic(zlink_send_gate_t *) places[PLACES];
};

zlink_send_gates_t *zlink_send_gates_create(void)
{
    return zlink_calloc(1, sizeof(zlink_send_gates_t));
}

void zlink_send_gates_destroy(zlink_send_gates_t *gates)
{
    if (!gates)
        return;
    for (size_t i = 0; i < PLACES; i++)
        zlink_free(atomic_load_explicit(&gates->places[i], memory_order_relaxed));
    zlink_free(gates);
}

static size_t first_place(zlink_send_gate_kind_t kind, const char *name)
{
    uint64_t hash = 14695981039346656037ull ^ (uint64_t)kind; /* FNV-1a */
    for (const char *byte = name; *byte; byte++)
        hash = (hash ^ (uint8_t)*byte) * 1099511628211ull;
    return (size_t)(hash >> 32) % PLACES;
}

/* The gate, or NULL with the empty place where it would stand. */
static zlink_send_gate_t *find(zlink_send_gates_t *gates, zlink_send_gate_kind_t kind, const char *name, size_t *place)
{
    for (*place = first_place(kind, name);; *place = (*place + 1) % PLACES) {
        zlink_send_gate_t *gate = atomic_load_explicit(&gates->places[*place], memory_order_acquire);
        if (!gate || (gate->kind == (char)kind && strcmp(gate->name, name) == 0))
            return gate;
    }
}

void zlink_send_gates_set(zlink_send_gates_t *gates, zlink_send_gate_kind_t kind, const char *name, bool open)
{
    size_t place;
    zlink_send_gate_t *gate = find(gates, kind, name, &place);
    if (!gate) {
        size_t size = strlen(name) + 1;
        if (!open || gates->count == ZLINK_SEND_GATES_MAX)
            return;
        gate = zlink_calloc(1, sizeof(*gate) + size);
        if (!gate)
            return;
        gate->kind = (char)kind;
        memcpy(gate->name, name, size);
        atomic_init(&gate->room, (int64_t)ZLINK_SEND_GATE_BYTES);
        gates->count++;
        atomic_store_explicit(&gates->places[place], gate, memory_order_release);
    }
    atomic_store_explicit(&gate->open, open, memory_order_release);
}

static int64_t cost_of(size_t payload_bytes)
{
    return (int64_t)(payload_bytes + ZLINK_SEND_GATE_MESSAGE_COST);
}

zlink_send_gate_t *zlink_send_gates_take(zlink_send_gates_t *gates, zlink_send_gate_kind_t kind, const char *name,
                                         size_t payload_bytes)
{
    size_t place;
    zlink_send_gate_t *gate = find(gates, kind, name, &place);
    if (!gate || !atomic_load_explicit(&gate->open, memory_order_acquire))
        return NULL;
    int64_t cost = cost_of(payload_bytes);
    int64_t room = atomic_load_explicit(&gate->room, memory_order_relaxed);
    do {
        if (room < cost)
            return NULL;
    } while (!atomic_compare_exchange_weak_explicit(&gate->room, &room, room - cost, memory_order_relaxed,
                                                    memory_order_relaxed));
    return gate;
}

void zlink_send_gate_give_back(zlink_send_gate_t *gate, size_t payload_bytes)
{
    atomic_fetch_add_explicit(&gate->room, cost_of(payload_bytes), memory_order_relaxed);
}
