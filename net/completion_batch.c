#include "net/completion_batch.h"

#include "net/ring_compat.h"

void zlink_completion_batch_collect(zlink_completion_batch_t *batch, struct io_uring *ring)
{
    unsigned ready = io_uring_cq_ready(ring);
    unsigned room;

    if (batch->next == batch->count)
        batch->next = batch->count = 0;
    room = ZLINK_COMPLETION_BATCH_MAX - batch->count;
    if (ready > room)
        ready = room;
    for (unsigned i = 0; i < ready; i++) {
        const struct io_uring_cqe *cqe = zlink_ring_ready_cqe(ring, i);

        batch->entries[batch->count++] = (zlink_completion_t){cqe->user_data, cqe->res, cqe->flags};
    }
    io_uring_cq_advance(ring, ready);
}

bool zlink_completion_batch_take(zlink_completion_batch_t *batch, zlink_completion_t *completion)
{
    if (batch->next == batch->count)
        return false;
    *completion = batch->entries[batch->next++];
    return true;
}
