/*
 * net/thread_schedule.h: how urgent the calling thread is to the kernel. Best effort: what a sandbox or an older kernel
 * does not allow changes nothing else.
 */
#ifndef ZLINK_NET_THREAD_SCHEDULE_H
#define ZLINK_NET_THREAD_SCHEDULE_H

/* For a thread that does little at a time and is waited for: short slices, so that it is run as soon as it wakes
 * (Linux 6.12). It gets no more of the processor than others. */
void zlink_thread_schedule_urgent(void);

/* For arithmetic that can wait: a tenth of what the others get where all want to run, and slices of the usual length.
 */
void zlink_thread_schedule_behind(void);

#endif
