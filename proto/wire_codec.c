#include "proto/wire_codec.h"

#include <assert.h>
#include <pb_decode.h>
#include <pb_encode.h>

#include "proto/wire.h"
#include "proto/wire_text.h"

zlink_status_t zlink_wire_refuse(const char **reason, const char *why)
{
    if (reason != NULL)
        *reason = why;
    return ZLINK_PROTOCOL_ERROR;
}

static const zlink_wire_field_t *field_of(const zlink_wire_field_t *fields, uint32_t tag)
{
    for (; fields->tag != 0; fields++) {
        if (fields->tag == tag)
            return fields;
    }
    return NULL;
}

/* Takes a length and the bytes behind it off the stream. NULL, or what is wrong with them. */
static const char *walk_text(pb_istream_t *stream, zlink_wire_field_form_t form)
{
    const char *text;
    uint32_t size;

    if (!pb_decode_varint32(stream, &size) || size > stream->bytes_left)
        return "message cut short";
    text = stream->state; /* of a buffer stream: the next byte */
    if (!pb_read(stream, NULL, size))
        return "message cut short";
    if (form == ZLINK_WIRE_MESSAGE || form == ZLINK_WIRE_BYTES)
        return NULL;
    if (size > ZLINK_WIRE_NAME_BYTES_MAX)
        return "text over 255 bytes";
    if (form == ZLINK_WIRE_NAME && size == 0)
        return "empty name";
    if (form == ZLINK_WIRE_IDENTIFIER && !zlink_wire_text_is_identifier(text, size))
        return "identifier outside [A-Za-z0-9._-]";
    if (!zlink_wire_text_is_clean(text, size))
        return "text is not UTF-8 or holds a control character";
    return NULL;
}

const char *zlink_wire_walk(const uint8_t *bytes, size_t size, const zlink_wire_field_t *fields)
{
    pb_istream_t stream = pb_istream_from_buffer(bytes, size);
    uint32_t seen = 0;

    while (stream.bytes_left > 0) {
        const zlink_wire_field_t *field;
        pb_wire_type_t type;
        const char *wrong;
        uint32_t tag;
        bool end;

        if (!pb_decode_tag(&stream, &type, &tag, &end) || tag == 0)
            return "bad field";
        field = field_of(fields, tag);
        if (field != NULL && !field->repeated) {
            assert(tag < 32);
            if (seen & 1u << tag)
                return "field stands twice";
            seen |= 1u << tag;
        }
        if (field != NULL && field->form != ZLINK_WIRE_NUMBER) {
            if (type != PB_WT_STRING)
                return "bad field";
            wrong = walk_text(&stream, field->form);
            if (wrong != NULL)
                return wrong;
        } else if (!pb_skip_field(&stream, type)) {
            return "message cut short";
        }
    }
    return NULL;
}

zlink_status_t zlink_wire_decode(const uint8_t *bytes, size_t size, const zlink_wire_field_t *fields,
                                 const pb_msgdesc_t *descriptor, void *message, const char **reason)
{
    pb_istream_t stream;
    const char *wrong = zlink_wire_walk(bytes, size, fields);

    if (wrong != NULL)
        return zlink_wire_refuse(reason, wrong);
    stream = pb_istream_from_buffer(bytes, size);
    if (!pb_decode(&stream, descriptor, message))
        return zlink_wire_refuse(reason, PB_GET_ERROR(&stream));
    return ZLINK_OK;
}

zlink_status_t zlink_wire_encode(const pb_msgdesc_t *descriptor, const void *message, uint8_t *bytes, size_t capacity,
                                 size_t *size)
{
    pb_ostream_t stream = pb_ostream_from_buffer(bytes, capacity);

    if (!pb_encode(&stream, descriptor, message))
        return ZLINK_CAPACITY_EXCEEDED;
    *size = stream.bytes_written;
    return ZLINK_OK;
}
