/*
 * net/frame_assembly.h: frames that come in CHUNKs, until they are whole: each grows in memory of its final size.
 *
 * A value owned by its connection, reactor thread only; zero-initialised is empty. Nothing of the peer is trusted: how
 * many and how large is bounded here, as docs/wire.md says.
 */
#ifndef ZLINK_NET_FRAME_ASSEMBLY_H
#define ZLINK_NET_FRAME_ASSEMBLY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <zlink/status.h>

#include "proto/frame.h"

typedef struct zlink_frame_assembly {
    uint64_t id;
    zlink_frame_prefix_t prefix; /* of the whole frame */
    uint8_t *body;               /* prefix.body_bytes; NULL once somebody has taken it over */
    size_t filled;
    uint64_t begun_ms;   /* when its first chunk came … */
    uint64_t touched_ms; /* … and when the last one was complete */
    LIST_ENTRY(zlink_frame_assembly) link;
} zlink_frame_assembly_t;

typedef struct zlink_frame_assemblies {
    LIST_HEAD(, zlink_frame_assembly) open;
    unsigned count;
    size_t bytes; /* bodies of all, whole */
} zlink_frame_assemblies_t;

/* NULL where there is none of that number. */
zlink_frame_assembly_t *zlink_frame_assemblies_find(zlink_frame_assemblies_t *assemblies, uint64_t id);

/* A new one from the first bytes of its frame. ZLINK_PROTOCOL_ERROR with a static text in `*reason`: no such prefix, a
 * kind or size that does not go in chunks, or more than the peer may have on the way. ZLINK_CAPACITY_EXCEEDED: no
 * memory. */
zlink_status_t zlink_frame_assemblies_begin(zlink_frame_assemblies_t *assemblies, uint64_t id,
                                            const uint8_t head[ZLINK_FRAME_PREFIX_BYTES], uint32_t max_body_bytes,
                                            uint64_t now_ms, zlink_frame_assembly_t **assembly, const char **reason);

/* Frees it, with its body where nobody has taken that over. */
void zlink_frame_assemblies_remove(zlink_frame_assemblies_t *assemblies, zlink_frame_assembly_t *assembly);
void zlink_frame_assemblies_clear(zlink_frame_assemblies_t *assemblies);

/* When the one that has waited longest for a chunk was touched; UINT64_MAX where there is none. */
uint64_t zlink_frame_assemblies_oldest_ms(const zlink_frame_assemblies_t *assemblies);

/* The wait was this node's fault: it begins again now. */
void zlink_frame_assemblies_touch(zlink_frame_assemblies_t *assemblies, uint64_t now_ms);

#endif
