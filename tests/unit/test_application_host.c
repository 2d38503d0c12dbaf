/*
 * Spots and channels of one node: how they begin, what bounds them, how they end.
 */
#include "host_fixture.h"

/* ---- activation ---- */

typedef struct look {
    char owner[256], source[64];
    int32_t remaining_ms, created, value;
} look_t;

static zlink_status_t script_look(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    const spot_state_t *state = self;
    look_t *look = context;

    (void)reply;
    snprintf(look->owner, sizeof(look->owner), "%s", zlink_turn_owner_name(turn));
    snprintf(look->source, sizeof(look->source), "%s", zlink_turn_source(turn));
    look->remaining_ms = zlink_turn_remaining_ms(turn);
    look->created = state->created;
    look->value = state->value;
    return ZLINK_OK;
}

static void test_the_first_call_activates_a_spot(void **state)
{
    host_fixture_t fixture;
    int32_t value;
    look_t look;

    (void)state;
    host_open(&fixture, 2);
    assert_int_equal(host_ask(&fixture, "living", "cart-7", script_look, &look, NULL), ZLINK_OK);
    assert_string_equal(look.owner, "cart-7");
    assert_string_equal(look.source, "caller-node");
    assert_int_equal(look.remaining_ms, 60000);
    assert_int_equal(look.created, 1); /* on_create ran before, on the same state */
    assert_int_equal(look.value, 0);
    assert_int_equal(atomic_load(&host_hooks.created), 1);
    for (int32_t i = 1; i <= 3; i++) {
        assert_int_equal(host_ask(&fixture, "living", "cart-7", script_count, NULL, &value), ZLINK_OK);
        assert_int_equal(value, i);
    }
    /* Another id, and the same id of another type, are other Spots. */
    assert_int_equal(host_ask(&fixture, "living", "cart-8", script_count, NULL, &value), ZLINK_OK);
    assert_int_equal(value, 1);
    assert_int_equal(host_ask(&fixture, "plain", "cart-7", script_count, NULL, &value), ZLINK_OK);
    assert_int_equal(value, 1);
    assert_int_equal(atomic_load(&host_hooks.created), 2);
    assert_int_equal(host_ask(&fixture, "desk", NULL, script_look, &look, NULL), ZLINK_OK);
    assert_string_equal(look.owner, "desk");
    host_stop(&fixture);
    assert_int_equal(atomic_load(&host_hooks.closing), 2);
    assert_int_equal(atomic_load(&host_hooks.started), 1);
    assert_int_equal(atomic_load(&host_hooks.channels_closing), 1);
}

static sem_t create_may_end;

static zlink_status_t refuse_when_told(zlink_turn_t *turn, void *self)
{
    (void)turn, (void)self;
    zlink_test_wait(&create_may_end);
    return ZLINK_REJECTED;
}

/* Until the refused life is gone the id is unavailable; then the next call tries again. */
static zlink_status_t ask_until_gone(host_fixture_t *fixture, const char *id, script_t script, int32_t *value)
{
    zlink_status_t status;
    const time_t until = time(NULL) + 60;

    do
        status = host_ask(fixture, "living", id, script, NULL, value);
    while (status == ZLINK_UNAVAILABLE && time(NULL) < until);
    return status;
}

static void test_on_create_may_refuse(void **state)
{
    host_fixture_t fixture;
    outside_t calls[3];
    int32_t value = -1;

    (void)state;
    sem_init(&create_may_end, 0, 0);
    host_open(&fixture, 2);
    host_hooks.on_create = refuse_when_told;
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(outside_submit(&fixture, &calls[i], "living", "no", script_count, NULL), ZLINK_OK);
    sem_post(&create_may_end);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(outside_wait(&calls[i]), ZLINK_REJECTED);
        assert_int_equal(calls[i].reply.value, 0);
    }
    assert_int_equal(atomic_load(&host_hooks.created), 1);
    host_hooks.on_create = NULL;
    assert_int_equal(ask_until_gone(&fixture, "no", script_count, &value), ZLINK_OK);
    assert_int_equal(value, 1);
    assert_int_equal(atomic_load(&host_hooks.created), 2);
    host_stop(&fixture);
    assert_int_equal(atomic_load(&host_hooks.closing), 1); /* the refused one never lived */
    sem_destroy(&create_may_end);
}

static zlink_status_t nonsense(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    (void)turn, (void)self, (void)context, (void)reply;
    return (zlink_status_t)4711;
}

static void test_a_status_outside_the_enum_is_the_handlers_failure(void **state)
{
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 1);
    assert_int_equal(host_ask(&fixture, "plain", "x", nonsense, NULL, NULL), ZLINK_INTERNAL_FAILURE);
    assert_int_equal(host_ask(&fixture, "plain", "x", script_fail, NULL, NULL), ZLINK_DATA_LOST);
    host_stop(&fixture);
}

static void test_a_payload_that_cannot_be_decoded(void **state)
{
    static const uint8_t garbage[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    host_fixture_t fixture;
    outside_t call;

    (void)state;
    host_open(&fixture, 1);
    assert_int_equal(
        outside_submit_bytes(&fixture, &call, ZLINK_HANDLER_REQUEST, "plain", "x", garbage, sizeof(garbage), 0),
        ZLINK_OK);
    assert_int_equal(outside_wait(&call), ZLINK_PROTOCOL_ERROR);
    assert_int_equal(
        outside_submit_bytes(&fixture, &call, ZLINK_HANDLER_SEND, "side", NULL, garbage, sizeof(garbage), 0), ZLINK_OK);
    assert_int_equal(outside_wait(&call), ZLINK_PROTOCOL_ERROR);
    host_stop(&fixture);
}

static void test_a_request_whose_time_is_over_is_not_handled(void **state)
{
    host_fixture_t fixture;
    outside_t call, holder;
    int32_t value;

    (void)state;
    host_open(&fixture, 1);
    away_set(&fixture, AWAY_HOLDS, ZLINK_OK);
    assert_int_equal(outside_submit(&fixture, &holder, "plain", "x", script_hold, NULL), ZLINK_OK);
    assert_int_equal(outside_submit(&fixture, &call, "plain", "x", script_count, NULL), ZLINK_OK);
    host_wait_for(&fixture.away.submitted, 1);
    zlink_exec_fixture_advance(&fixture.exec, 60000);
    away_set(&fixture, AWAY_ANSWERS, ZLINK_OK);
    assert_int_equal(outside_wait(&holder), ZLINK_OK);
    assert_int_equal(outside_wait(&call), ZLINK_DEADLINE_EXCEEDED);
    assert_int_equal(host_ask(&fixture, "plain", "x", script_count, NULL, &value), ZLINK_OK);
    assert_int_equal(value, 1);
    host_stop(&fixture);
}

/* ---- bounds ---- */

static zlink_status_t script_close(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    (void)self, (void)context, (void)reply;
    zlink_check(zlink_spot_close(turn) == ZLINK_OK);
    return zlink_spot_close(turn); /* twice is once */
}

/* EX-55: so is a Spot for which there is no place. */
static void test_ex55_the_number_of_spots_is_bounded(void **state)
{
    inner_t request = {.how = BY_ASYNC, .name = "living", .id = "d", .script = script_count};
    inner_t message = {.how = BY_SEND, .name = "plain", .id = "d", .script = script_count};
    host_fixture_t fixture;

    (void)state;
    host_init(&fixture, 2);
    fixture.options.spots_max = 3;
    host_start(&fixture);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_count, NULL, NULL), ZLINK_OK);
    assert_int_equal(host_ask(&fixture, "living", "b", script_count, NULL, NULL), ZLINK_OK);
    assert_int_equal(host_ask(&fixture, "plain", "c", script_count, NULL, NULL), ZLINK_OK);
    assert_int_equal(host_ask(&fixture, "plain", "d", script_count, NULL, NULL), ZLINK_CAPACITY_EXCEEDED);
    assert_int_equal(host_ask(&fixture, "side", NULL, script_call, &request, NULL), ZLINK_CAPACITY_EXCEEDED);
    assert_int_equal(host_ask(&fixture, "side", NULL, script_call, &message, NULL), ZLINK_DEADLINE_EXCEEDED);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_count, NULL, NULL), ZLINK_OK); /* those that live go on */

    assert_int_equal(host_ask(&fixture, "living", "b", script_close, NULL, NULL), ZLINK_OK);
    zlink_status_t status;
    do /* it is on its way out */
        status = host_ask(&fixture, "plain", "d", script_count, NULL, NULL);
    while (status == ZLINK_CAPACITY_EXCEEDED);
    assert_int_equal(status, ZLINK_OK);
    host_stop(&fixture);
}

/* EX-55: a full lane is CapacityExceeded for a request of this process, at once. (A one-way message waits:
 * test_send_room.c.) */
static void test_ex55_a_full_lane_refuses(void **state)
{
    enum { LANE = 4 };
    inner_t request = {.how = BY_ASYNC, .name = "plain", .id = "x", .script = script_count};
    host_fixture_t fixture;
    outside_t calls[LANE], one_more;
    int32_t value;

    (void)state;
    host_init(&fixture, 2);
    fixture.options.policy.application_message_capacity = LANE;
    host_start(&fixture);
    away_set(&fixture, AWAY_HOLDS, ZLINK_OK);
    for (size_t i = 0; i < LANE; i++)
        assert_int_equal(outside_submit(&fixture, &calls[i], "plain", "x", i ? script_count : script_hold, NULL),
                         ZLINK_OK);
    assert_int_equal(outside_submit(&fixture, &one_more, "plain", "x", script_count, NULL), ZLINK_CAPACITY_EXCEEDED);
    assert_int_equal(host_ask(&fixture, "side", NULL, script_call, &request, NULL), ZLINK_CAPACITY_EXCEEDED);
    away_set(&fixture, AWAY_ANSWERS, ZLINK_OK);
    for (size_t i = 0; i < LANE; i++)
        assert_int_equal(outside_wait(&calls[i]), ZLINK_OK);
    zlink_status_t status;
    do /* a place is free a moment after its call has ended */
        status = host_ask(&fixture, "plain", "x", script_count, NULL, &value);
    while (status == ZLINK_CAPACITY_EXCEEDED);
    assert_int_equal(status, ZLINK_OK);
    assert_int_equal(value, LANE); /* the refused ones did nothing */
    host_stop(&fixture);
}

/* ---- domains ---- */

static zlink_status_t script_start_channel(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    zlink_channel_host_t *channel = NULL;
    zlink_refusal_t why = {{0}};
    zlink_invocation_t *invocation = zlink_invocation_of(turn);
    zlink_status_t status = zlink_channel_host_create(invocation->host, invocation->channel->channel, &channel, &why);

    (void)self, (void)context, (void)reply;
    zlink_check(!channel && why.line[0]);
    return status;
}

/* IC-10: what waits at start is refused to a turn, at once. */
static void test_ic10_a_turn_starts_no_channel(void **state)
{
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 1);
    assert_int_equal(host_ask(&fixture, "desk", NULL, script_start_channel, NULL, NULL), ZLINK_INVALID_OPERATION);
    host_stop(&fixture);
}

/* The calls that block their thread: start the application, start a channel. */
static void check_nothing_blocks(void *context)
{
    const host_fixture_t *fixture = context;
    zlink_application_host_t *another = NULL;
    zlink_channel_host_t *channel = NULL;
    zlink_refusal_t why = {{0}};

    zlink_check(zlink_application_host_create(fixture->exec.pool, fixture->catalogue, &fixture->options, &another,
                                              &why) == ZLINK_INVALID_OPERATION);
    zlink_check(!another && strncmp(why.line, "the application host", 20) == 0); /* not by its first channel */
    why.line[0] = '\0';
    zlink_check(zlink_channel_host_create(fixture->host, &fixture->catalogue->channels[0], &channel, &why) ==
                ZLINK_INVALID_OPERATION);
    zlink_check(!channel && why.line[0]);
}

static zlink_status_t script_block(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    inner_t away = {.how = zlink_invocation_of(turn)->spot ? BY_YIELD : BY_ASYNC, .name = "far"};

    (void)self;
    check_nothing_blocks(context);
    zlink_status_t status = inner_call(turn, &away, reply); /* nor after a wait */
    check_nothing_blocks(context);
    return status;
}

static void block_in_closing(zlink_turn_t *turn, void *self)
{
    (void)turn;
    check_nothing_blocks(*(host_fixture_t **)self);
}

static zlink_status_t script_keep_fixture(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    (void)turn, (void)reply;
    memcpy(self, &context, sizeof(context));
    return ZLINK_OK;
}

/* EX-54: what blocks its thread is InvalidOperation at once on a turn of a Spot or a channel, before and after a wait,
 * in a lifecycle callback and on the reactor's thread; handlers have no call that blocks. */
static void test_ex54_nothing_blocks_inside(void **state)
{
    zlink_reactor_t *reactor = NULL;
    host_fixture_t fixture;
    zlink_refusal_t why;

    (void)state;
    host_init(&fixture, 1);
    host_hooks.on_closing = block_in_closing;
    host_start(&fixture); /* on a thread of the application's own it does block, and works */
    assert_int_equal(host_ask(&fixture, "plain", "x", script_block, &fixture, NULL), ZLINK_OK);
    assert_int_equal(host_ask(&fixture, "side", NULL, script_block, &fixture, NULL), ZLINK_OK);
    assert_int_equal(host_ask(&fixture, "living", "x", script_keep_fixture, &fixture, NULL), ZLINK_OK);
    assert_int_equal(zlink_reactor_create(NULL, &reactor, &why), ZLINK_OK);
    zlink_reactor_call(reactor, check_nothing_blocks, &fixture);
    zlink_reactor_destroy(reactor);
    host_stop(&fixture);
    assert_int_equal(atomic_load(&host_hooks.closing), 1);
}

/* ---- memory of a turn ---- */

static zlink_status_t script_alloc(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    unsigned char *pieces[5];

    (void)self, (void)context;
    zlink_check(zlink_turn_alloc(turn, ((size_t)1 << 20) + 1) == NULL);
    zlink_check(zlink_turn_alloc(turn, SIZE_MAX) == NULL);
    const size_t size = ((size_t)1 << 18) - 64;
    for (int i = 0; i < 4; i++) {
        pieces[i] = zlink_turn_alloc(turn, size);
        zlink_check(pieces[i] != NULL && (uintptr_t)pieces[i] % _Alignof(max_align_t) == 0);
        for (size_t at = 0; at < size; at++)
            zlink_check(pieces[i][at] == 0);
        memset(pieces[i], i, size);
    }
    zlink_check(zlink_turn_alloc(turn, 4 * 64) == NULL);
    int empty = 0; /* pieces of no size have their price, too */
    while (empty < 1000 && zlink_turn_alloc(turn, 0) != NULL)
        empty++;
    zlink_check(empty > 0 && empty < 1000);
    zlink_check(zlink_turn_alloc(NULL, 1) == NULL);
    reply->value = pieces[3][5];
    return ZLINK_OK;
}

static void test_a_turns_memory_has_a_limit(void **state)
{
    host_fixture_t fixture;
    int32_t value;

    (void)state;
    host_open(&fixture, 1);
    for (int i = 0; i < 3; i++) { /* each turn anew */
        assert_int_equal(host_ask(&fixture, "plain", "x", script_alloc, NULL, &value), ZLINK_OK);
        assert_int_equal(value, 3);
    }
    host_stop(&fixture);
}

/* ---- the end of a Spot ---- */

static sem_t closing_may_end;
static _Atomic int32_t value_at_closing;

static void wait_in_closing(zlink_turn_t *turn, void *self)
{
    zlink_check(zlink_spot_close(turn) == ZLINK_OK); /* says nothing new */
    atomic_store(&value_at_closing, ((spot_state_t *)self)->value);
    zlink_test_wait(&closing_may_end);
}

/* After the closing turn nothing new comes in, what was accepted runs, then on_closing; then a fresh Spot. */
static void test_a_spot_that_closes_itself(void **state)
{
    host_fixture_t fixture;
    outside_t closer, accepted[3], late;
    int32_t value;

    (void)state;
    sem_init(&closing_may_end, 0, 0);
    host_open(&fixture, 2);
    host_hooks.on_closing = wait_in_closing;
    away_set(&fixture, AWAY_HOLDS, ZLINK_OK);
    outside_t holder;
    assert_int_equal(outside_submit(&fixture, &holder, "living", "x", script_hold, NULL), ZLINK_OK);
    assert_int_equal(outside_submit(&fixture, &closer, "living", "x", script_close, NULL), ZLINK_OK);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(outside_submit(&fixture, &accepted[i], "living", "x", script_count, NULL), ZLINK_OK);
    away_set(&fixture, AWAY_ANSWERS, ZLINK_OK);
    assert_int_equal(outside_wait(&holder), ZLINK_OK);
    assert_int_equal(outside_wait(&closer), ZLINK_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(outside_wait(&accepted[i]), ZLINK_OK);
        assert_int_equal(accepted[i].reply.value, (int32_t)i + 1);
    }
    assert_int_equal(outside_submit(&fixture, &late, "living", "x", script_count, NULL), ZLINK_UNAVAILABLE);
    sem_post(&closing_may_end);
    host_wait_for(&host_hooks.closing, 1);
    host_hooks.on_closing = NULL;
    assert_int_equal(ask_until_gone(&fixture, "x", script_count, &value), ZLINK_OK);
    assert_int_equal(value, 1);
    assert_int_equal(atomic_load(&value_at_closing), 3);
    assert_int_equal(atomic_load(&host_hooks.created), 2);
    host_stop(&fixture);
    assert_int_equal(atomic_load(&host_hooks.closing), 2);
    sem_destroy(&closing_may_end);
}

static zlink_status_t script_close_here(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    (void)self, (void)context, (void)reply;
    zlink_check(zlink_spot_close(NULL) == ZLINK_INVALID_OPERATION);
    return zlink_spot_close(turn);
}

static zlink_status_t close_in_on_create(zlink_turn_t *turn, void *self)
{
    (void)self;
    return zlink_spot_close(turn);
}

static zlink_status_t refuse_after_close(zlink_turn_t *turn, void *self)
{
    (void)self;
    zlink_check(zlink_spot_close(turn) == ZLINK_OK);
    return ZLINK_REJECTED;
}

static void test_where_close_is_allowed(void **state)
{
    host_fixture_t fixture;
    int32_t value;

    (void)state;
    host_open(&fixture, 2);
    assert_int_equal(host_ask(&fixture, "side", NULL, script_close_here, NULL, NULL), ZLINK_INVALID_OPERATION);
    assert_int_equal(zlink_spot_close(NULL), ZLINK_INVALID_OPERATION);

    /* A Spot that ends in its on_create still serves the call that woke it. */
    host_hooks.on_create = close_in_on_create;
    assert_int_equal(ask_until_gone(&fixture, "x", script_count, &value), ZLINK_OK);
    assert_int_equal(value, 1);
    host_wait_for(&host_hooks.closing, 1);
    host_hooks.on_create = refuse_after_close;
    assert_int_equal(ask_until_gone(&fixture, "x", script_count, &value), ZLINK_REJECTED);
    host_hooks.on_create = NULL;
    assert_int_equal(ask_until_gone(&fixture, "x", script_count, &value), ZLINK_OK);
    assert_int_equal(value, 1);
    assert_int_equal(atomic_load(&host_hooks.closing), 1);
    host_stop(&fixture);
    assert_int_equal(atomic_load(&host_hooks.closing), 2);
}

/* Activation and end of the same ids from everywhere at once: no two lives overlap, no call is lost. */
static struct life {
    _Atomic int now;
} lives[4];

static zlink_status_t script_live_and_close(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    struct life *life = context;
    spot_state_t *state = self;

    if (state->value++ == 0)
        zlink_check(atomic_fetch_add(&life->now, 1) == 0);
    if (state->value == 3)
        (void)zlink_spot_close(turn);
    (void)reply;
    return ZLINK_OK;
}

static void one_life_less(zlink_turn_t *turn, void *self)
{
    size_t index = (size_t)(zlink_turn_owner_name(turn)[0] - 'a');

    if (((spot_state_t *)self)->value > 0)
        zlink_check(atomic_fetch_sub(&lives[index].now, 1) == 1);
}

static void test_lives_of_one_id_do_not_overlap(void **state)
{
    static const char *const ids[] = {"a", "b", "c", "d"};
    enum { CALLS = 2000 };
    host_fixture_t fixture;
    static outside_t calls[CALLS];
    static zlink_status_t submitted[CALLS];
    size_t served = 0;

    (void)state;
    host_open(&fixture, 4);
    host_hooks.on_closing = one_life_less;
    for (size_t i = 0; i < CALLS; i++)
        submitted[i] = outside_submit(&fixture, &calls[i], "living", ids[i % 4], script_live_and_close, &lives[i % 4]);
    for (size_t i = 0; i < CALLS; i++) {
        if (submitted[i] == ZLINK_OK)
            assert_int_equal(outside_wait(&calls[i]), ZLINK_OK);
        else
            assert_int_equal(submitted[i], ZLINK_UNAVAILABLE);
        served += submitted[i] == ZLINK_OK;
    }
    assert_true(served > 0);
    host_stop(&fixture);
    assert_int_equal(atomic_load(&host_hooks.created), atomic_load(&host_hooks.closing));
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(atomic_load(&lives[i].now), 0);
}

/* ---- the start and the end of the host ---- */

static zlink_status_t refuse_start(zlink_turn_t *turn, void *self)
{
    (void)turn, (void)self;
    return ZLINK_NOT_CONFIGURED;
}

static void test_a_channel_may_refuse_the_start(void **state)
{
    host_fixture_t fixture;

    (void)state;
    host_init(&fixture, 2);
    host_hooks.on_start = refuse_start;
    assert_int_equal(host_try_start(&fixture), ZLINK_NOT_CONFIGURED);
    assert_non_null(strstr(fixture.why.line, "channel desk: its on_start answered NotConfigured"));
    assert_null(fixture.host);
    assert_int_equal(atomic_load(&host_hooks.channels_closing), 0);
    host_release(&fixture);
}

static _Atomic size_t idle_calls;

static void idle_called(void *context)
{
    atomic_fetch_add(&idle_calls, 1);
    sem_post(context);
}

/* Not while a handler waits, also not one that has given its gate back. */
static void test_idle_waits_for_the_last_handler(void **state)
{
    inner_t yields = {.how = BY_YIELD, .name = "far"};
    inner_t then = {.how = BY_YIELD_THEN, .name = "far"};
    host_fixture_t fixture;
    outside_t calls[3];

    (void)state;
    atomic_store(&idle_calls, 0);
    host_open(&fixture, 2);
    away_set(&fixture, AWAY_HOLDS, ZLINK_OK);
    assert_int_equal(outside_submit(&fixture, &calls[0], "plain", "x", script_call, &yields), ZLINK_OK);
    assert_int_equal(outside_submit(&fixture, &calls[1], "plain", "y", script_call, &then), ZLINK_OK);
    assert_int_equal(outside_submit(&fixture, &calls[2], "side", NULL, script_hold, NULL), ZLINK_OK);
    host_wait_for(&fixture.away.submitted, 3);
    zlink_application_host_when_idle(fixture.host, idle_called, &fixture.stage);
    assert_int_equal(atomic_load(&idle_calls), 0);
    away_set(&fixture, AWAY_ANSWERS, ZLINK_OK);
    zlink_test_wait(&fixture.stage);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(outside_wait(&calls[i]), ZLINK_OK);
    zlink_application_host_close(fixture.host, host_stage_ended, &fixture.stage);
    zlink_test_wait(&fixture.stage);
    assert_int_equal(atomic_load(&idle_calls), 1);

    /* The map is closed: nothing is activated any more. */
    outside_t late;
    assert_int_equal(outside_submit(&fixture, &late, "plain", "x", script_count, NULL), ZLINK_SHUTTING_DOWN);
    host_release(&fixture);
}

static void send_in_closing(zlink_turn_t *turn, void *self)
{
    inner_t to_channel = {.how = BY_SEND, .name = "side", .script = script_count};
    inner_t to_new_spot = {.how = BY_ASYNC, .name = "plain", .id = "too late", .script = script_count};

    (void)self;
    zlink_check(inner_call(turn, &to_channel, NULL) == ZLINK_OK);
    zlink_check(inner_call(turn, &to_new_spot, NULL) == ZLINK_SHUTTING_DOWN);
}

/* What on_closing sends to a channel of the node still arrives: channels go after the Spots. */
static void test_spots_go_before_channels(void **state)
{
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 2);
    host_hooks.on_closing = send_in_closing;
    for (int i = 0; i < 20; i++) {
        char id[16];
        snprintf(id, sizeof(id), "s%d", i);
        assert_int_equal(host_ask(&fixture, "living", id, script_count, NULL, NULL), ZLINK_OK);
    }
    host_stop(&fixture);
    assert_int_equal(atomic_load(&host_hooks.closing), 20);
}

/* EX-63: where memory is too short for an on_closing, the stop goes on, and its outcome says so. */
static void test_ex63_an_on_closing_without_memory(void **state)
{
    host_fixture_t fixture;

    (void)state;
    for (int short_of_memory = 0; short_of_memory < 2; short_of_memory++) {
        host_open(&fixture, 1);
        assert_int_equal(host_ask(&fixture, "living", "a", script_count, NULL, NULL), ZLINK_OK);
        zlink_application_host_when_idle(fixture.host, host_stage_ended, &fixture.stage);
        zlink_test_wait(&fixture.stage);
        assert_false(atomic_load(&fixture.host->teardown_failed));
        if (short_of_memory)
            zlink_memory_fail_after(0); /* the first: of the Spot's last turn */
        zlink_application_host_close(fixture.host, host_stage_ended, &fixture.stage);
        zlink_test_wait(&fixture.stage);
        zlink_memory_fail_after(-1);
        assert_int_equal(atomic_load(&host_hooks.closing), short_of_memory ? 0 : 1);
        assert_int_equal(atomic_load(&host_hooks.channels_closing), 1);
        assert_int_equal(atomic_load(&fixture.host->teardown_failed), short_of_memory);
        host_release(&fixture);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_call_activates_a_spot),
        cmocka_unit_test(test_on_create_may_refuse),
        cmocka_unit_test(test_a_status_outside_the_enum_is_the_handlers_failure),
        cmocka_unit_test(test_a_payload_that_cannot_be_decoded),
        cmocka_unit_test(test_a_request_whose_time_is_over_is_not_handled),
        cmocka_unit_test(test_ex55_the_number_of_spots_is_bounded),
        cmocka_unit_test(test_ic10_a_turn_starts_no_channel),
        cmocka_unit_test(test_ex54_nothing_blocks_inside),
        cmocka_unit_test(test_ex55_a_full_lane_refuses),
        cmocka_unit_test(test_a_turns_memory_has_a_limit),
        cmocka_unit_test(test_a_spot_that_closes_itself),
        cmocka_unit_test(test_where_close_is_allowed),
        cmocka_unit_test(test_lives_of_one_id_do_not_overlap),
        cmocka_unit_test(test_a_channel_may_refuse_the_start),
        cmocka_unit_test(test_idle_waits_for_the_last_handler),
        cmocka_unit_test(test_spots_go_before_channels),
        cmocka_unit_test(test_ex63_an_on_closing_without_memory),
    };
    zlink_log_set_level(ZLINK_LOG_OFF);
    return zlink_test_main(tests);
}
