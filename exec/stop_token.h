/*
 * exec/stop_token.h: the inside of a stop token (zlink/stop_token.h).
 *
 * Embedded in the record of the work that it belongs to. Any thread may ask and request while that record lives.
 */
#ifndef ZLINK_EXEC_STOP_TOKEN_H
#define ZLINK_EXEC_STOP_TOKEN_H

#include <stdatomic.h>
#include <stdbool.h>

#include <zlink/stop_token.h>

struct zlink_stop_token {
    _Atomic bool requested;
};

void zlink_stop_token_init(zlink_stop_token_t *stop);

void zlink_stop_token_request(zlink_stop_token_t *stop);

#endif
