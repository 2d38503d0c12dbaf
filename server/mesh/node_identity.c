#include "server/mesh/node_identity.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static zlink_status_t fill_random(void *bytes, size_t size)
{
    return getrandom(bytes, size, 0) == (ssize_t)size ? ZLINK_OK : ZLINK_INTERNAL_FAILURE;
}

zlink_status_t zlink_random_nonzero(uint64_t *number)
{
    do {
        if (fill_random(number, sizeof(*number)) != ZLINK_OK)
            return ZLINK_INTERNAL_FAILURE;
    } while (*number == 0);
    return ZLINK_OK;
}

zlink_status_t zlink_node_identity_make(zlink_node_identity_t *identity, const char *mesh, const char *name)
{
    uint8_t uuid[16];
    assert(strlen(mesh) <= ZLINK_WIRE_MESH_BYTES_MAX && strlen(name) <= ZLINK_WIRE_MESH_BYTES_MAX);
    if (fill_random(uuid, sizeof(uuid)) != ZLINK_OK)
        return ZLINK_INTERNAL_FAILURE;
    uuid[6] = (uint8_t)((uuid[6] & 0x0f) | 0x40); /* version 4 */
    uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80); /* variant of RFC 4122 */

    strcpy(identity->mesh, mesh);
    strcpy(identity->name, name);
    int at = snprintf(identity->node_id, sizeof(identity->node_id), "%s-", name);
    for (size_t i = 0; i < sizeof(uuid); i++)
        at += snprintf(identity->node_id + at, sizeof(identity->node_id) - (size_t)at, "%s%02x",
                       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
    do {
        if (zlink_random_nonzero(&identity->generation) != ZLINK_OK)
            return ZLINK_INTERNAL_FAILURE;
        identity->generation &= INT64_MAX;
    } while (identity->generation == 0);
    return ZLINK_OK;
}

bool zlink_node_identity_dials(const char *own_node_id, const char *peer_node_id)
{
    return strcmp(own_node_id, peer_node_id) < 0; /* strcmp compares unsigned bytes */
}
