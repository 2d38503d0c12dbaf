/*
 * zlink/stop_token.h: how work that runs beside a handler learns that nobody waits for its result.
 *
 * The node makes a token for each piece of work (zlink/work.h) and keeps it until that work has ended. It says stop
 * when the call's time is over, when the Spot that waits is closed, and when the node ends. It is a request: the work
 * goes on until it looks and returns, and a long loop should look every few milliseconds. A token that has said stop
 * says so for good. Any thread may ask while the work is running.
 */
#ifndef ZLINK_STOP_TOKEN_H
#define ZLINK_STOP_TOKEN_H

#include <stdbool.h>

#include <zlink/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zlink_stop_token zlink_stop_token_t;

/* False for NULL. */
ZLINK_API bool zlink_stop_token_is_requested(const zlink_stop_token_t *stop);

#ifdef __cplusplus
}
#endif

#endif
