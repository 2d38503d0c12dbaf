#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/container_of.h"
#include "tests/simulation/memory_kernel_internal.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#endif
#endif
#ifndef ASAN_UNPOISON_MEMORY_REGION
#define ASAN_UNPOISON_MEMORY_REGION(ADDRESS, SIZE) ((void)(ADDRESS), (void)(SIZE))
#endif

#define NS_PER_S  UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

/* A completion that found the queue full. */
typedef struct backlog {
    struct backlog *next;
    struct io_uring_cqe cqe;
} backlog_t;

struct memory_ring {
    struct io_uring *user;
    struct {
        unsigned head, tail, flags;
    } sq, cq; /* where liburing looks */
    backlog_t *backlog_first, *backlog_last;
    struct io_uring_buf_ring *buffers;
    unsigned buffer_mask;
    uint16_t buffer_head; /* the next that the kernel takes */
    memory_operation_t read;
    int read_fd;
    void *read_into;
    bool waiting;
    uint64_t until_ns;
};

static struct {
    const uint64_t *now_ns;
    memory_ring_t *rings[MEMORY_KERNEL_MACHINES];
    unsigned machine; /* that acts */
} kernel;

memory_kernel_totals_t memory_kernel_totals;

uint64_t memory_now_ns(void)
{
    return *kernel.now_ns;
}

void memory_rings_open(const uint64_t *now_ns)
{
    memset(&kernel, 0, sizeof(kernel));
    kernel.now_ns = now_ns;
}

void memory_rings_close(void)
{
    for (unsigned i = 0; i < MEMORY_KERNEL_MACHINES; i++)
        hold_true(kernel.rings[i] == NULL);
}

static memory_ring_t *ring_of(const struct io_uring *user)
{
    for (unsigned i = 0; i < MEMORY_KERNEL_MACHINES; i++)
        if (kernel.rings[i] != NULL && kernel.rings[i]->user == user)
            return kernel.rings[i];
    cannot_be("a ring that is not there");
}

/* ---- completions ---- */

static bool cq_put(memory_ring_t *ring, const struct io_uring_cqe *cqe)
{
    const unsigned entries = ring->user->cq.ring_entries;

    if (ring->cq.tail - ring->cq.head == entries)
        return false;
    ring->user->cq.cqes[ring->cq.tail & (entries - 1)] = *cqe;
    ring->cq.tail++;
    return true;
}

static void backlog_flush(memory_ring_t *ring)
{
    while (ring->backlog_first != NULL && cq_put(ring, &ring->backlog_first->cqe)) {
        backlog_t *next = ring->backlog_first->next;

        free(ring->backlog_first);
        ring->backlog_first = next;
    }
    if (ring->backlog_first == NULL)
        ring->sq.flags &= ~IORING_SQ_CQ_OVERFLOW;
}

static void ring_post(memory_ring_t *ring, uint64_t user_data, int32_t result, uint32_t flags)
{
    const struct io_uring_cqe cqe = {.user_data = user_data, .res = result, .flags = flags};

    memory_kernel_totals.completions++;
    chance_note(user_data ^ (uint64_t)(uint32_t)result << 16 ^ flags);
    if (ring->backlog_first == NULL && cq_put(ring, &cqe))
        return;
    backlog_t *waiting = calloc(1, sizeof(*waiting));

    hold_true(waiting != NULL);
    waiting->cqe = cqe;
    if (ring->backlog_first == NULL)
        ring->backlog_first = waiting;
    else
        ring->backlog_last->next = waiting;
    ring->backlog_last = waiting;
    ring->sq.flags |= IORING_SQ_CQ_OVERFLOW;
}

void memory_operation_complete(memory_operation_t *operation, int32_t result, uint32_t flags)
{
    memory_ring_t *ring = operation->ring;

    hold_true(ring != NULL && (operation->goes_on || (flags & IORING_CQE_F_MORE) == 0));
    if ((flags & IORING_CQE_F_MORE) == 0)
        operation->ring = NULL;
    ring_post(ring, operation->user_data, result, flags);
}

uint8_t *memory_ring_take_buffer(memory_ring_t *ring, size_t *size, uint32_t *flags)
{
    const uint16_t tail = __atomic_load_n(&ring->buffers->tail, __ATOMIC_ACQUIRE);
    const struct io_uring_buf *buffer = &ring->buffers->bufs[ring->buffer_head & ring->buffer_mask];

    if (ring->buffer_head == tail)
        return NULL;
    ring->buffer_head++;
    *size = buffer->len;
    *flags = IORING_CQE_F_BUFFER | (uint32_t)buffer->bid << IORING_CQE_BUFFER_SHIFT;
    uint8_t *memory = (uint8_t *)(uintptr_t)buffer->addr;

    ASAN_UNPOISON_MEMORY_REGION(memory, buffer->len);
    return memory;
}

/* The eventfd by which other threads wake the reactor is a real one. */
static void read_try(memory_ring_t *ring)
{
    struct pollfd event = {.fd = ring->read_fd, .events = POLLIN};

    if (ring->read.ring == NULL || poll(&event, 1, 0) != 1)
        return;
    hold_true(read(ring->read_fd, ring->read_into, sizeof(uint64_t)) == (ssize_t)sizeof(uint64_t));
    memory_operation_complete(&ring->read, sizeof(uint64_t), 0);
}

/* ---- submissions ---- */

static int cancel(memory_ring_t *ring, const struct io_uring_sqe *sqe)
{
    if ((sqe->cancel_flags & IORING_ASYNC_CANCEL_FD) != 0)
        return memory_socket_cancel_all(sqe->fd);
    if (ring->read.ring != NULL && ring->read.user_data == sqe->addr) {
        memory_operation_complete(&ring->read, -ECANCELED, 0);
        return 0;
    }
    return memory_socket_cancel_one(ring, sqe->addr);
}

static void submit_one(memory_ring_t *ring, const struct io_uring_sqe *sqe)
{
    memory_operation_t operation = {.ring = ring, .user_data = sqe->user_data};
    struct iovec piece;

    switch (sqe->opcode) {
    case IORING_OP_READ:
        hold_true(ring->read.ring == NULL && sqe->len == sizeof(uint64_t));
        ring->read = operation;
        ring->read_fd = sqe->fd;
        ring->read_into = (void *)(uintptr_t)sqe->addr;
        read_try(ring);
        return;
    case IORING_OP_ACCEPT:
        operation.goes_on = (sqe->ioprio & IORING_ACCEPT_MULTISHOT) != 0;
        memory_socket_accept(sqe->fd, operation);
        return;
    case IORING_OP_CONNECT:
        memory_socket_connect(sqe->fd, operation, (const struct sockaddr_in *)(uintptr_t)sqe->addr);
        return;
    case IORING_OP_RECV:
        hold_true((sqe->flags & IOSQE_BUFFER_SELECT) != 0 && ring->buffers != NULL);
        operation.goes_on = (sqe->ioprio & IORING_RECV_MULTISHOT) != 0;
        memory_socket_receive(sqe->fd, operation);
        return;
    case IORING_OP_SEND:
        piece = (struct iovec){(void *)(uintptr_t)sqe->addr, sqe->len};
        memory_socket_send(sqe->fd, operation, &piece, 1);
        return;
    case IORING_OP_SENDMSG: {
        const struct msghdr *message = (const struct msghdr *)(uintptr_t)sqe->addr;

        memory_socket_send(sqe->fd, operation, message->msg_iov, message->msg_iovlen);
        return;
    }
    case IORING_OP_ASYNC_CANCEL: {
        const int result = cancel(ring, sqe);

        memory_operation_complete(&operation, result, 0);
        return;
    }
    default:
        cannot_be("an operation that this kernel does not know");
    }
}

static int ring_submit(memory_ring_t *ring)
{
    struct io_uring_sq *sq = &ring->user->sq;
    int submitted = 0;

    while (ring->sq.head != sq->sqe_tail) {
        const struct io_uring_sqe *sqe = &sq->sqes[ring->sq.head & sq->ring_mask];

        chance_note((uint64_t)sqe->opcode << 32 | (uint32_t)sqe->fd);
        submit_one(ring, sqe);
        ring->sq.head++;
        submitted++;
    }
    sq->sqe_head = sq->sqe_tail;
    backlog_flush(ring);
    return submitted;
}

/* ---- waits ---- */

bool memory_kernel_wait_is_over(unsigned machine)
{
    memory_ring_t *ring = kernel.rings[machine];

    if (ring == NULL)
        return false;
    read_try(ring);
    return !ring->waiting || ring->cq.head != ring->cq.tail || memory_now_ns() >= ring->until_ns;
}

uint64_t memory_kernel_wait_ends_ns(unsigned machine)
{
    const memory_ring_t *ring = kernel.rings[machine];

    return ring == NULL ? UINT64_MAX : ring->until_ns;
}

void memory_kernel_act_as(unsigned machine)
{
    hold_true(machine < MEMORY_KERNEL_MACHINES);
    kernel.machine = machine;
}

unsigned memory_kernel_machine(void)
{
    return kernel.machine;
}

/* ---- in place of liburing's functions ---- */

int __wrap_io_uring_queue_init_params(unsigned entries, struct io_uring *user, struct io_uring_params *parameters);
void __wrap_io_uring_queue_exit(struct io_uring *user);
int __wrap_io_uring_submit(struct io_uring *user);
int __wrap_io_uring_get_events(struct io_uring *user);
int __wrap_io_uring_submit_and_get_events(struct io_uring *user);
int __wrap_io_uring_submit_and_wait_timeout(struct io_uring *user, struct io_uring_cqe **cqe, unsigned count,
                                            struct __kernel_timespec *limit, sigset_t *signals);
int __wrap_io_uring_register_buf_ring(struct io_uring *user, struct io_uring_buf_reg *registration, unsigned flags);
int __wrap_io_uring_unregister_buf_ring(struct io_uring *user, int group);
int __wrap_io_uring_register_ring_fd(struct io_uring *user);
struct io_uring_probe *__wrap_io_uring_get_probe_ring(struct io_uring *user);
void __wrap_io_uring_free_probe(struct io_uring_probe *probe);

int __wrap_io_uring_queue_init_params(unsigned entries, struct io_uring *user, struct io_uring_params *parameters)
{
    memory_ring_t *ring = calloc(1, sizeof(*ring));
    const unsigned completions = parameters->cq_entries;

    hold_true(ring != NULL && kernel.rings[kernel.machine] == NULL);
    hold_true((entries & (entries - 1)) == 0 && (completions & (completions - 1)) == 0);
    memset(user, 0, sizeof(*user));
    user->flags = parameters->flags;
    user->features = IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG;
    user->ring_fd = user->enter_ring_fd = -1;
    user->sq.khead = &ring->sq.head;
    user->sq.ktail = &ring->sq.tail;
    user->sq.kflags = &ring->sq.flags;
    user->sq.ring_entries = entries;
    user->sq.ring_mask = entries - 1;
    user->sq.sqes = calloc(entries, sizeof(*user->sq.sqes));
    user->cq.khead = &ring->cq.head;
    user->cq.ktail = &ring->cq.tail;
    user->cq.kflags = &ring->cq.flags;
    user->cq.ring_entries = completions;
    user->cq.ring_mask = completions - 1;
    user->cq.cqes = calloc(completions, sizeof(*user->cq.cqes));
    hold_true(user->sq.sqes != NULL && user->cq.cqes != NULL);
    ring->user = user;
    kernel.rings[kernel.machine] = ring;
    memory_sockets_revive(kernel.machine);
    return 0;
}

void __wrap_io_uring_queue_exit(struct io_uring *user)
{
    memory_ring_t *ring = ring_of(user);

    hold_true(ring->read.ring == NULL && ring->buffers == NULL);
    while (ring->backlog_first != NULL) {
        backlog_t *next = ring->backlog_first->next;

        free(ring->backlog_first);
        ring->backlog_first = next;
    }
    for (unsigned i = 0; i < MEMORY_KERNEL_MACHINES; i++)
        if (kernel.rings[i] == ring)
            kernel.rings[i] = NULL;
    free(user->sq.sqes);
    free(user->cq.cqes);
    free(ring);
}

int __wrap_io_uring_submit(struct io_uring *user)
{
    return ring_submit(ring_of(user));
}

int __wrap_io_uring_get_events(struct io_uring *user)
{
    backlog_flush(ring_of(user));
    return 0;
}

int __wrap_io_uring_submit_and_get_events(struct io_uring *user)
{
    memory_ring_t *ring = ring_of(user);

    ring->waiting = false;
    ring->until_ns = 0;
    return ring_submit(ring);
}

/* Returns at once; whoever steps the reactor asks when it would have. */
int __wrap_io_uring_submit_and_wait_timeout(struct io_uring *user, struct io_uring_cqe **cqe, unsigned count,
                                            struct __kernel_timespec *limit, sigset_t *signals)
{
    memory_ring_t *ring = ring_of(user);
    /* What time the wheel counts in begins with a whole millisecond. */
    const uint64_t from_ns = memory_now_ns() / NS_PER_MS * NS_PER_MS;

    (void)signals;
    hold_true(count == 1);
    (void)ring_submit(ring);
    ring->waiting = true;
    ring->until_ns = from_ns + (uint64_t)limit->tv_sec * NS_PER_S + (uint64_t)limit->tv_nsec;
    *cqe = NULL;
    return -ETIME;
}

int __wrap_io_uring_register_buf_ring(struct io_uring *user, struct io_uring_buf_reg *registration, unsigned flags)
{
    memory_ring_t *ring = ring_of(user);

    (void)flags;
    hold_true(ring->buffers == NULL);
    ring->buffers = (struct io_uring_buf_ring *)(uintptr_t)registration->ring_addr;
    ring->buffer_mask = registration->ring_entries - 1;
    ring->buffer_head = 0;
    return 0;
}

int __wrap_io_uring_unregister_buf_ring(struct io_uring *user, int group)
{
    (void)group;
    ring_of(user)->buffers = NULL;
    return 0;
}

int __wrap_io_uring_register_ring_fd(struct io_uring *user)
{
    (void)user;
    return -EINVAL;
}

struct io_uring_probe *__wrap_io_uring_get_probe_ring(struct io_uring *user)
{
    struct io_uring_probe *probe = calloc(1, sizeof(*probe) + 256 * sizeof(struct io_uring_probe_op));

    (void)user;
    hold_true(probe != NULL);
    probe->last_op = IORING_OP_LAST - 1;
    for (unsigned i = 0; i < IORING_OP_LAST; i++)
        probe->ops[i].flags = IO_URING_OP_SUPPORTED;
    return probe;
}

void __wrap_io_uring_free_probe(struct io_uring_probe *probe)
{
    free(probe);
}
