/*
 * tests/unit/raw_peer.h: a peer made of plain sockets, which says what the test wants and in any order.
 *
 * Blocking, on the test's own thread, with a bound on every wait. A test gives it a mesh whose clock stands still, so
 * that no PROBE comes between.
 */
#ifndef ZLINK_TESTS_UNIT_RAW_PEER_H
#define ZLINK_TESTS_UNIT_RAW_PEER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net_fixture.h"

#include "net/address.h"
#include "proto/frame.h"
#include "proto/wire.h"

#define RAW_UUID "-11111111-2222-4333-8444-555555555555"

typedef struct raw_frame {
    zlink_frame_prefix_t prefix;
    uint8_t body[70000];
} raw_frame_t;

/* ---- sockets ---- */

static inline int raw_socket(int receive_bytes)
{
    const struct timeval patience = {.tv_sec = FIXTURE_PATIENCE_S};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    if (receive_bytes > 0)
        assert_true(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes)) == 0);
    assert_true(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0);
    return fd;
}

static inline int raw_connect_slow(const char *address, int receive_bytes)
{
    zlink_address_t parsed;
    int fd = raw_socket(receive_bytes);

    assert_true(zlink_address_parse(address, false, &parsed, NULL) == ZLINK_OK);
    if (connect(fd, &parsed.endpoint.socket.any, parsed.endpoint.size) != 0)
        fail_msg("%s: %s", address, strerror(errno));
    return fd;
}

static inline int raw_connect(const char *address)
{
    return raw_connect_slow(address, 0);
}

static inline int raw_listen(char address[64])
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(here);
    int fd = raw_socket(0);

    assert_true(bind(fd, (struct sockaddr *)&here, size) == 0 && listen(fd, 16) == 0);
    assert_true(getsockname(fd, (struct sockaddr *)&here, &size) == 0);
    snprintf(address, 64, "127.0.0.1:%u", ntohs(here.sin_port));
    return fd;
}

static inline int raw_accept(int listener)
{
    const struct timeval patience = {.tv_sec = FIXTURE_PATIENCE_S};
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0)
        fail_msg("nobody dialled: %s", strerror(errno));
    assert_true(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0);
    return fd;
}

/* ---- bytes ---- */

static inline void raw_write(int fd, const void *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t sent = send(fd, (const char *)bytes + at, size - at, MSG_NOSIGNAL);
        if (sent <= 0)
            return; /* the other side has gone: what it says is what the test looks at */
        at += (size_t)sent;
    }
}

/* False at the end of the connection. */
static inline bool raw_read_bytes(int fd, void *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t got = recv(fd, (char *)bytes + at, size - at, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            fail_msg("waited %d s for bytes in vain", FIXTURE_PATIENCE_S);
        if (got <= 0)
            return false;
        at += (size_t)got;
    }
    return true;
}

/* ---- frames ---- */

static inline void raw_send(int fd, zlink_frame_prefix_t prefix, const void *envelope, size_t envelope_bytes,
                            const void *payload, size_t payload_bytes)
{
    uint8_t bytes[ZLINK_FRAME_PREFIX_BYTES + 70000];
    const size_t total = ZLINK_FRAME_PREFIX_BYTES + envelope_bytes + payload_bytes;

    assert_true(total <= sizeof(bytes));
    prefix.envelope_bytes = (uint32_t)envelope_bytes;
    prefix.body_bytes = (uint32_t)(envelope_bytes + payload_bytes);
    zlink_frame_prefix_encode(&prefix, bytes);
    if (envelope_bytes > 0)
        memcpy(bytes + ZLINK_FRAME_PREFIX_BYTES, envelope, envelope_bytes);
    if (payload_bytes > 0)
        memcpy(bytes + ZLINK_FRAME_PREFIX_BYTES + envelope_bytes, payload, payload_bytes);
    raw_write(fd, bytes, total);
}

static inline bool raw_read(int fd, raw_frame_t *frame)
{
    uint8_t head[ZLINK_FRAME_PREFIX_BYTES];

    if (!raw_read_bytes(fd, head, sizeof(head)))
        return false;
    assert_true(zlink_frame_prefix_decode(head, sizeof(frame->body), &frame->prefix, NULL) == ZLINK_OK);
    return raw_read_bytes(fd, frame->body, frame->prefix.body_bytes);
}

static inline void raw_expect(int fd, zlink_frame_kind_t kind, raw_frame_t *frame)
{
    if (!raw_read(fd, frame))
        fail_msg("the end instead of %s", zlink_frame_kind_name((uint8_t)kind));
    if (frame->prefix.kind != kind)
        fail_msg("%s instead of %s", zlink_frame_kind_name(frame->prefix.kind), zlink_frame_kind_name((uint8_t)kind));
}

/* Nothing but the end. */
static inline void raw_expect_end(int fd)
{
    static raw_frame_t frame;

    if (raw_read(fd, &frame))
        fail_msg("%s instead of the end", zlink_frame_kind_name(frame.prefix.kind));
    close(fd);
}

static inline void raw_expect_reject(int fd, zlink_reject_code_t code)
{
    static raw_frame_t frame;
    zlink_wire_reject_t reject;

    raw_expect(fd, ZLINK_FRAME_REJECT, &frame);
    assert_int_equal(zlink_wire_reject_decode(frame.body, frame.prefix.envelope_bytes, &reject, NULL), ZLINK_OK);
    if (reject.code != code)
        fail_msg("REJECT %u \"%s\" instead of %u", reject.code, reject.reason, code);
    raw_expect_end(fd);
}

/* ---- what a node says of itself ---- */

/* One channel, "raw". */
static inline zlink_wire_hello_t raw_hello(const char *node_id, zlink_connection_lane_t lane, uint64_t link_id)
{
    static zlink_wire_channel_t channels[1] = {{.name = "raw", .weight = 100}};
    zlink_wire_hello_t hello = {
        .protocol_major = ZLINK_WIRE_PROTOCOL_MAJOR,
        .mesh = "unit",
        .lane = lane,
        .link_id = link_id,
        .generation = 77,
        .revision = 5,
        .role = ZLINK_ROLE_SERVER,
        .max_body_bytes = 1u << 20,
        .channels = channels,
        .channel_count = 1,
    };

    snprintf(hello.node_id, sizeof(hello.node_id), "%s", node_id);
    return hello;
}

static inline void raw_say(int fd, zlink_frame_kind_t kind, const zlink_wire_hello_t *hello)
{
    uint8_t envelope[4096];
    size_t size = 0;

    assert_int_equal(zlink_wire_hello_encode(hello, envelope, sizeof(envelope), &size), ZLINK_OK);
    raw_send(fd, (zlink_frame_prefix_t){.kind = (uint8_t)kind}, envelope, size, NULL, 0);
}

static inline void raw_say_hello(int fd, const char *node_id, zlink_connection_lane_t lane, uint64_t link_id)
{
    const zlink_wire_hello_t hello = raw_hello(node_id, lane, link_id);

    raw_say(fd, ZLINK_FRAME_HELLO, &hello);
}

static inline void raw_announce(int fd, zlink_announce_kind_t kind, uint32_t id, const char *name)
{
    zlink_wire_announce_t announce = {.id = id, .kind = kind};
    uint8_t envelope[ZLINK_WIRE_SMALL_ENVELOPE_MAX];
    size_t size = 0;

    if (kind == ZLINK_ANNOUNCE_TARGET) {
        announce.target.kind = ZLINK_TARGET_CHANNEL;
        snprintf(announce.target.name, sizeof(announce.target.name), "%s", name);
    } else {
        snprintf(announce.packet, sizeof(announce.packet), "%s", name);
    }
    assert_int_equal(zlink_wire_announce_encode(&announce, envelope, sizeof(envelope), &size), ZLINK_OK);
    raw_send(fd, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_ANNOUNCE}, envelope, size, NULL, 0);
}

static inline void raw_update(int fd, uint64_t revision, bool draining, const char *channel, uint32_t weight)
{
    zlink_wire_channel_t channels[1] = {{.weight = weight}};
    zlink_wire_update_t update = {
        .revision = revision, .draining = draining, .channels = channels, .channel_count = channel ? 1 : 0};
    uint8_t envelope[1024];
    size_t size = 0;

    if (channel != NULL)
        snprintf(channels[0].name, sizeof(channels[0].name), "%s", channel);
    assert_int_equal(zlink_wire_update_encode(&update, envelope, sizeof(envelope), &size), ZLINK_OK);
    raw_send(fd, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_UPDATE}, envelope, size, NULL, 0);
}

/* A request whose names stand in its envelope. */
static inline void raw_request(int fd, uint64_t route, const char *text)
{
    zlink_wire_call_t names = {.target = {.kind = ZLINK_TARGET_CHANNEL, .name = "prices"}, .packet = "tests.Raw"};
    uint8_t envelope[ZLINK_WIRE_SMALL_ENVELOPE_MAX];
    size_t size = 0;

    assert_int_equal(zlink_wire_call_encode(&names, envelope, sizeof(envelope), &size), ZLINK_OK);
    raw_send(fd, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_REQUEST, .reply_route_id = route, .deadline_ms = 1000},
             envelope, size, text, strlen(text));
}

static inline void raw_error(int fd, uint64_t route, zlink_status_t status)
{
    raw_send(fd,
             (zlink_frame_prefix_t){
                 .kind = ZLINK_FRAME_ERROR, .reply_route_id = route, .error = zlink_frame_error_of(status)},
             NULL, 0, NULL, 0);
}

static inline void raw_say_flow(int fd, bool paused, uint64_t epoch)
{
    raw_send(fd, (zlink_frame_prefix_t){.kind = ZLINK_FRAME_FLOW_STATE, .error = paused, .reply_route_id = epoch}, NULL,
             0, NULL, 0);
}

/* ---- a whole link, dialled by the raw peer ---- */

typedef struct raw_link {
    int application, completion;
} raw_link_t;

static inline raw_link_t raw_join_slow(const char *address, const char *node_id, uint64_t link_id, int receive_bytes)
{
    static raw_frame_t frame;
    raw_link_t link = {raw_connect_slow(address, receive_bytes), -1};

    raw_say_hello(link.application, node_id, ZLINK_CONNECTION_APPLICATION, link_id);
    raw_expect(link.application, ZLINK_FRAME_ADMIT, &frame);
    link.completion = raw_connect(address);
    raw_say_hello(link.completion, node_id, ZLINK_CONNECTION_COMPLETION, link_id);
    raw_expect(link.completion, ZLINK_FRAME_ADMIT, &frame);
    return link;
}

static inline raw_link_t raw_join(const char *address, const char *node_id, uint64_t link_id)
{
    return raw_join_slow(address, node_id, link_id, 0);
}

static inline void raw_leave(raw_link_t *link)
{
    close(link->application);
    close(link->completion);
}

/* Reads announcements, and what the node says of its pressure, until a frame of `kind`. */
static inline void raw_expect_call(int fd, zlink_frame_kind_t kind, raw_frame_t *frame)
{
    do {
        if (!raw_read(fd, frame))
            fail_msg("the end instead of %s", zlink_frame_kind_name((uint8_t)kind));
    } while (frame->prefix.kind == ZLINK_FRAME_ANNOUNCE ||
             (frame->prefix.kind == ZLINK_FRAME_FLOW_STATE && kind != ZLINK_FRAME_FLOW_STATE));
    assert_int_equal(frame->prefix.kind, kind);
}

#endif
