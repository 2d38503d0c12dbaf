#include "server/application/channel_host.h"

#include <semaphore.h>

#include "base/container_of.h"
#include "base/domain.h"
#include "base/log.h"
#include "base/memory.h"
#include "server/application/application_host.h"

/* ---- start ---- */

typedef struct zlink_channel_start {
    sem_t ended;
    zlink_status_t status;
} zlink_channel_start_t;

static zlink_status_t run_on_start(zlink_invocation_t *invocation)
{
    return invocation->channel->channel->type->on_start(&invocation->turn, invocation->self);
}

static void started(zlink_invocation_t *invocation)
{
    zlink_channel_start_t *start = invocation->route;
    zlink_status_t status = invocation->status;
    zlink_invocation_free(invocation);
    start->status = status;
    sem_post(&start->ended);
}

static zlink_status_t start_channel(zlink_channel_host_t *channel)
{
    zlink_channel_start_t start = {.status = ZLINK_OK};
    zlink_invocation_t *invocation = zlink_invocation_create_lifecycle(channel->host, run_on_start, started);
    if (!invocation)
        return ZLINK_CAPACITY_EXCEEDED;
    invocation->channel = channel;
    invocation->self = channel->self;
    invocation->route = &start;
    sem_init(&start.ended, 0, 0);
    zlink_application_host_accepted(channel->host);
    zlink_status_t status = zlink_channel_serial_executor_execute_lifecycle(&channel->executor, &invocation->turn);
    if (status == ZLINK_OK) {
        while (sem_wait(&start.ended) != 0)
            ; /* interrupted by a signal: wait on */
        status = start.status;
    } else {
        zlink_application_host_ended(channel->host);
        zlink_invocation_free(invocation);
    }
    sem_destroy(&start.ended);
    return status;
}

static void nothing_more(zlink_channel_serial_executor_t *executor)
{
    zlink_channel_host_t *channel = ZLINK_CONTAINER_OF(executor, zlink_channel_host_t, executor);
    zlink_channel_host_destroy(channel);
}

zlink_status_t zlink_channel_host_create(zlink_application_host_t *host, const zlink_catalogue_channel_t *channel,
                                         zlink_channel_host_t **created, zlink_refusal_t *why)
{
    size_t state_size = channel->type->state_size;
    zlink_status_t status = ZLINK_CAPACITY_EXCEEDED;
    zlink_channel_host_t *made = NULL;
    if (zlink_domain_throw_unless_outside() != ZLINK_OK) {
        status = ZLINK_INVALID_OPERATION;
        goto failed;
    }
    made = zlink_calloc(1, sizeof(*made));
    if (!made)
        goto failed;
    made->host = host;
    made->channel = channel;
    made->self = zlink_calloc(1, state_size ? state_size : 1);
    if (!made->self)
        goto failed;
    status = zlink_channel_serial_executor_init(&made->executor, host->pool, &host->policy);
    if (status != ZLINK_OK)
        goto failed;
    if (channel->type->on_start) {
        status = start_channel(made);
        if (status != ZLINK_OK) {
            zlink_refuse(why, "channel %s: its on_start answered %s", channel->type->name, zlink_status_name(status));
            zlink_channel_serial_executor_close(&made->executor, nothing_more);
            return status;
        }
    }
    *created = made;
    return ZLINK_OK;

failed:
    zlink_refuse(why, "channel %s: %s", channel->type->name, zlink_status_name(status));
    if (made)
        zlink_channel_host_destroy(made);
    return status;
}

/* ---- work ---- */

zlink_status_t zlink_channel_host_execute(zlink_channel_host_t *channel, zlink_invocation_t *invocation)
{
    invocation->channel = channel;
    invocation->self = channel->self;
    invocation->filters = channel->channel->type->filters;
    zlink_application_host_accepted(channel->host);
    zlink_status_t status =
        zlink_channel_serial_executor_execute_channel(&channel->executor, &invocation->turn, invocation->payload_bytes);
    if (status != ZLINK_OK)
        zlink_application_host_ended(channel->host);
    return status;
}

void zlink_channel_host_hold(zlink_invocation_t *invocation)
{
    zlink_application_host_accepted(invocation->host);
}

zlink_status_t zlink_channel_host_admit_held(zlink_channel_host_t *channel, zlink_invocation_t *invocation)
{
    return zlink_channel_serial_executor_execute_channel(&channel->executor, &invocation->turn,
                                                         invocation->payload_bytes);
}

/* ---- end ---- */

static void executor_closed(zlink_channel_serial_executor_t *executor)
{
    zlink_channel_host_t *channel = ZLINK_CONTAINER_OF(executor, zlink_channel_host_t, executor);
    channel->closed(channel);
}

static zlink_status_t run_on_closing(zlink_invocation_t *invocation)
{
    invocation->channel->channel->type->on_closing(&invocation->turn, invocation->self);
    return ZLINK_OK;
}

static void closing_ended(zlink_invocation_t *invocation)
{
    zlink_channel_host_t *channel = invocation->channel;
    zlink_invocation_free(invocation);
    zlink_channel_serial_executor_close(&channel->executor, executor_closed);
}

void zlink_channel_host_close(zlink_channel_host_t *channel, void (*closed)(zlink_channel_host_t *channel))
{
    channel->closed = closed;
    if (channel->channel->type->on_closing) {
        zlink_invocation_t *closing = zlink_invocation_create_lifecycle(channel->host, run_on_closing, closing_ended);
        if (closing) {
            closing->channel = channel;
            closing->self = channel->self;
            zlink_application_host_accepted(channel->host);
            if (zlink_channel_serial_executor_execute_lifecycle(&channel->executor, &closing->turn) == ZLINK_OK)
                return;
            zlink_application_host_ended(channel->host);
            zlink_invocation_free(closing);
        }
        atomic_store(&channel->host->teardown_failed, true);
        zlink_log(ZLINK_LOG_ERROR, "zlink.channel.closing_skipped",
                  ZLINK_LOG_S("channel", channel->channel->type->name), ZLINK_LOG_S("reason", "out of memory"));
    }
    zlink_channel_serial_executor_close(&channel->executor, executor_closed);
}

void zlink_channel_host_destroy(zlink_channel_host_t *channel)
{
    zlink_free(channel->self);
    zlink_free(channel);
}
