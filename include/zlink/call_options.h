/*
 * zlink/call_options.h: what a call may say beside its message. Used with ZLINK_ASK_WITH (zlink/message.h).
 *
 *     const zlink_metadata_entry_t tags[] = {{"tenant", "blue"}, {"trace", id}};
 *     const zlink_call_options_t options = {.metadata = tags, .metadata_count = 2};
 *     status = zlink_channel_request_yield(turn, "prices", ZLINK_ASK_WITH(PriceReq, &ask, &options), …);
 *
 * Metadata are short texts that travel beside the message to its handler, which reads them with zlink_turn_metadata.
 * They do not come back with the reply and are not handed on to calls that the handler makes: it sets them again where
 * they are wanted. Keys have 1 to 255 bytes; where a key stands twice the later entry counts. Keys and values are
 * UTF-8, and all of them together take at most ZLINK_METADATA_BYTES_MAX: 2, and for each entry 3 and the bytes of both.
 * What breaks one of these rules is ZLINK_INVALID_OPERATION, and nothing is sent.
 *
 * A correlation id (1 to 64 printable ASCII characters without blanks) names one request, a flow id (a version 7 UUID
 * in lower case) all that follows from one beginning: calls that a handler makes belong to the flow of the call that it
 * handles, unless they name another. Both are for people: they stand in the log lines of what went wrong, handlers can
 * read them (zlink_turn_correlation_id, zlink_turn_flow_id), and nothing else goes by them.
 *
 * Everything here is read during the call that it is given to, and stays the caller's.
 */
#ifndef ZLINK_CALL_OPTIONS_H
#define ZLINK_CALL_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include <zlink/cancellation.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZLINK_METADATA_BYTES_MAX 1024

typedef struct zlink_metadata_entry {
    const char *key;
    const char *value;
} zlink_metadata_entry_t;

typedef struct zlink_call_options {
    /* Whole call, 1..INT32_MAX; 0 = the node's request_timeout or send_timeout. A `_send` may have less time than that
     * send_timeout, not more. */
    uint32_t timeout_ms;
    const zlink_metadata_entry_t *metadata;
    size_t metadata_count;
    zlink_cancellation_t *cancellation; /* NULL: nobody gives it up */
    const char *correlation_id;         /* of a request only: with a _send it is refused; NULL: none */
    const char *flow_id;                /* NULL: the flow of the handler that calls, where it is in one */
    uint8_t flow_origin;                /* with flow_id: who began the flow, a number of yours */
} zlink_call_options_t;

#ifdef __cplusplus
}
#endif

#endif
