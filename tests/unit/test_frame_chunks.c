/*
 * Frames that go in CHUNKs: how they are put together, what is refused of a peer, and how they leave room for others.
 * The peer is a plain socket.
 */
#include "net_fixture.h"
#include "raw_peer.h"

#include "base/container_of.h"
#include "base/memory.h"
#include "net/frame_connection.h"
#include "net/frame_transfer.h"

#define LARGE    (300u * 1024u)
#define MIB      (1024u * 1024u)
#define SEEN_MAX 256

/* The node's side. */
typedef struct side {
    virtual_clock_t clock;
    zlink_reactor_t *reactor;
    zlink_listener_t *listener;
    zlink_frame_connection_t *connection; /* reactor thread */
    zlink_stream_limits_t limits;
    uint32_t max_body_bytes;
    uint16_t port;
    int fd; /* the peer's */

    bool take;
    _Atomic bool put_off;
    _Atomic size_t frames, offered, drained;
    struct {
        uint8_t kind;
        uint64_t route;
        uint32_t deadline_ms;
        size_t envelope_bytes, payload_bytes;
        bool good; /* the payload is pattern_byte(route, …) */
        bool taken;
    } seen[SEEN_MAX]; /* the test after `frames` says so */
    sem_t opened, closed;
    zlink_status_t status;
    char reason[256];
} side_t;

static void side_opened(zlink_frame_connection_t *connection)
{
    sem_post(&((side_t *)zlink_frame_connection_context(connection))->opened);
}

static bool is_pattern(uint64_t seed, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != pattern_byte(seed, i))
            return false;
    return true;
}

static zlink_frame_verdict_t side_frame(zlink_frame_connection_t *connection, const zlink_frame_prefix_t *prefix,
                                        const uint8_t *envelope, const uint8_t *payload, size_t payload_bytes)
{
    side_t *side = zlink_frame_connection_context(connection);
    const size_t at = atomic_load(&side->frames);
    void *memory = NULL;

    atomic_fetch_add(&side->offered, 1);
    if (atomic_load(&side->put_off))
        return ZLINK_FRAME_WAIT;
    assert(at < SEEN_MAX && payload == envelope + prefix->envelope_bytes);
    assert(prefix->body_bytes == prefix->envelope_bytes + payload_bytes);
    if (side->take)
        memory = zlink_frame_connection_take_payload(connection, payload, payload_bytes);
    side->seen[at].kind = prefix->kind;
    side->seen[at].route = prefix->reply_route_id;
    side->seen[at].deadline_ms = prefix->deadline_ms;
    side->seen[at].envelope_bytes = prefix->envelope_bytes;
    side->seen[at].payload_bytes = payload_bytes;
    side->seen[at].good = is_pattern(prefix->reply_route_id, payload, payload_bytes);
    side->seen[at].taken = memory != NULL;
    zlink_free(memory);
    atomic_store(&side->frames, at + 1);
    return ZLINK_FRAME_TAKEN;
}

static void side_drained(zlink_frame_connection_t *connection)
{
    atomic_fetch_add(&((side_t *)zlink_frame_connection_context(connection))->drained, 1);
}

static void side_closed(zlink_frame_connection_t *connection, zlink_status_t status, const char *reason)
{
    side_t *side = zlink_frame_connection_context(connection);

    side->connection = NULL;
    side->status = status;
    snprintf(side->reason, sizeof(side->reason), "%s", reason);
    sem_post(&side->closed);
}

static const zlink_frame_connection_events_t side_events = {
    .opened = side_opened, .frame = side_frame, .drained = side_drained, .closed = side_closed};

static void side_accepted(zlink_listener_t *listener, zlink_stream_t *stream)
{
    side_t *side = zlink_listener_context(listener);

    assert(zlink_frame_connection_create(stream, &side_events, side->max_body_bytes, side, &side->connection) ==
           ZLINK_OK);
}

static void side_listen_here(void *context)
{
    side_t *side = context;
    const zlink_listener_options_t options = {
        .address = "127.0.0.1:0", .limits = side->limits, .accepted = side_accepted, .context = side};
    zlink_refusal_t why;

    assert(zlink_listener_open(side->reactor, &options, &side->listener, &why) == ZLINK_OK);
    side->port = zlink_listener_port(side->listener);
}

static void side_open(side_t *side, uint32_t max_body_bytes, int receive_bytes)
{
    zlink_reactor_options_t options = {0};
    char address[32];

    memset(side, 0, sizeof(*side));
    virtual_clock_init(&side->clock);
    options.clock = &side->clock.clock;
    side->reactor = fixture_reactor(&options);
    side->max_body_bytes = max_body_bytes;
    sem_init(&side->opened, 0, 0);
    sem_init(&side->closed, 0, 0);
    zlink_reactor_call(side->reactor, side_listen_here, side);
    snprintf(address, sizeof(address), "127.0.0.1:%u", side->port);
    side->fd = raw_connect_slow(address, receive_bytes);
    fixture_wait(&side->opened);
}

static void side_close(side_t *side)
{
    close(side->fd);
    zlink_reactor_destroy(side->reactor);
    sem_destroy(&side->opened);
    sem_destroy(&side->closed);
}

/* The node ends the connection and says why. */
static void expect_end(side_t *side, const char *reason)
{
    raw_expect_end(side->fd);
    fixture_wait(&side->closed);
    assert_int_equal(side->status, ZLINK_PROTOCOL_ERROR);
    assert_string_equal(side->reason, reason);
}

/* ---- what the peer sends ---- */

typedef struct large {
    uint64_t number; /* of the transfer */
    uint8_t *bytes;  /* the whole frame */
    size_t size, sent;
} large_t;

static large_t large_make(uint64_t number, uint64_t route, size_t envelope_bytes, size_t payload_bytes)
{
    const zlink_frame_prefix_t prefix = {.kind = ZLINK_FRAME_REQUEST,
                                         .reply_route_id = route,
                                         .deadline_ms = 5000,
                                         .target_id = 1,
                                         .packet_id = 1,
                                         .envelope_bytes = (uint32_t)envelope_bytes,
                                         .body_bytes = (uint32_t)(envelope_bytes + payload_bytes)};
    large_t large = {.number = number, .size = ZLINK_FRAME_PREFIX_BYTES + envelope_bytes + payload_bytes};

    large.bytes = malloc(large.size);
    zlink_frame_prefix_encode(&prefix, large.bytes);
    memset(large.bytes + ZLINK_FRAME_PREFIX_BYTES, 'e', envelope_bytes);
    for (size_t i = 0; i < payload_bytes; i++)
        large.bytes[ZLINK_FRAME_PREFIX_BYTES + envelope_bytes + i] = pattern_byte(route, i);
    return large;
}

static void chunk_send(const side_t *side, uint64_t number, const void *bytes, size_t size)
{
    raw_send(side->fd, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_CHUNK, .reply_route_id = number}, NULL, 0, bytes,
             size);
}

static bool large_send(const side_t *side, large_t *large, size_t size)
{
    if (size > large->size - large->sent)
        size = large->size - large->sent;
    chunk_send(side, large->number, large->bytes + large->sent, size);
    large->sent += size;
    return large->sent < large->size;
}

static void small_send(const side_t *side, uint64_t route)
{
    const uint8_t payload[] = {pattern_byte(route, 0), pattern_byte(route, 1)};

    raw_send(
        side->fd,
        (zlink_frame_prefix_t){
            .kind = ZLINK_FRAME_REQUEST, .reply_route_id = route, .deadline_ms = 1, .target_id = 1, .packet_id = 1},
        NULL, 0, payload, sizeof(payload));
}

/* TR-21: whatever the chunks' sizes, the frame comes out whole, once and in one piece, and is handed over with its
 * memory where somebody wants that. */
static void test_tr21_chunks_of_any_size_make_the_frame(void **state)
{
    static const size_t sizes[] = {33, 64, 1000, 65535, 65536};
    side_t side;

    (void)state;
    side_open(&side, MIB, 0);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        large_t large = large_make(7, 100 + i, i % 2 ? 3000 : 0, sizes[i] < 100 ? 70000 : LARGE);
        side.take = i % 2;
        while (large_send(&side, &large, sizes[i]))
            ;
        fixture_wait_for(&side.frames, i + 1);
        assert_int_equal(side.seen[i].kind, ZLINK_FRAME_REQUEST);
        assert_int_equal(side.seen[i].route, 100 + i);
        assert_int_equal(side.seen[i].envelope_bytes, i % 2 ? 3000 : 0);
        assert_int_equal(side.seen[i].payload_bytes, sizes[i] < 100 ? 70000 : LARGE);
        assert_int_equal(side.seen[i].deadline_ms, 5000);
        assert_true(side.seen[i].good);
        assert_true(side.seen[i].taken == side.take);
        free(large.bytes);
    }
    side_close(&side);
}

/* Small frames, and the chunks of others, arrive between; what was given up never arrives; the time that it took is
 * off the deadline. */
static void test_frames_go_between_chunks(void **state)
{
    side_t side;

    (void)state;
    side_open(&side, MIB, 0);
    large_t one = large_make(1, 11, 0, LARGE), other = large_make(2, 12, 5, 100000), lost = large_make(3, 13, 0, LARGE);
    large_send(&side, &one, 65536);
    large_send(&side, &lost, 40000);
    large_send(&side, &other, 65536);
    small_send(&side, 21);
    fixture_wait_for(&side.frames, 1);
    virtual_clock_advance(&side.clock, side.reactor, 1500);
    chunk_send(&side, 3, NULL, 0);
    large_send(&side, &other, 65536);
    small_send(&side, 22);
    while (large_send(&side, &one, 65536))
        small_send(&side, 23);
    small_send(&side, 24);
    fixture_wait_for(&side.frames, 8);
    static const uint64_t order[] = {21, 12, 22, 23, 23, 23, 11, 24};
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(side.seen[i].route, order[i]);
        assert_true(side.seen[i].good);
    }
    assert_int_equal(side.seen[1].deadline_ms, 3500);
    large_t again = large_make(3, 14, 0, LARGE); /* the number is free, and so is the room */
    while (large_send(&side, &again, 65536))
        ;
    fixture_wait_for(&side.frames, 9);
    assert_int_equal(side.seen[8].route, 14);
    free(one.bytes);
    free(other.bytes);
    free(lost.bytes);
    free(again.bytes);
    side_close(&side);
}

/* A whole frame that has to wait is offered again, and comes once. */
static void test_a_whole_frame_may_have_to_wait(void **state)
{
    side_t side;

    (void)state;
    side_open(&side, MIB, 0);
    large_t large = large_make(1, 11, 9, LARGE);
    atomic_store(&side.put_off, true);
    while (large_send(&side, &large, 50000))
        ;
    small_send(&side, 21);
    fixture_wait_for(&side.offered, 1);
    virtual_clock_advance(&side.clock, side.reactor, 20000); /* it is not the peer who makes it wait */
    assert_int_equal(atomic_load(&side.frames), 0);
    atomic_store(&side.put_off, false);
    side.take = true;
    zlink_reactor_call(side.reactor, (void (*)(void *))zlink_frame_connection_resume, side.connection);
    fixture_wait_for(&side.frames, 2);
    assert_int_equal(side.seen[0].route, 11);
    assert_true(side.seen[0].good && side.seen[1].good);
    assert_int_equal(side.seen[0].deadline_ms, 1);
    free(large.bytes);
    side_close(&side);
}

/* TR-22, TR-23: what breaks a rule of the chunks ends the connection, and nothing of it is delivered. */
static void send_bad(side_t *side, size_t which)
{
    large_t large = large_make(1, 11, 0, LARGE), other;
    const size_t at_kind = 3, at_size = 4;

    switch (which) {
    case 0: /* an end of nothing */
        chunk_send(side, 1, NULL, 0);
        break;
    case 1:
        chunk_send(side, 1, large.bytes, ZLINK_FRAME_PREFIX_BYTES);
        break;
    case 2:
        large.bytes[0] = 'X';
        large_send(side, &large, 100);
        break;
    case 3: /* a control frame would hide in it */
        large.bytes[at_kind] = ZLINK_FRAME_CHUNK;
        memset(large.bytes + at_size, 0, 4);
        large.bytes[at_size + 2] = 1;
        memset(large.bytes + 8, 0, 8);
        memset(large.bytes + 24, 0, 8);
        large_send(side, &large, 100);
        break;
    case 4:
        memset(large.bytes + at_size, 0xff, 4);
        large_send(side, &large, 100);
        break;
    case 5: /* 69,632 goes in one piece */
        memset(large.bytes + at_size, 0, 4);
        large.bytes[at_size + 1] = 1;
        large.bytes[at_size + 2] = 0x10;
        large_send(side, &large, 100);
        break;
    case 6: /* 300 KiB and 800 KiB are more than 1 MiB */
        other = large_make(2, 12, 0, 800u * 1024u);
        large_send(side, &large, 100);
        large_send(side, &other, 100);
        free(other.bytes);
        break;
    case 7:
        for (uint64_t number = 1; number <= ZLINK_FRAME_TRANSFERS_MAX + 1; number++) {
            other = large_make(number, 12, 0, 69633);
            large_send(side, &other, 40);
            free(other.bytes);
        }
        break;
    case 8: /* more than the frame has */
        while (large.sent + 65536 < large.size)
            large_send(side, &large, 65536);
        chunk_send(side, 1, large.bytes, large.size - large.sent + 1);
        break;
    default:
        break;
    }
    free(large.bytes);
}

static void test_tr22_tr23_bad_chunks_end_the_connection(void **state)
{
    static const char *const reasons[] = {
        "a first chunk without its frame's prefix and more",
        "a first chunk without its frame's prefix and more",
        "bad magic",
        "a frame in chunks that is no REQUEST, SEND or REPLY",
        "body over the limit",
        "a frame in chunks that would fit one",
        "more frames in chunks at a time than are allowed",
        "more frames in chunks at a time than are allowed",
        "more chunks than the frame has bytes",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        side_t side;
        side_open(&side, i == 7 ? 2 * MIB : MIB, 0);
        send_bad(&side, i);
        expect_end(&side, reasons[i]);
        assert_int_equal(atomic_load(&side.offered), 0);
        side_close(&side);
    }
}

/* Nobody holds memory by sending the rest never, whatever else he sends meanwhile. */
static void test_a_transfer_that_stands_still_ends_the_connection(void **state)
{
    side_t side;
    size_t small = 0;

    (void)state;
    side_open(&side, MIB, 0);
    large_t large = large_make(1, 11, 0, LARGE);
    large_send(&side, &large, 65536);
    small_send(&side, 21);
    fixture_wait_for(&side.frames, ++small);
    virtual_clock_advance(&side.clock, side.reactor, 14000);
    large_send(&side, &large, 65536); /* in time */
    small_send(&side, 21);
    fixture_wait_for(&side.frames, ++small);
    for (int i = 0; i < 14; i++) {
        virtual_clock_advance(&side.clock, side.reactor, 1000);
        small_send(&side, 21);
        fixture_wait_for(&side.frames, ++small);
    }
    virtual_clock_advance(&side.clock, side.reactor, 1000);
    virtual_clock_advance(&side.clock, side.reactor, 14000);
    raw_expect_end(side.fd);
    fixture_wait(&side.closed);
    assert_int_equal(side.status, ZLINK_UNAVAILABLE);
    free(large.bytes);
    side_close(&side);
}

/* ---- what the node sends ---- */

typedef struct outgoing {
    side_t *side;
    zlink_output_hold_t hold;
    uint8_t *payload;
    size_t size;
    uint64_t route;
    bool by_copy, forced;
    zlink_status_t status;
    bool held;
    _Atomic size_t released;
} outgoing_t;

static void outgoing_released(zlink_output_hold_t *hold)
{
    outgoing_t *outgoing = ZLINK_CONTAINER_OF(hold, outgoing_t, hold);

    memset(outgoing->payload, 0xdd, outgoing->size); /* whoever still reads it sends nonsense */
    atomic_fetch_add(&outgoing->released, 1);
}

static void outgoing_send_here(void *context)
{
    outgoing_t *outgoing = context;
    const zlink_frame_prefix_t prefix = {.kind = ZLINK_FRAME_REPLY, .reply_route_id = outgoing->route, .packet_id = 1};
    zlink_frame_connection_t *connection = outgoing->side->connection;
    const uint32_t size = (uint32_t)outgoing->size;

    outgoing->hold.release = outgoing_released;
    if (outgoing->forced)
        outgoing->status = zlink_frame_connection_send_forced(connection, &prefix, "env", 3, outgoing->payload, size);
    else if (outgoing->by_copy)
        outgoing->status = zlink_frame_connection_send(connection, &prefix, "env", 3, outgoing->payload, size);
    else
        outgoing->status = zlink_frame_connection_send_held(connection, &prefix, "env", 3, outgoing->payload, size,
                                                            &outgoing->hold, &outgoing->held);
    if (outgoing->by_copy || outgoing->forced)
        memset(outgoing->payload, 0xdd, outgoing->size);
}

static void outgoing_init(outgoing_t *outgoing, side_t *side, uint64_t route, size_t size)
{
    memset(outgoing, 0, sizeof(*outgoing));
    outgoing->side = side;
    outgoing->route = route;
    outgoing->size = size;
    outgoing->payload = pattern_make(route, size);
}

/* Reads frames; chunks are put together. */
typedef struct reader {
    struct {
        uint64_t number;
        uint8_t *bytes;
        size_t size, filled;
    } open[ZLINK_FRAME_TRANSFERS_MAX];
    size_t open_count, open_bytes, open_count_max, open_bytes_max, chunks;
    uint64_t order[64]; /* routes of whole frames */
    size_t count, abandoned;
} reader_t;

static raw_frame_t frame;

static void reader_whole(reader_t *reader, const uint8_t *bytes, size_t size)
{
    zlink_frame_prefix_t prefix;

    assert_int_equal(zlink_frame_prefix_decode(bytes, UINT32_MAX, &prefix, NULL), ZLINK_OK);
    assert_int_equal(prefix.kind, ZLINK_FRAME_REPLY);
    assert_int_equal(prefix.body_bytes, size - ZLINK_FRAME_PREFIX_BYTES);
    assert_memory_equal(bytes + ZLINK_FRAME_PREFIX_BYTES, "env", 3);
    pattern_check(prefix.reply_route_id, bytes + ZLINK_FRAME_PREFIX_BYTES + 3, size - ZLINK_FRAME_PREFIX_BYTES - 3);
    reader->order[reader->count++] = prefix.reply_route_id;
}

static void reader_chunk(reader_t *reader)
{
    size_t i = 0;
    uint32_t body_bytes;

    reader->chunks++;
    while (i < reader->open_count && reader->open[i].number != frame.prefix.reply_route_id)
        i++;
    if (i == reader->open_count) {
        assert_true(i < ZLINK_FRAME_TRANSFERS_MAX && frame.prefix.body_bytes > ZLINK_FRAME_PREFIX_BYTES);
        memcpy(&body_bytes, frame.body + 4, 4);
        reader->open[i].number = frame.prefix.reply_route_id;
        reader->open[i].size = ZLINK_FRAME_PREFIX_BYTES + (size_t)ntohl(body_bytes);
        reader->open[i].filled = 0;
        reader->open[i].bytes = malloc(reader->open[i].size);
        reader->open_bytes += reader->open[i].size - ZLINK_FRAME_PREFIX_BYTES;
        if (++reader->open_count > reader->open_count_max)
            reader->open_count_max = reader->open_count;
        if (reader->open_bytes > reader->open_bytes_max)
            reader->open_bytes_max = reader->open_bytes;
    }
    assert_true(frame.prefix.body_bytes <= reader->open[i].size - reader->open[i].filled);
    memcpy(reader->open[i].bytes + reader->open[i].filled, frame.body, frame.prefix.body_bytes);
    reader->open[i].filled += frame.prefix.body_bytes;
    if (frame.prefix.body_bytes > 0 && reader->open[i].filled < reader->open[i].size)
        return;
    if (frame.prefix.body_bytes == 0)
        reader->abandoned++;
    else
        reader_whole(reader, reader->open[i].bytes, reader->open[i].size);
    free(reader->open[i].bytes);
    reader->open_bytes -= reader->open[i].size - ZLINK_FRAME_PREFIX_BYTES;
    reader->open[i] = reader->open[--reader->open_count];
}

static bool reader_step(reader_t *reader, const side_t *side)
{
    uint8_t bytes[ZLINK_FRAME_PREFIX_BYTES + 1024];

    if (!raw_read(side->fd, &frame))
        return false;
    if (frame.prefix.kind == ZLINK_FRAME_CHUNK) {
        reader_chunk(reader);
    } else {
        assert_true(frame.prefix.body_bytes <= 1024);
        zlink_frame_prefix_encode(&frame.prefix, bytes);
        memcpy(bytes + ZLINK_FRAME_PREFIX_BYTES, frame.body, frame.prefix.body_bytes);
        reader_whole(reader, bytes, ZLINK_FRAME_PREFIX_BYTES + frame.prefix.body_bytes);
    }
    return true;
}

static size_t position_of(const reader_t *reader, uint64_t route)
{
    for (size_t i = 0; i < reader->count; i++)
        if (reader->order[i] == route)
            return i;
    fail_msg("%llu has not arrived", (unsigned long long)route);
    return 0;
}

/* 16 MiB hold nothing back: what is sent after them arrives before their end, and the large ones take turns. Held or
 * copied, each payload is let go of once. */
static void test_small_frames_overtake_large_ones(void **state)
{
    side_t side;
    outgoing_t outgoing[6];
    reader_t reader;

    (void)state;
    for (int by_copy = 0; by_copy < 3; by_copy++) {
        memset(&reader, 0, sizeof(reader));
        side_open(&side, MIB, 0);
        for (size_t i = 0; i < 6; i++) {
            static const size_t sizes[] = {16 * MIB, 10, MIB, 20, 30, 69630};
            outgoing_init(&outgoing[i], &side, i + 1, sizes[i]);
            outgoing[i].by_copy = by_copy == 1 && i > 0;
            outgoing[i].forced = by_copy == 2;
            zlink_reactor_call(side.reactor, outgoing_send_here, &outgoing[i]);
            assert_int_equal(outgoing[i].status, ZLINK_OK); /* the first one leaves half of 4 MiB to the others */
            assert_true(outgoing[i].held == (by_copy != 2 && !outgoing[i].by_copy && outgoing[i].size > 69629));
        }
        while (reader.count < 6)
            assert_true(reader_step(&reader, &side));
        assert_int_equal(position_of(&reader, 1), reader.count - 1);
        assert_int_equal(position_of(&reader, 2), 0);
        assert_true(position_of(&reader, 3) < reader.count - 1);
        assert_true(position_of(&reader, 6) < reader.count - 1);
        assert_true(position_of(&reader, 5) < reader.count - 1);
        for (size_t i = 0; i < 6; i++) {
            if (outgoing[i].held)
                fixture_wait_for(&outgoing[i].released, 1);
            free(outgoing[i].payload);
        }
        side_close(&side);
    }
}

static uint32_t peer_limit;

static void set_peer_limit_here(void *context)
{
    zlink_frame_connection_set_peer_body_limit(((side_t *)context)->connection, peer_limit);
}

/* The peer's limits are kept: of what is open at a time, and of how many. */
static void test_no_more_at_a_time_than_the_peer_takes(void **state)
{
    enum { COUNT = 40 };
    side_t side;
    outgoing_t outgoing[COUNT];
    reader_t reader;

    (void)state;
    for (peer_limit = MIB; peer_limit <= 8 * MIB; peer_limit *= 8) {
        memset(&reader, 0, sizeof(reader));
        side_open(&side, MIB, 4096);
        zlink_reactor_call(side.reactor, set_peer_limit_here, &side);
        for (size_t i = 0; i < COUNT; i++) {
            outgoing_init(&outgoing[i], &side, i + 1, i < 5 ? MIB - 3 - i * 200000 : 69700);
            zlink_reactor_call(side.reactor, outgoing_send_here, &outgoing[i]);
            assert_int_equal(outgoing[i].status, ZLINK_OK);
        }
        while (reader.count < COUNT)
            assert_true(reader_step(&reader, &side));
        if (peer_limit == MIB)
            assert_int_equal(reader.open_bytes_max, MIB);
        else
            assert_in_range(reader.open_count_max, 2, ZLINK_FRAME_TRANSFERS_MAX); /* the socket may have taken some */
        for (size_t i = 0; i < COUNT; i++) {
            fixture_wait_for(&outgoing[i].released, 1);
            free(outgoing[i].payload);
        }
        side_close(&side);
    }
}

static void abandon_here(void *context)
{
    outgoing_t *outgoing = context;

    zlink_frame_connection_abandon(outgoing->side->connection, &outgoing->hold);
    zlink_frame_connection_abandon(outgoing->side->connection, &outgoing->hold);
}

/* One that is on its way ends with an empty chunk, one that the peer has not heard of with nothing; both are let go of.
 */
static void test_an_abandoned_frame_is_not_sent_to_its_end(void **state)
{
    side_t side;
    outgoing_t outgoing[3];
    reader_t reader;

    (void)state;
    memset(&reader, 0, sizeof(reader));
    side_open(&side, MIB, 4096);
    for (size_t i = 0; i < 3; i++) {
        outgoing_init(&outgoing[i], &side, i + 1, i == 2 ? 100000 : 16 * MIB);
        if (i == 1) { /* the first fills what the peer takes at a time */
            peer_limit = MIB;
            zlink_reactor_call(side.reactor, set_peer_limit_here, &side);
            outgoing[i].size = MIB - 3;
        }
        zlink_reactor_call(side.reactor, outgoing_send_here, &outgoing[i]);
        assert_int_equal(outgoing[i].status, ZLINK_OK);
    }
    zlink_reactor_call(side.reactor, abandon_here, &outgoing[1]); /* queued */
    zlink_reactor_call(side.reactor, abandon_here, &outgoing[0]); /* on its way */
    fixture_wait_for(&outgoing[1].released, 1);
    while (reader.count < 1)
        assert_true(reader_step(&reader, &side));
    assert_int_equal(reader.abandoned, 1);
    assert_int_equal(reader.order[0], 3);
    assert_true(reader.chunks < 100); /* of 16 MiB: 256 */
    assert_int_equal(reader.open_count, 0);
    for (size_t i = 0; i < 3; i++) {
        fixture_wait_for(&outgoing[i].released, 1);
        free(outgoing[i].payload);
    }
    side_close(&side);
}

static void close_here(void *context)
{
    zlink_frame_connection_close(((side_t *)context)->connection, "closed by the test");
}

static void abort_here(void *context)
{
    zlink_frame_connection_abort(((side_t *)context)->connection, ZLINK_UNAVAILABLE, "aborted by the test");
}

/* An orderly close sends everything first; an abort lets go of everything. */
static void test_the_end_of_the_connection(void **state)
{
    side_t side;
    outgoing_t outgoing[3];
    reader_t reader;

    (void)state;
    for (int orderly = 0; orderly < 2; orderly++) {
        memset(&reader, 0, sizeof(reader));
        side_open(&side, MIB, 4096);
        for (size_t i = 0; i < 3; i++) {
            outgoing_init(&outgoing[i], &side, i + 1, 3 * MIB);
            outgoing[i].forced = i > 0; /* there may be no room for it */
            zlink_reactor_call(side.reactor, outgoing_send_here, &outgoing[i]);
        }
        zlink_reactor_call(side.reactor, orderly ? close_here : abort_here, &side);
        if (orderly) {
            while (reader_step(&reader, &side))
                ;
            assert_int_equal(reader.count, 3);
            shutdown(side.fd, SHUT_WR);
        }
        fixture_wait(&side.closed);
        for (size_t i = 0; i < 3; i++) {
            if (outgoing[i].held)
                fixture_wait_for(&outgoing[i].released, 1);
            free(outgoing[i].payload);
        }
        side_close(&side);
    }
}

/* Without memory in any place: the frame is refused, or comes whole all the same, or the connection ends; nothing
 * leaks. */
static void test_no_memory(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 40; n++) {
        side_t side;
        outgoing_t outgoing;
        reader_t reader;
        memset(&reader, 0, sizeof(reader));
        side_open(&side, MIB, 0);
        outgoing_init(&outgoing, &side, 1, 2 * MIB);
        zlink_memory_fail_after(n);
        zlink_reactor_call(side.reactor, outgoing_send_here, &outgoing);
        while (outgoing.status == ZLINK_OK && reader.count == 0 && reader_step(&reader, &side))
            ;
        zlink_memory_fail_after(n / 2);
        large_t large = large_make(1, 11, 0, LARGE);
        while (large_send(&side, &large, 65536))
            ;
        shutdown(side.fd, SHUT_WR);
        fixture_wait(&side.closed);
        zlink_memory_fail_after(-1);
        assert_true(atomic_load(&side.frames) <= 1);
        if (outgoing.held)
            fixture_wait_for(&outgoing.released, 1);
        for (size_t i = 0; i < reader.open_count; i++)
            free(reader.open[i].bytes);
        free(outgoing.payload);
        free(large.bytes);
        side_close(&side);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tr21_chunks_of_any_size_make_the_frame),
        cmocka_unit_test(test_frames_go_between_chunks),
        cmocka_unit_test(test_a_whole_frame_may_have_to_wait),
        cmocka_unit_test(test_tr22_tr23_bad_chunks_end_the_connection),
        cmocka_unit_test(test_a_transfer_that_stands_still_ends_the_connection),
        cmocka_unit_test(test_small_frames_overtake_large_ones),
        cmocka_unit_test(test_no_more_at_a_time_than_the_peer_takes),
        cmocka_unit_test(test_an_abandoned_frame_is_not_sent_to_its_end),
        cmocka_unit_test(test_the_end_of_the_connection),
        cmocka_unit_test(test_no_memory),
    };

    zlink_log_set_level(ZLINK_LOG_OFF);
    return zlink_test_main(tests);
}
