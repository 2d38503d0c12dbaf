/*
 * Calls that are given up from elsewhere: by another turn or thread, before they began, while they wait, and too late.
 */
#include "host_fixture.h"

static const how_t requests[] = {BY_ASYNC, BY_YIELD, BY_ASYNC_THEN, BY_YIELD_THEN};

/* What the script does: one call with a cancellation. */
typedef struct given {
    how_t how;
    const char *name;
    const char *id; /* NULL: a channel */
    script_t script;
    uint32_t timeout_ms;
    zlink_cancellation_t *cancellation;

    zlink_status_t status;
    _Atomic size_t ends;
    RunRes res;
} given_t;

static zlink_status_t given_ended(zlink_turn_t *turn, void *self, zlink_status_t status, void *context)
{
    given_t *given = context;

    (void)turn, (void)self;
    given->status = status;
    atomic_fetch_add(&given->ends, 1);
    return status;
}

static zlink_status_t script_given(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    given_t *given = context;
    const zlink_call_options_t options = {.timeout_ms = given->timeout_ms, .cancellation = given->cancellation};
    const RunReq request = {.script = (uintptr_t)given->script};
    const Note note = {.script = (uintptr_t)given->script};
    const zlink_ask_t ask = ZLINK_ASK_WITH(RunReq, &request, &options);
    const zlink_reply_t res = ZLINK_REPLY(RunRes, &given->res);
    zlink_status_t status = ZLINK_INTERNAL_FAILURE;

    (void)reply;
    switch (given->how) {
    case BY_ASYNC:
        status = given->id ? zlink_instance_spot_request_async(turn, given->name, given->id, ask, res)
                           : zlink_channel_request_async(turn, given->name, ask, res);
        break;
    case BY_YIELD:
        status = given->id ? zlink_instance_spot_request_yield(turn, given->name, given->id, ask, res)
                           : zlink_channel_request_yield(turn, given->name, ask, res);
        break;
    case BY_ASYNC_THEN:
        status = given->id ? zlink_instance_spot_request_async_then(turn, given->name, given->id, ask, res, given_ended,
                                                                    given)
                           : zlink_channel_request_async_then(turn, given->name, ask, res, given_ended, given);
        break;
    case BY_YIELD_THEN:
        status = given->id ? zlink_instance_spot_request_yield_then(turn, given->name, given->id, ask, res, given_ended,
                                                                    given)
                           : zlink_channel_request_yield_then(turn, given->name, ask, res, given_ended, given);
        break;
    default:
        status = given->id
                     ? zlink_instance_spot_send(turn, given->name, given->id, ZLINK_ASK_WITH(Note, &note, &options))
                     : zlink_channel_send(turn, given->name, ZLINK_ASK_WITH(Note, &note, &options));
        break;
    }
    if ((given->how == BY_ASYNC_THEN || given->how == BY_YIELD_THEN) && status == ZLINK_OK)
        return ZLINK_OK; /* given_ended comes */
    return given_ended(turn, self, status, given);
}

/* EX-58: what was cancelled before it began starts nothing, here or away, in any form; what is wrong with the call
 * itself is told first. */
static void test_ex58_a_cancelled_call_starts_nothing(void **state)
{
    host_fixture_t fixture;
    int32_t value;

    (void)state;
    host_open(&fixture, 2);
    zlink_cancellation_t *cancellation = zlink_cancellation_create();
    assert_false(zlink_cancellation_is_cancelled(cancellation));
    zlink_cancellation_cancel(cancellation);
    zlink_cancellation_cancel(cancellation);
    assert_true(zlink_cancellation_is_cancelled(cancellation));
    for (size_t i = 0; i <= 4; i++) {
        const how_t how = i < 4 ? requests[i] : BY_SEND;
        given_t here = {.how = how, .name = "plain", .id = "b", .script = script_count, .cancellation = cancellation};
        given_t channel = {.how = how, .name = "side", .script = script_count, .cancellation = cancellation};
        given_t away = {.how = how, .name = "far", .cancellation = cancellation};
        given_t wrong = {.how = how, .name = "", .cancellation = cancellation};
        host_ask(&fixture, "plain", "a", script_given, &here, NULL);
        host_ask(&fixture, "plain", "a", script_given, &channel, NULL);
        host_ask(&fixture, "plain", "a", script_given, &away, NULL);
        host_ask(&fixture, "plain", "a", script_given, &wrong, NULL);
        assert_int_equal(here.status, ZLINK_CANCELLED);
        assert_int_equal(channel.status, ZLINK_CANCELLED);
        assert_int_equal(away.status, ZLINK_CANCELLED);
        assert_int_equal(wrong.status, ZLINK_INVALID_OPERATION);
    }
    assert_int_equal(atomic_load(&fixture.away.submitted), 0);
    assert_int_equal(host_ask(&fixture, "plain", "b", script_count, NULL, &value), ZLINK_OK);
    assert_int_equal(value, 1); /* nobody was there before */
    assert_int_equal(host_ask(&fixture, "side", NULL, script_count, NULL, &value), ZLINK_OK);
    assert_int_equal(value, 1);
    zlink_cancellation_destroy(cancellation);
    host_stop(&fixture);
}

/* EX-53: cancelled, out of time and shutting down are three values, none of which is another kind's. The handler that
 * gave up goes on with its turn; what it returns of it is an InternalFailure to its caller. */
static void test_ex53_a_waiting_call_is_cancelled(void **state)
{
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 2);
    for (size_t i = 0; i < 4; i++) {
        given_t away = {.how = requests[i], .name = "far"};
        given_t late = {.how = requests[i], .name = "far", .timeout_ms = 50};
        outside_t outside;
        away.cancellation = late.cancellation = zlink_cancellation_create();
        away_set(&fixture, AWAY_HOLDS, ZLINK_OK);
        const size_t before = atomic_load(&fixture.away.submitted);
        assert_int_equal(outside_submit(&fixture, &outside, "plain", "a", script_given, &away), ZLINK_OK);
        host_wait_for(&fixture.away.submitted, before + 1);
        /* The call enters right after it was submitted: cancelled earlier or later, it ends the same way. */
        zlink_cancellation_cancel(away.cancellation);
        assert_int_equal(outside_wait(&outside), ZLINK_INTERNAL_FAILURE);
        assert_int_equal(away.status, ZLINK_CANCELLED);
        assert_int_equal(atomic_load(&away.ends), 1);
        zlink_cancellation_destroy(away.cancellation);

        away_set(&fixture, AWAY_FAILS, ZLINK_DEADLINE_EXCEEDED);
        late.cancellation = NULL;
        host_ask(&fixture, "plain", "a", script_given, &late, NULL);
        assert_int_equal(late.status, ZLINK_DEADLINE_EXCEEDED);
        assert_true(fixture.away.seen.deadline_ms == zlink_clock_now_ms(&fixture.exec.clock) + 50);
    }
    assert_true(ZLINK_CANCELLED > ZLINK_STATUS_COUNT);
    assert_string_equal(zlink_status_name(ZLINK_CANCELLED), "Cancelled");
    host_stop(&fixture);
}

/* EX-59: a call that is cancelled while it stands in a queue of this node never gets to its handler. */
static void test_ex59_what_is_queued_here_is_dropped(void **state)
{
    host_fixture_t fixture;
    int32_t value;

    (void)state;
    host_open(&fixture, 2);
    for (size_t i = 0; i < 4; i++) {
        given_t queued = {.how = requests[i], .name = "plain", .id = "b", .script = script_count};
        outside_t holder, outside;
        queued.cancellation = zlink_cancellation_create();
        away_set(&fixture, AWAY_HOLDS, ZLINK_OK);
        const size_t before = atomic_load(&fixture.away.submitted);
        assert_int_equal(outside_submit(&fixture, &holder, "plain", "b", script_hold, NULL), ZLINK_OK);
        host_wait_for(&fixture.away.submitted, before + 1);
        assert_int_equal(outside_submit(&fixture, &outside, "plain", "a", script_given, &queued), ZLINK_OK);
        while (atomic_load(&fixture.host->live) < 3)
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        zlink_cancellation_cancel(queued.cancellation);
        assert_int_equal(outside_wait(&outside), ZLINK_INTERNAL_FAILURE);
        assert_int_equal(queued.status, ZLINK_CANCELLED);
        away_set(&fixture, AWAY_ANSWERS, ZLINK_OK);
        assert_int_equal(outside_wait(&holder), ZLINK_OK);
        zlink_cancellation_destroy(queued.cancellation);
    }
    assert_int_equal(host_ask(&fixture, "plain", "b", script_count, NULL, &value), ZLINK_OK);
    assert_int_equal(value, 1);
    host_stop(&fixture);
}

/* EX-57: what has ended is not changed, and a message that was taken is delivered. */
static void test_ex57_too_late_changes_nothing(void **state)
{
    host_fixture_t fixture;
    int32_t value;

    (void)state;
    host_open(&fixture, 2);
    for (size_t i = 0; i < 4; i++) {
        given_t here = {.how = requests[i], .name = "plain", .id = "b", .script = script_count};
        given_t away = {.how = requests[i], .name = "far"};
        given_t sent = {.how = BY_SEND, .name = "plain", .id = "c", .script = script_count};
        zlink_cancellation_t *cancellation = zlink_cancellation_create();
        here.cancellation = away.cancellation = sent.cancellation = cancellation;
        assert_int_equal(host_ask(&fixture, "plain", "a", script_given, &here, NULL), ZLINK_OK);
        assert_int_equal(host_ask(&fixture, "plain", "a", script_given, &away, NULL), ZLINK_OK);
        assert_int_equal(host_ask(&fixture, "plain", "a", script_given, &sent, NULL), ZLINK_OK);
        zlink_cancellation_cancel(cancellation);
        assert_int_equal(here.status, ZLINK_OK);
        assert_int_equal(here.res.value, (int32_t)i + 1);
        assert_int_equal(away.res.value, 42);
        assert_int_equal(atomic_load(&here.ends) + atomic_load(&away.ends) + atomic_load(&sent.ends), 3);
        zlink_cancellation_destroy(cancellation);
    }
    assert_int_equal(host_ask(&fixture, "plain", "c", script_count, NULL, &value), ZLINK_OK);
    assert_int_equal(value, 5);
    assert_int_equal(atomic_load(&fixture.away.cancelled), 0);
    host_stop(&fixture);
}

/* Destroying gives nothing up: the call holds what it was made with. */
static void test_destroying_is_not_cancelling(void **state)
{
    given_t away = {.how = BY_YIELD, .name = "far"};
    host_fixture_t fixture;
    outside_t outside;

    (void)state;
    host_open(&fixture, 2);
    away.cancellation = zlink_cancellation_create();
    away_set(&fixture, AWAY_HOLDS, ZLINK_OK);
    assert_int_equal(outside_submit(&fixture, &outside, "plain", "a", script_given, &away), ZLINK_OK);
    host_wait_for(&fixture.away.submitted, 1);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_count, NULL, NULL), ZLINK_OK); /* it waits by now */
    zlink_cancellation_destroy(away.cancellation);
    away_set(&fixture, AWAY_ANSWERS, ZLINK_OK);
    assert_int_equal(outside_wait(&outside), ZLINK_OK);
    assert_int_equal(away.res.value, 42);
    host_stop(&fixture);
}

/* EX-48: answers and cancellations at the same time: each call ends once, with one of the two. */
static void *cancel_all(void *context)
{
    zlink_cancellation_cancel(context);
    return NULL;
}

static void test_ex48_answer_and_cancellation_compete(void **state)
{
    enum { ROUNDS = 300, CALLS = 8 };
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 2);
    for (size_t round = 0; round < ROUNDS; round++) {
        zlink_cancellation_t *cancellation = zlink_cancellation_create();
        given_t given[CALLS];
        outside_t outside[CALLS];
        pthread_t thread;
        memset(given, 0, sizeof(given));
        for (size_t i = 0; i < CALLS; i++) {
            given[i] = (given_t){.how = requests[i % 4], .name = "far", .cancellation = cancellation};
            if (i >= CALLS / 2) {
                given[i].name = "plain";
                given[i].id = "b";
                given[i].script = script_count;
            }
            assert_int_equal(outside_submit(&fixture, &outside[i], "plain", i % 2 ? "a" : "c", script_given, &given[i]),
                             ZLINK_OK);
        }
        assert_int_equal(pthread_create(&thread, NULL, cancel_all, cancellation), 0);
        for (size_t i = 0; i < CALLS; i++) {
            const zlink_status_t status = outside_wait(&outside[i]);
            assert_int_equal(status == ZLINK_OK ? ZLINK_OK : ZLINK_CANCELLED, given[i].status);
            assert_int_equal(atomic_load(&given[i].ends), 1);
        }
        pthread_join(thread, NULL);
        zlink_cancellation_destroy(cancellation);
    }
    host_stop(&fixture);
}

static void test_no_memory_for_a_cancellation(void **state)
{
    (void)state;
    zlink_memory_fail_after(0);
    assert_null(zlink_cancellation_create());
    zlink_memory_fail_after(-1);
    zlink_cancellation_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex58_a_cancelled_call_starts_nothing),
        cmocka_unit_test(test_ex53_a_waiting_call_is_cancelled),
        cmocka_unit_test(test_ex59_what_is_queued_here_is_dropped),
        cmocka_unit_test(test_ex57_too_late_changes_nothing),
        cmocka_unit_test(test_destroying_is_not_cancelling),
        cmocka_unit_test(test_ex48_answer_and_cancellation_compete),
        cmocka_unit_test(test_no_memory_for_a_cancellation),
    };

    zlink_log_set_level(ZLINK_LOG_OFF);
    return zlink_test_main(tests);
}
