#include "net/handshake_pool.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/container_of.h"
#include "base/counters.h"
#include "base/domain.h"
#include "base/log.h"
#include "base/memory.h"
#include "net/thread_schedule.h"

ZLINK_COUNTER_DEFINE(zlink_counter_net_handshakes_waiting, ZLINK_GAUGE, "zlink.net.handshakes.waiting",
                     "TLS handshakes that wait for a helper now");

TAILQ_HEAD(job_queue, zlink_handshake_job);

struct zlink_handshake_pool {
    zlink_reactor_t *reactor;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct job_queue continued; /* go first */
    struct job_queue fresh;
    unsigned fresh_count;
    unsigned fresh_max;
    bool stopping;
    unsigned threads_wanted;
    unsigned thread_count; /* reactor's */
    pthread_t threads[ZLINK_HANDSHAKE_THREADS_MAX];
};

static void job_deliver(zlink_mail_t *mail)
{
    zlink_handshake_job_t *job = ZLINK_CONTAINER_OF(mail, zlink_handshake_job_t, mail);

    assert(job->away);
    job->away = false;
    job->done(job);
}

static void job_run(zlink_handshake_job_t *job)
{
    zlink_byte_buffer_t plain = {0};
    size_t used = 0;

    job->progress = zlink_tls_session_feed(job->session, zlink_byte_buffer_bytes(&job->input),
                                           zlink_byte_buffer_size(&job->input), &used, &plain, &job->wire);
    assert(plain.data == NULL); /* a session that shakes hands has nothing for anybody */
    zlink_byte_buffer_consume(&job->input, used);
}

/* Under the lock. NULL: the pool stops. */
static zlink_handshake_job_t *pool_take(zlink_handshake_pool_t *pool)
{
    zlink_handshake_job_t *job;

    for (;;) {
        if ((job = TAILQ_FIRST(&pool->continued)) != NULL) {
            TAILQ_REMOVE(&pool->continued, job, in_queue);
            break;
        }
        if ((job = TAILQ_FIRST(&pool->fresh)) != NULL) {
            TAILQ_REMOVE(&pool->fresh, job, in_queue);
            pool->fresh_count--;
            break;
        }
        if (pool->stopping)
            return NULL;
        pthread_cond_wait(&pool->work, &pool->lock);
    }
    zlink_counter_add(&zlink_counter_net_handshakes_waiting, -1);
    return job;
}

static void *helper_main(void *argument)
{
    zlink_handshake_pool_t *pool = argument;
    zlink_handshake_job_t *job;

    pthread_setname_np(pthread_self(), "zlink-handshake");
    zlink_domain_enter(ZLINK_DOMAIN_INFRASTRUCTURE);
    zlink_thread_schedule_behind();
    pthread_mutex_lock(&pool->lock);
    while ((job = pool_take(pool)) != NULL) {
        pthread_mutex_unlock(&pool->lock);
        job_run(job);
        zlink_reactor_post(pool->reactor, &job->mail); /* from here it is the reactor's */
        pthread_mutex_lock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

zlink_handshake_pool_t *zlink_handshake_pool_create(zlink_reactor_t *reactor, unsigned threads, unsigned waiting_max)
{
    zlink_handshake_pool_t *pool = zlink_calloc(1, sizeof(*pool));

    if (pool == NULL)
        return NULL;
    pool->reactor = reactor;
    pool->threads_wanted = threads == 0 ? ZLINK_HANDSHAKE_THREADS_DEFAULT : threads;
    if (pool->threads_wanted > ZLINK_HANDSHAKE_THREADS_MAX)
        pool->threads_wanted = ZLINK_HANDSHAKE_THREADS_MAX;
    pool->fresh_max = waiting_max == 0 ? ZLINK_HANDSHAKE_WAITING_DEFAULT : waiting_max;
    TAILQ_INIT(&pool->continued);
    TAILQ_INIT(&pool->fresh);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    return pool;
}

void zlink_handshake_pool_destroy(zlink_handshake_pool_t *pool)
{
    if (pool == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    assert(TAILQ_EMPTY(&pool->continued) && TAILQ_EMPTY(&pool->fresh));
    pool->stopping = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->thread_count; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    zlink_free(pool);
}

/* One thread is enough to go on; what could not be started is tried again with the next job. */
static bool pool_start_threads(zlink_handshake_pool_t *pool)
{
    while (pool->thread_count < pool->threads_wanted) {
        const int error = pthread_create(&pool->threads[pool->thread_count], NULL, helper_main, pool);

        if (error != 0) {
            zlink_log(ZLINK_LOG_WARN, "zlink.net.handshake.no_thread", ZLINK_LOG_S("reason", strerror(error)),
                      ZLINK_LOG_I("threads", pool->thread_count));
            break;
        }
        pool->thread_count++;
    }
    return pool->thread_count > 0;
}

zlink_status_t zlink_handshake_pool_submit(zlink_handshake_pool_t *pool, zlink_handshake_job_t *job)
{
    zlink_status_t status = ZLINK_OK;

    assert(zlink_reactor_is_current(pool->reactor) && !job->away && job->session != NULL && job->done != NULL);
    if (!pool_start_threads(pool))
        return ZLINK_CAPACITY_EXCEEDED;
    job->mail.deliver = job_deliver;
    pthread_mutex_lock(&pool->lock);
    if (job->begun) {
        TAILQ_INSERT_TAIL(&pool->continued, job, in_queue);
    } else if (pool->fresh_count < pool->fresh_max) {
        TAILQ_INSERT_TAIL(&pool->fresh, job, in_queue);
        pool->fresh_count++;
    } else {
        status = ZLINK_CAPACITY_EXCEEDED;
    }
    if (status == ZLINK_OK) {
        job->begun = job->away = true;
        zlink_counter_add(&zlink_counter_net_handshakes_waiting, 1);
        pthread_cond_signal(&pool->work);
    }
    pthread_mutex_unlock(&pool->lock);
    return status;
}

/* Looked for by going through the queue: the job itself belongs to whoever took it out. */
static bool queue_remove(struct job_queue *queue, zlink_handshake_job_t *job)
{
    zlink_handshake_job_t *waiting;

    TAILQ_FOREACH(waiting, queue, in_queue)
    {
        if (waiting == job) {
            TAILQ_REMOVE(queue, job, in_queue);
            return true;
        }
    }
    return false;
}

bool zlink_handshake_pool_withdraw(zlink_handshake_pool_t *pool, zlink_handshake_job_t *job)
{
    bool found;

    assert(zlink_reactor_is_current(pool->reactor) && job->away);
    pthread_mutex_lock(&pool->lock);
    found = queue_remove(&pool->continued, job);
    if (!found && queue_remove(&pool->fresh, job)) {
        pool->fresh_count--;
        found = true;
    }
    pthread_mutex_unlock(&pool->lock);
    if (found) {
        job->away = false;
        zlink_counter_add(&zlink_counter_net_handshakes_waiting, -1);
    }
    return found;
}
