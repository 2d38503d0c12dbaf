/*
 * How a wait and its completion meet: both exchange `state`. The turn says PARKED, the completer says COMPLETED, and
 * whoever comes second knows of the other: a turn that finds COMPLETED goes on at once without giving anything back, a
 * completer that finds PARKED brings the item back through its queue. The item may be brought back before the turn has
 * left its stack: only this worker takes it up, and it does so from the stack that it goes on with.
 */
#include "exec/turn.h"

#include <assert.h>
#include <string.h>

#include "base/container_of.h"
#include "base/domain.h"
#include "exec/defer_scope.h"
#include "exec/execution_completion.h"
#include "exec/worker.h"

enum { WAIT_PREPARED, WAIT_PARKED, WAIT_COMPLETED };

zlink_turn_t *zlink_turn_current(void)
{
    /* On a turn's thread the code of a state lane may stand on top of the handler: it is not the turn's. */
    const zlink_worker_t *worker = zlink_domain_current() == ZLINK_DOMAIN_APPLICATION ? zlink_worker_current() : NULL;
    return worker ? worker->turn : NULL;
}

/* ---- waiting ---- */

static bool may_yield(const zlink_turn_t *turn)
{
    switch (turn->yield) {
    case ZLINK_YIELD_OFFERED:
        return true;
    case ZLINK_YIELD_BEHIND_GATE:
        return turn->worker->driving != turn->queue;
    case ZLINK_YIELD_NOT_OFFERED:
        break;
    }
    return false;
}

zlink_status_t zlink_turn_check_wait(const zlink_turn_t *turn, zlink_wait_mode_t mode,
                                     const zlink_wait_target_t *target)
{
    if (!turn || zlink_turn_current() != turn || (mode == ZLINK_WAIT_YIELD && !may_yield(turn)))
        return ZLINK_INVALID_OPERATION;
    if (!target)
        return ZLINK_OK;
    const void *gate = turn->worker->driving;
    const void *claim = turn->queue;
    if (gate != claim && (target->claim == claim || target->gate == claim))
        return ZLINK_INVALID_OPERATION; /* kept over a yield, too */
    if (mode == ZLINK_WAIT_ASYNC && (target->gate == gate || target->claim == gate))
        return ZLINK_INVALID_OPERATION;
    return zlink_defer_scope_bars(turn, target) ? ZLINK_INVALID_OPERATION : ZLINK_OK;
}

/* An Actor that comes to a gate or leaves one does so at the end of the turn; until then it has no place to wait. */
static bool is_between_gates(const zlink_turn_t *turn)
{
    const zlink_serial_execution_queue_t *gate = turn->queue->gate ? turn->queue->gate : turn->queue;
    return gate != turn->worker->driving;
}

zlink_status_t zlink_turn_prepare_wait(zlink_turn_t *turn, zlink_wait_t *wait, zlink_wait_mode_t mode,
                                       zlink_turn_continuation_t continuation, void *context)
{
    zlink_status_t status = zlink_turn_check_wait(turn, mode, NULL);
    if (status != ZLINK_OK)
        return status;
    if (turn->ending || turn->wait || is_between_gates(turn))
        return ZLINK_INVALID_OPERATION;
    unsigned state = zlink_execution_owner_state(turn->owner);
    if ((state & ZLINK_OWNER_CLOSED) || (mode == ZLINK_WAIT_YIELD && state != 0))
        return ZLINK_SHUTTING_DOWN;
    zlink_worker_t *worker = turn->worker;
    zlink_coroutine_t *stack = NULL;
    if (!continuation) {
        stack = zlink_stack_pool_take(&worker->pool->stacks, &worker->stacks);
        if (!stack)
            return ZLINK_CAPACITY_EXCEEDED;
    }
    wait->turn = turn;
    wait->continuation = continuation;
    wait->context = context;
    wait->stack = stack;
    wait->status = ZLINK_OK;
    wait->mode = (uint8_t)mode;
    atomic_init(&wait->state, WAIT_PREPARED);
    turn->wait = wait;
    return ZLINK_OK;
}

static void give_back_stack(zlink_worker_t *worker, zlink_wait_t *wait)
{
    if (wait->stack)
        zlink_stack_pool_give_back(&worker->pool->stacks, &worker->stacks, wait->stack);
    wait->stack = NULL;
}

void zlink_turn_abandon_wait(zlink_turn_t *turn, zlink_wait_t *wait)
{
    assert(turn && zlink_turn_current() == turn && turn->wait == wait);
    give_back_stack(turn->worker, wait);
    turn->wait = NULL;
}

/* True: the turn must leave, and will be brought back. False: the wait is over already. */
static bool must_park(zlink_wait_t *wait)
{
    if (atomic_load_explicit(&wait->state, memory_order_acquire) == WAIT_COMPLETED)
        return false;
    return atomic_exchange_explicit(&wait->state, WAIT_PARKED, memory_order_acq_rel) != WAIT_COMPLETED;
}

/* What the wait has brought to a turn that was away: not to be used where its owner has ended or moves meanwhile. */
static zlink_status_t brought(const zlink_turn_t *turn, const zlink_wait_t *wait)
{
    if (wait->mode == ZLINK_WAIT_YIELD && zlink_execution_owner_state(turn->owner) != 0)
        return ZLINK_SHUTTING_DOWN;
    return wait->status;
}

static zlink_work_result_t answer_of(const zlink_wait_t *wait)
{
    return wait->mode == ZLINK_WAIT_YIELD ? ZLINK_WORK_SUSPENDED : ZLINK_WORK_HELD;
}

zlink_status_t zlink_turn_wait(zlink_turn_t *turn, zlink_wait_t *wait)
{
    assert(turn && zlink_turn_current() == turn && turn->wait == wait && !wait->continuation);
    zlink_worker_t *worker = turn->worker;
    zlink_coroutine_t *fresh = wait->stack;
    zlink_status_t status;

    if (must_park(wait)) {
        /* Once parked, the wait's memory still is the handler's, but the stack is the worker's. */
        wait->stack = NULL;
        turn->parked = worker->stack;
        zlink_worker_leave_stack(worker, fresh, answer_of(wait));
        assert(zlink_turn_current() == turn && turn->worker == worker);
        status = brought(turn, wait);
    } else {
        give_back_stack(worker, wait);
        status = wait->status;
    }
    turn->wait = NULL;
    return status;
}

void zlink_wait_complete(zlink_wait_t *wait, zlink_status_t status)
{
    zlink_turn_t *turn = wait->turn;
    zlink_wait_mode_t mode = wait->mode;

    wait->status = status;
    uint8_t before = atomic_exchange_explicit(&wait->state, WAIT_COMPLETED, memory_order_acq_rel);
    assert(before != WAIT_COMPLETED && "a wait is completed once");
    if (before != WAIT_PARKED)
        return; /* the turn goes on by itself; the wait and the turn may be gone */
    if (mode == ZLINK_WAIT_YIELD)
        zlink_serial_execution_queue_resume(turn->queue, &turn->item);
    else
        zlink_serial_execution_queue_resume_held(turn->queue);
}

/* ---- running ---- */

static void begin(zlink_turn_t *turn, zlink_worker_t *worker)
{
    worker->turn = turn;
    zlink_domain_enter(ZLINK_DOMAIN_APPLICATION);
}

static void leave(zlink_worker_t *worker)
{
    worker->turn = NULL;
    zlink_domain_enter(ZLINK_DOMAIN_INFRASTRUCTURE);
}

/* The open wait is over and has brought `waited`: its continuation runs, unless the handler has failed meanwhile or
 * never waited for it. */
static zlink_status_t go_on(zlink_turn_t *turn, zlink_status_t status, zlink_status_t waited)
{
    zlink_wait_t *wait = turn->wait;

    give_back_stack(turn->worker, wait);
    turn->wait = NULL;
    if (status != ZLINK_OK || !wait->continuation)
        return status;
    return wait->continuation(turn, waited, wait->context);
}

/* All of it before the authority is given back, so that it does not overlap the next turn (contract 003 §8). */
static void end(zlink_turn_t *turn, zlink_worker_t *worker, zlink_status_t status)
{
    zlink_execution_completion_t *completion = turn->completion;
    void (*left)(const zlink_execution_owner_t *owner) = turn->left;
    const zlink_execution_owner_t *owner = turn->owner;

    if (turn->settle)
        status = turn->settle(turn, status);
    if (turn->scope)
        zlink_defer_scope_end(turn, status);
    turn->ended(turn, status);
    leave(worker); /* the turn may be gone */
    if (completion)
        zlink_execution_completion_ended(completion, status);
    if (left)
        left(owner);
}

static zlink_work_result_t run(zlink_work_item_t *item, zlink_worker_t *worker)
{
    zlink_turn_t *turn = ZLINK_CONTAINER_OF(item, zlink_turn_t, item);
    zlink_status_t status;

    turn->worker = worker;
    turn->authority = turn->queue->authority;
    begin(turn, worker);
    if (turn->parked) {
        zlink_coroutine_t *parked = turn->parked;
        turn->parked = NULL;
        zlink_worker_return_to(worker, parked); /* into zlink_turn_wait */
    }
    status = turn->wait ? go_on(turn, turn->status, brought(turn, turn->wait)) : turn->body(turn);
    while (turn->wait) {
        if (must_park(turn->wait)) {
            turn->status = status;
            leave(worker);
            return answer_of(turn->wait);
        }
        status = go_on(turn, status, turn->wait->status);
    }
    turn->ending = true;
    end(turn, worker, status);
    return ZLINK_WORK_DONE;
}

void zlink_turn_enter(zlink_turn_t *turn, zlink_serial_execution_queue_t *queue, const zlink_execution_owner_t *owner,
                      const zlink_execution_owner_t *coordinator)
{
    turn->queue = queue;
    turn->owner = owner;
    turn->yield = ZLINK_YIELD_NOT_OFFERED;
    turn->defer_offered = false;
    turn->left = NULL;
    if (turn->completion) {
        turn->completion->coordinator = coordinator;
        turn->completion->owner = owner;
    }
}

void zlink_turn_init(zlink_turn_t *turn, zlink_status_t (*body)(zlink_turn_t *turn),
                     void (*ended)(zlink_turn_t *turn, zlink_status_t status))
{
    memset(turn, 0, sizeof(*turn));
    turn->item.run = run;
    turn->body = body;
    turn->ended = ended;
}
