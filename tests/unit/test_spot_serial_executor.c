#include "exec_fixture.h"

#include <pthread.h>

#include "base/container_of.h"
#include "exec/spot_serial_executor.h"

#define NOTES_MAX 64

typedef struct spot {
    zlink_spot_serial_executor_t executor;
    char notes[NOTES_MAX]; /* its own turns only */
    unsigned count;
    sem_t closed;
} spot_t;

typedef struct call call_t;
struct call {
    zlink_turn_t turn;
    spot_t *spot;
    char letter;
    zlink_wait_mode_t mode;
    zlink_wait_t wait;
    call_t *completes; /* whose wait this one completes */
    sem_t submitted;
    sem_t let_go;
    sem_t ended_once;
};

static call_t *call_of(zlink_turn_t *turn)
{
    return ZLINK_CONTAINER_OF(turn, call_t, turn);
}

static void note(spot_t *spot, char letter)
{
    zlink_check(zlink_spot_serial_executor_is_current(&spot->executor));
    zlink_check(spot->count < NOTES_MAX - 1);
    spot->notes[spot->count++] = letter;
}

static void ended(zlink_turn_t *turn, zlink_status_t status)
{
    zlink_check(status == ZLINK_OK);
    sem_post(&call_of(turn)->ended_once);
}

static zlink_status_t short_handler(zlink_turn_t *turn)
{
    note(call_of(turn)->spot, call_of(turn)->letter);
    return ZLINK_OK;
}

static zlink_status_t standing_handler(zlink_turn_t *turn)
{
    note(call_of(turn)->spot, call_of(turn)->letter);
    sem_post(&call_of(turn)->submitted);
    zlink_test_wait(&call_of(turn)->let_go);
    return ZLINK_OK;
}

static zlink_status_t waiting_handler(zlink_turn_t *turn)
{
    call_t *call = call_of(turn);

    note(call->spot, call->letter);
    zlink_check(zlink_turn_prepare_wait(turn, &call->wait, call->mode, NULL, NULL) == ZLINK_OK);
    sem_post(&call->submitted);
    zlink_status_t status = zlink_turn_wait(turn, &call->wait);
    note(call->spot, (char)(call->letter - 'a' + 'A'));
    return status;
}

static zlink_status_t continuation(zlink_turn_t *turn, zlink_status_t status, void *context)
{
    call_t *call = context;

    zlink_check(call_of(turn) == call);
    note(call->spot, (char)(call->letter - 'a' + 'A'));
    return status;
}

static zlink_status_t then_handler(zlink_turn_t *turn)
{
    call_t *call = call_of(turn);

    note(call->spot, call->letter);
    zlink_check(zlink_turn_prepare_wait(turn, &call->wait, call->mode, continuation, call) == ZLINK_OK);
    sem_post(&call->submitted);
    return ZLINK_OK;
}

/* Completes another handler's wait; that handler must not have run when the call returns. */
static zlink_status_t completing_handler(zlink_turn_t *turn)
{
    call_t *call = call_of(turn);
    spot_t *spot = call->completes->spot;
    unsigned before;

    note(call->spot, call->letter);
    before = spot->count;
    zlink_wait_complete(&call->completes->wait, ZLINK_OK);
    zlink_check(spot->count == before);
    zlink_check(zlink_turn_current() == turn);
    zlink_check(zlink_spot_serial_executor_is_current(&call->spot->executor));
    note(call->spot, (char)(call->letter - 'a' + 'A'));
    return ZLINK_OK;
}

static void make(call_t *call, spot_t *spot, char letter, zlink_status_t (*body)(zlink_turn_t *))
{
    memset(call, 0, sizeof(*call));
    zlink_turn_init(&call->turn, body, ended);
    call->spot = spot;
    call->letter = letter;
    call->mode = ZLINK_WAIT_YIELD;
    sem_init(&call->submitted, 0, 0);
    sem_init(&call->let_go, 0, 0);
    sem_init(&call->ended_once, 0, 0);
}

static void execute(call_t *call)
{
    assert_int_equal(zlink_spot_serial_executor_execute_spot(&call->spot->executor, &call->turn, 0), ZLINK_OK);
}

static void spot_open(spot_t *spot, zlink_exec_fixture_t *fixture)
{
    memset(spot, 0, sizeof(*spot));
    sem_init(&spot->closed, 0, 0);
    assert_int_equal(
        zlink_spot_serial_executor_init(&spot->executor, fixture->pool, &fixture->policy, ZLINK_EXECUTION_INSTANCE),
        ZLINK_OK);
}

static void spot_closed(zlink_spot_serial_executor_t *executor)
{
    zlink_check(!zlink_spot_serial_executor_is_current(executor));
    sem_post(&ZLINK_CONTAINER_OF(executor, spot_t, executor)->closed);
}

static void spot_close(spot_t *spot)
{
    zlink_spot_serial_executor_close(&spot->executor, spot_closed);
    zlink_test_wait(&spot->closed);
}

/* ---- IC-3 ---- */

/* IC-3: a handler that gave the gate back goes on by way of the queue only: not inside the completing turn of its own
 * Spot, and behind what was queued before the completion. Both forms. */
static void test_ic3_a_yielded_handler_resumes_through_the_queue(void **state)
{
    zlink_exec_fixture_t fixture;

    (void)state;
    zlink_exec_fixture_open(&fixture, 1, 0);
    for (int then = 0; then <= 1; then++) {
        spot_t spot;
        call_t waiting;
        call_t completing;
        call_t queued;
        call_t gate;
        spot_open(&spot, &fixture);
        make(&waiting, &spot, 'w', then ? then_handler : waiting_handler);
        make(&gate, &spot, 'g', standing_handler);
        make(&completing, &spot, 'c', completing_handler);
        make(&queued, &spot, 'q', short_handler);
        completing.completes = &waiting;
        execute(&waiting);
        zlink_test_wait(&waiting.submitted);
        execute(&gate);
        zlink_test_wait(&gate.submitted); /* now it is parked */
        execute(&completing);
        execute(&queued);
        sem_post(&gate.let_go);
        zlink_test_wait(&waiting.ended_once);
        spot_close(&spot);
        assert_string_equal(spot.notes, "wgcCqW");
    }
    zlink_exec_fixture_close(&fixture);
}

/* IC-3: one that keeps the gate goes on on its worker, not inside the completing turn of another Spot. */
static void test_ic3_a_held_handler_resumes_through_the_queue(void **state)
{
    zlink_exec_fixture_t fixture;

    (void)state;
    zlink_exec_fixture_open(&fixture, 1, 0);
    for (int then = 0; then <= 1; then++) {
        spot_t spot;
        spot_t other;
        call_t waiting;
        call_t completing;
        spot_open(&spot, &fixture);
        spot_open(&other, &fixture);
        make(&waiting, &spot, 'w', then ? then_handler : waiting_handler);
        make(&completing, &other, 'c', completing_handler);
        waiting.mode = ZLINK_WAIT_ASYNC;
        completing.completes = &waiting;
        execute(&waiting);
        zlink_test_wait(&waiting.submitted);
        execute(&completing);
        zlink_test_wait(&waiting.ended_once);
        spot_close(&spot);
        spot_close(&other);
        assert_string_equal(spot.notes, "wW");
        assert_string_equal(other.notes, "cC");
    }
    zlink_exec_fixture_close(&fixture);
}

/* IC-3: a completion from outside the pool returns although the only worker is busy, and nothing runs on its stack. */
static void test_ic3_a_completion_from_outside_only_submits(void **state)
{
    zlink_exec_fixture_t fixture;

    (void)state;
    zlink_exec_fixture_open(&fixture, 1, 0);
    for (int mode = ZLINK_WAIT_ASYNC; mode <= ZLINK_WAIT_YIELD; mode++) {
        spot_t spot;
        spot_t busy;
        call_t waiting;
        call_t gate;
        spot_open(&spot, &fixture);
        spot_open(&busy, &fixture);
        make(&waiting, &spot, 'w', waiting_handler);
        make(&gate, &busy, 'g', standing_handler);
        waiting.mode = (zlink_wait_mode_t)mode;
        execute(&waiting);
        zlink_test_wait(&waiting.submitted);
        execute(&gate);
        zlink_test_wait(&gate.submitted);
        zlink_wait_complete(&waiting.wait, ZLINK_OK);
        assert_string_equal(spot.notes, "w");
        assert_null(zlink_turn_current());
        sem_post(&gate.let_go);
        zlink_test_wait(&waiting.ended_once);
        spot_close(&spot);
        spot_close(&busy);
        assert_string_equal(spot.notes, "wW");
    }
    zlink_exec_fixture_close(&fixture);
}

/* ---- is_current ---- */

/* EX-90: true inside its own turn, false for every other Spot of the same worker while a handler of it waits, and true
 * again after the resume (note asserts that). */
static zlink_status_t asks_for_both(zlink_turn_t *turn)
{
    call_t *call = call_of(turn);

    zlink_check(zlink_spot_serial_executor_is_current(&call->spot->executor));
    zlink_check(!zlink_spot_serial_executor_is_current(&call->completes->spot->executor));
    zlink_check(zlink_turn_current() == turn);
    return ZLINK_OK;
}

static void test_ex90_is_current_is_false_while_it_waits(void **state)
{
    zlink_exec_fixture_t fixture;

    (void)state;
    zlink_exec_fixture_open(&fixture, 1, 0);
    for (int mode = ZLINK_WAIT_ASYNC; mode <= ZLINK_WAIT_YIELD; mode++) {
        spot_t spot;
        spot_t other;
        call_t waiting;
        call_t asking;
        spot_open(&spot, &fixture);
        spot_open(&other, &fixture);
        make(&waiting, &spot, 'w', waiting_handler);
        make(&asking, &other, 'a', asks_for_both);
        waiting.mode = (zlink_wait_mode_t)mode;
        asking.completes = &waiting;
        execute(&waiting);
        zlink_test_wait(&waiting.submitted);
        execute(&asking);
        zlink_test_wait(&asking.ended_once);
        assert_false(zlink_spot_serial_executor_is_current(&spot.executor));
        zlink_wait_complete(&waiting.wait, ZLINK_OK);
        zlink_test_wait(&waiting.ended_once); /* a yielded one that finds its Spot closed would fail */
        spot_close(&spot);
        spot_close(&other);
        assert_string_equal(spot.notes, "wW");
    }
    zlink_exec_fixture_close(&fixture);
}

/* ---- construction and end ---- */

/* EX-94: policy and kind are checked at construction, and the policy is copied. */
static void test_ex94_construction_refuses_what_is_not_valid(void **state)
{
    zlink_exec_fixture_t fixture;
    spot_t spot;
    call_t gate;
    call_t refused;

    (void)state;
    zlink_exec_fixture_open(&fixture, 1, 0);
    memset(&spot, 0, sizeof(spot));
    sem_init(&spot.closed, 0, 0);
    zlink_execution_lane_policy_t policy = zlink_execution_lane_policy_default;
    policy.owner_time_budget_ms = 0;
    assert_int_equal(zlink_spot_serial_executor_init(&spot.executor, fixture.pool, &policy, ZLINK_EXECUTION_INSTANCE),
                     ZLINK_INVALID_OPERATION);
    policy.owner_time_budget_ms = 1;
    policy.application_byte_capacity = 100;
    policy.fixed_work_byte_cost = 0;
    assert_int_equal(
        zlink_spot_serial_executor_init(&spot.executor, fixture.pool, &policy, (zlink_spot_execution_kind_t)99),
        ZLINK_INVALID_OPERATION);
    assert_int_equal(zlink_spot_serial_executor_init(&spot.executor, fixture.pool, &policy, ZLINK_EXECUTION_INSTANCE),
                     ZLINK_OK);
    policy.application_byte_capacity = 1000; /* the caller's own again */
    make(&gate, &spot, 'g', standing_handler);
    make(&refused, &spot, 'r', short_handler);
    assert_int_equal(zlink_spot_serial_executor_execute_spot(&spot.executor, &gate.turn, 60), ZLINK_OK);
    zlink_test_wait(&gate.submitted);
    assert_int_equal(zlink_spot_serial_executor_execute_spot(&spot.executor, &refused.turn, 41),
                     ZLINK_CAPACITY_EXCEEDED);
    assert_int_equal(zlink_spot_serial_executor_execute_spot(&spot.executor, &refused.turn, 40), ZLINK_OK);
    sem_post(&gate.let_go);
    spot_close(&spot);
    assert_string_equal(spot.notes, "gr");
    zlink_exec_fixture_close(&fixture);
}

/* EX-10: the end of a Spot overtakes its queued handler work. */
static void test_ex10_lifecycle_overtakes_queued_handlers(void **state)
{
    zlink_exec_fixture_t fixture;
    spot_t spot;
    call_t gate;
    call_t queued;
    call_t lifecycle;

    (void)state;
    zlink_exec_fixture_open(&fixture, 1, 0);
    spot_open(&spot, &fixture);
    make(&gate, &spot, 'g', standing_handler);
    make(&queued, &spot, 'q', short_handler);
    make(&lifecycle, &spot, 'l', short_handler);
    execute(&gate);
    zlink_test_wait(&gate.submitted);
    execute(&queued);
    assert_int_equal(zlink_spot_serial_executor_execute_lifecycle(&spot.executor, &lifecycle.turn), ZLINK_OK);
    sem_post(&gate.let_go);
    spot_close(&spot);
    assert_string_equal(spot.notes, "glq");
    zlink_exec_fixture_close(&fixture);
}

#define SHORT_LIVES 500

typedef struct short_lived {
    spot_t spot;
    call_t call;
    sem_t *freed;
} short_lived_t;

static void free_spot(zlink_spot_serial_executor_t *executor)
{
    spot_t *spot = ZLINK_CONTAINER_OF(executor, spot_t, executor);
    short_lived_t *lived = ZLINK_CONTAINER_OF(spot, short_lived_t, spot);
    sem_t *freed = lived->freed;

    zlink_check(strcmp(spot->notes, "a") == 0);
    free(lived);
    sem_post(freed);
}

static zlink_status_t closes_itself(zlink_turn_t *turn)
{
    call_t *call = call_of(turn);

    note(call->spot, call->letter);
    zlink_spot_serial_executor_close(&call->spot->executor, free_spot);
    return ZLINK_OK;
}

/* EX-92: `closed` is the last touch: the owner may be freed in it, also when its own turn has closed it. */
static void test_ex92_the_owner_may_be_freed_when_it_is_closed(void **state)
{
    zlink_exec_fixture_t fixture;
    sem_t freed;

    (void)state;
    zlink_exec_fixture_open(&fixture, 2, 0);
    sem_init(&freed, 0, 0);
    for (unsigned i = 0; i < SHORT_LIVES; i++) {
        short_lived_t *lived = NULL;
        assert_int_equal(posix_memalign((void **)&lived, 16, sizeof(*lived)), 0);
        lived->freed = &freed;
        spot_open(&lived->spot, &fixture);
        make(&lived->call, &lived->spot, 'a', i % 2 ? closes_itself : short_handler);
        execute(&lived->call);
        if (i % 2 == 0)
            zlink_spot_serial_executor_close(&lived->spot.executor, free_spot);
    }
    for (unsigned i = 0; i < SHORT_LIVES; i++)
        zlink_test_wait(&freed);
    zlink_exec_fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ic3_a_yielded_handler_resumes_through_the_queue),
        cmocka_unit_test(test_ic3_a_held_handler_resumes_through_the_queue),
        cmocka_unit_test(test_ic3_a_completion_from_outside_only_submits),
        cmocka_unit_test(test_ex90_is_current_is_false_while_it_waits),
        cmocka_unit_test(test_ex94_construction_refuses_what_is_not_valid),
        cmocka_unit_test(test_ex10_lifecycle_overtakes_queued_handlers),
        cmocka_unit_test(test_ex92_the_owner_may_be_freed_when_it_is_closed),
    };

    return zlink_test_main(tests);
}
