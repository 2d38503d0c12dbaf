/*
 * base/counters.h: the node's one registry of counters and gauges.
 *
 * A counter is a static struct with a name and a help line; it registers itself at first use of the registry
 * through ZLINK_COUNTER_DEFINE. Adding is one relaxed atomic; readers see a value that is at most a
 * moment old. Names are the contract's (operations.md §4), dotted: "zlink.requests.inflight". A counter
 * only grows; a gauge may fall. Any thread may use all of it. The list is built before main() and never changes.
 */
#ifndef ZLINK_BASE_COUNTERS_H
#define ZLINK_BASE_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

typedef enum zlink_counter_kind { ZLINK_COUNTER, ZLINK_GAUGE } zlink_counter_kind_t;

typedef struct zlink_counter {
    const char *name;
    const char *help;
    zlink_counter_kind_t kind;
    _Atomic int64_t value;
    struct zlink_counter *next;
} zlink_counter_t;

/* In one .c file: ZLINK_COUNTER_DEFINE(zlink_counter_requests, ZLINK_COUNTER, "zlink.requests", "Requests started"); */
#define ZLINK_COUNTER_DEFINE(SYMBOL, KIND, NAME, HELP)                                                                 \
    zlink_counter_t SYMBOL = {.name = (NAME), .help = (HELP), .kind = (KIND)};                                         \
    __attribute__((constructor)) static void SYMBOL##_register(void)                                                   \
    {                                                                                                                  \
        zlink_counter_register(&SYMBOL);                                                                               \
    }                                                                                                                  \
    struct zlink_counter_swallow_semicolon

/* Called by ZLINK_COUNTER_DEFINE only. */
void zlink_counter_register(zlink_counter_t *counter);

static inline void zlink_counter_add(zlink_counter_t *counter, int64_t amount)
{
    atomic_fetch_add_explicit(&counter->value, amount, memory_order_relaxed);
}

static inline int64_t zlink_counter_read(const zlink_counter_t *counter)
{
    return atomic_load_explicit(&counter->value, memory_order_relaxed);
}

/* All counters, sorted by name, for status and metrics. */
typedef void (*zlink_counter_visit_t)(const zlink_counter_t *counter, void *context);
void zlink_counters_each(zlink_counter_visit_t visit, void *context);

#endif
