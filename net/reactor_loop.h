/*
 * net/reactor_loop.h: the inside of the reactor, for what lives on it (streams, listeners, connectors).
 *
 * Reactor thread only.
 *
 * Every operation is started for a slot. Its user_data is {slot index, slot generation, operation number}; a
 * completion whose generation is not the slot's current one is dropped, so that a reused slot or descriptor never gets
 * a stranger's completion. A slot counts its operations in flight: memory and descriptors that the kernel may still
 * touch are given up only at zero.
 */
#ifndef ZLINK_NET_REACTOR_LOOP_H
#define ZLINK_NET_REACTOR_LOOP_H

#include "base/log_gate.h"
#include "net/buffer_ring.h"
#include "net/reactor.h"
#include "net/ring_compat.h"
#include "net/tick_task.h"

typedef struct zlink_ring_slot zlink_ring_slot_t;

struct zlink_ring_slot {
    uint32_t index;
    uint32_t generation;
    uint32_t in_flight; /* operations whose last completion has not been read */
    /* `flags` are the completion's. A named buffer is given back when this returns; while it runs
     * zlink_reactor_buffer(reactor, flags) is its memory. */
    void (*complete)(zlink_ring_slot_t *slot, unsigned operation, int32_t result, uint32_t flags);
};

/* Something that must be closed before the reactor may end. */
typedef struct zlink_resident zlink_resident_t;
struct zlink_resident {
    zlink_resident_t *next;
    zlink_resident_t **link;
    void (*stop)(zlink_resident_t *resident); /* begin to close in order; called at most once */
};

/* ZLINK_CAPACITY_EXCEEDED without memory or with 2^24 slots in use. */
zlink_status_t zlink_reactor_slot_add(zlink_reactor_t *reactor, zlink_ring_slot_t *slot);
/* Nothing may be in flight. Harmless for a slot that was never added (generation 0). */
void zlink_reactor_slot_remove(zlink_reactor_t *reactor, zlink_ring_slot_t *slot);

/* A submission entry, always: a full queue is submitted first. Prepare it, then call _start before anything else. */
struct io_uring_sqe *zlink_reactor_sqe(zlink_reactor_t *reactor);
void zlink_reactor_start(zlink_reactor_t *reactor, struct io_uring_sqe *sqe, zlink_ring_slot_t *slot,
                         unsigned operation);

/* The user_data of an operation, to cancel it by. */
uint64_t zlink_ring_slot_user_data(const zlink_ring_slot_t *slot, unsigned operation);

uint8_t *zlink_reactor_buffer(zlink_reactor_t *reactor, uint32_t flags);

/* The reactor is stopping: nothing new is opened. */
bool zlink_reactor_is_stopping(const zlink_reactor_t *reactor);

void zlink_reactor_resident_add(zlink_reactor_t *reactor, zlink_resident_t *resident);
void zlink_reactor_resident_remove(zlink_reactor_t *reactor, zlink_resident_t *resident);

/* End of this tick (or of the next, when the end is running). */
zlink_tick_list_t *zlink_reactor_tick_end(zlink_reactor_t *reactor);
/* The next tick; the reactor does not sleep before it. */
zlink_tick_list_t *zlink_reactor_next_tick(zlink_reactor_t *reactor);
/* When at least half of the receive buffers are with the kernel again. */
zlink_tick_list_t *zlink_reactor_starved(zlink_reactor_t *reactor);
/* After everything else of this tick: the task may free what embeds it. */
zlink_tick_list_t *zlink_reactor_frees(zlink_reactor_t *reactor);

/* When the reactor ends: what its user has not closed is freed then. */
zlink_tick_list_t *zlink_reactor_lasts(zlink_reactor_t *reactor);

/* The kernel answered that it does not know a feature: do without from now on. */
void zlink_reactor_lose_feature(zlink_reactor_t *reactor, uint32_t feature);

const zlink_net_fault_t *zlink_reactor_fault(const zlink_reactor_t *reactor);

struct zlink_resolver *zlink_reactor_resolver(zlink_reactor_t *reactor);

struct zlink_handshake_pool *zlink_reactor_handshakes(zlink_reactor_t *reactor);

/* For lines about strangers. */
zlink_log_gate_t *zlink_reactor_log_gate(zlink_reactor_t *reactor);

#endif
