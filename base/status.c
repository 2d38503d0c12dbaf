#include <zlink/status.h>

#include <stddef.h>

static const char *const status_names[ZLINK_STATUS_COUNT] = {
    [ZLINK_OK] = "Ok",
    [ZLINK_NOT_FOUND] = "NotFound",
    [ZLINK_ALREADY_EXISTS] = "AlreadyExists",
    [ZLINK_TYPE_MISMATCH] = "TypeMismatch",
    [ZLINK_NOT_CONFIGURED] = "NotConfigured",
    [ZLINK_REJECTED] = "Rejected",
    [ZLINK_UNAVAILABLE] = "Unavailable",
    [ZLINK_CAPACITY_EXCEEDED] = "CapacityExceeded",
    [ZLINK_DEADLINE_EXCEEDED] = "DeadlineExceeded",
    [ZLINK_SHUTTING_DOWN] = "ShuttingDown",
    [ZLINK_PROTOCOL_ERROR] = "ProtocolError",
    [ZLINK_INVALID_OPERATION] = "InvalidOperation",
    [ZLINK_DATA_LOST] = "DataLost",
    [ZLINK_INTERNAL_FAILURE] = "InternalFailure",
};

const char *zlink_status_name(zlink_status_t status)
{
    if (status == ZLINK_CANCELLED)
        return "Cancelled";
    if ((unsigned)status >= ZLINK_STATUS_COUNT)
        return "Unknown";
    return status_names[status];
}
