/*
 * Frames, byte for byte: tests/golden/frames.txt, which the Python client's test reads too, and the dumps in
 * docs/wire.md.
 */
#include "proto/wire.h"

#include <string.h>

#include "harness.h"

#define FRAME_BYTES_MAX 4096

typedef struct bytes {
    uint8_t at[FRAME_BYTES_MAX];
    size_t size;
} bytes_t;

/* ---- each function builds one whole frame ---- */

static void finish(bytes_t *frame, zlink_frame_prefix_t prefix, const uint8_t *envelope, size_t envelope_bytes,
                   const char *payload, size_t payload_bytes)
{
    prefix.envelope_bytes = (uint32_t)envelope_bytes;
    prefix.body_bytes = (uint32_t)(envelope_bytes + payload_bytes);
    zlink_frame_prefix_encode(&prefix, frame->at);
    if (envelope_bytes > 0)
        memcpy(frame->at + ZLINK_FRAME_PREFIX_BYTES, envelope, envelope_bytes);
    if (payload_bytes > 0)
        memcpy(frame->at + ZLINK_FRAME_PREFIX_BYTES + envelope_bytes, payload, payload_bytes);
    frame->size = ZLINK_FRAME_PREFIX_BYTES + envelope_bytes + payload_bytes;
}

static void build_hello_frame(bytes_t *frame, zlink_frame_kind_t kind, const zlink_wire_hello_t *hello)
{
    uint8_t envelope[FRAME_BYTES_MAX];
    size_t size = 0;

    assert_int_equal(zlink_wire_hello_encode(hello, envelope, sizeof(envelope), &size), ZLINK_OK);
    finish(frame, (zlink_frame_prefix_t){.kind = (uint8_t)kind}, envelope, size, NULL, 0);
}

static const zlink_wire_hello_t client_hello = {
    .protocol_major = 1,
    .mesh = "shop",
    .node_id = "tool-01234567-89ab-4cde-8f01-23456789abcd",
    .lane = ZLINK_CONNECTION_APPLICATION,
    .link_id = 0x1112131415161718,
    .generation = 7,
    .revision = 1,
    .role = ZLINK_ROLE_CLIENT,
    .max_body_bytes = 1048576,
};

static void build_hello_application(bytes_t *frame)
{
    build_hello_frame(frame, ZLINK_FRAME_HELLO, &client_hello);
}

static void build_hello_completion(bytes_t *frame)
{
    zlink_wire_hello_t hello = client_hello;

    hello.lane = ZLINK_CONNECTION_COMPLETION;
    build_hello_frame(frame, ZLINK_FRAME_HELLO, &hello);
}

static void build_admit(bytes_t *frame)
{
    zlink_wire_channel_t channels[] = {{"audit", 0}, {"prices", 100}};
    zlink_wire_spot_type_t spot_types[] = {{"counter"}};
    const zlink_wire_hello_t hello = {
        .protocol_major = 1,
        .mesh = "shop",
        .node_id = "a-76543210-fedc-4ba9-a765-43210fedcba9",
        .lane = ZLINK_CONNECTION_APPLICATION,
        .link_id = 0x1112131415161718,
        .generation = 0x7fffffffffffffff,
        .revision = 3,
        .role = ZLINK_ROLE_SERVER,
        .max_body_bytes = 16777216,
        .draining = true,
        .channels = channels,
        .channel_count = 2,
        .spot_types = spot_types,
        .spot_type_count = 1,
    };

    build_hello_frame(frame, ZLINK_FRAME_ADMIT, &hello);
}

static void build_reject(bytes_t *frame)
{
    const zlink_wire_reject_t reject = {.code = ZLINK_REJECT_SECURITY_IDENTITY, .reason = "mesh is \"shop\""};
    uint8_t envelope[ZLINK_WIRE_SMALL_ENVELOPE_MAX];
    size_t size = 0;

    assert_int_equal(zlink_wire_reject_encode(&reject, envelope, sizeof(envelope), &size), ZLINK_OK);
    finish(frame, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_REJECT}, envelope, size, NULL, 0);
}

static void build_update(bytes_t *frame)
{
    zlink_wire_channel_t channels[] = {{"audit", 10000}, {"prices", 0}};
    const zlink_wire_update_t update = {.revision = 4, .channels = channels, .channel_count = 2};
    uint8_t envelope[ZLINK_WIRE_SMALL_ENVELOPE_MAX];
    size_t size = 0;

    assert_int_equal(zlink_wire_update_encode(&update, envelope, sizeof(envelope), &size), ZLINK_OK);
    finish(frame, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_UPDATE}, envelope, size, NULL, 0);
}

static void build_announce(bytes_t *frame, const zlink_wire_announce_t *announce)
{
    uint8_t envelope[ZLINK_WIRE_SMALL_ENVELOPE_MAX];
    size_t size = 0;

    assert_int_equal(zlink_wire_announce_encode(announce, envelope, sizeof(envelope), &size), ZLINK_OK);
    finish(frame, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_ANNOUNCE}, envelope, size, NULL, 0);
}

static void build_announce_spot(bytes_t *frame)
{
    build_announce(
        frame, &(zlink_wire_announce_t){1, ZLINK_ANNOUNCE_TARGET, {ZLINK_TARGET_INSTANCE_SPOT, "counter", "main"}, ""});
}

static void build_announce_channel(bytes_t *frame)
{
    build_announce(frame, &(zlink_wire_announce_t){2, ZLINK_ANNOUNCE_TARGET, {ZLINK_TARGET_CHANNEL, "prix-é", ""}, ""});
}

static void build_announce_node(bytes_t *frame)
{
    build_announce(
        frame, &(zlink_wire_announce_t){
                   3, ZLINK_ANNOUNCE_TARGET, {ZLINK_TARGET_NODE, "a-76543210-fedc-4ba9-a765-43210fedcba9", ""}, ""});
}

static void build_announce_request(bytes_t *frame)
{
    build_announce(frame, &(zlink_wire_announce_t){1, ZLINK_ANNOUNCE_PACKET, {0}, "samples.counter.AddReq"});
}

static void build_announce_reply(bytes_t *frame)
{
    build_announce(frame, &(zlink_wire_announce_t){1, ZLINK_ANNOUNCE_PACKET, {0}, "samples.counter.AddRes"});
}

#define ADD_REQ "\x0a\x03tea\x10\x03" /* AddReq { item: "tea", amount: 3 } */
#define ADD_RES "\x08\x2a"            /* AddRes { total: 42 } */

static void build_request(bytes_t *frame)
{
    const zlink_frame_prefix_t prefix = {
        .kind = ZLINK_FRAME_REQUEST, .reply_route_id = 0x2a, .deadline_ms = 5000, .target_id = 1, .packet_id = 1};

    finish(frame, prefix, NULL, 0, ADD_REQ, sizeof(ADD_REQ) - 1);
}

static void build_reply(bytes_t *frame)
{
    const zlink_frame_prefix_t prefix = {.kind = ZLINK_FRAME_REPLY, .reply_route_id = 0x2a, .packet_id = 1};

    finish(frame, prefix, NULL, 0, ADD_RES, sizeof(ADD_RES) - 1);
}

static void build_call(bytes_t *frame, zlink_frame_prefix_t prefix, const zlink_wire_call_t *call, const char *payload,
                       size_t payload_bytes)
{
    uint8_t envelope[ZLINK_WIRE_SMALL_ENVELOPE_MAX];
    size_t size = 0;

    assert_int_equal(zlink_wire_call_encode(call, envelope, sizeof(envelope), &size), ZLINK_OK);
    finish(frame, prefix, envelope, size, payload, payload_bytes);
}

static void build_request_inline(bytes_t *frame)
{
    const zlink_frame_prefix_t prefix = {.kind = ZLINK_FRAME_REQUEST, .reply_route_id = 0x2b, .deadline_ms = INT32_MAX};
    const zlink_wire_call_t call = {.target = {ZLINK_TARGET_INSTANCE_SPOT, "counter", "main"},
                                    .packet = "samples.counter.AddReq"};

    build_call(frame, prefix, &call, ADD_REQ, sizeof(ADD_REQ) - 1);
}

static void build_request_metadata(bytes_t *frame)
{
    const zlink_frame_prefix_t prefix = {
        .kind = ZLINK_FRAME_REQUEST, .reply_route_id = 0x2c, .deadline_ms = 5000, .target_id = 1, .packet_id = 1};
    static const zlink_metadata_entry_t entries[] = {{"tenant", "blue"}, {"empty", ""}};
    zlink_wire_call_t call = {.target.kind = ZLINK_TARGET_NONE};

    assert_null(zlink_metadata_pack(&call.metadata, entries, 2));
    build_call(frame, prefix, &call, ADD_REQ, sizeof(ADD_REQ) - 1);
}

static void build_request_trace(bytes_t *frame)
{
    const zlink_frame_prefix_t prefix = {
        .kind = ZLINK_FRAME_REQUEST, .reply_route_id = 0x2d, .deadline_ms = 5000, .target_id = 1, .packet_id = 1};
    const zlink_wire_call_t call = {
        .target.kind = ZLINK_TARGET_NONE,
        .trace = {.correlation_id = "order-17", .flow_id = "01890a5d-ac96-774b-bcce-b302099a8057", .flow_origin = 9}};

    build_call(frame, prefix, &call, ADD_REQ, sizeof(ADD_REQ) - 1);
}

static void build_send_mixed(bytes_t *frame)
{
    const zlink_frame_prefix_t prefix = {.kind = ZLINK_FRAME_SEND, .packet_id = 1};
    const zlink_wire_call_t call = {.target = {ZLINK_TARGET_CHANNEL, "prices", ""}};

    build_call(frame, prefix, &call, NULL, 0);
}

static void build_reply_inline(bytes_t *frame)
{
    const zlink_frame_prefix_t prefix = {.kind = ZLINK_FRAME_REPLY, .reply_route_id = 0x2b};
    const zlink_wire_call_t call = {.packet = "samples.counter.AddRes"};

    build_call(frame, prefix, &call, ADD_RES, sizeof(ADD_RES) - 1);
}

static void build_error(bytes_t *frame)
{
    const zlink_frame_prefix_t prefix = {
        .kind = ZLINK_FRAME_ERROR, .error = zlink_frame_error_of(ZLINK_UNAVAILABLE), .reply_route_id = 0x2a};
    uint8_t envelope[ZLINK_WIRE_SMALL_ENVELOPE_MAX];
    size_t size = 0;

    assert_int_equal(zlink_wire_error_encode("queue full", envelope, sizeof(envelope), &size), ZLINK_OK);
    finish(frame, prefix, envelope, size, NULL, 0);
}

static void build_bare(bytes_t *frame, zlink_frame_kind_t kind, uint64_t reply_route_id)
{
    finish(frame, (zlink_frame_prefix_t){.kind = (uint8_t)kind, .reply_route_id = reply_route_id}, NULL, 0, NULL, 0);
}

static void build_error_plain(bytes_t *frame)
{
    build_bare(frame, ZLINK_FRAME_ERROR, 0x2a); /* error kind 0: NotFound */
}

static void build_chunk(bytes_t *frame)
{
    const zlink_frame_prefix_t prefix = {.kind = ZLINK_FRAME_CHUNK, .reply_route_id = 1};

    finish(frame, prefix, NULL, 0, ADD_REQ, sizeof(ADD_REQ) - 1);
}

static void build_chunk_end(bytes_t *frame)
{
    build_bare(frame, ZLINK_FRAME_CHUNK, 1);
}

static void build_flow_paused(bytes_t *frame)
{
    finish(frame, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_FLOW_STATE, .error = 1, .reply_route_id = 1}, NULL, 0,
           NULL, 0);
}

static void build_flow_running(bytes_t *frame)
{
    build_bare(frame, ZLINK_FRAME_FLOW_STATE, 2);
}

static void build_cancel(bytes_t *frame)
{
    build_bare(frame, ZLINK_FRAME_CANCEL, 0x2a);
}

static void build_probe(bytes_t *frame)
{
    build_bare(frame, ZLINK_FRAME_PROBE, 0x0102030405060708);
}

static void build_probe_ack(bytes_t *frame)
{
    build_bare(frame, ZLINK_FRAME_PROBE_ACK, 0x0102030405060708);
}

static const struct {
    const char *name;
    void (*build)(bytes_t *frame);
} goldens[] = {
    {"hello_application", build_hello_application},
    {"hello_completion", build_hello_completion},
    {"admit", build_admit},
    {"reject", build_reject},
    {"update", build_update},
    {"announce_spot", build_announce_spot},
    {"announce_channel", build_announce_channel},
    {"announce_node", build_announce_node},
    {"announce_request", build_announce_request},
    {"announce_reply", build_announce_reply},
    {"request", build_request},
    {"reply", build_reply},
    {"request_inline", build_request_inline},
    {"request_metadata", build_request_metadata},
    {"request_trace", build_request_trace},
    {"send_mixed", build_send_mixed},
    {"reply_inline", build_reply_inline},
    {"error", build_error},
    {"error_plain", build_error_plain},
    {"cancel", build_cancel},
    {"chunk", build_chunk},
    {"chunk_end", build_chunk_end},
    {"probe", build_probe},
    {"probe_ack", build_probe_ack},
    {"flow_paused", build_flow_paused},
    {"flow_running", build_flow_running},
};

#define GOLDENS (sizeof(goldens) / sizeof(goldens[0]))

/* ---- reading dumps ---- */

/* Takes the hex pairs at the start of `line`, up to anything else, and appends them. */
static void take_hex(const char *line, bytes_t *bytes)
{
    unsigned value;
    int used;

    while (sscanf(line, "%2x%n", &value, &used) == 1 && used == 2 && (line[2] == ' ' || line[2] == '\n')) {
        assert_true(bytes->size < sizeof(bytes->at));
        bytes->at[bytes->size++] = (uint8_t)value;
        if (line[2] == '\n' || line[3] == ' ')
            return; /* end of the line, or the two spaces before its comment */
        line += 3;
    }
}

static void check_against_encoder(const char *name, const bytes_t *dump, unsigned *checked)
{
    for (size_t i = 0; i < GOLDENS; i++) {
        bytes_t frame = {.size = 0};

        if (strcmp(goldens[i].name, name) != 0)
            continue;
        goldens[i].build(&frame);
        if (dump->size != frame.size || memcmp(dump->at, frame.at, frame.size) != 0) {
            fprintf(stderr, "%s is written as:\n", name);
            for (size_t at = 0; at < frame.size; at++)
                fprintf(stderr, at + 1 == frame.size ? "%02x\n" : "%02x ", frame.at[at]);
            fail_msg("%s differs", name);
        }
        ++*checked;
        return;
    }
    fail_msg("no builder for %s", name);
}

/* Checks every "```frame NAME" block of the file; answers their number. */
static unsigned check_file(const char *path)
{
    FILE *file = fopen(path, "r");
    char line[512], name[64] = "";
    unsigned checked = 0;
    bytes_t dump = {.size = 0};

    if (file == NULL)
        fail_msg("cannot read %s", path);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (name[0] == 0) {
            if (sscanf(line, "```frame %63s", name) == 1)
                dump.size = 0;
        } else if (strncmp(line, "```", 3) == 0) {
            check_against_encoder(name, &dump, &checked);
            name[0] = 0;
        } else {
            take_hex(line, &dump);
        }
    }
    fclose(file);
    return checked;
}

/* TR-18 */
static void test_tr18_golden_frames(void **state)
{
    (void)state;
    assert_int_equal(check_file(ZLINK_TESTS_ROOT "/tests/golden/frames.txt"), GOLDENS);
}

static void test_dumps_in_the_manual_are_true(void **state)
{
    (void)state;
    assert_true(check_file(ZLINK_TESTS_ROOT "/docs/wire.md") >= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tr18_golden_frames),
        cmocka_unit_test(test_dumps_in_the_manual_are_true),
    };

    return zlink_test_main(tests);
}
