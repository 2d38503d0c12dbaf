/*
 * exec/spot_serial_executor.h: decides on which queue each piece of a Spot's work runs (contract 000 §2 to §4).
 *
 * One per Spot, embedded in it. Any thread may submit; no caller names a queue. An accepted turn (ZLINK_OK) gets
 * `ended` exactly once; a refused one stays the caller's and does not.
 *
 *                        Spot handlers   lifecycle   timers             Actors                         yield
 *   Instance             Spot queue      Spot queue  Spot queue         none                           yes
 *   User, SpotWide       Spot queue      Spot queue  Spot queue         own queue, on the Spot's gate  yes
 *   User, PerActor       Spot queue      Spot queue  a queue per name   own queue                      no
 *   Entry                Spot queue      Spot queue  Spot queue         own queue                      no
 *
 * Its two maps, of Actors and of timer names, belong to its state lane. An Actor is in the first from add_actor to
 * remove_actor, or from the first execute_actor to its id on, which makes its queue. What looks into a map
 * (execute_actor, PerActor's execute_timer, add, remove, the Actor's wait target) enters the lane and is therefore
 * ZLINK_INVALID_OPERATION on any state lane, and the executor must stay until it returns.
 */
#ifndef ZLINK_EXEC_SPOT_SERIAL_EXECUTOR_H
#define ZLINK_EXEC_SPOT_SERIAL_EXECUTOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <zlink/spot.h>
#include <zlink/status.h>

#include "exec/actor_serial_executor.h"
#include "exec/execution_lane_policy.h"
#include "exec/execution_owner.h"
#include "exec/name_map.h"
#include "exec/serial_execution_queue.h"
#include "exec/state_lane.h"
#include "exec/turn.h"
#include "exec/worker_pool.h"

#define ZLINK_SPOT_ACTORS_DEFAULT      65536u
#define ZLINK_SPOT_ACTORS_MAX          1048576u
#define ZLINK_SPOT_TIMER_NAMES_DEFAULT 1024u
#define ZLINK_SPOT_TIMER_NAMES_MAX     65536u

typedef enum zlink_spot_execution_kind {
    ZLINK_EXECUTION_INSTANCE = 0,
    ZLINK_EXECUTION_ENTRY,
    ZLINK_EXECUTION_USER,
} zlink_spot_execution_kind_t;

typedef struct zlink_spot_serial_executor zlink_spot_serial_executor_t;
typedef void (*zlink_spot_serial_executor_closed_t)(zlink_spot_serial_executor_t *executor);

/* All fields private. */
struct zlink_spot_serial_executor {
    zlink_serial_execution_queue_t queue;
    zlink_execution_lane_policy_t policy;
    zlink_execution_owner_t owner;
    zlink_worker_pool_t *pool;
    uint8_t kind;        /* zlink_spot_execution_kind_t */
    uint8_t mode;        /* zlink_user_spot_execution_mode_t, of a User Spot */
    uint32_t actors_max; /* fixed before the first submission */
    uint32_t timers_max;
    _Atomic uint32_t open; /* queues that have not ended, its own included */
    _Atomic zlink_spot_serial_executor_closed_t closed;

    zlink_state_lane_t lane; /* it owns the maps */
    zlink_name_map_t actors;
    zlink_name_map_t timers;
    zlink_state_lane_turn_t closing;
};

/* Copies `policy`, which also the Actors get that it makes. A User Spot is SpotWide. ZLINK_INVALID_OPERATION where the
 * policy or the kind is not valid. */
zlink_status_t zlink_spot_serial_executor_init(zlink_spot_serial_executor_t *executor, zlink_worker_pool_t *pool,
                                               const zlink_execution_lane_policy_t *policy,
                                               zlink_spot_execution_kind_t kind);

/* The same for a User Spot of either mode. */
zlink_status_t zlink_spot_serial_executor_init_user(zlink_spot_serial_executor_t *executor, zlink_worker_pool_t *pool,
                                                    const zlink_execution_lane_policy_t *policy,
                                                    zlink_user_spot_execution_mode_t mode);

/* Before the first submission: at most so many Actors (1..1,048,576) and timer names (1..65,536) at once.
 * ZLINK_INVALID_OPERATION out of range. */
zlink_status_t zlink_spot_serial_executor_set_limits(zlink_spot_serial_executor_t *executor, uint32_t actors_max,
                                                     uint32_t timers_max);

/* Handler work of the Spot. ZLINK_CAPACITY_EXCEEDED: its lane is full. ZLINK_UNAVAILABLE: sealed. ZLINK_SHUTTING_DOWN:
 * closed. So are all execute_* refused. */
zlink_status_t zlink_spot_serial_executor_execute_spot(zlink_spot_serial_executor_t *executor, zlink_turn_t *turn,
                                                       uint64_t payload_bytes);

/* After execute_spot was ZLINK_CAPACITY_EXCEEDED because its lane is full: see exec/room_line.h. Who waits counts as
 * work of the Spot: it is closed only after he has left. */
zlink_status_t zlink_spot_serial_executor_await_room(zlink_spot_serial_executor_t *executor,
                                                     zlink_room_waiter_t *waiter);

/* Handler work of one Actor; id of 1..255 bytes. ZLINK_CAPACITY_EXCEEDED also: one Actor too many, or no memory.
 * ZLINK_INVALID_OPERATION: an Instance Spot, or no valid id. */
zlink_status_t zlink_spot_serial_executor_execute_actor(zlink_spot_serial_executor_t *executor, const char *actor_id,
                                                        zlink_turn_t *turn, uint64_t payload_bytes);

/* A timer's callback; name of 1..255 bytes. It reserves the fixed cost only. Errors as of execute_actor; also
 * ZLINK_CAPACITY_EXCEEDED while what was removed under that name has not ended. */
zlink_status_t zlink_spot_serial_executor_execute_timer(zlink_spot_serial_executor_t *executor, const char *timer_name,
                                                        zlink_turn_t *turn);

/* Life-time control: overtakes queued handler work; offers no yield; a seal does not keep it out. The executor must
 * stay until the call returns. */
zlink_status_t zlink_spot_serial_executor_execute_lifecycle(zlink_spot_serial_executor_t *executor, zlink_turn_t *turn);

/* `actor` becomes a member: on its own turn, from its next turn on, or while it is idle and nobody else submits to it.
 * Under SpotWide that turn may not wait any more. It belongs to its embedder still, and must stay until it has left or
 * the Spot's `closed`. ZLINK_ALREADY_EXISTS: its id is here. ZLINK_INVALID_OPERATION: an Instance Spot, it is a member
 * already or busy elsewhere. ZLINK_SHUTTING_DOWN: one of the two was closed. ZLINK_CAPACITY_EXCEEDED and
 * ZLINK_UNAVAILABLE as of execute_actor. */
zlink_status_t zlink_spot_serial_executor_add_actor(zlink_spot_serial_executor_t *executor,
                                                    zlink_actor_serial_executor_t *actor);

/* The Actor leaves. One that was added: on its own turn; from the next on it runs by itself, with all that is queued,
 * and under SpotWide this turn may not wait any more. One that execute_actor has made: nothing new (it is
 * ZLINK_SHUTTING_DOWN while what was accepted runs), then it is gone. ZLINK_NOT_FOUND: no such member.
 * ZLINK_INVALID_OPERATION: not on its turn. ZLINK_SHUTTING_DOWN: the Spot ends it. */
zlink_status_t zlink_spot_serial_executor_remove_actor(zlink_spot_serial_executor_t *executor, const char *actor_id);

/* The timer is cancelled for good: where it has a queue of its own, that one ends. Else nothing happens. */
void zlink_spot_serial_executor_remove_timer(zlink_spot_serial_executor_t *executor, const char *timer_name);

/* Until unseal, no handler work is admitted, and what gave its gate back does not go on: see zlink_turn_prepare_wait.
 * That holds for the members, too. What is called on another thread meanwhile may still get in. */
void zlink_spot_serial_executor_seal(zlink_spot_serial_executor_t *executor);
void zlink_spot_serial_executor_unseal(zlink_spot_serial_executor_t *executor);

/* Nothing new, for the Spot, its Actors and its timers together; both maps are emptied; what was accepted runs; then
 * `closed` (may be NULL) once, on a worker, outside every turn: the executor may be freed there, and its members.
 * Idempotent: the first call's callback counts. Any thread, any turn, any lane. */
void zlink_spot_serial_executor_close(zlink_spot_serial_executor_t *executor,
                                      zlink_spot_serial_executor_closed_t closed);

/* Does the calling thread hold a turn on this Spot's own gate right now? Under SpotWide also on its Actors' turns. */
bool zlink_spot_serial_executor_is_current(const zlink_spot_serial_executor_t *executor);

/* For zlink_turn_check_wait: a wait for a handler of the Spot, or of one of its Actors. */
zlink_wait_target_t zlink_spot_serial_executor_wait_target(const zlink_spot_serial_executor_t *executor);
zlink_wait_target_t zlink_spot_serial_executor_actor_wait_target(zlink_spot_serial_executor_t *executor,
                                                                 const char *actor_id);

#endif
