/*
 * direct.c: handlers of the node itself, and a channel that calls those of other nodes.
 */
#include <stdio.h>

#include <zlink/zlink.h>

#include "mesh.zlink.h"
#include "wait.h"

typedef struct direct {
    waiter_t waiter; /* for its journal */
} direct_t;

static zlink_status_t on_ping(zlink_turn_t *turn, void *self, const PingReq *request, PingRes *reply)
{
    direct_t *direct = self;
    journal_enter(&direct->waiter.journal);
    journal_note(&direct->waiter.journal, request->tag, "");
    snprintf(reply->owner, sizeof(reply->owner), "%s", zlink_turn_owner_name(turn));
    snprintf(reply->source, sizeof(reply->source), "%s", zlink_turn_source(turn));
    reply->remaining_ms = zlink_turn_remaining_ms(turn);
    journal_leave(&direct->waiter.journal);
    return ZLINK_OK;
}

static zlink_status_t on_note(zlink_turn_t *turn, void *self, const Note *message)
{
    direct_t *direct = self;
    (void)turn;
    journal_enter(&direct->waiter.journal);
    journal_note(&direct->waiter.journal, message->tag, "");
    journal_leave(&direct->waiter.journal);
    return ZLINK_OK;
}

static zlink_status_t on_log(zlink_turn_t *turn, void *self, const LogReq *request, LogRes *reply)
{
    const direct_t *direct = self;
    (void)turn, (void)request;
    journal_read(&direct->waiter.journal, reply);
    return ZLINK_OK;
}

static zlink_status_t on_node(zlink_turn_t *turn, void *self, const NodeReq *request, NodeRes *reply)
{
    PingReq ask = PingReq_init_zero;
    PingRes answer = PingRes_init_zero;
    Note note = Note_init_zero;
    (void)self;
    snprintf(ask.tag, sizeof(ask.tag), "%s", request->tag);
    snprintf(note.tag, sizeof(note.tag), "%s", request->tag);
    zlink_status_t status =
        request->one_way
            ? zlink_node_send(turn, request->node_id, ZLINK_ASK(Note, &note))
            : zlink_node_request_async(turn, request->node_id, ZLINK_ASK(PingReq, &ask), ZLINK_REPLY(PingRes, &answer));
    snprintf(reply->status, sizeof(reply->status), "%s", zlink_status_name(status));
    snprintf(reply->owner, sizeof(reply->owner), "%s", answer.owner);
    snprintf(reply->source, sizeof(reply->source), "%s", answer.source);
    snprintf(reply->mesh, sizeof(reply->mesh), "%s", zlink_turn_mesh(turn));
    return ZLINK_OK;
}

static zlink_status_t on_weight(zlink_turn_t *turn, void *self, const WeightReq *request, WeightRes *reply)
{
    zlink_status_t status = zlink_channel_set_weight(turn, request->channel, request->weight);
    (void)self;
    snprintf(reply->status, sizeof(reply->status), "%s", zlink_status_name(status));
    return ZLINK_OK;
}

/* The same packets in the node's scope and in the channel's. */
static const zlink_handler_t handlers[] = {
    ZLINK_ON_REQUEST(PingReq, PingRes, on_ping),
    ZLINK_ON_REQUEST(NodeReq, NodeRes, on_node),
    ZLINK_ON_REQUEST(WeightReq, WeightRes, on_weight),
    ZLINK_ON_REQUEST(LogReq, LogRes, on_log),
    ZLINK_ON_SEND(Note, on_note),
    ZLINK_HANDLERS_END,
};

static const zlink_node_handlers_t node_handlers = {.state_size = sizeof(direct_t), .handlers = handlers};

static const zlink_channel_type_t direct_channel = {
    .name = "direct",
    .state_size = sizeof(direct_t),
    .handlers = handlers,
};

ZLINK_MODULE(direct, module)
{
    zlink_module_add_node_handlers(module, &node_handlers);
    zlink_module_add_channel(module, &direct_channel);
}
