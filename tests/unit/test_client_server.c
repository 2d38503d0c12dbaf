/*
 * ClientServer: who is admitted to a channel, who calls whom and whose turn it is, and waiting for a ready server.
 */
#include "client_server_fixture.h"

#include <sched.h>

#include "server/client_server/unready_calls.h"

/* ---- helpers ---- */

typedef struct unready_look {
    node_t *node;
    size_t count;
} unready_look_t;

static void unready_here(void *context)
{
    unready_look_t *look = context;

    look->count = look->node->mesh->unready_count;
}

static size_t unready_of(node_t *node)
{
    unready_look_t look = {.node = node};

    zlink_reactor_call(node->reactor, unready_here, &look); /* behind what was submitted before */
    return look.count;
}

static void weigh_300(void *context)
{
    assert_int_equal(zlink_mesh_set_weight(((node_t *)context)->mesh, "prices", 300), ZLINK_OK);
}

static void weigh_0(void *context)
{
    assert_int_equal(zlink_mesh_set_weight(((node_t *)context)->mesh, "prices", 0), ZLINK_OK);
}

/* ---- the link ---- */

/* TR-8: a pair has one connection, which carries the call and its reply. */
static void test_tr8_one_connection_for_a_pair(void **state)
{
    pair_t pair;

    (void)state;
    both_init(&pair, false);
    pair_start(&pair);
    for (int i = 0; i < 3; i++)
        assert_int_equal(node_ask(&pair.caller, "prices", "x"), ZLINK_OK);
    assert_int_equal(node_look(&pair.caller).ends, 1);
    assert_int_equal(node_look(&pair.server).ends, 1);
    assert_int_equal(node_look(&pair.server).links, 1);
    pair_stop(&pair);
}

/* ---- admission ---- */

static void rejected(const char *address, const zlink_wire_hello_t *hello, zlink_reject_code_t code)
{
    int fd = raw_connect(address);

    raw_say(fd, ZLINK_FRAME_HELLO, hello);
    raw_expect_reject(fd, code);
}

/* TR-14, TR-15: another topology, channel or side is rejected before anything is heard; so is a call instead of HELLO.
 */
static void test_tr14_tr15_who_is_not_admitted(void **state)
{
    zlink_wire_hello_t hello;
    virtual_clock_t clock;
    node_t server, mesh;

    (void)state;
    virtual_clock_init(&clock);
    server_init(&server, "server");
    server.clock = &clock.clock;
    node_start(&server);
    node_init(&mesh, "mesh");
    mesh.clock = &clock.clock;
    node_start(&mesh);
    hello = raw_hello("raw" RAW_UUID, ZLINK_CONNECTION_APPLICATION, 7);
    rejected(server.address, &hello, ZLINK_REJECT_TOPOLOGY);
    hello = raw_side("raw" RAW_UUID, ZLINK_ROLE_CLIENT, "prices");
    rejected(mesh.address, &hello, ZLINK_REJECT_TOPOLOGY);
    hello = raw_side("raw" RAW_UUID, ZLINK_ROLE_CLIENT, "others");
    rejected(server.address, &hello, ZLINK_REJECT_CHANNEL);
    hello = raw_side("raw" RAW_UUID, ZLINK_ROLE_SERVER, "prices");
    rejected(server.address, &hello, ZLINK_REJECT_CHANNEL);
    int fd = raw_connect(server.address);
    raw_request(fd, 1, "too early");
    raw_expect_end(fd);
    assert_int_equal(atomic_load(&server.requests), 0);
    node_stop(&server);
    node_stop(&mesh);
}

/* TR-29: the same HELLO again changes nothing, another one ends the link. */
static void test_tr29_hello_again(void **state)
{
    zlink_wire_hello_t hello = raw_side("raw" RAW_UUID, ZLINK_ROLE_CLIENT, "prices");
    virtual_clock_t clock;
    node_t server;

    (void)state;
    virtual_clock_init(&clock);
    server_init(&server, "server");
    server.clock = &clock.clock;
    node_start(&server);
    int fd = raw_client(server.address, 0);
    raw_say(fd, ZLINK_FRAME_HELLO, &hello);
    raw_request(fd, 1, "still there");
    raw_expect_call(fd, ZLINK_FRAME_REPLY, &frame);
    assert_int_equal(node_look(&server).links, 1);
    hello.generation++;
    raw_say(fd, ZLINK_FRAME_HELLO, &hello);
    raw_expect_end(fd);
    node_stop(&server);
}

/* ---- who calls whom ---- */

/* TR-40: a server that calls, one-way or not, or cancels, loses its connection, and nothing reaches a handler. */
static void test_tr40_a_server_that_calls(void **state)
{
    const char *servers[1];
    virtual_clock_t clock;
    char address[64];
    node_t client;

    (void)state;
    virtual_clock_init(&clock);
    int listener = raw_listen(address);
    servers[0] = address;
    client_init(&client, "client", servers, 1);
    client.clock = &clock.clock;
    node_start(&client);
    for (size_t round = 0; round < 3; round++) {
        int fd = raw_server(listener, "raw" RAW_UUID);
        fixture_wait_for(&client.ready, round + 1);
        if (round == 0)
            raw_message(fd, "prices", "unasked", 7);
        else if (round == 1)
            raw_request(fd, 1, "unasked");
        else
            raw_number(fd, ZLINK_FRAME_CANCEL, 1);
        fixture_wait_for(&client.lost, round + 1);
        assert_non_null(strstr(node_read(&client)->reason, "from a server"));
        raw_expect_end(fd);
        node_wait_ends(&client, 0);
        while (round < 2 && node_look(&client).ends == 0)
            virtual_clock_advance(&clock, client.reactor, 50); /* it dials again */
    }
    assert_int_equal(atomic_load(&client.requests) + atomic_load(&client.messages), 0);
    close(listener);
    node_stop(&client);
}

/* A client does not answer, and calls nothing but its channel. */
static void test_tr40_a_client_that_does_not_keep_to_its_side(void **state)
{
    virtual_clock_t clock;
    node_t server;

    (void)state;
    virtual_clock_init(&clock);
    server_init(&server, "server");
    server.clock = &clock.clock;
    node_start(&server);
    for (int round = 0; round < 4; round++) {
        int fd = raw_client(server.address, 0);
        raw_update(fd, 6, true, "prices", 0);
        if (round == 0)
            raw_error(fd, 1, ZLINK_REJECTED);
        else if (round == 3)
            raw_update(fd, 7, false, "prices", 1);
        else if (round == 1)
            raw_reply(fd, 1, "unasked");
        else
            raw_message(fd, "others", "x", 1);
        raw_expect_end(fd);
    }
    assert_int_equal(atomic_load(&server.messages), 0);
    node_stop(&server);
}

/* ---- who is called ---- */

/* Two servers and a client of both. */
typedef struct three {
    node_t a, b, client;
    const char *servers[2];
} three_t;

static void three_start(three_t *three)
{
    server_init(&three->a, "a");
    server_init(&three->b, "b");
    three->servers[0] = three->a.address;
    three->servers[1] = three->b.address;
    client_init(&three->client, "client", three->servers, 2);
    node_start(&three->a);
    node_start(&three->b);
    node_start(&three->client);
    node_wait_links(&three->client, 2);
}

static void three_stop(three_t *three)
{
    node_stop(&three->client);
    node_stop(&three->a);
    node_stop(&three->b);
}

/* Until the client has been told of a change that leaves it so many servers. */
static void wait_members(node_t *client, size_t members)
{
    const time_t until = time(NULL) + FIXTURE_PATIENCE_S;

    while (atomic_load(&client->members) != members) {
        if (time(NULL) > until)
            fail_msg("waited for %zu servers, got %zu", members, atomic_load(&client->members));
        sched_yield();
    }
}

/* TR-28, TR-33, TR-36: servers take turns by their weights, as they are now; weight 0 and draining get nothing, and
 * then a call waits for somebody. */
static void test_tr28_tr33_tr36_weights(void **state)
{
    three_t three;
    test_call_t call;

    (void)state;
    three_start(&three);
    for (int i = 0; i < 8; i++)
        assert_int_equal(node_ask(&three.client, "prices", "x"), ZLINK_OK);
    assert_int_equal(atomic_load(&three.a.requests), 4);
    atomic_store(&three.client.members, 99);
    zlink_reactor_call(three.b.reactor, weigh_300, &three.b);
    wait_members(&three.client, 2);
    for (int i = 0; i < 8; i++)
        assert_int_equal(node_ask(&three.client, "prices", "x"), ZLINK_OK);
    assert_int_equal(atomic_load(&three.a.requests), 6);
    assert_int_equal(atomic_load(&three.b.requests), 10);

    zlink_reactor_call(three.b.reactor, weigh_0, &three.b);
    wait_members(&three.client, 1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(node_ask(&three.client, "prices", "x"), ZLINK_OK);
    assert_int_equal(atomic_load(&three.b.requests), 10);
    zlink_reactor_call(three.a.reactor, node_drain_here, &three.a);
    wait_members(&three.client, 0);
    test_call_init(&call, &three.client, "prices", "waits");
    test_call_submit(&call);
    assert_int_equal(unready_of(&three.client), 1);
    zlink_reactor_call(three.b.reactor, weigh_300, &three.b);
    assert_int_equal(test_call_wait(&call), ZLINK_OK);
    assert_int_equal(atomic_load(&three.b.requests), 11);
    test_call_release(&call);
    three_stop(&three);
}

/* TR-37: the server of the same process is reached like any other, but not by a handler that keeps it busy. */
static void test_tr37_the_own_server(void **state)
{
    test_call_t call;
    pair_t pair;

    (void)state;
    both_init(&pair, false);
    pair.caller.identity = pair.server.identity;
    pair_start(&pair);
    assert_int_equal(node_ask(&pair.caller, "prices", "x"), ZLINK_OK);
    assert_int_equal(atomic_load(&pair.server.requests), 1);
    assert_int_equal(atomic_load(&pair.caller.picked), 0);
    test_call_init(&call, &pair.caller, "prices", "x");
    call.call.exclude_local = true;
    test_call_submit(&call);
    assert_int_equal(test_call_wait(&call), ZLINK_INVALID_OPERATION);
    test_call_release(&call);
    assert_int_equal(atomic_load(&pair.server.requests), 1);
    pair_stop(&pair);
}

/* ---- before a server is ready ---- */

/* TR-39: calls that are made before a server is ready go to it in their order as soon as it is. */
static void test_tr39_calls_wait_for_a_ready_server(void **state)
{
    test_call_t first, second;
    lonely_t lonely;

    (void)state;
    lonely_start(&lonely);
    test_call_init(&first, &lonely.client, "prices", "first");
    test_call_init(&second, &lonely.client, "prices", "second");
    first.call.one_way = true;
    test_call_submit(&first);
    test_call_submit(&second);
    assert_int_equal(unready_of(&lonely.client), 2);
    int fd = raw_server(lonely.listener, "raw" RAW_UUID);
    raw_expect_call(fd, ZLINK_FRAME_SEND, &frame);
    raw_expect_call(fd, ZLINK_FRAME_REQUEST, &frame);
    assert_in_range(frame.prefix.deadline_ms, 29000, 30000); /* its own time, not the 5 s */
    raw_reply(fd, frame.prefix.reply_route_id, "here");
    assert_int_equal(test_call_wait(&first), ZLINK_OK);
    assert_int_equal(test_call_wait(&second), ZLINK_OK);
    assert_memory_equal(second.answer, "here", 4);
    assert_int_equal(unready_of(&lonely.client), 0);
    test_call_release(&first);
    test_call_release(&second);
    close(fd);
    lonely_stop(&lonely);
}

/* TR-39: for the shorter of its own time and 5 s; then it is over, once. */
static void test_tr39_no_longer_than_5_s_or_its_time(void **state)
{
    test_call_t hasty, patient;
    lonely_t lonely;

    (void)state;
    lonely_start(&lonely);
    test_call_init(&hasty, &lonely.client, "prices", "x");
    test_call_init(&patient, &lonely.client, "prices", "x");
    hasty.call.deadline_ms = zlink_clock_now_ms(lonely.client.clock) + 1000;
    test_call_submit(&hasty);
    test_call_submit(&patient);
    assert_int_equal(unready_of(&lonely.client), 2);
    virtual_clock_advance(&lonely.clock, lonely.client.reactor, 999);
    assert_int_equal(unready_of(&lonely.client), 2);
    virtual_clock_advance(&lonely.clock, lonely.client.reactor, 1);
    assert_int_equal(test_call_wait(&hasty), ZLINK_DEADLINE_EXCEEDED);
    virtual_clock_advance(&lonely.clock, lonely.client.reactor, 3999);
    assert_int_equal(unready_of(&lonely.client), 1);
    virtual_clock_advance(&lonely.clock, lonely.client.reactor, 1);
    assert_int_equal(test_call_wait(&patient), ZLINK_DEADLINE_EXCEEDED);
    test_call_release(&hasty);
    test_call_release(&patient);
    lonely_stop(&lonely);
}

static void nothing(zlink_outbound_call_t *call)
{
    (void)call;
}

/* TR-39: one that waits is given up, or ends with its node; beyond 1,024 there is no place to wait (EX-43). */
static void test_tr39_ex43_ends_of_calls_that_wait(void **state)
{
    static test_call_t calls[ZLINK_UNREADY_CALLS_MAX + 1];
    const size_t count = ZLINK_UNREADY_CALLS_MAX;
    lonely_t lonely;

    (void)state;
    lonely_start(&lonely);
    for (size_t i = 0; i <= count; i++) {
        test_call_init(&calls[i], &lonely.client, "prices", "x");
        calls[i].call.hold = calls[i].call.release = nothing;
        test_call_submit(&calls[i]);
    }
    assert_int_equal(test_call_wait(&calls[count]), ZLINK_DEADLINE_EXCEEDED);
    zlink_mesh_cancel(lonely.client.mesh, &calls[0].call);
    assert_int_equal(test_call_wait(&calls[0]), ZLINK_CANCELLED);
    assert_int_equal(unready_of(&lonely.client), count - 1);
    lonely_stop(&lonely);
    for (size_t i = 1; i < count; i++)
        assert_int_equal(test_call_wait(&calls[i]), ZLINK_SHUTTING_DOWN);
    for (size_t i = 0; i <= count; i++)
        test_call_release(&calls[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tr8_one_connection_for_a_pair),
        cmocka_unit_test(test_tr14_tr15_who_is_not_admitted),
        cmocka_unit_test(test_tr29_hello_again),
        cmocka_unit_test(test_tr40_a_server_that_calls),
        cmocka_unit_test(test_tr40_a_client_that_does_not_keep_to_its_side),
        cmocka_unit_test(test_tr28_tr33_tr36_weights),
        cmocka_unit_test(test_tr37_the_own_server),
        cmocka_unit_test(test_tr39_calls_wait_for_a_ready_server),
        cmocka_unit_test(test_tr39_no_longer_than_5_s_or_its_time),
        cmocka_unit_test(test_tr39_ex43_ends_of_calls_that_wait),
    };
    zlink_log_set_level(ZLINK_LOG_OFF);
    return zlink_test_main(tests);
}
