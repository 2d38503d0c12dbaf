#include "exec/coroutine.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#ifdef ZLINK_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef ZLINK_TSAN
#include <sanitizer/tsan_interface.h>
#endif

/* What runs between the change of fiber and the change of stack must not be written into either's shadow of calls. */
#if defined(ZLINK_TSAN) && defined(__clang__)
#define BETWEEN_FIBERS __attribute__((disable_sanitizer_instrumentation))
#elif defined(ZLINK_TSAN)
#define BETWEEN_FIBERS __attribute__((no_sanitize_thread))
#else
#define BETWEEN_FIBERS
#endif

/* ---- the machine's part ---- */

#ifdef ZLINK_COROUTINE_UCONTEXT

/* How much below its own frame a function that is about to switch may use; for `live` only. */
#define SWITCH_FRAMES_BYTES 2048

BETWEEN_FIBERS static inline void swap_stacks(zlink_coroutine_t *from, zlink_coroutine_t *to)
{
    from->live = (char *)__builtin_frame_address(0) - SWITCH_FRAMES_BYTES;
    swapcontext(&from->context, &to->context); /* fails only where it would start a thread's end: uc_link is not used */
}

#else

/* exec/coroutine_switch.c: saves the callee-saved registers on the stack, and the stack pointer in `*live`. */
void zlink_coroutine_swap(void **live, void *to);
void zlink_coroutine_start(void);
void *zlink_coroutine_first_frame(void *top, void (*start)(void), void (*entry)(void *), void *argument);

BETWEEN_FIBERS static inline void swap_stacks(zlink_coroutine_t *from, zlink_coroutine_t *to)
{
    zlink_coroutine_swap(&from->live, to->live);
}

#endif

/* ---- the sanitizers' part, around it ---- */

BETWEEN_FIBERS static inline void before_switch(zlink_coroutine_t *from, zlink_coroutine_t *to, int last)
{
#ifdef ZLINK_ASAN
    __sanitizer_start_switch_fiber(last ? NULL : &from->fake_stack, to->bottom, to->bytes);
#endif
#ifdef ZLINK_TSAN
    __tsan_switch_to_fiber(to->fiber, 0);
#endif
    (void)from, (void)to, (void)last;
}

BETWEEN_FIBERS static inline void after_switch(zlink_coroutine_t *self)
{
#ifdef ZLINK_ASAN
    __sanitizer_finish_switch_fiber(self->fake_stack, NULL, NULL);
#endif
    (void)self;
}

static void first_steps(void *argument)
{
    zlink_coroutine_t *self = argument;
#ifdef ZLINK_ASAN
    __sanitizer_finish_switch_fiber(NULL, NULL, NULL);
#endif
    self->entry(self->argument);
    __builtin_trap();
}

#ifdef ZLINK_COROUTINE_UCONTEXT

static void first_steps_in_two_halves(unsigned high, unsigned low)
{
    first_steps((void *)(uintptr_t)((uint64_t)high << 32 | low));
}

#endif

void zlink_coroutine_init_native(zlink_coroutine_t *coroutine)
{
    memset(coroutine, 0, sizeof(*coroutine));
#ifdef ZLINK_ASAN
    /* The bounds, which the sanitizer is told when the thread comes back to this stack. */
    pthread_attr_t attributes;
    void *bottom = NULL;
    size_t bytes = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &bottom, &bytes);
        pthread_attr_destroy(&attributes);
    }
    coroutine->bottom = bottom;
    coroutine->bytes = bytes;
#endif
#ifdef ZLINK_TSAN
    coroutine->fiber = __tsan_get_current_fiber();
#endif
}

void zlink_coroutine_prepare(zlink_coroutine_t *coroutine, zlink_coroutine_entry_t entry, void *argument)
{
    coroutine->entry = entry;
    coroutine->argument = argument;
#ifdef ZLINK_TSAN
    coroutine->fiber = __tsan_create_fiber(0);
#endif
#ifdef ZLINK_COROUTINE_UCONTEXT
    uint64_t self = (uint64_t)(uintptr_t)coroutine;
    getcontext(&coroutine->context);
    coroutine->context.uc_link = NULL;
    coroutine->context.uc_stack.ss_sp = coroutine->bottom;
    coroutine->context.uc_stack.ss_size = coroutine->bytes;
    makecontext(&coroutine->context, (void (*)(void))first_steps_in_two_halves, 2, (unsigned)(self >> 32),
                (unsigned)self);
#else
    coroutine->live = zlink_coroutine_first_frame(coroutine->bottom + coroutine->bytes, zlink_coroutine_start,
                                                  first_steps, coroutine);
#endif
}

BETWEEN_FIBERS void zlink_coroutine_switch(zlink_coroutine_t *from, zlink_coroutine_t *to)
{
    assert(from != to);
    before_switch(from, to, 0);
    swap_stacks(from, to);
    after_switch(from);
}

BETWEEN_FIBERS void zlink_coroutine_leave(zlink_coroutine_t *from, zlink_coroutine_t *to)
{
    assert(from != to);
    before_switch(from, to, 1);
    swap_stacks(from, to);
    __builtin_trap();
}

void zlink_coroutine_discard(zlink_coroutine_t *coroutine)
{
#ifdef ZLINK_ASAN
    __asan_unpoison_memory_region(coroutine->bottom, coroutine->bytes);
#endif
#ifdef ZLINK_TSAN
    /* A fiber keeps a shadow of the calls that never returned: a fresh one for every use. */
    __tsan_destroy_fiber(coroutine->fiber);
    coroutine->fiber = NULL;
#endif
    (void)coroutine;
}
