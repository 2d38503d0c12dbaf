#include "server/application/room_wait.h"

#include "base/admission_error.h"
#include "base/container_of.h"
#include "base/counters.h"
#include "server/application/application_host.h"
#include "server/application/channel_host.h"
#include "server/application/spot.h"

ZLINK_COUNTER_DEFINE(room_waits, ZLINK_COUNTER, "zlink.host.send_room.waits",
                     "One-way messages that found a queue of this node full and waited");
ZLINK_COUNTER_DEFINE(room_waiting, ZLINK_GAUGE, "zlink.host.send_room.waiting", "Those that wait now");
ZLINK_COUNTER_DEFINE(room_no_place, ZLINK_COUNTER, "zlink.host.send_room.no_place",
                     "Those that found no place to wait either");
ZLINK_COUNTER_DEFINE(room_expired, ZLINK_COUNTER, "zlink.host.send_room.expired", "Those whose time was over first");

/* Under a lock of the line. */
static zlink_status_t admit(zlink_room_waiter_t *waiter)
{
    zlink_invocation_t *invocation = ZLINK_CONTAINER_OF(waiter, zlink_room_wait_t, waiter)->invocation;
    return invocation->spot ? zlink_spot_admit_held(invocation->spot, invocation)
                            : zlink_channel_host_admit_held(invocation->channel, invocation);
}

/* It does not go in any more. */
static void drop(zlink_invocation_t *invocation)
{
    zlink_application_host_t *host = invocation->host;
    zlink_spot_t *spot = invocation->spot;
    zlink_invocation_free(invocation);
    if (spot)
        zlink_spot_left(spot);
    zlink_application_host_ended(host);
}

static void ended(zlink_room_waiter_t *waiter, zlink_status_t status)
{
    zlink_room_wait_t *wait = ZLINK_CONTAINER_OF(waiter, zlink_room_wait_t, waiter);
    zlink_counter_add(&room_waiting, -1);
    if (status != ZLINK_OK)
        drop(wait->invocation);
    wait->ended(wait, status);
}

zlink_status_t zlink_room_wait_begin(zlink_room_wait_t *wait, zlink_invocation_t *invocation)
{
    zlink_spot_t *spot = invocation->spot;
    wait->waiter.admit = admit;
    wait->waiter.ended = ended;
    wait->invocation = invocation;
    zlink_counter_add(&room_waiting, 1);
    zlink_status_t status =
        spot ? zlink_spot_serial_executor_await_room(&spot->executor, &wait->waiter)
             : zlink_channel_serial_executor_await_room(&invocation->channel->executor, &wait->waiter);
    if (status == ZLINK_OK) {
        zlink_counter_add(&room_waits, 1);
        return ZLINK_OK;
    }
    zlink_counter_add(&room_waiting, -1);
    zlink_counter_add(&room_no_place, 1);
    drop(invocation);
    return status;
}

bool zlink_room_wait_leave(zlink_room_wait_t *wait)
{
    zlink_invocation_t *invocation = wait->invocation;
    if (!zlink_room_line_leave(&wait->waiter))
        return false;
    zlink_counter_add(&room_waiting, -1);
    drop(invocation);
    return true;
}

bool zlink_room_wait_expire(zlink_room_wait_t *wait)
{
    bool left = zlink_room_wait_leave(wait);
    if (left)
        zlink_counter_add(&room_expired, 1);
    return left;
}

/* ---- on a turn ---- */

static void taken(zlink_room_wait_t *wait, zlink_status_t status)
{
    zlink_wait_complete(&ZLINK_CONTAINER_OF(wait, zlink_turn_room_t, room)->wait, status);
}

static void time_is_over(zlink_timer_t *timer)
{
    zlink_turn_room_t *room = ZLINK_CONTAINER_OF(timer, zlink_turn_room_t, deadline);
    if (zlink_room_wait_expire(&room->room))
        zlink_wait_complete(&room->wait, ZLINK_DEADLINE_EXCEEDED);
}

/* Any thread; the wait is there, because it leaves the cancellation before it ends. */
static void cancelled(zlink_cancellation_entry_t *entry)
{
    zlink_turn_room_t *room = ZLINK_CONTAINER_OF(entry, zlink_turn_room_t, cancellation);
    if (zlink_room_wait_leave(&room->room))
        zlink_wait_complete(&room->wait, ZLINK_CANCELLED);
}

zlink_status_t zlink_turn_room_prepare(zlink_turn_room_t *room, zlink_turn_t *turn)
{
    bool yields = zlink_turn_check_wait(turn, ZLINK_WAIT_YIELD, NULL) == ZLINK_OK;
    *room = (zlink_turn_room_t){.turn = turn, .room.ended = taken, .deadline.fire = time_is_over};
    zlink_status_t status =
        zlink_turn_prepare_wait(turn, &room->wait, yields ? ZLINK_WAIT_YIELD : ZLINK_WAIT_ASYNC, NULL, NULL);
    return status == ZLINK_INVALID_OPERATION ? ZLINK_DEADLINE_EXCEEDED : status;
}

void zlink_turn_room_abandon(zlink_turn_room_t *room)
{
    zlink_turn_abandon_wait(room->turn, &room->wait);
}

zlink_status_t zlink_turn_room_wait(zlink_turn_room_t *room, zlink_invocation_t *invocation, uint64_t deadline_ms,
                                    zlink_cancellation_t *cancellation)
{
    if (zlink_room_wait_begin(&room->room, invocation) != ZLINK_OK) {
        zlink_turn_room_abandon(room);
        return zlink_admission_error(ZLINK_ADMISSION_WAITER_SLOT, ZLINK_ADMISSION_SEND, true).status;
    }
    zlink_worker_timer_start(room->turn->worker, &room->deadline, deadline_ms);
    room->cancellation.cancelled = cancelled;
    if (cancellation && !zlink_cancellation_enter(cancellation, &room->cancellation))
        cancelled(&room->cancellation);
    zlink_status_t status = zlink_turn_wait(room->turn, &room->wait);
    zlink_cancellation_leave(&room->cancellation);
    if (zlink_timer_is_running(&room->deadline))
        zlink_worker_timer_cancel(room->turn->worker, &room->deadline);
    return status;
}
