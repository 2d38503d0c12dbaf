/*
 * server/application/turn_api.c: the functions that handlers call: include/zlink/turn.h, call.h, spot.h and timer.h, on
 * top of turn_call.
 */
#include <stdalign.h>
#include <string.h>

#include <zlink/zlink.h>

#include "base/memory.h"
#include "server/application/application_host.h"
#include "server/application/channel_host.h"
#include "server/application/spot.h"
#include "server/application/turn_call.h"

#define TURN_MEMORY_BYTES_MAX ((size_t)1 << 20)

/* ---- the turn ---- */

const char *zlink_turn_owner_name(const zlink_turn_t *turn)
{
    const zlink_invocation_t *invocation = zlink_invocation_of(turn);
    return invocation->spot ? invocation->spot->id : invocation->channel->channel->type->name;
}

const char *zlink_turn_source(const zlink_turn_t *turn)
{
    return zlink_invocation_of(turn)->source;
}

const char *zlink_turn_packet(const zlink_turn_t *turn)
{
    const zlink_invocation_t *invocation = zlink_invocation_of(turn);
    return invocation->handler ? invocation->handler->request.packet : "";
}

int32_t zlink_turn_remaining_ms(const zlink_turn_t *turn)
{
    const zlink_invocation_t *invocation = zlink_invocation_of(turn);
    if (!invocation->deadline_ms)
        return -1;
    uint64_t now_ms = zlink_clock_now_ms(invocation->host->clock);
    if (now_ms >= invocation->deadline_ms)
        return 0;
    uint64_t left_ms = invocation->deadline_ms - now_ms;
    return left_ms > INT32_MAX ? INT32_MAX : (int32_t)left_ms;
}

const char *zlink_turn_metadata(const zlink_turn_t *turn, const char *key)
{
    const zlink_invocation_t *invocation = zlink_invocation_of(turn);
    return key ? zlink_metadata_find(invocation->metadata, invocation->metadata_bytes, key) : NULL;
}

bool zlink_turn_next_metadata(const zlink_turn_t *turn, size_t *position, const char **key, const char **value)
{
    const zlink_invocation_t *invocation = zlink_invocation_of(turn);
    return zlink_metadata_next(invocation->metadata, invocation->metadata_bytes, position, key, value);
}

const char *zlink_turn_correlation_id(const zlink_turn_t *turn)
{
    const zlink_trace_t *trace = zlink_invocation_of(turn)->trace;
    return trace ? trace->correlation_id : "";
}

const char *zlink_turn_flow_id(const zlink_turn_t *turn)
{
    const zlink_trace_t *trace = zlink_invocation_of(turn)->trace;
    return trace ? trace->flow_id : "";
}

uint8_t zlink_turn_flow_origin(const zlink_turn_t *turn)
{
    const zlink_trace_t *trace = zlink_invocation_of(turn)->trace;
    return trace ? trace->flow_origin : 0;
}

void *zlink_turn_alloc(zlink_turn_t *turn, size_t size_bytes)
{
    const size_t header = (sizeof(zlink_turn_memory_t) + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    if (!turn || zlink_turn_current() != turn)
        return NULL;
    zlink_invocation_t *invocation = zlink_invocation_of(turn);
    if (size_bytes > TURN_MEMORY_BYTES_MAX || header + size_bytes > TURN_MEMORY_BYTES_MAX - invocation->memory_bytes)
        return NULL;
    zlink_turn_memory_t *piece = zlink_calloc(1, header + size_bytes);
    if (!piece)
        return NULL;
    piece->next = invocation->memory;
    piece->size_bytes = size_bytes;
    invocation->memory = piece;
    invocation->memory_bytes += header + size_bytes; /* many small pieces count, too */
    return (char *)piece + header;
}

zlink_status_t zlink_spot_close(zlink_turn_t *turn)
{
    if (!turn || zlink_turn_current() != turn || !zlink_invocation_of(turn)->spot)
        return ZLINK_INVALID_OPERATION;
    zlink_invocation_t *invocation = zlink_invocation_of(turn);
    zlink_spot_registry_close_spot(invocation->host->spots, invocation->spot);
    return ZLINK_OK;
}

/* ---- timers ---- */

static zlink_spot_timers_t *timers_of(zlink_turn_t *turn, const char *name)
{
    if (!turn || zlink_turn_current() != turn || !zlink_invocation_of(turn)->spot || !name ||
        !zlink_wire_name_is_valid(name))
        return NULL;
    return zlink_invocation_of(turn)->spot->timers;
}

zlink_status_t zlink_timer_start(zlink_turn_t *turn, const char *name, zlink_timer_options_t options,
                                 zlink_timer_handler_t handler)
{
    zlink_spot_timers_t *timers = timers_of(turn, name);
    return timers ? zlink_spot_timers_start(timers, name, &options, handler) : ZLINK_INVALID_OPERATION;
}

zlink_status_t zlink_timer_cancel(zlink_turn_t *turn, const char *name)
{
    zlink_spot_timers_t *timers = timers_of(turn, name);
    return timers ? zlink_spot_timers_cancel(timers, name) : ZLINK_INVALID_OPERATION;
}

/* ---- calls ---- */

static zlink_status_t channel_call(zlink_turn_t *turn, const char *channel, zlink_ask_t ask, const zlink_reply_t *reply,
                                   zlink_wait_mode_t mode, zlink_then_t then, void *context)
{
    zlink_turn_call_plan_t plan = {ZLINK_TARGET_CHANNEL, channel, "", ask, reply, mode, then, context};
    return zlink_turn_call(turn, &plan);
}

static zlink_status_t spot_call(zlink_turn_t *turn, const char *type, const char *id, zlink_ask_t ask,
                                const zlink_reply_t *reply, zlink_wait_mode_t mode, zlink_then_t then, void *context)
{
    zlink_turn_call_plan_t plan = {ZLINK_TARGET_INSTANCE_SPOT, type, id, ask, reply, mode, then, context};
    return zlink_turn_call(turn, &plan);
}

zlink_status_t zlink_channel_send(zlink_turn_t *turn, const char *channel, zlink_ask_t message)
{
    return channel_call(turn, channel, message, NULL, ZLINK_WAIT_ASYNC, NULL, NULL);
}

zlink_status_t zlink_channel_request_async(zlink_turn_t *turn, const char *channel, zlink_ask_t ask,
                                           zlink_reply_t reply)
{
    return channel_call(turn, channel, ask, &reply, ZLINK_WAIT_ASYNC, NULL, NULL);
}

zlink_status_t zlink_channel_request_yield(zlink_turn_t *turn, const char *channel, zlink_ask_t ask,
                                           zlink_reply_t reply)
{
    return channel_call(turn, channel, ask, &reply, ZLINK_WAIT_YIELD, NULL, NULL);
}

zlink_status_t zlink_channel_request_async_then(zlink_turn_t *turn, const char *channel, zlink_ask_t ask,
                                                zlink_reply_t reply, zlink_then_t then, void *context)
{
    return then ? channel_call(turn, channel, ask, &reply, ZLINK_WAIT_ASYNC, then, context) : ZLINK_INVALID_OPERATION;
}

zlink_status_t zlink_channel_request_yield_then(zlink_turn_t *turn, const char *channel, zlink_ask_t ask,
                                                zlink_reply_t reply, zlink_then_t then, void *context)
{
    return then ? channel_call(turn, channel, ask, &reply, ZLINK_WAIT_YIELD, then, context) : ZLINK_INVALID_OPERATION;
}

zlink_status_t zlink_instance_spot_send(zlink_turn_t *turn, const char *type, const char *id, zlink_ask_t message)
{
    return spot_call(turn, type, id, message, NULL, ZLINK_WAIT_ASYNC, NULL, NULL);
}

zlink_status_t zlink_instance_spot_request_async(zlink_turn_t *turn, const char *type, const char *id, zlink_ask_t ask,
                                                 zlink_reply_t reply)
{
    return spot_call(turn, type, id, ask, &reply, ZLINK_WAIT_ASYNC, NULL, NULL);
}

zlink_status_t zlink_instance_spot_request_yield(zlink_turn_t *turn, const char *type, const char *id, zlink_ask_t ask,
                                                 zlink_reply_t reply)
{
    return spot_call(turn, type, id, ask, &reply, ZLINK_WAIT_YIELD, NULL, NULL);
}

zlink_status_t zlink_instance_spot_request_async_then(zlink_turn_t *turn, const char *type, const char *id,
                                                      zlink_ask_t ask, zlink_reply_t reply, zlink_then_t then,
                                                      void *context)
{
    return then ? spot_call(turn, type, id, ask, &reply, ZLINK_WAIT_ASYNC, then, context) : ZLINK_INVALID_OPERATION;
}

zlink_status_t zlink_instance_spot_request_yield_then(zlink_turn_t *turn, const char *type, const char *id,
                                                      zlink_ask_t ask, zlink_reply_t reply, zlink_then_t then,
                                                      void *context)
{
    return then ? spot_call(turn, type, id, ask, &reply, ZLINK_WAIT_YIELD, then, context) : ZLINK_INVALID_OPERATION;
}
