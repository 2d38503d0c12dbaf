/*
 * latencies.h: how often which latency was seen, exact to 1/64, in a fixed table.
 *
 * Bucket numbers: below 64 ns the value itself; above, 64 buckets for each power of two. The runner turns them back
 * into times. One owner at a time.
 */
#ifndef BENCH_LATENCIES_H
#define BENCH_LATENCIES_H

#include <stdint.h>

#define LATENCY_BUCKETS 2048 /* up to 2^37 ns */

typedef struct {
    uint32_t count[LATENCY_BUCKETS];
} latencies_t;

static inline void latencies_add(latencies_t *latencies, uint64_t ns)
{
    uint64_t bucket = ns;
    if (ns >= 64) {
        unsigned exponent = 63 - (unsigned)__builtin_clzll(ns) - 6;
        bucket = (uint64_t)(exponent + 1) * 64 + ((ns >> exponent) & 63);
    }
    latencies->count[bucket < LATENCY_BUCKETS ? bucket : LATENCY_BUCKETS - 1]++;
}

#endif
