/* Who gets the next permit: in order, by hand, and without anybody who comes later between. */
#include "harness.h"

#include <string.h>

#include "base/clock.h"
#include "server/permit_line.h"

#define LIMIT   4u
#define WAITERS 6u

typedef struct desk {
    zlink_application_job_queue_t queue;
    zlink_permit_line_t line;
    zlink_permit_waiter_t waiters[WAITERS];
    unsigned told; /* that a permit is free */
} desk_t;

static desk_t desk;
static const zlink_permit_waiter_t *resumed[64];
static unsigned resumed_count;

static void permit_free(void *context)
{
    (*(unsigned *)context)++;
}

static void note_resumed(zlink_permit_waiter_t *waiter)
{
    resumed[resumed_count++] = waiter;
}

static void desk_open(uint32_t limit)
{
    memset(&desk, 0, sizeof(desk));
    resumed_count = 0;
    zlink_application_job_queue_init(&desk.queue, limit);
    zlink_application_job_queue_set_waiter(&desk.queue, permit_free, NULL, &desk.told);
    zlink_permit_line_init(&desk.line, &desk.queue, &zlink_clock_system);
}

static bool take(unsigned waiter)
{
    return zlink_permit_line_take(&desk.line, &desk.waiters[waiter]);
}

static void give_back(unsigned permits)
{
    while (permits-- > 0)
        zlink_application_job_queue_give_back(&desk.queue);
}

/* EX-66, EX-77: one source takes as many permits in a row as there are, and no more; the rest stays where it is. */
static void test_ex66_ex77_as_many_as_there_are(void **state)
{
    (void)state;
    desk_open(64);
    for (unsigned i = 0; i < 64; i++)
        assert_true(take(0));
    for (unsigned i = 0; i < 5; i++)
        assert_false(take(0)); /* asked again it still stands in line, once */
    assert_int_equal(zlink_application_job_queue_jobs(&desk.queue), 64);
    give_back(3);
    assert_int_equal(desk.told, 1);
    zlink_permit_line_hand_out(&desk.line, note_resumed);
    assert_int_equal(resumed_count, 1);
    for (unsigned i = 0; i < 3; i++)
        assert_true(take(0));
    assert_false(take(0));
}

/* Those who have waited longest come first; who comes later does not get between, also when permits are free by then;
 * who got one and needs another goes to the end. */
static void test_ex69_oldest_first_and_nobody_between(void **state)
{
    (void)state;
    desk_open(LIMIT);
    for (unsigned i = 0; i < LIMIT; i++)
        assert_true(take(0));
    for (unsigned i = 1; i <= 3; i++)
        assert_false(take(i));
    give_back(2);
    assert_false(take(4)); /* two are free, and meant for others */
    zlink_permit_line_hand_out(&desk.line, note_resumed);
    assert_int_equal(resumed_count, 2);
    assert_ptr_equal(resumed[0], &desk.waiters[1]);
    assert_ptr_equal(resumed[1], &desk.waiters[2]);
    assert_false(take(5));
    assert_true(take(1));
    assert_false(take(1)); /* at the end, behind 3, 4 and 5 */
    assert_true(take(2));
    give_back(4);
    zlink_permit_line_hand_out(&desk.line, note_resumed);
    assert_int_equal(resumed_count, 6);
    assert_ptr_equal(resumed[2], &desk.waiters[3]);
    assert_ptr_equal(resumed[3], &desk.waiters[4]);
    assert_ptr_equal(resumed[4], &desk.waiters[5]);
    assert_ptr_equal(resumed[5], &desk.waiters[1]);
}

/* EX-66: who leaves is passed over, and what was handed to it goes to the next; nothing is lost. */
static void test_ex66_who_leaves_gives_back(void **state)
{
    (void)state;
    desk_open(1);
    assert_true(take(0));
    for (unsigned i = 1; i <= 3; i++)
        assert_false(take(i));
    zlink_permit_line_leave(&desk.line, &desk.waiters[1]);
    give_back(1);
    zlink_permit_line_hand_out(&desk.line, note_resumed);
    assert_int_equal(resumed_count, 1);
    assert_ptr_equal(resumed[0], &desk.waiters[2]);
    desk.told = 0;
    zlink_permit_line_leave(&desk.line, &desk.waiters[2]); /* its connection is gone before it used it */
    assert_int_equal(desk.told, 1);
    zlink_permit_line_hand_out(&desk.line, note_resumed);
    assert_ptr_equal(resumed[1], &desk.waiters[3]);
    assert_true(take(3));
    give_back(1);
    assert_int_equal(zlink_application_job_queue_jobs(&desk.queue), 0);
    zlink_permit_line_leave(&desk.line, &desk.waiters[4]); /* never stood here */
}

/* EX-78: as long as nothing comes back nobody is told anything, so nobody looks; one word for any number of waits. */
static void test_ex78_nobody_polls(void **state)
{
    (void)state;
    desk_open(2);
    assert_true(take(0));
    assert_true(take(0));
    for (unsigned i = 1; i < WAITERS; i++)
        assert_false(take(i));
    assert_int_equal(desk.told, 0);
    give_back(2);
    assert_int_equal(desk.told, 1);
    zlink_permit_line_hand_out(&desk.line, note_resumed);
    assert_int_equal(resumed_count, 2);
    give_back(1);
    assert_int_equal(desk.told, 2); /* three still wait */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex66_ex77_as_many_as_there_are),
        cmocka_unit_test(test_ex69_oldest_first_and_nobody_between),
        cmocka_unit_test(test_ex66_who_leaves_gives_back),
        cmocka_unit_test(test_ex78_nobody_polls),
    };

    return zlink_test_main(tests);
}
