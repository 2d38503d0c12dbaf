#include "exec/channel_serial_executor.h"

#include <stddef.h>

#include "base/container_of.h"

zlink_status_t zlink_channel_serial_executor_init(zlink_channel_serial_executor_t *executor, zlink_worker_pool_t *pool,
                                                  const zlink_execution_lane_policy_t *policy)
{
    const char *field;

    if (zlink_execution_lane_policy_validate(policy, &field) != ZLINK_OK)
        return ZLINK_INVALID_OPERATION;
    executor->policy = *policy;
    zlink_execution_owner_init(&executor->owner);
    atomic_init(&executor->closed, NULL);
    zlink_serial_execution_queue_init(&executor->queue, pool, &executor->policy);
    return ZLINK_OK;
}

static void enter(zlink_channel_serial_executor_t *executor, zlink_turn_t *turn)
{
    zlink_turn_enter(turn, &executor->queue, &executor->owner, &executor->owner);
}

zlink_status_t zlink_channel_serial_executor_execute_channel(zlink_channel_serial_executor_t *executor,
                                                             zlink_turn_t *turn, uint64_t payload_bytes)
{
    enter(executor, turn);
    return zlink_serial_execution_queue_enqueue_with_payload_bytes(&executor->queue, &turn->item, payload_bytes);
}

zlink_status_t zlink_channel_serial_executor_await_room(zlink_channel_serial_executor_t *executor,
                                                        zlink_room_waiter_t *waiter)
{
    return zlink_serial_execution_queue_await_room(&executor->queue, waiter);
}

zlink_status_t zlink_channel_serial_executor_execute_lifecycle(zlink_channel_serial_executor_t *executor,
                                                               zlink_turn_t *turn)
{
    enter(executor, turn);
    return zlink_serial_execution_queue_enqueue_lifecycle(&executor->queue, &turn->item);
}

static void nobody_is_told(zlink_channel_serial_executor_t *executor)
{
    (void)executor;
}

static void queue_closed(zlink_serial_execution_queue_t *queue)
{
    zlink_channel_serial_executor_t *executor = ZLINK_CONTAINER_OF(queue, zlink_channel_serial_executor_t, queue);
    atomic_load (&executor->closed)(executor);
}

void zlink_channel_serial_executor_close(zlink_channel_serial_executor_t *executor,
                                         zlink_channel_serial_executor_closed_t closed)
{
    zlink_channel_serial_executor_closed_t none = NULL;

    if (!atomic_compare_exchange_strong(&executor->closed, &none, closed ? closed : nobody_is_told))
        return;
    atomic_fetch_or(&executor->owner.state, ZLINK_OWNER_CLOSED);
    zlink_serial_execution_queue_close(&executor->queue, queue_closed);
}

zlink_wait_target_t zlink_channel_serial_executor_wait_target(const zlink_channel_serial_executor_t *executor)
{
    return (zlink_wait_target_t){.gate = &executor->queue};
}

bool zlink_channel_serial_executor_is_current(const zlink_channel_serial_executor_t *executor)
{
    return zlink_serial_execution_queue_is_current(&executor->queue);
}
