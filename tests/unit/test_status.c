#include "harness.h"

#include <string.h>

#include <zlink/status.h>

#include "base/refusal.h"

/* EX-56, TR-96: success is 0, and every published kind is its published number plus one, under its published name. */
static void test_ex56_tr96_status_numbers_and_names(void **state)
{
    static const char *const published[] = {
        "NotFound",         "AlreadyExists",    "TypeMismatch",     "NotConfigured", "Rejected",
        "Unavailable",      "CapacityExceeded", "DeadlineExceeded", "ShuttingDown",  "ProtocolError",
        "InvalidOperation", "DataLost",         "InternalFailure",
    };

    (void)state;
    assert_int_equal(ZLINK_OK, 0);
    assert_string_equal(zlink_status_name(ZLINK_OK), "Ok");
    assert_int_equal(ZLINK_STATUS_COUNT, 1 + sizeof(published) / sizeof(published[0]));
    for (unsigned i = 0; i < sizeof(published) / sizeof(published[0]); i++)
        assert_string_equal(zlink_status_name((zlink_status_t)(i + 1)), published[i]);
    assert_int_equal(ZLINK_INTERNAL_FAILURE, 13);
}

static void test_a_number_outside_is_unknown(void **state)
{
    (void)state;
    assert_string_equal(zlink_status_name((zlink_status_t)ZLINK_STATUS_COUNT), "Unknown");
    assert_string_equal(zlink_status_name((zlink_status_t)-1), "Unknown");
}

static void test_a_refusal_is_one_printable_line(void **state)
{
    zlink_refusal_t refusal;
    char long_text[2000];

    (void)state;
    zlink_refuse(NULL, "nobody asks");
    zlink_refuse(&refusal, "a.yaml: %s: bad\n\x1b[2Jline\x7f", "tls.key");
    assert_string_equal(refusal.line, "a.yaml: tls.key: bad??[2Jline?");
    memset(long_text, 'x', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';
    zlink_refuse(&refusal, "%s", long_text);
    assert_int_equal(strlen(refusal.line), sizeof(refusal.line) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex56_tr96_status_numbers_and_names),
        cmocka_unit_test(test_a_number_outside_is_unknown),
        cmocka_unit_test(test_a_refusal_is_one_printable_line),
    };

    return zlink_test_main(tests);
}
