#include "net/reactor.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/container_of.h"
#include "base/counters.h"
#include "base/domain.h"
#include "base/log.h"
#include "base/memory.h"
#include "net/completion_batch.h"
#include "net/handshake_pool.h"
#include "net/reactor_loop.h"
#include "net/resolver.h"
#include "net/slot_table.h"
#include "net/thread_schedule.h"

#define ENTRIES_DEFAULT      1024u
#define ENTRIES_MAX          32768u
#define CQ_PER_SQ            8u
#define BUFFER_COUNT_DEFAULT 256u
#define BUFFER_BYTES_DEFAULT 16384u
#define SLEEP_MS_MAX         3600000u
#define TROUBLE_PAUSE_NS     1000000L
#define TROUBLE_MAX          10000u /* unexpected answers of the kernel in a row before the process gives up */

#define OPERATION_WAKE   1u
#define OPERATION_CANCEL 2u

ZLINK_COUNTER_DEFINE(zlink_counter_net_ticks, ZLINK_COUNTER, "zlink.net.ticks", "Turns of the reactor's loop");

struct zlink_reactor {
    zlink_mailbox_t mailbox;
    pthread_t thread;
    struct io_uring ring;
    _Atomic uint32_t features;
    zlink_buffer_ring_t buffers;
    zlink_slot_table_t slots;
    zlink_timer_wheel_t wheel;
    const zlink_clock_t *clock;
    const zlink_net_fault_t *fault;
    zlink_resolver_t *resolver;
    zlink_handshake_pool_t *handshakes;
    zlink_log_gate_t log_gate;
    uint64_t now_ms;

    zlink_completion_batch_t batch;
    uint8_t *buffer; /* of the completion that is being handled; NULL where it has none */

    zlink_tick_list_t tick_end;
    zlink_tick_list_t next_tick;
    zlink_tick_list_t starved;
    zlink_tick_list_t frees;
    zlink_tick_list_t lasts;
    zlink_resident_t *residents;

    zlink_ring_slot_t wake; /* reads the mailbox's eventfd */
    uint64_t wake_value;
    bool wake_armed;
    bool stopping;
    unsigned trouble; /* unexpected answers in a row */

    /* Start and stop. */
    zlink_reactor_options_t options;
    zlink_refusal_t *why;
    zlink_status_t start_status;
    sem_t started;
    zlink_mail_t stop_mail;
};

static _Thread_local zlink_reactor_t *current_reactor;

/* ---- what lives on the reactor ---- */

bool zlink_reactor_is_current(const zlink_reactor_t *reactor)
{
    return current_reactor == reactor;
}

uint32_t zlink_reactor_features(const zlink_reactor_t *reactor)
{
    return atomic_load_explicit(&reactor->features, memory_order_relaxed);
}

uint64_t zlink_reactor_now_ms(const zlink_reactor_t *reactor)
{
    assert(zlink_reactor_is_current(reactor));
    return reactor->now_ms;
}

void zlink_reactor_timer_start(zlink_reactor_t *reactor, zlink_timer_t *timer, uint64_t deadline_ms)
{
    assert(zlink_reactor_is_current(reactor));
    zlink_timer_wheel_start(&reactor->wheel, timer, deadline_ms);
}

void zlink_reactor_timer_cancel(zlink_reactor_t *reactor, zlink_timer_t *timer)
{
    assert(zlink_reactor_is_current(reactor));
    zlink_timer_wheel_cancel(&reactor->wheel, timer);
}

void zlink_reactor_post(zlink_reactor_t *reactor, zlink_mail_t *mail)
{
    zlink_mailbox_post(&reactor->mailbox, mail);
}

zlink_status_t zlink_reactor_slot_add(zlink_reactor_t *reactor, zlink_ring_slot_t *slot)
{
    assert(zlink_reactor_is_current(reactor) && slot->complete != NULL);
    return zlink_slot_table_add(&reactor->slots, slot);
}

void zlink_reactor_slot_remove(zlink_reactor_t *reactor, zlink_ring_slot_t *slot)
{
    assert(zlink_reactor_is_current(reactor));
    zlink_slot_table_remove(&reactor->slots, slot);
}

/* 24 bits of index, 32 of generation, 8 of operation. */
uint64_t zlink_ring_slot_user_data(const zlink_ring_slot_t *slot, unsigned operation)
{
    assert(operation <= 0xff && slot->generation != 0);
    return (uint64_t)slot->index << 40 | (uint64_t)slot->generation << 8 | operation;
}

void zlink_reactor_start(zlink_reactor_t *reactor, struct io_uring_sqe *sqe, zlink_ring_slot_t *slot,
                         unsigned operation)
{
    assert(zlink_reactor_is_current(reactor));
    sqe->user_data = zlink_ring_slot_user_data(slot, operation);
    slot->in_flight++;
}

uint8_t *zlink_reactor_buffer(zlink_reactor_t *reactor, uint32_t flags)
{
    assert((flags & IORING_CQE_F_BUFFER) != 0 && reactor->buffer != NULL);
    (void)flags;
    return reactor->buffer;
}

bool zlink_reactor_is_stopping(const zlink_reactor_t *reactor)
{
    return reactor->stopping;
}

void zlink_reactor_resident_add(zlink_reactor_t *reactor, zlink_resident_t *resident)
{
    assert(zlink_reactor_is_current(reactor) && resident->stop != NULL);
    resident->next = reactor->residents;
    resident->link = &reactor->residents;
    if (reactor->residents != NULL)
        reactor->residents->link = &resident->next;
    reactor->residents = resident;
}

void zlink_reactor_resident_remove(zlink_reactor_t *reactor, zlink_resident_t *resident)
{
    assert(zlink_reactor_is_current(reactor));
    (void)reactor;
    if (resident->link == NULL)
        return;
    *resident->link = resident->next;
    if (resident->next != NULL)
        resident->next->link = resident->link;
    resident->link = NULL;
}

zlink_tick_list_t *zlink_reactor_tick_end(zlink_reactor_t *reactor)
{
    return &reactor->tick_end;
}

zlink_tick_list_t *zlink_reactor_next_tick(zlink_reactor_t *reactor)
{
    return &reactor->next_tick;
}

zlink_tick_list_t *zlink_reactor_starved(zlink_reactor_t *reactor)
{
    return &reactor->starved;
}

zlink_tick_list_t *zlink_reactor_frees(zlink_reactor_t *reactor)
{
    return &reactor->frees;
}

void zlink_reactor_lose_feature(zlink_reactor_t *reactor, uint32_t feature)
{
    assert(zlink_reactor_is_current(reactor));
    atomic_fetch_and_explicit(&reactor->features, ~feature, memory_order_relaxed);
}

zlink_tick_list_t *zlink_reactor_lasts(zlink_reactor_t *reactor)
{
    return &reactor->lasts;
}

const zlink_net_fault_t *zlink_reactor_fault(const zlink_reactor_t *reactor)
{
    return reactor->fault;
}

struct zlink_resolver *zlink_reactor_resolver(zlink_reactor_t *reactor)
{
    assert(zlink_reactor_is_current(reactor));
    return reactor->resolver;
}

struct zlink_handshake_pool *zlink_reactor_handshakes(zlink_reactor_t *reactor)
{
    return reactor->handshakes;
}

zlink_log_gate_t *zlink_reactor_log_gate(zlink_reactor_t *reactor)
{
    assert(zlink_reactor_is_current(reactor));
    return &reactor->log_gate;
}

/* ---- the ring ---- */

/* The kernel answered something that should pass (no memory for a moment) or that cannot be. */
static void ring_trouble(zlink_reactor_t *reactor, const char *where, int error)
{
    const struct timespec pause = {.tv_nsec = TROUBLE_PAUSE_NS};

    if (reactor->trouble++ == 0)
        zlink_log(ZLINK_LOG_WARN, "zlink.net.ring.trouble", ZLINK_LOG_S("where", where),
                  ZLINK_LOG_S("error", strerror(error)));
    if (reactor->trouble > TROUBLE_MAX) {
        zlink_log(ZLINK_LOG_ERROR, "zlink.net.ring.broken", ZLINK_LOG_S("where", where),
                  ZLINK_LOG_S("error", strerror(error)));
        abort(); /* a reactor that cannot use its ring can neither serve nor close anything */
    }
    nanosleep(&pause, NULL);
}

struct io_uring_sqe *zlink_reactor_sqe(zlink_reactor_t *reactor)
{
    struct io_uring_sqe *sqe;

    assert(zlink_reactor_is_current(reactor));
    while ((sqe = io_uring_get_sqe(&reactor->ring)) == NULL) {
        int result = io_uring_submit(&reactor->ring);

        if (result >= 0)
            reactor->trouble = 0;
        if (result >= 0 || result == -EINTR)
            continue;
        /* A full completion queue may stop older kernels from taking submissions: make room. */
        zlink_completion_batch_collect(&reactor->batch, &reactor->ring);
        (void)io_uring_get_events(&reactor->ring);
        ring_trouble(reactor, "submit", -result);
    }
    return sqe;
}

static void wake_arm(zlink_reactor_t *reactor)
{
    struct io_uring_sqe *sqe;

    if (reactor->wake_armed)
        return;
    sqe = zlink_reactor_sqe(reactor);
    io_uring_prep_rw(IORING_OP_READ, sqe, reactor->mailbox.event_fd, &reactor->wake_value, sizeof(reactor->wake_value),
                     0);
    zlink_reactor_start(reactor, sqe, &reactor->wake, OPERATION_WAKE);
    reactor->wake_armed = true;
}

static void wake_complete(zlink_ring_slot_t *slot, unsigned operation, int32_t result, uint32_t flags)
{
    zlink_reactor_t *reactor = ZLINK_CONTAINER_OF(slot, zlink_reactor_t, wake);

    (void)result; /* whatever it is: the mailbox is looked at in every tick, and the read armed again */
    (void)flags;
    if (operation == OPERATION_WAKE)
        reactor->wake_armed = false;
}

/* Submits and waits. The reactor is not asleep for its posters unless `sleep`. */
static void ring_enter(zlink_reactor_t *reactor, bool sleep)
{
    struct io_uring_cqe *cqe = NULL;
    struct __kernel_timespec limit;
    uint64_t next_ms;
    uint64_t wait_ms;
    int result;

    if (sleep) {
        next_ms = zlink_timer_wheel_next_ms(&reactor->wheel);
        wait_ms = next_ms <= reactor->now_ms ? 0 : next_ms - reactor->now_ms;
        if (wait_ms > SLEEP_MS_MAX)
            wait_ms = SLEEP_MS_MAX;
        limit.tv_sec = (int64_t)(wait_ms / 1000);
        limit.tv_nsec = (long long)(wait_ms % 1000) * 1000000;
        /* May answer >= 0 with no completion at all; only the queue itself says what is there. */
        result = io_uring_submit_and_wait_timeout(&reactor->ring, &cqe, 1, &limit, NULL);
    } else {
        result = io_uring_submit_and_get_events(&reactor->ring);
    }
    if (result >= 0 || result == -ETIME || result == -EINTR || result == -EBUSY)
        reactor->trouble = 0; /* what was not submitted is still queued and goes with the next call */
    else
        ring_trouble(reactor, "wait", -result);
}

static void completion_handle(zlink_reactor_t *reactor, const zlink_completion_t *completion)
{
    const uint32_t index = (uint32_t)(completion->user_data >> 40);
    const uint32_t generation = (uint32_t)(completion->user_data >> 8);
    const unsigned buffer_id = completion->flags >> IORING_CQE_BUFFER_SHIFT;
    zlink_ring_slot_t *slot = zlink_slot_table_find(&reactor->slots, index, generation);

    /* A buffer comes back whatever happened, and also when nobody is there any more. */
    reactor->buffer = NULL;
    if ((completion->flags & IORING_CQE_F_BUFFER) != 0)
        reactor->buffer = zlink_buffer_ring_take(&reactor->buffers, buffer_id);
    if (slot != NULL) {
        if ((completion->flags & IORING_CQE_F_MORE) == 0) {
            assert(slot->in_flight > 0);
            slot->in_flight--;
        }
        slot->complete(slot, (unsigned)(completion->user_data & 0xff), completion->result, completion->flags);
    }
    if (reactor->buffer != NULL)
        zlink_buffer_ring_recycle(&reactor->buffers, buffer_id);
    reactor->buffer = NULL;
}

static void completions_handle(zlink_reactor_t *reactor)
{
    zlink_completion_t completion;

    zlink_completion_batch_collect(&reactor->batch, &reactor->ring);
    while (zlink_completion_batch_take(&reactor->batch, &completion))
        completion_handle(reactor, &completion);
}

/* ---- the loop ---- */

static void mail_deliver(zlink_reactor_t *reactor)
{
    zlink_mail_t *mail = zlink_mailbox_take(&reactor->mailbox);

    while (mail != NULL) {
        zlink_mail_t *next = mail->next;

        mail->deliver(mail);
        mail = next;
    }
}

static void tick(zlink_reactor_t *reactor)
{
    reactor->now_ms = zlink_clock_now_ms(reactor->clock);
    zlink_counter_add(&zlink_counter_net_ticks, 1);
    completions_handle(reactor);
    mail_deliver(reactor);
    zlink_timer_wheel_advance(&reactor->wheel, reactor->now_ms);
    zlink_tick_list_run(&reactor->next_tick);
    /* Armed again only when buffers are there: without them a multishot receive would fail at once, for ever. */
    if (reactor->starved.first != NULL && zlink_buffer_ring_replenished(&reactor->buffers))
        zlink_tick_list_run(&reactor->starved);
    zlink_tick_list_run(&reactor->tick_end);
    zlink_tick_list_run(&reactor->frees);
}

static bool reactor_has_work(const zlink_reactor_t *reactor)
{
    return io_uring_cq_ready(&reactor->ring) > 0 || io_uring_cq_has_overflow(&reactor->ring) ||
           reactor->next_tick.first != NULL || reactor->tick_end.first != NULL || reactor->frees.first != NULL ||
           zlink_timer_wheel_next_ms(&reactor->wheel) <= reactor->now_ms;
}

static void reactor_loop(zlink_reactor_t *reactor)
{
    while (!reactor->stopping || reactor->residents != NULL) {
        wake_arm(reactor);
        ring_enter(reactor, !reactor_has_work(reactor) && zlink_mailbox_try_sleep(&reactor->mailbox));
        tick(reactor);
    }
    /* Nothing is open any more. Take the wake-up read back, so that the kernel holds no address of ours. */
    if (reactor->wake_armed) {
        struct io_uring_sqe *sqe = zlink_reactor_sqe(reactor);

        io_uring_prep_cancel64(sqe, zlink_ring_slot_user_data(&reactor->wake, OPERATION_WAKE), 0);
        zlink_reactor_start(reactor, sqe, &reactor->wake, OPERATION_CANCEL);
    }
    while (reactor->wake.in_flight > 0 || reactor->next_tick.first != NULL || reactor->tick_end.first != NULL ||
           reactor->frees.first != NULL) {
        ring_enter(reactor, !reactor_has_work(reactor));
        tick(reactor);
    }
    zlink_resolver_close(reactor->resolver); /* no name that is still being looked up posts from here on */
    reactor->resolver = NULL;
    mail_deliver(reactor);
    zlink_tick_list_run(&reactor->lasts);
    zlink_tick_list_run(&reactor->frees);
}

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

static zlink_status_t ring_start(zlink_reactor_t *reactor)
{
    const zlink_reactor_options_t *options = &reactor->options;
    uint32_t features = 0;
    zlink_status_t status = zlink_ring_open(&reactor->ring, options->entries, options->cq_entries,
                                            options->features_allowed, &features, reactor->why);

    if (status != ZLINK_OK)
        return status;
    atomic_store_explicit(&reactor->features, features, memory_order_relaxed);
    status = zlink_buffer_ring_open(&reactor->buffers, &reactor->ring, options->buffer_count, options->buffer_bytes,
                                    reactor->why);
    if (status != ZLINK_OK)
        goto close_ring;
    reactor->wake.complete = wake_complete;
    status = zlink_reactor_slot_add(reactor, &reactor->wake);
    if (status != ZLINK_OK) {
        zlink_refuse(reactor->why, "no memory for the reactor");
        goto close_buffers;
    }
    return ZLINK_OK;

close_buffers:
    zlink_buffer_ring_close(&reactor->buffers, &reactor->ring);
close_ring:
    io_uring_queue_exit(&reactor->ring);
    return status;
}

static void *reactor_main(void *argument)
{
    zlink_reactor_t *reactor = argument;
    zlink_status_t status;

    current_reactor = reactor;
    zlink_domain_enter(ZLINK_DOMAIN_INFRASTRUCTURE);
    pthread_setname_np(pthread_self(), "zlink-reactor");
    zlink_thread_schedule_urgent();
    reactor->now_ms = zlink_clock_now_ms(reactor->clock);
    zlink_timer_wheel_init(&reactor->wheel, reactor->now_ms);
    status = ring_start(reactor);
    reactor->start_status = status;
    sem_post(&reactor->started);
    if (status != ZLINK_OK)
        return NULL;
    reactor_loop(reactor);
    zlink_reactor_slot_remove(reactor, &reactor->wake);
    zlink_slot_table_release(&reactor->slots);
    zlink_buffer_ring_close(&reactor->buffers, &reactor->ring);
    io_uring_queue_exit(&reactor->ring);
    return NULL;
}

/* ---- start and stop ---- */

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
    error = pthread_create(&reactor->thread, NULL, reactor_main, reactor);
    if (error != 0) {
        zlink_refuse(why, "no thread for the reactor: %s", strerror(error));
        status = ZLINK_CAPACITY_EXCEEDED;
        goto failed;
    }
    wait_semaphore(&reactor->started);
    status = reactor->start_status;
    if (status != ZLINK_OK) {
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
    pthread_join(reactor->thread, NULL);
    reactor_free(reactor);
}

typedef struct reactor_call {
    zlink_mail_t mail;
    void (*function)(void *context);
    void *context;
    sem_t done;
} reactor_call_t;

static void call_deliver(zlink_mail_t *mail)
{
    reactor_call_t *call = ZLINK_CONTAINER_OF(mail, reactor_call_t, mail);

    call->function(call->context);
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
    wait_semaphore(&call.done);
    sem_destroy(&call.done);
}
