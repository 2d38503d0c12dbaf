#include "exec/worker_pool.h"

#include <assert.h>
#include <signal.h>
#include <string.h>

#include "base/memory.h"
#include "exec/usable_cores.h"
#include "exec/worker.h"

#define WORKERS_MAX       1024u
#define CREDIT_MAX        2u  /* stacks that a worker may count as its own though they are free … */
#define SPIN_US_DEFAULT   20u /* about what a sleep and a wake-up cost */
#define SPIN_US_MAX       1000u
#define STACKS_FOR_CREDIT 64u /* … where it has so many that nobody will miss them */

/* ---- create ---- */

static zlink_worker_t *create_worker(zlink_worker_pool_t *pool, unsigned index, uint32_t spin_ns)
{
    zlink_worker_t *worker = zlink_calloc(1, sizeof(*worker));
    if (!worker)
        return NULL;
    worker->pool = pool;
    worker->index = index;
    worker->system_clock = pool->clock == &zlink_clock_system;
    zlink_adaptive_spin_init(&worker->spin, spin_ns);
    zlink_timer_wheel_init(&worker->timers, zlink_clock_now_ms(pool->clock));
    worker->stack = zlink_stack_pool_take(&pool->stacks, &worker->stacks);
    if (!worker->stack) {
        zlink_free(worker);
        return NULL;
    }
    return worker;
}

static zlink_status_t create_workers(zlink_worker_pool_t *pool, const zlink_worker_pool_options_t *options,
                                     zlink_refusal_t *why)
{
    uint32_t spin_us = options->spin_us_max ? options->spin_us_max : SPIN_US_DEFAULT;
    if (pool->scheduler || spin_us == ZLINK_SPIN_OFF)
        spin_us = 0;
    for (unsigned i = 0; i < pool->worker_count; i++) {
        pool->workers[i] = create_worker(pool, i, spin_us * 1000);
        if (!pool->workers[i]) {
            zlink_refuse(why, "worker %u of %u: out of memory", i + 1, pool->worker_count);
            return ZLINK_CAPACITY_EXCEEDED;
        }
    }
    return ZLINK_OK;
}

/* Workers take no signals: those are for the threads that wait for them. */
static zlink_status_t start_threads(zlink_worker_pool_t *pool, zlink_refusal_t *why)
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

static zlink_status_t start_workers(zlink_worker_pool_t *pool, zlink_refusal_t *why)
{
    if (!pool->scheduler)
        return start_threads(pool, why);
    for (; pool->workers_started < pool->worker_count; pool->workers_started++)
        zlink_worker_begin_steps(pool->workers[pool->workers_started]);
    return ZLINK_OK;
}

static zlink_status_t check(const zlink_worker_pool_options_t *options, unsigned workers, zlink_refusal_t *why)
{
    if (workers > WORKERS_MAX)
        zlink_refuse(why, "workers %u: must be at most %u", workers, WORKERS_MAX);
    else if (options->stacks_max != 0 && options->stacks_max < workers)
        zlink_refuse(why, "stacks_max %u: each of the %u workers needs one", options->stacks_max, workers);
    else if (options->spin_us_max > SPIN_US_MAX && options->spin_us_max != ZLINK_SPIN_OFF)
        zlink_refuse(why, "spin_us_max %u: must be at most %u", options->spin_us_max, SPIN_US_MAX);
    else
        return ZLINK_OK;
    return ZLINK_INVALID_OPERATION;
}

zlink_status_t zlink_worker_pool_create(const zlink_worker_pool_options_t *options, zlink_worker_pool_t **created,
                                        zlink_refusal_t *why)
{
    unsigned cores = options->cores ? options->cores : zlink_usable_cores();
    unsigned workers = options->workers ? options->workers : cores;
    if (!options->workers && workers > WORKERS_MAX)
        workers = WORKERS_MAX;
    zlink_status_t status = check(options, workers, why);
    if (status != ZLINK_OK)
        return status;
    zlink_worker_pool_t *pool = zlink_calloc(1, sizeof(*pool) + workers * sizeof(pool->workers[0]));
    if (!pool) {
        zlink_refuse(why, "the worker pool: out of memory");
        return ZLINK_CAPACITY_EXCEEDED;
    }
    pool->clock = options->clock ? options->clock : &zlink_clock_system;
    pool->scheduler = options->scheduler;
    pool->worker_count = workers;
    pool->cores = cores;
    zlink_room_line_init(&pool->room);
    zlink_deadline_scheduler_init(&pool->deadlines, pool->clock, zlink_worker_attend, pool);
    status = zlink_stack_pool_init(&pool->stacks, options->stack_bytes, options->stacks_max, why);
    if (status != ZLINK_OK) {
        zlink_deadline_scheduler_destroy(&pool->deadlines);
        zlink_room_line_destroy(&pool->room);
        zlink_free(pool);
        return status;
    }
    if (pool->stacks.stacks_max / workers >= STACKS_FOR_CREDIT)
        pool->stacks.credit_max = CREDIT_MAX;
    status = create_workers(pool, options, why);
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
        if (pool->scheduler)
            zlink_worker_end_steps(pool->workers[i]);
        else
            pthread_join(pool->workers[i]->thread, NULL);
    for (unsigned i = 0; i < pool->worker_count; i++)
        if (pool->workers[i])
            destroy_worker(pool, pool->workers[i]);
    assert(atomic_load_explicit(&pool->stacks.live, memory_order_relaxed) == 0 && "a handler still waits");
    zlink_stack_pool_destroy(&pool->stacks);
    zlink_deadline_scheduler_destroy(&pool->deadlines);
    zlink_room_line_destroy(&pool->room);
    zlink_free(pool);
}

/* ---- the rest ---- */

bool zlink_worker_pool_step(zlink_worker_pool_t *pool, unsigned worker)
{
    assert(pool->scheduler && worker < pool->worker_count);
    return zlink_worker_step(pool->workers[worker]);
}

zlink_deadline_scheduler_t *zlink_worker_pool_deadlines(zlink_worker_pool_t *pool)
{
    return &pool->deadlines;
}

void zlink_worker_pool_clock_moved(zlink_worker_pool_t *pool)
{
    atomic_fetch_add(&pool->clock_moves, 1);
    for (unsigned i = 0; i < pool->worker_count; i++)
        zlink_worker_wake(pool->workers[i]);
}

void zlink_worker_pool_stats(const zlink_worker_pool_t *pool, zlink_worker_pool_stats_t *stats)
{
    uint64_t credit = 0;

    memset(stats, 0, sizeof(*stats));
    stats->workers = pool->worker_count;
    for (unsigned i = 0; i < pool->worker_count; i++) {
        const zlink_worker_t *worker = pool->workers[i];
        stats->items += atomic_load_explicit(&worker->items, memory_order_relaxed);
        stats->suspensions += atomic_load_explicit(&worker->suspensions, memory_order_relaxed);
        stats->steals += atomic_load_explicit(&worker->steals, memory_order_relaxed);
        stats->sleeps += atomic_load_explicit(&worker->sleeps, memory_order_relaxed);
        stats->spins += atomic_load_explicit(&worker->spins, memory_order_relaxed);
        stats->spins_found += atomic_load_explicit(&worker->spins_found, memory_order_relaxed);
        credit += atomic_load_explicit(&worker->stacks.credit, memory_order_relaxed);
    }
    uint64_t live = atomic_load_explicit(&pool->stacks.live, memory_order_relaxed);
    stats->stacks_live = live > credit ? live - credit : 0;
    stats->stacks_high_water = atomic_load_explicit(&pool->stacks.high_water, memory_order_relaxed);
    stats->stacks_max = pool->stacks.stacks_max;
    stats->stack_bytes = zlink_stack_pool_stack_bytes(&pool->stacks);
    stats->guard_install = pool->stacks.guard_install;
}
