/*
 * The maps of a Spot's coordinator: how Actors come and go, how they end with their Spot, and what a seal does.
 */
#include "spot_fixture.h"

#include <sched.h>

#include "base/memory.h"
#include "exec/coroutine.h"

static const zlink_spot_execution_kind_t user = ZLINK_EXECUTION_USER;

typedef struct actor {
    zlink_actor_serial_executor_t executor;
    zlink_spot_serial_executor_t *to; /* where a job of it moves it */
    zlink_spot_serial_executor_t *from;
    zlink_status_t status;
    sem_t closed;
} actor_t;

static void actor_open(actor_t *actor, desk_t *desk, const char *id)
{
    memset(actor, 0, sizeof(*actor));
    sem_init(&actor->closed, 0, 0);
    assert_int_equal(zlink_actor_serial_executor_init(&actor->executor, desk->fixture.pool, &desk->fixture.policy, id),
                     ZLINK_OK);
}

static void actor_closed(zlink_actor_serial_executor_t *executor)
{
    zlink_check(!zlink_turn_current());
    sem_post(&ZLINK_CONTAINER_OF(executor, actor_t, executor)->closed);
}

static void actor_close(actor_t *actor)
{
    zlink_actor_serial_executor_close(&actor->executor, actor_closed);
    zlink_test_wait(&actor->closed);
}

static void joins(job_t *job)
{
    actor_t *actor = job->context;
    actor->status = zlink_spot_serial_executor_add_actor(actor->to, &actor->executor);
}

static void leaves(job_t *job)
{
    actor_t *actor = job->context;
    actor->status = zlink_spot_serial_executor_remove_actor(actor->from, actor->executor.entry.name);
}

static void moves(job_t *job)
{
    leaves(job);
    zlink_check(((actor_t *)job->context)->status == ZLINK_OK);
    joins(job);
}

/* A lifecycle turn of the Actor that does `what`. */
static void on_its_turn(actor_t *actor, desk_t *desk, void (*what)(job_t *job), zlink_status_t expected)
{
    job_t job;

    job_make(&job, desk, 'l')->before = what;
    job.context = actor;
    assert_int_equal(zlink_actor_serial_executor_execute_lifecycle(&actor->executor, &job.turn), ZLINK_OK);
    zlink_test_wait(&job.ended);
    assert_int_equal(actor->status, expected);
}

/* Alone, an Actor has a queue of its own, for handlers and life-time control, and does not yield. */
static void test_an_actor_runs_by_itself(void **state)
{
    desk_t desk;
    actor_t actor;
    job_t jobs[4];

    (void)state;
    desk_open(&desk, 2, user, ZLINK_SPOT_WIDE);
    actor_open(&actor, &desk, "one");
    assert_int_equal(zlink_actor_serial_executor_init(&actor.executor, desk.fixture.pool, &desk.fixture.policy, ""),
                     ZLINK_INVALID_OPERATION);
    assert_int_equal(
        zlink_actor_serial_executor_execute_actor(&actor.executor, &job_standing(&jobs[0], &desk, 'a')->turn, 0),
        ZLINK_OK);
    zlink_test_wait(&jobs[0].started);
    job_waiting(&jobs[1], &desk, 'b', ZLINK_WAIT_YIELD);
    assert_int_equal(zlink_actor_serial_executor_execute_actor(&actor.executor, &jobs[1].turn, 0), ZLINK_OK);
    assert_int_equal(
        zlink_actor_serial_executor_execute_lifecycle(&actor.executor, &job_make(&jobs[2], &desk, 'l')->turn),
        ZLINK_OK);
    to_spot(job_make(&jobs[3], &desk, 's')); /* no member yet: beside it */
    zlink_test_wait(&jobs[3].ended);
    assert_false(zlink_actor_serial_executor_is_current(&actor.executor));
    sem_post(&jobs[0].let_go);
    actor_close(&actor);
    assert_int_equal(jobs[1].prepared, ZLINK_INVALID_OPERATION);
    assert_string_equal(desk.notes, "aslb");
    assert_int_equal(
        zlink_actor_serial_executor_execute_actor(&actor.executor, &job_make(&jobs[0], &desk, 'x')->turn, 0),
        ZLINK_SHUTTING_DOWN);
    desk_close(&desk);
}

/* Joins and leaves happen on the Actor's own turn; what is queued goes with it. */
static void test_an_actor_joins_and_leaves_with_its_queue(void **state)
{
    desk_t desk;
    actor_t actor;
    job_t gate;
    job_t standing;
    job_t join;
    job_t behind;
    job_t spot;
    job_t leave;

    (void)state;
    desk_open(&desk, 2, user, ZLINK_SPOT_WIDE);
    actor_open(&actor, &desk, "one");
    actor.to = actor.from = &desk.spot;
    /* A record that was queued before the join runs behind the Spot's gate. */
    assert_int_equal(
        zlink_actor_serial_executor_execute_actor(&actor.executor, &job_standing(&standing, &desk, 'a')->turn, 0),
        ZLINK_OK);
    zlink_test_wait(&standing.started);
    assert_int_equal(zlink_spot_serial_executor_add_actor(&desk.spot, &actor.executor), ZLINK_INVALID_OPERATION);
    job_make(&join, &desk, 'j')->before = joins;
    join.context = &actor;
    assert_int_equal(zlink_actor_serial_executor_execute_lifecycle(&actor.executor, &join.turn), ZLINK_OK);
    assert_int_equal(
        zlink_actor_serial_executor_execute_actor(&actor.executor, &job_make(&behind, &desk, 'b')->turn, 0), ZLINK_OK);
    to_spot(job_standing(&gate, &desk, 'g'));
    zlink_test_wait(&gate.started);
    sem_post(&standing.let_go);
    zlink_test_wait(&join.ended);
    assert_int_equal(actor.status, ZLINK_OK);
    assert_int_equal(sem_trywait(&behind.started), -1); /* the Spot's handler holds the gate now */
    assert_int_equal(zlink_spot_serial_executor_add_actor(&desk.spot, &actor.executor), ZLINK_INVALID_OPERATION);
    assert_int_equal(zlink_spot_serial_executor_remove_actor(&desk.spot, "one"), ZLINK_INVALID_OPERATION);
    assert_int_equal(zlink_spot_serial_executor_remove_actor(&desk.spot, "two"), ZLINK_NOT_FOUND);
    /* And one that is queued behind the leave runs without it. */
    job_make(&leave, &desk, 'l')->before = leaves;
    leave.context = &actor;
    sem_post(&gate.let_go);
    zlink_test_wait(&behind.ended);
    to_actor(job_standing(&standing, &desk, 'c'), "one");
    zlink_test_wait(&standing.started);
    assert_int_equal(zlink_actor_serial_executor_execute_lifecycle(&actor.executor, &leave.turn), ZLINK_OK);
    to_actor(job_standing(&behind, &desk, 'd'), "one");
    sem_post(&standing.let_go);
    zlink_test_wait(&behind.started);
    assert_int_equal(actor.status, ZLINK_OK);
    to_spot(job_make(&spot, &desk, 's'));
    zlink_test_wait(&spot.ended); /* beside the Actor */
    sem_post(&behind.let_go);
    zlink_test_wait(&behind.ended);
    assert_string_equal(desk.notes, "agjbclds");
    desk_close_spot(&desk);
    actor_close(&actor);
    zlink_exec_fixture_close(&desk.fixture);
}

/* A membership that changes on a turn leaves that turn no place to wait: refused before anything is reserved. */
static zlink_status_t waits_after_the_move(zlink_turn_t *turn)
{
    job_t *job = job_of(turn);

    job->before(job);
    job->prepared = zlink_turn_prepare_wait(turn, &job->wait, ZLINK_WAIT_ASYNC, NULL, NULL);
    return ZLINK_OK;
}

/* An Actor that was closed joins nobody, also where a turn of it still runs. */
static void test_a_closed_actor_joins_nobody(void **state)
{
    desk_t desk;
    actor_t actor;
    job_t gate;
    job_t join;

    (void)state;
    desk_open(&desk, 1, user, ZLINK_SPOT_WIDE);
    actor_open(&actor, &desk, "one");
    actor.to = &desk.spot;
    job_standing(&gate, &desk, 'g');
    assert_int_equal(zlink_actor_serial_executor_execute_actor(&actor.executor, &gate.turn, 0), ZLINK_OK);
    zlink_test_wait(&gate.started);
    job_make(&join, &desk, 'j')->before = joins;
    join.context = &actor;
    assert_int_equal(zlink_actor_serial_executor_execute_actor(&actor.executor, &join.turn, 0), ZLINK_OK);
    zlink_actor_serial_executor_close(&actor.executor, actor_closed);
    sem_post(&gate.let_go);
    zlink_test_wait(&actor.closed);
    assert_int_equal(actor.status, ZLINK_SHUTTING_DOWN);
    desk_close(&desk);
}

static void test_no_wait_between_two_gates(void **state)
{
    desk_t desk;
    actor_t actor;
    job_t job;

    (void)state;
    desk_open(&desk, 2, user, ZLINK_SPOT_WIDE);
    actor_open(&actor, &desk, "one");
    actor.to = actor.from = &desk.spot;
    for (unsigned i = 0; i < 2; i++) {
        job_make(&job, &desk, 'j')->before = i ? leaves : joins;
        job.turn.body = waits_after_the_move;
        job.context = &actor;
        assert_int_equal(zlink_actor_serial_executor_execute_lifecycle(&actor.executor, &job.turn), ZLINK_OK);
        zlink_test_wait(&job.ended);
        assert_int_equal(actor.status, ZLINK_OK);
        assert_int_equal(job.prepared, ZLINK_INVALID_OPERATION);
    }
    actor_close(&actor);
    desk_close(&desk);
}

/* EX-16: what a turn learns of the Actor's place is read once and holds for the whole turn, whoever else changes the
 * maps meanwhile, and whatever this turn itself has changed for the next. */
static void sees_one_place(job_t *job)
{
    actor_t *actor = job->context;
    zlink_actor_state_snapshot_t before;
    zlink_actor_state_snapshot_t after;

    zlink_check(zlink_actor_serial_executor_state_snapshot(&actor->executor, &before) == ZLINK_OK);
    zlink_check(strcmp(before.actor_id, "one") == 0);
    zlink_check(before.shares_gate == (before.member_of != NULL));
    for (unsigned i = 0; i < 20; i++)
        sched_yield();
    zlink_check(zlink_actor_serial_executor_state_snapshot(&actor->executor, &after) == ZLINK_OK);
    zlink_check(before.member_of == after.member_of && before.shares_gate == after.shares_gate);
    if (before.member_of)
        leaves(job);
    else
        joins(job);
    zlink_check(actor->status == ZLINK_OK);
    bool shared = before.shares_gate;
    zlink_check(zlink_actor_serial_executor_state_snapshot(&actor->executor, &after) == ZLINK_OK);
    zlink_check(after.shares_gate == shared && (after.member_of != NULL) != shared);
}

static void test_ex16_a_turn_sees_one_place(void **state)
{
    desk_t desk;
    actor_t actor;
    zlink_actor_state_snapshot_t nothing;
    job_t jobs[40];
    job_t other[40];

    (void)state;
    desk_open(&desk, 2, user, ZLINK_SPOT_WIDE);
    actor_open(&actor, &desk, "one");
    actor.to = actor.from = &desk.spot;
    assert_int_equal(zlink_actor_serial_executor_state_snapshot(&actor.executor, &nothing), ZLINK_INVALID_OPERATION);
    for (unsigned i = 0; i < 40; i++) {
        job_make(&jobs[i], &desk, 'j')->before = sees_one_place;
        jobs[i].context = &actor;
        assert_int_equal(zlink_actor_serial_executor_execute_actor(&actor.executor, &jobs[i].turn, 0), ZLINK_OK);
        char id[] = {(char)('a' + i % 26), (char)('0' + i / 26), 0};
        to_actor(job_make(&other[i], &desk, 'o'), id);
    }
    zlink_test_wait(&jobs[39].ended);
    actor_close(&actor); /* forty changes: it is alone again */
    desk_close(&desk);
}

/* An id is borne by one Actor; limits; bad ids. */
static void test_ids_and_limits(void **state)
{
    desk_t desk;
    actor_t actor;
    job_t job;
    char name[257];

    (void)state;
    for (int mode = ZLINK_SPOT_WIDE; mode <= ZLINK_PER_ACTOR; mode++) {
        desk_open(&desk, 1, user, (zlink_user_spot_execution_mode_t)mode);
        assert_int_equal(zlink_spot_serial_executor_set_limits(&desk.spot, 2, 1), ZLINK_OK);
        to_actor(job_make(&job, &desk, 'j'), "one");
        zlink_test_wait(&job.ended);
        actor_open(&actor, &desk, "one");
        actor.to = &desk.spot;
        on_its_turn(&actor, &desk, joins, ZLINK_ALREADY_EXISTS);
        actor_close(&actor);
        memset(name, 'x', sizeof(name));
        name[256] = 0;
        job_make(&job, &desk, 'j');
        assert_int_equal(zlink_spot_serial_executor_execute_actor(&desk.spot, name, &job.turn, 0),
                         ZLINK_INVALID_OPERATION);
        name[255] = 0;
        to_actor(&job, name);
        zlink_test_wait(&job.ended);
        job_make(&job, &desk, 'j');
        assert_int_equal(zlink_spot_serial_executor_execute_actor(&desk.spot, "three", &job.turn, 0),
                         ZLINK_CAPACITY_EXCEEDED);
        assert_int_equal(zlink_spot_serial_executor_execute_actor(&desk.spot, NULL, &job.turn, 0),
                         ZLINK_INVALID_OPERATION);
        actor_open(&actor, &desk, "three");
        actor.to = &desk.spot;
        on_its_turn(&actor, &desk, joins, ZLINK_CAPACITY_EXCEEDED);
        actor_close(&actor);
        /* One that execute_actor has made goes when it is removed, and makes room. */
        assert_int_equal(zlink_spot_serial_executor_remove_actor(&desk.spot, "one"), ZLINK_OK);
        while (zlink_spot_serial_executor_execute_actor(&desk.spot, "three", &job.turn, 0) != ZLINK_OK)
            sched_yield();
        zlink_test_wait(&job.ended);
        desk_close(&desk);
    }
}

/* An Actor may go from one Spot to another on one turn, between wirings, too. */
static void test_an_actor_moves_between_spots(void **state)
{
    desk_t wide;
    desk_t other;
    actor_t actor;
    job_t job;

    (void)state;
    for (int mode = ZLINK_SPOT_WIDE; mode <= ZLINK_PER_ACTOR; mode++) {
        desk_open(&wide, 2, user, ZLINK_SPOT_WIDE);
        memset(&other, 0, sizeof(other));
        pthread_mutex_init(&other.lock, NULL);
        sem_init(&other.closed, 0, 0);
        other.fixture.pool = wide.fixture.pool;
        other.fixture.policy = wide.fixture.policy;
        desk_open_spot(&other, user, (zlink_user_spot_execution_mode_t)mode);
        actor_open(&actor, &wide, "one");
        actor.to = &wide.spot;
        assert_int_equal(zlink_spot_serial_executor_add_actor(&wide.spot, &actor.executor), ZLINK_OK); /* idle */
        for (unsigned i = 0; i < 10; i++) {
            actor.from = i % 2 ? &other.spot : &wide.spot;
            actor.to = i % 2 ? &wide.spot : &other.spot;
            on_its_turn(&actor, &wide, moves, ZLINK_OK);
            to_actor(job_make(&job, i % 2 ? &wide : &other, 'j'), "one");
            zlink_test_wait(&job.ended);
            assert_ptr_equal(job.turn.queue, &actor.executor.queue);
        }
        desk_close_spot(&wide); /* it ends with that one */
        desk_close_spot(&other);
        zlink_exec_fixture_close(&wide.fixture);
    }
}

/* EX-93: closing empties both maps and completes every queue in them; everything accepted runs, nothing new comes in,
 * and one callback comes at the very end. */
static void test_ex93_closing_a_spot_ends_its_actors_and_timers(void **state)
{
    (void)state;
    for (int mode = ZLINK_SPOT_WIDE; mode <= ZLINK_PER_ACTOR; mode++) {
        desk_t desk;
        actor_t member;
        job_t gate;
        job_t jobs[60];
        job_t late;
        desk_open(&desk, 2, user, (zlink_user_spot_execution_mode_t)mode);
        actor_open(&member, &desk, "member");
        assert_int_equal(zlink_spot_serial_executor_add_actor(&desk.spot, &member.executor), ZLINK_OK);
        to_spot(job_standing(&gate, &desk, 'g'));
        zlink_test_wait(&gate.started);
        for (unsigned i = 0; i < 60; i++) {
            char name[] = {(char)('a' + i % 20), 0};
            job_make(&jobs[i], &desk, 'j');
            if (i % 3 == 2)
                to_timer(&jobs[i], name);
            else
                to_actor(&jobs[i], i % 3 ? name : "member");
        }
        zlink_spot_serial_executor_close(&desk.spot, desk_spot_closed);
        zlink_spot_serial_executor_close(&desk.spot, NULL); /* once more changes nothing */
        assert_int_equal(desk.spot.actors.count, 0);
        assert_int_equal(desk.spot.timers.count, 0);
        job_make(&late, &desk, 'x');
        assert_int_equal(zlink_spot_serial_executor_execute_spot(&desk.spot, &late.turn, 0), ZLINK_SHUTTING_DOWN);
        assert_int_equal(zlink_spot_serial_executor_execute_actor(&desk.spot, "member", &late.turn, 0),
                         ZLINK_SHUTTING_DOWN);
        assert_int_equal(zlink_spot_serial_executor_execute_actor(&desk.spot, "new", &late.turn, 0),
                         ZLINK_SHUTTING_DOWN);
        assert_int_equal(zlink_spot_serial_executor_execute_timer(&desk.spot, "new", &late.turn), ZLINK_SHUTTING_DOWN);
        assert_int_equal(zlink_spot_serial_executor_execute_lifecycle(&desk.spot, &late.turn), ZLINK_SHUTTING_DOWN);
        assert_int_equal(zlink_actor_serial_executor_execute_actor(&member.executor, &late.turn, 0),
                         ZLINK_SHUTTING_DOWN);
        assert_int_equal(zlink_spot_serial_executor_remove_actor(&desk.spot, "member"), ZLINK_SHUTTING_DOWN);
        assert_int_equal(sem_trywait(&desk.closed), -1);
        sem_post(&gate.let_go);
        zlink_test_wait(&desk.closed);
        for (unsigned i = 0; i < 60; i++)
            assert_int_equal(atomic_load(&jobs[i].endings), 1);
        assert_int_equal(sem_trywait(&desk.closed), -1);
        zlink_exec_fixture_close(&desk.fixture);
    }
}

/* EX-93, OB-26: a yielded handler whose Spot is closed meanwhile goes on, with a failure instead of its result, and the
 * Spot ends after it. So does one whose unit is sealed; after unseal everything is as before. */
static void test_ob26_a_closed_or_sealed_spot_fails_the_resume(void **state)
{
    enum { SPOT_CLOSED, SPOT_SEALED, ACTOR_SEALED, UNSEALED_AGAIN, ENDS };

    (void)state;
    for (int end = 0; end < ENDS; end++)
        for (int variant = 0; variant < 4; variant++) {
            desk_t desk;
            actor_t actor;
            job_t waiting;
            job_t late;
            bool of_actor = variant & 1 || end == ACTOR_SEALED;
            desk_open(&desk, 2, user, ZLINK_SPOT_WIDE);
            actor_open(&actor, &desk, "one");
            assert_int_equal(zlink_spot_serial_executor_add_actor(&desk.spot, &actor.executor), ZLINK_OK);
            job_waiting(&waiting, &desk, 'w', ZLINK_WAIT_YIELD)->then = variant & 2;
            if (of_actor)
                to_actor(&waiting, "one");
            else
                to_spot(&waiting);
            zlink_test_wait(&waiting.started);
            job_make(&late, &desk, 'l'); /* through the gate once: by then it has parked */
            to_spot(&late);
            zlink_test_wait(&late.ended);
            job_make(&late, &desk, 'l');
            if (end == SPOT_CLOSED) {
                zlink_spot_serial_executor_close(&desk.spot, desk_spot_closed);
            } else if (end == ACTOR_SEALED) {
                zlink_actor_serial_executor_seal(&actor.executor);
            } else {
                zlink_spot_serial_executor_seal(&desk.spot);
                assert_int_equal(zlink_spot_serial_executor_execute_spot(&desk.spot, &late.turn, 0), ZLINK_UNAVAILABLE);
                assert_int_equal(zlink_spot_serial_executor_execute_timer(&desk.spot, "t", &late.turn),
                                 ZLINK_UNAVAILABLE);
            }
            if (end != SPOT_CLOSED)
                assert_int_equal(zlink_spot_serial_executor_execute_actor(&desk.spot, "one", &late.turn, 0),
                                 ZLINK_UNAVAILABLE);
            if (end == UNSEALED_AGAIN)
                zlink_spot_serial_executor_unseal(&desk.spot);
            zlink_wait_complete(&waiting.wait, ZLINK_OK);
            zlink_test_wait(&waiting.ended);
            assert_int_equal(waiting.got, end == UNSEALED_AGAIN ? ZLINK_OK : ZLINK_SHUTTING_DOWN);
            if (end == SPOT_CLOSED)
                zlink_test_wait(&desk.closed);
            else
                desk_close_spot(&desk);
            zlink_exec_fixture_close(&desk.fixture);
        }
}

/* Every allocation of the maps may fail: it is ZLINK_CAPACITY_EXCEEDED, and nothing is left behind. */
static void test_allocation_failures_of_the_maps(void **state)
{
    desk_t desk;

    (void)state;
    desk_open(&desk, 1, user, ZLINK_PER_ACTOR);
    for (unsigned what = 0; what < 2; what++) {
        unsigned failures = 0;
        for (int64_t after = 0;; after++) {
            job_t job;
            char name[] = {'n', (char)('0' + after), 0};
            desk_close_spot(&desk);
            desk_open_spot(&desk, user, ZLINK_PER_ACTOR);
            job_make(&job, &desk, 'j');
            zlink_memory_fail_after(after);
            zlink_status_t status = what ? zlink_spot_serial_executor_execute_timer(&desk.spot, name, &job.turn)
                                         : zlink_spot_serial_executor_execute_actor(&desk.spot, name, &job.turn, 0);
            zlink_memory_fail_after(-1);
            assert_int_equal(desk.spot.actors.count + desk.spot.timers.count, status == ZLINK_OK);
            if (status == ZLINK_OK) {
                zlink_test_wait(&job.ended);
                break;
            }
            assert_int_equal(status, ZLINK_CAPACITY_EXCEEDED);
            failures++;
        }
        assert_int_equal(failures, 2);
    }
    /* Where only more buckets cannot be had, it goes on. */
    for (unsigned i = 0; i < 64; i++) {
        job_t job;
        char name[] = {'m', (char)('0' + i), 0};
        zlink_memory_fail_after(i ? 1 : -1); /* the first ones it must have */
        to_actor(job_make(&job, &desk, 'j'), name);
        zlink_memory_fail_after(-1);
        zlink_test_wait(&job.ended);
        desk.count = 0;
    }
    /* What the first use has made and its submission cannot use is taken back. */
    job_t job;
    uint32_t before = desk.spot.actors.count;
    job_make(&job, &desk, 'j');
    assert_int_equal(zlink_spot_serial_executor_execute_actor(&desk.spot, "large", &job.turn, UINT64_C(1) << 40),
                     ZLINK_CAPACITY_EXCEEDED);
    assert_int_equal(desk.spot.actors.count, before);
    desk_close(&desk);
}

#if !defined(ZLINK_ASAN) && !defined(ZLINK_TSAN) && defined(__GLIBC__)
/* Queue, claim, map entry, the map's share and an id of 15 characters of an idle Actor: 256 bytes at most. */
static void test_an_idle_actor_is_small(void **state)
{
    const unsigned actors = 20000;
    desk_t desk;
    job_t job;

    (void)state;
    desk_open(&desk, 1, user, ZLINK_SPOT_WIDE);
    size_t before = zlink_memory_bytes_in_use();
    for (unsigned i = 0; i < actors; i++) {
        char id[16];
        (void)snprintf(id, sizeof(id), "player-%08u", i);
        to_actor(job_make(&job, &desk, 'j'), id);
        zlink_test_wait(&job.ended);
        desk.count = 0;
    }
    double bytes = (double)(zlink_memory_bytes_in_use() - before) / actors;
    if (bytes == 0) { /* somebody, as valgrind, stands in for the allocator */
        desk_close(&desk);
        skip();
    }
    assert_true(bytes > sizeof(zlink_actor_serial_executor_t));
    print_message("an idle Actor: %.0f bytes, of which the executor %zu, the queue %zu\n", bytes,
                  sizeof(zlink_actor_serial_executor_t), sizeof(zlink_serial_execution_queue_t));
    assert_true(bytes <= 256);
    desk_close(&desk);
}
#define SMALL_TEST cmocka_unit_test(test_an_idle_actor_is_small),
#else
#define SMALL_TEST
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_an_actor_runs_by_itself),
                                       cmocka_unit_test(test_an_actor_joins_and_leaves_with_its_queue),
                                       cmocka_unit_test(test_a_closed_actor_joins_nobody),
                                       cmocka_unit_test(test_no_wait_between_two_gates),
                                       cmocka_unit_test(test_ex16_a_turn_sees_one_place),
                                       cmocka_unit_test(test_ids_and_limits),
                                       cmocka_unit_test(test_an_actor_moves_between_spots),
                                       cmocka_unit_test(test_ex93_closing_a_spot_ends_its_actors_and_timers),
                                       cmocka_unit_test(test_ob26_a_closed_or_sealed_spot_fails_the_resume),
                                       cmocka_unit_test(test_allocation_failures_of_the_maps),
                                       SMALL_TEST};

    return zlink_test_main(tests);
}
