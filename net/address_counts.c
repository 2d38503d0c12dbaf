#include "net/address_counts.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"

struct zlink_address_count {
    uint8_t key[9]; /* family, then 4 or 8 bytes */
    bool added;
    unsigned connections;
    UT_hash_handle hh;
};

#undef uthash_nonfatal_oom
#define uthash_nonfatal_oom(element) ((element)->added = false)

static bool key_of(const zlink_endpoint_t *peer, uint8_t key[9])
{
    const uint8_t *v6 = peer->socket.v6.sin6_addr.s6_addr;

    memset(key, 0, 9);
    if (peer->socket.any.sa_family == AF_INET) {
        key[0] = 4;
        memcpy(key + 1, &peer->socket.v4.sin_addr, 4);
    } else if (peer->socket.any.sa_family != AF_INET6) {
        return false;
    } else if (IN6_IS_ADDR_V4MAPPED(&peer->socket.v6.sin6_addr)) {
        key[0] = 4; /* the same host, seen through a listener for both families */
        memcpy(key + 1, v6 + 12, 4);
    } else {
        key[0] = 6;
        memcpy(key + 1, v6, 8);
    }
    return true;
}

zlink_status_t zlink_address_counts_add(zlink_address_counts_t *counts, const zlink_endpoint_t *peer, unsigned most,
                                        zlink_address_count_t **entry)
{
    zlink_address_count_t *found = NULL;
    uint8_t key[9];

    *entry = NULL;
    if (!key_of(peer, key))
        return ZLINK_OK;
    HASH_FIND(hh, counts->table, key, sizeof(key), found);
    if (found != NULL && found->connections >= most)
        return ZLINK_REJECTED;
    if (found == NULL) {
        found = zlink_calloc(1, sizeof(*found));
        if (found == NULL)
            return ZLINK_CAPACITY_EXCEEDED;
        memcpy(found->key, key, sizeof(key));
        found->added = true;
        HASH_ADD(hh, counts->table, key, sizeof(key), found);
        if (!found->added) {
            zlink_free(found);
            return ZLINK_CAPACITY_EXCEEDED;
        }
    }
    found->connections++;
    *entry = found;
    return ZLINK_OK;
}

void zlink_address_counts_remove(zlink_address_counts_t *counts, zlink_address_count_t *entry)
{
    if (entry == NULL)
        return;
    assert(entry->connections > 0);
    if (--entry->connections > 0)
        return;
    HASH_DELETE(hh, counts->table, entry);
    zlink_free(entry);
}
