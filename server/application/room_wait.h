/*
 * server/application/room_wait.h: a one-way message of this node whose target's lane is full waits for room.
 *
 * It waits in the line of exec/room_line.h, up to its sender's time, and goes into the lane once, by the hand of
 * whoever gives room back. Until then it is no work of its target's queue, but counts like accepted work, so that the
 * target stays: see zlink_spot_hold and zlink_channel_host_hold. Two ways to wait: of a handler, on its turn, and of
 * anybody else, who is told.
 */
#ifndef ZLINK_SERVER_ROOM_WAIT_H
#define ZLINK_SERVER_ROOM_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include <zlink/cancellation.h>
#include <zlink/status.h>

#include "base/timer_wheel.h"
#include "exec/room_line.h"
#include "exec/turn.h"
#include "server/application/cancellation.h"
#include "server/application/invocation.h"

typedef struct zlink_room_wait zlink_room_wait_t;

/* Embedded in what waits, which stays until the wait has ended or was left. */
struct zlink_room_wait {
    void (*ended)(zlink_room_wait_t *wait, zlink_status_t status); /* ZLINK_OK: taken. Any thread, once */

    /* Its own. */
    zlink_room_waiter_t waiter;
    zlink_invocation_t *invocation;
};

/* `invocation` is held by its owner. It is the wait's from here on, and freed where it is not taken; `ended` may be
 * called inside. ZLINK_CAPACITY_EXCEEDED: there is no place to wait, the invocation is gone, `ended` is not called. Any
 * thread. */
zlink_status_t zlink_room_wait_begin(zlink_room_wait_t *wait, zlink_invocation_t *invocation);

/* True: it had not ended, and `ended` is not called any more. Any thread that knows that the wait is still there. */
bool zlink_room_wait_leave(zlink_room_wait_t *wait);

/* The same, because its time is over. */
bool zlink_room_wait_expire(zlink_room_wait_t *wait);

/* ---- on a turn ---- */

/* A handler's wait; lies on its stack. */
typedef struct zlink_turn_room {
    zlink_turn_t *turn;
    zlink_wait_t wait;
    zlink_room_wait_t room;
    zlink_timer_t deadline;
    zlink_cancellation_entry_t cancellation;
} zlink_turn_room_t;

/* The gate is given away for the time of the wait where the turn may yield. Errors of zlink_turn_prepare_wait, but
 * ZLINK_DEADLINE_EXCEEDED where the turn has no way to wait now. */
zlink_status_t zlink_turn_room_prepare(zlink_turn_room_t *room, zlink_turn_t *turn);

/* Prepared, and it turned out that there is nothing to wait for. */
void zlink_turn_room_abandon(zlink_turn_room_t *room);

/* Waits with the held `invocation`, which is not the caller's any more whatever the answer is: ZLINK_OK (taken),
 * ZLINK_DEADLINE_EXCEEDED (no place to wait, or `deadline_ms` is over), ZLINK_CANCELLED, or what the target or the
 * caller's own owner has to say meanwhile. `cancellation` may be NULL. */
zlink_status_t zlink_turn_room_wait(zlink_turn_room_t *room, zlink_invocation_t *invocation, uint64_t deadline_ms,
                                    zlink_cancellation_t *cancellation);

#endif
