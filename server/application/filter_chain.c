#include "server/application/filter_chain.h"

#include "base/counters.h"

ZLINK_COUNTER_DEFINE(filtered, ZLINK_COUNTER, "zlink.handlers.filtered",
                     "Messages that a filter has not let go on to their handler");

/* On the stack of the filter that it is given to. */
struct zlink_filter_next {
    zlink_invocation_t *invocation;
    const zlink_filter_t *rest;
    zlink_status_t (*body)(zlink_invocation_t *invocation);
    bool called;
};

zlink_status_t zlink_filter_chain_run(zlink_invocation_t *invocation, const zlink_filter_t *filters,
                                      zlink_status_t (*body)(zlink_invocation_t *invocation))
{
    if (!filters->function)
        return body(invocation);
    zlink_filter_next_t next = {.invocation = invocation, .rest = filters + 1, .body = body};
    zlink_status_t status = filters->function(&invocation->turn, &next, filters->context);
    if (next.called)
        return status;
    zlink_counter_add(&filtered, 1);
    return status == ZLINK_OK && invocation->handler->kind == ZLINK_HANDLER_REQUEST ? ZLINK_REJECTED : status;
}

zlink_status_t zlink_filter_next(zlink_turn_t *turn, zlink_filter_next_t *next)
{
    if (!turn || zlink_turn_current() != turn || !next || next->called || next->invocation != zlink_invocation_of(turn))
        return ZLINK_INVALID_OPERATION;
    next->called = true;
    return zlink_filter_chain_run(next->invocation, next->rest, next->body);
}
