/*
 * tests/unit/host_fixture.h: an application host with a catalogue of its own, on a clock that stands still, without a
 * mesh: what leaves it goes to a stand-in, a thread that answers as the test says.
 *
 * All handlers are one: it runs the function (a script) that the request names, so each test has its code beside it.
 * Scripts run on workers: there zlink_check() takes the place of cmocka's assertions.
 */
#ifndef ZLINK_TESTS_UNIT_HOST_FIXTURE_H
#define ZLINK_TESTS_UNIT_HOST_FIXTURE_H

#include <assert.h>
#include <pb_decode.h>
#include <pb_encode.h>
#include <pthread.h>
#include <time.h>

#include <zlink/zlink.h>

#include "exec_fixture.h"
#include "host.zlink.h"

#include "base/container_of.h"
#include "base/log.h"
#include "base/memory.h"
#include "server/application/application_host.h"
#include "server/application/channel_host.h"
#include "server/application/spot_registry.h"

#define HOST_CALLS_MAX 64

/* ---- the application: types "plain" and "living", channels "desk" and "side" ---- */

/* `reply` is NULL in a one-way message. */
typedef zlink_status_t (*script_t)(zlink_turn_t *turn, void *self, void *context, RunRes *reply);

typedef struct spot_state {
    int32_t value;
    int32_t created; /* how often on_create ran in this life */
} spot_state_t;

/* What the lifecycle callbacks of "living" and "desk" do; set before the call that needs it. */
typedef struct host_hooks {
    zlink_status_t (*on_create)(zlink_turn_t *turn, void *self);
    void (*on_closing)(zlink_turn_t *turn, void *self);
    zlink_status_t (*on_start)(zlink_turn_t *turn, void *self);
    void (*on_channel_closing)(zlink_turn_t *turn, void *self);
    _Atomic size_t created, closing, started, channels_closing;
} host_hooks_t;

static host_hooks_t host_hooks;

static inline zlink_status_t host_run(zlink_turn_t *turn, void *self, const RunReq *request, RunRes *reply)
{
    script_t script = (script_t)(uintptr_t)request->script;
    return script ? script(turn, self, (void *)(uintptr_t)request->context, reply) : ZLINK_OK;
}

static inline zlink_status_t host_note(zlink_turn_t *turn, void *self, const Note *note)
{
    script_t script = (script_t)(uintptr_t)note->script;
    return script ? script(turn, self, (void *)(uintptr_t)note->context, NULL) : ZLINK_OK;
}

static inline zlink_status_t host_on_create(zlink_turn_t *turn, void *self)
{
    ((spot_state_t *)self)->created++;
    atomic_fetch_add(&host_hooks.created, 1);
    return host_hooks.on_create ? host_hooks.on_create(turn, self) : ZLINK_OK;
}

static inline void host_on_closing(zlink_turn_t *turn, void *self)
{
    if (host_hooks.on_closing)
        host_hooks.on_closing(turn, self);
    atomic_fetch_add(&host_hooks.closing, 1);
}

static inline zlink_status_t host_on_start(zlink_turn_t *turn, void *self)
{
    atomic_fetch_add(&host_hooks.started, 1);
    return host_hooks.on_start ? host_hooks.on_start(turn, self) : ZLINK_OK;
}

static inline void host_on_channel_closing(zlink_turn_t *turn, void *self)
{
    if (host_hooks.on_channel_closing)
        host_hooks.on_channel_closing(turn, self);
    atomic_fetch_add(&host_hooks.channels_closing, 1);
}

static const zlink_handler_t host_handlers[] = {
    ZLINK_ON_REQUEST(RunReq, RunRes, host_run),
    ZLINK_ON_SEND(Note, host_note),
    ZLINK_HANDLERS_END,
};

static const zlink_spot_type_t host_plain = {
    .name = "plain",
    .kind = ZLINK_INSTANCE_SPOT,
    .state_size = sizeof(spot_state_t),
    .relocation = ZLINK_RELOCATION_DISABLED,
    .handlers = host_handlers,
};
static const zlink_spot_type_t host_living = {
    .name = "living",
    .kind = ZLINK_INSTANCE_SPOT,
    .state_size = sizeof(spot_state_t),
    .relocation = ZLINK_RELOCATION_DISABLED,
    .on_create = host_on_create,
    .on_closing = host_on_closing,
    .handlers = host_handlers,
};
static const zlink_channel_type_t host_side = {
    .name = "side", .state_size = sizeof(spot_state_t), .handlers = host_handlers};
static const zlink_channel_type_t host_desk = {
    .name = "desk",
    .state_size = sizeof(spot_state_t),
    .on_start = host_on_start,
    .on_closing = host_on_channel_closing,
    .handlers = host_handlers,
};

/* ---- the stand-in for the mesh ---- */

typedef enum away_habit {
    AWAY_ANSWERS = 0, /* RunRes { value: 42 } */
    AWAY_ANSWERS_WITH_ANOTHER_TYPE,
    AWAY_ANSWERS_GARBAGE,
    AWAY_FAILS, /* with away.status */
    AWAY_HOLDS, /* until away_let_go() */
} away_habit_t;

typedef struct host_fixture {
    zlink_exec_fixture_t exec;
    zlink_catalogue_t *catalogue;
    zlink_application_host_options_t options;
    zlink_application_host_t *host;
    zlink_refusal_t why;
    sem_t stage;

    struct {
        pthread_t thread;
        pthread_mutex_t lock;
        pthread_cond_t changed;
        zlink_outbound_call_t *calls[HOST_CALLS_MAX];
        size_t count;
        bool stop;
        away_habit_t habit;
        zlink_status_t status;
        _Atomic size_t submitted, cancelled;
        _Atomic uint32_t weight;    /* that a handler has set */
        _Atomic bool takes;         /* one-way messages count as taken at once */
        zlink_outbound_call_t seen; /* of the last call; its strings belong to the call */
        bool client_server;         /* "desk" is a channel of ClientServer, with both its sides here */
    } away;
} host_fixture_t;

static inline void away_answer(host_fixture_t *fixture, away_habit_t habit, zlink_outbound_call_t *call)
{
    uint8_t bytes[64] = {0x08, 42}; /* value: 42 */
    zlink_call_answer_t answer = {"tests.host.RunRes", bytes, 2, NULL};

    switch (habit) {
    case AWAY_ANSWERS_WITH_ANOTHER_TYPE:
        answer.packet = "tests.host.OtherRes";
        answer.payload_bytes = 0;
        break;
    case AWAY_ANSWERS_GARBAGE:
        memset(bytes, 0xff, sizeof(bytes));
        answer.payload_bytes = sizeof(bytes);
        break;
    case AWAY_FAILS:
        call->completed(call, fixture->away.status, &(zlink_call_answer_t){0});
        return;
    default:
        break;
    }
    call->completed(call, ZLINK_OK, call->one_way ? &(zlink_call_answer_t){0} : &answer);
}

static inline void *away_main(void *context)
{
    host_fixture_t *fixture = context;

    pthread_mutex_lock(&fixture->away.lock);
    for (;;) {
        while (!fixture->away.stop && (fixture->away.count == 0 || fixture->away.habit == AWAY_HOLDS))
            pthread_cond_wait(&fixture->away.changed, &fixture->away.lock);
        if (fixture->away.count == 0 || fixture->away.habit == AWAY_HOLDS)
            break;
        zlink_outbound_call_t *call = fixture->away.calls[0];
        memmove(&fixture->away.calls[0], &fixture->away.calls[1], --fixture->away.count * sizeof(call));
        const away_habit_t habit = fixture->away.habit;
        pthread_mutex_unlock(&fixture->away.lock);
        away_answer(fixture, habit, call);
        pthread_mutex_lock(&fixture->away.lock);
    }
    zlink_check(fixture->away.count == 0);
    pthread_mutex_unlock(&fixture->away.lock);
    return NULL;
}

static inline void away_submit(void *context, zlink_outbound_call_t *call)
{
    host_fixture_t *fixture = context;

    pthread_mutex_lock(&fixture->away.lock);
    zlink_check(fixture->away.count < HOST_CALLS_MAX);
    fixture->away.calls[fixture->away.count++] = call;
    fixture->away.seen = *call;
    pthread_cond_signal(&fixture->away.changed);
    pthread_mutex_unlock(&fixture->away.lock);
    atomic_fetch_add(&fixture->away.submitted, 1);
}

static inline bool away_take(void *context, zlink_outbound_call_t *call)
{
    host_fixture_t *fixture = context;

    if (atomic_load(&fixture->away.takes))
        away_submit(context, call);
    return atomic_load(&fixture->away.takes);
}

/* The Spots of "foreign" live on node "there". */
static inline const char *away_spot_home(void *context, const char *type)
{
    (void)context;
    return strcmp(type, "foreign") == 0 ? "there" : NULL;
}

static inline zlink_status_t away_set_weight(void *context, const char *channel, uint32_t weight)
{
    host_fixture_t *fixture = context;

    zlink_check(strcmp(channel, "side") == 0);
    atomic_store(&fixture->away.weight, weight);
    return ZLINK_OK;
}

/* "called" and "served" are channels of ClientServer, and "desk" where away.client_server says so. */
static inline zlink_channel_side_t away_channel_side(void *context, const char *channel)
{
    const host_fixture_t *fixture = context;

    if (strcmp(channel, "called") == 0 || (fixture->away.client_server && strcmp(channel, "desk") == 0))
        return ZLINK_CHANNEL_CALLED;
    return strcmp(channel, "served") == 0 ? ZLINK_CHANNEL_ONLY_SERVED : ZLINK_CHANNEL_OF_THE_MESH;
}

/* A call that is still held ends; one that was answered is left alone. */
static inline void away_cancel(void *context, zlink_outbound_call_t *call)
{
    host_fixture_t *fixture = context;
    bool held = false;

    pthread_mutex_lock(&fixture->away.lock);
    for (size_t i = 0; i < fixture->away.count && !held; i++) {
        held = fixture->away.calls[i] == call;
        if (held)
            memmove(&fixture->away.calls[i], &fixture->away.calls[i + 1], (--fixture->away.count - i) * sizeof(call));
    }
    pthread_mutex_unlock(&fixture->away.lock);
    atomic_fetch_add(&fixture->away.cancelled, 1);
    if (held)
        call->completed(call, ZLINK_CANCELLED, &(zlink_call_answer_t){0});
    call->release(call);
}

static inline void away_set(host_fixture_t *fixture, away_habit_t habit, zlink_status_t status)
{
    pthread_mutex_lock(&fixture->away.lock);
    fixture->away.habit = habit;
    fixture->away.status = status;
    pthread_cond_signal(&fixture->away.changed);
    pthread_mutex_unlock(&fixture->away.lock);
}

static inline void host_wait_for(_Atomic size_t *value, size_t wanted)
{
    const time_t until = time(NULL) + 60;

    while (atomic_load(value) < wanted) {
        if (time(NULL) > until)
            fail_msg("waited for %zu, got %zu", wanted, atomic_load(value));
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
}

/* ---- life ---- */

/* Pool, catalogue and options; the test changes options and then calls host_start(). */
static inline void host_init(host_fixture_t *fixture, unsigned workers)
{
    memset(fixture, 0, sizeof(*fixture));
    memset((void *)&host_hooks, 0, sizeof(host_hooks));
    zlink_exec_fixture_open(&fixture->exec, workers, 0);
    fixture->catalogue = zlink_catalogue_create();
    zlink_module_t module = {.catalogue = fixture->catalogue, .name = "unit"};
    zlink_module_add_spot_type(&module, &host_plain);
    zlink_module_add_spot_type(&module, &host_living);
    zlink_module_add_channel(&module, &host_side);
    zlink_module_add_channel(&module, &host_desk);
    assert_int_equal(module.status, ZLINK_OK);
    fixture->options = (zlink_application_host_options_t){
        .clock = &fixture->exec.clock,
        .node_id = "unit-node",
        .mesh = "unit-mesh",
        .policy = fixture->exec.policy,
        .request_timeout_ms = 5000,
        .send_timeout_ms = 1000,
        .message_bytes_max = 1u << 20,
        .spots_max = 1000,
        .jobs_max = 64,
        .outbound = {away_submit, away_take, away_spot_home, away_set_weight, away_cancel, away_channel_side, fixture,
                     NULL},
    };
    sem_init(&fixture->stage, 0, 0);
    pthread_mutex_init(&fixture->away.lock, NULL);
    pthread_cond_init(&fixture->away.changed, NULL);
    assert_int_equal(pthread_create(&fixture->away.thread, NULL, away_main, fixture), 0);
}

static inline zlink_status_t host_try_start(host_fixture_t *fixture)
{
    return zlink_application_host_create(fixture->exec.pool, fixture->catalogue, &fixture->options, &fixture->host,
                                         &fixture->why);
}

static inline void host_start(host_fixture_t *fixture)
{
    if (host_try_start(fixture) != ZLINK_OK)
        fail_msg("%s", fixture->why.line);
}

static inline void host_stage_ended(void *context)
{
    sem_post(context);
}

/* Only pool and stand-in: the host did not start or was closed by the test. */
static inline void host_release(host_fixture_t *fixture)
{
    pthread_mutex_lock(&fixture->away.lock);
    fixture->away.stop = true;
    pthread_cond_signal(&fixture->away.changed);
    pthread_mutex_unlock(&fixture->away.lock);
    pthread_join(fixture->away.thread, NULL); /* before the pool, which it may still be talking to */
    zlink_exec_fixture_close(&fixture->exec);
    zlink_application_host_destroy(fixture->host);
    zlink_catalogue_destroy(fixture->catalogue);
    pthread_mutex_destroy(&fixture->away.lock);
    pthread_cond_destroy(&fixture->away.changed);
    sem_destroy(&fixture->stage);
}

static inline void host_stop(host_fixture_t *fixture)
{
    zlink_application_host_when_idle(fixture->host, host_stage_ended, &fixture->stage);
    zlink_test_wait(&fixture->stage);
    zlink_application_host_close(fixture->host, host_stage_ended, &fixture->stage);
    zlink_test_wait(&fixture->stage);
    host_release(fixture);
}

static inline void host_open(host_fixture_t *fixture, unsigned workers)
{
    host_init(fixture, workers);
    host_start(fixture);
}

/* ---- calls from outside, as the mesh would bring them ---- */

typedef struct outside {
    sem_t done;
    _Atomic size_t completions;
    zlink_status_t status;
    RunRes reply;
} outside_t;

static inline void outside_delivered(zlink_invocation_t *invocation)
{
    outside_t *outside = invocation->route;

    outside->status = invocation->status;
    if (invocation->status == ZLINK_OK && invocation->handler->kind == ZLINK_HANDLER_REQUEST) {
        pb_istream_t stream = pb_istream_from_buffer(invocation->reply, invocation->reply_bytes);
        zlink_check(pb_decode(&stream, RunRes_fields, &outside->reply));
    } else {
        zlink_check(invocation->reply_bytes == 0);
    }
    zlink_invocation_free(invocation);
    atomic_fetch_add(&outside->completions, 1);
    sem_post(&outside->done);
}

/* `id` NULL: a channel. ZLINK_OK: outside_wait() follows. Refused: nothing happens any more. */
static inline zlink_status_t outside_submit_bytes(host_fixture_t *fixture, outside_t *outside,
                                                  zlink_handler_kind_t kind, const char *name, const char *id,
                                                  const uint8_t *bytes, size_t size, uint64_t deadline_ms)
{
    zlink_application_host_t *host = fixture->host;
    const zlink_catalogue_spot_type_t *type = id ? zlink_catalogue_find_spot_type(host->catalogue, name) : NULL;
    zlink_channel_host_t *channel = id ? NULL : zlink_application_host_find_channel(host, name);
    zlink_admission_resource_t full;
    zlink_status_t status;

    assert(type || channel);
    memset(outside, 0, sizeof(*outside));
    sem_init(&outside->done, 0, 0);
    const zlink_handler_table_t *table = type ? &type->handlers : &channel->channel->handlers;
    const zlink_handler_t *handler =
        zlink_handler_table_find(table, kind, kind == ZLINK_HANDLER_REQUEST ? "tests.host.RunReq" : "tests.host.Note");
    zlink_invocation_t *invocation =
        zlink_invocation_create(host, handler, "caller-node", bytes, size, NULL, deadline_ms);
    if (!invocation)
        return ZLINK_CAPACITY_EXCEEDED;
    invocation->deliver = outside_delivered;
    invocation->route = outside;
    status = type ? zlink_spot_registry_execute(host->spots, type, id, invocation, &full)
                  : zlink_channel_host_execute(channel, invocation);
    if (status != ZLINK_OK)
        zlink_invocation_free(invocation);
    return status;
}

static inline zlink_status_t outside_submit(host_fixture_t *fixture, outside_t *outside, const char *name,
                                            const char *id, script_t script, void *context)
{
    RunReq request = RunReq_init_zero;
    uint8_t bytes[64];
    pb_ostream_t stream = pb_ostream_from_buffer(bytes, sizeof(bytes));

    request.script = (uintptr_t)script;
    request.context = (uintptr_t)context;
    assert_true(pb_encode(&stream, RunReq_fields, &request));
    return outside_submit_bytes(fixture, outside, ZLINK_HANDLER_REQUEST, name, id, bytes, stream.bytes_written,
                                zlink_clock_now_ms(&fixture->exec.clock) + 60000);
}

static inline zlink_status_t outside_wait(outside_t *outside)
{
    zlink_test_wait(&outside->done);
    assert_int_equal(atomic_load(&outside->completions), 1);
    sem_destroy(&outside->done);
    return outside->status;
}

/* Submits and waits; the reply's value in `*value` (NULL allowed). */
static inline zlink_status_t host_ask(host_fixture_t *fixture, const char *name, const char *id, script_t script,
                                      void *context, int32_t *value)
{
    outside_t outside;
    zlink_status_t status = outside_submit(fixture, &outside, name, id, script, context);

    if (status == ZLINK_OK)
        status = outside_wait(&outside);
    if (value)
        *value = outside.reply.value;
    return status;
}

/* ---- calls that scripts make ---- */

typedef enum how {
    BY_ASYNC = 0,
    BY_YIELD,
    BY_ASYNC_THEN,
    BY_YIELD_THEN,
    BY_SEND,
    HOW_COUNT,
} how_t;

/* A call to be made by a script: filled by the test, and the outcome in it. */
typedef struct inner {
    how_t how;
    const char *name;
    const char *id; /* NULL: a channel */
    script_t script;
    void *context;
    uint32_t timeout_ms;
    host_fixture_t *fixture;
    zlink_status_t fails_with; /* not ZLINK_OK: what the handler returns after a `_then` call */

    zlink_status_t status; /* of the call, or of its refusal */
    int32_t value;         /* of its reply */
    _Atomic size_t ends;   /* how often the script learned of an end */
    sem_t began;           /* if the test has initialised it: the call is under way or was refused */
    bool tell;
} inner_t;

static inline zlink_status_t inner_ended(inner_t *inner, zlink_status_t status, const RunRes *res, RunRes *reply)
{
    inner->status = status;
    inner->value = status == ZLINK_OK && res ? res->value : 0;
    if (reply)
        reply->value = inner->value;
    atomic_fetch_add(&inner->ends, 1);
    return status;
}

typedef struct inner_then {
    inner_t *inner;
    RunRes res;
    RunRes *reply;
} inner_then_t;

static inline zlink_status_t inner_continue(zlink_turn_t *turn, void *self, zlink_status_t status, void *context)
{
    inner_then_t *then = context;

    zlink_check(zlink_turn_current() == turn && self == zlink_invocation_of(turn)->self);
    return inner_ended(then->inner, status, &then->res, then->reply);
}

static inline zlink_status_t inner_call_then(zlink_turn_t *turn, inner_t *inner, const RunReq *request, RunRes *reply)
{
    inner_then_t *then = zlink_turn_alloc(turn, sizeof(*then));
    const zlink_ask_t ask = ZLINK_ASK_WITHIN(RunReq, request, inner->timeout_ms);
    zlink_status_t status;

    if (!then)
        return inner_ended(inner, ZLINK_CAPACITY_EXCEEDED, NULL, reply);
    then->inner = inner;
    then->reply = reply;
    const zlink_reply_t res = ZLINK_REPLY(RunRes, &then->res);
    if (inner->how == BY_ASYNC_THEN)
        status = inner->id ? zlink_instance_spot_request_async_then(turn, inner->name, inner->id, ask, res,
                                                                    inner_continue, then)
                           : zlink_channel_request_async_then(turn, inner->name, ask, res, inner_continue, then);
    else
        status = inner->id ? zlink_instance_spot_request_yield_then(turn, inner->name, inner->id, ask, res,
                                                                    inner_continue, then)
                           : zlink_channel_request_yield_then(turn, inner->name, ask, res, inner_continue, then);
    if (status != ZLINK_OK)
        return inner_ended(inner, status, NULL, reply);
    return inner->fails_with;
}

static inline zlink_status_t inner_call(zlink_turn_t *turn, inner_t *inner, RunRes *reply)
{
    RunReq request = RunReq_init_zero;
    RunRes res = RunRes_init_zero;
    zlink_status_t status = ZLINK_INTERNAL_FAILURE;

    request.script = (uintptr_t)inner->script;
    request.context = (uintptr_t)inner->context;
    const zlink_ask_t ask = ZLINK_ASK_WITHIN(RunReq, &request, inner->timeout_ms);
    switch (inner->how) {
    case BY_ASYNC:
        status = inner->id
                     ? zlink_instance_spot_request_async(turn, inner->name, inner->id, ask, ZLINK_REPLY(RunRes, &res))
                     : zlink_channel_request_async(turn, inner->name, ask, ZLINK_REPLY(RunRes, &res));
        break;
    case BY_YIELD:
        status = inner->id
                     ? zlink_instance_spot_request_yield(turn, inner->name, inner->id, ask, ZLINK_REPLY(RunRes, &res))
                     : zlink_channel_request_yield(turn, inner->name, ask, ZLINK_REPLY(RunRes, &res));
        break;
    case BY_SEND: {
        Note note = Note_init_zero;
        note.script = request.script;
        note.context = request.context;
        const zlink_ask_t message = ZLINK_ASK_WITHIN(Note, &note, inner->timeout_ms);
        status = inner->id ? zlink_instance_spot_send(turn, inner->name, inner->id, message)
                           : zlink_channel_send(turn, inner->name, message);
        break;
    }
    default:
        return inner_call_then(turn, inner, &request, reply);
    }
    return inner_ended(inner, status, &res, reply);
}

/* The script that makes the call in `context`. */
static inline zlink_status_t script_call(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    (void)self;
    return inner_call(turn, context, reply);
}

/* self->value++, and the reply says how much it is. */
static inline zlink_status_t script_count(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    spot_state_t *state = self;

    (void)turn, (void)context;
    state->value++;
    if (reply)
        reply->value = state->value;
    return ZLINK_OK;
}

static inline zlink_status_t script_fail(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    (void)turn, (void)self, (void)context, (void)reply;
    return ZLINK_DATA_LOST;
}

/* Holds the turn until the stand-in answers: in the meantime the owner's queue fills. */
static inline zlink_status_t script_hold(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    inner_t away = {.how = BY_ASYNC, .name = "far"};

    (void)self, (void)context;
    return inner_call(turn, &away, reply);
}

#endif
