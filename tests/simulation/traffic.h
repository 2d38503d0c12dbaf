/*
 * tests/simulation/traffic.h: the application on the simulated nodes, and the book that is kept of its calls.
 *
 * Every node hosts Spots of a type of its own and handlers of the node itself, some serve the channel "work". A handler
 * makes calls to all of these, in every form that there is, to a depth, and the book holds at once what must be true:
 *   - a call ends exactly once, and the answer is its own;
 *   - it runs at most once, once where it ended well, never where it was refused before it was sent;
 *   - what one owner calls another is run in the order in which it was called;
 *   - no two turns of an owner overlap.
 */
#ifndef ZLINK_TESTS_SIMULATION_TRAFFIC_H
#define ZLINK_TESTS_SIMULATION_TRAFFIC_H

#include "tests/simulation/simulated_node.h"

void traffic_begin(simulated_node_t *nodes, unsigned count);
void traffic_end(void);

/* For simulated_node_t.fill. */
void traffic_fill(simulated_node_t *node, zlink_module_t *module);

/* A request from outside to one of the node's Spots, whose handler makes calls in turn. */
void traffic_start_at(simulated_node_t *node);
/* The same, whose handler makes one request to a Spot of `peer`, which must end well. */
void traffic_start_between(simulated_node_t *node, const simulated_node_t *peer);

/* Gives up one call that waits, by chance. */
void traffic_cancel_one(void);

/* Calls that have not ended. */
unsigned traffic_open(void);
/* No more of them, and no message of the rest is on its way: what has to be true in the end. */
void traffic_hold_settled(void);

typedef struct traffic_totals {
    uint64_t calls, ran, well, cancelled, unavailable, late, other, refused, sent, sends_run, large;
} traffic_totals_t;

/* Of all runs so far. */
extern traffic_totals_t traffic_totals;

#endif
