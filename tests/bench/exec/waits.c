/*
 * waits.c: E3: a handler yields on a request to another owner. E-wait: what a waiting handler keeps resident.
 */
#include <semaphore.h>
#include <stdatomic.h>

#include "base/container_of.h"
#include "bench_exec.h"
#include "exec/spot_serial_executor.h"
#include "exec/turn.h"
#include "tests/bench/peers/common/pb.h"

/* A Spot with one handler that makes one request after the other; the request's record lies in here. */
typedef struct caller {
    _Alignas(64) zlink_spot_serial_executor_t spot;
    zlink_turn_t turn;
    zlink_turn_t request;
    zlink_wait_t wait;
    uint64_t left;
    zlink_spot_serial_executor_t *asked;
} caller_t;

static sem_t ended;
static _Atomic uint32_t callers_left;

static void make_spot(zlink_spot_serial_executor_t *spot, zlink_worker_pool_t *pool,
                      const zlink_execution_lane_policy_t *policy)
{
    if (zlink_spot_serial_executor_init(spot, pool, policy, ZLINK_EXECUTION_INSTANCE) != ZLINK_OK)
        bench_die("the policy is not valid");
}

static void start_turn(zlink_spot_serial_executor_t *spot, zlink_turn_t *turn)
{
    if (zlink_spot_serial_executor_execute_spot(spot, turn, 0) != ZLINK_OK)
        bench_die("a turn was refused");
}

static void spot_closed(zlink_spot_serial_executor_t *spot)
{
    (void)spot;
    sem_post(&ended);
}

static void close_spot(zlink_spot_serial_executor_t *spot)
{
    zlink_spot_serial_executor_close(spot, spot_closed);
    sem_wait(&ended);
}

static void last_posts(zlink_turn_t *turn, zlink_status_t status)
{
    (void)turn;
    if (status != ZLINK_OK)
        bench_die("a handler failed");
    if (atomic_fetch_sub(&callers_left, 1) == 1)
        sem_post(&ended);
}

/* ---- E3 ---- */

static zlink_status_t answer(zlink_turn_t *turn)
{
    (void)turn;
    return ZLINK_OK;
}

static void answered(zlink_turn_t *turn, zlink_status_t status)
{
    zlink_wait_complete(&ZLINK_CONTAINER_OF(turn, caller_t, request)->wait, status);
}

static zlink_status_t ask(caller_t *caller, zlink_turn_continuation_t continuation)
{
    zlink_status_t status =
        zlink_turn_prepare_wait(&caller->turn, &caller->wait, ZLINK_WAIT_YIELD, continuation, caller);
    if (status != ZLINK_OK)
        return status;
    zlink_turn_init(&caller->request, answer, answered);
    status = zlink_spot_serial_executor_execute_spot(caller->asked, &caller->request, 0);
    if (status != ZLINK_OK)
        zlink_turn_abandon_wait(&caller->turn, &caller->wait);
    return status;
}

static zlink_status_t call_on_stack(zlink_turn_t *turn)
{
    caller_t *caller = ZLINK_CONTAINER_OF(turn, caller_t, turn);
    zlink_status_t status = ZLINK_OK;
    while (status == ZLINK_OK && caller->left > 0) {
        caller->left--;
        status = ask(caller, NULL);
        if (status == ZLINK_OK)
            status = zlink_turn_wait(turn, &caller->wait);
    }
    return status;
}

static zlink_status_t then(zlink_turn_t *turn, zlink_status_t status, void *context)
{
    caller_t *caller = context;
    (void)turn;
    if (status != ZLINK_OK || caller->left == 0)
        return status;
    caller->left--;
    return ask(caller, then);
}

static zlink_status_t call_by_continuation(zlink_turn_t *turn)
{
    return then(turn, ZLINK_OK, ZLINK_CONTAINER_OF(turn, caller_t, turn));
}

void bench_asks(unsigned count, uint64_t total, int continuation)
{
    char workload[32];
    zlink_worker_pool_t *pool = bench_pool(0);
    caller_t *callers = bench_allocate(sizeof(caller_t) * count);
    zlink_spot_serial_executor_t *asked = bench_allocate(sizeof(*asked));

    snprintf(workload, sizeof(workload), "E3-%u%s", count, continuation ? "-then" : "");
    total = total / count * count;
    make_spot(asked, pool, &zlink_execution_lane_policy_default);
    sem_init(&ended, 0, 0);
    atomic_store(&callers_left, count);
    for (unsigned i = 0; i < count; i++) {
        make_spot(&callers[i].spot, pool, &zlink_execution_lane_policy_default);
        zlink_turn_init(&callers[i].turn, continuation ? call_by_continuation : call_on_stack, last_posts);
        callers[i].left = total / count;
        callers[i].asked = asked;
    }
    pb_begin();
    double cpu = cpu_self();
    uint64_t began_ns = now_ns();
    for (unsigned i = 0; i < count; i++)
        start_turn(&callers[i].spot, &callers[i].turn);
    sem_wait(&ended);
    double seconds = (double)(now_ns() - began_ns) * 1e-9;
    cpu = cpu_self() - cpu;
    emit(BENCH_PEER, workload, "", "rate", (double)total / seconds, "cycles/s");
    emit(BENCH_PEER, workload, "", "cpu_per_million", cpu / (double)total * 1e6, "cpu_s/1e6");

    for (unsigned i = 0; i < count; i++)
        close_spot(&callers[i].spot);
    close_spot(asked); /* after those who ask it */
    zlink_worker_pool_destroy(pool);
    sem_destroy(&ended);
    free(callers);
    free(asked);
}

/* ---- E-wait ---- */

typedef struct sleeper {
    zlink_turn_t turn;
    zlink_wait_t wait;
} sleeper_t;

static double resident_bytes(void)
{
    long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &size, &resident) != 2)
        bench_die("/proc/self/statm cannot be read");
    fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static zlink_status_t wait_on_stack(zlink_turn_t *turn)
{
    sleeper_t *sleeper = ZLINK_CONTAINER_OF(turn, sleeper_t, turn);
    zlink_status_t status = zlink_turn_prepare_wait(turn, &sleeper->wait, ZLINK_WAIT_YIELD, NULL, NULL);
    if (status != ZLINK_OK)
        return status;
    return zlink_turn_wait(turn, &sleeper->wait);
}

static zlink_status_t __attribute__((noinline)) wait_with_locals(zlink_turn_t *turn)
{
    volatile uint8_t locals[4096];
    for (size_t i = 0; i < sizeof(locals); i++)
        locals[i] = (uint8_t)i;
    zlink_status_t status = wait_on_stack(turn);
    return locals[17] == 17 ? status : ZLINK_INTERNAL_FAILURE;
}

static void until_parked(const zlink_worker_pool_t *pool, uint64_t count)
{
    zlink_worker_pool_stats_t stats;
    for (int tries = 0; tries < 60000; tries++) {
        zlink_worker_pool_stats(pool, &stats);
        if (stats.suspensions >= count)
            return;
        usleep(1000);
    }
    bench_die("not all handlers came to wait");
}

void bench_waiting(unsigned count, size_t locals_bytes)
{
    const char *workload = locals_bytes ? "E-wait-4K" : "E-wait";
    zlink_worker_pool_t *pool = bench_pool(count + 64);
    zlink_spot_serial_executor_t *spot = bench_allocate(sizeof(*spot));
    zlink_execution_lane_policy_t policy = zlink_execution_lane_policy_default;
    zlink_worker_pool_stats_t stats;

    policy.application_message_capacity = count;
    policy.application_byte_capacity = UINT64_C(1) << 36;
    make_spot(spot, pool, &policy);
    sem_init(&ended, 0, 0);
    atomic_store(&callers_left, count);
    double before = resident_bytes();
    uint64_t began_ns = now_ns();
    sleeper_t *sleepers = bench_allocate(sizeof(sleeper_t) * count);
    for (unsigned i = 0; i < count; i++) {
        zlink_turn_init(&sleepers[i].turn, locals_bytes ? wait_with_locals : wait_on_stack, last_posts);
        start_turn(spot, &sleepers[i].turn);
    }
    until_parked(pool, count);
    double seconds = (double)(now_ns() - began_ns) * 1e-9;
    double per_handler = (resident_bytes() - before) / count;
    zlink_worker_pool_stats(pool, &stats);
    emit(BENCH_PEER, workload, "", "bytes", per_handler, "bytes");
    emit(BENCH_PEER, workload, "", "at_once", count, "");
    emit(BENCH_PEER, workload, "", "guard_install", stats.guard_install, "");
    emit(BENCH_PEER, workload, "", "seconds", seconds, "s");

    for (unsigned i = 0; i < count; i++)
        zlink_wait_complete(&sleepers[i].wait, ZLINK_OK);
    sem_wait(&ended);
    close_spot(spot);
    zlink_worker_pool_destroy(pool);
    sem_destroy(&ended);
    free(sleepers);
    free(spot);
}
