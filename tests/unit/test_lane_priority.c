/*
 * Which lane a queue's next turn takes (contract 003 §7). One worker, one queue under test and another that competes
 * for the worker; what ran is written down as letters. The clock moves only where a step says so.
 */
#include "exec_fixture.h"

#include "base/container_of.h"
#include "exec/lane_word.h"
#include "exec/serial_execution_queue.h"
#include "exec/worker.h"

#define STEPS_MAX 64

typedef struct bench bench_t;

typedef struct step {
    zlink_work_item_t item;
    bench_t *bench;
    char letter;
    bool stands; /* keeps the worker until `let_go` */
    uint32_t takes_ms;
} step_t;

struct bench {
    zlink_exec_fixture_t fixture;
    zlink_serial_execution_queue_t queue;
    zlink_serial_execution_queue_t other;
    step_t steps[STEPS_MAX];
    unsigned made;
    char order[STEPS_MAX + 1]; /* the worker's own until everything is closed */
    unsigned ran;
    sem_t standing;
    sem_t let_go;
    sem_t closed;
};

static zlink_work_result_t run_step(zlink_work_item_t *item, zlink_worker_t *worker)
{
    step_t *step = ZLINK_CONTAINER_OF(item, step_t, item);
    bench_t *bench = step->bench;

    (void)worker;
    zlink_check(bench->ran < STEPS_MAX);
    bench->order[bench->ran++] = step->letter;
    atomic_fetch_add(&bench->fixture.now_ns, step->takes_ms * ZLINK_NS_PER_MS);
    if (step->stands) {
        sem_post(&bench->standing);
        zlink_test_wait(&bench->let_go);
    }
    return ZLINK_WORK_DONE;
}

static step_t *make(bench_t *bench, char letter)
{
    assert_true(bench->made < STEPS_MAX);
    step_t *step = &bench->steps[bench->made++];
    *step = (step_t){.item.run = run_step, .bench = bench, .letter = letter};
    return step;
}

/* One step per letter: upper case into the lifecycle lane, lower case into the application lane. */
static void put(bench_t *bench, const char *letters)
{
    for (; *letters; letters++) {
        step_t *step = make(bench, *letters);
        bool lifecycle = *letters >= 'A' && *letters <= 'Z';
        assert_int_equal(lifecycle ? zlink_serial_execution_queue_enqueue_lifecycle(&bench->queue, &step->item)
                                   : zlink_serial_execution_queue_enqueue(&bench->queue, &step->item),
                         ZLINK_OK);
    }
}

/* A lifecycle step that takes time. */
static void put_long(bench_t *bench, char letter, uint32_t takes_ms)
{
    step_t *step = make(bench, letter);
    step->takes_ms = takes_ms;
    assert_int_equal(zlink_serial_execution_queue_enqueue_lifecycle(&bench->queue, &step->item), ZLINK_OK);
}

/* A step that will stand: `!` in the lifecycle lane, `.` in the application lane. */
static void put_standing(bench_t *bench, char letter)
{
    step_t *step = make(bench, letter);
    step->stands = true;
    assert_int_equal(letter == '!' ? zlink_serial_execution_queue_enqueue_lifecycle(&bench->queue, &step->item)
                                   : zlink_serial_execution_queue_enqueue(&bench->queue, &step->item),
                     ZLINK_OK);
}

/* Of another owner on the same worker. */
static void put_other(bench_t *bench, char letter)
{
    assert_int_equal(zlink_serial_execution_queue_enqueue(&bench->other, &make(bench, letter)->item), ZLINK_OK);
}

static void let_go(bench_t *bench)
{
    sem_post(&bench->let_go);
}

static void stands(bench_t *bench)
{
    zlink_test_wait(&bench->standing);
}

static void queue_closed(zlink_serial_execution_queue_t *queue)
{
    sem_post(&ZLINK_CONTAINER_OF(queue, bench_t, queue)->closed);
}

static void other_closed(zlink_serial_execution_queue_t *queue)
{
    sem_post(&ZLINK_CONTAINER_OF(queue, bench_t, other)->closed);
}

static void bench_open(bench_t *bench, uint32_t burst_limit)
{
    memset(bench, 0, sizeof(*bench));
    zlink_exec_fixture_open(&bench->fixture, 1, 0);
    bench->fixture.policy.lifecycle_burst_limit = burst_limit;
    bench->fixture.policy.owner_time_budget_ms = 10;
    zlink_serial_execution_queue_init(&bench->queue, bench->fixture.pool, &bench->fixture.policy);
    zlink_serial_execution_queue_init(&bench->other, bench->fixture.pool, &bench->fixture.policy);
    sem_init(&bench->standing, 0, 0);
    sem_init(&bench->let_go, 0, 0);
    sem_init(&bench->closed, 0, 0);
}

static void close_queue(bench_t *bench)
{
    zlink_serial_execution_queue_close(&bench->queue, queue_closed);
    zlink_test_wait(&bench->closed);
}

static void bench_close(bench_t *bench, const char *order)
{
    close_queue(bench);
    zlink_serial_execution_queue_close(&bench->other, other_closed);
    zlink_test_wait(&bench->closed);
    zlink_exec_fixture_close(&bench->fixture);
    assert_string_equal(bench->order, order);
}

/* ---- the rows of the table ---- */

/* EX-100, first row: the lifecycle lane was empty, so an application turn ran: the count begins at 0 again. */
static void test_ex100_an_application_turn_resets_the_count(void **state)
{
    bench_t bench;

    (void)state;
    bench_open(&bench, 3);
    put_standing(&bench, '.');
    stands(&bench);
    put(&bench, "AB"); /* two of three … */
    put_standing(&bench, '.');
    let_go(&bench);
    stands(&bench); /* … and the lane is empty */
    put(&bench, "CDEFx");
    let_go(&bench);
    bench_close(&bench, ".AB.CDExF");
}

/* EX-100, second row: debt and no application work: lifecycle goes on, the debt stays, one application turn clears it.
 */
static void test_ex100_debt_is_kept_while_the_application_lane_is_empty(void **state)
{
    bench_t bench;

    (void)state;
    bench_open(&bench, 2);
    put_standing(&bench, '!');
    stands(&bench);
    put(&bench, "ABC");        /* the burst is over at A, and again at C, right before … */
    put_standing(&bench, '!'); /* … one that is chosen with debt and ends no burst */
    let_go(&bench);
    stands(&bench);
    put(&bench, "EFGxyz");
    let_go(&bench);
    /* x at once for the debt; then two of lifecycle again, and so on. */
    bench_close(&bench, "!ABC!xEFyGz");
}

/* EX-100, third row, the debt: cut by the budget with debt, another owner runs, then the debt still counts. */
static void test_ex100_a_cut_keeps_the_debt(void **state)
{
    bench_t bench;

    (void)state;
    bench_open(&bench, 2);
    put_standing(&bench, '!');
    stands(&bench);
    put_long(&bench, 'A', 20); /* the second of the burst, and over the budget */
    put(&bench, "BCx");
    put_other(&bench, 'o'); /* its application turn is no payment */
    let_go(&bench);
    bench_close(&bench, "!AoxBC");
}

/* EX-100, third row, the count: it goes on after the cut where it was. */
static void test_ex100_a_cut_keeps_the_count(void **state)
{
    bench_t bench;

    (void)state;
    bench_open(&bench, 3);
    put_standing(&bench, '!');
    stands(&bench);
    put_long(&bench, 'A', 20); /* the second of three */
    put(&bench, "BCDx");
    put_other(&bench, 'o');
    let_go(&bench);
    bench_close(&bench, "!AoBxCD");
}

/* EX-100, fourth row: what ends takes its debt and count along; the next owner in its place begins afresh. */
static void test_ex100_an_end_drops_debt_and_count(void **state)
{
    bench_t bench;

    (void)state;
    bench_open(&bench, 3);
    put_standing(&bench, '!');
    stands(&bench);
    put(&bench, "ABCD"); /* debt, and one more */
    let_go(&bench);
    close_queue(&bench);
    assert_true(bench.queue.yield_debt);
    zlink_serial_execution_queue_init(&bench.queue, bench.fixture.pool, &bench.fixture.policy);
    put_standing(&bench, '!');
    stands(&bench);
    put(&bench, "EFGx"); /* a whole burst of three */
    let_go(&bench);
    bench_close(&bench, "!ABCD!EFxG");
}

/* EX-100: one owner's debt is not paid by another one's application turns, nor its burst counted for it. */
static void test_ex100_debt_is_per_owner(void **state)
{
    bench_t bench;

    (void)state;
    bench_open(&bench, 2);
    put_standing(&bench, '!');
    stands(&bench);
    put(&bench, "A"); /* debt */
    let_go(&bench);
    /* The other owner's turns come after the slice with the debt, and before the one that pays it. */
    step_t *gate = make(&bench, 'g');
    gate->stands = true;
    assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.other, &gate->item), ZLINK_OK);
    stands(&bench);
    put_other(&bench, 'o');
    put(&bench, "Bx");
    let_go(&bench);
    bench_close(&bench, "!AgoxB");
}

/* ---- starvation ---- */

typedef struct endless {
    zlink_work_item_t item;
    struct endless_bench *bench;
    struct endless *partner;
} endless_t;

typedef struct endless_bench {
    zlink_exec_fixture_t fixture;
    zlink_serial_execution_queue_t queue;
    endless_t lifecycle[2];
    zlink_work_item_t application;
    uint32_t takes_ms;
    unsigned lifecycle_runs;
    unsigned runs_before; /* when the application item came */
    unsigned runs_between;
    bool application_ran;
    sem_t closed;
} endless_bench_t;

static zlink_work_result_t run_application(zlink_work_item_t *item, zlink_worker_t *worker)
{
    endless_bench_t *bench = ZLINK_CONTAINER_OF(item, endless_bench_t, application);

    (void)worker;
    bench->application_ran = true;
    bench->runs_between = bench->lifecycle_runs - bench->runs_before;
    return ZLINK_WORK_DONE;
}

static void endless_closed(zlink_serial_execution_queue_t *queue)
{
    sem_post(&ZLINK_CONTAINER_OF(queue, endless_bench_t, queue)->closed);
}

/* Each brings the other one in, until an application turn has run. */
static zlink_work_result_t run_endless(zlink_work_item_t *item, zlink_worker_t *worker)
{
    endless_t *endless = ZLINK_CONTAINER_OF(item, endless_t, item);
    endless_bench_t *bench = endless->bench;

    (void)worker;
    bench->lifecycle_runs++;
    atomic_fetch_add(&bench->fixture.now_ns, bench->takes_ms * ZLINK_NS_PER_MS);
    zlink_check(bench->lifecycle_runs < 1000);
    if (bench->lifecycle_runs == bench->runs_before)
        zlink_check(zlink_serial_execution_queue_enqueue(&bench->queue, &bench->application) == ZLINK_OK);
    if (!bench->application_ran)
        zlink_check(zlink_serial_execution_queue_enqueue_lifecycle(&bench->queue, &endless->partner->item) == ZLINK_OK);
    else
        zlink_serial_execution_queue_close(&bench->queue, endless_closed);
    return ZLINK_WORK_DONE;
}

/* EX-11: lifecycle work without end; an application turn comes after a burst at the latest, wherever in the burst it
 * was submitted, and cut by the budget or not. */
static void test_ex11_endless_lifecycle_does_not_starve_the_application_lane(void **state)
{
    (void)state;
    for (unsigned start = 1; start <= 17; start++) {
        for (uint32_t takes_ms = 0; takes_ms <= 20; takes_ms += 4) {
            endless_bench_t bench = {.takes_ms = takes_ms, .runs_before = start};
            zlink_exec_fixture_open(&bench.fixture, 1, 0);
            zlink_serial_execution_queue_init(&bench.queue, bench.fixture.pool, &bench.fixture.policy);
            sem_init(&bench.closed, 0, 0);
            bench.application.run = run_application;
            for (unsigned i = 0; i < 2; i++)
                bench.lifecycle[i] =
                    (endless_t){.item.run = run_endless, .bench = &bench, .partner = &bench.lifecycle[1 - i]};
            assert_int_equal(zlink_serial_execution_queue_enqueue_lifecycle(&bench.queue, &bench.lifecycle[0].item),
                             ZLINK_OK);
            zlink_test_wait(&bench.closed); /* it closes itself */
            zlink_exec_fixture_close(&bench.fixture);
            assert_true(bench.application_ran);
            assert_true(bench.runs_between <= 8);
        }
    }
}

/* ---- capacity ---- */

static zlink_work_result_t run_suspended(zlink_work_item_t *item, zlink_worker_t *worker)
{
    step_t *step = ZLINK_CONTAINER_OF(item, step_t, item);

    if (step->stands) { /* the first time */
        step->stands = false;
        sem_post(&step->bench->standing);
        return ZLINK_WORK_SUSPENDED;
    }
    return run_step(item, worker);
}

/* EX-12: an application lane full of handlers that wait, in count or in bytes, takes nothing of the lifecycle lane's
 * capacity and does not keep it from running. */
static void test_ex12_a_saturated_application_lane_leaves_lifecycle_alone(void **state)
{
    bench_t bench;
    step_t none;
    step_t *waiting[4];

    (void)state;
    for (int by_bytes = 0; by_bytes <= 1; by_bytes++) {
        bench_open(&bench, 8);
        bench.fixture.policy.lifecycle_message_capacity = 2;
        bench.fixture.policy.fixed_work_byte_cost = 10;
        bench.fixture.policy.lifecycle_byte_capacity = 20;
        bench.fixture.policy.application_message_capacity = by_bytes ? 1000 : 4;
        bench.fixture.policy.application_byte_capacity = by_bytes ? 400 : 1000000;
        for (unsigned i = 0; i < 4; i++) {
            waiting[i] = make(&bench, (char)('a' + i));
            waiting[i]->item.run = run_suspended;
            waiting[i]->stands = true;
            assert_int_equal(
                zlink_serial_execution_queue_enqueue_with_payload_bytes(&bench.queue, &waiting[i]->item, 90), ZLINK_OK);
            stands(&bench);
        }
        for (unsigned round = 0; round < 3; round++) {
            none = (step_t){.item.run = run_step, .bench = &bench, .letter = '?'};
            assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.queue, &none.item), ZLINK_CAPACITY_EXCEEDED);
            put_standing(&bench, '!');
            stands(&bench);
            put(&bench, "L"); /* two of two: the one that runs counts */
            assert_int_equal(zlink_serial_execution_queue_enqueue_lifecycle(&bench.queue, &none.item),
                             ZLINK_CAPACITY_EXCEEDED);
            let_go(&bench);
            /* The reservations come back when the slice is over: the next owner on this worker comes after that. */
            step_t *after = make(&bench, '-');
            after->stands = true;
            assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.other, &after->item), ZLINK_OK);
            stands(&bench);
            let_go(&bench);
        }
        for (unsigned i = 0; i < 4; i++)
            zlink_serial_execution_queue_resume(&bench.queue, &waiting[i]->item);
        bench_close(&bench, "!L-!L-!L-abcd");
    }
}

/* EX-67: in the lifecycle lane too a refusal leaves count, bytes and order as they were. */
static void test_ex67_a_refused_lifecycle_item_changes_nothing(void **state)
{
    bench_t bench;
    step_t none;

    (void)state;
    bench_open(&bench, 8);
    bench.fixture.policy.lifecycle_message_capacity = 1;
    bench.fixture.policy.fixed_work_byte_cost = 10;
    put_standing(&bench, '!');
    stands(&bench); /* it runs, and keeps the only place; nothing calls for attention */
    zlink_lane_word_t before = zlink_lane_word_read(&bench.queue.lifecycle);
    zlink_lane_word_t application = zlink_lane_word_read(&bench.queue.application);
    for (unsigned i = 0; i < 100; i++) {
        none = (step_t){.item.run = run_step, .bench = &bench, .letter = '?'};
        assert_int_equal(zlink_serial_execution_queue_enqueue_lifecycle(&bench.queue, &none.item),
                         ZLINK_CAPACITY_EXCEEDED);
    }
    zlink_lane_word_t after = zlink_lane_word_read(&bench.queue.lifecycle);
    assert_true(before.whole == after.whole);
    after = zlink_lane_word_read(&bench.queue.application);
    assert_true(application.whole == after.whole);
    assert_int_equal(zlink_lane_word_items(before.counters), 1);
    assert_int_equal(before.counters & ZLINK_COUNTER_BYTES, 10);
    let_go(&bench);
    bench_close(&bench, "!");
}

static void assert_only_entry(const zlink_ready_ring_t *ring, const zlink_serial_execution_queue_t *queue)
{
    assert_ptr_equal(atomic_load(&ring->inbox), queue);
    assert_null(queue->ready_next);
    assert_null(atomic_load(&ring->round));
    assert_null(atomic_load(&ring->pinned_inbox));
}

/* IC-9: the gate is one flag in the word that takes the item in. Whoever sets it posts the queue, and every later
 * submission changes that word and nothing else: the ready ring keeps one entry. */
static void test_ic9_the_gate_is_one_flag_of_the_admission_word(void **state)
{
    bench_t bench;

    (void)state;
    bench_open(&bench, 8);
    step_t *gate = make(&bench, 'g');
    gate->stands = true;
    assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.other, &gate->item), ZLINK_OK);
    stands(&bench); /* the only worker is inside another owner */
    const zlink_worker_t *worker = bench.queue.home;
    assert_true(zlink_ready_ring_is_empty(&worker->ready));
    assert_int_equal(zlink_lane_word_counters(&bench.queue.application), 0);
    for (unsigned i = 1; i <= 5; i++) {
        put(&bench, "x");
        uint64_t counters = zlink_lane_word_counters(&bench.queue.application);
        assert_true(counters & ZLINK_COUNTER_SCHEDULED);
        assert_int_equal(zlink_lane_word_items(counters), i);
        assert_only_entry(&worker->ready, &bench.queue);
    }
    put(&bench, "L");
    assert_only_entry(&worker->ready, &bench.queue);
    let_go(&bench);
    close_queue(&bench);
    assert_int_equal(zlink_lane_word_items(zlink_lane_word_counters(&bench.queue.application)), 0);
    assert_int_equal(zlink_lane_word_counters(&bench.queue.application) & ZLINK_COUNTER_BYTES, 0);
    zlink_serial_execution_queue_close(&bench.other, other_closed);
    zlink_test_wait(&bench.closed);
    zlink_exec_fixture_close(&bench.fixture);
    assert_string_equal(bench.order, "gLxxxxx");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex100_an_application_turn_resets_the_count),
        cmocka_unit_test(test_ex100_debt_is_kept_while_the_application_lane_is_empty),
        cmocka_unit_test(test_ex100_a_cut_keeps_the_debt),
        cmocka_unit_test(test_ex100_a_cut_keeps_the_count),
        cmocka_unit_test(test_ex100_an_end_drops_debt_and_count),
        cmocka_unit_test(test_ex100_debt_is_per_owner),
        cmocka_unit_test(test_ex11_endless_lifecycle_does_not_starve_the_application_lane),
        cmocka_unit_test(test_ex12_a_saturated_application_lane_leaves_lifecycle_alone),
        cmocka_unit_test(test_ex67_a_refused_lifecycle_item_changes_nothing),
        cmocka_unit_test(test_ic9_the_gate_is_one_flag_of_the_admission_word),
    };

    return zlink_test_main(tests);
}
