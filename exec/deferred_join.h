/*
 * exec/deferred_join.h: one join of an Actor that a handler has deferred (contract 003 §5): its place in the Actor's
 * order, then its work.
 *
 * Its mark stands on the application lane of the Actor's queue and reserves nothing there. What came before it runs.
 * Where it comes to the front before the handler has ended, it waits and keeps the queue: a gated queue's claim, not
 * the gate; the turn of a queue that a worker drives itself. Once the handler has ended well, the mark at the front
 * puts the join's turn into the barrier slot, so that it runs next, and what came after the mark follows when the
 * join has ended. After any other end the mark only goes away.
 *
 * Memory: one allocation, made by defer. The scope of the handler refers to it until it has settled it; from then on it
 * is the mark's, and from the mark's activation the turn's, each of which frees it at its end. So the Actor's executor
 * must stay until its queue is closed, and no longer.
 *
 * An Actor has one join pending at most: from defer until it was completed or disposed of. Marks are limited apart,
 * because one that was disposed of stands in the queue until it comes to the front.
 */
#ifndef ZLINK_EXEC_DEFERRED_JOIN_H
#define ZLINK_EXEC_DEFERRED_JOIN_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <zlink/status.h>

#include "exec/actor_serial_executor.h"
#include "exec/turn.h"
#include "exec/work_item.h"

typedef struct zlink_deferred_join zlink_deferred_join_t;

/* Never all zero. */
typedef struct zlink_operation_id {
    uint64_t high;
    uint64_t low;
} zlink_operation_id_t;

/* What becomes of a join. Either `dispose` is called, or `completed`; once, and as the last use of the join. */
typedef struct zlink_deferred_join_calls {
    /* The join's work: a handler on a turn of the Actor, which may wait like one; nothing else of the Actor runs before
     * it has ended. Not called where the deadline is over by then: the result is ZLINK_DEADLINE_EXCEEDED. */
    zlink_status_t (*activate)(zlink_turn_t *turn, const zlink_deferred_join_t *join);
    /* The last act on that turn: the result, which only the Actor learns. */
    void (*completed)(zlink_turn_t *turn, const zlink_deferred_join_t *join, zlink_status_t result);
    /* There will be no join. On the last turn of the handler, `why` is how it ended (ZLINK_SHUTTING_DOWN: its owner was
     * closed); on a turn of the Actor where that one was closed: ZLINK_SHUTTING_DOWN. */
    void (*dispose)(const zlink_deferred_join_t *join, zlink_status_t why);
} zlink_deferred_join_calls_t;

typedef struct zlink_defer_options {
    zlink_operation_id_t operation_id;
    const void *request; /* copied */
    size_t request_bytes;
    uint32_t timeout_ms;                      /* from defer until the join is committed; 0 = 5,000, at most INT32_MAX */
    const zlink_deferred_join_calls_t *calls; /* all three; must stay */
    void *context;                            /* for the calls, the caller's own */
} zlink_defer_options_t;

/* The first part is for the calls to read, the rest private. */
struct zlink_deferred_join {
    zlink_actor_serial_executor_t *target;
    zlink_operation_id_t operation_id;
    uint64_t deadline_ms; /* of the pool's clock, fixed by defer */
    void *request;        /* the copy; valid in every call */
    size_t request_bytes;
    void *context;

    const zlink_deferred_join_calls_t *calls;
    zlink_work_item_t mark;
    zlink_turn_t turn;
    zlink_deferred_join_t *next; /* of the scope */
    _Atomic uint8_t state;       /* see deferred_join.c */
};

/* ---- private to exec: for exec/defer_scope.c, on the handler's turn ---- */

/* A join of `target`, pending from now on, whose mark stands in the queue. `options` are valid. ZLINK_UNAVAILABLE:
 * another one is pending. ZLINK_CAPACITY_EXCEEDED: memory, or too many marks stand there. ZLINK_SHUTTING_DOWN: the
 * target was closed. Where it fails nothing is kept. */
zlink_status_t zlink_deferred_join_create(zlink_actor_serial_executor_t *target, const zlink_defer_options_t *options,
                                          uint64_t deadline_ms, zlink_deferred_join_t **created);

/* The handler has ended: with ZLINK_OK the join is activated, else disposed of. The join may be gone after it. */
void zlink_deferred_join_settle(zlink_deferred_join_t *join, zlink_status_t status);

#endif
