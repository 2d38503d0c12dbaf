/*
 * bench_exec.h: the workloads of `./dev bench exec`, straight against exec/. Main thread; each prints its JSON lines.
 */
#ifndef BENCH_EXEC_H
#define BENCH_EXEC_H

#include <stddef.h>
#include <stdint.h>

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

/* E3: each of `callers` Spots asks another one of the same process, `count` times in all. */
void bench_asks(unsigned callers, uint64_t count, int continuation);

/* E-wait: `count` handlers wait at once, each with `locals_bytes` of its own on the stack. */
void bench_waiting(unsigned count, size_t locals_bytes);

/* ---- for all of them; failures end the program ---- */

zlink_worker_pool_t *bench_pool(unsigned stacks_max);
void *bench_allocate(size_t size);
void bench_die(const char *what) __attribute__((noreturn));

#endif
