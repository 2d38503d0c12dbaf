#include "exec/execution_completion.h"

#include <assert.h>
#include <stddef.h>

enum { NOBODY_WAITS = 0, ENDED = 1 };

void zlink_execution_completion_init(zlink_execution_completion_t *completion,
                                     void (*done)(zlink_execution_completion_t *completion, zlink_status_t status))
{
    completion->done = done;
    completion->coordinator = NULL;
    completion->owner = NULL;
    completion->status = ZLINK_OK;
    atomic_init(&completion->waiter, NOBODY_WAITS);
}

void zlink_turn_complete_with(zlink_turn_t *turn, zlink_execution_completion_t *completion)
{
    turn->completion = completion;
}

void zlink_execution_completion_ended(zlink_execution_completion_t *completion, zlink_status_t status)
{
    completion->status = status;
    if (completion->done) {
        completion->done(completion, status);
        return;
    }
    uintptr_t waiter = atomic_exchange(&completion->waiter, ENDED);
    if (waiter != NOBODY_WAITS)
        zlink_wait_complete((zlink_wait_t *)waiter, status);
}

/* Would the calling turn wait for its own coordinator? */
static bool is_own(const zlink_execution_completion_t *completion, const zlink_turn_t *turn)
{
    const zlink_execution_owner_t *above = atomic_load_explicit(&turn->owner->above, memory_order_relaxed);
    return completion->coordinator == turn->owner || completion->owner == turn->owner ||
           (above && completion->coordinator == above);
}

/* The wait takes the turn's end, or is over already. */
static void bind(zlink_execution_completion_t *completion, zlink_wait_t *wait)
{
    uintptr_t nobody = NOBODY_WAITS;

    if (atomic_compare_exchange_strong(&completion->waiter, &nobody, (uintptr_t)wait))
        return;
    assert(nobody == ENDED && "one turn waits for a completion");
    zlink_wait_complete(wait, completion->status);
}

static zlink_status_t prepare(zlink_execution_completion_t *completion, zlink_turn_t *turn, zlink_wait_mode_t mode,
                              zlink_wait_t *wait, zlink_turn_continuation_t continuation, void *context)
{
    if (!turn || zlink_turn_current() != turn || completion->done || is_own(completion, turn))
        return ZLINK_INVALID_OPERATION;
    return zlink_turn_prepare_wait(turn, wait, mode, continuation, context);
}

zlink_status_t zlink_execution_completion_wait(zlink_execution_completion_t *completion, zlink_turn_t *turn,
                                               zlink_wait_mode_t mode, bool *waited)
{
    zlink_wait_t wait;
    zlink_status_t status = prepare(completion, turn, mode, &wait, NULL, NULL);

    if (waited)
        *waited = status == ZLINK_OK;
    if (status != ZLINK_OK)
        return status;
    bind(completion, &wait);
    return zlink_turn_wait(turn, &wait);
}

zlink_status_t zlink_execution_completion_wait_then(zlink_execution_completion_t *completion, zlink_turn_t *turn,
                                                    zlink_wait_mode_t mode, zlink_wait_t *wait,
                                                    zlink_turn_continuation_t continuation, void *context)
{
    if (!continuation)
        return ZLINK_INVALID_OPERATION;
    zlink_status_t status = prepare(completion, turn, mode, wait, continuation, context);
    if (status == ZLINK_OK)
        bind(completion, wait);
    return status;
}
