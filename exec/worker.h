/*
 * exec/worker.h: one thread of a worker pool, and the loop that runs owners on it. Private to exec.
 *
 * The loop runs on a pooled stack. It takes a ready queue and drives its items one after the other. A handler that
 * waits leaves its stack behind, the loop's frames below it included; the loop then starts anew on a fresh stack. When
 * the handler is to go on, the loop's current stack is given up and the old one continues. So nothing that the loop
 * needs after an item has run may live in its locals: it is here, or in the queue.
 */
#ifndef ZLINK_EXEC_WORKER_H
#define ZLINK_EXEC_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/timer_wheel.h"
#include "exec/adaptive_spin.h"
#include "exec/coroutine.h"
#include "exec/deadline_scheduler.h"
#include "exec/ready_ring.h"
#include "exec/room_line.h"
#include "exec/serial_execution_queue.h"
#include "exec/stack_pool.h"
#include "exec/turn.h"
#include "exec/worker_pool.h"

#define ZLINK_CACHE_LINE_BYTES 64

/* What `searching` says: somebody is on the way to look into all rings, … */
#define ZLINK_SEARCH_NONE      0u
#define ZLINK_SEARCH_UNDER_WAY 1u
#define ZLINK_SEARCH_SPINS     2u /* … or spins, and looks as soon as it is asked to */

struct zlink_worker {
    /* Any thread. */
    zlink_ready_ring_t ready;
    _Atomic uint32_t sleeping; /* the futex it sleeps on: 1 = asleep or about to be */
    char padding[ZLINK_CACHE_LINE_BYTES];

    /* Its own thread; the numbers may be read by any. */
    zlink_worker_pool_t *pool;
    unsigned index;
    pthread_t thread;

    zlink_serial_execution_queue_t *driving; /* the queue whose authority it holds */
    zlink_work_item_t *item;                 /* the item that runs; NULL between items */
    zlink_serial_execution_queue_t *claimed; /* the gated queue whose item runs on this turn, if it is one's */
    zlink_turn_t *turn;                      /* the same where it is a turn */
    uint64_t item_reserved;                  /* kept from the item, which may be freed when it is done: of its … */
    uint8_t item_lane;                       /* … lane's counters */
    uint8_t item_epoch;
    uint32_t slice_items; /* run since it took the queue up */
    uint64_t slice_started_ns;
    uint64_t released[2]; /* reservations of items that ended, not given back yet, as in the counters; by lane */
    uint32_t released_items;
    uint64_t authorities; /* acquired so far */

    /* Taken from the queue's chain ahead of need, and turned around item by item while others run. */
    zlink_work_item_t *unturned;    /* newest first */
    zlink_work_item_t *turned;      /* oldest first; ends at … */
    zlink_work_item_t *turned_last; /* … the newest of all; NULL: nothing was taken ahead */

    zlink_coroutine_t native;
    zlink_coroutine_t *stack;   /* the loop runs on it */
    zlink_coroutine_t *left;    /* a handler has just left it to wait, and … */
    zlink_work_result_t answer; /* … this is what its run would have answered */
    zlink_coroutine_t *retired; /* given up for a handler that goes on */
    zlink_stack_list_t stacks;
    bool stepped; /* under a scheduler: the last step has found something to do */

    zlink_timer_wheel_t timers;
    uint32_t clock_moves_seen;
    uint64_t clock_ns;    /* the last look at the clock … */
    uint64_t clock_ticks; /* … and the processor's counter then */
    bool system_clock;
    zlink_adaptive_spin_t spin;
    uint64_t slept_ns; /* since it last found work; 0: it has not, or does not count it */

    _Atomic uint64_t items;
    _Atomic uint64_t suspensions;
    _Atomic uint64_t steals;
    _Atomic uint64_t sleeps;
    _Atomic uint64_t spins;
    _Atomic uint64_t spins_found;
};

struct zlink_worker_pool {
    const zlink_clock_t *clock;
    const zlink_scheduler_t *scheduler; /* NULL: threads */
    unsigned worker_count;
    unsigned workers_started;
    unsigned cores;
    zlink_room_line_t room; /* its number is looked at where the fields above are */
    zlink_stack_pool_t stacks;
    _Atomic uint32_t next_home;
    char padding[ZLINK_CACHE_LINE_BYTES];

    /* Parking: see worker.c. */
    _Atomic uint32_t idle;
    _Atomic uint32_t searching;
    _Atomic uint32_t clock_moves;
    _Atomic bool stopping;
    _Atomic(zlink_worker_t *) watchman;   /* sleeps a few milliseconds at most; NULL = nobody */
    _Atomic(zlink_worker_t *) timekeeper; /* sleeps no longer than the next shared deadline; NULL = nobody */
    zlink_deadline_scheduler_t deadlines;

    zlink_worker_t *workers[]; /* as many as worker_count */
};

/* The thread's function; its argument is the worker, whose first stack is taken. */
void *zlink_worker_main(void *argument);

/* Under a scheduler, in place of a thread: makes the worker ready for steps, runs one, ends it (the pool is stopping).
 */
void zlink_worker_begin_steps(zlink_worker_t *worker);
bool zlink_worker_step(zlink_worker_t *worker);
void zlink_worker_end_steps(zlink_worker_t *worker);

/* Puts a queue whose `scheduled` flag the caller has set into its home's ring and wakes whoever should run it. */
void zlink_worker_ready(zlink_serial_execution_queue_t *queue);

/* For the pool's deadlines: somebody has to look at them earlier than was known. Any thread; the pool is `context`. */
void zlink_worker_attend(void *context);

/* Ends its sleep. False where it was awake. */
bool zlink_worker_wake(zlink_worker_t *worker);

/* For turn.c, on the worker's thread: leaves the current stack, so that the loop goes on with `answer` on `fresh`.
 * Returns when zlink_worker_return_to is called with that stack. */
void zlink_worker_leave_stack(zlink_worker_t *worker, zlink_coroutine_t *fresh, zlink_work_result_t answer);

/* Gives the current stack up and goes on on `parked`. */
void zlink_worker_return_to(zlink_worker_t *worker, zlink_coroutine_t *parked) __attribute__((noreturn));

/* The pool's clock, on the worker's thread. The system's may be a few microseconds behind, never ahead: it costs as
 * much as a short item, so it is not looked at again while the processor's counter has hardly moved. */
uint64_t zlink_worker_now_ns(zlink_worker_t *worker);

#define ZLINK_CLOCK_TICKS_PER_LOOK 16384u /* 4 to 8 microseconds */

/* Would zlink_worker_now_ns answer the same as the last time? */
static inline bool zlink_worker_clock_stands(const zlink_worker_t *worker)
{
#if defined(__x86_64__)
    return worker->system_clock && __builtin_ia32_rdtsc() - worker->clock_ticks < ZLINK_CLOCK_TICKS_PER_LOOK;
#else
    (void)worker;
    return false;
#endif
}

/* A number that only its own thread changes. */
static inline void zlink_worker_count(_Atomic uint64_t *number)
{
    atomic_store_explicit(number, atomic_load_explicit(number, memory_order_relaxed) + 1, memory_order_relaxed);
}

#endif
