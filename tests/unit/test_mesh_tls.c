/*
 * Meshes over mutual TLS, with certificates as zlinkctl makes them: who somebody is, is what the certificate says.
 */
#include "mesh_fixture.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "ctl/certs.h"

static const char *const prices[] = {"prices"};
static char folder[64];  /* the authority of "unit", and the certificates of left, right and third */
static char foreign[64]; /* the authority of "other", and one of left */
static char both_authorities[96];

static void make_leaf(const char *where, const char *name)
{
    const zlink_certs_request_t request = {.kind = ZLINK_CERTS_NODE, .folder = where, .name = name};
    zlink_certs_made_t made;
    zlink_refusal_t why = {{0}};

    if (zlink_certs_make_leaf(&request, &made, &why) != ZLINK_OK)
        fail_msg("%s", why.line);
}

static void append_file(int to, const char *where)
{
    char path[128], bytes[4096];
    snprintf(path, sizeof(path), "%s/ca.pem", where);
    int from = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = from < 0 ? -1 : read(from, bytes, sizeof(bytes));

    assert_true(size > 0 && write(to, bytes, (size_t)size) == size);
    close(from);
}

static int make_certificates(void **state)
{
    zlink_certs_made_t made;
    zlink_refusal_t why = {{0}};

    (void)state;
    strcpy(folder, "/tmp/zlink-mesh-XXXXXX");
    strcpy(foreign, "/tmp/zlink-mesh-XXXXXX");
    if (mkdtemp(folder) == NULL || mkdtemp(foreign) == NULL)
        return -1;
    if (zlink_certs_make_authority(folder, "unit", 0, &made, &why) != ZLINK_OK ||
        zlink_certs_make_authority(foreign, "other", 0, &made, &why) != ZLINK_OK)
        return -1;
    make_leaf(folder, "left");
    make_leaf(folder, "right");
    make_leaf(folder, "third");
    make_leaf(foreign, "left");
    snprintf(both_authorities, sizeof(both_authorities), "%s/both.pem", folder);
    int to = open(both_authorities, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    append_file(to, folder);
    append_file(to, foreign);
    close(to);
    return 0;
}

static int remove_certificates(void **state)
{
    static const char *const files[] = {"ca.pem",    "ca.key",    "left.pem",  "left.key", "right.pem",
                                        "right.key", "third.pem", "third.key", "both.pem"};
    char path[128];

    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
        unlink(path);
        snprintf(path, sizeof(path), "%s/%s", foreign, files[i]);
        unlink(path);
    }
    return rmdir(folder) == 0 && rmdir(foreign) == 0 ? 0 : -1;
}

/* ---- nodes with certificates ---- */

typedef struct secure {
    node_t node;
    zlink_tls_context_t *tls;
    const char *peers[2];
} secure_t;

static void secure_init(secure_t *secure, const char *where, const char *name)
{
    char ca[128], certificate[128], key[128];
    const zlink_tls_options_t options = {.ca_file = ca, .certificate_file = certificate, .key_file = key};
    zlink_refusal_t why = {{0}};

    memset(secure, 0, sizeof(*secure));
    snprintf(ca, sizeof(ca), "%s", both_authorities);
    snprintf(certificate, sizeof(certificate), "%s/%s.pem", where, name);
    snprintf(key, sizeof(key), "%s/%s.key", where, name);
    if (zlink_tls_context_create(&options, &secure->tls, &why) != ZLINK_OK)
        fail_msg("%s", why.line);
    node_init(&secure->node, name);
    secure->node.options.tls = secure->tls;
    secure->node.options.channels = prices;
    secure->node.options.channel_count = 1;
    secure->node.options.peers = secure->peers;
}

static void secure_dials(secure_t *secure, const char *address)
{
    secure->peers[secure->node.options.peer_count++] = address;
}

static void secure_stop(secure_t *secure)
{
    node_stop(&secure->node);
    zlink_tls_context_release(secure->tls);
}

/* Ports that were free a moment ago: nodes that dial each other have to know them before they start. */
static void find_addresses(char addresses[][64], size_t count)
{
    node_t nodes[3];

    assert_true(count <= 3);
    for (size_t i = 0; i < count; i++) {
        node_init(&nodes[i], "port");
        node_start(&nodes[i]);
    }
    for (size_t i = 0; i < count; i++) {
        snprintf(addresses[i], 64, "%s", nodes[i].address);
        node_stop(&nodes[i]);
    }
}

/* ---- tests ---- */

static void test_a_link_over_tls(void **state)
{
    secure_t left, right;

    (void)state;
    secure_init(&left, folder, "left");
    secure_init(&right, folder, "right");
    node_start(&left.node);
    right.node.options.channel_count = 0;
    secure_dials(&right, left.node.address);
    node_start(&right.node);
    fixture_wait_for(&right.node.ready, 1);
    fixture_wait_for(&left.node.ready, 1);
    assert_int_equal(node_look(&right.node).ends, 2);
    for (int i = 0; i < 20; i++)
        assert_int_equal(node_ask(&right.node, "prices", "sealed"), ZLINK_OK);

    test_call_t call;
    test_call_init(&call, &left.node, "anything", "back");
    call.call.route = ZLINK_ROUTE_NODE;
    call.call.node = "right"; /* the certificate's name */
    test_call_submit(&call);
    assert_int_equal(test_call_wait(&call), ZLINK_OK);
    test_call_release(&call);
    secure_stop(&right);
    fixture_wait_for(&left.node.lost, 1);
    secure_stop(&left);
}

static void is_refused(secure_t *dialler, const char *reason)
{
    secure_t left;

    secure_init(&left, folder, "left");
    node_start(&left.node);
    secure_dials(dialler, left.node.address);
    node_start(&dialler->node);
    fixture_wait_for(&dialler->node.failed, 1);
    if (reason != NULL)
        assert_string_equal(node_read(&dialler->node)->reason, reason);
    assert_int_equal(atomic_load(&dialler->node.ready), 0);
    assert_int_equal(atomic_load(&left.node.ready), 0);
    secure_stop(dialler);
    secure_stop(&left);
}

static void test_a_node_that_claims_another_name_is_refused(void **state)
{
    secure_t liar;

    (void)state;
    secure_init(&liar, folder, "right");
    assert_int_equal(zlink_node_identity_make(&liar.node.identity, "unit", "third"), ZLINK_OK);
    is_refused(&liar, "the certificate does not allow this node id");
    secure_init(&liar, folder, "right"); /* a longer name that begins like its own */
    assert_int_equal(zlink_node_identity_make(&liar.node.identity, "unit", "right-hand"), ZLINK_OK);
    is_refused(&liar, "the certificate does not allow this node id");
}

static void test_a_certificate_of_another_mesh_is_refused(void **state)
{
    secure_t stranger;

    (void)state;
    secure_init(&stranger, foreign, "left");
    is_refused(&stranger, "the certificate belongs to another mesh");
}

/* The dialer checks the acceptor in the same way. */
static void test_an_acceptor_that_claims_another_name_is_refused(void **state)
{
    secure_t left, liar;

    (void)state;
    secure_init(&liar, folder, "right");
    assert_int_equal(zlink_node_identity_make(&liar.node.identity, "unit", "third"), ZLINK_OK);
    node_start(&liar.node);
    secure_init(&left, folder, "left");
    secure_dials(&left, liar.node.address);
    node_start(&left.node);
    fixture_wait_for(&left.node.failed, 1);
    assert_string_equal(node_read(&left.node)->reason, "the certificate does not allow this node id");
    assert_int_equal(atomic_load(&left.node.ready), 0);
    assert_int_equal(atomic_load(&liar.node.ready), 0);
    secure_stop(&left);
    secure_stop(&liar);
}

static void test_two_nodes_that_dial_each_other_keep_one_link(void **state)
{
    (void)state;
    for (int round = 0; round < 6; round++) {
        char addresses[2][64];
        secure_t nodes[2];
        find_addresses(addresses, 2);
        secure_init(&nodes[0], folder, "left");
        secure_init(&nodes[1], folder, "right");
        for (size_t i = 0; i < 2; i++) {
            nodes[i].node.options.listen = addresses[i];
            secure_dials(&nodes[i], addresses[1 - i]);
        }
        node_start(&nodes[round % 2].node);
        node_start(&nodes[1 - round % 2].node);
        node_wait_links(&nodes[0].node, 1);
        node_wait_links(&nodes[1].node, 1);
        for (size_t i = 0; i < 2; i++)
            for (int ask = 0; ask < 4; ask++)
                assert_int_equal(node_ask(&nodes[i].node, "prices", "both"), ZLINK_OK);
        /* The link is kept by one of the two dialers; the other one stands by. */
        size_t standby = node_look(&nodes[0].node).standby + node_look(&nodes[1].node).standby;
        const time_t until = time(NULL) + FIXTURE_PATIENCE_S;
        while (standby != 1 && time(NULL) < until)
            standby = node_look(&nodes[0].node).standby + node_look(&nodes[1].node).standby;
        assert_int_equal(standby, 1);

        /* When that link is lost, they find each other again. */
        zlink_reactor_call(nodes[0].node.reactor, node_cut_here, &nodes[0].node);
        fixture_wait_for(&nodes[1].node.lost, 1);
        node_wait_links(&nodes[0].node, 1);
        node_wait_links(&nodes[1].node, 1);
        secure_stop(&nodes[0]);
        secure_stop(&nodes[1]);
    }
}

/* A client that serves nothing is known by its node id only: whoever dials it learns of the link by a REJECT. */
static void test_a_server_and_a_client_that_dial_each_other_keep_one_link(void **state)
{
    (void)state;
    for (int round = 0; round < 6; round++) {
        char addresses[2][64];
        secure_t nodes[2];
        find_addresses(addresses, 2);
        secure_init(&nodes[0], folder, "left");
        secure_init(&nodes[1], folder, "right");
        for (size_t i = 0; i < 2; i++) {
            nodes[i].node.options.listen = addresses[i];
            secure_dials(&nodes[i], addresses[1 - i]);
        }
        secure_t *client = &nodes[round / 2 % 2], *server = &nodes[1 - round / 2 % 2];
        client->node.options.role = ZLINK_ROLE_CLIENT;
        client->node.options.channel_count = 0;
        node_start(&nodes[round % 2].node);
        node_start(&nodes[1 - round % 2].node);
        const time_t until = time(NULL) + FIXTURE_PATIENCE_S;
        while (node_look(&nodes[0].node).standby + node_look(&nodes[1].node).standby != 1 && time(NULL) < until)
            nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
        node_wait_links(&nodes[0].node, 1);
        node_wait_links(&nodes[1].node, 1);
        assert_int_equal(node_look(&nodes[0].node).standby + node_look(&nodes[1].node).standby, 1);
        assert_int_equal(node_ask(&client->node, "prices", "x"), ZLINK_OK);
        zlink_reactor_call(server->node.reactor, node_cut_here, &server->node);
        fixture_wait_for(&client->node.lost, 1);
        node_wait_links(&nodes[0].node, 1);
        node_wait_links(&nodes[1].node, 1);
        secure_stop(&nodes[0]);
        secure_stop(&nodes[1]);
    }
}

static void test_two_addresses_of_one_peer_make_one_link(void **state)
{
    secure_t left, right;
    char again[64];

    (void)state;
    secure_init(&left, folder, "left");
    left.node.options.listen = "127.0.0.1:0";
    node_start(&left.node);
    snprintf(again, sizeof(again), "localhost:%s", strrchr(left.node.address, ':') + 1);
    secure_init(&right, folder, "right");
    secure_dials(&right, left.node.address);
    secure_dials(&right, again);
    node_start(&right.node);
    const time_t until = time(NULL) + FIXTURE_PATIENCE_S;
    node_look_t look = node_look(&right.node);
    while ((look.ready != 1 || look.links != 1 || look.standby != 1) && time(NULL) < until)
        look = node_look(&right.node);
    assert_int_equal(look.standby, 1);
    node_wait_links(&left.node, 1);
    secure_stop(&right);
    secure_stop(&left);
}

static void test_a_node_that_dials_itself_gives_up(void **state)
{
    char addresses[1][64];
    secure_t alone;

    (void)state;
    find_addresses(addresses, 1);
    secure_init(&alone, folder, "left");
    alone.node.options.listen = addresses[0];
    secure_dials(&alone, addresses[0]);
    node_start(&alone.node);
    fixture_wait_for(&alone.node.failed, 1);
    node_wait_ends(&alone.node, 0);
    node_look_t look = node_look(&alone.node);
    assert_int_equal(look.links, 0);
    assert_int_equal(look.standby, 1); /* and no attempt will follow */
    secure_stop(&alone);
}

/* Every node has the whole list of addresses, its own included. */
static void test_three_nodes_with_one_list(void **state)
{
    static const char *const names[] = {"left", "right", "third"};
    char addresses[3][64];
    const char *list[3] = {addresses[0], addresses[1], addresses[2]};
    secure_t nodes[3];

    (void)state;
    find_addresses(addresses, 3);
    for (size_t i = 0; i < 3; i++) {
        secure_init(&nodes[i], folder, names[i]);
        nodes[i].node.options.listen = addresses[i];
        nodes[i].node.options.peers = list;
        nodes[i].node.options.peer_count = 3;
    }
    for (size_t i = 0; i < 3; i++)
        node_start(&nodes[i].node);
    for (size_t i = 0; i < 3; i++)
        node_wait_links(&nodes[i].node, 2);
    for (size_t i = 0; i < 3; i++)
        for (int ask = 0; ask < 6; ask++)
            assert_int_equal(node_ask(&nodes[i].node, "prices", "everybody"), ZLINK_OK);
    for (size_t i = 0; i < 3; i++)
        secure_stop(&nodes[i]);
}

/* The n-th allocation fails while a link comes up over TLS. */
static void test_a_link_comes_up_whatever_allocation_failed(void **state)
{
    virtual_clock_t clock;
    secure_t left, right;

    (void)state;
    virtual_clock_init(&clock);
    secure_init(&left, folder, "left");
    secure_init(&right, folder, "right");
    left.node.clock = right.node.clock = &clock.clock;
    right.node.options.channel_count = 0;
    node_start(&left.node);
    secure_dials(&right, left.node.address);
    node_start(&right.node);
    node_pass_time_until_ready(&right.node, &clock, 1);
    node_pass_time_until_ready(&left.node, &clock, 1);
    for (int64_t n = 0; n < 60; n++) {
        const size_t lost = atomic_load(&right.node.lost);
        zlink_memory_fail_after(n);
        zlink_reactor_call(right.node.reactor, node_cut_here, &right.node);
        fixture_wait_for(&right.node.lost, lost + 1);
        node_pass_time_until_ready(&right.node, &clock, 1);
        node_pass_time_until_ready(&left.node, &clock, 1);
        zlink_memory_fail_after(-1);
        assert_int_equal(node_ask(&right.node, "prices", "after all"), ZLINK_OK);
    }
    secure_stop(&right);
    secure_stop(&left);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_link_over_tls),
        cmocka_unit_test(test_a_node_that_claims_another_name_is_refused),
        cmocka_unit_test(test_a_certificate_of_another_mesh_is_refused),
        cmocka_unit_test(test_an_acceptor_that_claims_another_name_is_refused),
        cmocka_unit_test(test_two_nodes_that_dial_each_other_keep_one_link),
        cmocka_unit_test(test_a_server_and_a_client_that_dial_each_other_keep_one_link),
        cmocka_unit_test(test_two_addresses_of_one_peer_make_one_link),
        cmocka_unit_test(test_a_node_that_dials_itself_gives_up),
        cmocka_unit_test(test_three_nodes_with_one_list),
        cmocka_unit_test(test_a_link_comes_up_whatever_allocation_failed),
    };
    zlink_log_set_level(ZLINK_LOG_OFF);
    return zlink_test_report(cmocka_run_group_tests(tests, make_certificates, remove_certificates),
                             sizeof(tests) / sizeof(tests[0]));
}
