/*
 * net/ring_features.h: what the kernel gives us, found by asking, and why it refuses when it does.
 *
 * A ring is asked for with the best flags first and steps down on -EINVAL:
 *   deferred   SINGLE_ISSUER | DEFER_TASKRUN | TASKRUN_FLAG   (6.1)
 *   co-operative  COOP_TASKRUN | TASKRUN_FLAG                 (5.19)
 *   plain      nothing
 * each with SUBMIT_ALL and CQSIZE where those exist. Versions are not compared: distributions backport. A mask of
 * what may be used lets tests force every step. Functions here may be called from any thread; a ring belongs to the
 * thread that set it up.
 */
#ifndef ZLINK_NET_RING_FEATURES_H
#define ZLINK_NET_RING_FEATURES_H

#include <stdbool.h>
#include <stdint.h>

#include <zlink/status.h>

#include "base/refusal.h"

#define ZLINK_RING_DEFERRED         (1u << 0) /* SINGLE_ISSUER and DEFER_TASKRUN */
#define ZLINK_RING_COOPERATIVE      (1u << 1) /* COOP_TASKRUN */
#define ZLINK_RING_TASKRUN_FLAG     (1u << 2)
#define ZLINK_RING_SUBMIT_ALL       (1u << 3)
#define ZLINK_RING_CQ_SIZE          (1u << 4)
#define ZLINK_RING_REGISTERED_FD    (1u << 5)
#define ZLINK_RING_MULTISHOT_ACCEPT (1u << 6)
#define ZLINK_RING_MULTISHOT_RECV   (1u << 7)
#define ZLINK_RING_PLAIN            (1u << 8) /* never obtained: a mask of this alone forces the plain ring */
#define ZLINK_RING_ALL              0xffu

struct io_uring;

/* Sets `ring` up on the calling thread. `allowed` 0 means all; `*features` is what was obtained. */
zlink_status_t zlink_ring_open(struct io_uring *ring, unsigned entries, unsigned cq_entries, uint32_t allowed,
                               uint32_t *features, zlink_refusal_t *why);

/* "deferred taskrun-flag submit-all cq-size ..." into `text`, cut at `size`. */
void zlink_ring_features_text(uint32_t features, char *text, unsigned size);

/* What a refusal depends on. Collected from the running system, or made up by a test. */
typedef struct zlink_ring_surroundings {
    int disabled;           /* kernel.io_uring_disabled: 0, 1, 2; -1 where the kernel has no such setting */
    int seccomp;            /* Seccomp: of /proc/self/status: 0, 1, 2; -1 unknown */
    uint64_t memlock_bytes; /* soft RLIMIT_MEMLOCK; UINT64_MAX = unlimited */
    char kernel[65];        /* uname release */
} zlink_ring_surroundings_t;

void zlink_ring_surroundings_read(zlink_ring_surroundings_t *surroundings);

/* The true cause of `error` (a positive errno from ring setup) in one line. */
void zlink_ring_explain(int error, const zlink_ring_surroundings_t *surroundings, zlink_refusal_t *why);

/* For a `check` command: makes a ring with receive buffers, throws it away and tells. */
typedef struct zlink_ring_report {
    bool usable;
    uint32_t features;
    zlink_ring_surroundings_t surroundings;
    zlink_refusal_t cause; /* why it is not usable; "" where it is */
    char line[640];        /* all of it in one line for people: kernel, features or cause, memlock */
} zlink_ring_report_t;

void zlink_ring_probe(zlink_ring_report_t *report);

#endif
