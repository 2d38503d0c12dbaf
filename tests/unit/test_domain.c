/*
 * The mark that says in which work domain a thread executes: on workers, over suspensions, in between.
 */
#include "exec_fixture.h"

#include <pthread.h>

#include "base/container_of.h"
#include "base/domain.h"
#include "exec/channel_serial_executor.h"
#include "exec/worker_pool.h"

/* A handler that waits, and a timer of its worker that fires meanwhile. */
typedef struct waiting {
    zlink_turn_t turn;
    zlink_wait_t wait;
    zlink_timer_t timer;
    zlink_turn_continuation_t continuation;
    zlink_domain_t before, after, at_end; /* as the handler saw it */
    zlink_domain_t in_timer;
    zlink_status_t waited_in_timer;
    sem_t submitted;
    sem_t ended;
} waiting_t;

static void fire(zlink_timer_t *timer)
{
    waiting_t *waiting = ZLINK_CONTAINER_OF(timer, waiting_t, timer);
    zlink_wait_t wait;

    waiting->in_timer = zlink_domain_current();
    zlink_check(zlink_turn_current() == NULL);
    waiting->waited_in_timer = zlink_turn_prepare_wait(&waiting->turn, &wait, ZLINK_WAIT_ASYNC, NULL, NULL);
    zlink_wait_complete(&waiting->wait, ZLINK_OK);
}

static zlink_status_t go_on(zlink_turn_t *turn, zlink_status_t status, void *context)
{
    (void)turn;
    ((waiting_t *)context)->after = zlink_domain_current();
    return status;
}

static zlink_status_t handle(zlink_turn_t *turn)
{
    waiting_t *waiting = ZLINK_CONTAINER_OF(turn, waiting_t, turn);

    waiting->before = zlink_domain_current();
    zlink_check(zlink_turn_prepare_wait(turn, &waiting->wait, ZLINK_WAIT_ASYNC, waiting->continuation, waiting) ==
                ZLINK_OK);
    waiting->timer.fire = fire;
    zlink_worker_timer_start(turn->worker, &waiting->timer, 1050);
    sem_post(&waiting->submitted);
    if (waiting->continuation)
        return ZLINK_OK;
    zlink_status_t status = zlink_turn_wait(turn, &waiting->wait);
    waiting->after = zlink_domain_current();
    return status;
}

static void ended(zlink_turn_t *turn, zlink_status_t status)
{
    waiting_t *waiting = ZLINK_CONTAINER_OF(turn, waiting_t, turn);

    zlink_check(status == ZLINK_OK);
    waiting->at_end = zlink_domain_current();
    sem_post(&waiting->ended);
}

static sem_t executor_gone;

static void executor_closed(zlink_channel_serial_executor_t *executor)
{
    (void)executor;
    sem_post(&executor_gone);
}

static void run_waiting(zlink_turn_continuation_t continuation)
{
    zlink_exec_fixture_t fixture;
    zlink_channel_serial_executor_t executor;
    waiting_t waiting;

    memset(&waiting, 0, sizeof(waiting));
    waiting.continuation = continuation;
    sem_init(&waiting.submitted, 0, 0);
    sem_init(&waiting.ended, 0, 0);
    sem_init(&executor_gone, 0, 0);
    zlink_exec_fixture_open(&fixture, 1, 0);
    zlink_turn_init(&waiting.turn, handle, ended);
    assert_int_equal(zlink_channel_serial_executor_init(&executor, fixture.pool, &fixture.policy), ZLINK_OK);
    assert_int_equal(zlink_channel_serial_executor_execute_channel(&executor, &waiting.turn, 0), ZLINK_OK);
    zlink_test_wait(&waiting.submitted);
    zlink_exec_fixture_advance(&fixture, 100);
    zlink_test_wait(&waiting.ended);
    zlink_channel_serial_executor_close(&executor, executor_closed);
    zlink_test_wait(&executor_gone);
    zlink_exec_fixture_close(&fixture);

    assert_int_equal(waiting.before, ZLINK_DOMAIN_APPLICATION);
    assert_int_equal(waiting.in_timer, ZLINK_DOMAIN_INFRASTRUCTURE);
    assert_int_equal(waiting.after, ZLINK_DOMAIN_APPLICATION);
    assert_int_equal(waiting.at_end, ZLINK_DOMAIN_APPLICATION);
    assert_int_equal(waiting.waited_in_timer, ZLINK_INVALID_OPERATION);
    assert_int_equal(zlink_domain_current(), ZLINK_DOMAIN_NONE); /* of this thread, throughout */
}

/* IC-10: a handler is in the application domain before and after it has waited on its stack; a timer that fires on the
 * same thread meanwhile is infrastructure, and a wait from there in the handler's name is refused at once. */
static void test_ic10_a_turn_is_application_over_its_suspensions(void **state)
{
    (void)state;
    run_waiting(NULL);
}

/* IC-10: the same where the handler has returned and goes on in a continuation. */
static void test_ic10_a_continuation_is_application(void **state)
{
    (void)state;
    run_waiting(go_on);
}

/* An item that is no turn. */
typedef struct plain {
    zlink_work_item_t item;
    zlink_domain_t domain;
    sem_t ran;
} plain_t;

static zlink_work_result_t run_plain(zlink_work_item_t *item, zlink_worker_t *worker)
{
    plain_t *plain = ZLINK_CONTAINER_OF(item, plain_t, item);

    (void)worker;
    plain->domain = zlink_domain_current();
    sem_post(&plain->ran);
    return ZLINK_WORK_DONE;
}

static sem_t queue_gone;

static void queue_closed(zlink_serial_execution_queue_t *queue)
{
    (void)queue;
    sem_post(&queue_gone);
}

/* IC-10: what a worker does outside a turn is infrastructure. */
static void test_ic10_a_worker_without_a_turn_is_infrastructure(void **state)
{
    zlink_exec_fixture_t fixture;
    zlink_serial_execution_queue_t queue;
    plain_t plain = {.item.run = run_plain};

    (void)state;
    sem_init(&plain.ran, 0, 0);
    sem_init(&queue_gone, 0, 0);
    zlink_exec_fixture_open(&fixture, 1, 0);
    zlink_serial_execution_queue_init(&queue, fixture.pool, &fixture.policy);
    assert_int_equal(zlink_serial_execution_queue_enqueue(&queue, &plain.item), ZLINK_OK);
    zlink_test_wait(&plain.ran);
    assert_int_equal(plain.domain, ZLINK_DOMAIN_INFRASTRUCTURE);
    zlink_serial_execution_queue_close(&queue, queue_closed);
    zlink_test_wait(&queue_gone);
    zlink_exec_fixture_close(&fixture);
}

static void *look(void *argument)
{
    *(zlink_domain_t *)argument = zlink_domain_current();
    return NULL;
}

/* IC-10: the mark is the thread's own, comes back when what was entered is left, and decides what is let through. */
static void test_ic10_the_mark_and_what_it_forbids(void **state)
{
    zlink_domain_t elsewhere = ZLINK_DOMAIN_APPLICATION;
    pthread_t thread;

    (void)state;
    assert_int_equal(zlink_domain_current(), ZLINK_DOMAIN_NONE);
    assert_int_equal(zlink_domain_throw_if_application(), ZLINK_OK);
    assert_int_equal(zlink_domain_throw_unless_outside(), ZLINK_OK);

    assert_int_equal(zlink_domain_enter(ZLINK_DOMAIN_APPLICATION), ZLINK_DOMAIN_NONE);
    assert_int_equal(zlink_domain_throw_if_application(), ZLINK_INVALID_OPERATION);
    assert_int_equal(zlink_domain_throw_unless_outside(), ZLINK_INVALID_OPERATION);
    assert_int_equal(pthread_create(&thread, NULL, look, &elsewhere), 0);
    pthread_join(thread, NULL);
    assert_int_equal(elsewhere, ZLINK_DOMAIN_NONE);

    assert_int_equal(zlink_domain_enter(ZLINK_DOMAIN_INFRASTRUCTURE), ZLINK_DOMAIN_APPLICATION);
    assert_int_equal(zlink_domain_throw_if_application(), ZLINK_OK);
    assert_int_equal(zlink_domain_throw_unless_outside(), ZLINK_INVALID_OPERATION);
    assert_int_equal(zlink_domain_enter(ZLINK_DOMAIN_NONE), ZLINK_DOMAIN_INFRASTRUCTURE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ic10_a_turn_is_application_over_its_suspensions),
        cmocka_unit_test(test_ic10_a_continuation_is_application),
        cmocka_unit_test(test_ic10_a_worker_without_a_turn_is_infrastructure),
        cmocka_unit_test(test_ic10_the_mark_and_what_it_forbids),
    };

    return zlink_test_main(tests);
}
