/*
 * exec/serial_execution_queue_drain.h: the worker's side of a queue: acquire it, run it item by item, let it go.
 * Private to exec. All of it on the thread of the worker that drives the queue.
 */
#ifndef ZLINK_EXEC_SERIAL_EXECUTION_QUEUE_DRAIN_H
#define ZLINK_EXEC_SERIAL_EXECUTION_QUEUE_DRAIN_H

#include "exec/lane_word.h"
#include "exec/worker.h"

/* `queue` came out of a ready ring: its authority is the worker's now (worker->driving). */
void zlink_serial_execution_queue_begin_slice(zlink_serial_execution_queue_t *queue, zlink_worker_t *worker);

/* The next item to run, entered as worker->item. NULL: the slice is over, worker->driving is NULL, and the queue must
 * not be touched any more. */
zlink_work_item_t *zlink_serial_execution_queue_next(zlink_worker_t *worker);

/* The `run` of a gated queue's turn record: one item of that queue, on a turn of its gate. */
zlink_work_result_t zlink_serial_execution_queue_run_turn(zlink_work_item_t *record, zlink_worker_t *worker);

/* What running worker->item has answered. */
void zlink_serial_execution_queue_ran(zlink_worker_t *worker, zlink_work_result_t result);

/* serial_execution_queue.c: `scheduled` was set by the caller: puts the queue where a worker finds it, a gated queue's
 * record on its gate. */
void zlink_serial_execution_queue_post(zlink_serial_execution_queue_t *queue);

#endif
