/*
 * net/handshake_pool.h: helper threads that do the arithmetic of TLS handshakes, so that the reactor never does.
 *
 * A full handshake costs about 5 ms of processor time a side: in the loop it would hold up every other connection. The
 * reactor therefore hands a session with the bytes that have come for it to a helper, which drives it until it wants
 * more, and gets both back as mail. Between submit and `done` session and buffers are the helper's and nobody
 * else touches them. Helpers run at a low priority. How many sessions may wait for their first turn is bounded; one
 * that has had a turn is never refused another and goes before the new ones, so that work that was done is not lost.
 *
 * Owned by a reactor. All functions: reactor thread. Threads start with the first job.
 */
#ifndef ZLINK_NET_HANDSHAKE_POOL_H
#define ZLINK_NET_HANDSHAKE_POOL_H

#include <stdbool.h>
#include <sys/queue.h>

#include <zlink/status.h>

#include "net/byte_buffer.h"
#include "net/mailbox.h"
#include "net/reactor.h"
#include "net/tls_session.h"

#define ZLINK_HANDSHAKE_THREADS_MAX     16u
#define ZLINK_HANDSHAKE_THREADS_DEFAULT 1u
#define ZLINK_HANDSHAKE_WAITING_DEFAULT 256u

typedef struct zlink_handshake_pool zlink_handshake_pool_t;
typedef struct zlink_handshake_job zlink_handshake_job_t;

/* Zero-initialise; set `done` once and `session` before the first submit. */
struct zlink_handshake_job {
    zlink_mail_t mail;
    TAILQ_ENTRY(zlink_handshake_job) in_queue;
    zlink_tls_session_t *session;
    zlink_byte_buffer_t input;     /* for the session; what is left afterwards came behind the handshake */
    zlink_byte_buffer_t wire;      /* from the session */
    zlink_tls_progress_t progress; /* MORE, HANDSHAKEN or FAILED */
    void (*done)(zlink_handshake_job_t *job);
    bool away;  /* reactor's: submitted, and not back */
    bool begun; /* reactor's: has been submitted before */
};

/* NULL without memory. 0 = the default. */
zlink_handshake_pool_t *zlink_handshake_pool_create(zlink_reactor_t *reactor, unsigned threads, unsigned waiting_max);

/* Every job must be back. Joins the helpers. NULL is allowed. */
void zlink_handshake_pool_destroy(zlink_handshake_pool_t *pool);

/* `done` follows, never inside. ZLINK_CAPACITY_EXCEEDED: too many wait, or there is no thread; the job stays yours. */
zlink_status_t zlink_handshake_pool_submit(zlink_handshake_pool_t *pool, zlink_handshake_job_t *job);

/* True: the job had not begun its turn, is yours again, and `done` will not be called. False: wait for `done`. */
bool zlink_handshake_pool_withdraw(zlink_handshake_pool_t *pool, zlink_handshake_job_t *job);

#endif
