/*
 * The door between the two domains: what a peer sends becomes a handler's turn and its result an answer, with permits,
 * full queues and draining in between. The peer is made of plain sockets.
 */
#include <sched.h>

#include "host_fixture.h"
#include "raw_peer.h"

#include "server/ingress.h"

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

static raw_frame_t frame;

static void door_create_here(void *context)
{
    door_t *door = context;

    zlink_ingress_init(&door->ingress, door->reactor, door->host.host);
    door->options.events.context = &door->ingress;
    door->status = zlink_mesh_create(&door->options, &door->ingress.mesh, NULL);
    if (door->status == ZLINK_OK)
        snprintf(door->address, sizeof(door->address), "%s", zlink_mesh_address(door->ingress.mesh));
}

/* host_init() comes before, so that the test can change the host's options. */
static void door_open(door_t *door)
{
    static const char *const channels[] = {"side", "desk"};

    host_start(&door->host);
    assert_int_equal(zlink_node_identity_make(&door->identity, "unit", "door"), ZLINK_OK);
    door->reactor = fixture_reactor(&(zlink_reactor_options_t){.clock = &door->host.exec.clock});
    door->options = (zlink_mesh_options_t){
        .reactor = door->reactor,
        .identity = &door->identity,
        .role = ZLINK_ROLE_SERVER,
        .listen = "127.0.0.1:0",
        .channels = channels,
        .channel_count = 2,
        .max_body_bytes = 1u << 20,
        .outbound_bytes = 1u << 20,
        .pending_max = 64,
        .events =
            {
                .arrived = zlink_ingress_arrived,
                .source_gone = zlink_ingress_source_gone,
                .picked_local = zlink_ingress_picked_local,
                .cancelled = zlink_ingress_cancelled,
                .members_changed = zlink_ingress_members_changed,
            },
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

/* `id` NULL: a channel; `route` 0: a one-way message. */
static void send_call(door_t *door, uint64_t route, const char *name, const char *id, const char *packet,
                      script_t script)
{
    zlink_wire_call_t names = {.target.kind = id ? ZLINK_TARGET_INSTANCE_SPOT : ZLINK_TARGET_CHANNEL};
    uint8_t envelope[ZLINK_WIRE_SMALL_ENVELOPE_MAX], payload[64];
    RunReq request = RunReq_init_zero;
    pb_ostream_t stream = pb_ostream_from_buffer(payload, sizeof(payload));
    size_t size = 0;

    snprintf(names.target.name, sizeof(names.target.name), "%s", name);
    snprintf(names.target.spot_id, sizeof(names.target.spot_id), "%s", id ? id : "");
    snprintf(names.packet, sizeof(names.packet), "%s", packet);
    request.script = (uintptr_t)script;
    assert_true(pb_encode(&stream, RunReq_fields, &request)); /* a Note looks the same */
    assert_int_equal(zlink_wire_call_encode(&names, envelope, sizeof(envelope), &size), ZLINK_OK);
    raw_send(door->peer.application,
             (zlink_frame_prefix_t){.kind = route ? ZLINK_FRAME_REQUEST : ZLINK_FRAME_SEND,
                                    .reply_route_id = route,
                                    .deadline_ms = route ? 30000 : 0},
             envelope, size, payload, stream.bytes_written);
}

static void send_request(door_t *door, uint64_t route, const char *name, const char *id, script_t script)
{
    send_call(door, route, name, id, "tests.host.RunReq", script);
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

static void test_requests_messages_and_errors(void **state)
{
    door_t door;

    (void)state;
    memset(&door, 0, sizeof(door));
    host_init(&door.host, 2);
    door_open(&door);
    send_request(&door, 1, "plain", "a", script_count);
    answered_value(&door, 1, 1);
    send_request(&door, 2, "side", NULL, script_count);
    answered_value(&door, 2, 1);
    send_call(&door, 0, "plain", "a", "tests.host.Note", script_count);
    send_request(&door, 3, "plain", "a", script_count); /* behind the message */
    answered_value(&door, 3, 3);
    send_request(&door, 4, "plain", "a", script_fail);
    answered_error(&door, 4, ZLINK_DATA_LOST);
    send_request(&door, 5, "nothing", "a", script_count);
    answered_error(&door, 5, ZLINK_NOT_FOUND);
    send_request(&door, 6, "nothing", NULL, script_count);
    answered_error(&door, 6, ZLINK_NOT_FOUND);
    send_call(&door, 7, "plain", "a", "tests.host.Unheard", script_count);
    answered_error(&door, 7, ZLINK_NOT_FOUND);
    send_call(&door, 8, "plain", "a", "tests.host.Note", script_count); /* known, but one-way */
    answered_error(&door, 8, ZLINK_NOT_FOUND);
    send_call(&door, 0, "nothing", "a", "tests.host.Note", script_count); /* dropped and counted */
    send_request(&door, 9, "side", NULL, script_count);
    answered_value(&door, 9, 2);
    door_close(&door);
}

/* TR-2: a channel is reached in its own topology only: one of ClientServer is none of the mesh. */
static void test_tr2_a_channel_of_client_server_is_none_of_the_mesh(void **state)
{
    door_t door;

    (void)state;
    memset(&door, 0, sizeof(door));
    host_init(&door.host, 2);
    for (size_t i = 0; i < door.host.catalogue->channel_count; i++)
        door.host.catalogue->channels[i].client_server =
            strcmp(door.host.catalogue->channels[i].type->name, "side") == 0;
    door_open(&door);
    send_request(&door, 1, "side", NULL, script_count);
    answered_error(&door, 1, ZLINK_NOT_FOUND);
    send_request(&door, 2, "desk", NULL, script_count);
    answered_value(&door, 2, 1);
    door_close(&door);
}

/* With all permits in use the rest stays in the connection, and comes in as they are given back. */
static void test_work_from_peers_waits_for_permits(void **state)
{
    enum { CALLS = 40 };
    door_t door;

    (void)state;
    memset(&door, 0, sizeof(door));
    host_init(&door.host, 2);
    door.host.options.jobs_max = 2;
    door_open(&door);
    away_set(&door.host, AWAY_HOLDS, ZLINK_OK);
    send_request(&door, 1000, "plain", "a", script_hold);
    host_wait_for(&door.host.away.submitted, 1);
    for (uint64_t i = 1; i <= CALLS; i++)
        send_request(&door, i, "plain", "a", script_count);
    while (atomic_load(&door.host.host->live) < 3)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    zlink_reactor_call(door.reactor, fixture_nothing, NULL);
    assert_int_equal(atomic_load(&door.host.host->live), 3); /* the holder, and two that hold a permit each */
    assert_int_equal(zlink_application_job_queue_jobs(&door.host.host->job_queue), 2);
    away_set(&door.host, AWAY_ANSWERS, ZLINK_OK);
    answered_value(&door, 1000, 42);
    for (uint64_t i = 1; i <= CALLS; i++)
        answered_value(&door, i, (int32_t)i);
    assert_int_equal(zlink_application_job_queue_jobs(&door.host.host->job_queue), 0);
    door_close(&door);
}

static _Atomic bool busy_ends;
static _Atomic unsigned busy_count;

static zlink_status_t script_busy(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    (void)turn;
    (void)self;
    (void)context;
    atomic_fetch_add(&busy_count, 1);
    while (!atomic_load(&busy_ends))
        continue;
    reply->value = 1;
    return ZLINK_OK;
}

/* Answers the node's own probes meanwhile, and counts them. */
static unsigned probe_is_answered(int completion, uint64_t id)
{
    unsigned probes = 0;

    raw_send(completion, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_PROBE, .reply_route_id = id}, NULL, 0, NULL, 0);
    for (;;) {
        assert_true(raw_read(completion, &frame));
        if (frame.prefix.kind == ZLINK_FRAME_PROBE_ACK && frame.prefix.reply_route_id == id)
            return probes;
        if (frame.prefix.kind != ZLINK_FRAME_PROBE)
            continue;
        probes++;
        raw_send(completion,
                 (zlink_frame_prefix_t){.kind = ZLINK_FRAME_PROBE_ACK, .reply_route_id = frame.prefix.reply_route_id},
                 NULL, 0, NULL, 0);
    }
}

/* EX-36, EX-66: with every worker in a busy loop and every permit in use, for more than the liveness bound on the
 * clock, links live (probes are answered, and the node's own are sent), a newcomer is admitted, and a reply to a
 * request that this node has made is taken. */
static void test_ex36_ex66_all_workers_are_busy(void **state)
{
    raw_link_t newcomer;
    door_t door;

    (void)state;
    memset(&door, 0, sizeof(door));
    host_init(&door.host, 2);
    door.host.options.jobs_max = 3;
    door_open(&door);
    atomic_store(&busy_ends, false);
    atomic_store(&busy_count, 0);
    send_request(&door, 1, "plain", "a", script_busy);
    send_request(&door, 2, "plain", "b", script_busy);
    while (atomic_load(&busy_count) < 2)
        sched_yield();
    for (uint64_t route = 3; route <= 9; route++)
        send_request(&door, route, "plain", "a", script_count);
    while (zlink_application_job_queue_jobs(&door.host.host->job_queue) < 3)
        sched_yield();
    unsigned probes = 0;
    for (uint64_t second = 0; second < 20; second++) {
        zlink_exec_fixture_advance(&door.host.exec, 1000);
        for (unsigned tick = 0; tick < 3; tick++)
            zlink_reactor_call(door.reactor, fixture_nothing, NULL);
        probes += probe_is_answered(door.peer.completion, 100 + second);
    }
    assert_true(probes >= 3);
    newcomer = raw_join(door.address, "new" RAW_UUID, 2);
    (void)probe_is_answered(newcomer.completion, 7);
    assert_int_equal(zlink_application_job_queue_jobs(&door.host.host->job_queue), 3);
    atomic_store(&busy_ends, true);
    for (unsigned answers = 0; answers < 9; answers++)
        raw_expect_call(door.peer.completion, ZLINK_FRAME_REPLY, &frame);
    raw_leave(&newcomer);
    door_close(&door);
}

/* EX-69, EX-68: who has taken all permits with calls that wait keeps nobody else from the next one: the permit that
 * comes back goes to whoever has waited longest, in turn. */
static void test_ex68_ex69_peers_take_turns(void **state)
{
    enum { EACH = 20 };
    raw_link_t loud;
    door_t door;

    (void)state;
    memset(&door, 0, sizeof(door));
    host_init(&door.host, 2);
    door.host.options.jobs_max = 1;
    door_open(&door);
    away_set(&door.host, AWAY_HOLDS, ZLINK_OK);
    send_request(&door, 1000, "plain", "a", script_hold);
    host_wait_for(&door.host.away.submitted, 1);
    for (uint64_t route = 1; route <= EACH; route++)
        send_request(&door, route, "plain", "a", script_count);
    while (zlink_application_job_queue_jobs(&door.host.host->job_queue) < 1)
        sched_yield();
    raw_link_t quiet = door.peer;
    loud = raw_join(door.address, "two" RAW_UUID, 2);
    door.peer = loud;
    send_request(&door, 1, "plain", "a", script_count);
    zlink_reactor_call(door.reactor, fixture_nothing, NULL);
    away_set(&door.host, AWAY_ANSWERS, ZLINK_OK);
    raw_expect_call(loud.completion, ZLINK_FRAME_REPLY, &frame); /* value: how many were before it */
    RunRes res = RunRes_init_zero;
    pb_istream_t stream = pb_istream_from_buffer(frame.body + frame.prefix.envelope_bytes,
                                                 frame.prefix.body_bytes - frame.prefix.envelope_bytes);
    assert_true(pb_decode(&stream, RunRes_fields, &res));
    assert_true(res.value < EACH); /* not behind everything that the other one had sent before */
    door.peer = quiet;
    answered_value(&door, 1000, 42);
    raw_leave(&loud);
    for (unsigned answers = 0; answers < EACH; answers++)
        raw_expect_call(door.peer.completion, ZLINK_FRAME_REPLY, &frame);
    door_close(&door);
}

/* TR-65, EX-70, EX-82: whatever ends a call before its handler gives its permit back: a payload that is no message of
 * that name, a handler that is not there, a connection that breaks off. */
static void test_tr65_ex70_ex82_what_is_malformed_gives_its_permit_back(void **state)
{
    raw_link_t broken;
    door_t door;

    (void)state;
    memset(&door, 0, sizeof(door));
    host_init(&door.host, 2);
    door.host.options.jobs_max = 2;
    door_open(&door);
    for (uint64_t route = 1; route <= 6; route++) {
        zlink_wire_call_t names = {.target = {.kind = ZLINK_TARGET_INSTANCE_SPOT, .name = "plain", .spot_id = "a"},
                                   .packet = "tests.host.RunReq"};
        uint8_t envelope[ZLINK_WIRE_SMALL_ENVELOPE_MAX];
        size_t size = 0;
        assert_int_equal(zlink_wire_call_encode(&names, envelope, sizeof(envelope), &size), ZLINK_OK);
        raw_send(door.peer.application,
                 (zlink_frame_prefix_t){.kind = ZLINK_FRAME_REQUEST, .reply_route_id = route, .deadline_ms = 30000},
                 envelope, size, "\xff\xff\xff", 3);
        answered_error(&door, route, ZLINK_PROTOCOL_ERROR);
        send_call(&door, 100 + route, "plain", "a", "tests.host.Unheard", script_count);
        answered_error(&door, 100 + route, ZLINK_NOT_FOUND);
    }
    assert_int_equal(zlink_application_job_queue_jobs(&door.host.host->job_queue), 0);

    /* A connection that waits for a permit, or has just been handed one, and is gone. */
    away_set(&door.host, AWAY_HOLDS, ZLINK_OK);
    send_request(&door, 1000, "plain", "a", script_hold);
    host_wait_for(&door.host.away.submitted, 1);
    for (uint64_t route = 1; route <= 2; route++)
        send_request(&door, route, "plain", "a", script_count);
    while (zlink_application_job_queue_jobs(&door.host.host->job_queue) < 2)
        sched_yield();
    raw_link_t first = door.peer;
    broken = raw_join(door.address, "two" RAW_UUID, 2);
    door.peer = broken;
    send_request(&door, 1, "plain", "b", script_count);
    zlink_reactor_call(door.reactor, fixture_nothing, NULL);
    raw_leave(&broken);
    door.peer = first;
    away_set(&door.host, AWAY_ANSWERS, ZLINK_OK);
    answered_value(&door, 1000, 42);
    for (unsigned answers = 0; answers < 2; answers++)
        raw_expect_call(door.peer.completion, ZLINK_FRAME_REPLY, &frame);
    send_request(&door, 3, "plain", "b", script_count);
    raw_expect_call(door.peer.completion, ZLINK_FRAME_REPLY, &frame);
    while (zlink_application_job_queue_jobs(&door.host.host->job_queue) > 0)
        sched_yield();
    door_close(&door);
}

static void send_cancel(door_t *door, uint64_t route)
{
    raw_send(door->peer.application, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_CANCEL, .reply_route_id = route}, NULL,
             0, NULL, 0);
}

static void send_large(door_t *door, uint64_t route, const char *id, const char *packet)
{
    static uint8_t payload[60000];
    zlink_wire_call_t names = {.target = {.kind = ZLINK_TARGET_INSTANCE_SPOT, .name = "plain"}};
    uint8_t envelope[ZLINK_WIRE_SMALL_ENVELOPE_MAX];
    size_t size = 0;

    snprintf(names.target.spot_id, sizeof(names.target.spot_id), "%s", id);
    snprintf(names.packet, sizeof(names.packet), "%s", packet);
    /* A field that no handler knows, to be skipped: number 15, with the rest as its bytes. */
    payload[0] = 0x7a;
    payload[1] = 0x80 | ((sizeof(payload) - 4) & 0x7f);
    payload[2] = 0x80 | ((sizeof(payload) - 4) >> 7 & 0x7f);
    payload[3] = (sizeof(payload) - 4) >> 14;
    assert_int_equal(zlink_wire_call_encode(&names, envelope, sizeof(envelope), &size), ZLINK_OK);
    raw_send(door->peer.application,
             (zlink_frame_prefix_t){.kind = ZLINK_FRAME_REQUEST, .reply_route_id = route, .deadline_ms = 30000},
             envelope, size, payload, sizeof(payload));
}

static void nothing_lives(door_t *door, uint32_t but)
{
    const time_t until = time(NULL) + FIXTURE_PATIENCE_S;

    while (atomic_load(&door->host.host->live) != but) {
        assert_true(time(NULL) < until);
        sched_yield();
    }
}

/* EX-80: a payload lives as long as its invocation and no longer, whatever becomes of that: its handler ends or fails,
 * it finds no handler or no room, it is cancelled in the queue, or its time is over there. (That it is freed once, and
 * not read afterwards, the sanitizers see.) */
static void test_ex80_a_payload_is_let_go_of_once(void **state)
{
    door_t door;

    (void)state;
    memset(&door, 0, sizeof(door));
    host_init(&door.host, 2);
    door.host.options.policy.application_message_capacity = 3;
    door_open(&door);
    send_large(&door, 1, "b", "tests.host.RunReq");
    raw_expect_call(door.peer.completion, ZLINK_FRAME_REPLY, &frame);
    send_request(&door, 3, "plain", "b", script_fail);
    answered_error(&door, 3, ZLINK_DATA_LOST);
    send_large(&door, 2, "b", "tests.host.Unheard");
    answered_error(&door, 2, ZLINK_NOT_FOUND);
    nothing_lives(&door, 0);
    away_set(&door.host, AWAY_HOLDS, ZLINK_OK);
    send_request(&door, 10, "plain", "a", script_hold);
    host_wait_for(&door.host.away.submitted, 1);
    send_large(&door, 11, "a", "tests.host.RunReq");
    send_large(&door, 12, "a", "tests.host.RunReq");
    send_large(&door, 13, "a", "tests.host.RunReq"); /* one too many */
    answered_error(&door, 13, ZLINK_UNAVAILABLE);
    nothing_lives(&door, 3);
    send_cancel(&door, 11);
    zlink_reactor_call(door.reactor, fixture_nothing, NULL);
    zlink_exec_fixture_advance(&door.host.exec, 29000); /* 12 has a second left, and waits longer */
    zlink_exec_fixture_advance(&door.host.exec, 2000);
    away_set(&door.host, AWAY_ANSWERS, ZLINK_OK);
    nothing_lives(&door, 0);
    door_close(&door);
}

/* EX-55: a full queue of this node is the peer's Unavailable. */
static void test_ex55_a_full_lane_is_unavailable_for_a_peer(void **state)
{
    door_t door;

    (void)state;
    memset(&door, 0, sizeof(door));
    host_init(&door.host, 2);
    door.host.options.policy.application_message_capacity = 2;
    door_open(&door);
    away_set(&door.host, AWAY_HOLDS, ZLINK_OK);
    send_request(&door, 1, "plain", "a", script_hold);
    host_wait_for(&door.host.away.submitted, 1);
    send_request(&door, 2, "plain", "a", script_count);
    send_request(&door, 3, "plain", "a", script_count);
    answered_error(&door, 3, ZLINK_UNAVAILABLE);
    send_call(&door, 0, "plain", "a", "tests.host.Note", script_count); /* dropped and counted */
    send_request(&door, 4, "plain", "b", script_count);
    answered_value(&door, 4, 1);
    away_set(&door.host, AWAY_ANSWERS, ZLINK_OK);
    raw_expect_call(door.peer.completion, ZLINK_FRAME_REPLY, &frame);
    assert_int_equal(frame.prefix.reply_route_id, 1);
    answered_value(&door, 2, 1);
    door_close(&door);
}

/* EX-55: a Spot that finds no place is CapacityExceeded, for a peer too: it could not go elsewhere. */
static void test_ex55_no_room_for_a_spot_is_told_to_a_peer(void **state)
{
    door_t door;

    (void)state;
    memset(&door, 0, sizeof(door));
    host_init(&door.host, 2);
    door.host.options.spots_max = 1;
    door_open(&door);
    send_request(&door, 1, "plain", "a", script_count);
    answered_value(&door, 1, 1);
    send_request(&door, 2, "plain", "b", script_count);
    answered_error(&door, 2, ZLINK_CAPACITY_EXCEEDED);
    send_call(&door, 0, "plain", "b", "tests.host.Note", script_count); /* dropped and counted */
    send_request(&door, 3, "plain", "a", script_count);
    answered_value(&door, 3, 2);
    door_close(&door);
}

/* EX-57, EX-59: a peer that cancels takes back what is still queued: its handler never runs, nothing is answered, and
 * the permit is free again. What has begun is finished and answered, and numbers that nobody knows are no fault. */
static void test_ex57_ex59_a_peer_cancels(void **state)
{
    door_t door;

    (void)state;
    memset(&door, 0, sizeof(door));
    host_init(&door.host, 2);
    door.host.options.jobs_max = 4;
    door_open(&door);
    away_set(&door.host, AWAY_HOLDS, ZLINK_OK);
    send_request(&door, 1, "plain", "a", script_hold);
    host_wait_for(&door.host.away.submitted, 1);
    for (uint64_t route = 2; route <= 4; route++)
        send_request(&door, route, "plain", "a", script_count);
    for (uint64_t route = 1; route <= 3; route++)
        send_cancel(&door, route);
    send_cancel(&door, 3);
    send_cancel(&door, 77);
    send_request(&door, 5, "side", NULL, script_count); /* behind all of them */
    answered_value(&door, 5, 1);
    away_set(&door.host, AWAY_ANSWERS, ZLINK_OK);
    answered_value(&door, 1, 42);
    answered_value(&door, 4, 1); /* 2 and 3 have not counted */
    assert_int_equal(zlink_application_job_queue_jobs(&door.host.host->job_queue), 0);
    send_cancel(&door, 4); /* answered */
    send_request(&door, 6, "plain", "a", script_count);
    answered_value(&door, 6, 2);
    door_close(&door);
}

static zlink_status_t script_tenant(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    const char *tenant = zlink_turn_metadata(turn, "tenant");

    (void)self, (void)context;
    reply->value = tenant ? (int32_t)strlen(tenant) : -1;
    return ZLINK_OK;
}

/* TR-24, TR-25: a peer's metadata reaches the handler; where it breaks a rule the link ends and no handler runs. */
static void test_tr24_tr25_metadata_of_a_peer(void **state)
{
    static char fits[1013];
    static const uint8_t twice[] = {0x2a, 3, 0x0a, 1, 'k', 0x2a, 3, 0x0a, 1, 'k'};
    door_t door;

    (void)state;
    memset(&door, 0, sizeof(door));
    memset(fits, 'v', sizeof(fits) - 1);
    host_init(&door.host, 2);
    door_open(&door);
    for (int link = 0; link < 2; link++) {
        const zlink_metadata_entry_t entry = {"tenant", fits};
        zlink_wire_call_t names = {.target = {ZLINK_TARGET_CHANNEL, "side", ""}, .packet = "tests.host.RunReq"};
        uint8_t envelope[ZLINK_WIRE_SMALL_ENVELOPE_MAX], payload[64];
        RunReq request = {.script = (uintptr_t)script_tenant};
        pb_ostream_t stream = pb_ostream_from_buffer(payload, sizeof(payload));
        const zlink_frame_prefix_t prefix = {
            .kind = ZLINK_FRAME_REQUEST, .reply_route_id = (uint64_t)link + 1, .deadline_ms = 30000};
        size_t size = 0;
        assert_null(zlink_metadata_pack(&names.metadata, &entry, 1));
        assert_int_equal(names.metadata.cost, ZLINK_METADATA_BYTES_MAX - 1);
        assert_true(pb_encode(&stream, RunReq_fields, &request));
        assert_int_equal(zlink_wire_call_encode(&names, envelope, sizeof(envelope), &size), ZLINK_OK);
        raw_send(door.peer.application, prefix, envelope, size, payload, stream.bytes_written);
        answered_value(&door, (uint64_t)link + 1, 1012);
        if (link == 0) { /* two bytes more, in a second entry that is too much */
            memcpy(envelope + size, (const uint8_t[]){0x2a, 3, 0x0a, 1, 'k'}, 5);
            size += 5;
        } else {
            names.metadata.text_bytes = names.metadata.cost = 0;
            assert_int_equal(zlink_wire_call_encode(&names, envelope, sizeof(envelope), &size), ZLINK_OK);
            memcpy(envelope + size, twice, sizeof(twice));
            size += sizeof(twice);
        }
        request.script = (uintptr_t)script_count;
        stream = pb_ostream_from_buffer(payload, sizeof(payload));
        assert_true(pb_encode(&stream, RunReq_fields, &request));
        raw_send(door.peer.application, prefix, envelope, size, payload, stream.bytes_written);
        raw_expect_end(door.peer.application);
        raw_leave(&door.peer);
        door.peer = raw_join(door.address, "raw" RAW_UUID, (uint64_t)link + 5);
    }
    send_request(&door, 9, "side", NULL, script_count);
    answered_value(&door, 9, 1);
    door_close(&door);
}

static void drain_here(void *context)
{
    ((door_t *)context)->ingress.draining = true;
}

static void test_draining_takes_nothing_new(void **state)
{
    door_t door;

    (void)state;
    memset(&door, 0, sizeof(door));
    host_init(&door.host, 2);
    door_open(&door);
    away_set(&door.host, AWAY_HOLDS, ZLINK_OK);
    send_request(&door, 1, "plain", "a", script_hold);
    host_wait_for(&door.host.away.submitted, 1);
    zlink_reactor_call(door.reactor, drain_here, &door);
    send_request(&door, 2, "plain", "a", script_count);
    answered_error(&door, 2, ZLINK_SHUTTING_DOWN);
    away_set(&door.host, AWAY_ANSWERS, ZLINK_OK);
    raw_expect_call(door.peer.completion, ZLINK_FRAME_REPLY, &frame); /* what was taken is answered */
    assert_int_equal(frame.prefix.reply_route_id, 1);
    door_close(&door);
}

/* The peer is gone when the handler ends: its answer finds no link, and nothing is lost. */
static void test_the_answer_to_a_peer_that_left(void **state)
{
    door_t door;

    (void)state;
    memset(&door, 0, sizeof(door));
    host_init(&door.host, 2);
    door_open(&door);
    away_set(&door.host, AWAY_HOLDS, ZLINK_OK);
    send_request(&door, 1, "plain", "a", script_hold);
    host_wait_for(&door.host.away.submitted, 1);
    raw_leave(&door.peer);
    door.peer = raw_join(door.address, "raw" RAW_UUID, 2); /* the old link is closed by then */
    away_set(&door.host, AWAY_ANSWERS, ZLINK_OK);
    send_request(&door, 1, "plain", "a", script_count); /* the same number, another link */
    answered_value(&door, 1, 1);
    door_close(&door);
}

/* ---- the mesh picks this node itself as a channel's member ---- */

typedef struct own_call {
    zlink_outbound_call_t call;
    sem_t done;
    _Atomic size_t completions, waits;
    zlink_status_t status;
    RunRes res;
    uint8_t payload[64];
} own_call_t;

static void own_completed(zlink_outbound_call_t *outbound, zlink_status_t status, const zlink_call_answer_t *answer)
{
    own_call_t *own = ZLINK_CONTAINER_OF(outbound, own_call_t, call);

    own->status = status;
    if (status == ZLINK_OK && !outbound->one_way) {
        pb_istream_t stream = pb_istream_from_buffer(answer->payload, answer->payload_bytes);
        zlink_check(strcmp(answer->packet, "tests.host.RunRes") == 0);
        zlink_check(pb_decode(&stream, RunRes_fields, &own->res));
    }
    atomic_fetch_add(&own->completions, 1);
    sem_post(&own->done);
}

static void own_waits(zlink_outbound_call_t *outbound)
{
    atomic_fetch_add(&ZLINK_CONTAINER_OF(outbound, own_call_t, call)->waits, 1);
}

static void own_submit_from(door_t *door, own_call_t *own, const char *packet, script_t script, uint32_t timeout_ms,
                            bool behind_local)
{
    RunReq request = RunReq_init_zero;

    memset(own, 0, sizeof(*own));
    sem_init(&own->done, 0, 0);
    pb_ostream_t stream = pb_ostream_from_buffer(own->payload, sizeof(own->payload));
    request.script = (uintptr_t)script;
    assert_true(pb_encode(&stream, RunReq_fields, &request));
    own->call = (zlink_outbound_call_t){
        .route = ZLINK_ROUTE_CHANNEL,
        .one_way = strcmp(packet, "tests.host.Note") == 0,
        .target = ZLINK_TARGET_CHANNEL,
        .name = "side",
        .spot_id = "",
        .packet = packet,
        .payload = own->payload,
        .payload_bytes = stream.bytes_written,
        .deadline_ms = zlink_clock_now_ms(&door->host.exec.clock) + timeout_ms,
        .completed = own_completed,
        .behind_local = behind_local,
        .waits = own_waits,
    };
    zlink_mesh_submit(door->ingress.mesh, &own->call);
}

static void own_submit(door_t *door, own_call_t *own, const char *packet, script_t script, uint32_t timeout_ms)
{
    own_submit_from(door, own, packet, script, timeout_ms, false);
}

static zlink_status_t own_wait(own_call_t *own)
{
    zlink_test_wait(&own->done);
    return own->status;
}

static void own_release(own_call_t *own)
{
    assert_int_equal(atomic_load(&own->completions), 1);
    sem_destroy(&own->done);
}

static void test_calls_that_the_mesh_brings_back_here(void **state)
{
    door_t door;
    own_call_t own;

    (void)state;
    memset(&door, 0, sizeof(door));
    host_init(&door.host, 2);
    door_open(&door);
    own_submit(&door, &own, "tests.host.RunReq", script_count, 1000);
    assert_int_equal(own_wait(&own), ZLINK_OK);
    assert_int_equal(own.res.value, 1);
    own_release(&own);
    own_submit(&door, &own, "tests.host.Note", script_count, 1000);
    assert_int_equal(own_wait(&own), ZLINK_OK);
    own_release(&own);
    own_submit(&door, &own, "tests.host.RunReq", script_fail, 1000);
    assert_int_equal(own_wait(&own), ZLINK_DATA_LOST);
    own_release(&own);
    own_submit(&door, &own, "tests.host.Unheard", script_count, 1000);
    assert_int_equal(own_wait(&own), ZLINK_NOT_FOUND);
    own_release(&own);
    own_submit(&door, &own, "tests.host.RunReq", script_count, 1000);
    assert_int_equal(own_wait(&own), ZLINK_OK);
    assert_int_equal(own.res.value, 3);
    own_release(&own);

    /* Its time is over while the handler still works; the answer then finds nobody. */
    away_set(&door.host, AWAY_HOLDS, ZLINK_OK);
    own_submit(&door, &own, "tests.host.RunReq", script_hold, 200);
    host_wait_for(&door.host.away.submitted, 1);
    zlink_exec_fixture_advance(&door.host.exec, 200);
    zlink_reactor_call(door.reactor, fixture_nothing, NULL);
    assert_int_equal(own_wait(&own), ZLINK_DEADLINE_EXCEEDED);
    away_set(&door.host, AWAY_ANSWERS, ZLINK_OK);
    send_request(&door, 9, "side", NULL, script_count);
    answered_value(&door, 9, 4);
    own_release(&own);
    door_close(&door);
}

/* EX-42, EX-73: a one-way message that the mesh brings back here to a full lane waits for room, and its sender is told
 * so; at its time it ends, with room it goes in, once. From behind that lane itself it ends at once. */
static void test_ex42_ex73_own_messages_wait_for_room(void **state)
{
    own_call_t held, taken, behind, late, waiting;
    door_t door;

    (void)state;
    memset(&door, 0, sizeof(door));
    host_init(&door.host, 2);
    door.host.options.policy.application_message_capacity = 2;
    door_open(&door);
    away_set(&door.host, AWAY_HOLDS, ZLINK_OK);
    own_submit(&door, &held, "tests.host.RunReq", script_hold, 60000);
    host_wait_for(&door.host.away.submitted, 1);
    own_submit(&door, &taken, "tests.host.Note", script_count, 1000);
    assert_int_equal(own_wait(&taken), ZLINK_OK);
    own_submit_from(&door, &behind, "tests.host.Note", script_count, 1000, true);
    assert_int_equal(own_wait(&behind), ZLINK_DEADLINE_EXCEEDED);
    own_submit(&door, &late, "tests.host.Note", script_count, 500);
    own_submit(&door, &waiting, "tests.host.Note", script_count, 1000);
    host_wait_for(&late.waits, 1);
    host_wait_for(&waiting.waits, 1);
    zlink_exec_fixture_advance(&door.host.exec, 499);
    zlink_reactor_call(door.reactor, fixture_nothing, NULL);
    assert_int_equal(atomic_load(&late.completions), 0);
    zlink_exec_fixture_advance(&door.host.exec, 1);
    zlink_reactor_call(door.reactor, fixture_nothing, NULL);
    assert_int_equal(own_wait(&late), ZLINK_DEADLINE_EXCEEDED);
    assert_int_equal(atomic_load(&waiting.completions), 0);
    for (int64_t n = 0;; n++) { /* the n-th allocation fails: CapacityExceeded, or it waits */
        own_call_t poor;
        zlink_memory_fail_after(n);
        own_submit(&door, &poor, "tests.host.Note", script_count, 100);
        zlink_reactor_call(door.reactor, fixture_nothing, NULL);
        zlink_memory_fail_after(-1);
        const bool waits = atomic_load(&poor.waits) == 1;
        if (waits) {
            zlink_exec_fixture_advance(&door.host.exec, 100);
            zlink_reactor_call(door.reactor, fixture_nothing, NULL);
        }
        assert_int_equal(own_wait(&poor), waits ? ZLINK_DEADLINE_EXCEEDED : ZLINK_CAPACITY_EXCEEDED);
        own_release(&poor);
        if (waits) {
            assert_true(n > 0);
            break;
        }
    }
    away_set(&door.host, AWAY_ANSWERS, ZLINK_OK);
    assert_int_equal(own_wait(&waiting), ZLINK_OK);
    assert_int_equal(own_wait(&held), ZLINK_OK);
    zlink_status_t status;
    int32_t value;
    do /* a place is free a moment after its call has ended */
        status = host_ask(&door.host, "side", NULL, script_count, NULL, &value);
    while (status == ZLINK_CAPACITY_EXCEEDED);
    assert_int_equal(value, 3); /* one that was taken, one that has waited, this one */
    assert_int_equal(atomic_load(&taken.waits) + atomic_load(&behind.waits), 0);
    own_release(&held);
    own_release(&taken);
    own_release(&behind);
    own_release(&late);
    own_release(&waiting);
    door_close(&door);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_messages_and_errors),
        cmocka_unit_test(test_ex42_ex73_own_messages_wait_for_room),
        cmocka_unit_test(test_tr2_a_channel_of_client_server_is_none_of_the_mesh),
        cmocka_unit_test(test_work_from_peers_waits_for_permits),
        cmocka_unit_test(test_ex36_ex66_all_workers_are_busy),
        cmocka_unit_test(test_ex68_ex69_peers_take_turns),
        cmocka_unit_test(test_tr65_ex70_ex82_what_is_malformed_gives_its_permit_back),
        cmocka_unit_test(test_ex80_a_payload_is_let_go_of_once),
        cmocka_unit_test(test_ex55_a_full_lane_is_unavailable_for_a_peer),
        cmocka_unit_test(test_ex55_no_room_for_a_spot_is_told_to_a_peer),
        cmocka_unit_test(test_ex57_ex59_a_peer_cancels),
        cmocka_unit_test(test_tr24_tr25_metadata_of_a_peer),
        cmocka_unit_test(test_draining_takes_nothing_new),
        cmocka_unit_test(test_the_answer_to_a_peer_that_left),
        cmocka_unit_test(test_calls_that_the_mesh_brings_back_here),
    };
    zlink_log_set_level(ZLINK_LOG_OFF);
    return zlink_test_main(tests);
}
