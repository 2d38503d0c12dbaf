/*
 * tests/unit/client_server_fixture.h: the sides of ClientServer channels, for the tests of that topology: whole meshes,
 * and raw peers that are a client or a server of "prices".
 */
#ifndef ZLINK_TESTS_UNIT_CLIENT_SERVER_FIXTURE_H
#define ZLINK_TESTS_UNIT_CLIENT_SERVER_FIXTURE_H

#include "mesh_fixture.h"
#include "raw_peer.h"

static raw_frame_t frame;
static const char *const prices[] = {"prices"};
static const uint32_t none[] = {0};

/* ---- sides ---- */

static inline void server_init(node_t *node, const char *name)
{
    node_init(node, name);
    node->options.topology = ZLINK_TOPOLOGY_CLIENT_SERVER;
    node->options.channels = prices;
    node->options.channel_count = 1;
}

static inline void client_init(node_t *node, const char *name, const char *const *servers, size_t count)
{
    server_init(node, name);
    node->options.role = ZLINK_ROLE_CLIENT;
    node->options.channel_weights = none;
    node->options.listen = NULL;
    node->options.peers = servers;
    node->options.peer_count = count;
}

static inline void both_init(pair_t *pair, bool virtual_time)
{
    virtual_clock_init(&pair->clock);
    pair->peers[0] = pair->server.address;
    server_init(&pair->server, "server");
    client_init(&pair->caller, "caller", pair->peers, 1);
    if (virtual_time)
        pair->server.clock = pair->caller.clock = &pair->clock.clock;
}

static inline zlink_wire_hello_t raw_side(const char *node_id, zlink_wire_role_t role, const char *channel)
{
    static zlink_wire_channel_t channels[1];
    zlink_wire_hello_t hello = raw_hello(node_id, ZLINK_CONNECTION_APPLICATION, 7);

    hello.topology = ZLINK_TOPOLOGY_CLIENT_SERVER;
    hello.role = role;
    channels[0].weight = role == ZLINK_ROLE_SERVER ? 100 : 0;
    snprintf(channels[0].name, sizeof(channels[0].name), "%s", channel);
    hello.channels = channels;
    return hello;
}

/* A client of "prices", admitted. */
static inline int raw_client(const char *address, int receive_bytes)
{
    const zlink_wire_hello_t hello = raw_side("raw" RAW_UUID, ZLINK_ROLE_CLIENT, "prices");
    int fd = raw_connect_slow(address, receive_bytes);

    raw_say(fd, ZLINK_FRAME_HELLO, &hello);
    raw_expect(fd, ZLINK_FRAME_ADMIT, &frame);
    return fd;
}

/* A server of "prices" that a node has dialled. */
static inline int raw_server(int listener, const char *node_id)
{
    zlink_wire_hello_t hello = raw_side(node_id, ZLINK_ROLE_SERVER, "prices"), client;
    zlink_wire_channel_t place[1];
    int fd = raw_accept(listener);

    raw_expect(fd, ZLINK_FRAME_HELLO, &frame);
    client = (zlink_wire_hello_t){.channels = place, .channel_capacity = 1};
    assert_int_equal(zlink_wire_hello_decode(frame.body, frame.prefix.envelope_bytes, &client, NULL), ZLINK_OK);
    assert_int_equal(client.topology, ZLINK_TOPOLOGY_CLIENT_SERVER);
    assert_int_equal(client.role, ZLINK_ROLE_CLIENT);
    assert_string_equal(place[0].name, "prices");
    hello.link_id = client.link_id;
    raw_say(fd, ZLINK_FRAME_ADMIT, &hello);
    return fd;
}

/* ---- helpers ---- */

static inline void raw_reply(int fd, uint64_t route, const char *text)
{
    zlink_wire_call_t names = {.target = {.kind = ZLINK_TARGET_NONE}, .packet = "tests.Raw"};
    uint8_t envelope[ZLINK_WIRE_SMALL_ENVELOPE_MAX];
    size_t size = 0;

    assert_int_equal(zlink_wire_call_encode(&names, envelope, sizeof(envelope), &size), ZLINK_OK);
    raw_send(fd, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_REPLY, .reply_route_id = route}, envelope, size, text,
             strlen(text));
}

static inline void raw_message(int fd, const char *channel, const void *payload, size_t payload_bytes)
{
    zlink_wire_call_t names = {.target = {.kind = ZLINK_TARGET_CHANNEL}, .packet = "tests.Raw"};
    uint8_t envelope[ZLINK_WIRE_SMALL_ENVELOPE_MAX];
    size_t size = 0;

    snprintf(names.target.name, sizeof(names.target.name), "%s", channel);
    assert_int_equal(zlink_wire_call_encode(&names, envelope, sizeof(envelope), &size), ZLINK_OK);
    raw_send(fd, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_SEND}, envelope, size, payload, payload_bytes);
}

static inline void raw_number(int fd, zlink_frame_kind_t kind, uint64_t number)
{
    raw_send(fd, (zlink_frame_prefix_t){.kind = (uint8_t)kind, .reply_route_id = number}, NULL, 0, NULL, 0);
}

/* ---- a client whose server admits nobody before the test does ---- */

typedef struct lonely {
    virtual_clock_t clock;
    node_t client;
    const char *servers[1];
    char address[64];
    int listener; /* of a server that admits nobody before the test does */
} lonely_t;

static inline void lonely_start(lonely_t *lonely)
{
    virtual_clock_init(&lonely->clock);
    lonely->listener = raw_listen(lonely->address);
    lonely->servers[0] = lonely->address;
    client_init(&lonely->client, "client", lonely->servers, 1);
    lonely->client.clock = &lonely->clock.clock;
    node_start(&lonely->client);
}

static inline void lonely_stop(lonely_t *lonely)
{
    close(lonely->listener);
    node_stop(&lonely->client);
}

#endif
