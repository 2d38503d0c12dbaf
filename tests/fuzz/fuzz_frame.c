/*
 * tests/fuzz/fuzz_frame.c: libFuzzer target: 32 bytes are a prefix that encodes to the same bytes, or refused.
 */
#include <stdlib.h>
#include <string.h>

#include "proto/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint32_t limit = 16u * 1024 * 1024;
    uint8_t again[ZLINK_FRAME_PREFIX_BYTES];
    zlink_frame_prefix_t prefix;
    const char *reason = NULL;

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
