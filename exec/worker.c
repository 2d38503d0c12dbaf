/*
 * The loop, and how workers sleep without losing a wake-up.
 *
 * A poster pushes into a ring (a compare-and-swap, sequentially consistent), then reads whether that ring's worker
 * sleeps. A worker first says that it sleeps, then looks into the rings once more. So either the poster sees it asleep
 * and wakes it, or it sees the queue. Where the ring's worker is awake it may be busy for long, and an idle worker is
 * woken to steal; one search at a time is enough, because a searcher clears `searching` before it looks into the rings,
 * and calls the next one if it leaves something behind. A poster that finds `searching` set has pushed before that
 * look. Whoever takes an inbox and puts its rest into a round hides it from thieves for a moment: it calls one
 * afterwards.
 *
 * Before it sleeps a worker may spin for some microseconds, one at a time, and only where that takes no core from
 * anybody (cores_to_spare). It says so in `searching`, which makes it the first to be asked for a search: whoever needs
 * a thief changes the word, without the kernel. Asked or not, it clears `searching` before it looks into the rings for
 * the last time, as every searcher does, so what was said of a poster that finds `searching` set holds for one that
 * finds it spinning, too. It does not look into the rings of others before: what is kept for a turn's worker stays
 * there. After a time in vain it sleeps until it is woken, so that an idle node polls nothing.
 *
 * An owner that becomes ready on a worker's own turn, with its home asleep, comes to this worker instead, which is
 * awake and has what it needs in its cache; nothing is woken for it as long as it is the next to run here and somebody
 * is on the watch. The watchman is a worker that went to sleep while another was awake, for WATCH_MS at most; it says
 * so before its last look into the rings, and no longer says so before its first look after it has slept. So a poster
 * that sees it has pushed before one of its looks, and waits for that look no longer than WATCH_MS; what the watchman
 * then does not take itself it calls a thief for. One that spins is as good: its last look comes sooner. Where all
 * sleep nobody is on the watch, and nobody wakes for nothing.
 *
 * The shared deadlines are looked at between two owners, and by the timekeeper's waking. A worker that goes to sleep
 * says so, then becomes the timekeeper where there is none, then reads the next deadline; it ceases to be it before it
 * looks for work. Whoever publishes an earlier deadline wakes the timekeeper, or, where it finds none, somebody who
 * sleeps: a worker that it does not see asleep will find no timekeeper, or one that has not read the deadline yet. And
 * whoever takes up an owner, which may keep it for long, first wakes a sleeper if nobody keeps the time. So while a
 * deadline is running and a worker is free, one of them is on its way to look, or sleeps no longer than that.
 */
#include "exec/worker.h"

#include <assert.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/domain.h"
#include "exec/cpu_relax.h"
#include "exec/lane_word.h"
#include "exec/serial_execution_queue_drain.h"

#define SLEEP_MS_MAX 3600000u /* a deadline further away is looked at again */
#define WATCH_MS     4u /* how long a ready owner may wait for the worker that made it ready, while others sleep */

#define SUBMITTERS 1u  /* threads that work beside the workers, for their sake: the reactor */
#define RELAXES    16u /* between two looks of one that spins; about as long as reading the clock, or longer */

static _Thread_local zlink_worker_t *current_worker __attribute__((tls_model("initial-exec")));

zlink_worker_t *zlink_worker_current(void)
{
    return current_worker;
}

/* ---- the time ---- */

uint64_t zlink_worker_now_ns(zlink_worker_t *worker)
{
    if (zlink_worker_clock_stands(worker))
        return worker->clock_ns;
#if defined(__x86_64__)
    worker->clock_ticks = __builtin_ia32_rdtsc();
#endif
    worker->clock_ns = zlink_clock_now_ns(worker->pool->clock);
    return worker->clock_ns;
}

/* ---- waking ---- */

bool zlink_worker_wake(zlink_worker_t *worker)
{
    const zlink_scheduler_t *scheduler = worker->pool->scheduler;

    if (atomic_exchange(&worker->sleeping, 0) == 0)
        return false;
    if (scheduler)
        scheduler->wake(scheduler->context, worker->index);
    else
        syscall(SYS_futex, &worker->sleeping, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    return true;
}

/* That of number `last` last: it may sleep, too, and another poster may rely on this search for its own ring. */
static bool wake_one_idle(zlink_worker_pool_t *pool, unsigned last)
{
    for (unsigned i = 1; i <= pool->worker_count; i++) {
        zlink_worker_t *worker = pool->workers[(last + i) % pool->worker_count];
        if (atomic_load(&worker->sleeping) && zlink_worker_wake(worker))
            return true;
    }
    return false;
}

static bool anybody_sleeps(const zlink_worker_pool_t *pool)
{
    for (unsigned i = 0; i < pool->worker_count; i++)
        if (atomic_load(&pool->workers[i]->sleeping))
            return true;
    return false;
}

/* Does somebody sleep or spin? */
static bool anybody_free(const zlink_worker_pool_t *pool)
{
    return atomic_load(&pool->idle) != 0 || atomic_load(&pool->searching) == ZLINK_SEARCH_SPINS;
}

/* Somebody should look for what stands in the ring of worker number `home`. */
static void call_thief(zlink_worker_pool_t *pool, unsigned home)
{
    for (;;) {
        bool nobody_sleeps = atomic_load(&pool->idle) == 0;
        uint32_t search = atomic_load(&pool->searching);
        if (search == ZLINK_SEARCH_UNDER_WAY || (search == ZLINK_SEARCH_NONE && nobody_sleeps))
            return;
        if (!atomic_compare_exchange_strong(&pool->searching, &search, ZLINK_SEARCH_UNDER_WAY))
            continue;
        if (search == ZLINK_SEARCH_SPINS || wake_one_idle(pool, home))
            return;
        /* Who goes to sleep now looks first; but another poster may have relied on the search that did not happen. */
        atomic_store(&pool->searching, ZLINK_SEARCH_NONE);
        if (!anybody_sleeps(pool))
            return;
    }
}

/* It ends its slice soon: its owner has nothing left but the item that runs. */
static bool nearly_done(const zlink_worker_t *worker)
{
    const zlink_serial_execution_queue_t *queue = worker->driving;

    return !queue ||
           (!queue->application_last && !queue->lifecycle_last && !zlink_lane_word_chain(&queue->application));
}

/* An owner has become ready on a turn of `worker`, where it stays. It is warm there, and a wake-up costs more than most
 * handlers: if it is the next one there, nobody is called as long as somebody is on the watch for what takes longer. */
static void ready_here(zlink_worker_t *worker, bool behind)
{
    zlink_worker_pool_t *pool = worker->pool;

    if (!behind && zlink_ready_ring_is_next(&worker->ready) && nearly_done(worker) &&
        (atomic_load(&pool->watchman) || atomic_load(&pool->searching) == ZLINK_SEARCH_SPINS))
        return;
    call_thief(pool, worker->index);
}

void zlink_worker_ready(zlink_serial_execution_queue_t *queue)
{
    zlink_worker_t *self = current_worker;
    zlink_worker_t *home = atomic_load_explicit(&queue->home, memory_order_relaxed);
    zlink_worker_pool_t *pool = home->pool;
    bool pinned = queue->suspended != 0 || queue->held != NULL;

    if (self && self != home && self->pool == pool && !pinned && atomic_load(&home->sleeping)) {
        home = self;
        atomic_store_explicit(&queue->home, self, memory_order_relaxed);
    }
    bool behind = zlink_ready_ring_push(&home->ready, queue, pinned ? ZLINK_READY_PINNED : ZLINK_READY_MOVABLE);
    if (home == self) {
        if (!pinned)
            ready_here(self, behind);
        return;
    }
    if (atomic_load(&home->sleeping) && zlink_worker_wake(home))
        return;
    if (!pinned)
        call_thief(pool, home->index);
}

/* ---- finding work ---- */

static zlink_serial_execution_queue_t *steal(zlink_worker_t *worker)
{
    zlink_worker_pool_t *pool = worker->pool;

    for (unsigned i = 1; i < pool->worker_count; i++) {
        zlink_worker_t *victim = pool->workers[(worker->index + i) % pool->worker_count];
        zlink_serial_execution_queue_t *queue = zlink_ready_ring_steal(&victim->ready, &worker->ready);
        if (!queue)
            continue;
        if (zlink_ready_ring_has_movable(&victim->ready) || zlink_ready_ring_has_movable(&worker->ready))
            call_thief(pool, worker->index);
        return queue;
    }
    return NULL;
}

/* What stands in its own ring. */
static zlink_serial_execution_queue_t *pop(zlink_worker_t *worker)
{
    const zlink_scheduler_t *scheduler = worker->pool->scheduler;
    bool shared;

    if (scheduler && scheduler->pick)
        return zlink_ready_ring_pop_picked(&worker->ready, scheduler->pick, scheduler->context);
    zlink_serial_execution_queue_t *queue = zlink_ready_ring_pop(&worker->ready, &shared);
    if (shared)
        call_thief(worker->pool, worker->index);
    return queue;
}

static bool anything_to_steal(const zlink_worker_t *worker)
{
    const zlink_worker_pool_t *pool = worker->pool;

    for (unsigned i = 1; i < pool->worker_count; i++)
        if (zlink_ready_ring_has_movable(&pool->workers[(worker->index + i) % pool->worker_count]->ready))
            return true;
    return false;
}

/* Is there a core for one that only spins? One that is awake has its own, and who submits another. Where the process
 * has two, or as many as workers awake, nobody spins: it would keep its core from whoever brings the work. */
static bool cores_to_spare(const zlink_worker_pool_t *pool)
{
    return pool->cores > pool->worker_count - atomic_load_explicit(&pool->idle, memory_order_relaxed) + SUBMITTERS;
}

/* Looks into its own ring for a while. True: there is something in it, or a search is asked for. */
static bool spin(zlink_worker_t *worker)
{
    zlink_worker_pool_t *pool = worker->pool;
    uint32_t none = ZLINK_SEARCH_NONE;

    if (worker->spin.ns == 0 || !cores_to_spare(pool) ||
        !atomic_compare_exchange_strong(&pool->searching, &none, ZLINK_SEARCH_SPINS))
        return false;
    zlink_worker_count(&worker->spins);
    uint64_t end_ns = zlink_clock_now_ns(&zlink_clock_system) + worker->spin.ns;
    bool found = false;
    while (!found && zlink_clock_now_ns(&zlink_clock_system) < end_ns) {
        for (unsigned i = 0; i < RELAXES; i++)
            zlink_cpu_relax();
        found = !zlink_ready_ring_is_empty(&worker->ready) || atomic_load(&pool->searching) != ZLINK_SEARCH_SPINS;
    }
    if (atomic_exchange(&pool->searching, ZLINK_SEARCH_NONE) == ZLINK_SEARCH_UNDER_WAY)
        found = true;
    if (found) {
        zlink_worker_count(&worker->spins_found);
        zlink_adaptive_spin_found(&worker->spin);
    } else {
        zlink_adaptive_spin_in_vain(&worker->spin);
    }
    return found;
}

/* Under a scheduler: the step ends, and the next one begins. */
static void end_step(zlink_worker_t *worker)
{
    zlink_coroutine_switch(worker->stack, &worker->native);
}

/* Whatever ends it (a wake, the time, a signal, a flag that is clear by now), the caller looks at everything again. */
static void wait_on_futex(zlink_worker_t *worker, const struct timespec *wait)
{
    bool counts = worker->spin.max_ns != 0;
    uint64_t began_ns = counts ? zlink_clock_now_ns(&zlink_clock_system) : 0;

    zlink_worker_count(&worker->sleeps);
    syscall(SYS_futex, &worker->sleeping, FUTEX_WAIT_PRIVATE, 1, wait, NULL, 0);
    if (counts)
        worker->slept_ns += zlink_clock_now_ns(&zlink_clock_system) - began_ns;
}

/* Sleeps until it is woken or until the next timer, or as the timekeeper the next shared deadline, is due. */
static void sleep_on_futex(zlink_worker_t *worker, bool keeps_time, bool on_watch)
{
    struct timespec timeout;
    struct timespec *wait = NULL;
    uint64_t next_ms = zlink_timer_wheel_next_ms(&worker->timers);

    if (keeps_time && zlink_deadline_scheduler_next_ms(&worker->pool->deadlines) < next_ms)
        next_ms = zlink_deadline_scheduler_next_ms(&worker->pool->deadlines);
    if (worker->pool->scheduler) {
        worker->stepped = false;
        end_step(worker);
        return;
    }
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
    if (on_watch && (!wait || timeout.tv_sec != 0 || timeout.tv_nsec > (long)(WATCH_MS * ZLINK_NS_PER_MS))) {
        timeout = (struct timespec){.tv_nsec = (long)(WATCH_MS * ZLINK_NS_PER_MS)};
        wait = &timeout;
    }
    wait_on_futex(worker, wait);
}

static void park(zlink_worker_t *worker)
{
    zlink_worker_pool_t *pool = worker->pool;
    zlink_worker_t *nobody = NULL;
    zlink_worker_t *no_watch = NULL;

    bool others_work = atomic_fetch_add(&pool->idle, 1) + 1 < pool->worker_count;
    atomic_store(&worker->sleeping, 1);
    bool keeps_time = atomic_compare_exchange_strong(&pool->timekeeper, &nobody, worker);
    bool on_watch = others_work && atomic_compare_exchange_strong(&pool->watchman, &no_watch, worker);
    if (zlink_ready_ring_is_empty(&worker->ready) && !anything_to_steal(worker) && !atomic_load(&pool->stopping) &&
        atomic_load(&pool->clock_moves) == worker->clock_moves_seen)
        sleep_on_futex(worker, keeps_time, on_watch);
    atomic_store(&worker->sleeping, 0);
    if (keeps_time)
        atomic_store(&pool->timekeeper, NULL);
    atomic_fetch_sub(&pool->idle, 1);
    if (atomic_load(&pool->searching) == ZLINK_SEARCH_UNDER_WAY)
        atomic_store(&pool->searching, ZLINK_SEARCH_NONE);
    if (on_watch)
        atomic_store(&pool->watchman, NULL);
}

static void fire_timers(zlink_worker_t *worker)
{
    zlink_deadline_scheduler_t *deadlines = &worker->pool->deadlines;

    worker->clock_moves_seen = atomic_load(&worker->pool->clock_moves);
    if (worker->timers.count != 0)
        zlink_timer_wheel_advance(&worker->timers, zlink_worker_now_ns(worker) / ZLINK_NS_PER_MS);
    if (zlink_deadline_scheduler_next_ms(deadlines) != UINT64_MAX)
        zlink_deadline_scheduler_run(deadlines, zlink_worker_now_ns(worker) / ZLINK_NS_PER_MS);
}

/* Before an owner is taken up: see above. */
static void leave_the_time(zlink_worker_t *worker)
{
    zlink_worker_pool_t *pool = worker->pool;

    if (zlink_deadline_scheduler_next_ms(&pool->deadlines) != UINT64_MAX && !atomic_load(&pool->timekeeper) &&
        atomic_load(&pool->idle) != 0)
        (void)wake_one_idle(pool, worker->index);
}

void zlink_worker_attend(void *context)
{
    zlink_worker_pool_t *pool = context;
    zlink_worker_t *timekeeper = atomic_load(&pool->timekeeper);

    if (timekeeper) {
        (void)zlink_worker_wake(timekeeper); /* it looks before it does anything else, also where it was awake */
        return;
    }
    for (unsigned i = 0; i < pool->worker_count; i++)
        if (atomic_load(&pool->workers[i]->sleeping) && zlink_worker_wake(pool->workers[i]))
            return;
}

/* The next queue to drive, NULL when the pool stops. */
static zlink_serial_execution_queue_t *find_work(zlink_worker_t *worker)
{
    bool searches = false; /* it may have been woken for another queue than the one that it takes */

    for (;;) {
        fire_timers(worker);
        zlink_serial_execution_queue_t *queue = pop(worker);
        if (!queue) {
            queue = steal(worker);
            searches = true;
        }
        if (queue) {
            leave_the_time(worker);
            if (worker->slept_ns != 0)
                zlink_adaptive_spin_slept(&worker->spin, worker->slept_ns);
            worker->slept_ns = 0;
            if (searches && anybody_free(worker->pool) && anything_to_steal(worker))
                call_thief(worker->pool, worker->index);
            return queue;
        }
        if (atomic_load(&worker->pool->stopping))
            return NULL;
        if (!spin(worker))
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
        if (worker->pool->scheduler)
            end_step(worker);
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
    zlink_domain_enter(ZLINK_DOMAIN_INFRASTRUCTURE);
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

static void begin(zlink_worker_t *worker)
{
    zlink_coroutine_init_native(&worker->native);
    zlink_coroutine_prepare(worker->stack, loop, worker);
}

/* Runs the loop until it stops, or under a scheduler until it pauses. */
static void run(zlink_worker_t *worker)
{
    zlink_domain_t before = zlink_domain_enter(ZLINK_DOMAIN_INFRASTRUCTURE);

    current_worker = worker;
    zlink_coroutine_switch(&worker->native, worker->stack);
    current_worker = NULL;
    zlink_domain_enter(before);
}

static void end(zlink_worker_t *worker)
{
    zlink_coroutine_discard(worker->stack);
    zlink_stack_pool_give_back(&worker->pool->stacks, &worker->stacks, worker->stack);
    worker->stack = NULL;
}

void *zlink_worker_main(void *argument)
{
    zlink_worker_t *worker = argument;
    char name[16]; /* what the kernel takes */

    (void)snprintf(name, sizeof(name), "zlink-worker-%u", worker->index);
    (void)pthread_setname_np(pthread_self(), name); /* for people only */
    begin(worker);
    run(worker);
    end(worker);
    return NULL;
}

void zlink_worker_begin_steps(zlink_worker_t *worker)
{
    begin(worker);
}

bool zlink_worker_step(zlink_worker_t *worker)
{
    assert(!current_worker);
    worker->stepped = true;
    run(worker);
    return worker->stepped;
}

void zlink_worker_end_steps(zlink_worker_t *worker)
{
    assert(atomic_load(&worker->pool->stopping));
    run(worker);
    end(worker);
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
