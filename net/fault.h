/*
 * net/fault.h: how a test makes the network misbehave.
 *
 * Production passes no hook; then each place costs one test of a pointer. All calls come on the reactor thread.
 */
#ifndef ZLINK_NET_FAULT_H
#define ZLINK_NET_FAULT_H

#include <stddef.h>
#include <stdint.h>

typedef struct zlink_net_fault {
    /* How many of `wanted` bytes the next send is given; 1..wanted. NULL: all. */
    size_t (*send_size)(void *context, size_t wanted);
    /* 0, or the negative errno that an accept is to end with instead (the accepted socket is closed). NULL: 0. */
    int (*accept_result)(void *context);
    /* May change what a completion says before it is handled. IORING_CQE_F_MORE stays as it is: the kernel still does
     * what it says there. A buffer whose flag is taken away never comes back. NULL: nothing. */
    void (*completion)(void *context, int32_t *result, uint32_t *flags);
    void *context;
} zlink_net_fault_t;

#endif
