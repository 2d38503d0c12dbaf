/*
 * exec/state_lane.h: one turn at a time over the mutable state of one component (contract 000 §2, §7, §8).
 *
 * Embedded by the component that owns the state; what the lane guards are plain, unlocked collections. Any thread may
 * call. A free lane is taken with one atomic instruction and the turn runs on the caller; where it is busy, the turn is
 * queued and whoever holds the lane runs it (combining). Turns run in the order in which they came, posted ones and
 * waited-for ones in one line; nothing is limited, nothing overtakes. The lane is no serial execution queue: no payload
 * waits in it and no handler runs on it.
 *
 * A turn is short and waits for nothing: no gate, no other lane, no reply. So a thread that is on a lane, this one or
 * another, cannot enter a lane with zlink_state_lane_run (two of them would wait for each other): it is
 * ZLINK_INVALID_OPERATION whether the other lane is free or not. Posting never waits and is allowed everywhere. Long
 * operations and callbacks start outside: a first turn commits the state, then, after run has returned or in
 * `completed`, the operation is started, and a later turn settles it. Whatever thread they run on, turns and
 * `completed` are infrastructure (base/domain.h): the handler on whose stack they may stand is not theirs, and cannot
 * be parked.
 *
 * The lane must stay until every call on it has returned. Only the last accepted turn's `completed` may free it where
 * no other call is under way.
 */
#ifndef ZLINK_EXEC_STATE_LANE_H
#define ZLINK_EXEC_STATE_LANE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <zlink/status.h>

typedef struct zlink_state_lane zlink_state_lane_t;
typedef struct zlink_state_lane_turn zlink_state_lane_turn_t;

/* A posted turn. The poster owns it and sets `run` and `completed`; from an accepted post until `completed` is called
 * it belongs to the lane. */
struct zlink_state_lane_turn {
    zlink_state_lane_turn_t *next;              /* private */
    void (*run)(zlink_state_lane_turn_t *turn); /* on the lane */
    /* After `run`, once, on the thread that ran it but on no lane: what `run` did is committed, a lane may be entered,
     * the turn may be freed or posted again. Must not wait for long. NULL: `run` may free the turn. */
    void (*completed)(zlink_state_lane_turn_t *turn);
};

/* All fields private. */
struct zlink_state_lane {
    _Atomic uintptr_t word;         /* see state_lane.c */
    zlink_state_lane_turn_t *ready; /* taken from the word, in order; the holder's */
};

void zlink_state_lane_init(zlink_state_lane_t *lane);

/* Runs body(context) as one turn of the lane and returns when it has run: here where the lane is free, else on the
 * thread that holds it, which the caller waits for. Inside an executor's turn it is allowed: a gate may wait for a
 * lane. ZLINK_INVALID_OPERATION: the calling thread is on this lane (reentry) or on another. ZLINK_SHUTTING_DOWN:
 * closed. The body does not run then. */
zlink_status_t zlink_state_lane_run(zlink_state_lane_t *lane, void (*body)(void *context), void *context);

/* Never waits (the reactor's form): the turn runs here where the lane is free, else later on the thread that holds it.
 * ZLINK_SHUTTING_DOWN: closed; the turn stays the caller's, neither `run` nor `completed` is called. */
zlink_status_t zlink_state_lane_post(zlink_state_lane_t *lane, zlink_state_lane_turn_t *turn);

/* Does the calling thread run a turn of this lane right now? Everything that touches the lane's state asserts it. */
bool zlink_state_lane_is_on_lane(const zlink_state_lane_t *lane);

/* The answer, without waiting, that run would give for where the calling thread stands: ZLINK_INVALID_OPERATION where
 * it is on this lane or on another. For places that enter the lane only later. */
zlink_status_t zlink_state_lane_throw_if_reentrant(const zlink_state_lane_t *lane);

/* Takes nothing new; what was accepted runs. Idempotent; also from a turn of the lane. */
void zlink_state_lane_close(zlink_state_lane_t *lane);

#endif
