/*
 * server/application/work_host.h: what a node has for work off the turn: its CPU workers, and the count of its I/O
 * works. It also knows which work is whose, so that a Spot that closes can tell its work to stop.
 *
 * Belongs to the application host, lives as long as that, and is closed after every Spot and channel. Any thread may
 * use it; the public functions (include/zlink/work.h) are in work_api.c.
 */
#ifndef ZLINK_SERVER_WORK_HOST_H
#define ZLINK_SERVER_WORK_HOST_H

#include <pthread.h>
#include <stdint.h>
#include <sys/queue.h>

#include <zlink/status.h>

#include "base/clock.h"
#include "base/refusal.h"
#include "exec/cpu_worker_pool.h"
#include "exec/io_work.h"

#define ZLINK_WORK_OWNER_SHELVES 64

typedef struct zlink_work_host_options {
    unsigned cpu_workers_min; /* these six as in the two options of exec: 0 = the default */
    unsigned cpu_workers_max;
    uint32_t cpu_workers_idle_ms;
    uint32_t cpu_works_max; /* that wait for a CPU worker */
    uint64_t cpu_work_bytes_max;
    uint32_t io_works_max;
} zlink_work_host_options_t;

/* The works of some owners. */
typedef struct zlink_work_shelf {
    pthread_mutex_t lock;
    LIST_HEAD(, zlink_work_entry) works;
} zlink_work_shelf_t;

/* Embedded in the record of a work, from before it is begun until the record is freed. */
typedef struct zlink_work_entry {
    const void *owner; /* a Spot or a channel; an address only: it may be gone */
    zlink_stop_token_t *stop;
    LIST_ENTRY(zlink_work_entry) in_shelf;
} zlink_work_entry_t;

typedef struct zlink_work_host {
    zlink_cpu_worker_pool_t *cpu_workers;
    zlink_io_works_t io_works;
    zlink_work_shelf_t shelves[ZLINK_WORK_OWNER_SHELVES];
    void (*closed)(void *context);
    void *context;
} zlink_work_host_t;

/* ZLINK_INVALID_OPERATION for an option out of range, ZLINK_CAPACITY_EXCEEDED for memory or threads. */
zlink_status_t zlink_work_host_create(const zlink_work_host_options_t *options, const zlink_clock_t *clock,
                                      zlink_work_host_t **created, zlink_refusal_t *why);

void zlink_work_host_add(zlink_work_host_t *host, zlink_work_entry_t *entry, const void *owner,
                         zlink_stop_token_t *stop);
void zlink_work_host_remove(zlink_work_host_t *host, zlink_work_entry_t *entry);

/* `owner` takes nothing new: what it has under way is told to stop. What it begins later is not. */
void zlink_work_host_owner_closes(zlink_work_host_t *host, const void *owner);

/* Nothing new; all is told to stop; `closed` is called once, on any thread, when nothing runs and nothing is pending.
 */
void zlink_work_host_close(zlink_work_host_t *host, void (*closed)(void *context), void *context);

/* After `closed`, or where nothing was ever begun. NULL is allowed. */
void zlink_work_host_destroy(zlink_work_host_t *host);

#endif
