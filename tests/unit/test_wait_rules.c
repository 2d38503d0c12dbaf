/*
 * What a turn may wait for: nothing that needs the gate or the claim that it keeps meanwhile.
 */
#include "spot_fixture.h"

#include "exec/channel_serial_executor.h"
#include "exec/session_serial_executor.h"

static const zlink_spot_execution_kind_t user = ZLINK_EXECUTION_USER;

typedef struct question {
    zlink_wait_target_t target;
    zlink_status_t async;
    zlink_status_t yield;
} question_t;

static void asks(job_t *job)
{
    question_t *question = job->context;
    question->async = zlink_turn_check_wait(&job->turn, ZLINK_WAIT_ASYNC, &question->target);
    question->yield = zlink_turn_check_wait(&job->turn, ZLINK_WAIT_YIELD, &question->target);
}

static void expect(job_t *job, const question_t *question, zlink_status_t async, zlink_status_t yield)
{
    zlink_test_wait(&job->ended);
    assert_int_equal(question->async, async);
    assert_int_equal(question->yield, yield);
}

static job_t *asking(job_t *job, desk_t *desk, question_t *question, zlink_wait_target_t target)
{
    job_make(job, desk, 'q')->before = asks;
    job->context = question;
    question->target = target;
    return job;
}

#define REFUSED ZLINK_INVALID_OPERATION

/* EX-24, EX-102: under SpotWide. Rows: whose turn; columns: for whom it waits. */
static void test_ex24_ex102_waits_behind_the_own_gate(void **state)
{
    desk_t desk;
    desk_t other;
    job_t job;
    question_t question;

    (void)state;
    desk_open(&desk, 2, user, ZLINK_SPOT_WIDE);
    memset(&other, 0, sizeof(other));
    sem_init(&other.closed, 0, 0);
    other.fixture.pool = desk.fixture.pool;
    other.fixture.policy = desk.fixture.policy;
    desk_open_spot(&other, user, ZLINK_SPOT_WIDE);
    to_actor(job_make(&job, &desk, 'j'), "two");
    zlink_test_wait(&job.ended);
    to_actor(job_make(&job, &desk, 'j'), "one");
    zlink_test_wait(&job.ended);
    zlink_wait_target_t spot = zlink_spot_serial_executor_wait_target(&desk.spot);
    zlink_wait_target_t one = zlink_spot_serial_executor_actor_wait_target(&desk.spot, "one");
    zlink_wait_target_t two = zlink_spot_serial_executor_actor_wait_target(&desk.spot, "two");
    zlink_wait_target_t nobody_yet = zlink_spot_serial_executor_actor_wait_target(&desk.spot, "three");
    zlink_wait_target_t elsewhere = zlink_spot_serial_executor_wait_target(&other.spot);
    const struct {
        zlink_wait_target_t target;
        zlink_status_t of_spot[2]; /* async, yield */
        zlink_status_t of_actor_one[2];
    } rows[] = {
        {spot, {REFUSED, ZLINK_OK}, {REFUSED, ZLINK_OK}},
        {one, {REFUSED, ZLINK_OK}, {REFUSED, REFUSED}}, /* its claim stays over the yield */
        {two, {REFUSED, ZLINK_OK}, {REFUSED, ZLINK_OK}},
        {nobody_yet, {REFUSED, ZLINK_OK}, {REFUSED, ZLINK_OK}},
        {elsewhere, {ZLINK_OK, ZLINK_OK}, {ZLINK_OK, ZLINK_OK}},
    };
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        to_spot(asking(&job, &desk, &question, rows[i].target));
        expect(&job, &question, rows[i].of_spot[0], rows[i].of_spot[1]);
        to_timer(asking(&job, &desk, &question, rows[i].target), "tick");
        expect(&job, &question, rows[i].of_spot[0], rows[i].of_spot[1]);
        to_actor(asking(&job, &desk, &question, rows[i].target), "one");
        expect(&job, &question, rows[i].of_actor_one[0], rows[i].of_actor_one[1]);
    }
    desk_close_spot(&other);
    desk_close(&desk);
}

/* EX-24: in PerActor each waits for the others, and not for itself; nobody yields. */
static void test_ex24_waits_of_separate_gates(void **state)
{
    desk_t desk;
    job_t job;
    question_t question;

    (void)state;
    desk_open(&desk, 2, user, ZLINK_PER_ACTOR);
    to_actor(job_make(&job, &desk, 'j'), "one");
    zlink_test_wait(&job.ended);
    to_actor(job_make(&job, &desk, 'j'), "two");
    zlink_test_wait(&job.ended);
    zlink_wait_target_t spot = zlink_spot_serial_executor_wait_target(&desk.spot);
    zlink_wait_target_t one = zlink_spot_serial_executor_actor_wait_target(&desk.spot, "one");
    zlink_wait_target_t two = zlink_spot_serial_executor_actor_wait_target(&desk.spot, "two");
    to_actor(asking(&job, &desk, &question, one), "one");
    expect(&job, &question, REFUSED, REFUSED);
    to_actor(asking(&job, &desk, &question, two), "one");
    expect(&job, &question, ZLINK_OK, REFUSED);
    to_actor(asking(&job, &desk, &question, spot), "one");
    expect(&job, &question, ZLINK_OK, REFUSED);
    to_spot(asking(&job, &desk, &question, spot));
    expect(&job, &question, REFUSED, REFUSED);
    to_spot(asking(&job, &desk, &question, one));
    expect(&job, &question, ZLINK_OK, REFUSED);
    to_timer(asking(&job, &desk, &question, spot), "tick");
    expect(&job, &question, ZLINK_OK, REFUSED);
    desk_close(&desk);
}

/* EX-24: channels, sessions and Actors without a Spot know themselves, too. */
static void nothing_more(zlink_channel_serial_executor_t *executor)
{
    (void)executor;
}

static void test_ex24_waits_of_other_coordinators(void **state)
{
    desk_t desk;
    job_t job;
    question_t question;
    zlink_channel_serial_executor_t channel;
    zlink_session_serial_executor_t session;
    zlink_actor_serial_executor_t actor;

    (void)state;
    desk_open(&desk, 1, user, ZLINK_SPOT_WIDE);
    assert_int_equal(zlink_channel_serial_executor_init(&channel, desk.fixture.pool, &desk.fixture.policy), ZLINK_OK);
    assert_int_equal(zlink_session_serial_executor_init(&session, desk.fixture.pool, &desk.fixture.policy), ZLINK_OK);
    assert_int_equal(zlink_actor_serial_executor_init(&actor, desk.fixture.pool, &desk.fixture.policy, "a"), ZLINK_OK);
    zlink_wait_target_t targets[] = {zlink_channel_serial_executor_wait_target(&channel),
                                     zlink_session_serial_executor_wait_target(&session),
                                     zlink_actor_serial_executor_wait_target(&actor)};
    for (unsigned whose = 0; whose < 3; whose++)
        for (unsigned target = 0; target < 3; target++) {
            asking(&job, &desk, &question, targets[target]);
            zlink_status_t status = whose == 0 ? zlink_channel_serial_executor_execute_channel(&channel, &job.turn, 0)
                                    : whose == 1
                                        ? zlink_session_serial_executor_execute_application(&session, &job.turn, 0)
                                        : zlink_actor_serial_executor_execute_actor(&actor, &job.turn, 0);
            assert_int_equal(status, ZLINK_OK);
            expect(&job, &question, whose == target ? REFUSED : ZLINK_OK, REFUSED);
        }
    zlink_channel_serial_executor_close(&channel, nothing_more);
    zlink_session_serial_executor_close(&session, NULL);
    zlink_actor_serial_executor_close(&actor, NULL);
    desk_close(&desk);
}

/* EX-24: what is sent to oneself without waiting stands at the back of the own queue and runs once, later. */
static job_t to_myself;

static void sends_to_itself(job_t *job)
{
    to_actor(job_make(&to_myself, job->desk, 'm'), "one");
    zlink_check(atomic_load(&to_myself.endings) == 0);
}

static void test_ex24_an_unawaited_send_to_oneself_runs_later(void **state)
{
    desk_t desk;
    job_t gate;
    job_t first;
    job_t second;

    (void)state;
    for (int mode = ZLINK_SPOT_WIDE; mode <= ZLINK_PER_ACTOR; mode++) {
        desk_open(&desk, 2, user, (zlink_user_spot_execution_mode_t)mode);
        to_actor(job_standing(&gate, &desk, 'g'), "one");
        zlink_test_wait(&gate.started);
        job_make(&first, &desk, 'f')->before = sends_to_itself;
        to_actor(&first, "one");
        to_actor(job_make(&second, &desk, 's'), "one");
        sem_post(&gate.let_go);
        zlink_test_wait(&second.ended);
        zlink_test_wait(&to_myself.ended);
        assert_string_equal(desk.notes, "gfsm");
        desk_close(&desk);
    }
}

/* ---- completions ---- */

typedef struct awaiting {
    zlink_execution_completion_t completion;
    zlink_wait_t wait;
    zlink_wait_mode_t mode;
    bool then;
    bool waited;
    zlink_status_t status;
} awaiting_t;

static zlink_status_t other_has_ended(zlink_turn_t *turn, zlink_status_t status, void *context)
{
    awaiting_t *awaiting = context;
    zlink_check(zlink_turn_current() == turn);
    awaiting->status = status;
    return ZLINK_OK;
}

static void awaits(job_t *job)
{
    awaiting_t *awaiting = job->context;

    if (!awaiting->then) {
        awaiting->status =
            zlink_execution_completion_wait(&awaiting->completion, &job->turn, awaiting->mode, &awaiting->waited);
        return;
    }
    zlink_status_t status = zlink_execution_completion_wait_then(&awaiting->completion, &job->turn, awaiting->mode,
                                                                 &awaiting->wait, other_has_ended, awaiting);
    awaiting->waited = status == ZLINK_OK;
    if (status != ZLINK_OK)
        awaiting->status = status;
}

/* EX-17: waiting for an execute_* of the own coordinator is refused at once, in every form; the other turn runs. */
static void test_ex17_waiting_for_the_own_coordinator_is_refused(void **state)
{
    (void)state;
    for (int mode = ZLINK_SPOT_WIDE; mode <= ZLINK_PER_ACTOR; mode++)
        for (unsigned variant = 0; variant < 16; variant++) {
            desk_t desk;
            job_t waiter;
            job_t target;
            awaiting_t awaiting;
            desk_open(&desk, 2, user, (zlink_user_spot_execution_mode_t)mode);
            memset(&awaiting, 0, sizeof(awaiting));
            awaiting.then = variant & 1;
            awaiting.mode = variant & 2 && mode == ZLINK_SPOT_WIDE ? ZLINK_WAIT_YIELD : ZLINK_WAIT_ASYNC;
            zlink_execution_completion_init(&awaiting.completion, NULL);
            job_make(&target, &desk, 't');
            zlink_turn_complete_with(&target.turn, &awaiting.completion);
            job_make(&waiter, &desk, 'w')->before = awaits;
            waiter.context = &awaiting;
            if (variant & 4)
                to_actor(&target, "one");
            else
                to_spot(&target);
            if (variant & 8)
                to_actor(&waiter, "two");
            else
                to_spot(&waiter);
            zlink_test_wait(&waiter.ended);
            assert_int_equal(awaiting.status, ZLINK_INVALID_OPERATION);
            assert_false(awaiting.waited);
            zlink_test_wait(&target.ended);
            desk_close(&desk);
        }
}

/* EX-17: from another coordinator it tells how the turn has ended, before and after it has. */
static void test_ex17_another_coordinators_turn_can_be_awaited(void **state)
{
    (void)state;
    for (unsigned variant = 0; variant < 8; variant++) {
        desk_t desk;
        desk_t other;
        job_t waiter;
        job_t target;
        awaiting_t awaiting;
        desk_open(&desk, 2, user, ZLINK_SPOT_WIDE);
        memset(&other, 0, sizeof(other));
        pthread_mutex_init(&other.lock, NULL);
        sem_init(&other.closed, 0, 0);
        other.fixture.pool = desk.fixture.pool;
        other.fixture.policy = desk.fixture.policy;
        desk_open_spot(&other, user, ZLINK_SPOT_WIDE);
        memset(&awaiting, 0, sizeof(awaiting));
        awaiting.then = variant & 1;
        awaiting.mode = variant & 2 ? ZLINK_WAIT_YIELD : ZLINK_WAIT_ASYNC;
        awaiting.status = ZLINK_DATA_LOST;
        zlink_execution_completion_init(&awaiting.completion, NULL);
        job_standing(&target, &other, 't');
        zlink_turn_complete_with(&target.turn, &awaiting.completion);
        to_actor(&target, "one");
        zlink_test_wait(&target.started);
        job_make(&waiter, &desk, 'w')->before = awaits;
        waiter.context = &awaiting;
        if (variant & 4) {
            sem_post(&target.let_go);
            desk_close_spot(&other); /* it has ended by now */
            to_actor(&waiter, "one");
        } else {
            to_actor(&waiter, "one");
            job_t probe;
            if (awaiting.mode == ZLINK_WAIT_YIELD) { /* once through the gate: it has given it back */
                to_spot(job_make(&probe, &desk, 'p'));
                zlink_test_wait(&probe.ended);
            }
            assert_int_equal(atomic_load(&waiter.endings), 0);
            sem_post(&target.let_go);
        }
        zlink_test_wait(&waiter.ended);
        assert_true(awaiting.waited);
        assert_int_equal(awaiting.status, ZLINK_OK);
        if (!(variant & 4))
            desk_close_spot(&other);
        desk_close(&desk);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex24_ex102_waits_behind_the_own_gate),
        cmocka_unit_test(test_ex24_waits_of_separate_gates),
        cmocka_unit_test(test_ex24_waits_of_other_coordinators),
        cmocka_unit_test(test_ex24_an_unawaited_send_to_oneself_runs_later),
        cmocka_unit_test(test_ex17_waiting_for_the_own_coordinator_is_refused),
        cmocka_unit_test(test_ex17_another_coordinators_turn_can_be_awaited),
    };

    return zlink_test_main(tests);
}
