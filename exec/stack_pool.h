/*
 * exec/stack_pool.h: the stacks of a worker pool: taken when a worker starts or a handler prepares to wait.
 *
 * Each is a mapping of its own, committed page by page, with guard pages below it. Free stacks stay in a small list per
 * worker and a larger one for all. Take and give back happen on a worker's thread, with that worker's list; the numbers
 * may be read anywhere.
 *
 * A parked handler shall keep at most three pages resident. Finding out how deep a stack once was costs a system call,
 * so a few words in its second page tell: if they were overwritten, or once in a while anyway, the pages below the live
 * frames go back to the kernel.
 */
#ifndef ZLINK_EXEC_STACK_POOL_H
#define ZLINK_EXEC_STACK_POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zlink/status.h>

#include "base/refusal.h"
#include "exec/coroutine.h"

/* A worker's own free stacks. Zero-initialise. */
typedef struct zlink_stack_list {
    zlink_coroutine_t *first;
    unsigned count;
    _Atomic unsigned credit; /* counted as live, but free: the next ones that are taken cost no shared counter */
} zlink_stack_list_t;

typedef struct zlink_stack_pool {
    size_t page_bytes;
    size_t guard_bytes;
    size_t mapping_bytes; /* guard, stack and descriptor */
    uint64_t stacks_max;
    unsigned credit_max; /* of a list; the owner of the lists may raise it from 0 */
    bool guard_install;
    bool watch_depth;      /* the words in the second page are in use */
    _Atomic uint64_t live; /* credit included */
    _Atomic uint64_t high_water;
    pthread_mutex_t lock;
    zlink_stack_list_t shared;
} zlink_stack_pool_t;

/* 0 = default for both; see worker_pool.h. */
zlink_status_t zlink_stack_pool_init(zlink_stack_pool_t *pool, size_t stack_bytes, unsigned stacks_max,
                                     zlink_refusal_t *why);

/* Every list has been emptied with zlink_stack_pool_empty. */
void zlink_stack_pool_destroy(zlink_stack_pool_t *pool);
void zlink_stack_pool_empty(zlink_stack_pool_t *pool, zlink_stack_list_t *list);

/* NULL where stacks_max are live or the kernel gives none. */
zlink_coroutine_t *zlink_stack_pool_take(zlink_stack_pool_t *pool, zlink_stack_list_t *list);

/* Not the stack that the caller runs on. */
void zlink_stack_pool_give_back(zlink_stack_pool_t *pool, zlink_stack_list_t *list, zlink_coroutine_t *stack);

/* `stack` was left by a handler that waits. Not on that stack. */
void zlink_stack_pool_parked(const zlink_stack_pool_t *pool, zlink_coroutine_t *stack);

/* What a handler has, without guard. */
size_t zlink_stack_pool_stack_bytes(const zlink_stack_pool_t *pool);

#endif
