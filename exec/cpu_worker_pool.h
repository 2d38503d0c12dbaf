/*
 * exec/cpu_worker_pool.h: threads for long computing, beside the workers that run turns.
 *
 * A handler hands work over and waits; no owner is held by the computing itself. Threads are started when there is
 * work and none is free, and end when they have been idle for a while. What finds no thread waits in one bounded FIFO
 * queue; what finds no room there is refused before anything was submitted. Work whose call was decided before a thread
 * took it up is taken out of the queue and never begun.
 *
 * Create, close and destroy on an ordinary thread; the rest says who may call it.
 */
#ifndef ZLINK_EXEC_CPU_WORKER_POOL_H
#define ZLINK_EXEC_CPU_WORKER_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <zlink/status.h>

#include "base/clock.h"
#include "base/container_of.h"
#include "base/refusal.h"
#include "exec/work_call.h"

#define ZLINK_CPU_WORKERS_MAX 1024u

typedef struct zlink_cpu_worker_pool zlink_cpu_worker_pool_t;
typedef struct zlink_cpu_work_item zlink_cpu_work_item_t;

typedef struct zlink_cpu_worker_pool_options {
    unsigned threads_min;       /* started at once and kept when idle */
    unsigned threads_max;       /* at most 1,024; 0 = twice the usable cores, at least 2, and not below threads_min */
    uint32_t idle_timeout_ms;   /* 0 = 30,000 */
    uint32_t queue_items_max;   /* that wait for a thread; 0 = 1,024 */
    uint64_t queue_bytes_max;   /* of what waits or runs; 0 = 64 MiB */
    const zlink_clock_t *clock; /* NULL = the system's */
} zlink_cpu_worker_pool_options_t;

/* Embedded in the record of the work as its first member. */
struct zlink_cpu_work_item {
    zlink_work_call_t call;
    zlink_status_t (*run)(zlink_cpu_work_item_t *item); /* on a thread of the pool; how it ends is the call's end */
    uint64_t bytes;                                     /* of its record */

    zlink_cpu_worker_pool_t *pool; /* from here on private */
    TAILQ_ENTRY(zlink_cpu_work_item) in_queue;
    bool queued;
};

/* ZLINK_INVALID_OPERATION for an option out of range, ZLINK_CAPACITY_EXCEEDED for memory or threads; the line in `why`
 * says which. */
zlink_status_t zlink_cpu_worker_pool_create(const zlink_cpu_worker_pool_options_t *options,
                                            zlink_cpu_worker_pool_t **created, zlink_refusal_t *why);

/* Any thread, with `call` initialised and its wait prepared. ZLINK_OK: the pool holds the item until `run` has
 * returned, or it will not run any more. ZLINK_CAPACITY_EXCEEDED: no room, or no thread to run it. ZLINK_SHUTTING_DOWN:
 * the pool is closed. Refused, it is the caller's as before. */
zlink_status_t zlink_cpu_worker_pool_submit(zlink_cpu_worker_pool_t *pool, zlink_cpu_work_item_t *item);

/* Nothing new. What waits ends with ZLINK_SHUTTING_DOWN; what runs is told to stop. Calls `closed` once, on any thread,
 * when nothing runs any more: how long to wait for that is the caller's business. */
void zlink_cpu_worker_pool_close(zlink_cpu_worker_pool_t *pool, void (*closed)(void *context), void *context);

/* After `closed`, or where nothing was ever submitted. Joins the threads: not on one of them. NULL is allowed. */
void zlink_cpu_worker_pool_destroy(zlink_cpu_worker_pool_t *pool);

/* For a clock that does not go by itself: idle threads look at it again. Any thread. */
void zlink_cpu_worker_pool_clock_moved(zlink_cpu_worker_pool_t *pool);

typedef struct zlink_cpu_worker_pool_stats {
    unsigned threads;
    unsigned threads_max;
    unsigned idle;
    unsigned running;
    uint32_t queued;
} zlink_cpu_worker_pool_stats_t;

/* Any thread. */
void zlink_cpu_worker_pool_stats(zlink_cpu_worker_pool_t *pool, zlink_cpu_worker_pool_stats_t *stats);

/* The item of its call. */
static inline zlink_cpu_work_item_t *zlink_cpu_work_item_of(zlink_work_call_t *call)
{
    return ZLINK_CONTAINER_OF(call, zlink_cpu_work_item_t, call);
}

#endif
