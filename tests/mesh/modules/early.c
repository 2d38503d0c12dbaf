/*
 * early.c: a channel whose on_start calls before the node has a mesh: itself, a channel that starts later, somebody who
 * is nowhere. Each must be told ZLINK_UNAVAILABLE; anything else stops the start.
 */
#include <zlink/zlink.h>

#include "mesh.zlink.h"

static zlink_status_t later(zlink_turn_t *turn, void *self, zlink_status_t status, void *context)
{
    (void)turn, (void)self, (void)context;
    return status == ZLINK_UNAVAILABLE ? ZLINK_OK : ZLINK_DATA_LOST;
}

static zlink_status_t call_early(zlink_turn_t *turn, void *self)
{
    static PingRes answer; /* the turn's only one */
    const char *const channels[] = {"early", "far", "nowhere"};
    PingReq ping = PingReq_init_zero;
    Note note = Note_init_zero;
    (void)self;
    for (int i = 0; i < 3; i++) {
        if (zlink_channel_request_async(turn, channels[i], ZLINK_ASK(PingReq, &ping), ZLINK_REPLY(PingRes, &answer)) !=
            ZLINK_UNAVAILABLE)
            return ZLINK_INTERNAL_FAILURE;
        if (zlink_channel_send(turn, channels[i], ZLINK_ASK(Note, &note)) != ZLINK_UNAVAILABLE)
            return ZLINK_INTERNAL_FAILURE;
    }
    return zlink_channel_request_async_then(turn, "nowhere", ZLINK_ASK(PingReq, &ping), ZLINK_REPLY(PingRes, &answer),
                                            later, NULL);
}

static zlink_status_t on_ping(zlink_turn_t *turn, void *self, const PingReq *request, PingRes *reply)
{
    (void)self;
    return zlink_channel_request_async(turn, "far", ZLINK_ASK(PingReq, request), ZLINK_REPLY(PingRes, reply));
}

static const zlink_handler_t handlers[] = {ZLINK_ON_REQUEST(PingReq, PingRes, on_ping), ZLINK_HANDLERS_END};

static const zlink_channel_type_t channel = {.name = "early", .on_start = call_early, .handlers = handlers};

ZLINK_MODULE(early, module)
{
    zlink_module_add_channel(module, &channel);
}
