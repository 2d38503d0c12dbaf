/*
 * tests/simulation/memory_kernel.h: the kernel's side of io_uring and TCP in memory, for several machines in one thread
 * and on one clock.
 *
 * It stands at the outermost seam: the functions of libc and liburing that net/ calls for its ring and sockets, put in
 * place by the linker (--wrap; CMakeLists.txt has the list). So all of net/ runs as it is, the code that arms, cancels,
 * reassembles and closes included, and production has no indirection for it. A ring made here lies in ordinary memory
 * in the form that liburing's inline functions expect.
 *
 * A socket belongs to the machine that acts at the time (memory_kernel_act_as), and so does the one ring that a machine
 * may have. Bytes on their way are segments that are due at some time; the order of TCP is kept within a direction, all
 * other order is left to chance, and so are the sizes of what is received, short sends, and receives that end early.
 * Nothing moves by itself: memory_kernel_deliver() does one thing that is due. Waits do not block:
 * memory_kernel_wait_is_over() tells whether the one of a machine would have ended by now.
 *
 * What its caller must never do to a real kernel ends the run: closing a socket that an operation is in flight on, a
 * second operation of one kind, memory of a receive that is not the kernel's.
 */
#ifndef ZLINK_TESTS_SIMULATION_MEMORY_KERNEL_H
#define ZLINK_TESTS_SIMULATION_MEMORY_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#define MEMORY_KERNEL_MACHINES 4u

/* `now_ns` is read whenever the time is needed. */
void memory_kernel_open(const uint64_t *now_ns);
/* Nothing may be left: no ring, no socket. */
void memory_kernel_close(void);

/* Whose calls those are that follow. Machine n has the address 10.0.0.n+1. */
void memory_kernel_act_as(unsigned machine);

bool memory_kernel_wait_is_over(unsigned machine);
/* The time at which it will be, without anything else happening; UINT64_MAX: never, or there is no ring. */
uint64_t memory_kernel_wait_ends_ns(unsigned machine);

/* Does one thing that is due, by chance. False: nothing is. */
bool memory_kernel_deliver(void);
/* When the next thing is due; UINT64_MAX: nothing is on its way. */
uint64_t memory_kernel_next_ns(void);

/* How long what is sent from now on takes at most: usually, and in the odd case. */
void memory_kernel_set_latency(uint64_t usual_ns, uint64_t odd_ns);

/* Nothing passes between the two, but nothing is lost either, until it is taken back. */
void memory_kernel_part(unsigned one, unsigned other, bool parted);

/* One connection, by chance, is lost: both sides learn of it, each in its time, and what was on its way is gone. */
bool memory_kernel_reset_one(void);
/* The connections that the two have now carry nothing any more, and neither side is told. */
void memory_kernel_silence(unsigned one, unsigned other);
/* Sockets whose connection is silent or lost, and that are not closed yet. */
unsigned memory_kernel_faulty(void);

/* The machine is gone for all others, as after a power failure: what it sent and has not arrived never will. It learns
 * of that at once, so that the process on it comes to an end. Until it has another ring it cannot be reached. */
void memory_kernel_cut_off(unsigned machine);

/* Of all runs so far. */
typedef struct memory_kernel_totals {
    uint64_t connections, completions, segments, resets, short_sends, starved;
} memory_kernel_totals_t;

extern memory_kernel_totals_t memory_kernel_totals;

#endif
