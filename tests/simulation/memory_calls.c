/* In place of libc's functions. */
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/simulation/memory_kernel_internal.h"

int __wrap_socket(int family, int type, int protocol);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t size);
int __wrap_listen(int fd, int backlog);
int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *size);
int __wrap_getpeername(int fd, struct sockaddr *address, socklen_t *size);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size);
int __wrap_shutdown(int fd, int how);
int __wrap_close(int fd);
ssize_t __wrap_getrandom(void *into, size_t size, unsigned flags);
int __real_close(int fd);
ssize_t __real_getrandom(void *into, size_t size, unsigned flags);

int __wrap_socket(int family, int type, int protocol)
{
    hold_true(family == AF_INET && (type & SOCK_STREAM) != 0 && protocol == 0);
    return memory_socket_name(memory_socket_make(memory_kernel_machine()));
}

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t size)
{
    memory_socket_t *bound = memory_socket_of(fd);

    hold_true(size == sizeof(bound->own));
    memcpy(&bound->own, address, sizeof(bound->own));
    hold_true(bound->own.sin_addr.s_addr == MEMORY_ADDRESS_OF(bound->machine) && bound->own.sin_port != 0);
    if (memory_listener_at(&bound->own) == NULL)
        return 0;
    errno = EADDRINUSE;
    return -1;
}

int __wrap_listen(int fd, int backlog)
{
    (void)backlog;
    memory_socket_of(fd)->kind = SOCKET_LISTENING;
    return 0;
}

static int name_give(const struct sockaddr_in *name, struct sockaddr *address, socklen_t *size)
{
    hold_true(*size >= sizeof(*name));
    memcpy(address, name, sizeof(*name));
    *size = sizeof(*name);
    return 0;
}

int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *size)
{
    return name_give(&memory_socket_of(fd)->own, address, size);
}

int __wrap_getpeername(int fd, struct sockaddr *address, socklen_t *size)
{
    const memory_socket_t *at = memory_socket_of(fd);

    if (at->kind != SOCKET_CONNECTED || at->reset) {
        errno = ENOTCONN;
        return -1;
    }
    return name_give(&at->far, address, size);
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
    (void)level, (void)name, (void)value, (void)size;
    (void)memory_socket_of(fd);
    return 0;
}

static void end_send(memory_socket_t *from)
{
    if (!from->shut_out && from->other != NULL)
        memory_segment_send(from->other, SEGMENT_END, NULL, 0);
    from->shut_out = true;
}

int __wrap_shutdown(int fd, int how)
{
    memory_socket_t *at = memory_socket_of(fd);

    if (at->kind != SOCKET_CONNECTED) {
        errno = ENOTCONN;
        return -1;
    }
    end_send(at);
    at->shut_in = at->shut_in || how == SHUT_RDWR;
    memory_receive_try(at);
    memory_send_try(at);
    return 0;
}

/* Whoever waits to be accepted goes with the listener. */
static void backlog_drop(const memory_socket_t *listener)
{
    memory_socket_t *waiting;
    memory_socket_t *next;

    for (waiting = TAILQ_FIRST(&memory_network.all); waiting != NULL; waiting = next) {
        next = TAILQ_NEXT(waiting, in_all);
        if (waiting->listener != listener)
            continue;
        if (waiting->other != NULL)
            memory_reset_send(waiting->other);
        memory_socket_free(waiting);
    }
}

int __wrap_close(int fd)
{
    if (fd < MEMORY_FD_FIRST)
        return __real_close(fd);
    memory_socket_t *closed = memory_socket_of(fd);

    hold_true(closed->accept.ring == NULL && closed->connect.ring == NULL && closed->receive.ring == NULL &&
              closed->send.ring == NULL);
    if (closed->kind == SOCKET_LISTENING)
        backlog_drop(closed);
    if (closed->other != NULL && closed->inbox_bytes > 0)
        memory_reset_send(closed->other); /* what was not read is lost, and the sender is told */
    else
        end_send(closed);
    memory_socket_free(closed);
    return 0;
}

/* Every number that a node takes from the kernel is the seed's; one byte is asked for to see whether memory is there.
 */
ssize_t __wrap_getrandom(void *into, size_t size, unsigned flags)
{
    uint8_t *bytes = into;

    if (size < sizeof(uint32_t))
        return __real_getrandom(into, size, flags);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)chance_any(256);
    return (ssize_t)size;
}
