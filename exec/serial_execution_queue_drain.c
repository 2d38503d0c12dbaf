/*
 * The holder's side. What it takes from a lane's chain goes, oldest first, into a private list per lane, so that one
 * swap brings in everything that has come since the last look. The application chain is taken when the private list
 * has run out, and the lifecycle word's when `look` says that something is there, or when the application chain does.
 * Between two items nothing else is read that submitters write.
 *
 * A long chain is not in this core's cache, and each of its links is known only when the one before has come. So under
 * load the next chain is taken early, together with giving reservations back, and turned around item by item
 * while the items before it run, so that their lines are on the way meanwhile.
 */
#include "exec/serial_execution_queue_drain.h"

#include <assert.h>
#include <limits.h>

#include "base/container_of.h"

#define RELEASE_BATCH  64 /* reservations given back at the latest */
#define TURNS_PER_ITEM 1  /* of what was taken ahead: its line has come while an item ran, the next one has not */

/* ---- private lists: `last` is the newest item, whose `next` is the oldest ---- */

static void list_append(zlink_work_item_t **last, zlink_work_item_t *newest_first)
{
    zlink_work_item_t *newest = newest_first;
    zlink_work_item_t *oldest = NULL;

    if (!newest)
        return;
    for (zlink_work_item_t *item = newest_first, *next; item; item = next) {
        next = item->next;
        item->next = oldest;
        oldest = item;
    }
    if (*last) {
        newest->next = (*last)->next;
        (*last)->next = oldest;
    } else {
        newest->next = oldest;
    }
    *last = newest;
}

static void list_push(zlink_work_item_t **last, zlink_work_item_t *item)
{
    if (*last) {
        item->next = (*last)->next;
        (*last)->next = item;
    } else {
        item->next = item;
    }
    *last = item;
}

static zlink_work_item_t *list_pop(zlink_work_item_t **last)
{
    zlink_work_item_t *oldest = (*last)->next;
    if (oldest == *last)
        *last = NULL;
    else
        (*last)->next = oldest->next;
    return oldest;
}

/* The same for a list that may be long and cold: asks for the lines of the next two. */
static zlink_work_item_t *list_pop_ahead(zlink_work_item_t **last)
{
    zlink_work_item_t *oldest = list_pop(last);

    if (*last) {
        __builtin_prefetch((*last)->next);
        __builtin_prefetch(oldest->next->next);
    }
    return oldest;
}

/* ---- reservations ---- */

/* What to subtract from a lane's counters for the items that have ended since the last time. */
static uint64_t take_released(zlink_worker_t *worker, zlink_execution_lane_t lane)
{
    uint64_t released = worker->released[lane];
    worker->released[lane] = 0;
    return released;
}

/* Room of `queue`, which is only a name here, has come back: whoever waits for it is next. */
static inline void room_came(zlink_worker_t *worker, const zlink_serial_execution_queue_t *queue)
{
    if (zlink_room_line_is_waited_in(&worker->pool->room))
        zlink_room_line_serve(&worker->pool->room, queue);
}

static void give_back_lifecycle(zlink_worker_t *worker, zlink_serial_execution_queue_t *queue)
{
    uint64_t released = take_released(worker, ZLINK_LANE_LIFECYCLE);
    if (released)
        zlink_lane_word_give_back(&queue->lifecycle, released);
}

static void give_back(zlink_worker_t *worker, zlink_serial_execution_queue_t *queue)
{
    uint64_t released = take_released(worker, ZLINK_LANE_APPLICATION);
    if (released) {
        zlink_lane_word_give_back(&queue->application, released);
        room_came(worker, queue);
    }
    give_back_lifecycle(worker, queue);
}

/* ---- bringing in ---- */

static zlink_lane_word_t take_chain(zlink_lane_word_t *word, uint64_t released)
{
    zlink_lane_word_t seen = zlink_lane_word_read(word);
    zlink_lane_word_t next;

    do {
        next.chain = 0;
        next.counters = seen.counters - released;
    } while (!zlink_lane_word_replace(word, &seen, next));
    return seen;
}

static void turn_some(zlink_worker_t *worker, unsigned count)
{
    zlink_work_item_t *item = worker->unturned;

    for (; item && count > 0; count--) {
        zlink_work_item_t *next = item->next;
        __builtin_prefetch(next);
        item->next = worker->turned;
        worker->turned = item;
        item = next;
    }
    worker->unturned = item;
}

/* What was taken ahead goes behind what is there. */
static void end_ahead(zlink_worker_t *worker, zlink_serial_execution_queue_t *queue)
{
    zlink_work_item_t *newest = worker->turned_last;

    if (!newest)
        return;
    turn_some(worker, UINT_MAX);
    if (queue->application_last) {
        newest->next = queue->application_last->next;
        queue->application_last->next = worker->turned;
    } else {
        newest->next = worker->turned;
    }
    queue->application_last = newest;
    worker->turned = NULL;
    worker->turned_last = NULL;
}

static bool at_barrier(const zlink_work_item_t *item)
{
    return item->lane == ZLINK_LANE_NONE;
}

/* Barrier items go in front of the lifecycle lane's, behind those that stand there already. */
static void list_insert_barrier(zlink_work_item_t **last, zlink_work_item_t *barriers)
{
    zlink_work_item_t *before = *last;

    if (!before) {
        *last = barriers;
        return;
    }
    while (at_barrier(before->next)) {
        before = before->next;
        if (before == *last) {
            *last = barriers;
            break;
        }
    }
    zlink_work_item_t *first = barriers->next;
    barriers->next = before->next;
    before->next = first;
}

static void bring_in_lifecycle(zlink_worker_t *worker, zlink_serial_execution_queue_t *queue)
{
    zlink_lane_word_t taken = take_chain(&queue->lifecycle, worker ? take_released(worker, ZLINK_LANE_LIFECYCLE) : 0);
    zlink_work_item_t *lifecycle = NULL;
    zlink_work_item_t *barriers = NULL;
    zlink_work_item_t **lifecycle_end = &lifecycle;
    zlink_work_item_t **barriers_end = &barriers;
    zlink_work_item_t *barriers_last = NULL;

    for (zlink_work_item_t *item = zlink_lane_word_newest(taken.chain); item; item = item->next) {
        zlink_work_item_t ***end = at_barrier(item) ? &barriers_end : &lifecycle_end;
        **end = item;
        *end = &item->next;
    }
    *lifecycle_end = NULL;
    *barriers_end = NULL;
    list_append(&queue->lifecycle_last, lifecycle);
    list_append(&barriers_last, barriers);
    if (barriers_last)
        list_insert_barrier(&queue->lifecycle_last, barriers_last);
}

/* `worker` is the one that drives the queue; NULL where its gate does. */
static void bring_in(zlink_worker_t *worker, zlink_serial_execution_queue_t *queue)
{
    bool asked = atomic_load_explicit(&queue->look, memory_order_relaxed);

    if (asked)
        (void)atomic_exchange(&queue->look, 0); /* before the look at the word: who comes later sets it again */
    if (worker && worker->turned_last) {
        end_ahead(worker, queue);
        if (!asked)
            return;
    }
    if (!zlink_lane_word_chain(&queue->application))
        return;
    uint64_t released = worker ? take_released(worker, ZLINK_LANE_APPLICATION) : 0;
    zlink_lane_word_t taken = take_chain(&queue->application, released);
    list_append(&queue->application_last, zlink_lane_word_newest(taken.chain));
    if (taken.chain & ZLINK_CHAIN_ATTENTION)
        bring_in_lifecycle(worker, queue);
    if (released)
        room_came(worker, queue);
}

/* Many items have ended, or somebody waits for the room of each: gives their reservations back, and takes ahead what
 * came meanwhile. */
static void give_back_and_take(zlink_worker_t *worker, zlink_serial_execution_queue_t *queue)
{
    if (worker->turned_last || !queue->application_last) {
        give_back(worker, queue);
        return;
    }
    zlink_lane_word_t taken = take_chain(&queue->application, take_released(worker, ZLINK_LANE_APPLICATION));
    worker->unturned = worker->turned_last = zlink_lane_word_newest(taken.chain);
    if (taken.chain & ZLINK_CHAIN_ATTENTION)
        bring_in_lifecycle(worker, queue);
    give_back_lifecycle(worker, queue);
    room_came(worker, queue);
}

/* ---- quiescence ---- */

/* Tells those who waited for the items of the earlier epoch, then begins the next round, if anybody waits for one. */
static void quiet(zlink_serial_execution_queue_t *queue)
{
    while (queue->quiescing && queue->quiescing->unended_before == 0) {
        zlink_quiescence_t *reached = queue->quiescing;
        queue->quiescing = reached->next_round;
        if (queue->quiescing) {
            queue->epoch++;
            queue->quiescing->unended_before = queue->suspended;
        }
        while (reached) {
            zlink_quiescence_t *next = reached->next;
            reached->reached(reached);
            reached = next;
        }
    }
}

/* Everything before both its marks has been started. It waits for what is suspended now: that is the earlier epoch. */
static void begin_to_wait(zlink_serial_execution_queue_t *queue, zlink_quiescence_t *quiescence)
{
    zlink_quiescence_t *round = queue->quiescing;

    quiescence->next = NULL;
    quiescence->next_round = NULL;
    if (round) {
        quiescence->next = round->next_round;
        round->next_round = quiescence;
        return;
    }
    queue->epoch++;
    quiescence->unended_before = queue->suspended;
    queue->quiescing = quiescence;
    quiet(queue);
}

static void pass_mark(zlink_serial_execution_queue_t *queue, zlink_work_item_t *mark)
{
    zlink_quiescence_t *quiescence = mark->lane == ZLINK_LANE_APPLICATION
                                         ? ZLINK_CONTAINER_OF(mark, zlink_quiescence_t, application_mark)
                                         : ZLINK_CONTAINER_OF(mark, zlink_quiescence_t, lifecycle_mark);
    if (++quiescence->marks_passed == 1) {
        queue->marks_halfway++;
        return;
    }
    queue->marks_halfway--;
    begin_to_wait(queue, quiescence);
}

static bool at_mark(const zlink_work_item_t *last)
{
    return last && last->next->run == NULL;
}

static void pass_marks(zlink_serial_execution_queue_t *queue)
{
    if (queue->lifecycle_last && at_barrier(queue->lifecycle_last->next))
        return; /* it came before them, or in the place of something that did */
    while (at_mark(queue->application_last))
        pass_mark(queue, list_pop(&queue->application_last));
    while (at_mark(queue->lifecycle_last))
        pass_mark(queue, list_pop(&queue->lifecycle_last));
}

/* ---- the slice ---- */

void zlink_serial_execution_queue_begin_slice(zlink_serial_execution_queue_t *queue, zlink_worker_t *worker)
{
    assert(!worker->driving);
    if (atomic_load_explicit(&queue->home, memory_order_relaxed) != worker) {
        assert(queue->suspended == 0 && !queue->held);
        atomic_store_explicit(&queue->home, worker, memory_order_relaxed);
        zlink_worker_count(&worker->steals);
    }
    worker->driving = queue;
    worker->slice_items = 0;
    worker->released_items = 0;
    worker->slice_started_ns = zlink_worker_now_ns(worker);
    if (queue->held) {
        /* Its turn goes on, and the authority with it. */
        assert(atomic_load_explicit(&queue->hold, memory_order_relaxed) == ZLINK_HOLD_READY);
        atomic_store_explicit(&queue->hold, ZLINK_HOLD_NONE, memory_order_relaxed);
        return;
    }
    queue->authority = ++worker->authorities * worker->pool->worker_count + worker->index;
}

static bool over_budget(zlink_worker_t *worker, const zlink_serial_execution_queue_t *queue)
{
    if (zlink_worker_clock_stands(worker))
        return false; /* nor was it at the last look */
    uint64_t budget_ns = queue->policy->owner_time_budget_ms * ZLINK_NS_PER_MS;
    return zlink_worker_now_ns(worker) - worker->slice_started_ns >= budget_ns;
}

/* Everything has ended, and nothing can come any more. */
static void end_queue(zlink_worker_t *worker, zlink_serial_execution_queue_t *queue)
{
    assert(!queue->quiescing && !queue->application_last && !queue->lifecycle_last);
    zlink_queue_closed_t closed = atomic_load_explicit(&queue->closed, memory_order_relaxed);
    if (queue->gate)
        atomic_fetch_sub(&queue->gate->gated, 1);
    else
        worker->driving = NULL;
    closed(queue);
}

/* Of a closed application lane: nothing is in it and nothing will come back to it. */
static bool application_has_ended(const zlink_serial_execution_queue_t *queue, uint64_t counters)
{
    return (counters & ZLINK_COUNTER_CLOSED) && zlink_lane_word_items(counters) == 0 && queue->suspended == 0 &&
           queue->marks_halfway == 0 && (queue->gate || atomic_load(&queue->gated) == 0);
}

/* The lifecycle lane was closed before the application lane was, so it only gets emptier. */
static bool lifecycle_has_ended(const zlink_serial_execution_queue_t *queue)
{
    return !zlink_lane_word_chain(&queue->lifecycle) &&
           zlink_lane_word_items(zlink_lane_word_counters(&queue->lifecycle)) == 0;
}

/* Nothing is left to run: lets the queue go, what was reserved with it, or ends it; it may be anybody's then, or freed.
 * False where something came in; the reservation is given back all the same. */
static bool let_go(zlink_worker_t *worker, zlink_serial_execution_queue_t *queue, uint64_t released)
{
    zlink_lane_word_t seen = zlink_lane_word_read(&queue->application);
    for (;;) {
        zlink_lane_word_t next = {.chain = 0, .counters = seen.counters - released};
        if (seen.chain) {
            if (released)
                zlink_lane_word_give_back(&queue->application, released);
            return false;
        }
        if (application_has_ended(queue, next.counters)) {
            /* The swap tells whether chain and counters belong together, and orders what is read next. */
            if (!zlink_lane_word_replace(&queue->application, &seen, next))
                continue;
            released = 0;
            seen = next;
            if (lifecycle_has_ended(queue)) {
                end_queue(worker, queue);
                return true;
            }
        }
        next.counters &= ~ZLINK_COUNTER_SCHEDULED;
        if (zlink_lane_word_replace(&queue->application, &seen, next))
            return true;
    }
}

static bool end_slice(zlink_worker_t *worker, zlink_serial_execution_queue_t *queue)
{
    give_back_lifecycle(worker, queue);
    bool gone = let_go(worker, queue, take_released(worker, ZLINK_LANE_APPLICATION));
    if (gone)
        worker->driving = NULL;
    room_came(worker, queue);
    return gone;
}

static bool has_work(const zlink_serial_execution_queue_t *queue)
{
    return queue->application_last || queue->lifecycle_last;
}

/* The table of contract 003 §7; the barrier slot is ahead of it. */
static inline zlink_work_item_t *choose(zlink_serial_execution_queue_t *queue)
{
    if (queue->lifecycle_last) {
        if (at_barrier(queue->lifecycle_last->next))
            return list_pop(&queue->lifecycle_last);
        if (!(queue->yield_debt && queue->application_last)) {
            if (++queue->lifecycle_burst >= queue->policy->lifecycle_burst_limit) {
                queue->yield_debt = true;
                queue->lifecycle_burst = 0;
            }
            return list_pop(&queue->lifecycle_last);
        }
    }
    zlink_work_item_t *item = list_pop_ahead(&queue->application_last);
    if (item->lane != ZLINK_LANE_NONE) { /* a mark is no application work */
        queue->yield_debt = false;
        queue->lifecycle_burst = 0;
    }
    return item;
}

/* Brings in what may have to run next. */
static inline void look(zlink_worker_t *worker, zlink_serial_execution_queue_t *queue)
{
    if (!queue->application_last || atomic_load_explicit(&queue->look, memory_order_relaxed))
        bring_in(worker, queue);
    pass_marks(queue);
}

static zlink_work_item_t *enter(zlink_worker_t *worker, zlink_work_item_t *item)
{
    worker->item = item;
    worker->item_reserved = ZLINK_COUNTER_ONE_ITEM + item->reserved_bytes;
    worker->item_lane = item->lane;
    worker->item_epoch = item->epoch;
    worker->slice_items++;
    zlink_worker_count(&worker->items);
    return item;
}

/* The slice ends, and the queue goes to the back of those that are ready. */
static zlink_work_item_t *cut(zlink_worker_t *worker, zlink_serial_execution_queue_t *queue)
{
    end_ahead(worker, queue);
    give_back(worker, queue);
    worker->driving = NULL;
    zlink_serial_execution_queue_post(queue);
    return NULL;
}

zlink_work_item_t *zlink_serial_execution_queue_next(zlink_worker_t *worker)
{
    zlink_serial_execution_queue_t *queue = worker->driving;
    zlink_work_item_t *item = queue->held;

    assert(!worker->item);
    if (item) {
        queue->held = NULL;
        return enter(worker, item);
    }
    if (queue->gate)
        return cut(worker, queue); /* it came to a gate on this turn, and goes on or ends there */
    do {
        look(worker, queue);
        if (!has_work(queue) && end_slice(worker, queue))
            return NULL;
    } while (!has_work(queue));
    if (worker->slice_items > 0 && over_budget(worker, queue))
        return cut(worker, queue);
    if (worker->unturned)
        turn_some(worker, TURNS_PER_ITEM);
    item = choose(queue);
    if (item->resumed) {
        item->resumed = false;
        queue->suspended--;
    } else {
        item->epoch = queue->epoch;
    }
    return enter(worker, item);
}

/* ---- gated queues ---- */

/* The next item of a gated queue; NULL: there was none, and the queue was let go. */
static zlink_work_item_t *claim(zlink_worker_t *worker, zlink_serial_execution_queue_t *queue)
{
    do {
        look(NULL, queue);
        if (!has_work(queue) && let_go(worker, queue, 0))
            return NULL;
    } while (!has_work(queue));
    queue->held = choose(queue);
    queue->held->epoch = queue->epoch;
    return queue->held;
}

/* The record goes to the back of the gate that this worker drives without a touch of the gate's word, and keeps what it
 * has reserved there. False, where something stands between: it came earlier. */
static bool stand_again(zlink_worker_t *worker, zlink_serial_execution_queue_t *queue)
{
    zlink_serial_execution_queue_t *gate = worker->driving;

    if (queue->gate != gate || worker->turned_last || zlink_lane_word_chain(&gate->application))
        return false;
    assert(worker->item == &queue->turn_record && !worker->item->resumed);
    list_push(&gate->application_last, &queue->turn_record);
    worker->item_lane = ZLINK_LANE_NONE;
    return true;
}

/* The item has ended: the claim goes, and the record to the back of the gate where there is more. */
static void end_claim(zlink_worker_t *worker, zlink_serial_execution_queue_t *queue, zlink_execution_lane_t lane,
                      uint64_t bytes)
{
    uint64_t released = lane == ZLINK_LANE_NONE ? 0 : ZLINK_COUNTER_ONE_ITEM + bytes;

    queue->held = NULL;
    if (lane == ZLINK_LANE_LIFECYCLE) {
        zlink_lane_word_give_back(&queue->lifecycle, released);
        released = 0;
    }
    if (has_work(queue) || queue->gate != worker->driving) {
        if (released)
            zlink_lane_word_give_back(&queue->application, released);
    } else if (let_go(worker, queue, released)) {
        room_came(worker, queue);
        return;
    }
    room_came(worker, queue);
    if (!stand_again(worker, queue))
        zlink_serial_execution_queue_post(queue);
}

zlink_work_result_t zlink_serial_execution_queue_run_turn(zlink_work_item_t *record, zlink_worker_t *worker)
{
    zlink_serial_execution_queue_t *queue = ZLINK_CONTAINER_OF(record, zlink_serial_execution_queue_t, turn_record);
    zlink_work_item_t *item = queue->held ? queue->held : claim(worker, queue);

    if (!item)
        return ZLINK_WORK_DONE;
    /* A handler that waits on its stack leaves these here and comes back to them. */
    zlink_execution_lane_t lane = (zlink_execution_lane_t)item->lane;
    uint64_t bytes = item->reserved_bytes;
    queue->authority = worker->driving->authority;
    worker->claimed = queue;
    zlink_work_result_t result = item->run(item, worker);
    if (result == ZLINK_WORK_DONE)
        end_claim(worker, queue, lane, bytes);
    return result;
}

/* ---- what an item has answered ---- */

static void item_done(zlink_worker_t *worker, zlink_serial_execution_queue_t *queue)
{
    if (worker->item_lane != ZLINK_LANE_NONE) {
        worker->released[worker->item_lane] += worker->item_reserved;
        if (++worker->released_items >= RELEASE_BATCH || zlink_room_line_is_waited_in(&worker->pool->room)) {
            worker->released_items = 0;
            give_back_and_take(worker, queue);
        }
    }
    if (worker->item_epoch != queue->epoch) {
        assert(queue->quiescing && queue->quiescing->unended_before > 0);
        queue->quiescing->unended_before--;
        quiet(queue);
    }
}

/* The queue stands still until its held item is resumed, which may have happened already. */
static void hold(zlink_worker_t *worker, zlink_serial_execution_queue_t *queue, zlink_work_item_t *item)
{
    assert(!queue->gate);
    end_ahead(worker, queue);
    give_back(worker, queue);
    queue->held = item;
    worker->driving = NULL;
    if (atomic_exchange(&queue->hold, ZLINK_HOLD_STANDING) == ZLINK_HOLD_READY) {
        atomic_store_explicit(&queue->hold, ZLINK_HOLD_NONE, memory_order_relaxed);
        worker->driving = queue;
    }
}

void zlink_serial_execution_queue_ran(zlink_worker_t *worker, zlink_work_result_t result)
{
    zlink_serial_execution_queue_t *queue = worker->driving;
    zlink_work_item_t *item = worker->item;

    assert(queue && item);
    worker->item = NULL;
    worker->claimed = NULL;
    switch (result) {
    case ZLINK_WORK_DONE:
        item_done(worker, queue);
        return;
    case ZLINK_WORK_SUSPENDED:
        queue->suspended++;
        zlink_worker_count(&worker->suspensions);
        return;
    case ZLINK_WORK_HELD:
        zlink_worker_count(&worker->suspensions);
        hold(worker, queue, item);
        return;
    }
    assert(false && "a work item answers one of the three");
}
