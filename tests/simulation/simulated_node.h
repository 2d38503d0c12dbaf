/*
 * tests/simulation/simulated_node.h: a whole node on a simulated machine: reactor, mesh, ingress, application host and
 * workers, put together as server/node_start.c does it and taken apart as server/node_stop.c does, but driven by hand.
 *
 * Nothing of it runs by itself. A reactor or worker that sleeps may be stepped again only where it was woken or its
 * time has come, so a lost wake-up shows as a standstill. Calls of memory_kernel_act_as are in here.
 */
#ifndef ZLINK_TESTS_SIMULATION_SIMULATED_NODE_H
#define ZLINK_TESTS_SIMULATION_SIMULATED_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/ingress.h"

#define SIMULATED_NODES_MAX   3u
#define SIMULATED_WORKERS_MAX 2u
#define SIMULATED_PORT        "7000"

typedef enum simulated_state {
    SIMULATED_DOWN,
    SIMULATED_UP,
    SIMULATED_DRAINING, /* until no handler is left */
    SIMULATED_CLOSING,  /* the last turns of Spots and channels */
    SIMULATED_PARTING,  /* the links */
} simulated_state_t;

typedef struct simulated_node {
    unsigned machine;
    char name[8]; /* "n0" */
    const char *peers[SIMULATED_NODES_MAX];
    char peer_addresses[SIMULATED_NODES_MAX][24];
    size_t peer_count;
    /* What it hosts: set before the start. */
    void (*fill)(struct simulated_node *node, zlink_module_t *module);
    bool serves; /* the channel, too */

    simulated_state_t state;
    unsigned lives;
    bool cut_off; /* in this life */
    bool stage_ended;
    zlink_clock_t clock;
    zlink_scheduler_t scheduler;
    unsigned workers;
    bool awake[SIMULATED_WORKERS_MAX];
    zlink_node_identity_t identity;
    zlink_catalogue_t *catalogue;
    zlink_worker_pool_t *pool;
    zlink_reactor_t *reactor;
    zlink_application_host_t *host;
    zlink_ingress_t ingress;
    zlink_mesh_t *mesh;
} simulated_node_t;

/* On machine n; `now_ns` is everybody's clock. */
void simulated_node_init(simulated_node_t *node, unsigned machine, uint64_t *now_ns);
void simulated_node_add_peer(simulated_node_t *node, unsigned machine);

/* From DOWN. Sizes and limits are left to chance. */
void simulated_node_start(simulated_node_t *node);
/* From UP: in order, a stage at a time; the steps below lead it to DOWN. */
void simulated_node_stop(simulated_node_t *node);
/* From UP: for all others it is gone at once. */
void simulated_node_cut_off(simulated_node_t *node);

/* How many of its reactor and workers may be stepped now, and the next stage of its stop. */
unsigned simulated_node_ready(simulated_node_t *node);
/* Steps one of these, by chance. */
void simulated_node_step(simulated_node_t *node);
/* When one of them may be, without anything else happening. */
uint64_t simulated_node_next_ns(const simulated_node_t *node);

/* The one ready link to the peer's present life, and the same seen from there. */
bool simulated_node_is_linked(simulated_node_t *node, simulated_node_t *peer);
/* No handler is accepted and not ended. */
bool simulated_node_is_idle(const simulated_node_t *node);
/* Nothing is pending, waits, or holds a permit. */
bool simulated_node_is_empty(const simulated_node_t *node);

#endif
