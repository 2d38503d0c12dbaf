/*
 * exec/actor_serial_executor.h: the serial queue of one Actor (contract 000 §2 and §3).
 *
 * One per Actor, embedded in it. Outside a membership (while the Actor is created, restored or arrives) it runs by
 * itself; inside one it is the entry of its Spot's coordinator (exec/spot_serial_executor.h), which then submits to it:
 * under SpotWide it runs on turns of its Spot, else still by itself. What is queued stays with it on every move.
 *
 * Any thread may submit. An accepted turn (ZLINK_OK) gets `ended` exactly once; a refused one stays the caller's and
 * does not. Its handlers may yield while their Spot is SpotWide, and nowhere else.
 */
#ifndef ZLINK_EXEC_ACTOR_SERIAL_EXECUTOR_H
#define ZLINK_EXEC_ACTOR_SERIAL_EXECUTOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <zlink/status.h>

#include "exec/execution_lane_policy.h"
#include "exec/execution_owner.h"
#include "exec/name_map.h"
#include "exec/serial_execution_queue.h"
#include "exec/turn.h"
#include "exec/worker_pool.h"

typedef struct zlink_actor_serial_executor zlink_actor_serial_executor_t;
typedef void (*zlink_actor_serial_executor_closed_t)(zlink_actor_serial_executor_t *executor);

struct zlink_actor_serial_executor {
    zlink_serial_execution_queue_t queue;
    zlink_execution_owner_t owner; /* under that of its Spot, if it is a member */
    zlink_name_entry_t entry;      /* its id; in the map of its Spot */
    _Atomic zlink_actor_serial_executor_closed_t closed;
    _Atomic uint32_t joins; /* exec/deferred_join.c */
    bool made_by_spot;      /* at its first use, and freed by the Spot */
};

/* `policy` and `actor_id` (1..255 bytes) must outlive it. ZLINK_INVALID_OPERATION where one of them is not valid. */
zlink_status_t zlink_actor_serial_executor_init(zlink_actor_serial_executor_t *executor, zlink_worker_pool_t *pool,
                                                const zlink_execution_lane_policy_t *policy, const char *actor_id);

/* Handler work of the Actor outside a membership. ZLINK_CAPACITY_EXCEEDED: its lane is full. ZLINK_UNAVAILABLE: sealed.
 * ZLINK_SHUTTING_DOWN: closed. */
zlink_status_t zlink_actor_serial_executor_execute_actor(zlink_actor_serial_executor_t *executor, zlink_turn_t *turn,
                                                         uint64_t payload_bytes);

/* Life-time control of the Actor itself: overtakes its queued handler work; offers no yield; a seal does not keep it
 * out. Inside a membership, too. The executor must stay until the call returns. */
zlink_status_t zlink_actor_serial_executor_execute_lifecycle(zlink_actor_serial_executor_t *executor,
                                                             zlink_turn_t *turn);

/* Right after the current turn, ahead of everything else; reserves nothing; may yield where handlers of the Actor may.
 * For a deferred join. */
zlink_status_t zlink_actor_serial_executor_execute_barrier(zlink_actor_serial_executor_t *executor, zlink_turn_t *turn);

/* Until unseal, no handler work is admitted, and what gave its gate back does not go on: see zlink_turn_prepare_wait.
 * What is called on another thread meanwhile may still get in. */
void zlink_actor_serial_executor_seal(zlink_actor_serial_executor_t *executor);
void zlink_actor_serial_executor_unseal(zlink_actor_serial_executor_t *executor);

/* Nothing new; what was accepted runs; then `closed` (may be NULL) once, on a worker: the executor may be freed there.
 * Idempotent: the first call's callback counts. Not for a member, nor while it becomes one: it leaves its Spot first,
 * or ends with it; then nobody is told. */
void zlink_actor_serial_executor_close(zlink_actor_serial_executor_t *executor,
                                       zlink_actor_serial_executor_closed_t closed);

/* Does the calling thread hold a turn of this Actor right now? */
bool zlink_actor_serial_executor_is_current(const zlink_actor_serial_executor_t *executor);

/* For zlink_turn_check_wait: a wait for something that this Actor does. On its own turns; from elsewhere its Spot's
 * coordinator answers. */
zlink_wait_target_t zlink_actor_serial_executor_wait_target(const zlink_actor_serial_executor_t *executor);

/* What a turn may know of the Actor's place, read once (contract 000 §7). */
typedef struct zlink_actor_state_snapshot {
    const char *actor_id;
    const zlink_execution_owner_t *member_of; /* identity of its Spot's coordinator; NULL outside a membership */
    bool shares_gate;                         /* SpotWide: this very turn holds the Spot's gate */
} zlink_actor_state_snapshot_t;

/* On a turn of the Actor; ZLINK_INVALID_OPERATION elsewhere. */
zlink_status_t zlink_actor_serial_executor_state_snapshot(const zlink_actor_serial_executor_t *executor,
                                                          zlink_actor_state_snapshot_t *snapshot);

/* ---- private to exec: for exec/spot_serial_executor.c ---- */

/* execute_actor on behalf of `coordinator`. */
zlink_status_t zlink_actor_serial_executor_enter(zlink_actor_serial_executor_t *executor, zlink_turn_t *turn,
                                                 uint64_t payload_bytes, const zlink_execution_owner_t *coordinator);

#endif
