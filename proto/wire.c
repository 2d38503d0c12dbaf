#include "proto/wire.h"

#include <pb_decode.h>
#include <pb_encode.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire_codec.h"
#include "proto/wire_text.h"
#include "zlink_wire.pb.h"

/* ---- texts in C form ---- */

static bool name_ends_within(const char *name, size_t capacity)
{
    return memchr(name, 0, capacity) != NULL;
}

bool zlink_wire_name_is_valid(const char *name)
{
    size_t size = strnlen(name, ZLINK_WIRE_NAME_BYTES_MAX + 1);

    return size > 0 && size <= ZLINK_WIRE_NAME_BYTES_MAX && zlink_wire_text_is_clean(name, size);
}

static bool identifier_is_valid(const char *text, size_t capacity)
{
    return name_ends_within(text, capacity) && zlink_wire_text_is_identifier(text, strlen(text));
}

bool zlink_wire_node_id_belongs_to(const char *node_id, const char *name)
{
    static const char shape[] = "xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx";
    size_t name_bytes = strlen(name);

    if (strlen(node_id) != name_bytes + sizeof(shape) || memcmp(node_id, name, name_bytes) != 0 ||
        node_id[name_bytes] != '-')
        return false;
    node_id += name_bytes + 1;
    for (size_t i = 0; i < sizeof(shape) - 1; i++) {
        const char *allowed = shape[i] == 'x' ? "0123456789abcdef" : "89ab";

        if (shape[i] == 'x' || shape[i] == 'y') {
            if (strchr(allowed, node_id[i]) == NULL)
                return false;
        } else if (node_id[i] != shape[i]) {
            return false;
        }
    }
    return true;
}

/* ---- lists ---- */

static int compare_names(const void *left, const void *right)
{
    /* Both list entries begin with their name; strcmp compares unsigned bytes. */
    return strcmp(left, right);
}

_Static_assert(offsetof(zlink_wire_channel_t, name) == 0, "compare_names");
_Static_assert(offsetof(zlink_wire_spot_type_t, name) == 0, "compare_names");

void zlink_wire_channels_sort(zlink_wire_channel_t *channels, size_t count)
{
    if (count > 0)
        qsort(channels, count, sizeof(*channels), compare_names);
}

void zlink_wire_spot_types_sort(zlink_wire_spot_type_t *spot_types, size_t count)
{
    if (count > 0)
        qsort(spot_types, count, sizeof(*spot_types), compare_names);
}

static const char *check_channels(const zlink_wire_channel_t *channels, size_t count)
{
    if (count > ZLINK_WIRE_CHANNELS_MAX)
        return "too many channels";
    for (size_t i = 0; i < count; i++) {
        if (!zlink_wire_name_is_valid(channels[i].name))
            return "bad channel name";
        if (channels[i].weight > ZLINK_WIRE_WEIGHT_MAX)
            return "weight over 10000";
        if (i > 0 && strcmp(channels[i - 1].name, channels[i].name) >= 0)
            return "channels out of order or doubled";
    }
    return NULL;
}

static const char *check_spot_types(const zlink_wire_spot_type_t *spot_types, size_t count)
{
    if (count > ZLINK_WIRE_SPOT_TYPES_MAX)
        return "too many Spot types";
    for (size_t i = 0; i < count; i++) {
        if (!zlink_wire_name_is_valid(spot_types[i].name))
            return "bad Spot type name";
        if (i > 0 && strcmp(spot_types[i - 1].name, spot_types[i].name) >= 0)
            return "Spot types out of order or doubled";
    }
    return NULL;
}

/* What a list callback works on: the caller's array, typed by the callback. */
typedef struct list {
    union {
        zlink_wire_channel_t *channels;
        zlink_wire_spot_type_t *spot_types;
    };
    size_t count, capacity;
} list_t;

static bool encode_channels(pb_ostream_t *stream, const pb_field_t *field, void *const *argument)
{
    const list_t *list = *argument;

    for (size_t i = 0; i < list->count; i++) {
        zlink_wire_v1_Channel channel;

        memcpy(channel.name, list->channels[i].name, sizeof(channel.name));
        channel.weight = list->channels[i].weight;
        if (!pb_encode_tag_for_field(stream, field) ||
            !pb_encode_submessage(stream, zlink_wire_v1_Channel_fields, &channel))
            return false;
    }
    return true;
}

static bool encode_spot_types(pb_ostream_t *stream, const pb_field_t *field, void *const *argument)
{
    const list_t *list = *argument;

    for (size_t i = 0; i < list->count; i++) {
        const char *name = list->spot_types[i].name;

        if (!pb_encode_tag_for_field(stream, field) || !pb_encode_string(stream, (const pb_byte_t *)name, strlen(name)))
            return false;
    }
    return true;
}

static bool decode_channel(pb_istream_t *stream, const pb_field_t *field, void **argument)
{
    static const zlink_wire_field_t fields[] = {{zlink_wire_v1_Channel_name_tag, ZLINK_WIRE_NAME, false},
                                                {zlink_wire_v1_Channel_weight_tag, ZLINK_WIRE_NUMBER, false},
                                                {0}};
    list_t *list = *argument;
    zlink_wire_v1_Channel channel = zlink_wire_v1_Channel_init_zero;
    const char *wrong = zlink_wire_walk(stream->state, stream->bytes_left, fields);

    (void)field;
    if (wrong != NULL)
        PB_RETURN_ERROR(stream, wrong);
    if (list->count == list->capacity)
        PB_RETURN_ERROR(stream, "too many channels");
    if (!pb_decode(stream, zlink_wire_v1_Channel_fields, &channel))
        return false;
    memcpy(list->channels[list->count].name, channel.name, sizeof(channel.name));
    list->channels[list->count].weight = channel.weight;
    list->count++;
    return true;
}

static bool decode_spot_type(pb_istream_t *stream, const pb_field_t *field, void **argument)
{
    list_t *list = *argument;
    zlink_wire_spot_type_t *spot_type;
    size_t size = stream->bytes_left;

    (void)field;
    if (list->count == list->capacity)
        PB_RETURN_ERROR(stream, "too many Spot types");
    if (size > ZLINK_WIRE_NAME_BYTES_MAX)
        PB_RETURN_ERROR(stream, "text over 255 bytes");
    spot_type = &list->spot_types[list->count];
    if (!pb_read(stream, (pb_byte_t *)spot_type->name, size))
        return false;
    spot_type->name[size] = 0;
    list->count++;
    return true;
}

/* ---- HELLO and ADMIT ---- */

/* Number of a topology on the wire, where an absent one is a RouteMesh, as it was before there was another. */
#define CLIENT_SERVER_NUMBER 2u

static const char *check_client_server(const zlink_wire_hello_t *hello)
{
    if (hello->lane != ZLINK_CONNECTION_APPLICATION)
        return "a second lane in ClientServer";
    if (hello->channel_count != 1)
        return "not exactly one channel in ClientServer";
    if (hello->role == ZLINK_ROLE_CLIENT && hello->channels[0].weight != 0)
        return "a client with a weight in ClientServer";
    return hello->spot_type_count > 0 ? "Spot types in ClientServer" : NULL;
}

static const char *check_hello(const zlink_wire_hello_t *hello)
{
    const char *wrong;

    if (hello->protocol_major == 0)
        return "protocol_major is 0";
    if (!identifier_is_valid(hello->mesh, sizeof(hello->mesh)))
        return "bad mesh name";
    if (!identifier_is_valid(hello->node_id, sizeof(hello->node_id)))
        return "bad node id";
    if (hello->lane != ZLINK_CONNECTION_APPLICATION && hello->lane != ZLINK_CONNECTION_COMPLETION)
        return "unknown lane";
    if (hello->link_id == 0)
        return "link_id is 0";
    if (hello->generation == 0 || hello->generation > INT64_MAX)
        return "generation outside 1..2^63-1";
    if (hello->revision == 0)
        return "revision is 0";
    if (hello->role != ZLINK_ROLE_CLIENT && hello->role != ZLINK_ROLE_SERVER)
        return "unknown role";
    if (hello->max_body_bytes < ZLINK_WIRE_BODY_BYTES_MIN || hello->max_body_bytes > ZLINK_WIRE_BODY_BYTES_MAX)
        return "max_body_bytes outside 65536..2147483647";
    wrong = check_channels(hello->channels, hello->channel_count);
    if (wrong == NULL && hello->topology == ZLINK_TOPOLOGY_CLIENT_SERVER)
        wrong = check_client_server(hello);
    return wrong != NULL ? wrong : check_spot_types(hello->spot_types, hello->spot_type_count);
}

zlink_status_t zlink_wire_hello_encode(const zlink_wire_hello_t *hello, uint8_t *bytes, size_t capacity, size_t *size)
{
    list_t channels = {.channels = hello->channels, .count = hello->channel_count};
    list_t spot_types = {.spot_types = hello->spot_types, .count = hello->spot_type_count};
    zlink_wire_v1_Hello message = {
        .protocol_major = hello->protocol_major,
        .lane = (uint32_t)hello->lane,
        .link_id = hello->link_id,
        .generation = hello->generation,
        .revision = hello->revision,
        .role = (uint32_t)hello->role,
        .max_body_bytes = hello->max_body_bytes,
        .draining = hello->draining,
        .paused = hello->paused,
        .channels = {.funcs.encode = encode_channels, .arg = &channels},
        .spot_types = {.funcs.encode = encode_spot_types, .arg = &spot_types},
        .topology = hello->topology == ZLINK_TOPOLOGY_CLIENT_SERVER ? CLIENT_SERVER_NUMBER : 0,
    };

    if (check_hello(hello) != NULL)
        return ZLINK_INVALID_OPERATION;
    memcpy(message.mesh, hello->mesh, sizeof(message.mesh));
    memcpy(message.node_id, hello->node_id, sizeof(message.node_id));
    return zlink_wire_encode(zlink_wire_v1_Hello_fields, &message, bytes, capacity, size);
}

zlink_status_t zlink_wire_hello_decode(const uint8_t *bytes, size_t size, zlink_wire_hello_t *hello,
                                       const char **reason)
{
    static const zlink_wire_field_t fields[] = {{zlink_wire_v1_Hello_protocol_major_tag, ZLINK_WIRE_NUMBER, false},
                                                {zlink_wire_v1_Hello_mesh_tag, ZLINK_WIRE_IDENTIFIER, false},
                                                {zlink_wire_v1_Hello_node_id_tag, ZLINK_WIRE_IDENTIFIER, false},
                                                {zlink_wire_v1_Hello_lane_tag, ZLINK_WIRE_NUMBER, false},
                                                {zlink_wire_v1_Hello_link_id_tag, ZLINK_WIRE_NUMBER, false},
                                                {zlink_wire_v1_Hello_generation_tag, ZLINK_WIRE_NUMBER, false},
                                                {zlink_wire_v1_Hello_revision_tag, ZLINK_WIRE_NUMBER, false},
                                                {zlink_wire_v1_Hello_role_tag, ZLINK_WIRE_NUMBER, false},
                                                {zlink_wire_v1_Hello_max_body_bytes_tag, ZLINK_WIRE_NUMBER, false},
                                                {zlink_wire_v1_Hello_draining_tag, ZLINK_WIRE_NUMBER, false},
                                                {zlink_wire_v1_Hello_channels_tag, ZLINK_WIRE_MESSAGE, true},
                                                {zlink_wire_v1_Hello_spot_types_tag, ZLINK_WIRE_NAME, true},
                                                {zlink_wire_v1_Hello_topology_tag, ZLINK_WIRE_NUMBER, false},
                                                {zlink_wire_v1_Hello_paused_tag, ZLINK_WIRE_NUMBER, false},
                                                {0}};
    list_t channels = {.channels = hello->channels, .capacity = hello->channel_capacity};
    list_t spot_types = {.spot_types = hello->spot_types, .capacity = hello->spot_type_capacity};
    zlink_wire_v1_Hello message = {.channels = {.funcs.decode = decode_channel, .arg = &channels},
                                   .spot_types = {.funcs.decode = decode_spot_type, .arg = &spot_types}};
    const char *wrong;
    zlink_status_t status;

    status = zlink_wire_decode(bytes, size, fields, zlink_wire_v1_Hello_fields, &message, reason);
    if (status != ZLINK_OK)
        return status;

    hello->protocol_major = message.protocol_major;
    memcpy(hello->mesh, message.mesh, sizeof(hello->mesh));
    memcpy(hello->node_id, message.node_id, sizeof(hello->node_id));
    hello->lane = (zlink_connection_lane_t)message.lane;
    hello->link_id = message.link_id;
    hello->generation = message.generation;
    hello->revision = message.revision;
    hello->role = (zlink_wire_role_t)message.role;
    hello->max_body_bytes = message.max_body_bytes;
    hello->draining = message.draining;
    hello->paused = message.paused;
    if (message.topology > CLIENT_SERVER_NUMBER)
        return zlink_wire_refuse(reason, "unknown topology");
    hello->topology =
        message.topology == CLIENT_SERVER_NUMBER ? ZLINK_TOPOLOGY_CLIENT_SERVER : ZLINK_TOPOLOGY_ROUTE_MESH;
    hello->channel_count = channels.count;
    hello->spot_type_count = spot_types.count;
    wrong = check_hello(hello);
    return wrong != NULL ? zlink_wire_refuse(reason, wrong) : ZLINK_OK;
}

/* ---- REJECT ---- */

static const char *check_reject(const zlink_wire_reject_t *reject)
{
    if (reject->code == 0 || reject->code > ZLINK_REJECT_CODE_MAX)
        return "unknown reject code";
    if (!name_ends_within(reject->reason, sizeof(reject->reason)) ||
        !zlink_wire_text_is_clean(reject->reason, strlen(reject->reason)))
        return "bad reject text";
    return NULL;
}

zlink_status_t zlink_wire_reject_encode(const zlink_wire_reject_t *reject, uint8_t *bytes, size_t capacity,
                                        size_t *size)
{
    zlink_wire_v1_Reject message = {.code = reject->code};

    if (check_reject(reject) != NULL)
        return ZLINK_INVALID_OPERATION;
    memcpy(message.reason, reject->reason, sizeof(message.reason));
    return zlink_wire_encode(zlink_wire_v1_Reject_fields, &message, bytes, capacity, size);
}

zlink_status_t zlink_wire_reject_decode(const uint8_t *bytes, size_t size, zlink_wire_reject_t *reject,
                                        const char **reason)
{
    static const zlink_wire_field_t fields[] = {{zlink_wire_v1_Reject_code_tag, ZLINK_WIRE_NUMBER, false},
                                                {zlink_wire_v1_Reject_reason_tag, ZLINK_WIRE_TEXT, false},
                                                {0}};
    zlink_wire_v1_Reject message = zlink_wire_v1_Reject_init_zero;
    const char *wrong;
    zlink_status_t status = zlink_wire_decode(bytes, size, fields, zlink_wire_v1_Reject_fields, &message, reason);

    if (status != ZLINK_OK)
        return status;
    reject->code = message.code;
    memcpy(reject->reason, message.reason, sizeof(reject->reason));
    wrong = check_reject(reject);
    return wrong != NULL ? zlink_wire_refuse(reason, wrong) : ZLINK_OK;
}

/* ---- UPDATE ---- */

static const char *check_update(const zlink_wire_update_t *update)
{
    if (update->revision == 0)
        return "revision is 0";
    return check_channels(update->channels, update->channel_count);
}

zlink_status_t zlink_wire_update_encode(const zlink_wire_update_t *update, uint8_t *bytes, size_t capacity,
                                        size_t *size)
{
    list_t channels = {.channels = update->channels, .count = update->channel_count};
    zlink_wire_v1_Update message = {.revision = update->revision,
                                    .draining = update->draining,
                                    .channels = {.funcs.encode = encode_channels, .arg = &channels}};

    if (check_update(update) != NULL)
        return ZLINK_INVALID_OPERATION;
    return zlink_wire_encode(zlink_wire_v1_Update_fields, &message, bytes, capacity, size);
}

zlink_status_t zlink_wire_update_decode(const uint8_t *bytes, size_t size, zlink_wire_update_t *update,
                                        const char **reason)
{
    static const zlink_wire_field_t fields[] = {{zlink_wire_v1_Update_revision_tag, ZLINK_WIRE_NUMBER, false},
                                                {zlink_wire_v1_Update_draining_tag, ZLINK_WIRE_NUMBER, false},
                                                {zlink_wire_v1_Update_channels_tag, ZLINK_WIRE_MESSAGE, true},
                                                {0}};
    list_t channels = {.channels = update->channels, .capacity = update->channel_capacity};
    zlink_wire_v1_Update message = {.channels = {.funcs.decode = decode_channel, .arg = &channels}};
    const char *wrong;
    zlink_status_t status = zlink_wire_decode(bytes, size, fields, zlink_wire_v1_Update_fields, &message, reason);

    if (status != ZLINK_OK)
        return status;
    update->revision = message.revision;
    update->draining = message.draining;
    update->channel_count = channels.count;
    wrong = check_update(update);
    return wrong != NULL ? zlink_wire_refuse(reason, wrong) : ZLINK_OK;
}

/* ---- names: ANNOUNCE and the call envelope ---- */

static const char *check_target(const zlink_wire_target_t *target)
{
    switch (target->kind) {
    case ZLINK_TARGET_NONE:
        return target->name[0] == 0 && target->spot_id[0] == 0 ? NULL : "target without a kind";
    case ZLINK_TARGET_CHANNEL:
        if (target->spot_id[0] != 0)
            return "channel with a Spot id";
        return zlink_wire_name_is_valid(target->name) ? NULL : "bad channel name";
    case ZLINK_TARGET_INSTANCE_SPOT:
        if (!zlink_wire_name_is_valid(target->name))
            return "bad Spot type name";
        return zlink_wire_name_is_valid(target->spot_id) ? NULL : "bad Spot id";
    case ZLINK_TARGET_NODE:
        if (target->spot_id[0] != 0)
            return "node with a Spot id";
        return identifier_is_valid(target->name, ZLINK_WIRE_NODE_ID_BYTES_MAX + 1) ? NULL : "bad node id";
    }
    return "unknown target kind";
}

static const char *check_announce(const zlink_wire_announce_t *announce)
{
    const char *wrong = check_target(&announce->target);

    if (announce->id == 0)
        return "announced number is 0";
    if (wrong != NULL)
        return wrong;
    switch (announce->kind) {
    case ZLINK_ANNOUNCE_TARGET:
        return announce->target.kind != ZLINK_TARGET_NONE && announce->packet[0] == 0 ? NULL : "not a target alone";
    case ZLINK_ANNOUNCE_PACKET:
        if (announce->target.kind != ZLINK_TARGET_NONE)
            return "not a packet alone";
        return zlink_wire_name_is_valid(announce->packet) ? NULL : "bad packet name";
    }
    return "unknown announce kind";
}

zlink_status_t zlink_wire_announce_encode(const zlink_wire_announce_t *announce, uint8_t *bytes, size_t capacity,
                                          size_t *size)
{
    zlink_wire_v1_Announce message = {
        .id = announce->id, .kind = (uint32_t)announce->kind, .target_kind = (uint32_t)announce->target.kind};

    if (check_announce(announce) != NULL)
        return ZLINK_INVALID_OPERATION;
    memcpy(message.target_name, announce->target.name, sizeof(message.target_name));
    memcpy(message.spot_id, announce->target.spot_id, sizeof(message.spot_id));
    memcpy(message.packet, announce->packet, sizeof(message.packet));
    return zlink_wire_encode(zlink_wire_v1_Announce_fields, &message, bytes, capacity, size);
}

zlink_status_t zlink_wire_announce_decode(const uint8_t *bytes, size_t size, zlink_wire_announce_t *announce,
                                          const char **reason)
{
    static const zlink_wire_field_t fields[] = {{zlink_wire_v1_Announce_id_tag, ZLINK_WIRE_NUMBER, false},
                                                {zlink_wire_v1_Announce_kind_tag, ZLINK_WIRE_NUMBER, false},
                                                {zlink_wire_v1_Announce_target_kind_tag, ZLINK_WIRE_NUMBER, false},
                                                {zlink_wire_v1_Announce_target_name_tag, ZLINK_WIRE_NAME, false},
                                                {zlink_wire_v1_Announce_spot_id_tag, ZLINK_WIRE_NAME, false},
                                                {zlink_wire_v1_Announce_packet_tag, ZLINK_WIRE_NAME, false},
                                                {0}};
    zlink_wire_v1_Announce message = zlink_wire_v1_Announce_init_zero;
    const char *wrong;
    zlink_status_t status = zlink_wire_decode(bytes, size, fields, zlink_wire_v1_Announce_fields, &message, reason);

    if (status != ZLINK_OK)
        return status;
    announce->id = message.id;
    announce->kind = (zlink_announce_kind_t)message.kind;
    announce->target.kind = (zlink_target_kind_t)message.target_kind;
    memcpy(announce->target.name, message.target_name, sizeof(announce->target.name));
    memcpy(announce->target.spot_id, message.spot_id, sizeof(announce->target.spot_id));
    memcpy(announce->packet, message.packet, sizeof(announce->packet));
    wrong = check_announce(announce);
    return wrong != NULL ? zlink_wire_refuse(reason, wrong) : ZLINK_OK;
}

static bool encode_text(pb_ostream_t *stream, const pb_field_t *field, void *const *argument)
{
    const char *text = *argument;

    return text[0] == 0 || /* proto3: what is empty is left out */
           (pb_encode_tag_for_field(stream, field) && pb_encode_string(stream, (const pb_byte_t *)text, strlen(text)));
}

static bool encode_metadata(pb_ostream_t *stream, const pb_field_t *field, void *const *argument)
{
    const zlink_metadata_t *metadata = *argument;
    const char *key, *value;

    for (size_t at = 0; zlink_metadata_next(metadata->text, metadata->text_bytes, &at, &key, &value);) {
        zlink_wire_v1_Metadata entry = {.key.funcs.encode = encode_text, .value.funcs.encode = encode_text};

        entry.key.arg = (void *)(uintptr_t)key; /* read only */
        entry.value.arg = (void *)(uintptr_t)value;
        if (!pb_encode_tag_for_field(stream, field) ||
            !pb_encode_submessage(stream, zlink_wire_v1_Metadata_fields, &entry))
            return false;
    }
    return true;
}

/* Where a text lies in the message's bytes. */
typedef struct span {
    const char *text;
    size_t size;
} span_t;

static bool decode_span(pb_istream_t *stream, const pb_field_t *field, void **argument)
{
    span_t *span = *argument;

    (void)field;
    *span = (span_t){stream->state, stream->bytes_left};
    return pb_read(stream, NULL, stream->bytes_left);
}

static bool decode_metadata(pb_istream_t *stream, const pb_field_t *field, void **argument)
{
    static const zlink_wire_field_t fields[] = {{zlink_wire_v1_Metadata_key_tag, ZLINK_WIRE_BYTES, false},
                                                {zlink_wire_v1_Metadata_value_tag, ZLINK_WIRE_BYTES, false},
                                                {0}};
    span_t key = {"", 0}, value = {"", 0};
    zlink_wire_v1_Metadata entry = {.key = {.funcs.decode = decode_span, .arg = &key},
                                    .value = {.funcs.decode = decode_span, .arg = &value}};
    const char *wrong = zlink_wire_walk(stream->state, stream->bytes_left, fields);

    (void)field;
    if (wrong == NULL && pb_decode(stream, zlink_wire_v1_Metadata_fields, &entry))
        wrong = zlink_metadata_add(*argument, key.text, key.size, value.text, value.size);
    else if (wrong == NULL)
        return false;
    if (wrong != NULL)
        PB_RETURN_ERROR(stream, wrong);
    return true;
}

static const char *check_trace(const zlink_trace_t *trace)
{
    if (trace->correlation_id[0] != 0 && !zlink_trace_is_correlation_id(trace->correlation_id))
        return "a correlation id that is not 1 to 64 printable ASCII characters";
    if (trace->flow_id[0] != 0 && !zlink_trace_is_flow_id(trace->flow_id))
        return "a flow id that is no version 7 UUID";
    return trace->flow_id[0] == 0 && trace->flow_origin != 0 ? "the origin of no flow" : NULL;
}

zlink_status_t zlink_wire_call_encode(const zlink_wire_call_t *call, uint8_t *bytes, size_t capacity, size_t *size)
{
    zlink_wire_v1_Call message = {.target_kind = (uint32_t)call->target.kind,
                                  .metadata = {.funcs.encode = encode_metadata}};

    message.metadata.arg = (void *)(uintptr_t)&call->metadata; /* read only */

    if (check_target(&call->target) != NULL || (call->packet[0] != 0 && !zlink_wire_name_is_valid(call->packet)))
        return ZLINK_INVALID_OPERATION;
    memcpy(message.target_name, call->target.name, sizeof(message.target_name));
    memcpy(message.spot_id, call->target.spot_id, sizeof(message.spot_id));
    memcpy(message.packet, call->packet, sizeof(message.packet));
    if (check_trace(&call->trace) != NULL)
        return ZLINK_INVALID_OPERATION;
    memcpy(message.correlation_id, call->trace.correlation_id, sizeof(message.correlation_id));
    memcpy(message.flow_id, call->trace.flow_id, sizeof(message.flow_id));
    message.flow_origin = call->trace.flow_origin;
    return zlink_wire_encode(zlink_wire_v1_Call_fields, &message, bytes, capacity, size);
}

/* Whether the names in the envelope are exactly those that the prefix leaves open. */
static const char *check_call(const zlink_frame_prefix_t *prefix, const zlink_wire_call_t *call)
{
    bool open_target =
        (prefix->kind == ZLINK_FRAME_REQUEST || prefix->kind == ZLINK_FRAME_SEND) && prefix->target_id == 0;
    bool open_packet = prefix->packet_id == 0;
    const char *wrong = check_target(&call->target);

    if (wrong != NULL)
        return wrong;
    if ((call->target.kind != ZLINK_TARGET_NONE) != open_target)
        return open_target ? "target missing" : "target given twice";
    if ((call->packet[0] != 0) != open_packet)
        return open_packet ? "packet missing" : "packet given twice";
    if (prefix->kind == ZLINK_FRAME_REPLY && call->metadata.cost != 0)
        return "a reply with metadata";
    if (prefix->kind == ZLINK_FRAME_REPLY && !zlink_trace_is_empty(&call->trace))
        return "a reply with a correlation or flow id";
    if (prefix->kind == ZLINK_FRAME_SEND && call->trace.correlation_id[0] != 0)
        return "a one-way message with a correlation id";
    return check_trace(&call->trace);
}

zlink_status_t zlink_wire_call_decode(const zlink_frame_prefix_t *prefix, const uint8_t *bytes, size_t size,
                                      zlink_wire_call_t *call, const char **reason)
{
    static const zlink_wire_field_t fields[] = {{zlink_wire_v1_Call_target_kind_tag, ZLINK_WIRE_NUMBER, false},
                                                {zlink_wire_v1_Call_target_name_tag, ZLINK_WIRE_NAME, false},
                                                {zlink_wire_v1_Call_spot_id_tag, ZLINK_WIRE_NAME, false},
                                                {zlink_wire_v1_Call_packet_tag, ZLINK_WIRE_NAME, false},
                                                {zlink_wire_v1_Call_metadata_tag, ZLINK_WIRE_MESSAGE, true},
                                                {zlink_wire_v1_Call_correlation_id_tag, ZLINK_WIRE_NAME, false},
                                                {zlink_wire_v1_Call_flow_id_tag, ZLINK_WIRE_NAME, false},
                                                {zlink_wire_v1_Call_flow_origin_tag, ZLINK_WIRE_NUMBER, false},
                                                {0}};
    zlink_wire_v1_Call message = {.metadata = {.funcs.decode = decode_metadata, .arg = &call->metadata}};
    const char *wrong;
    zlink_status_t status;

    call->target.kind = ZLINK_TARGET_NONE;
    call->target.name[0] = call->target.spot_id[0] = call->packet[0] = 0;
    call->metadata.text_bytes = call->metadata.cost = 0;
    call->trace.correlation_id[0] = call->trace.flow_id[0] = 0;
    call->trace.flow_origin = 0;
    if (size > 0) { /* the common frame has numbers and no envelope: nothing to decode */
        status = zlink_wire_decode(bytes, size, fields, zlink_wire_v1_Call_fields, &message, reason);
        if (status != ZLINK_OK)
            return status;
        call->target.kind = (zlink_target_kind_t)message.target_kind;
        memcpy(call->target.name, message.target_name, sizeof(call->target.name));
        memcpy(call->target.spot_id, message.spot_id, sizeof(call->target.spot_id));
        memcpy(call->packet, message.packet, sizeof(call->packet));
        memcpy(call->trace.correlation_id, message.correlation_id, sizeof(call->trace.correlation_id));
        memcpy(call->trace.flow_id, message.flow_id, sizeof(call->trace.flow_id));
        if (message.flow_origin > UINT8_MAX)
            return zlink_wire_refuse(reason, "a flow's origin over 255");
        call->trace.flow_origin = (uint8_t)message.flow_origin;
    }
    wrong = check_call(prefix, call);
    return wrong != NULL ? zlink_wire_refuse(reason, wrong) : ZLINK_OK;
}

/* ---- ERROR ---- */

zlink_status_t zlink_wire_error_encode(const char *text, uint8_t *bytes, size_t capacity, size_t *size)
{
    zlink_wire_v1_Failure message = zlink_wire_v1_Failure_init_zero;
    size_t left = strnlen(text, sizeof(message.text)), used = 0;

    while (left > 0) {
        size_t length = zlink_wire_text_character(text, left);
        size_t taken = length > 0 ? length : 1;

        if (used + taken > ZLINK_WIRE_REASON_BYTES_MAX)
            break;
        if (length > 0)
            memcpy(message.text + used, text, length);
        else
            message.text[used] = '?';
        used += taken;
        text += taken;
        left -= taken;
    }
    return zlink_wire_encode(zlink_wire_v1_Failure_fields, &message, bytes, capacity, size);
}

zlink_status_t zlink_wire_error_decode(const uint8_t *bytes, size_t size, char text[ZLINK_WIRE_REASON_BYTES_MAX + 1],
                                       const char **reason)
{
    static const zlink_wire_field_t fields[] = {{zlink_wire_v1_Failure_text_tag, ZLINK_WIRE_TEXT, false}, {0}};
    zlink_wire_v1_Failure message = zlink_wire_v1_Failure_init_zero;
    zlink_status_t status = zlink_wire_decode(bytes, size, fields, zlink_wire_v1_Failure_fields, &message, reason);

    if (status == ZLINK_OK)
        memcpy(text, message.text, sizeof(message.text));
    return status;
}
