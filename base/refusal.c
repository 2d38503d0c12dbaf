#include "base/refusal.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

void zlink_refuse(zlink_refusal_t *refusal, const char *format, ...)
{
    va_list arguments;

    if (refusal == NULL)
        return;
    va_start(arguments, format);
    if (vsnprintf(refusal->line, sizeof(refusal->line), format, arguments) < 0)
        refusal->line[0] = '\0';
    va_end(arguments);
    for (char *byte = refusal->line; *byte != '\0'; byte++) {
        if ((unsigned char)*byte < 0x20 || *byte == 0x7f)
            *byte = '?';
    }
}
