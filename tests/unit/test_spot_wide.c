/*
 * SpotWide: every Actor has a queue, and all of them share one gate.
 */
#include "spot_fixture.h"

#include "exec/lane_word.h"

static const zlink_spot_execution_kind_t user = ZLINK_EXECUTION_USER;

/* EX-3: the handler of a second Actor starts only after that of the first has ended, on however many workers. */
static void test_ex3_two_actors_share_one_gate(void **state)
{
    desk_t desk;
    job_t first;
    job_t second;
    job_t spot;

    (void)state;
    desk_open(&desk, 2, user, ZLINK_SPOT_WIDE);
    to_actor(job_standing(&first, &desk, 'a'), "one");
    zlink_test_wait(&first.started);
    to_actor(job_make(&second, &desk, 'b'), "two");
    to_spot(job_make(&spot, &desk, 'c'));
    assert_int_equal(sem_trywait(&second.started), -1);
    assert_int_equal(desk.spot.queue.authority, first.turn.authority);
    sem_post(&first.let_go);
    zlink_test_wait(&spot.ended);
    assert_string_equal(desk.notes, "abc");
    desk_close(&desk);
}

/* EX-4: what is submitted to one Actor runs in order, through that Actor's queue. */
static void test_ex4_one_actors_work_runs_in_order(void **state)
{
    desk_t desk;
    job_t gate;
    job_t jobs[20];

    (void)state;
    desk_open(&desk, 2, user, ZLINK_SPOT_WIDE);
    to_spot(job_standing(&gate, &desk, 'z'));
    zlink_test_wait(&gate.started);
    for (unsigned i = 0; i < 20; i++)
        to_actor(job_make(&jobs[i], &desk, (char)('a' + i)), "one");
    for (unsigned i = 1; i < 20; i++)
        assert_ptr_equal(jobs[i].turn.queue, jobs[0].turn.queue);
    assert_ptr_not_equal(jobs[0].turn.queue, gate.turn.queue);
    sem_post(&gate.let_go);
    zlink_test_wait(&jobs[19].ended);
    assert_string_equal(desk.notes, "zabcdefghijklmnopqrst");
    desk_close(&desk);
}

/* EX-6: a timer never overlaps a handler, of the Spot or of an Actor; there is no queue for it. */
static void test_ex6_timers_share_the_gate(void **state)
{
    desk_t desk;
    job_t actor;
    job_t tick;
    job_t beat;

    (void)state;
    desk_open(&desk, 2, user, ZLINK_SPOT_WIDE);
    to_actor(job_standing(&actor, &desk, 'a'), "one");
    zlink_test_wait(&actor.started);
    to_timer(job_standing(&tick, &desk, 't'), "tick");
    to_timer(job_make(&beat, &desk, 'b'), "beat");
    assert_ptr_equal(tick.turn.queue, beat.turn.queue);
    assert_int_equal(desk.spot.timers.count, 0);
    assert_int_equal(sem_trywait(&tick.started), -1);
    sem_post(&actor.let_go);
    zlink_test_wait(&tick.started);
    assert_int_equal(sem_trywait(&beat.started), -1);
    sem_post(&tick.let_go);
    zlink_test_wait(&beat.ended);
    assert_string_equal(desk.notes, "atb");
    desk_close(&desk);
}

/* EX-7: one full Actor refuses its own work only. */
static void test_ex7_a_full_actor_refuses_only_its_own_work(void **state)
{
    desk_t desk;
    job_t gate;
    job_t jobs[4];
    job_t more;

    (void)state;
    for (int mode = ZLINK_SPOT_WIDE; mode <= ZLINK_PER_ACTOR; mode++) {
        memset(&desk, 0, sizeof(desk));
        desk_open(&desk, 2, user, (zlink_user_spot_execution_mode_t)mode);
        desk_close_spot(&desk);
        desk.fixture.policy.application_message_capacity = 4;
        desk_open_spot(&desk, user, (zlink_user_spot_execution_mode_t)mode);
        to_actor(job_standing(&gate, &desk, 'g'), "full");
        zlink_test_wait(&gate.started);
        for (unsigned i = 0; i < 3; i++)
            to_actor(job_make(&jobs[i], &desk, (char)('a' + i)), "full");
        job_make(&more, &desk, 'm');
        assert_int_equal(zlink_spot_serial_executor_execute_actor(&desk.spot, "full", &more.turn, 0),
                         ZLINK_CAPACITY_EXCEEDED);
        to_actor(job_make(&jobs[3], &desk, 'x'), "empty");
        to_spot(job_make(&more, &desk, 'y'));
        sem_post(&gate.let_go);
        zlink_test_wait(&jobs[3].ended);
        zlink_test_wait(&jobs[2].ended);
        zlink_test_wait(&more.ended);
        to_actor(job_make(&more, &desk, 'm'), "full");
        zlink_test_wait(&more.ended);
        desk_close(&desk);
    }
}

/* EX-8: of equally many items to one Actor, large payloads are refused first: its own queue reserves them. */
static void test_ex8_large_payloads_are_refused_first(void **state)
{
    desk_t desk;
    job_t gate;
    job_t small[5];
    job_t large[5];
    unsigned taken[2] = {0, 0};

    (void)state;
    desk_open(&desk, 1, user, ZLINK_SPOT_WIDE);
    desk_close_spot(&desk);
    desk.fixture.policy.application_byte_capacity = 4096;
    desk_open_spot(&desk, user, ZLINK_SPOT_WIDE);
    to_spot(job_standing(&gate, &desk, 'g'));
    zlink_test_wait(&gate.started);
    for (unsigned i = 0; i < 5; i++) {
        job_make(&small[i], &desk, 's');
        job_make(&large[i], &desk, 'l');
        taken[0] += zlink_spot_serial_executor_execute_actor(&desk.spot, "small", &small[i].turn, 10) == ZLINK_OK;
        taken[1] += zlink_spot_serial_executor_execute_actor(&desk.spot, "large", &large[i].turn, 1500) == ZLINK_OK;
    }
    assert_int_equal(taken[0], 5);
    assert_int_equal(taken[1], 2);
    sem_post(&gate.let_go);
    desk_close(&desk);
}

static uint64_t reserved(const zlink_serial_execution_queue_t *queue)
{
    return zlink_lane_word_counters(&queue->application) & ZLINK_COUNTER_BYTES;
}

static uint64_t items(const zlink_serial_execution_queue_t *queue)
{
    return zlink_lane_word_items(zlink_lane_word_counters(&queue->application));
}

/* IC-2: whatever Actors have queued, the Spot's queue has one turn of each, of one fixed cost, and no payload. */
static void test_ic2_the_spot_queue_reserves_no_payload(void **state)
{
    desk_t desk;
    job_t gate;
    job_t jobs[9];

    (void)state;
    desk_open(&desk, 1, user, ZLINK_SPOT_WIDE);
    to_spot(job_standing(&gate, &desk, 'g'));
    zlink_test_wait(&gate.started);
    uint64_t before = reserved(&desk.spot.queue);
    for (unsigned i = 0; i < 9; i++) {
        const char *actor_ids[] = {"one", "two", "three"};
        job_make(&jobs[i], &desk, 'j');
        assert_int_equal(zlink_spot_serial_executor_execute_actor(&desk.spot, actor_ids[i % 3], &jobs[i].turn, 100000),
                         ZLINK_OK);
        assert_int_equal(reserved(jobs[i].turn.queue), (i / 3 + 1) * 100256);
    }
    uint64_t turns = items(&desk.spot.queue) - 1;
    assert_int_equal(turns, 3);
    assert_int_equal(reserved(&desk.spot.queue) - before, 3 * 256);
    sem_post(&gate.let_go);
    desk_close(&desk);
}

/* EX-9: so the size of the payloads decides nothing about when the Spot's queue is full, their number does; and an
 * Actor's turn finds its place even where it is full. */
static void test_ex9_the_spot_queue_fills_by_number(void **state)
{
    static const char *const actor_ids[] = {"one", "two", "three"};
    desk_t desk;

    (void)state;
    desk_open(&desk, 1, user, ZLINK_SPOT_WIDE);
    for (int large = 0; large <= 1; large++) {
        job_t gate;
        job_t jobs[3];
        job_t own;
        job_t more;
        desk_close_spot(&desk);
        desk.fixture.policy.application_message_capacity = 4;
        desk.fixture.policy.application_byte_capacity = 1500000;
        desk_open_spot(&desk, user, ZLINK_SPOT_WIDE);
        to_spot(job_standing(&gate, &desk, 'g'));
        zlink_test_wait(&gate.started);
        for (unsigned i = 0; i < 3; i++) {
            if (i == 2)
                to_spot(job_make(&own, &desk, 's')); /* the fourth, and so the last */
            job_make(&jobs[i], &desk, (char)('a' + i));
            assert_int_equal(
                zlink_spot_serial_executor_execute_actor(&desk.spot, actor_ids[i], &jobs[i].turn, large ? 1000000 : 1),
                ZLINK_OK);
        }
        job_make(&more, &desk, 'm');
        assert_int_equal(zlink_spot_serial_executor_execute_spot(&desk.spot, &more.turn, 0), ZLINK_CAPACITY_EXCEEDED);
        sem_post(&gate.let_go);
        zlink_test_wait(&jobs[2].ended);
        assert_string_equal(desk.notes, "gabsc");
    }
    desk_close(&desk);
}

#define LONG_LINE 100u

/* What the Spot's lane holds while the Actors' turns go on; a number that is read on the turn. */
static void count_records(job_t *job)
{
    uint64_t *most = job->context;
    uint64_t now = items(&job->desk->spot.queue);

    if (now > *most)
        *most = now;
}

/* IC-2: an Actor with more work goes to the back of its Spot's lane and takes no second place there, however many turns
 * follow each other; what comes to the Spot meanwhile has its turn before the next one of either. */
static void test_ic2_a_record_keeps_its_place(void **state)
{
    static job_t jobs[2][LONG_LINE];
    desk_t desk;
    job_t gate;
    job_t between;
    uint64_t most = 0;

    (void)state;
    desk_open(&desk, 2, user, ZLINK_SPOT_WIDE);
    to_spot(job_standing(&gate, &desk, 'g'));
    zlink_test_wait(&gate.started);
    for (unsigned i = 0; i < LONG_LINE; i++)
        for (unsigned actor = 0; actor < 2; actor++) {
            job_t *job = job_make(&jobs[actor][i], &desk, actor == 0 ? 'a' : 'b');
            job->before = count_records;
            job->context = &most;
            job->stands = actor == 0 && i == LONG_LINE / 2;
            to_actor(job, actor == 0 ? "one" : "two");
        }
    sem_post(&gate.let_go);
    zlink_test_wait(&jobs[0][LONG_LINE / 2].started);
    to_spot(job_make(&between, &desk, 's'));
    sem_post(&jobs[0][LONG_LINE / 2].let_go);
    zlink_test_wait(&jobs[1][LONG_LINE - 1].ended);
    desk_close_spot(&desk);
    assert_int_equal(desk.notes[0], 'g');
    unsigned at = 1;
    for (unsigned i = 0; i < LONG_LINE; i++)
        for (unsigned actor = 0; actor < 2; actor++) {
            assert_int_equal(desk.notes[at++], actor == 0 ? 'a' : 'b');
            if (actor == 1 && i == LONG_LINE / 2)
                assert_int_equal(desk.notes[at++], 's');
        }
    assert_in_range(most, 2, 4); /* both records, the handler at the gate and the one between */
    assert_int_equal(items(&desk.spot.queue), 0);
    zlink_exec_fixture_close(&desk.fixture);
}

/* EX-22: a yielded Actor's next record waits; other Actors, the Spot and timers go on; it resumes at the back. */
static void test_ex22_a_yielded_actors_next_record_waits(void **state)
{
    desk_t desk;
    job_t waiting;
    job_t next;
    job_t gate;
    job_t others[3];

    (void)state;
    desk_open(&desk, 2, user, ZLINK_SPOT_WIDE);
    for (int then = 0; then <= 1; then++) {
        desk.count = 0;
        memset(desk.notes, 0, sizeof(desk.notes));
        job_waiting(&waiting, &desk, 'w', ZLINK_WAIT_YIELD)->then = then;
        to_actor(&waiting, "one");
        zlink_test_wait(&waiting.started);
        to_actor(job_make(&next, &desk, 'n'), "one");
        to_actor(job_make(&others[0], &desk, 'a'), "two");
        to_spot(job_make(&others[1], &desk, 's'));
        to_timer(job_make(&others[2], &desk, 't'), "tick");
        for (unsigned i = 0; i < 3; i++)
            zlink_test_wait(&others[i].ended);
        assert_int_equal(sem_trywait(&next.started), -1);
        to_spot(job_standing(&gate, &desk, 'g'));
        zlink_test_wait(&gate.started);
        to_spot(job_make(&others[0], &desk, 'b')); /* stands before the resume record */
        zlink_wait_complete(&waiting.wait, ZLINK_OK);
        sem_post(&gate.let_go);
        zlink_test_wait(&next.ended);
        assert_int_equal(waiting.got, ZLINK_OK);
        assert_string_equal(desk.notes, "wastgbWn");
    }
    desk_close(&desk);
}

/* EX-18: an Actor that waits with async keeps the gate of the whole Spot. */
static void test_ex18_an_actors_async_wait_holds_the_spot(void **state)
{
    desk_t desk;
    job_t waiting;
    job_t probe;
    job_t tick;

    (void)state;
    desk_open(&desk, 2, user, ZLINK_SPOT_WIDE);
    for (int then = 0; then <= 1; then++) {
        desk.count = 0;
        memset(desk.notes, 0, sizeof(desk.notes));
        job_waiting(&waiting, &desk, 'w', ZLINK_WAIT_ASYNC)->then = then;
        to_actor(&waiting, "one");
        zlink_test_wait(&waiting.started);
        to_spot(job_make(&probe, &desk, 'p'));
        to_timer(job_make(&tick, &desk, 't'), "tick");
        zlink_wait_complete(&waiting.wait, ZLINK_NOT_FOUND);
        zlink_test_wait(&tick.ended);
        assert_int_equal(waiting.got, ZLINK_NOT_FOUND);
        assert_string_equal(desk.notes, "wWpt");
    }
    desk_close(&desk);
}

/* EX-15: what belongs to a turn's end runs before the next item of its gate, and once. */
static _Atomic unsigned after_count;
static _Atomic bool next_has_started;

static void told(zlink_execution_completion_t *completion, zlink_status_t status)
{
    (void)completion;
    zlink_check(status == ZLINK_OK && !zlink_turn_current());
    zlink_check(!atomic_load(&next_has_started));
    atomic_fetch_add(&after_count, 1);
}

static void next_starts(job_t *job)
{
    (void)job;
    zlink_check(atomic_load(&after_count) == 1);
    atomic_store(&next_has_started, true);
}

static void test_ex15_the_end_of_a_turn_does_not_overlap_the_next(void **state)
{
    desk_t desk;
    job_t first;
    job_t next;
    zlink_execution_completion_t completion;

    (void)state;
    desk_open(&desk, 2, user, ZLINK_SPOT_WIDE);
    for (unsigned round = 0; round < 100; round++) {
        atomic_store(&after_count, 0);
        atomic_store(&next_has_started, false);
        desk.count = 0;
        job_standing(&first, &desk, 'f');
        zlink_execution_completion_init(&completion, told);
        zlink_turn_complete_with(&first.turn, &completion);
        to_actor(&first, "one");
        zlink_test_wait(&first.started);
        job_make(&next, &desk, 'n')->before = next_starts;
        to_actor(&next, round % 2 ? "one" : "two");
        sem_post(&first.let_go);
        zlink_test_wait(&next.ended);
        assert_int_equal(atomic_load(&after_count), 1);
    }
    desk_close(&desk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex3_two_actors_share_one_gate),
        cmocka_unit_test(test_ex4_one_actors_work_runs_in_order),
        cmocka_unit_test(test_ex6_timers_share_the_gate),
        cmocka_unit_test(test_ex7_a_full_actor_refuses_only_its_own_work),
        cmocka_unit_test(test_ex8_large_payloads_are_refused_first),
        cmocka_unit_test(test_ic2_the_spot_queue_reserves_no_payload),
        cmocka_unit_test(test_ic2_a_record_keeps_its_place),
        cmocka_unit_test(test_ex9_the_spot_queue_fills_by_number),
        cmocka_unit_test(test_ex22_a_yielded_actors_next_record_waits),
        cmocka_unit_test(test_ex18_an_actors_async_wait_holds_the_spot),
        cmocka_unit_test(test_ex15_the_end_of_a_turn_does_not_overlap_the_next),
    };

    return zlink_test_main(tests);
}
