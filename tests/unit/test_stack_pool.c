/*
 * The kernel's part is replaced at link time (exec.cmake), so that a test can refuse any of it: a kernel without
 * MADV_GUARD_INSTALL, one without memory, one without mappings.
 */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/coroutine.h"
#include "exec/stack_pool.h"
#include "exec/worker_pool.h"
#include "tests/unit/exec_fixture.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

/* The linker's names. */
void *__real_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset);
void *__wrap_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset);
int __real_munmap(void *address, size_t size);
int __wrap_munmap(void *address, size_t size);
int __real_mprotect(void *address, size_t size, int protection);
int __wrap_mprotect(void *address, size_t size, int protection);
int __real_madvise(void *address, size_t size, int advice);
int __wrap_madvise(void *address, size_t size, int advice);

/* What the kernel is made to refuse. One thread only, but for the pool test, which sets it before and after. */
static bool no_guard_install;
static bool no_mprotect;
static bool no_mmap;
static long guards_left = -1; /* MADV_GUARD_INSTALLs that still work; negative: all */
static long mapped;

void *__wrap_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset)
{
    if (no_mmap && (flags & MAP_STACK)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    mapped += (flags & MAP_STACK) != 0;
    return __real_mmap(address, size, protection, flags, file, offset);
}

int __wrap_munmap(void *address, size_t size)
{
    mapped -= size > (size_t)16 << 10; /* a stack, not the page with which the kernel was tried */
    return __real_munmap(address, size);
}

int __wrap_mprotect(void *address, size_t size, int protection)
{
    if (no_mprotect) {
        errno = ENOMEM;
        return -1;
    }
    return __real_mprotect(address, size, protection);
}

int __wrap_madvise(void *address, size_t size, int advice)
{
    if (advice == MADV_GUARD_INSTALL && (no_guard_install || guards_left == 0)) {
        errno = EINVAL;
        return -1;
    }
    if (advice == MADV_GUARD_INSTALL && guards_left > 0)
        guards_left--;
    return __real_madvise(address, size, advice);
}

typedef struct stacks {
    zlink_stack_pool_t pool;
    zlink_stack_list_t list;
} stacks_t;

static void stacks_open(stacks_t *stacks, size_t stack_bytes, unsigned stacks_max)
{
    zlink_refusal_t why = {{0}};

    memset(stacks, 0, sizeof(*stacks));
    mapped = 0;
    assert_int_equal(zlink_stack_pool_init(&stacks->pool, stack_bytes, stacks_max, &why), ZLINK_OK);
}

static void stacks_close(stacks_t *stacks)
{
    assert_int_equal(atomic_load(&stacks->pool.live), 0);
    zlink_stack_pool_empty(&stacks->pool, &stacks->list);
    zlink_stack_pool_destroy(&stacks->pool);
    assert_int_equal(mapped, 0);
}

static zlink_coroutine_t *take(stacks_t *stacks)
{
    zlink_coroutine_t *stack = zlink_stack_pool_take(&stacks->pool, &stacks->list);
    assert_non_null(stack);
    return stack;
}

static void give_back(stacks_t *stacks, zlink_coroutine_t *stack)
{
    zlink_stack_pool_give_back(&stacks->pool, &stacks->list, stack);
}

/* Sizes and bounds out of range are refused with the name of the option. */
static void test_options_out_of_range_are_refused(void **state)
{
    const struct {
        size_t stack_bytes;
        unsigned stacks_max;
        const char *name;
    } bad[] = {
        {1, 0, "stack_bytes"},
        {((size_t)16 << 10) - 1, 0, "stack_bytes"},
        {((size_t)8 << 20) + 1, 0, "stack_bytes"},
        {SIZE_MAX, 0, "stack_bytes"},
        {0, (1u << 24) + 1, "stacks_max"},
        {0, UINT32_MAX, "stacks_max"},
    };
    zlink_stack_pool_t pool;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        zlink_refusal_t why = {{0}};
        assert_int_equal(zlink_stack_pool_init(&pool, bad[i].stack_bytes, bad[i].stacks_max, &why),
                         ZLINK_INVALID_OPERATION);
        assert_non_null(strstr(why.line, bad[i].name));
    }
}

/* The size is rounded up to pages, and what a stack has is not less. */
static void test_sizes_are_rounded_up(void **state)
{
    const size_t sizes[] = {(size_t)16 << 10, ((size_t)16 << 10) + 1, 100000, (size_t)8 << 20};
    stacks_t stacks;

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        stacks_open(&stacks, sizes[i], 1);
        size_t bytes = zlink_stack_pool_stack_bytes(&stacks.pool);
        assert_true(bytes >= sizes[i] && bytes % stacks.pool.page_bytes == 0);
        zlink_coroutine_t *stack = take(&stacks);
        memset(stack->bottom, 1, stack->bytes); /* all of it is writable */
        give_back(&stacks, stack);
        stacks_close(&stacks);
    }
}

/* No more than stacks_max live at once; a refused take costs nothing; the counts are exact. */
static void test_the_bound_holds(void **state)
{
    stacks_t stacks;
    zlink_coroutine_t *taken[5];

    (void)state;
    stacks_open(&stacks, 0, 5);
    for (unsigned i = 0; i < 5; i++)
        taken[i] = take(&stacks);
    for (unsigned i = 0; i < 3; i++)
        assert_null(zlink_stack_pool_take(&stacks.pool, &stacks.list));
    assert_int_equal(atomic_load(&stacks.pool.live), 5);
    assert_int_equal(mapped, 5);
    give_back(&stacks, taken[2]);
    assert_int_equal(atomic_load(&stacks.pool.live), 4);
    taken[2] = take(&stacks);
    assert_null(zlink_stack_pool_take(&stacks.pool, &stacks.list));
    assert_int_equal(mapped, 5); /* the free one was used again */
    for (unsigned i = 0; i < 5; i++)
        give_back(&stacks, taken[i]);
    assert_int_equal(atomic_load(&stacks.pool.high_water), 5);
    stacks_close(&stacks);
}

/* Free stacks go from one worker's list to another's; what is more than the lists hold goes back to the kernel. */
static void test_free_stacks_are_shared_and_bounded(void **state)
{
    enum { MANY = 1500 };
    static zlink_coroutine_t *taken[MANY];
    stacks_t stacks;
    zlink_stack_list_t other = {0};

    (void)state;
    stacks_open(&stacks, (size_t)16 << 10, MANY);
    for (unsigned i = 0; i < MANY; i++)
        taken[i] = take(&stacks);
    for (unsigned i = 0; i < MANY; i++)
        give_back(&stacks, taken[i]);
    assert_true(stacks.list.count <= 32);
    assert_true(mapped < MANY);
    long kept = mapped;
    zlink_coroutine_t *stack = zlink_stack_pool_take(&stacks.pool, &other);
    assert_non_null(stack);
    assert_int_equal(mapped, kept);
    zlink_stack_pool_give_back(&stacks.pool, &other, stack);
    zlink_stack_pool_empty(&stacks.pool, &other);
    stacks_close(&stacks);
}

/* ---- a kernel that refuses ---- */

static uint64_t mappings_allowed(void)
{
    unsigned maps = 65530;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
    if (file) {
        assert_int_equal(fscanf(file, "%u", &maps), 1);
        (void)fclose(file);
    }
    return maps;
}

/* Without MADV_GUARD_INSTALL the default bound leaves mappings to others; with it, it need not. */
static void test_the_default_bound_fits_the_mappings(void **state)
{
    stacks_t stacks;

    (void)state;
    no_guard_install = true;
    stacks_open(&stacks, 0, 0);
    assert_false(stacks.pool.guard_install);
    assert_true(stacks.pool.stacks_max > 0);
    assert_true(stacks.pool.stacks_max <= mappings_allowed() / 3);
    stacks_close(&stacks);
    no_guard_install = false;
    stacks_open(&stacks, 0, 0);
#ifdef ZLINK_TSAN
    assert_int_equal(stacks.pool.stacks_max, 1024);
#else
    if (stacks.pool.guard_install)
        assert_int_equal(stacks.pool.stacks_max, 65536);
#endif
    stacks_close(&stacks);
}

/* A stack that cannot be mapped or guarded is none: no stack without a guard, no count and no mapping left behind. */
static void test_a_refusing_kernel_leaves_nothing_behind(void **state)
{
    stacks_t stacks;

    (void)state;
    for (int what = 0; what < 3; what++) {
        no_guard_install = what == 1;
        stacks_open(&stacks, 0, 4);
        no_mmap = what == 0;
        no_mprotect = what == 1;
        guards_left = what == 2 && stacks.pool.guard_install ? 0 : -1;
        if (what != 2 || stacks.pool.guard_install) {
            for (unsigned i = 0; i < 10; i++)
                assert_null(zlink_stack_pool_take(&stacks.pool, &stacks.list));
        }
        assert_int_equal(atomic_load(&stacks.pool.live), 0);
        no_mmap = false;
        no_mprotect = false;
        guards_left = -1;
        zlink_coroutine_t *stack = take(&stacks); /* it goes on when the kernel does */
        give_back(&stacks, stack);
        stacks_close(&stacks);
        no_guard_install = false;
    }
}

/* The pool's creation says so instead of starting without stacks. */
static void test_a_pool_without_stacks_is_not_created(void **state)
{
    zlink_worker_pool_options_t options = {.workers = 2};
    zlink_worker_pool_t *pool = NULL;
    zlink_refusal_t why = {{0}};

    (void)state;
    no_mmap = true;
    assert_int_equal(zlink_worker_pool_create(&options, &pool, &why), ZLINK_CAPACITY_EXCEEDED);
    no_mmap = false;
    assert_null(pool);
    assert_true(why.line[0] != '\0');
}

/* ---- the guard ---- */

static volatile bool endless = true;

static unsigned __attribute__((noinline)) overflow(unsigned depth)
{
    volatile char frame[1000];

    memset((void *)(uintptr_t)frame, (int)depth, sizeof(frame));
    return endless ? overflow(depth + 1) + (unsigned)frame[depth % sizeof(frame)] : depth;
}

static void overflow_entry(void *argument)
{
    (void)overflow(0);
    (void)argument;
    _exit(0); /* not reached */
}

static void run_over(const stacks_t *stacks, zlink_coroutine_t *stack)
{
    zlink_coroutine_t native;

    (void)stacks;
    zlink_coroutine_init_native(&native);
    zlink_coroutine_prepare(stack, overflow_entry, NULL);
    zlink_coroutine_switch(&native, stack);
}

static void touch_next(const stacks_t *stacks, zlink_coroutine_t *stack)
{
    (void)stacks;
    *(volatile char *)(stack->bottom - 1) = 1;
}

static void touch_last(const stacks_t *stacks, zlink_coroutine_t *stack)
{
    *(volatile char *)(stack->bottom - stacks->pool.guard_bytes) = 1;
}

static void touch_none(const stacks_t *stacks, zlink_coroutine_t *stack)
{
    (void)stacks;
    *(volatile char *)stack->bottom = 1;
}

/* Does `act` kill a child of this process with SIGSEGV? */
static bool dies(const stacks_t *stacks, zlink_coroutine_t *stack, void (*act)(const stacks_t *, zlink_coroutine_t *))
{
    int how = 0;
    (void)fflush(NULL);
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        (void)signal(SIGSEGV, SIG_DFL); /* the sanitizers' handler would report and exit */
        act(stacks, stack);
        _exit(0);
    }
    while (waitpid(child, &how, 0) < 0)
        assert_int_equal(errno, EINTR);
    if (WIFEXITED(how)) {
        assert_int_equal(WEXITSTATUS(how), 0);
        return false;
    }
    assert_int_equal(WTERMSIG(how), SIGSEGV);
    return true;
}

/* A handler that needs more than its stack hits the guard, of either kind, and never another stack. */
static void test_an_overflow_hits_the_guard(void **state)
{
    stacks_t stacks;

    (void)state;
    for (int by_mprotect = 0; by_mprotect <= 1; by_mprotect++) {
        no_guard_install = by_mprotect;
        stacks_open(&stacks, 0, 2);
        assert_true(!by_mprotect || !stacks.pool.guard_install);
        zlink_coroutine_t *below = take(&stacks); /* what would be overwritten */
        zlink_coroutine_t *stack = take(&stacks);
        assert_false(dies(&stacks, stack, touch_none));
        assert_true(dies(&stacks, stack, touch_next));
        assert_true(dies(&stacks, stack, touch_last));
        assert_true(dies(&stacks, stack, run_over));
        give_back(&stacks, stack);
        /* A stack that was used before has its guard still. */
        stack = take(&stacks);
        assert_true(dies(&stacks, stack, touch_next));
        give_back(&stacks, stack);
        give_back(&stacks, below);
        stacks_close(&stacks);
        no_guard_install = false;
    }
}

/* ---- resident pages ---- */

#if !defined(ZLINK_ASAN) && !defined(ZLINK_TSAN)

#define DEEP_BYTES 40000u

/* Of the usable stack; the descriptor's page is one of them. */
static unsigned resident_pages(const stacks_t *stacks, const zlink_coroutine_t *stack, const char *below)
{
    unsigned char pages[64];
    size_t bytes = (size_t)(below - stack->bottom) & ~(stacks->pool.page_bytes - 1);
    size_t count = bytes / stacks->pool.page_bytes;
    unsigned resident = 0;

    assert_true(count <= sizeof(pages));
    assert_int_equal(mincore(stack->bottom, bytes, pages), 0);
    for (size_t i = 0; i < count; i++)
        resident += pages[i] & 1;
    return resident;
}

static unsigned all_resident_pages(const stacks_t *stacks, const zlink_coroutine_t *stack)
{
    return resident_pages(stacks, stack, stack->bottom + zlink_stack_pool_stack_bytes(&stacks->pool));
}

typedef struct visitor {
    zlink_coroutine_t native;
    zlink_coroutine_t *stack;
    unsigned use_bytes;  /* before it is left */
    unsigned live_bytes; /* while it is left */
    bool broken;
} visitor_t;

static unsigned __attribute__((noinline)) use(const char *from, unsigned bytes)
{
    volatile unsigned char frame[512];

    memset((void *)(uintptr_t)frame, 0xa5, sizeof(frame));
    if ((uintptr_t)from - (uintptr_t)frame < bytes)
        return use(from, bytes) + frame[17];
    return frame[0];
}

static void __attribute__((noinline)) leave_with(visitor_t *visitor, const char *from)
{
    volatile unsigned char frame[512];

    memset((void *)(uintptr_t)frame, 0x5a, sizeof(frame));
    if ((uintptr_t)from - (uintptr_t)frame < visitor->live_bytes)
        leave_with(visitor, from);
    else
        zlink_coroutine_switch(visitor->stack, &visitor->native);
    for (unsigned i = 0; i < sizeof(frame); i++)
        visitor->broken |= frame[i] != 0x5a;
}

static void visit(void *argument)
{
    visitor_t *visitor = argument;
    char here = 0;

    for (;;) {
        if (visitor->use_bytes != 0)
            (void)use(&here, visitor->use_bytes);
        if (visitor->live_bytes != 0)
            leave_with(visitor, &here);
        else
            zlink_coroutine_switch(visitor->stack, &visitor->native);
    }
}

static void go(visitor_t *visitor)
{
    zlink_coroutine_switch(&visitor->native, visitor->stack);
}

static void visitor_open(visitor_t *visitor, stacks_t *stacks)
{
    memset(visitor, 0, sizeof(*visitor));
    visitor->stack = take(stacks);
    zlink_coroutine_init_native(&visitor->native);
    zlink_coroutine_prepare(visitor->stack, visit, visitor);
}

/* A deep stack that is parked keeps at most three pages, from its first park on. */
static void test_a_deep_stack_is_trimmed_when_it_is_parked(void **state)
{
    stacks_t stacks;
    visitor_t visitor;

    (void)state;
    stacks_open(&stacks, (size_t)64 << 10, 1);
    if (!stacks.pool.watch_depth) {
        stacks_close(&stacks);
        skip(); /* valgrind */
    }
    visitor_open(&visitor, &stacks);
    for (unsigned round = 0; round < 3; round++) {
        visitor.use_bytes = DEEP_BYTES;
        go(&visitor);
        assert_true(all_resident_pages(&stacks, visitor.stack) >= DEEP_BYTES / stacks.pool.page_bytes);
        zlink_stack_pool_parked(&stacks.pool, visitor.stack);
        assert_true(all_resident_pages(&stacks, visitor.stack) <= 3);
        visitor.use_bytes = 0;
        go(&visitor);
        zlink_stack_pool_parked(&stacks.pool, visitor.stack);
        assert_true(all_resident_pages(&stacks, visitor.stack) <= 3);
    }
    zlink_coroutine_discard(visitor.stack);
    give_back(&stacks, visitor.stack);
    stacks_close(&stacks);
}

/* One whose live frames are deep themselves is trimmed below them within a few parks, and they stay as they were. */
static void test_live_frames_survive_the_trim(void **state)
{
    stacks_t stacks;
    visitor_t visitor;

    (void)state;
    stacks_open(&stacks, (size_t)64 << 10, 1);
    if (!stacks.pool.watch_depth) {
        stacks_close(&stacks);
        skip();
    }
    visitor_open(&visitor, &stacks);
    visitor.use_bytes = DEEP_BYTES;
    visitor.live_bytes = 12000;
    for (unsigned round = 0; round < 40; round++) {
        go(&visitor);
        for (unsigned park = 0; park < 8; park++)
            zlink_stack_pool_parked(&stacks.pool, visitor.stack);
        /* A page of room: the red zone, or what is written between `live` and the switch. */
        assert_int_equal(resident_pages(&stacks, visitor.stack, (char *)visitor.stack->live - stacks.pool.page_bytes),
                         0);
    }
    assert_false(visitor.broken);
    zlink_coroutine_discard(visitor.stack);
    give_back(&stacks, visitor.stack);
    stacks_close(&stacks);
}

/* A free stack does not keep what its last handler used. */
static void test_a_deep_stack_is_trimmed_when_it_is_given_back(void **state)
{
    stacks_t stacks;
    visitor_t visitor;

    (void)state;
    stacks_open(&stacks, (size_t)64 << 10, 1);
    if (!stacks.pool.watch_depth) {
        stacks_close(&stacks);
        skip();
    }
    visitor_open(&visitor, &stacks);
    visitor.use_bytes = DEEP_BYTES;
    go(&visitor);
    zlink_coroutine_discard(visitor.stack);
    give_back(&stacks, visitor.stack);
    assert_true(all_resident_pages(&stacks, visitor.stack) <= 3);
    stacks_close(&stacks);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_out_of_range_are_refused),
        cmocka_unit_test(test_sizes_are_rounded_up),
        cmocka_unit_test(test_the_bound_holds),
        cmocka_unit_test(test_free_stacks_are_shared_and_bounded),
        cmocka_unit_test(test_the_default_bound_fits_the_mappings),
        cmocka_unit_test(test_a_refusing_kernel_leaves_nothing_behind),
        cmocka_unit_test(test_a_pool_without_stacks_is_not_created),
        cmocka_unit_test(test_an_overflow_hits_the_guard),
#if !defined(ZLINK_ASAN) && !defined(ZLINK_TSAN)
        cmocka_unit_test(test_a_deep_stack_is_trimmed_when_it_is_parked),
        cmocka_unit_test(test_live_frames_survive_the_trim),
        cmocka_unit_test(test_a_deep_stack_is_trimmed_when_it_is_given_back),
#endif
    };

    return zlink_test_main(tests);
}
