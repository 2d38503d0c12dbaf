#include "exec/stack_pool.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#ifdef ZLINK_ASAN
#include <sanitizer/lsan_interface.h>
#endif
#if defined(__has_include)
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#define HAVE_VALGRIND 1
#endif
#endif

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

#define STACK_BYTES_MIN     ((size_t)16 << 10)
#define STACK_BYTES_MAX     ((size_t)8 << 20)
#define STACKS_MAX_DEFAULT  65536u
#define STACKS_MAX_LIMIT    (1u << 24)
#define MAP_COUNT_DEFAULT   65530u             /* the kernel's own, where it does not tell */
#define GUARD_BYTES         ((size_t)16 << 10) /* a frame with a large array must not step over it */
#define LIST_MAX            32u
#define LIST_BATCH          16u
#define SHARED_MAX          1024u
#define PARKS_PER_TRIM      1024u
#define PARKS_PER_DEEP_TRIM 8u /* where the live frames lie across the words */
#define RED_ZONE_BYTES      128u
#define DEPTH_WORDS         4u
#define DEPTH_MARK          UINT64_C(0x7a6c696e6b2e7374) /* "zlink.st" */

#if defined(ZLINK_ASAN) || defined(ZLINK_TSAN)
#define STACK_BYTES_DEFAULT ((size_t)256 << 10)
#define STACK_BYTES_LEAST   STACK_BYTES_DEFAULT
#else
#define STACK_BYTES_DEFAULT ((size_t)64 << 10)
#define STACK_BYTES_LEAST   STACK_BYTES_MIN
#endif
#ifdef ZLINK_TSAN
#define STACKS_MAX_TSAN 1024u /* each has a fiber, which is dear */
#endif

/* ---- one mapping ---- */

static bool install_guard(const zlink_stack_pool_t *pool, char *mapping)
{
    if (pool->guard_install)
        return madvise(mapping, pool->guard_bytes, MADV_GUARD_INSTALL) == 0;
    return mprotect(mapping, pool->guard_bytes, PROT_NONE) == 0;
}

static char *mapping_of(const zlink_stack_pool_t *pool, const zlink_coroutine_t *stack)
{
    return stack->bottom - pool->guard_bytes;
}

static char *top_of(const zlink_stack_pool_t *pool, const zlink_coroutine_t *stack)
{
    return mapping_of(pool, stack) + pool->mapping_bytes;
}

/* The words lie in the lower half of the second page from the top. */
static uint64_t *depth_word(const zlink_stack_pool_t *pool, const zlink_coroutine_t *stack, unsigned i)
{
    size_t step = pool->page_bytes / 2 / DEPTH_WORDS;
    return (uint64_t *)(void *)(top_of(pool, stack) - 2 * pool->page_bytes + i * step);
}

static void mark_depth(const zlink_stack_pool_t *pool, zlink_coroutine_t *stack)
{
    for (unsigned i = 0; i < DEPTH_WORDS; i++)
        *depth_word(pool, stack, i) = DEPTH_MARK;
    stack->parks = 0;
}

static zlink_coroutine_t *map_stack(const zlink_stack_pool_t *pool)
{
    char *mapping = mmap(NULL, pool->mapping_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (mapping == MAP_FAILED)
        return NULL;
    /* A huge page would be resident as a whole. Where the kernel knows none, it says EINVAL, and that is well. */
    (void)madvise(mapping, pool->mapping_bytes, MADV_NOHUGEPAGE);
    if (!install_guard(pool, mapping)) {
        (void)munmap(mapping, pool->mapping_bytes);
        return NULL;
    }
    size_t descriptor_bytes = (sizeof(zlink_coroutine_t) + 63) & ~(size_t)63;
    char *top = mapping + pool->mapping_bytes - descriptor_bytes;
    zlink_coroutine_t *stack = (zlink_coroutine_t *)(void *)top;
    stack->bottom = mapping + pool->guard_bytes;
    stack->bytes = (size_t)(top - stack->bottom);
    if (pool->watch_depth)
        mark_depth(pool, stack);
#ifdef HAVE_VALGRIND
    stack->valgrind_id = VALGRIND_STACK_REGISTER(stack->bottom, top);
#endif
#ifdef ZLINK_ASAN
    __lsan_register_root_region(stack->bottom, stack->bytes);
#endif
    return stack;
}

static void unmap_stack(const zlink_stack_pool_t *pool, zlink_coroutine_t *stack)
{
#ifdef HAVE_VALGRIND
    VALGRIND_STACK_DEREGISTER(stack->valgrind_id);
#endif
#ifdef ZLINK_ASAN
    __lsan_unregister_root_region(stack->bottom, stack->bytes);
#endif
    int result = munmap(mapping_of(pool, stack), pool->mapping_bytes);
    assert(result == 0);
    (void)result;
}

/* ---- pages back to the kernel ---- */

/* Everything below `live`, but for the two pages at the top that every stack keeps. */
static void trim(const zlink_stack_pool_t *pool, zlink_coroutine_t *stack, const char *live)
{
    uintptr_t page_mask = pool->page_bytes - 1;
    uintptr_t kept = (uintptr_t)top_of(pool, stack) - 2 * pool->page_bytes;
    uintptr_t frames = ((uintptr_t)live - RED_ZONE_BYTES) & ~page_mask;
    uintptr_t end = frames < kept ? frames : kept;

    if (end > (uintptr_t)stack->bottom)
        (void)madvise(stack->bottom, end - (uintptr_t)stack->bottom, MADV_DONTNEED); /* if not, they stay resident */
    stack->parks = 0;
}

static void trim_if_deep(const zlink_stack_pool_t *pool, zlink_coroutine_t *stack, const char *live)
{
    if (!pool->watch_depth)
        return;
    stack->parks++;
    if ((uintptr_t)live - RED_ZONE_BYTES < (uintptr_t)top_of(pool, stack) - pool->page_bytes) {
        /* The live frames may lie on the words. */
        if (stack->parks >= PARKS_PER_DEEP_TRIM)
            trim(pool, stack, live);
        return;
    }
    /* One of the words at a time: each is a cache line that nothing else needs. */
    if (stack->parks >= PARKS_PER_TRIM || *depth_word(pool, stack, stack->parks % DEPTH_WORDS) != DEPTH_MARK) {
        trim(pool, stack, live);
        mark_depth(pool, stack);
    }
}

void zlink_stack_pool_parked(const zlink_stack_pool_t *pool, zlink_coroutine_t *stack)
{
    trim_if_deep(pool, stack, stack->live);
}

/* ---- take and give back ---- */

static void push(zlink_stack_list_t *list, zlink_coroutine_t *stack)
{
    stack->next = list->first;
    list->first = stack;
    list->count++;
}

static zlink_coroutine_t *pop(zlink_stack_list_t *list)
{
    zlink_coroutine_t *stack = list->first;
    if (stack) {
        list->first = stack->next;
        list->count--;
    }
    return stack;
}

static bool count_one(zlink_stack_pool_t *pool)
{
    uint64_t live = atomic_load_explicit(&pool->live, memory_order_relaxed);
    do {
        if (live >= pool->stacks_max)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&pool->live, &live, live + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    uint64_t high = atomic_load_explicit(&pool->high_water, memory_order_relaxed);
    while (high < live + 1 && !atomic_compare_exchange_weak_explicit(&pool->high_water, &high, live + 1,
                                                                     memory_order_relaxed, memory_order_relaxed))
        ;
    return true;
}

static bool use_credit(zlink_stack_list_t *list)
{
    unsigned credit = atomic_load_explicit(&list->credit, memory_order_relaxed);
    if (credit == 0)
        return false;
    atomic_store_explicit(&list->credit, credit - 1, memory_order_relaxed);
    return true;
}

static void count_down(zlink_stack_pool_t *pool, zlink_stack_list_t *list)
{
    unsigned credit = atomic_load_explicit(&list->credit, memory_order_relaxed);
    if (credit < pool->credit_max)
        atomic_store_explicit(&list->credit, credit + 1, memory_order_relaxed);
    else
        atomic_fetch_sub_explicit(&pool->live, 1, memory_order_relaxed);
}

zlink_coroutine_t *zlink_stack_pool_take(zlink_stack_pool_t *pool, zlink_stack_list_t *list)
{
    if (!use_credit(list) && !count_one(pool))
        return NULL;
    if (!list->first) {
        pthread_mutex_lock(&pool->lock);
        while (list->count < LIST_BATCH && pool->shared.first)
            push(list, pop(&pool->shared));
        pthread_mutex_unlock(&pool->lock);
    }
    zlink_coroutine_t *stack = pop(list);
    if (!stack)
        stack = map_stack(pool);
    if (!stack)
        atomic_fetch_sub_explicit(&pool->live, 1, memory_order_relaxed);
    return stack;
}

static void spill(zlink_stack_pool_t *pool, zlink_stack_list_t *list)
{
    zlink_stack_list_t surplus = {0};

    pthread_mutex_lock(&pool->lock);
    while (list->count > LIST_MAX - LIST_BATCH) {
        zlink_coroutine_t *stack = pop(list);
        push(pool->shared.count < SHARED_MAX ? &pool->shared : &surplus, stack);
    }
    pthread_mutex_unlock(&pool->lock);
    zlink_stack_pool_empty(pool, &surplus);
}

void zlink_stack_pool_give_back(zlink_stack_pool_t *pool, zlink_stack_list_t *list, zlink_coroutine_t *stack)
{
    trim_if_deep(pool, stack, (const char *)stack);
    push(list, stack);
    if (list->count > LIST_MAX)
        spill(pool, list);
    count_down(pool, list);
}

void zlink_stack_pool_empty(zlink_stack_pool_t *pool, zlink_stack_list_t *list)
{
    for (zlink_coroutine_t *stack; (stack = pop(list));)
        unmap_stack(pool, stack);
    while (use_credit(list))
        atomic_fetch_sub_explicit(&pool->live, 1, memory_order_relaxed);
}

/* ---- the pool ---- */

/* An emulator of another machine says yes to every advice and does nothing, so the page is tried: behind a guard the
 * kernel itself cannot write. */
static bool kernel_installs_guards(size_t page_bytes)
{
    void *page = mmap(NULL, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return false;
    bool installs =
        madvise(page, page_bytes, MADV_GUARD_INSTALL) == 0 && getrandom(page, 1, GRND_NONBLOCK) < 0 && errno == EFAULT;
    (void)munmap(page, page_bytes);
    return installs;
}

/* A mapping and its guard are two of what vm.max_map_count allows; the third part is for everybody else. */
static unsigned stacks_for_mappings(void)
{
    unsigned maps = MAP_COUNT_DEFAULT;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
    if (file) {
        if (fscanf(file, "%u", &maps) != 1)
            maps = MAP_COUNT_DEFAULT;
        (void)fclose(file);
    }
    return maps / 3 < STACKS_MAX_DEFAULT ? maps / 3 : STACKS_MAX_DEFAULT;
}

static bool under_valgrind(void)
{
#ifdef HAVE_VALGRIND
    return RUNNING_ON_VALGRIND != 0;
#else
    return false;
#endif
}

static uint64_t default_stacks_max(const zlink_stack_pool_t *pool)
{
#ifdef STACKS_MAX_TSAN
    (void)pool;
    (void)stacks_for_mappings;
    return STACKS_MAX_TSAN;
#else
    return pool->guard_install ? STACKS_MAX_DEFAULT : stacks_for_mappings();
#endif
}

zlink_status_t zlink_stack_pool_init(zlink_stack_pool_t *pool, size_t stack_bytes, unsigned stacks_max,
                                     zlink_refusal_t *why)
{
    memset(pool, 0, sizeof(*pool));
    if (stack_bytes != 0 && (stack_bytes < STACK_BYTES_MIN || stack_bytes > STACK_BYTES_MAX)) {
        zlink_refuse(why, "stack_bytes %zu: must be from %zu to %zu", stack_bytes, STACK_BYTES_MIN, STACK_BYTES_MAX);
        return ZLINK_INVALID_OPERATION;
    }
    if (stacks_max > STACKS_MAX_LIMIT) {
        zlink_refuse(why, "stacks_max %u: must be at most %u", stacks_max, STACKS_MAX_LIMIT);
        return ZLINK_INVALID_OPERATION;
    }
    if (stack_bytes == 0)
        stack_bytes = STACK_BYTES_DEFAULT;
    if (stack_bytes < STACK_BYTES_LEAST)
        stack_bytes = STACK_BYTES_LEAST;
    pool->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    size_t mask = pool->page_bytes - 1;
    pool->guard_bytes = (GUARD_BYTES + mask) & ~mask;
    pool->mapping_bytes = pool->guard_bytes + ((stack_bytes + mask) & ~mask);
    pool->guard_install = kernel_installs_guards(pool->page_bytes);
    pool->stacks_max = stacks_max ? stacks_max : default_stacks_max(pool);
    /* A sanitizer's frames are deep anyway, and reading below a live frame is what they exist to find. */
#if !defined(ZLINK_ASAN) && !defined(ZLINK_TSAN)
    pool->watch_depth = pool->mapping_bytes - pool->guard_bytes > 2 * pool->page_bytes && !under_valgrind();
#else
    (void)under_valgrind;
#endif
    if (pthread_mutex_init(&pool->lock, NULL) != 0) {
        zlink_refuse(why, "the stack pool: no mutex");
        return ZLINK_CAPACITY_EXCEEDED;
    }
    return ZLINK_OK;
}

void zlink_stack_pool_destroy(zlink_stack_pool_t *pool)
{
    zlink_stack_pool_empty(pool, &pool->shared);
    (void)pthread_mutex_destroy(&pool->lock);
}

size_t zlink_stack_pool_stack_bytes(const zlink_stack_pool_t *pool)
{
    return pool->mapping_bytes - pool->guard_bytes;
}
