#include "proto/wire_text.h"

#include <stdint.h>

static bool is_continuation(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

size_t zlink_wire_text_character(const char *text, size_t size)
{
    const uint8_t *bytes = (const uint8_t *)text;
    uint32_t code;
    size_t length;

    if (size == 0)
        return 0;
    if (bytes[0] < 0x80)
        return bytes[0] >= 0x20 && bytes[0] != 0x7f ? 1 : 0;
    if (bytes[0] >= 0xc2 && bytes[0] <= 0xdf)
        length = 2;
    else if (bytes[0] >= 0xe0 && bytes[0] <= 0xef)
        length = 3;
    else if (bytes[0] >= 0xf0 && bytes[0] <= 0xf4)
        length = 4;
    else
        return 0;
    if (size < length)
        return 0;

    code = bytes[0] & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if (!is_continuation(bytes[i]))
            return 0;
        code = code << 6 | (bytes[i] & 0x3fu);
    }
    if (length == 2)
        return code >= 0xa0 ? 2 : 0; /* below: the C1 controls, which terminals obey */
    if (length == 3)
        return code >= 0x800 && (code < 0xd800 || code > 0xdfff) ? 3 : 0;
    return code >= 0x10000 && code <= 0x10ffff ? 4 : 0;
}

bool zlink_wire_text_is_clean(const char *text, size_t size)
{
    while (size > 0) {
        size_t length = zlink_wire_text_character(text, size);
        if (length == 0)
            return false;
        text += length;
        size -= length;
    }
    return true;
}

/* The length of a control character, else 0. */
static size_t control_character(const char *text, size_t size)
{
    const uint8_t *bytes = (const uint8_t *)text;

    if (bytes[0] == 0x7f || (bytes[0] != 0 && bytes[0] < 0x20))
        return 1;
    return size > 1 && bytes[0] == 0xc2 && bytes[1] >= 0x80 && bytes[1] <= 0x9f ? 2 : 0;
}

bool zlink_wire_text_is_utf8(const char *text, size_t size)
{
    while (size > 0) {
        size_t length = zlink_wire_text_character(text, size);
        if (length == 0)
            length = control_character(text, size);
        if (length == 0)
            return false;
        text += length;
        size -= length;
    }
    return true;
}

bool zlink_wire_text_is_identifier(const char *text, size_t size)
{
    if (size == 0)
        return false;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
              c == '-'))
            return false;
    }
    return true;
}
