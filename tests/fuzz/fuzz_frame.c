/*
 * tests/fuzz/fuzz_frame.c: libFuzzer target: 32 bytes are a prefix that encodes to the same bytes, or refused; and any
 * row of them as the beginnings of frames in chunks keeps to what may be open at a time.
 */
#include <stdlib.h>
#include <string.h>

#include "net/frame_assembly.h"
#include "proto/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_assemblies(const uint8_t *data, size_t size, uint32_t limit)
{
    zlink_frame_assemblies_t assemblies = {0};

    for (uint64_t id = 1; size >= ZLINK_FRAME_PREFIX_BYTES; id++) {
        zlink_frame_assembly_t *assembly = NULL;
        const char *reason = NULL;
        zlink_status_t status = zlink_frame_assemblies_begin(&assemblies, id, data, limit, 0, &assembly, &reason);

        if (status == ZLINK_OK ? assembly != zlink_frame_assemblies_find(&assemblies, id) : reason == NULL)
            abort();
        if (assemblies.count > ZLINK_FRAME_TRANSFERS_MAX || assemblies.bytes > limit)
            abort();
        if (assembly != NULL && data[0] & 1)
            zlink_frame_assemblies_remove(&assemblies, assembly);
        data += ZLINK_FRAME_PREFIX_BYTES;
        size -= ZLINK_FRAME_PREFIX_BYTES;
    }
    zlink_frame_assemblies_clear(&assemblies);
    if (assemblies.bytes != 0 || assemblies.count != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint32_t limit = 16u * 1024 * 1024;
    uint8_t again[ZLINK_FRAME_PREFIX_BYTES];
    zlink_frame_prefix_t prefix;
    const char *reason = NULL;

    try_assemblies(data, size, limit);
    if (size < ZLINK_FRAME_PREFIX_BYTES)
        return 0;
    if (zlink_frame_prefix_decode(data, limit, &prefix, &reason) != ZLINK_OK) {
        if (reason == NULL)
            abort();
        return 0;
    }
    if (reason != NULL || prefix.body_bytes > limit || prefix.envelope_bytes > prefix.body_bytes ||
        zlink_frame_kind_name(prefix.kind)[0] == '?')
        abort();
    zlink_frame_prefix_encode(&prefix, again);
    if (memcmp(again, data, sizeof(again)) != 0)
        abort();
    return 0;
}
