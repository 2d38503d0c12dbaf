/*
 * handshakes.c: mutual TLS 1.2 handshakes, full or (--resume 1) resumed by ticket, one after the other on each of a few
 * threads: TCP connect, handshake, close. The same client measures the node (any peer certificate of the mesh will do)
 * and its own plain server.
 *
 *   bench_handshakes serve --port P --certs DIR --name NAME --threads T
 *   bench_handshakes dial --port P … --count N --server-pid PID --param TEXT
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include "floor_tls.h"
#include "tests/bench/peers/common/pb.h"

#define THREADS_MAX 16

static struct options {
    bool server, resume;
    int port, threads, count;
    const char *certificates, *name, *param;
    pid_t server_pid;
} options = {false, false, 7300, 1, 100, ".", "floor", "", 0};

static struct sockaddr_in address;
static int listener;
static _Atomic int resumed;

/* What a dialing thread keeps for its next handshake. */
typedef struct ticket {
    SSL_SESSION *session;
} ticket_t;

/* False: it failed. `ticket` is NULL where none is offered or kept. */
static bool handshake(const floor_tls_t *tls, const int *fd, ticket_t *ticket)
{
    const int on = 1;
    SSL *ssl = SSL_new(tls->context);
    setsockopt(*fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (!ssl || SSL_set_fd(ssl, *fd) != 1)
        floor_die("TLS set-up");
    if (ticket && ticket->session && SSL_set_session(ssl, ticket->session) != 1)
        floor_die("the session cannot be offered");
    bool good = (options.server ? SSL_accept(ssl) : SSL_connect(ssl)) == 1;
    if (ticket && good && !ticket->session && (ticket->session = SSL_get1_session(ssl)) == NULL)
        floor_die("the session cannot be kept");
    if (ticket && good && options.resume)
        resumed += SSL_session_reused(ssl) == 1;
    SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN); /* or the session could not be resumed */
    SSL_free(ssl);
    return good;
}

static floor_tls_t *make_tls(void)
{
    floor_tls_t *tls = calloc(1, sizeof(*tls));
    if (!tls)
        floor_die("out of memory");
    floor_tls_init(tls, options.server, options.certificates, options.name, "chacha");
    return tls;
}

/* All threads of the server share one context, or a ticket would only be good for the thread that wrote it. */
static void *serve(void *context)
{
    const floor_tls_t *tls = context;
    for (;;) {
        char byte;
        int fd = accept(listener, NULL, NULL);
        if (fd < 0)
            continue;
        if (handshake(tls, &fd, NULL) && recv(fd, &byte, 1, 0) < 0)
            errno = 0;
        close(fd);
    }
    return NULL;
}

static void *dial(void *context)
{
    const struct linger at_once = {1, 0};
    ticket_t ticket = {NULL};
    for (int i = 0; i < options.count / options.threads; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), tries = 0;
        while (connect(fd, (const struct sockaddr *)&address, sizeof(address))) {
            usleep(20000);
            if (++tries > 200)
                floor_die("port %d: %s", options.port, strerror(errno));
        }
        if (!handshake(context, &fd, options.resume ? &ticket : NULL))
            floor_die("a handshake failed");
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        close(fd);
    }
    return NULL;
}

static void dial_all(void)
{
    pthread_t threads[THREADS_MAX];
    floor_tls_t *tls[THREADS_MAX] = {NULL};
    int done = options.count / options.threads * options.threads;
    for (int i = 0; i < options.threads; i++)
        tls[i] = make_tls();
    pb_begin();
    double cpu = cpu_self(), server_cpu = cpu_pid(options.server_pid);
    uint64_t began_ns = now_ns();
    for (int i = 0; i < options.threads; i++) {
        if (pthread_create(&threads[i], NULL, dial, tls[i]))
            floor_die("no thread");
    }
    for (int i = 0; i < options.threads; i++)
        pthread_join(threads[i], NULL);
    double took = (double)(now_ns() - began_ns) * 1e-9;
    cpu = cpu_self() - cpu;
    server_cpu = cpu_pid(options.server_pid) - server_cpu;
    if (options.resume && resumed < done - options.threads)
        floor_die("only %d of %d handshakes were resumed", resumed, done);
    emit("floor", "handshakes", options.param, "rate", done / took, "hs/s");
    emit("floor", "handshakes", options.param, "cpu_per_million", (cpu + server_cpu) / done * 1e6, "cpu_s/1e6");
    emit("floor", "handshakes", options.param, "server_cpu_ms", server_cpu / done * 1e3, "ms");
}

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
        else if (strcmp(key, "--threads") == 0)
            options.threads = atoi(value);
        else if (strcmp(key, "--count") == 0)
            options.count = atoi(value);
        else if (strcmp(key, "--server-pid") == 0)
            options.server_pid = pb_spid[0] = atoi(value);
        else if (strcmp(key, "--resume") == 0)
            options.resume = atoi(value) != 0;
        else if (strcmp(key, "--param") == 0)
            options.param = value;
        else
            floor_die("unknown option %s", key);
    }
    if (options.threads < 1 || options.threads > THREADS_MAX)
        floor_die("--threads: 1 to %d", THREADS_MAX);
}

static void listen_and_serve(void)
{
    const int on = 1;
    floor_tls_t *tls = make_tls();
    pthread_t thread;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 1024))
        floor_die("port %d: %s", options.port, strerror(errno));
    for (int i = 1; i < options.threads; i++) {
        if (pthread_create(&thread, NULL, serve, tls))
            floor_die("no thread");
    }
    serve(tls);
}

int main(int count, char **arguments)
{
    read_options(count, arguments);
    alarm(120);
    signal(SIGPIPE, SIG_IGN);
    address = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_port = htons((uint16_t)options.port)};
    if (options.server)
        listen_and_serve();
    else
        dial_all();
    return 0;
}
