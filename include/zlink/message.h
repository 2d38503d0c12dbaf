/*
 * zlink/message.h: binding a protobuf message (a nanopb struct) to a packet name.
 *
 * A packet's name is its full protobuf name ("samples.counter.AddReq"). The build writes it into
 * NAME.zlink.h beside nanopb's NAME.pb.h, as TYPE_packet; include that header and these macros find
 * it. A pointer of another type does not compile. A message value is read or written only during the
 * call that it is given to (a `_then` call: until its continuation has run), and stays the caller's.
 */
#ifndef ZLINK_MESSAGE_H
#define ZLINK_MESSAGE_H

#include <pb.h>
#include <stddef.h>
#include <stdint.h>

#include <zlink/call_options.h>
#include <zlink/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the library has to know of one protobuf message type. Made by ZLINK_MESSAGE_TYPE. */
typedef struct zlink_message_type {
    const char *packet;         /* full protobuf name */
    const pb_msgdesc_t *fields; /* nanopb's descriptor */
    size_t size;                /* sizeof the C struct */
} zlink_message_type_t;

/* A request or one-way message to be encoded and sent. Made by ZLINK_ASK, ZLINK_ASK_WITHIN or ZLINK_ASK_WITH. */
typedef struct zlink_ask {
    zlink_message_type_t type;
    const void *message;
    uint32_t timeout_ms;                 /* whole call, 1..INT32_MAX; 0 = the node's request_timeout or send_timeout */
    const zlink_call_options_t *options; /* NULL: none; its timeout_ms counts where the one above is 0 */
} zlink_ask_t;

/* Where a reply is decoded to. Made by ZLINK_REPLY. */
typedef struct zlink_reply {
    zlink_message_type_t type;
    void *message;
} zlink_reply_t;

#define ZLINK_MESSAGE_TYPE(TYPE)                                                                                       \
    {                                                                                                                  \
        TYPE##_packet, &TYPE##_msg, sizeof(TYPE)                                                                       \
    }

/* ZLINK_ASK(PriceReq, &ask): send *ask as a PriceReq, within the node's default time. */
#define ZLINK_ASK(TYPE, POINTER) ZLINK_ASK_WITHIN(TYPE, POINTER, 0)

/* ZLINK_ASK_WITHIN(PriceReq, &ask, 250): the same, with a time limit of its own in milliseconds. */
#define ZLINK_ASK_WITHIN(TYPE, POINTER, TIMEOUT_MS)                                                                    \
    ((zlink_ask_t){ZLINK_MESSAGE_TYPE(TYPE), _Generic((POINTER), TYPE * : (POINTER), const TYPE * : (POINTER)),       \
                   (TIMEOUT_MS), 0})

/* ZLINK_ASK_WITH(PriceReq, &ask, &options): the same, with a zlink_call_options_t. */
#define ZLINK_ASK_WITH(TYPE, POINTER, OPTIONS)                                                                         \
    ((zlink_ask_t){ZLINK_MESSAGE_TYPE(TYPE), _Generic((POINTER), TYPE * : (POINTER), const TYPE * : (POINTER)), 0,    \
                   (OPTIONS)})

/* ZLINK_REPLY(PriceRes, &price): decode the reply, which must be a PriceRes, into price. */
#define ZLINK_REPLY(TYPE, POINTER) ((zlink_reply_t){ZLINK_MESSAGE_TYPE(TYPE), _Generic((POINTER), TYPE * : (POINTER))})

#ifdef __cplusplus
}
#endif

#endif
