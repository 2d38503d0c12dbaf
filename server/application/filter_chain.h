/*
 * server/application/filter_chain.h: the filters before a handler (include/zlink/filter.h), on the message's turn.
 */
#ifndef ZLINK_SERVER_FILTER_CHAIN_H
#define ZLINK_SERVER_FILTER_CHAIN_H

#include <zlink/filter.h>

#include "server/application/invocation.h"

/* Runs `filters` and, where they let it go on, `body` behind them. */
zlink_status_t zlink_filter_chain_run(zlink_invocation_t *invocation, const zlink_filter_t *filters,
                                      zlink_status_t (*body)(zlink_invocation_t *invocation));

#endif
