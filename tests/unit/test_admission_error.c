/*
 * What a caller is told of each resource that can fail it.
 */
#include "harness.h"

#include <string.h>

#include "base/admission_error.h"

#define HERE  true
#define THERE false

typedef struct row {
    const char *what;
    zlink_admission_resource_t resource;
    zlink_admission_operation_t operation;
    bool owner_is_local;
    zlink_admission_verdict_t verdict;
    zlink_status_t status;
} row_t;

#define LANE      ZLINK_ADMISSION_APPLICATION_LANE
#define LIFECYCLE ZLINK_ADMISSION_LIFECYCLE_LANE
#define SEND      ZLINK_ADMISSION_SEND
#define REQUEST   ZLINK_ADMISSION_REQUEST
#define PUBLISH   ZLINK_ADMISSION_PUBLISH
#define STARTED   ZLINK_ADMISSION_PUBLISH_STARTED
#define FAILS     ZLINK_ADMISSION_FAILS
#define WAITS     ZLINK_ADMISSION_WAITS
#define OBSERVED  ZLINK_ADMISSION_OBSERVED

static const row_t rows[] = {
    {"a lane here, one-way", LANE, SEND, HERE, WAITS, ZLINK_DEADLINE_EXCEEDED},
    {"a lane here, request", LANE, REQUEST, HERE, FAILS, ZLINK_CAPACITY_EXCEEDED},
    {"a lane elsewhere, one-way", LANE, SEND, THERE, OBSERVED, ZLINK_UNAVAILABLE},
    {"a lane elsewhere, request", LANE, REQUEST, THERE, FAILS, ZLINK_UNAVAILABLE},
    {"a lane here, publish", LANE, PUBLISH, HERE, WAITS, ZLINK_DEADLINE_EXCEEDED},
    {"a lane here, publish under way", LANE, STARTED, HERE, OBSERVED, ZLINK_CAPACITY_EXCEEDED},
    {"a lane elsewhere, publish", LANE, PUBLISH, THERE, OBSERVED, ZLINK_UNAVAILABLE},
    {"a lane elsewhere, publish under way", LANE, STARTED, THERE, OBSERVED, ZLINK_UNAVAILABLE},
    {"lifecycle here, one-way", LIFECYCLE, SEND, HERE, FAILS, ZLINK_CAPACITY_EXCEEDED},
    {"lifecycle here, request", LIFECYCLE, REQUEST, HERE, FAILS, ZLINK_CAPACITY_EXCEEDED},
    {"lifecycle elsewhere, one-way", LIFECYCLE, SEND, THERE, FAILS, ZLINK_UNAVAILABLE},
    {"lifecycle elsewhere, request", LIFECYCLE, REQUEST, THERE, FAILS, ZLINK_UNAVAILABLE},
    {"operation table, one-way", ZLINK_ADMISSION_OPERATION_TABLE, SEND, HERE, FAILS, ZLINK_CAPACITY_EXCEEDED},
    {"operation table, request", ZLINK_ADMISSION_OPERATION_TABLE, REQUEST, HERE, FAILS, ZLINK_CAPACITY_EXCEEDED},
    {"reply slot, request", ZLINK_ADMISSION_REPLY_SLOT, REQUEST, HERE, FAILS, ZLINK_CAPACITY_EXCEEDED},
    {"dispatcher slot, one-way", ZLINK_ADMISSION_DISPATCHER_SLOT, SEND, HERE, FAILS, ZLINK_CAPACITY_EXCEEDED},
    {"dispatcher slot, request", ZLINK_ADMISSION_DISPATCHER_SLOT, REQUEST, HERE, FAILS, ZLINK_CAPACITY_EXCEEDED},
    {"job permit, one-way", ZLINK_ADMISSION_JOB_PERMIT, SEND, HERE, WAITS, ZLINK_OK},
    {"job permit, request", ZLINK_ADMISSION_JOB_PERMIT, REQUEST, HERE, WAITS, ZLINK_OK},
    {"waiter slot, one-way", ZLINK_ADMISSION_WAITER_SLOT, SEND, HERE, FAILS, ZLINK_DEADLINE_EXCEEDED},
    {"waiter slot, request", ZLINK_ADMISSION_WAITER_SLOT, REQUEST, HERE, FAILS, ZLINK_DEADLINE_EXCEEDED},
    {"placement here, request", ZLINK_ADMISSION_PLACEMENT, REQUEST, HERE, FAILS, ZLINK_CAPACITY_EXCEEDED},
    {"placement elsewhere, request", ZLINK_ADMISSION_PLACEMENT, REQUEST, THERE, FAILS, ZLINK_CAPACITY_EXCEEDED},
    {"placement here, one-way", ZLINK_ADMISSION_PLACEMENT, SEND, HERE, WAITS, ZLINK_DEADLINE_EXCEEDED},
    {"placement elsewhere, one-way", ZLINK_ADMISSION_PLACEMENT, SEND, THERE, OBSERVED, ZLINK_UNAVAILABLE},
    {"memory here, request", ZLINK_ADMISSION_MEMORY, REQUEST, HERE, FAILS, ZLINK_CAPACITY_EXCEEDED},
    {"memory elsewhere, request", ZLINK_ADMISSION_MEMORY, REQUEST, THERE, FAILS, ZLINK_UNAVAILABLE},
    {"no target, one-way", ZLINK_ADMISSION_TARGET, SEND, HERE, FAILS, ZLINK_NOT_FOUND},
    {"no target, request", ZLINK_ADMISSION_TARGET, REQUEST, THERE, FAILS, ZLINK_NOT_FOUND},
    {"no route, one-way", ZLINK_ADMISSION_ROUTE, SEND, HERE, FAILS, ZLINK_UNAVAILABLE},
    {"no route, request", ZLINK_ADMISSION_ROUTE, REQUEST, HERE, FAILS, ZLINK_UNAVAILABLE},
    {"closed, one-way", ZLINK_ADMISSION_OPEN, SEND, HERE, FAILS, ZLINK_SHUTTING_DOWN},
    {"closed, request", ZLINK_ADMISSION_OPEN, REQUEST, THERE, FAILS, ZLINK_SHUTTING_DOWN},
    {"bad wire, one-way", ZLINK_ADMISSION_WIRE, SEND, THERE, OBSERVED, ZLINK_PROTOCOL_ERROR},
    {"bad wire, request", ZLINK_ADMISSION_WIRE, REQUEST, THERE, FAILS, ZLINK_PROTOCOL_ERROR},
};

/* EX-55: CapacityExceeded for a full lane of this runtime, Unavailable for another's, CapacityExceeded for placement;
 * and every other row of the same table. */
static void test_ex55_every_resource_and_operation(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const row_t *row = &rows[i];
        zlink_admission_error_t error = zlink_admission_error(row->resource, row->operation, row->owner_is_local);
        if (error.verdict != row->verdict || error.status != row->status)
            fail_msg("%s: verdict %d, %s", row->what, (int)error.verdict, zlink_status_name(error.status));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ex55_every_resource_and_operation)};

    return zlink_test_main(tests);
}
