/*
 * exec/execution_lane_policy.h: the limits that a serial execution queue is given (contract 000 §6.1).
 *
 * A policy is a value; a coordinator keeps one and all its queues point at it, so it must outlive them.
 */
#ifndef ZLINK_EXEC_EXECUTION_LANE_POLICY_H
#define ZLINK_EXEC_EXECUTION_LANE_POLICY_H

#include <stdint.h>

#include <zlink/status.h>

typedef struct zlink_execution_lane_policy {
    uint32_t application_message_capacity; /* items the application lane holds at once, 1..15,728,639 */
    uint64_t application_byte_capacity;    /* bytes it reserves at once, 1..2^37 */
    uint32_t lifecycle_message_capacity;   /* the same for the lifecycle lane */
    uint64_t lifecycle_byte_capacity;
    uint32_t fixed_work_byte_cost;  /* added to every item's payload, 0..65,536 */
    uint32_t lifecycle_burst_limit; /* lifecycle items in a row before one application item, > 0 */
    uint32_t owner_time_budget_ms;  /* how long one owner holds a turn in a row, > 0 */
} zlink_execution_lane_policy_t;

/* 1,024 / 64 MiB, 128 / 4 MiB, 256 bytes, 8 turns, 10 ms (contract 003 §7). */
extern const zlink_execution_lane_policy_t zlink_execution_lane_policy_default;

/* ZLINK_OK, or ZLINK_INVALID_OPERATION with the name of the first bad field in `*field` (EX-94). */
zlink_status_t zlink_execution_lane_policy_validate(const zlink_execution_lane_policy_t *policy, const char **field);

#endif
