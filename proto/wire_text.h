/*
 * proto/wire_text.h: what a text on the wire may be. Pure functions, any thread; used by wire.c only.
 */
#ifndef ZLINK_PROTO_WIRE_TEXT_H
#define ZLINK_PROTO_WIRE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* The bytes of the character at `text` when it is well-formed UTF-8 (no overlong form, no surrogate, at most U+10FFFF)
 * and no control character (C0, DEL, C1); else 0. */
size_t zlink_wire_text_character(const char *text, size_t size);

/* Whether all of it is such characters; true for nothing. */
bool zlink_wire_text_is_clean(const char *text, size_t size);

/* The same with control characters, except NUL. */
bool zlink_wire_text_is_utf8(const char *text, size_t size);

/* Whether every byte is of [A-Za-z0-9._-]; false for nothing. */
bool zlink_wire_text_is_identifier(const char *text, size_t size);

#endif
