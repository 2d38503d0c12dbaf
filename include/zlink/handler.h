/*
 * zlink/handler.h: tables of handlers.
 *
 * A handler is plain C that runs on a turn of its owner. It gets the decoded request, writes the
 * reply and returns a status: ZLINK_OK sends the reply, anything else sends that error to the
 * caller (a one-way message has no caller: the error is logged and counted). `self` is the owner's
 * state: no lock is needed, because no two turns of one owner run at the same time. After a `_yield`
 * call other turns may have run: read state again.
 */
#ifndef ZLINK_HANDLER_H
#define ZLINK_HANDLER_H

#include <zlink/message.h>
#include <zlink/turn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers that no other memory holds by chance: a table without its last row is found out, unless another table happens
 * to stand behind it. */
typedef enum zlink_handler_kind {
    ZLINK_HANDLER_END = 0x5a4c4800,
    ZLINK_HANDLER_REQUEST = 0x5a4c4801, /* answers with a reply */
    ZLINK_HANDLER_SEND = 0x5a4c4802,    /* one-way: nobody waits */
} zlink_handler_kind_t;

/* The form that the library keeps a handler in; the macros below check the real one. */
typedef void (*zlink_handler_function_t)(void);

/* One row of a table. Make rows with the macros only. */
typedef struct zlink_handler {
    zlink_handler_kind_t kind;
    zlink_message_type_t request;
    zlink_message_type_t reply;
    zlink_handler_function_t function;
} zlink_handler_t;

/* zlink_status_t function(zlink_turn_t *turn, void *self, const REQUEST *request, REPLY *reply);
 * `reply` arrives zeroed. Both messages live until the handler has ended. */
#define ZLINK_ON_REQUEST(REQUEST, REPLY, FUNCTION)                                                                     \
    {                                                                                                                  \
        ZLINK_HANDLER_REQUEST, ZLINK_MESSAGE_TYPE(REQUEST), ZLINK_MESSAGE_TYPE(REPLY),                                 \
            (zlink_handler_function_t) _Generic((FUNCTION),                                                            \
                                                zlink_status_t(*)(zlink_turn_t *, void *, const REQUEST *, REPLY *)    \
                                                : (FUNCTION))                                                          \
    }

/* zlink_status_t function(zlink_turn_t *turn, void *self, const MESSAGE *message); */
#define ZLINK_ON_SEND(MESSAGE, FUNCTION)                                                                               \
    {                                                                                                                  \
        ZLINK_HANDLER_SEND, ZLINK_MESSAGE_TYPE(MESSAGE), {0, 0, 0},                                                    \
            (zlink_handler_function_t) _Generic((FUNCTION), zlink_status_t(*)(zlink_turn_t *, void *, const MESSAGE *) \
                                                : (FUNCTION))                                                          \
    }

/* The last row of every table. */
#define ZLINK_HANDLERS_END                                                                                             \
    {                                                                                                                  \
        ZLINK_HANDLER_END, {0, 0, 0}, {0, 0, 0}, 0                                                                     \
    }

#ifdef __cplusplus
}
#endif

#endif
