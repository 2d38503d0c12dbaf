#include "exec/defer_scope.h"

#include <assert.h>

#include "base/memory.h"
#include "exec/worker.h"

struct zlink_defer_scope {
    zlink_deferred_join_t *first;
    zlink_deferred_join_t **end; /* where the next one goes */
    uint32_t count;
    size_t request_bytes;
};

static bool options_are_valid(const zlink_defer_options_t *options)
{
    const zlink_deferred_join_calls_t *calls = options->calls;

    return calls && calls->activate && calls->completed && calls->dispose &&
           (options->operation_id.high || options->operation_id.low) && options->timeout_ms <= INT32_MAX &&
           (options->request || !options->request_bytes);
}

static zlink_status_t check(const zlink_turn_t *turn, const zlink_actor_serial_executor_t *target,
                            const zlink_defer_options_t *options)
{
    const zlink_defer_scope_t *scope;

    if (!turn || zlink_turn_current() != turn || turn->ending || !turn->defer_offered)
        return ZLINK_INVALID_OPERATION;
    if (!target || !options || !options_are_valid(options))
        return ZLINK_INVALID_OPERATION;
    scope = turn->scope;
    if (options->request_bytes > ZLINK_DEFER_REQUEST_BYTES_MAX ||
        (scope && (scope->count >= ZLINK_DEFER_JOINS_MAX ||
                   options->request_bytes > ZLINK_DEFER_TOTAL_BYTES_MAX - scope->request_bytes)))
        return ZLINK_CAPACITY_EXCEEDED;
    unsigned state = zlink_execution_owner_state(turn->owner);
    if (state & ZLINK_OWNER_CLOSED)
        return ZLINK_SHUTTING_DOWN;
    return state & ZLINK_OWNER_SEALED ? ZLINK_UNAVAILABLE : zlink_execution_owner_admit(&target->owner);
}

/* Never earlier than was asked for: the millisecond that is running does not count. */
static uint64_t deadline_of(const zlink_turn_t *turn, uint32_t timeout_ms)
{
    uint64_t now_ns = zlink_clock_now_ns(turn->worker->pool->clock);
    return (now_ns + ZLINK_NS_PER_MS - 1) / ZLINK_NS_PER_MS +
           (timeout_ms ? timeout_ms : ZLINK_DEFER_TIMEOUT_DEFAULT_MS);
}

/* The turn's scope, made where it has none; NULL: no memory. */
static zlink_defer_scope_t *open_scope(zlink_turn_t *turn)
{
    zlink_defer_scope_t *scope = turn->scope;

    if (scope)
        return scope;
    scope = zlink_calloc(1, sizeof(*scope));
    if (!scope)
        return NULL;
    scope->end = &scope->first;
    turn->scope = scope; /* stays, though the join may be refused: the turn frees it at its end */
    return scope;
}

zlink_status_t zlink_turn_defer(zlink_turn_t *turn, zlink_actor_serial_executor_t *target,
                                const zlink_defer_options_t *options)
{
    zlink_deferred_join_t *join;
    zlink_status_t status = check(turn, target, options);
    if (status != ZLINK_OK)
        return status;
    zlink_defer_scope_t *scope = open_scope(turn);
    if (!scope)
        return ZLINK_CAPACITY_EXCEEDED;

    status = zlink_deferred_join_create(target, options, deadline_of(turn, options->timeout_ms), &join);
    if (status != ZLINK_OK)
        return status;
    *scope->end = join;
    scope->end = &join->next;
    scope->count++;
    scope->request_bytes += options->request_bytes;
    return ZLINK_OK;
}

bool zlink_defer_scope_bars(const zlink_turn_t *turn, const zlink_wait_target_t *target)
{
    if (!turn->scope)
        return false;
    for (const zlink_deferred_join_t *join = turn->scope->first; join; join = join->next)
        if (&join->target->queue == target->claim)
            return true;
    return false;
}

void zlink_defer_scope_end(zlink_turn_t *turn, zlink_status_t status)
{
    zlink_defer_scope_t *scope = turn->scope;

    assert(turn->ending);
    turn->scope = NULL;
    if (status == ZLINK_OK && (zlink_execution_owner_state(turn->owner) & ZLINK_OWNER_CLOSED))
        status = ZLINK_SHUTTING_DOWN;
    for (zlink_deferred_join_t *join = scope->first, *next; join; join = next) {
        next = join->next;
        zlink_deferred_join_settle(join, status);
    }
    zlink_free(scope);
}
