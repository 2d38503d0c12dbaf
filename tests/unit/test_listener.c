/* Listeners: errors of accept, unix sockets, limits. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "net_fixture.h"

#include "base/counters.h"

extern zlink_counter_t zlink_counter_net_ticks;
extern zlink_counter_t zlink_counter_net_turned_away;

static int raw_connect(const char *address)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    int fd;

    if (strncmp(address, "unix:", 5) == 0) {
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        snprintf(local.sun_path, sizeof(local.sun_path), "%s", address + 5);
        assert_int_equal(connect(fd, (struct sockaddr *)&local, sizeof(local)), 0);
        return fd;
    }
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    v4.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
    inet_pton(AF_INET, "127.0.0.1", &v4.sin_addr);
    assert_int_equal(connect(fd, (struct sockaddr *)&v4, sizeof(v4)), 0);
    return fd;
}

/* The errors that the next accepts end with. */
typedef struct script {
    const int *errors;
    _Atomic size_t next;
    size_t count;
} script_t;

static int script_result(void *context)
{
    script_t *script = context;
    const size_t next = atomic_load(&script->next);

    if (next == script->count)
        return 0;
    atomic_store(&script->next, next + 1);
    return -script->errors[next];
}

/* H5: accepts that end with ECONNABORTED, EMFILE and EINVAL while the multishot goes on: each later connection is
 * accepted once, and the loop does not turn for nothing. */
static void test_h5_accept_errors_do_not_double_or_spin(void **state)
{
    static const int errors[] = {ECONNABORTED, ECONNABORTED, EMFILE, EINVAL, ENOTSOCK, ECONNABORTED};
    enum { ERRORS = sizeof(errors) / sizeof(errors[0]), GOOD = 8 };
    static const uint32_t levels[] = {0, ZLINK_RING_PLAIN}; /* multishot, and one accept at a time */

    (void)state;
    zlink_log_set_level(ZLINK_LOG_OFF);
    for (size_t level = 0; level < 2; level++) {
        virtual_clock_t clock;
        script_t script = {.errors = errors, .count = ERRORS};
        const zlink_net_fault_t fault = {.accept_result = script_result, .context = &script};
        zlink_reactor_options_t options = {.fault = &fault, .features_allowed = levels[level]};
        zlink_reactor_t *reactor;
        party_t parties[GOOD];
        server_t server = {0};
        int fds[ERRORS + GOOD];
        int64_t ticks;

        virtual_clock_init(&clock);
        options.clock = &clock.clock;
        reactor = fixture_reactor(&options);
        for (size_t i = 0; i < GOOD; i++)
            party_init(&parties[i], 0);
        server_open(&server, reactor, parties, GOOD);
        for (size_t i = 0; i < ERRORS; i++) {
            fds[i] = raw_connect(server.address);
            fixture_wait_for(&script.next, i + 1);
            virtual_clock_advance(&clock, reactor, 10000); /* any back-off is over */
        }
        for (size_t i = ERRORS; i < ERRORS + GOOD; i++)
            fds[i] = raw_connect(server.address);
        fixture_wait_for(&server.accepted, GOOD);
        for (size_t i = 0; i < GOOD; i++)
            fixture_wait(&parties[i].opened);
        ticks = zlink_counter_read(&zlink_counter_net_ticks);
        nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
        assert_true(zlink_counter_read(&zlink_counter_net_ticks) - ticks < 20);
        for (size_t i = 0; i < ERRORS + GOOD; i++)
            close(fds[i]);
        zlink_reactor_destroy(reactor);
        for (size_t i = 0; i < GOOD; i++)
            party_release(&parties[i]);
    }
    zlink_log_set_level(ZLINK_LOG_INFO);
}

/* Opens the listener and takes every further descriptor away before its accept is armed: the kernel keeps the limit
 * that it finds then. */
static void open_without_descriptors_here(void *context)
{
    struct rlimit limit;
    int lowest_free;

    server_open_here(context);
    lowest_free = dup(0);
    close(lowest_free);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t)lowest_free;
    assert(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

/* H5: the real thing: no descriptor is left. The listener waits by its timer and then goes on; nothing is lost. */
static void test_h5_out_of_descriptors_waits_and_goes_on(void **state)
{
    virtual_clock_t clock;
    zlink_reactor_options_t options = {0};
    zlink_reactor_t *reactor;
    struct rlimit kept;
    party_t party;
    server_t server = {0};
    int64_t ticks;
    int client;

    (void)state;
    zlink_log_set_level(ZLINK_LOG_OFF);
    virtual_clock_init(&clock);
    options.clock = &clock.clock;
    reactor = fixture_reactor(&options);
    party_init(&party, 0);
    client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    getrlimit(RLIMIT_NOFILE, &kept);
    server.reactor = reactor;
    server.parties = &party;
    server.room = 1;
    server.options.address = "127.0.0.1:0";
    zlink_reactor_call(reactor, open_without_descriptors_here, &server);
    assert_int_equal(server.status, ZLINK_OK);
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(zlink_listener_port(server.listener))};
    inet_pton(AF_INET, "127.0.0.1", &v4.sin_addr);
    assert_int_equal(connect(client, (struct sockaddr *)&v4, sizeof(v4)), 0);
    for (int i = 0; i < 20; i++)
        zlink_reactor_call(reactor, fixture_nothing, NULL);
    ticks = zlink_counter_read(&zlink_counter_net_ticks);
    nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
    assert_true(zlink_counter_read(&zlink_counter_net_ticks) - ticks < 20);
    assert_int_equal(atomic_load(&server.accepted), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &kept), 0);
    virtual_clock_advance(&clock, reactor, 5000);
    fixture_wait(&party.opened);
    close(client);
    fixture_wait(&party.closed);
    zlink_reactor_destroy(reactor);
    party_release(&party);
    zlink_log_set_level(ZLINK_LOG_INFO);
}

/* Over the limit a connection is closed on arrival; when one goes, the next is taken. */
static void test_listener_connections_max(void **state)
{
    zlink_reactor_t *reactor = fixture_reactor(NULL);
    party_t parties[3];
    server_t server = {.options.connections_max = 2};
    int64_t turned_away = zlink_counter_read(&zlink_counter_net_turned_away);
    char byte;
    int fds[3];
    int fourth;

    (void)state;
    zlink_log_set_level(ZLINK_LOG_OFF);
    for (size_t i = 0; i < 3; i++)
        party_init(&parties[i], 0);
    server_open(&server, reactor, parties, 3);
    fds[0] = raw_connect(server.address);
    fixture_wait(&parties[0].opened);
    fds[1] = raw_connect(server.address);
    fixture_wait(&parties[1].opened);
    fds[2] = raw_connect(server.address);
    assert_int_equal(recv(fds[2], &byte, 1, 0), 0);
    assert_int_equal(zlink_counter_read(&zlink_counter_net_turned_away) - turned_away, 1);
    close(fds[0]);
    fixture_wait(&parties[0].closed);
    fourth = raw_connect(server.address);
    fixture_wait(&parties[2].opened);
    for (size_t i = 1; i < 3; i++)
        close(fds[i]);
    close(fourth);
    zlink_reactor_destroy(reactor);
    for (size_t i = 0; i < 3; i++)
        party_release(&parties[i]);
    zlink_log_set_level(ZLINK_LOG_INFO);
}

/* The same for one address; another one is let in. */
static void test_listener_limit_of_an_address(void **state)
{
    zlink_reactor_t *reactor = fixture_reactor(NULL);
    party_t parties[3];
    server_t server = {.options.connections_per_address_max = 2, .options.address = "0.0.0.0:0"};
    struct sockaddr_in other = {.sin_family = AF_INET};
    struct sockaddr_in to = {.sin_family = AF_INET};
    int64_t turned_away = zlink_counter_read(&zlink_counter_net_turned_away);
    char byte;
    int fds[4];

    (void)state;
    zlink_log_set_level(ZLINK_LOG_OFF);
    for (size_t i = 0; i < 3; i++)
        party_init(&parties[i], 0);
    server_open(&server, reactor, parties, 3);
    for (size_t i = 0; i < 2; i++) {
        fds[i] = raw_connect(server.address);
        fixture_wait(&parties[i].opened);
    }
    fds[2] = raw_connect(server.address);
    assert_int_equal(recv(fds[2], &byte, 1, 0), 0);
    assert_int_equal(zlink_counter_read(&zlink_counter_net_turned_away) - turned_away, 1);
    fds[3] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* from 127.0.0.2 */
    inet_pton(AF_INET, "127.0.0.2", &other.sin_addr);
    assert_int_equal(bind(fds[3], (struct sockaddr *)&other, sizeof(other)), 0);
    to.sin_port = htons(zlink_listener_port(server.listener));
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    assert_int_equal(connect(fds[3], (struct sockaddr *)&to, sizeof(to)), 0);
    fixture_wait(&parties[2].opened);
    for (size_t i = 0; i < 4; i++)
        close(fds[i]);
    zlink_reactor_destroy(reactor);
    for (size_t i = 0; i < 3; i++)
        party_release(&parties[i]);
    zlink_log_set_level(ZLINK_LOG_INFO);
}

/* ---- unix sockets ---- */

static char directory[64];

static int make_directory(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/zlink-listener-XXXXXX");
    return mkdtemp(directory) == NULL;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory); /* fails where a socket file was left behind */
}

static void test_listener_unix_socket_mode_and_removal(void **state)
{
    zlink_reactor_t *reactor = fixture_reactor(NULL);
    party_t party;
    server_t server = {0};
    struct stat status;
    char address[96];
    mode_t mask = umask(0077); /* the mode is exactly what was asked for, whatever the mask */
    int fd;

    (void)state;
    snprintf(address, sizeof(address), "unix:%s/s", directory);
    party_init(&party, 8);
    server.options.address = address;
    server.options.unix_mode = 0660;
    server_open(&server, reactor, &party, 1);
    umask(mask);
    assert_string_equal(server.address, address);
    assert_int_equal(stat(address + 5, &status), 0);
    assert_true(S_ISSOCK(status.st_mode));
    assert_int_equal(status.st_mode & 0777, 0660);
    fd = raw_connect(address);
    assert_int_equal(send(fd, "hi", 2, MSG_NOSIGNAL), 2);
    fixture_wait_for(&party.received, 2);
    assert_string_equal(party.address, address);
    server_close(&server);
    zlink_reactor_call(reactor, fixture_nothing, NULL);
    close(fd);
    zlink_reactor_destroy(reactor);
    assert_int_equal(stat(address + 5, &status), -1);
    fixture_wait(&party.closed);
    party_release(&party);
}

static zlink_status_t try_listen(zlink_reactor_t *reactor, server_t *server, const char *address)
{
    memset(server, 0, sizeof(*server));
    server->reactor = reactor;
    server->options.address = address;
    zlink_reactor_call(reactor, server_open_here, server);
    return server->status;
}

/* A file of a dead listener is replaced; a living one, and what is no socket, are left alone; a file that somebody
 * put there meanwhile is not removed. */
static void test_listener_unix_socket_stale_and_living(void **state)
{
    zlink_reactor_t *reactor = fixture_reactor(NULL);
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    server_t server;
    server_t second;
    struct stat status;
    char address[96];
    int fd;

    (void)state;
    snprintf(address, sizeof(address), "unix:%s/s", directory);
    snprintf(local.sun_path, sizeof(local.sun_path), "%s", address + 5);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&local, sizeof(local)), 0);
    close(fd); /* the file stays, nobody listens */
    assert_int_equal(try_listen(reactor, &server, address), ZLINK_OK);
    assert_int_equal(try_listen(reactor, &second, address), ZLINK_ALREADY_EXISTS);
    assert_non_null(strstr(second.why.line, "another process listens"));
    assert_int_equal(unlink(address + 5), 0);
    fd = open(address + 5, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(try_listen(reactor, &second, address), ZLINK_ALREADY_EXISTS);
    assert_non_null(strstr(second.why.line, "not a socket"));
    server_close(&server);
    zlink_reactor_destroy(reactor);
    assert_int_equal(stat(address + 5, &status), 0); /* not ours */
    assert_int_equal(unlink(address + 5), 0);
}

static void test_listener_bad_addresses_are_refused(void **state)
{
    zlink_reactor_t *reactor = fixture_reactor(NULL);
    server_t server;
    server_t taken;
    char address[300];

    (void)state;
    assert_int_equal(try_listen(reactor, &server, "localhost:0"), ZLINK_INVALID_OPERATION);
    assert_non_null(strstr(server.why.line, "needs a number"));
    assert_int_equal(try_listen(reactor, &server, "127.0.0.1"), ZLINK_INVALID_OPERATION);
    assert_int_equal(try_listen(reactor, &server, "192.0.2.1:0"), ZLINK_UNAVAILABLE);
    assert_int_equal(try_listen(reactor, &server, "unix:/nowhere/at/all"), ZLINK_UNAVAILABLE);
    assert_int_equal(try_listen(reactor, &server, "127.0.0.1:0"), ZLINK_OK);
    assert_int_not_equal(zlink_listener_port(server.listener), 0);
    snprintf(address, sizeof(address), "%s", server.address);
    assert_int_equal(try_listen(reactor, &taken, address), ZLINK_ALREADY_EXISTS);
    assert_non_null(strstr(taken.why.line, address));
    zlink_reactor_destroy(reactor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_h5_accept_errors_do_not_double_or_spin),
        cmocka_unit_test(test_h5_out_of_descriptors_waits_and_goes_on),
        cmocka_unit_test(test_listener_connections_max),
        cmocka_unit_test(test_listener_limit_of_an_address),
        cmocka_unit_test_setup_teardown(test_listener_unix_socket_mode_and_removal, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(test_listener_unix_socket_stale_and_living, make_directory, remove_directory),
        cmocka_unit_test(test_listener_bad_addresses_are_refused),
    };

    return zlink_test_main(tests);
}
