/*
 * pthread_create is replaced at link time (exec.cmake), so that the k-th thread can be refused.
 */
#include "exec_probe.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "base/container_of.h"
#include "base/memory.h"
#include "exec/serial_execution_queue.h"
#include "exec/worker.h"
#include "exec/worker_pool.h"

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument);

static int threads_left = -1; /* threads that still start; negative: all */

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    if (threads_left == 0)
        return EAGAIN;
    if (threads_left > 0)
        threads_left--;
    return __real_pthread_create(thread, attributes, start, argument);
}

/* ---- create and destroy ---- */

/* Options out of range are refused with their name, and no pool comes of it. */
static void test_options_out_of_range_are_refused(void **state)
{
    const struct {
        zlink_worker_pool_options_t options;
        const char *name;
    } bad[] = {
        {{.workers = 1025}, "workers"},
        {{.workers = UINT32_MAX}, "workers"},
        {{.workers = 3, .stacks_max = 2}, "stacks_max"},
        {{.workers = 1, .stacks_max = UINT32_MAX}, "stacks_max"},
        {{.workers = 1, .stack_bytes = 1000}, "stack_bytes"},
        {{.workers = 1, .stack_bytes = (size_t)9 << 20}, "stack_bytes"},
        {{.workers = 1, .spin_us_max = 1001}, "spin_us_max"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        zlink_worker_pool_t *pool = NULL;
        zlink_refusal_t why = {{0}};
        assert_int_equal(zlink_worker_pool_create(&bad[i].options, &pool, &why), ZLINK_INVALID_OPERATION);
        assert_null(pool);
        assert_non_null(strstr(why.line, bad[i].name));
        assert_int_equal(zlink_worker_pool_create(&bad[i].options, &pool, NULL), ZLINK_INVALID_OPERATION);
    }
}

/* 0 workers are as many as cores that the process may use, and every 0 has a default. */
static void test_defaults(void **state)
{
    zlink_worker_pool_options_t options = {0};
    zlink_worker_pool_stats_t stats;
    zlink_worker_pool_t *pool = NULL;
    zlink_refusal_t why = {{0}};
    cpu_set_t set;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
    assert_int_equal(zlink_worker_pool_create(&options, &pool, &why), ZLINK_OK);
    zlink_worker_pool_stats(pool, &stats);
    assert_true(stats.workers >= 1 && stats.workers <= (unsigned)CPU_COUNT(&set));
    assert_true(stats.stack_bytes >= (size_t)64 << 10);
    assert_true(stats.stacks_max >= 1024);
    assert_int_equal(stats.stacks_live, stats.workers);
    assert_int_equal(stats.items, 0);
    zlink_worker_pool_destroy(pool);
    zlink_worker_pool_destroy(NULL);
}

/* The n-th allocation fails: a clear refusal, and nothing is left behind (the address sanitizer looks). */
static void test_the_nth_allocation_fails(void **state)
{
    zlink_worker_pool_options_t options = {.workers = 3};
    int failures = 0;

    (void)state;
    for (int64_t n = 0;; n++) {
        zlink_worker_pool_t *pool = NULL;
        zlink_refusal_t why = {{0}};
        zlink_memory_fail_after(n);
        zlink_status_t status = zlink_worker_pool_create(&options, &pool, &why);
        zlink_memory_fail_after(-1);
        if (status == ZLINK_OK) {
            zlink_worker_pool_destroy(pool);
            break;
        }
        assert_int_equal(status, ZLINK_CAPACITY_EXCEEDED);
        assert_null(pool);
        assert_non_null(strstr(why.line, "memory"));
        failures++;
    }
    assert_true(failures >= 4); /* the pool and each worker */
}

/* The k-th thread does not start: those that did are ended again. */
static void test_the_kth_thread_fails(void **state)
{
    zlink_worker_pool_options_t options = {.workers = 4};

    (void)state;
    for (int k = 0; k < 4; k++) {
        zlink_worker_pool_t *pool = NULL;
        zlink_refusal_t why = {{0}};
        threads_left = k;
        assert_int_equal(zlink_worker_pool_create(&options, &pool, &why), ZLINK_CAPACITY_EXCEEDED);
        threads_left = -1;
        assert_null(pool);
        assert_non_null(strstr(why.line, "thread"));
    }
}

/* A pool goes with queues that are idle and were never closed, and at once after it came. */
static void test_destroy_with_idle_queues(void **state)
{
    enum { QUEUES = 20 };
    zlink_exec_fixture_t fixture;
    owner_t owners[QUEUES];
    probe_t probes[QUEUES];

    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        zlink_exec_fixture_open(&fixture, 1 + i % 3, 0);
        zlink_exec_fixture_close(&fixture);
    }
    zlink_exec_fixture_open(&fixture, 2, 0);
    for (unsigned i = 0; i < QUEUES; i++) {
        owner_open(&owners[i], &fixture);
        make_probe(&probes[i]);
        if (i % 2)
            enqueue(&owners[i], &probes[i]);
    }
    for (unsigned i = 1; i < QUEUES; i += 2)
        zlink_test_wait(&probes[i].ran);
    zlink_exec_fixture_close(&fixture); /* the last slices may be ending just now */
    for (unsigned i = 0; i < QUEUES; i++)
        assert_int_equal(atomic_load(&probes[i].has_run), i % 2);
}

/* ---- the threads ---- */

static zlink_work_result_t looks_at_its_thread(zlink_work_item_t *item, zlink_worker_t *worker)
{
    probe_t *probe = ZLINK_CONTAINER_OF(item, probe_t, item);
    char name[16] = "";
    sigset_t blocked;

    zlink_check(worker == zlink_worker_current());
    zlink_check(pthread_getname_np(pthread_self(), name, sizeof(name)) == 0);
    zlink_check(strcmp(name, "zlink-worker-0") == 0);
    zlink_check(pthread_sigmask(SIG_BLOCK, NULL, &blocked) == 0);
    zlink_check(sigismember(&blocked, SIGTERM) == 1 && sigismember(&blocked, SIGINT) == 1);
    zlink_check(sigismember(&blocked, SIGHUP) == 1 && sigismember(&blocked, SIGPIPE) == 1);
    sem_post(&probe->ran);
    return ZLINK_WORK_DONE;
}

/* Workers have names and take no signals; the creator's own mask is as it was. */
static void test_workers_are_named_and_take_no_signals(void **state)
{
    zlink_exec_fixture_t fixture;
    owner_t owner;
    probe_t probe;
    sigset_t mine;
    sigset_t before;
    sigset_t after;

    (void)state;
    sigemptyset(&mine);
    sigaddset(&mine, SIGUSR1);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &mine, &before), 0);
    zlink_exec_fixture_open(&fixture, 1, 0);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, &after), 0);
    for (int signal = 1; signal < SIGRTMIN; signal++)
        assert_int_equal(sigismember(&mine, signal), sigismember(&after, signal));
    assert_null(zlink_worker_current());
    owner_open(&owner, &fixture);
    make_probe(&probe);
    probe.item.run = looks_at_its_thread;
    enqueue(&owner, &probe);
    zlink_test_wait(&probe.ran);
    owner_close(&owner);
    zlink_exec_fixture_close(&fixture);
}

static unsigned entries(const char *path)
{
    unsigned count = 0;
    DIR *folder = opendir(path);

    assert_non_null(folder);
    while (readdir(folder))
        count++;
    (void)closedir(folder);
    return count;
}

#define MANY_OWNERS 10000u

typedef struct waiting {
    zlink_work_item_t item;
    bool waited;
} waiting_t;

static _Atomic unsigned waiting_now;
static _Atomic unsigned owners_closed;
static sem_t all_wait;
static sem_t all_closed;

static zlink_work_result_t run_waiting(zlink_work_item_t *item, zlink_worker_t *worker)
{
    waiting_t *waiting = ZLINK_CONTAINER_OF(item, waiting_t, item);

    (void)worker;
    if (waiting->waited)
        return ZLINK_WORK_DONE;
    waiting->waited = true;
    if (atomic_fetch_add(&waiting_now, 1) + 1 == MANY_OWNERS)
        sem_post(&all_wait);
    return ZLINK_WORK_SUSPENDED;
}

static void one_closed(zlink_serial_execution_queue_t *queue)
{
    (void)queue;
    if (atomic_fetch_add(&owners_closed, 1) + 1 == MANY_OWNERS)
        sem_post(&all_closed);
}

/* IC-8: 10,000 owners, each with waiting work, and not a thread or descriptor more than the pool had without them. */
static void test_ic8_threads_do_not_grow_with_owners(void **state)
{
    zlink_exec_fixture_t fixture;
    zlink_serial_execution_queue_t *queues = NULL;
    waiting_t *items = calloc(MANY_OWNERS, sizeof(*items));

    (void)state;
    assert_non_null(items);
    assert_int_equal(posix_memalign((void **)&queues, 64, MANY_OWNERS * sizeof(*queues)), 0);
    sem_init(&all_wait, 0, 0);
    sem_init(&all_closed, 0, 0);
    /* A thread that was joined may stand there for a moment yet: the number may be one too high, never too low. */
    unsigned threads = entries("/proc/self/task");
    unsigned files = entries("/proc/self/fd");
    zlink_exec_fixture_open(&fixture, 2, 0);
    assert_true(entries("/proc/self/task") <= threads + 2);
    for (unsigned i = 0; i < MANY_OWNERS; i++) {
        zlink_serial_execution_queue_init(&queues[i], fixture.pool, &fixture.policy);
        items[i].item.run = run_waiting;
        assert_int_equal(zlink_serial_execution_queue_enqueue(&queues[i], &items[i].item), ZLINK_OK);
    }
    zlink_test_wait(&all_wait);
    assert_true(entries("/proc/self/task") <= threads + 2);
    assert_int_equal(entries("/proc/self/fd"), files);
    for (unsigned i = 0; i < MANY_OWNERS; i++) {
        zlink_serial_execution_queue_close(&queues[i], one_closed);
        zlink_serial_execution_queue_resume(&queues[i], &items[i].item);
    }
    zlink_test_wait(&all_closed);
    zlink_exec_fixture_close(&fixture);
    free(items);
    free(queues);
}

/* ---- busy workers ---- */

typedef struct timed {
    zlink_work_item_t item;
    zlink_timer_t timer;
    sem_t started;
    sem_t fired;
} timed_t;

static void fire(zlink_timer_t *timer)
{
    sem_post(&ZLINK_CONTAINER_OF(timer, timed_t, timer)->fired);
}

static zlink_work_result_t start_timer(zlink_work_item_t *item, zlink_worker_t *worker)
{
    timed_t *timed = ZLINK_CONTAINER_OF(item, timed_t, item);

    timed->timer.fire = fire;
    zlink_worker_timer_start(worker, &timed->timer, 1000 + 5);
    sem_post(&timed->started);
    return ZLINK_WORK_DONE;
}

typedef struct quiet {
    zlink_quiescence_t quiescence;
    sem_t reached;
} quiet_t;

static void reached(zlink_quiescence_t *quiescence)
{
    sem_post(&ZLINK_CONTAINER_OF(quiescence, quiet_t, quiescence)->reached);
}

/* Every kind of submission while all workers are busy; it proves itself by returning, since the loops end only
 * afterwards. */
static void submit_while_busy(owner_t *owner, probe_t accepted[4], zlink_work_item_t *suspended, quiet_t *quiet)
{
    probe_t refused;

    make_probe(&refused);
    enqueue(owner, &accepted[0]);
    enqueue(owner, &accepted[1]);
    assert_int_equal(zlink_serial_execution_queue_enqueue(&owner->queue, &refused.item), ZLINK_CAPACITY_EXCEEDED);
    assert_int_equal(zlink_serial_execution_queue_enqueue_lifecycle(&owner->queue, &accepted[2].item), ZLINK_OK);
    assert_int_equal(zlink_serial_execution_queue_enqueue_lifecycle(&owner->queue, &refused.item),
                     ZLINK_CAPACITY_EXCEEDED);
    assert_int_equal(zlink_serial_execution_queue_enqueue_barrier_next(&owner->queue, &accepted[3].item), ZLINK_OK);
    zlink_serial_execution_queue_resume(&owner->queue, suspended);
    assert_int_equal(zlink_serial_execution_queue_await_quiescence(&owner->queue, &quiet->quiescence), ZLINK_OK);
    zlink_serial_execution_queue_close(&owner->queue, owner_closed);
    assert_int_equal(zlink_serial_execution_queue_enqueue(&owner->queue, &refused.item), ZLINK_SHUTTING_DOWN);
    for (unsigned i = 0; i < 4; i++)
        assert_false(atomic_load(&accepted[i].has_run)); /* never on the submitter's stack */
    assert_false(atomic_load(&refused.has_run));
}

static zlink_work_result_t suspends_once(zlink_work_item_t *item, zlink_worker_t *worker)
{
    probe_t *probe = ZLINK_CONTAINER_OF(item, probe_t, item);

    probe->worker = worker;
    sem_post(&probe->ran);
    return atomic_exchange(&probe->has_run, true) ? ZLINK_WORK_DONE : ZLINK_WORK_SUSPENDED;
}

/* EX-103: with every worker in a busy loop, submissions are accepted and refused as ever, and another pool's timers
 * fire. When the loops end, what was accepted runs. */
static void test_ex103_busy_workers_keep_nobody_out(void **state)
{
    zlink_exec_fixture_t busy;
    zlink_exec_fixture_t other;
    owner_t spinning[2];
    probe_t spinners[2];
    owner_t owner;
    owner_t elsewhere;
    probe_t suspended;
    probe_t accepted[4];
    timed_t timed = {.item.run = start_timer};
    quiet_t quiet = {.quiescence.reached = reached};
    zlink_worker_pool_stats_t stats;

    (void)state;
    zlink_exec_fixture_open(&busy, 2, 0);
    busy.policy.application_message_capacity = 3;
    busy.policy.lifecycle_message_capacity = 1;
    owner_open(&owner, &busy);
    sem_init(&quiet.reached, 0, 0);
    make_probe(&suspended);
    suspended.item.run = suspends_once;
    enqueue(&owner, &suspended); /* one of three, and stays one */
    zlink_test_wait(&suspended.ran);
    for (unsigned i = 0; i < 2; i++) {
        owner_open(&spinning[i], &busy);
        make_probe(&spinners[i]);
        atomic_store(&spinners[i].spins, true);
        enqueue(&spinning[i], &spinners[i]);
    }
    for (unsigned i = 0; i < 2; i++)
        zlink_test_wait(&spinners[i].ran);
    assert_ptr_not_equal(spinners[0].worker, spinners[1].worker);
    for (unsigned i = 0; i < 4; i++)
        make_probe(&accepted[i]);
    submit_while_busy(&owner, accepted, &suspended.item, &quiet);
    zlink_worker_pool_clock_moved(busy.pool);

    zlink_exec_fixture_open(&other, 1, 0);
    owner_open(&elsewhere, &other);
    sem_init(&timed.started, 0, 0);
    sem_init(&timed.fired, 0, 0);
    assert_int_equal(zlink_serial_execution_queue_enqueue(&elsewhere.queue, &timed.item), ZLINK_OK);
    zlink_test_wait(&timed.started);
    zlink_exec_fixture_advance(&other, 5);
    zlink_test_wait(&timed.fired);
    owner_close(&elsewhere);
    zlink_exec_fixture_close(&other);

    zlink_worker_pool_stats(busy.pool, &stats);
    assert_int_equal(stats.items, 3); /* the loops, and what was suspended before */
    for (unsigned i = 0; i < 2; i++)
        atomic_store(&spinners[i].spins, false);
    zlink_test_wait(&quiet.reached);
    zlink_test_wait(&owner.closed);
    for (unsigned i = 0; i < 4; i++)
        assert_true(atomic_load(&accepted[i].has_run));
    for (unsigned i = 0; i < 2; i++)
        owner_close(&spinning[i]);
    zlink_exec_fixture_close(&busy);
}

/* ---- timers ---- */

#define AN_HOUR_MS 3600000u /* nobody waits for that: it is the moved clock that ends the worker's sleep */

typedef struct two_timers {
    zlink_work_item_t item;
    zlink_timer_t cancelled;
    zlink_timer_t kept;
    zlink_worker_t *worker;
    sem_t fired;
    _Atomic bool wrong;
} two_timers_t;

static void wrong_fire(zlink_timer_t *timer)
{
    atomic_store(&ZLINK_CONTAINER_OF(timer, two_timers_t, cancelled)->wrong, true);
}

static void kept_fire(zlink_timer_t *timer)
{
    zlink_check(zlink_worker_current());
    sem_post(&ZLINK_CONTAINER_OF(timer, two_timers_t, kept)->fired);
}

static zlink_work_result_t start_two(zlink_work_item_t *item, zlink_worker_t *worker)
{
    two_timers_t *two = ZLINK_CONTAINER_OF(item, two_timers_t, item);

    two->cancelled.fire = wrong_fire;
    two->kept.fire = kept_fire;
    two->worker = worker;
    zlink_worker_timer_start(worker, &two->cancelled, 1000 + AN_HOUR_MS - 2);
    zlink_worker_timer_start(worker, &two->kept, 1000 + AN_HOUR_MS);
    zlink_worker_timer_cancel(worker, &two->cancelled);
    return ZLINK_WORK_DONE;
}

/* A timer fires on its worker when the clock has come there, also when the worker sleeps, and not when it was
 * cancelled. */
static void test_timers_of_a_worker(void **state)
{
    zlink_exec_fixture_t fixture;
    owner_t owner;
    two_timers_t two = {.item.run = start_two};

    (void)state;
    sem_init(&two.fired, 0, 0);
    zlink_exec_fixture_open(&fixture, 1, 0);
    owner_open(&owner, &fixture);
    assert_int_equal(zlink_serial_execution_queue_enqueue(&owner.queue, &two.item), ZLINK_OK);
    owner_close(&owner); /* it has run */
    zlink_exec_fixture_advance(&fixture, AN_HOUR_MS - 1);
    assert_int_not_equal(sem_trywait(&two.fired), 0);
    while (!atomic_load(&two.worker->sleeping))
        sched_yield(); /* progress: there is nothing to do for it */
    zlink_exec_fixture_advance(&fixture, 1);
    zlink_test_wait(&two.fired);
    zlink_exec_fixture_close(&fixture);
    assert_false(atomic_load(&two.wrong));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_out_of_range_are_refused),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_the_nth_allocation_fails),
        cmocka_unit_test(test_the_kth_thread_fails),
        cmocka_unit_test(test_destroy_with_idle_queues),
        cmocka_unit_test(test_workers_are_named_and_take_no_signals),
        cmocka_unit_test(test_ic8_threads_do_not_grow_with_owners),
        cmocka_unit_test(test_ex103_busy_workers_keep_nobody_out),
        cmocka_unit_test(test_timers_of_a_worker),
    };

    return zlink_test_main(tests);
}
