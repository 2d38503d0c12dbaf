/*
 * server/open_requests.h: the requests that have arrived and were not answered yet, to be found when one is cancelled.
 *
 * A value of the ingress, reactor thread only; zero-initialised is empty. It holds invocations by their link and reply
 * route id (`route_link`, 0 for this node's own, and `route_id`), from before they are executed until their answer is
 * back on the reactor: as long as they are in here they are not freed. It takes no memory of its own and has no limit:
 * whoever makes invocations has one.
 */
#ifndef ZLINK_SERVER_OPEN_REQUESTS_H
#define ZLINK_SERVER_OPEN_REQUESTS_H

#include <stdint.h>
#include <sys/queue.h>

#include "server/application/invocation.h"

#define ZLINK_OPEN_REQUESTS_BUCKETS 1024u /* a power of 2 */

typedef struct zlink_open_requests {
    LIST_HEAD(, zlink_invocation) buckets[ZLINK_OPEN_REQUESTS_BUCKETS];
} zlink_open_requests_t;

/* From here on the invocation can be cancelled. */
void zlink_open_requests_add(zlink_open_requests_t *requests, zlink_invocation_t *invocation);

/* One that was added. */
void zlink_open_requests_remove(zlink_invocation_t *invocation);

/* NULL where it is not there: answered, or never known. Of two of one number, which only a wrong peer sends, any. */
zlink_invocation_t *zlink_open_requests_find(zlink_open_requests_t *requests, uint64_t link, uint64_t reply_route_id);

#endif
