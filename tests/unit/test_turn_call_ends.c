/*
 * Calls that handlers make, and what goes wrong on their way: time, failing handlers, missing memory, many at once.
 */
#include "host_fixture.h"

static const how_t requests[] = {BY_ASYNC, BY_YIELD, BY_ASYNC_THEN, BY_YIELD_THEN};

/* ---- deadlines ---- */

static void test_a_deadline_and_the_late_answer(void **state)
{
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 2);
    for (size_t i = 0; i < 4; i++) {
        /* "b" is held up by a call that does not come back, so "a" waits in vain. */
        inner_t call = {.how = requests[i], .name = "plain", .id = "b", .script = script_count, .timeout_ms = 300};
        outside_t holder, caller;
        int32_t before, after;
        assert_int_equal(host_ask(&fixture, "plain", "b", script_count, NULL, &before), ZLINK_OK);
        away_set(&fixture, AWAY_HOLDS, ZLINK_OK);
        const size_t submitted = atomic_load(&fixture.away.submitted);
        assert_int_equal(outside_submit(&fixture, &holder, "plain", "b", script_hold, NULL), ZLINK_OK);
        host_wait_for(&fixture.away.submitted, submitted + 1);
        assert_int_equal(outside_submit(&fixture, &caller, "plain", "a", script_call, &call), ZLINK_OK);
        /* The call's deadline is taken when the handler runs; only then may the clock move. */
        while (atomic_load(&fixture.host->live) < 3)
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        zlink_exec_fixture_advance(&fixture.exec, 299);
        assert_int_equal(atomic_load(&call.ends), 0);
        zlink_exec_fixture_advance(&fixture.exec, 1);
        assert_int_equal(outside_wait(&caller), ZLINK_DEADLINE_EXCEEDED);
        away_set(&fixture, AWAY_ANSWERS, ZLINK_OK);
        assert_int_equal(outside_wait(&holder), ZLINK_OK);
        assert_int_equal(host_ask(&fixture, "plain", "b", script_count, NULL, &after), ZLINK_OK);
        assert_int_equal(after, before + 1); /* its time was over before its turn came: it was not handled */
        assert_int_equal(atomic_load(&call.ends), 1);
    }
    host_stop(&fixture);
}

static zlink_status_t script_wait_and_count(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    inner_t away = {.how = BY_ASYNC, .name = "far"};

    zlink_check(inner_call(turn, &away, NULL) == ZLINK_OK);
    zlink_check(zlink_turn_remaining_ms(turn) == 0);
    return script_count(turn, self, context, reply);
}

/* The callee has begun: it ends its work, and its answer finds nobody. */
static void test_an_answer_after_the_deadline_harms_nobody(void **state)
{
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 2);
    for (size_t i = 0; i < 4; i++) {
        inner_t call = {
            .how = requests[i], .name = "plain", .id = "b", .script = script_wait_and_count, .timeout_ms = 300};
        outside_t caller;
        int32_t value;
        away_set(&fixture, AWAY_HOLDS, ZLINK_OK);
        const size_t submitted = atomic_load(&fixture.away.submitted);
        assert_int_equal(outside_submit(&fixture, &caller, "plain", "a", script_call, &call), ZLINK_OK);
        host_wait_for(&fixture.away.submitted, submitted + 1);
        zlink_exec_fixture_advance(&fixture.exec, 300);
        assert_int_equal(outside_wait(&caller), ZLINK_DEADLINE_EXCEEDED);
        away_set(&fixture, AWAY_ANSWERS, ZLINK_OK);
        assert_int_equal(host_ask(&fixture, "plain", "b", script_count, NULL, &value), ZLINK_OK);
        assert_int_equal(value, 2 * (int32_t)i + 2);
        assert_int_equal(atomic_load(&call.ends), 1);
    }
    host_stop(&fixture);
}

/* ---- continuations ---- */

/* A handler that fails after a `_then` call: its status counts, the continuation never runs, nothing is lost. */
static void test_a_handler_that_fails_after_a_then_call(void **state)
{
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 2);
    for (int yields = 0; yields < 2; yields++) {
        const how_t how = yields ? BY_YIELD_THEN : BY_ASYNC_THEN;
        inner_t away = {.how = how, .name = "far", .fails_with = ZLINK_DATA_LOST};
        inner_t local = {.how = how, .name = "side", .script = script_count, .fails_with = ZLINK_DATA_LOST};
        assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &away, NULL), ZLINK_DATA_LOST);
        assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &local, NULL), ZLINK_DATA_LOST);
        assert_int_equal(atomic_load(&away.ends), 0);
        assert_int_equal(atomic_load(&local.ends), 0);
    }
    host_stop(&fixture);
}

typedef struct chain {
    int left, ran;
    inner_t inner;
    RunRes *reply;
    RunRes res;
} chain_t;

static zlink_status_t chain_next(zlink_turn_t *turn, void *self, zlink_status_t status, void *context);

static zlink_status_t chain_call(zlink_turn_t *turn, chain_t *chain)
{
    RunReq request = RunReq_init_zero;
    const zlink_ask_t ask = ZLINK_ASK(RunReq, &request);

    request.script = (uintptr_t)script_count;
    if (chain->left-- == 0) {
        chain->reply->value = chain->ran;
        return ZLINK_OK;
    }
    return chain->left % 2 ? zlink_channel_request_yield_then(turn, "side", ask, ZLINK_REPLY(RunRes, &chain->res),
                                                              chain_next, chain)
                           : zlink_channel_request_async_then(turn, "far", ask, ZLINK_REPLY(RunRes, &chain->res),
                                                              chain_next, chain);
}

static zlink_status_t chain_next(zlink_turn_t *turn, void *self, zlink_status_t status, void *context)
{
    chain_t *chain = context;
    inner_t in_between = {.how = BY_YIELD, .name = "far"};

    (void)self;
    zlink_check(status == ZLINK_OK);
    if (chain->left == 5) /* a continuation may wait on the stack as well */
        zlink_check(inner_call(turn, &in_between, NULL) == ZLINK_OK);
    chain->ran++;
    return chain_call(turn, chain);
}

static zlink_status_t script_chain(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    chain_t *chain = context;

    (void)self;
    chain->reply = reply;
    return chain_call(turn, chain);
}

static void test_continuations_may_call_in_turn(void **state)
{
    host_fixture_t fixture;
    chain_t chain = {.left = 10};
    int32_t value;

    (void)state;
    host_open(&fixture, 2);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_chain, &chain, &value), ZLINK_OK);
    assert_int_equal(value, 10);
    host_stop(&fixture);
}

static zlink_status_t script_two_at_once(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    inner_t *calls = context;

    (void)self;
    zlink_check(inner_call(turn, &calls[0], reply) == ZLINK_OK);
    zlink_check(inner_call(turn, &calls[1], NULL) == ZLINK_INVALID_OPERATION);
    zlink_check(inner_call(turn, &calls[2], NULL) == ZLINK_INVALID_OPERATION);
    return ZLINK_OK;
}

static void test_one_then_call_at_a_time(void **state)
{
    inner_t calls[3] = {
        {.how = BY_YIELD_THEN, .name = "far"},
        {.how = BY_ASYNC_THEN, .name = "far"},
        {.how = BY_ASYNC, .name = "side", .script = script_count},
    };
    host_fixture_t fixture;
    int32_t value;

    (void)state;
    host_open(&fixture, 2);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_two_at_once, calls, &value), ZLINK_OK);
    assert_int_equal(value, 42);
    assert_int_equal(atomic_load(&fixture.away.submitted), 1);
    host_stop(&fixture);
}

/* ---- many at once ---- */

static zlink_status_t script_busy(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    inner_t calls[3] = {
        {.how = BY_YIELD, .name = "side", .script = script_count},
        {.how = BY_SEND, .name = "side", .script = script_count},
        {.how = BY_YIELD, .name = "living", .id = "hub", .script = script_count},
    };

    (void)context;
    for (size_t i = 0; i < 3; i++)
        zlink_check(inner_call(turn, &calls[i], NULL) == ZLINK_OK);
    return script_count(turn, self, NULL, reply);
}

static void test_many_spots_on_some_workers(void **state)
{
    enum { SPOTS = 16, ROUNDS = 20 };
    host_fixture_t fixture;
    static outside_t calls[SPOTS * ROUNDS];
    int32_t value;

    (void)state;
    host_open(&fixture, 4);
    for (size_t i = 0; i < SPOTS * ROUNDS; i++) {
        char id[8];
        snprintf(id, sizeof(id), "s%zu", i % SPOTS);
        assert_int_equal(outside_submit(&fixture, &calls[i], "plain", id, script_busy, NULL), ZLINK_OK);
    }
    for (size_t i = 0; i < SPOTS * ROUNDS; i++)
        assert_int_equal(outside_wait(&calls[i]), ZLINK_OK);
    assert_int_equal(host_ask(&fixture, "living", "hub", script_count, NULL, &value), ZLINK_OK);
    assert_int_equal(value, SPOTS * ROUNDS + 1);
    assert_int_equal(host_ask(&fixture, "side", NULL, script_count, NULL, &value), ZLINK_OK);
    assert_int_equal(value, 2 * SPOTS * ROUNDS + 1);
    host_stop(&fixture);
}

/* ---- no memory ---- */

/* The n-th allocation fails anywhere on a call's way: the call from outside ends once or is refused, a call that was
 * made inside ends once, and nothing is lost (the address sanitizer looks). */
static void test_every_allocation_may_fail(void **state)
{
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 2);
    for (size_t i = 0; i < 5; i++) {
        for (size_t target = 0; target < 3; target++) {
            for (int64_t n = 0; n < 20; n++) {
                char id[16], other[16];
                snprintf(id, sizeof(id), "a%zu-%zu-%d", i, target, (int)n); /* a Spot that this call activates */
                snprintf(other, sizeof(other), "b%zu-%zu-%d", i, target, (int)n);
                inner_t call = {.how = (how_t)i, .script = script_count};
                call.name = target == 0 ? "living" : target == 1 ? "side" : "far";
                call.id = target == 0 ? other : NULL;
                outside_t outside;
                zlink_memory_fail_after(n);
                zlink_status_t status = outside_submit(&fixture, &outside, "living", id, script_call, &call);
                if (status == ZLINK_OK)
                    status = outside_wait(&outside);
                zlink_memory_fail_after(-1);
                assert_true(status == ZLINK_OK || status == ZLINK_CAPACITY_EXCEEDED ||
                            status == ZLINK_DEADLINE_EXCEEDED);
                assert_true(atomic_load(&call.ends) <= 1);
                if (status == ZLINK_OK)
                    assert_int_equal(atomic_load(&call.ends), 1);
                /* The node goes on. */
                do
                    status = host_ask(&fixture, "living", id, script_count, NULL, NULL);
                while (status == ZLINK_UNAVAILABLE);
                assert_int_equal(status, ZLINK_OK);
            }
        }
    }
    host_stop(&fixture);
}

static void test_the_host_without_memory(void **state)
{
    size_t refused = 0;

    (void)state;
    for (int64_t n = 0; n < 12; n++) {
        host_fixture_t fixture;
        host_init(&fixture, 1);
        zlink_memory_fail_after(n);
        zlink_status_t status = host_try_start(&fixture);
        zlink_memory_fail_after(-1);
        if (status == ZLINK_OK) {
            host_stop(&fixture);
            continue;
        }
        assert_int_equal(status, ZLINK_CAPACITY_EXCEEDED);
        assert_true(fixture.why.line[0] != '\0');
        host_release(&fixture);
        refused++;
    }
    assert_in_range(refused, 3, 11);
}

/* The end with an allocation missing: modules may not be told, but the host ends. */
static void test_the_end_without_memory(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 4; n++) {
        host_fixture_t fixture;
        host_open(&fixture, 1);
        assert_int_equal(host_ask(&fixture, "living", "a", script_count, NULL, NULL), ZLINK_OK);
        assert_int_equal(host_ask(&fixture, "living", "b", script_count, NULL, NULL), ZLINK_OK);
        zlink_memory_fail_after(n);
        host_stop(&fixture);
        zlink_memory_fail_after(-1);
        assert_int_equal(atomic_load(&host_hooks.closing) + atomic_load(&host_hooks.channels_closing), n < 3 ? 2 : 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_deadline_and_the_late_answer),
        cmocka_unit_test(test_an_answer_after_the_deadline_harms_nobody),
        cmocka_unit_test(test_a_handler_that_fails_after_a_then_call),
        cmocka_unit_test(test_continuations_may_call_in_turn),
        cmocka_unit_test(test_one_then_call_at_a_time),
        cmocka_unit_test(test_many_spots_on_some_workers),
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_the_host_without_memory),
        cmocka_unit_test(test_the_end_without_memory),
    };
    zlink_log_set_level(ZLINK_LOG_OFF);
    return zlink_test_main(tests);
}
