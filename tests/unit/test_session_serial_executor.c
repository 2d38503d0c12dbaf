#include "spot_fixture.h"

#include "exec/session_serial_executor.h"

typedef struct session {
    zlink_session_serial_executor_t executor;
    sem_t closed;
} session_t;

static void session_open(session_t *session, desk_t *desk)
{
    memset(session, 0, sizeof(*session));
    sem_init(&session->closed, 0, 0);
    assert_int_equal(zlink_session_serial_executor_init(&session->executor, desk->fixture.pool, &desk->fixture.policy),
                     ZLINK_OK);
}

static void session_closed(zlink_session_serial_executor_t *executor)
{
    zlink_check(!zlink_turn_current());
    sem_post(&ZLINK_CONTAINER_OF(executor, session_t, executor)->closed);
}

static void application(session_t *session, job_t *job, zlink_status_t expected)
{
    assert_int_equal(zlink_session_serial_executor_execute_application(&session->executor, &job->turn, 10), expected);
}

static void control(session_t *session, job_t *job, zlink_status_t expected)
{
    assert_int_equal(zlink_session_serial_executor_execute_control(&session->executor, &job->turn), expected);
}

static void infrastructure(session_t *session, job_t *job, zlink_status_t expected)
{
    assert_int_equal(zlink_session_serial_executor_execute_infrastructure(&session->executor, &job->turn), expected);
}

static void final(session_t *session, job_t *job, zlink_status_t expected)
{
    assert_int_equal(zlink_session_serial_executor_execute_final(&session->executor, &job->turn), expected);
}

/* EX-96: four entry points, one queue; control and infrastructure overtake packets; final runs last, after close and
 * after a packet that waits. */
static void test_ex96_one_queue_and_final_last(void **state)
{
    desk_t desk;
    session_t session;
    job_t gate;
    job_t packets[3];
    job_t commands[2];
    job_t last;
    job_t more;

    (void)state;
    desk_open(&desk, 2, ZLINK_EXECUTION_INSTANCE, ZLINK_SPOT_WIDE);
    session_open(&session, &desk);
    application(&session, job_standing(&gate, &desk, 'g'), ZLINK_OK);
    zlink_test_wait(&gate.started);
    assert_false(zlink_session_serial_executor_is_current(&session.executor));
    final(&session, job_make(&last, &desk, 'z'), ZLINK_OK);
    final(&session, job_make(&more, &desk, 'y'), ZLINK_INVALID_OPERATION);
    application(&session, job_waiting(&packets[0], &desk, 'a', ZLINK_WAIT_ASYNC), ZLINK_OK);
    application(&session, job_waiting(&packets[1], &desk, 'b', ZLINK_WAIT_YIELD), ZLINK_OK);
    control(&session, job_make(&commands[0], &desk, 'c'), ZLINK_OK);
    infrastructure(&session, job_make(&commands[1], &desk, 'i'), ZLINK_OK);
    application(&session, job_make(&packets[2], &desk, 'd'), ZLINK_OK);
    assert_ptr_equal(packets[0].turn.queue, commands[0].turn.queue);
    assert_ptr_equal(packets[0].turn.queue, commands[1].turn.queue);
    sem_post(&gate.let_go);
    zlink_test_wait(&packets[0].started);
    zlink_session_serial_executor_close(&session.executor, session_closed);
    zlink_session_serial_executor_close(&session.executor, NULL);
    application(&session, &more, ZLINK_SHUTTING_DOWN);
    control(&session, &more, ZLINK_SHUTTING_DOWN);
    infrastructure(&session, &more, ZLINK_SHUTTING_DOWN);
    final(&session, &more, ZLINK_SHUTTING_DOWN);
    assert_int_equal(sem_trywait(&session.closed), -1);
    zlink_wait_complete(&packets[0].wait, ZLINK_OK);
    zlink_test_wait(&session.closed);
    assert_int_equal(packets[1].prepared, ZLINK_INVALID_OPERATION); /* sessions do not yield */
    assert_ptr_equal(last.turn.queue, packets[0].turn.queue);
    assert_string_equal(desk.notes, "gciaAbdz");
    assert_int_equal(atomic_load(&last.endings), 1);
    desk_close(&desk);
}

/* EX-96: final needs no room, and a session may be closed with and without one, idle or busy, from its own turn. */
static session_t *to_close;

static void closes(job_t *job)
{
    (void)job;
    zlink_session_serial_executor_close(&to_close->executor, session_closed);
}

static void test_ex96_final_has_a_place_of_its_own(void **state)
{
    desk_t desk;

    (void)state;
    desk_open(&desk, 2, ZLINK_EXECUTION_INSTANCE, ZLINK_SPOT_WIDE);
    desk.fixture.policy.lifecycle_message_capacity = 1;
    desk.fixture.policy.application_message_capacity = 1;
    for (unsigned variant = 0; variant < 80; variant++) {
        session_t session;
        job_t jobs[2];
        job_t more;
        job_t last;
        session_open(&session, &desk);
        to_close = &session;
        desk.count = 0;
        memset(desk.notes, 0, sizeof(desk.notes));
        if (variant & 1)
            final(&session, job_make(&last, &desk, 'z'), ZLINK_OK);
        if (variant & 2) {
            application(&session, job_standing(&jobs[0], &desk, 'a'), ZLINK_OK);
            zlink_test_wait(&jobs[0].started);
            job_make(&jobs[1], &desk, 'c')->before = variant & 4 ? closes : NULL;
            control(&session, &jobs[1], ZLINK_OK);
            application(&session, job_make(&more, &desk, 'x'), ZLINK_CAPACITY_EXCEEDED);
            control(&session, &more, ZLINK_CAPACITY_EXCEEDED);
            sem_post(&jobs[0].let_go);
        }
        if ((variant & 6) != 6)
            zlink_session_serial_executor_close(&session.executor, session_closed);
        zlink_test_wait(&session.closed);
        char expected[4];
        (void)snprintf(expected, sizeof(expected), "%s%s", variant & 2 ? "ac" : "", variant & 1 ? "z" : "");
        assert_string_equal(desk.notes, expected);
    }
    desk_close(&desk);
}

/* EX-94: a policy that is not valid is refused. */
static void test_ex94_a_bad_policy_is_refused(void **state)
{
    desk_t desk;
    session_t session;

    (void)state;
    desk_open(&desk, 1, ZLINK_EXECUTION_INSTANCE, ZLINK_SPOT_WIDE);
    desk.fixture.policy.lifecycle_burst_limit = 0;
    assert_int_equal(zlink_session_serial_executor_init(&session.executor, desk.fixture.pool, &desk.fixture.policy),
                     ZLINK_INVALID_OPERATION);
    desk_close(&desk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex96_one_queue_and_final_last),
        cmocka_unit_test(test_ex96_final_has_a_place_of_its_own),
        cmocka_unit_test(test_ex94_a_bad_policy_is_refused),
    };

    return zlink_test_main(tests);
}
