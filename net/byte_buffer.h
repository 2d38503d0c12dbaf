/*
 * net/byte_buffer.h: a growing queue of bytes in one piece: filled at the end, consumed at the front.
 *
 * A value owned by whoever embeds it; zero-initialised is empty. Not locked.
 */
#ifndef ZLINK_NET_BYTE_BUFFER_H
#define ZLINK_NET_BYTE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct zlink_byte_buffer {
    uint8_t *data;
    size_t start;
    size_t end;
    size_t capacity;
} zlink_byte_buffer_t;

/* An empty buffer larger than this gives its memory back. */
#define ZLINK_BYTE_BUFFER_IDLE_BYTES 65536u

static inline size_t zlink_byte_buffer_size(const zlink_byte_buffer_t *buffer)
{
    return buffer->end - buffer->start;
}

static inline const uint8_t *zlink_byte_buffer_bytes(const zlink_byte_buffer_t *buffer)
{
    return buffer->data == NULL ? NULL : buffer->data + buffer->start;
}

/* Makes room for `size` more bytes and answers where they go; NULL without memory. Moves the bytes. */
uint8_t *zlink_byte_buffer_reserve(zlink_byte_buffer_t *buffer, size_t size);

/* Room without growing. */
static inline size_t zlink_byte_buffer_room(const zlink_byte_buffer_t *buffer)
{
    return buffer->capacity - buffer->end;
}

/* `size` of the reserved bytes have been written. */
void zlink_byte_buffer_commit(zlink_byte_buffer_t *buffer, size_t size);

bool zlink_byte_buffer_append(zlink_byte_buffer_t *buffer, const void *data, size_t size);
void zlink_byte_buffer_consume(zlink_byte_buffer_t *buffer, size_t size);
void zlink_byte_buffer_swap(zlink_byte_buffer_t *one, zlink_byte_buffer_t *other);

/* Gives a big empty buffer's memory back. */
void zlink_byte_buffer_trim(zlink_byte_buffer_t *buffer);
void zlink_byte_buffer_release(zlink_byte_buffer_t *buffer);

#endif
