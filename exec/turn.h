/*
 * exec/turn.h: a turn: one handler on its owner's queue, and how it waits (contract 000 §6.7, contract 003 §3 and §4).
 *
 * A turn is a work item with a handler; the server embeds it as the first member of its invocation. A coordinator's
 * execute_* takes it; from then until `ended` it belongs to exec. While its handler runs, only that thread may use it.
 *
 * Waiting: prepare, submit, wait. zlink_turn_prepare_wait checks and reserves, so that nothing can fail after the
 * submission. Then either zlink_turn_wait parks the handler where it stands, or (continuation form) the handler returns
 * ZLINK_OK and the turn goes on in the continuation. One wait may be open at a time.
 */
#ifndef ZLINK_EXEC_TURN_H
#define ZLINK_EXEC_TURN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <zlink/status.h>
#include <zlink/turn.h>

#include "exec/execution_owner.h"
#include "exec/serial_execution_queue.h"
#include "exec/work_item.h"

typedef struct zlink_coroutine zlink_coroutine_t;
typedef struct zlink_wait zlink_wait_t;
typedef struct zlink_defer_scope zlink_defer_scope_t;
typedef struct zlink_execution_completion zlink_execution_completion_t;

typedef enum zlink_wait_mode {
    ZLINK_WAIT_ASYNC, /* keeps the gate: nothing else of the owner runs meanwhile */
    ZLINK_WAIT_YIELD, /* gives it back: resumes in a new turn at the back of the owner's queue */
} zlink_wait_mode_t;

/* Where a turn may yield (contract 003 §16). */
typedef enum zlink_turn_yield {
    ZLINK_YIELD_NOT_OFFERED = 0,
    ZLINK_YIELD_OFFERED,     /* the owner's own gate is a shared one */
    ZLINK_YIELD_BEHIND_GATE, /* a member Actor's: while it runs on a turn of its Spot */
} zlink_turn_yield_t;

/* What the target of a wait needs in order to run: a gate, and of an Actor also its queue's claim. Made by the target's
 * coordinator; compared with what the turn holds, never followed, so the target may be gone meanwhile. */
typedef struct zlink_wait_target {
    const void *gate;
    const void *claim;
} zlink_wait_target_t;

/* Runs on the turn after the wait; `status` is what the wait was completed with. Answers like a handler. */
typedef zlink_status_t (*zlink_turn_continuation_t)(zlink_turn_t *turn, zlink_status_t status, void *context);

/* Embedded in the caller's call record, which lives until the wait was completed and waited for. All fields private. */
struct zlink_wait {
    zlink_turn_t *turn;
    zlink_turn_continuation_t continuation;
    void *context;
    zlink_coroutine_t *stack; /* reserved for the worker to go on with */
    zlink_status_t status;
    uint8_t mode;
    _Atomic uint8_t state;
};

struct zlink_turn {
    zlink_work_item_t item;
    zlink_serial_execution_queue_t *queue;      /* set by the coordinator at execute_* */
    const zlink_execution_owner_t *owner;       /* the coordinator's, set there too */
    zlink_worker_t *worker;                     /* set when it runs */
    uint64_t authority;                         /* the fencing number of the acquisition that it runs under */
    zlink_turn_yield_t yield;                   /* set by the coordinator */
    bool defer_offered;                         /* set by the coordinator: its handler may defer joins */
    bool ending;                                /* private: the handler has returned */
    zlink_status_t status;                      /* private: what it returned while a wait was open */
    zlink_status_t (*body)(zlink_turn_t *turn); /* the handler; runs on the turn */
    /* May be NULL. The handler has ended: what belongs to its end and may fail (a request's reply is encoded). Answers
     * how the turn ends; only ZLINK_OK lets the joins start that the handler has deferred. */
    zlink_status_t (*settle)(zlink_turn_t *turn, zlink_status_t status);
    /* The last act on the turn; may free it. Called exactly once for an accepted turn. */
    void (*ended)(zlink_turn_t *turn, zlink_status_t status);
    zlink_wait_t *wait;         /* private: the open wait */
    zlink_coroutine_t *parked;  /* private: the stack on which the handler waits */
    zlink_defer_scope_t *scope; /* private: what the handler has deferred, see exec/defer_scope.h; NULL = nothing */
    zlink_execution_completion_t *completion; /* private: told after `ended`; NULL = nobody is */
    void (*left)(
        const zlink_execution_owner_t *owner); /* private: the coordinator's own, after all that; NULL = none */
};

void zlink_turn_init(zlink_turn_t *turn, zlink_status_t (*body)(zlink_turn_t *turn),
                     void (*ended)(zlink_turn_t *turn, zlink_status_t status));

/* The turn of the calling thread, NULL outside and in what runs on a state lane, whatever it has interrupted. */
zlink_turn_t *zlink_turn_current(void);

/* For coordinators: from here on the turn is theirs. `coordinator` is who a completion of it belongs to. */
void zlink_turn_enter(zlink_turn_t *turn, zlink_serial_execution_queue_t *queue, const zlink_execution_owner_t *owner,
                      const zlink_execution_owner_t *coordinator);

/* May the turn wait like this for `target` (NULL: for nothing that runs on a gate)? To be asked before anything is
 * submitted. ZLINK_INVALID_OPERATION: not on this turn, yield is not offered to it, or the wait would never end: the
 * target needs the claim that the turn holds in any mode, or the gate that it keeps in this one, or is an Actor whose
 * join this handler has deferred. */
zlink_status_t zlink_turn_check_wait(const zlink_turn_t *turn, zlink_wait_mode_t mode,
                                     const zlink_wait_target_t *target);

/* Checks, before anything is submitted, that the turn may wait now, and reserves what it needs (a fresh stack when
 * `continuation` is NULL). ZLINK_INVALID_OPERATION: not on this turn (on a state lane nobody is), it is ending, yield
 * not offered, its Actor has come to a Spot or left one on it, or a wait is open already. ZLINK_CAPACITY_EXCEEDED: no
 * stack. ZLINK_SHUTTING_DOWN: the owner was closed, or a yield while it is sealed.
 *
 * A turn that gave the gate back and finds its owner closed or sealed when it goes on gets ZLINK_SHUTTING_DOWN from the
 * wait, whatever the wait was completed with (contract 003 §4). */
zlink_status_t zlink_turn_prepare_wait(zlink_turn_t *turn, zlink_wait_t *wait, zlink_wait_mode_t mode,
                                       zlink_turn_continuation_t continuation, void *context);

/* Prepared, but the submission failed: zlink_wait_complete will not be called. */
void zlink_turn_abandon_wait(zlink_turn_t *turn, zlink_wait_t *wait);

/* Parks the handler until the wait is completed and returns the completing status; at once where it is already. Only
 * for waits without continuation. */
zlink_status_t zlink_turn_wait(zlink_turn_t *turn, zlink_wait_t *wait);

/* Any thread, exactly once per prepared and not abandoned wait. The wait may be gone when it returns. */
void zlink_wait_complete(zlink_wait_t *wait, zlink_status_t status);

#endif
