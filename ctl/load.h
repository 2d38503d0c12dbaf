/*
 * ctl/load.h: many calls through a mesh client, so many of them under way at a time, each counted once.
 *
 * The main thread runs it and waits; calls are made and completed on the reactor.
 */
#ifndef ZLINK_CTL_LOAD_H
#define ZLINK_CTL_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include <zlink/status.h>

#include "ctl/mesh_client.h"

#define ZLINK_LOAD_COUNT_MAX       100000000u
#define ZLINK_LOAD_OUTSTANDING_MAX 65536u
#define ZLINK_LOAD_SPREAD_MAX      1000000u

typedef struct zlink_load_options {
    bool one_way;
    zlink_target_kind_t target;
    const char *name;
    const char *spot_id; /* "{}" in it becomes 0..spread-1 */
    const char *packet;
    const uint8_t *payload;
    size_t payload_bytes;
    uint32_t count;
    uint32_t outstanding;
    uint32_t spread; /* Spots; each is always called on the same link */
    uint32_t timeout_ms;
    /* For each reply, in the order of their coming; NULL = not wanted. Reactor thread. */
    void (*reply)(void *context, const char *spot_id, const zlink_call_answer_t *answer);
    void *context;
} zlink_load_options_t;

typedef struct zlink_load_result {
    uint64_t by_status[ZLINK_STATUS_COUNT]; /* every call once */
    double seconds;
    uint32_t p50_us, p99_us, max_us; /* of the calls that ended with ZLINK_OK */
} zlink_load_result_t;

zlink_status_t zlink_load_run(zlink_mesh_client_t *client, const zlink_load_options_t *options,
                              zlink_load_result_t *result, zlink_refusal_t *why);

#endif
