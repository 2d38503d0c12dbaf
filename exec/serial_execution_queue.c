/*
 * The submitters' side. How a submission finds a holder:
 *
 * The flag `scheduled` in the application word says that somebody holds the queue, stands in for its holder or has put
 * it into a ready ring. Application work and resumes set it in the same swap that gives them their place. Where it was
 * set, that swap also puts the item on the chain. Where it was clear, the queue is idle: its chain and its private
 * lists are empty, nobody holds it, and the submitter has the duty to post it. Until it has, it stands in for the
 * holder, so it puts the item straight into the private list, where the holder need not take it from the chain again.
 * Whoever comes meanwhile comes after it, on the chain.
 *
 * Lifecycle and barrier work is inserted in the lifecycle word first and then sets `attention` and `scheduled` in one
 * swap of the application word; where it is the one that set `scheduled`, it has the duty to post. Last it sets `look`,
 * so that a holder at work need not read the word, which submitters keep busy, before every item.
 *
 * The holder lets go by a swap from {no chain, no attention} to `scheduled` clear, so anything that came in meanwhile
 * makes that swap fail, and the holder need not touch the queue after it, when somebody else may have freed it already.
 */
#include "exec/serial_execution_queue.h"

#include <assert.h>
#include <string.h>

#include "exec/lane_word.h"
#include "exec/serial_execution_queue_drain.h"
#include "exec/worker.h"

static_assert(sizeof(zlink_lane_word_t) == 16, "one compare-and-swap covers the word");
static_assert(alignof(zlink_serial_execution_queue_t) >= 16, "the word needs its alignment");
static_assert(sizeof(zlink_serial_execution_queue_t) <= 144, "every idle Actor has one");

void zlink_serial_execution_queue_init(zlink_serial_execution_queue_t *queue, zlink_worker_pool_t *pool,
                                       const zlink_execution_lane_policy_t *policy)
{
    assert((uintptr_t)queue % 16 == 0);
    memset(queue, 0, sizeof(*queue));
    queue->policy = policy;
    uint32_t turn = atomic_fetch_add_explicit(&pool->next_home, 1, memory_order_relaxed);
    atomic_init(&queue->home, pool->workers[turn % pool->worker_count]);
}

void zlink_serial_execution_queue_set_gate(zlink_serial_execution_queue_t *queue, zlink_serial_execution_queue_t *gate)
{
    zlink_serial_execution_queue_t *before = queue->gate;

    assert(queue->suspended == 0 && (!gate || !gate->gate));
    if (gate == before)
        return;
    assert(before || atomic_load_explicit(&queue->gated, memory_order_relaxed) == 0);
    queue->gate = gate;
    if (gate) {
        atomic_fetch_add(&gate->gated, 1);
        if (!before)
            queue->turn_record = (zlink_work_item_t){.run = zlink_serial_execution_queue_run_turn};
    } else {
        atomic_init(&queue->home, atomic_load_explicit(&before->home, memory_order_relaxed));
        atomic_init(&queue->gated, 0);
    }
    if (before)
        atomic_fetch_sub(&before->gated, 1);
}

/* ---- going in ---- */

/* The item has its place, and the caller has the duty to post the idle queue: it stands in for the holder. */
static void hand_over(zlink_serial_execution_queue_t *queue, zlink_work_item_t *item)
{
    assert(!queue->application_last);
    item->next = item;
    queue->application_last = item;
    zlink_serial_execution_queue_post(queue);
}

/* Puts an item at the back of the application lane whatever its limits are, and adds `amount` to the counters. False,
 * where it was closed and that is `refused`. */
static bool put(zlink_serial_execution_queue_t *queue, zlink_work_item_t *item, uint64_t amount, bool refused)
{
    zlink_lane_word_t seen = zlink_lane_word_read(&queue->application);
    zlink_lane_word_t next;

    do {
        if (refused && (seen.counters & ZLINK_COUNTER_CLOSED))
            return false;
        next = zlink_lane_word_with(seen, item);
        next.counters += amount;
    } while (!zlink_lane_word_replace(&queue->application, &seen, next));
    if (!(seen.counters & ZLINK_COUNTER_SCHEDULED))
        hand_over(queue, item);
    return true;
}

void zlink_serial_execution_queue_post(zlink_serial_execution_queue_t *queue)
{
    zlink_serial_execution_queue_t *gate = queue->gate;

    if (!gate) {
        zlink_worker_ready(queue);
        return;
    }
    zlink_work_item_t *record = &queue->turn_record;
    record->lane = ZLINK_LANE_APPLICATION;
    record->resumed = false;
    record->reserved_bytes = gate->policy->fixed_work_byte_cost;
    (void)put(gate, record, ZLINK_COUNTER_ONE_ITEM + record->reserved_bytes, false);
}

/* ---- admission ---- */

/* Is there room for one more item of so many bytes? */
static zlink_status_t room(uint64_t counters, uint64_t items_max, uint64_t bytes_max, uint64_t bytes)
{
    uint64_t used = counters & ZLINK_COUNTER_BYTES;

    if (counters & ZLINK_COUNTER_CLOSED)
        return ZLINK_SHUTTING_DOWN;
    if (zlink_lane_word_items(counters) >= items_max || used > bytes_max || bytes > bytes_max - used)
        return ZLINK_CAPACITY_EXCEEDED;
    return ZLINK_OK;
}

/* Payload and fixed cost; a sum that does not fit the word does not fit any capacity either. */
static uint64_t bytes_to_reserve(const zlink_execution_lane_policy_t *policy, uint64_t payload_bytes)
{
    return payload_bytes > ZLINK_COUNTER_BYTES ? UINT64_MAX : payload_bytes + policy->fixed_work_byte_cost;
}

static void prepare(zlink_work_item_t *item, zlink_execution_lane_t lane, uint64_t bytes)
{
    assert(item->run && "only a mark has no function");
    item->lane = (uint8_t)lane;
    item->resumed = false;
    item->reserved_bytes = bytes & ZLINK_COUNTER_BYTES;
}

/* Something stands in the lifecycle lane or the barrier slot. */
static void call_attention(zlink_serial_execution_queue_t *queue)
{
    zlink_lane_word_t next;
    zlink_lane_word_t seen = {.chain = __atomic_load_n(&queue->application.chain, __ATOMIC_SEQ_CST),
                              .counters = zlink_lane_word_counters(&queue->application)};

    do {
        if (seen.chain & ZLINK_CHAIN_ATTENTION) {
            /* A holder has yet to look, and will see what the caller put there before this. Whoever posts it is
             * another: the counters were read apart from the chain, and may be of a later moment, when it was let go.
             */
            atomic_store_explicit(&queue->look, 1, memory_order_release);
            return;
        }
        next.chain = seen.chain | ZLINK_CHAIN_ATTENTION;
        next.counters = seen.counters | ZLINK_COUNTER_SCHEDULED;
    } while (!zlink_lane_word_replace(&queue->application, &seen, next));
    if (seen.counters & ZLINK_COUNTER_SCHEDULED)
        atomic_store_explicit(&queue->look, 1, memory_order_release);
    else
        zlink_serial_execution_queue_post(queue);
}

zlink_status_t zlink_serial_execution_queue_enqueue(zlink_serial_execution_queue_t *queue, zlink_work_item_t *item)
{
    return zlink_serial_execution_queue_enqueue_with_payload_bytes(queue, item, 0);
}

/* Room on both axes, the place in the order and the insertion, all or nothing. */
zlink_status_t zlink_serial_execution_queue_enqueue_with_payload_bytes(zlink_serial_execution_queue_t *queue,
                                                                       zlink_work_item_t *item, uint64_t payload_bytes)
{
    const zlink_execution_lane_policy_t *policy = queue->policy;
    uint64_t bytes = bytes_to_reserve(policy, payload_bytes);
    zlink_lane_word_t seen = zlink_lane_word_read(&queue->application);
    zlink_lane_word_t next;

    prepare(item, ZLINK_LANE_APPLICATION, bytes);
    do {
        zlink_status_t status =
            room(seen.counters, policy->application_message_capacity, policy->application_byte_capacity, bytes);
        if (status != ZLINK_OK)
            return status;
        next = zlink_lane_word_with(seen, item);
        next.counters += ZLINK_COUNTER_ONE_ITEM + bytes;
    } while (!zlink_lane_word_replace(&queue->application, &seen, next));
    if (!(seen.counters & ZLINK_COUNTER_SCHEDULED))
        hand_over(queue, item);
    return ZLINK_OK;
}

zlink_status_t zlink_serial_execution_queue_enqueue_lifecycle(zlink_serial_execution_queue_t *queue,
                                                              zlink_work_item_t *item)
{
    const zlink_execution_lane_policy_t *policy = queue->policy;
    uint64_t bytes = bytes_to_reserve(policy, 0);
    zlink_lane_word_t seen = zlink_lane_word_read(&queue->lifecycle);
    zlink_lane_word_t next;

    prepare(item, ZLINK_LANE_LIFECYCLE, bytes);
    do {
        zlink_status_t status =
            room(seen.counters, policy->lifecycle_message_capacity, policy->lifecycle_byte_capacity, bytes);
        if (status != ZLINK_OK)
            return status;
        item->next = zlink_lane_word_newest(seen.chain);
        next.chain = (uint64_t)(uintptr_t)item;
        next.counters = seen.counters + ZLINK_COUNTER_ONE_ITEM + bytes;
    } while (!zlink_lane_word_replace(&queue->lifecycle, &seen, next));
    call_attention(queue);
    return ZLINK_OK;
}

zlink_status_t zlink_serial_execution_queue_enqueue_mark(zlink_serial_execution_queue_t *queue, zlink_work_item_t *item)
{
    prepare(item, ZLINK_LANE_NONE, 0);
    return put(queue, item, 0, true) ? ZLINK_OK : ZLINK_SHUTTING_DOWN;
}

/* Puts something that reserves nothing on the lifecycle word's chain. False, where it was closed and that is `refused`.
 */
static bool put_lifecycle(zlink_serial_execution_queue_t *queue, zlink_work_item_t *item, bool refused)
{
    zlink_lane_word_t seen = zlink_lane_word_read(&queue->lifecycle);
    zlink_lane_word_t next;

    do {
        if (refused && (seen.counters & ZLINK_COUNTER_CLOSED))
            return false;
        item->next = zlink_lane_word_newest(seen.chain);
        next.chain = (uint64_t)(uintptr_t)item;
        next.counters = seen.counters;
    } while (!zlink_lane_word_replace(&queue->lifecycle, &seen, next));
    return true;
}

zlink_status_t zlink_serial_execution_queue_enqueue_barrier_next(zlink_serial_execution_queue_t *queue,
                                                                 zlink_work_item_t *item)
{
    prepare(item, ZLINK_LANE_NONE, 0);
    if (!put_lifecycle(queue, item, true))
        return ZLINK_SHUTTING_DOWN;
    call_attention(queue);
    return ZLINK_OK;
}

/* ---- waiting for room ---- */

zlink_status_t zlink_serial_execution_queue_await_room(zlink_serial_execution_queue_t *queue,
                                                       zlink_room_waiter_t *waiter)
{
    assert(!queue->gate);
    zlink_worker_pool_t *pool = atomic_load_explicit(&queue->home, memory_order_relaxed)->pool;
    return zlink_room_line_enter(&pool->room, queue, waiter);
}

/* ---- going on ---- */

void zlink_serial_execution_queue_resume(zlink_serial_execution_queue_t *queue, zlink_work_item_t *item)
{
    if (queue->gate) {
        item = &queue->turn_record;
        queue = queue->gate;
    }
    item->resumed = true;
    (void)put(queue, item, 0, false);
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
    if (zlink_serial_execution_queue_is_current(queue))
        return ZLINK_INVALID_OPERATION;
    quiescence->marks_passed = 0;
    quiescence->application_mark = (zlink_work_item_t){.lane = ZLINK_LANE_APPLICATION};
    quiescence->lifecycle_mark = (zlink_work_item_t){.lane = ZLINK_LANE_LIFECYCLE};
    if (!put(queue, &quiescence->application_mark, 0, true))
        return ZLINK_SHUTTING_DOWN;
    /* From here on the queue cannot end before the second mark is in, even if it is closed meanwhile. */
    (void)put_lifecycle(queue, &quiescence->lifecycle_mark, false);
    call_attention(queue);
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
