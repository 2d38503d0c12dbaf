#include "exec/worker_pool.h"

#include <assert.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "exec/worker.h"

#define WORKERS_MAX 1024u

/* ---- how many cores this process may use ---- */

/* The whole cores of a container's quota; 0 where there is none. */
static unsigned cores_of_quota(void)
{
    unsigned long quota = 0;
    unsigned long period = 0;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (!file)
        return 0;
    int read = fscanf(file, "%lu %lu", &quota, &period); /* "max 100000" gives nothing */
    (void)fclose(file);
    if (read != 2 || period == 0)
        return 0;
    return quota / period == 0 ? 1 : (unsigned)(quota / period);
}

static unsigned usable_cores(void)
{
    cpu_set_t set;
    unsigned cores = 1;

    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        cores = (unsigned)CPU_COUNT(&set);
    else if (sysconf(_SC_NPROCESSORS_ONLN) > 0)
        cores = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    unsigned quota = cores_of_quota();
    if (quota != 0 && quota < cores)
        cores = quota;
    return cores < WORKERS_MAX ? cores : WORKERS_MAX;
}

/* ---- create ---- */

static zlink_worker_t *create_worker(zlink_worker_pool_t *pool, unsigned index)
{
    zlink_worker_t *worker = zlink_calloc(1, sizeof(*worker));
    if (!worker)
        return NULL;
    worker->pool = pool;
    worker->index = index;
    zlink_timer_wheel_init(&worker->timers, zlink_clock_now_ms(pool->clock));
    worker->stack = zlink_stack_pool_take(&pool->stacks, &worker->stacks);
    if (!worker->stack) {
        zlink_free(worker);
        return NULL;
    }
    return worker;
}

static zlink_status_t create_workers(zlink_worker_pool_t *pool, zlink_refusal_t *why)
{
    for (unsigned i = 0; i < pool->worker_count; i++) {
        pool->workers[i] = create_worker(pool, i);
        if (!pool->workers[i]) {
            zlink_refuse(why, "worker %u of %u: out of memory", i + 1, pool->worker_count);
            return ZLINK_CAPACITY_EXCEEDED;
        }
    }
    return ZLINK_OK;
}

/* Workers take no signals: those are for the threads that wait for them. */
static zlink_status_t start_workers(zlink_worker_pool_t *pool, zlink_refusal_t *why)
{
    sigset_t all;
    sigset_t before;
    int error = 0;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (error == 0 && pool->workers_started < pool->worker_count) {
        zlink_worker_t *worker = pool->workers[pool->workers_started];
        error = pthread_create(&worker->thread, NULL, zlink_worker_main, worker);
        if (error == 0)
            pool->workers_started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        return ZLINK_OK;
    zlink_refuse(why, "worker %u of %u: no thread: %s", pool->workers_started + 1, pool->worker_count, strerror(error));
    return ZLINK_CAPACITY_EXCEEDED;
}

zlink_status_t zlink_worker_pool_create(const zlink_worker_pool_options_t *options, zlink_worker_pool_t **created,
                                        zlink_refusal_t *why)
{
    unsigned workers = options->workers ? options->workers : usable_cores();
    if (workers > WORKERS_MAX) {
        zlink_refuse(why, "workers %u: must be at most %u", workers, WORKERS_MAX);
        return ZLINK_INVALID_OPERATION;
    }
    if (options->stacks_max != 0 && options->stacks_max < workers) {
        zlink_refuse(why, "stacks_max %u: each of the %u workers needs one", options->stacks_max, workers);
        return ZLINK_INVALID_OPERATION;
    }
    zlink_worker_pool_t *pool = zlink_calloc(1, sizeof(*pool) + workers * sizeof(pool->workers[0]));
    if (!pool) {
        zlink_refuse(why, "the worker pool: out of memory");
        return ZLINK_CAPACITY_EXCEEDED;
    }
    pool->clock = options->clock ? options->clock : &zlink_clock_system;
    pool->worker_count = workers;
    zlink_status_t status = zlink_stack_pool_init(&pool->stacks, options->stack_bytes, options->stacks_max, why);
    if (status != ZLINK_OK) {
        zlink_free(pool);
        return status;
    }
    status = create_workers(pool, why);
    if (status == ZLINK_OK)
        status = start_workers(pool, why);
    if (status != ZLINK_OK) {
        zlink_worker_pool_destroy(pool);
        return status;
    }
    *created = pool;
    return ZLINK_OK;
}

/* ---- destroy ---- */

static void destroy_worker(zlink_worker_pool_t *pool, zlink_worker_t *worker)
{
    assert(zlink_ready_ring_is_empty(&worker->ready) && "a queue is still at work");
    if (worker->stack) /* its thread never ran */
        zlink_stack_pool_give_back(&pool->stacks, &worker->stacks, worker->stack);
    zlink_stack_pool_empty(&pool->stacks, &worker->stacks);
    zlink_free(worker);
}

void zlink_worker_pool_destroy(zlink_worker_pool_t *pool)
{
    if (!pool)
        return;
    assert(!zlink_worker_current() && "a worker cannot wait for itself");
    atomic_store(&pool->stopping, true);
    for (unsigned i = 0; i < pool->workers_started; i++)
        zlink_worker_wake(pool->workers[i]);
    for (unsigned i = 0; i < pool->workers_started; i++)
        pthread_join(pool->workers[i]->thread, NULL);
    for (unsigned i = 0; i < pool->worker_count; i++)
        if (pool->workers[i])
            destroy_worker(pool, pool->workers[i]);
    assert(atomic_load_explicit(&pool->stacks.live, memory_order_relaxed) == 0 && "a handler still waits");
    zlink_stack_pool_destroy(&pool->stacks);
    zlink_free(pool);
}

/* ---- the rest ---- */

void zlink_worker_pool_clock_moved(zlink_worker_pool_t *pool)
{
    atomic_fetch_add(&pool->clock_moves, 1);
    for (unsigned i = 0; i < pool->worker_count; i++)
        zlink_worker_wake(pool->workers[i]);
}

void zlink_worker_pool_stats(const zlink_worker_pool_t *pool, zlink_worker_pool_stats_t *stats)
{
    memset(stats, 0, sizeof(*stats));
    stats->workers = pool->worker_count;
    for (unsigned i = 0; i < pool->worker_count; i++) {
        const zlink_worker_t *worker = pool->workers[i];
        stats->items += atomic_load_explicit(&worker->items, memory_order_relaxed);
        stats->suspensions += atomic_load_explicit(&worker->suspensions, memory_order_relaxed);
        stats->steals += atomic_load_explicit(&worker->steals, memory_order_relaxed);
    }
    stats->stacks_live = atomic_load_explicit(&pool->stacks.live, memory_order_relaxed);
    stats->stacks_high_water = atomic_load_explicit(&pool->stacks.high_water, memory_order_relaxed);
    stats->stacks_max = pool->stacks.stacks_max;
    stats->stack_bytes = zlink_stack_pool_stack_bytes(&pool->stacks);
    stats->guard_install = pool->stacks.guard_install;
}
