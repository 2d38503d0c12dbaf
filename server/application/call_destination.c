#include "server/application/call_destination.h"

#include <string.h>

#include "server/application/channel_host.h"
#include "server/application/spot_registry.h"

/* ---- checks and destination ---- */

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

/* Does the caller's own gate keep the channel's lane here as full as it is? */
static bool is_behind(const zlink_invocation_t *caller, const zlink_channel_host_t *here)
{
    zlink_wait_target_t target = zlink_channel_serial_executor_wait_target(&here->executor);
    return zlink_turn_check_wait(&caller->turn, ZLINK_WAIT_ASYNC, &target) != ZLINK_OK;
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
        destination->behind_caller = here && !plan->reply && is_behind(caller, here);
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

zlink_status_t zlink_call_destination_find(const zlink_turn_t *turn, const zlink_turn_call_plan_t *plan,
                                           zlink_call_destination_t *destination)
{
    zlink_status_t status = check(turn, plan);
    if (status != ZLINK_OK)
        return status;
    const zlink_invocation_t *caller = zlink_invocation_of(turn);
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

/* ---- on this node ---- */

zlink_status_t zlink_call_destination_execute(const zlink_call_destination_t *destination, const char *spot_id,
                                              zlink_invocation_t *invocation, zlink_admission_resource_t *full,
                                              bool *held)
{
    *full = ZLINK_ADMISSION_APPLICATION_LANE;
    if (destination->place == ZLINK_CALL_TO_SPOT_HERE)
        return zlink_spot_registry_execute_or_hold(invocation->host->spots, destination->spot_type, spot_id, invocation,
                                                   full, held);
    zlink_status_t status =
        destination->place == ZLINK_CALL_TO_CHANNEL_HERE
            ? zlink_channel_host_execute(destination->channel, invocation)
            : zlink_node_host_execute(invocation->host->node, destination->node_handlers, invocation);
    if (status == ZLINK_CAPACITY_EXCEEDED && held) {
        zlink_channel_host_hold(invocation);
        *held = true;
    }
    return status;
}

bool zlink_call_destination_is_behind_caller(const zlink_call_destination_t *destination, const zlink_turn_t *turn,
                                             const char *spot_id)
{
    const zlink_invocation_t *caller = zlink_invocation_of(turn);
    zlink_wait_target_t target = {NULL, NULL};
    if (destination->place == ZLINK_CALL_TO_CHANNEL_HERE)
        target = zlink_channel_serial_executor_wait_target(&destination->channel->executor);
    else if (destination->place == ZLINK_CALL_TO_NODE_HERE)
        target = zlink_node_host_wait_target(caller->host->node);
    else if (zlink_spot_registry_is(caller->spot, destination->spot_type, spot_id))
        target = zlink_spot_serial_executor_wait_target(&caller->spot->executor);
    else
        return false;
    return zlink_turn_check_wait(turn, ZLINK_WAIT_ASYNC, &target) != ZLINK_OK;
}
