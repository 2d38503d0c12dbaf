#include "exec/spot_serial_executor.h"

#include <assert.h>
#include <stddef.h>

#include "base/container_of.h"

zlink_status_t zlink_spot_serial_executor_init(zlink_spot_serial_executor_t *executor, zlink_worker_pool_t *pool,
                                               const zlink_execution_lane_policy_t *policy,
                                               zlink_spot_execution_kind_t kind)
{
    const char *field;

    if (kind != ZLINK_EXECUTION_INSTANCE || zlink_execution_lane_policy_validate(policy, &field) != ZLINK_OK)
        return ZLINK_INVALID_OPERATION;
    executor->policy = *policy;
    executor->kind = kind;
    atomic_init(&executor->closed, NULL);
    zlink_serial_execution_queue_init(&executor->queue, pool, &executor->policy);
    return ZLINK_OK;
}

static void enter(zlink_spot_serial_executor_t *executor, zlink_turn_t *turn, bool yield_offered)
{
    turn->queue = &executor->queue;
    turn->owner = executor;
    turn->yield_offered = yield_offered;
}

zlink_status_t zlink_spot_serial_executor_execute_spot(zlink_spot_serial_executor_t *executor, zlink_turn_t *turn,
                                                       uint64_t payload_bytes)
{
    enter(executor, turn, executor->kind == ZLINK_EXECUTION_INSTANCE);
    return zlink_serial_execution_queue_enqueue_with_payload_bytes(&executor->queue, &turn->item, payload_bytes);
}

zlink_status_t zlink_spot_serial_executor_execute_lifecycle(zlink_spot_serial_executor_t *executor, zlink_turn_t *turn)
{
    enter(executor, turn, false);
    return zlink_serial_execution_queue_enqueue_lifecycle(&executor->queue, &turn->item);
}

static void nobody_is_told(zlink_spot_serial_executor_t *executor)
{
    (void)executor;
}

static void queue_closed(zlink_serial_execution_queue_t *queue)
{
    zlink_spot_serial_executor_t *executor = ZLINK_CONTAINER_OF(queue, zlink_spot_serial_executor_t, queue);
    atomic_load (&executor->closed)(executor);
}

void zlink_spot_serial_executor_close(zlink_spot_serial_executor_t *executor,
                                      zlink_spot_serial_executor_closed_t closed)
{
    zlink_spot_serial_executor_closed_t none = NULL;

    if (atomic_compare_exchange_strong(&executor->closed, &none, closed ? closed : nobody_is_told))
        zlink_serial_execution_queue_close(&executor->queue, queue_closed);
}

bool zlink_spot_serial_executor_is_current(const zlink_spot_serial_executor_t *executor)
{
    return zlink_serial_execution_queue_is_current(&executor->queue);
}
