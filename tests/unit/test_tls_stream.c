/* Streams with TLS over real sockets. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net_fixture.h"
#include "tls_fixture.h"

#include "base/counters.h"
#include "net/tls_context_internal.h"

static tls_fixture_t fixture;
static zlink_tls_context_t *context_a;
static zlink_tls_context_t *context_b;

extern zlink_counter_t zlink_counter_net_handshakes_failed;
extern zlink_counter_t zlink_counter_net_connections_open;
extern zlink_counter_t zlink_counter_net_handshakes_resumed;
extern zlink_counter_t zlink_counter_net_handshakes_turned_away;
extern zlink_counter_t zlink_counter_net_handshakes_waiting;

static int set_up(void **state)
{
    tls_files_t a;
    tls_files_t b;

    (void)state;
    tls_fixture_init(&fixture);
    tls_fixture_authority(&fixture, "ca");
    tls_fixture_authority(&fixture, "foreign");
    a = tls_fixture_node(&fixture, "ca", "mesh", "node-a");
    b = tls_fixture_node(&fixture, "ca", "mesh", "node-b");
    context_a = tls_fixture_context(&a);
    context_b = tls_fixture_context(&b);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    zlink_tls_context_release(context_a);
    zlink_tls_context_release(context_b);
    tls_fixture_release(&fixture);
    return 0;
}

typedef struct pair {
    zlink_reactor_t *reactor;
    zlink_reactor_t *other; /* the dialling side's */
    party_t accepted;
    party_t dialled;
    server_t server;
    client_t client;
} pair_t;

static void pair_start(pair_t *pair, const zlink_reactor_options_t *options, const zlink_tls_context_t *server,
                       const zlink_tls_context_t *client, size_t capacity)
{
    memset(&pair->server, 0, sizeof(pair->server));
    memset(&pair->client, 0, sizeof(pair->client));
    pair->reactor = fixture_reactor(options);
    pair->other = fixture_reactor(options);
    party_init(&pair->accepted, capacity);
    party_init(&pair->dialled, capacity);
    pair->server.options.tls = server;
    pair->client.options.tls = client;
    server_open(&pair->server, pair->reactor, &pair->accepted, 1);
    client_open(&pair->client, pair->other, pair->server.address, &pair->dialled);
}

static void pair_open(pair_t *pair, const zlink_reactor_options_t *options, size_t capacity)
{
    pair_start(pair, options, context_a, context_b, capacity);
    fixture_wait(&pair->accepted.opened);
    fixture_wait(&pair->dialled.opened);
}

static void pair_close(pair_t *pair)
{
    zlink_reactor_destroy(pair->other);
    zlink_reactor_destroy(pair->reactor);
    party_release(&pair->accepted);
    party_release(&pair->dialled);
}

static int raw_connect(const server_t *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(zlink_listener_port(server->listener))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* Both know each other by certificate; close_notify makes the end a clean one. */
static void test_tls_stream_mutual_handshake_and_close_notify(void **state)
{
    pair_t pair;

    (void)state;
    pair_open(&pair, NULL, 64);
    assert_string_equal(pair.accepted.identity, "mesh/node-b");
    assert_string_equal(pair.dialled.identity, "mesh/node-a");
    assert_string_equal(pair.dialled.cipher, "ECDHE-ECDSA-AES128-GCM-SHA256");
    assert_string_equal(pair.dialled.address, pair.server.address);
    assert_int_equal(party_write(pair.other, &pair.dialled, "secret", 6, false), ZLINK_OK);
    fixture_wait_for(&pair.accepted.received, 6);
    assert_memory_equal(pair.accepted.bytes, "secret", 6);
    zlink_reactor_call(pair.reactor, party_close_here, &pair.accepted);
    fixture_wait(&pair.dialled.closed);
    fixture_wait(&pair.accepted.closed);
    assert_int_equal(pair.dialled.status, ZLINK_OK);
    assert_string_equal(pair.dialled.reason, "closed by the peer");
    assert_int_equal(pair.accepted.status, ZLINK_OK);
    pair_close(&pair);
}

/* Megabytes both ways at once, with small buffers and small sends. */
static size_t odd_send(void *context, size_t wanted)
{
    (void)context;
    return wanted > 5000 ? wanted / 2 + 1 : wanted;
}

static void test_h1_h18_tls_big_transfer_both_ways_is_intact(void **state)
{
    enum { SIZE = 3 * 1024 * 1024 };
    const zlink_net_fault_t fault = {.send_size = odd_send};
    const zlink_reactor_options_t all[] = {{0}, {.buffer_count = 4, .buffer_bytes = 700, .fault = &fault}};
    uint8_t *there = pattern_make(1, SIZE);
    uint8_t *back = pattern_make(2, SIZE);

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        pair_t pair;

        pair_open(&pair, &all[i], SIZE);
        for (size_t offset = 0, step = 1; offset < SIZE; step = step * 3 % 100000 + 1) {
            const size_t piece = step < SIZE - offset ? step : SIZE - offset;

            assert_int_equal(party_write(pair.other, &pair.dialled, there + offset, piece, true), ZLINK_OK);
            assert_int_equal(party_write(pair.reactor, &pair.accepted, back + offset, piece, true), ZLINK_OK);
            offset += piece;
        }
        fixture_wait_for(&pair.accepted.received, SIZE);
        fixture_wait_for(&pair.dialled.received, SIZE);
        pattern_check(1, pair.accepted.bytes, SIZE);
        pattern_check(2, pair.dialled.bytes, SIZE);
        pair_close(&pair);
    }
    free(there);
    free(back);
}

/* All writes of one tick go out in one record. */
extern zlink_counter_t zlink_counter_net_records_sealed;

static void write_many_here(void *context)
{
    party_t *party = context;

    for (int i = 0; i < 200; i++)
        assert(zlink_stream_write(party->stream, "0123456789abcdef", 16) == ZLINK_OK);
}

static void test_tls_stream_seals_once_per_tick(void **state)
{
    pair_t pair;
    int64_t before;

    (void)state;
    pair_open(&pair, NULL, 4096);
    before = zlink_counter_read(&zlink_counter_net_records_sealed);
    zlink_reactor_call(pair.other, write_many_here, &pair.dialled);
    fixture_wait_for(&pair.accepted.received, 3200);
    assert_int_equal(zlink_counter_read(&zlink_counter_net_records_sealed) - before, 1);
    pair_close(&pair);
}

/* TR-92 TR-93: one side refuses; neither sees `opened`, both get a reason in words. */
static void test_tr92_tr93_untrusted_peer_is_refused_with_a_reason(void **state)
{
    tls_files_t stranger = tls_fixture_node(&fixture, "foreign", "mesh", "stranger");
    zlink_tls_context_t *context;
    int64_t failed;

    (void)state;
    tls_fixture_bundle(&fixture, "ca", "foreign", stranger.ca);
    context = tls_fixture_context(&stranger); /* trusts both, is trusted by none of us */
    zlink_log_set_level(ZLINK_LOG_OFF);
    for (int dials = 0; dials < 2; dials++) {
        pair_t pair;

        failed = zlink_counter_read(&zlink_counter_net_handshakes_failed);
        pair_start(&pair, NULL, dials ? context_a : context, dials ? context : context_a, 0);
        fixture_wait(&pair.accepted.closed);
        fixture_wait(&pair.dialled.closed);
        assert_int_equal(sem_trywait(dials ? &pair.accepted.opened : &pair.dialled.opened), -1);
        party_t *refusing = dials ? &pair.accepted : &pair.dialled;
        party_t *refused = dials ? &pair.dialled : &pair.accepted;

        assert_int_equal(refusing->status, ZLINK_REJECTED);
        assert_non_null(strstr(refusing->reason, "not signed by an authority"));
        assert_non_null(strstr(refused->reason, "the peer refused: certificate of an unknown authority"));
        assert_true(zlink_counter_read(&zlink_counter_net_handshakes_failed) > failed);
        pair_close(&pair);
    }
    zlink_log_set_level(ZLINK_LOG_INFO);
    zlink_tls_context_release(context);
}

/* Plain bytes at a TLS listener are refused at once; a dialer that says nothing is dropped after 5 s. */
static void test_tls_stream_garbage_and_silence(void **state)
{
    virtual_clock_t clock;
    zlink_reactor_options_t options = {0};
    zlink_reactor_t *reactor;
    party_t parties[2];
    server_t server = {.options.tls = context_a};
    int fd;

    (void)state;
    zlink_log_set_level(ZLINK_LOG_OFF);
    virtual_clock_init(&clock);
    options.clock = &clock.clock;
    reactor = fixture_reactor(&options);
    party_init(&parties[0], 0);
    party_init(&parties[1], 0);
    server_open(&server, reactor, parties, 2);
    fd = raw_connect(&server);
    assert_int_equal(send(fd, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
    shutdown(fd, SHUT_WR);
    fixture_wait(&parties[0].closed);
    assert_int_equal(parties[0].status, ZLINK_REJECTED);
    close(fd);
    fd = raw_connect(&server);
    fixture_wait_for(&server.accepted, 2);
    virtual_clock_advance(&clock, reactor, 4999);
    assert_int_equal(sem_trywait(&parties[1].closed), -1);
    virtual_clock_advance(&clock, reactor, 1);
    fixture_wait(&parties[1].closed);
    assert_int_equal(parties[1].status, ZLINK_UNAVAILABLE);
    assert_non_null(strstr(parties[1].reason, "5 s"));
    close(fd);
    zlink_reactor_destroy(reactor);
    party_release(&parties[0]);
    party_release(&parties[1]);
    zlink_log_set_level(ZLINK_LOG_INFO);
}

/* A connection that ends without close_notify was cut: bytes may be missing, and `closed` says so. */
static void test_tls_stream_cut_without_close_notify_is_told(void **state)
{
    pair_t pair;

    (void)state;
    pair_open(&pair, NULL, 0);
    zlink_reactor_call(pair.other, party_abort_here, &pair.dialled);
    fixture_wait(&pair.accepted.closed);
    assert_int_equal(pair.accepted.status, ZLINK_UNAVAILABLE);
    assert_non_null(strstr(pair.accepted.reason, "close_notify"));
    fixture_wait(&pair.dialled.closed);
    pair_close(&pair);
}

static void write_and_close_here(void *context)
{
    party_action_t *action = context;

    action->status = zlink_stream_write_forced(action->party->stream, action->data, action->size);
    zlink_stream_close(action->party->stream, "closed by the test");
}

/* H35: what was written before the close arrives, sealed, before close_notify. */
static void test_h35_tls_final_bytes_arrive_before_the_close(void **state)
{
    enum { SIZE = 2 * 1024 * 1024 + 17 };
    uint8_t *bytes = pattern_make(3, SIZE);
    pair_t pair;

    (void)state;
    pair_open(&pair, NULL, SIZE);
    party_action_t action = {&pair.dialled, bytes, SIZE, true, ZLINK_OK};
    zlink_reactor_call(pair.other, write_and_close_here, &action);
    assert_int_equal(action.status, ZLINK_OK);
    fixture_wait(&pair.accepted.closed);
    assert_int_equal(pair.accepted.status, ZLINK_OK);
    assert_int_equal(atomic_load(&pair.accepted.received), SIZE);
    pattern_check(3, pair.accepted.bytes, SIZE);
    fixture_wait(&pair.dialled.closed);
    pair_close(&pair);
    free(bytes);
}

/* After everything is closed no socket is counted any more. */
static void test_tls_stream_leaves_no_connection_behind(void **state)
{
    pair_t pair;

    (void)state;
    pair_open(&pair, NULL, 0);
    assert_true(zlink_counter_read(&zlink_counter_net_connections_open) >= 2);
    pair_close(&pair);
    assert_int_equal(zlink_counter_read(&zlink_counter_net_connections_open), 0);
}

/* While the test has this lock, a helper that works for the context stands still. */
static pthread_mutex_t stand = PTHREAD_MUTEX_INITIALIZER;

static void stop_helper(zlink_tls_context_t *context)
{
    tls_fixture_stop_at(context, &stand);
    pthread_mutex_lock(&stand);
}

static void free_helper(void)
{
    pthread_mutex_unlock(&stand);
}

/* A stream that is closed while a helper has its session ends when that is back, and not before. */
static void test_tls_stream_closed_while_a_helper_has_its_session(void **state)
{
    pair_t pair;

    (void)state;
    stop_helper(context_b);
    pair_start(&pair, NULL, context_a, context_b, 0);
    fixture_wait_for(&pair.server.accepted, 1);
    zlink_reactor_call(pair.other, party_abort_here, &pair.dialled);
    fixture_wait(&pair.accepted.closed); /* the socket is down at once */
    for (int i = 0; i < 20; i++)
        zlink_reactor_call(pair.other, fixture_nothing, NULL);
    free_helper();
    fixture_wait(&pair.dialled.closed);
    assert_int_equal(pair.dialled.status, ZLINK_UNAVAILABLE);
    assert_string_equal(pair.dialled.reason, "aborted by the test");
    assert_int_equal(sem_trywait(&pair.dialled.opened), -1);
    pair_close(&pair);
}

/* As many handshakes as may wait for a helper do; one more is turned away, and those who waited get on. */
static void test_tls_stream_too_many_handshakes_are_turned_away(void **state)
{
    enum { DIALS = 4 };
    const zlink_reactor_options_t options = {.handshake_threads = 1, .handshakes_waiting = 2};
    const int64_t before = zlink_counter_read(&zlink_counter_net_handshakes_turned_away);
    zlink_reactor_t *server_side = fixture_reactor(NULL);
    zlink_reactor_t *reactor = fixture_reactor(&options);
    server_t server = {.options.tls = context_a};
    client_t clients[DIALS] = {0};
    party_t accepted[DIALS];
    party_t dialled[DIALS];

    (void)state;
    zlink_log_set_level(ZLINK_LOG_OFF);
    for (size_t i = 0; i < DIALS; i++) {
        party_init(&accepted[i], 0);
        party_init(&dialled[i], 0);
        clients[i].options.tls = context_b;
    }
    server_open(&server, server_side, accepted, DIALS);
    stop_helper(context_b);
    for (size_t i = 0; i < DIALS; i++) {
        client_open(&clients[i], reactor, server.address, &dialled[i]);
        if (i == 0) { /* until the helper has it: it waits no more */
            fixture_wait_for(&server.accepted, 1);
            for (int tries = 0; tries < 1000 && zlink_counter_read(&zlink_counter_net_handshakes_waiting) > 0; tries++)
                nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
    }
    fixture_wait_for(&server.accepted, DIALS);
    const time_t until = time(NULL) + FIXTURE_PATIENCE_S;
    while (zlink_counter_read(&zlink_counter_net_handshakes_turned_away) == before && time(NULL) < until)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    free_helper();
    size_t opened = 0;
    size_t refused = 0;

    while (opened + refused < DIALS) {
        for (size_t i = 0; i < DIALS; i++) {
            opened += sem_trywait(&dialled[i].opened) == 0;
            if (sem_trywait(&dialled[i].closed) == 0) {
                refused++;
                assert_int_equal(dialled[i].status, ZLINK_CAPACITY_EXCEEDED);
                assert_non_null(strstr(dialled[i].reason, "turned away"));
            }
        }
        assert_true(time(NULL) < until);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_true(refused >= 1 && opened >= 2);
    assert_int_equal(zlink_counter_read(&zlink_counter_net_handshakes_turned_away) - before, refused);
    zlink_reactor_destroy(reactor);
    zlink_reactor_destroy(server_side);
    for (size_t i = 0; i < DIALS; i++) {
        party_release(&accepted[i]);
        party_release(&dialled[i]);
    }
    zlink_log_set_level(ZLINK_LOG_INFO);
}

static void connect_again_here(void *context)
{
    zlink_dialer_connect_now(((client_t *)context)->dialer);
}

/* A dialer's next connection goes on from its last session, and bytes that come right behind the handshake are not
 * lost. */
static void test_tls_stream_second_dial_is_resumed(void **state)
{
    const int64_t before = zlink_counter_read(&zlink_counter_net_handshakes_resumed);
    party_t accepted[2];
    party_t dialled;
    zlink_reactor_t *reactor = fixture_reactor(NULL);
    server_t server = {.options.tls = context_a};
    client_t client = {.options.tls = context_b};

    (void)state;
    party_init(&accepted[0], 64);
    party_init(&accepted[1], 64);
    party_init(&dialled, 64);
    server_open(&server, reactor, accepted, 2);
    client_open(&client, reactor, server.address, &dialled);
    for (size_t i = 0; i < 2; i++) {
        fixture_wait(&dialled.opened);
        assert_int_equal(party_write(reactor, &dialled, "secret", 6, false), ZLINK_OK);
        fixture_wait_for(&accepted[i].received, 6);
        assert_string_equal(accepted[i].identity, "mesh/node-b");
        assert_string_equal(dialled.identity, "mesh/node-a");
        assert_int_equal(zlink_counter_read(&zlink_counter_net_handshakes_resumed) - before, 2 * i);
        zlink_reactor_call(reactor, party_close_here, &dialled);
        fixture_wait(&dialled.closed);
        if (i == 0)
            zlink_reactor_call(reactor, connect_again_here, &client);
    }
    zlink_reactor_destroy(reactor);
    party_release(&accepted[0]);
    party_release(&accepted[1]);
    party_release(&dialled);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tls_stream_mutual_handshake_and_close_notify, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_h1_h18_tls_big_transfer_both_ways_is_intact, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tls_stream_seals_once_per_tick, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tr92_tr93_untrusted_peer_is_refused_with_a_reason, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tls_stream_garbage_and_silence, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tls_stream_cut_without_close_notify_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_h35_tls_final_bytes_arrive_before_the_close, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tls_stream_closed_while_a_helper_has_its_session, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tls_stream_too_many_handshakes_are_turned_away, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tls_stream_second_dial_is_resumed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tls_stream_leaves_no_connection_behind, set_up, tear_down),
    };

    return zlink_test_main(tests);
}
