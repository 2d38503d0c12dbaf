/*
 * What one connection holds in each direction is bounded by bytes: what counts, when a full one opens again, and that a
 * receiver who does not read stops its sender without a loss.
 */
#include "mesh_fixture.h"
#include "raw_peer.h"

#include "base/container_of.h"
#include "net/stream_internal.h"

#define KIB 1024u
#define MIB (1024u * 1024u)

static uint8_t payload[70000];

/* A node with one link to a peer that reads only when the test does. */
typedef struct high {
    node_t node;
    raw_link_t slow;
} high_t;

static void high_start(high_t *high, size_t outbound_bytes)
{
    node_init(&high->node, "node");
    high->node.options.outbound_bytes = outbound_bytes;
    high->node.options.max_body_bytes = 32 * MIB;
    node_start(&high->node);
    high->slow = raw_join_slow(high->node.address, "raw" RAW_UUID, 9, 4096);
    node_wait_links(&high->node, 1);
}

static void high_stop(high_t *high)
{
    raw_leave(&high->slow);
    node_wait_links(&high->node, 0);
    node_stop(&high->node);
}

static zlink_frame_connection_t *connection_of(const node_t *node)
{
    return TAILQ_FIRST(&node->mesh->links)->ends[ZLINK_CONNECTION_APPLICATION]->connection;
}

/* ---- on the reactor ---- */

typedef struct look {
    high_t *high;
    size_t unsent;
    bool room;
} look_t;

static void look_here(void *context)
{
    look_t *look = context;
    zlink_frame_connection_t *connection = connection_of(&look->high->node);

    look->unsent = zlink_stream_unsent_bytes(zlink_frame_connection_stream(connection));
    look->room = zlink_frame_connection_has_room(connection);
}

static look_t look(high_t *high)
{
    look_t look = {.high = high};

    zlink_reactor_call(high->node.reactor, look_here, &look);
    return look;
}

/* Until nothing is on its way any more. */
static void wait_until_sent(high_t *high)
{
    const time_t until = time(NULL) + FIXTURE_PATIENCE_S;

    while (look(high).unsent > 0)
        assert_true(time(NULL) <= until);
}

static zlink_status_t send_frame(high_t *high, const void *envelope, uint32_t envelope_bytes, size_t payload_bytes)
{
    const zlink_frame_prefix_t prefix = {.kind = ZLINK_FRAME_SEND, .target_id = 1, .packet_id = 1};

    return zlink_frame_connection_send(connection_of(&high->node), &prefix, envelope, envelope_bytes, payload,
                                       (uint32_t)payload_bytes);
}

typedef struct burst {
    high_t *high;
    uint32_t envelope_bytes;
    size_t payload_bytes;
    size_t taken; /* until one is refused */
} burst_t;

/* In one turn of the reactor: nothing leaves meanwhile. */
static void burst_here(void *context)
{
    burst_t *burst = context;

    burst->taken = 0;
    while (send_frame(burst->high, payload, burst->envelope_bytes, burst->payload_bytes) == ZLINK_OK)
        burst->taken++;
}

static size_t burst(high_t *high, uint32_t envelope_bytes, size_t payload_bytes)
{
    burst_t burst = {.high = high, .envelope_bytes = envelope_bytes, .payload_bytes = payload_bytes};

    zlink_reactor_call(high->node.reactor, burst_here, &burst);
    return burst.taken;
}

static void read_past(int fd, size_t frames)
{
    raw_frame_t *frame = malloc(sizeof(*frame));

    for (size_t i = 0; i < frames; i++)
        assert_true(raw_read(fd, frame));
    free(frame);
}

/* A message counts with its payload, its envelope and 64; an empty connection takes one that is larger than the mark.
 */
static void test_what_a_message_counts(void **state)
{
    high_t high;

    (void)state;
    high_start(&high, 64 * KIB);
    wait_until_sent(&high);
    assert_int_equal(burst(&high, 0, 936), 65); /* of 1,000 each */
    read_past(high.slow.application, 65);
    wait_until_sent(&high);
    assert_int_equal(burst(&high, 36, 900), 65);
    read_past(high.slow.application, 65);
    wait_until_sent(&high);
    assert_int_equal(burst(&high, 0, 0), 1024); /* an empty one is not for nothing */
    read_past(high.slow.application, 1024);
    wait_until_sent(&high);
    assert_int_equal(burst(&high, 0, 65472), 1); /* exactly the mark */
    read_past(high.slow.application, 1);
    wait_until_sent(&high);
    assert_int_equal(burst(&high, 0, 69000), 1); /* and more than it */
    read_past(high.slow.application, 1);
    wait_until_sent(&high);
    high_stop(&high);
}

/* A full connection opens when half of the mark is free, and not at each byte. */
static void test_a_full_one_opens_when_it_is_half_empty(void **state)
{
    const time_t until = time(NULL) + FIXTURE_PATIENCE_S;
    const size_t mark = MIB;
    uint8_t bytes[8192];
    size_t shut_with_room = 0;
    high_t high;

    (void)state;
    high_start(&high, mark);
    wait_until_sent(&high);
    for (;;) {
        const look_t now = look(&high);
        if (now.room && shut_with_room > 0) {
            assert_true(now.unsent <= mark / 2);
            break;
        }
        assert_true(!now.room || now.unsent <= mark / 2);
        if (now.room) { /* as long as the sockets take something */
            burst(&high, 0, 32 * KIB);
            continue;
        }
        shut_with_room += now.unsent < mark - 128 * KIB;
        assert_true(time(NULL) <= until);
        assert_true(recv(high.slow.application, bytes, sizeof(bytes), 0) > 0);
    }
    assert_true(shut_with_room > 0);
    high_stop(&high);
}

/* ---- what goes in chunks ---- */

typedef struct large {
    high_t *high;
    size_t size;
    uint8_t *bytes;
    zlink_output_hold_t hold;
    zlink_status_t status;
    size_t small_taken;
    size_t unsent;
    _Atomic size_t released;
} large_t;

static void large_released(zlink_output_hold_t *hold)
{
    atomic_fetch_add(&ZLINK_CONTAINER_OF(hold, large_t, hold)->released, 1);
}

static void large_here(void *context)
{
    large_t *large = context;
    const zlink_frame_prefix_t prefix = {.kind = ZLINK_FRAME_SEND, .target_id = 1, .packet_id = 1};
    zlink_frame_connection_t *connection = connection_of(&large->high->node);
    bool held;

    zlink_frame_connection_set_peer_body_limit(connection, 64 * MIB);
    large->hold.release = large_released;
    large->status = zlink_frame_connection_send_held(connection, &prefix, NULL, 0, large->bytes, (uint32_t)large->size,
                                                     &large->hold, &held);
    assert(held == (large->status == ZLINK_OK));
}

/* A large one, small ones behind it, and another large one, in one turn. */
static void larges_here(void *context)
{
    large_t *larges = context;

    large_here(&larges[0]);
    while (send_frame(larges->high, NULL, 0, 60000) == ZLINK_OK)
        larges->small_taken++;
    large_here(&larges[1]);
    larges->unsent = zlink_stream_unsent_bytes(zlink_frame_connection_stream(connection_of(&larges->high->node)));
}

/* What of a large message is not handed to the socket yet counts like any other byte: no second one, and few small
 * ones, beside it. Of one that is larger than the mark half of the mark counts at most, so that small ones still pass
 * it. */
static void test_unsent_chunks_count(void **state)
{
    static const struct {
        size_t mark, size, small_min, small_max;
    } cases[] = {{MIB, 600 * KIB, 6, 7}, {4 * MIB, 16 * MIB, 20, 35}};
    uint8_t *bytes = calloc(1, 16 * MIB);
    high_t high;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        high_start(&high, cases[i].mark);
        wait_until_sent(&high);
        large_t larges[2] = {{.high = &high, .size = cases[i].size, .bytes = bytes},
                             {.high = &high, .size = cases[i].size, .bytes = bytes}};
        zlink_reactor_call(high.node.reactor, larges_here, larges);
        assert_int_equal(larges[0].status, ZLINK_OK);
        assert_int_equal(larges[1].status, ZLINK_CAPACITY_EXCEEDED);
        assert_in_range(larges[0].small_taken, cases[i].small_min, cases[i].small_max);
        assert_true(larges[0].unsent > cases[i].size + larges[0].small_taken * 60000);
        raw_leave(&high.slow);
        fixture_wait_for(&larges[0].released, 1);
        high_stop(&high);
    }
    free(bytes);
}

/* ---- the receiving end ---- */

typedef struct input {
    node_t *node;
    size_t unread;
    bool reads;
} input_t;

static void input_here(void *context)
{
    input_t *input = context;
    const zlink_stream_t *stream = zlink_frame_connection_stream(connection_of(input->node));

    input->unread = zlink_byte_buffer_size(&stream->input);
    input->reads = stream->receive_armed;
}

static input_t input_of(node_t *node)
{
    input_t input = {.node = node};

    zlink_reactor_call(node->reactor, input_here, &input);
    return input;
}

/* TR-61, EX-76: a receiver that has its fill unread reads no more, which stops the sender; nothing is dropped, and all
 * of it arrives, once, when the receiver goes on. */
static void test_tr61_ex76_a_full_receiver_stops_its_sender(void **state)
{
    enum { CALLS = 900 }; /* of 32 KiB: more than all sockets hold */
    static test_call_t calls[CALLS];
    const time_t until = time(NULL) + FIXTURE_PATIENCE_S;
    input_t input;
    pair_t pair;

    (void)state;
    pair_init(&pair, true);
    pair.server.options.inbound_bytes = 100 * KIB;
    pair.caller.options.outbound_bytes = 100 * KIB;
    pair_start(&pair);
    atomic_store(&pair.server.habit, NODE_WAITS);
    for (size_t i = 0; i < CALLS; i++) {
        test_call_init(&calls[i], &pair.caller, "prices", "");
        calls[i].call.one_way = true;
        calls[i].call.payload = payload;
        calls[i].call.payload_bytes = 32 * KIB;
        test_call_submit(&calls[i]);
    }
    do {
        input = input_of(&pair.server);
        assert_true(time(NULL) <= until);
    } while (input.reads || node_look(&pair.caller).waiting == 0);
    /* What the reactor's receive buffers hold may come in with the last look. */
    assert_in_range(input.unread, 100 * KIB, 100 * KIB + 4 * MIB);
    assert_int_equal(atomic_load(&pair.server.messages), 0);
    for (int again = 0; again < 20; again++) { /* it stays so */
        assert_false(input_of(&pair.server).reads);
        assert_int_equal(input_of(&pair.server).unread, input.unread);
        assert_true(node_look(&pair.caller).waiting > 0);
    }
    atomic_store(&pair.server.habit, NODE_ECHOES);
    zlink_reactor_call(pair.server.reactor, node_resume_here, &pair.server);
    for (size_t i = 0; i < CALLS; i++) {
        assert_int_equal(test_call_wait(&calls[i]), ZLINK_OK);
        test_call_release(&calls[i]);
    }
    fixture_wait_for(&pair.server.messages, CALLS);
    assert_int_equal(node_ask(&pair.caller, "prices", "and now?"), ZLINK_OK); /* behind all of them */
    assert_int_equal(atomic_load(&pair.server.messages), CALLS);
    pair_stop(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_message_counts),
        cmocka_unit_test(test_a_full_one_opens_when_it_is_half_empty),
        cmocka_unit_test(test_unsent_chunks_count),
        cmocka_unit_test(test_tr61_ex76_a_full_receiver_stops_its_sender),
    };
    zlink_log_set_level(ZLINK_LOG_OFF);
    return zlink_test_main(tests);
}
