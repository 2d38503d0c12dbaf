/*
 * The handshake of a stream. The reactor has the socket and collects what comes; a helper (net/handshake_pool.h) has
 * the TLS session for one turn at a time. Bytes go to it by whole records, so that a peer who sends them one by one
 * costs the helpers nothing; the session itself is made when its first record is there, so that one who sends none
 * costs little memory.
 */
#include <assert.h>

#include "base/container_of.h"
#include "base/log.h"
#include "base/memory.h"
#include "net/stream_internal.h"

#define COLLECTED_BYTES_MAX 32768u
#define RECORD_HEAD_BYTES   5u
#define RECORD_BYTES_MAX    (16384u + 2048u)
#define RECORD_TYPE_FIRST   20u
#define RECORD_TYPE_LAST    23u

ZLINK_COUNTER_DEFINE(zlink_counter_net_handshakes_succeeded, ZLINK_COUNTER, "zlink.net.handshakes.succeeded",
                     "TLS handshakes that ended well");
ZLINK_COUNTER_DEFINE(zlink_counter_net_handshakes_resumed, ZLINK_COUNTER, "zlink.net.handshakes.resumed",
                     "TLS handshakes that ended well and went on from an earlier session");
ZLINK_COUNTER_DEFINE(zlink_counter_net_handshakes_failed, ZLINK_COUNTER, "zlink.net.handshakes.failed",
                     "TLS handshakes that were refused or given up");
ZLINK_COUNTER_DEFINE(zlink_counter_net_handshakes_turned_away, ZLINK_COUNTER, "zlink.net.handshakes.turned_away",
                     "TLS handshakes given up because too many waited for a helper");

void zlink_stream_log_refused(zlink_stream_t *stream, const char *reason)
{
    zlink_log_gate_t *gate = zlink_reactor_log_gate(stream->reactor);
    uint64_t held_back = 0;

    zlink_counter_add(&zlink_counter_net_handshakes_failed, 1);
    if (!zlink_log_gate_pass(gate, zlink_reactor_now_ms(stream->reactor), &held_back))
        return;
    zlink_log(ZLINK_LOG_WARN, "zlink.net.handshake.refused", ZLINK_LOG_S("address", stream->peer),
              ZLINK_LOG_S("side", stream->side == ZLINK_TLS_SERVER ? "server" : "client"),
              ZLINK_LOG_S("reason", reason), ZLINK_LOG_I("not_logged", held_back));
}

static void handshake_give_up(zlink_stream_t *stream, zlink_status_t status, const char *reason)
{
    zlink_stream_log_refused(stream, reason);
    zlink_stream_abort(stream, status, reason);
}

/* Whether there is something that the session can get on with. What is no record is for it to refuse. */
static bool handshake_has_record(const zlink_byte_buffer_t *collected)
{
    const uint8_t *bytes = zlink_byte_buffer_bytes(collected);
    const size_t size = zlink_byte_buffer_size(collected);
    size_t body;

    if (size == 0)
        return false;
    if (bytes[0] < RECORD_TYPE_FIRST || bytes[0] > RECORD_TYPE_LAST)
        return true;
    if (size < RECORD_HEAD_BYTES)
        return false;
    body = (size_t)bytes[3] << 8 | bytes[4];
    return body > RECORD_BYTES_MAX || size >= RECORD_HEAD_BYTES + body;
}

static bool handshake_make_session(zlink_stream_t *stream)
{
    if (stream->tls != NULL)
        return true;
    stream->tls = zlink_tls_session_create(stream->trust, stream->side);
    if (stream->tls == NULL)
        return false;
    if (stream->resumption != NULL)
        zlink_tls_session_remember(stream->tls, stream->resumption);
    stream->job.session = stream->tls;
    return true;
}

static void handshake_hand_over(zlink_stream_t *stream)
{
    assert(zlink_byte_buffer_size(&stream->job.input) == 0);
    if (!handshake_make_session(stream)) {
        handshake_give_up(stream, ZLINK_CAPACITY_EXCEEDED, "no memory for the handshake");
        return;
    }
    zlink_byte_buffer_swap(&stream->collected, &stream->job.input);
    if (zlink_handshake_pool_submit(zlink_reactor_handshakes(stream->reactor), &stream->job) == ZLINK_OK)
        return;
    zlink_counter_add(&zlink_counter_net_handshakes_turned_away, 1);
    handshake_give_up(stream, ZLINK_CAPACITY_EXCEEDED, "turned away: too many handshakes wait (handshakes_waiting)");
}

void zlink_stream_handshake_settle(zlink_stream_t *stream)
{
    if (stream->state != ZLINK_STREAM_HANDSHAKING || stream->trust == NULL || stream->job.away)
        return;
    if ((stream->side == ZLINK_TLS_CLIENT && !stream->job.begun) || handshake_has_record(&stream->collected))
        handshake_hand_over(stream);
    else if (stream->peer_ended)
        handshake_give_up(stream, ZLINK_UNAVAILABLE, "the peer closed the connection during the handshake");
}

void zlink_stream_handshake_collect(zlink_stream_t *stream, const uint8_t *bytes, size_t size)
{
    if (!zlink_byte_buffer_append(&stream->collected, bytes, size))
        handshake_give_up(stream, ZLINK_CAPACITY_EXCEEDED, "no memory for the handshake");
}

bool zlink_stream_handshake_is_full(const zlink_stream_t *stream)
{
    return stream->state == ZLINK_STREAM_HANDSHAKING &&
           zlink_byte_buffer_size(&stream->collected) >= COLLECTED_BYTES_MAX;
}

/* What came behind the handshake: first what the helper had with it, then what has come since. */
static void handshake_feed_rest(zlink_stream_t *stream, zlink_byte_buffer_t *rest)
{
    if (stream->state == ZLINK_STREAM_OPEN && zlink_byte_buffer_size(rest) > 0)
        zlink_stream_feed_tls(stream, zlink_byte_buffer_bytes(rest), zlink_byte_buffer_size(rest));
    zlink_byte_buffer_release(rest);
}

static void handshake_done(zlink_handshake_job_t *job)
{
    zlink_stream_t *stream = ZLINK_CONTAINER_OF(job, zlink_stream_t, job);

    zlink_stream_settle_later(stream);
    if (stream->state != ZLINK_STREAM_HANDSHAKING)
        return; /* closed meanwhile; it waited for the session only */
    if (!zlink_byte_buffer_append(&stream->wire, zlink_byte_buffer_bytes(&job->wire),
                                  zlink_byte_buffer_size(&job->wire))) {
        handshake_give_up(stream, ZLINK_CAPACITY_EXCEEDED, "no memory for the handshake");
        return;
    }
    zlink_byte_buffer_release(&job->wire);
    switch (job->progress) {
    case ZLINK_TLS_MORE:
        zlink_byte_buffer_release(&job->input);
        break;
    case ZLINK_TLS_HANDSHAKEN:
        zlink_counter_add(&zlink_counter_net_handshakes_succeeded, 1);
        if (zlink_tls_session_is_resumed(stream->tls))
            zlink_counter_add(&zlink_counter_net_handshakes_resumed, 1);
        zlink_stream_handshaken(stream);
        handshake_feed_rest(stream, &job->input);
        handshake_feed_rest(stream, &stream->collected);
        break;
    case ZLINK_TLS_ENDED:
    case ZLINK_TLS_FAILED:
        zlink_stream_tls_failed(stream);
        break;
    }
}

void zlink_stream_handshake_init(zlink_stream_t *stream)
{
    stream->job.done = handshake_done;
}

void zlink_stream_handshake_withdraw(zlink_stream_t *stream)
{
    if (stream->job.away)
        (void)zlink_handshake_pool_withdraw(zlink_reactor_handshakes(stream->reactor), &stream->job);
}

void zlink_stream_handshake_release(zlink_stream_t *stream)
{
    assert(!stream->job.away);
    zlink_tls_session_destroy(stream->tls);
    zlink_tls_resumption_release(stream->resumption);
    zlink_byte_buffer_release(&stream->collected);
    zlink_byte_buffer_release(&stream->job.input);
    zlink_byte_buffer_release(&stream->job.wire);
}

void zlink_stream_set_resumption(zlink_stream_t *stream, zlink_tls_resumption_t *resumption)
{
    assert(stream->state == ZLINK_STREAM_CONNECTING && stream->resumption == NULL);
    stream->resumption = zlink_tls_resumption_hold(resumption);
}
