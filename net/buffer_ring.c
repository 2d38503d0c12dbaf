#include "net/buffer_ring.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "net/ring_compat.h"

#if defined(__SANITIZE_ADDRESS__)
#define BUFFERS_POISONED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BUFFERS_POISONED 1
#endif
#endif
#ifdef BUFFERS_POISONED
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(ADDRESS, SIZE)   ((void)(ADDRESS), (void)(SIZE))
#define ASAN_UNPOISON_MEMORY_REGION(ADDRESS, SIZE) ((void)(ADDRESS), (void)(SIZE))
#endif

#define COUNT_MAX        32768u
#define BUFFER_BYTES_MAX (1u << 20)

static void *map_pages(size_t size)
{
    void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return pages == MAP_FAILED ? NULL : pages;
}

static uint8_t *buffer_at(const zlink_buffer_ring_t *buffers, unsigned id)
{
    return buffers->memory + (size_t)id * buffers->buffer_bytes;
}

static void buffer_give(zlink_buffer_ring_t *buffers, unsigned id)
{
    ASAN_POISON_MEMORY_REGION(buffer_at(buffers, id), buffers->buffer_bytes);
    io_uring_buf_ring_add(buffers->ring, buffer_at(buffers, id), buffers->buffer_bytes, (unsigned short)id,
                          io_uring_buf_ring_mask(buffers->count), 0);
    io_uring_buf_ring_advance(buffers->ring, 1);
    buffers->available++;
}

static void buffers_unmap(zlink_buffer_ring_t *buffers)
{
    if (buffers->memory != NULL) {
        ASAN_UNPOISON_MEMORY_REGION(buffers->memory, buffers->memory_bytes);
        munmap(buffers->memory, buffers->memory_bytes);
    }
    if (buffers->ring != NULL)
        munmap(buffers->ring, buffers->ring_bytes);
    memset(buffers, 0, sizeof(*buffers));
}

zlink_status_t zlink_buffer_ring_open(zlink_buffer_ring_t *buffers, struct io_uring *ring, unsigned count,
                                      unsigned buffer_bytes, zlink_refusal_t *why)
{
    struct io_uring_buf_reg registration = {.ring_entries = count, .bgid = ZLINK_BUFFER_RING_GROUP};
    int result;

    memset(buffers, 0, sizeof(*buffers));
    if (count == 0 || count > COUNT_MAX || (count & (count - 1)) != 0 || buffer_bytes == 0 ||
        buffer_bytes > BUFFER_BYTES_MAX) {
        zlink_refuse(why, "receive buffers: the count must be a power of two up to %u and the size 1..%u bytes",
                     COUNT_MAX, BUFFER_BYTES_MAX);
        return ZLINK_INVALID_OPERATION;
    }
    buffers->count = count;
    buffers->buffer_bytes = buffer_bytes;
    buffers->ring_bytes = count * sizeof(struct io_uring_buf);
    buffers->memory_bytes = (size_t)count * buffer_bytes;
    buffers->ring = map_pages(buffers->ring_bytes);
    buffers->memory = map_pages(buffers->memory_bytes);
    if (buffers->ring == NULL || buffers->memory == NULL) {
        zlink_refuse(why, "no memory for %zu bytes of receive buffers", buffers->memory_bytes);
        buffers_unmap(buffers);
        return ZLINK_CAPACITY_EXCEEDED;
    }
    registration.ring_addr = (uint64_t)(uintptr_t)buffers->ring;
    result = io_uring_register_buf_ring(ring, &registration, 0);
    if (result < 0) {
        zlink_refuse(why, "the kernel refused the ring of receive buffers: %s%s", strerror(-result),
                     result == -EINVAL ? " (5.19 or newer is needed)" : "");
        buffers_unmap(buffers);
        return result == -ENOMEM ? ZLINK_CAPACITY_EXCEEDED : ZLINK_UNAVAILABLE;
    }
    io_uring_buf_ring_init(buffers->ring);
    for (unsigned id = 0; id < count; id++)
        buffer_give(buffers, id);
    return ZLINK_OK;
}

void zlink_buffer_ring_close(zlink_buffer_ring_t *buffers, struct io_uring *ring)
{
    if (buffers->ring == NULL)
        return;
    (void)io_uring_unregister_buf_ring(ring, ZLINK_BUFFER_RING_GROUP);
    buffers_unmap(buffers);
}

uint8_t *zlink_buffer_ring_take(zlink_buffer_ring_t *buffers, unsigned id)
{
    assert(id < buffers->count && buffers->available > 0);
    buffers->available--;
    ASAN_UNPOISON_MEMORY_REGION(buffer_at(buffers, id), buffers->buffer_bytes);
    return buffer_at(buffers, id);
}

void zlink_buffer_ring_recycle(zlink_buffer_ring_t *buffers, unsigned id)
{
    assert(id < buffers->count && buffers->available < buffers->count);
    buffer_give(buffers, id);
}

bool zlink_buffer_ring_replenished(const zlink_buffer_ring_t *buffers)
{
    return buffers->available * 2 >= buffers->count;
}
