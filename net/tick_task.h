/*
 * net/tick_task.h: work that a reactor was asked to do later: at the end of this tick, in the next one, or when
 * receive buffers are back.
 *
 * An intrusive entry in at most one list at a time. It may be cancelled, also while the list runs, so what embeds
 * it can be freed safely. Reactor thread only.
 */
#ifndef ZLINK_NET_TICK_TASK_H
#define ZLINK_NET_TICK_TASK_H

#include <stdbool.h>
#include <stddef.h>

typedef struct zlink_tick_task zlink_tick_task_t;

/* Zero-initialise, then set `run`. */
struct zlink_tick_task {
    zlink_tick_task_t *next;
    zlink_tick_task_t **link; /* what points here; NULL when in no list */
    void (*run)(zlink_tick_task_t *task);
};

/* First in, first out. */
typedef struct zlink_tick_list {
    zlink_tick_task_t *first;
    zlink_tick_task_t **last;
    zlink_tick_task_t marker; /* where a run under way ends */
} zlink_tick_list_t;

static inline bool zlink_tick_task_is_waiting(const zlink_tick_task_t *task)
{
    return task->link != NULL;
}

void zlink_tick_list_init(zlink_tick_list_t *list);

/* Does nothing where the task is in a list already. */
void zlink_tick_list_add(zlink_tick_list_t *list, zlink_tick_task_t *task);

/* Out of `list`, which must be the one that it is in (or it is in none). */
void zlink_tick_list_remove(zlink_tick_list_t *list, zlink_tick_task_t *task);

/* Runs what was in the list at the call; what is added meanwhile stays for the next call. Answers whether any ran. */
bool zlink_tick_list_run(zlink_tick_list_t *list);

#endif
