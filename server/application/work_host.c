#include "server/application/work_host.h"

#include <assert.h>

#include "base/memory.h"

static zlink_work_shelf_t *shelf_of(zlink_work_host_t *host, const void *owner)
{
    uint64_t mixed = (uint64_t)(uintptr_t)owner * UINT64_C(0x9e3779b97f4a7c15);
    return &host->shelves[(mixed >> 32) % ZLINK_WORK_OWNER_SHELVES];
}

zlink_status_t zlink_work_host_create(const zlink_work_host_options_t *options, const zlink_clock_t *clock,
                                      zlink_work_host_t **created, zlink_refusal_t *why)
{
    const zlink_cpu_worker_pool_options_t cpu_options = {
        .threads_min = options->cpu_workers_min,
        .threads_max = options->cpu_workers_max,
        .idle_timeout_ms = options->cpu_workers_idle_ms,
        .queue_items_max = options->cpu_works_max,
        .queue_bytes_max = options->cpu_work_bytes_max,
        .clock = clock,
    };
    zlink_work_host_t *host = zlink_calloc(1, sizeof(*host));
    if (!host) {
        zlink_refuse(why, "work off the turn: out of memory");
        return ZLINK_CAPACITY_EXCEEDED;
    }
    zlink_status_t status = zlink_cpu_worker_pool_create(&cpu_options, &host->cpu_workers, why);
    if (status != ZLINK_OK) {
        zlink_free(host);
        return status;
    }
    zlink_io_works_init(&host->io_works, options->io_works_max);
    for (unsigned i = 0; i < ZLINK_WORK_OWNER_SHELVES; i++) {
        pthread_mutex_init(&host->shelves[i].lock, NULL);
        LIST_INIT(&host->shelves[i].works);
    }
    *created = host;
    return ZLINK_OK;
}

void zlink_work_host_add(zlink_work_host_t *host, zlink_work_entry_t *entry, const void *owner,
                         zlink_stop_token_t *stop)
{
    zlink_work_shelf_t *shelf = shelf_of(host, owner);
    entry->owner = owner;
    entry->stop = stop;
    pthread_mutex_lock(&shelf->lock);
    LIST_INSERT_HEAD(&shelf->works, entry, in_shelf);
    pthread_mutex_unlock(&shelf->lock);
}

void zlink_work_host_remove(zlink_work_host_t *host, zlink_work_entry_t *entry)
{
    zlink_work_shelf_t *shelf = shelf_of(host, entry->owner);
    pthread_mutex_lock(&shelf->lock);
    LIST_REMOVE(entry, in_shelf);
    pthread_mutex_unlock(&shelf->lock);
}

/* NULL: of every owner. */
static void request_stop(zlink_work_shelf_t *shelf, const void *owner)
{
    const zlink_work_entry_t *entry;

    pthread_mutex_lock(&shelf->lock);
    LIST_FOREACH(entry, &shelf->works, in_shelf)
    {
        if (!owner || entry->owner == owner)
            zlink_stop_token_request(entry->stop);
    }
    pthread_mutex_unlock(&shelf->lock);
}

void zlink_work_host_owner_closes(zlink_work_host_t *host, const void *owner)
{
    request_stop(shelf_of(host, owner), owner);
}

static void io_works_closed(void *context)
{
    zlink_work_host_t *host = context;
    host->closed(host->context);
}

static void cpu_workers_closed(void *context)
{
    zlink_work_host_t *host = context;
    zlink_io_works_close(&host->io_works, io_works_closed, host);
}

void zlink_work_host_close(zlink_work_host_t *host, void (*closed)(void *context), void *context)
{
    host->closed = closed;
    host->context = context;
    for (unsigned i = 0; i < ZLINK_WORK_OWNER_SHELVES; i++)
        request_stop(&host->shelves[i], NULL);
    zlink_cpu_worker_pool_close(host->cpu_workers, cpu_workers_closed, host);
}

void zlink_work_host_destroy(zlink_work_host_t *host)
{
    if (!host)
        return;
    zlink_cpu_worker_pool_destroy(host->cpu_workers);
    for (unsigned i = 0; i < ZLINK_WORK_OWNER_SHELVES; i++) {
        assert(LIST_EMPTY(&host->shelves[i].works) && "work is still under way");
        pthread_mutex_destroy(&host->shelves[i].lock);
    }
    zlink_free(host);
}
