/*
 * net/ring_compat.h: liburing 2.3 (Debian 12) beside what newer ones have.
 *
 * Everything that includes <liburing.h> includes this instead. liburing 2.3 lacks io_uring_setup_buf_ring and names
 * a field of struct io_uring_buf_reg differently, so the buffer ring is mapped and registered by hand (buffer_ring.c).
 * Newer constants are defined here when a use appears; what the kernel can do is asked at run time, never concluded
 * from a header.
 *
 * An idle ring shows as I/O wait in the CPU statistics of kernels from 6.1.39 on. It is a display only: the thread
 * sleeps. (Since 6.15 a wait can be marked otherwise, which needs liburing 2.10.)
 */
#ifndef ZLINK_NET_RING_COMPAT_H
#define ZLINK_NET_RING_COMPAT_H

#include <liburing.h>

#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1U << 12)
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif
#ifndef IORING_RECV_MULTISHOT
#define IORING_RECV_MULTISHOT (1U << 1)
#endif
#ifndef IORING_ACCEPT_MULTISHOT
#define IORING_ACCEPT_MULTISHOT (1U << 0)
#endif

/* Completions that are ready to be read without entering the kernel, and the n-th of them. */
static inline const struct io_uring_cqe *zlink_ring_ready_cqe(const struct io_uring *ring, unsigned nth)
{
    return &ring->cq.cqes[(*ring->cq.khead + nth) & ring->cq.ring_mask];
}

#endif
