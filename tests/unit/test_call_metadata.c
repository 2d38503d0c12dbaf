/*
 * Metadata of calls that handlers make: set once, read by the other handler, gone after it.
 */
#include "host_fixture.h"

typedef struct tagged {
    how_t how;
    const char *name;
    const char *id; /* NULL: a channel */
    script_t script;
    const zlink_metadata_entry_t *metadata;
    size_t count;
    zlink_status_t status;
} tagged_t;

static _Atomic size_t read_entries;
static char read_tenant[64];

/* What arrived, and whether a call that this handler makes in turn carries any of it. */
static zlink_status_t script_read(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    const char *key, *value, *tenant = zlink_turn_metadata(turn, "tenant");
    size_t position = 0, entries = 0;

    (void)self, (void)context, (void)reply;
    snprintf(read_tenant, sizeof(read_tenant), "%s", tenant ? tenant : "(none)");
    while (zlink_turn_next_metadata(turn, &position, &key, &value)) {
        zlink_check(strcmp(zlink_turn_metadata(turn, key), value) == 0);
        entries++;
    }
    zlink_check(zlink_turn_metadata(turn, "") == NULL && zlink_turn_metadata(turn, NULL) == NULL);
    atomic_store(&read_entries, entries);
    return ZLINK_OK;
}

static zlink_status_t script_pass_on(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    const RunReq request = {.script = (uintptr_t)script_read};
    RunRes res;

    (void)self, (void)context, (void)reply;
    zlink_check(zlink_turn_metadata(turn, "tenant") != NULL);
    return zlink_instance_spot_request_async(turn, "plain", "inner", ZLINK_ASK(RunReq, &request),
                                             ZLINK_REPLY(RunRes, &res));
}

static zlink_status_t script_tagged(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    tagged_t *tagged = context;
    const zlink_call_options_t options = {.metadata = tagged->metadata, .metadata_count = tagged->count};
    const RunReq request = {.script = (uintptr_t)tagged->script};
    const Note note = {.script = (uintptr_t)tagged->script};
    const zlink_ask_t ask =
        tagged->how == BY_SEND ? ZLINK_ASK_WITH(Note, &note, &options) : ZLINK_ASK_WITH(RunReq, &request, &options);
    RunRes res;
    const zlink_reply_t into = ZLINK_REPLY(RunRes, &res);

    (void)self, (void)reply;
    if (tagged->how == BY_SEND)
        tagged->status = tagged->id ? zlink_instance_spot_send(turn, tagged->name, tagged->id, ask)
                                    : zlink_channel_send(turn, tagged->name, ask);
    else
        tagged->status = tagged->id ? zlink_instance_spot_request_async(turn, tagged->name, tagged->id, ask, into)
                                    : zlink_channel_request_async(turn, tagged->name, ask, into);
    return tagged->status;
}

/* ---- correlation and flow ids ---- */

#define FLOW       "01890a5d-ac96-774b-bcce-b302099a8057"
#define OTHER_FLOW "01890a5d-ac96-774b-acce-b302099a8058"

typedef struct traced {
    const char *correlation_id, *flow_id;
    uint8_t flow_origin;
    bool sends, nested;
    zlink_status_t status;
} traced_t;

static char read_correlation[65], read_flow[37];
static uint8_t read_origin;

static zlink_status_t script_read_trace(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    (void)self, (void)context, (void)reply;
    snprintf(read_correlation, sizeof(read_correlation), "%s", zlink_turn_correlation_id(turn));
    snprintf(read_flow, sizeof(read_flow), "%s", zlink_turn_flow_id(turn));
    read_origin = zlink_turn_flow_origin(turn);
    return ZLINK_OK;
}

static zlink_status_t script_nest(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    const RunReq request = {.script = (uintptr_t)script_read_trace};
    RunRes res;

    (void)self, (void)context, (void)reply;
    return zlink_instance_spot_request_async(turn, "plain", "inner", ZLINK_ASK(RunReq, &request),
                                             ZLINK_REPLY(RunRes, &res));
}

static zlink_status_t script_trace(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    traced_t *traced = context;
    const script_t script = traced->nested ? script_nest : script_read_trace;
    const zlink_call_options_t options = {
        .correlation_id = traced->correlation_id, .flow_id = traced->flow_id, .flow_origin = traced->flow_origin};
    const RunReq request = {.script = (uintptr_t)script};
    const Note note = {.script = (uintptr_t)script};
    RunRes res;

    (void)self, (void)reply;
    if (traced->sends)
        traced->status = zlink_instance_spot_send(turn, "plain", "b", ZLINK_ASK_WITH(Note, &note, &options));
    else
        traced->status = zlink_instance_spot_request_async(
            turn, "plain", "b", ZLINK_ASK_WITH(RunReq, &request, &options), ZLINK_REPLY(RunRes, &res));
    return ZLINK_OK;
}

/* A request carries its correlation id and its flow to its handler; the calls of that belong to the flow, and have no
 * correlation id of their own. What is not well formed is refused, and nothing is sent. */
static void test_correlation_and_flow_ids(void **state)
{
    static char too_long[66];
    memset(too_long, 'x', sizeof(too_long) - 1);
    traced_t good[] = {
        {.correlation_id = "order-17/a", .flow_id = FLOW, .flow_origin = 9},
        {.correlation_id = "order-17/a", .flow_id = FLOW, .flow_origin = 9, .nested = true},
        {.flow_id = OTHER_FLOW},
        {.correlation_id = "~"},
        {.nested = true},
    };
    static const char *const flows[] = {FLOW, FLOW, OTHER_FLOW, "", ""};
    static const char *const correlations[] = {"order-17/a", "", "", "~", ""};
    traced_t bad[] = {
        {.correlation_id = ""},
        {.correlation_id = "two words"},
        {.correlation_id = too_long},
        {.correlation_id = "\xc3\xa9"},
        {.flow_id = ""},
        {.flow_id = "01890a5d-ac96-474b-bcce-b302099a8057"}, /* version 4 */
        {.flow_id = "01890A5D-AC96-774B-BCCE-B302099A8057"},
        {.flow_origin = 1},
        {.correlation_id = "of-a-send", .sends = true},
    };
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 2);
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        snprintf(read_flow, sizeof(read_flow), "?");
        assert_int_equal(host_ask(&fixture, "plain", "a", script_trace, &good[i], NULL), ZLINK_OK);
        assert_int_equal(good[i].status, ZLINK_OK);
        assert_string_equal(read_flow, flows[i]);
        assert_string_equal(read_correlation, correlations[i]);
        assert_int_equal(read_origin, i < 2 ? 9 : 0);
    }
    snprintf(read_flow, sizeof(read_flow), "untouched");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(host_ask(&fixture, "plain", "a", script_trace, &bad[i], NULL), ZLINK_OK);
        assert_int_equal(bad[i].status, ZLINK_INVALID_OPERATION);
    }
    assert_string_equal(read_flow, "untouched");
    host_stop(&fixture);
}

/* TR-25: the handler reads what was set last for each key, here and on its way to another node. */
static void test_tr25_the_last_value_is_read(void **state)
{
    static const zlink_metadata_entry_t entries[] = {{"tenant", "red"}, {"flag", ""}, {"tenant", "blue"}};
    tagged_t spot = {.name = "plain", .id = "b", .script = script_read, .metadata = entries, .count = 3};
    tagged_t channel = {.name = "side", .script = script_read, .metadata = entries, .count = 3};
    tagged_t message = {
        .how = BY_SEND, .name = "plain", .id = "b", .script = script_read, .metadata = entries, .count = 3};
    tagged_t away = {.name = "far", .metadata = entries, .count = 3};
    tagged_t *const calls[] = {&spot, &channel, &message};
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 2);
    for (size_t i = 0; i < 3; i++) {
        atomic_store(&read_entries, 0);
        read_tenant[0] = 0;
        assert_int_equal(host_ask(&fixture, "plain", "a", script_tagged, calls[i], NULL), ZLINK_OK);
        assert_int_equal(host_ask(&fixture, "plain", "b", script_count, NULL, NULL), ZLINK_OK); /* behind the message */
        assert_int_equal(atomic_load(&read_entries), 2);
        assert_string_equal(read_tenant, "blue");
    }
    away_set(&fixture, AWAY_HOLDS, ZLINK_OK);
    outside_t outside;
    assert_int_equal(outside_submit(&fixture, &outside, "plain", "a", script_tagged, &away), ZLINK_OK);
    host_wait_for(&fixture.away.submitted, 1);
    assert_string_equal(zlink_metadata_find(fixture.away.seen.metadata, fixture.away.seen.metadata_bytes, "tenant"),
                        "blue");
    away_set(&fixture, AWAY_ANSWERS, ZLINK_OK);
    assert_int_equal(outside_wait(&outside), ZLINK_OK);
    host_stop(&fixture);
}

/* TR-26: a call that the handler makes has none, and where none was set there is none. */
static void test_tr26_metadata_is_not_handed_on(void **state)
{
    static const zlink_metadata_entry_t entries[] = {{"tenant", "blue"}};
    tagged_t outer = {.name = "plain", .id = "b", .script = script_pass_on, .metadata = entries, .count = 1};
    tagged_t bare = {.name = "plain", .id = "b", .script = script_read};
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 2);
    atomic_store(&read_entries, 99);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_tagged, &outer, NULL), ZLINK_OK);
    assert_int_equal(atomic_load(&read_entries), 0);
    assert_string_equal(read_tenant, "(none)");
    atomic_store(&read_entries, 99);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_tagged, &bare, NULL), ZLINK_OK);
    assert_int_equal(atomic_load(&read_entries), 0);
    host_stop(&fixture);
}

/* TR-24: what is too long or no text is refused before anything is sent. */
static void test_tr24_bad_metadata_is_not_sent(void **state)
{
    static char fits[1019], over[1020];
    const zlink_metadata_entry_t good[] = {{"k", fits}}, long_value[] = {{"k", over}};
    static const zlink_metadata_entry_t no_key[] = {{"", "v"}}, no_text[] = {{"k", "\xff"}}, null[] = {{NULL, "v"}};
    const zlink_metadata_entry_t *const bad[] = {long_value, no_key, no_text, null};
    host_fixture_t fixture;
    tagged_t away = {.name = "far", .metadata = good, .count = 1};

    (void)state;
    memset(fits, 'v', sizeof(fits) - 1);
    memset(over, 'v', sizeof(over) - 1);
    host_open(&fixture, 2);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_tagged, &away, NULL), ZLINK_OK);
    for (size_t i = 0; i < 8; i++) {
        tagged_t call = {.how = i % 2 ? BY_SEND : BY_ASYNC, .name = "far", .metadata = bad[i / 2], .count = 1};
        assert_int_equal(host_ask(&fixture, "plain", "a", script_tagged, &call, NULL), ZLINK_INVALID_OPERATION);
    }
    assert_int_equal(atomic_load(&fixture.away.submitted), 1);
    host_stop(&fixture);
}

/* Without memory for the copy the call ends, and nothing is leaked. */
static void test_no_memory_for_metadata(void **state)
{
    static const zlink_metadata_entry_t entries[] = {{"tenant", "blue"}};
    host_fixture_t fixture;
    zlink_status_t status = ZLINK_INTERNAL_FAILURE;

    (void)state;
    host_open(&fixture, 2);
    assert_int_equal(host_ask(&fixture, "plain", "b", script_count, NULL, NULL), ZLINK_OK);
    for (int64_t n = 0; status != ZLINK_OK; n++) {
        tagged_t call = {.name = "plain", .id = "b", .script = script_read, .metadata = entries, .count = 1};
        assert_true(n < 100);
        outside_t outside;
        zlink_memory_fail_after(n);
        status = outside_submit(&fixture, &outside, "plain", "a", script_tagged, &call);
        if (status == ZLINK_OK)
            status = outside_wait(&outside);
        zlink_memory_fail_after(-1);
        assert_true(status == ZLINK_OK || status == ZLINK_CAPACITY_EXCEEDED);
    }
    host_stop(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_correlation_and_flow_ids),       cmocka_unit_test(test_tr25_the_last_value_is_read),
        cmocka_unit_test(test_tr26_metadata_is_not_handed_on), cmocka_unit_test(test_tr24_bad_metadata_is_not_sent),
        cmocka_unit_test(test_no_memory_for_metadata),
    };

    zlink_log_set_level(ZLINK_LOG_OFF);
    return zlink_test_main(tests);
}
