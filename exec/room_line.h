/*
 * exec/room_line.h: those who wait for room in a full application lane (requirement EX-42, EX-43, EX-73).
 *
 * A coordinator answers "full" at once; this wait stands above it, for callers that may wait. A waiter holds no gate,
 * no claim and no place in the queue. Whoever gives room of a queue back hands its waiters in, oldest first, each once:
 * nobody polls, and while nobody waits the line costs a look at one number.
 *
 * One line for all queues of a worker pool, owned by it. Any thread. Whoever lets a waiter stand in line keeps the
 * queue's owner alive and open until the waiter has left it: he counts it like accepted work.
 */
#ifndef ZLINK_EXEC_ROOM_LINE_H
#define ZLINK_EXEC_ROOM_LINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <zlink/status.h>

#define ZLINK_ROOM_WAITERS_MAX 1024u /* in one line */
#define ZLINK_ROOM_LINE_PARTS  64u   /* so that queues do not share one lock */

typedef struct zlink_room_waiter zlink_room_waiter_t;

/* Embedded in what waits. Set the two functions; the rest is the line's. */
struct zlink_room_waiter {
    /* Hands the work in. ZLINK_CAPACITY_EXCEEDED: still no room, it waits on. Under a lock of the line: it submits and
     * does nothing else. */
    zlink_status_t (*admit)(zlink_room_waiter_t *waiter);
    /* Once, with the first other answer of `admit`, unless it was taken out before. Outside every turn and lock, on the
     * thread that gave room or, where room came meanwhile, inside zlink_room_line_enter. */
    void (*ended)(zlink_room_waiter_t *waiter, zlink_status_t status);

    struct zlink_room_line *line;
    const void *queue;
    bool stands; /* in line */
    zlink_status_t status;
    TAILQ_ENTRY(zlink_room_waiter) in_line;
};

TAILQ_HEAD(zlink_room_waiters, zlink_room_waiter);

typedef struct zlink_room_line_part {
    pthread_mutex_t lock;
    struct zlink_room_waiters waiters; /* of several queues; of each the oldest first */
    _Atomic uint32_t count;
} zlink_room_line_part_t;

typedef struct zlink_room_line {
    _Atomic uint32_t waiting; /* all of them, those included that are just being told */
    zlink_room_line_part_t parts[ZLINK_ROOM_LINE_PARTS];
} zlink_room_line_t;

void zlink_room_line_init(zlink_room_line_t *line);

/* Nobody may stand in it. */
void zlink_room_line_destroy(zlink_room_line_t *line);

/* To the end of the line for room in `queue`. ZLINK_CAPACITY_EXCEEDED: no place in the line, nothing has happened. */
zlink_status_t zlink_room_line_enter(zlink_room_line_t *line, const void *queue, zlink_room_waiter_t *waiter);

/* It has entered. True: it was in line still, and neither of its functions is called any more. False: `ended` is
 * called, or has been. */
bool zlink_room_line_leave(zlink_room_waiter_t *waiter);

/* There may be room in `queue`, which is a name here and never followed: hands in whoever has room now. */
void zlink_room_line_serve(zlink_room_line_t *line, const void *queue);

/* For whoever has given room back. Sequentially consistent: a waiter stands in line before it looks for room again, the
 * giver looks here after the room is back, so one of them sees the other. */
static inline bool zlink_room_line_is_waited_in(const zlink_room_line_t *line)
{
    return atomic_load(&line->waiting) > 0;
}

#endif
