/*
 * tests/unit/exec_fixture.h: a worker pool on a clock that stands still until a test moves it, and small helpers.
 */
#ifndef ZLINK_TESTS_UNIT_EXEC_FIXTURE_H
#define ZLINK_TESTS_UNIT_EXEC_FIXTURE_H

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "exec/execution_lane_policy.h"
#include "exec/worker_pool.h"
#include "tests/unit/harness.h"

typedef struct zlink_exec_fixture {
    zlink_worker_pool_t *pool;
    zlink_execution_lane_policy_t policy;
    zlink_clock_t clock;
    _Atomic uint64_t now_ns;
} zlink_exec_fixture_t;

static inline uint64_t zlink_exec_fixture_now(void *context)
{
    zlink_exec_fixture_t *fixture = context;
    return atomic_load(&fixture->now_ns);
}

/* Moves the clock; sleeping workers look at it. */
static inline void zlink_exec_fixture_advance(zlink_exec_fixture_t *fixture, uint64_t ms)
{
    atomic_fetch_add(&fixture->now_ns, ms * ZLINK_NS_PER_MS);
    zlink_worker_pool_clock_moved(fixture->pool);
}

static inline void zlink_exec_fixture_open(zlink_exec_fixture_t *fixture, unsigned workers, unsigned stacks_max)
{
    zlink_refusal_t why = {{0}};

    memset(fixture, 0, sizeof(*fixture));
    fixture->policy = zlink_execution_lane_policy_default;
    fixture->clock = (zlink_clock_t){zlink_exec_fixture_now, fixture};
    atomic_store(&fixture->now_ns, 1000 * ZLINK_NS_PER_MS);
    zlink_worker_pool_options_t options = {.workers = workers, .stacks_max = stacks_max, .clock = &fixture->clock};
    assert_int_equal(zlink_worker_pool_create(&options, &fixture->pool, &why), ZLINK_OK);
}

static inline void zlink_exec_fixture_close(zlink_exec_fixture_t *fixture)
{
    zlink_worker_pool_destroy(fixture->pool);
}

/* For code that runs on a worker, where cmocka cannot catch a failure. */
#define zlink_check(CONDITION)                                                                                         \
    do {                                                                                                               \
        if (!(CONDITION)) {                                                                                            \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #CONDITION);                                  \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

static inline void zlink_test_wait(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        zlink_check(errno == EINTR);
}

#endif
