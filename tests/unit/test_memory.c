#include "harness.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/memory.h"

static void *allocate(unsigned way)
{
    switch (way) {
    case 0:
        return zlink_malloc(8);
    case 1:
        return zlink_calloc(2, 8);
    case 2:
        return zlink_realloc(NULL, 8);
    default:
        return zlink_strdup("eight b");
    }
}

static void test_every_door_allocates_and_frees(void **state)
{
    char *text;

    (void)state;
    for (unsigned way = 0; way < 4; way++) {
        void *pointer = allocate(way);

        assert_non_null(pointer);
        zlink_free(pointer);
    }
    text = zlink_strdup("abc");
    assert_non_null(text);
    assert_string_equal(text, "abc");
    text = zlink_realloc(text, 100);
    assert_non_null(text);
    assert_string_equal(text, "abc");
    zlink_free(text);
    zlink_free(NULL);
}

static void test_the_nth_allocation_fails_once_through_every_door(void **state)
{
    (void)state;
    for (unsigned way = 0; way < 4; way++) {
        for (int64_t n = 0; n < 4; n++) {
            zlink_memory_fail_after(n);
            for (int64_t i = 0; i < 6; i++) {
                void *pointer = allocate(way);

                assert_int_equal(pointer == NULL, i == n);
                zlink_free(pointer);
            }
        }
    }
}

static void test_a_negative_number_turns_the_fault_off(void **state)
{
    void *pointer;

    (void)state;
    zlink_memory_fail_after(0);
    zlink_memory_fail_after(-1);
    pointer = zlink_malloc(1);
    assert_non_null(pointer);
    zlink_free(pointer);
}

static void test_a_failed_realloc_leaves_the_old_block(void **state)
{
    char *text = zlink_strdup("kept");

    (void)state;
    assert_non_null(text);
    zlink_memory_fail_after(0);
    assert_null(zlink_realloc(text, 1000));
    assert_string_equal(text, "kept");
    zlink_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_door_allocates_and_frees),
        cmocka_unit_test(test_the_nth_allocation_fails_once_through_every_door),
        cmocka_unit_test(test_a_negative_number_turns_the_fault_off),
        cmocka_unit_test(test_a_failed_realloc_leaves_the_old_block),
    };

    return zlink_test_main(tests);
}
