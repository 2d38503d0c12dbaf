/*
 * server/application/dispatch_error.h: the log line for a message that did not end as its sender or its handler wanted.
 *
 * One place, so that all such lines look alike and none of them can be used to fill a disk: beyond a burst they are
 * held back and counted. Any thread.
 */
#ifndef ZLINK_SERVER_DISPATCH_ERROR_H
#define ZLINK_SERVER_DISPATCH_ERROR_H

#include "proto/trace.h"

typedef struct zlink_dispatch_error {
    const char
        *reason; /* stable: no_channel, no_spot_type, no_handler, wrong_kind, decode_error, … (docs/operations.md) */
    const char *target;  /* ChannelName or Spot type */
    const char *spot_id; /* "" for a channel */
    const char *packet;
    const char *source;         /* node id of the sender */
    const char *detail;         /* a status, or what the decoder said; "" = none */
    const zlink_trace_t *trace; /* NULL: none */
} zlink_dispatch_error_t;

void zlink_dispatch_error_log(const zlink_dispatch_error_t *error);

#endif
