#include "defer_fixture.h"

/* ---- EX-27 ---- */

/* EX-27: Defer returns at once and keeps gate and claim; the join of the own Actor, of another and from a Spot handler
 * starts after the handler's end, also where its mark has come to the front long before. */
static void test_ex27_the_join_starts_after_the_handler_has_ended(void **state)
{
    (void)state;
    for (int spot_wide = 0; spot_wide <= 1; spot_wide++) {
        for (int from = 0; from < 3; from++) {
            world_t world;
            call_t call;
            join_t join;

            world_open(&world, spot_wide, 2);
            make_join(&join, &world, '1');
            make_deferring(&call, &world, 'd', &world.actors[from == 0 ? 0 : 1], &join, WAITS_NOT);
            if (!spot_wide && from != 0)
                call.until_suspended = 1; /* the other Actor's mark waits meanwhile */
            if (from == 2)
                tell_spot(&world, &call);
            else
                tell_actor(&world.actors[0], &call);
            zlink_test_wait(&call.ended_once);
            zlink_test_wait(&join.settled);
            world_close(&world);
            assert_int_equal(call.deferred_before, ZLINK_OK);
            assert_int_equal(call.ended, ZLINK_OK);
            assert_notes(&world, "dD1!");
            assert_int_equal(join.result, ZLINK_OK);
        }
    }
}

/* EX-27: a handler that waits, on its stack or in two continuations, ends when the last of them has ended. What it
 * defers after the wait counts as well. */
static void test_ex27_the_end_is_that_of_the_last_continuation(void **state)
{
    (void)state;
    for (int spot_wide = 0; spot_wide <= 1; spot_wide++) {
        for (int then = 0; then <= 1; then++) {
            world_t world;
            call_t call;
            join_t first;
            join_t second;

            world_open(&world, spot_wide, 1);
            make_join(&first, &world, '1');
            make_join(&second, &world, '2');
            make_deferring(&call, &world, 'd', &world.actors[1], &first, then ? WAITS_THEN : WAITS_ON_ITS_STACK);
            call.continuations = 2;
            call.after = &second;
            call.another_target = &world.actors[0];
            tell_actor(&world.actors[0], &call);
            for (int i = 0; i <= then; i++) {
                zlink_test_wait(&call.submitted);
                await_suspensions(&world, (uint64_t)i + 2); /* the handler's and the mark */
                assert_notes(&world, "d");
                zlink_wait_complete(&call.wait, ZLINK_OK);
            }
            zlink_test_wait(&first.settled);
            zlink_test_wait(&second.settled);
            world_close(&world);
            assert_int_equal(call.deferred_after, ZLINK_OK);
            assert_memory_equal(world.notes, "dD", 2);
            assert_int_equal(first.completed + second.completed, 2);
        }
    }
}

/* ---- EX-28 ---- */

typedef enum ending { ENDS_WITH_ERROR, ENDS_CANCELLED, ENDS_NOT_ENCODED, ENDS_CLOSED } ending_t;

/* EX-28: an error, a cancelled wait, a reply that cannot be encoded and a closed owner discard every join, in order;
 * the Actor's later messages run, and its next join is no second one. */
static void test_ex28_a_failed_end_discards_every_join(void **state)
{
    static const zlink_status_t why[] = {ZLINK_REJECTED, ZLINK_DEADLINE_EXCEEDED, ZLINK_PROTOCOL_ERROR,
                                         ZLINK_SHUTTING_DOWN};
    (void)state;
    for (int kind = 0; kind < 8; kind++) {
        bool spot_wide = kind % 2;
        ending_t ending = (ending_t)(kind / 2);
        world_t world;
        call_t call;
        call_t later;
        join_t first;
        join_t second;

        world_open(&world, spot_wide, 2);
        make_join(&first, &world, '1');
        make_join(&second, &world, '2');
        make_deferring(&call, &world, 'd', &world.actors[1], &first, WAITS_ON_ITS_STACK);
        call.after = &second;
        call.another_target = &world.actors[2];
        call.answer = ending == ENDS_WITH_ERROR ? ZLINK_REJECTED : ZLINK_OK;
        call.encoded = ending == ENDS_NOT_ENCODED ? ZLINK_PROTOCOL_ERROR : ZLINK_OK;
        tell_actor(&world.actors[0], &call);
        zlink_test_wait(&call.submitted);
        if (ending == ENDS_CLOSED)
            close_actor(&world.actors[0]);
        zlink_wait_complete(&call.wait, ending == ENDS_CANCELLED ? ZLINK_DEADLINE_EXCEEDED : ZLINK_OK);
        zlink_test_wait(&call.ended_once);
        make(&later, &world, 'l', note_handler);
        tell_actor(&world.actors[1], &later);
        zlink_test_wait(&later.ended_once);
        if (ending == ENDS_CLOSED) {
            assert_int_equal(call.deferred_after, ZLINK_SHUTTING_DOWN); /* nothing new */
            assert_int_equal(second.disposed, 0);
            assert_notes(&world, "dD1-l");
        } else {
            assert_int_equal(second.result, why[ending]);
            assert_notes(&world, "dD1-2-l");
        }
        assert_int_equal(first.result, why[ending]);
        assert_int_equal(first.activated + first.completed, 0);
        world_close(&world);
    }
}

/* ---- EX-29 ---- */

/* EX-29: the result goes to the Actor, on a turn of it, and not to the handler. */
static void test_ex29_only_the_actor_learns_the_result(void **state)
{
    (void)state;
    for (int spot_wide = 0; spot_wide <= 1; spot_wide++) {
        world_t world;
        call_t call;
        join_t join;

        world_open(&world, spot_wide, 1);
        make_join(&join, &world, '1');
        join.answer = ZLINK_NOT_FOUND;
        make_deferring(&call, &world, 'd', &world.actors[1], &join, WAITS_NOT);
        tell_actor(&world.actors[0], &call);
        zlink_test_wait(&join.settled);
        zlink_test_wait(&call.ended_once);
        world_close(&world);
        assert_int_equal(join.result, ZLINK_NOT_FOUND);
        assert_int_equal(join.completed, 1);
        assert_int_equal(call.ended, ZLINK_OK);
    }
}

static zlink_status_t try_to_defer(zlink_turn_t *turn)
{
    call_t *call = call_of(turn);
    call->deferred_before = defer(turn, call->target, call->before);
    return ZLINK_OK;
}

/* EX-29: outside an open scope Defer is refused and leaves nothing: after the end, from a thread without a turn, on
 * another's turn, on a turn that may not defer. */
static void test_ex29_defer_outside_an_open_scope_is_refused(void **state)
{
    world_t world;
    call_t call;
    call_t lifecycle;
    call_t other;
    join_t join;

    (void)state;
    world_open(&world, true, 1);
    make_join(&join, &world, '1');
    make_deferring(&call, &world, 'd', &world.actors[1], &join, WAITS_ON_ITS_STACK);
    call.before = NULL;
    tell_actor(&world.actors[0], &call);
    zlink_test_wait(&call.submitted);
    assert_int_equal(defer(&call.turn, &world.actors[1], &join), ZLINK_INVALID_OPERATION);
    assert_int_equal(defer(NULL, &world.actors[1], &join), ZLINK_INVALID_OPERATION);

    make(&lifecycle, &world, 'f', try_to_defer);
    lifecycle.target = &world.actors[1];
    lifecycle.before = &join;
    assert_int_equal(zlink_spot_serial_executor_execute_lifecycle(&world.spot, &lifecycle.turn), ZLINK_OK);
    zlink_test_wait(&lifecycle.ended_once);
    assert_int_equal(lifecycle.deferred_before, ZLINK_INVALID_OPERATION);

    zlink_wait_complete(&call.wait, ZLINK_OK);
    zlink_test_wait(&call.ended_once);
    assert_int_equal(call.deferred_late, ZLINK_INVALID_OPERATION);

    make(&other, &world, 'o', try_to_defer); /* the scope of another one is not its own */
    other.target = &world.actors[1];
    other.before = &join;
    tell_actor(&world.actors[0], &other);
    zlink_test_wait(&join.settled);
    zlink_test_wait(&other.ended_once);
    assert_int_equal(other.deferred_before, ZLINK_OK);
    world_close(&world);
    assert_int_equal(join.completed, 1);
}

/* ---- EX-105 ---- */

/* EX-105: Defer, then a wait, then messages to that Actor. What was sent before the Defer runs, though the handler has
 * not ended; what was sent after it runs after the join, though the join's own work waits as well. */
static void test_ex105_earlier_records_run_and_later_ones_wait(void **state)
{
    (void)state;
    for (int spot_wide = 0; spot_wide <= 1; spot_wide++) {
        world_t world;
        call_t blocker;
        call_t earlier;
        call_t call;
        call_t later;
        call_t elsewhere;
        join_t join;

        world_open(&world, spot_wide, 1);
        make_join(&join, &world, '1');
        join.waits = true;
        make_deferring(&blocker, &world, 'b', NULL, NULL, WAITS_ON_ITS_STACK);
        make(&earlier, &world, 'e', note_handler);
        make(&later, &world, 'l', note_handler);
        make(&elsewhere, &world, 'x', note_handler);
        make_deferring(&call, &world, 'd', &world.actors[1], &join, WAITS_ON_ITS_STACK);
        tell_actor(&world.actors[1], &blocker);
        zlink_test_wait(&blocker.submitted);
        tell_actor(&world.actors[1], &earlier);
        tell_actor(&world.actors[0], &call);
        zlink_test_wait(&call.submitted);
        tell_actor(&world.actors[1], &later);
        zlink_wait_complete(&blocker.wait, ZLINK_OK);
        await_suspensions(&world, 3); /* both handlers, and the mark: it is at the front */
        assert_notes(&world, "bdBe");
        tell_actor(&world.actors[2], &elsewhere); /* the mark does not hold the gate */
        zlink_test_wait(&elsewhere.ended_once);
        zlink_wait_complete(&call.wait, ZLINK_OK);
        zlink_test_wait(&join.submitted);
        make(&elsewhere, &world, 'y', note_handler); /* nor does the join while it waits */
        tell_actor(&world.actors[2], &elsewhere);
        zlink_test_wait(&elsewhere.ended_once);
        assert_notes(&world, "bdBexD1y");
        zlink_wait_complete(&join.wait, ZLINK_OK);
        zlink_test_wait(&later.ended_once);
        world_close(&world);
        assert_notes(&world, "bdBexD1y!l");
    }
}

/* EX-105: the same where an Actor defers its own join: its claim keeps the order until the handler has ended. */
static void test_ex105_an_actor_that_defers_its_own_join(void **state)
{
    (void)state;
    for (int spot_wide = 0; spot_wide <= 1; spot_wide++) {
        world_t world;
        call_t earlier;
        call_t call;
        call_t later;
        join_t join;

        world_open(&world, spot_wide, 1);
        make_join(&join, &world, '1');
        make_deferring(&call, &world, 'd', &world.actors[0], NULL, WAITS_ON_ITS_STACK);
        call.after = &join; /* after the wait: what came during it was earlier */
        call.another_target = &world.actors[0];
        make(&earlier, &world, 'e', note_handler);
        make(&later, &world, 'l', note_handler);
        tell_actor(&world.actors[0], &call);
        zlink_test_wait(&call.submitted);
        tell_actor(&world.actors[0], &earlier);
        zlink_wait_complete(&call.wait, ZLINK_OK);
        zlink_test_wait(&call.ended_once);
        tell_actor(&world.actors[0], &later);
        zlink_test_wait(&later.ended_once);
        world_close(&world);
        assert_notes(&world, "dDe1!l");
    }
}

/* The default is 5,000 ms from Defer on; a join whose time is over before it starts is told so and does no work. */
static void test_the_deadline_is_fixed_by_defer(void **state)
{
    (void)state;
    for (int late = 0; late <= 1; late++) {
        world_t world;
        call_t call;
        join_t join;

        world_open(&world, true, 1);
        make_join(&join, &world, '1');
        make_deferring(&call, &world, 'd', &world.actors[1], &join, WAITS_ON_ITS_STACK);
        zlink_exec_fixture_advance(&world.fixture, 17);
        tell_actor(&world.actors[0], &call);
        zlink_test_wait(&call.submitted);
        zlink_exec_fixture_advance(&world.fixture, late ? 5000 : 4999);
        zlink_wait_complete(&call.wait, ZLINK_OK);
        zlink_test_wait(&join.settled);
        zlink_test_wait(&call.ended_once);
        world_close(&world);
        assert_int_equal(join.result, late ? ZLINK_DEADLINE_EXCEEDED : ZLINK_OK);
        assert_int_equal(join.activated, !late);
        assert_int_equal(join.completed, 1);
        if (!late)
            assert_int_equal(join.deadline_ms, 1000 + 17 + 5000);
    }
}

/* ---- one at a time, and no waiting for it ---- */

/* A second pending change of the same Actor is Unavailable, from whichever handler; it may be tried again when the
 * first was completed or discarded. */
static void test_a_second_pending_join_is_unavailable(void **state)
{
    world_t world;
    call_t first;
    call_t second;
    join_t joins[3];

    (void)state;
    world_open(&world, true, 2);
    for (unsigned i = 0; i < 3; i++)
        make_join(&joins[i], &world, (char)('1' + i));
    for (int fails = 0; fails <= 1; fails++) {
        make_deferring(&first, &world, 'f', &world.actors[1], &joins[0], WAITS_ON_ITS_STACK);
        first.after = &joins[1]; /* its own handler may not either */
        first.another_target = &world.actors[1];
        first.answer = fails ? ZLINK_REJECTED : ZLINK_OK;
        tell_actor(&world.actors[0], &first);
        zlink_test_wait(&first.submitted);
        make_deferring(&second, &world, 's', &world.actors[1], &joins[2], WAITS_NOT);
        tell_actor(&world.actors[2], &second);
        zlink_test_wait(&second.ended_once);
        assert_int_equal(second.deferred_before, ZLINK_UNAVAILABLE);
        assert_int_equal(second.ended, ZLINK_OK);
        zlink_wait_complete(&first.wait, ZLINK_OK);
        zlink_test_wait(&joins[0].settled);
        zlink_test_wait(&first.ended_once);
        assert_int_equal(first.deferred_after, ZLINK_UNAVAILABLE);
        joins[0].activated = joins[0].completed = joins[0].disposed = 0;
    }
    make_deferring(&second, &world, 's', &world.actors[1], &joins[2], WAITS_NOT);
    tell_actor(&world.actors[2], &second);
    zlink_test_wait(&joins[2].settled);
    zlink_test_wait(&second.ended_once);
    assert_int_equal(second.deferred_before, ZLINK_OK);
    world_close(&world);
    assert_int_equal(joins[1].completed + joins[1].disposed, 0);
}

/* Handlers that fail again and again leave no more marks in a queue that stands still than are allowed. */
static void test_marks_of_failed_handlers_are_limited(void **state)
{
    world_t world;
    call_t blocker;
    call_t call;
    join_t join;
    unsigned taken = 0;

    (void)state;
    world_open(&world, true, 1);
    make_join(&join, &world, '1');
    make_deferring(&blocker, &world, 'b', NULL, NULL, WAITS_ON_ITS_STACK);
    tell_actor(&world.actors[1], &blocker);
    zlink_test_wait(&blocker.submitted);
    for (;;) {
        make_deferring(&call, &world, 'd', &world.actors[1], &join, WAITS_NOT);
        call.answer = ZLINK_REJECTED;
        join.disposed = 0;
        tell_actor(&world.actors[0], &call);
        zlink_test_wait(&call.ended_once);
        if (call.deferred_before != ZLINK_OK)
            break;
        taken++;
        assert_int_equal(join.result, ZLINK_REJECTED);
    }
    assert_int_equal(call.deferred_before, ZLINK_CAPACITY_EXCEEDED);
    assert_int_equal(taken, 1024);
    zlink_wait_complete(&blocker.wait, ZLINK_OK);
    zlink_test_wait(&blocker.ended_once);
    world_close(&world);
}

/* ---- closing ---- */

/* A target that is closed while the mark stands or waits in it: no join, the caller is told, and the queue ends only
 * when the mark has gone. A closed target takes no mark. */
static void test_a_closed_target_disposes_of_its_join(void **state)
{
    (void)state;
    for (int kind = 0; kind < 8; kind++) {
        bool spot_wide = kind & 1;
        bool own = kind & 2;
        bool fails = kind & 4;
        world_t world;
        call_t call;
        call_t again;
        join_t join;
        join_t second;

        world_open(&world, spot_wide, 1);
        make_join(&join, &world, '1');
        make_join(&second, &world, '2');
        actor_t *target = &world.actors[own ? 0 : 1];
        make_deferring(&call, &world, 'd', target, &join, WAITS_ON_ITS_STACK);
        call.answer = fails ? ZLINK_REJECTED : ZLINK_OK;
        tell_actor(&world.actors[0], &call);
        zlink_test_wait(&call.submitted);
        await_suspensions(&world, own ? 1 : 2);
        close_actor(target);
        make_deferring(&again, &world, 'a', target, &second, WAITS_NOT);
        tell_actor(&world.actors[2], &again);
        zlink_test_wait(&again.ended_once);
        assert_true(again.deferred_before == ZLINK_UNAVAILABLE || again.deferred_before == ZLINK_SHUTTING_DOWN);
        assert_int_not_equal(sem_trywait(&target->closed), 0);
        zlink_wait_complete(&call.wait, ZLINK_OK);
        zlink_test_wait(&join.settled);
        zlink_test_wait(&target->closed);
        sem_post(&target->closed); /* for world_close */
        zlink_test_wait(&call.ended_once);
        /* A handler that gave its gate back learns that its own Actor was closed, before it can fail. */
        assert_int_equal(join.result, fails && !(own && spot_wide) ? ZLINK_REJECTED : ZLINK_SHUTTING_DOWN);
        assert_int_equal(join.activated + join.completed, 0);
        world_close(&world);
    }
}

/* ---- its place in the queue ---- */

/* EX-100: a mark is no application work: it does not pay the debt that eight lifecycle items have made. */
static void test_ex100_a_mark_pays_no_debt(void **state)
{
    world_t world;
    call_t blocker;
    call_t failing;
    call_t after;
    call_t lifecycle[16];
    join_t join;

    (void)state;
    world_open(&world, false, 1);
    make_join(&join, &world, '1');
    make_deferring(&blocker, &world, 'b', NULL, NULL, WAITS_ON_ITS_STACK);
    make_deferring(&failing, &world, 'f', &world.actors[1], &join, WAITS_NOT);
    failing.answer = ZLINK_REJECTED;
    make(&after, &world, 'a', note_handler);
    tell_actor(&world.actors[1], &blocker);
    zlink_test_wait(&blocker.submitted);
    tell_actor(&world.actors[0], &failing);
    zlink_test_wait(&failing.ended_once);
    tell_actor(&world.actors[1], &after);
    for (unsigned i = 0; i < 16; i++) {
        make(&lifecycle[i], &world, 'l', note_handler);
        tell_actor_lifecycle(&world.actors[1], &lifecycle[i]);
    }
    zlink_wait_complete(&blocker.wait, ZLINK_OK);
    for (unsigned i = 0; i < 16; i++)
        zlink_test_wait(&lifecycle[i].ended_once);
    world_close(&world);
    assert_notes(&world, "bfF1-Bllllllllallllllll");
}

typedef struct quiet {
    zlink_quiescence_t quiescence;
    join_t *join;
    unsigned completed_before;
    sem_t reached;
} quiet_t;

static void quiet_reached(zlink_quiescence_t *quiescence)
{
    quiet_t *quiet = ZLINK_CONTAINER_OF(quiescence, quiet_t, quiescence);
    quiet->completed_before = quiet->join->completed;
    sem_post(&quiet->reached);
}

/* EX-91: who waits for an Actor to become quiet waits for a join that was deferred before. */
static void test_ex91_quiescence_waits_for_a_deferred_join(void **state)
{
    (void)state;
    for (int spot_wide = 0; spot_wide <= 1; spot_wide++) {
        world_t world;
        call_t call;
        join_t join;
        quiet_t quiet = {.quiescence = {.reached = quiet_reached}, .join = &join};

        world_open(&world, spot_wide, 1);
        sem_init(&quiet.reached, 0, 0);
        make_join(&join, &world, '1');
        make_deferring(&call, &world, 'd', &world.actors[1], &join, WAITS_ON_ITS_STACK);
        tell_actor(&world.actors[0], &call);
        zlink_test_wait(&call.submitted);
        assert_int_equal(
            zlink_serial_execution_queue_await_quiescence(&world.actors[1].executor.queue, &quiet.quiescence),
            ZLINK_OK);
        zlink_wait_complete(&call.wait, ZLINK_OK);
        zlink_test_wait(&quiet.reached);
        zlink_test_wait(&call.ended_once);
        world_close(&world);
        assert_int_equal(quiet.completed_before, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex27_the_join_starts_after_the_handler_has_ended),
        cmocka_unit_test(test_ex27_the_end_is_that_of_the_last_continuation),
        cmocka_unit_test(test_ex28_a_failed_end_discards_every_join),
        cmocka_unit_test(test_ex29_only_the_actor_learns_the_result),
        cmocka_unit_test(test_ex29_defer_outside_an_open_scope_is_refused),
        cmocka_unit_test(test_ex105_earlier_records_run_and_later_ones_wait),
        cmocka_unit_test(test_ex105_an_actor_that_defers_its_own_join),
        cmocka_unit_test(test_the_deadline_is_fixed_by_defer),
        cmocka_unit_test(test_a_second_pending_join_is_unavailable),
        cmocka_unit_test(test_marks_of_failed_handlers_are_limited),
        cmocka_unit_test(test_a_closed_target_disposes_of_its_join),
        cmocka_unit_test(test_ex100_a_mark_pays_no_debt),
        cmocka_unit_test(test_ex91_quiescence_waits_for_a_deferred_join),
    };

    return zlink_test_main(tests);
}