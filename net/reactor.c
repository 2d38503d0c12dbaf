#include "net/reactor.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/container_of.h"
#include "base/counters.h"
#include "base/log.h"
#include "net/reactor_internal.h"

#define SLEEP_MS_MAX     3600000u
#define TROUBLE_PAUSE_NS 1000000L
#define TROUBLE_MAX      10000u /* unexpected answers of the kernel in a row before the process gives up */

#define OPERATION_WAKE   1u
#define OPERATION_CANCEL 2u

ZLINK_COUNTER_DEFINE(zlink_counter_net_ticks, ZLINK_COUNTER, "zlink.net.ticks", "Turns of the reactor's loop");

static _Thread_local zlink_reactor_t *current_reactor;

/* ---- what lives on the reactor ---- */

bool zlink_reactor_is_current(const zlink_reactor_t *reactor)
{
    return current_reactor == reactor;
}

zlink_domain_t zlink_reactor_enter(zlink_reactor_t *reactor)
{
    assert(current_reactor == NULL);
    current_reactor = reactor;
    return zlink_domain_enter(ZLINK_DOMAIN_INFRASTRUCTURE);
}

void zlink_reactor_leave(zlink_domain_t before)
{
    current_reactor = NULL;
    zlink_domain_enter(before);
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
    const zlink_net_fault_t *fault = reactor->fault;
    zlink_completion_t completion;

    zlink_completion_batch_collect(&reactor->batch, &reactor->ring);
    while (zlink_completion_batch_take(&reactor->batch, &completion)) {
        if (fault != NULL && fault->completion != NULL)
            fault->completion(fault->context, &completion.result, &completion.flags);
        completion_handle(reactor, &completion);
    }
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

void zlink_reactor_tick(zlink_reactor_t *reactor)
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

/* Nothing is open any more. Takes the wake-up read back, so that the kernel holds no address of ours. */
static void loop_leave(zlink_reactor_t *reactor)
{
    reactor->leaving = true;
    if (reactor->wake_armed) {
        struct io_uring_sqe *sqe = zlink_reactor_sqe(reactor);

        io_uring_prep_cancel64(sqe, zlink_ring_slot_user_data(&reactor->wake, OPERATION_WAKE), 0);
        zlink_reactor_start(reactor, sqe, &reactor->wake, OPERATION_CANCEL);
    }
}

bool zlink_reactor_wait(zlink_reactor_t *reactor)
{
    if (!reactor->leaving && reactor->stopping && reactor->residents == NULL)
        loop_leave(reactor);
    if (!reactor->leaving) {
        wake_arm(reactor);
        ring_enter(reactor, !reactor_has_work(reactor) && zlink_mailbox_try_sleep(&reactor->mailbox));
        return true;
    }
    if (reactor->wake.in_flight == 0 && reactor->next_tick.first == NULL && reactor->tick_end.first == NULL &&
        reactor->frees.first == NULL)
        return false;
    ring_enter(reactor, !reactor_has_work(reactor));
    return true;
}

static void loop_end(zlink_reactor_t *reactor)
{
    zlink_resolver_close(reactor->resolver); /* no name that is still being looked up posts from here on */
    reactor->resolver = NULL;
    mail_deliver(reactor);
    zlink_tick_list_run(&reactor->lasts);
    zlink_tick_list_run(&reactor->frees);
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

void zlink_reactor_begin(zlink_reactor_t *reactor)
{
    reactor->now_ms = zlink_clock_now_ms(reactor->clock);
    zlink_timer_wheel_init(&reactor->wheel, reactor->now_ms);
    reactor->start_status = ring_start(reactor);
}

void zlink_reactor_end(zlink_reactor_t *reactor)
{
    loop_end(reactor);
    zlink_reactor_slot_remove(reactor, &reactor->wake);
    zlink_slot_table_release(&reactor->slots);
    zlink_buffer_ring_close(&reactor->buffers, &reactor->ring);
    io_uring_queue_exit(&reactor->ring);
    reactor->ended = true;
}
