#include "net/resolver.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/container_of.h"
#include "base/domain.h"
#include "base/memory.h"

#define STACK_BYTES (512u * 1024u)

/* Outlives its reactor while a thread still asks. The lock says whether there is a reactor to post to. */
struct zlink_resolver {
    pthread_mutex_t lock;
    zlink_reactor_t *reactor; /* NULL: closed */
    unsigned running;         /* threads */
    unsigned references;      /* the reactor's and one for each thread */
};

struct zlink_resolution {
    zlink_mail_t mail;
    zlink_resolver_t *resolver;
    zlink_resolved_t resolved; /* NULL: nobody waits; reactor thread only */
    void *context;
    char host[ZLINK_ADDRESS_HOST_BYTES];
    uint16_t port;
    zlink_endpoint_t endpoints[ZLINK_RESOLVER_ENDPOINTS_MAX];
    unsigned count;
    char reason[160];
};

zlink_resolver_t *zlink_resolver_open(zlink_reactor_t *reactor)
{
    zlink_resolver_t *resolver = zlink_calloc(1, sizeof(*resolver));

    if (resolver == NULL)
        return NULL;
    pthread_mutex_init(&resolver->lock, NULL);
    resolver->reactor = reactor;
    resolver->references = 1;
    return resolver;
}

/* Takes the lock's unlock along. */
static void resolver_drop(zlink_resolver_t *resolver)
{
    const unsigned left = --resolver->references;

    pthread_mutex_unlock(&resolver->lock);
    if (left == 0) {
        pthread_mutex_destroy(&resolver->lock);
        zlink_free(resolver);
    }
}

void zlink_resolver_close(zlink_resolver_t *resolver)
{
    pthread_mutex_lock(&resolver->lock);
    resolver->reactor = NULL;
    resolver_drop(resolver);
}

static void resolution_deliver(zlink_mail_t *mail)
{
    zlink_resolution_t *resolution = ZLINK_CONTAINER_OF(mail, zlink_resolution_t, mail);

    if (resolution->resolved != NULL)
        resolution->resolved(resolution->context, resolution->endpoints, resolution->count, resolution->reason);
    zlink_free(resolution);
}

static void resolution_look_up(zlink_resolution_t *resolution)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char port[8];
    int error;

    snprintf(port, sizeof(port), "%u", resolution->port);
    error = getaddrinfo(resolution->host, port, &hints, &list);
    if (error != 0) {
        snprintf(resolution->reason, sizeof(resolution->reason), "name not resolved: %s",
                 error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
        return;
    }
    for (struct addrinfo *entry = list; entry != NULL && resolution->count < ZLINK_RESOLVER_ENDPOINTS_MAX;
         entry = entry->ai_next) {
        zlink_endpoint_t *endpoint = &resolution->endpoints[resolution->count];

        if ((entry->ai_family != AF_INET && entry->ai_family != AF_INET6) ||
            entry->ai_addrlen > sizeof(endpoint->socket))
            continue;
        memcpy(&endpoint->socket, entry->ai_addr, entry->ai_addrlen);
        endpoint->size = entry->ai_addrlen;
        resolution->count++;
    }
    freeaddrinfo(list);
    if (resolution->count == 0)
        snprintf(resolution->reason, sizeof(resolution->reason), "name not resolved: it has no address");
}

static void *resolution_main(void *argument)
{
    zlink_resolution_t *resolution = argument;
    zlink_resolver_t *resolver = resolution->resolver;

    zlink_domain_enter(ZLINK_DOMAIN_INFRASTRUCTURE);
    resolution_look_up(resolution);
    pthread_mutex_lock(&resolver->lock);
    resolver->running--;
    /* Posting under the lock: the reactor cannot go away between the look and the post. */
    if (resolver->reactor != NULL)
        zlink_reactor_post(resolver->reactor, &resolution->mail);
    else
        zlink_free(resolution);
    resolver_drop(resolver);
    return NULL;
}

/* Detached, with all signals blocked: none is this thread's business. */
static int resolution_start(zlink_resolution_t *resolution)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all;
    sigset_t kept;
    int error = pthread_attr_init(&attributes);

    if (error != 0)
        return error;
    sigfillset(&all);
    error = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (error == 0)
        error = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (error == 0)
        error = pthread_sigmask(SIG_SETMASK, &all, &kept);
    if (error == 0) {
        error = pthread_create(&thread, &attributes, resolution_main, resolution);
        pthread_sigmask(SIG_SETMASK, &kept, NULL);
    }
    pthread_attr_destroy(&attributes);
    return error;
}

zlink_status_t zlink_resolver_ask(zlink_resolver_t *resolver, const zlink_address_t *address, zlink_resolved_t resolved,
                                  void *context, zlink_resolution_t **resolution_out)
{
    zlink_resolution_t *resolution;
    bool full;

    assert(address->kind == ZLINK_ADDRESS_NAME && zlink_reactor_is_current(resolver->reactor));
    resolution = zlink_calloc(1, sizeof(*resolution));
    if (resolution == NULL)
        return ZLINK_CAPACITY_EXCEEDED;
    resolution->mail.deliver = resolution_deliver;
    resolution->resolver = resolver;
    resolution->resolved = resolved;
    resolution->context = context;
    resolution->port = address->port;
    memcpy(resolution->host, address->host, sizeof(resolution->host));

    pthread_mutex_lock(&resolver->lock);
    full = resolver->running == ZLINK_RESOLVER_THREADS_MAX;
    if (!full) {
        resolver->running++;
        resolver->references++;
    }
    pthread_mutex_unlock(&resolver->lock);
    if (full)
        goto refused;
    if (resolution_start(resolution) != 0) {
        pthread_mutex_lock(&resolver->lock);
        resolver->running--;
        resolver_drop(resolver);
        goto refused;
    }
    *resolution_out = resolution;
    return ZLINK_OK;

refused:
    zlink_free(resolution);
    return ZLINK_CAPACITY_EXCEEDED;
}

void zlink_resolution_cancel(zlink_resolution_t *resolution)
{
    resolution->resolved = NULL;
}
