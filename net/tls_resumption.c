#include "net/tls_resumption.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/memory.h"
#include "net/tls_resumption_internal.h"

struct zlink_tls_resumption {
    _Atomic unsigned holds;
    pthread_mutex_t lock;
    SSL_SESSION *session; /* NULL: nothing is remembered */
};

zlink_tls_resumption_t *zlink_tls_resumption_create(void)
{
    zlink_tls_resumption_t *resumption = zlink_calloc(1, sizeof(*resumption));

    if (resumption == NULL)
        return NULL;
    atomic_init(&resumption->holds, 1);
    pthread_mutex_init(&resumption->lock, NULL);
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
    SSL_SESSION_free(resumption->session); /* wipes, too */
    pthread_mutex_destroy(&resumption->lock);
    zlink_free(resumption);
}

static void replace(zlink_tls_resumption_t *resumption, SSL_SESSION *session)
{
    pthread_mutex_lock(&resumption->lock);
    SSL_SESSION_free(resumption->session);
    resumption->session = session;
    pthread_mutex_unlock(&resumption->lock);
}

void zlink_tls_resumption_forget(zlink_tls_resumption_t *resumption)
{
    replace(resumption, NULL);
}

void zlink_tls_resumption_offer(zlink_tls_resumption_t *resumption, SSL *ssl)
{
    pthread_mutex_lock(&resumption->lock);
    if (resumption->session != NULL)
        (void)SSL_set_session(ssl, resumption->session); /* or it is a full handshake */
    pthread_mutex_unlock(&resumption->lock);
}

void zlink_tls_resumption_keep(zlink_tls_resumption_t *resumption, SSL *ssl)
{
    replace(resumption, SSL_get1_session(ssl));
}
