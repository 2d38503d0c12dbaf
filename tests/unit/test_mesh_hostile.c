/*
 * A mesh and peers that do not keep the rules: before admission, during it, and afterwards. Their connection ends, and
 * nothing else does.
 */
#include "mesh_fixture.h"
#include "raw_peer.h"

static const char *const prices[] = {"prices"};
static virtual_clock_t still; /* the mesh's clock: it moves only where a test moves it */
static raw_frame_t frame;

static void start(node_t *node)
{
    virtual_clock_init(&still);
    node_init(node, "node");
    node->clock = &still.clock;
    node->options.channels = prices;
    node->options.channel_count = 1;
    node_start(node);
}

static raw_link_t join(node_t *node, const char *node_id, uint64_t link_id)
{
    raw_link_t link = raw_join(node->address, node_id, link_id);

    node_wait_links(node, 1);
    return link;
}

/* ---- before admission ---- */

static void test_a_connection_that_says_nothing_is_not_kept(void **state)
{
    node_t node;

    (void)state;
    start(&node);
    int silent = raw_connect(node.address);
    node_wait_ends(&node, 1);
    virtual_clock_advance(&still, node.reactor, 4999);
    assert_int_equal(node_look(&node).ends, 1);
    virtual_clock_advance(&still, node.reactor, 1);
    raw_expect_end(silent);
    node_wait_ends(&node, 0);
    node_stop(&node);
}

static void test_a_link_without_its_second_connection_is_not_kept(void **state)
{
    node_t node;

    (void)state;
    start(&node);
    int half = raw_connect(node.address);
    raw_say_hello(half, "raw" RAW_UUID, ZLINK_CONNECTION_APPLICATION, 9);
    raw_expect(half, ZLINK_FRAME_ADMIT, &frame);
    virtual_clock_advance(&still, node.reactor, 9999);
    assert_int_equal(node_look(&node).links, 1);
    virtual_clock_advance(&still, node.reactor, 1);
    raw_expect_end(half);
    node_wait_links(&node, 0);
    assert_int_equal(atomic_load(&node.ready), 0);
    node_stop(&node);
}

/* TR-15: whatever comes before admission reaches nobody, and the connection ends. */
static void test_tr15_nothing_is_taken_before_admission(void **state)
{
    static const char other_protocol[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const zlink_wire_hello_t admit = raw_hello("raw" RAW_UUID, ZLINK_CONNECTION_APPLICATION, 9);
    node_t node;
    int fd;

    (void)state;
    start(&node);
    fd = raw_connect(node.address);
    raw_request(fd, 1, "early");
    raw_expect_end(fd);
    fd = raw_connect(node.address);
    raw_announce(fd, ZLINK_ANNOUNCE_PACKET, 1, "early");
    raw_expect_end(fd);
    fd = raw_connect(node.address);
    raw_update(fd, 1, false, NULL, 0);
    raw_expect_end(fd);
    fd = raw_connect(node.address);
    raw_error(fd, 1, ZLINK_REJECTED);
    raw_expect_end(fd);
    fd = raw_connect(node.address);
    raw_say(fd, ZLINK_FRAME_ADMIT, &admit); /* the acceptor admits, not the dialer */
    raw_expect_end(fd);
    fd = raw_connect(node.address);
    raw_write(fd, other_protocol, sizeof(other_protocol) - 1);
    raw_expect_end(fd);
    /* A request right behind a HELLO that is refused. */
    fd = raw_connect(node.address);
    raw_say_hello(fd, node.identity.node_id, ZLINK_CONNECTION_APPLICATION, 9);
    raw_request(fd, 1, "early");
    raw_expect_reject(fd, ZLINK_REJECT_DUPLICATE);
    assert_int_equal(atomic_load(&node.requests), 0);
    assert_int_equal(atomic_load(&node.ready), 0);
    node_wait_ends(&node, 0);
    node_stop(&node);
}

static void rejected(node_t *node, const zlink_wire_hello_t *hello, zlink_reject_code_t code)
{
    int fd = raw_connect(node->address);

    raw_say(fd, ZLINK_FRAME_HELLO, hello);
    raw_expect_reject(fd, code);
}

static void test_a_hello_that_does_not_fit_is_told_why(void **state)
{
    zlink_wire_hello_t hello = raw_hello("raw" RAW_UUID, ZLINK_CONNECTION_APPLICATION, 9);
    node_t node;

    (void)state;
    start(&node);
    hello.protocol_major = 2;
    rejected(&node, &hello, ZLINK_REJECT_VERSION);
    hello = raw_hello("raw" RAW_UUID, ZLINK_CONNECTION_APPLICATION, 9);
    strcpy(hello.mesh, "other");
    rejected(&node, &hello, ZLINK_REJECT_TOPOLOGY);
    hello = raw_hello(node.identity.node_id, ZLINK_CONNECTION_APPLICATION, 9);
    rejected(&node, &hello, ZLINK_REJECT_DUPLICATE);
    int fd = raw_connect(node.address);
    raw_send(fd, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_HELLO}, "\xff\xff\xff", 3, NULL, 0);
    raw_expect_reject(fd, ZLINK_REJECT_INVALID_DESCRIPTOR);
    assert_int_equal(node_look(&node).links, 0);
    node_stop(&node);
}

/* TR-16: a connection that names no lane that there is, or the second of no link, or a third, is turned away. */
static void test_tr16_a_second_connection_belongs_to_its_link(void **state)
{
    zlink_wire_hello_t hello;
    node_t node;

    (void)state;
    start(&node);
    int application = raw_connect(node.address);
    raw_say_hello(application, "raw" RAW_UUID, ZLINK_CONNECTION_APPLICATION, 9);
    raw_expect(application, ZLINK_FRAME_ADMIT, &frame);
    hello = raw_hello("raw" RAW_UUID, ZLINK_CONNECTION_COMPLETION, 10);
    rejected(&node, &hello, ZLINK_REJECT_STALE_GENERATION);
    hello = raw_hello("war" RAW_UUID, ZLINK_CONNECTION_COMPLETION, 9);
    rejected(&node, &hello, ZLINK_REJECT_STALE_GENERATION);
    hello = raw_hello("raw" RAW_UUID, ZLINK_CONNECTION_COMPLETION, 9);
    hello.generation++;
    rejected(&node, &hello, ZLINK_REJECT_STALE_GENERATION);
    int strange = raw_connect(node.address); /* lane 2, which no encoder of ours would write */
    uint8_t envelope[4096];
    size_t size = 0;
    hello = raw_hello("raw" RAW_UUID, ZLINK_CONNECTION_COMPLETION, 9);
    assert_int_equal(zlink_wire_hello_encode(&hello, envelope, sizeof(envelope), &size), ZLINK_OK);
    static const uint8_t lane[] = {0x25, 1, 0, 0, 0}; /* field 4, fixed32 */
    uint8_t *at = memmem(envelope, size, lane, sizeof(lane));
    assert_non_null(at);
    at[1] = 2;
    raw_send(strange, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_HELLO}, envelope, size, NULL, 0);
    raw_expect_reject(strange, ZLINK_REJECT_INVALID_DESCRIPTOR);
    assert_int_equal(atomic_load(&node.ready), 0);

    int completion = raw_connect(node.address);
    raw_say_hello(completion, "raw" RAW_UUID, ZLINK_CONNECTION_COMPLETION, 9);
    raw_expect(completion, ZLINK_FRAME_ADMIT, &frame);
    fixture_wait_for(&node.ready, 1);
    hello = raw_hello("raw" RAW_UUID, ZLINK_CONNECTION_COMPLETION, 9); /* a third */
    rejected(&node, &hello, ZLINK_REJECT_STALE_GENERATION);
    assert_int_equal(node_look(&node).ready, 1);
    close(application);
    close(completion);
    node_wait_links(&node, 0);
    node_stop(&node);
}

/* ---- afterwards ---- */

/* What a raw peer says on a ready link, and why the link is lost. */
static void link_breaks(void (*say)(const raw_link_t *link), const char *reason)
{
    node_t node;

    start(&node);
    raw_link_t link = join(&node, "raw" RAW_UUID, 9);
    say(&link);
    fixture_wait_for(&node.lost, 1);
    assert_string_equal(node_read(&node)->reason, reason);
    raw_leave(&link);
    node_wait_links(&node, 0);
    assert_int_equal(atomic_load(&node.requests), 0);
    node_stop(&node);
}

static void say_another_hello(const raw_link_t *link)
{
    raw_say_hello(link->application, "raw" RAW_UUID, ZLINK_CONNECTION_APPLICATION, 10);
}

static void say_request_on_completion(const raw_link_t *link)
{
    raw_request(link->completion, 1, "x");
}

static void say_error_on_application(const raw_link_t *link)
{
    raw_error(link->application, 1, ZLINK_REJECTED);
}

static void say_cancel_on_completion(const raw_link_t *link)
{
    raw_send(link->completion, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_CANCEL, .reply_route_id = 1}, NULL, 0, NULL,
             0);
}

static void say_update_on_completion(const raw_link_t *link)
{
    raw_update(link->completion, 6, false, "raw", 100);
}

static void test_frames_in_the_wrong_place_end_the_link(void **state)
{
    (void)state;
    link_breaks(say_another_hello, "a second description that differs from the first");
    link_breaks(say_request_on_completion, "a call on the Completion connection");
    link_breaks(say_error_on_application, "an answer on the Application connection");
    link_breaks(say_cancel_on_completion, "CANCEL on the Completion connection");
    link_breaks(say_update_on_completion, "a frame that does not belong after admission");
}

static void say_announce_2_first(const raw_link_t *link)
{
    raw_announce(link->application, ZLINK_ANNOUNCE_PACKET, 2, "tests.Raw");
}

static void say_announce_1_twice(const raw_link_t *link)
{
    raw_announce(link->application, ZLINK_ANNOUNCE_TARGET, 1, "prices");
    raw_announce(link->application, ZLINK_ANNOUNCE_TARGET, 1, "prices");
}

static void say_unknown_target(const raw_link_t *link)
{
    raw_announce(link->application, ZLINK_ANNOUNCE_PACKET, 1, "tests.Raw");
    raw_send(link->application,
             (zlink_frame_prefix_t){
                 .kind = ZLINK_FRAME_REQUEST, .reply_route_id = 1, .deadline_ms = 9, .target_id = 1, .packet_id = 1},
             NULL, 0, NULL, 0);
}

static void say_unknown_packet(const raw_link_t *link)
{
    raw_announce(link->application, ZLINK_ANNOUNCE_TARGET, 1, "prices");
    raw_send(link->application, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_SEND, .target_id = 1, .packet_id = 7}, NULL,
             0, NULL, 0);
}

/* The numbers of one connection are not those of the other. */
static void say_names_of_the_other_connection(const raw_link_t *link)
{
    raw_announce(link->application, ZLINK_ANNOUNCE_PACKET, 1, "tests.Raw");
    raw_send(link->completion, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_REPLY, .reply_route_id = 5, .packet_id = 1},
             NULL, 0, NULL, 0);
}

static void test_wrong_numbers_for_names_end_the_link(void **state)
{
    (void)state;
    link_breaks(say_unknown_target, "a target number that was never announced");
    link_breaks(say_unknown_packet, "a packet number that was never announced");
    link_breaks(say_names_of_the_other_connection, "a packet number that was never announced");
}

static void breaks_somehow(void (*say)(const raw_link_t *link))
{
    node_t node;

    start(&node);
    raw_link_t link = join(&node, "raw" RAW_UUID, 9);
    say(&link);
    fixture_wait_for(&node.lost, 1);
    raw_leave(&link);
    node_wait_links(&node, 0);
    assert_int_equal(atomic_load(&node.requests), 0);
    node_stop(&node);
}

static void test_wrong_announcements_end_the_link(void **state)
{
    (void)state;
    breaks_somehow(say_announce_2_first);
    breaks_somehow(say_announce_1_twice);
}

static void test_a_raw_peer_that_keeps_the_rules_is_answered(void **state)
{
    node_t node;

    (void)state;
    start(&node);
    raw_link_t link = join(&node, "raw" RAW_UUID, 9);
    raw_send(link.application, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_CANCEL, .reply_route_id = 8}, NULL, 0, NULL,
             0); /* advice that comes for nothing is taken and forgotten */
    raw_request(link.application, 0x1234567890, "in full");
    raw_expect(link.completion, ZLINK_FRAME_ANNOUNCE, &frame);
    raw_expect(link.completion, ZLINK_FRAME_REPLY, &frame);
    assert_int_equal(frame.prefix.reply_route_id, 0x1234567890);
    assert_int_equal(frame.prefix.packet_id, 1);
    assert_int_equal(frame.prefix.body_bytes, 7);
    assert_memory_equal(frame.body, "in full", 7);

    raw_announce(link.application, ZLINK_ANNOUNCE_TARGET, 1, "prices");
    raw_announce(link.application, ZLINK_ANNOUNCE_PACKET, 1, "tests.Raw");
    raw_send(link.application,
             (zlink_frame_prefix_t){
                 .kind = ZLINK_FRAME_REQUEST, .reply_route_id = 2, .deadline_ms = 9, .target_id = 1, .packet_id = 1},
             NULL, 0, "by number", 9);
    raw_expect(link.completion, ZLINK_FRAME_REPLY, &frame);
    assert_memory_equal(frame.body, "by number", 9);
    assert_string_equal(node_read(&node)->target, "prices");
    raw_leave(&link);
    node_stop(&node);
}

/* ---- answers ---- */

/* EX-48: only the link that a request went out on may answer it; an answer to nothing is dropped. */
static void test_ex48_answers_of_the_wrong_peer(void **state)
{
    test_call_t call;
    node_t node;

    (void)state;
    start(&node);
    raw_link_t first = raw_join(node.address, "first" RAW_UUID, 1);
    node_wait_links(&node, 1);
    test_call_init(&call, &node, "raw", "ask");
    test_call_submit(&call);
    raw_expect_call(first.application, ZLINK_FRAME_REQUEST, &frame);
    const uint64_t route = frame.prefix.reply_route_id;
    raw_link_t second = raw_join(node.address, "second" RAW_UUID, 2);
    node_wait_links(&node, 2);

    raw_error(second.completion, route, ZLINK_DATA_LOST);
    raw_expect_end(second.completion);
    raw_expect_end(second.application);
    fixture_wait_for(&node.lost, 1);
    assert_string_equal(node_read(&node)->reason, "a reply to another peer's request");
    assert_int_equal(atomic_load(&call.completions), 0);

    raw_error(first.completion, route + 1, ZLINK_DATA_LOST);
    raw_error(first.completion, UINT64_MAX, ZLINK_DATA_LOST);
    raw_error(first.completion, route, ZLINK_TYPE_MISMATCH);
    raw_error(first.completion, route, ZLINK_DATA_LOST); /* once more: nobody waits */
    assert_int_equal(test_call_wait(&call), ZLINK_TYPE_MISMATCH);
    raw_request(first.application, 3, "still there");
    raw_expect_call(first.completion, ZLINK_FRAME_REPLY, &frame);
    assert_int_equal(node_look(&node).ready, 1);
    test_call_release(&call);
    raw_leave(&first);
    node_stop(&node);
}

/* EX-49: a reply that belongs to an earlier life's link reaches nobody: neither the call that has ended with that link
 * nor the next one to a target of the same name. */
static void test_ex49_a_reply_from_an_earlier_life(void **state)
{
    test_call_t calls[2];
    uint64_t routes[2];
    node_t node;

    (void)state;
    start(&node);
    raw_link_t link = join(&node, "raw" RAW_UUID, 9);
    for (size_t life = 0; life < 2; life++) {
        test_call_init(&calls[life], &node, "raw", "the same");
        test_call_submit(&calls[life]);
        raw_expect_call(link.application, ZLINK_FRAME_REQUEST, &frame);
        routes[life] = frame.prefix.reply_route_id;
        if (life == 1)
            break;
        raw_leave(&link);
        assert_int_equal(test_call_wait(&calls[0]), ZLINK_UNAVAILABLE);
        node_wait_links(&node, 0);
        link = join(&node, "raw" RAW_UUID, 10);
    }
    assert_int_not_equal(routes[0], routes[1]);
    raw_error(link.completion, routes[0], ZLINK_DATA_LOST);
    raw_error(link.completion, routes[1], ZLINK_REJECTED);
    assert_int_equal(test_call_wait(&calls[1]), ZLINK_REJECTED);
    for (size_t life = 0; life < 2; life++)
        test_call_release(&calls[life]);
    raw_leave(&link);
    node_stop(&node);
}

static void test_a_second_link_of_the_same_peer_replaces_the_first(void **state)
{
    node_t node;

    (void)state;
    start(&node);
    raw_link_t old = join(&node, "raw" RAW_UUID, 1);
    raw_link_t new = raw_join(node.address, "raw" RAW_UUID, 2);
    raw_expect_end(old.application);
    raw_expect_end(old.completion);
    node_wait_links(&node, 1);
    /* A process of the same name that has started anew. */
    raw_link_t newer = raw_join(node.address, "raw-99999999-2222-4333-8444-555555555555", 2);
    raw_expect_end(new.application);
    raw_expect_end(new.completion);
    node_wait_links(&node, 1);
    raw_request(newer.application, 1, "hello");
    raw_expect_call(newer.completion, ZLINK_FRAME_REPLY, &frame);
    raw_leave(&newer);
    node_stop(&node);
}

/* ---- UPDATE ---- */

static zlink_status_t ask_raw(node_t *node, raw_link_t *link)
{
    test_call_t call;

    test_call_init(&call, node, "raw", "ask");
    test_call_submit(&call);
    if (atomic_load(&node->members) > 0) {
        raw_expect_call(link->application, ZLINK_FRAME_REQUEST, &frame);
        raw_error(link->completion, frame.prefix.reply_route_id, ZLINK_ALREADY_EXISTS);
    }
    zlink_status_t status = test_call_wait(&call);
    test_call_release(&call);
    return status;
}

/* So that everything sent before has been taken. */
static void wait_until_taken(raw_link_t *link)
{
    static uint64_t route = 1000;

    raw_request(link->application, ++route, "");
    raw_expect_call(link->completion, ZLINK_FRAME_REPLY, &frame);
    assert_int_equal(frame.prefix.reply_route_id, route);
}

/* TR-27: a higher revision is taken, the same again changes nothing. TR-32: a member without weight is unavailable. */
static void test_tr27_tr32_updates_that_are_taken(void **state)
{
    node_t node;

    (void)state;
    start(&node);
    raw_link_t link = join(&node, "raw" RAW_UUID, 9);
    assert_int_equal(ask_raw(&node, &link), ZLINK_ALREADY_EXISTS);
    raw_update(link.application, 5, false, "raw", 100); /* what the HELLO said */
    raw_update(link.application, 8, false, "raw", 0);
    raw_update(link.application, 8, false, "raw", 0);
    wait_until_taken(&link);
    assert_int_equal(atomic_load(&node.members), 0);
    assert_int_equal(ask_raw(&node, &link), ZLINK_UNAVAILABLE);
    raw_update(link.application, 9, false, "raw", 1);
    wait_until_taken(&link);
    assert_int_equal(ask_raw(&node, &link), ZLINK_ALREADY_EXISTS);
    raw_update(link.application, 10, true, "raw", 1);
    wait_until_taken(&link);
    assert_int_equal(ask_raw(&node, &link), ZLINK_UNAVAILABLE);
    raw_leave(&link);
    node_wait_links(&node, 0);
    node_stop(&node);
}

static void say_lower_revision(const raw_link_t *link)
{
    raw_update(link->application, 4, false, "raw", 100);
}

static void say_same_revision_other_weight(const raw_link_t *link)
{
    raw_update(link->application, 5, false, "raw", 99);
}

static void say_same_revision_draining(const raw_link_t *link)
{
    raw_update(link->application, 5, true, "raw", 100);
}

static void say_other_channel(const raw_link_t *link)
{
    raw_update(link->application, 6, false, "cooked", 100);
}

static void say_no_channel(const raw_link_t *link)
{
    raw_update(link->application, 6, false, NULL, 0);
}

/* TR-27: a lower or conflicting revision is a protocol error. */
static void test_tr27_updates_that_end_the_link(void **state)
{
    (void)state;
    link_breaks(say_lower_revision, "an UPDATE with a stale revision");
    link_breaks(say_same_revision_other_weight, "an UPDATE with a stale revision");
    link_breaks(say_same_revision_draining, "an UPDATE with a stale revision");
    link_breaks(say_other_channel, "an UPDATE with other channels");
    link_breaks(say_no_channel, "an UPDATE with other channels");
}

/* TR-32: also a channel that was never more than announced. */
static void test_tr32_a_channel_announced_without_weight_is_known(void **state)
{
    zlink_wire_channel_t channels[1] = {{.name = "asleep", .weight = 0}};
    zlink_wire_hello_t hello = raw_hello("raw" RAW_UUID, ZLINK_CONNECTION_APPLICATION, 3);
    node_t node;

    (void)state;
    start(&node);
    hello.channels = channels;
    raw_link_t link = {raw_connect(node.address), -1};
    raw_say(link.application, ZLINK_FRAME_HELLO, &hello);
    raw_expect(link.application, ZLINK_FRAME_ADMIT, &frame);
    link.completion = raw_connect(node.address);
    hello.lane = ZLINK_CONNECTION_COMPLETION;
    raw_say(link.completion, ZLINK_FRAME_HELLO, &hello);
    raw_expect(link.completion, ZLINK_FRAME_ADMIT, &frame);
    fixture_wait_for(&node.ready, 1);
    assert_int_equal(node_ask(&node, "asleep", "x"), ZLINK_UNAVAILABLE);
    assert_int_equal(node_ask(&node, "never", "x"), ZLINK_NOT_FOUND);
    raw_leave(&link);
    node_stop(&node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_connection_that_says_nothing_is_not_kept),
        cmocka_unit_test(test_a_link_without_its_second_connection_is_not_kept),
        cmocka_unit_test(test_tr15_nothing_is_taken_before_admission),
        cmocka_unit_test(test_a_hello_that_does_not_fit_is_told_why),
        cmocka_unit_test(test_tr16_a_second_connection_belongs_to_its_link),
        cmocka_unit_test(test_frames_in_the_wrong_place_end_the_link),
        cmocka_unit_test(test_wrong_numbers_for_names_end_the_link),
        cmocka_unit_test(test_wrong_announcements_end_the_link),
        cmocka_unit_test(test_a_raw_peer_that_keeps_the_rules_is_answered),
        cmocka_unit_test(test_ex48_answers_of_the_wrong_peer),
        cmocka_unit_test(test_ex49_a_reply_from_an_earlier_life),
        cmocka_unit_test(test_a_second_link_of_the_same_peer_replaces_the_first),
        cmocka_unit_test(test_tr27_tr32_updates_that_are_taken),
        cmocka_unit_test(test_tr27_updates_that_end_the_link),
        cmocka_unit_test(test_tr32_a_channel_announced_without_weight_is_known),
    };
    zlink_log_set_level(ZLINK_LOG_OFF);
    return zlink_test_main(tests);
}
