/*
 * proto/trace.h: what a call may say of itself to people who look for it in logs, and to no program: which request it
 * is, and to which flow it belongs.
 *
 * Pure; any thread. Both are optional. A correlation id has 1 to 64 printable ASCII characters without blanks and
 * belongs to one request. A flow id is a version 7 UUID in lower case, with a number of whoever began the flow.
 */
#ifndef ZLINK_PROTO_TRACE_H
#define ZLINK_PROTO_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZLINK_CORRELATION_ID_BYTES_MAX 64u
#define ZLINK_FLOW_ID_BYTES            36u

typedef struct zlink_trace {
    char correlation_id[ZLINK_CORRELATION_ID_BYTES_MAX + 1]; /* "": none */
    char flow_id[ZLINK_FLOW_ID_BYTES + 1];                   /* "": none, then the origin is 0 */
    uint8_t flow_origin;
} zlink_trace_t;

bool zlink_trace_is_correlation_id(const char *text);
bool zlink_trace_is_flow_id(const char *text);

static inline bool zlink_trace_is_empty(const zlink_trace_t *trace)
{
    return trace->correlation_id[0] == '\0' && trace->flow_id[0] == '\0';
}

#endif
