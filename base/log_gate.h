/*
 * base/log_gate.h: how many lines strangers may write into the log.
 *
 * Whoever can reach a port can be refused there as often as he likes; each refusal is a line, and the lines must not
 * fill a disk. A gate lets 100 lines through in a row and 20 a second after that, and counts the others, so that the
 * next line can say how many there were. A value of one owner, not locked; zero-initialised is ready.
 */
#ifndef ZLINK_BASE_LOG_GATE_H
#define ZLINK_BASE_LOG_GATE_H

#include <stdbool.h>
#include <stdint.h>

#define ZLINK_LOG_GATE_BURST      100u
#define ZLINK_LOG_GATE_PER_SECOND 20u

typedef struct zlink_log_gate {
    uint64_t used_ms; /* of the budget: each line costs 1000 / PER_SECOND of it */
    uint64_t seen_ms;
    uint64_t held_back;
} zlink_log_gate_t;

/* True: write the line, and `*held_back` is how many were not written since the last one that was. */
bool zlink_log_gate_pass(zlink_log_gate_t *gate, uint64_t now_ms, uint64_t *held_back);

#endif
