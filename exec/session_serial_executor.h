/*
 * exec/session_serial_executor.h: the serial queue of one STREAM session (contract 000 §2 and §3).
 *
 * One per session, embedded in it; one queue, no map. Any thread may submit; no caller names the queue. An accepted
 * turn (ZLINK_OK) gets `ended` exactly once; a refused one stays the caller's and does not. Control and infrastructure
 * work goes to the lifecycle lane and so overtakes packets; the final work has a place of its own, which is never full,
 * and runs when the session was closed and everything else has ended. No turn may yield.
 */
#ifndef ZLINK_EXEC_SESSION_SERIAL_EXECUTOR_H
#define ZLINK_EXEC_SESSION_SERIAL_EXECUTOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <zlink/status.h>

#include "exec/execution_lane_policy.h"
#include "exec/execution_owner.h"
#include "exec/serial_execution_queue.h"
#include "exec/turn.h"
#include "exec/worker_pool.h"

typedef struct zlink_session_serial_executor zlink_session_serial_executor_t;
typedef void (*zlink_session_serial_executor_closed_t)(zlink_session_serial_executor_t *executor);

/* All fields private. */
struct zlink_session_serial_executor {
    zlink_serial_execution_queue_t queue;
    const zlink_execution_lane_policy_t *policy;
    zlink_execution_owner_t owner;
    _Atomic uint32_t unended; /* accepted turns that have not ended, the final one not counted; plus one until close */
    _Atomic(zlink_turn_t *) final_turn;
    _Atomic zlink_session_serial_executor_closed_t closed;
};

/* `policy` must outlive it. ZLINK_INVALID_OPERATION where it is not valid. */
zlink_status_t zlink_session_serial_executor_init(zlink_session_serial_executor_t *executor, zlink_worker_pool_t *pool,
                                                  const zlink_execution_lane_policy_t *policy);

/* A packet for the session callback. ZLINK_CAPACITY_EXCEEDED: the lane is full. ZLINK_SHUTTING_DOWN: closed. */
zlink_status_t zlink_session_serial_executor_execute_application(zlink_session_serial_executor_t *executor,
                                                                 zlink_turn_t *turn, uint64_t payload_bytes);

/* A control command of the session. The executor must stay until the call returns. */
zlink_status_t zlink_session_serial_executor_execute_control(zlink_session_serial_executor_t *executor,
                                                             zlink_turn_t *turn);

/* Work from below, as a change of the connection's state. The executor must stay until the call returns. */
zlink_status_t zlink_session_serial_executor_execute_infrastructure(zlink_session_serial_executor_t *executor,
                                                                    zlink_turn_t *turn);

/* The last work, once, before close. ZLINK_INVALID_OPERATION: there is one. ZLINK_SHUTTING_DOWN: closed. */
zlink_status_t zlink_session_serial_executor_execute_final(zlink_session_serial_executor_t *executor,
                                                           zlink_turn_t *turn);

/* Nothing new; what was accepted runs; then the final work; then `closed` (may be NULL) once, on a worker: the executor
 * may be freed there. Idempotent: the first call's callback counts. */
void zlink_session_serial_executor_close(zlink_session_serial_executor_t *executor,
                                         zlink_session_serial_executor_closed_t closed);

/* Does the calling thread hold a turn of this session right now? */
bool zlink_session_serial_executor_is_current(const zlink_session_serial_executor_t *executor);

/* For zlink_turn_check_wait: a wait for something that this session does. */
zlink_wait_target_t zlink_session_serial_executor_wait_target(const zlink_session_serial_executor_t *executor);

#endif
