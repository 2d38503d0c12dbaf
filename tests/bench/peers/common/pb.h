/*
 * pb.h: what every peer and floor program shares: clocks, CPU time, latencies, and the JSON lines that the runner
 * reads.
 *
 * C and C++. A line is {peer, workload, param, metric, value, unit, bg, cal}: `bg` is how many cores something else
 * used meanwhile (from /proc/stat), `cal` the ns of one step of a fixed multiply chain, which shows a slow phase of the
 * machine.
 */
#ifndef BENCH_PB_H
#define BENCH_PB_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define PB_MAYBE_UNUSED __attribute__((unused))

static inline uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static inline double cpu_self(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline double cpu_pid(pid_t pid)
{
    clockid_t clock;
    struct timespec t;
    if (pid <= 0 || clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t))
        return 0;
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- what else the machine did ---- */

PB_MAYBE_UNUSED static pid_t pb_spid[4]; /* the other processes of this peer */
PB_MAYBE_UNUSED static double pb_busy_before, pb_own_before, pb_cal;
PB_MAYBE_UNUSED static uint64_t pb_began_ns;

static inline double pb_busy(void)
{
    unsigned long long user, nice, system, idle, wait, irq, softirq, steal;
    FILE *file = fopen("/proc/stat", "r");
    if (!file)
        return 0;
    int got = fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &wait, &irq,
                     &softirq, &steal);
    fclose(file);
    return got == 8 ? (double)(user + nice + system + irq + softirq + steal) / 100.0 : 0;
}

static inline double pb_own(void)
{
    double total = cpu_self();
    for (int i = 0; i < 4; i++)
        total += cpu_pid(pb_spid[i]);
    return total;
}

static inline void pb_begin(void)
{
    pb_busy_before = pb_busy();
    pb_own_before = pb_own();
    pb_began_ns = now_ns();
}

static inline double pb_bg(void)
{
    double seconds = (double)(now_ns() - pb_began_ns) * 1e-9;
    if (seconds < 0.05)
        return 0;
    double cores = ((pb_busy() - pb_busy_before) - (pb_own() - pb_own_before)) / seconds;
    return cores < 0 ? 0 : cores;
}

__attribute__((constructor)) static void pb_start(void)
{
    pb_begin();
}

static inline double pb_calibrate(void)
{
    volatile uint64_t sink;
    uint64_t x = 88172645463325252ull, started = now_ns();
    for (int i = 0; i < 1000000; i++) {
        x = x * 6364136223846793005ull + 1442695040888963407ull;
        x ^= x >> 29;
    }
    sink = x;
    (void)sink;
    return (double)(now_ns() - started) / 1e6;
}

static inline void emit(const char *peer, const char *workload, const char *param, const char *metric, double value,
                        const char *unit)
{
    static double bg;
    if ((now_ns() - pb_began_ns) > 50000000ull)
        bg = pb_bg();
    if (pb_cal == 0)
        pb_cal = pb_calibrate();
    printf("{\"peer\":\"%s\",\"workload\":\"%s\",\"param\":\"%s\",\"metric\":\"%s\",\"value\":%.6g,\"unit\":\"%s\","
           "\"bg\":%.2f,\"cal\":%.2f}\n",
           peer, workload, param, metric, value, unit, bg, pb_cal);
    fflush(stdout);
}

/* ---- latencies ---- */

typedef struct {
    uint32_t *v; /* ns */
    size_t n, cap;
} lat_t;

static inline void lat_init(lat_t *lat, size_t cap)
{
    lat->v = (uint32_t *)malloc(cap * 4);
    lat->n = 0;
    lat->cap = lat->v ? cap : 0;
}

static inline void lat_add(lat_t *lat, uint64_t ns)
{
    if (lat->n < lat->cap)
        lat->v[lat->n++] = ns > 0xffffffffu ? 0xffffffffu : (uint32_t)ns;
}

static inline int lat_compare(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return a < b ? -1 : a > b;
}

static inline void lat_sort(lat_t *lat)
{
    qsort(lat->v, lat->n, 4, lat_compare);
}

static inline double lat_pct(const lat_t *lat, double part)
{
    return lat->n ? lat->v[(size_t)(part * (double)(lat->n - 1))] / 1000.0 : 0;
}

/* ---- the usual reports ---- */

static inline void report_rr(const char *peer, const char *workload, const char *param, uint64_t n, double seconds,
                             double cpu_client, double cpu_server, lat_t *lat)
{
    emit(peer, workload, param, "rate", (double)n / seconds, "req/s");
    lat_sort(lat);
    emit(peer, workload, param, "p50_us", lat_pct(lat, .50), "us");
    emit(peer, workload, param, "p99_us", lat_pct(lat, .99), "us");
    emit(peer, workload, param, "cpu_per_million", (cpu_client + cpu_server) / (double)n * 1e6, "cpu_s/1e6");
}

static inline void report_ow(const char *peer, const char *workload, const char *param, uint64_t n, size_t size,
                             double seconds, double cpu_client, double cpu_server)
{
    emit(peer, workload, param, "rate", (double)n / seconds, "msg/s");
    emit(peer, workload, param, "mb_per_s", (double)n * (double)size / seconds / 1e6, "MB/s");
    emit(peer, workload, param, "cpu_per_million", (cpu_client + cpu_server) / (double)n * 1e6, "cpu_s/1e6");
}

#endif
