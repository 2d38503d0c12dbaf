#include "server/mesh/pending_operations.h"

#include <assert.h>

#include "base/counters.h"
#include "base/domain.h"
#include "base/memory.h"

ZLINK_COUNTER_DEFINE(inflight, ZLINK_GAUGE, "zlink.requests.inflight", "Requests to peers that wait for their reply");

#define NONE           UINT32_MAX
#define CAPACITY_FIRST 64u
#define SLOT_BITS      23u
#define SLOT_MASK      ((UINT64_C(1) << SLOT_BITS) - 1)

void zlink_pending_operations_init(zlink_pending_operations_t *operations, uint32_t limit)
{
    assert(limit > 0 && limit <= SLOT_MASK);
    *operations = (zlink_pending_operations_t){.limit = limit, .first_free = NONE};
}

void zlink_pending_operations_destroy(zlink_pending_operations_t *operations)
{
    assert(operations->count == 0);
    zlink_free(operations->slots);
    *operations = (zlink_pending_operations_t){.first_free = NONE};
}

static zlink_status_t grow(zlink_pending_operations_t *operations)
{
    uint32_t capacity = operations->capacity ? operations->capacity * 2 : CAPACITY_FIRST;
    if (capacity > operations->limit)
        capacity = operations->limit;
    if (capacity == operations->capacity)
        return ZLINK_CAPACITY_EXCEEDED;
    zlink_pending_slot_t *slots = zlink_realloc(operations->slots, capacity * sizeof(*slots));
    if (!slots)
        return ZLINK_CAPACITY_EXCEEDED;
    for (uint32_t i = operations->capacity; i < capacity; i++)
        slots[i] = (zlink_pending_slot_t){.next_free = i + 1 < capacity ? i + 1 : NONE};
    operations->first_free = operations->capacity;
    operations->slots = slots;
    operations->capacity = capacity;
    return ZLINK_OK;
}

zlink_status_t zlink_pending_operations_register(zlink_pending_operations_t *operations, zlink_outbound_call_t *call)
{
    if (zlink_domain_throw_if_application() != ZLINK_OK)
        return ZLINK_INVALID_OPERATION;
    if (operations->first_free == NONE && grow(operations) != ZLINK_OK)
        return ZLINK_CAPACITY_EXCEEDED;
    uint32_t index = operations->first_free;
    zlink_pending_slot_t *slot = &operations->slots[index];
    operations->first_free = slot->next_free;
    operations->rounds++; /* starts at 1, so no id is 0 */
    call->reply_route_id = operations->rounds << SLOT_BITS | index;
    slot->call = call;
    slot->reply_route_id = call->reply_route_id;
    operations->count++;
    zlink_counter_add(&inflight, 1);
    return ZLINK_OK;
}

zlink_outbound_call_t *zlink_pending_operations_find(const zlink_pending_operations_t *operations,
                                                     uint64_t reply_route_id)
{
    uint64_t index = reply_route_id & SLOT_MASK;
    if (reply_route_id == 0 || index >= operations->capacity)
        return NULL;
    const zlink_pending_slot_t *slot = &operations->slots[index];
    return slot->reply_route_id == reply_route_id ? slot->call : NULL;
}

zlink_outbound_call_t *zlink_pending_operations_take(zlink_pending_operations_t *operations, uint64_t reply_route_id)
{
    zlink_outbound_call_t *call = zlink_pending_operations_find(operations, reply_route_id);
    if (!call)
        return NULL;
    uint32_t index = (uint32_t)(reply_route_id & SLOT_MASK);
    operations->slots[index] = (zlink_pending_slot_t){.next_free = operations->first_free};
    operations->first_free = index;
    operations->count--;
    zlink_counter_add(&inflight, -1);
    return call;
}

zlink_outbound_call_t *zlink_pending_operations_any(zlink_pending_operations_t *operations)
{
    if (operations->count == 0)
        return NULL;
    for (;; operations->cursor++) {
        if (operations->cursor >= operations->capacity)
            operations->cursor = 0;
        if (operations->slots[operations->cursor].call)
            return operations->slots[operations->cursor].call;
    }
}
