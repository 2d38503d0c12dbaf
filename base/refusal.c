#include "base/refusal.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static void write_line(zlink_refusal_t *refusal, const char *format, va_list arguments)
{
    if (vsnprintf(refusal->line, sizeof(refusal->line), format, arguments) < 0)
        refusal->line[0] = '\0';
    for (char *byte = refusal->line; *byte != '\0'; byte++) {
        if ((unsigned char)*byte < 0x20 || *byte == 0x7f)
            *byte = '?';
    }
}

void zlink_refuse(zlink_refusal_t *refusal, const char *format, ...)
{
    va_list arguments;

    if (refusal == NULL)
        return;
    va_start(arguments, format);
    write_line(refusal, format, arguments);
    va_end(arguments);
}

void zlink_refusal_prefix(zlink_refusal_t *refusal, const char *format, ...)
{
    zlink_refusal_t prefix;
    va_list arguments;

    if (refusal == NULL)
        return;
    va_start(arguments, format);
    write_line(&prefix, format, arguments);
    va_end(arguments);
    const size_t size = strlen(prefix.line);
    const size_t room = sizeof(refusal->line) - 1 - size;
    const size_t length = strlen(refusal->line);
    const size_t kept = length < room ? length : room;
    memmove(refusal->line + size, refusal->line, kept);
    memcpy(refusal->line, prefix.line, size);
    refusal->line[size + kept] = '\0';
}
