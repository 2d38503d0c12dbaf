#include "exec/adaptive_spin.h"

/* The least time, as a part of the longest: below it there is none. */
#define LEAST_PART 8u
#define FIRST_PART 4u

/* A sleep of up to so many longest times was a short one: most of it may have been the waking itself. */
#define SHORT_SLEEP 4u

/* More than a time in vain takes away, so that it also grows where work comes a little later each time. */
#define GROWS_AFTER_SLEEP 4u

static void grow(zlink_adaptive_spin_t *spin, uint32_t factor)
{
    uint32_t first = spin->max_ns / FIRST_PART;

    spin->ns = spin->ns < spin->max_ns / factor ? spin->ns * factor : spin->max_ns;
    if (spin->ns < first)
        spin->ns = first;
}

void zlink_adaptive_spin_init(zlink_adaptive_spin_t *spin, uint32_t max_ns)
{
    spin->max_ns = max_ns;
    spin->ns = max_ns / FIRST_PART;
}

void zlink_adaptive_spin_found(zlink_adaptive_spin_t *spin)
{
    grow(spin, 2);
}

void zlink_adaptive_spin_in_vain(zlink_adaptive_spin_t *spin)
{
    spin->ns /= 2;
    if (spin->ns < spin->max_ns / LEAST_PART)
        spin->ns = 0;
}

void zlink_adaptive_spin_slept(zlink_adaptive_spin_t *spin, uint64_t slept_ns)
{
    if (slept_ns <= (uint64_t)spin->max_ns * SHORT_SLEEP)
        grow(spin, GROWS_AFTER_SLEEP);
}
