/*
 * tests/unit/mesh_fixture.h: a mesh with a reactor of its own, and calls over it, for the tests of server/mesh*.
 *
 * A test runs on the main thread; the mesh's events come on the node's reactor thread. What both look at is atomic,
 * behind a semaphore, or read through zlink_reactor_call().
 */
#ifndef ZLINK_TESTS_UNIT_MESH_FIXTURE_H
#define ZLINK_TESTS_UNIT_MESH_FIXTURE_H

#include "net_fixture.h"

#include "server/mesh/mesh.h"

#define NODE_HELD_MAX 64

/* What a node does with a request or message that arrives. */
typedef enum node_habit {
    NODE_ECHOES = 0, /* the payload comes back as "tests.Echo" */
    NODE_REFUSES,    /* ZLINK_REJECTED */
    NODE_HOLDS,      /* the test answers, or nobody */
    NODE_WAITS,      /* ZLINK_FRAME_WAIT until the habit changes */
} node_habit_t;

/* The last request or message that arrived, and the last reason why a link ended. */
typedef struct node_note {
    char target[256], spot_id[256], packet[256], source[128], reason[256];
    zlink_target_kind_t target_kind;
    uint32_t deadline_ms;
} node_note_t;

typedef struct node {
    zlink_reactor_t *reactor;
    zlink_mesh_t *mesh;
    zlink_node_identity_t identity;
    zlink_mesh_options_t options; /* the test fills what it needs before node_start() */
    const zlink_clock_t *clock;
    zlink_status_t status;
    zlink_refusal_t why;
    char address[64];

    _Atomic int habit;
    _Atomic size_t requests, messages, waits, ready, lost, failed, members, picked, cancels;
    uint64_t cancelled_link, cancelled_route; /* reactor thread; the test after `cancels` says so */
    struct {
        uint64_t link;
        uint64_t route;
    } held[NODE_HELD_MAX]; /* reactor thread; the test after `requests` says so */
    _Atomic size_t held_count;
    pthread_mutex_t lock;
    node_note_t noted; /* under the lock */
    node_note_t seen;  /* the test's copy, made by node_read() */
    sem_t closed;
} node_t;

/* ---- events ---- */

static inline void node_note(node_t *node, const zlink_mesh_arrival_t *arrival)
{
    node_note_t *noted = &node->noted;

    pthread_mutex_lock(&node->lock);
    snprintf(noted->target, sizeof(noted->target), "%s", arrival->name);
    snprintf(noted->spot_id, sizeof(noted->spot_id), "%s", arrival->spot_id);
    snprintf(noted->packet, sizeof(noted->packet), "%s", arrival->packet);
    snprintf(noted->source, sizeof(noted->source), "%s", arrival->link->peer.node_id);
    noted->target_kind = arrival->target;
    noted->deadline_ms = arrival->deadline_ms;
    pthread_mutex_unlock(&node->lock);
}

static inline zlink_frame_verdict_t node_arrived(void *context, const zlink_mesh_arrival_t *arrival)
{
    node_t *node = context;
    const int habit = atomic_load(&node->habit);

    if (habit == NODE_WAITS) {
        atomic_fetch_add(&node->waits, 1);
        return ZLINK_FRAME_WAIT;
    }
    node_note(node, arrival);
    if (arrival->reply_route_id == 0) {
        atomic_fetch_add(&node->messages, 1);
        return ZLINK_FRAME_TAKEN;
    }
    if (habit == NODE_HOLDS) {
        const size_t at = atomic_load(&node->held_count);
        assert(at < NODE_HELD_MAX);
        node->held[at].link = arrival->link->number;
        node->held[at].route = arrival->reply_route_id;
        atomic_store(&node->held_count, at + 1);
    } else {
        zlink_peer_link_reply(arrival->link, arrival->reply_route_id, habit == NODE_ECHOES ? ZLINK_OK : ZLINK_REJECTED,
                              "tests.Echo", arrival->payload, arrival->payload_bytes);
    }
    atomic_fetch_add(&node->requests, 1);
    return ZLINK_FRAME_TAKEN;
}

static inline void node_picked_local(void *context, zlink_outbound_call_t *call)
{
    node_t *node = context;
    const zlink_call_answer_t answer = {"tests.Local", call->payload, call->payload_bytes, NULL};

    atomic_fetch_add(&node->picked, 1);
    if (call->one_way)
        zlink_mesh_complete(node->mesh, call, ZLINK_OK, NULL);
    else
        zlink_mesh_complete_local(node->mesh, call->reply_route_id, ZLINK_OK, &answer);
}

static inline void node_cancelled(void *context, uint64_t link, uint64_t reply_route_id)
{
    node_t *node = context;

    node->cancelled_link = link;
    node->cancelled_route = reply_route_id;
    atomic_fetch_add(&node->cancels, 1);
}

static inline void node_members_changed(void *context, const char *channel, size_t members)
{
    (void)channel;
    atomic_store(&((node_t *)context)->members, members);
}

static inline void node_link_ready(void *context, zlink_peer_link_t *link)
{
    (void)link;
    atomic_fetch_add(&((node_t *)context)->ready, 1);
}

static inline void node_link_lost(void *context, zlink_peer_link_t *link, const char *address, const char *reason)
{
    node_t *node = context;

    (void)address;
    pthread_mutex_lock(&node->lock);
    snprintf(node->noted.reason, sizeof(node->noted.reason), "%s", reason);
    pthread_mutex_unlock(&node->lock);
    atomic_fetch_add(link != NULL ? &node->lost : &node->failed, 1);
}

/* ---- life ---- */

/* A node of mesh "unit" that listens on a port of its own; the test changes options and then starts it. */
static inline void node_init(node_t *node, const char *name)
{
    memset(node, 0, sizeof(*node));
    node->clock = &zlink_clock_system;
    assert_int_equal(zlink_node_identity_make(&node->identity, "unit", name), ZLINK_OK);
    sem_init(&node->closed, 0, 0);
    pthread_mutex_init(&node->lock, NULL);
    node->options = (zlink_mesh_options_t){
        .role = ZLINK_ROLE_SERVER,
        .listen = "127.0.0.1:0",
        .redial = true,
        .max_body_bytes = 1u << 20,
        .outbound_bytes = 1u << 20,
        .pending_max = 1024,
    };
}

static inline void node_create_here(void *context)
{
    node_t *node = context;

    node->status = zlink_mesh_create(&node->options, &node->mesh, &node->why);
    if (node->status == ZLINK_OK && zlink_mesh_address(node->mesh) != NULL)
        snprintf(node->address, sizeof(node->address), "%s", zlink_mesh_address(node->mesh));
}

static inline void node_try_start(node_t *node)
{
    if (node->reactor == NULL)
        node->reactor = fixture_reactor(&(zlink_reactor_options_t){.clock = node->clock});
    node->options.reactor = node->reactor;
    node->options.identity = &node->identity;
    node->options.events = (zlink_mesh_events_t){
        .arrived = node_arrived,
        .picked_local = node_picked_local,
        .cancelled = node_cancelled,
        .members_changed = node_members_changed,
        .link_ready = node_link_ready,
        .link_lost = node_link_lost,
        .context = node,
    };
    zlink_reactor_call(node->reactor, node_create_here, node);
}

static inline void node_start(node_t *node)
{
    node_try_start(node);
    if (node->status != ZLINK_OK)
        fail_msg("the mesh did not start: %s", node->why.line);
}

static inline void node_closed(void *context)
{
    sem_post(&((node_t *)context)->closed);
}

static inline void node_close_here(void *context)
{
    node_t *node = context;

    zlink_mesh_close(node->mesh, node_closed, node);
}

static inline void node_destroy_here(void *context)
{
    node_t *node = context;

    zlink_mesh_destroy(node->mesh);
    node->mesh = NULL;
}

static inline void node_stop(node_t *node)
{
    if (node->mesh != NULL) {
        zlink_reactor_call(node->reactor, node_close_here, node);
        fixture_wait(&node->closed);
        zlink_reactor_call(node->reactor, node_destroy_here, node);
    }
    zlink_reactor_destroy(node->reactor);
    node->reactor = NULL;
    sem_destroy(&node->closed);
    pthread_mutex_destroy(&node->lock);
}

/* ---- looking in ---- */

static inline const node_note_t *node_read(node_t *node)
{
    pthread_mutex_lock(&node->lock);
    node->seen = node->noted;
    pthread_mutex_unlock(&node->lock);
    return &node->seen;
}

typedef struct node_look {
    node_t *node;
    size_t links, ready, waiting, ends, standby;
    uint32_t pending;
    uint64_t first_number;
} node_look_t;

static inline void node_look_here(void *context)
{
    node_look_t *look = context;
    const zlink_mesh_t *mesh = look->node->mesh;
    const zlink_peer_link_t *link;
    const zlink_link_end_t *end;

    TAILQ_FOREACH(link, &mesh->links, in_mesh)
    {
        if (look->links++ == 0)
            look->first_number = link->number;
        look->ready += link->state == ZLINK_LINK_READY;
        look->waiting += link->waiting_count;
    }
    LIST_FOREACH(end, &mesh->ends, in_mesh)
    {
        look->ends++;
    }
    for (size_t i = 0; i < mesh->dialer_count; i++)
        look->standby += mesh->dialers[i].standby_for[0] != '\0' && mesh->dialers[i].link == NULL;
    look->pending = mesh->pending.count;
}

static inline node_look_t node_look(node_t *node)
{
    node_look_t look = {.node = node};

    zlink_reactor_call(node->reactor, node_look_here, &look);
    return look;
}

/* Until the node has `ready` ready links and no other. */
static inline void node_wait_links(node_t *node, size_t ready)
{
    const struct timespec pause = {.tv_nsec = 500000};
    const time_t until = time(NULL) + FIXTURE_PATIENCE_S;

    for (node_look_t look = node_look(node); look.ready != ready || look.links != ready; look = node_look(node)) {
        if (time(NULL) > until)
            fail_msg("waited for %zu links, got %zu (%zu ready): %s", ready, look.links, look.ready,
                     node_read(node)->reason);
        nanosleep(&pause, NULL);
    }
}

static inline void node_wait_ends(node_t *node, size_t ends)
{
    const struct timespec pause = {.tv_nsec = 500000};
    const time_t until = time(NULL) + FIXTURE_PATIENCE_S;

    while (node_look(node).ends != ends) {
        if (time(NULL) > until)
            fail_msg("waited for %zu connections, got %zu", ends, node_look(node).ends);
        nanosleep(&pause, NULL);
    }
}

/* Moves a virtual clock until the node has its links. */
static inline void node_pass_time_until_ready(node_t *node, virtual_clock_t *clock, size_t ready)
{
    const time_t until = time(NULL) + FIXTURE_PATIENCE_S;

    for (node_look_t look = node_look(node); look.ready != ready || look.links != ready; look = node_look(node)) {
        if (time(NULL) > until)
            fail_msg("waited for %zu links, got %zu (%zu ready): %s", ready, look.links, look.ready,
                     node_read(node)->reason);
        virtual_clock_advance(clock, node->reactor, 10);
        nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
    }
}

/* ---- acting on the reactor ---- */

typedef struct node_reply {
    node_t *node;
    size_t held;
    zlink_status_t status;
} node_reply_t;

static inline void node_reply_here(void *context)
{
    const node_reply_t *reply = context;
    zlink_peer_link_t *link = zlink_mesh_find_link(reply->node->mesh, reply->node->held[reply->held].link);

    if (link != NULL)
        zlink_peer_link_reply(link, reply->node->held[reply->held].route, reply->status, "tests.Held",
                              (const uint8_t *)"held", 4);
}

static inline void node_reply(node_t *node, size_t held, zlink_status_t status)
{
    node_reply_t reply = {node, held, status};

    zlink_reactor_call(node->reactor, node_reply_here, &reply);
}

static inline void node_drain_here(void *context)
{
    zlink_mesh_drain(((node_t *)context)->mesh);
}

static inline void node_resume_here(void *context)
{
    zlink_link_end_t *end;

    LIST_FOREACH(end, &((node_t *)context)->mesh->ends, in_mesh)
    {
        if (end->connection && end->admitted && end->lane == ZLINK_CONNECTION_APPLICATION)
            zlink_mesh_resume_source(&end->permit);
    }
}

static inline void node_cut_here(void *context)
{
    zlink_mesh_t *mesh = ((node_t *)context)->mesh;

    if (!TAILQ_EMPTY(&mesh->links))
        zlink_mesh_close_link(TAILQ_FIRST(&mesh->links), ZLINK_UNAVAILABLE, "cut by the test");
}

/* ---- calls ---- */

typedef struct test_call {
    zlink_outbound_call_t call;
    node_t *node;
    sem_t done;
    _Atomic size_t completions;
    zlink_status_t status;
    char packet[256];
    uint8_t answer[256]; /* its first bytes */
    size_t answer_bytes;
} test_call_t;

static inline void test_call_completed(zlink_outbound_call_t *outbound, zlink_status_t status,
                                       const zlink_call_answer_t *answer)
{
    test_call_t *call = (test_call_t *)(void *)outbound;

    assert(zlink_reactor_is_current(call->node->reactor));
    call->status = status;
    snprintf(call->packet, sizeof(call->packet), "%s", answer->packet != NULL ? answer->packet : "");
    call->answer_bytes = answer->payload_bytes;
    if (answer->payload_bytes > 0)
        memcpy(call->answer, answer->payload,
               answer->payload_bytes < sizeof(call->answer) ? answer->payload_bytes : sizeof(call->answer));
    atomic_fetch_add(&call->completions, 1);
    sem_post(&call->done);
}

/* A request to `channel` with `text`; the test changes what it wants and submits. */
static inline void test_call_init(test_call_t *call, node_t *node, const char *channel, const char *text)
{
    memset(call, 0, sizeof(*call));
    sem_init(&call->done, 0, 0);
    call->node = node;
    call->call = (zlink_outbound_call_t){
        .route = ZLINK_ROUTE_CHANNEL,
        .target = ZLINK_TARGET_CHANNEL,
        .name = channel,
        .spot_id = "",
        .packet = "tests.Ask",
        .payload = (const uint8_t *)text,
        .payload_bytes = strlen(text),
        .deadline_ms = zlink_clock_now_ms(node->clock) + 30000,
        .completed = test_call_completed,
    };
}

static inline void test_call_submit(test_call_t *call)
{
    zlink_mesh_submit(call->node->mesh, &call->call);
}

static inline zlink_status_t test_call_wait(test_call_t *call)
{
    fixture_wait(&call->done);
    return call->status;
}

/* After everything that could complete it has had its chance. */
static inline void test_call_release(test_call_t *call)
{
    assert_int_equal(atomic_load(&call->completions), 1);
    sem_destroy(&call->done);
}

static inline zlink_status_t node_ask(node_t *node, const char *channel, const char *text)
{
    test_call_t call;

    test_call_init(&call, node, channel, text);
    test_call_submit(&call);
    zlink_status_t status = test_call_wait(&call);
    if (status == ZLINK_OK) {
        assert_int_equal(call.answer_bytes, strlen(text));
        assert_memory_equal(call.answer, text, strlen(text));
    }
    test_call_release(&call);
    return status;
}

/* ---- a pair: `caller` dials `server`, which serves "prices" ---- */

static const char *const pair_channels[] = {"prices"};

typedef struct pair {
    virtual_clock_t clock;
    node_t server, caller;
    const char *peers[1];
} pair_t;

static inline void pair_init(pair_t *pair, bool virtual_time)
{
    virtual_clock_init(&pair->clock);
    node_init(&pair->server, "server");
    node_init(&pair->caller, "caller");
    if (virtual_time)
        pair->server.clock = pair->caller.clock = &pair->clock.clock;
    pair->server.options.channels = pair_channels;
    pair->server.options.channel_count = 1;
    pair->caller.options.listen = NULL;
    pair->peers[0] = pair->server.address;
    pair->caller.options.peers = pair->peers;
    pair->caller.options.peer_count = 1;
}

static inline void pair_start(pair_t *pair)
{
    node_start(&pair->server);
    node_start(&pair->caller);
    fixture_wait_for(&pair->server.ready, 1);
    fixture_wait_for(&pair->caller.ready, 1);
}

static inline void pair_stop(pair_t *pair)
{
    node_stop(&pair->caller);
    node_stop(&pair->server);
}

#endif
