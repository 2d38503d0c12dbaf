#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simulation/memory_kernel_internal.h"

memory_network_t memory_network;

void memory_sockets_open(void)
{
    memset(&memory_network, 0, sizeof(memory_network));
    TAILQ_INIT(&memory_network.all);
}

void memory_sockets_close(void)
{
    hold_true(TAILQ_EMPTY(&memory_network.all));
}

void memory_kernel_open(const uint64_t *now_ns)
{
    memory_rings_open(now_ns);
    memory_sockets_open();
}

void memory_kernel_close(void)
{
    memory_rings_close();
    memory_sockets_close();
}

/* ---- sockets ---- */

memory_socket_t *memory_socket_of(int fd)
{
    hold_true(fd >= MEMORY_FD_FIRST && fd < MEMORY_FD_FIRST + MEMORY_SOCKETS_MAX);
    memory_socket_t *found = memory_network.by_fd[fd - MEMORY_FD_FIRST];

    hold_true(found != NULL && found->machine == memory_kernel_machine());
    return found;
}

memory_socket_t *memory_socket_make(unsigned machine)
{
    memory_socket_t *made = calloc(1, sizeof(*made));

    hold_true(made != NULL);
    made->fd = -1;
    made->machine = machine;
    made->own = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = MEMORY_ADDRESS_OF(machine)};
    STAILQ_INIT(&made->inbox);
    STAILQ_INIT(&made->arrived);
    TAILQ_INSERT_TAIL(&memory_network.all, made, in_all);
    return made;
}

/* The lowest free number, as every kernel does it: numbers are reused at once. */
int memory_socket_name(memory_socket_t *named)
{
    int number = 0;

    while (memory_network.by_fd[number] != NULL)
        hold_true(++number < MEMORY_SOCKETS_MAX);
    memory_network.by_fd[number] = named;
    named->fd = MEMORY_FD_FIRST + number;
    return named->fd;
}

void memory_segments_drop(memory_socket_t *at, struct segments *list)
{
    segment_t *segment;

    while ((segment = STAILQ_FIRST(list)) != NULL) {
        STAILQ_REMOVE_HEAD(list, next);
        at->inbox_bytes -= segment->size - segment->taken;
        free(segment);
    }
}

void memory_socket_free(memory_socket_t *gone)
{
    if (gone->other != NULL)
        gone->other->other = NULL;
    memory_segments_drop(gone, &gone->inbox);
    memory_segments_drop(gone, &gone->arrived);
    if (gone->fd >= 0)
        memory_network.by_fd[gone->fd - MEMORY_FD_FIRST] = NULL;
    TAILQ_REMOVE(&memory_network.all, gone, in_all);
    free(gone);
}

/* ---- on the way ---- */

static uint64_t latency_ns(void)
{
    const uint64_t most_ns = chance_one_in(16) ? memory_network.odd_ns : memory_network.usual_ns;

    return most_ns / 1024 * chance_any(1024);
}

void memory_segment_send(memory_socket_t *to, segment_kind_t kind, const uint8_t *bytes, size_t size)
{
    segment_t *segment = calloc(1, sizeof(*segment) + size);

    hold_true(segment != NULL);
    segment->kind = kind;
    segment->size = size;
    if (size > 0)
        memcpy(segment->bytes, bytes, size);
    segment->due_ns = memory_now_ns() + latency_ns();
    if (segment->due_ns < to->last_due_ns)
        segment->due_ns = to->last_due_ns;
    to->last_due_ns = segment->due_ns;
    to->inbox_bytes += size;
    STAILQ_INSERT_TAIL(&to->inbox, segment, next);
    memory_kernel_totals.segments++;
}

void memory_reset_send(memory_socket_t *to)
{
    memory_segments_drop(to, &to->inbox);
    to->last_due_ns = 0;
    memory_segment_send(to, SEGMENT_RESET, NULL, 0);
}

static bool may_pass(const memory_socket_t *to)
{
    return !to->silent && !memory_network.parted[to->machine][to->far_machine];
}

/* ---- receiving and sending ---- */

static size_t arrived_take(memory_socket_t *at, uint8_t *into, size_t room)
{
    size_t filled = 0;
    segment_t *segment;

    while (filled < room && (segment = STAILQ_FIRST(&at->arrived)) != NULL) {
        size_t part = segment->size - segment->taken;

        if (part > room - filled)
            part = room - filled;
        memcpy(into + filled, segment->bytes + segment->taken, part);
        filled += part;
        segment->taken += part;
        at->inbox_bytes -= part;
        if (segment->taken == segment->size) {
            STAILQ_REMOVE_HEAD(&at->arrived, next);
            free(segment);
        }
    }
    return filled;
}

void memory_receive_try(memory_socket_t *at)
{
    while (at->receive.ring != NULL && !STAILQ_EMPTY(&at->arrived)) {
        size_t room;
        uint32_t flags;
        uint8_t *buffer = memory_ring_take_buffer(at->receive.ring, &room, &flags);

        if (buffer == NULL) {
            memory_kernel_totals.starved++;
            memory_operation_complete(&at->receive, -ENOBUFS, 0);
            return;
        }
        if (chance_one_in(8))
            room = 1 + chance_any((unsigned)room);
        if (at->receive.goes_on && !chance_one_in(16)) /* it may end early for no reason */
            flags |= IORING_CQE_F_MORE;
        memory_operation_complete(&at->receive, (int32_t)arrived_take(at, buffer, room), flags);
        if (at->other != NULL)
            memory_send_try(at->other);
    }
    if (at->receive.ring != NULL && (at->reset || at->ended || at->shut_in))
        memory_operation_complete(&at->receive, at->reset && !at->shut_in ? -ECONNRESET : 0, 0);
}

/* As much as the other side has room for. */
static void send_some(memory_socket_t *from)
{
    memory_socket_t *to = from->other;

    while (from->piece < from->piece_count) {
        const struct iovec *piece = &from->pieces[from->piece];
        const size_t left = piece->iov_len - from->piece_at;
        const size_t room = to->window > to->inbox_bytes ? to->window - to->inbox_bytes : 0;
        size_t part = left < room ? left : room;

        if (part == 0)
            return;
        if (chance_one_in(4))
            part = 1 + chance_any((unsigned)part);
        memory_segment_send(to, SEGMENT_BYTES, (const uint8_t *)piece->iov_base + from->piece_at, part);
        from->sent += part;
        from->piece_at += part;
        if (from->piece_at == piece->iov_len) {
            from->piece++;
            from->piece_at = 0;
        }
    }
}

/* The other side is gone: the bytes go nowhere, and what comes back is a reset. */
static void send_to_nobody(memory_socket_t *from)
{
    from->sent = from->send_bytes;
    if (!from->answered)
        memory_segment_send(from, SEGMENT_RESET, NULL, 0);
    from->answered = true;
}

void memory_send_try(memory_socket_t *from)
{
    if (from->send.ring == NULL)
        return;
    if (from->reset || from->shut_out) {
        memory_operation_complete(&from->send, from->sent > 0 ? (int32_t)from->sent : -EPIPE, 0);
        return;
    }
    if (from->other == NULL)
        send_to_nobody(from);
    else
        send_some(from);
    const bool cut_short = from->sent > 0 && from->sent < from->send_bytes && chance_one_in(4);

    memory_kernel_totals.short_sends += cut_short;
    if (from->sent == from->send_bytes || cut_short)
        memory_operation_complete(&from->send, (int32_t)from->sent, 0);
}

void memory_socket_receive(int fd, memory_operation_t operation)
{
    memory_socket_t *at = memory_socket_of(fd);

    hold_true(at->kind == SOCKET_CONNECTED && at->receive.ring == NULL);
    at->receive = operation;
    memory_receive_try(at);
}

void memory_socket_send(int fd, memory_operation_t operation, const struct iovec *pieces, size_t count)
{
    memory_socket_t *from = memory_socket_of(fd);

    hold_true(from->kind == SOCKET_CONNECTED && from->send.ring == NULL && count <= MEMORY_PIECES_MAX);
    memcpy(from->pieces, pieces, count * sizeof(*pieces));
    from->piece_count = count;
    from->piece = from->piece_at = from->sent = from->send_bytes = 0;
    for (size_t i = 0; i < count; i++)
        from->send_bytes += pieces[i].iov_len;
    from->send = operation;
    memory_send_try(from);
}

/* ---- connecting ---- */

static void accept_try(memory_socket_t *listener)
{
    memory_socket_t *waiting;

    TAILQ_FOREACH(waiting, &memory_network.all, in_all)
    {
        if (listener->accept.ring == NULL)
            return;
        if (waiting->listener != listener)
            continue;
        waiting->listener = NULL;
        const uint32_t more = listener->accept.goes_on && !chance_one_in(8) ? IORING_CQE_F_MORE : 0;

        memory_operation_complete(&listener->accept, memory_socket_name(waiting), more);
    }
}

void memory_socket_accept(int fd, memory_operation_t operation)
{
    memory_socket_t *listener = memory_socket_of(fd);

    hold_true(listener->kind == SOCKET_LISTENING && listener->accept.ring == NULL);
    listener->accept = operation;
    accept_try(listener);
}

void memory_socket_connect(int fd, memory_operation_t operation, const struct sockaddr_in *address)
{
    memory_socket_t *from = memory_socket_of(fd);

    hold_true(from->kind == SOCKET_FRESH);
    from->kind = SOCKET_CONNECTING;
    from->connect = operation;
    from->far = *address;
    from->far_machine = ntohl(address->sin_addr.s_addr) - ntohl(MEMORY_ADDRESS_OF(0));
    hold_true(from->far_machine < MEMORY_KERNEL_MACHINES);
    from->own.sin_port = htons((uint16_t)(32768u + memory_network.last_port++ % 16384u));
    from->due_ns = memory_now_ns() + latency_ns();
}

memory_socket_t *memory_listener_at(const struct sockaddr_in *address)
{
    memory_socket_t *found;

    TAILQ_FOREACH(found, &memory_network.all, in_all)
    {
        if (found->kind == SOCKET_LISTENING && found->own.sin_addr.s_addr == address->sin_addr.s_addr &&
            found->own.sin_port == address->sin_port)
            return found;
    }
    return NULL;
}

/* It has arrived at the other machine. */
static void connect_arrive(memory_socket_t *from)
{
    memory_socket_t *listener = memory_listener_at(&from->far);

    if (listener == NULL || memory_network.cut_off[from->far_machine] || memory_network.cut_off[from->machine]) {
        memory_operation_complete(&from->connect, -ECONNREFUSED, 0);
        from->kind = SOCKET_FRESH;
        return;
    }
    memory_socket_t *to = memory_socket_make(from->far_machine);

    from->kind = to->kind = SOCKET_CONNECTED;
    from->other = to;
    to->other = from;
    to->own = from->far;
    to->far = from->own;
    to->far_machine = from->machine;
    from->window = to->window = (size_t)1024 << chance_any(9);
    to->listener = listener;
    memory_kernel_totals.connections++;
    memory_operation_complete(&from->connect, 0, 0);
    accept_try(listener);
}

/* ---- what is due ---- */

static uint64_t due_ns(const memory_socket_t *at)
{
    if (at->kind == SOCKET_CONNECTING && at->connect.ring != NULL && may_pass(at))
        return at->due_ns;
    if (at->kind == SOCKET_CONNECTED && !STAILQ_EMPTY(&at->inbox) && may_pass(at))
        return STAILQ_FIRST(&at->inbox)->due_ns;
    return UINT64_MAX;
}

static void segment_arrive(memory_socket_t *at)
{
    segment_t *segment = STAILQ_FIRST(&at->inbox);

    STAILQ_REMOVE_HEAD(&at->inbox, next);
    if (segment->kind == SEGMENT_BYTES) {
        STAILQ_INSERT_TAIL(&at->arrived, segment, next);
    } else {
        at->ended = at->ended || segment->kind == SEGMENT_END;
        at->reset = at->reset || segment->kind == SEGMENT_RESET;
        free(segment);
    }
    if (at->reset && at->other != NULL) {
        at->other->other = NULL;
        at->other = NULL;
    }
    memory_receive_try(at);
    memory_send_try(at);
}

bool memory_kernel_deliver(void)
{
    const uint64_t now_ns = memory_now_ns();
    memory_socket_t *at;
    unsigned count = 0;

    TAILQ_FOREACH(at, &memory_network.all, in_all)
    {
        count += due_ns(at) <= now_ns;
    }
    if (count == 0)
        return false;
    unsigned skip = chance_any(count);

    TAILQ_FOREACH(at, &memory_network.all, in_all)
    {
        if (due_ns(at) <= now_ns && skip-- == 0)
            break;
    }
    chance_note((uint64_t)at->machine << 8 | (uint64_t)at->kind);
    if (at->kind == SOCKET_CONNECTING)
        connect_arrive(at);
    else
        segment_arrive(at);
    return true;
}

uint64_t memory_kernel_next_ns(void)
{
    uint64_t next_ns = UINT64_MAX;
    const memory_socket_t *at;

    TAILQ_FOREACH(at, &memory_network.all, in_all)
    {
        const uint64_t at_ns = due_ns(at);

        if (at_ns < next_ns)
            next_ns = at_ns;
    }
    return next_ns;
}

/* ---- taking back ---- */

static int cancel(memory_operation_t *operation, const memory_socket_t *at)
{
    if (operation->ring == NULL)
        return 0;
    const bool sent = operation == &at->send && at->sent > 0;

    memory_operation_complete(operation, sent ? (int32_t)at->sent : -ECANCELED, 0);
    return 1;
}

int memory_socket_cancel_all(int fd)
{
    memory_socket_t *at = memory_socket_of(fd);
    const int count =
        cancel(&at->accept, at) + cancel(&at->connect, at) + cancel(&at->receive, at) + cancel(&at->send, at);

    return count > 0 ? count : -ENOENT;
}

int memory_socket_cancel_one(const memory_ring_t *ring, uint64_t user_data)
{
    memory_socket_t *at;

    TAILQ_FOREACH(at, &memory_network.all, in_all)
    {
        memory_operation_t *const operations[] = {&at->accept, &at->connect, &at->receive, &at->send};

        for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
            if (operations[i]->ring != ring || operations[i]->user_data != user_data)
                continue;
            if (operations[i] == &at->connect)
                at->kind = SOCKET_FRESH;
            (void)cancel(operations[i], at);
            return 0;
        }
    }
    return -ENOENT;
}
