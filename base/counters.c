#include "base/counters.h"

#include <assert.h>
#include <string.h>

/* Kept sorted by insertion; only constructors write it, which run one after the other before main(). */
static zlink_counter_t *counters;

void zlink_counter_register(zlink_counter_t *counter)
{
    zlink_counter_t **link = &counters;

    while (*link != NULL && strcmp((*link)->name, counter->name) < 0)
        link = &(*link)->next;
    assert((*link == NULL || strcmp((*link)->name, counter->name) != 0) && "two counters have one name");
    counter->next = *link;
    *link = counter;
}

void zlink_counters_each(zlink_counter_visit_t visit, void *context)
{
    for (const zlink_counter_t *counter = counters; counter != NULL; counter = counter->next)
        visit(counter, context);
}
