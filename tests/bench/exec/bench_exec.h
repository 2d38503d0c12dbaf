/*
 * bench_exec.h: the workloads of `./dev bench exec`, straight against exec/. Main thread; each prints its JSON lines.
 */
#ifndef BENCH_EXEC_H
#define BENCH_EXEC_H

#include <stddef.h>
#include <stdint.h>

#include <zlink/spot.h>

#include "exec/worker_pool.h"

#define BENCH_PEER "zlink"

typedef struct bench_posts {
    const char *workload;
    unsigned producers; /* threads outside the pool */
    unsigned owners;
    uint64_t count;    /* items in all */
    uint32_t capacity; /* of each owner's application lane */
    int turns;         /* turns through a Spot's coordinator, instead of items on a queue */
} bench_posts_t;

/* E1: producers post trivial items round robin to the owners. Every item is allocated by its producer and freed by its
 * run, as the peers do. A refused one is offered again. */
void bench_posts(const bench_posts_t *plan);

/* E2a: two Actors of one Spot send each other `count` messages there and back, by their ids. */
void bench_ping_pong(zlink_user_spot_execution_mode_t mode, uint64_t count);

/* E2b: two producers outside the pool send `messages` to each of the `actors`, which are spread over `rooms` Spots. */
void bench_crowd(zlink_user_spot_execution_mode_t mode, unsigned actors, unsigned rooms, uint64_t messages);

/* E-idle: what an Actor keeps allocated after its only message. */
void bench_idle_actors(zlink_user_spot_execution_mode_t mode, unsigned actors);

/* E-timers: `count` timers that tick 20,000 times a second together. */
void bench_timers(unsigned count);

/* E3: each of `callers` Spots asks another one of the same process, `count` times in all. */
void bench_asks(unsigned callers, uint64_t count, int continuation);

/* E-wait: `count` handlers wait at once, each with `locals_bytes` of its own on the stack. */
void bench_waiting(unsigned count, size_t locals_bytes);

/* E-lock: locked instructions on the way of one item through a queue and through a gated one, and of a state lane. */
void bench_locks(void);

/* ---- for all of them; failures end the program ---- */

zlink_worker_pool_t *bench_pool(unsigned stacks_max);
void *bench_allocate(size_t size);
void bench_die(const char *what) __attribute__((noreturn));

#endif
