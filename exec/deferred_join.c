/*
 * How the mark and the end of the handler meet: both change `state`. The mark at the front says WAITING; the handler's
 * end says ACTIVE or DISPOSED; whoever comes second knows of the other: a mark that finds the end goes on at once, an
 * end that finds the mark waiting brings it back through its queue. What the end has to say to the caller it says
 * before that exchange: until then the mark keeps the join and the target's queue alive.
 */
#include "exec/deferred_join.h"

#include <assert.h>
#include <string.h>

#include "base/container_of.h"
#include "base/memory.h"
#include "exec/worker.h"

enum { JOIN_MARKED, JOIN_WAITING, JOIN_ACTIVE, JOIN_DISPOSED };

/* The executor's word: bit 31 a join is pending, below it the marks that stand in the queue. */
#define JOIN_PENDING (UINT32_C(1) << 31)
#define MARKS_MAX    1024u

static zlink_status_t claim_membership(zlink_actor_serial_executor_t *target)
{
    uint32_t seen = atomic_load_explicit(&target->joins, memory_order_relaxed);

    do {
        if (seen & JOIN_PENDING)
            return ZLINK_UNAVAILABLE;
        if (seen >= MARKS_MAX)
            return ZLINK_CAPACITY_EXCEEDED;
    } while (!atomic_compare_exchange_weak(&target->joins, &seen, (seen + 1) | JOIN_PENDING));
    return ZLINK_OK;
}

static void release_membership(zlink_actor_serial_executor_t *target)
{
    atomic_fetch_and(&target->joins, ~JOIN_PENDING);
}

static void release_mark(zlink_actor_serial_executor_t *target)
{
    atomic_fetch_sub(&target->joins, 1);
}

static void destroy(zlink_deferred_join_t *join)
{
    zlink_free(join->request);
    zlink_free(join);
}

/* ---- the join's turn ---- */

static zlink_status_t activate(zlink_turn_t *turn)
{
    zlink_deferred_join_t *join = ZLINK_CONTAINER_OF(turn, zlink_deferred_join_t, turn);

    if (zlink_worker_now_ns(turn->worker) / ZLINK_NS_PER_MS >= join->deadline_ms)
        return ZLINK_DEADLINE_EXCEEDED;
    return join->calls->activate(turn, join);
}

static void completed(zlink_turn_t *turn, zlink_status_t status)
{
    zlink_deferred_join_t *join = ZLINK_CONTAINER_OF(turn, zlink_deferred_join_t, turn);

    join->calls->completed(turn, join, status);
    release_membership(join->target);
    destroy(join);
}

/* ---- the mark ---- */

static void dispose(zlink_deferred_join_t *join, zlink_status_t why)
{
    join->calls->dispose(join, why);
    zlink_free(join->request);
    join->request = NULL;
    release_membership(join->target);
}

static zlink_work_result_t run_mark(zlink_work_item_t *item, zlink_worker_t *worker)
{
    zlink_deferred_join_t *join = ZLINK_CONTAINER_OF(item, zlink_deferred_join_t, mark);
    zlink_actor_serial_executor_t *target = join->target;
    uint8_t state = JOIN_MARKED;

    (void)worker;
    if (atomic_compare_exchange_strong(&join->state, &state, JOIN_WAITING))
        return target->queue.gate ? ZLINK_WORK_SUSPENDED : ZLINK_WORK_HELD;
    assert(state == JOIN_ACTIVE || state == JOIN_DISPOSED);
    release_mark(target);
    if (state == JOIN_ACTIVE) {
        if (zlink_actor_serial_executor_execute_barrier(target, &join->turn) == ZLINK_OK)
            return ZLINK_WORK_DONE;
        dispose(join, ZLINK_SHUTTING_DOWN);
    }
    destroy(join);
    return ZLINK_WORK_DONE;
}

/* ---- the handler's side ---- */

zlink_status_t zlink_deferred_join_create(zlink_actor_serial_executor_t *target, const zlink_defer_options_t *options,
                                          uint64_t deadline_ms, zlink_deferred_join_t **created)
{
    zlink_status_t status = ZLINK_CAPACITY_EXCEEDED;
    zlink_deferred_join_t *join = zlink_calloc(1, sizeof(*join));
    if (!join)
        return status;

    join->target = target;
    join->operation_id = options->operation_id;
    join->deadline_ms = deadline_ms;
    join->request_bytes = options->request_bytes;
    join->context = options->context;
    join->calls = options->calls;
    if (options->request_bytes) {
        join->request = zlink_malloc(options->request_bytes);
        if (!join->request)
            goto failed;
        memcpy(join->request, options->request, options->request_bytes);
    }
    join->mark.run = run_mark;
    zlink_turn_init(&join->turn, activate, completed);
    atomic_init(&join->state, JOIN_MARKED);
    status = claim_membership(target);
    if (status != ZLINK_OK)
        goto failed;
    status = zlink_serial_execution_queue_enqueue_mark(&target->queue, &join->mark);
    if (status == ZLINK_OK) {
        *created = join;
        return ZLINK_OK;
    }
    release_mark(target);
    release_membership(target);
failed:
    destroy(join);
    return status;
}

void zlink_deferred_join_settle(zlink_deferred_join_t *join, zlink_status_t status)
{
    zlink_serial_execution_queue_t *queue = &join->target->queue;

    if (status != ZLINK_OK)
        dispose(join, status);
    uint8_t before = atomic_exchange(&join->state, status == ZLINK_OK ? JOIN_ACTIVE : JOIN_DISPOSED);
    assert(before == JOIN_MARKED || before == JOIN_WAITING);
    if (before != JOIN_WAITING)
        return; /* the mark will see it; join and target may be gone */
    if (queue->gate)
        zlink_serial_execution_queue_resume(queue, &join->mark);
    else
        zlink_serial_execution_queue_resume_held(queue);
}
