/*
 * net/reactor_internal.h: the reactor's inside, shared by reactor.c (the ring and the loop) and reactor_life.c (how it
 * starts and stops, and whose thread it is).
 *
 * Everything here is the reactor thread's, but for start, stop and what is atomic.
 */
#ifndef ZLINK_NET_REACTOR_INTERNAL_H
#define ZLINK_NET_REACTOR_INTERNAL_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "base/domain.h"
#include "net/completion_batch.h"
#include "net/handshake_pool.h"
#include "net/reactor_loop.h"
#include "net/resolver.h"
#include "net/slot_table.h"

struct zlink_reactor {
    zlink_mailbox_t mailbox;
    pthread_t thread;
    struct io_uring ring;
    _Atomic uint32_t features;
    zlink_buffer_ring_t buffers;
    zlink_slot_table_t slots;
    zlink_timer_wheel_t wheel;
    const zlink_clock_t *clock;
    const zlink_net_fault_t *fault;
    zlink_resolver_t *resolver;
    zlink_handshake_pool_t *handshakes;
    zlink_log_gate_t log_gate;
    uint64_t now_ms;

    zlink_completion_batch_t batch;
    uint8_t *buffer; /* of the completion that is being handled; NULL where it has none */

    zlink_tick_list_t tick_end;
    zlink_tick_list_t next_tick;
    zlink_tick_list_t starved;
    zlink_tick_list_t frees;
    zlink_tick_list_t lasts;
    zlink_resident_t *residents;

    zlink_ring_slot_t wake; /* reads the mailbox's eventfd */
    uint64_t wake_value;
    bool wake_armed;
    bool leaving; /* nothing is open any more: the loop waits for the last completions */
    bool ended;   /* the loop has */
    bool stopping;
    unsigned trouble; /* unexpected answers in a row */

    /* Start and stop. */
    zlink_reactor_options_t options;
    zlink_refusal_t *why;
    zlink_status_t start_status;
    sem_t started;
    zlink_mail_t stop_mail;
};

/* reactor.c */

/* From here on the calling thread is the reactor's, until it leaves with what this answered. */
zlink_domain_t zlink_reactor_enter(zlink_reactor_t *reactor);
void zlink_reactor_leave(zlink_domain_t before);

/* Clock, wheel and ring; reactor->start_status says how that went. */
void zlink_reactor_begin(zlink_reactor_t *reactor);
/* Waits for something to do. False: there is nothing to come any more, and the end follows. */
bool zlink_reactor_wait(zlink_reactor_t *reactor);
/* Does what there is to do. */
void zlink_reactor_tick(zlink_reactor_t *reactor);
void zlink_reactor_end(zlink_reactor_t *reactor);

#endif
