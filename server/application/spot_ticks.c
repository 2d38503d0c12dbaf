#include "server/application/spot_ticks.h"

#include "base/counters.h"
#include "server/application/application_host.h"
#include "server/application/dispatch_error.h"
#include "server/application/spot.h"

ZLINK_COUNTER_DEFINE(ticks_begun, ZLINK_COUNTER, "zlink.timers.ticks", "Ticks of timers that began");
ZLINK_COUNTER_DEFINE(ticks_skipped, ZLINK_COUNTER, "zlink.timers.ticks.skipped", "Planned ticks that came too late");
ZLINK_COUNTER_DEFINE(ticks_failed, ZLINK_COUNTER, "zlink.timers.ticks.failed", "Ticks that ended with an error");

static bool admission_open(void *context)
{
    const zlink_spot_t *spot = context;
    return !atomic_load_explicit(&zlink_spot_registry_host(spot->registry)->draining, memory_order_acquire);
}

static zlink_status_t run_tick(zlink_invocation_t *invocation)
{
    zlink_timer_handler_t handler = NULL;
    const zlink_tick_t *tick = zlink_spot_timer_begin(invocation->route, &handler);
    if (!tick)
        return ZLINK_OK;
    zlink_counter_add(&ticks_begun, 1);
    zlink_counter_add(&ticks_skipped, (int64_t)tick->skipped_ticks);
    return handler(&invocation->turn, invocation->self, tick);
}

static void tick_ended(zlink_invocation_t *invocation)
{
    zlink_spot_timer_t *timer = invocation->route;
    zlink_spot_t *spot = invocation->spot;
    zlink_status_t status = invocation->status;

    if (status != ZLINK_OK) {
        zlink_counter_add(&ticks_failed, 1);
        zlink_dispatch_error_log(&(zlink_dispatch_error_t){
            .reason = "tick_error",
            .target = spot->type->type->name,
            .spot_id = spot->id,
            .packet = zlink_spot_timer_name(timer),
            .source = invocation->source,
            .detail = zlink_status_name(status),
        });
    }
    zlink_invocation_free(invocation);
    zlink_spot_timer_end(timer, status); /* which may submit the next: the Spot is still held */
    zlink_spot_left(spot);
}

static zlink_status_t submit(void *context, zlink_spot_timer_t *timer)
{
    zlink_spot_t *spot = context;
    zlink_application_host_t *host = zlink_spot_registry_host(spot->registry);
    zlink_invocation_t *invocation = zlink_invocation_create_lifecycle(host, run_tick, tick_ended);
    if (!invocation)
        return ZLINK_CAPACITY_EXCEEDED;
    invocation->route = timer;
    zlink_status_t status = zlink_spot_execute_timer(spot, zlink_spot_timer_name(timer), invocation);
    if (status != ZLINK_OK)
        zlink_invocation_free(invocation);
    return status;
}

static void gone(void *context, const char *timer_name)
{
    zlink_spot_t *spot = context;
    zlink_spot_serial_executor_remove_timer(&spot->executor, timer_name);
}

zlink_spot_timers_t *zlink_spot_ticks_create(zlink_spot_t *spot, zlink_application_host_t *host)
{
    zlink_spot_timer_owner_t owner = {admission_open, submit, gone, spot};
    return zlink_spot_timers_create(host->pool, &owner, 0);
}
