/*
 * The loop, and how workers sleep without losing a wake-up.
 *
 * A poster pushes into a ring (which counts up, sequentially consistent), then reads whether the home worker sleeps. A
 * worker first says that it sleeps, then looks into the rings once more. So either the poster sees it asleep and wakes
 * it, or it sees the queue. Where the home worker is awake it may be busy for long, and an idle worker is woken to
 * steal; one search at a time is enough, because a searcher clears `searching` before it looks into the rings, and
 * calls the next one if it leaves something behind. A poster that finds `searching` set has pushed before that look.
 */
#include "exec/worker.h"

#include <assert.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "exec/serial_execution_queue_drain.h"

#define CLOCK_TICKS_PER_LOOK 16384u /* 4 to 8 microseconds */

#define SLEEP_MS_MAX 3600000u /* a deadline further away is looked at again */

static _Thread_local zlink_worker_t *current_worker __attribute__((tls_model("initial-exec")));

zlink_worker_t *zlink_worker_current(void)
{
    return current_worker;
}

/* ---- the time ---- */

uint64_t zlink_worker_now_ns(zlink_worker_t *worker)
{
    const zlink_clock_t *clock = worker->pool->clock;
#if defined(__x86_64__)
    if (clock == &zlink_clock_system) {
        uint64_t ticks = __builtin_ia32_rdtsc();
        if (ticks - worker->clock_ticks < CLOCK_TICKS_PER_LOOK)
            return worker->clock_ns;
        worker->clock_ticks = ticks;
    }
#endif
    worker->clock_ns = zlink_clock_now_ns(clock);
    return worker->clock_ns;
}

/* ---- waking ---- */

bool zlink_worker_wake(zlink_worker_t *worker)
{
    if (atomic_exchange(&worker->sleeping, 0) == 0)
        return false;
    syscall(SYS_futex, &worker->sleeping, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    return true;
}

static bool wake_one_idle(zlink_worker_pool_t *pool, unsigned but)
{
    for (unsigned i = 1; i < pool->worker_count; i++) {
        zlink_worker_t *worker = pool->workers[(but + i) % pool->worker_count];
        if (atomic_load(&worker->sleeping) && zlink_worker_wake(worker))
            return true;
    }
    return false;
}

static bool anybody_sleeps(zlink_worker_pool_t *pool, unsigned but)
{
    for (unsigned i = 1; i < pool->worker_count; i++)
        if (atomic_load(&pool->workers[(but + i) % pool->worker_count]->sleeping))
            return true;
    return false;
}

/* Somebody should look for what stands in the ring of worker number `home`. */
static void call_thief(zlink_worker_pool_t *pool, unsigned home)
{
    while (atomic_load(&pool->idle) != 0 && atomic_exchange(&pool->searching, 1) == 0) {
        if (wake_one_idle(pool, home))
            return;
        /* Who goes to sleep now looks first; but another poster may have relied on the search that did not happen. */
        atomic_store(&pool->searching, 0);
        if (!anybody_sleeps(pool, home))
            return;
    }
}

void zlink_worker_ready(zlink_serial_execution_queue_t *queue)
{
    zlink_worker_t *home = queue->home;
    zlink_worker_pool_t *pool = home->pool;

    zlink_ready_ring_push(&home->ready, queue);
    if (atomic_load(&home->sleeping)) {
        if (zlink_worker_wake(home))
            return;
    }
    if (zlink_ready_ring_has_movable(&home->ready))
        call_thief(pool, home->index);
}

/* ---- finding work ---- */

static zlink_serial_execution_queue_t *steal(zlink_worker_t *worker)
{
    zlink_worker_pool_t *pool = worker->pool;

    for (unsigned i = 1; i < pool->worker_count; i++) {
        zlink_worker_t *victim = pool->workers[(worker->index + i) % pool->worker_count];
        zlink_serial_execution_queue_t *queue = zlink_ready_ring_steal(&victim->ready);
        if (!queue)
            continue;
        queue->home = worker;
        zlink_worker_count(&worker->steals);
        if (zlink_ready_ring_has_movable(&victim->ready))
            call_thief(pool, victim->index);
        return queue;
    }
    return NULL;
}

static bool anything_to_steal(const zlink_worker_t *worker)
{
    const zlink_worker_pool_t *pool = worker->pool;

    for (unsigned i = 1; i < pool->worker_count; i++)
        if (zlink_ready_ring_has_movable(&pool->workers[(worker->index + i) % pool->worker_count]->ready))
            return true;
    return false;
}

/* Sleeps until it is woken or until the next timer is due. */
static void sleep_on_futex(zlink_worker_t *worker)
{
    struct timespec timeout;
    struct timespec *wait = NULL;
    uint64_t next_ms = zlink_timer_wheel_next_ms(&worker->timers);

    if (next_ms != UINT64_MAX) {
        uint64_t now_ns = zlink_clock_now_ns(worker->pool->clock);
        uint64_t now_ms = now_ns / ZLINK_NS_PER_MS;
        if (next_ms <= now_ms)
            return;
        uint64_t sleep_ms = next_ms - now_ms < SLEEP_MS_MAX ? next_ms - now_ms : SLEEP_MS_MAX;
        uint64_t sleep_ns = sleep_ms * ZLINK_NS_PER_MS - now_ns % ZLINK_NS_PER_MS;
        timeout.tv_sec = (time_t)(sleep_ns / 1000000000u);
        timeout.tv_nsec = (long)(sleep_ns % 1000000000u);
        wait = &timeout;
    }
    /* Whatever ends it (a wake, the time, a signal, a flag that is clear by now), the caller looks at everything again.
     */
    syscall(SYS_futex, &worker->sleeping, FUTEX_WAIT_PRIVATE, 1, wait, NULL, 0);
}

static void park(zlink_worker_t *worker)
{
    zlink_worker_pool_t *pool = worker->pool;

    atomic_fetch_add(&pool->idle, 1);
    atomic_store(&worker->sleeping, 1);
    if (zlink_ready_ring_is_empty(&worker->ready) && !anything_to_steal(worker) && !atomic_load(&pool->stopping) &&
        atomic_load(&pool->clock_moves) == worker->clock_moves_seen)
        sleep_on_futex(worker);
    atomic_store(&worker->sleeping, 0);
    atomic_fetch_sub(&pool->idle, 1);
    if (atomic_load(&pool->searching))
        atomic_store(&pool->searching, 0);
}

static void fire_timers(zlink_worker_t *worker)
{
    worker->clock_moves_seen = atomic_load(&worker->pool->clock_moves);
    if (worker->timers.count != 0)
        zlink_timer_wheel_advance(&worker->timers, zlink_worker_now_ns(worker) / ZLINK_NS_PER_MS);
}

/* The next queue to drive, NULL when the pool stops. */
static zlink_serial_execution_queue_t *find_work(zlink_worker_t *worker)
{
    for (;;) {
        fire_timers(worker);
        zlink_serial_execution_queue_t *queue = zlink_ready_ring_pop(&worker->ready);
        if (!queue)
            queue = steal(worker);
        if (queue)
            return queue;
        if (atomic_load(&worker->pool->stopping))
            return NULL;
        park(worker);
    }
}

/* ---- the loop ---- */

static void loop(void *argument)
{
    zlink_worker_t *worker = argument;

    if (worker->left) {
        zlink_stack_pool_parked(&worker->pool->stacks, worker->left);
        worker->left = NULL;
        zlink_serial_execution_queue_ran(worker, worker->answer);
    }
    for (;;) {
        if (!worker->driving) {
            zlink_serial_execution_queue_t *queue = find_work(worker);
            if (!queue)
                break;
            zlink_serial_execution_queue_begin_slice(queue, worker);
        }
        zlink_work_item_t *item = zlink_serial_execution_queue_next(worker);
        if (item) {
            zlink_work_result_t result = item->run(item, worker);
            /* Here it may be another stack than the one on which the item started; worker is the same. */
            zlink_serial_execution_queue_ran(worker, result);
        }
    }
    zlink_coroutine_leave(worker->stack, &worker->native);
}

void zlink_worker_leave_stack(zlink_worker_t *worker, zlink_coroutine_t *fresh, zlink_work_result_t answer)
{
    zlink_coroutine_t *self = worker->stack;

    worker->stack = fresh;
    worker->left = self;
    worker->answer = answer;
    worker->turn = NULL;
    zlink_coroutine_prepare(fresh, loop, worker);
    zlink_coroutine_switch(self, fresh);

    zlink_coroutine_t *retired = worker->retired;
    worker->retired = NULL;
    zlink_coroutine_discard(retired);
    zlink_stack_pool_give_back(&worker->pool->stacks, &worker->stacks, retired);
}

void zlink_worker_return_to(zlink_worker_t *worker, zlink_coroutine_t *parked)
{
    zlink_coroutine_t *self = worker->stack;

    worker->retired = self;
    worker->stack = parked;
    zlink_coroutine_leave(self, parked);
}

void *zlink_worker_main(void *argument)
{
    zlink_worker_t *worker = argument;
    char name[16]; /* what the kernel takes */

    (void)snprintf(name, sizeof(name), "zlink-worker-%u", worker->index);
    (void)pthread_setname_np(pthread_self(), name); /* for people only */
    current_worker = worker;
    zlink_coroutine_init_native(&worker->native);
    zlink_coroutine_prepare(worker->stack, loop, worker);
    zlink_coroutine_switch(&worker->native, worker->stack);

    zlink_coroutine_discard(worker->stack);
    zlink_stack_pool_give_back(&worker->pool->stacks, &worker->stacks, worker->stack);
    worker->stack = NULL;
    current_worker = NULL;
    return NULL;
}

/* ---- timers ---- */

void zlink_worker_timer_start(zlink_worker_t *worker, zlink_timer_t *timer, uint64_t deadline_ms)
{
    assert(worker == current_worker);
    zlink_timer_wheel_start(&worker->timers, timer, deadline_ms);
}

void zlink_worker_timer_cancel(zlink_worker_t *worker, zlink_timer_t *timer)
{
    assert(worker == current_worker);
    zlink_timer_wheel_cancel(&worker->timers, timer);
}
