/*
 * tests/simulation/chance.h: the one source of everything that a simulated run leaves to chance.
 *
 * Two runs of one seed take the same numbers in the same order, so they are the same run. What happened is mixed into a
 * trace, by which a test sees that it was. One thread.
 */
#ifndef ZLINK_TESTS_SIMULATION_CHANCE_H
#define ZLINK_TESTS_SIMULATION_CHANCE_H

#include <stdbool.h>
#include <stdint.h>

void chance_begin(uint64_t seed);

/* 0 .. count - 1 */
unsigned chance_any(unsigned count);
/* True once in `count` times. */
bool chance_one_in(unsigned count);

void chance_note(uint64_t what);
uint64_t chance_trace(void);

/* Also where cmocka cannot catch a failure, as on a handler's stack. */
#define hold_true(CONDITION)                                                                                           \
    do {                                                                                                               \
        if (!(CONDITION))                                                                                              \
            chance_failed(__FILE__, __LINE__, #CONDITION);                                                             \
    } while (0)

#define cannot_be(WHAT) chance_failed(__FILE__, __LINE__, WHAT)

void chance_failed(const char *file, int line, const char *condition) __attribute__((noreturn));

#endif
