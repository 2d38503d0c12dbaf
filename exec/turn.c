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
#include "exec/worker.h"

enum { WAIT_PREPARED, WAIT_PARKED, WAIT_COMPLETED };

zlink_turn_t *zlink_turn_current(void)
{
    /* On a turn's thread the code of a state lane may stand on top of the handler: it is not the turn's. */
    const zlink_worker_t *worker = zlink_domain_current() == ZLINK_DOMAIN_APPLICATION ? zlink_worker_current() : NULL;
    return worker ? worker->turn : NULL;
}

/* ---- waiting ---- */

zlink_status_t zlink_turn_prepare_wait(zlink_turn_t *turn, zlink_wait_t *wait, zlink_wait_mode_t mode,
                                       zlink_turn_continuation_t continuation, void *context)
{
    if (!turn || zlink_turn_current() != turn || turn->ending || turn->wait)
        return ZLINK_INVALID_OPERATION;
    if (mode == ZLINK_WAIT_YIELD && !turn->yield_offered)
        return ZLINK_INVALID_OPERATION;
    if (zlink_serial_execution_queue_is_closed(turn->queue))
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

static zlink_work_result_t answer_of(const zlink_wait_t *wait)
{
    return wait->mode == ZLINK_WAIT_YIELD ? ZLINK_WORK_SUSPENDED : ZLINK_WORK_HELD;
}

zlink_status_t zlink_turn_wait(zlink_turn_t *turn, zlink_wait_t *wait)
{
    assert(turn && zlink_turn_current() == turn && turn->wait == wait && !wait->continuation);
    zlink_worker_t *worker = turn->worker;
    zlink_coroutine_t *fresh = wait->stack;

    if (must_park(wait)) {
        /* Once parked, the wait's memory still is the handler's, but the stack is the worker's. */
        wait->stack = NULL;
        turn->parked = worker->stack;
        zlink_worker_leave_stack(worker, fresh, answer_of(wait));
        assert(zlink_turn_current() == turn && turn->worker == worker);
    } else {
        give_back_stack(worker, wait);
    }
    turn->wait = NULL;
    return wait->status;
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

/* The open wait is over: its continuation runs, unless the handler has failed meanwhile or never waited for it. */
static zlink_status_t go_on(zlink_turn_t *turn, zlink_status_t status)
{
    zlink_wait_t *wait = turn->wait;

    give_back_stack(turn->worker, wait);
    turn->wait = NULL;
    if (status != ZLINK_OK || !wait->continuation)
        return status;
    return wait->continuation(turn, wait->status, wait->context);
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
    status = turn->wait ? go_on(turn, turn->status) : turn->body(turn);
    while (turn->wait) {
        if (must_park(turn->wait)) {
            turn->status = status;
            leave(worker);
            return answer_of(turn->wait);
        }
        status = go_on(turn, status);
    }
    turn->ending = true;
    turn->ended(turn, status);
    leave(worker);
    return ZLINK_WORK_DONE;
}

void zlink_turn_init(zlink_turn_t *turn, zlink_status_t (*body)(zlink_turn_t *turn),
                     void (*ended)(zlink_turn_t *turn, zlink_status_t status))
{
    memset(turn, 0, sizeof(*turn));
    turn->item.run = run;
    turn->body = body;
    turn->ended = ended;
}
