/*
 * exec/channel_serial_executor.h: the serial queue and gate of one ChannelName's handlers (contract 003 §2, EX-99).
 *
 * One per channel that a node serves, embedded by its owner; node handlers have one too. Any thread may submit. An
 * accepted turn (ZLINK_OK) gets `ended` exactly once; a refused one stays the caller's and does not. No turn of it may
 * yield; an async wait keeps the gate.
 */
#ifndef ZLINK_EXEC_CHANNEL_SERIAL_EXECUTOR_H
#define ZLINK_EXEC_CHANNEL_SERIAL_EXECUTOR_H

#include <stdbool.h>
#include <stdint.h>

#include <zlink/status.h>

#include "exec/execution_lane_policy.h"
#include "exec/execution_owner.h"
#include "exec/serial_execution_queue.h"
#include "exec/turn.h"
#include "exec/worker_pool.h"

typedef struct zlink_channel_serial_executor zlink_channel_serial_executor_t;
typedef void (*zlink_channel_serial_executor_closed_t)(zlink_channel_serial_executor_t *executor);

struct zlink_channel_serial_executor {
    zlink_serial_execution_queue_t queue;
    zlink_execution_lane_policy_t policy;
    zlink_execution_owner_t owner;
    _Atomic zlink_channel_serial_executor_closed_t closed;
};

/* Copies `policy`. ZLINK_INVALID_OPERATION where it is not valid. */
zlink_status_t zlink_channel_serial_executor_init(zlink_channel_serial_executor_t *executor, zlink_worker_pool_t *pool,
                                                  const zlink_execution_lane_policy_t *policy);

/* Handler work. ZLINK_CAPACITY_EXCEEDED or ZLINK_SHUTTING_DOWN where it is refused. */
zlink_status_t zlink_channel_serial_executor_execute_channel(zlink_channel_serial_executor_t *executor,
                                                             zlink_turn_t *turn, uint64_t payload_bytes);

/* After execute_channel was ZLINK_CAPACITY_EXCEEDED because its lane is full: see exec/room_line.h. Who waits counts as
 * work of the channel: it is closed only after he has left. */
zlink_status_t zlink_channel_serial_executor_await_room(zlink_channel_serial_executor_t *executor,
                                                        zlink_room_waiter_t *waiter);

/* Start and end callbacks: overtake queued handler work. The executor must stay until the call returns. */
zlink_status_t zlink_channel_serial_executor_execute_lifecycle(zlink_channel_serial_executor_t *executor,
                                                               zlink_turn_t *turn);

/* Nothing new; what was accepted runs; then `closed` (may be NULL) once, on a worker: the executor may be freed there.
 * Idempotent: the first call's callback counts. */
void zlink_channel_serial_executor_close(zlink_channel_serial_executor_t *executor,
                                         zlink_channel_serial_executor_closed_t closed);

/* For zlink_turn_check_wait: a wait for a handler of this channel. */
zlink_wait_target_t zlink_channel_serial_executor_wait_target(const zlink_channel_serial_executor_t *executor);

/* Does the calling thread hold a turn of this channel right now? */
bool zlink_channel_serial_executor_is_current(const zlink_channel_serial_executor_t *executor);

#endif
