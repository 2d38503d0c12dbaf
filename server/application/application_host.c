#include "server/application/application_host.h"

#include <assert.h>
#include <semaphore.h>
#include <string.h>

#include "base/counters.h"
#include "base/domain.h"
#include "base/memory.h"
#include "server/application/channel_host.h"

ZLINK_COUNTER_DEFINE(live_invocations, ZLINK_GAUGE, "zlink.handlers.live", "Handlers accepted and not ended");

#define IDLE_WANTED (UINT64_C(1) << 63)

static void post(void *context)
{
    sem_post(context);
}

/* A start that ends half-way: what has started ends as it would at any other time. */
static void take_back(zlink_application_host_t *host)
{
    sem_t ended;
    sem_init(&ended, 0, 0);
    zlink_application_host_when_idle(host, post, &ended);
    while (sem_wait(&ended) != 0)
        ; /* interrupted by a signal: wait on */
    zlink_application_host_close(host, post, &ended);
    while (sem_wait(&ended) != 0)
        ;
    sem_destroy(&ended);
}

zlink_status_t zlink_application_host_create(zlink_worker_pool_t *pool, const zlink_catalogue_t *catalogue,
                                             const zlink_application_host_options_t *options,
                                             zlink_application_host_t **created, zlink_refusal_t *why)
{
    zlink_status_t status = ZLINK_CAPACITY_EXCEEDED;
    if (zlink_domain_throw_unless_outside() != ZLINK_OK) {
        zlink_refuse(why, "the application host: it waits for the start of its channels, which a turn may not");
        return ZLINK_INVALID_OPERATION;
    }
    zlink_application_host_t *host = zlink_calloc(1, sizeof(*host));
    if (!host)
        goto failed;
    host->clock = options->clock;
    host->node_id = options->node_id;
    host->mesh = options->mesh;
    host->pool = pool;
    host->catalogue = catalogue;
    host->policy = options->policy;
    host->request_timeout_ms = options->request_timeout_ms;
    host->send_timeout_ms = options->send_timeout_ms;
    host->message_bytes_max = options->message_bytes_max;
    host->outbound = options->outbound;
    zlink_application_job_queue_init(&host->job_queue, options->jobs_max);
    if (options->pause_percent != 0)
        (void)zlink_application_job_queue_set_marks(&host->job_queue, options->pause_percent, options->resume_percent);
    host->spots = zlink_spot_registry_create(host, options->spots_max);
    host->channels = zlink_calloc(catalogue->channel_count + 1, sizeof(zlink_channel_host_t *));
    if (!host->spots || !host->channels)
        goto failed;
    status = zlink_work_host_create(&options->work, host->clock, &host->work, why);
    if (status != ZLINK_OK)
        goto destroy;
    if (catalogue->node_handlers_count > 0) {
        status = zlink_node_host_create(host, &host->node, why);
        if (status != ZLINK_OK)
            goto destroy;
    }
    for (size_t i = 0; i < catalogue->channel_count; i++) {
        zlink_channel_host_t *channel = NULL;
        if (catalogue->channels[i].client)
            continue;
        status = zlink_channel_host_create(host, &catalogue->channels[i], &channel, why);
        if (status != ZLINK_OK) {
            zlink_refusal_prefix(why, "modules: ");
            take_back(host);
            goto destroy;
        }
        /* Spots that an earlier channel's on_start woke may look for it already. */
        __atomic_store_n(&host->channels[i], channel, __ATOMIC_RELEASE);
    }
    *created = host;
    return ZLINK_OK;

failed:
    zlink_refuse(why, "the application host: out of memory");
destroy:
    zlink_application_host_destroy(host);
    return status;
}

zlink_channel_host_t *zlink_application_host_find_channel(const zlink_application_host_t *host, const char *name)
{
    const zlink_catalogue_channel_t *channel = zlink_catalogue_find_channel(host->catalogue, name);
    return channel ? __atomic_load_n(&host->channels[channel - host->catalogue->channels], __ATOMIC_ACQUIRE) : NULL;
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
    atomic_store(&host->draining, true);
    uint64_t before = atomic_fetch_or(&host->live, IDLE_WANTED);
    if (before == 0 && atomic_compare_exchange_strong(&host->live, &(uint64_t){IDLE_WANTED}, 0))
        idle(context);
}

/* ---- the end: every Spot, then every channel and the node's own queue, then work that outlived its handler ---- */

static void channels_closed(zlink_application_host_t *host, size_t count)
{
    if (atomic_fetch_sub(&host->closing.channels_left, count) == count)
        zlink_work_host_close(host->work, host->closing.closed, host->closing.context);
}

static void channel_closed(zlink_channel_host_t *channel)
{
    channels_closed(channel->host, 1);
}

static void node_closed(zlink_application_host_t *host)
{
    channels_closed(host, 1);
}

static void spots_closed(void *context)
{
    zlink_application_host_t *host = context;
    size_t count = host->catalogue->channel_count;
    size_t missing = 1; /* so that it does not reach 0 in this loop */

    atomic_init(&host->closing.channels_left, count + 2); /* and the node's own queue */
    for (size_t i = 0; i < count; i++) {
        if (host->channels[i])
            zlink_channel_host_close(host->channels[i], channel_closed);
        else
            missing++; /* its start was refused, or it is only called */
    }
    if (host->node)
        zlink_node_host_close(host->node, node_closed);
    else
        missing++;
    channels_closed(host, missing);
}

void zlink_application_host_close(zlink_application_host_t *host, void (*closed)(void *context), void *context)
{
    host->closing.closed = closed;
    host->closing.context = context;
    zlink_spot_registry_close(host->spots, spots_closed, host);
}

void zlink_application_host_destroy(zlink_application_host_t *host)
{
    if (!host)
        return;
    for (size_t i = 0; host->channels && i < host->catalogue->channel_count; i++)
        if (host->channels[i])
            zlink_channel_host_destroy(host->channels[i]);
    zlink_free(host->channels);
    zlink_node_host_destroy(host->node);
    zlink_spot_registry_destroy(host->spots);
    zlink_work_host_destroy(host->work);
    zlink_free(host);
}
