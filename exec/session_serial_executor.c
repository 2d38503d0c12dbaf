/*
 * How the final work comes last: `unended` counts what was accepted, and one more until close. Who would raise it from
 * zero is refused, so when it has come down to zero nothing else can come, and the final turn goes into the barrier
 * slot, where nothing is reserved. When that has ended, the queue is closed.
 */
#include "exec/session_serial_executor.h"

#include <assert.h>
#include <stddef.h>

#include "base/container_of.h"

/* What stands in `final_turn` once it was taken: no turn, but not none either. */
#define NO_MORE ((zlink_turn_t *)(uintptr_t)1)

zlink_status_t zlink_session_serial_executor_init(zlink_session_serial_executor_t *executor, zlink_worker_pool_t *pool,
                                                  const zlink_execution_lane_policy_t *policy)
{
    const char *field;

    if (zlink_execution_lane_policy_validate(policy, &field) != ZLINK_OK)
        return ZLINK_INVALID_OPERATION;
    executor->policy = policy;
    zlink_execution_owner_init(&executor->owner);
    atomic_init(&executor->unended, 1);
    atomic_init(&executor->final_turn, NULL);
    atomic_init(&executor->closed, NULL);
    zlink_serial_execution_queue_init(&executor->queue, pool, policy);
    return ZLINK_OK;
}

/* ---- the end ---- */

static void nobody_is_told(zlink_session_serial_executor_t *executor)
{
    (void)executor;
}

static void queue_closed(zlink_serial_execution_queue_t *queue)
{
    zlink_session_serial_executor_t *executor = ZLINK_CONTAINER_OF(queue, zlink_session_serial_executor_t, queue);
    atomic_load (&executor->closed)(executor);
}

static zlink_session_serial_executor_t *executor_of(const zlink_execution_owner_t *owner)
{
    return ZLINK_CONTAINER_OF((uintptr_t)owner, zlink_session_serial_executor_t, owner);
}

static void final_has_left(const zlink_execution_owner_t *owner)
{
    zlink_serial_execution_queue_close(&executor_of(owner)->queue, queue_closed);
}

static void count_down(zlink_session_serial_executor_t *executor)
{
    if (atomic_fetch_sub(&executor->unended, 1) != 1)
        return;
    zlink_turn_t *turn = atomic_exchange(&executor->final_turn, NO_MORE);
    if (!turn) {
        zlink_serial_execution_queue_close(&executor->queue, queue_closed);
        return;
    }
    zlink_turn_enter(turn, &executor->queue, &executor->owner, &executor->owner);
    turn->left = final_has_left;
    zlink_status_t status = zlink_serial_execution_queue_enqueue_barrier_next(&executor->queue, &turn->item);
    assert(status == ZLINK_OK && "nobody has closed the queue yet");
    (void)status;
}

static void turn_has_left(const zlink_execution_owner_t *owner)
{
    count_down(executor_of(owner));
}

/* ---- work ---- */

/* False: closed, and everything has ended. */
static bool count_up(zlink_session_serial_executor_t *executor)
{
    uint32_t seen = atomic_load(&executor->unended);

    do {
        if (seen == 0)
            return false;
    } while (!atomic_compare_exchange_weak(&executor->unended, &seen, seen + 1));
    return true;
}

static zlink_status_t submit(zlink_session_serial_executor_t *executor, zlink_turn_t *turn, uint64_t payload_bytes,
                             bool lifecycle)
{
    if (zlink_execution_owner_admit(&executor->owner) != ZLINK_OK || !count_up(executor))
        return ZLINK_SHUTTING_DOWN;
    zlink_turn_enter(turn, &executor->queue, &executor->owner, &executor->owner);
    turn->left = turn_has_left;
    zlink_status_t status =
        lifecycle
            ? zlink_serial_execution_queue_enqueue_lifecycle(&executor->queue, &turn->item)
            : zlink_serial_execution_queue_enqueue_with_payload_bytes(&executor->queue, &turn->item, payload_bytes);
    if (status != ZLINK_OK)
        count_down(executor);
    return status;
}

zlink_status_t zlink_session_serial_executor_execute_application(zlink_session_serial_executor_t *executor,
                                                                 zlink_turn_t *turn, uint64_t payload_bytes)
{
    return submit(executor, turn, payload_bytes, false);
}

zlink_status_t zlink_session_serial_executor_execute_control(zlink_session_serial_executor_t *executor,
                                                             zlink_turn_t *turn)
{
    return submit(executor, turn, 0, true);
}

zlink_status_t zlink_session_serial_executor_execute_infrastructure(zlink_session_serial_executor_t *executor,
                                                                    zlink_turn_t *turn)
{
    return submit(executor, turn, 0, true);
}

zlink_status_t zlink_session_serial_executor_execute_final(zlink_session_serial_executor_t *executor,
                                                           zlink_turn_t *turn)
{
    zlink_turn_t *none = NULL;

    if (zlink_execution_owner_admit(&executor->owner) != ZLINK_OK)
        return ZLINK_SHUTTING_DOWN;
    if (atomic_compare_exchange_strong(&executor->final_turn, &none, turn))
        return ZLINK_OK;
    return none == NO_MORE ? ZLINK_SHUTTING_DOWN : ZLINK_INVALID_OPERATION;
}

void zlink_session_serial_executor_close(zlink_session_serial_executor_t *executor,
                                         zlink_session_serial_executor_closed_t closed)
{
    zlink_session_serial_executor_closed_t none = NULL;

    if (!atomic_compare_exchange_strong(&executor->closed, &none, closed ? closed : nobody_is_told))
        return;
    atomic_fetch_or(&executor->owner.state, ZLINK_OWNER_CLOSED);
    count_down(executor);
}

/* ---- questions ---- */

bool zlink_session_serial_executor_is_current(const zlink_session_serial_executor_t *executor)
{
    return zlink_serial_execution_queue_is_current(&executor->queue);
}

zlink_wait_target_t zlink_session_serial_executor_wait_target(const zlink_session_serial_executor_t *executor)
{
    return (zlink_wait_target_t){.gate = &executor->queue};
}
