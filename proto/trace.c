#include "proto/trace.h"

#include <string.h>

bool zlink_trace_is_correlation_id(const char *text)
{
    size_t length = strnlen(text, ZLINK_CORRELATION_ID_BYTES_MAX + 1);

    if (length == 0 || length > ZLINK_CORRELATION_ID_BYTES_MAX)
        return false;
    for (const char *byte = text; *byte; byte++)
        if (*byte <= ' ' || *byte > '~')
            return false;
    return true;
}

/* xxxxxxxx-xxxx-7xxx-Vxxx-xxxxxxxxxxxx, V one of 8 9 a b. */
bool zlink_trace_is_flow_id(const char *text)
{
    if (strnlen(text, ZLINK_FLOW_ID_BYTES + 1) != ZLINK_FLOW_ID_BYTES)
        return false;
    for (size_t i = 0; i < ZLINK_FLOW_ID_BYTES; i++) {
        const char *allowed = "0123456789abcdef";
        if (i == 8 || i == 13 || i == 18 || i == 23)
            allowed = "-";
        else if (i == 14)
            allowed = "7";
        else if (i == 19)
            allowed = "89ab";
        if (!strchr(allowed, text[i]))
            return false;
    }
    return true;
}
