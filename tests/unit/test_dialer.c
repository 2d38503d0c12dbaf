/* Dialers on a virtual clock. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net_fixture.h"

#include "base/counters.h"

/* A port on which nobody listens and nobody can begin to. */
static int closed_port(char address[64])
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    socklen_t size = sizeof(v4);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    inet_pton(AF_INET, "127.0.0.1", &v4.sin_addr);
    assert_int_equal(bind(fd, (struct sockaddr *)&v4, sizeof(v4)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&v4, &size), 0);
    snprintf(address, 64, "127.0.0.1:%u", ntohs(v4.sin_port));
    return fd;
}

static void redial_here(void *context)
{
    zlink_dialer_redial(((client_t *)context)->dialer);
}

static void settled_here(void *context)
{
    zlink_dialer_settled(((client_t *)context)->dialer);
}

static void connect_now_here(void *context)
{
    zlink_dialer_connect_now(((client_t *)context)->dialer);
}

/* Redials and finds out by small steps how long the dialer waits. */
static uint64_t wait_of_next_attempt(virtual_clock_t *clock, client_t *client)
{
    const size_t attempts = atomic_load(&client->attempts);
    uint64_t waited_ms = 0;

    zlink_reactor_call(client->reactor, redial_here, client);
    zlink_reactor_call(client->reactor, redial_here, client); /* a second one changes nothing */
    while (atomic_load(&client->attempts) == attempts) {
        const uint64_t step_ms = waited_ms < 400 ? 10 : 100;

        virtual_clock_advance(clock, client->reactor, step_ms);
        waited_ms += step_ms;
        assert_true(waited_ms < 20000);
    }
    assert_int_equal(atomic_load(&client->attempts), attempts + 1);
    fixture_wait(&client->party->closed);
    return waited_ms;
}

/* 100 ms doubling to 5 s, each +-50 %; over again once the link settled. Each attempt ends with `closed` and a reason.
 */
static void test_dialer_backs_off_and_starts_over(void **state)
{
    virtual_clock_t clock;
    zlink_reactor_options_t options = {0};
    zlink_reactor_t *reactor;
    party_t party;
    client_t client = {.options.random_seed = 42};
    char address[64];
    int fd = closed_port(address);

    (void)state;
    virtual_clock_init(&clock);
    options.clock = &clock.clock;
    reactor = fixture_reactor(&options);
    party_init(&party, 0);
    client_open(&client, reactor, address, &party);
    fixture_wait(&party.closed); /* the first attempt is made at once */
    assert_int_equal(party.status, ZLINK_UNAVAILABLE);
    assert_non_null(strstr(party.reason, "Connection refused"));
    assert_non_null(strstr(party.reason, address));
    for (int round = 0; round < 2; round++) {
        for (uint64_t wait_ms = 100; wait_ms < 12000; wait_ms *= 2) {
            const uint64_t base_ms = wait_ms > 5000 ? 5000 : wait_ms;

            assert_in_range(wait_of_next_attempt(&clock, &client), base_ms / 2, base_ms * 3 / 2 + 100);
        }
        zlink_reactor_call(reactor, settled_here, &client);
    }
    client_close(&client);
    zlink_reactor_destroy(reactor);
    party_release(&party);
    close(fd);
}

/* Nobody answers: the attempt ends after 5 s. (A listener whose queue is full drops further knocks.) */
static void test_dialer_connect_gives_up_after_five_seconds(void **state)
{
    virtual_clock_t clock;
    zlink_reactor_options_t options = {0};
    zlink_reactor_t *reactor;
    party_t party;
    client_t client = {0};
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    socklen_t size = sizeof(v4);
    char address[64];
    int fillers[8];
    int fd = closed_port(address);

    (void)state;
    assert_int_equal(listen(fd, 0), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&v4, &size), 0);
    for (size_t i = 0; i < 8; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(fillers[i], (struct sockaddr *)&v4, sizeof(v4));
    }
    virtual_clock_init(&clock);
    options.clock = &clock.clock;
    reactor = fixture_reactor(&options);
    party_init(&party, 0);
    client_open(&client, reactor, address, &party);
    fixture_wait_for(&client.attempts, 1);
    virtual_clock_advance(&clock, reactor, 4999);
    assert_int_equal(sem_trywait(&party.closed), -1);
    virtual_clock_advance(&clock, reactor, 1);
    fixture_wait(&party.closed);
    assert_int_equal(party.status, ZLINK_UNAVAILABLE);
    assert_string_equal(party.reason, "no answer within 5 s");
    zlink_reactor_destroy(reactor); /* with the dialer still open */
    for (size_t i = 0; i < 8; i++)
        close(fillers[i]);
    close(fd);
    party_release(&party);
}

/* A name is resolved off the reactor's thread; one that does not exist ends the attempt with a reason. */
static void test_dialer_resolves_names(void **state)
{
    zlink_reactor_t *reactor = fixture_reactor(NULL);
    party_t accepted;
    party_t dialled;
    server_t server = {0};
    client_t client = {0};
    client_t nobody = {0};
    char address[64];

    (void)state;
    party_init(&accepted, 0);
    party_init(&dialled, 0);
    server_open(&server, reactor, &accepted, 1);
    snprintf(address, sizeof(address), "localhost:%u", zlink_listener_port(server.listener));
    client_open(&client, reactor, address, &dialled);
    fixture_wait(&dialled.opened);
    assert_string_equal(dialled.address, server.address);
    fixture_wait(&accepted.opened);
    zlink_reactor_call(reactor, party_close_here, &dialled);
    fixture_wait(&dialled.closed);
    client_open(&nobody, reactor, "no-such-host.invalid:5001", &dialled);
    fixture_wait(&dialled.closed);
    assert_int_equal(dialled.status, ZLINK_UNAVAILABLE);
    assert_non_null(strstr(dialled.reason, "name not resolved"));
    zlink_reactor_destroy(reactor);
    party_release(&accepted);
    party_release(&dialled);
}

/* The reactor goes while a name is still being looked up: the late answer harms nobody. */
static void test_dialer_reactor_destroyed_while_resolving(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        zlink_reactor_t *reactor = fixture_reactor(NULL);
        party_t party;
        client_t client = {0};

        party_init(&party, 0);
        client_open(&client, reactor, "no-such-host.invalid:5001", &party);
        if (i % 2 == 0)
            client_close(&client);
        zlink_reactor_destroy(reactor);
        if (atomic_load(&client.attempts) > 0)
            fixture_wait(&party.closed);
        party_release(&party);
    }
}

/* connect_now makes a second connection beside the first, at once. */
static void test_dialer_second_connection_without_wait(void **state)
{
    virtual_clock_t clock;
    zlink_reactor_options_t options = {0};
    zlink_reactor_t *reactor;
    party_t accepted[2];
    party_t dialled;
    server_t server = {0};
    client_t client = {0};

    (void)state;
    virtual_clock_init(&clock);
    options.clock = &clock.clock;
    reactor = fixture_reactor(&options);
    party_init(&accepted[0], 0);
    party_init(&accepted[1], 0);
    party_init(&dialled, 0);
    server_open(&server, reactor, accepted, 2);
    client_open(&client, reactor, server.address, &dialled);
    fixture_wait(&dialled.opened);
    zlink_reactor_call(reactor, connect_now_here, &client);
    fixture_wait(&dialled.opened);
    assert_int_equal(atomic_load(&client.attempts), 2);
    client_close(&client);
    zlink_reactor_destroy(reactor); /* both streams live until here */
    fixture_wait(&dialled.closed);
    fixture_wait(&dialled.closed);
    for (size_t i = 0; i < 2; i++) {
        fixture_wait(&accepted[i].closed);
        party_release(&accepted[i]);
    }
    party_release(&dialled);
}

static void test_dialer_bad_address_is_refused(void **state)
{
    zlink_reactor_t *reactor = fixture_reactor(NULL);
    client_t client = {.reactor = reactor};

    (void)state;
    client.options.address = "node-a";
    zlink_reactor_call(reactor, client_open_here, &client);
    assert_int_equal(client.status, ZLINK_INVALID_OPERATION);
    assert_non_null(strstr(client.why.line, "node-a"));
    client.options.address = "127.0.0.1:0";
    zlink_reactor_call(reactor, client_open_here, &client);
    assert_int_equal(client.status, ZLINK_INVALID_OPERATION);
    zlink_reactor_destroy(reactor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dialer_backs_off_and_starts_over),
        cmocka_unit_test(test_dialer_connect_gives_up_after_five_seconds),
        cmocka_unit_test(test_dialer_resolves_names),
        cmocka_unit_test(test_dialer_reactor_destroyed_while_resolving),
        cmocka_unit_test(test_dialer_second_connection_without_wait),
        cmocka_unit_test(test_dialer_bad_address_is_refused),
    };

    return zlink_test_main(tests);
}
