#include "net/listener.h"

#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/container_of.h"
#include "base/log.h"
#include "base/memory.h"
#include "net/stream_internal.h"
#include "net/unix_socket.h"

#define OPERATION_ACCEPT 1u
#define OPERATION_CANCEL 2u

#define CONNECTIONS_MAX_DEFAULT 16384u
#define PER_ADDRESS_MAX_DEFAULT 4096u
#define HANDSHAKES_MAX_DEFAULT  1024u
#define UNIX_MODE_DEFAULT       0600u
#define BACKLOG                 1024
#define WAIT_FIRST_MS           100u
#define WAIT_MAX_MS             5000u
#define FAILURES_IN_A_ROW_MAX   16u /* then even passing errors are waited out */
#define LOG_EVERY_MS            10000u

ZLINK_COUNTER_DEFINE(zlink_counter_net_accepted, ZLINK_COUNTER, "zlink.net.connections.accepted",
                     "Connections that listeners accepted");
ZLINK_COUNTER_DEFINE(zlink_counter_net_turned_away, ZLINK_COUNTER, "zlink.net.connections.turned_away",
                     "Connections closed on arrival because a listener's limit was reached");

/* Each has a line of its own. */
typedef enum turn_away_reason {
    TURN_AWAY_CONNECTIONS,
    TURN_AWAY_PER_ADDRESS,
    TURN_AWAY_HANDSHAKES,
    TURN_AWAY_MEMORY,
    TURN_AWAY_REASONS,
} turn_away_reason_t;

static const char *const turn_away_words[TURN_AWAY_REASONS] = {
    [TURN_AWAY_CONNECTIONS] = "there are as many connections as may be (limits.connections)",
    [TURN_AWAY_PER_ADDRESS] =
        "there are as many connections from this address as may be (limits.connections_per_address)",
    [TURN_AWAY_HANDSHAKES] = "there are as many handshakes in progress as may be (limits.handshakes)",
    [TURN_AWAY_MEMORY] = "no memory",
};

struct zlink_listener {
    zlink_reactor_t *reactor;
    zlink_resident_t resident;
    zlink_ring_slot_t slot;
    zlink_listener_options_t options;
    zlink_timer_t wait;
    zlink_tick_task_t settle;
    zlink_tick_task_t gone;
    zlink_unix_file_t file;
    zlink_endpoint_t endpoint;
    char address[ZLINK_ADDRESS_TEXT_BYTES];
    int fd;
    bool armed;
    bool stopped; /* accepts nothing more */
    bool shut;    /* the socket is closed */
    bool closed;  /* its user let go of it */
    uint32_t wait_ms;
    unsigned failures; /* in a row */
    unsigned connections;
    unsigned handshakes;
    zlink_address_counts_t per_address;
    uint64_t logged_ms[TURN_AWAY_REASONS]; /* last line about it, plus one */
    uint64_t not_logged[TURN_AWAY_REASONS];
};

static void listener_free(zlink_tick_task_t *task)
{
    zlink_listener_t *listener = ZLINK_CONTAINER_OF(task, zlink_listener_t, gone);

    assert(listener->shut && listener->connections == 0);
    zlink_free(listener);
}

/* The memory goes when the socket is closed, the user has let go, and no stream reports to it any more. */
static void listener_free_if_done(zlink_listener_t *listener)
{
    if (!listener->shut || !listener->closed || listener->connections > 0)
        return;
    zlink_tick_list_remove(zlink_reactor_lasts(listener->reactor), &listener->gone);
    zlink_tick_list_add(zlink_reactor_frees(listener->reactor), &listener->gone);
}

static void listener_settle_later(zlink_listener_t *listener)
{
    zlink_tick_list_add(zlink_reactor_tick_end(listener->reactor), &listener->settle);
}

static void listener_arm(zlink_listener_t *listener)
{
    struct io_uring_sqe *sqe = zlink_reactor_sqe(listener->reactor);

    assert(listener->slot.in_flight == 0); /* never two accepts */
    if ((zlink_reactor_features(listener->reactor) & ZLINK_RING_MULTISHOT_ACCEPT) != 0)
        io_uring_prep_multishot_accept(sqe, listener->fd, NULL, NULL, SOCK_CLOEXEC);
    else
        io_uring_prep_accept(sqe, listener->fd, NULL, NULL, SOCK_CLOEXEC);
    zlink_reactor_start(listener->reactor, sqe, &listener->slot, OPERATION_ACCEPT);
    listener->armed = true;
}

static void listener_shut(zlink_listener_t *listener)
{
    listener->shut = true;
    zlink_unix_socket_unlink(&listener->file);
    close(listener->fd);
    listener->fd = -1;
    zlink_reactor_slot_remove(listener->reactor, &listener->slot);
    zlink_reactor_resident_remove(listener->reactor, &listener->resident);
    zlink_tick_list_add(zlink_reactor_lasts(listener->reactor), &listener->gone);
    listener_free_if_done(listener);
}

static void listener_settle(zlink_tick_task_t *task)
{
    zlink_listener_t *listener = ZLINK_CONTAINER_OF(task, zlink_listener_t, settle);

    if (listener->stopped) {
        if (!listener->shut && listener->slot.in_flight == 0)
            listener_shut(listener);
    } else if (!listener->armed && listener->slot.in_flight == 0 && !zlink_timer_is_running(&listener->wait)) {
        listener_arm(listener);
    }
}

static void listener_waited(zlink_timer_t *timer)
{
    listener_settle_later(ZLINK_CONTAINER_OF(timer, zlink_listener_t, wait));
}

/* ---- accepting ---- */

/* A stream of this listener changed its state. */
static void listener_stream_moved(zlink_stream_t *stream, zlink_stream_state_t from)
{
    zlink_listener_t *listener = stream->owner;

    if (stream->state == ZLINK_STREAM_HANDSHAKING)
        listener->handshakes++;
    if (from == ZLINK_STREAM_HANDSHAKING)
        listener->handshakes--;
    if (stream->state == ZLINK_STREAM_CLOSED) {
        listener->connections--;
        zlink_address_counts_remove(&listener->per_address, stream->counted);
        listener_free_if_done(listener);
    }
}

static void listener_turn_away(zlink_listener_t *listener, int fd, const char *peer, turn_away_reason_t reason)
{
    const uint64_t now_ms = zlink_reactor_now_ms(listener->reactor);
    uint64_t *logged_ms = &listener->logged_ms[reason];

    zlink_counter_add(&zlink_counter_net_turned_away, 1);
    close(fd);
    if (*logged_ms != 0 && now_ms + 1 - *logged_ms < LOG_EVERY_MS) {
        listener->not_logged[reason]++;
        return;
    }
    *logged_ms = now_ms + 1;
    zlink_log(ZLINK_LOG_WARN, "zlink.net.connection.turned_away", ZLINK_LOG_S("listener", listener->address),
              ZLINK_LOG_S("address", peer), ZLINK_LOG_S("reason", turn_away_words[reason]),
              ZLINK_LOG_I("not_logged", listener->not_logged[reason]));
    listener->not_logged[reason] = 0;
}

/* A descriptor that was accepted from `peer`: makes its stream, or says what is in the way. */
static zlink_stream_t *listener_admit(zlink_listener_t *listener, const zlink_endpoint_t *peer,
                                      turn_away_reason_t *reason)
{
    zlink_address_count_t *counted = NULL;
    zlink_stream_t *stream = NULL;
    zlink_status_t status;

    if (listener->connections >= listener->options.connections_max) {
        *reason = TURN_AWAY_CONNECTIONS;
        return NULL;
    }
    if (listener->handshakes >= listener->options.handshakes_max) {
        *reason = TURN_AWAY_HANDSHAKES;
        return NULL;
    }
    status =
        zlink_address_counts_add(&listener->per_address, peer, listener->options.connections_per_address_max, &counted);
    *reason = status == ZLINK_REJECTED ? TURN_AWAY_PER_ADDRESS : TURN_AWAY_MEMORY;
    if (status != ZLINK_OK)
        return NULL;
    if (zlink_stream_create(listener->reactor, listener->options.tls, ZLINK_TLS_SERVER, listener->options.events,
                            &listener->options.limits, &stream) != ZLINK_OK) {
        zlink_address_counts_remove(&listener->per_address, counted);
        return NULL;
    }
    stream->counted = counted;
    return stream;
}

/* Takes the accept back that the kernel works on. */
static void listener_cancel(zlink_listener_t *listener)
{
    struct io_uring_sqe *sqe;

    if (listener->slot.in_flight == 0)
        return;
    sqe = zlink_reactor_sqe(listener->reactor);
    io_uring_prep_cancel_fd(sqe, listener->fd, IORING_ASYNC_CANCEL_ALL);
    zlink_reactor_start(listener->reactor, sqe, &listener->slot, OPERATION_CANCEL);
}

/* The kernel named a descriptor that is no new connection. Kernels that did so did it in the multishot form: from now
 * on one accept at a time. The descriptor is somebody else's, if anybody's, and is left alone. */
static void listener_distrust(zlink_listener_t *listener, int fd)
{
    zlink_log(ZLINK_LOG_WARN, "zlink.net.accept.wrong_descriptor", ZLINK_LOG_S("listener", listener->address),
              ZLINK_LOG_I("descriptor", fd));
    if ((zlink_reactor_features(listener->reactor) & ZLINK_RING_MULTISHOT_ACCEPT) == 0)
        return;
    zlink_reactor_lose_feature(listener->reactor, ZLINK_RING_MULTISHOT_ACCEPT);
    if (listener->armed && !listener->stopped)
        listener_cancel(listener);
}

/* What is attached to a stream has this set, and what was just accepted has not: the listening socket has not. (A unix
 * socket has no such mark.) */
static bool is_somebodys_connection(int fd)
{
    int on = 0;
    socklen_t size = sizeof(on);

    return getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &size) == 0 && on != 0;
}

static void listener_take(zlink_listener_t *listener, int fd)
{
    zlink_endpoint_t peer = {.size = sizeof(peer.socket)};
    char text[ZLINK_ADDRESS_TEXT_BYTES];
    turn_away_reason_t reason;
    zlink_stream_t *stream;

    /* Some kernels named a wrong descriptor here: this fails for anything that is not a connected socket. */
    if (getpeername(fd, &peer.socket.any, &peer.size) != 0) {
        if (errno == EBADF || errno == ENOTSOCK)
            listener_distrust(listener, fd);
        else
            close(fd);
        return;
    }
    if (is_somebodys_connection(fd)) {
        listener_distrust(listener, fd);
        return;
    }
    if (listener->stopped) {
        close(fd);
        return;
    }
    if (peer.socket.any.sa_family == AF_UNIX)
        snprintf(text, sizeof(text), "%s", listener->address); /* who dials a unix socket has no name */
    else
        zlink_endpoint_text(&peer, text);
    stream = listener_admit(listener, &peer, &reason);
    if (stream == NULL) {
        listener_turn_away(listener, fd, text, reason);
        return;
    }
    zlink_counter_add(&zlink_counter_net_accepted, 1);
    listener->connections++;
    stream->moved = listener_stream_moved;
    stream->owner = listener;
    zlink_stream_attach(stream, fd, text);
    listener->options.accepted(listener, stream);
}

static void listener_wait(zlink_listener_t *listener, int error)
{
    zlink_log(ZLINK_LOG_WARN, "zlink.net.accept.failed", ZLINK_LOG_S("listener", listener->address),
              ZLINK_LOG_S("reason", strerror(error)), ZLINK_LOG_I("wait_ms", listener->wait_ms));
    zlink_reactor_timer_start(listener->reactor, &listener->wait,
                              zlink_reactor_now_ms(listener->reactor) + listener->wait_ms);
    listener->wait_ms = listener->wait_ms * 2 > WAIT_MAX_MS ? WAIT_MAX_MS : listener->wait_ms * 2;
}

static void listener_failed(zlink_listener_t *listener, int error)
{
    switch (error) {
    case ECANCELED:
    case EINTR:
    case EAGAIN:
        return;
    case EINVAL: /* a kernel without multishot accept */
        if ((zlink_reactor_features(listener->reactor) & ZLINK_RING_MULTISHOT_ACCEPT) != 0) {
            zlink_reactor_lose_feature(listener->reactor, ZLINK_RING_MULTISHOT_ACCEPT);
            return;
        }
        break;
    case ECONNABORTED: /* this one went away; others may be waiting */
    case EPROTO:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENONET:
    case EOPNOTSUPP:
        if (++listener->failures <= FAILURES_IN_A_ROW_MAX)
            return;
        break;
    default: /* no descriptors, no memory, or something that will not pass by itself: never try again at once */
        break;
    }
    if (!zlink_timer_is_running(&listener->wait))
        listener_wait(listener, error);
}

static void listener_complete(zlink_ring_slot_t *slot, unsigned operation, int32_t result, uint32_t flags)
{
    zlink_listener_t *listener = ZLINK_CONTAINER_OF(slot, zlink_listener_t, slot);
    const zlink_net_fault_t *fault = zlink_reactor_fault(listener->reactor);

    listener_settle_later(listener);
    if (operation != OPERATION_ACCEPT)
        return;
    if (result >= 0 && fault != NULL && fault->accept_result != NULL) {
        const int injected = fault->accept_result(fault->context);

        if (injected < 0) {
            close(result);
            result = injected;
        }
    }
    /* Whether the accept goes on is told by this flag alone: arming again while it does would double it. */
    if ((flags & IORING_CQE_F_MORE) == 0)
        listener->armed = false;
    if (result < 0) {
        listener_failed(listener, -result);
        return;
    }
    listener->failures = 0;
    listener->wait_ms = WAIT_FIRST_MS;
    listener_take(listener, result);
}

/* ---- opening and closing ---- */

static void listener_stop_accepting(zlink_listener_t *listener)
{
    if (listener->stopped)
        return;
    listener->stopped = true;
    zlink_reactor_timer_cancel(listener->reactor, &listener->wait);
    listener_cancel(listener);
    listener_settle_later(listener);
}

static void listener_stop(zlink_resident_t *resident)
{
    listener_stop_accepting(ZLINK_CONTAINER_OF(resident, zlink_listener_t, resident));
}

void zlink_listener_set_tls(zlink_listener_t *listener, const zlink_tls_context_t *tls)
{
    assert(zlink_reactor_is_current(listener->reactor) && listener->options.tls != NULL && tls != NULL);
    listener->options.tls = tls;
}

void zlink_listener_close(zlink_listener_t *listener)
{
    assert(zlink_reactor_is_current(listener->reactor) && !listener->closed);
    listener->closed = true;
    listener_stop_accepting(listener);
    listener_free_if_done(listener);
}

static zlink_status_t listener_bind(zlink_listener_t *listener, const zlink_address_t *address, zlink_refusal_t *why)
{
    const int on = 1;
    zlink_status_t status;

    if (address->kind == ZLINK_ADDRESS_UNIX) {
        status = zlink_unix_socket_bind(listener->fd, &address->endpoint, (mode_t)listener->options.unix_mode,
                                        &listener->file, why);
        if (status != ZLINK_OK)
            return status;
    } else if (setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
               bind(listener->fd, &address->endpoint.socket.any, address->endpoint.size) != 0) {
        goto failed;
    }
    if (listen(listener->fd, BACKLOG) != 0)
        goto failed;
    listener->endpoint.size = sizeof(listener->endpoint.socket);
    if (getsockname(listener->fd, &listener->endpoint.socket.any, &listener->endpoint.size) != 0)
        goto failed;
    if (address->kind == ZLINK_ADDRESS_UNIX)
        memcpy(listener->address, address->text, sizeof(listener->address));
    else
        zlink_endpoint_text(&listener->endpoint, listener->address);
    return ZLINK_OK;

failed:
    status = errno == EADDRINUSE ? ZLINK_ALREADY_EXISTS : ZLINK_UNAVAILABLE;
    zlink_refuse(why, "cannot listen on %s: %s", address->text, strerror(errno));
    zlink_unix_socket_unlink(&listener->file);
    return status;
}

static zlink_status_t listener_address(const char *text, zlink_address_t *address, zlink_refusal_t *why)
{
    zlink_status_t status = zlink_address_parse(text, true, address, why);

    if (status != ZLINK_OK || address->kind != ZLINK_ADDRESS_NAME)
        return status;
    zlink_refuse(
        why,
        "bad address '%.128s': a listener needs a number: 127.0.0.1 for this machine only, 0.0.0.0 or [::] for "
        "all",
        text);
    return ZLINK_INVALID_OPERATION;
}

zlink_status_t zlink_listener_open(zlink_reactor_t *reactor, const zlink_listener_options_t *options,
                                   zlink_listener_t **listener_out, zlink_refusal_t *why)
{
    zlink_address_t address;
    zlink_listener_t *listener;
    zlink_status_t status;

    assert(zlink_reactor_is_current(reactor) && options->accepted != NULL);
    if (zlink_reactor_is_stopping(reactor)) {
        zlink_refuse(why, "the node stops");
        return ZLINK_SHUTTING_DOWN;
    }
    status = listener_address(options->address, &address, why);
    if (status != ZLINK_OK)
        return status;
    listener = zlink_calloc(1, sizeof(*listener));
    if (listener == NULL) {
        zlink_refuse(why, "no memory to listen on %s", address.text);
        return ZLINK_CAPACITY_EXCEEDED;
    }
    listener->reactor = reactor;
    listener->options = *options;
    listener->options.unix_mode = options->unix_mode == 0 ? UNIX_MODE_DEFAULT : options->unix_mode;
    if (listener->options.connections_max == 0)
        listener->options.connections_max = CONNECTIONS_MAX_DEFAULT;
    if (listener->options.connections_per_address_max == 0)
        listener->options.connections_per_address_max = PER_ADDRESS_MAX_DEFAULT;
    if (listener->options.handshakes_max == 0)
        listener->options.handshakes_max = HANDSHAKES_MAX_DEFAULT;
    listener->wait_ms = WAIT_FIRST_MS;
    listener->slot.complete = listener_complete;
    listener->resident.stop = listener_stop;
    listener->wait.fire = listener_waited;
    listener->settle.run = listener_settle;
    listener->gone.run = listener_free;
    /* A blocking socket: on a non-blocking one the ring would answer -EAGAIN instead of waiting. */
    listener->fd = socket(address.endpoint.socket.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener->fd < 0) {
        zlink_refuse(why, "cannot listen on %s: %s", address.text, strerror(errno));
        status = ZLINK_CAPACITY_EXCEEDED;
        goto free_listener;
    }
    status = listener_bind(listener, &address, why);
    if (status != ZLINK_OK)
        goto close_socket;
    status = zlink_reactor_slot_add(reactor, &listener->slot);
    if (status != ZLINK_OK) {
        zlink_refuse(why, "no memory to listen on %s", address.text);
        goto unlink_file;
    }
    listener->options.address = listener->address;
    zlink_reactor_resident_add(reactor, &listener->resident);
    listener_settle_later(listener);
    *listener_out = listener;
    return ZLINK_OK;

unlink_file:
    zlink_unix_socket_unlink(&listener->file);
close_socket:
    close(listener->fd);
free_listener:
    zlink_free(listener);
    return status;
}

const char *zlink_listener_address(const zlink_listener_t *listener)
{
    return listener->address;
}

uint16_t zlink_listener_port(const zlink_listener_t *listener)
{
    return zlink_endpoint_port(&listener->endpoint);
}

void *zlink_listener_context(const zlink_listener_t *listener)
{
    return listener->options.context;
}
