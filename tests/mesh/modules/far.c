/*
 * far.c: channels for the other side of the mesh: "far" answers at once, "slow" asks somebody else first.
 */
#include <stdio.h>

#include <zlink/zlink.h>

#include "mesh.zlink.h"
#include "wait.h"

typedef struct far {
    waiter_t waiter; /* first: on_wait works on it */
    int64_t answered;
} far_t;

static zlink_status_t on_latch(zlink_turn_t *turn, void *self, const LatchReq *request, LatchRes *reply)
{
    far_t *far = self;
    (void)turn;
    journal_enter(&far->waiter.journal);
    journal_note(&far->waiter.journal, request->tag, "");
    reply->number = ++far->answered;
    journal_leave(&far->waiter.journal);
    return ZLINK_OK;
}

static zlink_status_t on_ping(zlink_turn_t *turn, void *self, const PingReq *request, PingRes *reply)
{
    far_t *far = self;
    journal_enter(&far->waiter.journal);
    journal_note(&far->waiter.journal, request->tag, "");
    snprintf(reply->owner, sizeof(reply->owner), "%s", zlink_turn_owner_name(turn));
    snprintf(reply->source, sizeof(reply->source), "%s", zlink_turn_source(turn));
    reply->remaining_ms = zlink_turn_remaining_ms(turn);
    journal_leave(&far->waiter.journal);
    return ZLINK_OK;
}

static zlink_status_t on_note(zlink_turn_t *turn, void *self, const Note *message)
{
    far_t *far = self;
    (void)turn;
    journal_enter(&far->waiter.journal);
    journal_note(&far->waiter.journal, message->tag, "");
    journal_leave(&far->waiter.journal);
    return ZLINK_OK;
}

static zlink_status_t on_fail(zlink_turn_t *turn, void *self, const FailReq *request, FailRes *reply)
{
    (void)turn, (void)self, (void)reply;
    return (zlink_status_t)request->status;
}

static zlink_status_t on_log(zlink_turn_t *turn, void *self, const LogReq *request, LogRes *reply)
{
    const far_t *far = self;
    (void)turn, (void)request;
    journal_read(&far->waiter.journal, reply);
    reply->total = far->answered;
    return ZLINK_OK;
}

/* Closing a channel is not offered. */
static zlink_status_t on_close(zlink_turn_t *turn, void *self, const CloseReq *request, CloseRes *reply)
{
    (void)self, (void)request, (void)reply;
    return zlink_spot_close(turn);
}

static const zlink_handler_t handlers[] = {
    ZLINK_ON_REQUEST(LatchReq, LatchRes, on_latch),
    ZLINK_ON_REQUEST(WaitReq, WaitRes, on_wait),
    ZLINK_ON_REQUEST(PingReq, PingRes, on_ping),
    ZLINK_ON_REQUEST(FailReq, FailRes, on_fail),
    ZLINK_ON_REQUEST(CloseReq, CloseRes, on_close),
    ZLINK_ON_REQUEST(LogReq, LogRes, on_log),
    ZLINK_ON_SEND(Note, on_note),
    ZLINK_HANDLERS_END,
};

static const zlink_channel_type_t far_channel = {
    .name = "far",
    .state_size = sizeof(far_t),
    .handlers = handlers,
};

static const zlink_channel_type_t slow_channel = {
    .name = "slow",
    .state_size = sizeof(far_t),
    .handlers = handlers,
};

ZLINK_MODULE(far, module)
{
    zlink_module_add_channel(module, &far_channel);
    zlink_module_add_channel(module, &slow_channel);
}
