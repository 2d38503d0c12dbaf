/*
 * Calls that handlers make, within the node and away from it: every form, every end, and what is refused before
 * anything left.
 */
#include "host_fixture.h"

static const how_t requests[] = {BY_ASYNC, BY_YIELD, BY_ASYNC_THEN, BY_YIELD_THEN};

/* ---- the forms ---- */

static void test_a_spot_asks_a_spot_a_channel_and_another_node(void **state)
{
    host_fixture_t fixture;
    int32_t value;

    (void)state;
    host_open(&fixture, 2);
    for (size_t i = 0; i < 4; i++) {
        inner_t spot = {.how = requests[i], .name = "living", .id = "b", .script = script_count};
        inner_t channel = {.how = requests[i], .name = "side", .script = script_count};
        inner_t away = {.how = requests[i], .name = "far"};
        inner_t foreign = {.how = requests[i], .name = "foreign", .id = "f"};
        assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &spot, &value), ZLINK_OK);
        assert_int_equal(value, (int32_t)i + 1);
        assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &channel, &value), ZLINK_OK);
        assert_int_equal(value, (int32_t)i + 1);
        assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &away, &value), ZLINK_OK);
        assert_int_equal(value, 42);
        assert_int_equal(fixture.away.seen.route, ZLINK_ROUTE_CHANNEL);
        assert_int_equal(fixture.away.seen.target, ZLINK_TARGET_CHANNEL);
        assert_false(fixture.away.seen.one_way || fixture.away.seen.exclude_local);
        assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &foreign, &value), ZLINK_OK);
        assert_int_equal(value, 42);
        assert_int_equal(fixture.away.seen.route, ZLINK_ROUTE_NODE);
        assert_int_equal(fixture.away.seen.target, ZLINK_TARGET_INSTANCE_SPOT);
        assert_string_equal(fixture.away.seen.node, "there");
        assert_true(fixture.away.seen.deadline_ms == zlink_clock_now_ms(&fixture.exec.clock) + 5000);
        assert_int_equal(atomic_load(&spot.ends) + atomic_load(&channel.ends) + atomic_load(&away.ends) +
                             atomic_load(&foreign.ends),
                         4);
    }
    host_stop(&fixture);
}

static void test_one_way_messages(void **state)
{
    inner_t spot = {.how = BY_SEND, .name = "plain", .id = "b", .script = script_count};
    inner_t channel = {.how = BY_SEND, .name = "side", .script = script_count};
    inner_t away = {.how = BY_SEND, .name = "far", .timeout_ms = 70};
    host_fixture_t fixture;
    int32_t value;

    (void)state;
    host_open(&fixture, 2);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &spot, NULL), ZLINK_OK);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &channel, NULL), ZLINK_OK);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &away, NULL), ZLINK_OK);
    assert_true(fixture.away.seen.one_way);
    assert_true(fixture.away.seen.deadline_ms == zlink_clock_now_ms(&fixture.exec.clock) + 70);
    assert_int_equal(host_ask(&fixture, "plain", "b", script_count, NULL, &value), ZLINK_OK);
    assert_int_equal(value, 2);
    away_set(&fixture, AWAY_FAILS, ZLINK_DEADLINE_EXCEEDED);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &away, NULL), ZLINK_DEADLINE_EXCEEDED);
    host_stop(&fixture);
}

/* EX-41: a message that this node has taken is not waited for, and what becomes of it later changes nothing. A channel
 * that this node serves, too, is left to the mesh, which may pick this node. */
static void test_ex41_a_taken_message_is_not_waited_for(void **state)
{
    inner_t away = {.how = BY_SEND, .name = "far"};
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 2);
    atomic_store(&fixture.away.takes, true);
    away_set(&fixture, AWAY_HOLDS, ZLINK_OK);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &away, NULL), ZLINK_OK);
    assert_int_equal(atomic_load(&fixture.away.submitted), 3);
    away_set(&fixture, AWAY_FAILS, ZLINK_UNAVAILABLE);
    host_stop(&fixture);
}

/* EX-24: a message to oneself runs once, after the handler that sent it. */
static zlink_status_t script_send_to_self(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    inner_t message = {.how = BY_SEND, .name = "plain", .id = "a", .script = script_count};
    spot_state_t *state = self;

    (void)context;
    zlink_check(inner_call(turn, &message, NULL) == ZLINK_OK);
    reply->value = state->value; /* not yet */
    return ZLINK_OK;
}

static void test_ex24_a_message_to_oneself_runs_later(void **state)
{
    host_fixture_t fixture;
    int32_t value;

    (void)state;
    host_open(&fixture, 2);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_send_to_self, NULL, &value), ZLINK_OK);
    assert_int_equal(value, 0);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_count, NULL, &value), ZLINK_OK);
    assert_int_equal(value, 2);
    host_stop(&fixture);
}

/* ---- what yield gives back ---- */

typedef struct order {
    host_fixture_t *fixture;
    inner_t call;
    int32_t before, after;
} order_t;

static zlink_status_t script_note_values(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    spot_state_t *state = self;
    order_t *order = context;

    order->before = state->value;
    zlink_status_t status = inner_call(turn, &order->call, reply);
    order->after = state->value;
    return status;
}

static void test_async_keeps_the_gate_and_yield_gives_it_back(void **state)
{
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 2);
    for (int yields = 0; yields < 2; yields++) {
        order_t order = {.call = {.how = yields ? BY_YIELD : BY_ASYNC, .name = "far"}};
        outside_t waiter, other;
        away_set(&fixture, AWAY_HOLDS, ZLINK_OK);
        const size_t before = atomic_load(&fixture.away.submitted);
        assert_int_equal(outside_submit(&fixture, &waiter, "plain", "a", script_note_values, &order), ZLINK_OK);
        host_wait_for(&fixture.away.submitted, before + 1);
        assert_int_equal(outside_submit(&fixture, &other, "plain", "a", script_count, NULL), ZLINK_OK);
        if (yields)
            assert_int_equal(outside_wait(&other), ZLINK_OK);
        else
            assert_int_equal(host_ask(&fixture, "plain", "elsewhere", script_count, NULL, NULL), ZLINK_OK);
        away_set(&fixture, AWAY_ANSWERS, ZLINK_OK);
        assert_int_equal(outside_wait(&waiter), ZLINK_OK);
        assert_int_equal(order.after, order.before + yields);
        if (!yields)
            assert_int_equal(outside_wait(&other), ZLINK_OK);
    }
    host_stop(&fixture);
}

/* ---- EX-23, EX-24, EX-102: refused before anything leaves ---- */

/* EX-24: a request to oneself, or to what stands behind one's own gate, that would keep the gate. */
static void test_ex24_a_wait_for_oneself_is_refused(void **state)
{
    inner_t self_async = {.how = BY_ASYNC, .name = "plain", .id = "a", .script = script_count};
    inner_t self_then = {.how = BY_ASYNC_THEN, .name = "plain", .id = "a", .script = script_count};
    inner_t channel_async = {.how = BY_ASYNC, .name = "side", .script = script_count};
    inner_t channel_then = {.how = BY_ASYNC_THEN, .name = "side", .script = script_count};
    host_fixture_t fixture;
    int32_t value;

    (void)state;
    host_open(&fixture, 2);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &self_async, NULL), ZLINK_INVALID_OPERATION);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &self_then, NULL), ZLINK_INVALID_OPERATION);
    assert_int_equal(host_ask(&fixture, "side", NULL, script_call, &channel_async, NULL), ZLINK_INVALID_OPERATION);
    assert_int_equal(host_ask(&fixture, "side", NULL, script_call, &channel_then, NULL), ZLINK_INVALID_OPERATION);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_count, NULL, &value), ZLINK_OK);
    assert_int_equal(value, 1); /* none of them ran */
    assert_int_equal(host_ask(&fixture, "side", NULL, script_count, NULL, &value), ZLINK_OK);
    assert_int_equal(value, 1);
    /* The same id of another type is somebody else. */
    inner_t other_type = {.how = BY_ASYNC, .name = "living", .id = "a", .script = script_count};
    assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &other_type, &value), ZLINK_OK);
    assert_int_equal(atomic_load(&fixture.away.submitted), 0);
    host_stop(&fixture);
}

/* EX-102: giving the gate back for a request to the own Spot is allowed. */
static void test_ex102_yield_to_the_own_spot_is_allowed(void **state)
{
    host_fixture_t fixture;
    int32_t value;

    (void)state;
    host_open(&fixture, 2);
    for (size_t i = 0; i < 2; i++) {
        inner_t call = {.how = i ? BY_YIELD_THEN : BY_YIELD, .name = "plain", .id = "a", .script = script_count};
        assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &call, &value), ZLINK_OK);
        assert_int_equal(value, (int32_t)i + 1);
    }
    host_stop(&fixture);
}

/* EX-24: while another node serves the channel too, the caller's own part of it is left out. */
static void test_ex24_a_channel_that_is_served_elsewhere_too(void **state)
{
    inner_t call = {.how = BY_ASYNC, .name = "side"};
    inner_t from_spot = {.how = BY_ASYNC, .name = "side"};
    host_fixture_t fixture;
    int32_t value;

    (void)state;
    host_open(&fixture, 2);
    atomic_store(&zlink_application_host_find_channel(fixture.host, "side")->remote_members, 1);
    assert_int_equal(host_ask(&fixture, "side", NULL, script_call, &call, &value), ZLINK_OK);
    assert_int_equal(value, 42);
    assert_true(fixture.away.seen.exclude_local);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &from_spot, &value), ZLINK_OK);
    assert_false(fixture.away.seen.exclude_local);
    host_stop(&fixture);
}

/* TR-38: a channel of ClientServer that this node only serves is not configured to be called from here: nothing is
 * sent.
 */
static void test_tr38_a_channel_without_the_client_role(void **state)
{
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 2);
    for (size_t i = 0; i < 4; i++) {
        inner_t request = {.how = requests[i], .name = "served"};
        assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &request, NULL), ZLINK_NOT_CONFIGURED);
    }
    inner_t message = {.how = BY_SEND, .name = "served"};
    assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &message, NULL), ZLINK_NOT_CONFIGURED);
    assert_int_equal(atomic_load(&fixture.away.submitted), 0);
    inner_t called = {.how = BY_ASYNC, .name = "called"};
    assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &called, NULL), ZLINK_OK);
    assert_int_equal(atomic_load(&fixture.away.submitted), 1);
    host_stop(&fixture);
}

/* TR-37: a server of this node is no short cut in ClientServer, and no way out for a handler that keeps it busy. */
static void test_tr37_the_own_server_is_called_like_any(void **state)
{
    inner_t call = {.how = BY_ASYNC, .name = "desk"};
    host_fixture_t fixture;
    int32_t value;

    (void)state;
    host_open(&fixture, 2);
    fixture.away.client_server = true;
    assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &call, &value), ZLINK_OK);
    assert_int_equal(value, 42);
    assert_false(fixture.away.seen.exclude_local);
    assert_int_equal(host_ask(&fixture, "desk", NULL, script_call, &call, &value), ZLINK_OK);
    assert_true(fixture.away.seen.exclude_local);
    assert_int_equal(atomic_load(&fixture.away.submitted), 2);
    host_stop(&fixture);
}

/* EX-23: yield in a channel's handler has no remote effect. */
static void test_ex23_channels_do_not_yield(void **state)
{
    static const how_t yields[] = {BY_YIELD, BY_YIELD_THEN};
    host_fixture_t fixture;
    int32_t value;

    (void)state;
    host_open(&fixture, 2);
    for (size_t i = 0; i < 2; i++) {
        inner_t away = {.how = yields[i], .name = "far"};
        inner_t spot = {.how = yields[i], .name = "plain", .id = "a", .script = script_count};
        assert_int_equal(host_ask(&fixture, "side", NULL, script_call, &away, NULL), ZLINK_INVALID_OPERATION);
        assert_int_equal(host_ask(&fixture, "side", NULL, script_call, &spot, NULL), ZLINK_INVALID_OPERATION);
    }
    assert_int_equal(atomic_load(&fixture.away.submitted), 0);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_count, NULL, &value), ZLINK_OK);
    assert_int_equal(value, 1);
    host_stop(&fixture);
}

static zlink_status_t calls_in_callback(zlink_turn_t *turn)
{
    inner_t yields = {.how = BY_YIELD, .name = "far"};
    inner_t then = {.how = BY_YIELD_THEN, .name = "far"};
    inner_t asks = {.how = BY_ASYNC, .name = "far"};

    zlink_check(inner_call(turn, &yields, NULL) == ZLINK_INVALID_OPERATION);
    zlink_check(inner_call(turn, &then, NULL) == ZLINK_INVALID_OPERATION);
    zlink_check(inner_call(turn, &asks, NULL) == ZLINK_OK && asks.value == 42);
    return ZLINK_OK;
}

static zlink_status_t creating_calls(zlink_turn_t *turn, void *self)
{
    (void)self;
    return calls_in_callback(turn);
}

static void closing_calls(zlink_turn_t *turn, void *self)
{
    (void)self;
    zlink_check(calls_in_callback(turn) == ZLINK_OK);
}

/* EX-23: lifecycle callbacks may wait, holding their turn, but not yield. */
static void test_ex23_lifecycle_callbacks_do_not_yield(void **state)
{
    host_fixture_t fixture;

    (void)state;
    host_init(&fixture, 2);
    host_hooks.on_create = creating_calls;
    host_hooks.on_start = creating_calls;
    host_hooks.on_closing = closing_calls;
    host_hooks.on_channel_closing = closing_calls;
    host_start(&fixture);
    assert_int_equal(host_ask(&fixture, "living", "a", script_count, NULL, NULL), ZLINK_OK);
    host_stop(&fixture);
    assert_int_equal(atomic_load(&fixture.away.submitted), 4);
    assert_int_equal(atomic_load(&host_hooks.closing), 1);
    assert_int_equal(atomic_load(&host_hooks.channels_closing), 1);
}

/* ---- bad arguments and unknown targets ---- */

static zlink_status_t script_bad_arguments(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    char long_name[300];
    RunReq request = RunReq_init_zero;
    RunRes res = RunRes_init_zero;
    const zlink_ask_t ask = ZLINK_ASK(RunReq, &request);
    const zlink_reply_t out = ZLINK_REPLY(RunRes, &res);
    const zlink_status_t no = ZLINK_INVALID_OPERATION;
    zlink_ask_t bad = ask;

    (void)self, (void)context, (void)reply;
    memset(long_name, 'x', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = '\0';
    zlink_check(zlink_channel_request_async(NULL, "far", ask, out) == no);
    zlink_check(zlink_channel_request_async(turn, NULL, ask, out) == no);
    zlink_check(zlink_channel_request_async(turn, "", ask, out) == no);
    zlink_check(zlink_channel_request_async(turn, "a\nb", ask, out) == no);
    zlink_check(zlink_channel_request_async(turn, long_name, ask, out) == no);
    zlink_check(zlink_instance_spot_request_async(turn, "foreign", NULL, ask, out) == no);
    zlink_check(zlink_instance_spot_request_async(turn, "foreign", "", ask, out) == no);
    zlink_check(zlink_instance_spot_request_async(turn, "foreign", "\xc3", ask, out) == no);
    zlink_check(zlink_instance_spot_send(turn, "foreign", long_name, ask) == no);
    bad.message = NULL;
    zlink_check(zlink_channel_request_async(turn, "far", bad, out) == no);
    bad = ask;
    bad.timeout_ms = (uint32_t)INT32_MAX + 1u;
    zlink_check(zlink_channel_send(turn, "far", bad) == no);
    zlink_check(zlink_channel_request_yield(turn, "far", ask, (zlink_reply_t){out.type, NULL}) == no);
    zlink_check(zlink_channel_request_async_then(turn, "far", ask, out, NULL, NULL) == no);
    zlink_check(zlink_instance_spot_request_yield_then(turn, "foreign", "x", ask, out, NULL, NULL) == no);
    return ZLINK_OK;
}

typedef struct strange_thread {
    zlink_turn_t *turn;
    zlink_status_t status;
    void *memory;
} strange_thread_t;

static void *call_elsewhere(void *context)
{
    strange_thread_t *strange = context;
    RunReq request = RunReq_init_zero;
    RunRes res = RunRes_init_zero;

    strange->status =
        zlink_channel_request_async(strange->turn, "far", ZLINK_ASK(RunReq, &request), ZLINK_REPLY(RunRes, &res));
    strange->memory = zlink_turn_alloc(strange->turn, 8);
    return NULL;
}

static zlink_status_t script_gives_its_turn_away(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    strange_thread_t strange = {.turn = turn};
    pthread_t thread;

    (void)self, (void)context, (void)reply;
    zlink_check(pthread_create(&thread, NULL, call_elsewhere, &strange) == 0);
    pthread_join(thread, NULL);
    zlink_check(strange.memory == NULL);
    return strange.status;
}

static void test_bad_arguments_and_strange_threads(void **state)
{
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 2);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_bad_arguments, NULL, NULL), ZLINK_OK);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_gives_its_turn_away, NULL, NULL), ZLINK_INVALID_OPERATION);
    assert_int_equal(atomic_load(&fixture.away.submitted), 0);
    host_stop(&fixture);
}

static zlink_status_t script_unheard(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    Unheard unheard = Unheard_init_zero;
    RunRes res = RunRes_init_zero;

    (void)self, (void)context, (void)reply;
    zlink_check(zlink_channel_send(turn, "side", ZLINK_ASK(Unheard, &unheard)) == ZLINK_NOT_FOUND);
    /* RunReq is known to the Spot as a request, not as a message. */
    RunReq request = RunReq_init_zero;
    zlink_check(zlink_instance_spot_send(turn, "plain", "b", ZLINK_ASK(RunReq, &request)) == ZLINK_NOT_FOUND);
    zlink_check(zlink_instance_spot_request_async(turn, "nowhere", "b", ZLINK_ASK(RunReq, &request),
                                                  ZLINK_REPLY(RunRes, &res)) == ZLINK_NOT_FOUND);
    return zlink_instance_spot_request_async(turn, "plain", "b", ZLINK_ASK(Unheard, &unheard),
                                             ZLINK_REPLY(RunRes, &res));
}

static void test_what_nobody_handles_is_not_found(void **state)
{
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 2);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_unheard, NULL, NULL), ZLINK_NOT_FOUND);
    host_stop(&fixture);
}

/* ---- answers ---- */

static zlink_status_t script_expects_another_type(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    RunReq request = RunReq_init_zero;
    OtherRes other = OtherRes_init_zero;

    (void)self, (void)context, (void)reply;
    return zlink_instance_spot_request_yield(turn, "plain", "b", ZLINK_ASK(RunReq, &request),
                                             ZLINK_REPLY(OtherRes, &other));
}

static void test_a_reply_of_another_type_or_of_no_sense(void **state)
{
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 2);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_expects_another_type, NULL, NULL), ZLINK_PROTOCOL_ERROR);
    for (size_t i = 0; i < 4; i++) {
        inner_t call = {.how = requests[i], .name = "far"};
        away_set(&fixture, AWAY_ANSWERS_WITH_ANOTHER_TYPE, ZLINK_OK);
        assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &call, NULL), ZLINK_PROTOCOL_ERROR);
        away_set(&fixture, AWAY_ANSWERS_GARBAGE, ZLINK_OK);
        assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &call, NULL), ZLINK_PROTOCOL_ERROR);
        away_set(&fixture, AWAY_FAILS, ZLINK_TYPE_MISMATCH);
        assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &call, NULL), ZLINK_TYPE_MISMATCH);
        assert_int_equal(atomic_load(&call.ends), 3);
        inner_t local = {.how = requests[i], .name = "side", .script = script_fail};
        assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &local, NULL), ZLINK_DATA_LOST);
    }
    host_stop(&fixture);
}

static zlink_status_t script_large(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    RunReq *request = zlink_turn_alloc(turn, sizeof(*request));
    RunRes *res = zlink_turn_alloc(turn, sizeof(*res));

    (void)self;
    zlink_check(request && res);
    request->script = (uintptr_t)context;
    request->filling.size = sizeof(request->filling.bytes);
    memset(request->filling.bytes, 'r', request->filling.size);
    zlink_status_t status =
        zlink_channel_request_async(turn, "side", ZLINK_ASK(RunReq, request), ZLINK_REPLY(RunRes, res));
    reply->value = (int32_t)res->filling.size;
    return status;
}

static zlink_status_t script_fills(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    (void)turn, (void)self, (void)context;
    reply->filling.size = sizeof(reply->filling.bytes);
    memset(reply->filling.bytes, 'p', reply->filling.size);
    return ZLINK_OK;
}

static void test_large_messages_and_their_limit(void **state)
{
    host_fixture_t fixture;
    int32_t value;

    (void)state;
    host_init(&fixture, 2);
    fixture.options.message_bytes_max = 5000;
    host_start(&fixture);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_large, (void *)(uintptr_t)script_fills, &value), ZLINK_OK);
    assert_int_equal(value, 4096);
    host_stop(&fixture);

    host_init(&fixture, 2);
    fixture.options.message_bytes_max = 2000;
    host_start(&fixture);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_large, NULL, NULL), ZLINK_PROTOCOL_ERROR);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_fills, NULL, NULL), ZLINK_PROTOCOL_ERROR);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_count, NULL, NULL), ZLINK_OK);
    host_stop(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_spot_asks_a_spot_a_channel_and_another_node),
        cmocka_unit_test(test_one_way_messages),
        cmocka_unit_test(test_ex41_a_taken_message_is_not_waited_for),
        cmocka_unit_test(test_ex24_a_message_to_oneself_runs_later),
        cmocka_unit_test(test_async_keeps_the_gate_and_yield_gives_it_back),
        cmocka_unit_test(test_ex24_a_wait_for_oneself_is_refused),
        cmocka_unit_test(test_ex102_yield_to_the_own_spot_is_allowed),
        cmocka_unit_test(test_ex24_a_channel_that_is_served_elsewhere_too),
        cmocka_unit_test(test_tr38_a_channel_without_the_client_role),
        cmocka_unit_test(test_tr37_the_own_server_is_called_like_any),
        cmocka_unit_test(test_ex23_channels_do_not_yield),
        cmocka_unit_test(test_ex23_lifecycle_callbacks_do_not_yield),
        cmocka_unit_test(test_bad_arguments_and_strange_threads),
        cmocka_unit_test(test_what_nobody_handles_is_not_found),
        cmocka_unit_test(test_a_reply_of_another_type_or_of_no_sense),
        cmocka_unit_test(test_large_messages_and_their_limit),
    };
    zlink_log_set_level(ZLINK_LOG_OFF);
    return zlink_test_main(tests);
}
