/*
 * A mesh that dials something which does not keep the rules: the attempt ends, with the reason, and nothing else.
 */
#include "mesh_fixture.h"
#include "raw_peer.h"

static virtual_clock_t still; /* the mesh's clock: it moves only where a test moves it */
static raw_frame_t frame;

typedef struct dialled {
    node_t node;
    int listener, application;
    char address[64];
    const char *peers[1];
    zlink_wire_hello_t hello; /* what the node said */
} dialled_t;

static void dialled_start(dialled_t *dialled)
{
    virtual_clock_init(&still);
    dialled->listener = raw_listen(dialled->address);
    node_init(&dialled->node, "node");
    dialled->node.clock = &still.clock;
    dialled->peers[0] = dialled->address;
    dialled->node.options.listen = NULL;
    dialled->node.options.redial = false;
    dialled->node.options.peers = dialled->peers;
    dialled->node.options.peer_count = 1;
    node_start(&dialled->node);
    dialled->application = raw_accept(dialled->listener);
    raw_expect(dialled->application, ZLINK_FRAME_HELLO, &frame);
    dialled->hello = (zlink_wire_hello_t){0};
    assert_int_equal(zlink_wire_hello_decode(frame.body, frame.prefix.envelope_bytes, &dialled->hello, NULL), ZLINK_OK);
    assert_string_equal(dialled->hello.node_id, dialled->node.identity.node_id);
    assert_int_equal(dialled->hello.lane, ZLINK_CONNECTION_APPLICATION);
}

static void dialled_fails(dialled_t *dialled, const char *reason)
{
    fixture_wait_for(&dialled->node.failed, 1);
    if (reason != NULL)
        assert_string_equal(node_read(&dialled->node)->reason, reason);
    assert_int_equal(atomic_load(&dialled->node.ready), 0);
    assert_int_equal(atomic_load(&dialled->node.requests), 0);
    close(dialled->application);
    close(dialled->listener);
    node_wait_links(&dialled->node, 0);
    node_stop(&dialled->node);
}

static void admit_fails(void (*spoil)(zlink_wire_hello_t *admit, const node_t *node), const char *reason)
{
    dialled_t dialled;

    dialled_start(&dialled);
    zlink_wire_hello_t admit = raw_hello("raw" RAW_UUID, ZLINK_CONNECTION_APPLICATION, dialled.hello.link_id);
    spoil(&admit, &dialled.node);
    raw_say(dialled.application, ZLINK_FRAME_ADMIT, &admit);
    dialled_fails(&dialled, reason);
}

static void spoil_link(zlink_wire_hello_t *admit, const node_t *node)
{
    (void)node;
    admit->link_id ^= 1;
    if (admit->link_id == 0)
        admit->link_id = 2;
}

static void spoil_lane(zlink_wire_hello_t *admit, const node_t *node)
{
    (void)node;
    admit->lane = ZLINK_CONNECTION_COMPLETION;
}

static void spoil_mesh(zlink_wire_hello_t *admit, const node_t *node)
{
    (void)node;
    strcpy(admit->mesh, "other");
}

static void spoil_version(zlink_wire_hello_t *admit, const node_t *node)
{
    (void)node;
    admit->protocol_major = 9;
}

static void spoil_identity(zlink_wire_hello_t *admit, const node_t *node)
{
    strcpy(admit->node_id, node->identity.node_id);
}

static void test_an_admit_that_does_not_fit_ends_the_attempt(void **state)
{
    (void)state;
    admit_fails(spoil_link, "an ADMIT for another link");
    admit_fails(spoil_lane, "an ADMIT for another link");
    admit_fails(spoil_mesh, "another mesh");
    admit_fails(spoil_version, "another protocol version");
    admit_fails(spoil_identity, "a node does not link to itself");
}

/* TR-15: the dialer takes nothing before ADMIT either. */
static void test_tr15_a_dialer_takes_nothing_before_admission(void **state)
{
    const zlink_wire_hello_t hello = raw_hello("raw" RAW_UUID, ZLINK_CONNECTION_APPLICATION, 4);
    dialled_t dialled;

    (void)state;
    dialled_start(&dialled);
    raw_request(dialled.application, 1, "early");
    dialled_fails(&dialled, "a frame that does not belong before admission");
    dialled_start(&dialled);
    raw_say(dialled.application, ZLINK_FRAME_HELLO, &hello);
    dialled_fails(&dialled, "a frame that does not belong before admission");
    dialled_start(&dialled);
    raw_send(dialled.application, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_ADMIT}, "\xff\xff", 2, NULL, 0);
    dialled_fails(&dialled, NULL);
    dialled_start(&dialled);
    raw_send(dialled.application, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_REJECT}, "\xff\xff", 2, NULL, 0);
    dialled_fails(&dialled, NULL);
}

static void test_a_reject_is_told_with_its_reason(void **state)
{
    const zlink_wire_reject_t reject = {.code = ZLINK_REJECT_CAPABILITY, .reason = "come back later"};
    uint8_t envelope[ZLINK_WIRE_SMALL_ENVELOPE_MAX];
    size_t size = 0;
    dialled_t dialled;

    (void)state;
    dialled_start(&dialled);
    assert_int_equal(zlink_wire_reject_encode(&reject, envelope, sizeof(envelope), &size), ZLINK_OK);
    raw_send(dialled.application, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_REJECT}, envelope, size, NULL, 0);
    dialled_fails(&dialled, "come back later");
}

static void second_connection(bool other_node)
{
    dialled_t dialled;
    zlink_wire_hello_t admit, second = {0};

    dialled_start(&dialled);
    admit = raw_hello("raw" RAW_UUID, ZLINK_CONNECTION_APPLICATION, dialled.hello.link_id);
    raw_say(dialled.application, ZLINK_FRAME_ADMIT, &admit);
    int completion = raw_accept(dialled.listener);
    raw_expect(completion, ZLINK_FRAME_HELLO, &frame);
    assert_int_equal(zlink_wire_hello_decode(frame.body, frame.prefix.envelope_bytes, &second, NULL), ZLINK_OK);
    assert_int_equal(second.lane, ZLINK_CONNECTION_COMPLETION);
    assert_true(second.link_id == dialled.hello.link_id);
    admit.lane = ZLINK_CONNECTION_COMPLETION;
    if (other_node)
        strcpy(admit.node_id, "war" RAW_UUID);
    raw_say(completion, ZLINK_FRAME_ADMIT, &admit);
    if (other_node) {
        fixture_wait_for(&dialled.node.failed, 1);
        close(completion);
        dialled_fails(&dialled, "the second connection reached another node");
        return;
    }
    fixture_wait_for(&dialled.node.ready, 1);
    close(completion); /* either of the two takes the link with it */
    raw_expect_end(dialled.application);
    fixture_wait_for(&dialled.node.lost, 1);
    close(dialled.listener);
    node_wait_links(&dialled.node, 0);
    node_stop(&dialled.node);
}

static void test_both_connections_reach_one_node(void **state)
{
    (void)state;
    second_connection(false);
    second_connection(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_admit_that_does_not_fit_ends_the_attempt),
        cmocka_unit_test(test_tr15_a_dialer_takes_nothing_before_admission),
        cmocka_unit_test(test_a_reject_is_told_with_its_reason),
        cmocka_unit_test(test_both_connections_reach_one_node),
    };
    zlink_log_set_level(ZLINK_LOG_OFF);
    return zlink_test_main(tests);
}
