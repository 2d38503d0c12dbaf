/*
 * The stack switch of x86-64 and aarch64: what a call must preserve goes onto the old stack and comes from the new one.
 *
 * zlink_coroutine_swap(void **live, void *to) keeps the stack pointer in *live and goes on at `to`. A new stack starts
 * with a frame that looks as if zlink_coroutine_start had called it. In a file of its own, so that it can be read, and
 * assembled for the other machine, without the rest.
 */
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) && !defined(ZLINK_COROUTINE_UCONTEXT)

/* rbx, rbp, r12 to r15, the control words of SSE and x87. Returns by a jump: the return predictor knows only the other
 * stack's callers. */
__asm__(".text\n"
        ".p2align 4\n"
        ".globl zlink_coroutine_swap\n"
        ".hidden zlink_coroutine_swap\n"
        ".type zlink_coroutine_swap, @function\n"
        "zlink_coroutine_swap:\n"
        "    .cfi_startproc\n"
        "    pushq %rbp\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    .cfi_rel_offset %rbp, 0\n"
        "    pushq %rbx\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    .cfi_rel_offset %rbx, 0\n"
        "    pushq %r12\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    .cfi_rel_offset %r12, 0\n"
        "    pushq %r13\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    .cfi_rel_offset %r13, 0\n"
        "    pushq %r14\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    .cfi_rel_offset %r14, 0\n"
        "    pushq %r15\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    .cfi_rel_offset %r15, 0\n"
        "    subq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    stmxcsr (%rsp)\n"
        "    fnstcw 4(%rsp)\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    ldmxcsr (%rsp)\n"
        "    fldcw 4(%rsp)\n"
        "    addq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %r15\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %r14\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %r13\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %r12\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rbx\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rbp\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rcx\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    .cfi_register %rip, %rcx\n"
        "    jmpq *%rcx\n"
        "    .cfi_endproc\n"
        ".size zlink_coroutine_swap, .-zlink_coroutine_swap\n"
        ".globl zlink_coroutine_start\n"
        ".hidden zlink_coroutine_start\n"
        ".type zlink_coroutine_start, @function\n"
        "zlink_coroutine_start:\n"
        "    .cfi_startproc\n"
        "    .cfi_undefined %rip\n"
        "    xorl %ebp, %ebp\n"
        "    movq %r12, %rdi\n"
        "    callq *%r13\n"
        "    ud2\n"
        "    .cfi_endproc\n"
        ".size zlink_coroutine_start, .-zlink_coroutine_start\n");

#define FRAME_WORDS    8
#define FRAME_CONTROLS 0 /* MXCSR in the low half, the x87 control word above it */
#define FRAME_ENTRY    3 /* r13 */
#define FRAME_ARGUMENT 4 /* r12 */
#define FRAME_RETURN   7

static uint64_t control_words(void)
{
    uint32_t sse;
    uint16_t x87;
    __asm__ volatile("stmxcsr %0" : "=m"(sse));
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    return (uint64_t)x87 << 32 | sse;
}

#elif defined(__aarch64__) && !defined(ZLINK_COROUTINE_UCONTEXT)

/* x19 to x30, d8 to d15, the floating-point controls: written only where they differ, which costs less than writing. */
__asm__(".text\n"
        ".p2align 4\n"
        ".globl zlink_coroutine_swap\n"
        ".hidden zlink_coroutine_swap\n"
        ".type zlink_coroutine_swap, %function\n"
        "zlink_coroutine_swap:\n"
        "    .cfi_startproc\n"
        "    sub sp, sp, #176\n"
        "    .cfi_adjust_cfa_offset 176\n"
        "    stp x19, x20, [sp, #0]\n"
        "    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n"
        "    stp x29, x30, [sp, #80]\n"
        "    .cfi_rel_offset x29, 80\n"
        "    .cfi_rel_offset x30, 88\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mrs x10, fpcr\n"
        "    str x10, [sp, #160]\n"
        "    mov x9, sp\n"
        "    str x9, [x0]\n"
        "    mov sp, x1\n"
        "    ldr x11, [sp, #160]\n"
        "    cmp x10, x11\n"
        "    b.eq 1f\n"
        "    msr fpcr, x11\n"
        "1:\n"
        "    ldp x19, x20, [sp, #0]\n"
        "    ldp x21, x22, [sp, #16]\n"
        "    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n"
        "    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #176\n"
        "    .cfi_adjust_cfa_offset -176\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size zlink_coroutine_swap, .-zlink_coroutine_swap\n"
        ".globl zlink_coroutine_start\n"
        ".hidden zlink_coroutine_start\n"
        ".type zlink_coroutine_start, %function\n"
        "zlink_coroutine_start:\n"
        "    .cfi_startproc\n"
        "    .cfi_undefined x30\n"
        "    mov x29, xzr\n"
        "    mov x0, x19\n"
        "    blr x20\n"
        "    brk #1\n"
        "    .cfi_endproc\n"
        ".size zlink_coroutine_start, .-zlink_coroutine_start\n");

#define FRAME_WORDS    22
#define FRAME_CONTROLS 20
#define FRAME_ENTRY    1 /* x20 */
#define FRAME_ARGUMENT 0 /* x19 */
#define FRAME_RETURN   11

static uint64_t control_words(void)
{
    uint64_t controls;
    __asm__ volatile("mrs %0, fpcr" : "=r"(controls));
    return controls;
}

#endif

#ifdef FRAME_WORDS

void *zlink_coroutine_first_frame(void *top, void (*start)(void), void (*entry)(void *), void *argument);

/* What zlink_coroutine_swap takes up: `start`, which calls `entry` with `argument`. The new stack inherits the
 * floating-point controls of whoever makes it. */
void *zlink_coroutine_first_frame(void *top, void (*start)(void), void (*entry)(void *), void *argument)
{
    uintptr_t aligned = (uintptr_t)top & ~(uintptr_t)15;
    uint64_t *frame = (uint64_t *)aligned - FRAME_WORDS;

    for (size_t i = 0; i < FRAME_WORDS; i++)
        frame[i] = 0;
    frame[FRAME_CONTROLS] = control_words();
    frame[FRAME_ENTRY] = (uint64_t)(uintptr_t)entry;
    frame[FRAME_ARGUMENT] = (uint64_t)(uintptr_t)argument;
    frame[FRAME_RETURN] = (uint64_t)(uintptr_t)start;
    return frame;
}

#else

typedef int zlink_coroutine_switch_is_ucontext;

#endif
