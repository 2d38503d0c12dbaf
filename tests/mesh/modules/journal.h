/*
 * What an owner of the mesh tests' modules remembers: the order in which its handlers came along, and whether two of
 * them were ever inside at the same time. Lives in the owner's state; only its turns touch it, which is what is
 * being checked.
 */
#ifndef TESTS_MESH_JOURNAL_H
#define TESTS_MESH_JOURNAL_H

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "mesh.zlink.h"

typedef struct journal {
    atomic_int inside;
    int64_t overlaps;
    char text[sizeof(((LogRes *)0)->log)];
} journal_t;

/* Every part of a handler between two waits begins and ends with these two. */
static inline void journal_enter(journal_t *journal)
{
    if (atomic_fetch_add(&journal->inside, 1) != 0)
        journal->overlaps++;
    sched_yield(); /* whoever must not be here gets a chance to be seen */
}

static inline void journal_leave(journal_t *journal)
{
    atomic_fetch_sub(&journal->inside, 1);
}

/* What does not fit any more is left out. */
static inline void journal_note(journal_t *journal, const char *tag, const char *mark)
{
    size_t used = strlen(journal->text);
    if (tag[0])
        snprintf(journal->text + used, sizeof(journal->text) - used, "%s%s%s", used ? " " : "", tag, mark);
}

static inline void journal_read(const journal_t *journal, LogRes *reply)
{
    snprintf(reply->log, sizeof(reply->log), "%s", journal->text);
    reply->overlaps = journal->overlaps;
}

#endif
