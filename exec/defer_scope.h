/*
 * exec/defer_scope.h: the joins that one handler defers until it has ended (contract 003 §5).
 *
 * The scope is open from the handler's first instruction until its last continuation has ended, over every wait in
 * between. Then, on the handler's last turn, before the turn's `ended` and after its `settle`, all joins are activated
 * if the handler ended with ZLINK_OK and its owner is not closed; otherwise they are disposed of. Both in the order in
 * which they were deferred.
 *
 * A turn has a scope only once it has deferred something; exec owns it.
 */
#ifndef ZLINK_EXEC_DEFER_SCOPE_H
#define ZLINK_EXEC_DEFER_SCOPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zlink/status.h>

#include "exec/actor_serial_executor.h"
#include "exec/deferred_join.h"
#include "exec/turn.h"

#define ZLINK_DEFER_JOINS_MAX          64
#define ZLINK_DEFER_REQUEST_BYTES_MAX  ((size_t)1 << 20)
#define ZLINK_DEFER_TOTAL_BYTES_MAX    ((size_t)8 << 20)
#define ZLINK_DEFER_TIMEOUT_DEFAULT_MS 5000u

/* Registers a join of `target`, to start after the calling handler has ended well, and marks its place in the target's
 * order. Returns at once; gives neither gate nor claim back; what becomes of the join is told to `calls` only. Nothing
 * is kept of a refused one.
 * ZLINK_INVALID_OPERATION: not on this turn, it is ending, it is none that may defer, or an option is not valid.
 * ZLINK_CAPACITY_EXCEEDED: a limit above, memory, or the marks that stand in the target's queue (1,024).
 * ZLINK_UNAVAILABLE: another join of the target is pending, or the handler's owner or the target is sealed.
 * ZLINK_SHUTTING_DOWN: the handler's owner or the target was closed. */
zlink_status_t zlink_turn_defer(zlink_turn_t *turn, zlink_actor_serial_executor_t *target,
                                const zlink_defer_options_t *options);

/* ---- private to exec ---- */

/* Has the turn deferred a join of the Actor that `target` is? Waiting for that one would never end. */
bool zlink_defer_scope_bars(const zlink_turn_t *turn, const zlink_wait_target_t *target);

/* For turn.c: the handler has ended. */
void zlink_defer_scope_end(zlink_turn_t *turn, zlink_status_t status);

#endif
