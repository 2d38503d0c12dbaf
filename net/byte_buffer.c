#include "net/byte_buffer.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"

#define CAPACITY_MIN 512u

uint8_t *zlink_byte_buffer_reserve(zlink_byte_buffer_t *buffer, size_t size)
{
    const size_t used = zlink_byte_buffer_size(buffer);
    size_t capacity;
    uint8_t *data;

    if (buffer->capacity - buffer->end >= size && buffer->data != NULL)
        return buffer->data + buffer->end;
    if (size > SIZE_MAX / 4 - used)
        return NULL;
    /* Moving down is worth it only when at least as much was consumed as is left: each byte moves once. */
    if (buffer->data != NULL && buffer->start >= used && used + size <= buffer->capacity) {
        memmove(buffer->data, buffer->data + buffer->start, used);
        buffer->start = 0;
        buffer->end = used;
        return buffer->data + used;
    }
    capacity = used + used / 2 + CAPACITY_MIN;
    if (capacity < used + size)
        capacity = used + size;
    data = zlink_malloc(capacity);
    if (data == NULL)
        return NULL;
    if (used > 0 && buffer->data != NULL)
        memcpy(data, buffer->data + buffer->start, used);
    zlink_free(buffer->data);
    *buffer = (zlink_byte_buffer_t){.data = data, .end = used, .capacity = capacity};
    return data + used;
}

void zlink_byte_buffer_commit(zlink_byte_buffer_t *buffer, size_t size)
{
    assert(size <= zlink_byte_buffer_room(buffer));
    buffer->end += size;
}

bool zlink_byte_buffer_append(zlink_byte_buffer_t *buffer, const void *data, size_t size)
{
    uint8_t *end;

    if (size == 0)
        return true;
    end = zlink_byte_buffer_reserve(buffer, size);
    if (end == NULL)
        return false;
    memcpy(end, data, size);
    buffer->end += size;
    return true;
}

void zlink_byte_buffer_consume(zlink_byte_buffer_t *buffer, size_t size)
{
    assert(size <= zlink_byte_buffer_size(buffer));
    buffer->start += size;
    if (buffer->start == buffer->end)
        buffer->start = buffer->end = 0;
}

void zlink_byte_buffer_swap(zlink_byte_buffer_t *one, zlink_byte_buffer_t *other)
{
    const zlink_byte_buffer_t kept = *one;

    *one = *other;
    *other = kept;
}

void zlink_byte_buffer_trim(zlink_byte_buffer_t *buffer)
{
    if (zlink_byte_buffer_size(buffer) == 0 && buffer->capacity > ZLINK_BYTE_BUFFER_IDLE_BYTES)
        zlink_byte_buffer_release(buffer);
}

void zlink_byte_buffer_release(zlink_byte_buffer_t *buffer)
{
    zlink_free(buffer->data);
    *buffer = (zlink_byte_buffer_t){0};
}
