/* bench_echo.c: the answering side: a channel and an Instance Spot that send back what they get and count notes. */
#include <string.h>

#include <zlink/zlink.h>

#include "bench.zlink.h"

typedef struct {
    uint64_t notes;
} echo_t;

static zlink_status_t on_echo64(zlink_turn_t *turn, void *self, const Echo64Req *request, Echo64Res *reply)
{
    (void)turn, (void)self;
    reply->data.size = request->data.size;
    memcpy(reply->data.bytes, request->data.bytes, request->data.size);
    return ZLINK_OK;
}

static zlink_status_t on_echo1k(zlink_turn_t *turn, void *self, const Echo1KReq *request, Echo1KRes *reply)
{
    (void)turn, (void)self;
    reply->data.size = request->data.size;
    memcpy(reply->data.bytes, request->data.bytes, request->data.size);
    return ZLINK_OK;
}

static zlink_status_t on_echo4k(zlink_turn_t *turn, void *self, const Echo4KReq *request, Echo4KRes *reply)
{
    (void)turn, (void)self;
    reply->data.size = request->data.size;
    memcpy(reply->data.bytes, request->data.bytes, request->data.size);
    return ZLINK_OK;
}

static zlink_status_t count(void *self)
{
    echo_t *echo = self;
    echo->notes++;
    return ZLINK_OK;
}

static zlink_status_t on_note64(zlink_turn_t *turn, void *self, const Note64 *note)
{
    (void)turn, (void)note;
    return count(self);
}

static zlink_status_t on_note1k(zlink_turn_t *turn, void *self, const Note1K *note)
{
    (void)turn, (void)note;
    return count(self);
}

static zlink_status_t on_note64k(zlink_turn_t *turn, void *self, const Note64K *note)
{
    (void)turn, (void)note;
    return count(self);
}

static zlink_status_t on_count(zlink_turn_t *turn, void *self, const CountReq *request, CountRes *reply)
{
    echo_t *echo = self;
    (void)turn, (void)request;
    reply->notes = echo->notes;
    echo->notes = 0;
    return ZLINK_OK;
}

static const zlink_handler_t echo_handlers[] = {
    ZLINK_ON_REQUEST(Echo64Req, Echo64Res, on_echo64),
    ZLINK_ON_REQUEST(Echo1KReq, Echo1KRes, on_echo1k),
    ZLINK_ON_REQUEST(Echo4KReq, Echo4KRes, on_echo4k),
    ZLINK_ON_SEND(Note64, on_note64),
    ZLINK_ON_SEND(Note1K, on_note1k),
    ZLINK_ON_SEND(Note64K, on_note64k),
    ZLINK_ON_REQUEST(CountReq, CountRes, on_count),
    ZLINK_HANDLERS_END,
};

static const zlink_spot_type_t echo_type = {
    .name = "echo",
    .kind = ZLINK_INSTANCE_SPOT,
    .state_size = sizeof(echo_t),
    .relocation = ZLINK_RELOCATION_DISABLED,
    .handlers = echo_handlers,
};

static const zlink_channel_type_t echo_channel = {
    .name = "echo",
    .state_size = sizeof(echo_t),
    .handlers = echo_handlers,
};

ZLINK_MODULE(bench_echo, module)
{
    zlink_module_add_spot_type(module, &echo_type);
    zlink_module_add_channel(module, &echo_channel);
}
