#include "server/application/turn_call.h"

#include <assert.h>
#include <pb_decode.h>
#include <pb_encode.h>
#include <string.h>

#include "base/admission_error.h"
#include "base/container_of.h"
#include "base/memory.h"
#include "net/frame_connection.h"
#include "server/application/cancellation.h"
#include "server/application/channel_host.h"
#include "server/application/spot_registry.h"

#define ASK_ON_STACK_BYTES 512

typedef enum zlink_call_place {
    ZLINK_CALL_TO_MESH = 0,
    ZLINK_CALL_TO_CHANNEL_HERE,
    ZLINK_CALL_TO_SPOT_HERE,
    ZLINK_CALL_TO_NODE_HERE,
} zlink_call_place_t;

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
    zlink_invocation_t *answered_by; /* of a local call: it holds the reply's bytes */
    const uint8_t *answer;           /* of a remote one … */
    size_t answer_bytes;
    void *answer_memory; /* … which lies in there */

    char name[ZLINK_NAME_BYTES_MAX + 1];
    char spot_id[ZLINK_NAME_BYTES_MAX + 1];
    uint8_t payload[];
} zlink_turn_call_record_t;

/* Where a call goes, decided before anything is made. */
typedef struct zlink_call_destination {
    zlink_call_place_t place;
    const zlink_handler_t *handler;
    zlink_channel_host_t *channel;
    const zlink_catalogue_spot_type_t *spot_type;
    size_t node_handlers; /* the registration */
    const char *node;
    bool exclude_local;
    bool served_here; /* a channel that other nodes serve, too */
} zlink_call_destination_t;

static void let_go(zlink_turn_call_record_t *call)
{
    if (atomic_fetch_sub_explicit(&call->holders, 1, memory_order_acq_rel) != 1)
        return;
    if (call->answered_by)
        zlink_invocation_free(call->answered_by);
    zlink_free(call->answer_memory);
    zlink_free(call);
}

/* ---- checks and destination: nothing is submitted here ---- */

static zlink_status_t check(const zlink_turn_t *turn, const zlink_turn_call_plan_t *plan)
{
    if (!turn || zlink_turn_current() != turn)
        return ZLINK_INVALID_OPERATION;
    if (!plan->name || !zlink_wire_name_is_valid(plan->name))
        return ZLINK_INVALID_OPERATION;
    if (!plan->spot_id || (plan->target == ZLINK_TARGET_INSTANCE_SPOT && !zlink_wire_name_is_valid(plan->spot_id)))
        return ZLINK_INVALID_OPERATION;
    if (!plan->ask.message || !plan->ask.type.packet || plan->ask.timeout_ms > INT32_MAX)
        return ZLINK_INVALID_OPERATION;
    if (plan->reply && (!plan->reply->message || !plan->reply->type.packet))
        return ZLINK_INVALID_OPERATION;
    return plan->ask.options && plan->ask.options->timeout_ms > INT32_MAX ? ZLINK_INVALID_OPERATION : ZLINK_OK;
}

static bool has_metadata(const zlink_turn_call_plan_t *plan)
{
    return plan->ask.options && plan->ask.options->metadata_count > 0;
}

/* Asked before anything is made: a call that was given up beforehand is not begun (EX-58). */
static bool is_cancelled(const zlink_turn_call_plan_t *plan)
{
    const zlink_call_options_t *options = plan->ask.options;
    return options && options->cancellation && zlink_cancellation_is_cancelled(options->cancellation);
}

static zlink_status_t find_handler(const zlink_handler_table_t *table, const zlink_turn_call_plan_t *plan,
                                   zlink_call_destination_t *destination)
{
    zlink_handler_kind_t kind = plan->reply ? ZLINK_HANDLER_REQUEST : ZLINK_HANDLER_SEND;
    destination->handler = zlink_handler_table_find(table, kind, plan->ask.type.packet);
    return destination->handler ? ZLINK_OK : ZLINK_NOT_FOUND;
}

/* A request that would wait for its own turn's gate is refused before anything is made (EX-24). */
static zlink_status_t check_wait(const zlink_invocation_t *caller, const zlink_turn_call_plan_t *plan,
                                 zlink_wait_target_t target)
{
    return plan->reply ? zlink_turn_check_wait(&caller->turn, plan->mode, &target) : ZLINK_OK;
}

/* In ClientServer this node's server is one of those that its client dials. */
static zlink_channel_side_t side_of(const zlink_application_host_t *host, const char *channel)
{
    const zlink_outbound_t *outbound = &host->outbound;
    return outbound->channel_side ? outbound->channel_side(outbound->context, channel) : ZLINK_CHANNEL_OF_THE_MESH;
}

static zlink_status_t channel_destination(const zlink_invocation_t *caller, const zlink_turn_call_plan_t *plan,
                                          zlink_call_destination_t *destination)
{
    zlink_channel_side_t side = side_of(caller->host, plan->name);
    zlink_channel_host_t *here = zlink_application_host_find_channel(caller->host, plan->name);
    zlink_status_t status = ZLINK_OK;
    if (side == ZLINK_CHANNEL_ONLY_SERVED)
        return ZLINK_NOT_CONFIGURED;
    if (here)
        status = check_wait(caller, plan, zlink_channel_serial_executor_wait_target(&here->executor));
    if (side == ZLINK_CHANNEL_CALLED) {
        destination->exclude_local = status != ZLINK_OK;
        return ZLINK_OK;
    }
    if (!here || atomic_load_explicit(&here->remote_members, memory_order_relaxed) > 0 ||
        atomic_load_explicit(&here->weightless, memory_order_relaxed)) {
        destination->exclude_local = status != ZLINK_OK;
        destination->served_here = here != NULL;
        return ZLINK_OK; /* the mesh picks a member */
    }
    if (status != ZLINK_OK)
        return status;
    destination->place = ZLINK_CALL_TO_CHANNEL_HERE;
    destination->channel = here;
    return find_handler(&here->channel->handlers, plan, destination);
}

static zlink_status_t spot_destination(const zlink_invocation_t *caller, const zlink_turn_call_plan_t *plan,
                                       zlink_call_destination_t *destination)
{
    const zlink_outbound_t *outbound = &caller->host->outbound;
    const zlink_catalogue_spot_type_t *here = zlink_catalogue_find_spot_type(caller->host->catalogue, plan->name);
    if (!here) {
        destination->node = outbound->spot_home(outbound->context, plan->name);
        return destination->node ? ZLINK_OK : ZLINK_NOT_FOUND;
    }
    if (zlink_spot_registry_is(caller->spot, here, plan->spot_id)) {
        zlink_status_t status =
            check_wait(caller, plan, zlink_spot_serial_executor_wait_target(&caller->spot->executor));
        if (status != ZLINK_OK)
            return status;
    }
    destination->place = ZLINK_CALL_TO_SPOT_HERE;
    destination->spot_type = here;
    return find_handler(&here->handlers, plan, destination);
}

/* This node or exactly that one; whether it is there is for the mesh to say. */
static zlink_status_t node_destination(const zlink_invocation_t *caller, const zlink_turn_call_plan_t *plan,
                                       zlink_call_destination_t *destination)
{
    const zlink_application_host_t *host = caller->host;
    if (strcmp(plan->name, host->node_id) != 0) {
        destination->node = plan->name;
        return ZLINK_OK;
    }
    if (host->node) {
        zlink_status_t status = check_wait(caller, plan, zlink_node_host_wait_target(host->node));
        if (status != ZLINK_OK)
            return status;
    }
    destination->place = ZLINK_CALL_TO_NODE_HERE;
    destination->handler =
        zlink_catalogue_find_node_handler(host->catalogue, plan->reply ? ZLINK_HANDLER_REQUEST : ZLINK_HANDLER_SEND,
                                          plan->ask.type.packet, &destination->node_handlers);
    return destination->handler ? ZLINK_OK : ZLINK_NOT_FOUND;
}

static zlink_status_t find_destination(const zlink_invocation_t *caller, const zlink_turn_call_plan_t *plan,
                                       zlink_call_destination_t *destination)
{
    switch (plan->target) {
    case ZLINK_TARGET_CHANNEL:
        return channel_destination(caller, plan, destination);
    case ZLINK_TARGET_INSTANCE_SPOT:
        return spot_destination(caller, plan, destination);
    case ZLINK_TARGET_NODE:
        return node_destination(caller, plan, destination);
    case ZLINK_TARGET_NONE:
        break;
    }
    return ZLINK_INVALID_OPERATION;
}

/* ---- the request's bytes ---- */

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

static zlink_status_t execute_here(const zlink_call_destination_t *destination, const zlink_turn_call_record_t *call,
                                   zlink_invocation_t *invocation, zlink_admission_resource_t *full)
{
    *full = ZLINK_ADMISSION_APPLICATION_LANE;
    if (destination->place == ZLINK_CALL_TO_CHANNEL_HERE)
        return zlink_channel_host_execute(destination->channel, invocation);
    if (destination->place == ZLINK_CALL_TO_NODE_HERE)
        return zlink_node_host_execute(invocation->host->node, destination->node_handlers, invocation);
    return zlink_spot_registry_execute(invocation->host->spots, destination->spot_type, call->spot_id, invocation,
                                       full);
}

static zlink_status_t submit_here(zlink_turn_call_record_t *call, const zlink_call_destination_t *destination,
                                  uint64_t deadline_ms)
{
    zlink_invocation_t *caller = zlink_invocation_of(call->turn);
    bool one_way = !call->reply.message;
    zlink_admission_operation_t operation = one_way ? ZLINK_ADMISSION_SEND : ZLINK_ADMISSION_REQUEST;
    zlink_admission_resource_t full;
    zlink_invocation_t *invocation =
        zlink_invocation_create(caller->host, destination->handler, caller->host->node_id, call->payload,
                                call->outbound.payload_bytes, NULL, one_way ? 0 : deadline_ms);
    if (invocation && !zlink_invocation_set_metadata(invocation, metadata_of(call), call->outbound.metadata_bytes)) {
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
    zlink_status_t status = execute_here(destination, call, invocation, &full);
    if (status != ZLINK_OK) {
        zlink_invocation_free(invocation);
        if (!one_way) {
            zlink_worker_timer_cancel(call->turn->worker, &call->deadline);
            atomic_store_explicit(&call->holders, 1, memory_order_relaxed);
        }
    }
    /* There is no place to wait for room in a lane of this node, so a wait for it is over at once. */
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

static void completed_by_mesh(zlink_outbound_call_t *outbound, zlink_status_t status, const zlink_call_answer_t *answer)
{
    zlink_turn_call_record_t *call = ZLINK_CONTAINER_OF(outbound, zlink_turn_call_record_t, outbound);
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
    call->outbound.node = plan->target == ZLINK_TARGET_NODE ? call->name : destination->node;
    call->outbound.target = plan->target;
    call->outbound.name = call->name;
    call->outbound.spot_id = call->spot_id;
    call->outbound.packet = plan->ask.type.packet;
    call->outbound.payload = call->payload;
    call->outbound.metadata = metadata_of(call);
    call->outbound.deadline_ms = deadline_ms;
    call->outbound.completed = completed_by_mesh;
    call->outbound.hold = held_by_mesh;
    call->outbound.release = released_by_mesh;
}

/* A one-way message that the mesh has taken at once: nobody waits for it. */
static void sent_by_mesh(zlink_outbound_call_t *outbound, zlink_status_t status, const zlink_call_answer_t *answer)
{
    (void)status, (void)answer; /* counted by the mesh */
    let_go(ZLINK_CONTAINER_OF(outbound, zlink_turn_call_record_t, outbound));
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

static uint64_t deadline_of(const zlink_application_host_t *host, const zlink_turn_call_plan_t *plan)
{
    uint32_t timeout_ms = plan->ask.timeout_ms;
    if (!timeout_ms && plan->ask.options)
        timeout_ms = plan->ask.options->timeout_ms;
    if (!timeout_ms)
        timeout_ms = plan->reply ? host->request_timeout_ms : host->send_timeout_ms;
    return zlink_clock_now_ms(host->clock) + timeout_ms;
}

zlink_status_t zlink_turn_call(zlink_turn_t *turn, const zlink_turn_call_plan_t *plan)
{
    zlink_call_destination_t destination = {.place = ZLINK_CALL_TO_MESH};
    zlink_turn_call_record_t *call = NULL;
    zlink_status_t status = check(turn, plan);
    if (status != ZLINK_OK)
        return status;
    const zlink_invocation_t *caller = zlink_invocation_of(turn);
    status = find_destination(caller, plan, &destination);
    if (status == ZLINK_OK && is_cancelled(plan))
        status = ZLINK_CANCELLED;
    if (status == ZLINK_OK)
        status = make_record(turn, plan, &call);
    if (status != ZLINK_OK)
        return status;

    uint64_t deadline_ms = deadline_of(caller->host, plan);
    if (destination.place != ZLINK_CALL_TO_MESH && !plan->reply) { /* taken or refused at once: nothing to wait for */
        status = submit_here(call, &destination, deadline_ms);
        let_go(call);
        return status;
    }
    if (destination.place == ZLINK_CALL_TO_MESH) {
        address_to_mesh(call, plan, &destination, deadline_ms);
        if (taken_by_mesh(call, &destination))
            return ZLINK_OK;
    }
    status = zlink_turn_prepare_wait(turn, &call->wait, plan->mode, plan->then ? go_on : NULL, call);
    if (status != ZLINK_OK) {
        let_go(call);
        return status;
    }
    if (destination.place == ZLINK_CALL_TO_MESH) {
        caller->host->outbound.submit(caller->host->outbound.context, &call->outbound);
    } else {
        status = submit_here(call, &destination, deadline_ms);
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
    return finish(call, zlink_turn_wait(turn, &call->wait));
}
