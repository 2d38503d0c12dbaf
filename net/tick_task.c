#include "net/tick_task.h"

#include <assert.h>

/* Marks the end of one run; lives on the stack of the run. */
static void marker_run(zlink_tick_task_t *task)
{
    (void)task;
}

void zlink_tick_list_init(zlink_tick_list_t *list)
{
    list->first = NULL;
    list->last = &list->first;
    list->marker = (zlink_tick_task_t){.run = marker_run};
}

void zlink_tick_list_add(zlink_tick_list_t *list, zlink_tick_task_t *task)
{
    assert(task->run != NULL);
    if (task->link != NULL)
        return;
    task->next = NULL;
    task->link = list->last;
    *list->last = task;
    list->last = &task->next;
}

void zlink_tick_list_remove(zlink_tick_list_t *list, zlink_tick_task_t *task)
{
    if (task->link == NULL)
        return;
    *task->link = task->next;
    if (task->next != NULL) {
        task->next->link = task->link;
    } else {
        assert(list->last == &task->next);
        list->last = task->link;
    }
    task->next = NULL;
    task->link = NULL;
}

bool zlink_tick_list_run(zlink_tick_list_t *list)
{
    zlink_tick_task_t *marker = &list->marker;
    bool any = false;

    if (list->first == NULL)
        return false;
    zlink_tick_list_add(list, marker);
    for (;;) {
        zlink_tick_task_t *task = list->first;

        zlink_tick_list_remove(list, task);
        if (task == marker)
            return any;
        any = true;
        task->run(task);
    }
}
