#include "server/application/spot.h"

#include <assert.h>
#include <string.h>

#include "base/container_of.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/memory.h"
#include "server/application/application_host.h"
#include "server/application/spot_registry.h"
#include "server/application/spot_ticks.h"

ZLINK_COUNTER_DEFINE(live_spots, ZLINK_GAUGE, "zlink.spot.count", "Spots on this node");
ZLINK_COUNTER_DEFINE(activated, ZLINK_COUNTER, "zlink.instance_spot.activations", "Instance Spots activated");

static void executor_closed(zlink_spot_serial_executor_t *executor)
{
    zlink_spot_t *spot = ZLINK_CONTAINER_OF(executor, zlink_spot_t, executor);
    zlink_spot_registry_t *registry = spot->registry;
    zlink_counter_add(&live_spots, -1);
    /* Only now may the id be activated again: no two lives of one Spot overlap. */
    zlink_spot_registry_remove(registry, spot);
    zlink_spot_timers_let_go(spot->timers);
    zlink_free(spot->self);
    zlink_free(spot);
    zlink_spot_registry_removed(registry);
}

/* ---- the first turn ---- */

static zlink_status_t run_on_create(zlink_invocation_t *invocation)
{
    return invocation->spot->type->type->on_create(&invocation->turn, invocation->self);
}

static void created(zlink_invocation_t *invocation)
{
    zlink_spot_t *spot = invocation->spot;
    zlink_status_t status = invocation->status;
    zlink_invocation_free(invocation);

    if (status == ZLINK_OK) {
        int creating = ZLINK_SPOT_CREATING; /* it may have been told to close meanwhile */
        atomic_compare_exchange_strong(&spot->life, &creating, ZLINK_SPOT_READY);
        return;
    }
    zlink_log(ZLINK_LOG_WARN, "zlink.spot.refused", ZLINK_LOG_S("type", spot->type->type->name),
              ZLINK_LOG_S("spot", spot->id), ZLINK_LOG_S("status", zlink_status_name(status)));
    spot->refusal = status;
    zlink_spot_timers_close(spot->timers);
    zlink_spot_registry_refused(spot->registry, spot);
}

zlink_spot_t *zlink_spot_create(zlink_spot_registry_t *registry, zlink_application_host_t *host,
                                const zlink_catalogue_spot_type_t *type, const char *id)
{
    zlink_invocation_t *creation = NULL;
    zlink_spot_t *spot = zlink_calloc(1, sizeof(*spot));
    if (!spot)
        return NULL;
    spot->registry = registry;
    spot->type = type;
    atomic_init(&spot->life, type->type->on_create ? ZLINK_SPOT_CREATING : ZLINK_SPOT_READY);
    atomic_init(&spot->accepted, 1);
    strcpy(spot->id, id);
    spot->self = zlink_calloc(1, type->type->state_size ? type->type->state_size : 1);
    if (!spot->self)
        goto failed;
    if (zlink_spot_serial_executor_init(&spot->executor, host->pool, &host->policy, ZLINK_EXECUTION_INSTANCE) !=
        ZLINK_OK)
        goto failed;
    spot->timers = zlink_spot_ticks_create(spot, host);
    if (!spot->timers)
        goto failed;
    if (type->type->on_create) {
        creation = zlink_invocation_create_lifecycle(host, run_on_create, created);
        if (!creation)
            goto failed;
        creation->spot = spot;
        creation->self = spot->self;
        zlink_application_host_accepted(host);
        if (zlink_spot_serial_executor_execute_lifecycle(&spot->executor, &creation->turn) != ZLINK_OK) {
            zlink_application_host_ended(host);
            goto failed;
        }
    }
    zlink_counter_add(&live_spots, 1);
    zlink_counter_add(&activated, 1);
    return spot;

failed:
    if (creation)
        zlink_invocation_free(creation);
    if (spot->timers)
        zlink_spot_timers_close(spot->timers);
    zlink_spot_timers_let_go(spot->timers);
    zlink_free(spot->self);
    zlink_free(spot);
    return NULL;
}

/* ---- in between ---- */

static void enter(zlink_spot_t *spot, zlink_invocation_t *invocation)
{
    invocation->spot = spot;
    invocation->self = spot->self;
    atomic_fetch_add_explicit(&spot->accepted, 1, memory_order_relaxed);
    zlink_application_host_accepted(invocation->host);
}

static void take_back(zlink_spot_t *spot, zlink_invocation_t *invocation)
{
    /* Not the last one: the Spot's own count is still there, because it is not closing. */
    atomic_fetch_sub_explicit(&spot->accepted, 1, memory_order_relaxed);
    zlink_application_host_ended(invocation->host);
}

zlink_status_t zlink_spot_execute(zlink_spot_t *spot, zlink_invocation_t *invocation)
{
    int life = atomic_load_explicit(&spot->life, memory_order_acquire);
    if (life == ZLINK_SPOT_CLOSING || life == ZLINK_SPOT_REFUSED)
        return ZLINK_UNAVAILABLE;
    enter(spot, invocation);
    zlink_status_t status =
        zlink_spot_serial_executor_execute_spot(&spot->executor, &invocation->turn, invocation->payload_bytes);
    if (status != ZLINK_OK)
        take_back(spot, invocation);
    return status;
}

void zlink_spot_hold(zlink_spot_t *spot, zlink_invocation_t *invocation)
{
    enter(spot, invocation);
}

zlink_status_t zlink_spot_admit_held(zlink_spot_t *spot, zlink_invocation_t *invocation)
{
    int life = atomic_load_explicit(&spot->life, memory_order_acquire);
    if (life == ZLINK_SPOT_CLOSING || life == ZLINK_SPOT_REFUSED)
        return ZLINK_UNAVAILABLE;
    return zlink_spot_serial_executor_execute_spot(&spot->executor, &invocation->turn, invocation->payload_bytes);
}

zlink_status_t zlink_spot_execute_timer(zlink_spot_t *spot, const char *timer_name, zlink_invocation_t *tick)
{
    enter(spot, tick);
    zlink_status_t status = zlink_spot_serial_executor_execute_timer(&spot->executor, timer_name, &tick->turn);
    if (status != ZLINK_OK)
        take_back(spot, tick);
    return status;
}

zlink_status_t zlink_spot_usable(const zlink_spot_t *spot)
{
    return spot->refusal;
}

/* ---- the last turn ---- */

static zlink_status_t run_on_closing(zlink_invocation_t *invocation)
{
    if (invocation->spot->refusal == ZLINK_OK) /* it was told to close before its on_create said no */
        invocation->spot->type->type->on_closing(&invocation->turn, invocation->self);
    return ZLINK_OK;
}

static void closed_by_module(zlink_invocation_t *invocation)
{
    zlink_spot_t *spot = invocation->spot;
    zlink_invocation_free(invocation);
    zlink_spot_serial_executor_close(&spot->executor, executor_closed);
}

/* Everything that was accepted has ended: on_closing, then the coordinator. */
static void finish(zlink_spot_t *spot)
{
    zlink_application_host_t *host = zlink_spot_registry_host(spot->registry);
    bool was_used = atomic_load_explicit(&spot->life, memory_order_acquire) == ZLINK_SPOT_CLOSING;

    if (was_used && spot->type->type->on_closing) {
        zlink_invocation_t *closing = zlink_invocation_create_lifecycle(host, run_on_closing, closed_by_module);
        if (closing) {
            closing->spot = spot;
            closing->self = spot->self;
            zlink_application_host_accepted(host);
            if (zlink_spot_serial_executor_execute_lifecycle(&spot->executor, &closing->turn) == ZLINK_OK)
                return;
            zlink_application_host_ended(host);
            zlink_invocation_free(closing);
        }
        atomic_store(&host->teardown_failed, true);
        zlink_log(ZLINK_LOG_ERROR, "zlink.spot.closing_skipped", ZLINK_LOG_S("type", spot->type->type->name),
                  ZLINK_LOG_S("reason", "out of memory"));
    }
    zlink_spot_serial_executor_close(&spot->executor, executor_closed);
}

void zlink_spot_left(zlink_spot_t *spot)
{
    if (atomic_fetch_sub_explicit(&spot->accepted, 1, memory_order_acq_rel) == 1)
        finish(spot);
}

void zlink_spot_begin_closing(zlink_spot_t *spot)
{
    int life = atomic_load_explicit(&spot->life, memory_order_acquire);
    while (life != ZLINK_SPOT_CLOSING && life != ZLINK_SPOT_REFUSED) {
        if (atomic_compare_exchange_weak(&spot->life, &life, ZLINK_SPOT_CLOSING)) {
            zlink_spot_timers_close(spot->timers);
            zlink_work_host_owner_closes(zlink_spot_registry_host(spot->registry)->work, spot);
            zlink_spot_left(spot);
            return;
        }
    }
}
