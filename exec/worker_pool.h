/*
 * exec/worker_pool.h: the threads that run all application work of a process (contract 003 §10 and §12).
 *
 * As many workers as cores, never more for more owners. An owner has a home worker, so that its state stays in one
 * core's cache ("pinned, with stealing at turn boundaries"): ready owners stand in their home's ring, in the order of
 * exec/ready_ring.h, and a worker with nothing to do takes the oldest owner of another ring that has no waiting
 * handler. An owner whose home sleeps moves to the worker that makes it ready. A handler that waits is parked on its
 * own stack and always goes on on the worker where it started.
 *
 * Create and destroy on an ordinary thread; the rest says who may call it.
 */
#ifndef ZLINK_EXEC_WORKER_POOL_H
#define ZLINK_EXEC_WORKER_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zlink/status.h>

#include "base/clock.h"
#include "base/refusal.h"
#include "base/timer_wheel.h"
#include "exec/work_item.h"

typedef struct zlink_worker_pool zlink_worker_pool_t;

/* For tests: takes the place of threads, futexes and chance. Then no thread is started; zlink_worker_pool_step drives
 * the workers, all on the calling thread, which is the only one that may use the pool. */
typedef struct zlink_scheduler {
    /* Which of `count` ready owners a worker runs next, from 0; NULL: as the ring has it. */
    unsigned (*pick)(void *context, unsigned count);
    void (*wake)(void *context, unsigned worker); /* it sleeps and is to be stepped again */
    void *context;
} zlink_scheduler_t;

#define ZLINK_SPIN_OFF UINT32_MAX

typedef struct zlink_worker_pool_options {
    unsigned cores;       /* that the process may use; 0 = as it finds them */
    unsigned workers;     /* 0 = as many as cores; at most 1,024 */
    size_t stack_bytes;   /* of a handler; 0 = 64 KiB (256 KiB and never less under sanitizers); 16 KiB..8 MiB */
    unsigned stacks_max;  /* live at once in the whole pool, one per worker included; 0 = 65,536, or fewer (see stats)
                             where a guard page costs a mapping */
    uint32_t spin_us_max; /* a worker without work looks for so long at most before it sleeps, and only where more cores
                             are there than workers awake and one thread that submits to them (so never with two cores);
                             0 = 20; at most 1,000; or ZLINK_SPIN_OFF. Never under a scheduler */
    const zlink_clock_t *clock;         /* NULL = the system's */
    const zlink_scheduler_t *scheduler; /* NULL = threads; must outlive the pool */
} zlink_worker_pool_options_t;

/* ZLINK_INVALID_OPERATION for an option out of range, ZLINK_CAPACITY_EXCEEDED for memory, stacks or threads; the line
 * in `why` names it. */
zlink_status_t zlink_worker_pool_create(const zlink_worker_pool_options_t *options, zlink_worker_pool_t **pool,
                                        zlink_refusal_t *why);

/* Every queue must be closed (its `closed` called or running) or idle, and no other thread inside a call that submits
 * or completes something. Joins the threads. Not on a worker. */
void zlink_worker_pool_destroy(zlink_worker_pool_t *pool);

/* Under a scheduler: the worker runs one item, or ends a slice. False: it has found nothing and sleeps until it is
 * woken or a deadline has come; to step it all the same is to wake it for no reason. Not from inside a step. */
bool zlink_worker_pool_step(zlink_worker_pool_t *pool, unsigned worker);

/* The worker of the calling thread, NULL off the pool. */
zlink_worker_t *zlink_worker_current(void);

/* Timers for the waits of handlers: on `worker`'s own thread only. They fire there, outside every turn. Resolution 1 ms
 * of the pool's clock. */
void zlink_worker_timer_start(zlink_worker_t *worker, zlink_timer_t *timer, uint64_t deadline_ms);
void zlink_worker_timer_cancel(zlink_worker_t *worker, zlink_timer_t *timer);

/* The deadlines that all Spots share. They expire on any worker, outside every turn. */
struct zlink_deadline_scheduler *zlink_worker_pool_deadlines(zlink_worker_pool_t *pool);

/* For a clock that does not go by itself: every sleeping worker looks at it again. Any thread. */
void zlink_worker_pool_clock_moved(zlink_worker_pool_t *pool);

typedef struct zlink_worker_pool_stats {
    unsigned workers;
    uint64_t items;       /* runs of work items, resumes included */
    uint64_t suspensions; /* waits that parked, of either mode */
    uint64_t steals;
    uint64_t sleeps;      /* ended ones and those that last, each a wait in the kernel */
    uint64_t spins;       /* times that a worker looked for work before it slept … */
    uint64_t spins_found; /* … and something came */
    uint64_t stacks_live; /* in use: one per worker, one per reserved wait, one per parked handler */
    uint64_t stacks_high_water;
    uint64_t stacks_max;
    size_t stack_bytes;
    bool guard_install; /* guard pages cost no mapping on this kernel */
} zlink_worker_pool_stats_t;

/* Any thread; the numbers are a moment old. */
void zlink_worker_pool_stats(const zlink_worker_pool_t *pool, zlink_worker_pool_stats_t *stats);

#endif
