/*
 * exec/work_item.h: one piece of work on a serial execution queue (contract 000 §6.7).
 *
 * The queue drives an item by calling `run`, which answers how it ended. The item belongs to whoever submitted it until
 * it is accepted, then to the queue until `run` answers ZLINK_WORK_DONE; after that answer the queue does not touch it
 * again, so `run` itself may free it. An item that answered ZLINK_WORK_SUSPENDED or ZLINK_WORK_HELD is out of the
 * queue, still holds its reservation, and comes back by zlink_serial_execution_queue_resume or …_resume_held, which may
 * be called on any thread, once, even before `run` has returned; then `run` is called again on the same worker.
 */
#ifndef ZLINK_EXEC_WORK_ITEM_H
#define ZLINK_EXEC_WORK_ITEM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct zlink_work_item zlink_work_item_t;
typedef struct zlink_worker zlink_worker_t;

/* What an item's reservation is charged to. */
typedef enum zlink_execution_lane {
    ZLINK_LANE_APPLICATION = 0,
    ZLINK_LANE_LIFECYCLE,
    ZLINK_LANE_NONE, /* nothing reserved: the barrier slot and marks */
} zlink_execution_lane_t;

typedef enum zlink_work_result {
    ZLINK_WORK_DONE = 0,  /* ended; its reservation goes back */
    ZLINK_WORK_SUSPENDED, /* gave the gate back and waits; the queue goes on with the next item */
    ZLINK_WORK_HELD,      /* waits and keeps the gate; the queue stands still, the worker goes on with other owners */
} zlink_work_result_t;

/* Runs on `worker`'s thread, on a turn of the queue. */
typedef zlink_work_result_t (*zlink_work_run_t)(zlink_work_item_t *item, zlink_worker_t *worker);

/* Set `run`; the rest is the queue's. */
struct zlink_work_item {
    zlink_work_item_t *next;
    zlink_work_run_t run;
    uint64_t reserved_bytes : 40; /* set at admission */
    uint8_t lane;                 /* zlink_execution_lane_t, set at admission */
    uint8_t epoch;                /* of the queue when the item first ran: which await_quiescence it holds up */
    bool resumed;                 /* it is in the queue as a resume record */
};

#endif
