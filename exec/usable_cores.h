/*
 * exec/usable_cores.h: how many cores this process may use: its affinity, and the whole cores of a container's quota.
 *
 * Any thread; a look at the system each time, so at start only.
 */
#ifndef ZLINK_EXEC_USABLE_CORES_H
#define ZLINK_EXEC_USABLE_CORES_H

/* At least 1. */
unsigned zlink_usable_cores(void);

#endif
