/* Frames over a stream. The test speaks to the node's side through a raw socket, byte by byte where it matters. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net_fixture.h"

#include "base/container_of.h"
#include "base/counters.h"
#include "base/memory.h"
#include "net/frame_connection.h"

extern zlink_counter_t zlink_counter_net_bytes_received;
extern zlink_counter_t zlink_counter_net_ticks;

/* The node's side of one connection. */
typedef struct peer {
    zlink_frame_connection_t *connection; /* reactor thread */
    _Atomic size_t frames;                /* taken */
    _Atomic size_t offered;               /* taken or put off */
    _Atomic bool put_off;                 /* answer ZLINK_FRAME_WAIT */
    _Atomic bool broken;                  /* answer ZLINK_FRAME_BROKEN */
    bool live;                            /* start liveness when opened */
    bool take;                            /* each payload with its memory, where it is offered */
    _Atomic size_t taken;
    uint64_t digest; /* of everything taken, in order */
    sem_t opened;
    sem_t closed;
    zlink_status_t status;
    char reason[256];
} peer_t;

static void peer_opened(zlink_frame_connection_t *connection)
{
    peer_t *peer = zlink_frame_connection_context(connection);

    if (peer->live)
        zlink_frame_connection_start_liveness(connection);
    sem_post(&peer->opened);
}

static void digest_add(uint64_t *digest, const void *bytes, size_t size)
{
    const uint8_t *byte = bytes;

    while (size-- > 0)
        *digest = (*digest ^ *byte++) * 0x100000001b3ull;
}

static zlink_frame_verdict_t peer_frame(zlink_frame_connection_t *connection, const zlink_frame_prefix_t *prefix,
                                        const uint8_t *envelope, const uint8_t *payload, size_t payload_bytes)
{
    peer_t *peer = zlink_frame_connection_context(connection);

    atomic_fetch_add(&peer->offered, 1);
    if (atomic_load(&peer->put_off))
        return ZLINK_FRAME_WAIT;
    if (atomic_load(&peer->broken))
        return ZLINK_FRAME_BROKEN;
    assert(payload == envelope + prefix->envelope_bytes);
    assert(payload_bytes == prefix->body_bytes - prefix->envelope_bytes);
    digest_add(&peer->digest, &prefix->kind, 1);
    digest_add(&peer->digest, &prefix->reply_route_id, sizeof(prefix->reply_route_id));
    digest_add(&peer->digest, &prefix->envelope_bytes, sizeof(prefix->envelope_bytes));
    void *memory = NULL;
    if (peer->take) {
        memory = zlink_frame_connection_take_payload(connection, payload, payload_bytes);
        atomic_fetch_add(&peer->taken, memory != NULL);
    }
    digest_add(&peer->digest, envelope, prefix->body_bytes);
    zlink_free(memory);
    atomic_fetch_add(&peer->frames, 1);
    return ZLINK_FRAME_TAKEN;
}

static void peer_closed(zlink_frame_connection_t *connection, zlink_status_t status, const char *reason)
{
    peer_t *peer = zlink_frame_connection_context(connection);

    peer->connection = NULL;
    peer->status = status;
    snprintf(peer->reason, sizeof(peer->reason), "%s", reason);
    sem_post(&peer->closed);
}

static const zlink_frame_connection_events_t peer_events = {
    .opened = peer_opened, .frame = peer_frame, .closed = peer_closed};

static void peer_init(peer_t *peer)
{
    memset(peer, 0, sizeof(*peer));
    sem_init(&peer->opened, 0, 0);
    sem_init(&peer->closed, 0, 0);
}

static void peer_release(peer_t *peer)
{
    sem_destroy(&peer->opened);
    sem_destroy(&peer->closed);
}

/* A node that accepts: a reactor, a listener, and peers in the order of arrival. */
typedef struct node {
    virtual_clock_t clock;
    zlink_reactor_t *reactor;
    zlink_listener_t *listener;
    peer_t *peers;
    size_t room;
    size_t accepted;
    uint32_t max_body_bytes;
    uint16_t port;
} node_t;

static void node_accepted(zlink_listener_t *listener, zlink_stream_t *stream)
{
    node_t *node = zlink_listener_context(listener);
    peer_t *peer = &node->peers[node->accepted++];

    assert(node->accepted <= node->room);
    assert(zlink_frame_connection_create(stream, &peer_events, node->max_body_bytes, peer, &peer->connection) ==
           ZLINK_OK);
}

static void node_open_here(void *context)
{
    node_t *node = context;
    const zlink_listener_options_t options = {.address = "127.0.0.1:0", .accepted = node_accepted, .context = node};
    zlink_refusal_t why;

    assert(zlink_listener_open(node->reactor, &options, &node->listener, &why) == ZLINK_OK);
    node->port = zlink_listener_port(node->listener);
}

static void node_open(node_t *node, peer_t *peers, size_t room)
{
    zlink_reactor_options_t options = {0};

    memset(node, 0, sizeof(*node));
    virtual_clock_init(&node->clock);
    options.clock = &node->clock.clock;
    node->reactor = fixture_reactor(&options);
    node->peers = peers;
    node->room = room;
    for (size_t i = 0; i < room; i++)
        peer_init(&peers[i]);
    zlink_reactor_call(node->reactor, node_open_here, node);
}

static void node_close(node_t *node)
{
    zlink_reactor_destroy(node->reactor);
    for (size_t i = 0; i < node->room; i++)
        peer_release(&node->peers[i]);
}

static int node_connect(node_t *node, peer_t *peer)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(node->port)};
    const struct timeval patience = {.tv_sec = FIXTURE_PATIENCE_S};
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    inet_pton(AF_INET, "127.0.0.1", &v4.sin_addr);
    assert_int_equal(connect(fd, (struct sockaddr *)&v4, sizeof(v4)), 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    fixture_wait(&peer->opened);
    return fd;
}

/* ---- bytes ---- */

static size_t frame_put(uint8_t *out, zlink_frame_prefix_t prefix, const char *envelope, const char *payload)
{
    prefix.envelope_bytes = (uint32_t)strlen(envelope);
    prefix.body_bytes = prefix.envelope_bytes + (uint32_t)strlen(payload);
    zlink_frame_prefix_encode(&prefix, out);
    memcpy(out + ZLINK_FRAME_PREFIX_BYTES, envelope, strlen(envelope));
    memcpy(out + ZLINK_FRAME_PREFIX_BYTES + strlen(envelope), payload, strlen(payload));
    return ZLINK_FRAME_PREFIX_BYTES + prefix.body_bytes;
}

/* A frame of each shape: with and without envelope and payload. */
static size_t frames_put(uint8_t *out)
{
    size_t size = frame_put(out, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_HELLO}, "hello", "");

    size += frame_put(
        out + size,
        (zlink_frame_prefix_t){
            .kind = ZLINK_FRAME_REQUEST, .reply_route_id = 7, .deadline_ms = 5000, .target_id = 1, .packet_id = 2},
        "", "the payload");
    size += frame_put(out + size, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_CANCEL, .reply_route_id = 9}, "", "");
    size += frame_put(out + size, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_SEND}, "names", "and bytes");
    return size;
}

#define FRAMES_IN_A_ROW 4

static void send_all(int fd, const uint8_t *bytes, size_t size)
{
    assert_int_equal(send(fd, bytes, size, MSG_NOSIGNAL), (ssize_t)size);
}

/* Until the node has taken `size` more bytes off its sockets than at `before`. */
static void wait_received(int64_t before, size_t size)
{
    const time_t until = time(NULL) + FIXTURE_PATIENCE_S;

    while (zlink_counter_read(&zlink_counter_net_bytes_received) - before < (int64_t)size) {
        assert_true(time(NULL) <= until);
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
}

static zlink_frame_prefix_t receive_prefix(int fd)
{
    uint8_t bytes[ZLINK_FRAME_PREFIX_BYTES];
    zlink_frame_prefix_t prefix;

    assert_int_equal(recv(fd, bytes, sizeof(bytes), MSG_WAITALL), (ssize_t)sizeof(bytes));
    assert_int_equal(zlink_frame_prefix_decode(bytes, 0, &prefix, NULL), ZLINK_OK);
    return prefix;
}

/* TR-21: frames split at every byte boundary, and sent byte by byte, decode identically. */
static void test_tr21_every_split_decodes_identically(void **state)
{
    uint8_t bytes[512];
    const size_t size = frames_put(bytes);
    peer_t peer;
    node_t node;
    uint64_t expected = 0;
    size_t done = 0;
    int fd;

    (void)state;
    node_open(&node, &peer, 1);
    fd = node_connect(&node, &peer);
    send_all(fd, bytes, size);
    fixture_wait_for(&peer.frames, FRAMES_IN_A_ROW);
    zlink_reactor_call(node.reactor, fixture_nothing, NULL);
    expected = peer.digest;
    assert_true(expected != 0);
    done = FRAMES_IN_A_ROW;
    for (size_t split = 1; split < size; split++) {
        int64_t before = zlink_counter_read(&zlink_counter_net_bytes_received);

        peer.digest = 0;
        send_all(fd, bytes, split);
        wait_received(before, split);
        send_all(fd, bytes + split, size - split);
        done += FRAMES_IN_A_ROW;
        fixture_wait_for(&peer.frames, done);
        zlink_reactor_call(node.reactor, fixture_nothing, NULL);
        assert_int_equal(peer.digest, expected);
    }
    peer.digest = 0;
    for (size_t i = 0; i < size; i++) {
        int64_t before = zlink_counter_read(&zlink_counter_net_bytes_received);

        send_all(fd, bytes + i, 1);
        wait_received(before, 1);
    }
    fixture_wait_for(&peer.frames, done + FRAMES_IN_A_ROW);
    zlink_reactor_call(node.reactor, fixture_nothing, NULL);
    assert_int_equal(peer.digest, expected);
    close(fd);
    fixture_wait(&peer.closed);
    assert_int_equal(peer.status, ZLINK_OK);
    node_close(&node);
}

/* TR-19 TR-22 TR-23: each malformed prefix closes the connection with a reason, delivers nothing of the frame, and an
 * enormous length allocates nothing. */
static void test_tr19_tr22_malformed_prefix_closes(void **state)
{
    static const struct {
        size_t offset;
        uint8_t value;
    } damage[] = {
        {0, 'X'},  {1, 'X'}, {2, 2},    {2, 0},    {3, 0},    {3, 13},    {3, 255}, {10, 1},
        {10, 128}, {11, 1},  {4, 0xff}, {4, 0x7f}, {8, 0xff}, {12, 0xff}, {15, 0},  {23, 0},
    };
    enum { CASES = sizeof(damage) / sizeof(damage[0]) };
    peer_t peers[CASES];
    node_t node;

    (void)state;
    zlink_log_set_level(ZLINK_LOG_OFF);
    node_open(&node, peers, CASES);
    for (size_t i = 0; i < CASES; i++) {
        const zlink_frame_prefix_t good = {
            .kind = ZLINK_FRAME_REQUEST, .reply_route_id = 1, .deadline_ms = 1, .target_id = 1, .packet_id = 1};
        uint8_t bytes[64];
        char byte;
        size_t size = frame_put(bytes, good, "e", "p");
        int fd = node_connect(&node, &peers[i]);

        bytes[damage[i].offset] = damage[i].value;
        send_all(fd, bytes, size);
        assert_int_equal(recv(fd, &byte, 1, 0), 0);
        close(fd);
        fixture_wait(&peers[i].closed);
        if (peers[i].status != ZLINK_PROTOCOL_ERROR)
            fail_msg("case %zu: %s", i, peers[i].reason);
        assert_true(peers[i].reason[0] != '\0');
        assert_int_equal(atomic_load(&peers[i].offered), 0);
    }
    node_close(&node);
    zlink_log_set_level(ZLINK_LOG_INFO);
}

/* A body at the limit passes, one byte more closes; frames before the bad one are delivered, frames behind it are not.
 */
static void test_tr23_body_limit(void **state)
{
    uint8_t bytes[512];
    char body[65];
    peer_t peers[2];
    node_t node;
    size_t size;
    int fd;

    (void)state;
    zlink_log_set_level(ZLINK_LOG_OFF);
    node_open(&node, peers, 2);
    node.max_body_bytes = 64;
    memset(body, 'b', 64);
    body[64] = '\0';
    fd = node_connect(&node, &peers[0]);
    size = frame_put(bytes, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_SEND, .target_id = 1, .packet_id = 2}, "", body);
    size += frame_put(bytes + size, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_SEND}, "e", body);
    size += frame_put(bytes + size, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_SEND, .target_id = 1, .packet_id = 2},
                      "", "");
    send_all(fd, bytes, size);
    assert_int_equal(recv(fd, bytes, 1, 0), 0); /* we are told by the end of the stream */
    close(fd);
    fixture_wait(&peers[0].closed);
    assert_int_equal(peers[0].status, ZLINK_PROTOCOL_ERROR);
    assert_int_equal(atomic_load(&peers[0].frames), 1);
    /* A handler that cannot make sense of a frame ends it as well. */
    fd = node_connect(&node, &peers[1]);
    atomic_store(&peers[1].broken, true);
    send_all(fd, bytes, ZLINK_FRAME_PREFIX_BYTES + 64);
    assert_int_equal(recv(fd, bytes, 1, 0), 0);
    close(fd);
    fixture_wait(&peers[1].closed);
    assert_int_equal(peers[1].status, ZLINK_PROTOCOL_ERROR);
    assert_int_equal(atomic_load(&peers[1].frames), 0);
    node_close(&node);
    zlink_log_set_level(ZLINK_LOG_INFO);
}

static void resume_here(void *context)
{
    zlink_frame_connection_resume(((peer_t *)context)->connection);
}

/* A frame that is put off is offered again, first, and nothing is lost or repeated; further bytes do not offer it. */
static void test_frame_wait_keeps_the_frame_until_resumed(void **state)
{
    uint8_t bytes[512];
    const size_t size = frames_put(bytes);
    int64_t before = zlink_counter_read(&zlink_counter_net_bytes_received);
    uint64_t expected;
    peer_t peer;
    node_t node;
    int fd;

    (void)state;
    node_open(&node, &peer, 1);
    fd = node_connect(&node, &peer);
    send_all(fd, bytes, size);
    fixture_wait_for(&peer.frames, FRAMES_IN_A_ROW);
    zlink_reactor_call(node.reactor, fixture_nothing, NULL);
    expected = peer.digest;
    peer.digest = 0;
    atomic_store(&peer.put_off, true);
    atomic_store(&peer.offered, 0);
    send_all(fd, bytes, size / 2);
    wait_received(before, size + size / 2);
    send_all(fd, bytes + size / 2, size - size / 2);
    wait_received(before, 2 * size);
    zlink_reactor_call(node.reactor, fixture_nothing, NULL);
    assert_int_equal(atomic_load(&peer.offered), 1);
    zlink_reactor_call(node.reactor, resume_here, &peer); /* put off again */
    fixture_wait_for(&peer.offered, 2);
    atomic_store(&peer.put_off, false);
    zlink_reactor_call(node.reactor, resume_here, &peer);
    fixture_wait_for(&peer.frames, 2 * FRAMES_IN_A_ROW);
    zlink_reactor_call(node.reactor, fixture_nothing, NULL);
    assert_int_equal(peer.digest, expected);
    close(fd);
    node_close(&node);
}

/* A probe is answered on the same connection with its id, and is not handed on. */
static void test_probe_is_answered_here(void **state)
{
    uint8_t bytes[64];
    peer_t peer;
    node_t node;
    size_t size;
    int fd;

    (void)state;
    node_open(&node, &peer, 1);
    fd = node_connect(&node, &peer);
    size = frame_put(bytes, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_PROBE, .reply_route_id = 0x0102030405060708}, "",
                     "");
    send_all(fd, bytes, size);
    zlink_frame_prefix_t prefix = receive_prefix(fd);
    assert_int_equal(prefix.kind, ZLINK_FRAME_PROBE_ACK);
    assert_int_equal(prefix.reply_route_id, 0x0102030405060708);
    assert_int_equal(atomic_load(&peer.offered), 0);
    close(fd);
    node_close(&node);
}

static void send_ack(int fd, uint64_t id)
{
    uint8_t bytes[64];
    size_t size = frame_put(bytes, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_PROBE_ACK, .reply_route_id = id}, "", "");
    int64_t before = zlink_counter_read(&zlink_counter_net_bytes_received);

    send_all(fd, bytes, size);
    wait_received(before, size);
}

/* TR-47 TR-48 TR-49 TR-50 TR-52: on the wire and on a virtual clock: a probe every 5 s, the same id until acknowledged,
 * only the matching acknowledgement counts, business traffic does not, and the end comes at 15 s. The virtual clock is
 * the only time there is: nothing here looks at the wall clock. */
static void test_tr47_tr50_tr52_liveness_on_a_virtual_clock(void **state)
{
    uint8_t bytes[512];
    const size_t size = frames_put(bytes);
    zlink_frame_prefix_t first;
    zlink_frame_prefix_t second;
    peer_t peers[2];
    node_t node;
    char byte;
    int fd;
    int other;

    (void)state;
    zlink_log_set_level(ZLINK_LOG_OFF);
    node_open(&node, peers, 2);
    peers[0].live = true;
    fd = node_connect(&node, &peers[0]);
    other = node_connect(&node, &peers[1]); /* not live: expires never */
    virtual_clock_advance(&node.clock, node.reactor, 4999);
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    virtual_clock_advance(&node.clock, node.reactor, 1); /* 5 s */
    first = receive_prefix(fd);
    assert_int_equal(first.kind, ZLINK_FRAME_PROBE);
    assert_true(first.reply_route_id != 0);
    virtual_clock_advance(&node.clock, node.reactor, 5000); /* 10 s */
    second = receive_prefix(fd);
    assert_int_equal(second.reply_route_id, first.reply_route_id);
    send_ack(fd, first.reply_route_id);                     /* counts: the deadline is 25 s now */
    virtual_clock_advance(&node.clock, node.reactor, 5000); /* 15 s */
    second = receive_prefix(fd);
    assert_true(second.reply_route_id != first.reply_route_id);
    for (int i = 0; i < 9; i++) { /* up to 24 s, with traffic and wrong acknowledgements all the time */
        send_ack(fd, first.reply_route_id);
        send_ack(fd, second.reply_route_id + 1000);
        int64_t before = zlink_counter_read(&zlink_counter_net_bytes_received);

        send_all(fd, bytes, size);
        wait_received(before, size);
        virtual_clock_advance(&node.clock, node.reactor, 1000);
    }
    assert_int_equal(receive_prefix(fd).reply_route_id, second.reply_route_id); /* that of 20 s */
    virtual_clock_advance(&node.clock, node.reactor, 999);
    assert_int_equal(sem_trywait(&peers[0].closed), -1);
    virtual_clock_advance(&node.clock, node.reactor, 1); /* 25 s */
    fixture_wait(&peers[0].closed);
    assert_int_equal(peers[0].status, ZLINK_UNAVAILABLE);
    assert_non_null(strstr(peers[0].reason, "15 s"));
    assert_int_equal(sem_trywait(&peers[1].closed), -1); /* only that connection */
    send_all(other, bytes, size);
    fixture_wait_for(&peers[1].frames, FRAMES_IN_A_ROW);
    close(fd);
    close(other);
    node_close(&node);
    zlink_log_set_level(ZLINK_LOG_INFO);
}

/* TR-52: the system clock that production injects is the monotonic one. */
static void test_tr52_system_clock_is_monotonic(void **state)
{
    struct timespec before;
    struct timespec after;
    uint64_t now;

    (void)state;
    clock_gettime(CLOCK_MONOTONIC, &before);
    now = zlink_clock_now_ns(&zlink_clock_system);
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_true(now >= (uint64_t)before.tv_sec * 1000000000u + (uint64_t)before.tv_nsec);
    assert_true(now <= (uint64_t)after.tv_sec * 1000000000u + (uint64_t)after.tv_nsec);
}

/* TR-51: an orderly close of the peer is told at once (no time passes here); another connection is not touched. */
static void test_tr51_orderly_close_is_immediate(void **state)
{
    uint8_t bytes[512];
    const size_t size = frames_put(bytes);
    peer_t peers[2];
    node_t node;
    int fds[2];

    (void)state;
    node_open(&node, peers, 2);
    peers[0].live = peers[1].live = true;
    for (size_t i = 0; i < 2; i++)
        fds[i] = node_connect(&node, &peers[i]);
    close(fds[0]);
    fixture_wait(&peers[0].closed);
    assert_int_equal(peers[0].status, ZLINK_OK);
    assert_int_equal(sem_trywait(&peers[1].closed), -1);
    send_all(fds[1], bytes, size);
    fixture_wait_for(&peers[1].frames, FRAMES_IN_A_ROW);
    close(fds[1]);
    node_close(&node);
}

/* TR-64: a peer that floods is handed over 64 frames at a time; another's probe is answered in between. */
static void *flood_main(void *argument)
{
    const int fd = *(const int *)argument;
    static uint8_t bytes[32 * 2048];

    for (size_t i = 0; i < 2048; i++)
        (void)frame_put(bytes + 32 * i,
                        (zlink_frame_prefix_t){.kind = ZLINK_FRAME_SEND, .target_id = 1, .packet_id = 2}, "", "");
    for (int i = 0; i < 100; i++) {
        if (send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) != (ssize_t)sizeof(bytes))
            return argument;
    }
    return NULL;
}

static void test_tr64_flood_does_not_stop_anothers_probes(void **state)
{
    peer_t peers[2];
    node_t node;
    int fds[2];
    pthread_t thread;
    void *failed = NULL;

    (void)state;
    node_open(&node, peers, 2);
    for (size_t i = 0; i < 2; i++)
        fds[i] = node_connect(&node, &peers[i]);
    assert_int_equal(pthread_create(&thread, NULL, flood_main, &fds[0]), 0);
    for (uint64_t id = 1; id <= 50; id++) {
        uint8_t bytes[64];
        size_t size = frame_put(bytes, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_PROBE, .reply_route_id = id}, "", "");

        send_all(fds[1], bytes, size);
        assert_int_equal(receive_prefix(fds[1]).reply_route_id, id);
    }
    fixture_wait_for(&peers[0].frames, 100u * 2048u);
    pthread_join(thread, &failed);
    assert_null(failed);
    close(fds[0]);
    close(fds[1]);
    node_close(&node);
}

/* A mail posted at the first frame after a resume, and how many frames had been handed over when it came. */
typedef struct rotation {
    zlink_mail_t mail;
    peer_t *peer;
    size_t before;
    size_t handed;
    sem_t done;
} rotation_t;

static void rotation_deliver(zlink_mail_t *mail)
{
    rotation_t *rotation = ZLINK_CONTAINER_OF(mail, rotation_t, mail);

    rotation->handed = atomic_load(&rotation->peer->frames) - rotation->before;
    sem_post(&rotation->done);
}

static void rotation_start_here(void *context)
{
    rotation_t *rotation = context;

    rotation->before = atomic_load(&rotation->peer->frames);
    zlink_frame_connection_resume(rotation->peer->connection);
    /* Delivered in the next tick; the frames are handed over at the end of this one. */
    zlink_reactor_post(zlink_stream_reactor(zlink_frame_connection_stream(rotation->peer->connection)),
                       &rotation->mail);
}

/* TR-64: 1,000 frames that are there at once are handed over 64 at a time. */
static void test_tr64_sixty_four_frames_in_a_row(void **state)
{
    enum { FRAMES = 1000 };
    static uint8_t bytes[32 * FRAMES];
    rotation_t rotation = {.mail.deliver = rotation_deliver};
    const int64_t before = zlink_counter_read(&zlink_counter_net_bytes_received);
    peer_t peer;
    node_t node;
    int fd;

    (void)state;
    for (size_t i = 0; i < FRAMES; i++)
        (void)frame_put(bytes + 32 * i,
                        (zlink_frame_prefix_t){.kind = ZLINK_FRAME_SEND, .target_id = 1, .packet_id = 2}, "", "");
    node_open(&node, &peer, 1);
    sem_init(&rotation.done, 0, 0);
    rotation.peer = &peer;
    fd = node_connect(&node, &peer);
    atomic_store(&peer.put_off, true);
    send_all(fd, bytes, sizeof(bytes));
    wait_received(before, sizeof(bytes));
    fixture_wait_for(&peer.offered, 1);
    zlink_reactor_call(node.reactor, fixture_nothing, NULL);
    atomic_store(&peer.put_off, false);
    zlink_reactor_call(node.reactor, rotation_start_here, &rotation);
    fixture_wait(&rotation.done);
    assert_int_equal(rotation.handed, 64);
    fixture_wait_for(&peer.frames, FRAMES);
    close(fd);
    node_close(&node);
    sem_destroy(&rotation.done);
}

/* ---- sending ---- */

typedef struct sending {
    peer_t *peer;
    zlink_status_t status;
    zlink_frame_prefix_t prefix;
    const char *payload;
    uint32_t payload_bytes;
} sending_t;

static void send_here(void *context)
{
    sending_t *sending = context;

    sending->status = zlink_frame_connection_send(sending->peer->connection, &sending->prefix, "env", 3,
                                                  sending->payload, sending->payload_bytes);
}

static void limit_here(void *context)
{
    zlink_frame_connection_set_peer_body_limit(((peer_t *)context)->connection, 10);
}

/* What is sent is one frame with the lengths filled in; a body over the peer's limit is refused before anything is
 * sent. */
static void test_frame_send_fills_in_lengths_and_keeps_the_peers_limit(void **state)
{
    peer_t peer;
    node_t node;
    sending_t sending = {
        .prefix = {.kind = ZLINK_FRAME_REPLY, .reply_route_id = 5}, .payload = "payload", .payload_bytes = 7};
    uint8_t bytes[64];
    zlink_frame_prefix_t prefix;
    int fd;

    (void)state;
    node_open(&node, &peer, 1);
    fd = node_connect(&node, &peer);
    sending.peer = &peer;
    zlink_reactor_call(node.reactor, limit_here, &peer);
    zlink_reactor_call(node.reactor, send_here, &sending);
    assert_int_equal(sending.status, ZLINK_OK);
    sending.payload_bytes = 8;
    zlink_reactor_call(node.reactor, send_here, &sending);
    assert_int_equal(sending.status, ZLINK_INVALID_OPERATION);
    assert_int_equal(recv(fd, bytes, 42, MSG_WAITALL), 42);
    assert_int_equal(zlink_frame_prefix_decode(bytes, 100, &prefix, NULL), ZLINK_OK);
    assert_int_equal(prefix.body_bytes, 10);
    assert_int_equal(prefix.envelope_bytes, 3);
    assert_int_equal(prefix.reply_route_id, 5);
    assert_memory_equal(bytes + 32, "envpayload", 10);
    assert_int_equal(recv(fd, bytes, 1, MSG_DONTWAIT), -1);
    close(fd);
    node_close(&node);
}

/* A body of megabytes is put together in one piece. */
static void test_frame_of_megabytes(void **state)
{
    enum { BODY = 3 * 1024 * 1024 };
    const zlink_frame_prefix_t prefix = {.kind = ZLINK_FRAME_SEND, .body_bytes = BODY, .target_id = 1, .packet_id = 2};
    uint8_t *bytes = pattern_make(8, ZLINK_FRAME_PREFIX_BYTES + BODY);
    uint64_t expected = 0;
    const uint64_t no_route = 0;
    const uint32_t no_envelope = 0;
    peer_t peer;
    node_t node;
    int fd;

    (void)state;
    zlink_frame_prefix_encode(&prefix, bytes);
    node_open(&node, &peer, 1);
    fd = node_connect(&node, &peer);
    for (int i = 0; i < 3; i++)
        send_all(fd, bytes, ZLINK_FRAME_PREFIX_BYTES + BODY);
    fixture_wait_for(&peer.frames, 3);
    zlink_reactor_call(node.reactor, fixture_nothing, NULL);
    for (int i = 0; i < 3; i++) {
        digest_add(&expected, &prefix.kind, 1);
        digest_add(&expected, &no_route, sizeof(no_route));
        digest_add(&expected, &no_envelope, sizeof(no_envelope));
        digest_add(&expected, bytes + ZLINK_FRAME_PREFIX_BYTES, BODY);
    }
    assert_int_equal(peer.digest, expected);
    close(fd);
    node_close(&node);
    free(bytes);
}

/* Large payloads go away with the memory that they lie in, small ones between them are copied; nothing is lost, also
 * not when a backlog has gathered, and the large ones that come alone are really taken. */
static void test_frame_payload_is_taken_with_its_memory(void **state)
{
    static const uint32_t sizes[] = {100000, 0, 40000, 3, 200000, 16384, 16383, 65536, 1000, 500000, 20, 30};
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]), ROUNDS = 6 };
    uint8_t *bytes = pattern_make(9, ZLINK_FRAME_PREFIX_BYTES + 500000);
    const uint64_t no_route = 0;
    const uint32_t no_envelope = 0;
    uint64_t expected = 0;
    peer_t peer;
    node_t node;
    int fd;

    (void)state;
    node_open(&node, &peer, 1);
    fd = node_connect(&node, &peer);
    peer.take = true;
    for (size_t i = 0; i < COUNT * ROUNDS; i++) {
        const zlink_frame_prefix_t prefix = {
            .kind = ZLINK_FRAME_SEND, .body_bytes = sizes[i % COUNT], .target_id = 1, .packet_id = 2};

        zlink_frame_prefix_encode(&prefix, bytes);
        send_all(fd, bytes, ZLINK_FRAME_PREFIX_BYTES + prefix.body_bytes);
        digest_add(&expected, &prefix.kind, 1);
        digest_add(&expected, &no_route, sizeof(no_route));
        digest_add(&expected, &no_envelope, sizeof(no_envelope));
        digest_add(&expected, bytes + ZLINK_FRAME_PREFIX_BYTES, prefix.body_bytes);
        if (i < COUNT * 2) /* later ones come in one heap */
            fixture_wait_for(&peer.frames, i + 1);
    }
    fixture_wait_for(&peer.frames, COUNT * ROUNDS);
    zlink_reactor_call(node.reactor, fixture_nothing, NULL);
    assert_int_equal(peer.digest, expected);
    assert_true(atomic_load(&peer.taken) >= 2 * 5); /* of the two quiet rounds: five are 32 KiB or more */
    close(fd);
    node_close(&node);
    free(bytes);
}

static void send_frame(int fd, uint8_t *bytes, uint32_t body_bytes)
{
    zlink_frame_prefix_encode(
        &(zlink_frame_prefix_t){.kind = ZLINK_FRAME_SEND, .body_bytes = body_bytes, .target_id = 1, .packet_id = 2},
        bytes);
    send_all(fd, bytes, ZLINK_FRAME_PREFIX_BYTES + body_bytes);
}

/* What lies behind a taken payload is offered where it has gone; and a buffer that a backlog has made large does not
 * keep later payloads from being taken. */
static void test_frame_behind_a_taken_payload_is_kept(void **state)
{
    uint8_t *bytes = pattern_make(9, ZLINK_FRAME_PREFIX_BYTES + 400000);
    int64_t before;
    peer_t peer;
    node_t node;
    int fd;

    (void)state;
    node_open(&node, &peer, 1);
    fd = node_connect(&node, &peer);
    peer.take = true;
    atomic_store(&peer.put_off, true);
    before = zlink_counter_read(&zlink_counter_net_bytes_received);
    send_frame(fd, bytes, 400000);
    for (uint32_t i = 0; i < 20; i++)
        send_frame(fd, bytes, 1000 + i);
    wait_received(before, 400000 + 20 * 1000);
    fixture_wait_for(&peer.offered, 1);
    atomic_store(&peer.put_off, false);
    zlink_reactor_call(node.reactor, resume_here, &peer);
    fixture_wait_for(&peer.frames, 21);
    assert_int_equal(atomic_load(&peer.taken), 1);

    atomic_store(&peer.put_off, true);
    before = zlink_counter_read(&zlink_counter_net_bytes_received);
    for (uint32_t i = 0; i < 20; i++)
        send_frame(fd, bytes, 20000);
    wait_received(before, 20 * 20000);
    atomic_store(&peer.put_off, false);
    zlink_reactor_call(node.reactor, resume_here, &peer);
    fixture_wait_for(&peer.frames, 41);
    const size_t taken = atomic_load(&peer.taken);
    for (size_t i = 0; i < 3; i++) {
        send_frame(fd, bytes, 40000);
        fixture_wait_for(&peer.frames, 42 + i);
    }
    assert_int_equal(atomic_load(&peer.taken), taken + 3);
    close(fd);
    node_close(&node);
    free(bytes);
}

/* A frame that has begun has 15 s, however its bytes come; one that is complete takes its time with it. */
static void test_frame_must_be_complete_in_time(void **state)
{
    uint8_t bytes[512];
    peer_t peers[2];
    node_t node;
    int fds[2];

    (void)state;
    zlink_log_set_level(ZLINK_LOG_OFF);
    node_open(&node, peers, 2);
    for (size_t i = 0; i < 2; i++)
        fds[i] = node_connect(&node, &peers[i]);
    const size_t size = frame_put(bytes, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_HELLO}, "hello", "");

    for (size_t sent = 0; sent < 15; sent++) { /* the first byte by byte, the second whole but for its last byte */
        int64_t before = zlink_counter_read(&zlink_counter_net_bytes_received);

        send_all(fds[0], bytes + sent, 1);
        wait_received(before, 1);
        if (sent == 0 || sent == 10) { /* at 10 s it ends, and the next one begins */
            send_all(fds[1], sent == 0 ? bytes : bytes + size - 1, sent == 0 ? size - 1 : 1);
            wait_received(before + 1, sent == 0 ? size - 1 : 1);
        }
        if (sent == 10) {
            send_all(fds[1], bytes, size - 1);
            wait_received(before + 2, size - 1);
        }
        assert_int_equal(sem_trywait(&peers[0].closed), -1);
        virtual_clock_advance(&node.clock, node.reactor, sent < 14 ? 1000 : 999);
    }
    assert_int_equal(sem_trywait(&peers[0].closed), -1);
    virtual_clock_advance(&node.clock, node.reactor, 1); /* 15 s */
    fixture_wait(&peers[0].closed);
    assert_int_equal(peers[0].status, ZLINK_UNAVAILABLE);
    assert_non_null(strstr(peers[0].reason, "not complete within 15 s"));
    virtual_clock_advance(&node.clock, node.reactor, 9999);
    assert_int_equal(sem_trywait(&peers[1].closed), -1);
    virtual_clock_advance(&node.clock, node.reactor, 1); /* 25 s: 15 from its second frame's beginning */
    fixture_wait(&peers[1].closed);
    close(fds[0]);
    close(fds[1]);
    node_close(&node);
    zlink_log_set_level(ZLINK_LOG_INFO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tr21_every_split_decodes_identically),
        cmocka_unit_test(test_tr19_tr22_malformed_prefix_closes),
        cmocka_unit_test(test_tr23_body_limit),
        cmocka_unit_test(test_frame_wait_keeps_the_frame_until_resumed),
        cmocka_unit_test(test_probe_is_answered_here),
        cmocka_unit_test(test_tr47_tr50_tr52_liveness_on_a_virtual_clock),
        cmocka_unit_test(test_frame_must_be_complete_in_time),
        cmocka_unit_test(test_tr52_system_clock_is_monotonic),
        cmocka_unit_test(test_tr51_orderly_close_is_immediate),
        cmocka_unit_test(test_tr64_flood_does_not_stop_anothers_probes),
        cmocka_unit_test(test_tr64_sixty_four_frames_in_a_row),
        cmocka_unit_test(test_frame_send_fills_in_lengths_and_keeps_the_peers_limit),
        cmocka_unit_test(test_frame_of_megabytes),
        cmocka_unit_test(test_frame_payload_is_taken_with_its_memory),
        cmocka_unit_test(test_frame_behind_a_taken_payload_is_kept),
    };

    return zlink_test_main(tests);
}
