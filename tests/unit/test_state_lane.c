/*
 * The state lane: one turn at a time in the order of arrival, long lines, its end.
 */
#include "lane_fixture.h"

#include "base/memory.h"

#define BURST 64 /* as many turns of others as one holder runs in a row */

/* ---- order and exclusion ---- */

static void enter_again(void *context)
{
    component_t *component = context;
    component_t other;

    component_init(&other);
    note(component, 1);
    zlink_check(zlink_state_lane_throw_if_reentrant(&component->lane) == ZLINK_INVALID_OPERATION);
    zlink_check(zlink_state_lane_run(&component->lane, add_one, component) == ZLINK_INVALID_OPERATION);
    /* Another lane, although it is free: the answer must not hang on who came first. */
    zlink_check(zlink_state_lane_throw_if_reentrant(&other.lane) == ZLINK_INVALID_OPERATION);
    zlink_check(zlink_state_lane_run(&other.lane, add_one, &other) == ZLINK_INVALID_OPERATION);
    zlink_check(component->value == 0 && other.value == 0);
}

/* EX-83: entering a lane from a turn of it is an error where the call stands, and does nothing. */
static void test_ex83_reentry_is_an_error_at_the_call_site(void **state)
{
    component_t component;

    (void)state;
    component_init(&component);
    assert_int_equal(zlink_state_lane_throw_if_reentrant(&component.lane), ZLINK_OK);
    assert_int_equal(zlink_state_lane_run(&component.lane, enter_again, &component), ZLINK_OK);
    assert_int_equal(component.count, 1);
    assert_int_equal(zlink_state_lane_run(&component.lane, add_one, &component), ZLINK_OK);
    assert_int_equal(component.value, 1);
}

#define STORM_THREADS 4
#define STORM_ROUNDS  4000

typedef struct storm_thread {
    component_t *component;
    pthread_t thread;
    long sequence; /* under the lane: the last of this thread's turns that ran */
    _Atomic long completed;
    int index;
} storm_thread_t;

typedef struct storm_turn {
    zlink_state_lane_turn_t turn;
    storm_thread_t *from;
    long sequence;
} storm_turn_t;

static _Atomic int inside;

static void count_in_order(storm_thread_t *from, long sequence)
{
    zlink_check(atomic_fetch_add(&inside, 1) == 0);
    zlink_check(from->sequence == sequence - 1);
    from->sequence = sequence;
    from->component->value++;
    atomic_fetch_sub(&inside, 1);
}

static void storm_run(zlink_state_lane_turn_t *turn)
{
    storm_turn_t *storm = ZLINK_CONTAINER_OF(turn, storm_turn_t, turn);
    count_in_order(storm->from, storm->sequence);
}

static void storm_completed(zlink_state_lane_turn_t *turn)
{
    storm_turn_t *storm = ZLINK_CONTAINER_OF(turn, storm_turn_t, turn);

    zlink_check(!zlink_state_lane_is_on_lane(&storm->from->component->lane));
    atomic_fetch_add(&storm->from->completed, 1);
    zlink_free(storm);
}

static void storm_body(void *context)
{
    storm_turn_t *storm = context;
    count_in_order(storm->from, storm->sequence);
}

/* Waited-for turns and bursts of posted ones, so that every way through the lane is taken. */
static void *storm_main(void *argument)
{
    storm_thread_t *thread = argument;

    for (long sequence = 1; sequence <= STORM_ROUNDS; sequence++) {
        if ((sequence / 100 + thread->index) % 2) {
            storm_turn_t *storm = zlink_malloc(sizeof(*storm));
            zlink_check(storm != NULL);
            *storm = (storm_turn_t){{NULL, storm_run, storm_completed}, thread, sequence};
            zlink_check(zlink_state_lane_post(&thread->component->lane, &storm->turn) == ZLINK_OK);
        } else {
            storm_turn_t storm = {.from = thread, .sequence = sequence};
            zlink_check(zlink_state_lane_run(&thread->component->lane, storm_body, &storm) == ZLINK_OK);
            zlink_check(thread->sequence == sequence); /* it has run, and so has all that this thread posted before */
            atomic_fetch_add(&thread->completed, 1);
        }
    }
    return NULL;
}

/* EX-83: submitters at the same time lose no update, never meet, and each one's turns run in its order. */
static void test_ex83_no_update_is_lost(void **state)
{
    component_t component;
    storm_thread_t threads[STORM_THREADS];

    (void)state;
    component_init(&component);
    for (int i = 0; i < STORM_THREADS; i++) {
        memset(&threads[i], 0, sizeof(threads[i]));
        threads[i].component = &component;
        threads[i].index = i;
        assert_int_equal(pthread_create(&threads[i].thread, NULL, storm_main, &threads[i]), 0);
    }
    for (int i = 0; i < STORM_THREADS; i++)
        pthread_join(threads[i].thread, NULL);
    assert_int_equal(component.value, STORM_THREADS * STORM_ROUNDS);
    for (int i = 0; i < STORM_THREADS; i++)
        assert_int_equal(atomic_load(&threads[i].completed), STORM_ROUNDS);
    assert_int_equal(atomic_load(&component.lane.word), 0);
}

/* EX-83: one line for posted turns and for those that are waited for. */
static void test_ex83_turns_run_in_the_order_of_arrival(void **state)
{
    component_t component;
    visitor_t holder, second, fourth;
    posted_t first, third, fifth;
    const int expected[] = {0, 1, 2, 3, 4, 5};

    (void)state;
    component_init(&component);
    make_posted(&first, &component, 1);
    make_posted(&third, &component, 3);
    make_posted(&fifth, &component, 5);
    start_holder(&holder, &component);
    post(&first);
    start_in_line(&second, &component, 2);
    post(&third);
    start_in_line(&fourth, &component, 4);
    post(&fifth);
    assert_int_equal(component.count, 1); /* nothing cuts in */
    let_go_and_join(&holder);
    join(&second);
    join(&fourth);
    assert_int_equal(component.count, 6);
    assert_memory_equal(component.notes, expected, sizeof(expected));
    assert_true(pthread_equal(first.ran_on, holder.thread) && pthread_equal(second.ran_on, holder.thread));
}

static void post_within(void *context)
{
    posted_t *posted = context;

    note(posted->component, 1);
    post(posted);
    note(posted->component, 2);
}

/* A post from the lane's own turn neither waits nor cuts in: it is the next turn. */
static void test_a_post_from_its_own_turn_comes_next(void **state)
{
    component_t component;
    posted_t posted;
    const int expected[] = {1, 2, 3};

    (void)state;
    component_init(&component);
    make_posted(&posted, &component, 3);
    assert_int_equal(zlink_state_lane_run(&component.lane, post_within, &posted), ZLINK_OK);
    assert_int_equal(component.count, 3);
    assert_memory_equal(component.notes, expected, sizeof(expected));
    assert_int_equal(atomic_load(&component.lane.word), 0);
}

/* ---- a long line ---- */

static void fill_line(posted_t *line, int count, component_t *component, int first_number)
{
    for (int i = 0; i < count; i++) {
        make_posted(&line[i], component, first_number + i);
        post(&line[i]);
    }
}

/* Who has run the turns of others for long enough hands the lane to a caller that waits. */
static void test_a_waiting_caller_takes_the_lane_over(void **state)
{
    component_t component;
    visitor_t holder, heir;
    posted_t before[BURST], after[3];

    (void)state;
    component_init(&component);
    start_holder(&holder, &component);
    fill_line(before, BURST, &component, 1);
    start_in_line(&heir, &component, 1000);
    fill_line(after, 3, &component, 2000);
    let_go_and_join(&holder);
    join(&heir);
    assert_int_equal(component.count, 1 + BURST + 1 + 3);
    for (int i = 0; i < BURST; i++)
        assert_int_equal(component.notes[1 + i], 1 + i);
    assert_int_equal(component.notes[1 + BURST], 1000);
    assert_int_equal(component.notes[component.count - 1], 2002);
    assert_true(pthread_equal(before[BURST - 1].ran_on, holder.thread));
    assert_true(pthread_equal(heir.ran_on, heir.thread));
    assert_true(pthread_equal(after[2].ran_on, heir.thread));
    assert_int_equal(atomic_load(&component.lane.word), 0);
}

static int seen_by_first;

static void add_note(void *context)
{
    component_t *component = context;
    note(component, -1);
}

static void look_and_enter(zlink_state_lane_turn_t *turn)
{
    component_t *component = ZLINK_CONTAINER_OF(turn, posted_t, turn)->component;

    seen_by_first = component->count; /* nobody else is here */
    zlink_check(zlink_state_lane_run(&component->lane, add_note, component) == ZLINK_OK);
}

/* A long line of posted turns does not hold up what has completed; who enters there stands behind the line. */
static void test_a_long_line_does_not_hold_up_completions(void **state)
{
    component_t component;
    visitor_t holder;
    posted_t line[2 * BURST];

    (void)state;
    component_init(&component);
    start_holder(&holder, &component);
    fill_line(line, 2 * BURST, &component, 1);
    line[0].turn.completed = look_and_enter;
    let_go_and_join(&holder);
    assert_int_equal(seen_by_first, 1 + BURST);
    assert_int_equal(component.count, 1 + 2 * BURST + 1);
    for (int i = 0; i < 2 * BURST; i++)
        assert_int_equal(component.notes[1 + i], 1 + i);
    assert_int_equal(component.notes[component.count - 1], -1);
    assert_int_equal(atomic_load(&component.lane.word), 0);
}

/* ---- the end ---- */

static _Atomic int refused_called;

static void never(zlink_state_lane_turn_t *turn)
{
    (void)turn;
    atomic_fetch_add(&refused_called, 1);
}

/* EX-84: a closed lane is an error for who would wait, a failure for who posts, and the turn stays the poster's. */
static void test_ex84_a_closed_lane_refuses(void **state)
{
    component_t component;
    visitor_t holder;
    posted_t accepted;
    zlink_state_lane_turn_t refused = {NULL, never, never};

    (void)state;
    component_init(&component);
    make_posted(&accepted, &component, 1);
    start_holder(&holder, &component);
    post(&accepted);
    zlink_state_lane_close(&component.lane);
    zlink_state_lane_close(&component.lane);
    assert_int_equal(zlink_state_lane_post(&component.lane, &refused), ZLINK_SHUTTING_DOWN);
    assert_int_equal(zlink_state_lane_run(&component.lane, add_one, &component), ZLINK_SHUTTING_DOWN);
    let_go_and_join(&holder);
    assert_int_equal(component.count, 2); /* what was accepted has run */
    assert_int_equal(zlink_state_lane_post(&component.lane, &refused), ZLINK_SHUTTING_DOWN);
    assert_int_equal(zlink_state_lane_run(&component.lane, add_one, &component), ZLINK_SHUTTING_DOWN);
    assert_int_equal(component.value, 0);
    assert_int_equal(atomic_load(&refused_called), 0);
}

static void close_within(void *context)
{
    posted_t *last = context;
    component_t *component = last->component;

    post(last);
    zlink_state_lane_close(&component->lane);
    zlink_check(zlink_state_lane_post(&component->lane, &last->turn) == ZLINK_SHUTTING_DOWN);
    zlink_check(zlink_state_lane_run(&component->lane, add_one, component) == ZLINK_INVALID_OPERATION);
}

static void free_component(zlink_state_lane_turn_t *turn)
{
    posted_t *posted = ZLINK_CONTAINER_OF(turn, posted_t, turn);

    zlink_check(posted->component->count == 1);
    zlink_free(posted->component);
    zlink_free(posted);
}

/* EX-84: closed by a turn of its own; the last accepted turn gives the component back. */
static void test_ex84_closed_from_its_own_turn(void **state)
{
    component_t *component = zlink_malloc(sizeof(*component));
    posted_t *last = zlink_malloc(sizeof(*last));

    (void)state;
    assert_true(component && last);
    component_init(component);
    make_posted(last, component, 1);
    last->turn.completed = free_component;
    assert_int_equal(zlink_state_lane_run(&component->lane, close_within, last), ZLINK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex83_reentry_is_an_error_at_the_call_site),
        cmocka_unit_test(test_ex83_no_update_is_lost),
        cmocka_unit_test(test_ex83_turns_run_in_the_order_of_arrival),
        cmocka_unit_test(test_a_post_from_its_own_turn_comes_next),
        cmocka_unit_test(test_a_waiting_caller_takes_the_lane_over),
        cmocka_unit_test(test_a_long_line_does_not_hold_up_completions),
        cmocka_unit_test(test_ex84_a_closed_lane_refuses),
        cmocka_unit_test(test_ex84_closed_from_its_own_turn),
    };

    return zlink_test_main(tests);
}
