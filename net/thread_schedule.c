#include "net/thread_schedule.h"

#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHORT_SLICE_NS 100000u /* the shortest that the kernel takes */
#define NICE_BEHIND    10

/* The kernel's struct sched_attr; glibc has it only since 2.41. */
typedef struct thread_attributes {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns; /* of SCHED_OTHER: the slice, 0 = the usual one */
    uint64_t deadline_ns;
    uint64_t period_ns;
} thread_attributes_t;

static void schedule(int32_t nice, uint64_t slice_ns)
{
    const thread_attributes_t attributes = {
        .size = sizeof(attributes), .policy = SCHED_OTHER, .nice = nice, .runtime_ns = slice_ns};

    if (syscall(SYS_sched_setattr, 0, &attributes, 0) != 0 && nice > 0)
        (void)setpriority(PRIO_PROCESS, 0, nice); /* on Linux a nice value is a thread's, not the process's */
}

void zlink_thread_schedule_urgent(void)
{
    const int nice = getpriority(PRIO_PROCESS, 0);

    if (sched_getscheduler(0) == SCHED_OTHER) /* whoever chose another policy for the node knows why */
        schedule(nice, SHORT_SLICE_NS);
}

void zlink_thread_schedule_behind(void)
{
    if (sched_getscheduler(0) == SCHED_OTHER)
        schedule(NICE_BEHIND, 0);
}
