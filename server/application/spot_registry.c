#include "server/application/spot_registry.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "server/application/application_host.h"

#undef uthash_nonfatal_oom
#define uthash_nonfatal_oom(element) ((element)->in_map = false)

#define STRIPES 32 /* a power of two */

typedef struct zlink_spot_stripe {
    pthread_mutex_t lock;
    zlink_spot_t *by_id;
} zlink_spot_stripe_t;

struct zlink_spot_registry {
    zlink_application_host_t *host;
    uint32_t spots_max;
    _Atomic uint32_t count; /* Spots, plus one until `closed` is wanted */
    _Atomic bool closing;
    void (*closed)(void *context);
    void *closed_context;
    zlink_spot_stripe_t stripes[]; /* STRIPES for each type, in the catalogue's order */
};

static zlink_spot_stripe_t *stripe_of(zlink_spot_registry_t *registry, const zlink_catalogue_spot_type_t *type,
                                      const char *id)
{
    uint32_t hash = 2166136261u; /* FNV-1a: only the stripe hangs on it, uthash hashes anew inside */
    for (const char *c = id; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 16777619u;
    size_t index = (size_t)(type - registry->host->catalogue->spot_types);
    return &registry->stripes[index * STRIPES + (hash >> 16) % STRIPES];
}

zlink_spot_registry_t *zlink_spot_registry_create(zlink_application_host_t *host, uint32_t spots_max)
{
    size_t count = host->catalogue->spot_type_count * STRIPES;
    zlink_spot_registry_t *registry = zlink_calloc(1, sizeof(*registry) + count * sizeof(zlink_spot_stripe_t));
    if (!registry)
        return NULL;
    registry->host = host;
    registry->spots_max = spots_max;
    atomic_init(&registry->count, 1);
    for (size_t i = 0; i < count; i++)
        pthread_mutex_init(&registry->stripes[i].lock, NULL); /* never fails for a default mutex on Linux */
    return registry;
}

void zlink_spot_registry_destroy(zlink_spot_registry_t *registry)
{
    if (!registry)
        return;
    for (size_t i = 0; i < registry->host->catalogue->spot_type_count * STRIPES; i++) {
        assert(!registry->stripes[i].by_id);
        pthread_mutex_destroy(&registry->stripes[i].lock);
    }
    zlink_free(registry);
}

zlink_application_host_t *zlink_spot_registry_host(const zlink_spot_registry_t *registry)
{
    return registry->host;
}

/* Under the stripe's lock. */
static zlink_status_t activate(zlink_spot_registry_t *registry, zlink_spot_stripe_t *stripe,
                               const zlink_catalogue_spot_type_t *type, const char *id, zlink_spot_t **activated,
                               zlink_admission_resource_t *full)
{
    if (atomic_load(&registry->closing))
        return ZLINK_SHUTTING_DOWN;
    if (atomic_fetch_add(&registry->count, 1) > registry->spots_max) {
        *full = ZLINK_ADMISSION_PLACEMENT;
        zlink_spot_registry_removed(registry);
        return ZLINK_CAPACITY_EXCEEDED;
    }
    *full = ZLINK_ADMISSION_MEMORY;
    zlink_spot_t *spot = zlink_spot_create(registry, registry->host, type, id);
    if (!spot) {
        zlink_spot_registry_removed(registry);
        return ZLINK_CAPACITY_EXCEEDED;
    }
    spot->in_map = true;
    HASH_ADD_KEYPTR(by_id, stripe->by_id, spot->id, strlen(spot->id), spot);
    if (!spot->in_map) { /* the map could not grow: the Spot ends before its first message */
        zlink_spot_begin_closing(spot);
        return ZLINK_CAPACITY_EXCEEDED;
    }
    *activated = spot;
    return ZLINK_OK;
}

zlink_status_t zlink_spot_registry_execute_or_hold(zlink_spot_registry_t *registry,
                                                   const zlink_catalogue_spot_type_t *type, const char *id,
                                                   zlink_invocation_t *invocation, zlink_admission_resource_t *full,
                                                   bool *held)
{
    zlink_spot_stripe_t *stripe = stripe_of(registry, type, id);
    zlink_status_t status = ZLINK_OK;
    zlink_spot_t *spot = NULL;

    pthread_mutex_lock(&stripe->lock);
    HASH_FIND(by_id, stripe->by_id, id, strlen(id), spot);
    if (!spot)
        status = activate(registry, stripe, type, id, &spot, full);
    if (status == ZLINK_OK) {
        *full = ZLINK_ADMISSION_APPLICATION_LANE;
        status = zlink_spot_execute(spot, invocation);
        if (status == ZLINK_CAPACITY_EXCEEDED && held) {
            zlink_spot_hold(spot, invocation);
            *held = true;
        }
    }
    pthread_mutex_unlock(&stripe->lock);
    return status;
}

zlink_status_t zlink_spot_registry_execute(zlink_spot_registry_t *registry, const zlink_catalogue_spot_type_t *type,
                                           const char *id, zlink_invocation_t *invocation,
                                           zlink_admission_resource_t *full)
{
    return zlink_spot_registry_execute_or_hold(registry, type, id, invocation, full, NULL);
}

bool zlink_spot_registry_is(const zlink_spot_t *spot, const zlink_catalogue_spot_type_t *type, const char *id)
{
    return spot && spot->type == type && strcmp(spot->id, id) == 0;
}

void zlink_spot_registry_close_spot(zlink_spot_registry_t *registry, zlink_spot_t *spot)
{
    zlink_spot_stripe_t *stripe = stripe_of(registry, spot->type, spot->id);
    pthread_mutex_lock(&stripe->lock);
    zlink_spot_begin_closing(spot);
    pthread_mutex_unlock(&stripe->lock);
}

void zlink_spot_registry_refused(zlink_spot_registry_t *registry, zlink_spot_t *spot)
{
    zlink_spot_stripe_t *stripe = stripe_of(registry, spot->type, spot->id);
    int creating = ZLINK_SPOT_CREATING;
    pthread_mutex_lock(&stripe->lock);
    if (atomic_compare_exchange_strong(&spot->life, &creating, ZLINK_SPOT_REFUSED))
        zlink_spot_left(spot); /* the Spot's own count: it ends with the last call that woke it */
    pthread_mutex_unlock(&stripe->lock);
}

void zlink_spot_registry_remove(zlink_spot_registry_t *registry, zlink_spot_t *spot)
{
    zlink_spot_stripe_t *stripe = stripe_of(registry, spot->type, spot->id);
    pthread_mutex_lock(&stripe->lock);
    if (spot->in_map)
        HASH_DELETE(by_id, stripe->by_id, spot);
    pthread_mutex_unlock(&stripe->lock);
}

void zlink_spot_registry_removed(zlink_spot_registry_t *registry)
{
    if (atomic_fetch_sub(&registry->count, 1) == 1)
        registry->closed(registry->closed_context);
}

void zlink_spot_registry_close(zlink_spot_registry_t *registry, void (*closed)(void *context), void *context)
{
    registry->closed = closed;
    registry->closed_context = context;
    atomic_store(&registry->closing, true);
    for (size_t i = 0; i < registry->host->catalogue->spot_type_count * STRIPES; i++) {
        zlink_spot_stripe_t *stripe = &registry->stripes[i];
        pthread_mutex_lock(&stripe->lock);
        for (zlink_spot_t *spot = stripe->by_id; spot; spot = spot->by_id.next)
            zlink_spot_begin_closing(spot);
        pthread_mutex_unlock(&stripe->lock);
    }
    zlink_spot_registry_removed(registry);
}
