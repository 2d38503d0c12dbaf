#include <stdlib.h>
#include <string.h>

#include "base/container_of.h"
#include "base/memory.h"
#include "exec/name_map.h"
#include "tests/unit/harness.h"

#define THINGS 5000u

typedef struct thing {
    zlink_name_entry_t entry;
    unsigned taken;
    char name[16];
} thing_t;

static thing_t things[THINGS];

static void make_things(void)
{
    memset(things, 0, sizeof(things));
    for (unsigned i = 0; i < THINGS; i++) {
        (void)snprintf(things[i].name, sizeof(things[i].name), "%.*s%u", (int)(i % 9), "________", i);
        things[i].entry.name = things[i].name;
    }
}

static bool has(const zlink_name_map_t *map, unsigned number)
{
    zlink_name_entry_t *entry = zlink_name_map_find(map, things[number].name);
    assert_true(!entry || entry == &things[number].entry);
    return entry != NULL;
}

static void taken(zlink_name_entry_t *entry, void *context)
{
    ZLINK_CONTAINER_OF(entry, thing_t, entry)->taken++;
    (*(unsigned *)context)++;
}

static void test_add_find_remove(void **state)
{
    zlink_name_map_t map;
    unsigned count = 0;

    (void)state;
    make_things();
    zlink_name_map_init(&map);
    assert_null(zlink_name_map_find(&map, "x"));
    for (unsigned i = 0; i < THINGS; i++)
        assert_int_equal(zlink_name_map_add(&map, &things[i].entry), ZLINK_OK);
    assert_int_equal(map.count, THINGS);
    for (unsigned i = 0; i < THINGS; i += 2)
        zlink_name_map_remove(&map, &things[i].entry);
    for (unsigned i = 0; i < THINGS; i++)
        assert_int_equal(has(&map, i), i % 2);
    assert_null(zlink_name_map_find(&map, "no such name"));
    zlink_name_map_take_all(&map, taken, &count);
    assert_int_equal(count, THINGS / 2);
    for (unsigned i = 0; i < THINGS; i++) {
        assert_int_equal(things[i].taken, i % 2);
        assert_false(things[i].entry.in_map);
    }
    zlink_name_map_destroy(&map);
}

/* Only the first buckets must be had. */
static void test_memory_failures(void **state)
{
    zlink_name_map_t map;
    unsigned count = 0;

    (void)state;
    make_things();
    zlink_name_map_init(&map);
    zlink_memory_fail_after(0);
    assert_int_equal(zlink_name_map_add(&map, &things[0].entry), ZLINK_CAPACITY_EXCEEDED);
    assert_int_equal(map.count, 0);
    assert_int_equal(zlink_name_map_add(&map, &things[0].entry), ZLINK_OK);
    for (unsigned i = 1; i < 200; i++) {
        zlink_memory_fail_after(0);
        assert_int_equal(zlink_name_map_add(&map, &things[i].entry), ZLINK_OK);
    }
    zlink_memory_fail_after(-1);
    for (unsigned i = 0; i < 200; i++)
        assert_true(has(&map, i));
    zlink_name_map_take_all(&map, taken, &count);
    assert_int_equal(count, 200);
    zlink_name_map_destroy(&map);
}

/* Names are spread over the buckets. */
static void test_names_are_spread(void **state)
{
    zlink_name_map_t map;
    unsigned longest = 0;
    unsigned count = 0;

    (void)state;
    make_things();
    zlink_name_map_init(&map);
    for (unsigned i = 0; i < THINGS; i++)
        assert_int_equal(zlink_name_map_add(&map, &things[i].entry), ZLINK_OK);
    for (uint32_t i = 0; i < map.bucket_count; i++) {
        unsigned length = 0;
        for (zlink_name_entry_t *entry = map.buckets[i]; entry; entry = entry->next)
            length++;
        longest = length > longest ? length : longest;
    }
    assert_true(longest <= 16); /* of random ones: 6 or 7 */
    zlink_name_map_take_all(&map, taken, &count);
    zlink_name_map_destroy(&map);
}

static void test_which_names_it_takes(void **state)
{
    char name[257];

    (void)state;
    memset(name, 'x', sizeof(name));
    name[256] = 0;
    assert_false(zlink_name_map_takes(name));
    name[255] = 0;
    assert_true(zlink_name_map_takes(name));
    assert_false(zlink_name_map_takes(""));
    assert_false(zlink_name_map_takes(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_add_find_remove),
        cmocka_unit_test(test_memory_failures),
        cmocka_unit_test(test_names_are_spread),
        cmocka_unit_test(test_which_names_it_takes),
    };

    return zlink_test_main(tests);
}
