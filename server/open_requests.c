#include "server/open_requests.h"

static size_t bucket_of(uint64_t link, uint64_t reply_route_id)
{
    uint64_t mixed = (reply_route_id ^ link << 32) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(mixed >> 40) & (ZLINK_OPEN_REQUESTS_BUCKETS - 1);
}

void zlink_open_requests_add(zlink_open_requests_t *requests, zlink_invocation_t *invocation)
{
    size_t bucket = bucket_of(invocation->route_link, invocation->route_id);
    invocation->unwanted = &invocation->cancelled;
    LIST_INSERT_HEAD(&requests->buckets[bucket], invocation, in_open);
}

void zlink_open_requests_remove(zlink_invocation_t *invocation)
{
    LIST_REMOVE(invocation, in_open);
}

zlink_invocation_t *zlink_open_requests_find(zlink_open_requests_t *requests, uint64_t link, uint64_t reply_route_id)
{
    zlink_invocation_t *invocation;
    LIST_FOREACH(invocation, &requests->buckets[bucket_of(link, reply_route_id)], in_open)
    {
        if (invocation->route_link == link && invocation->route_id == reply_route_id)
            return invocation;
    }
    return NULL;
}
