/*
 * exec/serial_execution_queue.h: work of one owner, one item at a time, in order (contract 000 §6, contract 003 §7).
 *
 * Two lanes with limits of their own, the barrier slot ahead of both, and resume records at the back of the application
 * lane. A coordinator embeds the queue and owns its life; nobody else names it. Any thread may submit: admission on
 * both axes, the place in the order and the insertion are one compare-and-swap over a 16-byte word, and whoever puts
 * the first thing into an idle queue posts it to the worker pool. Work never runs on the submitter's stack.
 *
 * A gated queue (a member Actor's under SpotWide) is not driven by a worker itself: whenever it has work, its one turn
 * record stands on the application lane of the queue that is its gate, and each turn of that record runs one item. The
 * record reserves one fixed cost there and is never refused. While such an item waits, suspended or held, the record
 * does too, and the claim on the gated queue stays: its next item does not run (contract 000 §4).
 *
 * Memory: the queue may be freed inside its `closed` callback, where nothing touches it any more. Accepted application
 * work and resumes need no further care; a caller of enqueue_lifecycle, enqueue_barrier_next and await_quiescence sees
 * to it that the queue stays until the call has returned (on a turn of the queue it does).
 */
#ifndef ZLINK_EXEC_SERIAL_EXECUTION_QUEUE_H
#define ZLINK_EXEC_SERIAL_EXECUTION_QUEUE_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <zlink/status.h>

#include "exec/execution_lane_policy.h"
#include "exec/room_line.h"
#include "exec/work_item.h"
#include "exec/worker_pool.h"

typedef struct zlink_serial_execution_queue zlink_serial_execution_queue_t;

typedef void (*zlink_queue_closed_t)(zlink_serial_execution_queue_t *queue);

/* The admission word of a lane; see serial_execution_queue.c for what is in it. */
typedef union zlink_lane_word {
    unsigned __int128 whole;
    struct {
        uint64_t chain;    /* newest item first; the lowest bit says "look at the lifecycle lane and the barrier" */
        uint64_t counters; /* bytes, items, flags */
    };
} zlink_lane_word_t;

/* A wait for quiescence. Set `reached`; valid until it is called, once, on a worker and outside every turn. */
typedef struct zlink_quiescence zlink_quiescence_t;
struct zlink_quiescence {
    void (*reached)(zlink_quiescence_t *quiescence);
    zlink_quiescence_t *next;
    zlink_quiescence_t *next_round; /* of the first: those who wait for the round after this one */
    zlink_work_item_t application_mark;
    zlink_work_item_t lifecycle_mark;
    uint32_t unended_before; /* of the first: items of the earlier epoch that have not ended */
    uint8_t marks_passed;
};

struct zlink_serial_execution_queue {
    /* Any thread. */
    alignas(16) zlink_lane_word_t application;
    zlink_lane_word_t lifecycle; /* the barrier slot's items come in here too */
    const zlink_execution_lane_policy_t *policy;
    _Atomic zlink_queue_closed_t closed; /* set by the first close */

    /* Whoever holds the authority. */
    zlink_quiescence_t *quiescing; /* wait for what was running when their marks were passed */
    uint64_t authority;            /* the fencing number of the current or last acquisition (contract 003 §6) */
    /* From here on what is used for every item, a cache line away from the word that submitters change. */
    zlink_serial_execution_queue_t *gate; /* NULL: a worker drives it */
    zlink_work_item_t *application_last;  /* rings: the last item points at the first */
    zlink_work_item_t *lifecycle_last;    /* the barrier slot's items stand at its front */
    zlink_work_item_t *held; /* waits and keeps the turn; of a gated queue also the item that runs: the claim */
    _Atomic uint8_t look;    /* set after something came into the lifecycle lane or the barrier slot */
    _Atomic uint8_t hold;    /* the hand-shake of a held item */
    uint8_t epoch;
    bool yield_debt;
    uint32_t lifecycle_burst;
    uint32_t suspended; /* items that answered ZLINK_WORK_SUSPENDED and were not taken up again; of a gate, records */
    uint32_t marks_halfway; /* waits for quiescence of which only one mark was passed */
    union {
        /* Of a gated queue: stands for it on its gate. */
        zlink_work_item_t turn_record;
        /* Of every other one. */
        struct {
            zlink_serial_execution_queue_t *ready_next; /* in a ready ring */
            _Atomic(zlink_worker_t *) home;             /* where it runs; a thief becomes its home */
            _Atomic uint32_t gated;                     /* queues whose gate this is, ended ones not counted */
        };
    };
};

/* `policy` is validated by the coordinator and must outlive the queue. Its home is one of the pool's workers. */
void zlink_serial_execution_queue_init(zlink_serial_execution_queue_t *queue, zlink_worker_pool_t *pool,
                                       const zlink_execution_lane_policy_t *policy);

/* Its items run on turns of `gate` from now on; NULL: on turns of its own. Before the first submission, or on a turn of
 * the queue, then from its next turn on; no item of it may be suspended. `gate` ends only after the queues that it
 * gates have ended or left; the coordinator sees to it that nobody comes to a closed gate. */
void zlink_serial_execution_queue_set_gate(zlink_serial_execution_queue_t *queue, zlink_serial_execution_queue_t *gate);

/* ZLINK_OK: the queue has the item. ZLINK_CAPACITY_EXCEEDED: the lane is full. ZLINK_SHUTTING_DOWN: it was closed. A
 * refused item is the caller's still, and nothing else has changed. */
zlink_status_t zlink_serial_execution_queue_enqueue(zlink_serial_execution_queue_t *queue, zlink_work_item_t *item);
zlink_status_t zlink_serial_execution_queue_enqueue_with_payload_bytes(zlink_serial_execution_queue_t *queue,
                                                                       zlink_work_item_t *item, uint64_t payload_bytes);
zlink_status_t zlink_serial_execution_queue_enqueue_lifecycle(zlink_serial_execution_queue_t *queue,
                                                              zlink_work_item_t *item);

/* After one of the two was ZLINK_CAPACITY_EXCEEDED: `waiter` stands in line for room in the application lane of a queue
 * that a worker drives. ZLINK_CAPACITY_EXCEEDED: no place in the line. See exec/room_line.h. */
zlink_status_t zlink_serial_execution_queue_await_room(zlink_serial_execution_queue_t *queue,
                                                       zlink_room_waiter_t *waiter);

/* At the back of the application lane, however full it is: reserves nothing. ZLINK_SHUTTING_DOWN: it was closed. For
 * marks, whose number their owner limits. */
zlink_status_t zlink_serial_execution_queue_enqueue_mark(zlink_serial_execution_queue_t *queue,
                                                         zlink_work_item_t *item);

/* Right after the current turn, ahead of both lanes; several in the order in which they came. Reserves nothing. */
zlink_status_t zlink_serial_execution_queue_enqueue_barrier_next(zlink_serial_execution_queue_t *queue,
                                                                 zlink_work_item_t *item);

/* Brings back an item that answers ZLINK_WORK_SUSPENDED: at the back of the application lane, never refused. */
void zlink_serial_execution_queue_resume(zlink_serial_execution_queue_t *queue, zlink_work_item_t *item);

/* Brings back the item that answers ZLINK_WORK_HELD: it goes on before anything else of its queue. */
void zlink_serial_execution_queue_resume_held(zlink_serial_execution_queue_t *queue);

/* Does the calling thread hold a turn of this queue right now? */
bool zlink_serial_execution_queue_is_current(const zlink_serial_execution_queue_t *queue);

/* True from the first close on. */
bool zlink_serial_execution_queue_is_closed(const zlink_serial_execution_queue_t *queue);

/* Calls `reached` when everything that was queued before has ended, suspended work included. ZLINK_INVALID_OPERATION
 * inside the queue's own turn, ZLINK_SHUTTING_DOWN after close (which has a callback of its own). */
zlink_status_t zlink_serial_execution_queue_await_quiescence(zlink_serial_execution_queue_t *queue,
                                                             zlink_quiescence_t *quiescence);

/* Nothing new is accepted; what was accepted runs; then `closed` (may be NULL) is called once on a worker, outside
 * every turn, as the last touch of the queue. Idempotent: the first call's callback counts. */
void zlink_serial_execution_queue_close(zlink_serial_execution_queue_t *queue, zlink_queue_closed_t closed);

#endif
