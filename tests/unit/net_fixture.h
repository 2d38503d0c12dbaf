/*
 * tests/unit/net_fixture.h: what the tests of net/ share: a virtual clock, waiting with a bound, and `party`, one end
 * of a connection that remembers what happened to it.
 *
 * A test runs on the main thread; events come on the reactor thread. What both look at is atomic or behind a
 * semaphore.
 */
#ifndef ZLINK_TESTS_UNIT_NET_FIXTURE_H
#define ZLINK_TESTS_UNIT_NET_FIXTURE_H

#undef NDEBUG /* assertions are part of the tests, in every build */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "harness.h"

#include "base/log.h"
#include "net/dialer.h"
#include "net/listener.h"
#include "net/reactor.h"

#define FIXTURE_PATIENCE_S 60 /* longer than anything takes; only a broken test waits so long */

/* ---- a clock that moves when the test says so ---- */

typedef struct virtual_clock {
    _Atomic uint64_t now_ns;
    zlink_clock_t clock;
} virtual_clock_t;

static inline uint64_t virtual_clock_read(void *context)
{
    return atomic_load(&((virtual_clock_t *)context)->now_ns);
}

static inline void virtual_clock_init(virtual_clock_t *clock)
{
    atomic_init(&clock->now_ns, 1000u * ZLINK_NS_PER_MS);
    clock->clock = (zlink_clock_t){virtual_clock_read, clock};
}

static inline void fixture_nothing(void *context)
{
    (void)context;
}

/* Moves the clock and lets the reactor see it: two calls are two ticks at least. */
static inline void virtual_clock_advance(virtual_clock_t *clock, zlink_reactor_t *reactor, uint64_t ms)
{
    atomic_fetch_add(&clock->now_ns, ms * ZLINK_NS_PER_MS);
    for (int i = 0; i < 3; i++)
        zlink_reactor_call(reactor, fixture_nothing, NULL);
}

/* ---- waiting ---- */

static inline void fixture_wait(sem_t *semaphore)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += FIXTURE_PATIENCE_S;
    while (sem_timedwait(semaphore, &until) != 0) {
        if (errno != EINTR)
            fail_msg("waited %d s in vain", FIXTURE_PATIENCE_S);
    }
}

/* Until `*value` has reached `wanted`. */
static inline void fixture_wait_for(_Atomic size_t *value, size_t wanted)
{
    const struct timespec pause = {.tv_nsec = 200000};
    const time_t until = time(NULL) + FIXTURE_PATIENCE_S;

    while (atomic_load(value) < wanted) {
        if (time(NULL) > until)
            fail_msg("waited %d s for %zu, got %zu", FIXTURE_PATIENCE_S, wanted, atomic_load(value));
        nanosleep(&pause, NULL);
    }
}

static inline zlink_reactor_t *fixture_reactor(const zlink_reactor_options_t *options)
{
    zlink_reactor_t *reactor = NULL;
    zlink_refusal_t why = {{0}};

    if (zlink_reactor_create(options, &reactor, &why) != ZLINK_OK)
        fail_msg("no reactor: %s", why.line);
    return reactor;
}

/* ---- one end of a connection ---- */

typedef struct party {
    zlink_stream_t *stream; /* reactor thread; NULL when closed */
    sem_t opened;
    sem_t closed;
    sem_t drained;
    sem_t ended;
    _Atomic size_t received; /* bytes kept in `bytes` */
    uint8_t *bytes;          /* reactor thread, or the test after `closed` or after `received` says so */
    size_t capacity;
    size_t take_max; /* of each offer; 0 = all */
    bool close_on_open;
    bool echo;
    bool close_on_first_byte;
    zlink_status_t status;
    char reason[256];
    char identity[160];
    char cipher[64];
    char address[300];
} party_t;

static inline void party_init(party_t *party, size_t capacity)
{
    memset(party, 0, sizeof(*party));
    party->bytes = capacity == 0 ? NULL : malloc(capacity);
    party->capacity = capacity;
    sem_init(&party->opened, 0, 0);
    sem_init(&party->closed, 0, 0);
    sem_init(&party->drained, 0, 0);
    sem_init(&party->ended, 0, 0);
}

static inline void party_release(party_t *party)
{
    free(party->bytes);
    sem_destroy(&party->opened);
    sem_destroy(&party->closed);
    sem_destroy(&party->drained);
    sem_destroy(&party->ended);
}

static inline void party_opened(zlink_stream_t *stream)
{
    party_t *party = zlink_stream_context(stream);
    const zlink_peer_identity_t *identity = zlink_stream_peer_identity(stream);

    snprintf(party->cipher, sizeof(party->cipher), "%s", zlink_stream_cipher(stream));
    snprintf(party->address, sizeof(party->address), "%s", zlink_stream_peer_address(stream));
    if (identity != NULL)
        snprintf(party->identity, sizeof(party->identity), "%s/%s", identity->mesh, identity->name);
    if (party->close_on_open)
        zlink_stream_close(stream, "closed by the test");
    sem_post(&party->opened);
}

static inline size_t party_bytes(zlink_stream_t *stream, const uint8_t *bytes, size_t size)
{
    party_t *party = zlink_stream_context(stream);
    const size_t held = atomic_load(&party->received);

    if (party->take_max != 0 && size > party->take_max) {
        size = party->take_max;
        zlink_stream_offer_later(stream);
    }
    if (party->bytes != NULL) {
        assert(held + size <= party->capacity);
        memcpy(party->bytes + held, bytes, size);
    }
    if (party->echo)
        (void)zlink_stream_write_forced(stream, bytes, size);
    if (party->close_on_first_byte)
        zlink_stream_close(stream, "closed by the test");
    atomic_store(&party->received, held + size);
    return size;
}

static inline void party_drained(zlink_stream_t *stream)
{
    sem_post(&((party_t *)zlink_stream_context(stream))->drained);
}

static inline void party_ended(zlink_stream_t *stream)
{
    sem_post(&((party_t *)zlink_stream_context(stream))->ended);
}

static inline void party_closed(zlink_stream_t *stream, zlink_status_t status, const char *reason)
{
    party_t *party = zlink_stream_context(stream);

    if (party == NULL)
        return;
    party->status = status;
    snprintf(party->reason, sizeof(party->reason), "%s", reason);
    party->stream = NULL;
    sem_post(&party->closed);
}

static const zlink_stream_events_t party_events = {
    .opened = party_opened,
    .bytes = party_bytes,
    .drained = party_drained,
    .ended = party_ended,
    .closed = party_closed,
};

/* ---- a server with room for some parties ---- */

#define SERVER_PARTIES_MAX 64

typedef struct server {
    zlink_reactor_t *reactor;
    zlink_listener_t *listener;
    party_t *parties;
    size_t room;
    _Atomic size_t accepted;
    zlink_listener_options_t options;
    zlink_status_t status;
    zlink_refusal_t why;
    char address[300];
} server_t;

static inline void server_accepted(zlink_listener_t *listener, zlink_stream_t *stream)
{
    server_t *server = zlink_listener_context(listener);
    const size_t index = atomic_load(&server->accepted);

    if (index >= server->room) { /* nobody the test waits for */
        zlink_stream_set_context(stream, NULL);
        zlink_stream_abort(stream, ZLINK_REJECTED, "no room in the test");
        return;
    }
    zlink_stream_set_context(stream, &server->parties[index]);
    server->parties[index].stream = stream;
    atomic_store(&server->accepted, index + 1);
}

static inline void server_open_here(void *context)
{
    server_t *server = context;

    server->options.context = server;
    server->options.accepted = server_accepted;
    server->options.events = &party_events;
    server->status = zlink_listener_open(server->reactor, &server->options, &server->listener, &server->why);
    if (server->status == ZLINK_OK)
        snprintf(server->address, sizeof(server->address), "%s", zlink_listener_address(server->listener));
}

/* `server` is zeroed but for `options`. */
static inline void server_open(server_t *server, zlink_reactor_t *reactor, party_t *parties, size_t room)
{
    server->reactor = reactor;
    server->parties = parties;
    server->room = room;
    if (server->options.address == NULL)
        server->options.address = "127.0.0.1:0";
    zlink_reactor_call(reactor, server_open_here, server);
    if (server->status != ZLINK_OK)
        fail_msg("%s", server->why.line);
}

static inline void server_close_here(void *context)
{
    zlink_listener_close(((server_t *)context)->listener);
}

static inline void server_close(server_t *server)
{
    zlink_reactor_call(server->reactor, server_close_here, server);
}

/* ---- a client with one party ---- */

typedef struct client {
    zlink_reactor_t *reactor;
    zlink_dialer_t *dialer;
    party_t *party;
    zlink_dialer_options_t options;
    _Atomic size_t attempts;
    zlink_status_t status;
    zlink_refusal_t why;
} client_t;

static inline void client_connecting(zlink_dialer_t *dialer, zlink_stream_t *stream)
{
    client_t *client = zlink_dialer_context(dialer);

    zlink_stream_set_context(stream, client->party);
    client->party->stream = stream;
    atomic_fetch_add(&client->attempts, 1);
}

static inline void client_open_here(void *context)
{
    client_t *client = context;

    client->options.context = client;
    client->options.connecting = client_connecting;
    client->options.events = &party_events;
    client->status = zlink_dialer_open(client->reactor, &client->options, &client->dialer, &client->why);
}

/* `client` is zeroed but for `options`. */
static inline void client_open(client_t *client, zlink_reactor_t *reactor, const char *address, party_t *party)
{
    client->reactor = reactor;
    client->party = party;
    client->options.address = address;
    zlink_reactor_call(reactor, client_open_here, client);
    if (client->status != ZLINK_OK)
        fail_msg("%s", client->why.line);
}

static inline void client_close_here(void *context)
{
    zlink_dialer_close(((client_t *)context)->dialer);
}

static inline void client_close(client_t *client)
{
    zlink_reactor_call(client->reactor, client_close_here, client);
}

/* ---- acting on a party's stream from the test ---- */

typedef struct party_action {
    party_t *party;
    const void *data;
    size_t size;
    bool forced;
    zlink_status_t status;
} party_action_t;

static inline void party_write_here(void *context)
{
    party_action_t *action = context;

    if (action->party->stream == NULL)
        action->status = ZLINK_UNAVAILABLE;
    else if (action->forced)
        action->status = zlink_stream_write_forced(action->party->stream, action->data, action->size);
    else
        action->status = zlink_stream_write(action->party->stream, action->data, action->size);
}

static inline zlink_status_t party_write(zlink_reactor_t *reactor, party_t *party, const void *data, size_t size,
                                         bool forced)
{
    party_action_t action = {party, data, size, forced, ZLINK_OK};

    zlink_reactor_call(reactor, party_write_here, &action);
    return action.status;
}

static inline void party_close_here(void *context)
{
    party_t *party = context;

    if (party->stream != NULL)
        zlink_stream_close(party->stream, "closed by the test");
}

static inline void party_abort_here(void *context)
{
    party_t *party = context;

    if (party->stream != NULL)
        zlink_stream_abort(party->stream, ZLINK_UNAVAILABLE, "aborted by the test");
}

static inline void party_pause_here(void *context)
{
    zlink_stream_pause_intake(((party_t *)context)->stream);
}

static inline void party_resume_here(void *context)
{
    zlink_stream_resume_intake(((party_t *)context)->stream);
}

/* ---- bytes that show where they belong ---- */

static inline uint8_t pattern_byte(uint64_t seed, size_t offset)
{
    const uint64_t mixed = (seed * 0x9e3779b97f4a7c15ull) ^ (uint64_t)(offset / 8) * 0xbf58476d1ce4e5b9ull;

    return (uint8_t)((mixed ^ mixed >> 29) >> (offset % 8 * 8));
}

static inline uint8_t *pattern_make(uint64_t seed, size_t size)
{
    uint8_t *bytes = malloc(size);

    for (size_t i = 0; i < size; i++)
        bytes[i] = pattern_byte(seed, i);
    return bytes;
}

static inline void pattern_check(uint64_t seed, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != pattern_byte(seed, i))
            fail_msg("byte %zu of %zu is wrong", i, size);
    }
}

#endif
