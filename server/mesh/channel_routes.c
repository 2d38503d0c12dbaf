#include "server/mesh/channel_routes.h"

#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

typedef struct zlink_channel_member {
    zlink_peer_link_t *link; /* NULL: this node */
    const char *node_id;
    uint32_t weight;
    int64_t gained;
} zlink_channel_member_t;

typedef struct zlink_channel_route {
    UT_hash_handle by_name;
    zlink_channel_member_t *members; /* by node id */
    size_t count, capacity;
    bool added;
    char name[];
} zlink_channel_route_t;

#undef uthash_nonfatal_oom
#define uthash_nonfatal_oom(element) ((element)->added = false)

struct zlink_channel_routes {
    zlink_channel_route_t *by_name;
    const char *own_node_id;
};

zlink_channel_routes_t *zlink_channel_routes_create(const char *own_node_id)
{
    zlink_channel_routes_t *routes = zlink_calloc(1, sizeof(*routes));
    if (routes)
        routes->own_node_id = own_node_id;
    return routes;
}

void zlink_channel_routes_destroy(zlink_channel_routes_t *routes)
{
    zlink_channel_route_t *route, *next;
    if (!routes)
        return;
    HASH_ITER(by_name, routes->by_name, route, next)
    {
        HASH_DELETE(by_name, routes->by_name, route);
        zlink_free(route->members);
        zlink_free(route);
    }
    zlink_free(routes);
}

static zlink_channel_route_t *find(const zlink_channel_routes_t *routes, const char *channel)
{
    zlink_channel_route_t *route = NULL;
    HASH_FIND(by_name, routes->by_name, channel, strlen(channel), route);
    return route;
}

/* There is no room left for a name: those that nobody serves any more are forgotten after all. */
static void forget_the_unserved(zlink_channel_routes_t *routes)
{
    zlink_channel_route_t *route, *next;
    HASH_ITER(by_name, routes->by_name, route, next)
    {
        if (route->count > 0)
            continue;
        HASH_DELETE(by_name, routes->by_name, route);
        zlink_free(route->members);
        zlink_free(route);
    }
}

static zlink_channel_route_t *find_or_make(zlink_channel_routes_t *routes, const char *channel)
{
    zlink_channel_route_t *route = find(routes, channel);
    if (route)
        return route;
    size_t size = strlen(channel) + 1;
    if (HASH_CNT(by_name, routes->by_name) >= ZLINK_CHANNEL_ROUTES_MAX)
        forget_the_unserved(routes);
    if (HASH_CNT(by_name, routes->by_name) >= ZLINK_CHANNEL_ROUTES_MAX)
        return NULL;
    route = zlink_calloc(1, sizeof(*route) + size);
    if (!route)
        return NULL;
    memcpy(route->name, channel, size);
    route->added = true;
    HASH_ADD_KEYPTR(by_name, routes->by_name, route->name, size - 1, route);
    if (route->added)
        return route;
    zlink_free(route);
    return NULL;
}

static zlink_status_t insert(zlink_channel_route_t *route, zlink_channel_member_t member)
{
    if (route->count == route->capacity) {
        size_t capacity = route->capacity ? route->capacity * 2 : 4;
        zlink_channel_member_t *members = zlink_realloc(route->members, capacity * sizeof(*members));
        if (!members)
            return ZLINK_CAPACITY_EXCEEDED;
        route->members = members;
        route->capacity = capacity;
    }
    size_t at = route->count++;
    for (; at > 0 && strcmp(route->members[at - 1].node_id, member.node_id) > 0; at--)
        route->members[at] = route->members[at - 1];
    route->members[at] = member;
    return ZLINK_OK;
}

zlink_status_t zlink_channel_routes_add_local(zlink_channel_routes_t *routes, const char *channel, uint32_t weight)
{
    return zlink_channel_routes_add(routes, channel, NULL, routes->own_node_id, weight);
}

zlink_status_t zlink_channel_routes_know(zlink_channel_routes_t *routes, const char *channel)
{
    return find_or_make(routes, channel) ? ZLINK_OK : ZLINK_CAPACITY_EXCEEDED;
}

zlink_status_t zlink_channel_routes_add(zlink_channel_routes_t *routes, const char *channel, zlink_peer_link_t *link,
                                        const char *node_id, uint32_t weight)
{
    zlink_channel_route_t *route = find_or_make(routes, channel);
    return route ? insert(route, (zlink_channel_member_t){link, node_id, weight, 0}) : ZLINK_CAPACITY_EXCEEDED;
}

static zlink_channel_member_t *find_member(const zlink_channel_routes_t *routes, const char *channel,
                                           const zlink_peer_link_t *link)
{
    const zlink_channel_route_t *route = find(routes, channel);
    for (size_t i = 0; route && i < route->count; i++)
        if (route->members[i].link == link)
            return &route->members[i];
    return NULL;
}

bool zlink_channel_routes_set_weight(zlink_channel_routes_t *routes, const char *channel, const zlink_peer_link_t *link,
                                     uint32_t weight)
{
    zlink_channel_member_t *member = find_member(routes, channel, link);
    if (member)
        member->weight = weight;
    return member != NULL;
}

void zlink_channel_routes_remove(zlink_channel_routes_t *routes, const char *channel, const zlink_peer_link_t *link)
{
    zlink_channel_route_t *route = find(routes, channel);
    zlink_channel_member_t *member = find_member(routes, channel, link);
    if (!member)
        return;
    size_t behind = (size_t)(route->members + --route->count - member);
    memmove(member, member + 1, behind * sizeof(*member));
}

size_t zlink_channel_routes_members(const zlink_channel_routes_t *routes, const char *channel)
{
    const zlink_channel_route_t *route = find(routes, channel);
    size_t members = 0;
    for (size_t i = 0; route && i < route->count; i++)
        members += route->members[i].link != NULL && route->members[i].weight > 0;
    return members;
}

zlink_status_t zlink_channel_routes_pick(zlink_channel_routes_t *routes, const char *channel, bool exclude_local,
                                         zlink_channel_pick_t *pick)
{
    zlink_channel_route_t *route = find(routes, channel);
    if (!route)
        return ZLINK_NOT_FOUND;
    zlink_channel_member_t *best = NULL;
    int64_t sum = 0;
    for (size_t i = 0; i < route->count; i++) {
        zlink_channel_member_t *member = &route->members[i];
        if (member->weight == 0 || (exclude_local && strcmp(member->node_id, routes->own_node_id) == 0))
            continue;
        member->gained += member->weight;
        sum += member->weight;
        if (!best || member->gained > best->gained)
            best = member;
    }
    if (!best)
        return ZLINK_UNAVAILABLE;
    best->gained -= sum;
    *pick = (zlink_channel_pick_t){best->link, best->link == NULL};
    return ZLINK_OK;
}
