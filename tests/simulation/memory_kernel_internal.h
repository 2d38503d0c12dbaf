/*
 * tests/simulation/memory_kernel_internal.h: what the parts of the kernel in memory share: memory_ring.c (the rings),
 * memory_socket.c (sockets, and what is on its way between them), memory_calls.c (the calls of libc) and
 * memory_faults.c.
 */
#ifndef ZLINK_TESTS_SIMULATION_MEMORY_KERNEL_INTERNAL_H
#define ZLINK_TESTS_SIMULATION_MEMORY_KERNEL_INTERNAL_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/queue.h>
#include <sys/uio.h>

#include "net/ring_compat.h"
#include "tests/simulation/chance.h"
#include "tests/simulation/memory_kernel.h"

#define MEMORY_FD_FIRST           (1 << 20) /* no real descriptor is so large */
#define MEMORY_SOCKETS_MAX        1024
#define MEMORY_PIECES_MAX         8u /* of one send */
#define MEMORY_ADDRESS_OF(NUMBER) htonl(0x0a000001u + (NUMBER))

typedef struct memory_ring memory_ring_t;

/* Something in flight; without a ring there is nothing. */
typedef struct memory_operation {
    memory_ring_t *ring;
    uint64_t user_data;
    bool goes_on; /* multishot */
} memory_operation_t;

/* memory_ring.c */

uint64_t memory_now_ns(void);
/* The one that acts. */
unsigned memory_kernel_machine(void);
void memory_rings_open(const uint64_t *now_ns);
void memory_rings_close(void);

/* Ends the operation, unless `flags` say IORING_CQE_F_MORE. */
void memory_operation_complete(memory_operation_t *operation, int32_t result, uint32_t flags);

/* The next receive buffer and its flags for the completion; NULL: the kernel has none. */
uint8_t *memory_ring_take_buffer(memory_ring_t *ring, size_t *size, uint32_t *flags);

/* ---- sockets ---- */

typedef enum segment_kind { SEGMENT_BYTES, SEGMENT_END, SEGMENT_RESET } segment_kind_t;

/* Of one direction of a connection. */
typedef struct segment {
    STAILQ_ENTRY(segment) next;
    segment_kind_t kind;
    uint64_t due_ns;
    size_t size, taken;
    uint8_t bytes[];
} segment_t;

STAILQ_HEAD(segments, segment);

typedef enum socket_kind { SOCKET_FRESH, SOCKET_LISTENING, SOCKET_CONNECTING, SOCKET_CONNECTED } socket_kind_t;

typedef struct memory_socket memory_socket_t;

struct memory_socket {
    TAILQ_ENTRY(memory_socket) in_all;
    socket_kind_t kind;
    int fd; /* -1: accepted by the kernel and not by the process */
    unsigned machine, far_machine;
    struct sockaddr_in own, far;
    memory_operation_t accept, connect, receive, send;

    memory_socket_t *listener; /* of one that is not accepted yet */
    uint64_t due_ns;           /* CONNECTING: when it arrives at the other machine */
    memory_socket_t *other;    /* NULL: it is gone */
    struct segments inbox;     /* on their way to here */
    struct segments arrived;   /* to be received */
    size_t inbox_bytes;        /* of both, not received */
    size_t window;             /* how many of these there may be */
    uint64_t last_due_ns;      /* of the inbox */
    bool silent;               /* nothing comes any more */
    bool reset, ended;         /* what has arrived */
    bool answered;             /* bytes for a side that is gone, with a reset */
    bool shut_out, shut_in;    /* from here */
    struct iovec pieces[MEMORY_PIECES_MAX];
    size_t piece_count, piece, piece_at, sent, send_bytes;
};

typedef struct memory_network {
    TAILQ_HEAD(, memory_socket) all;
    memory_socket_t *by_fd[MEMORY_SOCKETS_MAX];
    bool parted[MEMORY_KERNEL_MACHINES][MEMORY_KERNEL_MACHINES];
    bool cut_off[MEMORY_KERNEL_MACHINES];
    uint64_t usual_ns, odd_ns;
    uint16_t last_port;
} memory_network_t;

/* memory_socket.c: what a ring asks for. Every one may complete at once. */

void memory_sockets_open(void);
void memory_sockets_close(void);
void memory_socket_accept(int fd, memory_operation_t operation);
void memory_socket_connect(int fd, memory_operation_t operation, const struct sockaddr_in *address);
void memory_socket_receive(int fd, memory_operation_t operation);
/* `pieces` stay where they are until it completes. */
void memory_socket_send(int fd, memory_operation_t operation, const struct iovec *pieces, size_t count);

/* Completes what is in flight with -ECANCELED, or with what it has done. Answers how many: of a descriptor all, … */
int memory_socket_cancel_all(int fd);
/* … or that of a user_data. */
int memory_socket_cancel_one(const memory_ring_t *ring, uint64_t user_data);

/* … and what memory_faults.c and memory_calls.c need of it. */

extern memory_network_t memory_network;

/* Of the machine that acts. */
memory_socket_t *memory_socket_of(int fd);
memory_socket_t *memory_socket_make(unsigned machine);
/* Answers the new descriptor. */
int memory_socket_name(memory_socket_t *named);
void memory_socket_free(memory_socket_t *gone);
/* NULL: nobody listens there. */
memory_socket_t *memory_listener_at(const struct sockaddr_in *address);

/* Behind everything that is on its way to `to`. */
void memory_segment_send(memory_socket_t *to, segment_kind_t kind, const uint8_t *bytes, size_t size);
/* What was on its way is lost, and the socket learns of it. */
void memory_reset_send(memory_socket_t *to);
void memory_segments_drop(memory_socket_t *at, struct segments *list);

/* Completes what can be by now. */
void memory_receive_try(memory_socket_t *at);
void memory_send_try(memory_socket_t *from);

/* memory_faults.c */

/* The machine has a ring again: it can be reached. */
void memory_sockets_revive(unsigned machine);

#endif
