#include "exec_fixture.h"

#include <pthread.h>

#include "base/container_of.h"
#include "exec/serial_execution_queue.h"

#define IDS_MAX 256

/* One queue on a pool, the order in which its items ran, and a way to hold its worker inside an item. */
typedef struct bench {
    zlink_exec_fixture_t fixture;
    zlink_serial_execution_queue_t queue;
    int ids[IDS_MAX];
    unsigned count;
    sem_t entered; /* a gate item runs … */
    sem_t let_go;  /* … until this */
    sem_t done;    /* posted by every item with `tell` */
    sem_t closed;
} bench_t;

typedef struct job {
    zlink_work_item_t item;
    bench_t *bench;
    int id;
    bool tell;
    zlink_work_result_t first_answer; /* of the first run; later ones are done */
    unsigned runs;
    uint64_t authority;
    void (*act)(struct job *job);
} job_t;

static zlink_work_result_t run_job(zlink_work_item_t *item, zlink_worker_t *worker)
{
    job_t *job = ZLINK_CONTAINER_OF(item, job_t, item);
    bench_t *bench = job->bench;

    zlink_check(worker == zlink_worker_current());
    zlink_check(zlink_serial_execution_queue_is_current(&bench->queue));
    if (bench->count < IDS_MAX)
        bench->ids[bench->count++] = job->id;
    job->authority = bench->queue.authority;
    job->runs++;
    if (job->act)
        job->act(job);
    zlink_work_result_t answer = job->runs == 1 ? job->first_answer : ZLINK_WORK_DONE;
    if (job->tell)
        sem_post(&bench->done);
    return answer;
}

static job_t make(bench_t *bench, int id)
{
    return (job_t){.item.run = run_job, .bench = bench, .id = id};
}

static void stand(job_t *job)
{
    sem_post(&job->bench->entered);
    zlink_test_wait(&job->bench->let_go);
}

/* An item that keeps the worker until `let_go`; enqueued, and running when this returns. */
static job_t gate_of(bench_t *bench)
{
    job_t gate = make(bench, 0);
    gate.act = stand;
    return gate;
}

static void close_gate(job_t *gate)
{
    assert_int_equal(zlink_serial_execution_queue_enqueue(&gate->bench->queue, &gate->item), ZLINK_OK);
    zlink_test_wait(&gate->bench->entered);
}

static void queue_closed(zlink_serial_execution_queue_t *queue)
{
    bench_t *bench = ZLINK_CONTAINER_OF(queue, bench_t, queue);
    zlink_check(!zlink_serial_execution_queue_is_current(queue));
    zlink_check(zlink_worker_current());
    sem_post(&bench->closed);
}

static void bench_open(bench_t *bench, unsigned workers)
{
    memset(bench, 0, sizeof(*bench));
    zlink_exec_fixture_open(&bench->fixture, workers, 0);
    zlink_serial_execution_queue_init(&bench->queue, bench->fixture.pool, &bench->fixture.policy);
    sem_init(&bench->entered, 0, 0);
    sem_init(&bench->let_go, 0, 0);
    sem_init(&bench->done, 0, 0);
    sem_init(&bench->closed, 0, 0);
}

static void bench_close(bench_t *bench)
{
    zlink_serial_execution_queue_close(&bench->queue, queue_closed);
    zlink_test_wait(&bench->closed);
    zlink_exec_fixture_close(&bench->fixture);
}

static void expect_order(const bench_t *bench, const int *ids, unsigned count)
{
    assert_int_equal(bench->count, count);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(bench->ids[i], ids[i]);
}

/* EX-14: empty payloads hit the count bound, and a refused item is not run in place. */
static void test_ex14_empty_payloads_hit_the_count_bound(void **state)
{
    bench_t bench;
    job_t jobs[4];

    (void)state;
    bench_open(&bench, 1);
    bench.fixture.policy.application_message_capacity = 3;
    job_t gate = gate_of(&bench);
    close_gate(&gate); /* running work keeps its reservation: two are left */
    for (int i = 0; i < 4; i++)
        jobs[i] = make(&bench, i + 1);
    assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.queue, &jobs[0].item), ZLINK_OK);
    assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.queue, &jobs[1].item), ZLINK_OK);
    assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.queue, &jobs[2].item), ZLINK_CAPACITY_EXCEEDED);
    sem_post(&bench.let_go);
    bench_close(&bench);
    expect_order(&bench, (int[]){0, 1, 2}, 3);
    assert_int_equal(jobs[2].runs, 0);
}

/* EX-67: a refused submission leaves count and bytes as they were; sums do not overflow. */
static void test_ex67_a_refusal_changes_nothing(void **state)
{
    bench_t bench;
    job_t small[2];

    (void)state;
    bench_open(&bench, 1);
    bench.fixture.policy.application_byte_capacity = 1000;
    bench.fixture.policy.fixed_work_byte_cost = 100;
    job_t gate = gate_of(&bench);
    close_gate(&gate); /* 100 of 1,000 */
    job_t large = make(&bench, 9);
    const uint64_t too_large[] = {801, 1000, UINT64_C(1) << 38, UINT64_MAX - 50, UINT64_MAX};
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(
            zlink_serial_execution_queue_enqueue_with_payload_bytes(&bench.queue, &large.item, too_large[i]),
            ZLINK_CAPACITY_EXCEEDED);
    small[0] = make(&bench, 1);
    small[1] = make(&bench, 2);
    assert_int_equal(zlink_serial_execution_queue_enqueue_with_payload_bytes(&bench.queue, &small[0].item, 800),
                     ZLINK_OK); /* exactly what is left */
    assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.queue, &small[1].item), ZLINK_CAPACITY_EXCEEDED);
    sem_post(&bench.let_go);
    bench_close(&bench);
    expect_order(&bench, (int[]){0, 1}, 2);
}

/* EX-101, EX-12: each lane's fullness leaves the other lane's admission untouched, both ways. */
static void test_ex101_lanes_do_not_share_capacity(void **state)
{
    bench_t bench;
    job_t jobs[4];

    (void)state;
    bench_open(&bench, 1);
    bench.fixture.policy.application_message_capacity = 2;
    bench.fixture.policy.lifecycle_message_capacity = 1;
    job_t gate = gate_of(&bench);
    close_gate(&gate);
    for (int i = 0; i < 4; i++)
        jobs[i] = make(&bench, i + 1);
    assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.queue, &jobs[0].item), ZLINK_OK);
    assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.queue, &jobs[1].item), ZLINK_CAPACITY_EXCEEDED);
    assert_int_equal(zlink_serial_execution_queue_enqueue_lifecycle(&bench.queue, &jobs[2].item), ZLINK_OK);
    assert_int_equal(zlink_serial_execution_queue_enqueue_lifecycle(&bench.queue, &jobs[3].item),
                     ZLINK_CAPACITY_EXCEEDED);
    sem_post(&bench.let_go);
    bench_close(&bench);
    expect_order(&bench, (int[]){0, 3, 1}, 3);
}

/* EX-10: lifecycle work overtakes queued application work; at the burst limit one application item runs. */
static void test_ex10_lifecycle_overtakes_up_to_the_burst_limit(void **state)
{
    bench_t bench;
    job_t application[3];
    job_t lifecycle[5];

    (void)state;
    bench_open(&bench, 1);
    bench.fixture.policy.lifecycle_burst_limit = 2;
    job_t gate = gate_of(&bench);
    close_gate(&gate);
    for (int i = 0; i < 3; i++) {
        application[i] = make(&bench, 1 + i);
        assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.queue, &application[i].item), ZLINK_OK);
    }
    for (int i = 0; i < 5; i++) {
        lifecycle[i] = make(&bench, 11 + i);
        assert_int_equal(zlink_serial_execution_queue_enqueue_lifecycle(&bench.queue, &lifecycle[i].item), ZLINK_OK);
    }
    sem_post(&bench.let_go);
    bench_close(&bench);
    expect_order(&bench, (int[]){0, 11, 12, 1, 13, 14, 2, 15, 3}, 9);
}

static void advance_four_ms(job_t *job)
{
    atomic_fetch_add(&job->bench->fixture.now_ns, 4 * ZLINK_NS_PER_MS);
}

/* EX-100: the debt stays while the application lane is empty and when the turn is cut; one application turn clears it.
 */
static void test_ex100_ic7_yield_debt_is_kept_and_cleared(void **state)
{
    bench_t bench;
    job_t lifecycle[6];
    job_t application[2];

    (void)state;
    bench_open(&bench, 1);
    bench.fixture.policy.lifecycle_burst_limit = 2;
    bench.fixture.policy.owner_time_budget_ms = 10;
    /* Two lifecycle items with an empty application lane: the debt is marked, and lifecycle goes on. */
    job_t gate = gate_of(&bench);
    assert_int_equal(zlink_serial_execution_queue_enqueue_lifecycle(&bench.queue, &gate.item), ZLINK_OK);
    zlink_test_wait(&bench.entered); /* the first of the burst */
    for (int i = 0; i < 6; i++)
        lifecycle[i] = make(&bench, 11 + i);
    for (int i = 0; i < 2; i++) {
        lifecycle[i].act = advance_four_ms;
        assert_int_equal(zlink_serial_execution_queue_enqueue_lifecycle(&bench.queue, &lifecycle[i].item), ZLINK_OK);
    }
    job_t second_gate = gate_of(&bench);
    assert_int_equal(zlink_serial_execution_queue_enqueue_lifecycle(&bench.queue, &second_gate.item), ZLINK_OK);
    sem_post(&bench.let_go);
    zlink_test_wait(&bench.entered);
    /* Now both lanes are ready and 12 ms have gone: the turn is cut with the debt, which application work clears. */
    atomic_fetch_add(&bench.fixture.now_ns, 4 * ZLINK_NS_PER_MS);
    for (int i = 2; i < 5; i++)
        assert_int_equal(zlink_serial_execution_queue_enqueue_lifecycle(&bench.queue, &lifecycle[i].item), ZLINK_OK);
    for (int i = 0; i < 2; i++) {
        application[i] = make(&bench, 1 + i);
        assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.queue, &application[i].item), ZLINK_OK);
    }
    sem_post(&bench.let_go);
    bench_close(&bench);
    expect_order(&bench, (int[]){0, 11, 12, 0, 1, 13, 14, 2, 15}, 9);
}

/* EX-13: an owner past its budget is cut and another one runs in between. */
static void test_ex13_an_owner_past_its_budget_is_cut(void **state)
{
    bench_t bench;
    bench_t other;
    job_t jobs[5];

    (void)state;
    bench_open(&bench, 1);
    memset(&other, 0, sizeof(other)); /* a second queue on the same pool */
    zlink_serial_execution_queue_init(&other.queue, bench.fixture.pool, &bench.fixture.policy);
    sem_init(&other.done, 0, 0);
    sem_init(&other.closed, 0, 0);
    job_t gate = gate_of(&bench);
    close_gate(&gate);
    for (int i = 0; i < 5; i++) {
        jobs[i] = make(&bench, i + 1);
        jobs[i].act = advance_four_ms;
        assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.queue, &jobs[i].item), ZLINK_OK);
    }
    job_t between = make(&other, 1);
    between.tell = true;
    between.act = stand;
    sem_init(&other.entered, 0, 0);
    sem_init(&other.let_go, 0, 0);
    assert_int_equal(zlink_serial_execution_queue_enqueue(&other.queue, &between.item), ZLINK_OK);
    sem_post(&bench.let_go);
    zlink_test_wait(&other.entered);
    /* 4, 8, 12 ms: cut after the third, although two more were ready. */
    expect_order(&bench, (int[]){0, 1, 2, 3}, 4);
    sem_post(&other.let_go);
    zlink_serial_execution_queue_close(&other.queue, queue_closed);
    zlink_test_wait(&other.closed);
    bench_close(&bench);
    expect_order(&bench, (int[]){0, 1, 2, 3, 4, 5}, 6);
}

static job_t *barriers[2];

static void put_barriers(job_t *job)
{
    for (int i = 0; i < 2; i++)
        zlink_check(zlink_serial_execution_queue_enqueue_barrier_next(&job->bench->queue, &barriers[i]->item) ==
                    ZLINK_OK);
}

/* EX-89: barrier work runs right after the current turn, ahead of both lanes. */
static void test_ex89_barrier_next_runs_right_after_the_turn(void **state)
{
    bench_t bench;

    (void)state;
    bench_open(&bench, 1);
    job_t gate = gate_of(&bench);
    job_t first = make(&bench, 1);
    job_t second = make(&bench, 2);
    job_t lifecycle = make(&bench, 3);
    job_t barrier[2] = {make(&bench, 21), make(&bench, 22)};
    barriers[0] = &barrier[0];
    barriers[1] = &barrier[1];
    lifecycle.act = put_barriers;
    second.tell = true;
    close_gate(&gate);
    assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.queue, &first.item), ZLINK_OK);
    assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.queue, &second.item), ZLINK_OK);
    assert_int_equal(zlink_serial_execution_queue_enqueue_lifecycle(&bench.queue, &lifecycle.item), ZLINK_OK);
    sem_post(&bench.let_go);
    zlink_test_wait(&bench.done);
    bench_close(&bench);
    expect_order(&bench, (int[]){0, 3, 21, 22, 1, 2}, 6);
}

/* EX-90: is_current is false off the pool, after a turn, and true inside each (which run_job asserts), resumes
 * included. */
static void test_ex90_is_current_only_inside_its_own_turn(void **state)
{
    bench_t bench;

    (void)state;
    bench_open(&bench, 2);
    job_t job = make(&bench, 1);
    job.tell = true;
    job.first_answer = ZLINK_WORK_SUSPENDED;
    assert_false(zlink_serial_execution_queue_is_current(&bench.queue));
    assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.queue, &job.item), ZLINK_OK);
    zlink_test_wait(&bench.done);
    assert_false(zlink_serial_execution_queue_is_current(&bench.queue));
    zlink_serial_execution_queue_resume(&bench.queue, &job.item);
    zlink_test_wait(&bench.done);
    bench_close(&bench);
    assert_int_equal(job.runs, 2);
}

/* A suspended item keeps its reservation and lets others run; its resume stands at the back. */
static void test_ex21_a_resume_stands_at_the_back(void **state)
{
    bench_t bench;
    job_t later[2];

    (void)state;
    bench_open(&bench, 1);
    bench.fixture.policy.application_message_capacity = 4;
    job_t waiting = make(&bench, 1);
    waiting.first_answer = ZLINK_WORK_SUSPENDED;
    waiting.tell = true;
    assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.queue, &waiting.item), ZLINK_OK);
    zlink_test_wait(&bench.done);
    job_t gate = gate_of(&bench);
    close_gate(&gate);
    for (int i = 0; i < 2; i++) {
        later[i] = make(&bench, 2 + i);
        assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.queue, &later[i].item), ZLINK_OK);
    }
    job_t none = make(&bench, 9);
    assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.queue, &none.item), ZLINK_CAPACITY_EXCEEDED);
    zlink_serial_execution_queue_resume(&bench.queue, &waiting.item); /* never refused */
    sem_post(&bench.let_go);
    bench_close(&bench);
    expect_order(&bench, (int[]){1, 0, 2, 3, 1}, 5);
}

/* EX-18: a held item keeps the gate; other owners of the worker go on; then it continues under the same authority. */
static void test_ex18_a_held_item_keeps_the_gate(void **state)
{
    bench_t bench;
    bench_t other;

    (void)state;
    bench_open(&bench, 1);
    job_t held = make(&bench, 1);
    held.first_answer = ZLINK_WORK_HELD;
    held.tell = true;
    job_t behind = make(&bench, 2);
    assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.queue, &held.item), ZLINK_OK);
    zlink_test_wait(&bench.done);
    uint64_t authority = held.authority;
    assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.queue, &behind.item), ZLINK_OK);
    job_t lifecycle = make(&bench, 3);
    assert_int_equal(zlink_serial_execution_queue_enqueue_lifecycle(&bench.queue, &lifecycle.item), ZLINK_OK);
    /* The worker is free for others, and has had every chance to run the held queue when this has ended. */
    memset(&other, 0, sizeof(other));
    other.fixture.pool = bench.fixture.pool;
    zlink_serial_execution_queue_init(&other.queue, bench.fixture.pool, &bench.fixture.policy);
    sem_init(&other.done, 0, 0);
    sem_init(&other.closed, 0, 0);
    job_t probe = make(&other, 1);
    assert_int_equal(zlink_serial_execution_queue_enqueue(&other.queue, &probe.item), ZLINK_OK);
    zlink_serial_execution_queue_close(&other.queue, queue_closed);
    zlink_test_wait(&other.closed);
    expect_order(&bench, (int[]){1}, 1);
    zlink_serial_execution_queue_resume_held(&bench.queue);
    bench_close(&bench);
    expect_order(&bench, (int[]){1, 1, 3, 2}, 4);
    assert_true(held.authority == authority);
}

typedef struct quiet {
    zlink_quiescence_t quiescence;
    sem_t reached;
    _Atomic int count;
} quiet_t;

static void reached(zlink_quiescence_t *quiescence)
{
    quiet_t *quiet = ZLINK_CONTAINER_OF(quiescence, quiet_t, quiescence);
    atomic_fetch_add(&quiet->count, 1);
    sem_post(&quiet->reached);
}

static void await_inside(job_t *job)
{
    quiet_t quiet = {.quiescence.reached = reached};
    zlink_check(zlink_serial_execution_queue_await_quiescence(&job->bench->queue, &quiet.quiescence) ==
                ZLINK_INVALID_OPERATION);
}

/* EX-91: quiescence comes when everything queued before has ended, suspended work included; not inside the own turn. */
static void test_ex91_await_quiescence_waits_for_suspended_work(void **state)
{
    bench_t bench;
    quiet_t first = {.quiescence.reached = reached};
    quiet_t second = {.quiescence.reached = reached};

    (void)state;
    sem_init(&first.reached, 0, 0);
    sem_init(&second.reached, 0, 0);
    bench_open(&bench, 1);
    job_t inside = make(&bench, 5);
    inside.act = await_inside;
    assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.queue, &inside.item), ZLINK_OK);
    job_t waiting = make(&bench, 1);
    waiting.first_answer = ZLINK_WORK_SUSPENDED;
    waiting.tell = true;
    assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.queue, &waiting.item), ZLINK_OK);
    zlink_test_wait(&bench.done);
    assert_int_equal(zlink_serial_execution_queue_await_quiescence(&bench.queue, &first.quiescence), ZLINK_OK);
    /* Work that came later, suspended too, does not hold the first one up. */
    job_t later = make(&bench, 2);
    later.first_answer = ZLINK_WORK_SUSPENDED;
    later.tell = true;
    assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.queue, &later.item), ZLINK_OK);
    zlink_test_wait(&bench.done);
    assert_int_equal(atomic_load(&first.count), 0);
    assert_int_equal(zlink_serial_execution_queue_await_quiescence(&bench.queue, &second.quiescence), ZLINK_OK);
    zlink_serial_execution_queue_resume(&bench.queue, &waiting.item);
    zlink_test_wait(&bench.done);
    zlink_test_wait(&first.reached);
    assert_int_equal(atomic_load(&second.count), 0);
    zlink_serial_execution_queue_resume(&bench.queue, &later.item);
    zlink_test_wait(&second.reached);
    bench_close(&bench);
    assert_int_equal(atomic_load(&first.count), 1);
    assert_int_equal(atomic_load(&second.count), 1);
}

static void close_again(job_t *job)
{
    zlink_serial_execution_queue_close(&job->bench->queue, NULL);
}

/* EX-92: close refuses new work, finishes what was accepted (suspended included), and may be called twice. */
static void test_ex92_close_finishes_what_was_accepted(void **state)
{
    bench_t bench;
    quiet_t quiet = {.quiescence.reached = reached};

    (void)state;
    bench_open(&bench, 1);
    job_t waiting = make(&bench, 1);
    waiting.first_answer = ZLINK_WORK_SUSPENDED;
    waiting.tell = true;
    assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.queue, &waiting.item), ZLINK_OK);
    zlink_test_wait(&bench.done);
    job_t gate = gate_of(&bench);
    close_gate(&gate);
    job_t accepted = make(&bench, 2);
    accepted.act = close_again;
    assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.queue, &accepted.item), ZLINK_OK);
    zlink_serial_execution_queue_close(&bench.queue, queue_closed);
    assert_true(zlink_serial_execution_queue_is_closed(&bench.queue));
    job_t refused = make(&bench, 9);
    assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.queue, &refused.item), ZLINK_SHUTTING_DOWN);
    assert_int_equal(zlink_serial_execution_queue_enqueue_lifecycle(&bench.queue, &refused.item), ZLINK_SHUTTING_DOWN);
    assert_int_equal(zlink_serial_execution_queue_enqueue_barrier_next(&bench.queue, &refused.item),
                     ZLINK_SHUTTING_DOWN);
    assert_int_equal(zlink_serial_execution_queue_await_quiescence(&bench.queue, &quiet.quiescence),
                     ZLINK_SHUTTING_DOWN);
    sem_post(&bench.let_go);
    assert_int_not_equal(sem_trywait(&bench.closed), 0); /* one is suspended still */
    zlink_serial_execution_queue_resume(&bench.queue, &waiting.item);
    zlink_test_wait(&bench.closed);
    zlink_exec_fixture_close(&bench.fixture);
    assert_int_equal(accepted.runs, 1);
    assert_int_equal(waiting.runs, 2);
    assert_int_not_equal(sem_trywait(&bench.closed), 0); /* told once */
}

/* ---- many threads ---- */

#define PRODUCERS    3
#define PER_PRODUCER 4000

typedef struct storm {
    zlink_work_item_t item;
    struct storm_queue *queue;
    unsigned producer;
    unsigned number;
} storm_t;

typedef struct storm_queue {
    zlink_serial_execution_queue_t queue;
    bench_t *bench;
    _Atomic int inside;
    unsigned next[2][PRODUCERS];
    unsigned total; /* plain: the queue is what keeps it right */
    sem_t closed;
} storm_queue_t;

static storm_queue_t storm_queues[2];
static storm_t storm_items[PRODUCERS][PER_PRODUCER];
static _Thread_local bool submitting;

static zlink_work_result_t run_storm(zlink_work_item_t *item, zlink_worker_t *worker)
{
    storm_t *storm = ZLINK_CONTAINER_OF(item, storm_t, item);
    storm_queue_t *queue = storm->queue;
    unsigned *next = &queue->next[item->lane][storm->producer];

    (void)worker;
    zlink_check(!submitting);
    zlink_check(atomic_fetch_add(&queue->inside, 1) == 0);
    zlink_check(*next <= storm->number); /* each lane in order of submission */
    *next = storm->number + 1;
    queue->total++;
    atomic_fetch_sub(&queue->inside, 1);
    return ZLINK_WORK_DONE;
}

static void *produce(void *argument)
{
    storm_t *items = argument;

    submitting = true;
    for (unsigned i = 0; i < PER_PRODUCER; i++) {
        storm_t *storm = &items[i];
        zlink_serial_execution_queue_t *queue = &storm->queue->queue;
        for (;;) {
            zlink_status_t status = i % 16 == 0 ? zlink_serial_execution_queue_enqueue_lifecycle(queue, &storm->item)
                                                : zlink_serial_execution_queue_enqueue(queue, &storm->item);
            if (status == ZLINK_OK)
                break;
            zlink_check(status == ZLINK_CAPACITY_EXCEEDED);
            sched_yield();
        }
    }
    submitting = false;
    return NULL;
}

static void storm_closed(zlink_serial_execution_queue_t *queue)
{
    sem_post(&ZLINK_CONTAINER_OF(queue, storm_queue_t, queue)->closed);
}

/* EX-95: many submitters, two workers: every item runs once, one at a time, in its producer's order, never in place. */
static void test_ex95_every_submission_runs_once_and_alone(void **state)
{
    zlink_exec_fixture_t fixture;
    pthread_t threads[PRODUCERS];

    (void)state;
    zlink_exec_fixture_open(&fixture, 2, 0);
    fixture.policy.application_message_capacity = 64;
    fixture.policy.lifecycle_burst_limit = UINT32_MAX;
    memset(storm_queues, 0, sizeof(storm_queues));
    for (unsigned i = 0; i < 2; i++) {
        zlink_serial_execution_queue_init(&storm_queues[i].queue, fixture.pool, &fixture.policy);
        sem_init(&storm_queues[i].closed, 0, 0);
    }
    for (unsigned p = 0; p < PRODUCERS; p++) {
        for (unsigned i = 0; i < PER_PRODUCER; i++) {
            storm_items[p][i] =
                (storm_t){.item.run = run_storm, .queue = &storm_queues[i / 16 % 2], .producer = p, .number = i};
        }
    }
    for (unsigned p = 0; p < PRODUCERS; p++)
        assert_int_equal(pthread_create(&threads[p], NULL, produce, storm_items[p]), 0);
    for (unsigned p = 0; p < PRODUCERS; p++)
        pthread_join(threads[p], NULL);
    for (unsigned i = 0; i < 2; i++) {
        zlink_serial_execution_queue_close(&storm_queues[i].queue, storm_closed);
        zlink_test_wait(&storm_queues[i].closed);
    }
    assert_int_equal(storm_queues[0].total + storm_queues[1].total, PRODUCERS * PER_PRODUCER);
    zlink_exec_fixture_close(&fixture);
}

/* IC-6: every acquisition has a number of its own. */
static void test_ic6_fencing_numbers_are_never_used_again(void **state)
{
    bench_t bench;
    job_t jobs[20];
    uint64_t last = 0;

    (void)state;
    bench_open(&bench, 1);
    for (int i = 0; i < 20; i++) {
        quiet_t quiet = {.quiescence.reached = reached};
        sem_init(&quiet.reached, 0, 0);
        jobs[i] = make(&bench, i);
        assert_int_equal(zlink_serial_execution_queue_enqueue(&bench.queue, &jobs[i].item), ZLINK_OK);
        assert_int_equal(zlink_serial_execution_queue_await_quiescence(&bench.queue, &quiet.quiescence), ZLINK_OK);
        zlink_test_wait(&quiet.reached);
        assert_true(jobs[i].authority >= last); /* one slice may serve two of them */
        last = jobs[i].authority;
    }
    bench_close(&bench);
    assert_true(jobs[19].authority > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex14_empty_payloads_hit_the_count_bound),
        cmocka_unit_test(test_ex67_a_refusal_changes_nothing),
        cmocka_unit_test(test_ex101_lanes_do_not_share_capacity),
        cmocka_unit_test(test_ex10_lifecycle_overtakes_up_to_the_burst_limit),
        cmocka_unit_test(test_ex100_ic7_yield_debt_is_kept_and_cleared),
        cmocka_unit_test(test_ex13_an_owner_past_its_budget_is_cut),
        cmocka_unit_test(test_ex89_barrier_next_runs_right_after_the_turn),
        cmocka_unit_test(test_ex90_is_current_only_inside_its_own_turn),
        cmocka_unit_test(test_ex21_a_resume_stands_at_the_back),
        cmocka_unit_test(test_ex18_a_held_item_keeps_the_gate),
        cmocka_unit_test(test_ex91_await_quiescence_waits_for_suspended_work),
        cmocka_unit_test(test_ex92_close_finishes_what_was_accepted),
        cmocka_unit_test(test_ex95_every_submission_runs_once_and_alone),
        cmocka_unit_test(test_ic6_fencing_numbers_are_never_used_again),
    };

    return zlink_test_main(tests);
}
