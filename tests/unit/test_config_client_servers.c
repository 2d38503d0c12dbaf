/*
 * The `client_servers` of a configuration file.
 */
#include "harness.h"

#include <stdbool.h>
#include <string.h>

#include "base/memory.h"
#include "server/config/config.h"

/* Three lines that are a whole configuration; a case's own text follows on line 4. */
#define PLAIN "mesh: m\nname: a\ntransport: plain-without-encryption-or-authentication\n"
#define KEYS  "channel, role, listen, advertise, servers, weight, send_timeout"

static zlink_config_t *parse(const char *text)
{
    zlink_config_t *config = NULL;
    zlink_refusal_t why = {{0}};

    if (zlink_config_parse(text, strlen(text), "n.yaml", &config, &why) != ZLINK_OK)
        fail_msg("refused: %s", why.line);
    assert_non_null(config);
    return config;
}

/* `entries` is the list in one line; `line` is what comes behind "n.yaml:4: client_servers". */
static void assert_refused(const char *entries, const char *line)
{
    zlink_config_t *config = NULL;
    zlink_refusal_t why = {{0}};
    char text[1024], expected[512];

    snprintf(text, sizeof(text), PLAIN "client_servers: [%s]\n", entries);
    snprintf(expected, sizeof(expected), "n.yaml:4: client_servers%s", line);
    assert_int_equal(zlink_config_parse(text, strlen(text), "n.yaml", &config, &why), ZLINK_NOT_CONFIGURED);
    assert_null(config);
    /* What is missing stands on no line. */
    if (strstr(why.line, "n.yaml: ") == why.line)
        snprintf(expected, sizeof(expected), "n.yaml: client_servers%s", line);
    assert_string_equal(why.line, expected);
}

static void test_every_setting_arrives(void **state)
{
    zlink_config_t *config =
        parse(PLAIN "client_servers:\n"
                    "  - channel: prices\n    role: both\n    listen: 0.0.0.0:7000\n"
                    "    advertise: a.example.net:7000\n    weight: 7\n"
                    "    servers: [b@b.example.net:7000, 127.0.0.1:7001]\n"
                    "  - {channel: audit, role: client, servers: ['[::1]:7002'], send_timeout: 2147483647ms}\n"
                    "  - {channel: stock, role: server, listen: '127.0.0.1:0'}\n");
    const zlink_config_client_server_t *list = config->client_servers;

    (void)state;
    assert_int_equal(config->client_server_count, 3);
    assert_string_equal(list[0].channel, "prices");
    assert_true(list[0].client && list[0].server);
    assert_string_equal(list[0].listen, "0.0.0.0:7000");
    assert_string_equal(list[0].advertise, "a.example.net:7000");
    assert_int_equal(list[0].weight, 7);
    assert_int_equal(list[0].send_timeout_ms, 0); /* that of the node */
    assert_int_equal(list[1].send_timeout_ms, INT32_MAX);
    assert_int_equal(list[0].server_count, 2);
    assert_string_equal(list[0].servers[0], "b.example.net:7000");
    assert_string_equal(list[0].expected_servers[0], "b");
    assert_string_equal(list[0].servers[1], "127.0.0.1:7001");
    assert_null(list[0].expected_servers[1]);
    assert_true(list[1].client && !list[1].server);
    assert_null(list[1].listen);
    assert_string_equal(list[1].servers[0], "[::1]:7002");
    assert_true(!list[2].client && list[2].server);
    assert_null(list[2].advertise);
    assert_int_equal(list[2].weight, ZLINK_CONFIG_WEIGHT);
    assert_int_equal(list[2].server_count, 0);
    zlink_config_free(config);
    config = parse(PLAIN);
    assert_int_equal(config->client_server_count, 0);
    zlink_config_free(config);
}

/* TR-1, TR-2: a name has one topology. */
static void test_tr1_tr2_a_channel_of_two_topologies(void **state)
{
    zlink_config_t *config = NULL;
    zlink_refusal_t why = {{0}};
    const char *text = PLAIN "channels: [{name: b}, {name: c, role: client}]\n"
                             "client_servers: [{channel: c, role: client, servers: ['h:1']}]\n";

    (void)state;
    assert_int_equal(zlink_config_parse(text, strlen(text), "n.yaml", &config, &why), ZLINK_NOT_CONFIGURED);
    assert_string_equal(why.line,
                        "n.yaml:5: client_servers[0].channel: is a channel of the mesh, too: channels[1].name");
}

/* TR-3: both sides of a channel, in one entry or in two; neither twice. */
static void test_tr3_each_side_once(void **state)
{
    (void)state;
    zlink_config_free(parse(PLAIN "client_servers: [{channel: c, role: both, listen: 'h:0'}]\n"));
    zlink_config_free(parse(PLAIN "client_servers: [{channel: c, role: client}, "
                                  "{channel: c, role: server, listen: 'h:0'}, "
                                  "{channel: d, role: server, listen: 'h:0'}]\n"));
    assert_refused("{channel: c, role: server, listen: 'h:0'}, {channel: c, role: server, listen: 'h:0'}",
                   "[1].role: server: client_servers[0] of this channel is server already");
    assert_refused("{channel: c, role: client, servers: ['h:1']}, {channel: c, role: client, servers: ['h:2']}",
                   "[1].role: client: client_servers[0] of this channel is client already");
    assert_refused("{channel: c, role: both, listen: 'h:0'}, {channel: c, role: client}",
                   "[1].role: client: client_servers[0] of this channel is both already");
}

/* TR-4 and the rest: every bad value is one line with its key. */
static void test_tr4_bad_settings(void **state)
{
    (void)state;
    assert_refused("{role: client, servers: ['h:1']}", "[0].channel: is required");
    assert_refused("{channel: c, servers: ['h:1']}", "[0].role: is required");
    assert_refused("{channel: c, role: peer}", "[0].role: 'peer' is not one of client, server, both");
    assert_refused("{channel: c, role: client, port: 1}", "[0].port: no such key; there are " KEYS);
    assert_refused("{channel: c, role: client}", "[0].servers: is required for a client");
    assert_refused("{channel: c, role: server}", "[0].listen: is required for a server");
    assert_refused("{channel: c, role: client, servers: ['h:1'], listen: 'h:1'}",
                   "[0].listen: is given for a channel that this entry only calls");
    assert_refused("{channel: c, role: client, servers: ['h:1'], weight: 1}",
                   "[0].weight: is given for a channel that this entry only calls");
    assert_refused("{channel: c, role: client, servers: ['h:1'], advertise: 'h:1'}",
                   "[0].advertise: is given for a channel that this entry only calls");
    assert_refused("{channel: c, role: server, listen: 'h:1', servers: ['h:1']}",
                   "[0].servers: is given for a channel that this entry only serves");
    assert_refused("{channel: c, role: server, listen: 'h:1', weight: -1}", "[0].weight: '-1' is not a whole number");
    assert_refused("{channel: c, role: server, listen: 'h:1', weight: 10001}",
                   "[0].weight: '10001' is not between 0 and 10000");
    assert_refused("{channel: c, role: server, listen: h}", "[0].listen: 'h' is not an address of the form host:port");
    assert_refused("{channel: c, role: server, listen: '[::]:1'}",
                   "[0].listen: '[::]:1' takes calls on every address, so advertise must say which one to dial");
    assert_refused("{channel: c, role: server, listen: 'h:1', advertise: 'h:0'}",
                   "[0].advertise: 'h:0' has port 0, nobody can dial it");
    assert_refused("{channel: c, role: client, servers: ['0.0.0.0:1']}",
                   "[0].servers[0]: '0.0.0.0:1' is the address of every host, nobody can dial it");
    assert_refused("{channel: c, role: client, servers: ['h:1', 'H:1']}", "[0].servers[1]: is the same as servers[0]");
    assert_refused("{channel: c, role: client, servers: ['a b@h:1']}",
                   "[0].servers[0]: 'a b', before the '@', is neither a node's name nor a node id");
}

/* TR-63, EX-45: the send timeout of a channel is a time between 1 ms and 2^31 - 1 ms, and the client's. */
static void test_tr63_ex45_bad_send_timeouts(void **state)
{
    (void)state;
#define CLIENT "{channel: c, role: client, servers: ['h:1'], send_timeout: "
    assert_refused(CLIENT "0ms}", "[0].send_timeout: '0ms' is not between 1ms and 2147483647ms");
    assert_refused(CLIENT "-1s}", "[0].send_timeout: '-1s' is not a whole number with a unit (250ms, 5s, 2m)");
    assert_refused(CLIENT "infinite}",
                   "[0].send_timeout: 'infinite' is not a whole number with a unit (250ms, 5s, 2m)");
    assert_refused(CLIENT "2147483648ms}", "[0].send_timeout: '2147483648ms' is not between 1ms and 2147483647ms");
    assert_refused(CLIENT "2147484s}", "[0].send_timeout: '2147484s' is not between 1ms and 2147483647ms");
    assert_refused("{channel: c, role: server, listen: 'h:1', send_timeout: 1s}",
                   "[0].send_timeout: is given for a channel that this entry only serves");
}

static void test_no_failed_allocation_crashes_or_leaks(void **state)
{
    const char *text = PLAIN "client_servers: [{channel: c, role: both, listen: 'h:0', servers: ['a@h:1', 'h:2']}]\n";
    zlink_status_t status = ZLINK_CAPACITY_EXCEEDED;

    (void)state;
    for (int64_t n = 0; status != ZLINK_OK; n++) {
        zlink_config_t *config = NULL;
        zlink_refusal_t why = {{0}};
        assert_true(n < 10000);
        zlink_memory_fail_after(n);
        status = zlink_config_parse(text, strlen(text), "n.yaml", &config, &why);
        zlink_memory_fail_after(-1);
        assert_true(status == ZLINK_OK || status == ZLINK_CAPACITY_EXCEEDED);
        assert_true((status == ZLINK_OK) == (config != NULL));
        zlink_config_free(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_setting_arrives),
        cmocka_unit_test(test_tr1_tr2_a_channel_of_two_topologies),
        cmocka_unit_test(test_tr3_each_side_once),
        cmocka_unit_test(test_tr4_bad_settings),
        cmocka_unit_test(test_tr63_ex45_bad_send_timeouts),
        cmocka_unit_test(test_no_failed_allocation_crashes_or_leaks),
    };

    return zlink_test_main(tests);
}
