#include <pthread.h>
#include <string.h>

#include "server/mesh/send_gates.h"
#include "tests/unit/harness.h"

#define MESSAGE (ZLINK_SEND_GATE_MESSAGE_COST) /* bytes of payload: each message costs twice as much */

static void test_ex41_only_an_open_gate_takes(void **state)
{
    zlink_send_gates_t *gates = zlink_send_gates_create();
    (void)state;
    assert_non_null(gates);
    assert_null(zlink_send_gates_take(gates, ZLINK_SEND_TO_CHANNEL, "prices", 1));
    zlink_send_gates_set(gates, ZLINK_SEND_TO_CHANNEL, "prices", false); /* makes nothing */
    zlink_send_gates_set(gates, ZLINK_SEND_TO_CHANNEL, "prices", true);
    zlink_send_gate_t *gate = zlink_send_gates_take(gates, ZLINK_SEND_TO_CHANNEL, "prices", 1);
    assert_non_null(gate);
    zlink_send_gate_give_back(gate, 1);
    assert_null(
        zlink_send_gates_take(gates, ZLINK_SEND_TO_NODE, "prices", 1)); /* a node of that name is another target */
    assert_null(zlink_send_gates_take(gates, ZLINK_SEND_TO_CHANNEL, "price", 1));
    zlink_send_gates_set(gates, ZLINK_SEND_TO_CHANNEL, "prices", false);
    assert_null(zlink_send_gates_take(gates, ZLINK_SEND_TO_CHANNEL, "prices", 1));
    zlink_send_gates_destroy(gates);
}

static void test_ex41_room_is_bounded_and_comes_back(void **state)
{
    const size_t fit = ZLINK_SEND_GATE_BYTES / (MESSAGE + ZLINK_SEND_GATE_MESSAGE_COST);
    zlink_send_gates_t *gates = zlink_send_gates_create();
    zlink_send_gate_t *gate = NULL;
    (void)state;
    zlink_send_gates_set(gates, ZLINK_SEND_TO_NODE, "b", true);
    zlink_send_gates_set(gates, ZLINK_SEND_TO_NODE, "c", true);
    assert_null(zlink_send_gates_take(gates, ZLINK_SEND_TO_NODE, "b", ZLINK_SEND_GATE_BYTES)); /* too large: ask */
    for (size_t i = 0; i < fit; i++)
        assert_non_null(gate = zlink_send_gates_take(gates, ZLINK_SEND_TO_NODE, "b", MESSAGE));
    assert_null(zlink_send_gates_take(gates, ZLINK_SEND_TO_NODE, "b", MESSAGE));
    assert_non_null(zlink_send_gates_take(gates, ZLINK_SEND_TO_NODE, "c", MESSAGE)); /* each has room of its own */
    zlink_send_gate_give_back(gate, MESSAGE);
    assert_non_null(zlink_send_gates_take(gates, ZLINK_SEND_TO_NODE, "b", MESSAGE));
    zlink_send_gates_destroy(gates);
}

/* More names than gates: the others ask, and nothing is overwritten. */
static void test_gates_are_bounded(void **state)
{
    zlink_send_gates_t *gates = zlink_send_gates_create();
    char name[32];
    (void)state;
    for (unsigned i = 0; i < ZLINK_SEND_GATES_MAX + 50; i++) {
        snprintf(name, sizeof(name), "channel-%u", i);
        zlink_send_gates_set(gates, ZLINK_SEND_TO_CHANNEL, name, true);
        zlink_send_gate_t *gate = zlink_send_gates_take(gates, ZLINK_SEND_TO_CHANNEL, name, 0);
        assert_int_equal(gate != NULL, i < ZLINK_SEND_GATES_MAX);
    }
    assert_non_null(zlink_send_gates_take(gates, ZLINK_SEND_TO_CHANNEL, "channel-0", 0));
    zlink_send_gates_destroy(gates);
}

static void *take_and_give(void *context)
{
    for (int i = 0; i < 50000; i++) {
        zlink_send_gate_t *gate = zlink_send_gates_take(context, ZLINK_SEND_TO_CHANNEL, "busy", 200000);
        if (gate)
            zlink_send_gate_give_back(gate, 200000);
    }
    return NULL;
}

/* Threads that take and give back, while the reactor opens, closes and makes others: no room is lost or made. */
static void test_threads_lose_no_room(void **state)
{
    zlink_send_gates_t *gates = zlink_send_gates_create();
    pthread_t threads[3];
    char name[32];
    size_t taken = 0;
    (void)state;
    zlink_send_gates_set(gates, ZLINK_SEND_TO_CHANNEL, "busy", true);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, gates), 0);
    for (unsigned i = 0; i < 500; i++) {
        snprintf(name, sizeof(name), "other-%u", i);
        zlink_send_gates_set(gates, ZLINK_SEND_TO_CHANNEL, name, true);
        zlink_send_gates_set(gates, ZLINK_SEND_TO_CHANNEL, "busy", i % 2);
    }
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    zlink_send_gates_set(gates, ZLINK_SEND_TO_CHANNEL, "busy", true);
    while (zlink_send_gates_take(gates, ZLINK_SEND_TO_CHANNEL, "busy", 0))
        taken++;
    assert_int_equal(taken, ZLINK_SEND_GATE_BYTES / ZLINK_SEND_GATE_MESSAGE_COST);
    zlink_send_gates_destroy(gates);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex41_only_an_open_gate_takes),
        cmocka_unit_test(test_ex41_room_is_bounded_and_comes_back),
        cmocka_unit_test(test_gates_are_bounded),
        cmocka_unit_test(test_threads_lose_no_room),
    };
    return zlink_test_main(tests);
}
