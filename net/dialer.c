#include "net/dialer.h"

#include <assert.h>

#include "base/container_of.h"
#include "base/log.h"
#include "base/memory.h"
#include "net/backoff.h"
#include "net/stream_internal.h"

#define ATTEMPTS_PENDING_MAX 16u

struct zlink_dialer {
    zlink_reactor_t *reactor;
    zlink_resident_t resident;
    zlink_dialer_options_t options;
    zlink_address_t address;
    zlink_backoff_t backoff;
    zlink_tls_resumption_t *resumption; /* NULL without TLS */
    zlink_timer_t wait;
    zlink_tick_task_t attempts;
    zlink_tick_task_t gone;
    unsigned attempts_pending;
    bool stopped; /* by the reactor: nothing is dialled any more, the memory stays until closed */
    bool closed;
};

static void dialer_free(zlink_tick_task_t *task)
{
    zlink_dialer_t *dialer = ZLINK_CONTAINER_OF(task, zlink_dialer_t, gone);

    zlink_tls_resumption_release(dialer->resumption);
    zlink_free(dialer);
}

static void dialer_attempt(zlink_dialer_t *dialer)
{
    zlink_stream_t *stream = NULL;

    if (zlink_stream_create(dialer->reactor, dialer->options.tls, ZLINK_TLS_CLIENT, dialer->options.events,
                            &dialer->options.limits, &stream) != ZLINK_OK) {
        zlink_log(ZLINK_LOG_WARN, "zlink.net.dial.failed", ZLINK_LOG_S("address", dialer->address.text),
                  ZLINK_LOG_S("reason", "no memory"));
        zlink_dialer_redial(dialer);
        return;
    }
    if (dialer->resumption != NULL)
        zlink_stream_set_resumption(stream, dialer->resumption);
    dialer->options.connecting(dialer, stream);
    if (!stream->end_decided)
        zlink_stream_connect(stream, &dialer->address);
}

static void dialer_attempts(zlink_tick_task_t *task)
{
    zlink_dialer_t *dialer = ZLINK_CONTAINER_OF(task, zlink_dialer_t, attempts);
    unsigned pending = dialer->attempts_pending;

    dialer->attempts_pending = 0;
    while (pending-- > 0 && !dialer->stopped)
        dialer_attempt(dialer);
}

void zlink_dialer_connect_now(zlink_dialer_t *dialer)
{
    assert(zlink_reactor_is_current(dialer->reactor));
    if (dialer->stopped || dialer->attempts_pending == ATTEMPTS_PENDING_MAX)
        return;
    dialer->attempts_pending++;
    zlink_tick_list_add(zlink_reactor_next_tick(dialer->reactor), &dialer->attempts);
}

static void dialer_waited(zlink_timer_t *timer)
{
    zlink_dialer_connect_now(ZLINK_CONTAINER_OF(timer, zlink_dialer_t, wait));
}

void zlink_dialer_redial(zlink_dialer_t *dialer)
{
    assert(zlink_reactor_is_current(dialer->reactor));
    if (dialer->stopped || zlink_timer_is_running(&dialer->wait))
        return;
    zlink_reactor_timer_start(dialer->reactor, &dialer->wait,
                              zlink_reactor_now_ms(dialer->reactor) + zlink_backoff_next_ms(&dialer->backoff));
}

void zlink_dialer_settled(zlink_dialer_t *dialer)
{
    assert(zlink_reactor_is_current(dialer->reactor));
    zlink_backoff_reset(&dialer->backoff);
}

static void dialer_quiet(zlink_dialer_t *dialer)
{
    if (dialer->stopped)
        return;
    dialer->stopped = true;
    dialer->attempts_pending = 0;
    zlink_reactor_timer_cancel(dialer->reactor, &dialer->wait);
    zlink_tick_list_remove(zlink_reactor_next_tick(dialer->reactor), &dialer->attempts);
    zlink_reactor_resident_remove(dialer->reactor, &dialer->resident);
    /* Freed with the reactor, unless its user closes it before. */
    zlink_tick_list_add(zlink_reactor_lasts(dialer->reactor), &dialer->gone);
}

static void dialer_stop(zlink_resident_t *resident)
{
    dialer_quiet(ZLINK_CONTAINER_OF(resident, zlink_dialer_t, resident));
}

void zlink_dialer_set_tls(zlink_dialer_t *dialer, const zlink_tls_context_t *tls)
{
    assert(zlink_reactor_is_current(dialer->reactor) && dialer->options.tls != NULL && tls != NULL);
    dialer->options.tls = tls;
    /* A new one: sessions that still end with the old one would fill it again. Without memory nothing is resumed. */
    zlink_tls_resumption_release(dialer->resumption);
    dialer->resumption = zlink_tls_resumption_create();
}

void zlink_dialer_close(zlink_dialer_t *dialer)
{
    assert(zlink_reactor_is_current(dialer->reactor) && !dialer->closed);
    dialer->closed = true;
    dialer_quiet(dialer);
    zlink_tick_list_remove(zlink_reactor_lasts(dialer->reactor), &dialer->gone);
    zlink_tick_list_add(zlink_reactor_frees(dialer->reactor), &dialer->gone);
}

zlink_status_t zlink_dialer_open(zlink_reactor_t *reactor, const zlink_dialer_options_t *options,
                                 zlink_dialer_t **dialer_out, zlink_refusal_t *why)
{
    zlink_dialer_t *dialer;
    zlink_status_t status;

    assert(zlink_reactor_is_current(reactor) && options->connecting != NULL);
    if (zlink_reactor_is_stopping(reactor)) {
        zlink_refuse(why, "the node stops");
        return ZLINK_SHUTTING_DOWN;
    }
    dialer = zlink_calloc(1, sizeof(*dialer));
    if (dialer == NULL) {
        zlink_refuse(why, "no memory to dial");
        return ZLINK_CAPACITY_EXCEEDED;
    }
    status = zlink_address_parse(options->address, false, &dialer->address, why);
    if (status == ZLINK_OK && options->tls != NULL) {
        dialer->resumption = zlink_tls_resumption_create();
        if (dialer->resumption == NULL) {
            zlink_refuse(why, "no memory to dial");
            status = ZLINK_CAPACITY_EXCEEDED;
        }
    }
    if (status != ZLINK_OK) {
        zlink_free(dialer);
        return status;
    }
    dialer->reactor = reactor;
    dialer->options = *options;
    dialer->options.address = dialer->address.text;
    dialer->resident.stop = dialer_stop;
    dialer->wait.fire = dialer_waited;
    dialer->attempts.run = dialer_attempts;
    dialer->gone.run = dialer_free;
    zlink_backoff_init(&dialer->backoff, options->random_seed);
    zlink_reactor_resident_add(reactor, &dialer->resident);
    zlink_dialer_connect_now(dialer);
    *dialer_out = dialer;
    return ZLINK_OK;
}

const char *zlink_dialer_address(const zlink_dialer_t *dialer)
{
    return dialer->address.text;
}

void *zlink_dialer_context(const zlink_dialer_t *dialer)
{
    return dialer->options.context;
}
