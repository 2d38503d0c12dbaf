#include "exec_fixture.h"

#include <sched.h>

#include "base/container_of.h"
#include "base/memory.h"
#include "exec/defer_scope.h"

/* ---- limits ---- */

#define MANY (ZLINK_DEFER_JOINS_MAX + 1)

typedef struct greedy {
    zlink_turn_t turn;
    zlink_actor_serial_executor_t *targets; /* MANY of them */
    zlink_status_t answer;
    sem_t ended_once;
} greedy_t;

static _Atomic unsigned greedy_completed;
static _Atomic unsigned greedy_disposed;
static uint8_t greedy_request[ZLINK_DEFER_REQUEST_BYTES_MAX + 1];

static zlink_status_t greedy_activate(zlink_turn_t *turn, const zlink_deferred_join_t *join)
{
    (void)turn;
    zlink_check(!join->request_bytes || ((uint8_t *)join->request)[join->request_bytes - 1] == 7);
    return ZLINK_OK;
}

static void greedy_join_completed(zlink_turn_t *turn, const zlink_deferred_join_t *join, zlink_status_t result)
{
    (void)turn;
    (void)join;
    zlink_check(result == ZLINK_OK);
    atomic_fetch_add(&greedy_completed, 1);
}

static void greedy_join_disposed(const zlink_deferred_join_t *join, zlink_status_t why)
{
    (void)join;
    (void)why;
    atomic_fetch_add(&greedy_disposed, 1);
}

static const zlink_deferred_join_calls_t greedy_calls = {greedy_activate, greedy_join_completed, greedy_join_disposed};

static zlink_status_t defer_bytes(greedy_t *greedy, unsigned target, size_t request_bytes)
{
    zlink_defer_options_t options = {.operation_id = {1, 0},
                                     .request = request_bytes ? greedy_request : NULL,
                                     .request_bytes = request_bytes,
                                     .calls = &greedy_calls};
    return zlink_turn_defer(&greedy->turn, &greedy->targets[target], &options);
}

static void greedy_ended(zlink_turn_t *turn, zlink_status_t status)
{
    greedy_t *greedy = ZLINK_CONTAINER_OF(turn, greedy_t, turn);
    zlink_check(status == greedy->answer);
    sem_post(&greedy->ended_once);
}

static sem_t target_closed;

static void greedy_target_closed(zlink_actor_serial_executor_t *executor)
{
    (void)executor;
    sem_post(&target_closed);
}

/* Runs `body` on a turn of its own with MANY targets, and sees to it that nothing is left of them. */
static void run_greedy(zlink_status_t (*body)(zlink_turn_t *turn), zlink_status_t answer)
{
    zlink_exec_fixture_t fixture;
    zlink_actor_serial_executor_t owner = {0};
    static zlink_actor_serial_executor_t targets[MANY];
    greedy_t greedy = {.targets = targets, .answer = answer};

    zlink_exec_fixture_open(&fixture, 2, 0);
    memset(targets, 0, sizeof(targets));
    memset(greedy_request, 7, sizeof(greedy_request));
    atomic_store(&greedy_completed, 0);
    atomic_store(&greedy_disposed, 0);
    sem_init(&greedy.ended_once, 0, 0);
    sem_init(&target_closed, 0, 0);
    zlink_turn_init(&greedy.turn, body, greedy_ended);
    assert_int_equal(zlink_actor_serial_executor_init(&owner, fixture.pool, &fixture.policy, "owner"), ZLINK_OK);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(zlink_actor_serial_executor_init(&targets[i], fixture.pool, &fixture.policy, "target"),
                         ZLINK_OK);
    assert_int_equal(zlink_actor_serial_executor_execute_actor(&owner, &greedy.turn, 0), ZLINK_OK);
    zlink_test_wait(&greedy.ended_once);
    for (unsigned i = 0; i < MANY; i++) {
        while (atomic_load(&targets[i].joins) != 0)
            sched_yield(); /* a join that has not started yet would not, in a closed queue */
        zlink_actor_serial_executor_close(&targets[i], greedy_target_closed);
        zlink_test_wait(&target_closed);
    }
    zlink_actor_serial_executor_close(&owner, greedy_target_closed);
    zlink_test_wait(&target_closed);
    zlink_exec_fixture_close(&fixture);
}

static zlink_status_t defer_too_many(zlink_turn_t *turn)
{
    greedy_t *greedy = ZLINK_CONTAINER_OF(turn, greedy_t, turn);

    for (unsigned i = 0; i < ZLINK_DEFER_JOINS_MAX; i++)
        zlink_check(defer_bytes(greedy, i, 0) == ZLINK_OK);
    zlink_check(defer_bytes(greedy, ZLINK_DEFER_JOINS_MAX, 0) == ZLINK_CAPACITY_EXCEEDED);
    zlink_check(atomic_load(&greedy->targets[ZLINK_DEFER_JOINS_MAX].joins) == 0);
    return greedy->answer;
}

static zlink_status_t defer_too_much(zlink_turn_t *turn)
{
    greedy_t *greedy = ZLINK_CONTAINER_OF(turn, greedy_t, turn);

    zlink_check(defer_bytes(greedy, 0, ZLINK_DEFER_REQUEST_BYTES_MAX + 1) == ZLINK_CAPACITY_EXCEEDED);
    for (unsigned i = 0; i < 7; i++)
        zlink_check(defer_bytes(greedy, i, ZLINK_DEFER_REQUEST_BYTES_MAX) == ZLINK_OK);
    zlink_check(defer_bytes(greedy, 7, ZLINK_DEFER_REQUEST_BYTES_MAX - 1) == ZLINK_OK);
    zlink_check(defer_bytes(greedy, 8, 2) == ZLINK_CAPACITY_EXCEEDED);
    zlink_check(atomic_load(&greedy->targets[8].joins) == 0);
    zlink_check(defer_bytes(greedy, 8, 1) == ZLINK_OK);
    zlink_check(defer_bytes(greedy, 9, 1) == ZLINK_CAPACITY_EXCEEDED);
    return greedy->answer;
}

/* EX-27: 64 joins, 1 MiB each and 8 MiB together are taken, the next is refused at once, and those before it go on. */
static void test_ex27_limits_are_checked_at_once(void **state)
{
    (void)state;
    run_greedy(defer_too_many, ZLINK_OK);
    assert_int_equal(atomic_load(&greedy_completed), ZLINK_DEFER_JOINS_MAX);
    run_greedy(defer_too_many, ZLINK_NOT_FOUND);
    assert_int_equal(atomic_load(&greedy_disposed), ZLINK_DEFER_JOINS_MAX);
    run_greedy(defer_too_much, ZLINK_OK);
    assert_int_equal(atomic_load(&greedy_completed), 9);
}

static zlink_status_t defer_wrongly(zlink_turn_t *turn)
{
    greedy_t *greedy = ZLINK_CONTAINER_OF(turn, greedy_t, turn);
    static const zlink_deferred_join_calls_t incomplete = {greedy_activate, greedy_join_completed, NULL};
    const zlink_defer_options_t good = {.operation_id = {0, 1}, .calls = &greedy_calls};
    zlink_defer_options_t wrong[5] = {good, good, good, good, good};

    wrong[0].operation_id.low = 0;
    wrong[1].timeout_ms = (uint32_t)INT32_MAX + 1;
    wrong[2].request_bytes = 1;
    wrong[3].calls = NULL;
    wrong[4].calls = &incomplete;
    for (unsigned i = 0; i < 5; i++)
        zlink_check(zlink_turn_defer(turn, &greedy->targets[0], &wrong[i]) == ZLINK_INVALID_OPERATION);
    zlink_check(zlink_turn_defer(turn, NULL, &good) == ZLINK_INVALID_OPERATION);
    zlink_check(zlink_turn_defer(turn, &greedy->targets[0], NULL) == ZLINK_INVALID_OPERATION);
    zlink_check(!turn->scope && atomic_load(&greedy->targets[0].joins) == 0);
    wrong[1].timeout_ms = INT32_MAX;
    zlink_check(zlink_turn_defer(turn, &greedy->targets[0], &wrong[1]) == ZLINK_OK);
    return ZLINK_OK;
}

/* EX-27: an id of zeros, a timeout out of range and missing calls are refused at once, and nothing is kept of them. */
static void test_ex27_options_are_checked_at_once(void **state)
{
    (void)state;
    run_greedy(defer_wrongly, ZLINK_OK);
    assert_int_equal(atomic_load(&greedy_completed), 1);
}

static zlink_status_t defer_without_memory(zlink_turn_t *turn)
{
    greedy_t *greedy = ZLINK_CONTAINER_OF(turn, greedy_t, turn);
    zlink_status_t status = ZLINK_CAPACITY_EXCEEDED;

    zlink_memory_fail_after(0);
    zlink_check(defer_bytes(greedy, 1, 100) == ZLINK_CAPACITY_EXCEEDED && !turn->scope);
    zlink_check(defer_bytes(greedy, 1, 100) == ZLINK_OK); /* from here on the scope is there */
    for (int64_t n = 0; status != ZLINK_OK; n++) {
        zlink_check(atomic_load(&greedy->targets[0].joins) == 0);
        zlink_memory_fail_after(n);
        status = defer_bytes(greedy, 0, 100);
        zlink_memory_fail_after(-1);
        zlink_check(status == (n < 2 ? ZLINK_CAPACITY_EXCEEDED : ZLINK_OK)); /* the join, then its request */
    }
    return ZLINK_OK;
}

/* Each allocation fails once: nothing is kept, and the handler may try again. */
static void test_without_memory_nothing_is_deferred(void **state)
{
    (void)state;
    run_greedy(defer_without_memory, ZLINK_OK);
    assert_int_equal(atomic_load(&greedy_completed), 2);
}

static void greedy_queue_closed(zlink_serial_execution_queue_t *queue)
{
    (void)queue;
    sem_post(&target_closed);
}

/* The second one's queue is closed and the Actor does not say so: a close that comes between the look and the mark. */
static zlink_status_t defer_to_a_closed_one(zlink_turn_t *turn)
{
    greedy_t *greedy = ZLINK_CONTAINER_OF(turn, greedy_t, turn);

    zlink_actor_serial_executor_close(&greedy->targets[0], greedy_target_closed);
    zlink_serial_execution_queue_close(&greedy->targets[1].queue, greedy_queue_closed);
    for (unsigned i = 0; i < 2; i++) {
        zlink_check(defer_bytes(greedy, i, 10) == ZLINK_SHUTTING_DOWN);
        zlink_check(atomic_load(&greedy->targets[i].joins) == 0);
    }
    return ZLINK_OK;
}

static void test_a_closed_target_takes_no_mark(void **state)
{
    (void)state;
    run_greedy(defer_to_a_closed_one, ZLINK_OK);
    assert_int_equal(atomic_load(&greedy_completed) + atomic_load(&greedy_disposed), 0);
}
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex27_limits_are_checked_at_once),
        cmocka_unit_test(test_ex27_options_are_checked_at_once),
        cmocka_unit_test(test_without_memory_nothing_is_deferred),
        cmocka_unit_test(test_a_closed_target_takes_no_mark),
    };

    return zlink_test_main(tests);
}