#include "exec/work_call.h"

#include <assert.h>
#include <string.h>

#include "base/container_of.h"
#include "exec/worker_pool.h"

void zlink_work_call_init(zlink_work_call_t *call, zlink_turn_t *turn, void (*gone)(zlink_work_call_t *call))
{
    memset(call, 0, sizeof(*call));
    zlink_stop_token_init(&call->stop);
    call->turn = turn;
    call->gone = gone;
    atomic_init(&call->holders, 1);
    atomic_init(&call->decided, false);
}

void zlink_work_call_let_go(zlink_work_call_t *call)
{
    uint32_t before = atomic_fetch_sub_explicit(&call->holders, 1, memory_order_acq_rel);
    assert(before > 0 && "a work call is let go of once by each holder");
    if (before == 1)
        call->gone(call);
}

void zlink_work_call_lend(zlink_work_call_t *call)
{
    atomic_fetch_add_explicit(&call->holders, 1, memory_order_relaxed);
}

/* On the turn's worker, outside the turn. The turn holds the record until its wait is completed. */
static void expired(zlink_timer_t *timer)
{
    zlink_work_call_t *call = ZLINK_CONTAINER_OF(timer, zlink_work_call_t, deadline);
    if (atomic_exchange_explicit(&call->decided, true, memory_order_acq_rel))
        return;
    zlink_stop_token_request(&call->stop);
    if (call->withdraw && call->withdraw(call))
        zlink_work_call_let_go(call);
    zlink_wait_complete(&call->wait, ZLINK_DEADLINE_EXCEEDED);
}

void zlink_work_call_start_deadline(zlink_work_call_t *call, uint64_t deadline_ms)
{
    call->deadline.fire = expired;
    zlink_worker_timer_start(zlink_worker_current(), &call->deadline, deadline_ms);
}

bool zlink_work_call_end(zlink_work_call_t *call, zlink_status_t status)
{
    bool in_time = !atomic_exchange_explicit(&call->decided, true, memory_order_acq_rel);
    if (in_time)
        zlink_wait_complete(&call->wait, status);
    zlink_work_call_let_go(call);
    return in_time;
}

void zlink_work_call_finish(zlink_work_call_t *call)
{
    if (zlink_timer_is_running(&call->deadline))
        zlink_worker_timer_cancel(zlink_worker_current(), &call->deadline);
    zlink_work_call_let_go(call);
}
