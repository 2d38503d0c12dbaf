/*
 * tests/simulation/memory_kernel_internal.h: what the two halves of the kernel in memory tell each other:
 * memory_ring.c (the rings) and memory_socket.c (the sockets, what is on its way between them, and faults).
 */
#ifndef ZLINK_TESTS_SIMULATION_MEMORY_KERNEL_INTERNAL_H
#define ZLINK_TESTS_SIMULATION_MEMORY_KERNEL_INTERNAL_H

#include <netinet/in.h>
#include <stddef.h>
#include <sys/uio.h>

#include "net/ring_compat.h"
#include "tests/simulation/chance.h"
#include "tests/simulation/memory_kernel.h"

#define MEMORY_FD_FIRST (1 << 20) /* no real descriptor is so large */

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

/* The machine has a ring again: it can be reached. */
void memory_sockets_revive(unsigned machine);

#endif
