#include "harness.h"

#include <pthread.h>
#include <string.h>

#include "base/counters.h"

/* Defined in another order than they are visited in. */
ZLINK_COUNTER_DEFINE(counter_m, ZLINK_COUNTER, "test.m", "The middle one");
ZLINK_COUNTER_DEFINE(counter_z, ZLINK_GAUGE, "test.z", "The last one");
ZLINK_COUNTER_DEFINE(counter_a, ZLINK_COUNTER, "test.a", "The first one");

#define ADDERS    4
#define ADDITIONS 10000

typedef struct visited {
    unsigned count;
    unsigned of_this_test;
    const char *last;
} visited_t;

static void visit(const zlink_counter_t *counter, void *context)
{
    visited_t *visited = context;

    if (visited->last != NULL)
        assert_true(strcmp(visited->last, counter->name) < 0);
    visited->last = counter->name;
    visited->count++;
    visited->of_this_test += strncmp(counter->name, "test.", 5) == 0;
    assert_true(counter->help[0] != '\0');
}

static void test_counters_are_visited_sorted_and_once(void **state)
{
    visited_t visited = {0};

    (void)state;
    zlink_counters_each(visit, &visited);
    assert_int_equal(visited.of_this_test, 3);
    assert_true(visited.count >= 3);
}

static void test_a_gauge_falls(void **state)
{
    (void)state;
    assert_int_equal(counter_z.kind, ZLINK_GAUGE);
    zlink_counter_add(&counter_z, 5);
    zlink_counter_add(&counter_z, -7);
    assert_int_equal(zlink_counter_read(&counter_z), -2);
}

static void *add_many(void *context)
{
    for (unsigned i = 0; i < ADDITIONS; i++)
        zlink_counter_add(context, 1);
    return NULL;
}

static void test_no_addition_is_lost_between_threads(void **state)
{
    pthread_t threads[ADDERS];

    (void)state;
    for (unsigned i = 0; i < ADDERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, &counter_m), 0);
    for (unsigned i = 0; i < ADDERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(zlink_counter_read(&counter_m), ADDERS * ADDITIONS);
    assert_int_equal(zlink_counter_read(&counter_a), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counters_are_visited_sorted_and_once),
        cmocka_unit_test(test_a_gauge_falls),
        cmocka_unit_test(test_no_addition_is_lost_between_threads),
    };

    return zlink_test_main(tests);
}
