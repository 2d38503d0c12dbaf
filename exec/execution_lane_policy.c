#include "exec/execution_lane_policy.h"

#include <stdbool.h>
#include <stddef.h>

/* The admission word counts to 2^24-1 and 2^38-1. On a Spot's queue the turns of its member Actors come on top of what
 * its limits admit: one for each of 2^20 Actors at most, of one fixed cost each. */
#define ITEMS_MAX 15728639u
#define BYTES_MAX (UINT64_C(1) << 37)
#define COST_MAX  65536u

const zlink_execution_lane_policy_t zlink_execution_lane_policy_default = {
    .application_message_capacity = 1024,
    .application_byte_capacity = UINT64_C(64) << 20,
    .lifecycle_message_capacity = 128,
    .lifecycle_byte_capacity = UINT64_C(4) << 20,
    .fixed_work_byte_cost = 256,
    .lifecycle_burst_limit = 8,
    .owner_time_budget_ms = 10,
};

zlink_status_t zlink_execution_lane_policy_validate(const zlink_execution_lane_policy_t *policy, const char **field)
{
    const struct {
        const char *name;
        uint64_t value;
        uint64_t most;
    } fields[] = {
        {"application_message_capacity", policy->application_message_capacity, ITEMS_MAX},
        {"application_byte_capacity", policy->application_byte_capacity, BYTES_MAX},
        {"lifecycle_message_capacity", policy->lifecycle_message_capacity, ITEMS_MAX},
        {"lifecycle_byte_capacity", policy->lifecycle_byte_capacity, BYTES_MAX},
        {"lifecycle_burst_limit", policy->lifecycle_burst_limit, UINT32_MAX},
        {"owner_time_budget_ms", policy->owner_time_budget_ms, UINT32_MAX},
    };

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (fields[i].value == 0 || fields[i].value > fields[i].most) {
            *field = fields[i].name;
            return ZLINK_INVALID_OPERATION;
        }
    }
    if (policy->fixed_work_byte_cost > COST_MAX) {
        *field = "fixed_work_byte_cost";
        return ZLINK_INVALID_OPERATION;
    }
    *field = NULL;
    return ZLINK_OK;
}
