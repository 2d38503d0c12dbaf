/*
 * server/application/cancellation.h: who is to be told when a zlink_cancellation_t (include/zlink/cancellation.h) is
 * cancelled.
 *
 * A cancellation is held by its maker and by everybody who has entered; the last one frees it. Entries are told under
 * its mutex, so that none of them can leave, and be freed, while it is being told. `cancelled` therefore only starts
 * something: it takes no lock that is held around enter or leave, and waits for nothing.
 */
#ifndef ZLINK_SERVER_CANCELLATION_H
#define ZLINK_SERVER_CANCELLATION_H

#include <stdbool.h>
#include <sys/queue.h>

#include <zlink/cancellation.h>

typedef struct zlink_cancellation_entry zlink_cancellation_entry_t;

/* Embedded in what wants to be told; zero-initialised has not entered. */
struct zlink_cancellation_entry {
    void (*cancelled)(zlink_cancellation_entry_t *entry); /* on the thread that cancels, once */
    zlink_cancellation_t *of;                             /* private */
    LIST_ENTRY(zlink_cancellation_entry) in_cancellation;
};

/* Any thread. False: it is cancelled already, and the entry has not entered. */
bool zlink_cancellation_enter(zlink_cancellation_t *cancellation, zlink_cancellation_entry_t *entry);

/* The thread that entered. Afterwards `cancelled` neither runs nor will. Nothing where it has not entered. */
void zlink_cancellation_leave(zlink_cancellation_entry_t *entry);

#endif
