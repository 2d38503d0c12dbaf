#include "net/frame_assembly.h"

#include "base/memory.h"

zlink_frame_assembly_t *zlink_frame_assemblies_find(zlink_frame_assemblies_t *assemblies, uint64_t id)
{
    zlink_frame_assembly_t *assembly;

    LIST_FOREACH(assembly, &assemblies->open, link)
    {
        if (assembly->id == id)
            break;
    }
    return assembly;
}

static const char *assembly_refusal(const zlink_frame_assemblies_t *assemblies, const zlink_frame_prefix_t *prefix,
                                    uint32_t max_body_bytes)
{
    if (prefix->kind != ZLINK_FRAME_REQUEST && prefix->kind != ZLINK_FRAME_SEND && prefix->kind != ZLINK_FRAME_REPLY)
        return "a frame in chunks that is no REQUEST, SEND or REPLY";
    if (prefix->body_bytes <= ZLINK_FRAME_WHOLE_BYTES_MAX)
        return "a frame in chunks that would fit one";
    if (assemblies->count == ZLINK_FRAME_TRANSFERS_MAX || assemblies->bytes > max_body_bytes - prefix->body_bytes)
        return "more frames in chunks at a time than are allowed";
    return NULL;
}

zlink_status_t zlink_frame_assemblies_begin(zlink_frame_assemblies_t *assemblies, uint64_t id,
                                            const uint8_t head[ZLINK_FRAME_PREFIX_BYTES], uint32_t max_body_bytes,
                                            uint64_t now_ms, zlink_frame_assembly_t **begun, const char **reason)
{
    zlink_frame_prefix_t prefix;
    zlink_status_t status = zlink_frame_prefix_decode(head, max_body_bytes, &prefix, reason);

    if (status != ZLINK_OK)
        return status;
    *reason = assembly_refusal(assemblies, &prefix, max_body_bytes);
    if (*reason != NULL)
        return ZLINK_PROTOCOL_ERROR;
    zlink_frame_assembly_t *assembly = zlink_calloc(1, sizeof(*assembly));

    if (assembly != NULL)
        assembly->body = zlink_malloc(prefix.body_bytes); /* not touched before its bytes come */
    if (assembly == NULL || assembly->body == NULL) {
        zlink_free(assembly);
        *reason = "no memory for a frame in chunks";
        return ZLINK_CAPACITY_EXCEEDED;
    }
    assembly->id = id;
    assembly->prefix = prefix;
    assembly->begun_ms = assembly->touched_ms = now_ms;
    LIST_INSERT_HEAD(&assemblies->open, assembly, link);
    assemblies->count++;
    assemblies->bytes += prefix.body_bytes;
    *begun = assembly;
    return ZLINK_OK;
}

void zlink_frame_assemblies_remove(zlink_frame_assemblies_t *assemblies, zlink_frame_assembly_t *assembly)
{
    LIST_REMOVE(assembly, link);
    assemblies->count--;
    assemblies->bytes -= assembly->prefix.body_bytes;
    zlink_free(assembly->body);
    zlink_free(assembly);
}

void zlink_frame_assemblies_clear(zlink_frame_assemblies_t *assemblies)
{
    while (!LIST_EMPTY(&assemblies->open))
        zlink_frame_assemblies_remove(assemblies, LIST_FIRST(&assemblies->open));
}

uint64_t zlink_frame_assemblies_oldest_ms(const zlink_frame_assemblies_t *assemblies)
{
    const zlink_frame_assembly_t *assembly;
    uint64_t oldest_ms = UINT64_MAX;

    LIST_FOREACH(assembly, &assemblies->open, link)
    {
        if (assembly->touched_ms < oldest_ms)
            oldest_ms = assembly->touched_ms;
    }
    return oldest_ms;
}

void zlink_frame_assemblies_touch(zlink_frame_assemblies_t *assemblies, uint64_t now_ms)
{
    zlink_frame_assembly_t *assembly;

    LIST_FOREACH(assembly, &assemblies->open, link)
    {
        assembly->touched_ms = now_ms;
    }
}
