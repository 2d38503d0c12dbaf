#include "exec/usable_cores.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

/* The whole cores of a container's quota; 0 where there is none. */
static unsigned cores_of_quota(void)
{
    unsigned long quota = 0;
    unsigned long period = 0;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (!file)
        return 0;
    int read = fscanf(file, "%lu %lu", &quota, &period); /* "max 100000" gives nothing */
    (void)fclose(file);
    if (read != 2 || period == 0)
        return 0;
    return quota / period == 0 ? 1 : (unsigned)(quota / period);
}

unsigned zlink_usable_cores(void)
{
    cpu_set_t set;
    unsigned cores = 1;

    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        cores = (unsigned)CPU_COUNT(&set);
    else if (sysconf(_SC_NPROCESSORS_ONLN) > 0)
        cores = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    unsigned quota = cores_of_quota();
    return quota != 0 && quota < cores ? quota : cores;
}
