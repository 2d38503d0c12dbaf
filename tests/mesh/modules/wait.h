/*
 * wait.h: the handler of WaitReq, for probes and for the channel "slow": it asks somebody and waits in the way that the
 * request names.
 */
#ifndef TESTS_MESH_WAIT_H
#define TESTS_MESH_WAIT_H

#include <zlink/zlink.h>

#include "journal.h"

/* The part of an owner's state that on_wait works on. */
typedef struct waiter {
    journal_t journal;
    int64_t total;
} waiter_t;

/* What lives until the handler has ended. */
typedef struct waiting {
    waiter_t *waiter;
    const WaitReq *request;
    WaitRes *reply;
    int64_t total_before;
    LatchRes latch;
    PingRes ping;
} waiting_t;

static inline zlink_status_t wait_after(waiting_t *waiting, zlink_status_t status)
{
    waiter_t *waiter = waiting->waiter;
    const WaitReq *request = waiting->request;
    journal_enter(&waiter->journal);
    if (status == ZLINK_OK)
        waiter->total = (request->read_before ? waiting->total_before : waiter->total) + request->amount;
    snprintf(waiting->reply->status, sizeof(waiting->reply->status), "%s", zlink_status_name(status));
    waiting->reply->total = waiter->total;
    waiting->reply->number = waiting->latch.number;
    journal_note(&waiter->journal, request->tag, "-");
    journal_leave(&waiter->journal);
    return request->pass_on ? status : ZLINK_OK;
}

static inline zlink_status_t wait_then(zlink_turn_t *turn, void *self, zlink_status_t status, void *context)
{
    (void)turn, (void)self;
    return wait_after(context, status);
}

static inline zlink_status_t wait_for_spot(zlink_turn_t *turn, waiting_t *waiting)
{
    const WaitReq *request = waiting->request;
    PingReq ping = PingReq_init_zero;
    zlink_ask_t ask = ZLINK_ASK_WITHIN(PingReq, &ping, request->timeout_ms);
    zlink_reply_t reply = ZLINK_REPLY(PingRes, &waiting->ping);
    snprintf(ping.tag, sizeof(ping.tag), "%s", request->tag);
    switch (request->how) {
    case How_ASYNC:
        return zlink_instance_spot_request_async(turn, request->spot_type, request->spot_id, ask, reply);
    case How_YIELD:
        return zlink_instance_spot_request_yield(turn, request->spot_type, request->spot_id, ask, reply);
    case How_ASYNC_THEN:
        return zlink_instance_spot_request_async_then(turn, request->spot_type, request->spot_id, ask, reply, wait_then,
                                                      waiting);
    case How_YIELD_THEN:
        return zlink_instance_spot_request_yield_then(turn, request->spot_type, request->spot_id, ask, reply, wait_then,
                                                      waiting);
    default:
        return ZLINK_OK;
    }
}

static inline zlink_status_t wait_for_channel(zlink_turn_t *turn, waiting_t *waiting)
{
    const WaitReq *request = waiting->request;
    LatchReq latch = LatchReq_init_zero;
    zlink_ask_t ask = ZLINK_ASK_WITHIN(LatchReq, &latch, request->timeout_ms);
    zlink_reply_t reply = ZLINK_REPLY(LatchRes, &waiting->latch);
    snprintf(latch.tag, sizeof(latch.tag), "%s", request->tag);
    switch (request->how) {
    case How_ASYNC:
        return zlink_channel_request_async(turn, request->channel, ask, reply);
    case How_YIELD:
        return zlink_channel_request_yield(turn, request->channel, ask, reply);
    case How_ASYNC_THEN:
        return zlink_channel_request_async_then(turn, request->channel, ask, reply, wait_then, waiting);
    case How_YIELD_THEN:
        return zlink_channel_request_yield_then(turn, request->channel, ask, reply, wait_then, waiting);
    default:
        return ZLINK_OK;
    }
}

static inline zlink_status_t on_wait(zlink_turn_t *turn, void *self, const WaitReq *request, WaitRes *reply)
{
    waiter_t *waiter = self;
    waiting_t *waiting = zlink_turn_alloc(turn, sizeof(*waiting));
    if (!waiting)
        return ZLINK_CAPACITY_EXCEEDED;
    journal_enter(&waiter->journal);
    waiting->waiter = waiter;
    waiting->request = request;
    waiting->reply = reply;
    waiting->total_before = waiter->total;
    journal_note(&waiter->journal, request->tag, "+");
    journal_leave(&waiter->journal);

    zlink_status_t status = request->spot_type[0] ? wait_for_spot(turn, waiting) : wait_for_channel(turn, waiting);
    bool goes_on_later = request->how == How_ASYNC_THEN || request->how == How_YIELD_THEN;
    return goes_on_later && status == ZLINK_OK ? ZLINK_OK : wait_after(waiting, status);
}

#endif
