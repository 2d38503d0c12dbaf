/*
 * pthread_create is replaced at link time (exec.cmake), so that the k-th thread can be refused.
 */
#include "exec_fixture.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "base/container_of.h"
#include "base/memory.h"
#include "exec/serial_execution_queue.h"
#include "exec/spot_serial_executor.h"
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

/* An item that tells where it ran, and stands there if it is asked to. */
typedef struct probe {
    zlink_work_item_t item;
    bool stands;
    _Atomic bool spins; /* stands in a busy loop */
    sem_t ran;
    sem_t let_go;
    zlink_worker_t *worker;
    _Atomic bool has_run;
} probe_t;

static zlink_work_result_t run_probe(zlink_work_item_t *item, zlink_worker_t *worker)
{
    probe_t *probe = ZLINK_CONTAINER_OF(item, probe_t, item);
    bool stands = probe->stands;

    probe->worker = worker;
    atomic_store(&probe->has_run, true);
    sem_post(&probe->ran);
    while (atomic_load(&probe->spins))
        ;
    if (stands)
        zlink_test_wait(&probe->let_go);
    return ZLINK_WORK_DONE;
}

static void make_probe(probe_t *probe)
{
    memset(probe, 0, sizeof(*probe));
    probe->item.run = run_probe;
    sem_init(&probe->ran, 0, 0);
    sem_init(&probe->let_go, 0, 0);
}

/* A queue and what tells that it is closed. */
typedef struct owner {
    zlink_serial_execution_queue_t queue;
    sem_t closed;
} owner_t;

static void owner_open(owner_t *owner, zlink_exec_fixture_t *fixture)
{
    zlink_serial_execution_queue_init(&owner->queue, fixture->pool, &fixture->policy);
    sem_init(&owner->closed, 0, 0);
}

static void owner_closed(zlink_serial_execution_queue_t *queue)
{
    sem_post(&ZLINK_CONTAINER_OF(queue, owner_t, queue)->closed);
}

static void owner_close(owner_t *owner)
{
    zlink_serial_execution_queue_close(&owner->queue, owner_closed);
    zlink_test_wait(&owner->closed);
}

static void enqueue(owner_t *owner, probe_t *probe)
{
    assert_int_equal(zlink_serial_execution_queue_enqueue(&owner->queue, &probe->item), ZLINK_OK);
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
    sigset_t before;
    sigset_t after;

    (void)state;
    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &before), 0);
    zlink_exec_fixture_open(&fixture, 1, 0);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &after), 0);
    for (int signal = 1; signal < SIGRTMIN; signal++)
        assert_int_equal(sigismember(&before, signal), sigismember(&after, signal));
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
    unsigned threads = entries("/proc/self/task");
    unsigned files = entries("/proc/self/fd");
    zlink_exec_fixture_open(&fixture, 2, 0);
    assert_int_equal(entries("/proc/self/task"), threads + 2);
    for (unsigned i = 0; i < MANY_OWNERS; i++) {
        zlink_serial_execution_queue_init(&queues[i], fixture.pool, &fixture.policy);
        items[i].item.run = run_waiting;
        assert_int_equal(zlink_serial_execution_queue_enqueue(&queues[i], &items[i].item), ZLINK_OK);
    }
    zlink_test_wait(&all_wait);
    assert_int_equal(entries("/proc/self/task"), threads + 2);
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

/* ---- fencing numbers ---- */

#define FENCED_OWNERS 8u
#define FENCED_ITEMS  2000u

typedef struct fenced {
    zlink_work_item_t item;
    zlink_exec_fixture_t *fixture;
    owner_t *owner;
    uint64_t authority;
    sem_t *let_go; /* the first two stand, so that both workers take part */
    sem_t *standing;
} fenced_t;

/* Takes longer than the budget, so that every item needs an acquisition of its own. */
static zlink_work_result_t run_fenced(zlink_work_item_t *item, zlink_worker_t *worker)
{
    fenced_t *fenced = ZLINK_CONTAINER_OF(item, fenced_t, item);

    (void)worker;
    fenced->authority = fenced->owner->queue.authority;
    atomic_fetch_add(&fenced->fixture->now_ns, 20 * ZLINK_NS_PER_MS);
    if (fenced->let_go) {
        sem_post(fenced->standing);
        zlink_test_wait(fenced->let_go);
    }
    return ZLINK_WORK_DONE;
}

static int by_number(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* IC-6: on two workers, with owners that are cut and stolen, no two acquisitions have the same number. */
static void test_ic6_no_two_acquisitions_share_a_number(void **state)
{
    static fenced_t items[FENCED_ITEMS];
    static uint64_t numbers[FENCED_ITEMS];
    owner_t owners[FENCED_OWNERS];
    zlink_exec_fixture_t fixture;
    sem_t standing;
    sem_t let_go;

    (void)state;
    zlink_exec_fixture_open(&fixture, 2, 0);
    sem_init(&standing, 0, 0);
    sem_init(&let_go, 0, 0);
    for (unsigned i = 0; i < FENCED_OWNERS; i++)
        owner_open(&owners[i], &fixture);
    for (unsigned i = 0; i < FENCED_ITEMS; i++) {
        bool stands = i % 100 < 2; /* of two owners: one on each worker */
        items[i] = (fenced_t){.item.run = run_fenced, .fixture = &fixture, .owner = &owners[i % FENCED_OWNERS]};
        items[i].let_go = stands ? &let_go : NULL;
        items[i].standing = &standing;
        assert_int_equal(zlink_serial_execution_queue_enqueue(&items[i].owner->queue, &items[i].item), ZLINK_OK);
        if (i % 100 == 99) {
            for (unsigned two = 0; two < 2; two++)
                zlink_test_wait(&standing);
            for (unsigned two = 0; two < 2; two++)
                sem_post(&let_go);
        }
    }
    for (unsigned i = 0; i < FENCED_OWNERS; i++)
        owner_close(&owners[i]);
    zlink_exec_fixture_close(&fixture);
    for (unsigned i = 0; i < FENCED_ITEMS; i++)
        numbers[i] = items[i].authority;
    qsort(numbers, FENCED_ITEMS, sizeof(numbers[0]), by_number);
    assert_true(numbers[0] > 0);
    for (unsigned i = 1; i < FENCED_ITEMS; i++)
        assert_true(numbers[i] > numbers[i - 1]);
}

/* ---- moving ---- */

typedef struct mover {
    zlink_turn_t turn;
    zlink_wait_t wait;
    zlink_wait_mode_t mode;
    zlink_worker_t *before;
    zlink_worker_t *after;
    sem_t submitted;
    sem_t ended;
} mover_t;

typedef struct spot {
    zlink_spot_serial_executor_t executor;
    sem_t closed;
} spot_t;

static void spot_closed(zlink_spot_serial_executor_t *executor)
{
    sem_post(&ZLINK_CONTAINER_OF(executor, spot_t, executor)->closed);
}

static zlink_status_t waits(zlink_turn_t *turn)
{
    mover_t *mover = ZLINK_CONTAINER_OF(turn, mover_t, turn);

    mover->before = zlink_worker_current();
    zlink_check(zlink_turn_prepare_wait(turn, &mover->wait, mover->mode, NULL, NULL) == ZLINK_OK);
    sem_post(&mover->submitted);
    zlink_status_t status = zlink_turn_wait(turn, &mover->wait);
    mover->after = zlink_worker_current();
    return status;
}

static void mover_ended(zlink_turn_t *turn, zlink_status_t status)
{
    mover_t *mover = ZLINK_CONTAINER_OF(turn, mover_t, turn);

    zlink_check(status == ZLINK_OK && turn->worker == zlink_worker_current());
    if (!mover->after)
        mover->after = zlink_worker_current();
    sem_post(&mover->ended);
}

static zlink_status_t does_not_wait(zlink_turn_t *turn)
{
    ZLINK_CONTAINER_OF(turn, mover_t, turn)->before = zlink_worker_current();
    return ZLINK_OK;
}

static void make_mover(mover_t *mover, zlink_wait_mode_t mode, zlink_status_t (*body)(zlink_turn_t *))
{
    memset(mover, 0, sizeof(*mover));
    zlink_turn_init(&mover->turn, body, mover_ended);
    mover->mode = mode;
    sem_init(&mover->submitted, 0, 0);
    sem_init(&mover->ended, 0, 0);
}

/* Two workers, each inside an item that stands. */
typedef struct standstill {
    owner_t owners[2];
    probe_t probes[2];
} standstill_t;

static void stand_still(standstill_t *still, zlink_exec_fixture_t *fixture)
{
    for (unsigned i = 0; i < 2; i++) {
        owner_open(&still->owners[i], fixture);
        make_probe(&still->probes[i]);
        still->probes[i].stands = true;
        enqueue(&still->owners[i], &still->probes[i]);
        zlink_test_wait(&still->probes[i].ran);
    }
    assert_ptr_not_equal(still->probes[0].worker, still->probes[1].worker);
}

static void let_go(standstill_t *still, const zlink_worker_t *worker)
{
    for (unsigned i = 0; i < 2; i++)
        if (still->probes[i].worker == worker)
            sem_post(&still->probes[i].let_go);
}

/* An owner whose home is this worker. */
static void owner_open_at(owner_t *owner, zlink_exec_fixture_t *fixture, const zlink_worker_t *worker)
{
    do
        owner_open(owner, fixture);
    while (owner->queue.home != worker);
}

/* EX-104: an owner with a handler that waits, of either mode, stands ready at a busy worker: the idle one leaves it
 * there, although it is the oldest, and takes the owners behind it. */
static void test_ex104_an_owner_with_a_waiting_handler_never_moves(void **state)
{
    (void)state;
    for (int mode = ZLINK_WAIT_ASYNC; mode <= ZLINK_WAIT_YIELD; mode++) {
        zlink_exec_fixture_t fixture;
        standstill_t still;
        spot_t spot;
        mover_t waiting;
        mover_t behind;
        owner_t movable[3];
        probe_t probes[3];
        zlink_worker_pool_stats_t stats;

        zlink_exec_fixture_open(&fixture, 2, 0);
        sem_init(&spot.closed, 0, 0);
        assert_int_equal(
            zlink_spot_serial_executor_init(&spot.executor, fixture.pool, &fixture.policy, ZLINK_EXECUTION_INSTANCE),
            ZLINK_OK);
        make_mover(&waiting, (zlink_wait_mode_t)mode, waits);
        make_mover(&behind, ZLINK_WAIT_YIELD, does_not_wait);
        assert_int_equal(zlink_spot_serial_executor_execute_spot(&spot.executor, &waiting.turn, 0), ZLINK_OK);
        zlink_test_wait(&waiting.submitted);
        stand_still(&still, &fixture);
        zlink_worker_t *home = waiting.before;
        zlink_worker_t *idle = still.probes[0].worker == home ? still.probes[1].worker : still.probes[0].worker;
        assert_int_equal(zlink_spot_serial_executor_execute_spot(&spot.executor, &behind.turn, 0), ZLINK_OK);
        zlink_wait_complete(&waiting.wait, ZLINK_OK);
        for (unsigned i = 0; i < 3; i++) {
            owner_open_at(&movable[i], &fixture, home);
            make_probe(&probes[i]);
        }
        enqueue(&movable[0], &probes[0]);
        let_go(&still, idle);
        for (unsigned i = 0; i < 3; i++) {
            if (i > 0)
                enqueue(&movable[i], &probes[i]);
            zlink_test_wait(&probes[i].ran);
            assert_ptr_equal(probes[i].worker, idle);
        }
        zlink_worker_pool_stats(fixture.pool, &stats);
        assert_true(stats.steals >= 3);
        assert_int_not_equal(sem_trywait(&waiting.ended), 0);
        assert_int_not_equal(sem_trywait(&behind.ended), 0);
        let_go(&still, home);
        zlink_test_wait(&waiting.ended);
        zlink_test_wait(&behind.ended);
        assert_ptr_equal(waiting.after, home);
        if (mode == ZLINK_WAIT_YIELD)
            assert_ptr_equal(behind.before, home); /* it ran while the handler waited */
        for (unsigned i = 0; i < 3; i++)
            owner_close(&movable[i]);
        for (unsigned i = 0; i < 2; i++)
            owner_close(&still.owners[i]);
        zlink_spot_serial_executor_close(&spot.executor, spot_closed);
        zlink_test_wait(&spot.closed);
        zlink_exec_fixture_close(&fixture);
    }
}

/* EX-104: when its handler has ended, an owner may move again. */
static void test_ex104_an_owner_moves_again_when_nothing_waits(void **state)
{
    zlink_exec_fixture_t fixture;
    standstill_t still;
    spot_t spot;
    mover_t waiting;
    mover_t later;

    (void)state;
    zlink_exec_fixture_open(&fixture, 2, 0);
    sem_init(&spot.closed, 0, 0);
    assert_int_equal(
        zlink_spot_serial_executor_init(&spot.executor, fixture.pool, &fixture.policy, ZLINK_EXECUTION_INSTANCE),
        ZLINK_OK);
    make_mover(&waiting, ZLINK_WAIT_YIELD, waits);
    make_mover(&later, ZLINK_WAIT_YIELD, does_not_wait);
    assert_int_equal(zlink_spot_serial_executor_execute_spot(&spot.executor, &waiting.turn, 0), ZLINK_OK);
    zlink_test_wait(&waiting.submitted);
    zlink_wait_complete(&waiting.wait, ZLINK_OK);
    zlink_test_wait(&waiting.ended);
    stand_still(&still, &fixture);
    zlink_worker_t *home = waiting.before;
    zlink_worker_t *idle = still.probes[0].worker == home ? still.probes[1].worker : still.probes[0].worker;
    assert_int_equal(zlink_spot_serial_executor_execute_spot(&spot.executor, &later.turn, 0), ZLINK_OK);
    let_go(&still, idle);
    zlink_test_wait(&later.ended);
    assert_ptr_equal(later.before, idle);
    let_go(&still, home);
    for (unsigned i = 0; i < 2; i++)
        owner_close(&still.owners[i]);
    zlink_spot_serial_executor_close(&spot.executor, spot_closed);
    zlink_test_wait(&spot.closed);
    zlink_exec_fixture_close(&fixture);
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

typedef struct two_timers {
    zlink_work_item_t item;
    zlink_timer_t cancelled;
    zlink_timer_t kept;
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
    zlink_worker_timer_start(worker, &two->cancelled, 1003);
    zlink_worker_timer_start(worker, &two->kept, 1005);
    zlink_worker_timer_cancel(worker, &two->cancelled);
    return ZLINK_WORK_DONE;
}

/* A timer fires on its worker when the clock has come there, and not when it was cancelled. */
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
    zlink_exec_fixture_advance(&fixture, 4);
    assert_int_not_equal(sem_trywait(&two.fired), 0);
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
        cmocka_unit_test(test_ic6_no_two_acquisitions_share_a_number),
        cmocka_unit_test(test_ex104_an_owner_with_a_waiting_handler_never_moves),
        cmocka_unit_test(test_ex104_an_owner_moves_again_when_nothing_waits),
        cmocka_unit_test(test_ex103_busy_workers_keep_nobody_out),
        cmocka_unit_test(test_timers_of_a_worker),
    };

    return zlink_test_main(tests);
}
