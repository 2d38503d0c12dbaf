#include "server/application/invocation.h"

#include <assert.h>
#include <pb_decode.h>
#include <pb_encode.h>
#include <stdalign.h>
#include <string.h>

#include "base/counters.h"
#include "base/log.h"
#include "base/memory.h"
#include "server/application/application_host.h"
#include "server/application/channel_host.h"
#include "server/application/dispatch_error.h"
#include "server/application/filter_chain.h"
#include "server/application/spot.h"

ZLINK_COUNTER_DEFINE(handled, ZLINK_COUNTER, "zlink.handlers.completed", "Handlers that ended, whatever their status");
ZLINK_COUNTER_DEFINE(failed, ZLINK_COUNTER, "zlink.handlers.failed", "Handlers that ended with an error");
ZLINK_COUNTER_DEFINE(decode_errors, ZLINK_COUNTER, "zlink.mesh_node.messages.dropped.decode_error",
                     "Messages whose payload could not be decoded");
ZLINK_COUNTER_DEFINE(expired, ZLINK_COUNTER, "zlink.handlers.expired",
                     "Requests whose time was over before their handler started");

ZLINK_COUNTER_DEFINE(dropped, ZLINK_COUNTER, "zlink.handlers.cancelled",
                     "Requests that were given up before their handler started");

typedef zlink_status_t (*request_handler_t)(zlink_turn_t *, void *, const void *, void *);
typedef zlink_status_t (*send_handler_t)(zlink_turn_t *, void *, const void *);

#define REPLY_ON_STACK_BYTES 512

static size_t aligned(size_t size)
{
    return (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
}

static void give_back_permit(zlink_invocation_t *invocation)
{
    if (!invocation->holds_permit)
        return;
    invocation->holds_permit = false;
    zlink_application_job_queue_give_back(&invocation->host->job_queue);
}

static void report(const zlink_invocation_t *invocation, const char *reason, const char *detail)
{
    const zlink_spot_t *spot = invocation->spot;
    zlink_dispatch_error_log(&(zlink_dispatch_error_t){
        .reason = reason,
        .target = spot ? spot->type->type->name : invocation->channel->channel->type->name,
        .spot_id = spot ? spot->id : "",
        .packet = invocation->handler ? invocation->handler->request.packet : "",
        .source = invocation->source,
        .detail = detail,
        .trace = invocation->trace,
    });
}

static void free_payload_memory(zlink_invocation_t *invocation)
{
    if (!invocation->payload_memory)
        return;
    zlink_free(invocation->payload_memory);
    invocation->payload_memory = NULL;
    invocation->payload = NULL;
}

static bool decode_request(zlink_invocation_t *invocation)
{
    pb_istream_t stream = pb_istream_from_buffer(invocation->payload, invocation->payload_bytes);
    bool decoded = pb_decode(&stream, invocation->handler->request.fields, invocation->request_message);
    free_payload_memory(invocation);
    if (decoded)
        return true;
    zlink_counter_add(&decode_errors, 1);
    report(invocation, "decode_error", PB_GET_ERROR(&stream));
    return false;
}

/* Decode, give the permit back right before the handler's first instruction, run it. */
static zlink_status_t decode_and_run(zlink_invocation_t *invocation)
{
    const zlink_handler_t *handler = invocation->handler;
    zlink_turn_t *turn = &invocation->turn;

    if (!decode_request(invocation))
        return ZLINK_PROTOCOL_ERROR;
    give_back_permit(invocation);
    if (handler->kind == ZLINK_HANDLER_SEND)
        return ((send_handler_t)handler->function)(turn, invocation->self, invocation->request_message);
    memset(invocation->reply_message, 0, handler->reply.size);
    return ((request_handler_t)handler->function)(turn, invocation->self, invocation->request_message,
                                                  invocation->reply_message);
}

/* The turn. */
static zlink_status_t run_handler(zlink_turn_t *turn)
{
    zlink_invocation_t *invocation = zlink_invocation_of(turn);

    if (invocation->unwanted && atomic_load_explicit(invocation->unwanted, memory_order_acquire)) {
        zlink_counter_add(&dropped, 1);
        invocation->dropped = true;
        return ZLINK_CANCELLED;
    }
    if (invocation->spot) {
        zlink_status_t status = zlink_spot_usable(invocation->spot);
        if (status != ZLINK_OK)
            return status;
    }
    if (invocation->deadline_ms && zlink_clock_now_ms(invocation->host->clock) >= invocation->deadline_ms) {
        zlink_counter_add(&expired, 1);
        return ZLINK_DEADLINE_EXCEEDED;
    }
    if (!invocation->filters)
        return decode_and_run(invocation);
    give_back_permit(invocation); /* user code begins with the first filter */
    return zlink_filter_chain_run(invocation, invocation->filters, decode_and_run);
}

static zlink_status_t run_callback(zlink_turn_t *turn)
{
    zlink_invocation_t *invocation = zlink_invocation_of(turn);
    return invocation->callback(invocation);
}

/* Small replies are encoded once, on the stack, and copied; a large one is sized first. */
static zlink_status_t encode_reply(zlink_invocation_t *invocation)
{
    const zlink_message_type_t *type = &invocation->handler->reply;
    uint8_t small[REPLY_ON_STACK_BYTES];
    pb_ostream_t stream = pb_ostream_from_buffer(small, sizeof(small));
    size_t size = 0;

    if (pb_encode(&stream, type->fields, invocation->reply_message)) {
        size = stream.bytes_written;
        invocation->reply = zlink_malloc(size ? size : 1);
        if (!invocation->reply)
            return ZLINK_CAPACITY_EXCEEDED;
        memcpy(invocation->reply, small, size);
    } else {
        if (!pb_get_encoded_size(&size, type->fields, invocation->reply_message) ||
            size > invocation->host->message_bytes_max)
            return ZLINK_PROTOCOL_ERROR;
        invocation->reply = zlink_malloc(size ? size : 1);
        if (!invocation->reply)
            return ZLINK_CAPACITY_EXCEEDED;
        stream = pb_ostream_from_buffer(invocation->reply, size);
        if (!pb_encode(&stream, type->fields, invocation->reply_message))
            return ZLINK_PROTOCOL_ERROR;
    }
    invocation->reply_bytes = size;
    return ZLINK_OK;
}

/* A handler may return only what the enum holds; anything else is its failure, not the caller's puzzle. */
static zlink_status_t sane(const zlink_invocation_t *invocation, zlink_status_t status)
{
    if ((unsigned)status < ZLINK_STATUS_COUNT || invocation->dropped)
        return status;
    if (status == ZLINK_CANCELLED) /* a call of its own: to the caller it says nothing */
        return ZLINK_INTERNAL_FAILURE;
    report(invocation, "bad_status", "the handler, or a filter before it, returned a number that is no zlink_status_t");
    return ZLINK_INTERNAL_FAILURE;
}

/* The handler has ended: its reply is part of a good end. */
static zlink_status_t settle(zlink_turn_t *turn, zlink_status_t status)
{
    zlink_invocation_t *invocation = zlink_invocation_of(turn);

    status = sane(invocation, status);
    give_back_permit(invocation);
    if (status == ZLINK_OK && invocation->handler && invocation->handler->kind == ZLINK_HANDLER_REQUEST) {
        status = encode_reply(invocation);
        if (status == ZLINK_PROTOCOL_ERROR)
            report(invocation, "reply_not_encoded", "a text without its end, or a message over the limit");
    }
    return status;
}

static void ended(zlink_turn_t *turn, zlink_status_t status)
{
    zlink_invocation_t *invocation = zlink_invocation_of(turn);
    zlink_application_host_t *host = invocation->host;
    zlink_spot_t *spot = invocation->handler ? invocation->spot : NULL;

    if (invocation->handler) {
        zlink_counter_add(&handled, 1);
        if (status != ZLINK_OK)
            zlink_counter_add(&failed, 1);
    }
    invocation->status = status;
    if (invocation->open_then)
        invocation->drop_then(invocation);
    invocation->deliver(invocation);
    if (spot)
        zlink_spot_left(spot);
    zlink_application_host_ended(host);
}

zlink_invocation_t *zlink_invocation_create(zlink_application_host_t *host, const zlink_handler_t *handler,
                                            const char *source, const uint8_t *payload, size_t payload_bytes,
                                            void *payload_memory, uint64_t deadline_ms)
{
    size_t copied_bytes = payload_memory ? 0 : payload_bytes;
    size_t source_bytes = strlen(source) + 1;
    size_t request_at = aligned(sizeof(zlink_invocation_t));
    size_t reply_at = request_at + aligned(handler->request.size);
    size_t payload_at = reply_at + aligned(handler->reply.size);
    char *memory = zlink_malloc(payload_at + copied_bytes + source_bytes);
    if (!memory) {
        zlink_free(payload_memory);
        return NULL;
    }

    zlink_invocation_t *invocation = (zlink_invocation_t *)(void *)memory;
    memset(invocation, 0, sizeof(*invocation));
    invocation->host = host;
    invocation->handler = handler;
    invocation->request_message = memory + request_at;
    invocation->reply_message = memory + reply_at;
    if (copied_bytes)
        memcpy(memory + payload_at, payload, copied_bytes);
    invocation->payload = payload_memory ? payload : (uint8_t *)memory + payload_at;
    invocation->payload_bytes = payload_bytes;
    invocation->payload_memory = payload_memory;
    memcpy(memory + payload_at + copied_bytes, source, source_bytes);
    invocation->source = memory + payload_at + copied_bytes;
    invocation->deadline_ms = deadline_ms;
    zlink_turn_init(&invocation->turn, run_handler, ended);
    invocation->turn.settle = settle;
    return invocation;
}

bool zlink_invocation_set_metadata(zlink_invocation_t *invocation, const char *text, size_t text_bytes)
{
    if (text_bytes == 0)
        return true;
    invocation->metadata = zlink_malloc(text_bytes);
    if (!invocation->metadata)
        return false;
    memcpy(invocation->metadata, text, text_bytes);
    invocation->metadata_bytes = text_bytes;
    return true;
}

bool zlink_invocation_set_trace(zlink_invocation_t *invocation, const zlink_trace_t *trace)
{
    if (!trace)
        return true;
    invocation->trace = zlink_malloc(sizeof(*trace));
    if (!invocation->trace)
        return false;
    *invocation->trace = *trace;
    return true;
}

zlink_invocation_t *zlink_invocation_create_lifecycle(zlink_application_host_t *host,
                                                      zlink_invocation_callback_t callback,
                                                      zlink_invocation_deliver_t deliver)
{
    zlink_invocation_t *invocation = zlink_calloc(1, sizeof(*invocation));
    if (!invocation)
        return NULL;
    invocation->host = host;
    invocation->callback = callback;
    invocation->deliver = deliver;
    invocation->source = host->node_id;
    zlink_turn_init(&invocation->turn, run_callback, ended);
    invocation->turn.settle = settle;
    return invocation;
}

void zlink_invocation_free(zlink_invocation_t *invocation)
{
    give_back_permit(invocation);
    free_payload_memory(invocation);
    for (zlink_turn_memory_t *piece = invocation->memory, *next; piece; piece = next) {
        next = piece->next;
        zlink_free(piece);
    }
    zlink_free(invocation->reply);
    zlink_free(invocation->metadata);
    zlink_free(invocation->trace);
    zlink_free(invocation);
}

void zlink_invocation_deliver_nowhere(zlink_invocation_t *invocation)
{
    if (invocation->status != ZLINK_OK)
        report(invocation, "handler_error", zlink_status_name(invocation->status));
    zlink_invocation_free(invocation);
}
