/*
 * exec/work_call.h: a turn's wait for work that somebody else does off the turn: the record that both sides hold.
 *
 * The turn holds it, and so does whoever does the work; the later of the two lets go of it, and only then `gone` frees
 * it. So what stands in the record (the work's input, output and token) lives until the work has ended, also where the
 * turn has long gone on. The end of the work and the deadline compete: the first decides and completes the wait, the
 * other is late and changes nothing.
 *
 * On the turn: init, zlink_turn_prepare_wait on `wait`, hand over (zlink_cpu_worker_pool_submit, zlink_io_works_start),
 * start_deadline, wait, finish. Where something before the wait is refused: zlink_turn_abandon_wait if it was prepared,
 * then let_go.
 */
#ifndef ZLINK_EXEC_WORK_CALL_H
#define ZLINK_EXEC_WORK_CALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <zlink/status.h>

#include "base/timer_wheel.h"
#include "exec/stop_token.h"
#include "exec/turn.h"

typedef struct zlink_work_call zlink_work_call_t;

struct zlink_work_call {
    zlink_wait_t wait;
    zlink_stop_token_t stop;
    zlink_turn_t *turn; /* while it waits */
    zlink_timer_t deadline;
    _Atomic uint32_t holders;
    _Atomic bool decided; /* by the work or by the deadline: whoever sets it completes the wait */
    /* Takes work back that has not begun: true, and whoever had it does not hold it any more. NULL: nobody can. */
    bool (*withdraw)(zlink_work_call_t *call);
    void (*gone)(zlink_work_call_t *call); /* on any thread; frees the record */
};

/* The turn holds it. */
void zlink_work_call_init(zlink_work_call_t *call, zlink_turn_t *turn, void (*gone)(zlink_work_call_t *call));

/* Right before it is handed over: whoever does the work holds it, too. */
void zlink_work_call_lend(zlink_work_call_t *call);

/* On the turn, once it was handed over: at `deadline_ms` of the pool's clock the wait ends with
 * ZLINK_DEADLINE_EXCEEDED, and the token says stop. */
void zlink_work_call_start_deadline(zlink_work_call_t *call, uint64_t deadline_ms);

/* The work has ended; any thread, once; the record may be gone afterwards. False: too late, nobody learns of it. */
bool zlink_work_call_end(zlink_work_call_t *call, zlink_status_t status);

/* On the turn, after the wait and after what the work has left there was used: the record may be gone afterwards. */
void zlink_work_call_finish(zlink_work_call_t *call);

/* One holder less. */
void zlink_work_call_let_go(zlink_work_call_t *call);

#endif
