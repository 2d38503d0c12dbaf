#include "harness.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "server/config/config.h"

#define COUNT_OF(ARRAY) (sizeof(ARRAY) / sizeof((ARRAY)[0]))

/* Three lines that are a whole configuration; a case's own text follows on line 4. */
#define PLAIN "mesh: m\nname: a\ntransport: plain-without-encryption-or-authentication\n"
#define ROOT_KEYS                                                                                                      \
    "mesh, name, listen, advertise, control, modules, peers, object_role, channels, client_servers, spots, "           \
    "transport, tls, workers, "                                                                                        \
    "cpu_workers_min, "                                                                                                \
    "cpu_workers_max, cpu_workers_idle, request_timeout, send_timeout, shutdown_timeout, owner_time_budget, limits, "  \
    "log"

static zlink_config_t *parse(const char *text)
{
    zlink_config_t *config = NULL;
    zlink_refusal_t why = {{0}};

    if (zlink_config_parse(text, strlen(text), "n.yaml", &config, &why) != ZLINK_OK)
        fail_msg("refused: %s", why.line);
    assert_non_null(config);
    return config;
}

static void assert_refused(const char *text, const char *line)
{
    zlink_config_t *config = NULL;
    zlink_refusal_t why = {{0}};

    assert_int_equal(zlink_config_parse(text, strlen(text), "n.yaml", &config, &why), ZLINK_NOT_CONFIGURED);
    assert_null(config);
    assert_string_equal(why.line, line);
}

/* Texts that have no good beginning: each whole, with its whole line. */
static void test_every_malformed_text_is_refused_in_one_line(void **state)
{
    static const struct {
        const char *text;
        const char *line;
    } cases[] = {
        {"", "n.yaml: is empty"},
        {"\n\n# nothing\n", "n.yaml: is empty"},
        {"---\n", "n.yaml:2: must hold 'key: value' lines"},
        {"just words", "n.yaml:1: must hold 'key: value' lines"},
        {"- a\n- b\n", "n.yaml:1: must hold 'key: value' lines"},
        {"mesh: m\n", "n.yaml: name: is required"},
        {"name: a\n", "n.yaml: mesh: is required"},
        {"mesh: m\nname: a\n", "n.yaml: tls: is required, with ca, certificate and key"},
        {"mesh: m\nname: a\ntls: {ca: a, key: b}\n", "n.yaml: tls.certificate: is required"},
        {"mesh: m\n\tname: a\n", "n.yaml:2: is not YAML: found a tab character that violates indentation"},
        {"log:\n\tlevel: off\n", "n.yaml:2: is not YAML: found character that cannot start any token (a tab?)"},
        {"mesh: m\nname: a\npeers: [a\n", "n.yaml:4: is not YAML: did not find expected ',' or ']'"},
        {"mesh: m\nname: \"a\n", "n.yaml:3: is not YAML: found unexpected end of stream"},
        {"mesh: m\n name: a\n", "n.yaml:2: is not YAML: mapping values are not allowed in this context"},
        {"\x01\x02\x03", "n.yaml: is not a YAML text: byte 0: control characters are not allowed"},
        {"mesh: \xff\xfe\n", "n.yaml: is not a YAML text: byte 6: invalid leading UTF-8 octet"},
        {PLAIN "---\nmesh: m\n", "n.yaml:4: holds a second document"},
        {"mesh: &x m\nname: *x\n", "n.yaml:2: name: aliases (*name) are not supported"},
        {"mesh: !!str m\nname: a\n", "n.yaml:1: mesh: tags (!name) are not supported"},
        {"!x\nmesh: m\nname: a\n", "n.yaml:1: tags (!name) are not supported"},
        {"[a]: m\n", "n.yaml:1: must be one value"},
        {"<<: {mesh: m}\n", "n.yaml:1: <<: no such key; there are " ROOT_KEYS},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_refused(cases[i].text, cases[i].line);
}

/* What follows three good lines, and the line that refuses it. */
static void test_every_bad_setting_is_refused_with_its_key_and_line(void **state)
{
    static const struct {
        const char *text;
        const char *line;
    } cases[] = {
        {"colour: red\n", "n.yaml:4: colour: no such key; there are " ROOT_KEYS},
        {"Mesh: m\n", "n.yaml:4: Mesh: no such key; there are " ROOT_KEYS},
        {"name: b\n", "n.yaml:4: name: stands here a second time"},
        {"limits:\n  spots: 1\n  spots: 2\n", "n.yaml:6: limits.spots: stands here a second time"},
        {"log:\n  level: info\n  file: x\n", "n.yaml:6: log.file: no such key; there are level"},
        {"spots:\n  - type: t\n    nod: b\n", "n.yaml:6: spots[0].nod: no such key; there are type, node"},
        {"spots:\n  - type: t\n", "n.yaml: spots[0].node: is required"},
        {"listen:\n", "n.yaml:4: listen: must not be empty"},
        {"listen: ''\n", "n.yaml:4: listen: must not be empty"},
        {"listen: [a]\n", "n.yaml:4: listen: must be one value"},
        {"listen: {a: b}\n", "n.yaml:4: listen: must be one value"},
        {"listen: \"a\\nb:1\"\n", "n.yaml:4: listen: holds a control character"},
        {"listen: \"a\\0:1\"\n", "n.yaml:4: listen: holds a control character"},
        {"listen: 7700\n", "n.yaml:4: listen: '7700' is not an address of the form host:port"},
        {"listen: null\n", "n.yaml:4: listen: 'null' is not an address of the form host:port"},
        {"listen: 0.0.0.0:1\n", "n.yaml:4: listen: '0.0.0.0:1' takes calls on every address, so advertise must say "
                                "which one to dial"},
        {"listen: '[::]:0'\n", "n.yaml:4: listen: '[::]:0' takes calls on every address, so advertise must say which "
                               "one to dial"},
        {"advertise: a:1\n", "n.yaml:4: advertise: is given without listen"},
        {"listen: a:0\nadvertise: 0.0.0.0:1\n",
         "n.yaml:5: advertise: '0.0.0.0:1' is the address of every host, nobody can dial it"},
        {"listen: a:0\nadvertise: a:0\n", "n.yaml:5: advertise: 'a:0' has port 0, nobody can dial it"},
        {"modules:\n", "n.yaml:4: modules: must be a list"},
        {"modules: x.so\n", "n.yaml:4: modules: must be a list"},
        {"modules:\n  - a.so\n  - ''\n", "n.yaml:6: modules[1]: must not be empty"},
        {"modules:\n  - a.so\n  - b.so\n  - a.so\n", "n.yaml:7: modules[2]: is the same as modules[0]"},
        {"modules: [[a]]\n", "n.yaml:4: modules[0]: must be one value"},
        {"peers:\n  - b:1\n  - c\n", "n.yaml:6: peers[1]: 'c' is not an address of the form host:port"},
        {"peers: ['b:1', 'c:1', 'B:1']\n", "n.yaml:4: peers[2]: is the same as peers[0]"},
        {"peers: ['b:0']\n", "n.yaml:4: peers[0]: 'b:0' has port 0, nobody can dial it"},
        {"spots: [{type: t, node: b}, {type: t, node: c}]\n", "n.yaml:4: spots[1].type: is the same as spots[0].type"},
        {"spots: [{type: t, node: a b}]\n",
         "n.yaml:4: spots[0].node: 'a b' is not a name of 1 to 64 letters, digits, '.', '_' or '-'"},
        {"tls: {ca: a, certificate: b, key: c}\n", "n.yaml:4: tls: is given, but transport asks for plain connections"},
        {"tls: true\n", "n.yaml:4: tls: must hold 'key: value' lines"},
        {"workers: -1\n", "n.yaml:4: workers: '-1' is not a whole number"},
        {"workers: 1025\n", "n.yaml:4: workers: '1025' is not between 0 and 1024"},
        {"workers: 080\n", "n.yaml:4: workers: '080' is not a whole number"},
        {"workers: maybe\n", "n.yaml:4: workers: 'maybe' is not a whole number"},
        {"cpu_workers_max: 1025\n", "n.yaml:4: cpu_workers_max: '1025' is not between 0 and 1024"},
        {"cpu_workers_idle: 0ms\n", "n.yaml:4: cpu_workers_idle: '0ms' is not between 1ms and 2147483647ms"},
        {"cpu_workers_max: 2\ncpu_workers_min: 3\n",
         "n.yaml:5: cpu_workers_min: 3 are more than cpu_workers_max allows (2)"},
        {"request_timeout: 30\n", "n.yaml:4: request_timeout: '30' has no unit (250ms, 5s, 2m)"},
        {"request_timeout: 0ms\n", "n.yaml:4: request_timeout: '0ms' is not between 1ms and 2147483647ms"},
        {"send_timeout: 1h\n", "n.yaml:4: send_timeout: '1h' has an unknown unit (250ms, 5s, 2m)"},
        {"shutdown_timeout: 36000m\n", "n.yaml:4: shutdown_timeout: '36000m' is not between 1ms and 2147483647ms"},
        {"owner_time_budget: 11s\n", "n.yaml:4: owner_time_budget: '11s' is not between 1ms and 10s"},
        {"limits: {message_bytes: 16MB}\n",
         "n.yaml:4: limits.message_bytes: '16MB' has an unknown unit (512B, 64KiB, 16MiB, 1GiB)"},
        {"limits:\n  message_bytes: 2GiB\n", "n.yaml:5: limits.message_bytes: '2GiB' is not between 1KiB and 1GiB"},
        {"limits:\n  spots: 0\n", "n.yaml:5: limits.spots: '0' is not between 1 and 100000000"},
        {"limits:\n  pending_operations: 0\n",
         "n.yaml:5: limits.pending_operations: '0' is not between 1 and 16777216"},
        {"limits:\n  max_queued_application_jobs: 1e3\n",
         "n.yaml:5: limits.max_queued_application_jobs: '1e3' is not a whole number"},
        {"limits:\n  max_queued_application_jobs: 0\n",
         "n.yaml:5: limits.max_queued_application_jobs: '0' is not between 1 and 2147483647"},
        {"limits:\n  max_queued_application_jobs: 2147483648\n",
         "n.yaml:5: limits.max_queued_application_jobs: '2147483648' is not between 1 and 2147483647"},
        {"limits:\n  application_job_queue_profile: fast\n", "n.yaml:5: limits.application_job_queue_profile: 'fast' "
                                                             "is none of compact, low_latency, balanced, throughput"},
        {"limits:\n  pause_percent: 0\n", "n.yaml:5: limits.pause_percent: '0' is not between 1 and 100"},
        {"limits:\n  pause_percent: 101\n", "n.yaml:5: limits.pause_percent: '101' is not between 1 and 100"},
        {"limits:\n  resume_percent: 100\n", "n.yaml:5: limits.resume_percent: '100' is not between 0 and 99"},
        {"limits:\n  resume_percent: 80\n",
         "n.yaml:5: limits.resume_percent: 80 is not less than limits.pause_percent (80)"},
        {"limits:\n  stacks: -1\n", "n.yaml:5: limits.stacks: '-1' is not a whole number"},
        {"limits:\n  stack_bytes: 8KiB\n", "n.yaml:5: limits.stack_bytes: '8KiB' is not between 16KiB and 8MiB"},
        {"limits:\n  outbound_bytes: 0B\n", "n.yaml:5: limits.outbound_bytes: '0B' is not between 64KiB and 2GiB"},
        {"limits:\n  inbound_bytes: 3GiB\n", "n.yaml:5: limits.inbound_bytes: '3GiB' is not between 64KiB and 2GiB"},
        {"limits:\n  outbound_bytes: 1KiB\n", "n.yaml:5: limits.outbound_bytes: '1KiB' is not between 64KiB and 2GiB"},
        {"limits:\n  connections: 1\n", "n.yaml:5: limits.connections: '1' is not between 2 and 4194304"},
        {"limits:\n  connections_per_address: 0\n",
         "n.yaml:5: limits.connections_per_address: '0' is not between 2 and 4194304"},
        {"limits:\n  handshakes: 65537\n", "n.yaml:5: limits.handshakes: '65537' is not between 1 and 65536"},
        {"limits:\n  handshakes_waiting: 0\n", "n.yaml:5: limits.handshakes_waiting: '0' is not between 1 and 65536"},
        {"limits:\n  handshake_threads: 17\n", "n.yaml:5: limits.handshake_threads: '17' is not between 1 and 16"},
        {"limits:\n  application_messages: 16777216\n",
         "n.yaml:5: limits.application_messages: '16777216' is not between 1 and 16777215"},
        {"limits:\n  application_bytes: 1GB\n",
         "n.yaml:5: limits.application_bytes: '1GB' has an unknown unit (512B, 64KiB, 16MiB, 1GiB)"},
        {"limits:\n  application_bytes: 1MiB\n",
         "n.yaml:5: limits.application_bytes: 1048576 bytes are less than one message may have "
         "(limits.message_bytes, 16777216)"},
        {"limits:\n  lifecycle_messages: 0\n",
         "n.yaml:5: limits.lifecycle_messages: '0' is not between 1 and 16777215"},
        {"limits:\n  lifecycle_bytes: 1KiB\n",
         "n.yaml:5: limits.lifecycle_bytes: '1KiB' is not between 4KiB and 128GiB"},
        {"limits:\n  cpu_works: 0\n", "n.yaml:5: limits.cpu_works: '0' is not between 1 and 16777216"},
        {"limits:\n  cpu_work_bytes: 1MiB\n", "n.yaml:5: limits.cpu_work_bytes: '1MiB' is not between 4MiB and 128GiB"},
        {"limits:\n  io_works: 0\n", "n.yaml:5: limits.io_works: '0' is not between 1 and 16777216"},
        {"log: {level: verbose}\n", "n.yaml:4: log.level: 'verbose' is not one of debug, info, warn, error, off"},
        {"log: {level: 1}\n", "n.yaml:4: log.level: '1' is not one of debug, info, warn, error, off"},
        {"log: {level: INFO}\n", "n.yaml:4: log.level: 'INFO' is not one of debug, info, warn, error, off"},
        {"log: info\n", "n.yaml:4: log: must hold 'key: value' lines"},
        {"control: "
         "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789a"
         "\n",
         "n.yaml:4: control: "
         "'0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789a' is "
         "longer than the 100 bytes that a socket's path may have"},
    };
    char text[1024];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        snprintf(text, sizeof(text), PLAIN "%s", cases[i].text);
        assert_refused(text, cases[i].line);
    }
    assert_refused("mesh: 'm m'\nname: a\n",
                   "n.yaml:1: mesh: 'm m' is not a name of 1 to 64 letters, digits, '.', '_' or '-'");
    assert_refused("mesh: m\nname: a:1\n",
                   "n.yaml:2: name: 'a:1' is not a name of 1 to 64 letters, digits, '.', '_' or '-'");
    assert_refused("mesh: m\nname: a\ntransport: plain\n",
                   "n.yaml:3: transport: 'plain' is not one of tls, plain-without-encryption-or-authentication");
}

/* TR-63, EX-45: a send timeout that is none, negative, endless or too long is refused with file, key and reason; the
 * longest and the shortest are taken, and without the key it is a second. */
static void test_tr63_ex45_send_timeouts(void **state)
{
    static const struct {
        const char *text;
        const char *reason;
    } bad[] = {
        {"0ms", "'0ms' is not between 1ms and 2147483647ms"},
        {"0", "'0' has no unit (250ms, 5s, 2m)"},
        {"-1ms", "'-1ms' is not a whole number with a unit (250ms, 5s, 2m)"},
        {"infinite", "'infinite' is not a whole number with a unit (250ms, 5s, 2m)"},
        {"2147483648ms", "'2147483648ms' is not between 1ms and 2147483647ms"},
        {"2147484s", "'2147484s' is not between 1ms and 2147483647ms"},
    };
    char text[256], line[256];
    zlink_config_t *config;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        snprintf(text, sizeof(text), PLAIN "send_timeout: %s\n", bad[i].text);
        snprintf(line, sizeof(line), "n.yaml:4: send_timeout: %s", bad[i].reason);
        assert_refused(text, line);
    }
    config = parse(PLAIN "send_timeout: 2147483647ms\n");
    assert_int_equal(config->send_timeout_ms, INT32_MAX);
    zlink_config_free(config);
    config = parse(PLAIN "send_timeout: 1ms\n");
    assert_int_equal(config->send_timeout_ms, 1);
    zlink_config_free(config);
    config = parse(PLAIN);
    assert_int_equal(config->send_timeout_ms, 1000);
    zlink_config_free(config);
}

/* Who may link, and who no more. */
static void test_tls_allow_and_crl(void **state)
{
#define WITH_TLS "mesh: m\nname: a\ntls:\n  ca: a\n  certificate: b\n  key: c\n"
    zlink_config_t *config = parse(WITH_TLS);

    (void)state;
    assert_null(config->tls.crl);
    assert_null(config->tls.allow);
    assert_int_equal(config->tls.allow_count, 0);
    zlink_config_free(config);
    config = parse(WITH_TLS "  crl: revoked.pem\n  allow: [node-b, c]\n");
    assert_string_equal(config->tls.crl, "revoked.pem");
    assert_int_equal(config->tls.allow_count, 2);
    assert_string_equal(config->tls.allow[0], "node-b");
    assert_string_equal(config->tls.allow[1], "c");
    zlink_config_free(config);
    assert_refused(WITH_TLS "  allow: []\n", "n.yaml:7: tls.allow: must not be empty");
    assert_refused(WITH_TLS "  allow: b\n", "n.yaml:7: tls.allow: must be a list");
    assert_refused(WITH_TLS "  allow: [b, c d]\n",
                   "n.yaml:7: tls.allow[1]: 'c d' is not a name of 1 to 64 letters, digits, '.', '_' or '-'");
    assert_refused(WITH_TLS "  allow: [b, c, b]\n", "n.yaml:7: tls.allow[2]: is the same as tls.allow[0]");
    assert_refused(WITH_TLS "  crl: ''\n", "n.yaml:7: tls.crl: must not be empty");
    assert_refused(WITH_TLS "  deny: x\n",
                   "n.yaml:7: tls.deny: no such key; there are ca, certificate, key, crl, allow");
}

/* TR-75: a wildcard that nobody can dial stops the start; with an address to dial it is taken. */
static void test_tr75_a_wildcard_needs_an_address_to_advertise(void **state)
{
    zlink_config_t *config;

    (void)state;
    assert_refused(PLAIN "listen: 0.0.0.0:0\n", "n.yaml:4: listen: '0.0.0.0:0' takes calls on every address, so "
                                                "advertise must say which one to dial");
    config = parse(PLAIN "listen: 0.0.0.0:0\nadvertise: a.example:7700\n");
    assert_string_equal(config->listen, "0.0.0.0:0");
    assert_string_equal(config->advertise, "a.example:7700");
    zlink_config_free(config);
}

static void test_the_counts_of_lists_are_bounded(void **state)
{
    static const struct {
        const char *key;
        const char *entry;
        unsigned most;
    } lists[] = {
        {"modules", "  - m%u.so\n", ZLINK_CONFIG_MODULES},
        {"peers", "  - n%u:7700\n", ZLINK_CONFIG_PEERS},
        {"spots", "  - {type: t%u, node: b}\n", ZLINK_CONFIG_SPOTS},
        {"channels", "  - {name: c%u, weight: 1}\n", ZLINK_CONFIG_CHANNELS},
    };
    char *text = malloc(128 * 1024);
    char line[128];

    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i < COUNT_OF(lists); i++) {
        size_t used = (size_t)sprintf(text, PLAIN "%s:\n", lists[i].key);

        for (unsigned entry = 0; entry < lists[i].most; entry++) {
            strcpy(line, lists[i].entry);
            for (char *percent = strstr(line, "%u"); percent != NULL; percent = NULL) {
                char rest[64];

                strcpy(rest, percent + 2);
                sprintf(percent, "%u%s", entry, rest);
            }
            used += (size_t)sprintf(text + used, "%s", line);
        }
        zlink_config_free(parse(text));
        sprintf(text + used, "  - one-more\n");
        snprintf(line, sizeof(line), "n.yaml:%u: %s: holds more than %u entries", 5 + lists[i].most, lists[i].key,
                 lists[i].most);
        assert_refused(text, line);
    }
    free(text);
}

/* TR-1: a node is in one mesh: the key takes one name, and stands once. */
static void test_tr1_a_second_mesh_is_refused(void **state)
{
    (void)state;
    assert_refused(PLAIN "mesh: m\n", "n.yaml:4: mesh: stands here a second time");
    assert_refused("mesh: [m, m]\nname: a\n", "n.yaml:1: mesh: must be one value");
}

/* TR-2: a channel is named once, in one role. */
static void test_tr2_a_channel_named_twice_is_refused(void **state)
{
    (void)state;
    assert_refused(PLAIN "channels: [{name: c}, {name: d}, {name: c}]\n",
                   "n.yaml:4: channels[2].name: is the same as channels[0].name");
    assert_refused(PLAIN "channels: [{name: c, role: server}, {name: c, role: client}]\n",
                   "n.yaml:4: channels[1].name: is the same as channels[0].name");
    assert_refused(PLAIN "channels: [{name: c, role: both}]\n",
                   "n.yaml:4: channels[0].role: 'both' is not one of server, client");
}

/* TR-4: a weight is a whole number from 0 to 10000, and 100 where nothing is said. */
static void test_tr4_weights(void **state)
{
    static const struct {
        const char *weight;
        const char *reason;
    } cases[] = {
        {"-1", "'-1' is not a whole number"},
        {"10001", "'10001' is not between 0 and 10000"},
        {"1.5", "'1.5' is not a whole number"},
        {"''", "must not be empty"},
        {"99999999999999999999", "'99999999999999999999' is not a whole number"},
    };
    char text[256], line[256];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        snprintf(text, sizeof(text), PLAIN "channels:\n  - name: c\n    weight: %s\n", cases[i].weight);
        snprintf(line, sizeof(line), "n.yaml:6: channels[0].weight: %s", cases[i].reason);
        assert_refused(text, line);
    }
    assert_refused(PLAIN "channels: [{name: c, role: client, weight: 1}]\n",
                   "n.yaml:4: channels[0].weight: is given for a channel that this node only calls");
    zlink_config_t *config = parse(PLAIN "channels: [{name: c, weight: 0}, {name: \"d e\", weight: 10000}, {name: e}, "
                                         "{name: f, role: client}]\nobject_role: client\n");
    assert_int_equal(config->channel_count, 4);
    assert_int_equal(config->channels[0].weight, 0);
    assert_int_equal(config->channels[1].weight, 10000);
    assert_string_equal(config->channels[1].name, "d e");
    assert_int_equal(config->channels[2].weight, 100);
    assert_int_equal(config->channels[2].role, ZLINK_CONFIG_SERVER);
    assert_int_equal(config->channels[3].role, ZLINK_CONFIG_CLIENT);
    assert_int_equal(config->object_role, ZLINK_CONFIG_CLIENT);
    zlink_config_free(config);
}

/* TR-13: who is expected at an address, by name or node id. */
static void test_tr13_peers_that_are_expected(void **state)
{
    zlink_config_t *config = parse(PLAIN "peers: ['b@h:1', 'h:2', 'b-76543210-fedc-4ba9-a765-43210fedcba9@[::1]:3']\n");

    (void)state;
    assert_int_equal(config->peer_count, 3);
    assert_string_equal(config->peers[0], "h:1");
    assert_string_equal(config->expected_peers[0], "b");
    assert_string_equal(config->peers[1], "h:2");
    assert_null(config->expected_peers[1]);
    assert_string_equal(config->peers[2], "[::1]:3");
    assert_string_equal(config->expected_peers[2], "b-76543210-fedc-4ba9-a765-43210fedcba9");
    zlink_config_free(config);
    assert_refused(PLAIN "peers: ['@h:1']\n",
                   "n.yaml:4: peers[0]: '', before the '@', is neither a node's name nor a node id");
    assert_refused(PLAIN "peers: ['a b@h:1']\n",
                   "n.yaml:4: peers[0]: 'a b', before the '@', is neither a node's name nor a node id");
    assert_refused(PLAIN "peers: ['b@h:1', 'c@H:1']\n", "n.yaml:4: peers[1]: is the same as peers[0]");
    assert_refused(PLAIN "peers: ['b@h']\n", "n.yaml:4: peers[0]: 'h' is not an address of the form host:port");
}

static void test_defaults_are_filled_in(void **state)
{
    zlink_config_t *config = parse("mesh: m\nname: a\ntls: {ca: a.pem, certificate: /b.pem, key: c}\n");

    (void)state;
    assert_string_equal(config->mesh, "m");
    assert_string_equal(config->name, "a");
    assert_null(config->listen);
    assert_null(config->advertise);
    assert_null(config->control);
    assert_int_equal(config->module_count, 0);
    assert_int_equal(config->peer_count, 0);
    assert_int_equal(config->spot_count, 0);
    assert_int_equal(config->channel_count, 0);
    assert_int_equal(config->object_role, ZLINK_CONFIG_SERVER);
    assert_int_equal(config->transport, ZLINK_CONFIG_TLS);
    assert_string_equal(config->tls.ca, "a.pem");
    assert_string_equal(config->tls.certificate, "/b.pem");
    assert_string_equal(config->tls.key, "c");
    assert_int_equal(config->workers, 0);
    assert_int_equal(config->cpu_workers_min, 0);
    assert_int_equal(config->cpu_workers_max, 0);
    assert_int_equal(config->cpu_workers_idle_ms, 30000);
    assert_int_equal(config->request_timeout_ms, 30000);
    assert_int_equal(config->send_timeout_ms, 1000);
    assert_int_equal(config->shutdown_timeout_ms, 30000);
    assert_int_equal(config->owner_time_budget_ms, 10);
    assert_int_equal(config->limits.message_bytes, 16 << 20);
    assert_int_equal(config->limits.spots, 1000000);
    assert_int_equal(config->limits.pending_operations, 65536);
    assert_int_equal(config->limits.max_queued_application_jobs, 0);
    assert_int_equal(config->limits.jobs_per_core, 128);
    assert_int_equal(config->limits.pause_percent, 80);
    assert_int_equal(config->limits.resume_percent, 60);
    assert_int_equal(config->limits.stacks, 0);
    assert_int_equal(config->limits.stack_bytes, 65536);
    assert_int_equal(config->limits.outbound_bytes, 4096000);
    assert_int_equal(config->limits.inbound_bytes, 4096000);
    assert_int_equal(config->limits.application_messages, 1024);
    assert_int_equal(config->limits.application_bytes, 64 << 20);
    assert_int_equal(config->limits.lifecycle_messages, 128);
    assert_int_equal(config->limits.lifecycle_bytes, 4 << 20);
    assert_int_equal(config->limits.cpu_works, 1024);
    assert_int_equal(config->limits.cpu_work_bytes, 64 << 20);
    assert_int_equal(config->limits.io_works, 65536);
    assert_int_equal(config->log_level, ZLINK_LOG_INFO);
    zlink_config_free(config);
}

static void test_every_setting_arrives(void **state)
{
    zlink_config_t *config = parse(
        PLAIN
        "listen: '[::1]:0'\nadvertise: a:1\ncontrol: c.sock\nmodules: [m.so, /n.so]\n"
        "peers: ['b:1', 'c:2']\nspots: [{type: \"t \xc3\xa9\", node: b}, {type: u, node: c}]\nworkers: 3\n"
        "cpu_workers_min: 1\ncpu_workers_max: 2\ncpu_workers_idle: 6s\n"
        "request_timeout: 1ms\nsend_timeout: 2s\nshutdown_timeout: 3m\nowner_time_budget: 4ms\n"
        "limits: {message_bytes: 1KiB, spots: 5, pending_operations: 6, max_queued_application_jobs: 7, stacks: 8,\n"
        "  stack_bytes: 16KiB, outbound_bytes: 64KiB, inbound_bytes: 65KiB, application_messages: 9, "
        "application_bytes: 128GiB,\n"
        "  lifecycle_messages: 10, lifecycle_bytes: 4KiB, cpu_works: 11, cpu_work_bytes: 4MiB, io_works: 12}\n"
        "log: {level: 'off'}\n");

    (void)state;
    assert_string_equal(config->listen, "[::1]:0");
    assert_string_equal(config->advertise, "a:1");
    assert_string_equal(config->control, "c.sock");
    assert_int_equal(config->module_count, 2);
    assert_string_equal(config->modules[0], "m.so");
    assert_string_equal(config->modules[1], "/n.so");
    assert_int_equal(config->peer_count, 2);
    assert_string_equal(config->peers[1], "c:2");
    assert_int_equal(config->spot_count, 2);
    assert_string_equal(config->spots[0].type, "t \xc3\xa9");
    assert_string_equal(config->spots[1].node, "c");
    assert_int_equal(config->transport, ZLINK_CONFIG_PLAIN);
    assert_null(config->tls.ca);
    assert_int_equal(config->workers, 3);
    assert_int_equal(config->cpu_workers_min, 1);
    assert_int_equal(config->cpu_workers_max, 2);
    assert_int_equal(config->cpu_workers_idle_ms, 6000);
    assert_int_equal(config->request_timeout_ms, 1);
    assert_int_equal(config->send_timeout_ms, 2000);
    assert_int_equal(config->shutdown_timeout_ms, 180000);
    assert_int_equal(config->owner_time_budget_ms, 4);
    assert_int_equal(config->limits.message_bytes, 1024);
    assert_int_equal(config->limits.spots, 5);
    assert_int_equal(config->limits.pending_operations, 6);
    assert_int_equal(config->limits.max_queued_application_jobs, 7);
    assert_int_equal(config->limits.stacks, 8);
    assert_int_equal(config->limits.stack_bytes, 16384);
    assert_int_equal(config->limits.outbound_bytes, 65536);
    assert_int_equal(config->limits.inbound_bytes, 66560);
    assert_int_equal(config->limits.application_messages, 9);
    assert_true(config->limits.application_bytes == 128ull << 30);
    assert_int_equal(config->limits.lifecycle_messages, 10);
    assert_int_equal(config->limits.lifecycle_bytes, 4096);
    assert_int_equal(config->limits.cpu_works, 11);
    assert_int_equal(config->limits.cpu_work_bytes, 4 << 20);
    assert_int_equal(config->limits.io_works, 12);
    assert_int_equal(config->log_level, ZLINK_LOG_OFF);
    zlink_config_free(config);
    zlink_config_free(NULL);
}

/* A folder of its own for a test, with files in it; removed at the end. */
static char folder[64];

static const char *in_folder(const char *name)
{
    static char paths[4][128];
    static unsigned turn;
    char *path = paths[turn++ % 4];

    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const char *text, size_t size)
{
    FILE *file = fopen(in_folder(name), "w");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/zlink-config-XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    static const char *const names[] = {"n.yaml", "ca.pem", "n.pem", "n.key", "m.so", "pipe", "folder"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(names); i++)
        (void)remove(in_folder(names[i]));
    return rmdir(folder);
}

static void assert_load_refused(const char *path, const char *format)
{
    zlink_config_t *config = NULL;
    zlink_refusal_t why = {{0}};
    char expected[512];

    assert_int_equal(zlink_config_load(path, &config, &why), ZLINK_NOT_CONFIGURED);
    assert_null(config);
    snprintf(expected, sizeof(expected), "%s%s", path, format);
    assert_string_equal(why.line, expected);
}

static void test_a_file_that_cannot_be_read_is_refused(void **state)
{
    char *large = malloc(ZLINK_CONFIG_FILE_BYTES + 1);

    (void)state;
    assert_non_null(large);
    assert_load_refused(in_folder("n.yaml"), ": cannot be read: No such file or directory");
    assert_int_equal(mkdir(in_folder("folder"), 0700), 0);
    assert_load_refused(in_folder("folder"), ": cannot be read: Is a directory");
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    assert_load_refused(in_folder("pipe"), ": cannot be read: Invalid argument");
    write_file("n.yaml", "", 0);
    assert_load_refused(in_folder("n.yaml"), ": is empty");
    memset(large, '#', ZLINK_CONFIG_FILE_BYTES + 1);
    memcpy(large, PLAIN, sizeof(PLAIN) - 1);
    write_file("n.yaml", large, ZLINK_CONFIG_FILE_BYTES + 1);
    assert_load_refused(in_folder("n.yaml"), ": is larger than 1024 KiB");
    if (geteuid() != 0) { /* root reads everything */
        write_file("n.yaml", PLAIN, sizeof(PLAIN) - 1);
        assert_int_equal(chmod(in_folder("n.yaml"), 0), 0);
        assert_load_refused(in_folder("n.yaml"), ": cannot be read: Permission denied");
    }
    free(large);
}

static void test_the_files_that_it_names_are_looked_for_beside_it(void **state)
{
    static const char text[] = "mesh: m\nname: a\nmodules:\n  - m.so\ntls:\n  ca: ca.pem\n  certificate: n.pem\n"
                               "  key: n.key\n";
    static const struct {
        const char *file;
        const char *key;
    } files[] = {{"m.so", ":4: modules[0]"},
                 {"ca.pem", ":6: tls.ca"},
                 {"n.pem", ":7: tls.certificate"},
                 {"n.key", ":8: tls.key"}};
    zlink_config_t *config = NULL;
    zlink_refusal_t why;
    char line[256];

    (void)state;
    write_file("n.yaml", text, sizeof(text) - 1);
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        snprintf(line, sizeof(line), "%s: cannot read %s: No such file or directory", files[i].key,
                 in_folder(files[i].file));
        assert_load_refused(in_folder("n.yaml"), line);
        write_file(files[i].file, "x", 1);
    }
    assert_int_equal(zlink_config_load(in_folder("n.yaml"), &config, &why), ZLINK_OK);
    assert_string_equal(config->tls.key, in_folder("n.key"));
    assert_string_equal(config->modules[0], in_folder("m.so"));
    zlink_config_free(config);
}

static char *read_example(void)
{
    FILE *file = fopen(ZLINK_EXAMPLE_CONFIG, "r");
    char *text = calloc(1, 64 * 1024);
    size_t size;

    assert_non_null(file);
    assert_non_null(text);
    size = fread(text, 1, 64 * 1024 - 1, file);
    assert_true(size > 0);
    fclose(file);
    return text;
}

static void test_the_example_passes(void **state)
{
    char *text = read_example();
    zlink_config_t *config = parse(text);

    (void)state;
    assert_string_equal(config->name, "node-a");
    zlink_config_free(config);
    free(text);
}

/* The example claims that its commented-out lines show the defaults: read with them, it must be the same. */
static void test_the_example_shows_every_key_and_the_true_defaults(void **state)
{
    char *text = read_example();
    zlink_config_t *short_form = parse(text);
    zlink_config_t *long_form;
    char *to = text;

    (void)state;
    for (const char *from = text; *from != '\0'; from++) {
        if (*from == '#' && (from[1] != ' ' || from[2] == ' ') && from[1] != '\n')
            continue; /* "#key: value" is a setting, "# words" is a comment */
        *to++ = *from;
    }
    *to = '\0';
    long_form = parse(text);
    assert_non_null(long_form->advertise);
    assert_non_null(long_form->control);
    assert_int_equal(long_form->module_count, 1);
    assert_int_equal(long_form->peer_count, 2);
    assert_string_equal(long_form->expected_peers[1], "node-c");
    assert_int_equal(long_form->channel_count, 2);
    assert_int_equal(long_form->client_server_count, 1);
    assert_string_equal(long_form->client_servers[0].expected_servers[0], "node-b");
    assert_int_equal(long_form->object_role, short_form->object_role);
    assert_int_equal(long_form->spot_count, 1);
    assert_int_equal(long_form->transport, short_form->transport);
    assert_int_equal(long_form->workers, short_form->workers);
    assert_int_equal(long_form->request_timeout_ms, short_form->request_timeout_ms);
    assert_int_equal(long_form->send_timeout_ms, short_form->send_timeout_ms);
    assert_int_equal(long_form->shutdown_timeout_ms, short_form->shutdown_timeout_ms);
    assert_int_equal(long_form->owner_time_budget_ms, short_form->owner_time_budget_ms);
    assert_int_equal(long_form->limits.max_queued_application_jobs,
                     512); /* shown as what it may be: it has no default */
    long_form->limits.max_queued_application_jobs = short_form->limits.max_queued_application_jobs;
    assert_memory_equal(&long_form->limits, &short_form->limits, sizeof(long_form->limits));
    assert_int_equal(long_form->log_level, short_form->log_level);
    for (const char *key = ROOT_KEYS; key != NULL; key = strchr(key, ' ') == NULL ? NULL : strchr(key, ' ') + 1) {
        char line[64];

        snprintf(line, sizeof(line), "\n%.*s:", (int)strcspn(key, ","), key);
        assert_non_null(strstr(text, line));
    }
    zlink_config_free(short_form);
    zlink_config_free(long_form);
    free(text);
}

static void test_no_failed_allocation_crashes_or_leaks(void **state)
{
    char *text = read_example();
    zlink_status_t status = ZLINK_CAPACITY_EXCEEDED;
    int64_t n = 0;

    (void)state;
    for (; status != ZLINK_OK; n++) {
        zlink_config_t *config = NULL;
        zlink_refusal_t why = {{0}};

        assert_true(n < 1000);
        zlink_memory_fail_after(n);
        status = zlink_config_parse(text, strlen(text), "etc/n.yaml", &config, &why);
        zlink_memory_fail_after(-1);
        if (status == ZLINK_OK) {
            zlink_config_free(config);
        } else {
            assert_int_equal(status, ZLINK_CAPACITY_EXCEEDED);
            assert_string_equal(why.line, "etc/n.yaml: no memory to read it");
            assert_null(config);
        }
    }
    assert_true(n > 10);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_malformed_text_is_refused_in_one_line),
        cmocka_unit_test(test_every_bad_setting_is_refused_with_its_key_and_line),
        cmocka_unit_test(test_tr63_ex45_send_timeouts),
        cmocka_unit_test(test_tls_allow_and_crl),
        cmocka_unit_test(test_tr75_a_wildcard_needs_an_address_to_advertise),
        cmocka_unit_test(test_the_counts_of_lists_are_bounded),
        cmocka_unit_test(test_tr1_a_second_mesh_is_refused),
        cmocka_unit_test(test_tr2_a_channel_named_twice_is_refused),
        cmocka_unit_test(test_tr4_weights),
        cmocka_unit_test(test_tr13_peers_that_are_expected),
        cmocka_unit_test(test_defaults_are_filled_in),
        cmocka_unit_test(test_every_setting_arrives),
        cmocka_unit_test_setup_teardown(test_a_file_that_cannot_be_read_is_refused, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_the_files_that_it_names_are_looked_for_beside_it, make_folder,
                                        remove_folder),
        cmocka_unit_test(test_the_example_passes),
        cmocka_unit_test(test_the_example_shows_every_key_and_the_true_defaults),
        cmocka_unit_test(test_no_failed_allocation_crashes_or_leaks),
    };

    return zlink_test_main(tests);
}
