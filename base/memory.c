#include "base/memory.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Allocations that still succeed before one fails; negative: none will. */
static _Atomic int64_t allocations_left = -1;

static inline bool must_fail(void)
{
    if (__builtin_expect(atomic_load_explicit(&allocations_left, memory_order_relaxed) < 0, 1))
        return false;
    /* The thread that takes the count from 0 to -1 is the one that fails, and that turns the fault off. */
    return atomic_fetch_sub_explicit(&allocations_left, 1, memory_order_relaxed) == 0;
}

void *zlink_malloc(size_t size)
{
    return must_fail() ? NULL : malloc(size);
}

void *zlink_calloc(size_t count, size_t size)
{
    return must_fail() ? NULL : calloc(count, size);
}

void *zlink_realloc(void *pointer, size_t size)
{
    return must_fail() ? NULL : realloc(pointer, size);
}

char *zlink_strdup(const char *string)
{
    return must_fail() ? NULL : strdup(string);
}

void zlink_free(void *pointer)
{
    free(pointer);
}

void zlink_memory_fail_after(int64_t allocations)
{
    atomic_store_explicit(&allocations_left, allocations, memory_order_relaxed);
}
