#include "exec/actor_serial_executor.h"

#include <assert.h>
#include <stddef.h>

#include "base/container_of.h"
#include "exec/worker.h"

zlink_status_t zlink_actor_serial_executor_init(zlink_actor_serial_executor_t *executor, zlink_worker_pool_t *pool,
                                                const zlink_execution_lane_policy_t *policy, const char *actor_id)
{
    const char *field;

    if (!zlink_name_map_takes(actor_id) || zlink_execution_lane_policy_validate(policy, &field) != ZLINK_OK)
        return ZLINK_INVALID_OPERATION;
    zlink_serial_execution_queue_init(&executor->queue, pool, policy);
    zlink_execution_owner_init(&executor->owner);
    executor->entry = (zlink_name_entry_t){.name = actor_id};
    atomic_init(&executor->closed, NULL);
    atomic_init(&executor->joins, 0);
    executor->made_by_spot = false;
    return ZLINK_OK;
}

/* ---- work ---- */

/* Under whom it runs now: its Spot's coordinator or itself. For comparison only. */
static const zlink_execution_owner_t *coordinator_of(const zlink_actor_serial_executor_t *executor)
{
    const zlink_execution_owner_t *above = atomic_load_explicit(&executor->owner.above, memory_order_relaxed);
    return above ? above : &executor->owner;
}

zlink_status_t zlink_actor_serial_executor_enter(zlink_actor_serial_executor_t *executor, zlink_turn_t *turn,
                                                 uint64_t payload_bytes, const zlink_execution_owner_t *coordinator)
{
    zlink_status_t status = zlink_execution_owner_admit(&executor->owner);
    if (status != ZLINK_OK)
        return status;
    zlink_turn_enter(turn, &executor->queue, &executor->owner, coordinator);
    turn->yield = ZLINK_YIELD_BEHIND_GATE;
    turn->defer_offered = true;
    return zlink_serial_execution_queue_enqueue_with_payload_bytes(&executor->queue, &turn->item, payload_bytes);
}

zlink_status_t zlink_actor_serial_executor_execute_actor(zlink_actor_serial_executor_t *executor, zlink_turn_t *turn,
                                                         uint64_t payload_bytes)
{
    return zlink_actor_serial_executor_enter(executor, turn, payload_bytes, coordinator_of(executor));
}

zlink_status_t zlink_actor_serial_executor_execute_lifecycle(zlink_actor_serial_executor_t *executor,
                                                             zlink_turn_t *turn)
{
    zlink_turn_enter(turn, &executor->queue, &executor->owner, coordinator_of(executor));
    return zlink_serial_execution_queue_enqueue_lifecycle(&executor->queue, &turn->item);
}

zlink_status_t zlink_actor_serial_executor_execute_barrier(zlink_actor_serial_executor_t *executor, zlink_turn_t *turn)
{
    zlink_turn_enter(turn, &executor->queue, &executor->owner, coordinator_of(executor));
    turn->yield = ZLINK_YIELD_BEHIND_GATE;
    return zlink_serial_execution_queue_enqueue_barrier_next(&executor->queue, &turn->item);
}

/* ---- sealing and the end ---- */

void zlink_actor_serial_executor_seal(zlink_actor_serial_executor_t *executor)
{
    atomic_fetch_or(&executor->owner.state, ZLINK_OWNER_SEALED);
}

void zlink_actor_serial_executor_unseal(zlink_actor_serial_executor_t *executor)
{
    atomic_fetch_and(&executor->owner.state, (uint8_t)~ZLINK_OWNER_SEALED);
}

static void nobody_is_told(zlink_actor_serial_executor_t *executor)
{
    (void)executor;
}

static void queue_closed(zlink_serial_execution_queue_t *queue)
{
    zlink_actor_serial_executor_t *executor = ZLINK_CONTAINER_OF(queue, zlink_actor_serial_executor_t, queue);
    zlink_actor_serial_executor_closed_t closed = atomic_load(&executor->closed);
    closed(executor);
}

void zlink_actor_serial_executor_close(zlink_actor_serial_executor_t *executor,
                                       zlink_actor_serial_executor_closed_t closed)
{
    zlink_actor_serial_executor_closed_t none = NULL;

    if (!atomic_compare_exchange_strong(&executor->closed, &none, closed ? closed : nobody_is_told))
        return;
    assert(!atomic_load(&executor->owner.above) && "a member ends with its Spot");
    atomic_fetch_or(&executor->owner.state, ZLINK_OWNER_CLOSED);
    zlink_serial_execution_queue_close(&executor->queue, queue_closed);
}

/* ---- questions ---- */

bool zlink_actor_serial_executor_is_current(const zlink_actor_serial_executor_t *executor)
{
    return zlink_serial_execution_queue_is_current(&executor->queue);
}

zlink_wait_target_t zlink_actor_serial_executor_wait_target(const zlink_actor_serial_executor_t *executor)
{
    return (zlink_wait_target_t){.gate = &executor->queue, .claim = &executor->queue};
}

zlink_status_t zlink_actor_serial_executor_state_snapshot(const zlink_actor_serial_executor_t *executor,
                                                          zlink_actor_state_snapshot_t *snapshot)
{
    if (!zlink_serial_execution_queue_is_current(&executor->queue))
        return ZLINK_INVALID_OPERATION;
    snapshot->actor_id = executor->entry.name;
    snapshot->member_of = atomic_load_explicit(&executor->owner.above, memory_order_relaxed);
    snapshot->shares_gate = zlink_worker_current()->driving != &executor->queue;
    return ZLINK_OK;
}
