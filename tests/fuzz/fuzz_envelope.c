/*
 * tests/fuzz/fuzz_envelope.c: libFuzzer target: any bytes are an envelope that survives encoding and decoding again,
 * or refused with a reason. The first byte picks the message.
 */
#include <stdlib.h>
#include <string.h>

#include "proto/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t bytes[2 * ZLINK_FRAME_ENVELOPE_BYTES_MAX];

static void require(bool condition)
{
    if (!condition)
        abort();
}

static bool decoded(zlink_status_t status, const char *reason)
{
    require(status == ZLINK_OK ? reason == NULL : status == ZLINK_PROTOCOL_ERROR && reason != NULL);
    return status == ZLINK_OK;
}

static void try_hello(const uint8_t *data, size_t size)
{
    static zlink_wire_channel_t channels[2][ZLINK_WIRE_CHANNELS_MAX];
    static zlink_wire_spot_type_t types[2][ZLINK_WIRE_SPOT_TYPES_MAX];
    zlink_wire_hello_t hello[2];
    const char *reason = NULL;
    size_t written = 0;

    for (size_t i = 0; i < 2; i++)
        hello[i] = (zlink_wire_hello_t){.channels = channels[i],
                                        .channel_capacity = ZLINK_WIRE_CHANNELS_MAX,
                                        .spot_types = types[i],
                                        .spot_type_capacity = ZLINK_WIRE_SPOT_TYPES_MAX};
    if (!decoded(zlink_wire_hello_decode(data, size, &hello[0], &reason), reason))
        return;
    require(zlink_wire_hello_encode(&hello[0], bytes, sizeof(bytes), &written) == ZLINK_OK);
    require(zlink_wire_hello_decode(bytes, written, &hello[1], NULL) == ZLINK_OK);
    require(hello[0].link_id == hello[1].link_id && strcmp(hello[0].node_id, hello[1].node_id) == 0);
    require(hello[0].channel_count == hello[1].channel_count && hello[0].spot_type_count == hello[1].spot_type_count);
    for (size_t i = 0; i < hello[0].channel_count; i++)
        require(strcmp(channels[0][i].name, channels[1][i].name) == 0 &&
                channels[0][i].weight == channels[1][i].weight);
}

static void try_update(const uint8_t *data, size_t size)
{
    static zlink_wire_channel_t channels[ZLINK_WIRE_CHANNELS_MAX];
    zlink_wire_update_t update = {.channels = channels, .channel_capacity = ZLINK_WIRE_CHANNELS_MAX};
    const char *reason = NULL;
    size_t written = 0;

    if (!decoded(zlink_wire_update_decode(data, size, &update, &reason), reason))
        return;
    require(zlink_wire_update_encode(&update, bytes, sizeof(bytes), &written) == ZLINK_OK);
    require(zlink_wire_update_decode(bytes, written, &update, NULL) == ZLINK_OK);
}

static void try_reject(const uint8_t *data, size_t size)
{
    zlink_wire_reject_t reject;
    const char *reason = NULL;
    size_t written = 0;

    if (!decoded(zlink_wire_reject_decode(data, size, &reject, &reason), reason))
        return;
    require(zlink_wire_reject_encode(&reject, bytes, ZLINK_WIRE_SMALL_ENVELOPE_MAX, &written) == ZLINK_OK);
    require(zlink_wire_reject_decode(bytes, written, &reject, NULL) == ZLINK_OK);
}

static void try_announce(const uint8_t *data, size_t size)
{
    zlink_wire_announce_t announce, again;
    const char *reason = NULL;
    size_t written = 0;

    if (!decoded(zlink_wire_announce_decode(data, size, &announce, &reason), reason))
        return;
    require(zlink_wire_announce_encode(&announce, bytes, ZLINK_WIRE_SMALL_ENVELOPE_MAX, &written) == ZLINK_OK);
    require(zlink_wire_announce_decode(bytes, written, &again, NULL) == ZLINK_OK);
    require(announce.id == again.id && announce.kind == again.kind && strcmp(announce.packet, again.packet) == 0 &&
            strcmp(announce.target.name, again.target.name) == 0 &&
            strcmp(announce.target.spot_id, again.target.spot_id) == 0);
}

static void try_call(uint8_t pick, const uint8_t *data, size_t size)
{
    const zlink_frame_prefix_t prefix = {.kind = pick & 1 ? ZLINK_FRAME_REPLY : ZLINK_FRAME_REQUEST,
                                         .target_id = pick & 1 ? 0 : pick >> 1 & 1,
                                         .packet_id = pick >> 2 & 1};
    zlink_wire_call_t call, again;
    const char *reason = NULL;
    size_t written = 0;

    if (!decoded(zlink_wire_call_decode(&prefix, data, size, &call, &reason), reason))
        return;
    require(prefix.packet_id != 0 || zlink_wire_name_is_valid(call.packet));
    require(zlink_wire_call_encode(&call, bytes, ZLINK_WIRE_SMALL_ENVELOPE_MAX, &written) == ZLINK_OK);
    require(zlink_wire_call_decode(&prefix, bytes, written, &again, NULL) == ZLINK_OK);
    require(strcmp(call.trace.correlation_id, again.trace.correlation_id) == 0 &&
            strcmp(call.trace.flow_id, again.trace.flow_id) == 0 && call.trace.flow_origin == again.trace.flow_origin);
    require(prefix.kind == ZLINK_FRAME_REQUEST || zlink_trace_is_empty(&call.trace));
}

static void try_error(const uint8_t *data, size_t size)
{
    char text[ZLINK_WIRE_REASON_BYTES_MAX + 1], dirty[512];
    const char *reason = NULL;
    size_t written = 0;

    if (decoded(zlink_wire_error_decode(data, size, text, &reason), reason))
        require(strlen(text) <= ZLINK_WIRE_REASON_BYTES_MAX);

    /* And any text can be sent. */
    size = size < sizeof(dirty) - 1 ? size : sizeof(dirty) - 1;
    memcpy(dirty, data, size);
    dirty[size] = 0;
    require(zlink_wire_error_encode(dirty, bytes, ZLINK_WIRE_SMALL_ENVELOPE_MAX, &written) == ZLINK_OK);
    require(zlink_wire_error_decode(bytes, written, text, NULL) == ZLINK_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t pick;

    if (size == 0)
        return 0;
    pick = *data++;
    size--;
    switch (pick % 6) {
    case 0:
        try_hello(data, size);
        break;
    case 1:
        try_update(data, size);
        break;
    case 2:
        try_reject(data, size);
        break;
    case 3:
        try_announce(data, size);
        break;
    case 4:
        try_call(pick / 6, data, size);
        break;
    default:
        try_error(data, size);
        break;
    }
    return 0;
}
