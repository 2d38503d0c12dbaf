#include "net/tls_resumption.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/memory.h"
#include "net/tls_resumption_internal.h"

struct zlink_tls_resumption {
    _Atomic unsigned holds;
    pthread_mutex_t lock;
    mbedtls_ssl_session session;
    bool kept;
};

zlink_tls_resumption_t *zlink_tls_resumption_create(void)
{
    zlink_tls_resumption_t *resumption = zlink_calloc(1, sizeof(*resumption));

    if (resumption == NULL)
        return NULL;
    atomic_init(&resumption->holds, 1);
    pthread_mutex_init(&resumption->lock, NULL);
    mbedtls_ssl_session_init(&resumption->session);
    return resumption;
}

zlink_tls_resumption_t *zlink_tls_resumption_hold(zlink_tls_resumption_t *resumption)
{
    atomic_fetch_add_explicit(&resumption->holds, 1, memory_order_relaxed);
    return resumption;
}

void zlink_tls_resumption_release(zlink_tls_resumption_t *resumption)
{
    if (resumption == NULL || atomic_fetch_sub_explicit(&resumption->holds, 1, memory_order_acq_rel) > 1)
        return;
    mbedtls_ssl_session_free(&resumption->session); /* wipes, too */
    pthread_mutex_destroy(&resumption->lock);
    zlink_free(resumption);
}

/* Under the lock. */
static void forget(zlink_tls_resumption_t *resumption)
{
    mbedtls_ssl_session_free(&resumption->session);
    mbedtls_ssl_session_init(&resumption->session);
    resumption->kept = false;
}

void zlink_tls_resumption_forget(zlink_tls_resumption_t *resumption)
{
    pthread_mutex_lock(&resumption->lock);
    forget(resumption);
    pthread_mutex_unlock(&resumption->lock);
}

void zlink_tls_resumption_offer(zlink_tls_resumption_t *resumption, mbedtls_ssl_context *ssl)
{
    pthread_mutex_lock(&resumption->lock);
    if (resumption->kept && mbedtls_ssl_set_session(ssl, &resumption->session) != 0)
        forget(resumption);
    pthread_mutex_unlock(&resumption->lock);
}

void zlink_tls_resumption_keep(zlink_tls_resumption_t *resumption, const mbedtls_ssl_context *ssl)
{
    pthread_mutex_lock(&resumption->lock);
    forget(resumption);
    resumption->kept = mbedtls_ssl_get_session(ssl, &resumption->session) == 0;
    if (!resumption->kept)
        forget(resumption);
    pthread_mutex_unlock(&resumption->lock);
}
