/*
 * exec/io_work.h: work that is begun on a turn and whose end somebody tells later: no thread waits for it.
 *
 * What is bounded is the number of works that have begun and were not completed, those whose time is over included: a
 * works' counter, embedded by its owner. Any thread may complete; a completion after the deadline is dropped.
 */
#ifndef ZLINK_EXEC_IO_WORK_H
#define ZLINK_EXEC_IO_WORK_H

#include <stdatomic.h>
#include <stdint.h>

#include <zlink/status.h>

#include "base/container_of.h"
#include "exec/work_call.h"

typedef struct zlink_io_completion zlink_io_completion_t;

typedef struct zlink_io_works {
    uint32_t max;
    _Atomic uint64_t pending; /* and a bit that says that it is closed */
    void (*closed)(void *context);
    void *context;
} zlink_io_works_t;

/* Embedded in the record of the work as its first member. */
struct zlink_io_completion {
    zlink_work_call_t call;
    /* On the turn. ZLINK_OK: zlink_io_works_complete is or will be called, once; else nothing has begun. */
    zlink_status_t (*start)(zlink_io_completion_t *completion);
    zlink_io_works_t *works; /* private */
};

/* `max` works at a time; 0 = 65,536. */
void zlink_io_works_init(zlink_io_works_t *works, uint32_t max);

/* On the turn, with `call` initialised and its wait prepared: calls `start`. ZLINK_OK: the record is held until it was
 * completed. ZLINK_CAPACITY_EXCEEDED or ZLINK_SHUTTING_DOWN: there is no room, or no works are begun any more. Any
 * other: what `start` answered. Refused, the record is the caller's as before. */
zlink_status_t zlink_io_works_start(zlink_io_works_t *works, zlink_io_completion_t *completion);

/* Any thread, once for each that was started. The record may be gone afterwards. */
void zlink_io_works_complete(zlink_io_completion_t *completion, zlink_status_t status);

/* Nothing new. Calls `closed` once, on any thread, when every work was completed: how long to wait for that is the
 * caller's business. */
void zlink_io_works_close(zlink_io_works_t *works, void (*closed)(void *context), void *context);

/* Any thread; a moment old. */
uint64_t zlink_io_works_pending(const zlink_io_works_t *works);

/* The completion of its call. */
static inline zlink_io_completion_t *zlink_io_completion_of(zlink_work_call_t *call)
{
    return ZLINK_CONTAINER_OF(call, zlink_io_completion_t, call);
}

#endif
