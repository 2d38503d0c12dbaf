/* Streams over real sockets, plain. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net_fixture.h"

#include "base/container_of.h"
#include "base/counters.h"
#include "base/memory.h"
#include "net/stream_internal.h"

#define MEBIBYTE (1024u * 1024u)

/* A pair on one reactor: a listener's party and a dialer's. */
typedef struct pair {
    zlink_reactor_t *reactor;
    party_t accepted;
    party_t dialled;
    server_t server;
    client_t client;
} pair_t;

static void pair_open_with(pair_t *pair, const zlink_reactor_options_t *options, zlink_stream_limits_t server_limits,
                           zlink_stream_limits_t client_limits, size_t capacity)
{
    memset(&pair->server, 0, sizeof(pair->server));
    memset(&pair->client, 0, sizeof(pair->client));
    pair->reactor = fixture_reactor(options);
    party_init(&pair->accepted, capacity);
    party_init(&pair->dialled, capacity);
    pair->server.options.limits = server_limits;
    pair->client.options.limits = client_limits;
    server_open(&pair->server, pair->reactor, &pair->accepted, 1);
    client_open(&pair->client, pair->reactor, pair->server.address, &pair->dialled);
    fixture_wait(&pair->accepted.opened);
    fixture_wait(&pair->dialled.opened);
}

static void pair_open(pair_t *pair, const zlink_reactor_options_t *options, size_t capacity)
{
    pair_open_with(pair, options, (zlink_stream_limits_t){0}, (zlink_stream_limits_t){0}, capacity);
}

static void pair_close(pair_t *pair)
{
    zlink_reactor_destroy(pair->reactor);
    party_release(&pair->accepted);
    party_release(&pair->dialled);
}

/* A raw socket of the test itself, connected to `server`. */
static int raw_connect(const server_t *server, int receive_buffer)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(zlink_listener_port(server->listener))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    if (receive_buffer > 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* Bytes go both ways and the counters see them; an orderly close arrives as one. */
static void test_stream_carries_bytes_and_closes_in_order(void **state)
{
    pair_t pair;

    (void)state;
    pair_open(&pair, NULL, 64);
    assert_int_equal(party_write(pair.reactor, &pair.dialled, "ping", 4, false), ZLINK_OK);
    fixture_wait_for(&pair.accepted.received, 4);
    assert_int_equal(party_write(pair.reactor, &pair.accepted, "pong!", 5, false), ZLINK_OK);
    fixture_wait_for(&pair.dialled.received, 5);
    assert_memory_equal(pair.accepted.bytes, "ping", 4);
    assert_memory_equal(pair.dialled.bytes, "pong!", 5);
    zlink_reactor_call(pair.reactor, party_close_here, &pair.dialled);
    fixture_wait(&pair.accepted.closed);
    fixture_wait(&pair.dialled.closed);
    assert_int_equal(pair.dialled.status, ZLINK_OK);
    assert_string_equal(pair.dialled.reason, "closed by the test");
    assert_int_equal(pair.accepted.status, ZLINK_OK);
    assert_string_equal(pair.accepted.reason, "closed by the peer");
    assert_int_equal(sem_trywait(&pair.accepted.ended), 0);
    pair_close(&pair);
}

/* Sends `size` patterned bytes each way at once, in writes of odd sizes, and checks them. */
static void transfer_both_ways(pair_t *pair, size_t size)
{
    uint8_t *there = pattern_make(1, size);
    uint8_t *back = pattern_make(2, size);
    size_t offset = 0;
    size_t step = 1;

    while (offset < size) {
        const size_t piece = step < size - offset ? step : size - offset;

        assert_int_equal(party_write(pair->reactor, &pair->dialled, there + offset, piece, true), ZLINK_OK);
        assert_int_equal(party_write(pair->reactor, &pair->accepted, back + offset, piece, true), ZLINK_OK);
        offset += piece;
        step = step * 2 + 1 > 200000 ? 13 : step * 2 + 1;
    }
    fixture_wait_for(&pair->accepted.received, size);
    fixture_wait_for(&pair->dialled.received, size);
    pattern_check(1, pair->accepted.bytes, size);
    pattern_check(2, pair->dialled.bytes, size);
    free(there);
    free(back);
}

/* H1 H2: two tiny receive buffers are used up all the time; nothing is lost and the loop does not spin. */
static void test_h1_h2_starved_receive_is_rearmed_after_refill(void **state)
{
    const zlink_reactor_options_t options = {.buffer_count = 2, .buffer_bytes = 64};
    const size_t size = 300000;
    int64_t ticks;
    pair_t pair;

    (void)state;
    pair_open(&pair, &options, size);
    transfer_both_ways(&pair, size);
    /* Idle now: no receive may be failing and being armed in a circle. */
    extern zlink_counter_t zlink_counter_net_ticks;
    ticks = zlink_counter_read(&zlink_counter_net_ticks);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    assert_true(zlink_counter_read(&zlink_counter_net_ticks) - ticks < 50);
    pair_close(&pair);
}

/* H4 H14 H15 H20: a completion queue of eight entries overflows under a two-way flood; every byte arrives. */
static void test_h20_tiny_completion_queue_loses_nothing(void **state)
{
    const zlink_reactor_options_t options = {.entries = 4, .cq_entries = 8, .buffer_count = 64, .buffer_bytes = 128};
    const size_t size = 500000;
    pair_t pair;

    (void)state;
    pair_open(&pair, &options, size);
    transfer_both_ways(&pair, size);
    pair_close(&pair);
}

/* H3: one stream floods; another on the same few buffers still gets its bytes. */
static void test_h3_flooding_stream_does_not_starve_another(void **state)
{
    const zlink_reactor_options_t options = {.buffer_count = 4, .buffer_bytes = 512};
    zlink_reactor_t *reactor = fixture_reactor(&options);
    party_t parties[2];
    server_t server = {0};
    uint8_t *flood = pattern_make(3, MEBIBYTE);
    int noisy;
    int quiet;

    (void)state;
    party_init(&parties[0], 0);
    party_init(&parties[1], 64);
    server_open(&server, reactor, parties, 2);
    noisy = raw_connect(&server, 0);
    fixture_wait(&parties[0].opened);
    quiet = raw_connect(&server, 0);
    fixture_wait(&parties[1].opened);
    for (int i = 0; i < 16; i++) {
        assert_int_equal(send(noisy, flood, MEBIBYTE, MSG_NOSIGNAL), MEBIBYTE);
        assert_int_equal(send(quiet, "x", 1, MSG_NOSIGNAL), 1);
    }
    fixture_wait_for(&parties[1].received, 16);
    fixture_wait_for(&parties[0].received, 16u * MEBIBYTE);
    close(noisy);
    close(quiet);
    fixture_wait(&parties[0].closed);
    fixture_wait(&parties[1].closed);
    zlink_reactor_destroy(reactor);
    party_release(&parties[0]);
    party_release(&parties[1]);
    free(flood);
}

/* H8 H13: the peer sees the end when a stream closes, although a receive was waiting on it. */
static void test_h8_h13_peer_sees_the_end(void **state)
{
    zlink_reactor_t *reactor = fixture_reactor(NULL);
    party_t party;
    server_t server = {0};
    char byte;
    int fd;

    (void)state;
    for (int aborted = 0; aborted < 2; aborted++) {
        party_init(&party, 64);
        atomic_store(&server.accepted, 0);
        memset(&server, 0, sizeof(server));
        server_open(&server, reactor, &party, 1);
        fd = raw_connect(&server, 0);
        fixture_wait(&party.opened);
        zlink_reactor_call(reactor, aborted ? party_abort_here : party_close_here, &party);
        assert_int_equal(recv(fd, &byte, 1, 0), 0);
        close(fd);
        fixture_wait(&party.closed);
        assert_int_equal(party.status, aborted ? ZLINK_UNAVAILABLE : ZLINK_OK);
        server_close(&server);
        zlink_reactor_call(reactor, fixture_nothing, NULL);
        party_release(&party);
    }
    zlink_reactor_destroy(reactor);
}

/* H9 H12: descriptors are reused at once, many times; no stream ever gets a byte or an end that belongs to another. */
static void test_h9_reused_descriptor_gets_no_stale_completion(void **state)
{
    enum { ROUNDS = 60, BYTES = 4000 };
    zlink_reactor_t *reactor = fixture_reactor(NULL);
    party_t *parties = calloc(ROUNDS, sizeof(*parties));
    server_t server = {0};

    (void)state;
    for (size_t i = 0; i < ROUNDS; i++)
        party_init(&parties[i], BYTES);
    server_open(&server, reactor, parties, ROUNDS);
    for (size_t i = 0; i < ROUNDS; i++) {
        uint8_t *bytes = pattern_make(i, BYTES);
        int fd = raw_connect(&server, 0);

        fixture_wait(&parties[i].opened);
        assert_int_equal(send(fd, bytes, BYTES, MSG_NOSIGNAL), BYTES);
        fixture_wait_for(&parties[i].received, BYTES);
        /* Ends from both sides at once. */
        zlink_reactor_call(reactor, i % 2 == 0 ? party_abort_here : fixture_nothing, &parties[i]);
        close(fd);
        free(bytes);
    }
    for (size_t i = 0; i < ROUNDS; i++) {
        fixture_wait(&parties[i].closed);
        assert_int_equal(atomic_load(&parties[i].received), BYTES);
        pattern_check(i, parties[i].bytes, BYTES);
        party_release(&parties[i]);
    }
    zlink_reactor_destroy(reactor);
    free(parties);
}

static size_t short_send(void *context, size_t wanted)
{
    unsigned *calls = context;

    return ++*calls % 5 == 0 ? wanted : (wanted < 7 ? wanted : 7 + *calls % 1000 % wanted / 2 + 1) % wanted + 1;
}

/* H17 H18: every send is cut short at an odd place; it goes on where it stopped and nothing interleaves. */
static void test_h17_h18_short_sends_resume_at_the_offset(void **state)
{
    unsigned calls = 0;
    const zlink_net_fault_t fault = {.send_size = short_send, .context = &calls};
    const zlink_reactor_options_t options = {.fault = &fault};
    const size_t size = 400000;
    pair_t pair;

    (void)state;
    pair_open(&pair, &options, size);
    transfer_both_ways(&pair, size);
    pair_close(&pair);
}

/* H17: a peer with a tiny receive window reads slowly; the bytes are whole and in order. */
static void test_h17_tiny_socket_buffers_keep_the_order(void **state)
{
    zlink_reactor_t *reactor = fixture_reactor(NULL);
    const size_t size = MEBIBYTE;
    uint8_t *bytes = pattern_make(9, size);
    uint8_t *got = malloc(size);
    size_t held = 0;
    party_t party;
    server_t server = {0};
    int fd;

    (void)state;
    party_init(&party, 0);
    server_open(&server, reactor, &party, 1);
    fd = raw_connect(&server, 2048);
    fixture_wait(&party.opened);
    for (size_t offset = 0; offset < size; offset += 4096)
        assert_int_equal(party_write(reactor, &party, bytes + offset, 4096, true), ZLINK_OK);
    while (held < size) {
        ssize_t some = recv(fd, got + held, held % 977 + 1 < size - held ? held % 977 + 1 : size - held, 0);

        assert_true(some > 0);
        held += (size_t)some;
    }
    pattern_check(9, got, size);
    close(fd);
    fixture_wait(&party.closed);
    zlink_reactor_destroy(reactor);
    party_release(&party);
    free(bytes);
    free(got);
}

/* Writes a lot and closes in the same turn. */
static void write_and_close_here(void *context)
{
    party_action_t *action = context;

    action->status = zlink_stream_write_forced(action->party->stream, action->data, action->size);
    zlink_stream_close(action->party->stream, "closed by the test");
}

/* H35: what was written before the close arrives whole, also when the peer reads slowly and has bytes under way to us.
 */
static void test_h35_final_bytes_arrive_before_the_close(void **state)
{
    const size_t size = 3u * MEBIBYTE;
    zlink_reactor_t *reactor = fixture_reactor(NULL);
    uint8_t *bytes = pattern_make(4, size);
    uint8_t *got = malloc(size + 1);
    size_t held = 0;
    ssize_t some;
    party_t party;
    server_t server = {0};
    int fd;

    (void)state;
    party_init(&party, 0);
    server_open(&server, reactor, &party, 1);
    fd = raw_connect(&server, 4096);
    fixture_wait(&party.opened);
    party_action_t action = {&party, bytes, size, true, ZLINK_OK};
    zlink_reactor_call(reactor, write_and_close_here, &action);
    assert_int_equal(action.status, ZLINK_OK);
    /* Unread input at close time is what would make the kernel send a reset. */
    assert_int_equal(send(fd, "unread", 6, MSG_NOSIGNAL), 6);
    while ((some = recv(fd, got + held, size + 1 - held, 0)) > 0)
        held += (size_t)some;
    assert_int_equal(some, 0);
    assert_int_equal(held, size);
    pattern_check(4, got, size);
    close(fd);
    fixture_wait(&party.closed);
    assert_int_equal(party.status, ZLINK_OK);
    zlink_reactor_destroy(reactor);
    party_release(&party);
    free(bytes);
    free(got);
}

/* An orderly close towards a peer that never ends its side is over after 5 s of the reactor's clock. */
static void test_stream_close_is_bounded_by_the_linger_time(void **state)
{
    virtual_clock_t clock;
    zlink_reactor_options_t options = {0};
    zlink_reactor_t *reactor;
    party_t party;
    server_t server = {0};
    int fd;

    (void)state;
    virtual_clock_init(&clock);
    options.clock = &clock.clock;
    reactor = fixture_reactor(&options);
    party_init(&party, 0);
    server_open(&server, reactor, &party, 1);
    fd = raw_connect(&server, 0);
    fixture_wait(&party.opened);
    zlink_reactor_call(reactor, party_close_here, &party);
    virtual_clock_advance(&clock, reactor, 4999);
    assert_int_equal(sem_trywait(&party.closed), -1);
    virtual_clock_advance(&clock, reactor, 1);
    fixture_wait(&party.closed);
    assert_int_equal(party.status, ZLINK_OK);
    close(fd);
    zlink_reactor_destroy(reactor);
    party_release(&party);
}

/* H42: in one batch one stream's event closes all others, whose completions come later in that batch. */
static party_t *everybody;
static size_t everybody_count;

static size_t close_everybody(zlink_stream_t *stream, const uint8_t *bytes, size_t size)
{
    (void)stream;
    (void)bytes;
    for (size_t i = 0; i < everybody_count; i++) {
        if (everybody[i].stream != NULL)
            zlink_stream_abort(everybody[i].stream, ZLINK_UNAVAILABLE, "aborted by another stream");
    }
    return size;
}

static const zlink_stream_events_t murderous_events = {
    .opened = party_opened, .bytes = close_everybody, .closed = party_closed};

static void murderous_accepted(zlink_listener_t *listener, zlink_stream_t *stream)
{
    zlink_stream_set_events(stream, &murderous_events);
    server_accepted(listener, stream);
}

static void murderous_open_here(void *context)
{
    server_t *server = context;

    server->options.context = server;
    server->options.accepted = murderous_accepted;
    assert(zlink_listener_open(server->reactor, &server->options, &server->listener, &server->why) == ZLINK_OK);
}

/* Holds the reactor, so that everything below arrives in one batch. */
static void hold_here(void *context)
{
    sem_t *semaphores = context;

    sem_post(&semaphores[0]);
    while (sem_wait(&semaphores[1]) != 0)
        ;
}

static void *hold_main(void *argument)
{
    void **arguments = argument;

    zlink_reactor_call(arguments[0], hold_here, arguments[1]);
    return NULL;
}

static void test_h42_event_that_ends_other_streams_of_the_batch(void **state)
{
    enum { STREAMS = 16 };
    zlink_reactor_t *reactor = fixture_reactor(NULL);
    party_t parties[STREAMS];
    server_t server = {.reactor = reactor, .parties = parties, .room = STREAMS};
    int fds[STREAMS];
    sem_t semaphores[2];
    void *arguments[2] = {reactor, semaphores};
    pthread_t holder;

    (void)state;
    server.options.address = "127.0.0.1:0";
    everybody = parties;
    everybody_count = STREAMS;
    for (size_t i = 0; i < STREAMS; i++)
        party_init(&parties[i], 0);
    zlink_reactor_call(reactor, murderous_open_here, &server);
    for (size_t i = 0; i < STREAMS; i++) {
        fds[i] = raw_connect(&server, 0);
        fixture_wait(&parties[i].opened);
    }
    sem_init(&semaphores[0], 0, 0);
    sem_init(&semaphores[1], 0, 0);
    assert_int_equal(pthread_create(&holder, NULL, hold_main, arguments), 0);
    fixture_wait(&semaphores[0]);
    for (size_t i = 0; i < STREAMS; i++)
        assert_int_equal(send(fds[i], "x", 1, MSG_NOSIGNAL), 1);
    sem_post(&semaphores[1]);
    pthread_join(holder, NULL);
    for (size_t i = 0; i < STREAMS; i++) {
        fixture_wait(&parties[i].closed);
        assert_string_equal(parties[i].reason, "aborted by another stream");
        close(fds[i]);
    }
    zlink_reactor_destroy(reactor);
    for (size_t i = 0; i < STREAMS; i++)
        party_release(&parties[i]);
    sem_destroy(&semaphores[0]);
    sem_destroy(&semaphores[1]);
}

/* A write over the limit takes nothing; `drained` comes once half of the limit is free; forced writes go on to the hard
 * limit, which ends the stream. */
static void test_stream_output_limits(void **state)
{
    zlink_reactor_t *reactor = fixture_reactor(NULL);
    uint8_t *bytes = calloc(1, MEBIBYTE);
    uint8_t *got = malloc(MEBIBYTE);
    size_t taken = 0;
    party_t party;
    server_t server = {0};
    int fd;

    (void)state;
    server.options.limits.output_bytes = 256 * 1024;
    server.options.limits.output_hard_bytes = MEBIBYTE;
    party_init(&party, 0);
    server_open(&server, reactor, &party, 1);
    fd = raw_connect(&server, 4096);
    fixture_wait(&party.opened);
    for (;;) { /* until the socket's own buffers are full as well */
        zlink_status_t status = party_write(reactor, &party, bytes, 64 * 1024, false);

        if (status == ZLINK_CAPACITY_EXCEEDED)
            break;
        assert_int_equal(status, ZLINK_OK);
        taken += 64 * 1024;
        assert_true(taken < 64u * MEBIBYTE);
        zlink_reactor_call(reactor, fixture_nothing, NULL);
    }
    assert_int_equal(sem_trywait(&party.drained), -1);
    for (size_t held = 0; held < taken;) {
        ssize_t some = recv(fd, got, MEBIBYTE, 0);

        assert_true(some > 0);
        held += (size_t)some;
    }
    fixture_wait(&party.drained);
    while (party_write(reactor, &party, bytes, 200 * 1024, true) == ZLINK_OK)
        ;
    fixture_wait(&party.closed);
    assert_int_equal(party.status, ZLINK_CAPACITY_EXCEEDED);
    close(fd);
    zlink_reactor_destroy(reactor);
    party_release(&party);
    free(bytes);
    free(got);
}

/* Paused intake fills up to the input limit, then the receive is cancelled and the sender stalls; all arrives after. */
static void test_stream_paused_intake_stalls_the_sender(void **state)
{
    zlink_reactor_t *reactor = fixture_reactor(NULL);
    const int small = 64 * 1024;
    const size_t size = 16u * MEBIBYTE;
    uint8_t *bytes = pattern_make(5, size);
    size_t sent = 0;
    party_t party;
    server_t server = {0};
    int stalls = 0;
    int fd;

    (void)state;
    server.options.limits.input_bytes = 128 * 1024;
    party_init(&party, size);
    server_open(&server, reactor, &party, 1);
    fd = raw_connect(&server, 0);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    fixture_wait(&party.opened);
    zlink_reactor_call(reactor, party_pause_here, &party);
    while (stalls < 3) {
        struct pollfd poller = {.fd = fd, .events = POLLOUT};

        if (poll(&poller, 1, 50) == 0) {
            stalls++;
            continue;
        }
        ssize_t some = send(fd, bytes + sent, 65536 < size - sent ? 65536 : size - sent, MSG_DONTWAIT | MSG_NOSIGNAL);

        assert_true(some > 0);
        sent += (size_t)some;
        assert_true(sent < size); /* it has to stall before */
    }
    assert_int_equal(atomic_load(&party.received), 0);
    zlink_reactor_call(reactor, party_resume_here, &party);
    while (sent < size) {
        ssize_t some = send(fd, bytes + sent, size - sent, MSG_NOSIGNAL);

        assert_true(some > 0);
        sent += (size_t)some;
    }
    fixture_wait_for(&party.received, size);
    pattern_check(5, party.bytes, size);
    close(fd);
    zlink_reactor_destroy(reactor);
    party_release(&party);
    free(bytes);
}

/* Bytes that came before the peer's end are offered although the intake was paused when the end came. */
static void test_stream_bytes_before_the_end_are_offered_after_a_pause(void **state)
{
    zlink_reactor_t *reactor = fixture_reactor(NULL);
    party_t party;
    server_t server = {0};
    int fd;

    (void)state;
    party_init(&party, 64);
    server_open(&server, reactor, &party, 1);
    fd = raw_connect(&server, 0);
    fixture_wait(&party.opened);
    zlink_reactor_call(reactor, party_pause_here, &party);
    assert_int_equal(send(fd, "last words", 10, MSG_NOSIGNAL), 10);
    close(fd);
    fixture_wait(&party.ended);
    assert_int_equal(atomic_load(&party.received), 0);
    zlink_reactor_call(reactor, party_resume_here, &party);
    fixture_wait(&party.closed);
    assert_int_equal(party.status, ZLINK_OK);
    assert_int_equal(atomic_load(&party.received), 10);
    assert_memory_equal(party.bytes, "last words", 10);
    zlink_reactor_destroy(reactor);
    party_release(&party);
}

/* A consumer that takes a little at a time gets everything in order. */
static void test_stream_partial_consumption_keeps_the_rest(void **state)
{
    const size_t size = 100000;
    pair_t pair;

    (void)state;
    pair_open(&pair, NULL, size);
    pair.accepted.take_max = 333;
    pair.dialled.take_max = 1000;
    transfer_both_ways(&pair, size);
    pair_close(&pair);
}

/* A stream that moved a lot and is idle keeps no big buffers. */
static void buffers_here(void *context)
{
    const party_t *party = context;
    const zlink_stream_t *stream = party->stream;

    assert(stream->input.capacity <= ZLINK_BYTE_BUFFER_IDLE_BYTES);
    assert(stream->plain.copied.capacity <= ZLINK_BYTE_BUFFER_IDLE_BYTES);
    assert(stream->sending.copied.capacity <= ZLINK_BYTE_BUFFER_IDLE_BYTES);
}

static void test_stream_idle_gives_big_buffers_back(void **state)
{
    const size_t size = MEBIBYTE;
    uint8_t *bytes = pattern_make(7, size);
    virtual_clock_t clock;
    zlink_reactor_options_t options = {0};
    pair_t pair;

    (void)state;
    virtual_clock_init(&clock);
    options.clock = &clock.clock;
    pair_open(&pair, &options, size);
    assert_int_equal(party_write(pair.reactor, &pair.dialled, bytes, size, true), ZLINK_OK);
    fixture_wait_for(&pair.accepted.received, size);
    virtual_clock_advance(&clock, pair.reactor, 1000);
    virtual_clock_advance(&clock, pair.reactor, 1000);
    zlink_reactor_call(pair.reactor, buffers_here, &pair.accepted);
    zlink_reactor_call(pair.reactor, buffers_here, &pair.dialled);
    pair_close(&pair);
    free(bytes);
}

/* ---- bytes that are sent from where they lie ---- */

#define HELD_BYTES 40000u
#define HELD_COUNT 40u

typedef struct held_write {
    zlink_output_hold_t hold;
    party_t *party;
    zlink_slice_t slices[2];
    bool held;
    zlink_status_t status;
    _Atomic size_t *released;
} held_write_t;

static void held_released(zlink_output_hold_t *hold)
{
    held_write_t *write = ZLINK_CONTAINER_OF(hold, held_write_t, hold);

    memset((void *)(uintptr_t)write->slices[1].data, 0xee, write->slices[1].size); /* whoever still reads, sees it */
    atomic_fetch_add(write->released, 1);
}

static void held_write_here(void *context)
{
    held_write_t *write = context;

    write->hold.release = held_released;
    write->status = zlink_stream_write_held(write->party->stream, write->slices, 2, &write->hold, &write->held);
}

/* Between copied bytes, and however little the kernel takes at a time: everything arrives in order, and each hold is
 * released once. */
static void send_held(const zlink_reactor_options_t *options)
{
    const size_t size = HELD_COUNT * HELD_BYTES;
    uint8_t *bytes = pattern_make(3, size);
    held_write_t *writes = calloc(HELD_COUNT, sizeof(*writes));
    _Atomic size_t released = 0;
    pair_t pair;

    pair_open(&pair, options, size);
    for (size_t i = 0; i < HELD_COUNT; i++) {
        uint8_t *at = bytes + i * HELD_BYTES;
        const size_t head = i * 499;

        writes[i] = (held_write_t){
            .party = &pair.dialled, .released = &released, .slices = {{at, head}, {at + head, HELD_BYTES - head}}};
        zlink_reactor_call(pair.reactor, held_write_here, &writes[i]);
        assert_int_equal(writes[i].status, ZLINK_OK);
        assert_true(writes[i].held);
    }
    fixture_wait_for(&pair.accepted.received, size);
    fixture_wait_for(&released, HELD_COUNT);
    pattern_check(3, pair.accepted.bytes, size);
    pair_close(&pair);
    assert_int_equal(atomic_load(&released), HELD_COUNT);
    free(writes);
    free(bytes);
}

static size_t a_seventh(void *context, size_t size)
{
    (void)context;
    return size / 7 + 1;
}

static void test_stream_sends_held_bytes_in_order(void **state)
{
    const zlink_net_fault_t fault = {.send_size = a_seventh};
    const zlink_reactor_options_t short_sends = {.fault = &fault};

    (void)state;
    send_held(NULL);
    send_held(&short_sends);
}

/* Small bytes are copied; what a peer never read is released with the stream, and counts as outbound until then. */
static void test_stream_releases_held_bytes_at_its_end(void **state)
{
    uint8_t *bytes = pattern_make(4, HELD_BYTES);
    uint8_t *many = malloc(HELD_COUNT * 2 * HELD_BYTES);
    held_write_t *writes = calloc(HELD_COUNT * 2, sizeof(*writes));
    _Atomic size_t released = 0;
    size_t held = 0;
    pair_t pair;

    (void)state;
    pair_open_with(&pair, NULL, (zlink_stream_limits_t){.input_bytes = 1000},
                   (zlink_stream_limits_t){.output_bytes = HELD_COUNT * HELD_BYTES}, MEBIBYTE * 16);
    zlink_reactor_call(pair.reactor, party_pause_here, &pair.accepted);
    writes[0] = (held_write_t){.party = &pair.dialled, .released = &released, .slices = {{bytes, 1}, {bytes + 1, 99}}};
    zlink_reactor_call(pair.reactor, held_write_here, &writes[0]);
    assert_int_equal(writes[0].status, ZLINK_OK);
    assert_false(writes[0].held);
    for (size_t i = 0; writes[0].status == ZLINK_OK; i++) {
        held_write_t *write = &writes[1 + i % (HELD_COUNT * 2 - 1)];
        uint8_t *at = many + (1 + i % (HELD_COUNT * 2 - 1)) * HELD_BYTES;

        fixture_wait_for(&released, held > HELD_COUNT ? held - HELD_COUNT : 0); /* its place is free again */
        *write =
            (held_write_t){.party = &pair.dialled, .released = &released, .slices = {{bytes, 1}, {at, HELD_BYTES}}};
        zlink_reactor_call(pair.reactor, held_write_here, write);
        writes[0].status = write->status;
        held += write->held;
        assert_int_equal(write->held, write->status == ZLINK_OK);
    }
    assert_int_equal(writes[0].status, ZLINK_CAPACITY_EXCEEDED);
    assert_true(atomic_load(&released) < held);
    zlink_reactor_call(pair.reactor, party_abort_here, &pair.dialled);
    fixture_wait_for(&released, held);
    pair_close(&pair);
    assert_int_equal(atomic_load(&released), held);
    free(writes);
    free(many);
    free(bytes);
}

/* Writes are refused before `opened` and after the close. */
static void test_stream_write_outside_of_open_is_refused(void **state)
{
    pair_t pair;

    (void)state;
    pair_open(&pair, NULL, 16);
    pair.dialled.close_on_first_byte = true;
    assert_int_equal(party_write(pair.reactor, &pair.accepted, "x", 1, false), ZLINK_OK);
    fixture_wait(&pair.dialled.closed);
    fixture_wait(&pair.accepted.closed);
    assert_int_equal(party_write(pair.reactor, &pair.accepted, "x", 1, false), ZLINK_UNAVAILABLE);
    pair_close(&pair);
}

/* Destroying the reactor closes what is open in order and tells every stream. */
static void test_stream_reactor_destroy_closes_streams(void **state)
{
    pair_t pair;

    (void)state;
    pair_open(&pair, NULL, 16);
    zlink_reactor_destroy(pair.reactor);
    assert_int_equal(sem_trywait(&pair.accepted.closed), 0);
    assert_int_equal(sem_trywait(&pair.dialled.closed), 0);
    assert_int_equal(pair.accepted.status, ZLINK_SHUTTING_DOWN);
    party_release(&pair.accepted);
    party_release(&pair.dialled);
}

/* Each of the next allocations fails once while a pair connects and talks: whatever happens, every stream that was
 * shown is closed exactly once and nothing leaks. */
static void test_stream_survives_failing_allocations(void **state)
{
    (void)state;
    zlink_log_set_level(ZLINK_LOG_OFF);
    for (int64_t n = 0; n < 12; n++) {
        zlink_reactor_t *reactor = fixture_reactor(NULL);
        party_t accepted;
        party_t dialled;
        server_t server = {0};
        client_t client = {0};

        party_init(&accepted, 0);
        party_init(&dialled, 0);
        server_open(&server, reactor, &accepted, 1);
        client.reactor = reactor;
        client.party = &dialled;
        client.options.address = server.address;
        dialled.close_on_first_byte = true;
        accepted.echo = true;
        zlink_memory_fail_after(n);
        zlink_reactor_call(reactor, client_open_here, &client);
        for (int i = 0; i < 20; i++)
            (void)party_write(reactor, &dialled, "hello", 5, false);
        zlink_reactor_destroy(reactor);
        zlink_memory_fail_after(-1);
        if (atomic_load(&client.attempts) > 0)
            fixture_wait(&dialled.closed);
        if (atomic_load(&server.accepted) > 0)
            fixture_wait(&accepted.closed);
        party_release(&accepted);
        party_release(&dialled);
    }
    zlink_log_set_level(ZLINK_LOG_INFO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream_carries_bytes_and_closes_in_order),
        cmocka_unit_test(test_h1_h2_starved_receive_is_rearmed_after_refill),
        cmocka_unit_test(test_h20_tiny_completion_queue_loses_nothing),
        cmocka_unit_test(test_h3_flooding_stream_does_not_starve_another),
        cmocka_unit_test(test_h8_h13_peer_sees_the_end),
        cmocka_unit_test(test_h9_reused_descriptor_gets_no_stale_completion),
        cmocka_unit_test(test_h17_h18_short_sends_resume_at_the_offset),
        cmocka_unit_test(test_h17_tiny_socket_buffers_keep_the_order),
        cmocka_unit_test(test_h35_final_bytes_arrive_before_the_close),
        cmocka_unit_test(test_stream_close_is_bounded_by_the_linger_time),
        cmocka_unit_test(test_h42_event_that_ends_other_streams_of_the_batch),
        cmocka_unit_test(test_stream_output_limits),
        cmocka_unit_test(test_stream_paused_intake_stalls_the_sender),
        cmocka_unit_test(test_stream_bytes_before_the_end_are_offered_after_a_pause),
        cmocka_unit_test(test_stream_partial_consumption_keeps_the_rest),
        cmocka_unit_test(test_stream_idle_gives_big_buffers_back),
        cmocka_unit_test(test_stream_sends_held_bytes_in_order),
        cmocka_unit_test(test_stream_releases_held_bytes_at_its_end),
        cmocka_unit_test(test_stream_write_outside_of_open_is_refused),
        cmocka_unit_test(test_stream_reactor_destroy_closes_streams),
        cmocka_unit_test(test_stream_survives_failing_allocations),
    };

    return zlink_test_main(tests);
}
