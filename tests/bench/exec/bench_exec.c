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

int main(int argument_count, char **arguments)
{
    const char *workload = argument_count > 1 ? arguments[1] : "";
    uint64_t count = argument_count > 2 ? strtoull(arguments[2], NULL, 10) : 5000000;

    alarm(300);
    if (count < 1000)
        bench_die("COUNT is at least 1000");
    if (strcmp(workload, "E1a") == 0)
        bench_posts(&(bench_posts_t){"E1a", 1, 1, count, LARGE_CAPACITY, 0});
    else if (strcmp(workload, "E1a-1024") == 0)
        bench_posts(&(bench_posts_t){"E1a-1024", 1, 1, count, DEFAULT_CAPACITY, 0});
    else if (strcmp(workload, "E1a-turns") == 0)
        bench_posts(&(bench_posts_t){"E1a-turns", 1, 1, count, LARGE_CAPACITY, 1});
    else if (strcmp(workload, "E1b") == 0)
        bench_posts(&(bench_posts_t){"E1b", 2, 1000, count, LARGE_CAPACITY, 0});
    else if (strcmp(workload, "E1b-turns") == 0)
        bench_posts(&(bench_posts_t){"E1b-turns", 2, 1000, count, LARGE_CAPACITY, 1});
    else if (strcmp(workload, "E1-growth") == 0)
        growth(count);
    else if (strcmp(workload, "E3-1") == 0)
        bench_asks(1, count, 0);
    else if (strcmp(workload, "E3-500") == 0)
        bench_asks(500, count, 0);
    else if (strcmp(workload, "E3-1-then") == 0)
        bench_asks(1, count, 1);
    else if (strcmp(workload, "E3-500-then") == 0)
        bench_asks(500, count, 1);
    else if (strcmp(workload, "E-wait") == 0)
        bench_waiting((unsigned)count, 0);
    else if (strcmp(workload, "E-wait-4K") == 0)
        bench_waiting((unsigned)count, 4096);
    else
        bench_die("WORKLOAD is E1a, E1a-1024, E1a-turns, E1b, E1b-turns, E1-growth, E3-1[-then], E3-500[-then], "
                  "E-wait or E-wait-4K");
    return 0;
}
