/* The reactor's start and stop, on a thread of its own or by hand. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/container_of.h"
#include "base/memory.h"
#include "net/reactor_internal.h"
#include "net/thread_schedule.h"

#define ENTRIES_DEFAULT      1024u
#define ENTRIES_MAX          32768u
#define CQ_PER_SQ            8u
#define BUFFER_COUNT_DEFAULT 256u
#define BUFFER_BYTES_DEFAULT 16384u

static void *reactor_main(void *argument)
{
    zlink_reactor_t *reactor = argument;

    (void)zlink_reactor_enter(reactor);
    pthread_setname_np(pthread_self(), "zlink-reactor");
    zlink_thread_schedule_urgent();
    zlink_reactor_begin(reactor);
    const bool began = reactor->start_status == ZLINK_OK;

    sem_post(&reactor->started);
    if (!began)
        return NULL;
    while (zlink_reactor_wait(reactor))
        zlink_reactor_tick(reactor);
    zlink_reactor_end(reactor);
    return NULL;
}

/* ---- by hand ---- */

static void hand_begin(zlink_reactor_t *reactor)
{
    const zlink_domain_t before = zlink_reactor_enter(reactor);

    zlink_reactor_begin(reactor);
    if (reactor->start_status == ZLINK_OK)
        (void)zlink_reactor_wait(reactor);
    zlink_reactor_leave(before);
}

void zlink_reactor_step(zlink_reactor_t *reactor)
{
    const zlink_domain_t before = zlink_reactor_enter(reactor);

    assert(reactor->options.by_hand && !reactor->ended);
    zlink_reactor_tick(reactor);
    if (!zlink_reactor_wait(reactor))
        zlink_reactor_end(reactor);
    zlink_reactor_leave(before);
}

/* ---- start and stop ---- */

static void stop_deliver(zlink_mail_t *mail)
{
    zlink_reactor_t *reactor = ZLINK_CONTAINER_OF(mail, zlink_reactor_t, stop_mail);
    zlink_resident_t *resident = reactor->residents;

    reactor->stopping = true;
    /* A `stop` may take its own resident out, never another: those go later, from the loop. */
    while (resident != NULL) {
        zlink_resident_t *next = resident->next;

        resident->stop(resident);
        resident = next;
    }
}

static void wait_semaphore(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        assert(errno == EINTR);
}

static zlink_status_t options_settle(zlink_reactor_options_t *options, zlink_refusal_t *why)
{
    if (options->entries == 0)
        options->entries = ENTRIES_DEFAULT;
    if (options->buffer_count == 0)
        options->buffer_count = BUFFER_COUNT_DEFAULT;
    if (options->buffer_bytes == 0)
        options->buffer_bytes = BUFFER_BYTES_DEFAULT;
    if (options->clock == NULL)
        options->clock = &zlink_clock_system;
    if (options->entries > ENTRIES_MAX) {
        zlink_refuse(why, "reactor entries must be 1..%u", ENTRIES_MAX);
        return ZLINK_INVALID_OPERATION;
    }
    if (options->cq_entries == 0)
        options->cq_entries =
            options->entries > ENTRIES_MAX / CQ_PER_SQ * 2 ? 2 * ENTRIES_MAX : options->entries * CQ_PER_SQ;
    if (options->cq_entries < options->entries || options->cq_entries > 2 * ENTRIES_MAX) {
        zlink_refuse(why, "completion entries must be from the submission entries up to %u", 2 * ENTRIES_MAX);
        return ZLINK_INVALID_OPERATION;
    }
    return ZLINK_OK;
}

static void reactor_free(zlink_reactor_t *reactor)
{
    zlink_handshake_pool_destroy(reactor->handshakes);
    if (reactor->resolver != NULL)
        zlink_resolver_close(reactor->resolver);
    zlink_mailbox_destroy(&reactor->mailbox);
    sem_destroy(&reactor->started);
    zlink_free(reactor);
}

static zlink_status_t reactor_prepare(zlink_reactor_t *reactor, zlink_refusal_t *why)
{
    reactor->clock = reactor->options.clock;
    reactor->fault = reactor->options.fault;
    reactor->stop_mail.deliver = stop_deliver;
    reactor->why = why;
    reactor->mailbox.event_fd = -1;
    zlink_tick_list_init(&reactor->tick_end);
    zlink_tick_list_init(&reactor->next_tick);
    zlink_tick_list_init(&reactor->starved);
    zlink_tick_list_init(&reactor->frees);
    zlink_tick_list_init(&reactor->lasts);
    sem_init(&reactor->started, 0, 0);
    if (zlink_mailbox_init(&reactor->mailbox) != ZLINK_OK) {
        zlink_refuse(why, "no eventfd for the reactor: %s", strerror(errno));
        return ZLINK_CAPACITY_EXCEEDED;
    }
    reactor->resolver = zlink_resolver_open(reactor);
    reactor->handshakes =
        zlink_handshake_pool_create(reactor, reactor->options.handshake_threads, reactor->options.handshakes_waiting);
    if (reactor->resolver == NULL || reactor->handshakes == NULL) {
        zlink_refuse(why, "no memory for the reactor");
        return ZLINK_CAPACITY_EXCEEDED;
    }
    return ZLINK_OK;
}

zlink_status_t zlink_reactor_create(const zlink_reactor_options_t *options, zlink_reactor_t **reactor_out,
                                    zlink_refusal_t *why)
{
    zlink_reactor_options_t settled = options == NULL ? (zlink_reactor_options_t){0} : *options;
    zlink_status_t status = options_settle(&settled, why);
    zlink_reactor_t *reactor;
    int error;

    if (status != ZLINK_OK)
        return status;
    reactor = zlink_calloc(1, sizeof(*reactor));
    if (reactor == NULL) {
        zlink_refuse(why, "no memory for the reactor");
        return ZLINK_CAPACITY_EXCEEDED;
    }
    reactor->options = settled;
    status = reactor_prepare(reactor, why);
    if (status != ZLINK_OK)
        goto failed;
    if (settled.by_hand) {
        hand_begin(reactor);
    } else {
        error = pthread_create(&reactor->thread, NULL, reactor_main, reactor);
        if (error != 0) {
            zlink_refuse(why, "no thread for the reactor: %s", strerror(error));
            status = ZLINK_CAPACITY_EXCEEDED;
            goto failed;
        }
        wait_semaphore(&reactor->started);
    }
    status = reactor->start_status;
    if (status != ZLINK_OK) {
        if (!settled.by_hand)
            pthread_join(reactor->thread, NULL);
        zlink_slot_table_release(&reactor->slots);
        goto failed;
    }
    reactor->why = NULL;
    *reactor_out = reactor;
    return ZLINK_OK;

failed:
    reactor_free(reactor);
    return status;
}

void zlink_reactor_destroy(zlink_reactor_t *reactor)
{
    if (reactor == NULL)
        return;
    assert(!zlink_reactor_is_current(reactor));
    zlink_reactor_post(reactor, &reactor->stop_mail);
    if (!reactor->options.by_hand)
        pthread_join(reactor->thread, NULL);
    while (!reactor->ended)
        zlink_reactor_step(reactor);
    reactor_free(reactor);
}

typedef struct reactor_call {
    zlink_mail_t mail;
    void (*function)(void *context);
    void *context;
    sem_t done;
    bool delivered; /* by hand */
} reactor_call_t;

static void call_deliver(zlink_mail_t *mail)
{
    reactor_call_t *call = ZLINK_CONTAINER_OF(mail, reactor_call_t, mail);

    call->function(call->context);
    call->delivered = true;
    sem_post(&call->done);
}

void zlink_reactor_call(zlink_reactor_t *reactor, void (*function)(void *context), void *context)
{
    reactor_call_t call = {.mail.deliver = call_deliver, .function = function, .context = context};

    if (zlink_reactor_is_current(reactor)) {
        function(context);
        return;
    }
    assert(zlink_domain_throw_if_application() == ZLINK_OK && "a turn posts, it does not wait for the reactor");
    sem_init(&call.done, 0, 0);
    zlink_reactor_post(reactor, &call.mail);
    while (reactor->options.by_hand && !call.delivered)
        zlink_reactor_step(reactor);
    wait_semaphore(&call.done);
    sem_destroy(&call.done);
}
