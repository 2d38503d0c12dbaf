/*
 * exec/spot_serial_executor.h: decides on which queue each piece of a Spot's work runs (contract 000 §2 to §4).
 *
 * One per Spot, embedded in it. Any thread may submit; no caller names a queue. An accepted turn (ZLINK_OK) gets
 * `ended` exactly once; a refused one stays the caller's and does not.
 */
#ifndef ZLINK_EXEC_SPOT_SERIAL_EXECUTOR_H
#define ZLINK_EXEC_SPOT_SERIAL_EXECUTOR_H

#include <stdbool.h>
#include <stdint.h>

#include <zlink/status.h>

#include "exec/execution_lane_policy.h"
#include "exec/serial_execution_queue.h"
#include "exec/turn.h"
#include "exec/worker_pool.h"

typedef enum zlink_spot_execution_kind {
    ZLINK_EXECUTION_INSTANCE = 0, /* one gate for the whole Spot; its handlers may yield */
} zlink_spot_execution_kind_t;

typedef struct zlink_spot_serial_executor zlink_spot_serial_executor_t;
typedef void (*zlink_spot_serial_executor_closed_t)(zlink_spot_serial_executor_t *executor);

struct zlink_spot_serial_executor {
    zlink_serial_execution_queue_t queue;
    zlink_execution_lane_policy_t policy;
    zlink_spot_execution_kind_t kind;
    _Atomic zlink_spot_serial_executor_closed_t closed;
};

/* Copies `policy`. ZLINK_INVALID_OPERATION where the policy or the kind is not valid. */
zlink_status_t zlink_spot_serial_executor_init(zlink_spot_serial_executor_t *executor, zlink_worker_pool_t *pool,
                                               const zlink_execution_lane_policy_t *policy,
                                               zlink_spot_execution_kind_t kind);

/* Handler work. ZLINK_CAPACITY_EXCEEDED or ZLINK_SHUTTING_DOWN where it is refused. */
zlink_status_t zlink_spot_serial_executor_execute_spot(zlink_spot_serial_executor_t *executor, zlink_turn_t *turn,
                                                       uint64_t payload_bytes);

/* Life-time control: overtakes queued handler work; offers no yield. The executor must stay until the call returns. */
zlink_status_t zlink_spot_serial_executor_execute_lifecycle(zlink_spot_serial_executor_t *executor, zlink_turn_t *turn);

/* Nothing new; what was accepted runs; then `closed` (may be NULL) once, on a worker: the executor may be freed there.
 * Idempotent: the first call's callback counts. */
void zlink_spot_serial_executor_close(zlink_spot_serial_executor_t *executor,
                                      zlink_spot_serial_executor_closed_t closed);

/* Does the calling thread hold a turn of this Spot right now? */
bool zlink_spot_serial_executor_is_current(const zlink_spot_serial_executor_t *executor);

#endif
