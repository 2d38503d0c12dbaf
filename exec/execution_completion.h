/*
 * exec/execution_completion.h: how whoever submits a turn learns that it has ended (contract 000 §3 and §10).
 *
 * Optional: given to the turn before a coordinator's execute_* takes it. It belongs to the submitter and stays until it
 * has told. It tells one party: either `done` is set, or one turn of another coordinator waits for it.
 */
#ifndef ZLINK_EXEC_EXECUTION_COMPLETION_H
#define ZLINK_EXEC_EXECUTION_COMPLETION_H

#include <stdatomic.h>
#include <stdint.h>

#include <zlink/status.h>

#include "exec/execution_owner.h"
#include "exec/turn.h"

typedef struct zlink_execution_completion zlink_execution_completion_t;

struct zlink_execution_completion {
    /* After the turn's `ended`, before its authority is given back, on no turn. The completion may be freed in it. */
    void (*done)(zlink_execution_completion_t *completion, zlink_status_t status);
    /* Private. */
    const zlink_execution_owner_t *coordinator; /* compared only */
    const zlink_execution_owner_t *owner;
    _Atomic(uintptr_t) waiter; /* the wait, or a number: nobody yet, ended */
    zlink_status_t status;     /* how the turn ended */
};

/* `done` NULL: a turn will wait. */
void zlink_execution_completion_init(zlink_execution_completion_t *completion,
                                     void (*done)(zlink_execution_completion_t *completion, zlink_status_t status));

/* Before execute_*; where that one refuses the turn, the completion tells nothing. */
void zlink_turn_complete_with(zlink_turn_t *turn, zlink_execution_completion_t *completion);

/* On `turn`: waits until the other turn has ended, and answers how. ZLINK_INVALID_OPERATION at once where both run
 * under one coordinator, which would wait for itself. Otherwise the errors of zlink_turn_prepare_wait; `waited` (may be
 * NULL) tells them from the other turn's. */
zlink_status_t zlink_execution_completion_wait(zlink_execution_completion_t *completion, zlink_turn_t *turn,
                                               zlink_wait_mode_t mode, bool *waited);

/* The continuation form: ZLINK_OK, and the handler returns. `wait` stays until `continuation` is called. */
zlink_status_t zlink_execution_completion_wait_then(zlink_execution_completion_t *completion, zlink_turn_t *turn,
                                                    zlink_wait_mode_t mode, zlink_wait_t *wait,
                                                    zlink_turn_continuation_t continuation, void *context);

/* ---- private to exec ---- */

/* For turn.c, as the last use of the completion. */
void zlink_execution_completion_ended(zlink_execution_completion_t *completion, zlink_status_t status);

#endif
