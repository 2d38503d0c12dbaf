/*
 * net/reactor.h: one thread with one io_uring: everything that the node does on the network runs here.
 *
 * The reactor owns its thread, its ring, its receive buffers and its timer wheel. Streams, listeners and dialers
 * belong to it and are used on its thread only; nobody locks. Other threads talk to it through its mailbox:
 * zlink_reactor_post() is the one function here, beside create, destroy, call and is_current, that may be called
 * from any thread. A tick is: completions, mail, due timers, then what the tick left to do (sealing and sending,
 * re-arming, freeing), then one system call that submits and waits.
 *
 * Callbacks must not block: a callback that waits stops every connection of the reactor.
 */
#ifndef ZLINK_NET_REACTOR_H
#define ZLINK_NET_REACTOR_H

#include <stdbool.h>
#include <stdint.h>

#include <zlink/status.h>

#include "base/clock.h"
#include "base/refusal.h"
#include "base/timer_wheel.h"
#include "net/fault.h"
#include "net/mailbox.h"
#include "net/ring_features.h"

typedef struct zlink_reactor zlink_reactor_t;

/* 0 means the default everywhere. */
typedef struct zlink_reactor_options {
    unsigned entries;               /* submission entries, default 1,024 */
    unsigned cq_entries;            /* completion entries, default 8 x entries; tests use 8 */
    unsigned buffer_count;          /* receive buffers, a power of two up to 32,768; default 1,024 */
    unsigned buffer_bytes;          /* of each, default 4,096 */
    unsigned handshake_threads;     /* helpers for TLS handshakes, 1 to 16, default 1 */
    unsigned handshakes_waiting;    /* for their first turn with a helper; one more is turned away. Default 256 */
    uint32_t features_allowed;      /* ZLINK_RING_... mask that may be used; 0 = all. Tests force a step down */
    const zlink_clock_t *clock;     /* NULL = the system's. Must outlive the reactor; read at every tick */
    const zlink_net_fault_t *fault; /* NULL outside tests; must outlive the reactor */
    bool by_hand;                   /* for tests: no thread is started, zlink_reactor_step() drives it */
} zlink_reactor_options_t;

/* Starts the thread and makes the ring on it. Where the kernel or a sandbox refuses the ring, `why` names the true
 * cause in one line and the answer is ZLINK_UNAVAILABLE; ZLINK_CAPACITY_EXCEEDED where memory or a thread is
 * missing; ZLINK_INVALID_OPERATION for bad options. `options` may be NULL. */
zlink_status_t zlink_reactor_create(const zlink_reactor_options_t *options, zlink_reactor_t **reactor,
                                    zlink_refusal_t *why);

/* Closes what is still open in order (each stream gets its `closed`), waits until the kernel has let go of
 * everything, joins the thread. Mail posted before the call is delivered. Not from the reactor thread, and only when
 * no other thread is inside or will enter zlink_reactor_post(). NULL is allowed. */
void zlink_reactor_destroy(zlink_reactor_t *reactor);

/* By hand only, on the one thread that uses the reactor, and from no callback: one turn of the loop from what has come
 * to the next wait, which must not block (whoever steps it has put something in the kernel's place, and knows from
 * there when the wait would end). For that time the caller is the reactor's thread. zlink_reactor_call() and
 * zlink_reactor_destroy() step it as often as they need: what they wait for must not depend on anybody else. */
void zlink_reactor_step(zlink_reactor_t *reactor);

bool zlink_reactor_is_current(const zlink_reactor_t *reactor);

/* What the ring got: ZLINK_RING_... mask. Any thread. */
uint32_t zlink_reactor_features(const zlink_reactor_t *reactor);

/* The time of this tick, of the reactor's clock. Reactor thread. */
uint64_t zlink_reactor_now_ms(const zlink_reactor_t *reactor);

/* Reactor thread. The timer fires there, never early. */
void zlink_reactor_timer_start(zlink_reactor_t *reactor, zlink_timer_t *timer, uint64_t deadline_ms);
void zlink_reactor_timer_cancel(zlink_reactor_t *reactor, zlink_timer_t *timer);

/* Any thread, the reactor's own included. `mail->deliver` is called once on the reactor thread, in the order in which
 * one sender posted. The mail is the reactor's until then and the callee's from then on. */
void zlink_reactor_post(zlink_reactor_t *reactor, zlink_mail_t *mail);

/* Runs `function` on the reactor thread and returns when it has ended; at once where this is that thread. For start
 * and stop; a turn must not (asserted): it posts instead. */
void zlink_reactor_call(zlink_reactor_t *reactor, void (*function)(void *context), void *context);

#endif
