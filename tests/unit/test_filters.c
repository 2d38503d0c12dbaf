/*
 * Filters before the handlers of a channel and of the node: their order, what they may refuse, and what they may not.
 */
#include "host_fixture.h"

static char trace[256]; /* of one message at a time */

static void note(const char *what)
{
    const size_t used = strlen(trace);

    snprintf(trace + used, sizeof(trace) - used, "%s ", what);
}

/* What a filter does is its context. */
typedef struct habit {
    const char *name;
    bool stops;
    bool waits;
    zlink_status_t answers; /* not ZLINK_OK: instead of what is behind it */
} habit_t;

static habit_t first = {.name = "first"}, second = {.name = "second"};

static zlink_status_t filter(zlink_turn_t *turn, zlink_filter_next_t *next, void *context)
{
    const habit_t *habit = context;
    zlink_status_t status = ZLINK_OK;
    char text[32];

    zlink_check(zlink_turn_current() == turn && zlink_turn_source(turn)[0] != 0);
    zlink_check(strncmp(zlink_turn_packet(turn), "tests.host.", 11) == 0);
    snprintf(text, sizeof(text), "+%s", habit->name);
    note(text);
    if (habit->waits) {
        const RunReq request = RunReq_init_zero;
        RunRes res;
        zlink_check(zlink_channel_request_async(turn, "far", ZLINK_ASK(RunReq, &request), ZLINK_REPLY(RunRes, &res)) ==
                    ZLINK_OK);
        zlink_check(res.value == 42);
    }
    if (!habit->stops) {
        status = zlink_filter_next(turn, next);
        zlink_check(zlink_filter_next(turn, next) == ZLINK_INVALID_OPERATION);
        zlink_check(zlink_filter_next(turn, NULL) == ZLINK_INVALID_OPERATION);
        zlink_check(zlink_filter_next(NULL, next) == ZLINK_INVALID_OPERATION);
    }
    snprintf(text, sizeof(text), "-%s:%s", habit->name, zlink_status_name(status));
    note(text);
    return habit->answers != ZLINK_OK ? habit->answers : status;
}

static const zlink_filter_t filters[] = {{filter, &first}, {filter, &second}, ZLINK_FILTERS_END};

static const zlink_channel_type_t guarded = {
    .name = "guarded", .state_size = sizeof(spot_state_t), .handlers = host_handlers, .filters = filters};
static const zlink_node_handlers_t node_guarded = {
    .state_size = sizeof(spot_state_t), .handlers = host_handlers, .filters = filters};

static void open_guarded(host_fixture_t *fixture)
{
    first = (habit_t){.name = "first"};
    second = (habit_t){.name = "second"};
    host_init(fixture, 2);
    zlink_module_t module = {.catalogue = fixture->catalogue, .name = "unit"};
    zlink_module_add_channel(&module, &guarded);
    zlink_module_add_node_handlers(&module, &node_guarded);
    assert_int_equal(module.status, ZLINK_OK);
    host_start(fixture);
}

static zlink_status_t script_noted(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    note("handler");
    return script_count(turn, self, context, reply);
}

static zlink_status_t ask(host_fixture_t *fixture, script_t script, int32_t *value)
{
    trace[0] = 0;
    return host_ask(fixture, "guarded", NULL, script, NULL, value);
}

/* In their order on the way in, in the reverse order on the way out, with the status of what is behind. */
static void test_filters_wrap_the_handler(void **state)
{
    host_fixture_t fixture;
    int32_t value;

    (void)state;
    open_guarded(&fixture);
    assert_int_equal(ask(&fixture, script_noted, &value), ZLINK_OK);
    assert_int_equal(value, 1);
    assert_string_equal(trace, "+first +second handler -second:Ok -first:Ok ");
    assert_int_equal(ask(&fixture, script_fail, NULL), ZLINK_DATA_LOST);
    assert_string_equal(trace, "+first +second -second:DataLost -first:DataLost ");
    second.answers = ZLINK_NOT_CONFIGURED;
    assert_int_equal(ask(&fixture, script_noted, NULL), ZLINK_NOT_CONFIGURED);
    assert_string_equal(trace, "+first +second handler -second:Ok -first:NotConfigured ");
    second.answers = ZLINK_OK;
    first.waits = second.waits = true;
    assert_int_equal(ask(&fixture, script_noted, &value), ZLINK_OK);
    assert_int_equal(value, 3);
    assert_string_equal(trace, "+first +second handler -second:Ok -first:Ok ");
    host_stop(&fixture);
}

/* A request that is not let go on is Rejected, or what the filter says; the handler and the filters behind do not run.
 */
static void test_a_filter_that_stops_a_request(void **state)
{
    host_fixture_t fixture;
    int32_t value;

    (void)state;
    open_guarded(&fixture);
    second.stops = true;
    assert_int_equal(ask(&fixture, script_noted, NULL), ZLINK_REJECTED);
    assert_string_equal(trace, "+first +second -second:Ok -first:Rejected ");
    second.answers = ZLINK_UNAVAILABLE;
    assert_int_equal(ask(&fixture, script_noted, NULL), ZLINK_UNAVAILABLE);
    second.answers = ZLINK_OK;
    first.stops = true;
    assert_int_equal(ask(&fixture, script_noted, NULL), ZLINK_REJECTED);
    assert_string_equal(trace, "+first -first:Ok ");
    first.stops = second.stops = false;
    assert_int_equal(ask(&fixture, script_noted, &value), ZLINK_OK);
    assert_int_equal(value, 1);
    host_stop(&fixture);
}

/* A one-way message is dropped; what cannot be decoded is seen by the filters and by no handler (EX-81: what they stop
 * is not decoded at all). */
static void test_ex81_messages_and_garbage(void **state)
{
    static const uint8_t garbage[] = {0xff, 0xff};
    host_fixture_t fixture;
    outside_t outside;
    int32_t value;

    (void)state;
    open_guarded(&fixture);
    for (int stops = 0; stops < 2; stops++) {
        second.stops = stops;
        trace[0] = 0;
        assert_int_equal(
            outside_submit_bytes(&fixture, &outside, ZLINK_HANDLER_SEND, "guarded", NULL, (const uint8_t *)"", 0, 0),
            ZLINK_OK);
        assert_int_equal(outside_wait(&outside), ZLINK_OK);
        assert_string_equal(trace, "+first +second -second:Ok -first:Ok ");
        trace[0] = 0;
        assert_int_equal(outside_submit_bytes(&fixture, &outside, ZLINK_HANDLER_REQUEST, "guarded", NULL, garbage,
                                              sizeof(garbage), zlink_clock_now_ms(&fixture.exec.clock) + 1000),
                         ZLINK_OK);
        assert_int_equal(outside_wait(&outside), stops ? ZLINK_REJECTED : ZLINK_PROTOCOL_ERROR);
        assert_string_equal(trace, stops ? "+first +second -second:Ok -first:Rejected "
                                         : "+first +second -second:ProtocolError -first:ProtocolError ");
    }
    second.stops = false;
    assert_int_equal(ask(&fixture, script_noted, &value), ZLINK_OK);
    assert_int_equal(value, 1);
    host_stop(&fixture);
}

/* Node handlers are filtered alike; Spots and other channels are not. */
static zlink_status_t script_ask_node(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    const RunReq request = {.script = (uintptr_t)script_noted};

    (void)self, (void)context;
    return zlink_node_request_async(turn, "unit-node", ZLINK_ASK(RunReq, &request), ZLINK_REPLY(RunRes, reply));
}

static void test_only_what_has_filters_is_filtered(void **state)
{
    host_fixture_t fixture;

    (void)state;
    open_guarded(&fixture);
    trace[0] = 0;
    assert_int_equal(host_ask(&fixture, "plain", "a", script_noted, NULL, NULL), ZLINK_OK);
    assert_int_equal(host_ask(&fixture, "side", NULL, script_noted, NULL, NULL), ZLINK_OK);
    assert_string_equal(trace, "handler handler ");
    trace[0] = 0;
    assert_int_equal(host_ask(&fixture, "plain", "a", script_ask_node, NULL, NULL), ZLINK_OK);
    assert_string_equal(trace, "+first +second handler -second:Ok -first:Ok ");
    second.stops = true;
    assert_int_equal(host_ask(&fixture, "plain", "a", script_ask_node, NULL, NULL), ZLINK_REJECTED);
    host_stop(&fixture);
}

static void test_a_list_without_its_end_is_refused(void **state)
{
    static zlink_filter_t endless[ZLINK_CATALOGUE_FILTERS_MAX + 2];
    zlink_catalogue_t *catalogue = zlink_catalogue_create();
    zlink_module_t module = {.catalogue = catalogue, .name = "unit"};
    zlink_channel_type_t channel = guarded;

    (void)state;
    for (size_t i = 0; i < ZLINK_CATALOGUE_FILTERS_MAX; i++)
        endless[i] = filters[0];
    channel.filters = endless;
    zlink_module_add_channel(&module, &channel);
    assert_int_equal(module.status, ZLINK_OK);
    endless[ZLINK_CATALOGUE_FILTERS_MAX] = filters[0];
    zlink_channel_type_t other = channel;
    other.name = "other";
    zlink_module_add_channel(&module, &other);
    assert_int_equal(module.status, ZLINK_INVALID_OPERATION);
    assert_string_equal(module.refusal.line,
                        "module unit: channel other: more than 64 filters, or no ZLINK_FILTERS_END");
    zlink_catalogue_destroy(catalogue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filters_wrap_the_handler),
        cmocka_unit_test(test_a_filter_that_stops_a_request),
        cmocka_unit_test(test_ex81_messages_and_garbage),
        cmocka_unit_test(test_only_what_has_filters_is_filtered),
        cmocka_unit_test(test_a_list_without_its_end_is_refused),
    };

    zlink_log_set_level(ZLINK_LOG_OFF);
    return zlink_test_main(tests);
}
