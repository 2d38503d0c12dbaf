/*
 * floor.c: the raw floor: one thread, one ring, our frames (a REQUEST prefix and its payload) sent back as REPLY in
 * batches. No names, no queues, no handlers: what any design on this machine stays below.
 *
 *   bench_floor serve --port P --tls none|chacha|aes128 --certs DIR --name NAME [--mode one-way]
 *   bench_floor ask --port P … --size S --connections C --outstanding O --seconds T --server-pid PID --param TEXT
 *
 * `size` is the payload; a frame is 32 bytes larger.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <liburing.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include "floor_tls.h"
#include "proto/frame.h"
#include "tests/bench/peers/common/pb.h"

#define RECEIVE_BYTES   (256 * 1024)
#define CONNECTIONS_MAX 4096
#define KIND_OFFSET     3
#define BODY_OFFSET     4
#define ROUTE_OFFSET    16
#define LAST_NOTE       UINT64_MAX

typedef struct buffer {
    uint8_t *bytes;
    size_t used, room;
} buffer_t;

typedef struct connection {
    int fd;
    uint64_t id;
    bool receiving, sending, dead;
    uint8_t *received;
    size_t received_used, received_bytes;
    buffer_t in;     /* plain text that is not parsed yet */
    buffer_t out;    /* plain text to be sent */
    buffer_t raw[2]; /* to the socket: one is filled, the other is on its way */
    int filling, on_way;
    size_t sent;
    SSL *ssl;
    uint64_t *asked_ns;
} connection_t;

static struct options {
    bool server, one_way;
    int port, connections, outstanding;
    size_t size;
    double seconds;
    const char *tls, *certificates, *name, *workload, *param;
    pid_t server_pid;
} options = {false, false, 7100, 1, 1, 64, 1.0, "none", ".", "floor", "rr", "", 0};

enum { OPERATION_ACCEPT = 1, OPERATION_RECEIVE, OPERATION_SEND };

static struct io_uring ring;
static floor_tls_t tls;
static bool use_tls;
static connection_t *connections[CONNECTIONS_MAX];
static uint64_t connection_count;

/* The client. */
static uint8_t *frame;
static size_t frame_bytes;
static uint64_t answers, notes, ends_ns, ended_ns;
static int in_flight;
static bool stopping, started;
static lat_t latencies;

/* ---- bytes ---- */

static void append(buffer_t *buffer, const void *bytes, size_t size)
{
    if (buffer->used + size > buffer->room) {
        size_t room = buffer->room ? buffer->room : 65536;
        while (room < buffer->used + size)
            room *= 2;
        buffer->bytes = realloc(buffer->bytes, room);
        if (!buffer->bytes)
            floor_die("out of memory");
        buffer->room = room;
    }
    if (bytes)
        memcpy(buffer->bytes + buffer->used, bytes, size);
    buffer->used += size;
}

static int tls_send(void *context, const unsigned char *bytes, size_t size)
{
    connection_t *connection = context;
    append(&connection->raw[connection->filling], bytes, size);
    return (int)size;
}

static size_t tls_receive(void *context, unsigned char *bytes, size_t size)
{
    connection_t *connection = context;
    size_t left = connection->received_bytes - connection->received_used;
    if (size > left)
        size = left;
    memcpy(bytes, connection->received + connection->received_used, size);
    connection->received_used += size;
    return size;
}

/* All that was written since the last time: as few records as possible. */
static void seal(connection_t *connection)
{
    if (!use_tls) {
        append(&connection->raw[connection->filling], connection->out.bytes, connection->out.used);
    } else {
        for (size_t done = 0; done < connection->out.used;) {
            size_t size = connection->out.used - done;
            int wrote = SSL_write(connection->ssl, connection->out.bytes + done, size > 16384 ? 16384 : (int)size);
            if (wrote <= 0)
                floor_die("TLS write: %d", SSL_get_error(connection->ssl, wrote));
            done += (size_t)wrote;
        }
    }
    connection->out.used = 0;
}

/* ---- the ring ---- */

static struct io_uring_sqe *entry(void)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
    if (!sqe) {
        io_uring_submit(&ring);
        sqe = io_uring_get_sqe(&ring);
    }
    return sqe;
}

static void start_accept(int listener)
{
    struct io_uring_sqe *sqe = entry();
    io_uring_prep_accept(sqe, listener, NULL, NULL, 0);
    sqe->user_data = (uint64_t)listener << 8 | OPERATION_ACCEPT;
}

static void start_receive(connection_t *connection)
{
    if (connection->receiving || connection->dead)
        return;
    struct io_uring_sqe *sqe = entry();
    io_uring_prep_recv(sqe, connection->fd, connection->received, RECEIVE_BYTES, 0);
    sqe->user_data = connection->id << 8 | OPERATION_RECEIVE;
    connection->receiving = true;
}

static void send_rest(connection_t *connection)
{
    const buffer_t *buffer = &connection->raw[connection->on_way];
    struct io_uring_sqe *sqe = entry();
    io_uring_prep_send(sqe, connection->fd, buffer->bytes + connection->sent, buffer->used - connection->sent,
                       MSG_NOSIGNAL | MSG_WAITALL);
    sqe->user_data = connection->id << 8 | OPERATION_SEND;
    connection->sending = true;
}

static void start_send(connection_t *connection)
{
    if (connection->sending || connection->dead || connection->raw[connection->filling].used == 0)
        return;
    connection->on_way = connection->filling;
    connection->filling ^= 1;
    connection->raw[connection->filling].used = 0;
    connection->sent = 0;
    send_rest(connection);
}

static connection_t *make_connection(int fd)
{
    const int on = 1;
    connection_t *connection = calloc(1, sizeof(*connection));
    if (!connection || connection_count == CONNECTIONS_MAX)
        floor_die("no room for a connection");
    connection->fd = fd;
    connection->id = connection_count;
    connection->received = malloc(RECEIVE_BYTES);
    connection->asked_ns = calloc((size_t)options.outstanding, sizeof(uint64_t));
    if (!connection->received || !connection->asked_ns)
        floor_die("out of memory");
    connections[connection_count++] = connection;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (use_tls) {
        connection->ssl = floor_tls_session(&tls, tls_send, tls_receive, connection);
        if (options.server)
            SSL_set_accept_state(connection->ssl);
        else
            SSL_set_connect_state(connection->ssl);
    }
    return connection;
}

/* ---- frames ---- */

static uint32_t read_u32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void ask(connection_t *connection, uint64_t slot, uint64_t now)
{
    uint64_t route = slot + 1;
    memcpy(frame + ROUTE_OFFSET, &route, sizeof(route)); /* the answer repeats it: its order does not matter */
    connection->asked_ns[slot] = now;
    append(&connection->out, frame, frame_bytes);
    in_flight++;
}

/* Notes: 64 KiB are queued whenever nothing is on its way; the last one is answered. */
static void send_notes(connection_t *connection)
{
    uint64_t route = 1;
    if (connection->sending || stopping)
        return;
    if (now_ns() >= ends_ns) {
        route = LAST_NOTE;
        stopping = true;
    }
    memcpy(frame + ROUTE_OFFSET, &route, sizeof(route));
    size_t queued = 0;
    do {
        append(&connection->out, frame, frame_bytes);
        queued += frame_bytes;
        notes++;
    } while (!stopping && queued < 65536);
    seal(connection);
    start_send(connection);
}

static void serve_frame(connection_t *connection, uint8_t *bytes, size_t size)
{
    uint64_t route;
    memcpy(&route, bytes + ROUTE_OFFSET, sizeof(route));
    if (options.one_way && route != LAST_NOTE)
        return;
    bytes[KIND_OFFSET] = ZLINK_FRAME_REPLY;
    append(&connection->out, bytes, size);
}

static void take_answer(connection_t *connection, const uint8_t *bytes, uint64_t *now)
{
    uint64_t route;
    memcpy(&route, bytes + ROUTE_OFFSET, sizeof(route));
    if (options.one_way) {
        ended_ns = now_ns();
        return;
    }
    if (*now == 0 || options.outstanding <= 4)
        *now = now_ns();
    in_flight--;
    answers++;
    lat_add(&latencies, *now - connection->asked_ns[route - 1]);
    if (*now < ends_ns)
        ask(connection, route - 1, *now);
}

static void take_frames(connection_t *connection)
{
    buffer_t *in = &connection->in;
    size_t done = 0;
    uint64_t now = 0;
    while (in->used - done >= ZLINK_FRAME_PREFIX_BYTES) {
        uint8_t *bytes = in->bytes + done;
        size_t size = ZLINK_FRAME_PREFIX_BYTES + read_u32(bytes + BODY_OFFSET);
        if (bytes[0] != 0x5a || bytes[1] != 0x4c)
            floor_die("no frame");
        if (in->used - done < size)
            break;
        if (options.server)
            serve_frame(connection, bytes, size);
        else
            take_answer(connection, bytes, &now);
        done += size;
    }
    if (done > 0) {
        memmove(in->bytes, in->bytes + done, in->used - done);
        in->used -= done;
    }
}

static bool is_open(const connection_t *connection)
{
    return !use_tls || SSL_is_init_finished(connection->ssl);
}

static void shake_hands(connection_t *connection)
{
    int result = SSL_do_handshake(connection->ssl);
    int error = SSL_get_error(connection->ssl, result);
    if (result != 1 && error != SSL_ERROR_WANT_READ)
        floor_die("handshake: %d", error);
}

static void decrypt(connection_t *connection)
{
    buffer_t *in = &connection->in;
    if (!is_open(connection)) {
        shake_hands(connection);
    }
    while (is_open(connection)) {
        append(in, NULL, 16384);
        in->used -= 16384;
        int got = SSL_read(connection->ssl, in->bytes + in->used, 16384);
        int error = got > 0 ? SSL_ERROR_NONE : SSL_get_error(connection->ssl, got);
        if (error == SSL_ERROR_WANT_READ)
            return;
        if (error == SSL_ERROR_ZERO_RETURN) {
            connection->dead = true;
            return;
        }
        if (error != SSL_ERROR_NONE)
            floor_die("TLS read: %d", error);
        in->used += (size_t)got;
    }
}

static void received(connection_t *connection, int result)
{
    connection->receiving = false;
    if (result <= 0) {
        connection->dead = true;
        close(connection->fd);
        return;
    }
    connection->received_used = 0;
    connection->received_bytes = (size_t)result;
    if (use_tls)
        decrypt(connection);
    else
        append(&connection->in, connection->received, connection->received_bytes);
    take_frames(connection);
    seal(connection);
    start_send(connection);
    start_receive(connection);
}

static void was_sent(connection_t *connection, int result)
{
    connection->sending = false;
    if (result < 0) {
        connection->dead = true;
        return;
    }
    connection->sent += (size_t)result;
    if (connection->sent < connection->raw[connection->on_way].used) {
        send_rest(connection);
        return;
    }
    connection->raw[connection->on_way].used = 0;
    start_send(connection);
    if (!options.server && options.one_way && started && is_open(connection))
        send_notes(connection);
}

static void step(void)
{
    static struct {
        uint64_t data;
        int result;
    } events[4096];
    struct io_uring_cqe *cqe;
    unsigned head, count = 0;
    int result = io_uring_submit_and_wait(&ring, 1);
    if (result < 0 && result != -EINTR)
        floor_die("io_uring: %s", strerror(-result));
    io_uring_for_each_cqe(&ring, head, cqe)
    {
        events[count].data = cqe->user_data;
        events[count++].result = cqe->res;
        if (count == 4096)
            break;
    }
    io_uring_cq_advance(&ring, count);
    for (unsigned i = 0; i < count; i++) {
        uint64_t id = events[i].data >> 8;
        int operation = (int)(events[i].data & 0xff);
        if (operation == OPERATION_ACCEPT) {
            if (events[i].result < 0)
                floor_die("accept: %s", strerror(-events[i].result));
            start_receive(make_connection(events[i].result));
            start_accept((int)id);
        } else if (operation == OPERATION_RECEIVE) {
            received(connections[id], events[i].result);
        } else {
            was_sent(connections[id], events[i].result);
        }
    }
}

/* ---- the two sides ---- */

static void serve(const struct sockaddr_in *address)
{
    const int on = 1;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(listener, (const struct sockaddr *)address, sizeof(*address)) || listen(listener, 1024))
        floor_die("port %d: %s", options.port, strerror(errno));
    start_accept(listener);
    for (;;)
        step();
}

static void connect_all(const struct sockaddr_in *address)
{
    for (int i = 0; i < options.connections; i++) {
        int fd, tries = 0;
        while ((fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0 &&
               connect(fd, (const struct sockaddr *)address, sizeof(*address))) {
            close(fd);
            usleep(20000);
            if (++tries > 200)
                floor_die("port %d: %s", options.port, strerror(errno));
        }
        connection_t *connection = make_connection(fd);
        if (use_tls) {
            shake_hands(connection);
        }
        start_send(connection);
        start_receive(connection);
        while (!is_open(connection))
            step();
    }
}

static void run_requests(void)
{
    for (uint64_t i = 0; i < connection_count; i++) {
        uint64_t now = now_ns();
        for (int slot = 0; slot < options.outstanding; slot++)
            ask(connections[i], (uint64_t)slot, now);
        seal(connections[i]);
        start_send(connections[i]);
    }
    while (in_flight > 0)
        step();
    ended_ns = now_ns();
}

static void measure(double seconds, bool counts)
{
    latencies.n = 0;
    answers = 0;
    pb_begin();
    double cpu = cpu_self(), server_cpu = cpu_pid(options.server_pid);
    uint64_t began_ns = now_ns();
    ends_ns = began_ns + (uint64_t)(seconds * 1e9);
    started = true;
    if (options.one_way) {
        send_notes(connections[0]);
        while (ended_ns == 0)
            step();
    } else {
        run_requests();
    }
    double took = (double)(ended_ns - began_ns) * 1e-9;
    cpu = cpu_self() - cpu;
    server_cpu = cpu_pid(options.server_pid) - server_cpu;
    if (options.one_way)
        report_ow("floor", options.workload, options.param, notes, options.size, took, cpu, server_cpu);
    else if (counts)
        report_rr("floor", options.workload, options.param, answers, took, cpu, server_cpu, &latencies);
}

static void make_frame(void)
{
    zlink_frame_prefix_t prefix = {
        .body_bytes = (uint32_t)options.size,
        .kind = ZLINK_FRAME_REQUEST,
        .reply_route_id = 1,
        .deadline_ms = 30000,
        .target_id = 1,
        .packet_id = 1,
    };
    frame_bytes = ZLINK_FRAME_PREFIX_BYTES + options.size;
    frame = calloc(1, frame_bytes);
    if (!frame)
        floor_die("out of memory");
    zlink_frame_prefix_encode(&prefix, frame);
}

static void read_options(int count, char **arguments)
{
    options.server = count > 1 && strcmp(arguments[1], "serve") == 0;
    for (int i = 2; i + 1 < count; i += 2) {
        const char *key = arguments[i], *value = arguments[i + 1];
        if (strcmp(key, "--port") == 0)
            options.port = atoi(value);
        else if (strcmp(key, "--tls") == 0)
            options.tls = value;
        else if (strcmp(key, "--certs") == 0)
            options.certificates = value;
        else if (strcmp(key, "--name") == 0)
            options.name = value;
        else if (strcmp(key, "--size") == 0)
            options.size = (size_t)atoi(value);
        else if (strcmp(key, "--connections") == 0)
            options.connections = atoi(value);
        else if (strcmp(key, "--outstanding") == 0)
            options.outstanding = atoi(value);
        else if (strcmp(key, "--seconds") == 0)
            options.seconds = atof(value);
        else if (strcmp(key, "--mode") == 0)
            options.one_way = strcmp(value, "one-way") == 0;
        else if (strcmp(key, "--server-pid") == 0)
            options.server_pid = pb_spid[0] = atoi(value);
        else if (strcmp(key, "--workload") == 0)
            options.workload = value;
        else if (strcmp(key, "--param") == 0)
            options.param = value;
        else
            floor_die("unknown option %s", key);
    }
}

int main(int count, char **arguments)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct io_uring_params params = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                                              IORING_SETUP_COOP_TASKRUN};

    read_options(count, arguments);
    alarm(120);
    signal(SIGPIPE, SIG_IGN);
    use_tls = strcmp(options.tls, "none") != 0;
    if (use_tls)
        floor_tls_init(&tls, options.server, options.certificates, options.name, options.tls);
    if (io_uring_queue_init_params(1024, &ring, &params))
        floor_die("no io_uring");
    address.sin_port = htons((uint16_t)options.port);
    if (options.server)
        serve(&address);
    make_frame();
    lat_init(&latencies, 20000000);
    connect_all(&address);
    if (!options.one_way)
        measure(0.2, false);
    measure(options.seconds, true);
    return 0;
}
