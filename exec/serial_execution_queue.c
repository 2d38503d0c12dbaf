/*
 * The submitters' side. How a submission finds a holder:
 *
 * The flag `scheduled` in the application word says that somebody holds the queue or that it stands in a ready ring.
 * Application work and resumes set it in the same swap that inserts them. Lifecycle and barrier work is inserted in its
 * own word first and then sets `attention` and `scheduled` in one swap of the application word. Whoever finds
 * `scheduled` clear has the duty to post the queue, outside the swap. The holder lets go by a swap from {no chain, no
 * attention} to `scheduled` clear, so anything that came in meanwhile makes that swap fail, and the holder need not
 * touch the queue after it, when somebody else may have freed it already.
 */
#include "exec/serial_execution_queue.h"

#include <assert.h>
#include <string.h>

#include "exec/lane_word.h"
#include "exec/serial_execution_queue_drain.h"
#include "exec/worker.h"

static_assert(sizeof(zlink_lane_word_t) == 16, "one compare-and-swap covers the word");
static_assert(alignof(zlink_serial_execution_queue_t) >= 16, "the word needs its alignment");

void zlink_serial_execution_queue_init(zlink_serial_execution_queue_t *queue, zlink_worker_pool_t *pool,
                                       const zlink_execution_lane_policy_t *policy)
{
    assert((uintptr_t)queue % 16 == 0);
    memset(queue, 0, sizeof(*queue));
    queue->policy = policy;
    uint32_t turn = atomic_fetch_add_explicit(&pool->next_home, 1, memory_order_relaxed);
    queue->home = pool->workers[turn % pool->worker_count];
    queue->turn_record.run = zlink_serial_execution_queue_run_turn;
}

void zlink_serial_execution_queue_set_gate(zlink_serial_execution_queue_t *queue, zlink_serial_execution_queue_t *gate)
{
    assert(queue->suspended == 0 && (!gate || !gate->gate));
    if (gate)
        atomic_fetch_add(&gate->gated, 1);
    if (queue->gate)
        atomic_fetch_sub(&queue->gate->gated, 1);
    queue->gate = gate;
}

/* ---- posting ---- */

/* Inserts at the back of a lane whatever its limits are, and adds `amount` to the counters. `refused_when` is a flag
 * that forbids it. */
static bool append(zlink_lane_word_t *word, zlink_work_item_t *item, uint64_t refused_when, uint64_t amount,
                   uint64_t flags, bool *was_scheduled)
{
    zlink_lane_word_t seen = zlink_lane_word_read(word);
    zlink_lane_word_t next;

    do {
        if (seen.counters & refused_when)
            return false;
        item->next = zlink_lane_word_newest(seen.chain);
        next.chain = (uint64_t)(uintptr_t)item | (seen.chain & ZLINK_CHAIN_ATTENTION);
        next.counters = (seen.counters + amount) | flags;
    } while (!zlink_lane_word_replace(word, &seen, next));
    *was_scheduled = seen.counters & ZLINK_COUNTER_SCHEDULED;
    return true;
}

void zlink_serial_execution_queue_post(zlink_serial_execution_queue_t *queue)
{
    zlink_serial_execution_queue_t *gate = queue->gate;
    bool was_scheduled;

    if (!gate) {
        zlink_worker_ready(queue);
        return;
    }
    zlink_work_item_t *record = &queue->turn_record;
    record->lane = ZLINK_LANE_APPLICATION;
    record->resumed = false;
    record->reserved_bytes = gate->policy->fixed_work_byte_cost;
    (void)append(&gate->application, record, 0, ZLINK_COUNTER_ONE_ITEM + record->reserved_bytes,
                 ZLINK_COUNTER_SCHEDULED, &was_scheduled);
    if (!was_scheduled)
        zlink_worker_ready(gate);
}

/* ---- admission ---- */

typedef struct zlink_lane_limits {
    uint64_t items;
    uint64_t bytes;
    uint64_t flags; /* to set together with the insertion */
} zlink_lane_limits_t;

/* Room on both axes, the place in the order and the insertion, all or nothing. `*before` is the word that it replaced.
 */
static zlink_status_t admit(zlink_lane_word_t *word, zlink_lane_limits_t limits, zlink_work_item_t *item,
                            zlink_lane_word_t *before)
{
    zlink_lane_word_t seen = zlink_lane_word_read(word);
    zlink_lane_word_t next;

    assert(item->run && "only a mark has no function");
    do {
        if (seen.counters & ZLINK_COUNTER_CLOSED)
            return ZLINK_SHUTTING_DOWN;
        uint64_t used = seen.counters & ZLINK_COUNTER_BYTES;
        if (zlink_lane_word_items(seen.counters) >= limits.items || used > limits.bytes ||
            item->reserved_bytes > limits.bytes - used)
            return ZLINK_CAPACITY_EXCEEDED;
        item->next = zlink_lane_word_newest(seen.chain);
        next.chain = (uint64_t)(uintptr_t)item | (seen.chain & ZLINK_CHAIN_ATTENTION);
        next.counters = (seen.counters + ZLINK_COUNTER_ONE_ITEM + item->reserved_bytes) | limits.flags;
    } while (!zlink_lane_word_replace(word, &seen, next));
    *before = seen;
    return ZLINK_OK;
}

/* Payload and fixed cost; a sum that does not fit the word does not fit any capacity either. */
static uint64_t bytes_to_reserve(const zlink_execution_lane_policy_t *policy, uint64_t payload_bytes)
{
    return payload_bytes > ZLINK_COUNTER_BYTES ? UINT64_MAX : payload_bytes + policy->fixed_work_byte_cost;
}

/* Something stands in the lifecycle lane or the barrier slot. True: the caller has the duty to post the queue. */
static bool call_attention(zlink_serial_execution_queue_t *queue)
{
    zlink_lane_word_t next;
    zlink_lane_word_t seen = {.chain = __atomic_load_n(&queue->application.chain, __ATOMIC_SEQ_CST),
                              .counters = zlink_lane_word_counters(&queue->application)};

    do {
        if (seen.chain & ZLINK_CHAIN_ATTENTION)
            return false; /* a holder has yet to look, and will see what the caller put there before this */
        next.chain = seen.chain | ZLINK_CHAIN_ATTENTION;
        next.counters = seen.counters | ZLINK_COUNTER_SCHEDULED;
    } while (!zlink_lane_word_replace(&queue->application, &seen, next));
    return !(seen.counters & ZLINK_COUNTER_SCHEDULED);
}

zlink_status_t zlink_serial_execution_queue_enqueue(zlink_serial_execution_queue_t *queue, zlink_work_item_t *item)
{
    return zlink_serial_execution_queue_enqueue_with_payload_bytes(queue, item, 0);
}

zlink_status_t zlink_serial_execution_queue_enqueue_with_payload_bytes(zlink_serial_execution_queue_t *queue,
                                                                       zlink_work_item_t *item, uint64_t payload_bytes)
{
    const zlink_execution_lane_policy_t *policy = queue->policy;
    zlink_lane_limits_t limits = {policy->application_message_capacity, policy->application_byte_capacity,
                                  ZLINK_COUNTER_SCHEDULED};
    zlink_lane_word_t before;

    item->lane = ZLINK_LANE_APPLICATION;
    item->resumed = false;
    item->reserved_bytes = bytes_to_reserve(policy, payload_bytes);
    zlink_status_t status = admit(&queue->application, limits, item, &before);
    if (status == ZLINK_OK && !(before.counters & ZLINK_COUNTER_SCHEDULED))
        zlink_serial_execution_queue_post(queue);
    return status;
}

zlink_status_t zlink_serial_execution_queue_enqueue_lifecycle(zlink_serial_execution_queue_t *queue,
                                                              zlink_work_item_t *item)
{
    const zlink_execution_lane_policy_t *policy = queue->policy;
    zlink_lane_limits_t limits = {policy->lifecycle_message_capacity, policy->lifecycle_byte_capacity, 0};
    zlink_lane_word_t before;

    item->lane = ZLINK_LANE_LIFECYCLE;
    item->resumed = false;
    item->reserved_bytes = bytes_to_reserve(policy, 0);
    zlink_status_t status = admit(&queue->lifecycle, limits, item, &before);
    if (status == ZLINK_OK && call_attention(queue))
        zlink_serial_execution_queue_post(queue);
    return status;
}

zlink_status_t zlink_serial_execution_queue_enqueue_barrier_next(zlink_serial_execution_queue_t *queue,
                                                                 zlink_work_item_t *item)
{
    if (zlink_serial_execution_queue_is_closed(queue))
        return ZLINK_SHUTTING_DOWN;
    assert(item->run);
    item->lane = ZLINK_LANE_NONE;
    item->resumed = false;
    item->reserved_bytes = 0;
    zlink_work_item_t *newest = atomic_load_explicit(&queue->barrier, memory_order_relaxed);
    do {
        if (newest == ZLINK_BARRIER_ENDED)
            return ZLINK_SHUTTING_DOWN;
        item->next = newest;
    } while (!atomic_compare_exchange_weak(&queue->barrier, &newest, item));
    if (call_attention(queue))
        zlink_serial_execution_queue_post(queue);
    return ZLINK_OK;
}

/* ---- going on ---- */

void zlink_serial_execution_queue_resume(zlink_serial_execution_queue_t *queue, zlink_work_item_t *item)
{
    bool was_scheduled;

    if (queue->gate) {
        item = &queue->turn_record;
        queue = queue->gate;
    }
    item->resumed = true;
    (void)append(&queue->application, item, 0, 0, ZLINK_COUNTER_SCHEDULED, &was_scheduled);
    if (!was_scheduled)
        zlink_worker_ready(queue);
}

void zlink_serial_execution_queue_resume_held(zlink_serial_execution_queue_t *queue)
{
    if (queue->gate)
        queue = queue->gate;
    uint8_t before = atomic_exchange(&queue->hold, ZLINK_HOLD_READY);

    assert(before != ZLINK_HOLD_READY);
    if (before == ZLINK_HOLD_STANDING)
        zlink_worker_ready(queue);
    /* Otherwise its worker has not answered ZLINK_WORK_HELD yet, and will find this. */
}

/* ---- questions ---- */

bool zlink_serial_execution_queue_is_current(const zlink_serial_execution_queue_t *queue)
{
    const zlink_worker_t *worker = zlink_worker_current();
    return worker && worker->item && (worker->driving == queue || worker->claimed == queue);
}

bool zlink_serial_execution_queue_is_closed(const zlink_serial_execution_queue_t *queue)
{
    return zlink_lane_word_counters(&queue->application) & ZLINK_COUNTER_CLOSED;
}

/*
 * A mark goes to the back of each lane. When both have come to the front, everything that was queued before has been
 * started, and what has not ended is suspended: see pass_marks in serial_execution_queue_drain.c.
 */
zlink_status_t zlink_serial_execution_queue_await_quiescence(zlink_serial_execution_queue_t *queue,
                                                             zlink_quiescence_t *quiescence)
{
    bool was_scheduled;
    bool unused;

    if (zlink_serial_execution_queue_is_current(queue))
        return ZLINK_INVALID_OPERATION;
    quiescence->marks_passed = 0;
    quiescence->application_mark = (zlink_work_item_t){.lane = ZLINK_LANE_APPLICATION};
    quiescence->lifecycle_mark = (zlink_work_item_t){.lane = ZLINK_LANE_LIFECYCLE};
    if (!append(&queue->application, &quiescence->application_mark, ZLINK_COUNTER_CLOSED, 0, ZLINK_COUNTER_SCHEDULED,
                &was_scheduled))
        return ZLINK_SHUTTING_DOWN;
    /* From here on the queue cannot end before the second mark is in, even if it is closed meanwhile. */
    (void)append(&queue->lifecycle, &quiescence->lifecycle_mark, 0, 0, 0, &unused);
    bool duty = call_attention(queue);
    if (duty || !was_scheduled)
        zlink_serial_execution_queue_post(queue);
    return ZLINK_OK;
}

/* ---- the end ---- */

static void nobody_is_told(zlink_serial_execution_queue_t *queue)
{
    (void)queue;
}

void zlink_serial_execution_queue_close(zlink_serial_execution_queue_t *queue, zlink_queue_closed_t closed)
{
    zlink_queue_closed_t none = NULL;

    if (!atomic_compare_exchange_strong(&queue->closed, &none, closed ? closed : nobody_is_told))
        return;
    /* The lifecycle lane first: a holder that sees the application lane closed may end the queue. */
    (void)zlink_lane_word_set(&queue->lifecycle, ZLINK_COUNTER_CLOSED);
    uint64_t before = zlink_lane_word_set(&queue->application, ZLINK_COUNTER_CLOSED | ZLINK_COUNTER_SCHEDULED);
    if (!(before & ZLINK_COUNTER_SCHEDULED))
        zlink_serial_execution_queue_post(queue);
}
