/*
 * server/permit_line.h: who gets the next permit of the application job queue.
 *
 * Connections with a call that found no permit stand in line, each once. A permit that comes back goes to the one that
 * has waited longest, by hand: nobody who comes later can take it, also not one whose calls just keep coming. Who got
 * one and needs another goes to the end. Belongs to the ingress; reactor thread only. Nobody polls: a refused take
 * makes the job queue tell when a permit is free.
 */
#ifndef ZLINK_SERVER_PERMIT_LINE_H
#define ZLINK_SERVER_PERMIT_LINE_H

#include <stddef.h>

#include "base/clock.h"
#include "exec/application_job_queue.h"
#include "server/mesh/permit_waiter.h"

typedef struct zlink_permit_line {
    zlink_application_job_queue_t *queue;
    const zlink_clock_t *clock;
    TAILQ_HEAD(zlink_permit_waiters, zlink_permit_waiter) waiters;
} zlink_permit_line_t;

void zlink_permit_line_init(zlink_permit_line_t *line, zlink_application_job_queue_t *queue,
                            const zlink_clock_t *clock);

/* True: a permit is the caller's, to give back to the queue. False: the waiter stands in line. */
bool zlink_permit_line_take(zlink_permit_line_t *line, zlink_permit_waiter_t *waiter);

/* The queue has said that a permit is free: all that are go to those who wait, in their order, and `resume` is called
 * for each of them. */
void zlink_permit_line_hand_out(zlink_permit_line_t *line, void (*resume)(zlink_permit_waiter_t *waiter));

/* The waiter wants none any more: its connection is gone, or its call was refused. What it holds goes back. */
void zlink_permit_line_leave(zlink_permit_line_t *line, zlink_permit_waiter_t *waiter);

#endif
