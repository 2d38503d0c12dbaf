/*
 * PerActor and Entry: Actors run beside each other; who runs on what gate otherwise.
 */
#include "spot_fixture.h"

#include <sched.h>

static const zlink_spot_execution_kind_t user = ZLINK_EXECUTION_USER;

/* EX-2: long handlers of two Actors overlap, and the Spot's own handler with them. */
static void test_ex2_actors_overlap(void **state)
{
    const struct {
        zlink_spot_execution_kind_t kind;
        zlink_user_spot_execution_mode_t mode;
    } wirings[] = {{ZLINK_EXECUTION_USER, ZLINK_PER_ACTOR}, {ZLINK_EXECUTION_ENTRY, ZLINK_SPOT_WIDE}};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        desk_t desk;
        job_t jobs[3];
        desk_open(&desk, 3, wirings[i].kind, wirings[i].mode);
        to_actor(job_standing(&jobs[0], &desk, 'a'), "one");
        to_actor(job_standing(&jobs[1], &desk, 'b'), "two");
        to_spot(job_standing(&jobs[2], &desk, 's'));
        for (unsigned j = 0; j < 3; j++)
            zlink_test_wait(&jobs[j].started); /* all of them, before one has ended */
        for (unsigned j = 0; j < 3; j++)
            sem_post(&jobs[j].let_go);
        desk_close(&desk);
    }
}

/* EX-4: here, too, one Actor's work runs in order and alone. */
static void test_ex4_one_actors_work_runs_in_order_per_actor(void **state)
{
    desk_t desk;
    job_t jobs[10];

    (void)state;
    desk_open(&desk, 3, user, ZLINK_PER_ACTOR);
    to_actor(job_standing(&jobs[0], &desk, 'a'), "one");
    zlink_test_wait(&jobs[0].started);
    for (unsigned i = 1; i < 10; i++) {
        to_actor(job_make(&jobs[i], &desk, (char)('a' + i)), "one");
        assert_ptr_equal(jobs[i].turn.queue, jobs[0].turn.queue);
    }
    sem_post(&jobs[0].let_go);
    zlink_test_wait(&jobs[9].ended);
    assert_string_equal(desk.notes, "abcdefghij");
    desk_close(&desk);
}

/* EX-5: timers of different names overlap; those of one name run in order. */
static void test_ex5_timer_names_have_queues_of_their_own(void **state)
{
    desk_t desk;
    job_t tick;
    job_t beat;
    job_t again[3];

    (void)state;
    desk_open(&desk, 2, user, ZLINK_PER_ACTOR);
    to_timer(job_standing(&tick, &desk, 't'), "tick");
    zlink_test_wait(&tick.started);
    for (unsigned i = 0; i < 3; i++)
        to_timer(job_make(&again[i], &desk, (char)('x' + i)), "tick");
    to_timer(job_make(&beat, &desk, 'b'), "beat");
    zlink_test_wait(&beat.ended);
    assert_int_equal(sem_trywait(&again[0].started), -1);
    sem_post(&tick.let_go);
    zlink_test_wait(&again[2].ended);
    assert_string_equal(desk.notes, "tbxyz");
    desk_close(&desk);
}

/* EX-25: a timer's callback that waits keeps the next one of its name out, and no other. */
static void test_ex25_a_waiting_timer_does_not_overlap_itself(void **state)
{
    desk_t desk;
    job_t tick;
    job_t again;
    job_t beat;

    (void)state;
    desk_open(&desk, 2, user, ZLINK_PER_ACTOR);
    to_timer(job_waiting(&tick, &desk, 't', ZLINK_WAIT_ASYNC), "tick");
    zlink_test_wait(&tick.started);
    to_timer(job_make(&again, &desk, 'a'), "tick");
    to_timer(job_make(&beat, &desk, 'b'), "beat");
    zlink_test_wait(&beat.ended);
    zlink_wait_complete(&tick.wait, ZLINK_OK);
    zlink_test_wait(&again.ended);
    assert_string_equal(desk.notes, "tbTa");
    desk_close(&desk);
}

/* EX-26: an async wait blocks its own Actor and nobody else, on one worker. */
static void test_ex26_async_blocks_only_its_actor(void **state)
{
    desk_t desk;
    job_t waiting;
    job_t behind;
    job_t others[3];

    (void)state;
    desk_open(&desk, 1, user, ZLINK_PER_ACTOR);
    for (int then = 0; then <= 1; then++) {
        desk.count = 0;
        memset(desk.notes, 0, sizeof(desk.notes));
        job_waiting(&waiting, &desk, 'w', ZLINK_WAIT_ASYNC)->then = then;
        to_actor(&waiting, "one");
        zlink_test_wait(&waiting.started);
        to_actor(job_make(&behind, &desk, 'b'), "one");
        to_actor(job_make(&others[0], &desk, 'o'), "two");
        zlink_test_wait(&others[0].ended);
        to_spot(job_make(&others[1], &desk, 's'));
        zlink_test_wait(&others[1].ended);
        to_timer(job_make(&others[2], &desk, 't'), "tick");
        zlink_test_wait(&others[2].ended);
        zlink_wait_complete(&waiting.wait, ZLINK_OK);
        zlink_test_wait(&behind.ended);
        assert_string_equal(desk.notes, "wostWb");
    }
    desk_close(&desk);
}

/* EX-23: no yield in PerActor and Entry Spots, their Actors and timers, nor in any lifecycle turn; it is refused before
 * anything is reserved. */
static void test_ex23_no_yield_where_gates_are_not_shared(void **state)
{
    desk_t desk;
    job_t jobs[4];
    zlink_worker_pool_stats_t stats;

    (void)state;
    for (int kind = ZLINK_EXECUTION_INSTANCE; kind <= ZLINK_EXECUTION_USER; kind++) {
        desk_open(&desk, 1, (zlink_spot_execution_kind_t)kind, ZLINK_PER_ACTOR);
        for (unsigned i = 0; i < 4; i++)
            job_waiting(&jobs[i], &desk, 'j', ZLINK_WAIT_YIELD)->then = i % 2;
        bool yields = kind == ZLINK_EXECUTION_INSTANCE;
        to_lifecycle(&jobs[0]);
        zlink_test_wait(&jobs[0].ended);
        assert_int_equal(jobs[0].prepared, ZLINK_INVALID_OPERATION);
        if (!yields) {
            to_spot(&jobs[1]);
            to_actor(&jobs[2], "one");
            to_timer(&jobs[3], "tick");
            for (unsigned i = 1; i < 4; i++) {
                zlink_test_wait(&jobs[i].ended);
                assert_int_equal(jobs[i].prepared, ZLINK_INVALID_OPERATION);
            }
        }
        zlink_worker_pool_stats(desk.fixture.pool, &stats);
        assert_int_equal(stats.suspensions, 0);
        desk_close(&desk);
    }
}

/* An Entry Spot's timers share its own gate. */
static void test_an_entry_spots_timers_share_its_gate(void **state)
{
    desk_t desk;
    job_t spot;
    job_t tick;

    (void)state;
    desk_open(&desk, 2, ZLINK_EXECUTION_ENTRY, ZLINK_SPOT_WIDE);
    to_spot(job_standing(&spot, &desk, 's'));
    zlink_test_wait(&spot.started);
    to_timer(job_make(&tick, &desk, 't'), "tick");
    assert_ptr_equal(tick.turn.queue, spot.turn.queue);
    assert_int_equal(sem_trywait(&tick.started), -1);
    sem_post(&spot.let_go);
    zlink_test_wait(&tick.ended);
    desk_close(&desk);
}

/* An Instance Spot has no Actors. */
static void test_an_instance_spot_has_no_actors(void **state)
{
    desk_t desk;
    job_t job;
    zlink_actor_serial_executor_t actor;

    (void)state;
    desk_open(&desk, 1, ZLINK_EXECUTION_INSTANCE, ZLINK_SPOT_WIDE);
    job_make(&job, &desk, 'j');
    assert_int_equal(zlink_spot_serial_executor_execute_actor(&desk.spot, "one", &job.turn, 0),
                     ZLINK_INVALID_OPERATION);
    assert_int_equal(zlink_actor_serial_executor_init(&actor, desk.fixture.pool, &desk.fixture.policy, "one"),
                     ZLINK_OK);
    assert_int_equal(zlink_spot_serial_executor_add_actor(&desk.spot, &actor), ZLINK_INVALID_OPERATION);
    desk_close(&desk);
}

/* A name that was removed ends, and makes room for others. */
static void test_a_removed_timer_makes_room(void **state)
{
    desk_t desk;
    job_t standing;
    job_t job;

    (void)state;
    desk_open(&desk, 1, user, ZLINK_PER_ACTOR);
    assert_int_equal(zlink_spot_serial_executor_set_limits(&desk.spot, 1, 0), ZLINK_INVALID_OPERATION);
    assert_int_equal(zlink_spot_serial_executor_set_limits(&desk.spot, 1048577, 1), ZLINK_INVALID_OPERATION);
    assert_int_equal(zlink_spot_serial_executor_set_limits(&desk.spot, 1, 1), ZLINK_OK);
    to_timer(job_standing(&standing, &desk, 's'), "tick");
    zlink_test_wait(&standing.started);
    job_make(&job, &desk, 'j');
    assert_int_equal(zlink_spot_serial_executor_execute_timer(&desk.spot, "beat", &job.turn), ZLINK_CAPACITY_EXCEEDED);
    zlink_spot_serial_executor_remove_timer(&desk.spot, "tick");
    zlink_spot_serial_executor_remove_timer(&desk.spot, "beat");
    assert_int_equal(zlink_spot_serial_executor_execute_timer(&desk.spot, "tick", &job.turn), ZLINK_CAPACITY_EXCEEDED);
    assert_int_equal(zlink_spot_serial_executor_execute_timer(&desk.spot, "", &job.turn), ZLINK_INVALID_OPERATION);
    sem_post(&standing.let_go);
    zlink_test_wait(&standing.ended);
    while (zlink_spot_serial_executor_execute_timer(&desk.spot, "beat", &job.turn) != ZLINK_OK)
        sched_yield();
    zlink_test_wait(&job.ended);
    desk_close(&desk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex2_actors_overlap),
        cmocka_unit_test(test_ex4_one_actors_work_runs_in_order_per_actor),
        cmocka_unit_test(test_ex5_timer_names_have_queues_of_their_own),
        cmocka_unit_test(test_ex25_a_waiting_timer_does_not_overlap_itself),
        cmocka_unit_test(test_ex26_async_blocks_only_its_actor),
        cmocka_unit_test(test_ex23_no_yield_where_gates_are_not_shared),
        cmocka_unit_test(test_an_entry_spots_timers_share_its_gate),
        cmocka_unit_test(test_an_instance_spot_has_no_actors),
        cmocka_unit_test(test_a_removed_timer_makes_room),
    };

    return zlink_test_main(tests);
}
