/* The bytes that a stream has to send: copied and held ones, in the order of their writing. */
#include <stdlib.h>
#include <string.h>

#include "harness.h"

#include "base/container_of.h"
#include "net/output_queue.h"

#define HOLDS      64u
#define HOLD_BYTES 700u
#define PIECES_MAX 5u

/* A held block of bytes that go on counting where the ones before it stopped. */
typedef struct block {
    zlink_output_hold_t hold;
    uint8_t bytes[HOLD_BYTES];
    unsigned releases;
} block_t;

static void block_released(zlink_output_hold_t *hold)
{
    ZLINK_CONTAINER_OF(hold, block_t, hold)->releases++;
}

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 16;
}

static size_t fill(uint8_t *bytes, size_t size, uint8_t *next)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (*next)++;
    return size;
}

/* Checks that the pieces are the front of what is there and answers how many bytes they are. */
static size_t check_pieces(const zlink_output_queue_t *queue, size_t bytes_max, uint8_t next)
{
    struct iovec pieces[PIECES_MAX];
    const unsigned count = zlink_output_queue_pieces(queue, pieces, PIECES_MAX, bytes_max);
    size_t total = 0;

    assert_true(count <= PIECES_MAX);
    for (unsigned i = 0; i < count; i++) {
        const uint8_t *bytes = pieces[i].iov_base;

        assert_true(pieces[i].iov_len > 0);
        for (size_t at = 0; at < pieces[i].iov_len; at++)
            assert_int_equal(bytes[at], next++);
        total += pieces[i].iov_len;
    }
    assert_true(total <= bytes_max && total <= zlink_output_queue_size(queue));
    assert_true(count == PIECES_MAX || total == bytes_max || total == zlink_output_queue_size(queue));
    return total;
}

static void test_output_queue_keeps_the_order(void **state)
{
    block_t *blocks = calloc(HOLDS, sizeof(*blocks));
    zlink_output_queue_t queue = {0};
    zlink_output_queue_t other = {0};
    unsigned seed = 7;
    unsigned used = 0;
    uint8_t in = 0;
    uint8_t out = 0;

    (void)state;
    while (used < HOLDS || zlink_output_queue_size(&queue) > 0) {
        uint8_t bytes[200];
        const unsigned what = next_random(&seed) % 4;

        if (what == 0 && used < HOLDS) {
            block_t *block = &blocks[used++];

            block->hold.release = block_released;
            zlink_output_queue_hold(&queue, &block->hold, block->bytes,
                                    fill(block->bytes, 1 + next_random(&seed) % HOLD_BYTES, &in));
        } else if (what == 1 && used < HOLDS) {
            const size_t size = fill(bytes, next_random(&seed) % sizeof(bytes), &in);

            assert_true(zlink_byte_buffer_append(&queue.copied, bytes, size));
        } else {
            size_t size = check_pieces(&queue, 1 + next_random(&seed) % 1500, out);

            size -= size > 0 ? next_random(&seed) % size : 0; /* less was sent */
            zlink_output_queue_consume(&queue, size);
            out = (uint8_t)(out + size);
        }
        zlink_output_queue_swap(&queue, &other);
        assert_int_equal(zlink_output_queue_size(&queue), 0);
        zlink_output_queue_swap(&queue, &other);
    }
    assert_int_equal(in, out);
    for (unsigned i = 0; i < HOLDS; i++)
        assert_int_equal(blocks[i].releases, 1);
    zlink_output_queue_release(&queue);
    free(blocks);
}

/* A hold is released when its last byte has gone, not before, and not again with the queue. */
static void test_output_queue_releases_each_hold_once(void **state)
{
    block_t blocks[3] = {{.hold = {.release = block_released}},
                         {.hold = {.release = block_released}},
                         {.hold = {.release = block_released}}};
    zlink_output_queue_t queue = {0};

    (void)state;
    assert_true(zlink_byte_buffer_append(&queue.copied, "head", 4));
    for (unsigned i = 0; i < 3; i++)
        zlink_output_queue_hold(&queue, &blocks[i].hold, blocks[i].bytes, 10);
    zlink_output_queue_consume(&queue, 13);
    assert_int_equal(blocks[0].releases, 0);
    zlink_output_queue_consume(&queue, 2);
    assert_int_equal(blocks[0].releases, 1);
    assert_int_equal(blocks[1].releases, 0);
    assert_int_equal(zlink_output_queue_size(&queue), 19);
    zlink_output_queue_release(&queue);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(blocks[i].releases, 1);
    assert_int_equal(zlink_output_queue_size(&queue), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_output_queue_keeps_the_order),
        cmocka_unit_test(test_output_queue_releases_each_hold_once),
    };

    return zlink_test_main(tests);
}
