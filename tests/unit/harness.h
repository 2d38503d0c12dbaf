/*
 * tests/unit/harness.h: cmocka with the closing line that every test program of this project prints.
 */
#ifndef ZLINK_TESTS_UNIT_HARNESS_H
#define ZLINK_TESTS_UNIT_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

/* Runs the group, prints "N passed, N failed" as the last line and answers the exit code. */
#define zlink_test_main(TESTS)                                                                                         \
    zlink_test_report(cmocka_run_group_tests(TESTS, NULL, NULL), sizeof(TESTS) / sizeof((TESTS)[0]))

static inline int zlink_test_report(int failed, size_t total)
{
    printf("%zu passed, %d failed\n", total - (size_t)failed, failed);
    return failed ? 1 : 0;
}

#endif
