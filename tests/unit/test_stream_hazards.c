/* What kernels and rings were seen to do wrong, provoked one by one: the half of the sockets. */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net_fixture.h"

#include "base/container_of.h"
#include "net/stream_internal.h"

/* A raw socket of the test itself, connected to that port of this machine. */
static int raw_connect_port(uint16_t port, int receive_buffer)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    if (receive_buffer > 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static int raw_connect(const server_t *server, int receive_buffer)
{
    return raw_connect_port(zlink_listener_port(server->listener), receive_buffer);
}

/* ---- accept ---- */

typedef struct wrong_accept {
    int named;             /* what the kernel names instead of the next accepted socket … */
    _Atomic size_t wanted; /* … while this is 1 */
} wrong_accept_t;

static void name_a_wrong_descriptor(void *context, int32_t *result, uint32_t *flags)
{
    wrong_accept_t *wrong = context;

    /* Only a multishot accept goes on and names no buffer. */
    if (*result < 0 || *flags != IORING_CQE_F_MORE || atomic_load(&wrong->wanted) == 0)
        return;
    close(*result);
    *result = wrong->named;
    atomic_store(&wrong->wanted, 0);
}

typedef struct connection_fd {
    party_t *party;
    int fd;
} connection_fd_t;

static void connection_fd_here(void *context)
{
    connection_fd_t *connection = context;

    connection->fd = connection->party->stream->fd;
}

/* A connection of the test to `server`, accepted as `party`, that has carried a byte. */
static int connect_and_send(const server_t *server, party_t *party)
{
    int fd = raw_connect(server, 0);

    fixture_wait(&party->opened);
    assert_int_equal(send(fd, "x", 1, MSG_NOSIGNAL), 1);
    fixture_wait_for(&party->received, 1);
    return fd;
}

/* The kernel names `named` (-1: a connection that is open): it is left alone, the listener goes on with one accept at a
 * time, and later connections are accepted once each. */
static void accept_after_wrong_descriptor(int named)
{
    enum { GOOD = 5 };
    wrong_accept_t wrong = {.named = named};
    const zlink_net_fault_t fault = {.completion = name_a_wrong_descriptor, .context = &wrong};
    const zlink_reactor_options_t options = {.fault = &fault};
    zlink_reactor_t *reactor = fixture_reactor(&options);
    party_t parties[GOOD];
    connection_fd_t first = {.party = &parties[0]};
    server_t server = {0};
    int fds[GOOD + 1];
    char byte;

    assert_true((zlink_reactor_features(reactor) & ZLINK_RING_MULTISHOT_ACCEPT) != 0);
    for (size_t i = 0; i < GOOD; i++)
        party_init(&parties[i], 8);
    server_open(&server, reactor, parties, GOOD);
    fds[0] = connect_and_send(&server, &parties[0]);
    zlink_reactor_call(reactor, connection_fd_here, &first);
    if (named < 0)
        wrong.named = first.fd;
    atomic_store(&wrong.wanted, 1);
    fds[GOOD] = raw_connect(&server, 0);
    assert_int_equal(recv(fds[GOOD], &byte, 1, 0), 0); /* the test has closed it */
    for (size_t i = 1; i < GOOD; i++)
        fds[i] = connect_and_send(&server, &parties[i]);
    assert_int_equal(zlink_reactor_features(reactor) & ZLINK_RING_MULTISHOT_ACCEPT, 0);
    assert_int_equal(atomic_load(&server.accepted), GOOD);
    assert_int_equal(send(fds[0], "yz", 2, MSG_NOSIGNAL), 2);
    fixture_wait_for(&parties[0].received, 3);
    assert_memory_equal(parties[0].bytes, "xyz", 3);
    for (size_t i = 0; i <= GOOD; i++)
        close(fds[i]);
    zlink_reactor_destroy(reactor);
    for (size_t i = 0; i < GOOD; i++)
        party_release(&parties[i]);
}

/* H7: an accept names a descriptor that does not exist, that is something else of ours, or another's connection. */
static void test_h7_a_wrong_descriptor_is_left_alone(void **state)
{
    const int something = eventfd(0, EFD_CLOEXEC);

    (void)state;
    zlink_log_set_level(ZLINK_LOG_OFF);
    assert_true(something >= 0);
    accept_after_wrong_descriptor(something);
    assert_true(fcntl(something, F_GETFD) >= 0);
    close(something);
    accept_after_wrong_descriptor(1 << 24);
    accept_after_wrong_descriptor(-1);
    zlink_log_set_level(ZLINK_LOG_INFO);
}

/* ---- receive ---- */

static void take_the_buffer_flag_away(void *context, int32_t *result, uint32_t *flags)
{
    (void)context;
    if (*result == 3 && (*flags & IORING_CQE_F_BUFFER) != 0)
        *flags &= IORING_CQE_F_MORE;
}

static void turn_bytes_into_an_error(void *context, int32_t *result, uint32_t *flags)
{
    (void)context;
    if (*result == 3 && (*flags & IORING_CQE_F_BUFFER) != 0)
        *result = -ECONNRESET;
}

/* `count` connections that send three bytes end with `status` and are offered none; one more carries many. */
static void three_bytes_go_wrong(const zlink_net_fault_t *fault, size_t count, zlink_status_t status)
{
    enum { COUNT_MAX = 16, SIZE = 50000 };
    const zlink_reactor_options_t options = {.fault = fault, .buffer_count = 4, .buffer_bytes = 64};
    zlink_reactor_t *reactor = fixture_reactor(&options);
    uint8_t *bytes = pattern_make(8, SIZE);
    party_t parties[COUNT_MAX + 1];
    server_t server = {0};
    int fds[COUNT_MAX + 1];

    assert(count <= COUNT_MAX);
    for (size_t i = 0; i <= count; i++)
        party_init(&parties[i], SIZE);
    server_open(&server, reactor, parties, count + 1);
    for (size_t i = 0; i <= count; i++) {
        fds[i] = raw_connect(&server, 0);
        fixture_wait(&parties[i].opened);
    }
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(send(fds[i], "abc", 3, MSG_NOSIGNAL), 3);
        fixture_wait(&parties[i].closed);
        assert_int_equal(parties[i].status, status);
        assert_int_equal(atomic_load(&parties[i].received), 0);
    }
    assert_int_equal(send(fds[count], bytes, SIZE, MSG_NOSIGNAL), SIZE);
    fixture_wait_for(&parties[count].received, SIZE);
    pattern_check(8, parties[count].bytes, SIZE);
    for (size_t i = 0; i <= count; i++)
        close(fds[i]);
    zlink_reactor_destroy(reactor);
    for (size_t i = 0; i <= count; i++)
        party_release(&parties[i]);
    free(bytes);
}

/* H14: bytes were received and no buffer is named: the stream ends, nothing is read from a buffer that was not given,
 * and the others go on. */
static void test_h14_bytes_without_a_buffer_end_the_stream(void **state)
{
    const zlink_net_fault_t fault = {.completion = take_the_buffer_flag_away};

    (void)state;
    three_bytes_go_wrong(&fault, 1, ZLINK_INTERNAL_FAILURE);
}

/* H15: a completion that is an error names a buffer all the same: it comes back. Three times as many errors as there
 * are buffers leave enough for who comes after. */
static void test_h15_a_buffer_comes_back_from_an_error_too(void **state)
{
    const zlink_net_fault_t fault = {.completion = turn_bytes_into_an_error};

    (void)state;
    three_bytes_go_wrong(&fault, 12, ZLINK_UNAVAILABLE);
}

/* ---- the end ---- */

typedef struct duplicate {
    party_t *party;
    int fd;
} duplicate_t;

static void duplicate_here(void *context)
{
    duplicate_t *duplicate = context;

    duplicate->fd = fcntl(duplicate->party->stream->fd, F_DUPFD_CLOEXEC, 0);
}

/* H10: somebody else still holds the socket, as a child would: the peer sees the end when the stream closes, not when
 * the last holder lets go, nor when the time to close in order is over: that never comes here. */
static void test_h10_the_peer_sees_the_end_though_another_holds_the_socket(void **state)
{
    virtual_clock_t clock;
    const zlink_reactor_options_t options = {.clock = &clock.clock};
    zlink_reactor_t *reactor;

    (void)state;
    virtual_clock_init(&clock);
    reactor = fixture_reactor(&options);
    for (int aborted = 0; aborted < 2; aborted++) {
        party_t party;
        server_t server = {0};
        duplicate_t duplicate = {.party = &party};
        char byte;
        int fd;

        party_init(&party, 8);
        server_open(&server, reactor, &party, 1);
        fd = raw_connect(&server, 0);
        fixture_wait(&party.opened);
        zlink_reactor_call(reactor, duplicate_here, &duplicate);
        assert_true(duplicate.fd >= 0);
        zlink_reactor_call(reactor, aborted ? party_abort_here : party_close_here, &party);
        assert_int_equal(recv(fd, &byte, 1, 0), 0);
        if (!aborted)
            close(fd); /* who closes in order waits for the other's end */
        fixture_wait(&party.closed);
        if (aborted)
            close(fd);
        close(duplicate.fd);
        server_close(&server);
        zlink_reactor_call(reactor, fixture_nothing, NULL);
        party_release(&party);
    }
    zlink_reactor_destroy(reactor);
}

#define HELD_BYTES (2u * 1024u * 1024u)

/* Bytes that the kernel sends from where they lie, and when it was told that it may no longer look at them. */
typedef struct held_write {
    zlink_output_hold_t hold;
    party_t *party;
    zlink_stream_t *stream;
    uint8_t *bytes;
    zlink_status_t status;
    bool held;
    bool under_way;
    _Atomic size_t released;
    uint32_t in_flight; /* when they were released */
} held_write_t;

static void held_released(zlink_output_hold_t *hold)
{
    held_write_t *write = ZLINK_CONTAINER_OF(hold, held_write_t, hold);

    write->in_flight = write->stream->slot.in_flight;
    memset(write->bytes, 0xee, HELD_BYTES); /* who still reads, sees it */
    atomic_store(&write->released, 1);
}

static void held_write_here(void *context)
{
    held_write_t *write = context;
    const zlink_slice_t slice = {write->bytes, HELD_BYTES};
    const int small = 4096;

    write->stream = write->party->stream;
    write->hold.release = held_released;
    assert(setsockopt(write->stream->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)) == 0);
    write->status = zlink_stream_write_held(write->stream, &slice, 1, &write->hold, &write->held);
}

static void under_way_here(void *context)
{
    held_write_t *write = context;

    write->under_way = write->stream->send_armed && write->stream->slot.in_flight >= 2; /* and the receive */
}

/* Until the kernel is in the middle of these bytes: the peer reads nothing, so it stays there. */
static void held_write_start(held_write_t *write, zlink_reactor_t *reactor, party_t *party)
{
    *write = (held_write_t){.party = party, .bytes = pattern_make(21, HELD_BYTES)};
    zlink_reactor_call(reactor, held_write_here, write);
    assert_int_equal(write->status, ZLINK_OK);
    assert_true(write->held);
    while (!write->under_way)
        zlink_reactor_call(reactor, under_way_here, write);
}

/* H36: a stream is aborted in the middle of a send: the bytes belong to the kernel until its last completion, whatever
 * became of the stream, and the peer gets nothing but what was written. */
static void test_h36_bytes_stay_until_the_kernel_has_let_go(void **state)
{
    zlink_reactor_t *reactor = fixture_reactor(NULL);
    uint8_t *got = malloc(HELD_BYTES);
    size_t size = 0;
    ssize_t some;
    held_write_t write;
    party_t party;
    server_t server = {0};
    int fd;

    (void)state;
    party_init(&party, 0);
    server_open(&server, reactor, &party, 1);
    fd = raw_connect(&server, 4096);
    fixture_wait(&party.opened);
    held_write_start(&write, reactor, &party);
    assert_int_equal(atomic_load(&write.released), 0);
    zlink_reactor_call(reactor, party_abort_here, &party);
    fixture_wait_for(&write.released, 1);
    assert_int_equal(write.in_flight, 0);
    while ((some = recv(fd, got + size, HELD_BYTES - size, 0)) > 0)
        size += (size_t)some;
    assert_true(size < HELD_BYTES);
    pattern_check(21, got, size);
    fixture_wait(&party.closed);
    close(fd);
    zlink_reactor_destroy(reactor);
    party_release(&party);
    free(write.bytes);
    free(got);
}

static size_t count_entries(const char *path)
{
    DIR *directory = opendir(path);
    size_t count = 0;

    assert_non_null(directory);
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

/* A listening socket whose line is full: who dials it now is neither taken nor refused. */
static int full_line(int *fill, char address[32])
{
    struct sockaddr_in local = {.sin_family = AF_INET};
    socklen_t size = sizeof(local);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    inet_pton(AF_INET, "127.0.0.1", &local.sin_addr);
    assert_int_equal(bind(fd, (struct sockaddr *)&local, sizeof(local)), 0);
    assert_int_equal(listen(fd, 0), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&local, &size), 0);
    *fill = raw_connect_port(ntohs(local.sin_port), 0); /* the line has room for one */
    snprintf(address, 32, "127.0.0.1:%u", ntohs(local.sin_port));
    return fd;
}

/* H34: the reactor's thread outlives what it asked the kernel for: an accept, receives, a send that is stuck and a
 * connect that is not answered are all over, told and given back when destroy returns. */
static void test_h34_the_thread_outlives_its_operations(void **state)
{
    const size_t descriptors = count_entries("/proc/self/fd");
    const size_t threads = count_entries("/proc/self/task");
    zlink_reactor_t *reactor = fixture_reactor(NULL);
    held_write_t write;
    party_t stuck;
    party_t dialled;
    server_t server = {0};
    client_t client = {0};
    char address[32];
    int fill;
    int line;
    int fd;

    (void)state;
    zlink_log_set_level(ZLINK_LOG_OFF);
    party_init(&stuck, 0);
    party_init(&dialled, 0);
    line = full_line(&fill, address);
    server_open(&server, reactor, &stuck, 1);
    fd = raw_connect(&server, 4096);
    fixture_wait(&stuck.opened);
    held_write_start(&write, reactor, &stuck);
    client_open(&client, reactor, address, &dialled);
    assert_int_equal(sem_trywait(&dialled.opened), -1);
    zlink_reactor_call(reactor, party_abort_here, &stuck);
    zlink_reactor_destroy(reactor);
    assert_int_equal(sem_trywait(&stuck.closed), 0);
    assert_int_equal(sem_trywait(&dialled.closed), 0);
    assert_int_equal(atomic_load(&write.released), 1);
    assert_int_equal(write.in_flight, 0);
    assert_true(count_entries("/proc/self/task") <= threads);
    close(fd);
    close(fill);
    close(line);
    assert_int_equal(count_entries("/proc/self/fd"), descriptors);
    party_release(&stuck);
    party_release(&dialled);
    free(write.bytes);
    zlink_log_set_level(ZLINK_LOG_INFO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_h7_a_wrong_descriptor_is_left_alone),
        cmocka_unit_test(test_h14_bytes_without_a_buffer_end_the_stream),
        cmocka_unit_test(test_h15_a_buffer_comes_back_from_an_error_too),
        cmocka_unit_test(test_h10_the_peer_sees_the_end_though_another_holds_the_socket),
        cmocka_unit_test(test_h36_bytes_stay_until_the_kernel_has_let_go),
        cmocka_unit_test(test_h34_the_thread_outlives_its_operations),
    };

    return zlink_test_main(tests);
}
