#include "base/memory.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#if defined(ZLINK_MIMALLOC)
#include <mimalloc.h>
#elif defined(__GLIBC__)
#include <malloc.h>
#endif

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

#if defined(ZLINK_MIMALLOC)
static bool add_area(const mi_heap_t *heap, const mi_heap_area_t *area, void *block, size_t block_size, void *sum)
{
    (void)heap;
    (void)block;
    (void)block_size;
    *(size_t *)sum += area->used * area->full_block_size;
    return true;
}

size_t zlink_memory_bytes_in_use(void)
{
    size_t sum = 0;
    mi_heap_visit_blocks(mi_heap_get_default(), false, add_area, &sum);
    return sum;
}
#else
size_t zlink_memory_bytes_in_use(void)
{
#if defined(__GLIBC__)
    struct mallinfo2 heap = mallinfo2();
    return heap.uordblks + heap.hblkhd;
#else
    return 0;
#endif
}
#endif
