#include "server/application_host.h"

#include <assert.h>
#include <string.h>

#include "base/counters.h"
#include "base/memory.h"
#include "server/channel_host.h"

ZLINK_COUNTER_DEFINE(live_invocations, ZLINK_GAUGE, "zlink.handlers.live", "Handlers accepted and not ended");

#define IDLE_WANTED (UINT64_C(1) << 63)

zlink_status_t zlink_application_host_create(zlink_worker_pool_t *pool, const zlink_catalogue_t *catalogue,
                                             const zlink_application_host_options_t *options,
                                             zlink_application_host_t **created, zlink_refusal_t *why)
{
    zlink_status_t status = ZLINK_CAPACITY_EXCEEDED;
    zlink_application_host_t *host = zlink_calloc(1, sizeof(*host));
    if (!host)
        goto failed;
    host->clock = options->clock;
    host->node_id = options->node_id;
    host->pool = pool;
    host->catalogue = catalogue;
    host->policy = options->policy;
    host->request_timeout_ms = options->request_timeout_ms;
    host->send_timeout_ms = options->send_timeout_ms;
    host->message_bytes_max = options->message_bytes_max;
    host->outbound = options->outbound;
    zlink_application_job_queue_init(&host->job_queue, options->jobs_max);
    host->spots = zlink_spot_registry_create(host, options->spots_max);
    host->channels = zlink_calloc(catalogue->channel_count + 1, sizeof(zlink_channel_host_t *));
    if (!host->spots || !host->channels)
        goto failed;
    for (size_t i = 0; i < catalogue->channel_count; i++) {
        status = zlink_channel_host_create(host, &catalogue->channels[i], &host->channels[i], why);
        if (status != ZLINK_OK)
            return status; /* the start ends here: what already runs goes with the process */
    }
    *created = host;
    return ZLINK_OK;

failed:
    zlink_refuse(why, "the application host: out of memory");
    zlink_application_host_destroy(host);
    return status;
}

zlink_channel_host_t *zlink_application_host_find_channel(const zlink_application_host_t *host, const char *name)
{
    const zlink_catalogue_channel_t *channel = zlink_catalogue_find_channel(host->catalogue, name);
    return channel ? host->channels[channel - host->catalogue->channels] : NULL;
}

void zlink_application_host_accepted(zlink_application_host_t *host)
{
    atomic_fetch_add_explicit(&host->live, 1, memory_order_relaxed);
    zlink_counter_add(&live_invocations, 1);
}

void zlink_application_host_ended(zlink_application_host_t *host)
{
    zlink_counter_add(&live_invocations, -1);
    uint64_t before = atomic_fetch_sub_explicit(&host->live, 1, memory_order_acq_rel);
    if (before == (IDLE_WANTED | 1) && atomic_compare_exchange_strong(&host->live, &(uint64_t){IDLE_WANTED}, 0))
        host->idle(host->idle_context);
}

void zlink_application_host_when_idle(zlink_application_host_t *host, void (*idle)(void *context), void *context)
{
    host->idle = idle;
    host->idle_context = context;
    uint64_t before = atomic_fetch_or(&host->live, IDLE_WANTED);
    if (before == 0 && atomic_compare_exchange_strong(&host->live, &(uint64_t){IDLE_WANTED}, 0))
        idle(context);
}

/* ---- the end: every Spot, then every channel ---- */

typedef struct zlink_host_closing {
    void (*closed)(void *context);
    void *context;
    zlink_application_host_t *host;
    _Atomic size_t channels_left;
} zlink_host_closing_t;

/* One closing at a time and one host per process are not assumed: the record travels through idle_context. */
static void all_closed(zlink_host_closing_t *closing)
{
    void (*closed)(void *) = closing->closed;
    void *context = closing->context;
    zlink_free(closing);
    closed(context);
}

static void channel_closed(zlink_channel_host_t *channel)
{
    zlink_host_closing_t *closing = channel->host->idle_context;
    if (atomic_fetch_sub(&closing->channels_left, 1) == 1)
        all_closed(closing);
}

static void spots_closed(void *context)
{
    zlink_host_closing_t *closing = context;
    zlink_application_host_t *host = closing->host;
    size_t count = host->catalogue->channel_count;
    if (count == 0) {
        all_closed(closing);
        return;
    }
    atomic_init(&closing->channels_left, count);
    for (size_t i = 0; i < count; i++)
        zlink_channel_host_close(host->channels[i], channel_closed);
}

void zlink_application_host_close(zlink_application_host_t *host, void (*closed)(void *context), void *context)
{
    zlink_host_closing_t *closing = zlink_calloc(1, sizeof(*closing));
    if (!closing) { /* nothing can be told to the modules any more, but the stop goes on */
        closed(context);
        return;
    }
    closing->closed = closed;
    closing->context = context;
    closing->host = host;
    host->idle_context = closing;
    zlink_spot_registry_close(host->spots, spots_closed, closing);
}

void zlink_application_host_destroy(zlink_application_host_t *host)
{
    if (!host)
        return;
    for (size_t i = 0; host->channels && i < host->catalogue->channel_count; i++)
        if (host->channels[i])
            zlink_channel_host_destroy(host->channels[i]);
    zlink_free(host->channels);
    zlink_spot_registry_destroy(host->spots);
    zlink_free(host);
}
