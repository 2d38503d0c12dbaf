/*
 * exec/cpu_relax.h: tells the processor that this thread waits for another in a loop. Any thread.
 */
#ifndef ZLINK_EXEC_CPU_RELAX_H
#define ZLINK_EXEC_CPU_RELAX_H

static inline void zlink_cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
