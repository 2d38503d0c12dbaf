#include "server/application/turn_call.h"

#include <assert.h>
#include <pb_decode.h>
#include <pb_encode.h>
#include <string.h>

#include "base/admission_error.h"
#include "base/container_of.h"
#include "base/counters.h"
#include "base/memory.h"
#include "net/frame_connection.h"
#include "server/application/call_destination.h"
#include "server/application/cancellation.h"
#include "server/application/dispatch_error.h"
#include "server/application/room_wait.h"

#define ASK_ON_STACK_BYTES 512

ZLINK_COUNTER_DEFINE(requests_lane_full, ZLINK_COUNTER, "zlink.host.requests.lane_full",
                     "Requests within this node that were refused because a queue was full");

/* Of a one-way message that waits for room on its way out: who was first, its end or its sender, who was told to wait
 * for that without the gate. */
enum { UNMET = 0, SENDER_WAITS, MESSAGE_ENDED, SENDER_LEFT };

typedef struct zlink_turn_call_record {
    zlink_wait_t wait;
    zlink_turn_t *turn;
    zlink_reply_t reply; /* type and destination; empty for a one-way call */
    zlink_then_t then;
    void *context;
    zlink_outbound_call_t outbound;

    _Atomic uint32_t holders;
    _Atomic bool decided; /* of a local call, by answer, deadline or cancellation: whoever sets it completes the wait */
    zlink_timer_t deadline;
    zlink_cancellation_entry_t cancellation;
    zlink_wait_t room;               /* the wait after the first one … */
    bool waits_for_room;             /* … which it takes the place of */
    _Atomic uint8_t meets;           /* one of the above */
    zlink_status_t sent;             /* how the message ended */
    const char *source;              /* this node's id */
    zlink_invocation_t *answered_by; /* of a local call: it holds the reply's bytes */
    const uint8_t *answer;           /* of a remote one … */
    size_t answer_bytes;
    void *answer_memory;  /* … which lies in there */
    zlink_trace_t *trace; /* NULL: none */

    char name[ZLINK_NAME_BYTES_MAX + 1];
    char spot_id[ZLINK_NAME_BYTES_MAX + 1];
    uint8_t payload[];
} zlink_turn_call_record_t;

static void let_go(zlink_turn_call_record_t *call)
{
    if (atomic_fetch_sub_explicit(&call->holders, 1, memory_order_acq_rel) != 1)
        return;
    if (call->answered_by)
        zlink_invocation_free(call->answered_by);
    zlink_free(call->answer_memory);
    zlink_free(call->trace);
    zlink_free(call);
}

/* ---- the request's bytes ---- */

static bool has_metadata(const zlink_turn_call_plan_t *plan)
{
    return plan->ask.options && plan->ask.options->metadata_count > 0;
}

/* Behind the payload of a record that is made without: few calls have any. */
static zlink_status_t add_metadata(const zlink_call_options_t *options, zlink_turn_call_record_t **made)
{
    zlink_turn_call_record_t *call = *made;
    size_t size = call->outbound.payload_bytes;
    zlink_metadata_t metadata;
    if (zlink_metadata_pack(&metadata, options->metadata, options->metadata_count) != NULL)
        return ZLINK_INVALID_OPERATION;
    call = zlink_realloc(call, sizeof(*call) + size + metadata.text_bytes);
    if (!call)
        return ZLINK_CAPACITY_EXCEEDED;
    memcpy(call->payload + size, metadata.text, metadata.text_bytes);
    call->outbound.metadata_bytes = metadata.text_bytes;
    *made = call;
    return ZLINK_OK;
}

/* What the call says of itself: its options, and else the flow of the handler that makes it. */
static zlink_status_t add_trace(const zlink_invocation_t *caller, const zlink_turn_call_plan_t *plan,
                                zlink_turn_call_record_t *call)
{
    const zlink_call_options_t *options = plan->ask.options;
    const char *correlation_id = options ? options->correlation_id : NULL;
    const char *flow_id = options ? options->flow_id : NULL;
    zlink_trace_t trace = {.flow_origin = options ? options->flow_origin : 0};

    if (correlation_id && (!plan->reply || !zlink_trace_is_correlation_id(correlation_id)))
        return ZLINK_INVALID_OPERATION;
    if (flow_id ? !zlink_trace_is_flow_id(flow_id) : trace.flow_origin != 0)
        return ZLINK_INVALID_OPERATION;
    if (correlation_id)
        strcpy(trace.correlation_id, correlation_id);
    if (flow_id) {
        strcpy(trace.flow_id, flow_id);
    } else if (caller->trace) {
        strcpy(trace.flow_id, caller->trace->flow_id);
        trace.flow_origin = caller->trace->flow_origin;
    }
    if (zlink_trace_is_empty(&trace))
        return ZLINK_OK;
    call->trace = zlink_malloc(sizeof(trace));
    if (!call->trace)
        return ZLINK_CAPACITY_EXCEEDED;
    *call->trace = trace;
    return ZLINK_OK;
}

static const char *metadata_of(const zlink_turn_call_record_t *call)
{
    return (const char *)call->payload + call->outbound.payload_bytes;
}

/* A record with the encoded request in it. Small ones are encoded once; a large one is sized first. */
static zlink_status_t make_record(zlink_turn_t *turn, const zlink_turn_call_plan_t *plan,
                                  zlink_turn_call_record_t **made)
{
    size_t bytes_max = zlink_invocation_of(turn)->host->message_bytes_max;
    const zlink_ask_t *ask = &plan->ask;
    uint8_t small[ASK_ON_STACK_BYTES];
    pb_ostream_t stream = pb_ostream_from_buffer(small, sizeof(small));
    bool fits = pb_encode(&stream, ask->type.fields, ask->message);
    size_t size = stream.bytes_written;

    if (!fits && (!pb_get_encoded_size(&size, ask->type.fields, ask->message) || size > bytes_max))
        return ZLINK_PROTOCOL_ERROR;
    zlink_turn_call_record_t *call = zlink_malloc(sizeof(*call) + size);
    if (!call)
        return ZLINK_CAPACITY_EXCEEDED;
    memset(call, 0, offsetof(zlink_turn_call_record_t, name));
    if (fits) {
        memcpy(call->payload, small, size);
    } else {
        stream = pb_ostream_from_buffer(call->payload, size);
        if (!pb_encode(&stream, ask->type.fields, ask->message)) {
            zlink_free(call);
            return ZLINK_PROTOCOL_ERROR;
        }
    }
    call->turn = turn;
    call->source = zlink_invocation_of(turn)->host->node_id;
    if (plan->reply)
        call->reply = *plan->reply;
    call->then = plan->then;
    call->context = plan->context;
    atomic_init(&call->holders, 1);
    atomic_init(&call->decided, false);
    strcpy(call->name, plan->name);
    strcpy(call->spot_id, plan->spot_id);
    call->outbound.payload_bytes = size;
    zlink_status_t status = has_metadata(plan) ? add_metadata(ask->options, &call) : ZLINK_OK;
    if (status == ZLINK_OK && (ask->options || zlink_invocation_of(turn)->trace))
        status = add_trace(zlink_invocation_of(turn), plan, call);
    if (status == ZLINK_OK)
        *made = call;
    else
        zlink_free(call);
    return status;
}

/* ---- the end, on the caller's turn ---- */

static zlink_status_t decode_answer(const zlink_turn_call_record_t *call)
{
    const uint8_t *bytes = call->answered_by ? call->answered_by->reply : call->answer;
    size_t size = call->answered_by ? call->answered_by->reply_bytes : call->answer_bytes;
    pb_istream_t stream = pb_istream_from_buffer(bytes, size);
    return pb_decode(&stream, call->reply.type.fields, call->reply.message) ? ZLINK_OK : ZLINK_PROTOCOL_ERROR;
}

static zlink_status_t finish(zlink_turn_call_record_t *call, zlink_status_t status)
{
    zlink_cancellation_leave(&call->cancellation);
    if (zlink_timer_is_running(&call->deadline))
        zlink_worker_timer_cancel(call->turn->worker, &call->deadline);
    if (status == ZLINK_OK && call->reply.message)
        status = decode_answer(call);
    let_go(call);
    return status;
}

static zlink_status_t go_on(zlink_turn_t *turn, zlink_status_t status, void *context)
{
    zlink_turn_call_record_t *call = context;
    zlink_then_t then = call->then;
    void *then_context = call->context;
    zlink_invocation_of(turn)->open_then = NULL;
    status = finish(call, status);
    return then(turn, zlink_invocation_of(turn)->self, status, then_context);
}

/* The handler failed after a `_then` call, whose continuation so never runs: what it would have freed is freed here. */
static void drop(zlink_invocation_t *invocation)
{
    zlink_turn_call_record_t *call = invocation->open_then;
    invocation->open_then = NULL;
    finish(call, ZLINK_INVALID_OPERATION); /* its answer is not decoded: nobody reads it */
}

/* ---- a call within this node ---- */

static void expired_here(zlink_timer_t *timer)
{
    zlink_turn_call_record_t *call = ZLINK_CONTAINER_OF(timer, zlink_turn_call_record_t, deadline);
    if (!atomic_exchange_explicit(&call->decided, true, memory_order_acq_rel))
        zlink_wait_complete(&call->wait, ZLINK_DEADLINE_EXCEEDED);
}

/* On the callee's turn. The reply stays in the invocation, which the call keeps. */
static void answered_here(zlink_invocation_t *invocation)
{
    zlink_turn_call_record_t *call = invocation->route;
    zlink_status_t status = invocation->status;
    if (atomic_exchange_explicit(&call->decided, true, memory_order_acq_rel)) {
        zlink_invocation_free(invocation); /* too late */
    } else {
        if (status == ZLINK_OK && strcmp(invocation->handler->reply.packet, call->reply.type.packet) != 0)
            status = ZLINK_PROTOCOL_ERROR;
        call->answered_by = invocation;
        zlink_wait_complete(&call->wait, status);
    }
    let_go(call);
}

/* A one-way message that found its target's lane full. Takes the invocation over. */
static zlink_status_t wait_for_room(zlink_turn_call_record_t *call, const zlink_call_destination_t *destination,
                                    zlink_invocation_t *invocation, uint64_t deadline_ms,
                                    const zlink_call_options_t *options)
{
    zlink_admission_resource_t full;
    zlink_turn_room_t room;
    bool held = false;
    zlink_status_t status = zlink_call_destination_is_behind_caller(destination, call->turn, call->spot_id)
                                ? ZLINK_DEADLINE_EXCEEDED
                                : zlink_turn_room_prepare(&room, call->turn);
    if (status == ZLINK_OK) {
        status = zlink_call_destination_execute(destination, call->spot_id, invocation, &full, &held);
        if (held)
            return zlink_turn_room_wait(&room, invocation, deadline_ms, options ? options->cancellation : NULL);
        zlink_turn_room_abandon(&room);
        if (status == ZLINK_CAPACITY_EXCEEDED)
            status = zlink_admission_error(full, ZLINK_ADMISSION_SEND, true).status;
    }
    if (status != ZLINK_OK)
        zlink_invocation_free(invocation);
    return status;
}

static zlink_status_t submit_here(zlink_turn_call_record_t *call, const zlink_call_destination_t *destination,
                                  uint64_t deadline_ms, const zlink_call_options_t *options)
{
    zlink_invocation_t *caller = zlink_invocation_of(call->turn);
    bool one_way = !call->reply.message;
    zlink_admission_operation_t operation = one_way ? ZLINK_ADMISSION_SEND : ZLINK_ADMISSION_REQUEST;
    zlink_admission_resource_t full;
    zlink_invocation_t *invocation =
        zlink_invocation_create(caller->host, destination->handler, caller->host->node_id, call->payload,
                                call->outbound.payload_bytes, NULL, one_way ? 0 : deadline_ms);
    if (invocation && (!zlink_invocation_set_metadata(invocation, metadata_of(call), call->outbound.metadata_bytes) ||
                       !zlink_invocation_set_trace(invocation, call->trace))) {
        zlink_invocation_free(invocation);
        invocation = NULL;
    }
    if (!invocation)
        return zlink_admission_error(ZLINK_ADMISSION_MEMORY, operation, true).status;
    invocation->deliver = one_way ? zlink_invocation_deliver_nowhere : answered_here;
    invocation->route = call;
    if (!one_way) {
        invocation->unwanted = &call->decided; /* the invocation holds the call */
        atomic_store_explicit(&call->holders, 2, memory_order_relaxed);
        call->deadline.fire = expired_here;
        zlink_worker_timer_start(call->turn->worker, &call->deadline, deadline_ms);
    }
    zlink_status_t status = zlink_call_destination_execute(destination, call->spot_id, invocation, &full, NULL);
    if (status == ZLINK_OK)
        return ZLINK_OK;
    if (status == ZLINK_CAPACITY_EXCEEDED && full == ZLINK_ADMISSION_APPLICATION_LANE) {
        if (one_way)
            return wait_for_room(call, destination, invocation, deadline_ms, options);
        zlink_counter_add(&requests_lane_full, 1);
    }
    zlink_invocation_free(invocation);
    if (!one_way) {
        zlink_worker_timer_cancel(call->turn->worker, &call->deadline);
        atomic_store_explicit(&call->holders, 1, memory_order_relaxed);
    }
    return status == ZLINK_CAPACITY_EXCEEDED ? zlink_admission_error(full, operation, true).status : status;
}

/* ---- a call through the mesh ---- */

/* A large answer is taken over as it lies. */
static zlink_status_t keep_answer(zlink_turn_call_record_t *call, const zlink_call_answer_t *answer)
{
    size_t size = answer->payload_bytes;
    call->answer_bytes = size;
    if (answer->connection)
        call->answer_memory = zlink_frame_connection_take_payload(answer->connection, answer->payload, size);
    if (call->answer_memory) {
        call->answer = answer->payload;
        return ZLINK_OK;
    }
    call->answer = call->answer_memory = zlink_malloc(size + 1);
    if (!call->answer_memory)
        return ZLINK_CAPACITY_EXCEEDED;
    if (size)
        memcpy(call->answer_memory, answer->payload, size);
    return ZLINK_OK;
}

/* A message that nobody waits for could not be sent after all: nobody but the log and the counters is told (EX-75). */
static void report_unsent(const zlink_turn_call_record_t *call, zlink_status_t status)
{
    zlink_dispatch_error_log(&(zlink_dispatch_error_t){
        .reason = "not_sent",
        .target = call->name,
        .spot_id = call->spot_id,
        .packet = call->outbound.packet,
        .source = call->source,
        .detail = zlink_status_name(status),
    });
}

/* There is no room for the message, or no ready server: its sender goes on with the wait that holds no gate. */
static void waits_in_mesh(zlink_outbound_call_t *outbound)
{
    zlink_turn_call_record_t *call = ZLINK_CONTAINER_OF(outbound, zlink_turn_call_record_t, outbound);
    call->waits_for_room = true;
    zlink_wait_complete(&call->wait, ZLINK_OK);
}

static void room_wait_ended(zlink_turn_call_record_t *call, zlink_status_t status)
{
    call->sent = status;
    switch (atomic_exchange_explicit(&call->meets, MESSAGE_ENDED, memory_order_acq_rel)) {
    case SENDER_WAITS:
        zlink_wait_complete(&call->room, status);
        return;
    case SENDER_LEFT:
        if (status != ZLINK_OK)
            report_unsent(call, status);
        let_go(call);
        return;
    default:
        return; /* it will find this */
    }
}

/* On the sender's turn. False: it could not wait, and has left the call, which goes its way: taken, as far as can be
 * said. */
static bool wait_without_gate(zlink_turn_t *turn, zlink_turn_call_record_t *call, zlink_status_t *status)
{
    zlink_status_t prepared = zlink_turn_prepare_wait(turn, &call->room, ZLINK_WAIT_YIELD, NULL, NULL);
    if (prepared != ZLINK_OK) /* the owner is on the move */
        prepared = zlink_turn_prepare_wait(turn, &call->room, ZLINK_WAIT_ASYNC, NULL, NULL);
    if (prepared != ZLINK_OK)
        zlink_cancellation_leave(&call->cancellation);
    uint8_t before =
        atomic_exchange_explicit(&call->meets, prepared == ZLINK_OK ? SENDER_WAITS : SENDER_LEFT, memory_order_acq_rel);
    if (before == MESSAGE_ENDED) {
        if (prepared == ZLINK_OK)
            zlink_turn_abandon_wait(turn, &call->room);
        *status = call->sent;
        return true;
    }
    if (prepared != ZLINK_OK)
        return false;
    *status = zlink_turn_wait(turn, &call->room);
    return true;
}

static void completed_by_mesh(zlink_outbound_call_t *outbound, zlink_status_t status, const zlink_call_answer_t *answer)
{
    zlink_turn_call_record_t *call = ZLINK_CONTAINER_OF(outbound, zlink_turn_call_record_t, outbound);
    if (call->waits_for_room) {
        room_wait_ended(call, status);
        return;
    }
    if (status == ZLINK_OK && call->reply.message) {
        bool fits = strcmp(answer->packet, call->reply.type.packet) == 0;
        status = fits ? keep_answer(call, answer) : ZLINK_PROTOCOL_ERROR;
    }
    zlink_wait_complete(&call->wait, status);
}

static void held_by_mesh(zlink_outbound_call_t *outbound)
{
    zlink_turn_call_record_t *call = ZLINK_CONTAINER_OF(outbound, zlink_turn_call_record_t, outbound);
    atomic_fetch_add_explicit(&call->holders, 1, memory_order_relaxed);
}

static void released_by_mesh(zlink_outbound_call_t *outbound)
{
    let_go(ZLINK_CONTAINER_OF(outbound, zlink_turn_call_record_t, outbound));
}

static void address_to_mesh(zlink_turn_call_record_t *call, const zlink_turn_call_plan_t *plan,
                            const zlink_call_destination_t *destination, uint64_t deadline_ms)
{
    call->outbound.route = destination->node ? ZLINK_ROUTE_NODE : ZLINK_ROUTE_CHANNEL;
    if (plan->target == ZLINK_TARGET_NODE)
        call->outbound.route = ZLINK_ROUTE_EXACT_NODE;
    call->outbound.one_way = !plan->reply;
    call->outbound.exclude_local = destination->exclude_local;
    call->outbound.behind_local = destination->behind_caller;
    call->outbound.node = plan->target == ZLINK_TARGET_NODE ? call->name : destination->node;
    call->outbound.target = plan->target;
    call->outbound.name = call->name;
    call->outbound.spot_id = call->spot_id;
    call->outbound.packet = plan->ask.type.packet;
    call->outbound.payload = call->payload;
    call->outbound.metadata = metadata_of(call);
    call->outbound.trace = call->trace;
    call->outbound.deadline_ms = deadline_ms;
    call->outbound.completed = completed_by_mesh;
    call->outbound.hold = held_by_mesh;
    call->outbound.release = released_by_mesh;
}

/* A one-way message that the mesh has taken at once: nobody waits for it. */
static void sent_by_mesh(zlink_outbound_call_t *outbound, zlink_status_t status, const zlink_call_answer_t *answer)
{
    zlink_turn_call_record_t *call = ZLINK_CONTAINER_OF(outbound, zlink_turn_call_record_t, outbound);
    (void)answer;
    if (status != ZLINK_OK) /* counted by the mesh */
        report_unsent(call, status);
    let_go(call);
}

/* True: the message has been taken and the call is no longer the caller's. A channel that this node serves as well is
 * left to the mesh, which may pick this node. */
static bool taken_by_mesh(zlink_turn_call_record_t *call, const zlink_call_destination_t *destination)
{
    const zlink_application_host_t *host = zlink_invocation_of(call->turn)->host;
    if (!call->outbound.one_way || destination->served_here)
        return false;
    call->outbound.completed = sent_by_mesh;
    if (host->outbound.take(host->outbound.context, &call->outbound))
        return true;
    call->outbound.completed = completed_by_mesh;
    return false;
}

/* ---- giving a call up ---- */

/* On any thread; the call is there, because it leaves the cancellation before it ends. */
static void cancelled(zlink_cancellation_entry_t *entry)
{
    zlink_turn_call_record_t *call = ZLINK_CONTAINER_OF(entry, zlink_turn_call_record_t, cancellation);
    if (call->outbound.completed) {
        const zlink_outbound_t *outbound = &zlink_invocation_of(call->turn)->host->outbound;
        held_by_mesh(&call->outbound);
        outbound->cancel(outbound->context, &call->outbound);
    } else if (!atomic_exchange_explicit(&call->decided, true, memory_order_acq_rel)) {
        zlink_wait_complete(&call->wait, ZLINK_CANCELLED);
    }
}

/* From here on the submitted call can be given up; it may have been since it was looked at. */
static void watch(zlink_turn_call_record_t *call, const zlink_call_options_t *options)
{
    if (!options || !options->cancellation)
        return;
    call->cancellation.cancelled = cancelled;
    if (!zlink_cancellation_enter(options->cancellation, &call->cancellation))
        cancelled(&call->cancellation);
}

/* ---- the whole ---- */

/* Asked before anything is made: a call that was given up beforehand is not begun (EX-58). */
static bool is_cancelled(const zlink_turn_call_plan_t *plan)
{
    const zlink_call_options_t *options = plan->ask.options;
    return options && options->cancellation && zlink_cancellation_is_cancelled(options->cancellation);
}

static uint32_t send_timeout_ms(const zlink_application_host_t *host, const zlink_turn_call_plan_t *plan)
{
    const zlink_outbound_t *outbound = &host->outbound;
    uint32_t timeout_ms = plan->target == ZLINK_TARGET_CHANNEL && outbound->send_timeout_ms
                              ? outbound->send_timeout_ms(outbound->context, plan->name)
                              : 0;
    return timeout_ms ? timeout_ms : host->send_timeout_ms;
}

/* A one-way message may be given less time than the configuration says, never more. */
static uint64_t deadline_of(const zlink_application_host_t *host, const zlink_turn_call_plan_t *plan)
{
    uint32_t timeout_ms = plan->ask.timeout_ms;
    if (!timeout_ms && plan->ask.options)
        timeout_ms = plan->ask.options->timeout_ms;
    uint32_t longest_ms = plan->reply ? UINT32_MAX : send_timeout_ms(host, plan);
    if (!timeout_ms && plan->reply)
        timeout_ms = host->request_timeout_ms;
    if (!timeout_ms || timeout_ms > longest_ms)
        timeout_ms = longest_ms;
    return zlink_clock_now_ms(host->clock) + timeout_ms;
}

zlink_status_t zlink_turn_call(zlink_turn_t *turn, const zlink_turn_call_plan_t *plan)
{
    zlink_call_destination_t destination = {.place = ZLINK_CALL_TO_MESH};
    zlink_turn_call_record_t *call = NULL;
    zlink_status_t status = zlink_call_destination_find(turn, plan, &destination);
    const zlink_invocation_t *caller = zlink_invocation_of(turn);
    if (status == ZLINK_OK && is_cancelled(plan))
        status = ZLINK_CANCELLED;
    if (status == ZLINK_OK)
        status = make_record(turn, plan, &call);
    if (status != ZLINK_OK)
        return status;

    uint64_t deadline_ms = deadline_of(caller->host, plan);
    if (destination.place != ZLINK_CALL_TO_MESH && !plan->reply) { /* taken or refused at once: nothing to wait for */
        status = submit_here(call, &destination, deadline_ms, plan->ask.options);
        let_go(call);
        return status;
    }
    if (destination.place == ZLINK_CALL_TO_MESH) {
        address_to_mesh(call, plan, &destination, deadline_ms);
        if (taken_by_mesh(call, &destination))
            return ZLINK_OK;
        if (!plan->reply && zlink_turn_check_wait(turn, ZLINK_WAIT_YIELD, NULL) == ZLINK_OK)
            call->outbound.waits = waits_in_mesh;
    }
    status = zlink_turn_prepare_wait(turn, &call->wait, plan->mode, plan->then ? go_on : NULL, call);
    if (status != ZLINK_OK) {
        let_go(call);
        return status;
    }
    if (destination.place == ZLINK_CALL_TO_MESH) {
        caller->host->outbound.submit(caller->host->outbound.context, &call->outbound);
    } else {
        status = submit_here(call, &destination, deadline_ms, plan->ask.options);
        if (status != ZLINK_OK) {
            zlink_turn_abandon_wait(turn, &call->wait);
            let_go(call);
            return status;
        }
    }
    watch(call, plan->ask.options);
    if (plan->then) {
        zlink_invocation_of(turn)->open_then = call;
        zlink_invocation_of(turn)->drop_then = drop;
        return ZLINK_OK;
    }
    status = zlink_turn_wait(turn, &call->wait);
    if (call->waits_for_room && !wait_without_gate(turn, call, &status))
        return ZLINK_OK;
    return finish(call, status);
}
