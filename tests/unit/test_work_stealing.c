#include "exec_probe.h"

#include <sched.h>

#include "exec/spot_serial_executor.h"
#include "exec/worker.h"

/* ---- fencing numbers ---- */

#define FENCED_OWNERS 8u
#define FENCED_ITEMS  2000u

typedef struct fenced {
    zlink_work_item_t item;
    zlink_exec_fixture_t *fixture;
    owner_t *owner;
    uint64_t authority;
    bool stands; /* two at a time, so that both workers take part */
    sem_t *standing;
    sem_t let_go; /* its own: of a shared one, a later item might take what was meant for this one */
} fenced_t;

/* Takes longer than the budget, so that every item needs an acquisition of its own. */
static zlink_work_result_t run_fenced(zlink_work_item_t *item, zlink_worker_t *worker)
{
    fenced_t *fenced = ZLINK_CONTAINER_OF(item, fenced_t, item);

    (void)worker;
    fenced->authority = fenced->owner->queue.authority;
    atomic_fetch_add(&fenced->fixture->now_ns, 20 * ZLINK_NS_PER_MS);
    if (fenced->stands) {
        sem_post(fenced->standing);
        zlink_test_wait(&fenced->let_go);
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

    (void)state;
    zlink_exec_fixture_open(&fixture, 2, 0);
    sem_init(&standing, 0, 0);
    for (unsigned i = 0; i < FENCED_OWNERS; i++)
        owner_open(&owners[i], &fixture);
    for (unsigned i = 0; i < FENCED_ITEMS; i++) {
        items[i] = (fenced_t){.item.run = run_fenced, .fixture = &fixture, .owner = &owners[i % FENCED_OWNERS]};
        items[i].stands = i % 100 < 2; /* of two owners: one on each worker */
        items[i].standing = &standing;
        sem_init(&items[i].let_go, 0, 0);
        assert_int_equal(zlink_serial_execution_queue_enqueue(&items[i].owner->queue, &items[i].item), ZLINK_OK);
        if (i % 100 == 99) {
            for (unsigned two = 0; two < 2; two++)
                zlink_test_wait(&standing);
            for (unsigned two = 0; two < 2; two++)
                sem_post(&items[i - 99 + two].let_go);
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

/* ---- made ready by a turn that goes on ---- */

#define MADE_READY 30u

typedef struct long_turn {
    zlink_work_item_t item;
    owner_t *others;
    probe_t *probes;
} long_turn_t;

/* One after the other: each has run before the turn goes on. */
static zlink_work_result_t makes_others_ready(zlink_work_item_t *item, zlink_worker_t *worker)
{
    long_turn_t *turn = ZLINK_CONTAINER_OF(item, long_turn_t, item);

    for (unsigned i = 0; i < MADE_READY; i++) {
        while (i > 0 && !atomic_load(&worker->pool->watchman))
            sched_yield(); /* progress: the other one has nothing to do */
        zlink_check(zlink_serial_execution_queue_enqueue(&turn->others[i].queue, &turn->probes[i].item) == ZLINK_OK);
        zlink_test_wait(&turn->probes[i].ran);
        zlink_check(turn->probes[i].worker != worker);
    }
    return ZLINK_WORK_DONE;
}

/* EX-104: an owner that a turn makes ready is kept for that turn's worker while another is on the watch, but not for as
 * long as the turn goes on: the other one takes it. */
static void test_ex104_a_long_turn_keeps_nobody(void **state)
{
    zlink_exec_fixture_t fixture;
    owner_t owner;
    owner_t others[MADE_READY];
    probe_t probes[MADE_READY];
    long_turn_t turn = {.item.run = makes_others_ready, .others = others, .probes = probes};

    (void)state;
    zlink_exec_fixture_open(&fixture, 2, 0);
    owner_open(&owner, &fixture);
    for (unsigned i = 0; i < MADE_READY; i++) {
        owner_open(&others[i], &fixture);
        make_probe(&probes[i]);
    }
    assert_int_equal(zlink_serial_execution_queue_enqueue(&owner.queue, &turn.item), ZLINK_OK);
    owner_close(&owner);
    for (unsigned i = 0; i < MADE_READY; i++)
        owner_close(&others[i]);
    zlink_exec_fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ic6_no_two_acquisitions_share_a_number),
        cmocka_unit_test(test_ex104_an_owner_with_a_waiting_handler_never_moves),
        cmocka_unit_test(test_ex104_an_owner_moves_again_when_nothing_waits),
        cmocka_unit_test(test_ex104_a_long_turn_keeps_nobody),
    };

    return zlink_test_main(tests);
}
