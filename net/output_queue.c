#include "net/output_queue.h"

#include <assert.h>

void zlink_output_queue_hold(zlink_output_queue_t *queue, zlink_output_hold_t *hold, const void *data, size_t size)
{
    assert(size > 0);
    hold->next = NULL;
    hold->data = data;
    hold->size = size;
    hold->before = zlink_byte_buffer_size(&queue->copied) - queue->before_bytes;
    if (queue->last != NULL)
        queue->last->next = hold;
    else
        queue->first = hold;
    queue->last = hold;
    queue->held_bytes += size;
    queue->before_bytes += hold->before;
}

static bool piece_add(struct iovec *piece, const uint8_t *bytes, size_t size, size_t *room)
{
    if (size > *room)
        size = *room;
    *room -= size;
    *piece = (struct iovec){.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
    return size > 0;
}

unsigned zlink_output_queue_pieces(const zlink_output_queue_t *queue, struct iovec *pieces, unsigned count_max,
                                   size_t bytes_max)
{
    const uint8_t *copied = zlink_byte_buffer_bytes(&queue->copied);
    unsigned count = 0;

    for (const zlink_output_hold_t *hold = queue->first; hold != NULL; hold = hold->next) {
        if (count < count_max && piece_add(&pieces[count], copied, hold->before, &bytes_max))
            count++;
        if (count < count_max && piece_add(&pieces[count], hold->data, hold->size, &bytes_max))
            count++;
        if (count == count_max || bytes_max == 0)
            return count;
        if (hold->before > 0)
            copied += hold->before;
    }
    if (piece_add(&pieces[count], copied, zlink_byte_buffer_size(&queue->copied) - queue->before_bytes, &bytes_max))
        count++;
    return count;
}

static size_t smaller(size_t one, size_t other)
{
    return one < other ? one : other;
}

void zlink_output_queue_consume(zlink_output_queue_t *queue, size_t size)
{
    assert(size <= zlink_output_queue_size(queue));
    while (size > 0 && queue->first != NULL) {
        zlink_output_hold_t *hold = queue->first;
        size_t part = smaller(size, hold->before);

        zlink_byte_buffer_consume(&queue->copied, part);
        hold->before -= part;
        queue->before_bytes -= part;
        size -= part;
        part = smaller(size, hold->size);
        hold->data += part;
        hold->size -= part;
        queue->held_bytes -= part;
        size -= part;
        if (hold->size > 0)
            return;
        queue->first = hold->next;
        if (queue->first == NULL)
            queue->last = NULL;
        hold->release(hold);
    }
    zlink_byte_buffer_consume(&queue->copied, size);
}

void zlink_output_queue_swap(zlink_output_queue_t *one, zlink_output_queue_t *other)
{
    const zlink_output_queue_t kept = *one;

    *one = *other;
    *other = kept;
}

void zlink_output_queue_release(zlink_output_queue_t *queue)
{
    zlink_output_hold_t *hold = queue->first;

    zlink_byte_buffer_release(&queue->copied);
    *queue = (zlink_output_queue_t){0};
    while (hold != NULL) {
        zlink_output_hold_t *next = hold->next;

        hold->release(hold);
        hold = next;
    }
}
