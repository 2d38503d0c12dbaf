/*
 * One lock for all of it: an item is some milliseconds of computing or it would not be here. A thread in the idle list
 * is taken out of it by whoever wakes it, so that two submissions never count on the same thread; the one that was idle
 * last is woken first, so that the others can grow old and end. Calls are ended and `closed` is called outside the
 * lock.
 */
#include "exec/cpu_worker_pool.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/counters.h"
#include "base/domain.h"
#include "base/memory.h"
#include "exec/usable_cores.h"

#define IDLE_TIMEOUT_MS 30000u
#define QUEUE_ITEMS     1024u
#define QUEUE_BYTES     (UINT64_C(64) << 20)

ZLINK_COUNTER_DEFINE(cpu_threads, ZLINK_GAUGE, "zlink.cpu_work.threads", "Threads of the CPU workers");
ZLINK_COUNTER_DEFINE(cpu_queued, ZLINK_GAUGE, "zlink.cpu_work.queued", "CPU work that waits for a thread");
ZLINK_COUNTER_DEFINE(cpu_running, ZLINK_GAUGE, "zlink.cpu_work.running", "CPU work that runs");
ZLINK_COUNTER_DEFINE(cpu_refused, ZLINK_COUNTER, "zlink.cpu_work.refused", "CPU work that found no room or no thread");
ZLINK_COUNTER_DEFINE(cpu_late, ZLINK_COUNTER, "zlink.cpu_work.late", "CPU work that ended after its time");

typedef struct cpu_worker {
    zlink_cpu_worker_pool_t *pool;
    unsigned index;
    pthread_t thread;
    bool to_join; /* its thread has ended, or is about to, and nobody has joined it */
    pthread_cond_t wake;
    bool idle; /* in the idle list */
    LIST_ENTRY(cpu_worker) in_list;
    zlink_cpu_work_item_t *running;
} cpu_worker_t;

LIST_HEAD(cpu_worker_list, cpu_worker);
TAILQ_HEAD(cpu_work_queue, zlink_cpu_work_item);

struct zlink_cpu_worker_pool {
    const zlink_clock_t *clock;
    unsigned threads_min;
    unsigned threads_max;
    uint32_t idle_timeout_ms;
    uint32_t items_max; /* waiting and running */
    uint64_t bytes_max;

    pthread_mutex_t lock; /* over everything below */
    struct cpu_work_queue queue;
    struct cpu_worker_list idle;
    struct cpu_worker_list unused; /* without a thread */
    unsigned threads;
    unsigned running;
    uint32_t queued;
    uint64_t bytes;
    uint64_t held; /* items, and callers inside, that `closed` has to wait for */
    bool closing;
    bool stopping;
    void (*closed)(void *context);
    void *context;

    cpu_worker_t workers[]; /* as many as threads_max */
};

/* ---- room ---- */

static void took_room(zlink_cpu_worker_pool_t *pool, zlink_cpu_work_item_t *item)
{
    item->pool = pool;
    item->queued = true;
    TAILQ_INSERT_TAIL(&pool->queue, item, in_queue);
    pool->queued++;
    pool->bytes += item->bytes;
    pool->held++;
    zlink_counter_add(&cpu_queued, 1);
}

static void leave_queue(zlink_cpu_worker_pool_t *pool, zlink_cpu_work_item_t *item)
{
    TAILQ_REMOVE(&pool->queue, item, in_queue);
    item->queued = false;
    pool->queued--;
    zlink_counter_add(&cpu_queued, -1);
}

/* Gives up the lock. One of those that `closed` waits for is gone; the pool may be, too, afterwards. */
static void unlock_with_one_less(zlink_cpu_worker_pool_t *pool)
{
    bool last = --pool->held == 0 && pool->closing;
    void (*closed)(void *context) = pool->closed;
    void *context = pool->context;

    pthread_mutex_unlock(&pool->lock);
    if (last)
        closed(context);
}

/* ---- the threads ---- */

/* Under the lock, which it gives up while the work runs. */
static void run_item(cpu_worker_t *worker, zlink_cpu_work_item_t *item)
{
    zlink_cpu_worker_pool_t *pool = worker->pool;
    uint64_t bytes = item->bytes;

    leave_queue(pool, item);
    worker->running = item;
    pool->running++;
    pthread_mutex_unlock(&pool->lock);
    zlink_counter_add(&cpu_running, 1);
    zlink_status_t status = ZLINK_SHUTTING_DOWN; /* told to stop before it began: it does not begin */
    if (!zlink_stop_token_is_requested(&item->call.stop)) {
        zlink_domain_enter(ZLINK_DOMAIN_APPLICATION);
        status = item->run(item);
        zlink_domain_enter(ZLINK_DOMAIN_INFRASTRUCTURE);
    }
    zlink_counter_add(&cpu_running, -1);

    pthread_mutex_lock(&pool->lock);
    worker->running = NULL; /* the item may be gone once its call has ended */
    pool->running--;
    pool->bytes -= bytes; /* before its handler goes on, which may come back at once */
    pthread_mutex_unlock(&pool->lock);
    if (!zlink_work_call_end(&item->call, status))
        zlink_counter_add(&cpu_late, 1);
    pthread_mutex_lock(&pool->lock);
}

static void sleep_until(cpu_worker_t *worker, uint64_t wait_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(wait_ms / 1000u);
    until.tv_nsec += (long)(wait_ms % 1000u * ZLINK_NS_PER_MS);
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    (void)pthread_cond_timedwait(&worker->wake, &worker->pool->lock, &until); /* whatever ends it, we look again */
}

/* Under the lock. False: there has been nothing to do for so long that the thread ends. */
static bool wait_idle(cpu_worker_t *worker)
{
    zlink_cpu_worker_pool_t *pool = worker->pool;
    uint64_t until_ms = zlink_clock_now_ms(pool->clock) + pool->idle_timeout_ms;

    worker->idle = true;
    LIST_INSERT_HEAD(&pool->idle, worker, in_list);
    while (worker->idle && !pool->stopping) {
        uint64_t now_ms = zlink_clock_now_ms(pool->clock);
        if (pool->threads <= pool->threads_min) {
            pthread_cond_wait(&worker->wake, &pool->lock);
        } else if (now_ms >= until_ms) {
            break;
        } else {
            sleep_until(worker, until_ms - now_ms);
        }
    }
    if (!worker->idle)
        return true;
    worker->idle = false;
    LIST_REMOVE(worker, in_list);
    return false;
}

static void *cpu_worker_main(void *argument)
{
    cpu_worker_t *worker = argument;
    zlink_cpu_worker_pool_t *pool = worker->pool;
    char name[16]; /* what the kernel takes */

    (void)snprintf(name, sizeof(name), "zlink-cpu-%u", worker->index);
    (void)pthread_setname_np(pthread_self(), name); /* for people only */
    zlink_domain_enter(ZLINK_DOMAIN_INFRASTRUCTURE);
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        zlink_cpu_work_item_t *item = TAILQ_FIRST(&pool->queue);
        if (item) {
            run_item(worker, item);
            unlock_with_one_less(pool);
            pthread_mutex_lock(&pool->lock); /* destroy waits for this thread */
        } else if (pool->stopping || !wait_idle(worker)) {
            break;
        }
    }
    pool->threads--;
    LIST_INSERT_HEAD(&pool->unused, worker, in_list);
    pthread_mutex_unlock(&pool->lock);
    zlink_counter_add(&cpu_threads, -1);
    return NULL;
}

/* Under the lock. One thread more where there may be one. Answers pthread_create's error, 0 also where there are
 * enough.
 */
static int start_thread(zlink_cpu_worker_pool_t *pool)
{
    cpu_worker_t *worker = LIST_FIRST(&pool->unused);
    sigset_t all;
    sigset_t before;

    if (!worker)
        return 0;
    if (worker->to_join) /* it has given up the lock for the last time: this takes no time */
        pthread_join(worker->thread, NULL);
    /* No signals: those are for the threads that wait for them. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&worker->thread, NULL, cpu_worker_main, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    worker->to_join = error == 0;
    if (error != 0)
        return error;
    LIST_REMOVE(worker, in_list);
    pool->threads++;
    zlink_counter_add(&cpu_threads, 1);
    return 0;
}

/* ---- submitting ---- */

static bool withdraw(zlink_work_call_t *call)
{
    zlink_cpu_work_item_t *item = zlink_cpu_work_item_of(call);
    zlink_cpu_worker_pool_t *pool = item->pool;

    pthread_mutex_lock(&pool->lock);
    if (!item->queued) {
        pthread_mutex_unlock(&pool->lock);
        return false;
    }
    leave_queue(pool, item);
    pool->bytes -= item->bytes;
    unlock_with_one_less(pool);
    return true;
}

/* Under the lock. */
static zlink_status_t admit(zlink_cpu_worker_pool_t *pool, zlink_cpu_work_item_t *item, cpu_worker_t **to_wake)
{
    *to_wake = LIST_FIRST(&pool->idle);
    if (pool->closing)
        return ZLINK_SHUTTING_DOWN;
    if (pool->queued + pool->running >= pool->items_max || item->bytes > pool->bytes_max - pool->bytes)
        return ZLINK_CAPACITY_EXCEEDED;
    if (!*to_wake && start_thread(pool) != 0 && pool->threads == 0)
        return ZLINK_CAPACITY_EXCEEDED;
    return ZLINK_OK;
}

zlink_status_t zlink_cpu_worker_pool_submit(zlink_cpu_worker_pool_t *pool, zlink_cpu_work_item_t *item)
{
    cpu_worker_t *to_wake = NULL;

    pthread_mutex_lock(&pool->lock);
    zlink_status_t status = admit(pool, item, &to_wake);
    if (status == ZLINK_OK) {
        item->call.withdraw = withdraw;
        zlink_work_call_lend(&item->call);
        took_room(pool, item);
        if (to_wake) {
            to_wake->idle = false;
            LIST_REMOVE(to_wake, in_list);
            pthread_cond_signal(&to_wake->wake);
        }
    }
    pthread_mutex_unlock(&pool->lock);
    if (status == ZLINK_CAPACITY_EXCEEDED)
        zlink_counter_add(&cpu_refused, 1);
    return status;
}

/* ---- life ---- */

static zlink_status_t check(const zlink_cpu_worker_pool_options_t *options, zlink_refusal_t *why)
{
    if (options->threads_min <= ZLINK_CPU_WORKERS_MAX && options->threads_max <= ZLINK_CPU_WORKERS_MAX &&
        (options->threads_max == 0 || options->threads_min <= options->threads_max))
        return ZLINK_OK;
    zlink_refuse(why, "cpu_workers_min %u, cpu_workers_max %u: at most %u, and the first not above the second",
                 options->threads_min, options->threads_max, ZLINK_CPU_WORKERS_MAX);
    return ZLINK_INVALID_OPERATION;
}

static unsigned threads_max_of(const zlink_cpu_worker_pool_options_t *options)
{
    if (options->threads_max)
        return options->threads_max;
    unsigned cores = zlink_usable_cores();
    unsigned threads = cores >= ZLINK_CPU_WORKERS_MAX / 2 ? ZLINK_CPU_WORKERS_MAX : 2 * cores;
    return threads < options->threads_min ? options->threads_min : threads;
}

static void init(zlink_cpu_worker_pool_t *pool, const zlink_cpu_worker_pool_options_t *options, unsigned threads_max)
{
    pthread_condattr_t monotonic;

    pool->clock = options->clock ? options->clock : &zlink_clock_system;
    pool->threads_min = options->threads_min;
    pool->threads_max = threads_max;
    pool->idle_timeout_ms = options->idle_timeout_ms ? options->idle_timeout_ms : IDLE_TIMEOUT_MS;
    /* Work that a thread takes up at once has passed through the queue and must not take a place from what waits. */
    uint32_t waiting_max = options->queue_items_max ? options->queue_items_max : QUEUE_ITEMS;
    pool->items_max = waiting_max > UINT32_MAX - threads_max ? UINT32_MAX : waiting_max + threads_max;
    pool->bytes_max = options->queue_bytes_max ? options->queue_bytes_max : QUEUE_BYTES;
    pthread_mutex_init(&pool->lock, NULL);
    TAILQ_INIT(&pool->queue);
    LIST_INIT(&pool->idle);
    LIST_INIT(&pool->unused);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    for (unsigned i = threads_max; i-- > 0;) {
        cpu_worker_t *worker = &pool->workers[i];
        worker->pool = pool;
        worker->index = i;
        pthread_cond_init(&worker->wake, &monotonic);
        LIST_INSERT_HEAD(&pool->unused, worker, in_list);
    }
    pthread_condattr_destroy(&monotonic);
}

zlink_status_t zlink_cpu_worker_pool_create(const zlink_cpu_worker_pool_options_t *options,
                                            zlink_cpu_worker_pool_t **created, zlink_refusal_t *why)
{
    zlink_status_t status = check(options, why);
    if (status != ZLINK_OK)
        return status;
    unsigned threads_max = threads_max_of(options);
    zlink_cpu_worker_pool_t *pool = zlink_calloc(1, sizeof(*pool) + threads_max * sizeof(pool->workers[0]));
    if (!pool) {
        zlink_refuse(why, "CPU workers: out of memory");
        return ZLINK_CAPACITY_EXCEEDED;
    }
    init(pool, options, threads_max);
    int error = 0;
    pthread_mutex_lock(&pool->lock);
    while (error == 0 && pool->threads < pool->threads_min)
        error = start_thread(pool);
    pthread_mutex_unlock(&pool->lock);
    if (error != 0) {
        zlink_refuse(why, "cpu_workers_min: a thread: %s", strerror(error));
        zlink_cpu_worker_pool_destroy(pool);
        return ZLINK_CAPACITY_EXCEEDED;
    }
    *created = pool;
    return ZLINK_OK;
}

void zlink_cpu_worker_pool_close(zlink_cpu_worker_pool_t *pool, void (*closed)(void *context), void *context)
{
    struct cpu_work_queue dropped = TAILQ_HEAD_INITIALIZER(dropped);
    zlink_cpu_work_item_t *item;
    uint64_t dropped_count = 0;

    pthread_mutex_lock(&pool->lock);
    assert(!pool->closing && "a pool is closed once");
    pool->closing = true;
    pool->closed = closed;
    pool->context = context;
    while ((item = TAILQ_FIRST(&pool->queue)) != NULL) {
        leave_queue(pool, item);
        pool->bytes -= item->bytes;
        TAILQ_INSERT_TAIL(&dropped, item, in_queue);
        dropped_count++;
    }
    for (unsigned i = 0; i < pool->threads_max; i++)
        if (pool->workers[i].running)
            zlink_stop_token_request(&pool->workers[i].running->call.stop);
    pool->held++; /* this call */
    pthread_mutex_unlock(&pool->lock);

    while ((item = TAILQ_FIRST(&dropped)) != NULL) {
        TAILQ_REMOVE(&dropped, item, in_queue);
        zlink_stop_token_request(&item->call.stop);
        (void)zlink_work_call_end(&item->call, ZLINK_SHUTTING_DOWN);
    }
    pthread_mutex_lock(&pool->lock);
    pool->held -= dropped_count;
    unlock_with_one_less(pool);
}

void zlink_cpu_worker_pool_destroy(zlink_cpu_worker_pool_t *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    assert(pool->held == 0 && "CPU work is still there");
    pool->stopping = true;
    for (unsigned i = 0; i < pool->threads_max; i++)
        pthread_cond_signal(&pool->workers[i].wake);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->threads_max; i++) {
        if (pool->workers[i].to_join)
            pthread_join(pool->workers[i].thread, NULL);
        pthread_cond_destroy(&pool->workers[i].wake);
    }
    pthread_mutex_destroy(&pool->lock);
    zlink_free(pool);
}

void zlink_cpu_worker_pool_clock_moved(zlink_cpu_worker_pool_t *pool)
{
    pthread_mutex_lock(&pool->lock);
    for (unsigned i = 0; i < pool->threads_max; i++)
        pthread_cond_signal(&pool->workers[i].wake);
    pthread_mutex_unlock(&pool->lock);
}

void zlink_cpu_worker_pool_stats(zlink_cpu_worker_pool_t *pool, zlink_cpu_worker_pool_stats_t *stats)
{
    const cpu_worker_t *worker;

    pthread_mutex_lock(&pool->lock);
    *stats = (zlink_cpu_worker_pool_stats_t){pool->threads, pool->threads_max, 0, pool->running, pool->queued};
    LIST_FOREACH(worker, &pool->idle, in_list)
    {
        stats->idle++;
    }
    pthread_mutex_unlock(&pool->lock);
}
