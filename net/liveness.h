/*
 * net/liveness.h: is the other side of a connection still there?
 *
 * The rules (fixed): from readiness a probe every 5 s; at most one id is outstanding and it is sent again unchanged
 * until acknowledged; only the acknowledgement of the outstanding id counts, and only it moves the deadline, to 15 s
 * from then. Other traffic moves nothing. (What else counts on a connection that carries everything, its owner decides:
 * zlink_liveness_put_off.) Pure state over a monotonic time that the caller gives; one owner, not locked.
 */
#ifndef ZLINK_NET_LIVENESS_H
#define ZLINK_NET_LIVENESS_H

#include <stdbool.h>
#include <stdint.h>

#define ZLINK_LIVENESS_PROBE_MS    5000u
#define ZLINK_LIVENESS_DEADLINE_MS 15000u

typedef enum zlink_liveness_action {
    ZLINK_LIVENESS_WAIT,
    ZLINK_LIVENESS_PROBE,
    ZLINK_LIVENESS_EXPIRED,
} zlink_liveness_action_t;

typedef struct zlink_liveness {
    uint64_t probe_ms;    /* when the next probe is due */
    uint64_t deadline_ms; /* when the connection counts as dead */
    uint64_t outstanding; /* id, 0 = none */
    uint64_t last_id;
} zlink_liveness_t;

/* The connection has become ready. */
void zlink_liveness_start(zlink_liveness_t *liveness, uint64_t now_ms);
/* What to do now; with PROBE `*id` is what to send. */
zlink_liveness_action_t zlink_liveness_check(zlink_liveness_t *liveness, uint64_t now_ms, uint64_t *id);
/* An acknowledgement came. False: it was stale, repeated or foreign, and changed nothing. */
bool zlink_liveness_acknowledge(zlink_liveness_t *liveness, uint64_t id, uint64_t now_ms);
/* It is known otherwise that the other side is there, or that its acknowledgement could not be heard: the deadline is
 * what it would be after one from now. */
void zlink_liveness_put_off(zlink_liveness_t *liveness, uint64_t now_ms);
/* When to check again. */
uint64_t zlink_liveness_next_ms(const zlink_liveness_t *liveness);

#endif
