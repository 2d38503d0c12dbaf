#include "tests/simulation/simulated_node.h"

#include <stdio.h>
#include <string.h>

#include "exec/worker.h"
#include "tests/simulation/chance.h"
#include "tests/simulation/memory_kernel.h"

#define BODY_BYTES_MAX (256u * 1024u)

static uint64_t now(void *context)
{
    return *(const uint64_t *)context;
}

static unsigned pick(void *context, unsigned count)
{
    (void)context;
    return chance_any(count);
}

static void wake(void *context, unsigned worker)
{
    simulated_node_t *node = context;

    hold_true(!node->awake[worker]);
    node->awake[worker] = true;
}

void simulated_node_init(simulated_node_t *node, unsigned machine, uint64_t *now_ns)
{
    *node = (simulated_node_t){.machine = machine, .clock = {now, now_ns}, .scheduler = {pick, wake, node}};
    (void)snprintf(node->name, sizeof(node->name), "n%u", machine);
}

static void address_of(unsigned machine, char text[24])
{
    (void)snprintf(text, 24, "10.0.0.%u:" SIMULATED_PORT, machine + 1);
}

void simulated_node_add_peer(simulated_node_t *node, unsigned machine)
{
    address_of(machine, node->peer_addresses[node->peer_count]);
    node->peers[node->peer_count] = node->peer_addresses[node->peer_count];
    node->peer_count++;
}

/* ---- the door between the two domains, as in server/node_start.c ---- */

static void submit(void *context, zlink_outbound_call_t *call)
{
    zlink_mesh_submit(((const simulated_node_t *)context)->mesh, call);
}

static bool take(void *context, zlink_outbound_call_t *call)
{
    return zlink_mesh_take(((const simulated_node_t *)context)->mesh, call);
}

/* The Spots of the type "cell-n1" live on node n1. */
static const char *spot_home(void *context, const char *type)
{
    static const char *const names[] = {"n0", "n1", "n2"};

    (void)context;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(type + strlen("cell-"), names[i]) == 0)
            return names[i];
    return NULL;
}

static zlink_status_t set_weight(void *context, const char *channel, uint32_t weight)
{
    (void)context, (void)channel, (void)weight;
    return ZLINK_UNAVAILABLE;
}

static void cancel(void *context, zlink_outbound_call_t *call)
{
    (void)context;
    zlink_mesh_cancel(call->mesh, call);
}

/* ---- start ---- */

static void start_host(simulated_node_t *node)
{
    zlink_refusal_t why = {{0}};
    zlink_application_host_options_t options = {
        .clock = &node->clock,
        .node_id = node->identity.node_id,
        .mesh = node->identity.mesh,
        .policy = zlink_execution_lane_policy_default,
        .request_timeout_ms = 2000,
        .send_timeout_ms = 500,
        .message_bytes_max = BODY_BYTES_MAX,
        .spots_max = 100,
        .jobs_max = 1 + chance_any(chance_one_in(2) ? 4 : 64),
        .outbound = {.submit = submit,
                     .take = take,
                     .spot_home = spot_home,
                     .set_weight = set_weight,
                     .cancel = cancel,
                     .context = node},
    };

    if (chance_one_in(4))
        options.policy.application_message_capacity = 1 + chance_any(6);
    hold_true(zlink_application_host_create(node->pool, node->catalogue, &options, &node->host, &why) == ZLINK_OK);
}

static void open_mesh(void *context)
{
    simulated_node_t *node = context;
    const char *channels[] = {"work"};
    const char *spot_types[] = {node->catalogue->spot_types[0].type->name};
    char address[24];
    zlink_refusal_t why = {{0}};
    zlink_mesh_options_t options = {
        .reactor = node->reactor,
        .identity = &node->identity,
        .redial = true,
        .max_body_bytes = BODY_BYTES_MAX,
        .outbound_bytes = (size_t)4096 << chance_any(8),
        .pending_max = 1024,
        .role = ZLINK_ROLE_SERVER,
        .peers = node->peers,
        .peer_count = node->peer_count,
        .channels = channels,
        .channel_count = node->serves,
        .spot_types = spot_types,
        .spot_type_count = 1,
        .events =
            {
                .arrived = zlink_ingress_arrived,
                .source_gone = zlink_ingress_source_gone,
                .picked_local = zlink_ingress_picked_local,
                .cancelled = zlink_ingress_cancelled,
                .members_changed = zlink_ingress_members_changed,
                .own_weight = zlink_ingress_own_weight,
                .context = &node->ingress,
            },
    };

    address_of(node->machine, address);
    options.listen = address;
    zlink_ingress_init(&node->ingress, node->reactor, node->host);
    hold_true(zlink_mesh_create(&options, &node->mesh, &why) == ZLINK_OK);
    node->ingress.mesh = node->mesh;
}

void simulated_node_start(simulated_node_t *node)
{
    zlink_refusal_t why = {{0}};
    const zlink_reactor_options_t reactor = {
        .entries = 8u << chance_any(4),
        .cq_entries = 64u << chance_any(3),
        .buffer_count = 2u << chance_any(4),
        .buffer_bytes = 256u << chance_any(6),
        .clock = &node->clock,
        .by_hand = true,
    };

    hold_true(node->state == SIMULATED_DOWN);
    memory_kernel_act_as(node->machine);
    node->lives++;
    node->cut_off = false;
    hold_true(zlink_node_identity_make(&node->identity, "simulated", node->name) == ZLINK_OK);
    node->catalogue = zlink_catalogue_create();
    hold_true(node->catalogue != NULL);
    zlink_module_t module = {.catalogue = node->catalogue, .name = "traffic"};
    node->fill(node, &module);
    hold_true(module.status == ZLINK_OK);
    hold_true(zlink_reactor_create(&reactor, &node->reactor, &why) == ZLINK_OK);
    node->workers = 1 + chance_any(SIMULATED_WORKERS_MAX);
    const zlink_worker_pool_options_t pool = {
        .cores = node->workers,
        .workers = node->workers,
        .stacks_max = 256,
        .clock = &node->clock,
        .scheduler = &node->scheduler,
    };
    for (unsigned i = 0; i < node->workers; i++)
        node->awake[i] = true;
    hold_true(zlink_worker_pool_create(&pool, &node->pool, &why) == ZLINK_OK);
    start_host(node);
    zlink_reactor_call(node->reactor, open_mesh, node);
    node->state = SIMULATED_UP;
}

/* ---- the end ---- */

static void stage_ended(void *context)
{
    ((simulated_node_t *)context)->stage_ended = true;
}

static void begin_draining(void *context)
{
    simulated_node_t *node = context;

    node->ingress.draining = true;
    zlink_mesh_drain(node->mesh);
}

static void close_mesh(void *context)
{
    simulated_node_t *node = context;

    zlink_mesh_close(node->mesh, stage_ended, node);
}

static void destroy_mesh(void *context)
{
    simulated_node_t *node = context;

    hold_true(simulated_node_is_empty(node));
    zlink_mesh_destroy(node->mesh);
    node->mesh = NULL;
}

void simulated_node_stop(simulated_node_t *node)
{
    hold_true(node->state == SIMULATED_UP);
    memory_kernel_act_as(node->machine);
    node->state = SIMULATED_DRAINING;
    node->stage_ended = false;
    zlink_reactor_call(node->reactor, begin_draining, node);
    zlink_application_host_when_idle(node->host, stage_ended, node);
}

void simulated_node_cut_off(simulated_node_t *node)
{
    memory_kernel_cut_off(node->machine);
    node->cut_off = true;
    simulated_node_stop(node);
}

static void take_apart(simulated_node_t *node)
{
    zlink_reactor_call(node->reactor, destroy_mesh, node);
    zlink_reactor_destroy(node->reactor);
    zlink_worker_pool_destroy(node->pool);
    zlink_application_host_destroy(node->host);
    zlink_catalogue_destroy(node->catalogue);
    node->state = SIMULATED_DOWN;
}

/* Outside every callback. */
static void next_stage(simulated_node_t *node)
{
    node->stage_ended = false;
    switch (node->state) {
    case SIMULATED_DRAINING:
        node->state = SIMULATED_CLOSING;
        zlink_application_host_close(node->host, stage_ended, node);
        break;
    case SIMULATED_CLOSING:
        node->state = SIMULATED_PARTING;
        zlink_reactor_call(node->reactor, close_mesh, node);
        break;
    case SIMULATED_PARTING:
        take_apart(node);
        break;
    case SIMULATED_DOWN:
    case SIMULATED_UP:
        cannot_be("a stage of no stop");
    }
}

/* ---- steps ---- */

static uint64_t worker_next_ms(const simulated_node_t *node, unsigned number)
{
    const zlink_worker_t *worker = node->pool->workers[number];
    uint64_t next_ms = zlink_timer_wheel_next_ms(&worker->timers);

    if (atomic_load(&node->pool->timekeeper) == worker &&
        zlink_deadline_scheduler_next_ms(&node->pool->deadlines) < next_ms)
        next_ms = zlink_deadline_scheduler_next_ms(&node->pool->deadlines);
    return next_ms;
}

static bool worker_is_ready(const simulated_node_t *node, unsigned number)
{
    return node->awake[number] || zlink_clock_now_ms(&node->clock) >= worker_next_ms(node, number);
}

unsigned simulated_node_ready(simulated_node_t *node)
{
    unsigned count = 0;

    if (node->state == SIMULATED_DOWN)
        return 0;
    count += node->stage_ended;
    count += memory_kernel_wait_is_over(node->machine);
    for (unsigned i = 0; i < node->workers; i++)
        count += worker_is_ready(node, i);
    return count;
}

void simulated_node_step(simulated_node_t *node)
{
    unsigned skip = chance_any(simulated_node_ready(node));
    const bool reactor_too = memory_kernel_wait_is_over(node->machine);

    memory_kernel_act_as(node->machine);
    if (node->stage_ended) {
        next_stage(node);
        return;
    }
    if (reactor_too && skip == 0) {
        chance_note(node->machine);
        zlink_reactor_step(node->reactor);
    } else {
        unsigned worker = 0;

        for (skip -= reactor_too; !worker_is_ready(node, worker) || skip-- > 0; worker++)
            ;
        chance_note(16 + 4 * node->machine + worker);
        node->awake[worker] = zlink_worker_pool_step(node->pool, worker);
    }
}

uint64_t simulated_node_next_ns(const simulated_node_t *node)
{
    uint64_t next_ns;

    if (node->state == SIMULATED_DOWN)
        return UINT64_MAX;
    next_ns = memory_kernel_wait_ends_ns(node->machine);
    for (unsigned i = 0; i < node->workers; i++) {
        const uint64_t next_ms = worker_next_ms(node, i);

        if (next_ms != UINT64_MAX && next_ms * ZLINK_NS_PER_MS < next_ns)
            next_ns = next_ms * ZLINK_NS_PER_MS;
    }
    return next_ns;
}

/* ---- looking in ---- */

static const zlink_peer_link_t *only_ready_link(const simulated_node_t *node, const simulated_node_t *peer)
{
    const zlink_peer_link_t *found = NULL;
    const zlink_peer_link_t *link;

    TAILQ_FOREACH(link, &node->mesh->links, in_mesh)
    {
        if (link->state != ZLINK_LINK_READY || strcmp(link->peer.node_id, peer->identity.node_id) != 0)
            continue;
        if (found != NULL)
            return NULL;
        found = link;
    }
    return found;
}

bool simulated_node_is_linked(simulated_node_t *node, simulated_node_t *peer)
{
    const zlink_peer_link_t *there = only_ready_link(node, peer);
    const zlink_peer_link_t *back = only_ready_link(peer, node);

    return there != NULL && back != NULL && there->link_id == back->link_id && there->dialled != back->dialled;
}

bool simulated_node_is_idle(const simulated_node_t *node)
{
    return atomic_load(&node->host->live) == 0;
}

bool simulated_node_is_empty(const simulated_node_t *node)
{
    const zlink_peer_link_t *link;
    bool empty = node->mesh->pending.count == 0 && TAILQ_EMPTY(&node->mesh->unready) &&
                 zlink_application_job_queue_jobs(&node->host->job_queue) == 0;

    TAILQ_FOREACH(link, &node->mesh->links, in_mesh)
    {
        empty = empty && TAILQ_EMPTY(&link->calls) && TAILQ_EMPTY(&link->waiting) && link->waiting_count == 0 &&
                TAILQ_EMPTY(&link->large.calls);
    }
    for (size_t i = 0; i < ZLINK_OPEN_REQUESTS_BUCKETS; i++)
        empty = empty && LIST_EMPTY(&node->ingress.open.buckets[i]);
    return empty;
}
