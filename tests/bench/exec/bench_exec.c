/*
 * bench_exec.c: bench_exec WORKLOAD [COUNT]: see bench_exec.h.
 */
#include "bench_exec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LARGE_CAPACITY   1048576
#define DEFAULT_CAPACITY 1024
#define CROWD            10000 /* Actors of E2b, a hundred in each Spot */

void bench_die(const char *what)
{
    fprintf(stderr, "bench_exec: %s\n", what);
    exit(1);
}

void *bench_allocate(size_t size)
{
    void *memory = aligned_alloc(64, (size + 63) / 64 * 64);
    if (!memory)
        bench_die("out of memory");
    memset(memory, 0, size);
    return memory;
}

zlink_worker_pool_t *bench_pool(unsigned stacks_max)
{
    zlink_worker_pool_t *pool = NULL;
    zlink_refusal_t why = {""};
    if (zlink_worker_pool_create(&(zlink_worker_pool_options_t){.stacks_max = stacks_max}, &pool, &why) != ZLINK_OK)
        bench_die(why.line);
    return pool;
}

static void growth(uint64_t count)
{
    for (unsigned owners = 1; owners <= 1000000; owners *= 10) {
        char name[32];
        snprintf(name, sizeof(name), "E1-growth-%u", owners);
        bench_posts(&(bench_posts_t){name, 2, owners, count, LARGE_CAPACITY, 0});
    }
}

/* ---- the workloads by name ---- */

static void e1a(uint64_t count)
{
    bench_posts(&(bench_posts_t){"E1a", 1, 1, count, LARGE_CAPACITY, 0});
}

static void e1a_1024(uint64_t count)
{
    bench_posts(&(bench_posts_t){"E1a-1024", 1, 1, count, DEFAULT_CAPACITY, 0});
}

static void e1a_turns(uint64_t count)
{
    bench_posts(&(bench_posts_t){"E1a-turns", 1, 1, count, LARGE_CAPACITY, 1});
}

static void e1b(uint64_t count)
{
    bench_posts(&(bench_posts_t){"E1b", 2, 1000, count, LARGE_CAPACITY, 0});
}

static void e1b_turns(uint64_t count)
{
    bench_posts(&(bench_posts_t){"E1b-turns", 2, 1000, count, LARGE_CAPACITY, 1});
}

static void e2a_spot_wide(uint64_t count)
{
    bench_ping_pong(ZLINK_SPOT_WIDE, count);
}

static void e2a_per_actor(uint64_t count)
{
    bench_ping_pong(ZLINK_PER_ACTOR, count);
}

static void e2b_spot_wide(uint64_t count)
{
    bench_crowd(ZLINK_SPOT_WIDE, CROWD, CROWD / 100, count / CROWD);
}

static void e2b_per_actor(uint64_t count)
{
    bench_crowd(ZLINK_PER_ACTOR, CROWD, CROWD / 100, count / CROWD);
}

static void e2b_one_spot(uint64_t count)
{
    bench_crowd(ZLINK_PER_ACTOR, CROWD, 1, count / CROWD);
}

static void e3_1(uint64_t count)
{
    bench_asks(1, count, 0);
}

static void e3_500(uint64_t count)
{
    bench_asks(500, count, 0);
}

static void e3_1_then(uint64_t count)
{
    bench_asks(1, count, 1);
}

static void e3_500_then(uint64_t count)
{
    bench_asks(500, count, 1);
}

static void e_idle(uint64_t count)
{
    bench_idle_actors(ZLINK_SPOT_WIDE, (unsigned)count);
    bench_idle_actors(ZLINK_PER_ACTOR, (unsigned)count);
}

static void e_lock(uint64_t count)
{
    (void)count;
    bench_locks();
}

static void e_timers(uint64_t count)
{
    bench_timers((unsigned)count);
}

static void e_wait(uint64_t count)
{
    bench_waiting((unsigned)count, 0);
}

static void e_wait_4k(uint64_t count)
{
    bench_waiting((unsigned)count, 4096);
}

static const struct {
    const char *name;
    void (*run)(uint64_t count);
} workloads[] = {
    {"E1a", e1a},
    {"E1a-1024", e1a_1024},
    {"E1a-turns", e1a_turns},
    {"E1b", e1b},
    {"E1b-turns", e1b_turns},
    {"E1-growth", growth},
    {"E2a-SpotWide", e2a_spot_wide},
    {"E2a-PerActor", e2a_per_actor},
    {"E2b-SpotWide", e2b_spot_wide},
    {"E2b-PerActor", e2b_per_actor},
    {"E2b-PerActor-one-spot", e2b_one_spot},
    {"E3-1", e3_1},
    {"E3-500", e3_500},
    {"E3-1-then", e3_1_then},
    {"E3-500-then", e3_500_then},
    {"E-idle", e_idle},
    {"E-lock", e_lock},
    {"E-timers", e_timers},
    {"E-wait", e_wait},
    {"E-wait-4K", e_wait_4k},
};

int main(int argument_count, char **arguments)
{
    const char *name = argument_count > 1 ? arguments[1] : "";
    uint64_t count = argument_count > 2 ? strtoull(arguments[2], NULL, 10) : 5000000;

    alarm(300);
    if (count < 100 || count > UINT32_MAX)
        bench_die("COUNT is 100 to 4294967295");
    for (size_t i = 0; i < sizeof(workloads) / sizeof(workloads[0]); i++) {
        if (strcmp(name, workloads[i].name) == 0) {
            workloads[i].run(count);
            return 0;
        }
    }
    fprintf(stderr, "bench_exec: WORKLOAD is one of");
    for (size_t i = 0; i < sizeof(workloads) / sizeof(workloads[0]); i++)
        fprintf(stderr, " %s", workloads[i].name);
    fprintf(stderr, "\n");
    return 1;
}
