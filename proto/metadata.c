#include "proto/metadata.h"

#include <assert.h>
#include <string.h>

#include "proto/wire_text.h"

const char *zlink_metadata_add(zlink_metadata_t *metadata, const char *key, size_t key_bytes, const char *value,
                               size_t value_bytes)
{
    size_t used = metadata->cost != 0 ? metadata->cost : ZLINK_METADATA_HEAD_COST;

    if (key_bytes == 0 || key_bytes > ZLINK_METADATA_KEY_BYTES_MAX)
        return "metadata key outside 1..255 bytes";
    if (value_bytes > ZLINK_METADATA_BYTES_MAX ||
        used + ZLINK_METADATA_ENTRY_COST + key_bytes + value_bytes > ZLINK_METADATA_BYTES_MAX)
        return "metadata over 1,024 bytes";
    if (!zlink_wire_text_is_utf8(key, key_bytes) || !zlink_wire_text_is_utf8(value, value_bytes))
        return "metadata is not UTF-8 or holds a NUL";
    char *end = metadata->text + metadata->text_bytes;
    /* Behind what is there already, so that the key is a string to look for; counted only where it is new. */
    memcpy(end, key, key_bytes);
    end[key_bytes] = 0;
    if (zlink_metadata_find(metadata->text, metadata->text_bytes, end) != NULL)
        return "metadata key stands twice";
    if (value_bytes > 0)
        memcpy(end + key_bytes + 1, value, value_bytes);
    end[key_bytes + 1 + value_bytes] = 0;
    metadata->text_bytes = (uint16_t)(metadata->text_bytes + key_bytes + value_bytes + 2);
    metadata->cost = (uint16_t)(used + ZLINK_METADATA_ENTRY_COST + key_bytes + value_bytes);
    return NULL;
}

static bool is_set_again(const zlink_metadata_entry_t *entries, size_t at, size_t count)
{
    for (size_t i = at + 1; i < count; i++)
        if (entries[i].key != NULL && strcmp(entries[i].key, entries[at].key) == 0)
            return true;
    return false;
}

const char *zlink_metadata_pack(zlink_metadata_t *metadata, const zlink_metadata_entry_t *entries, size_t count)
{
    metadata->text_bytes = metadata->cost = 0;
    if (count > ZLINK_METADATA_BYTES_MAX || (count > 0 && entries == NULL))
        return "metadata over 1,024 bytes";
    for (size_t i = 0; i < count; i++) {
        const char *wrong;

        if (entries[i].key == NULL || entries[i].value == NULL)
            return "metadata without key or value";
        if (is_set_again(entries, i, count))
            continue;
        wrong = zlink_metadata_add(metadata, entries[i].key, strlen(entries[i].key), entries[i].value,
                                   strlen(entries[i].value));
        if (wrong != NULL)
            return wrong;
    }
    return NULL;
}

void zlink_metadata_restore(zlink_metadata_t *metadata, const char *text, size_t text_bytes)
{
    const char *key, *value;
    size_t cost = text_bytes > 0 ? text_bytes + ZLINK_METADATA_HEAD_COST : 0;

    assert(text_bytes < sizeof(metadata->text));
    if (text_bytes > 0)
        memcpy(metadata->text, text, text_bytes);
    for (size_t at = 0; zlink_metadata_next(metadata->text, text_bytes, &at, &key, &value);)
        cost += ZLINK_METADATA_ENTRY_COST - 2; /* two NULs are in the text */
    metadata->text_bytes = (uint16_t)text_bytes;
    metadata->cost = (uint16_t)cost;
}

const char *zlink_metadata_find(const char *text, size_t text_bytes, const char *key)
{
    const char *found, *value;

    for (size_t at = 0; zlink_metadata_next(text, text_bytes, &at, &found, &value);)
        if (strcmp(found, key) == 0)
            return value;
    return NULL;
}

bool zlink_metadata_next(const char *text, size_t text_bytes, size_t *at, const char **key, const char **value)
{
    if (*at >= text_bytes)
        return false;
    *key = text + *at;
    *value = *key + strlen(*key) + 1;
    *at = (size_t)(*value - text) + strlen(*value) + 1;
    return true;
}
