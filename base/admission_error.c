#include "base/admission_error.h"

#include <stdlib.h>

static zlink_admission_error_t fails(zlink_status_t status)
{
    return (zlink_admission_error_t){ZLINK_ADMISSION_FAILS, status};
}

static zlink_admission_error_t waits(zlink_status_t status)
{
    return (zlink_admission_error_t){ZLINK_ADMISSION_WAITS, status};
}

static zlink_admission_error_t observed(zlink_status_t status)
{
    return (zlink_admission_error_t){ZLINK_ADMISSION_OBSERVED, status};
}

static zlink_admission_error_t full_lane(zlink_admission_operation_t operation, bool owner_is_local)
{
    switch (operation) {
    case ZLINK_ADMISSION_REQUEST:
        return fails(owner_is_local ? ZLINK_CAPACITY_EXCEEDED : ZLINK_UNAVAILABLE);
    case ZLINK_ADMISSION_SEND:
    case ZLINK_ADMISSION_PUBLISH:
        /* What another node has to take has left this one: its caller has ended. */
        return owner_is_local ? waits(ZLINK_DEADLINE_EXCEEDED) : observed(ZLINK_UNAVAILABLE);
    case ZLINK_ADMISSION_PUBLISH_STARTED:
        return observed(owner_is_local ? ZLINK_CAPACITY_EXCEEDED : ZLINK_UNAVAILABLE);
    }
    abort(); /* no such operation */
}

zlink_admission_error_t zlink_admission_error(zlink_admission_resource_t resource,
                                              zlink_admission_operation_t operation, bool owner_is_local)
{
    switch (resource) {
    case ZLINK_ADMISSION_APPLICATION_LANE:
        return full_lane(operation, owner_is_local);
    case ZLINK_ADMISSION_LIFECYCLE_LANE:
    case ZLINK_ADMISSION_MEMORY:
        return fails(owner_is_local ? ZLINK_CAPACITY_EXCEEDED : ZLINK_UNAVAILABLE);
    case ZLINK_ADMISSION_OPERATION_TABLE:
    case ZLINK_ADMISSION_REPLY_SLOT:
    case ZLINK_ADMISSION_DISPATCHER_SLOT:
        return fails(ZLINK_CAPACITY_EXCEEDED);
    case ZLINK_ADMISSION_PLACEMENT: /* a limit of the mesh, wherever it was met; a one-way call waits as for a lane */
        return operation == ZLINK_ADMISSION_REQUEST ? fails(ZLINK_CAPACITY_EXCEEDED)
                                                    : full_lane(operation, owner_is_local);
    case ZLINK_ADMISSION_JOB_PERMIT:
        return waits(ZLINK_OK);
    case ZLINK_ADMISSION_WAITER_SLOT:
        return fails(ZLINK_DEADLINE_EXCEEDED);
    case ZLINK_ADMISSION_TARGET:
        return fails(ZLINK_NOT_FOUND);
    case ZLINK_ADMISSION_ROUTE:
        return fails(ZLINK_UNAVAILABLE);
    case ZLINK_ADMISSION_OPEN:
        return fails(ZLINK_SHUTTING_DOWN);
    case ZLINK_ADMISSION_WIRE:
        return operation == ZLINK_ADMISSION_REQUEST ? fails(ZLINK_PROTOCOL_ERROR) : observed(ZLINK_PROTOCOL_ERROR);
    }
    abort(); /* no such resource */
}
