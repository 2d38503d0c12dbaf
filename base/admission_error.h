/*
 * base/admission_error.h: what a caller is told when its call finds no room or no way: the one place of that decision
 * (EX-55).
 *
 * The question is whose the resource is that failed: one of this runtime can be waited for or is CapacityExceeded, one
 * of another is Unavailable. A pure function; it lives in base/ because mesh, executors and the application side ask
 * it, each for the resources that it knows.
 */
#ifndef ZLINK_BASE_ADMISSION_ERROR_H
#define ZLINK_BASE_ADMISSION_ERROR_H

#include <stdbool.h>

#include <zlink/status.h>

/* What failed. */
typedef enum zlink_admission_resource {
    ZLINK_ADMISSION_APPLICATION_LANE = 0, /* of a Spot, an Actor or a channel */
    ZLINK_ADMISSION_LIFECYCLE_LANE,
    ZLINK_ADMISSION_OPERATION_TABLE,
    ZLINK_ADMISSION_REPLY_SLOT,
    ZLINK_ADMISSION_DISPATCHER_SLOT,
    ZLINK_ADMISSION_JOB_PERMIT,
    ZLINK_ADMISSION_WAITER_SLOT, /* a place to wait for room on the way out */
    ZLINK_ADMISSION_PLACEMENT,   /* room for one more object */
    ZLINK_ADMISSION_MEMORY,
    ZLINK_ADMISSION_TARGET, /* no authority, mesh, server or handler is known */
    ZLINK_ADMISSION_ROUTE,  /* known, and no way there now */
    ZLINK_ADMISSION_OPEN,   /* that anything new is taken at all */
    ZLINK_ADMISSION_WIRE,   /* bad bytes, no codec */
} zlink_admission_resource_t;

typedef enum zlink_admission_operation {
    ZLINK_ADMISSION_SEND = 0, /* every one-way call */
    ZLINK_ADMISSION_REQUEST,
    ZLINK_ADMISSION_PUBLISH,         /* nothing has gone out yet */
    ZLINK_ADMISSION_PUBLISH_STARTED, /* some targets have it */
} zlink_admission_operation_t;

typedef enum zlink_admission_verdict {
    ZLINK_ADMISSION_FAILS = 0, /* now, with `status` */
    ZLINK_ADMISSION_WAITS, /* for room, and ends with `status` when its time is over; ZLINK_OK: there is no such time */
    ZLINK_ADMISSION_OBSERVED, /* the caller is told nothing; `status` is for the counter and the log */
} zlink_admission_verdict_t;

typedef struct zlink_admission_error {
    zlink_admission_verdict_t verdict;
    zlink_status_t status;
} zlink_admission_error_t;

/* `owner_is_local`: the resource belongs to the runtime in which the caller is. */
zlink_admission_error_t zlink_admission_error(zlink_admission_resource_t resource,
                                              zlink_admission_operation_t operation, bool owner_is_local);

#endif
