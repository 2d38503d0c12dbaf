/*
 * Waiting for room in a queue, step by step: whoever gives room back, in whatever way, hands it on to the oldest that
 * waits. The workers are stepped by hand, so that a waiter can come between any two steps.
 */
#include "exec_fixture.h"

#include "base/container_of.h"
#include "exec/room_line.h"
#include "exec/serial_execution_queue.h"

typedef struct job {
    zlink_work_item_t item;
    zlink_work_result_t first_answer;
    unsigned runs;
} job_t;

static zlink_work_result_t run_job(zlink_work_item_t *item, zlink_worker_t *worker)
{
    job_t *job = ZLINK_CONTAINER_OF(item, job_t, item);

    (void)worker;
    return ++job->runs == 1 ? job->first_answer : ZLINK_WORK_DONE;
}

typedef struct bench {
    zlink_worker_pool_t *pool;
    zlink_clock_t clock;
    uint64_t now_ns;
    zlink_execution_lane_policy_t policy;
    zlink_serial_execution_queue_t queue;
    unsigned closed;
} bench_t;

/* Waits with one job; what it is told is noted. */
typedef struct waiter {
    zlink_room_waiter_t waiter;
    bench_t *bench;
    job_t job;
    uint64_t payload_bytes;
    unsigned tries, ends;
    zlink_status_t status;
} waiter_t;

static zlink_status_t admit(zlink_room_waiter_t *room)
{
    waiter_t *waiter = ZLINK_CONTAINER_OF(room, waiter_t, waiter);

    waiter->tries++;
    return zlink_serial_execution_queue_enqueue_with_payload_bytes(&waiter->bench->queue, &waiter->job.item,
                                                                   waiter->payload_bytes);
}

static void ended(zlink_room_waiter_t *room, zlink_status_t status)
{
    waiter_t *waiter = ZLINK_CONTAINER_OF(room, waiter_t, waiter);

    waiter->ends++;
    waiter->status = status;
}

static waiter_t wait_with(bench_t *bench)
{
    return (waiter_t){.waiter = {.admit = admit, .ended = ended}, .bench = bench, .job.item.run = run_job};
}

static void await(waiter_t *waiter)
{
    assert_int_equal(zlink_serial_execution_queue_await_room(&waiter->bench->queue, &waiter->waiter), ZLINK_OK);
}

static job_t make(void)
{
    return (job_t){.item.run = run_job};
}

static uint64_t clock_now(void *context)
{
    return ((bench_t *)context)->now_ns;
}

static void wake(void *context, unsigned worker)
{
    (void)context, (void)worker;
}

static const zlink_scheduler_t by_hand = {.wake = wake};

static void bench_open(bench_t *bench, uint32_t messages)
{
    zlink_refusal_t why = {{0}};

    memset(bench, 0, sizeof(*bench));
    bench->clock = (zlink_clock_t){clock_now, bench};
    bench->now_ns = 1000 * ZLINK_NS_PER_MS;
    bench->policy = zlink_execution_lane_policy_default;
    bench->policy.application_message_capacity = messages;
    const zlink_worker_pool_options_t options = {.workers = 1, .clock = &bench->clock, .scheduler = &by_hand};
    assert_int_equal(zlink_worker_pool_create(&options, &bench->pool, &why), ZLINK_OK);
    zlink_serial_execution_queue_init(&bench->queue, bench->pool, &bench->policy);
}

static bool step(bench_t *bench)
{
    return zlink_worker_pool_step(bench->pool, 0);
}

static void run_out(bench_t *bench)
{
    for (unsigned steps = 0; step(bench); steps++)
        assert_true(steps < 10000);
}

static void queue_closed(zlink_serial_execution_queue_t *queue)
{
    ZLINK_CONTAINER_OF(queue, bench_t, queue)->closed++;
}

static void bench_close(bench_t *bench)
{
    zlink_serial_execution_queue_close(&bench->queue, queue_closed);
    run_out(bench);
    assert_int_equal(bench->closed, 1);
    zlink_worker_pool_destroy(bench->pool);
}

static void put(bench_t *bench, job_t *job, zlink_status_t expected)
{
    assert_int_equal(zlink_serial_execution_queue_enqueue(&bench->queue, &job->item), expected);
}

/* Until the job has run so often. */
static void step_until(bench_t *bench, const job_t *job, unsigned runs)
{
    for (unsigned steps = 0; job->runs < runs; steps++) {
        assert_true(steps < 100);
        (void)step(bench);
    }
}

/* EX-42: room that came before anybody stood in line is seen by who comes. */
static void test_ex42_room_that_was_there_already(void **state)
{
    bench_t bench;

    (void)state;
    bench_open(&bench, 1);
    job_t first = make(), second = make();
    put(&bench, &first, ZLINK_OK);
    put(&bench, &second, ZLINK_CAPACITY_EXCEEDED);
    run_out(&bench);
    waiter_t waiter = wait_with(&bench);
    await(&waiter);
    assert_int_equal(waiter.ends, 1);
    assert_int_equal(waiter.status, ZLINK_OK);
    assert_false(zlink_room_line_leave(&waiter.waiter));
    run_out(&bench);
    assert_int_equal(waiter.job.runs, 1);
    bench_close(&bench);
}

/* EX-42: the slice ends with an item whose room nobody wanted when it ended; by then somebody does. */
static void test_ex42_room_at_the_end_of_a_slice(void **state)
{
    bench_t bench;

    (void)state;
    bench_open(&bench, 1);
    job_t first = make();
    waiter_t waiter = wait_with(&bench);
    put(&bench, &first, ZLINK_OK);
    step_until(&bench, &first, 1);
    await(&waiter);
    assert_int_equal(waiter.ends, 0);
    run_out(&bench);
    assert_int_equal(waiter.ends, 1);
    assert_int_equal(waiter.status, ZLINK_OK);
    assert_int_equal(waiter.job.runs, 1);
    bench_close(&bench);
}

/* EX-42: as soon as one item has ended, not only after many. */
static void test_ex42_room_after_each_item(void **state)
{
    enum { MANY = 40 };
    job_t jobs[MANY];
    waiter_t waiters[3];
    bench_t bench;

    (void)state;
    bench_open(&bench, MANY);
    for (size_t i = 0; i < MANY; i++) {
        jobs[i] = make();
        put(&bench, &jobs[i], ZLINK_OK);
    }
    for (size_t i = 0; i < 3; i++) {
        waiters[i] = wait_with(&bench);
        await(&waiters[i]);
    }
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(waiters[i].ends, 0);
        step_until(&bench, &jobs[i], 1);
        assert_int_equal(waiters[i].ends, 1); /* the oldest, one for each */
    }
    run_out(&bench);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(waiters[i].job.runs, 1);
    bench_close(&bench);
}

/* EX-42: an item that keeps the turn gives back what has ended before it, and its queue stands still from then on. */
static void test_ex42_room_before_a_held_turn(void **state)
{
    bench_t bench;

    (void)state;
    bench_open(&bench, 2);
    job_t first = make(), holds = make();
    waiter_t waiter = wait_with(&bench);
    holds.first_answer = ZLINK_WORK_HELD;
    put(&bench, &first, ZLINK_OK);
    put(&bench, &holds, ZLINK_OK);
    step_until(&bench, &first, 1);
    await(&waiter);
    assert_int_equal(waiter.ends, 0);
    step_until(&bench, &holds, 1);
    assert_int_equal(waiter.ends, 1);
    assert_int_equal(waiter.status, ZLINK_OK);
    run_out(&bench);
    assert_int_equal(waiter.job.runs, 0); /* it is in, but the turn is kept */
    zlink_serial_execution_queue_resume_held(&bench.queue);
    run_out(&bench);
    assert_int_equal(waiter.job.runs, 1);
    bench_close(&bench);
}

/* EX-42: an item that has given its gate back keeps its place; it is free when the item ends. */
static void test_ex42_suspended_work_keeps_its_room(void **state)
{
    bench_t bench;

    (void)state;
    bench_open(&bench, 1);
    job_t yields = make();
    waiter_t waiter = wait_with(&bench);
    yields.first_answer = ZLINK_WORK_SUSPENDED;
    put(&bench, &yields, ZLINK_OK);
    run_out(&bench);
    await(&waiter);
    run_out(&bench);
    assert_int_equal(waiter.ends, 0);
    zlink_serial_execution_queue_resume(&bench.queue, &yields.item);
    run_out(&bench);
    assert_int_equal(waiter.ends, 1);
    assert_int_equal(waiter.job.runs, 1);
    bench_close(&bench);
}

/* EX-42: nobody overtakes the oldest, also where a smaller one would have room; EX-43: the line has an end. */
static void test_ex42_ex43_the_line(void **state)
{
    static waiter_t crowd[ZLINK_ROOM_WAITERS_MAX];
    bench_t bench;

    (void)state;
    bench_open(&bench, 2);
    bench.policy.application_byte_capacity = 100000;
    bench.policy.fixed_work_byte_cost = 0;
    job_t large = make(), holds = make();
    waiter_t big = wait_with(&bench), small = wait_with(&bench);
    big.payload_bytes = 90000;
    holds.first_answer = ZLINK_WORK_SUSPENDED;
    assert_int_equal(zlink_serial_execution_queue_enqueue_with_payload_bytes(&bench.queue, &holds.item, 50000),
                     ZLINK_OK);
    put(&bench, &large, ZLINK_OK);
    await(&big);
    await(&small);
    run_out(&bench); /* one place is free, and half of the bytes */
    assert_int_equal(large.runs, 1);
    assert_int_equal(big.ends + small.ends, 0);
    zlink_serial_execution_queue_resume(&bench.queue, &holds.item);
    run_out(&bench);
    assert_int_equal(big.ends, 1);
    assert_int_equal(small.ends, 1);
    assert_int_equal(big.job.runs + small.job.runs, 2);

    holds = make();
    holds.first_answer = ZLINK_WORK_SUSPENDED;
    job_t beside = make();
    beside.first_answer = ZLINK_WORK_SUSPENDED;
    put(&bench, &holds, ZLINK_OK);
    put(&bench, &beside, ZLINK_OK);
    run_out(&bench);
    for (size_t i = 0; i < ZLINK_ROOM_WAITERS_MAX; i++) {
        crowd[i] = wait_with(&bench);
        await(&crowd[i]);
    }
    waiter_t late = wait_with(&bench);
    assert_int_equal(zlink_serial_execution_queue_await_room(&bench.queue, &late.waiter), ZLINK_CAPACITY_EXCEEDED);
    assert_int_equal(late.tries + late.ends, 0);
    assert_true(zlink_room_line_leave(&crowd[7].waiter)); /* his place is free again */
    assert_false(zlink_room_line_leave(&crowd[7].waiter));
    await(&late);
    zlink_serial_execution_queue_resume(&bench.queue, &holds.item);
    zlink_serial_execution_queue_resume(&bench.queue, &beside.item);
    run_out(&bench);
    for (size_t i = 0; i < ZLINK_ROOM_WAITERS_MAX; i++) {
        assert_int_equal(crowd[i].ends, i != 7);
        assert_int_equal(crowd[i].job.runs, i != 7);
    }
    assert_int_equal(late.job.runs, 1);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex42_room_that_was_there_already),
        cmocka_unit_test(test_ex42_room_at_the_end_of_a_slice),
        cmocka_unit_test(test_ex42_room_after_each_item),
        cmocka_unit_test(test_ex42_room_before_a_held_turn),
        cmocka_unit_test(test_ex42_suspended_work_keeps_its_room),
        cmocka_unit_test(test_ex42_ex43_the_line),
    };
    return zlink_test_main(tests);
}
