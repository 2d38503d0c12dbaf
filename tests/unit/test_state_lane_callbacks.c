/*
 * The state lane: what runs off it, and what a thread on it may not do.
 */
#include "lane_fixture.h"

#include "base/domain.h"
#include "exec/channel_serial_executor.h"

/* ---- off the lane ---- */

/* Something that takes long: a first turn leaves a mark, it is started, and whenever it ends a turn settles the mark.
 */
typedef struct operation {
    zlink_state_lane_turn_t turn;
    component_t *component;
    component_t *other;
    enum { NOTHING, PENDING, SETTLED } mark; /* the component's state */
    bool prefix_ran;
    sem_t may_end;
    sem_t ended;
    pthread_t thread;
} operation_t;

static void settle(void *context)
{
    operation_t *operation = context;

    zlink_check(operation->mark == PENDING);
    operation->mark = SETTLED;
}

static void *operation_main(void *argument)
{
    operation_t *operation = argument;

    zlink_test_wait(&operation->may_end);
    zlink_check(zlink_state_lane_run(&operation->component->lane, settle, operation) == ZLINK_OK);
    sem_post(&operation->ended);
    return NULL;
}

static void look_at_mark(void *context)
{
    operation_t *operation = context;

    zlink_check(operation->mark == PENDING); /* committed before the operation was started */
    operation->prefix_ran = true;
}

/* The operation's synchronous part asks the component, as anybody may. */
static void start_operation(zlink_state_lane_turn_t *turn)
{
    operation_t *operation = ZLINK_CONTAINER_OF(turn, operation_t, turn);
    zlink_state_lane_t *lane = &operation->component->lane;

    zlink_check(!zlink_state_lane_is_on_lane(lane));
    zlink_check(!operation->other || !zlink_state_lane_is_on_lane(&operation->other->lane));
    zlink_check(zlink_state_lane_throw_if_reentrant(lane) == ZLINK_OK);
    zlink_check(zlink_state_lane_run(lane, look_at_mark, operation) == ZLINK_OK);
    zlink_check(pthread_create(&operation->thread, NULL, operation_main, operation) == 0);
}

static void commit(zlink_state_lane_turn_t *turn)
{
    operation_t *operation = ZLINK_CONTAINER_OF(turn, operation_t, turn);

    zlink_check(zlink_state_lane_is_on_lane(&operation->component->lane));
    operation->mark = PENDING;
}

static void make_operation(operation_t *operation, component_t *component, component_t *other)
{
    memset(operation, 0, sizeof(*operation));
    operation->turn.run = commit;
    operation->turn.completed = start_operation;
    operation->component = component;
    operation->other = other;
    sem_init(&operation->may_end, 0, 0);
    sem_init(&operation->ended, 0, 0);
}

static void end_operation(operation_t *operation)
{
    assert_true(operation->prefix_ran);
    assert_int_equal(operation->mark, PENDING);
    sem_post(&operation->may_end);
    zlink_test_wait(&operation->ended);
    pthread_join(operation->thread, NULL);
    assert_int_equal(operation->mark, SETTLED);
}

/* EX-85: an operation that a turn has caused runs off the lane, its synchronous prefix as well: no false reentry. */
static void test_ex85_a_long_operation_is_no_reentry(void **state)
{
    component_t component;
    operation_t operation;

    (void)state;
    component_init(&component);
    make_operation(&operation, &component, NULL);
    assert_int_equal(zlink_state_lane_post(&component.lane, &operation.turn), ZLINK_OK);
    assert_int_equal(zlink_state_lane_run(&component.lane, add_one, &component), ZLINK_OK); /* free meanwhile */
    end_operation(&operation);
}

static void post_operation(void *context)
{
    operation_t *operation = context;

    zlink_check(zlink_state_lane_post(&operation->component->lane, &operation->turn) == ZLINK_OK);
    zlink_check(operation->mark == PENDING && !operation->prefix_ran); /* this turn is not over */
    zlink_check(zlink_state_lane_is_on_lane(&operation->other->lane));
}

/* EX-85: posted from another lane's turn, it starts when that turn is over, too. */
static void test_ex85_a_post_from_another_lane(void **state)
{
    component_t component, other;
    operation_t operation;

    (void)state;
    component_init(&component);
    component_init(&other);
    make_operation(&operation, &component, &other);
    assert_int_equal(zlink_state_lane_run(&other.lane, post_operation, &operation), ZLINK_OK);
    end_operation(&operation);
}

/* EX-86: what a busy lane's holder completes for others runs off the lane and sees what was committed; and what a
 * caller of run registers is there when it returns. */
static void test_ex86_callbacks_run_off_the_lane_and_see_committed_state(void **state)
{
    component_t component;
    visitor_t holder;
    operation_t operation;

    (void)state;
    component_init(&component);
    make_operation(&operation, &component, NULL);
    start_holder(&holder, &component);
    assert_int_equal(zlink_state_lane_post(&component.lane, &operation.turn), ZLINK_OK);
    assert_int_equal(operation.mark, NOTHING);
    let_go_and_join(&holder);
    end_operation(&operation);
    assert_int_equal(zlink_state_lane_run(&component.lane, add_one, &component), ZLINK_OK);
    assert_int_equal(component.value, 1);
}

#define AGAIN 100000

static void add_posted(zlink_state_lane_turn_t *turn)
{
    ZLINK_CONTAINER_OF(turn, posted_t, turn)->component->value++;
}

static void post_again(zlink_state_lane_turn_t *turn)
{
    posted_t *posted = ZLINK_CONTAINER_OF(turn, posted_t, turn);

    if (++posted->number < AGAIN)
        zlink_check(zlink_state_lane_post(&posted->component->lane, turn) == ZLINK_OK);
}

static void *post_many_times(void *argument)
{
    post(argument);
    return NULL;
}

/* EX-86: a turn may be posted again where it has completed, and the stack does not grow with that. */
static void test_ex86_completions_do_not_nest(void **state)
{
    component_t component;
    posted_t posted;
    pthread_attr_t attributes;
    pthread_t thread;

    (void)state;
    component_init(&component);
    make_posted(&posted, &component, 0);
    posted.turn.run = add_posted;
    posted.turn.completed = post_again;
    pthread_attr_init(&attributes);
    assert_int_equal(pthread_attr_setstacksize(&attributes, (size_t)256 << 10), 0);
    assert_int_equal(pthread_create(&thread, &attributes, post_many_times, &posted), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    assert_int_equal(component.value, AGAIN);
}

/* ---- what assumes that it is alone ---- */

static void look_around(void *context)
{
    component_t *components = context;

    zlink_check(zlink_state_lane_is_on_lane(&components[0].lane));
    zlink_check(!zlink_state_lane_is_on_lane(&components[1].lane));
}

/* IC-5: is_on_lane is true in a turn of that lane and nowhere else, so that a place can check what it relies on. */
static void test_ic5_is_on_lane_inside_its_own_turn_only(void **state)
{
    component_t components[2];
    visitor_t holder;

    (void)state;
    component_init(&components[0]);
    component_init(&components[1]);
    assert_false(zlink_state_lane_is_on_lane(&components[0].lane));
    assert_int_equal(zlink_state_lane_run(&components[0].lane, look_around, components), ZLINK_OK);
    assert_false(zlink_state_lane_is_on_lane(&components[0].lane));
    start_holder(&holder, &components[0]);
    assert_false(zlink_state_lane_is_on_lane(&components[0].lane)); /* another thread is */
    let_go_and_join(&holder);
}

/* ---- on a worker ---- */

typedef struct handler {
    zlink_turn_t turn;
    zlink_wait_t wait;
    component_t component;
    posted_t posted;
    sem_t submitted;
    sem_t ended;
    zlink_status_t status;
} handler_t;

static void try_to_wait(handler_t *handler)
{
    zlink_check(zlink_turn_current() == NULL);
    zlink_check(zlink_domain_current() == ZLINK_DOMAIN_INFRASTRUCTURE);
    zlink_check(zlink_turn_prepare_wait(&handler->turn, &handler->wait, ZLINK_WAIT_ASYNC, NULL, NULL) ==
                ZLINK_INVALID_OPERATION);
}

static void wait_on_lane(void *context)
{
    handler_t *handler = context;

    try_to_wait(handler);
    handler->component.value++;
}

static void wait_in_completed(zlink_state_lane_turn_t *turn)
{
    handler_t *handler = ZLINK_CONTAINER_OF(ZLINK_CONTAINER_OF(turn, posted_t, turn), handler_t, posted);

    try_to_wait(handler);
    handler->component.value++;
}

static zlink_status_t handle(zlink_turn_t *turn)
{
    handler_t *handler = ZLINK_CONTAINER_OF(turn, handler_t, turn);
    zlink_state_lane_t *lane = &handler->component.lane;

    zlink_check(zlink_state_lane_run(lane, wait_on_lane, handler) == ZLINK_OK);
    post(&handler->posted);
    zlink_check(handler->component.value == 2);
    zlink_check(zlink_turn_current() == turn && zlink_domain_current() == ZLINK_DOMAIN_APPLICATION);
    zlink_check(zlink_turn_prepare_wait(turn, &handler->wait, ZLINK_WAIT_ASYNC, NULL, NULL) == ZLINK_OK);
    sem_post(&handler->submitted);
    return zlink_turn_wait(turn, &handler->wait);
}

static void handler_ended(zlink_turn_t *turn, zlink_status_t status)
{
    handler_t *handler = ZLINK_CONTAINER_OF(turn, handler_t, turn);

    handler->status = status;
    sem_post(&handler->ended);
}

static sem_t executor_gone;

static void executor_closed(zlink_channel_serial_executor_t *executor)
{
    (void)executor;
    sem_post(&executor_gone);
}

/* A handler may enter a lane; what runs there is not the handler and may not wait in its name. */
static void test_ic5_nothing_on_a_lane_waits(void **state)
{
    zlink_exec_fixture_t fixture;
    zlink_channel_serial_executor_t executor;
    handler_t handler;

    (void)state;
    memset(&handler, 0, sizeof(handler));
    component_init(&handler.component);
    make_posted(&handler.posted, &handler.component, 1);
    handler.posted.turn.completed = wait_in_completed;
    sem_init(&handler.submitted, 0, 0);
    sem_init(&handler.ended, 0, 0);
    sem_init(&executor_gone, 0, 0);
    zlink_exec_fixture_open(&fixture, 1, 0);
    zlink_turn_init(&handler.turn, handle, handler_ended);
    assert_int_equal(zlink_channel_serial_executor_init(&executor, fixture.pool, &fixture.policy), ZLINK_OK);
    assert_int_equal(zlink_channel_serial_executor_execute_channel(&executor, &handler.turn, 0), ZLINK_OK);
    zlink_test_wait(&handler.submitted);
    zlink_wait_complete(&handler.wait, ZLINK_OK);
    zlink_test_wait(&handler.ended);
    assert_int_equal(handler.status, ZLINK_OK);
    zlink_channel_serial_executor_close(&executor, executor_closed);
    zlink_test_wait(&executor_gone);
    zlink_exec_fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex85_a_long_operation_is_no_reentry),
        cmocka_unit_test(test_ex85_a_post_from_another_lane),
        cmocka_unit_test(test_ex86_callbacks_run_off_the_lane_and_see_committed_state),
        cmocka_unit_test(test_ex86_completions_do_not_nest),
        cmocka_unit_test(test_ic5_is_on_lane_inside_its_own_turn_only),
        cmocka_unit_test(test_ic5_nothing_on_a_lane_waits),
    };

    return zlink_test_main(tests);
}
