/*
 * The handlers of the node itself: one queue for all that the modules registered, reached by this node's id only, from
 * a peer and from here; and what the configuration makes of what was registered.
 */
#include "host_fixture.h"
#include "raw_peer.h"

#include "server/ingress.h"
#include "server/node_roles.h"

static raw_frame_t frame;

/* ---- what two modules register ---- */

static zlink_status_t on_other(zlink_turn_t *turn, void *self, const Unheard *request, OtherRes *reply)
{
    spot_state_t *state = self;

    (void)request;
    state->value += 100; /* of its own registration's state */
    snprintf(reply->text, sizeof(reply->text), "%s", zlink_turn_owner_name(turn));
    return ZLINK_OK;
}

static const zlink_handler_t other_rows[] = {ZLINK_ON_REQUEST(Unheard, OtherRes, on_other), ZLINK_HANDLERS_END};
static const zlink_node_handlers_t first = {.state_size = sizeof(spot_state_t), .handlers = host_handlers};
static const zlink_node_handlers_t second = {.state_size = sizeof(spot_state_t), .handlers = other_rows};

/* The fixture's module, with handlers of the node beside its channels and Spots. */
static void node_host_init(host_fixture_t *fixture)
{
    host_init(fixture, 2);
    zlink_module_t module = {.catalogue = fixture->catalogue, .name = "unit"};
    zlink_module_add_node_handlers(&module, &first);
    zlink_module_add_node_handlers(&module, &second);
    assert_int_equal(module.status, ZLINK_OK);
}

/* ---- calls that scripts make ---- */

typedef struct node_call {
    const char *node_id;
    how_t how;
    script_t script;
    void *context;
    zlink_status_t status;
    int32_t value;
    RunRes res;
    RunRes *reply;
} node_call_t;

static zlink_status_t node_called(zlink_turn_t *turn, void *self, zlink_status_t status, void *context)
{
    node_call_t *call = context;

    (void)turn, (void)self;
    call->status = status;
    call->value = call->res.value;
    if (call->reply)
        call->reply->value = call->value;
    return ZLINK_OK;
}

static zlink_status_t script_call_node(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    node_call_t *call = context;
    RunReq request = RunReq_init_zero;
    Note note = Note_init_zero;
    const zlink_reply_t res = ZLINK_REPLY(RunRes, &call->res);

    request.script = note.script = (uintptr_t)call->script;
    request.context = note.context = (uintptr_t)call->context;
    const zlink_ask_t ask = ZLINK_ASK(RunReq, &request);
    call->reply = reply;
    switch (call->how) {
    case BY_ASYNC:
        call->status = zlink_node_request_async(turn, call->node_id, ask, res);
        break;
    case BY_YIELD:
        call->status = zlink_node_request_yield(turn, call->node_id, ask, res);
        break;
    case BY_ASYNC_THEN:
        call->status = zlink_node_request_async_then(turn, call->node_id, ask, res, node_called, call);
        return ZLINK_OK;
    case BY_YIELD_THEN:
        call->status = zlink_node_request_yield_then(turn, call->node_id, ask, res, node_called, call);
        return ZLINK_OK;
    default:
        call->status = zlink_node_send(turn, call->node_id, ZLINK_ASK(Note, &note));
        return ZLINK_OK;
    }
    return node_called(turn, self, call->status, call);
}

static zlink_status_t script_tell(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    (void)context;
    zlink_check(strcmp(zlink_turn_mesh(turn), "unit-mesh") == 0);
    zlink_check(strcmp(zlink_turn_owner_name(turn), "unit-mesh") == 0);
    zlink_check(strcmp(zlink_turn_source(turn), "unit-node") == 0);
    zlink_check(zlink_spot_close(turn) == ZLINK_INVALID_OPERATION);
    return script_count(turn, self, NULL, reply);
}

/* TR-30: a node calls itself by its id, in every form; another id goes to the mesh and nowhere else. */
static void test_tr30_this_node_and_another(void **state)
{
    host_fixture_t fixture;

    (void)state;
    node_host_init(&fixture);
    host_start(&fixture);
    for (size_t how = 0; how < HOW_COUNT; how++) {
        node_call_t here = {.node_id = "unit-node", .how = (how_t)how, .script = script_tell};
        node_call_t away = {.node_id = "unit-other", .how = (how_t)how};
        assert_int_equal(host_ask(&fixture, "plain", "a", script_call_node, &here, NULL), ZLINK_OK);
        assert_int_equal(here.status, ZLINK_OK);
        if (how != BY_SEND)
            assert_int_equal(here.value, how + 1);
        assert_int_equal(atomic_load(&fixture.away.submitted), how);
        assert_int_equal(host_ask(&fixture, "plain", "a", script_call_node, &away, NULL), ZLINK_OK);
        assert_int_equal(away.status, ZLINK_OK);
        assert_int_equal(atomic_load(&fixture.away.submitted), how + 1);
        assert_int_equal(fixture.away.seen.route, ZLINK_ROUTE_EXACT_NODE);
        assert_int_equal(fixture.away.seen.target, ZLINK_TARGET_NODE);
        assert_int_equal(fixture.away.seen.one_way, how == BY_SEND);
    }
    node_call_t nobody = {.node_id = "unit-node", .how = BY_ASYNC};
    for (size_t i = 0; i < 3; i++) {
        static const char *const bad[] = {NULL, "", "\n"};
        nobody.node_id = bad[i];
        assert_int_equal(host_ask(&fixture, "plain", "a", script_call_node, &nobody, NULL), ZLINK_OK);
        assert_int_equal(nobody.status, ZLINK_INVALID_OPERATION);
    }
    host_stop(&fixture);
}

/* Without handlers of its own, a node that calls itself finds none. */
static void test_a_node_without_handlers(void **state)
{
    node_call_t call = {.node_id = "unit-node", .how = BY_ASYNC};
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 2);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_call_node, &call, NULL), ZLINK_OK);
    assert_int_equal(call.status, ZLINK_NOT_FOUND);
    assert_int_equal(atomic_load(&fixture.away.submitted), 0);
    host_stop(&fixture);
}

static zlink_status_t script_call_node_twice(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    node_call_t yields = {.node_id = "unit-other", .how = BY_YIELD};
    node_call_t itself = {.node_id = "unit-node", .how = BY_ASYNC};
    node_call_t message = {.node_id = "unit-node", .how = BY_SEND, .script = script_count};

    (void)context;
    zlink_check(script_call_node(turn, self, &yields, NULL) == ZLINK_OK);
    zlink_check(yields.status == ZLINK_INVALID_OPERATION);
    zlink_check(script_call_node(turn, self, &itself, NULL) == ZLINK_OK);
    zlink_check(itself.status == ZLINK_INVALID_OPERATION);
    zlink_check(script_call_node(turn, self, &message, NULL) == ZLINK_OK);
    zlink_check(message.status == ZLINK_OK);
    return script_count(turn, self, NULL, reply);
}

/* EX-24, EX-23: a node handler does not wait for itself, nor yield; a message to itself runs later. */
static void test_ex24_ex23_waits_of_a_node_handler(void **state)
{
    node_call_t call = {.node_id = "unit-node", .how = BY_ASYNC, .script = script_call_node_twice};
    node_call_t after = {.node_id = "unit-node", .how = BY_ASYNC, .script = script_count};
    host_fixture_t fixture;

    (void)state;
    node_host_init(&fixture);
    host_start(&fixture);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_call_node, &call, NULL), ZLINK_OK);
    assert_int_equal(call.value, 1);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_call_node, &after, NULL), ZLINK_OK);
    assert_int_equal(after.value, 3);
    assert_int_equal(atomic_load(&fixture.away.submitted), 0);
    host_stop(&fixture);
}

/* ---- from a peer ---- */

typedef struct door {
    host_fixture_t host;
    zlink_reactor_t *reactor;
    zlink_ingress_t ingress;
    zlink_node_identity_t identity;
    zlink_mesh_options_t options;
    zlink_status_t status;
    char address[64];
    raw_link_t peer;
} door_t;

static void door_create_here(void *context)
{
    door_t *door = context;

    zlink_ingress_init(&door->ingress, door->reactor, door->host.host);
    door->options.events = (zlink_mesh_events_t){
        .arrived = zlink_ingress_arrived,
        .picked_local = zlink_ingress_picked_local,
        .members_changed = zlink_ingress_members_changed,
        .own_weight = zlink_ingress_own_weight,
        .context = &door->ingress,
    };
    door->status = zlink_mesh_create(&door->options, &door->ingress.mesh, NULL);
    if (door->status == ZLINK_OK)
        snprintf(door->address, sizeof(door->address), "%s", zlink_mesh_address(door->ingress.mesh));
}

static void door_open(door_t *door)
{
    static const char *const channels[] = {"side"};

    memset(door, 0, sizeof(*door));
    node_host_init(&door->host);
    assert_int_equal(zlink_node_identity_make(&door->identity, "unit", "door"), ZLINK_OK);
    door->host.options.node_id = door->identity.node_id;
    host_start(&door->host);
    door->reactor = fixture_reactor(&(zlink_reactor_options_t){.clock = &door->host.exec.clock});
    door->options = (zlink_mesh_options_t){
        .reactor = door->reactor,
        .identity = &door->identity,
        .role = ZLINK_ROLE_SERVER,
        .listen = "127.0.0.1:0",
        .channels = channels,
        .channel_count = 1,
        .max_body_bytes = 1u << 20,
        .outbound_bytes = 1u << 20,
        .pending_max = 64,
    };
    zlink_reactor_call(door->reactor, door_create_here, door);
    assert_int_equal(door->status, ZLINK_OK);
    door->peer = raw_join(door->address, "raw" RAW_UUID, 1);
}

static void door_close_here(void *context)
{
    door_t *door = context;

    zlink_mesh_close(door->ingress.mesh, host_stage_ended, &door->host.stage);
}

static void door_destroy_here(void *context)
{
    zlink_mesh_destroy(((door_t *)context)->ingress.mesh);
}

static void door_close(door_t *door)
{
    raw_leave(&door->peer);
    zlink_application_host_when_idle(door->host.host, host_stage_ended, &door->host.stage);
    zlink_test_wait(&door->host.stage);
    zlink_application_host_close(door->host.host, host_stage_ended, &door->host.stage);
    zlink_test_wait(&door->host.stage);
    zlink_reactor_call(door->reactor, door_close_here, door);
    zlink_test_wait(&door->host.stage);
    zlink_reactor_call(door->reactor, door_destroy_here, door);
    zlink_reactor_destroy(door->reactor);
    host_release(&door->host);
}

/* `route` 0: a one-way message. */
static void send_call(door_t *door, uint64_t route, zlink_target_kind_t kind, const char *name, const char *packet,
                      script_t script, void *context)
{
    zlink_wire_call_t names = {.target.kind = kind};
    uint8_t envelope[ZLINK_WIRE_SMALL_ENVELOPE_MAX], payload[64];
    RunReq request = RunReq_init_zero;
    pb_ostream_t stream = pb_ostream_from_buffer(payload, sizeof(payload));
    size_t size = 0;

    snprintf(names.target.name, sizeof(names.target.name), "%s", name);
    snprintf(names.packet, sizeof(names.packet), "%s", packet);
    request.script = (uintptr_t)script;
    request.context = (uintptr_t)context;
    assert_true(pb_encode(&stream, RunReq_fields, &request));
    assert_int_equal(zlink_wire_call_encode(&names, envelope, sizeof(envelope), &size), ZLINK_OK);
    raw_send(door->peer.application,
             (zlink_frame_prefix_t){.kind = route ? ZLINK_FRAME_REQUEST : ZLINK_FRAME_SEND,
                                    .reply_route_id = route,
                                    .deadline_ms = route ? 30000 : 0},
             envelope, size, payload, stream.bytes_written);
}

static void send_to_node(door_t *door, uint64_t route, const char *node_id, const char *packet, script_t script)
{
    send_call(door, route, ZLINK_TARGET_NODE, node_id, packet, script, NULL);
}

static void answered_value(door_t *door, uint64_t route, int32_t value)
{
    RunRes res = RunRes_init_zero;

    raw_expect_call(door->peer.completion, ZLINK_FRAME_REPLY, &frame);
    pb_istream_t stream = pb_istream_from_buffer(frame.body + frame.prefix.envelope_bytes,
                                                 frame.prefix.body_bytes - frame.prefix.envelope_bytes);
    assert_int_equal(frame.prefix.reply_route_id, route);
    assert_true(pb_decode(&stream, RunRes_fields, &res));
    assert_int_equal(res.value, value);
}

static void answered_error(door_t *door, uint64_t route, zlink_status_t status)
{
    raw_expect_call(door->peer.completion, ZLINK_FRAME_ERROR, &frame);
    assert_int_equal(frame.prefix.reply_route_id, route);
    assert_int_equal(zlink_frame_status_of(frame.prefix.error), status);
}

/* Who calls, in which mesh: what a node handler is told. */
static zlink_status_t script_knows_its_caller(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    zlink_check(strcmp(zlink_turn_source(turn), "raw" RAW_UUID) == 0);
    zlink_check(strcmp(zlink_turn_mesh(turn), "unit-mesh") == 0);
    return script_count(turn, self, context, reply);
}

/* TR-30: by this id only, and only with what is registered. */
static void test_tr30_a_peer_reaches_the_node_by_its_id(void **state)
{
    door_t door;

    (void)state;
    door_open(&door);
    const char *own = door.identity.node_id;
    send_to_node(&door, 1, own, "tests.host.RunReq", script_knows_its_caller);
    answered_value(&door, 1, 1);
    send_to_node(&door, 0, own, "tests.host.Note", script_count);
    send_to_node(&door, 2, own, "tests.host.RunReq", script_count);
    answered_value(&door, 2, 3);
    send_to_node(&door, 3, "door-76543210-fedc-4ba9-a765-43210fedcba9", "tests.host.RunReq", script_count);
    answered_error(&door, 3, ZLINK_NOT_FOUND);
    send_to_node(&door, 4, own, "tests.host.Note", script_count); /* one-way only */
    answered_error(&door, 4, ZLINK_NOT_FOUND);
    send_to_node(&door, 5, own, "tests.host.Nothing", script_count);
    answered_error(&door, 5, ZLINK_NOT_FOUND);
    send_to_node(&door, 0, "door", "tests.host.Note", script_count); /* dropped */
    send_to_node(&door, 6, own, "tests.host.RunReq", script_fail);
    answered_error(&door, 6, ZLINK_DATA_LOST);
    send_to_node(&door, 7, own, "tests.host.RunReq", script_count);
    answered_value(&door, 7, 4);
    door_close(&door);
}

/* TR-41: one packet in the node's scope and in a channel's: two handlers, two states. */
static void test_tr41_node_and_channel_are_two_scopes(void **state)
{
    door_t door;

    (void)state;
    door_open(&door);
    for (int32_t i = 1; i <= 3; i++) {
        send_to_node(&door, (uint64_t)i, door.identity.node_id, "tests.host.RunReq", script_count);
        answered_value(&door, (uint64_t)i, i);
    }
    send_call(&door, 9, ZLINK_TARGET_CHANNEL, "side", "tests.host.RunReq", script_count, NULL);
    answered_value(&door, 9, 1);
    /* The other registration of the node has a state of its own as well. */
    send_to_node(&door, 10, door.identity.node_id, "tests.host.Unheard", NULL);
    raw_expect_call(door.peer.completion, ZLINK_FRAME_REPLY, &frame);
    send_to_node(&door, 11, door.identity.node_id, "tests.host.RunReq", script_count);
    answered_value(&door, 11, 4);
    door_close(&door);
}

typedef struct overlap {
    _Atomic int inside, most, order;
} overlap_t;

static overlap_t overlap;

static zlink_status_t script_holds_the_queue(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    inner_t away = {.how = BY_ASYNC, .name = "far"};

    (void)self, (void)context;
    const int inside = atomic_fetch_add(&overlap.inside, 1) + 1;
    if (inside > atomic_load(&overlap.most))
        atomic_store(&overlap.most, inside);
    zlink_check(inner_call(turn, &away, NULL) == ZLINK_OK);
    atomic_fetch_sub(&overlap.inside, 1);
    reply->value = atomic_fetch_add(&overlap.order, 1) + 1;
    return ZLINK_OK;
}

/* EX-99: node handlers run one at a time in the order of arrival, whatever module they are of; async holds their gate,
 * and no channel's. */
static void test_ex99_node_handlers_run_one_at_a_time(void **state)
{
    door_t door;

    (void)state;
    memset((void *)&overlap, 0, sizeof(overlap));
    door_open(&door);
    away_set(&door.host, AWAY_HOLDS, ZLINK_OK);
    for (uint64_t i = 1; i <= 5; i++)
        send_to_node(&door, i, door.identity.node_id, "tests.host.RunReq", script_holds_the_queue);
    send_to_node(&door, 6, door.identity.node_id, "tests.host.Unheard", NULL);
    host_wait_for(&door.host.away.submitted, 1);
    send_call(&door, 7, ZLINK_TARGET_CHANNEL, "side", "tests.host.RunReq", script_count, NULL);
    answered_value(&door, 7, 1); /* while the node's queue is held */
    assert_int_equal(atomic_load(&door.host.away.submitted), 1);
    away_set(&door.host, AWAY_ANSWERS, ZLINK_OK);
    for (uint64_t i = 1; i <= 5; i++)
        answered_value(&door, i, (int32_t)i);
    raw_expect_call(door.peer.completion, ZLINK_FRAME_REPLY, &frame);
    assert_int_equal(frame.prefix.reply_route_id, 6);
    assert_int_equal(atomic_load(&overlap.most), 1);
    door_close(&door);
}

typedef struct nested {
    inner_t good, bad, late, message;
} nested_t;

static zlink_status_t script_nested(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    nested_t *nested = context;

    (void)self;
    (void)inner_call(turn, &nested->good, NULL);
    (void)inner_call(turn, &nested->bad, NULL);
    (void)inner_call(turn, &nested->late, NULL);
    (void)inner_call(turn, &nested->message, NULL);
    reply->value = 7;
    return ZLINK_OK;
}

/* TR-43: what a handler asks others ends by itself, well or not; the request that it answers ends once, with its own
 * result. */
static void test_tr43_nested_requests_end_by_themselves(void **state)
{
    nested_t nested = {
        .good = {.how = BY_YIELD, .name = "side", .script = script_count},
        .bad = {.how = BY_ASYNC, .name = "desk", .script = script_fail},
        .late = {.how = BY_YIELD, .name = "far"},
        .message = {.how = BY_SEND, .name = "side", .script = script_count},
    };
    host_fixture_t fixture;
    outside_t outer;
    int32_t value;

    (void)state;
    host_open(&fixture, 2);
    away_set(&fixture, AWAY_HOLDS, ZLINK_OK);
    assert_int_equal(outside_submit(&fixture, &outer, "plain", "a", script_nested, &nested), ZLINK_OK);
    host_wait_for(&fixture.away.submitted, 1);
    assert_int_equal(atomic_load(&outer.completions), 0); /* two of them have ended, the request has not */
    assert_int_equal(atomic_load(&nested.good.ends) + atomic_load(&nested.bad.ends), 2);
    away_set(&fixture, AWAY_ANSWERS, ZLINK_OK);
    assert_int_equal(outside_wait(&outer), ZLINK_OK);
    assert_int_equal(outer.reply.value, 7);
    assert_int_equal(nested.good.status, ZLINK_OK);
    assert_int_equal(nested.good.value, 1);
    assert_int_equal(nested.bad.status, ZLINK_DATA_LOST);
    assert_int_equal(nested.late.status, ZLINK_OK);
    assert_int_equal(nested.late.value, 42);
    assert_int_equal(nested.message.status, ZLINK_OK);
    assert_int_equal(atomic_load(&nested.late.ends) + atomic_load(&nested.message.ends), 2);
    assert_int_equal(host_ask(&fixture, "side", NULL, script_count, NULL, &value), ZLINK_OK);
    assert_int_equal(value, 3);
    host_stop(&fixture);
}

/* ---- the start ---- */

static void registration_is_refused(const zlink_node_handlers_t *handlers, const char *reason)
{
    zlink_catalogue_t *catalogue = zlink_catalogue_create();
    zlink_module_t module = {.catalogue = catalogue, .name = "shop"};

    zlink_module_add_node_handlers(&module, &first);
    assert_int_equal(module.status, ZLINK_OK);
    zlink_module_add_node_handlers(&module, handlers);
    assert_int_equal(module.status, ZLINK_INVALID_OPERATION);
    if (!strstr(module.refusal.line, "module shop: node ") || !strstr(module.refusal.line, reason))
        fail_msg("\"%s\" does not say \"%s\"", module.refusal.line, reason);
    assert_int_equal(catalogue->node_handlers_count, 1);
    zlink_catalogue_destroy(catalogue);
}

/* TR-41: two handlers of one kind for one packet in the node's scope stop the start, also of two modules. */
static void test_tr41_a_duplicate_in_one_scope_is_refused(void **state)
{
    static const zlink_handler_t doubled_rows[] = {ZLINK_ON_REQUEST(Unheard, OtherRes, on_other),
                                                   ZLINK_ON_REQUEST(Unheard, OtherRes, on_other), ZLINK_HANDLERS_END};
    static const zlink_node_handlers_t doubled = {.handlers = doubled_rows}, none = {.handlers = NULL};
    static const zlink_node_handlers_t large = {.state_size = SIZE_MAX, .handlers = other_rows};

    (void)state;
    registration_is_refused(&first, "tests.host.");
    registration_is_refused(&doubled, "two handlers of one kind for one packet");
    registration_is_refused(&none, "no handlers");
    registration_is_refused(&large, "state_size");
    registration_is_refused(NULL, "NULL");
}

static zlink_status_t apply(zlink_catalogue_t *catalogue, const char *more, const char *reason)
{
    char text[512];
    zlink_config_t *config = NULL;
    zlink_refusal_t why = {""};

    snprintf(text, sizeof(text), "mesh: m\nname: n\ntransport: plain-without-encryption-or-authentication\n%s", more);
    assert_int_equal(zlink_config_parse(text, strlen(text), "n.yaml", &config, &why), ZLINK_OK);
    zlink_status_t status = zlink_node_roles_apply(config, catalogue, "n.yaml", &why);
    if (status != ZLINK_OK && (!reason || strcmp(why.line, reason) != 0))
        fail_msg("\"%s\"", why.line);
    zlink_config_free(config);
    return status;
}

/* TR-5: an object Client has neither handlers of its own nor Spots; channels it may serve. */
static void test_tr5_an_object_client_with_node_handlers_is_refused(void **state)
{
    zlink_catalogue_t *catalogue = zlink_catalogue_create();
    zlink_module_t module = {.catalogue = catalogue, .name = "unit"};

    (void)state;
    zlink_module_add_channel(&module, &host_side);
    assert_int_equal(apply(catalogue, "object_role: client\n", NULL), ZLINK_OK);
    zlink_module_add_spot_type(&module, &host_plain);
    assert_int_equal(apply(catalogue, "object_role: client\n",
                           "n.yaml: object_role: is client, but a module has the Spot type plain"),
                     ZLINK_NOT_CONFIGURED);
    zlink_module_add_node_handlers(&module, &second);
    assert_int_equal(apply(catalogue, "object_role: client\n",
                           "n.yaml: object_role: is client, but a module has handlers of the node itself"),
                     ZLINK_NOT_CONFIGURED);
    assert_int_equal(apply(catalogue, "object_role: server\n", NULL), ZLINK_OK);
    assert_int_equal(apply(catalogue, "", NULL), ZLINK_OK);
    zlink_catalogue_destroy(catalogue);
}

/* A channel that is only called is neither published nor hosted; one that is served has to be there. */
static void test_roles_of_channels(void **state)
{
    static const char text[] = "mesh: m\nname: n\ntransport: plain-without-encryption-or-authentication\n"
                               "channels: [{name: side, role: client}, {name: desk, weight: 7}, "
                               "{name: far, role: client}]\n";
    const char *names[ZLINK_CATALOGUE_TYPES_MAX];
    uint32_t weights[ZLINK_CATALOGUE_TYPES_MAX];
    zlink_config_t *config = NULL;
    zlink_refusal_t why = {""};
    host_fixture_t fixture;

    (void)state;
    host_init(&fixture, 2);
    assert_int_equal(apply(fixture.catalogue, "channels: [{name: desk}, {name: far}]\n",
                           "n.yaml: channels[1].name: no module has a channel far to serve"),
                     ZLINK_NOT_CONFIGURED);
    assert_int_equal(zlink_config_parse(text, strlen(text), "n.yaml", &config, &why), ZLINK_OK);
    assert_int_equal(zlink_node_roles_apply(config, fixture.catalogue, "n.yaml", &why), ZLINK_OK);
    assert_int_equal(zlink_node_roles_memberships(config, fixture.catalogue, names, weights), 1);
    assert_string_equal(names[0], "desk");
    assert_int_equal(weights[0], 7);
    zlink_config_free(config);
    host_start(&fixture);
    assert_null(zlink_application_host_find_channel(fixture.host, "side"));
    assert_non_null(zlink_application_host_find_channel(fixture.host, "desk"));
    inner_t call = {.how = BY_ASYNC, .name = "side"};
    assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &call, NULL), ZLINK_OK);
    assert_int_equal(atomic_load(&fixture.away.submitted), 1); /* it is called where others serve it */
    host_stop(&fixture);
}

/* TR-36: a node that weighs 0 is not found by its own calls either: the mesh picks, or finds nobody. */
static void test_tr36_weight_0_is_for_calls_from_here_too(void **state)
{
    inner_t call = {.how = BY_ASYNC, .name = "side", .script = script_count};
    host_fixture_t fixture;
    zlink_ingress_t ingress = {0};

    (void)state;
    host_open(&fixture, 2);
    ingress.host = fixture.host;
    zlink_ingress_own_weight(&ingress, "side", 0);
    zlink_ingress_own_weight(&ingress, "nowhere", 0);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &call, NULL), ZLINK_OK);
    assert_int_equal(atomic_load(&fixture.away.submitted), 1);
    zlink_ingress_own_weight(&ingress, "side", 1);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_call, &call, NULL), ZLINK_OK);
    assert_int_equal(atomic_load(&fixture.away.submitted), 1);
    assert_int_equal(call.value, 1);
    host_stop(&fixture);
}

static zlink_status_t script_weighs(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    (void)self, (void)context, (void)reply;
    zlink_check(zlink_channel_set_weight(turn, "side", -1) == ZLINK_INVALID_OPERATION);
    zlink_check(zlink_channel_set_weight(turn, "side", 10001) == ZLINK_INVALID_OPERATION);
    zlink_check(zlink_channel_set_weight(turn, NULL, 1) == ZLINK_INVALID_OPERATION);
    zlink_check(zlink_channel_set_weight(NULL, "side", 1) == ZLINK_INVALID_OPERATION);
    zlink_check(zlink_channel_set_weight(turn, "far", 1) == ZLINK_NOT_FOUND);
    return zlink_channel_set_weight(turn, "side", 10000);
}

/* TR-4: a handler may say what its node weighs, within the same bounds. */
static void test_tr4_a_handler_sets_a_weight(void **state)
{
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 2);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_weighs, NULL, NULL), ZLINK_OK);
    assert_int_equal(atomic_load(&fixture.away.weight), 10000);
    host_stop(&fixture);
}

static void test_a_start_without_memory_leaves_nothing(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 60; n++) {
        host_fixture_t fixture;

        node_host_init(&fixture);
        zlink_memory_fail_after(n);
        const zlink_status_t status = host_try_start(&fixture);
        zlink_memory_fail_after(-1);
        if (status == ZLINK_OK) {
            host_stop(&fixture);
            continue;
        }
        assert_int_equal(status, ZLINK_CAPACITY_EXCEEDED);
        assert_true(fixture.why.line[0] != '\0');
        fixture.host = NULL;
        host_release(&fixture);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tr30_this_node_and_another),
        cmocka_unit_test(test_a_node_without_handlers),
        cmocka_unit_test(test_ex24_ex23_waits_of_a_node_handler),
        cmocka_unit_test(test_tr30_a_peer_reaches_the_node_by_its_id),
        cmocka_unit_test(test_tr41_node_and_channel_are_two_scopes),
        cmocka_unit_test(test_ex99_node_handlers_run_one_at_a_time),
        cmocka_unit_test(test_tr43_nested_requests_end_by_themselves),
        cmocka_unit_test(test_tr41_a_duplicate_in_one_scope_is_refused),
        cmocka_unit_test(test_tr5_an_object_client_with_node_handlers_is_refused),
        cmocka_unit_test(test_roles_of_channels),
        cmocka_unit_test(test_tr36_weight_0_is_for_calls_from_here_too),
        cmocka_unit_test(test_tr4_a_handler_sets_a_weight),
        cmocka_unit_test(test_a_start_without_memory_leaves_nothing),
    };
    zlink_log_set_level(ZLINK_LOG_OFF);
    return zlink_test_main(tests);
}
