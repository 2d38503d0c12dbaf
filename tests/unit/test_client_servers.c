/*
 * A node's sides of ClientServer channels, made from a configuration: all of them or none.
 */
#include "mesh_fixture.h"

#include "base/memory.h"
#include "server/client_server/client_servers.h"

#define PLAIN "mesh: unit\nname: here\ntransport: plain-without-encryption-or-authentication\n"

typedef struct place {
    zlink_reactor_t *reactor;
    zlink_config_t *config;
    zlink_node_identity_t identity;
    zlink_mesh_options_t base;
    zlink_client_servers_t *servers;
    zlink_status_t status;
    zlink_refusal_t why;
    sem_t closed;
    _Atomic size_t ready;
} place_t;

static void link_ready(void *context, zlink_peer_link_t *link)
{
    place_t *place = context;

    assert(zlink_client_servers_find_link(place->servers, link->number) == link);
    atomic_fetch_add(&place->ready, 1);
}

static zlink_frame_verdict_t arrived(void *context, const zlink_mesh_arrival_t *arrival)
{
    (void)context;
    zlink_peer_link_reply(arrival->link, arrival->reply_route_id, ZLINK_OK, "tests.Echo", arrival->payload,
                          arrival->payload_bytes);
    return ZLINK_FRAME_TAKEN;
}

static void place_init(place_t *place, const char *text)
{
    memset(place, 0, sizeof(*place));
    sem_init(&place->closed, 0, 0);
    assert_int_equal(zlink_node_identity_make(&place->identity, "unit", "here"), ZLINK_OK);
    if (zlink_config_parse(text, strlen(text), "n.yaml", &place->config, &place->why) != ZLINK_OK)
        fail_msg("%s", place->why.line);
    place->reactor = fixture_reactor(NULL);
    place->base = (zlink_mesh_options_t){
        .reactor = place->reactor,
        .identity = &place->identity,
        .max_body_bytes = 1u << 20,
        .outbound_bytes = 1u << 20,
        .pending_max = 16,
        .events = {.arrived = arrived, .link_ready = link_ready, .context = place},
    };
}

static void open_here(void *context)
{
    place_t *place = context;

    place->status = zlink_client_servers_open(place->config, &place->base, &place->servers, &place->why);
}

static void closed(void *context)
{
    sem_post(&((place_t *)context)->closed);
}

static void close_here(void *context)
{
    place_t *place = context;

    zlink_client_servers_drain(place->servers);
    zlink_client_servers_close(place->servers, closed, place);
}

static void destroy_here(void *context)
{
    place_t *place = context;

    zlink_client_servers_destroy(place->servers);
    place->servers = NULL;
}

static void place_close(place_t *place)
{
    zlink_reactor_call(place->reactor, close_here, place);
    fixture_wait(&place->closed);
    zlink_reactor_call(place->reactor, destroy_here, place);
}

static void place_release(place_t *place)
{
    zlink_reactor_destroy(place->reactor);
    zlink_config_free(place->config);
    sem_destroy(&place->closed);
}

/* TR-3, TR-37: each side is found by its role; a client dials the server of its own process, also one that listens
 * everywhere, and is answered by it. */
static void test_tr3_tr37_sides_of_one_process(void **state)
{
    test_call_t call;
    place_t place;
    node_t caller;

    (void)state;
    place_init(&place, PLAIN "client_servers:\n"
                             "  - {channel: a, role: both, listen: '0.0.0.0:0', advertise: 'h:1'}\n"
                             "  - {channel: b, role: client, servers: ['127.0.0.1:1']}\n"
                             "  - {channel: c, role: server, listen: '127.0.0.1:0'}\n"
                             "  - {channel: c, role: client}\n");
    zlink_reactor_call(place.reactor, open_here, &place);
    if (place.status != ZLINK_OK)
        fail_msg("%s", place.why.line);
    assert_int_equal(zlink_client_servers_count(place.servers), 5);
    fixture_wait_for(&place.ready, 4);
    for (size_t i = 0; i < 5; i++) {
        const zlink_client_server_side_t *side = zlink_client_servers_at(place.servers, i);
        assert_int_equal(side->role, i < 2 ? ZLINK_ROLE_SERVER : ZLINK_ROLE_CLIENT); /* servers come first */
        assert_ptr_equal(zlink_client_servers_find(place.servers, side->config->channel, side->role), side->mesh);
    }
    assert_null(zlink_client_servers_find(place.servers, "b", ZLINK_ROLE_SERVER));
    assert_null(zlink_client_servers_find(place.servers, "d", ZLINK_ROLE_CLIENT));
    assert_null(zlink_client_servers_find_link(place.servers, 1));

    memset(&caller, 0, sizeof(caller));
    caller.reactor = place.reactor;
    caller.clock = &zlink_clock_system;
    for (size_t i = 0; i < 2; i++) {
        test_call_init(&call, &caller, i == 0 ? "a" : "c", "x");
        zlink_mesh_submit(zlink_client_servers_find(place.servers, call.call.name, ZLINK_ROLE_CLIENT), &call.call);
        assert_int_equal(test_call_wait(&call), ZLINK_OK);
        test_call_release(&call);
    }
    place_close(&place);
    place_release(&place);
}

/* A port in use is a line with its key, and leaves nothing. */
static void test_a_port_in_use_is_refused(void **state)
{
    char text[512];
    place_t first, second;

    (void)state;
    place_init(&first, PLAIN "client_servers: [{channel: a, role: server, listen: '127.0.0.1:0'}]\n");
    zlink_reactor_call(first.reactor, open_here, &first);
    assert_int_equal(first.status, ZLINK_OK);
    const char *taken = zlink_mesh_address(zlink_client_servers_at(first.servers, 0)->mesh);
    snprintf(text, sizeof(text),
             PLAIN "client_servers: [{channel: a, role: both, listen: '127.0.0.1:0'}, "
                   "{channel: b, role: server, listen: '%s'}]\n",
             taken);
    place_init(&second, text);
    zlink_reactor_call(second.reactor, open_here, &second);
    assert_int_equal(second.status, ZLINK_ALREADY_EXISTS);
    assert_non_null(strstr(second.why.line, "client_servers[1].listen: "));
    assert_non_null(strstr(second.why.line, taken));
    assert_null(second.servers);
    place_release(&second);
    place_close(&first);
    place_release(&first);
}

static void test_no_failed_allocation_leaves_anything(void **state)
{
    size_t refused = 0;
    place_t place;

    (void)state;
    place_init(&place, PLAIN "client_servers: [{channel: a, role: both, listen: '127.0.0.1:0'}]\n");
    for (int64_t n = 0; n < 60; n++) {
        zlink_memory_fail_after(n);
        zlink_reactor_call(place.reactor, open_here, &place);
        zlink_memory_fail_after(-1);
        if (place.status == ZLINK_OK) {
            place_close(&place);
        } else {
            assert_non_null(strstr(place.why.line, "client_servers"));
            assert_null(place.servers);
            refused++;
        }
    }
    assert_in_range(refused, 10, 59);
    place_release(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tr3_tr37_sides_of_one_process),
        cmocka_unit_test(test_a_port_in_use_is_refused),
        cmocka_unit_test(test_no_failed_allocation_leaves_anything),
    };
    zlink_log_set_level(ZLINK_LOG_OFF);
    return zlink_test_main(tests);
}
