/*
 * One-way messages within a node whose target's queue is full: they wait for room without their sender's gate, go in
 * once, oldest first, or end at their time.
 */
#include "host_fixture.h"

#include "base/counters.h"
#include "server/application/room_wait.h"

#define LANE 4

extern zlink_counter_t room_waits, room_waiting, room_no_place, room_expired, requests_lane_full;

static void start(host_fixture_t *fixture, unsigned workers)
{
    host_init(fixture, workers);
    fixture->options.policy.application_message_capacity = LANE;
    host_start(fixture);
    away_set(fixture, AWAY_HOLDS, ZLINK_OK);
}

/* The lane of an owner, full: the first handler waits for the stand-in and keeps its turn. */
typedef struct full {
    outside_t calls[LANE];
} full_t;

static void fill(host_fixture_t *fixture, full_t *full, const char *name, const char *id)
{
    const size_t submitted = atomic_load(&fixture->away.submitted);

    for (size_t i = 0; i < LANE; i++)
        assert_int_equal(outside_submit(fixture, &full->calls[i], name, id, i ? script_count : script_hold, NULL),
                         ZLINK_OK);
    host_wait_for(&fixture->away.submitted, submitted + 1);
}

static void empty(host_fixture_t *fixture, full_t *full)
{
    away_set(fixture, AWAY_ANSWERS, ZLINK_OK);
    for (size_t i = 0; i < LANE; i++)
        assert_int_equal(outside_wait(&full->calls[i]), ZLINK_OK);
}

static void wait_for_waiting(int64_t wanted)
{
    const time_t until = time(NULL) + 60;

    while (zlink_counter_read(&room_waiting) != wanted) {
        if (time(NULL) > until)
            fail_msg("%lld wait, not %lld", (long long)zlink_counter_read(&room_waiting), (long long)wanted);
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
}

/* How often a Spot or channel has counted: asked until there is room for the question. */
static int32_t count_of(host_fixture_t *fixture, const char *name, const char *id)
{
    zlink_status_t status;
    int32_t value;

    do
        status = host_ask(fixture, name, id, script_count, NULL, &value);
    while (status == ZLINK_CAPACITY_EXCEEDED);
    assert_int_equal(status, ZLINK_OK);
    return value;
}

/* EX-42, EX-73, TR-62: a message to a full Spot, channel or Spot of another type waits; its sender holds no gate
 * meanwhile, so that other work on its Spot goes on; with room it goes in, once. */
static void test_ex42_ex73_tr62_a_full_lane_is_waited_for(void **state)
{
    static const struct {
        const char *name, *id;
    } targets[] = {{"plain", "x"}, {"living", "x"}, {"side", NULL}};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const char *name = targets[i].name, *id = targets[i].id;
        inner_t message = {.how = BY_SEND, .name = name, .id = id, .script = script_count};
        host_fixture_t fixture;
        outside_t sender;
        full_t full;
        int32_t value;

        start(&fixture, 2);
        fill(&fixture, &full, name, id);
        assert_int_equal(outside_submit(&fixture, &sender, "plain", "s", script_call, &message), ZLINK_OK);
        wait_for_waiting(1);
        for (int32_t n = 1; n <= 3; n++) {
            assert_int_equal(host_ask(&fixture, "plain", "s", script_count, NULL, &value), ZLINK_OK);
            assert_int_equal(value, n);
        }
        assert_int_equal(atomic_load(&message.ends), 0);
        empty(&fixture, &full);
        assert_int_equal(outside_wait(&sender), ZLINK_OK);
        assert_int_equal(zlink_counter_read(&room_waiting), 0);
        assert_int_equal(count_of(&fixture, name, id),
                         LANE - 1 + 1 + 1); /* what filled it, the message, the question */
        host_stop(&fixture);
    }
}

/* EX-42: without room it ends with DeadlineExceeded at its time, not before, and never runs. EX-45, TR-63: its sender
 * may give it less time than the node does, not more. */
static void test_ex42_ex45_tr63_until_the_time_is_over(void **state)
{
    static const struct {
        uint32_t given_ms, ends_ms;
    } times[] = {{0, 1000}, {10, 10}, {60000, 1000}};
    host_fixture_t fixture;
    full_t full;

    (void)state;
    start(&fixture, 2);
    fill(&fixture, &full, "plain", "x");
    for (size_t i = 0; i < 3; i++) {
        const int64_t expired = zlink_counter_read(&room_expired);
        inner_t message = {
            .how = BY_SEND, .name = "plain", .id = "x", .script = script_count, .timeout_ms = times[i].given_ms};
        outside_t sender;
        assert_int_equal(outside_submit(&fixture, &sender, "plain", "s", script_call, &message), ZLINK_OK);
        wait_for_waiting(1);
        zlink_exec_fixture_advance(&fixture.exec, times[i].ends_ms - 1);
        assert_int_equal(host_ask(&fixture, "plain", "s", NULL, NULL, NULL), ZLINK_OK);
        assert_int_equal(zlink_counter_read(&room_waiting), 1);
        zlink_exec_fixture_advance(&fixture.exec, 1);
        assert_int_equal(outside_wait(&sender), ZLINK_DEADLINE_EXCEEDED);
        assert_int_equal(zlink_counter_read(&room_expired), expired + 1);
        assert_int_equal(zlink_counter_read(&room_waiting), 0);
    }
    empty(&fixture, &full);
    assert_int_equal(count_of(&fixture, "plain", "x"), LANE - 1 + 1);
    host_stop(&fixture);
}

/* A message that is no handler's waits in the same line. */
typedef struct bystander {
    zlink_room_wait_t wait;
    _Atomic size_t taken;
} bystander_t;

static void bystander_ended(zlink_room_wait_t *wait, zlink_status_t status)
{
    zlink_check(status == ZLINK_OK);
    atomic_fetch_add(&ZLINK_CONTAINER_OF(wait, bystander_t, wait)->taken, 1);
}

static void bystander_wait(host_fixture_t *fixture, bystander_t *bystander)
{
    const zlink_catalogue_spot_type_t *type = zlink_catalogue_find_spot_type(fixture->catalogue, "plain");
    const zlink_handler_t *handler = zlink_handler_table_find(&type->handlers, ZLINK_HANDLER_SEND, "tests.host.Note");
    const Note note = {.script = (uintptr_t)script_count};
    zlink_admission_resource_t full;
    uint8_t bytes[64];
    pb_ostream_t stream = pb_ostream_from_buffer(bytes, sizeof(bytes));
    bool held = false;

    assert_true(pb_encode(&stream, Note_fields, &note));
    zlink_invocation_t *invocation =
        zlink_invocation_create(fixture->host, handler, "nobody", bytes, stream.bytes_written, NULL, 0);
    invocation->deliver = zlink_invocation_deliver_nowhere;
    memset(bystander, 0, sizeof(*bystander));
    bystander->wait.ended = bystander_ended;
    assert_int_equal(zlink_spot_registry_execute_or_hold(fixture->host->spots, type, "x", invocation, &full, &held),
                     ZLINK_CAPACITY_EXCEEDED);
    assert_true(held && full == ZLINK_ADMISSION_APPLICATION_LANE);
    assert_int_equal(zlink_room_wait_begin(&bystander->wait, invocation), ZLINK_OK);
}

/* EX-43: with no place left to wait in it ends with DeadlineExceeded at once: the clock does not move. */
static void test_ex43_no_place_to_wait(void **state)
{
    enum { SENDERS = 8, BYSTANDERS = ZLINK_ROOM_WAITERS_MAX - SENDERS };
    static bystander_t bystanders[BYSTANDERS];
    const int64_t no_place = zlink_counter_read(&room_no_place);
    outside_t senders[SENDERS];
    inner_t messages[SENDERS];
    inner_t one_more = {.how = BY_SEND, .name = "plain", .id = "x", .script = script_count};
    host_fixture_t fixture;
    char id[16];
    full_t full;

    (void)state;
    start(&fixture, 2);
    fill(&fixture, &full, "plain", "x");
    for (size_t i = 0; i < BYSTANDERS; i++)
        bystander_wait(&fixture, &bystanders[i]);
    for (size_t i = 0; i < SENDERS; i++) {
        messages[i] = one_more;
        snprintf(id, sizeof(id), "s%zu", i);
        assert_int_equal(outside_submit(&fixture, &senders[i], "plain", id, script_call, &messages[i]), ZLINK_OK);
    }
    wait_for_waiting(ZLINK_ROOM_WAITERS_MAX);
    assert_int_equal(host_ask(&fixture, "plain", "late", script_call, &one_more, NULL), ZLINK_DEADLINE_EXCEEDED);
    assert_int_equal(zlink_counter_read(&room_no_place), no_place + 1);
    assert_int_equal(zlink_counter_read(&room_waiting), ZLINK_ROOM_WAITERS_MAX);
    empty(&fixture, &full);
    for (size_t i = 0; i < SENDERS; i++)
        assert_int_equal(outside_wait(&senders[i]), ZLINK_OK);
    for (size_t i = 0; i < BYSTANDERS; i++)
        host_wait_for(&bystanders[i].taken, 1);
    assert_int_equal(count_of(&fixture, "plain", "x"), LANE - 1 + (int32_t)ZLINK_ROOM_WAITERS_MAX + 1);
    host_stop(&fixture);
}

/* EX-73: a message to an owner whose gate or claim the sender holds would never find room: DeadlineExceeded at once. */
static zlink_status_t script_fill_own_lane(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    inner_t message = *(const inner_t *)context;

    (void)self;
    for (size_t i = 1; i < LANE; i++)
        zlink_check(inner_call(turn, &message, NULL) == ZLINK_OK);
    return inner_call(turn, &message, reply);
}

static void test_ex73_the_own_lane_is_not_waited_for(void **state)
{
    inner_t to_spot = {.how = BY_SEND, .name = "plain", .id = "a", .script = script_count};
    inner_t to_channel = {.how = BY_SEND, .name = "side", .script = script_count};
    const int64_t waits = zlink_counter_read(&room_waits);
    host_fixture_t fixture;

    (void)state;
    start(&fixture, 2);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_fill_own_lane, &to_spot, NULL), ZLINK_DEADLINE_EXCEEDED);
    assert_int_equal(host_ask(&fixture, "side", NULL, script_fill_own_lane, &to_channel, NULL),
                     ZLINK_DEADLINE_EXCEEDED);
    assert_int_equal(zlink_counter_read(&room_waits), waits);
    assert_int_equal(count_of(&fixture, "plain", "a"), LANE - 1 + 1);
    assert_int_equal(count_of(&fixture, "side", NULL), LANE - 1 + 1);
    away_set(&fixture, AWAY_ANSWERS, ZLINK_OK);
    host_stop(&fixture);
}

/* A handler of a channel may not give its gate away: it waits with it, and what came later stays behind it. */
static void test_a_channels_handler_waits_in_its_place(void **state)
{
    inner_t message = {.how = BY_SEND, .name = "plain", .id = "x", .script = script_count};
    host_fixture_t fixture;
    outside_t sender, later;
    full_t full;

    (void)state;
    start(&fixture, 2);
    fill(&fixture, &full, "plain", "x");
    assert_int_equal(outside_submit(&fixture, &sender, "side", NULL, script_call, &message), ZLINK_OK);
    wait_for_waiting(1);
    assert_int_equal(outside_submit(&fixture, &later, "side", NULL, script_count, NULL), ZLINK_OK);
    assert_int_equal(host_ask(&fixture, "plain", "other", script_count, NULL, NULL), ZLINK_OK);
    assert_int_equal(atomic_load(&later.completions), 0);
    empty(&fixture, &full);
    assert_int_equal(outside_wait(&sender), ZLINK_OK);
    assert_int_equal(outside_wait(&later), ZLINK_OK);
    assert_int_equal(count_of(&fixture, "plain", "x"), LANE - 1 + 1 + 1);
    host_stop(&fixture);
}

static _Atomic size_t sent_in_vain;

static zlink_status_t script_then_and_send(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    inner_t message = {.how = BY_SEND, .name = "plain", .id = "x", .script = script_count};

    (void)self;
    zlink_check(inner_call(turn, context, reply) == ZLINK_OK);
    zlink_check(inner_call(turn, &message, NULL) == ZLINK_DEADLINE_EXCEEDED);
    atomic_fetch_add(&sent_in_vain, 1);
    return ZLINK_OK;
}

/* A turn with an open `_then` call has no way to wait: at once. */
static void test_ex43_a_turn_that_cannot_wait(void **state)
{
    inner_t then = {.how = BY_YIELD_THEN, .name = "far"};
    const int64_t waits = zlink_counter_read(&room_waits);
    host_fixture_t fixture;
    outside_t sender;
    full_t full;

    (void)state;
    start(&fixture, 2);
    fill(&fixture, &full, "plain", "x");
    assert_int_equal(outside_submit(&fixture, &sender, "plain", "s", script_then_and_send, &then), ZLINK_OK);
    host_wait_for(&sent_in_vain, 1);
    empty(&fixture, &full);
    assert_int_equal(outside_wait(&sender), ZLINK_OK);
    assert_int_equal(zlink_counter_read(&room_waits), waits);
    assert_int_equal(count_of(&fixture, "plain", "x"), LANE - 1 + 1);
    host_stop(&fixture);
}

/* What the messages say when they run, in order. */
static _Atomic size_t said_count;
static intptr_t said[64];

static zlink_status_t script_say(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    (void)turn, (void)self, (void)reply;
    said[atomic_load(&said_count)] = (intptr_t)context;
    atomic_fetch_add(&said_count, 1);
    return ZLINK_OK;
}

/* EX-42: room is for the oldest. */
static void test_ex42_the_oldest_goes_first(void **state)
{
    enum { SENDERS = 10 };
    inner_t messages[SENDERS];
    outside_t senders[SENDERS];
    host_fixture_t fixture;
    full_t full;
    char id[32];

    (void)state;
    start(&fixture, 2);
    atomic_store(&said_count, 0);
    fill(&fixture, &full, "plain", "x");
    for (intptr_t i = 0; i < SENDERS; i++) {
        messages[i] = (inner_t){.how = BY_SEND, .name = "plain", .id = "x", .script = script_say, .context = (void *)i};
        snprintf(id, sizeof(id), "s%zd", i);
        assert_int_equal(outside_submit(&fixture, &senders[i], "plain", id, script_call, &messages[i]), ZLINK_OK);
        wait_for_waiting(i + 1);
    }
    empty(&fixture, &full);
    for (size_t i = 0; i < SENDERS; i++)
        assert_int_equal(outside_wait(&senders[i]), ZLINK_OK);
    host_wait_for(&said_count, SENDERS);
    for (intptr_t i = 0; i < SENDERS; i++)
        assert_int_equal(said[i], i);
    host_stop(&fixture);
}

static zlink_status_t script_close_spot(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    (void)self, (void)context, (void)reply;
    return zlink_spot_close(turn);
}

static zlink_status_t script_hold_and_close(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    zlink_status_t status = script_hold(turn, self, context, reply);
    return status == ZLINK_OK ? script_close_spot(turn, self, context, reply) : status;
}

/* A Spot that closes while a message waits for room in it takes it no more: Unavailable, and it comes to its end. */
static void test_a_spot_that_closes_takes_nothing_more(void **state)
{
    inner_t message = {.how = BY_SEND, .name = "living", .id = "x", .script = script_count};
    outside_t holder, others[LANE - 1], sender;
    host_fixture_t fixture;

    (void)state;
    start(&fixture, 2);
    assert_int_equal(outside_submit(&fixture, &holder, "living", "x", script_hold_and_close, NULL), ZLINK_OK);
    host_wait_for(&fixture.away.submitted, 1);
    for (size_t i = 0; i < LANE - 1; i++)
        assert_int_equal(outside_submit(&fixture, &others[i], "living", "x", script_count, NULL), ZLINK_OK);
    assert_int_equal(outside_submit(&fixture, &sender, "plain", "s", script_call, &message), ZLINK_OK);
    wait_for_waiting(1);
    away_set(&fixture, AWAY_ANSWERS, ZLINK_OK);
    assert_int_equal(outside_wait(&holder), ZLINK_OK);
    assert_int_equal(outside_wait(&sender), ZLINK_UNAVAILABLE);
    for (size_t i = 0; i < LANE - 1; i++)
        assert_int_equal(outside_wait(&others[i]), ZLINK_OK);
    host_wait_for(&host_hooks.closing, 1);
    zlink_status_t status;
    int32_t value;
    do /* the old life may be there for a moment yet */
        status = host_ask(&fixture, "living", "x", script_count, NULL, &value);
    while (status == ZLINK_UNAVAILABLE);
    assert_int_equal(value, 1);
    host_stop(&fixture);
}

typedef struct given_up {
    zlink_cancellation_t *cancellation;
    _Atomic size_t ends;
} given_up_t;

static zlink_status_t script_send_cancellable(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    given_up_t *given_up = context;
    const Note note = {.script = (uintptr_t)script_count};
    const zlink_call_options_t options = {.cancellation = given_up->cancellation};

    (void)self, (void)reply;
    zlink_status_t status = zlink_instance_spot_send(turn, "plain", "x", ZLINK_ASK_WITH(Note, &note, &options));
    zlink_check(status == ZLINK_CANCELLED);
    atomic_fetch_add(&given_up->ends, 1);
    return ZLINK_OK;
}

/* EX-59: what is given up while it waits never goes in. */
static void test_ex59_given_up_while_it_waits(void **state)
{
    given_up_t given_up = {.cancellation = zlink_cancellation_create()};
    host_fixture_t fixture;
    outside_t sender;
    full_t full;

    (void)state;
    start(&fixture, 2);
    fill(&fixture, &full, "plain", "x");
    assert_int_equal(outside_submit(&fixture, &sender, "plain", "s", script_send_cancellable, &given_up), ZLINK_OK);
    wait_for_waiting(1);
    zlink_cancellation_cancel(given_up.cancellation);
    assert_int_equal(outside_wait(&sender), ZLINK_OK);
    assert_int_equal(atomic_load(&given_up.ends), 1);
    assert_int_equal(zlink_counter_read(&room_waiting), 0);
    empty(&fixture, &full);
    assert_int_equal(count_of(&fixture, "plain", "x"), LANE - 1 + 1);
    zlink_cancellation_destroy(given_up.cancellation);
    host_stop(&fixture);
}

/* EX-74: what one owner's queue refuses for good and what waits for a share of it differ, in status and in counter. */
static void test_ex74_refused_and_waiting_differ(void **state)
{
    inner_t request = {.how = BY_ASYNC, .name = "plain", .id = "x", .script = script_count};
    inner_t message = {.how = BY_SEND, .name = "plain", .id = "x", .script = script_count};
    const int64_t refused = zlink_counter_read(&requests_lane_full);
    const int64_t waits = zlink_counter_read(&room_waits);
    const int64_t expired = zlink_counter_read(&room_expired);
    host_fixture_t fixture;
    outside_t sender;
    full_t full;

    (void)state;
    start(&fixture, 2);
    fill(&fixture, &full, "plain", "x");
    assert_int_equal(host_ask(&fixture, "plain", "s", script_call, &request, NULL), ZLINK_CAPACITY_EXCEEDED);
    assert_int_equal(zlink_counter_read(&requests_lane_full), refused + 1);
    assert_int_equal(zlink_counter_read(&room_waits), waits);
    assert_int_equal(outside_submit(&fixture, &sender, "plain", "s", script_call, &message), ZLINK_OK);
    wait_for_waiting(1);
    zlink_exec_fixture_advance(&fixture.exec, 1000);
    assert_int_equal(outside_wait(&sender), ZLINK_DEADLINE_EXCEEDED);
    assert_int_equal(zlink_counter_read(&requests_lane_full), refused + 1);
    assert_int_equal(zlink_counter_read(&room_waits), waits + 1);
    assert_int_equal(zlink_counter_read(&room_expired), expired + 1);
    empty(&fixture, &full);
    host_stop(&fixture);
}

/* ---- on the way out ---- */

static zlink_outbound_call_t *held_call(host_fixture_t *fixture)
{
    pthread_mutex_lock(&fixture->away.lock);
    zlink_outbound_call_t *call = fixture->away.calls[0];
    pthread_mutex_unlock(&fixture->away.lock);
    return call;
}

/* EX-73, TR-62: a message that waits for room on its way out is waited for without the gate; while nobody has said so
 * the sender keeps its turn. */
static void test_ex73_tr62_without_the_gate_for_a_link(void **state)
{
    inner_t message = {.how = BY_SEND, .name = "far"};
    host_fixture_t fixture;
    outside_t sender, other;
    int32_t value;

    (void)state;
    start(&fixture, 2);
    for (int slow = 0; slow < 2; slow++) {
        const size_t submitted = atomic_load(&fixture.away.submitted);
        assert_int_equal(outside_submit(&fixture, &sender, "plain", "s", script_call, &message), ZLINK_OK);
        host_wait_for(&fixture.away.submitted, submitted + 1);
        assert_int_equal(outside_submit(&fixture, &other, "plain", "s", script_count, NULL), ZLINK_OK);
        assert_int_equal(host_ask(&fixture, "plain", "elsewhere", script_count, NULL, NULL), ZLINK_OK);
        assert_int_equal(atomic_load(&other.completions), 0);
        zlink_outbound_call_t *call = held_call(&fixture);
        assert_non_null(call->waits);
        call->waits(call);
        if (slow) {
            assert_int_equal(outside_wait(&other), ZLINK_OK);
            assert_int_equal(host_ask(&fixture, "plain", "s", script_count, NULL, &value), ZLINK_OK);
            assert_int_equal(value, 3);
        } /* or its end comes before the sender has got so far */
        away_set(&fixture, AWAY_FAILS, slow ? ZLINK_DEADLINE_EXCEEDED : ZLINK_OK);
        assert_int_equal(outside_wait(&sender), slow ? ZLINK_DEADLINE_EXCEEDED : ZLINK_OK);
        if (!slow)
            assert_int_equal(outside_wait(&other), ZLINK_OK);
        away_set(&fixture, AWAY_HOLDS, ZLINK_OK);
    }
    assert_int_equal(outside_submit(&fixture, &sender, "side", NULL, script_call, &message), ZLINK_OK);
    host_wait_for(&fixture.away.submitted, 3);
    assert_null(held_call(&fixture)->waits); /* it may not give its gate away */
    away_set(&fixture, AWAY_ANSWERS, ZLINK_OK);
    assert_int_equal(outside_wait(&sender), ZLINK_OK);
    host_stop(&fixture);
}

static uint32_t called_send_timeout_ms(void *context, const char *channel)
{
    (void)context;
    return strcmp(channel, "called") == 0 ? 70 : 0;
}

/* EX-45, TR-63: a ClientServer channel may have a send timeout of its own; what a call says only shortens it. A
 * request's time is not touched by it. */
static void test_ex45_tr63_each_family_has_its_time(void **state)
{
    static const struct {
        how_t how;
        const char *name;
        uint32_t given_ms, ends_ms;
    } calls[] = {{BY_SEND, "called", 0, 70},   {BY_SEND, "called", 30, 30},       {BY_SEND, "called", 500, 70},
                 {BY_SEND, "far", 0, 1000},    {BY_SEND, "far", INT32_MAX, 1000}, {BY_ASYNC, "called", 0, 5000},
                 {BY_ASYNC, "far", 9000, 9000}};
    inner_t too_long = {.how = BY_SEND, .name = "far", .timeout_ms = (uint32_t)INT32_MAX + 1};
    host_fixture_t fixture;

    (void)state;
    host_init(&fixture, 2);
    fixture.options.outbound.send_timeout_ms = called_send_timeout_ms;
    host_start(&fixture);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        inner_t call = {.how = calls[i].how, .name = calls[i].name, .timeout_ms = calls[i].given_ms};
        assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &call, NULL), ZLINK_OK);
        assert_int_equal(fixture.away.seen.deadline_ms - zlink_clock_now_ms(&fixture.exec.clock), calls[i].ends_ms);
    }
    const size_t submitted = atomic_load(&fixture.away.submitted);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &too_long, NULL), ZLINK_INVALID_OPERATION);
    assert_int_equal(atomic_load(&fixture.away.submitted), submitted);
    host_stop(&fixture);
}

/* EX-75: what becomes of a message after it was taken is nobody's result: its sender has ended well. */
static void test_ex75_a_failure_afterwards_is_only_observed(void **state)
{
    inner_t message = {.how = BY_SEND, .name = "far"};
    inner_t here = {.how = BY_SEND, .name = "plain", .id = "b", .script = script_fail};
    host_fixture_t fixture;

    (void)state;
    start(&fixture, 2);
    atomic_store(&fixture.away.takes, true);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &message, NULL), ZLINK_OK);
    away_set(&fixture, AWAY_FAILS, ZLINK_UNAVAILABLE);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &here, NULL), ZLINK_OK);
    assert_int_equal(count_of(&fixture, "plain", "a"), 1);
    host_stop(&fixture);
}

/* ---- all at once ---- */

enum { STORM_SPOTS = 24, STORM_ROUNDS = 60 };

static _Atomic size_t storm_said;

static zlink_status_t script_storm_say(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    (void)turn, (void)self, (void)context, (void)reply;
    atomic_fetch_add(&storm_said, 1);
    return ZLINK_OK;
}

/* Sends to the others in turn, over and over, also round in circles: who waits holds nothing that another needs. */
static zlink_status_t script_storm(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    const size_t own = (size_t)(uintptr_t)context;
    char id[16];

    (void)self, (void)reply;
    for (size_t round = 0; round < STORM_ROUNDS; round++) {
        snprintf(id, sizeof(id), "t%zu", (own + 1 + round % 3) % STORM_SPOTS);
        inner_t message = {.how = BY_SEND, .name = "plain", .id = id, .script = script_storm_say};
        zlink_check(inner_call(turn, &message, NULL) == ZLINK_OK);
    }
    return ZLINK_OK;
}

/* EX-42: nobody is forgotten, and each message goes in once: the clock stands still, so none may end by its time. */
static void test_ex42_nobody_is_forgotten(void **state)
{
    const int64_t waits = zlink_counter_read(&room_waits);
    outside_t senders[STORM_SPOTS];
    host_fixture_t fixture;
    size_t expected = 0;
    char id[16];

    (void)state;
    host_init(&fixture, 4);
    fixture.options.policy.application_message_capacity = 2;
    host_start(&fixture);
    atomic_store(&storm_said, 0);
    for (int again = 0; again < 20; again++) {
        for (uintptr_t i = 0; i < STORM_SPOTS; i++) {
            zlink_status_t status;
            snprintf(id, sizeof(id), "t%zu", (size_t)i);
            do
                status = outside_submit(&fixture, &senders[i], "plain", id, script_storm, (void *)i);
            while (status == ZLINK_CAPACITY_EXCEEDED);
            assert_int_equal(status, ZLINK_OK);
        }
        for (size_t i = 0; i < STORM_SPOTS; i++)
            assert_int_equal(outside_wait(&senders[i]), ZLINK_OK);
        expected += (size_t)STORM_SPOTS * STORM_ROUNDS;
        host_wait_for(&storm_said, expected);
        assert_int_equal(atomic_load(&storm_said), expected);
    }
    assert_true(zlink_counter_read(&room_waits) > waits);
    assert_int_equal(zlink_counter_read(&room_waiting), 0);
    host_stop(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex42_ex73_tr62_a_full_lane_is_waited_for),
        cmocka_unit_test(test_ex42_ex45_tr63_until_the_time_is_over),
        cmocka_unit_test(test_ex43_no_place_to_wait),
        cmocka_unit_test(test_ex73_the_own_lane_is_not_waited_for),
        cmocka_unit_test(test_a_channels_handler_waits_in_its_place),
        cmocka_unit_test(test_ex43_a_turn_that_cannot_wait),
        cmocka_unit_test(test_ex42_the_oldest_goes_first),
        cmocka_unit_test(test_a_spot_that_closes_takes_nothing_more),
        cmocka_unit_test(test_ex59_given_up_while_it_waits),
        cmocka_unit_test(test_ex74_refused_and_waiting_differ),
        cmocka_unit_test(test_ex73_tr62_without_the_gate_for_a_link),
        cmocka_unit_test(test_ex45_tr63_each_family_has_its_time),
        cmocka_unit_test(test_ex75_a_failure_afterwards_is_only_observed),
        cmocka_unit_test(test_ex42_nobody_is_forgotten),
    };
    zlink_log_set_level(ZLINK_LOG_OFF);
    return zlink_test_main(tests);
}
