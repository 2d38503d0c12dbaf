#include "server/application/cancellation.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/memory.h"

struct zlink_cancellation {
    _Atomic bool cancelled;
    _Atomic uint32_t holders;
    pthread_mutex_t lock;
    LIST_HEAD(, zlink_cancellation_entry) entries;
};

zlink_cancellation_t *zlink_cancellation_create(void)
{
    zlink_cancellation_t *cancellation = zlink_calloc(1, sizeof(*cancellation));
    if (!cancellation)
        return NULL;
    if (pthread_mutex_init(&cancellation->lock, NULL) != 0) {
        zlink_free(cancellation);
        return NULL;
    }
    atomic_init(&cancellation->holders, 1);
    LIST_INIT(&cancellation->entries);
    return cancellation;
}

static void let_go(zlink_cancellation_t *cancellation)
{
    if (atomic_fetch_sub_explicit(&cancellation->holders, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_destroy(&cancellation->lock);
    zlink_free(cancellation);
}

void zlink_cancellation_destroy(zlink_cancellation_t *cancellation)
{
    if (cancellation)
        let_go(cancellation);
}

bool zlink_cancellation_is_cancelled(const zlink_cancellation_t *cancellation)
{
    return cancellation && atomic_load_explicit(&cancellation->cancelled, memory_order_acquire);
}

void zlink_cancellation_cancel(zlink_cancellation_t *cancellation)
{
    zlink_cancellation_entry_t *entry;
    if (!cancellation)
        return;
    /* The maker's hold lasts as long as this call; what the entries start may end with theirs. */
    pthread_mutex_lock(&cancellation->lock);
    atomic_store_explicit(&cancellation->cancelled, true, memory_order_release);
    while ((entry = LIST_FIRST(&cancellation->entries)) != NULL) {
        LIST_REMOVE(entry, in_cancellation);
        entry->in_cancellation.le_prev = NULL; /* told: leave has nothing to take out any more */
        entry->cancelled(entry);
    }
    pthread_mutex_unlock(&cancellation->lock);
}

bool zlink_cancellation_enter(zlink_cancellation_t *cancellation, zlink_cancellation_entry_t *entry)
{
    pthread_mutex_lock(&cancellation->lock);
    bool entered = !atomic_load_explicit(&cancellation->cancelled, memory_order_relaxed);
    if (entered) {
        atomic_fetch_add_explicit(&cancellation->holders, 1, memory_order_relaxed);
        entry->of = cancellation;
        LIST_INSERT_HEAD(&cancellation->entries, entry, in_cancellation);
    }
    pthread_mutex_unlock(&cancellation->lock);
    return entered;
}

void zlink_cancellation_leave(zlink_cancellation_entry_t *entry)
{
    zlink_cancellation_t *cancellation = entry->of;
    if (!cancellation)
        return;
    pthread_mutex_lock(&cancellation->lock);
    if (entry->in_cancellation.le_prev)
        LIST_REMOVE(entry, in_cancellation);
    pthread_mutex_unlock(&cancellation->lock);
    entry->of = NULL;
    let_go(cancellation);
}
