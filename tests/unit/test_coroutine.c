/*
 * The switch between stacks: what a call must preserve is preserved, and a new stack begins as the ABI wants it. The
 * only tests that look at the hand-written part; everything else in exec rests on it.
 */
#include "exec/coroutine.h"

#include <execinfo.h>
#include <fenv.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/harness.h"

#define STACK_BYTES ((size_t)256 << 10)
#define FRAMES_MAX  64

/* Two stacks that hand over to each other: the test's own and one that is made. */
typedef struct pair {
    zlink_coroutine_t native;
    zlink_coroutine_t other;
    unsigned steps;
    uintptr_t frame;
    int frames;
    int rounding_before;
    int rounding_after;
} pair_t;

static void pair_open(pair_t *pair, zlink_coroutine_entry_t entry)
{
    memset(pair, 0, sizeof(*pair));
    zlink_coroutine_init_native(&pair->native);
    pair->other.bottom = malloc(STACK_BYTES);
    pair->other.bytes = STACK_BYTES;
    assert_non_null(pair->other.bottom);
    zlink_coroutine_prepare(&pair->other, entry, pair);
}

static void pair_close(pair_t *pair)
{
    zlink_coroutine_discard(&pair->other);
    free(pair->other.bottom);
}

/* ---- registers ---- */

static pair_t *current;

/* Called with every register that it must preserve full of the caller's values. */
static void there_and_back(void)
{
    zlink_coroutine_switch(&current->native, &current->other);
}

#if defined(__x86_64__)

#define SAVED_REGISTERS 5 /* rbp is the frame pointer: a wrong one would not get past the first return */

__attribute__((noinline)) static void call_with_registers(void (*function)(void), uint64_t registers[SAVED_REGISTERS])
{
    __asm__ volatile("movq 0(%[r]), %%rbx\n"
                     "movq 8(%[r]), %%r12\n"
                     "movq 16(%[r]), %%r13\n"
                     "movq 24(%[r]), %%r14\n"
                     "movq 32(%[r]), %%r15\n"
                     "pushq %[r]\n"
                     "subq $136, %%rsp\n" /* beyond the red zone; the stack keeps its alignment */
                     "callq *%[f]\n"
                     "addq $136, %%rsp\n"
                     "popq %%rax\n"
                     "movq %%rbx, 0(%%rax)\n"
                     "movq %%r12, 8(%%rax)\n"
                     "movq %%r13, 16(%%rax)\n"
                     "movq %%r14, 24(%%rax)\n"
                     "movq %%r15, 32(%%rax)\n"
                     : [f] "+c"(function), [r] "+d"(registers)
                     :
                     : "rax", "rbx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc",
                       "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
                       "xmm12", "xmm13", "xmm14", "xmm15");
}

#elif defined(__aarch64__)

#define SAVED_REGISTERS 18 /* x29 is the frame pointer, x30 the way back */

__attribute__((noinline)) static void call_with_registers(void (*function)(void), uint64_t registers[SAVED_REGISTERS])
{
    register uint64_t *r __asm__("x9") = registers;
    register void (*f)(void) __asm__("x10") = function;

    __asm__ volatile("ldp x19, x20, [x9, #0]\n"
                     "ldp x21, x22, [x9, #16]\n"
                     "ldp x23, x24, [x9, #32]\n"
                     "ldp x25, x26, [x9, #48]\n"
                     "ldp x27, x28, [x9, #64]\n"
                     "ldp d8, d9, [x9, #80]\n"
                     "ldp d10, d11, [x9, #96]\n"
                     "ldp d12, d13, [x9, #112]\n"
                     "ldp d14, d15, [x9, #128]\n"
                     "str x9, [sp, #-16]!\n"
                     "blr x10\n"
                     "ldr x9, [sp], #16\n"
                     "stp x19, x20, [x9, #0]\n"
                     "stp x21, x22, [x9, #16]\n"
                     "stp x23, x24, [x9, #32]\n"
                     "stp x25, x26, [x9, #48]\n"
                     "stp x27, x28, [x9, #64]\n"
                     "stp d8, d9, [x9, #80]\n"
                     "stp d10, d11, [x9, #96]\n"
                     "stp d12, d13, [x9, #112]\n"
                     "stp d14, d15, [x9, #128]\n"
                     : "+r"(r), "+r"(f)
                     :
                     : "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x11", "x12", "x13", "x14", "x15", "x16",
                       "x17", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x30", "memory",
                       "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13",
                       "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27",
                       "v28", "v29", "v30", "v31");
}

#endif

#ifdef SAVED_REGISTERS

static void fill(uint64_t registers[SAVED_REGISTERS], uint64_t seed)
{
    for (unsigned i = 0; i < SAVED_REGISTERS; i++)
        registers[i] = seed + i;
}

static void back_and_there(void)
{
    zlink_coroutine_switch(&current->other, &current->native);
}

static void with_other_registers(void *argument)
{
    pair_t *pair = argument;

    for (uint64_t seed = UINT64_C(0x2222000000000000);; seed++) {
        uint64_t registers[SAVED_REGISTERS];
        uint64_t expected[SAVED_REGISTERS];

        fill(registers, seed);
        fill(expected, seed);
        call_with_registers(back_and_there, registers);
        if (memcmp(registers, expected, sizeof(registers)) == 0)
            pair->steps++;
    }
}

static void test_registers_survive_on_both_stacks(void **state)
{
    pair_t pair;

    (void)state;
    pair_open(&pair, with_other_registers);
    current = &pair;
    for (uint64_t seed = 0; seed < 3; seed++) {
        uint64_t registers[SAVED_REGISTERS];
        uint64_t expected[SAVED_REGISTERS];

        fill(registers, UINT64_C(0x1111000000000000) + seed);
        fill(expected, UINT64_C(0x1111000000000000) + seed);
        call_with_registers(there_and_back, registers);
        assert_memory_equal(registers, expected, sizeof(registers));
    }
    assert_int_equal(pair.steps, 2); /* the first time it only began */
    pair_close(&pair);
}

#endif

/* ---- floating-point controls ---- */

static void rounds_upward(void *argument)
{
    pair_t *pair = argument;

    pair->rounding_before = fegetround();
    (void)fesetround(FE_UPWARD);
    zlink_coroutine_switch(&pair->other, &pair->native);
    pair->rounding_after = fegetround();
    zlink_coroutine_leave(&pair->other, &pair->native);
}

/* A handler that rounds in its own way and waits leaves the others alone, and finds its way again. */
static void test_rounding_belongs_to_the_stack(void **state)
{
    pair_t pair;

    (void)state;
    assert_int_equal(fesetround(FE_DOWNWARD), 0);
    pair_open(&pair, rounds_upward);
    (void)fesetround(FE_TOWARDZERO);
    zlink_coroutine_switch(&pair.native, &pair.other);
    assert_int_equal(fegetround(), FE_TOWARDZERO);
    zlink_coroutine_switch(&pair.native, &pair.other);
    assert_int_equal(fegetround(), FE_TOWARDZERO);
    (void)fesetround(FE_TONEAREST);
    assert_int_equal(pair.rounding_before, FE_DOWNWARD); /* of whoever made it */
    assert_int_equal(pair.rounding_after, FE_UPWARD);
    pair_close(&pair);
}

/* ---- how a stack begins ---- */

static void looks_around(void *argument)
{
    pair_t *pair = argument;
    void *frames[FRAMES_MAX];

    pair->frame = (uintptr_t)__builtin_frame_address(0);
    pair->frames = backtrace(frames, FRAMES_MAX);
    zlink_coroutine_leave(&pair->other, &pair->native);
}

static void test_a_stack_begins_aligned_and_ends_for_a_debugger(void **state)
{
    pair_t pair;

    (void)state;
    for (size_t odd = 0; odd < 16; odd += 8) {
        pair_open(&pair, looks_around);
        pair.other.bytes -= odd;
        zlink_coroutine_prepare(&pair.other, looks_around, &pair);
        zlink_coroutine_switch(&pair.native, &pair.other);
        assert_int_equal(pair.frame % 16, 0);
        assert_in_range(pair.frame, (uintptr_t)pair.other.bottom, (uintptr_t)pair.other.bottom + pair.other.bytes);
        assert_in_range(pair.frames, 2, FRAMES_MAX - 1);
        pair_close(&pair);
    }
}

/* ---- reuse ---- */

static void counts(void *argument)
{
    pair_t *pair = argument;

    pair->steps++;
    zlink_coroutine_leave(&pair->other, &pair->native);
}

static void test_a_stack_that_was_left_for_good_begins_anew(void **state)
{
    pair_t pair;

    (void)state;
    pair_open(&pair, counts);
    for (unsigned i = 1; i <= 1000; i++) {
        zlink_coroutine_switch(&pair.native, &pair.other);
        assert_int_equal(pair.steps, i);
        zlink_coroutine_discard(&pair.other);
        zlink_coroutine_prepare(&pair.other, counts, &pair);
    }
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef SAVED_REGISTERS
        cmocka_unit_test(test_registers_survive_on_both_stacks),
#endif
        cmocka_unit_test(test_rounding_belongs_to_the_stack),
        cmocka_unit_test(test_a_stack_begins_aligned_and_ends_for_a_debugger),
        cmocka_unit_test(test_a_stack_that_was_left_for_good_begins_anew),
    };

    return zlink_test_main(tests);
}
