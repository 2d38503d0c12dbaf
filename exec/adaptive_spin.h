/*
 * exec/adaptive_spin.h: how long a worker that has run out of work keeps looking before it sleeps. Private to exec.
 *
 * Waking a sleeper costs more than most handlers, but looking in vain costs a core. So the time grows where it has paid
 * or would have, and goes down to nothing where it has not. One for each worker; on its own thread only.
 */
#ifndef ZLINK_EXEC_ADAPTIVE_SPIN_H
#define ZLINK_EXEC_ADAPTIVE_SPIN_H

#include <stdint.h>

typedef struct zlink_adaptive_spin {
    uint32_t max_ns; /* 0: never */
    uint32_t ns;     /* so long the next time */
} zlink_adaptive_spin_t;

/* It begins with a part of the longest time. */
void zlink_adaptive_spin_init(zlink_adaptive_spin_t *spin, uint32_t max_ns);

/* It has looked: something came meanwhile, or nothing did. */
void zlink_adaptive_spin_found(zlink_adaptive_spin_t *spin);
void zlink_adaptive_spin_in_vain(zlink_adaptive_spin_t *spin);

/* It has slept for so long until work came. */
void zlink_adaptive_spin_slept(zlink_adaptive_spin_t *spin, uint64_t slept_ns);

#endif
