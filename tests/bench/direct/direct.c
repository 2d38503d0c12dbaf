/*
 * direct.c: requests over net/ alone: the node's reactor, streams, TLS and frames, without names, executors, handlers
 * or protobuf. A REQUEST comes back as a REPLY with its payload. Everything after the start is on the reactor thread.
 *
 *   bench_direct serve --certs DIR --name NAME            prints "port N"
 *   bench_direct ask --port P --certs DIR --name NAME --size S --outstanding O --seconds T --server-pid PID
 *
 * `certs` holds certificates of a mesh (zlinkctl certs).
 */
#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

#include "net/dialer.h"
#include "net/frame_connection.h"
#include "net/listener.h"
#include "tests/bench/peers/common/pb.h"

#define OUTSTANDING_MAX 4096u
#define WARM_UP_NS      UINT64_C(200000000)
#define OUTPUT_BYTES    (64u << 20) /* nothing of this program's is ever refused for want of room */

static struct options {
    bool server;
    int port;
    const char *certificates, *name;
    uint32_t size, outstanding;
    double seconds;
    pid_t server_pid;
} options = {.certificates = ".", .name = "a", .size = 1024, .outstanding = 1, .seconds = 1.0};

static zlink_reactor_t *reactor;
static zlink_tls_context_t *tls;

/* The client. */
static zlink_frame_connection_t *connection;
static uint8_t payload[65536];
static uint64_t asked_ns[OUTSTANDING_MAX];
static uint64_t opens_ns, closes_ns, opened_ns, answers;
static double opened_cpu, opened_server_cpu;
static lat_t latencies;

static void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
static void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("bench_direct: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    _exit(1);
}

static void connection_closed(zlink_frame_connection_t *which, zlink_status_t status, const char *reason)
{
    (void)which, (void)status;
    if (!options.server && answers == 0)
        die("the connection ended: %s", reason);
}

/* ---- server ---- */

static zlink_frame_verdict_t serve_frame(zlink_frame_connection_t *from, const zlink_frame_prefix_t *prefix,
                                         const uint8_t *envelope, const uint8_t *bytes, size_t size)
{
    zlink_frame_prefix_t reply = {.kind = ZLINK_FRAME_REPLY, .reply_route_id = prefix->reply_route_id, .packet_id = 1};
    (void)envelope;
    if (zlink_frame_connection_send(from, &reply, NULL, 0, bytes, (uint32_t)size) != ZLINK_OK)
        return ZLINK_FRAME_BROKEN;
    return ZLINK_FRAME_TAKEN;
}

static const zlink_frame_connection_events_t server_events = {.frame = serve_frame, .closed = connection_closed};

static void accepted(zlink_listener_t *listener, zlink_stream_t *stream)
{
    zlink_frame_connection_t *made;
    (void)listener;
    if (zlink_frame_connection_create(stream, &server_events, 0, NULL, &made) != ZLINK_OK)
        die("out of memory");
}

static void serve(void *context)
{
    zlink_listener_t *listener;
    zlink_refusal_t why;
    zlink_listener_options_t wanted = {
        .address = "127.0.0.1:0", .tls = tls, .accepted = accepted, .limits = {.output_bytes = OUTPUT_BYTES}};
    (void)context;
    if (zlink_listener_open(reactor, &wanted, &listener, &why) != ZLINK_OK)
        die("%s", why.line);
    printf("port %u\n", zlink_listener_port(listener));
    fflush(stdout);
}

/* ---- client ---- */

static void ask(uint64_t slot, uint64_t now)
{
    zlink_frame_prefix_t request = {
        .kind = ZLINK_FRAME_REQUEST, .reply_route_id = slot + 1, .deadline_ms = 30000, .target_id = 1, .packet_id = 1};
    asked_ns[slot] = now;
    zlink_status_t status = zlink_frame_connection_send(connection, &request, NULL, 0, payload, options.size);
    if (status != ZLINK_OK)
        die("a request was refused: %d", status);
}

static void finish(uint64_t now)
{
    double cpu = cpu_self() - opened_cpu, server_cpu = cpu_pid(options.server_pid) - opened_server_cpu;
    char parameter[64];
    snprintf(parameter, sizeof(parameter), "%u B, %u", options.size, options.outstanding);
    report_rr("direct", "rr", parameter, answers, (double)(now - opened_ns) * 1e-9, cpu, server_cpu, &latencies);
    fflush(stdout);
    _exit(0);
}

static zlink_frame_verdict_t take_answer(zlink_frame_connection_t *from, const zlink_frame_prefix_t *prefix,
                                         const uint8_t *envelope, const uint8_t *bytes, size_t size)
{
    uint64_t now = now_ns();
    uint64_t slot = prefix->reply_route_id - 1;
    (void)from, (void)envelope, (void)bytes;
    if (prefix->kind != ZLINK_FRAME_REPLY || size != options.size || slot >= options.outstanding)
        return ZLINK_FRAME_BROKEN;
    if (opened_ns == 0 && now >= opens_ns) {
        pb_begin();
        opened_cpu = cpu_self();
        opened_server_cpu = cpu_pid(options.server_pid);
        opened_ns = now;
    } else if (opened_ns != 0) {
        answers++;
        lat_add(&latencies, now - asked_ns[slot]);
        if (now >= closes_ns)
            finish(now);
    }
    ask(slot, now);
    return ZLINK_FRAME_TAKEN;
}

static void opened(zlink_frame_connection_t *made)
{
    connection = made;
    opens_ns = now_ns() + WARM_UP_NS;
    closes_ns = opens_ns + (uint64_t)(options.seconds * 1e9);
    for (uint64_t slot = 0; slot < options.outstanding; slot++)
        ask(slot, now_ns());
}

static const zlink_frame_connection_events_t client_events = {
    .opened = opened, .frame = take_answer, .closed = connection_closed};

static void connecting(zlink_dialer_t *dialer, zlink_stream_t *stream)
{
    zlink_frame_connection_t *made;
    (void)dialer;
    if (zlink_frame_connection_create(stream, &client_events, 0, NULL, &made) != ZLINK_OK)
        die("out of memory");
}

static void dial(void *context)
{
    zlink_dialer_t *dialer;
    zlink_refusal_t why;
    char address[32];
    (void)context;
    snprintf(address, sizeof(address), "127.0.0.1:%d", options.port);
    zlink_dialer_options_t wanted = {
        .address = address, .tls = tls, .connecting = connecting, .limits = {.output_bytes = OUTPUT_BYTES}};
    if (zlink_dialer_open(reactor, &wanted, &dialer, &why) != ZLINK_OK)
        die("%s", why.line);
}

/* ---- the program ---- */

static void read_options(int count, char **arguments)
{
    options.server = count > 1 && strcmp(arguments[1], "serve") == 0;
    for (int i = 2; i + 1 < count; i += 2) {
        const char *key = arguments[i], *value = arguments[i + 1];
        if (strcmp(key, "--port") == 0)
            options.port = atoi(value);
        else if (strcmp(key, "--certs") == 0)
            options.certificates = value;
        else if (strcmp(key, "--name") == 0)
            options.name = value;
        else if (strcmp(key, "--size") == 0)
            options.size = (uint32_t)atoi(value);
        else if (strcmp(key, "--outstanding") == 0)
            options.outstanding = (uint32_t)atoi(value);
        else if (strcmp(key, "--seconds") == 0)
            options.seconds = atof(value);
        else if (strcmp(key, "--server-pid") == 0)
            options.server_pid = pb_spid[0] = atoi(value);
        else
            die("unknown option %s", key);
    }
    if (options.size > sizeof(payload) || options.outstanding < 1 || options.outstanding > OUTSTANDING_MAX)
        die("--size: at most %zu; --outstanding: 1 to %u", sizeof(payload), OUTSTANDING_MAX);
}

static void make_tls(void)
{
    char ca[512], certificate[512], key[512];
    zlink_refusal_t why;
    snprintf(ca, sizeof(ca), "%s/ca.pem", options.certificates);
    snprintf(certificate, sizeof(certificate), "%s/%s.pem", options.certificates, options.name);
    snprintf(key, sizeof(key), "%s/%s.key", options.certificates, options.name);
    zlink_tls_options_t files = {.ca_file = ca, .certificate_file = certificate, .key_file = key};
    if (zlink_tls_context_create(&files, &tls, &why) != ZLINK_OK)
        die("%s", why.line);
}

int main(int count, char **arguments)
{
    zlink_refusal_t why;
    read_options(count, arguments);
    alarm(120);
    signal(SIGPIPE, SIG_IGN);
    make_tls();
    lat_init(&latencies, 20000000);
    if (zlink_reactor_create(NULL, &reactor, &why) != ZLINK_OK)
        die("%s", why.line);
    zlink_reactor_call(reactor, options.server ? serve : dial, NULL);
    for (;;)
        pause(); /* the server is killed, the client ends itself */
}
