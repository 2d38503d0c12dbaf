/* The byte buffer: order, room, giving back. */
#include <stdlib.h>
#include <string.h>

#include "harness.h"

#include "base/memory.h"
#include "net/byte_buffer.h"

static void test_byte_buffer_is_a_queue(void **state)
{
    zlink_byte_buffer_t buffer = {0};
    uint8_t in = 0;
    uint8_t out = 0;
    unsigned seed = 1;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        uint8_t bytes[300];
        size_t size;

        seed = seed * 1103515245u + 12345u;
        size = seed >> 16 & 0xff;
        for (size_t i = 0; i < size; i++)
            bytes[i] = in++;
        assert_true(zlink_byte_buffer_append(&buffer, bytes, size));
        seed = seed * 1103515245u + 12345u;
        size = seed >> 16 & 0x1ff;
        if (size > zlink_byte_buffer_size(&buffer))
            size = zlink_byte_buffer_size(&buffer);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(zlink_byte_buffer_bytes(&buffer)[i], out++);
        zlink_byte_buffer_consume(&buffer, size);
    }
    assert_true(buffer.capacity < 100000);
    zlink_byte_buffer_release(&buffer);
}

static void test_byte_buffer_trims_only_when_big_and_empty(void **state)
{
    zlink_byte_buffer_t buffer = {0};

    (void)state;
    assert_non_null(zlink_byte_buffer_reserve(&buffer, 1000));
    zlink_byte_buffer_trim(&buffer);
    assert_non_null(buffer.data);
    assert_non_null(zlink_byte_buffer_reserve(&buffer, 100000));
    zlink_byte_buffer_commit(&buffer, 1);
    zlink_byte_buffer_trim(&buffer);
    assert_non_null(buffer.data);
    zlink_byte_buffer_consume(&buffer, 1);
    zlink_byte_buffer_trim(&buffer);
    assert_null(buffer.data);
}

static void test_byte_buffer_without_memory_keeps_what_it_has(void **state)
{
    zlink_byte_buffer_t buffer = {0};

    (void)state;
    assert_true(zlink_byte_buffer_append(&buffer, "abc", 3));
    zlink_memory_fail_after(0);
    assert_null(zlink_byte_buffer_reserve(&buffer, 100000));
    zlink_memory_fail_after(-1);
    assert_null(zlink_byte_buffer_reserve(&buffer, SIZE_MAX / 2));
    assert_int_equal(zlink_byte_buffer_size(&buffer), 3);
    assert_memory_equal(zlink_byte_buffer_bytes(&buffer), "abc", 3);
    zlink_byte_buffer_release(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_byte_buffer_is_a_queue),
        cmocka_unit_test(test_byte_buffer_trims_only_when_big_and_empty),
        cmocka_unit_test(test_byte_buffer_without_memory_keeps_what_it_has),
    };

    return zlink_test_main(tests);
}
