#include "harness.h"

#include <string.h>

#include "server/config/config_value.h"

#define COUNT_OF(ARRAY) (sizeof(ARRAY) / sizeof((ARRAY)[0]))

/* A bad value: its text, and the reason that must be given. */
typedef struct bad {
    const char *text;
    const char *reason;
} bad_t;

static void test_integers(void **state)
{
    static const bad_t bad[] = {
        {"", "'' is not a whole number"},
        {"080", "'080' is not a whole number"},
        {"00", "'00' is not a whole number"},
        {"-1", "'-1' is not a whole number"},
        {"+1", "'+1' is not a whole number"},
        {" 1", "' 1' is not a whole number"},
        {"1 ", "'1 ' is not a whole number"},
        {"1.0", "'1.0' is not a whole number"},
        {"1e3", "'1e3' is not a whole number"},
        {"0x10", "'0x10' is not a whole number"},
        {"5s", "'5s' is not a whole number"},
        {"1_000", "'1_000' is not a whole number"},
        {"18446744073709551616", "'18446744073709551616' is not a whole number"},
        {"4", "'4' is not between 5 and 100"},
        {"101", "'101' is not between 5 and 100"},
    };
    zlink_refusal_t why;
    uint64_t value = 0;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        value = 77;
        assert_false(zlink_config_value_integer(bad[i].text, 5, 100, &value, &why));
        assert_string_equal(why.line, bad[i].reason);
        assert_int_equal(value, 77);
        assert_false(zlink_config_value_integer(bad[i].text, 5, 100, &value, NULL));
    }
    assert_true(zlink_config_value_integer("5", 5, 100, &value, &why));
    assert_int_equal(value, 5);
    assert_true(zlink_config_value_integer("100", 5, 100, &value, &why));
    assert_int_equal(value, 100);
    assert_true(zlink_config_value_integer("0", 0, 1, &value, &why));
    assert_int_equal(value, 0);
    assert_true(zlink_config_value_integer("18446744073709551615", 0, UINT64_MAX, &value, &why));
    assert_true(value == UINT64_MAX);
}

static void test_durations(void **state)
{
    static const bad_t bad[] = {
        {"5", "'5' has no unit (250ms, 5s, 2m)"},
        {"5h", "'5h' has an unknown unit (250ms, 5s, 2m)"},
        {"5 s", "'5 s' has an unknown unit (250ms, 5s, 2m)"},
        {"5S", "'5S' has an unknown unit (250ms, 5s, 2m)"},
        {"5sec", "'5sec' has an unknown unit (250ms, 5s, 2m)"},
        {"1.5s", "'1.5s' has an unknown unit (250ms, 5s, 2m)"},
        {"", "'' is not a whole number with a unit (250ms, 5s, 2m)"},
        {"s", "'s' is not a whole number with a unit (250ms, 5s, 2m)"},
        {"-5s", "'-5s' is not a whole number with a unit (250ms, 5s, 2m)"},
        {"05s", "'05s' is not a whole number with a unit (250ms, 5s, 2m)"},
        {"0ms", "'0ms' is not between 1ms and 2147483647ms"},
        {"2147483648ms", "'2147483648ms' is not between 1ms and 2147483647ms"},
        {"2147484s", "'2147484s' is not between 1ms and 2147483647ms"},
        {"18446744073709551615m", "'18446744073709551615m' is not between 1ms and 2147483647ms"},
    };
    zlink_refusal_t why;
    uint64_t value = 0;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_false(zlink_config_value_duration_ms(bad[i].text, 1, INT32_MAX, &value, &why));
        assert_string_equal(why.line, bad[i].reason);
    }
    assert_true(zlink_config_value_duration_ms("250ms", 1, INT32_MAX, &value, &why));
    assert_int_equal(value, 250);
    assert_true(zlink_config_value_duration_ms("5s", 1, INT32_MAX, &value, &why));
    assert_int_equal(value, 5000);
    assert_true(zlink_config_value_duration_ms("2m", 1, INT32_MAX, &value, &why));
    assert_int_equal(value, 120000);
    assert_true(zlink_config_value_duration_ms("2147483647ms", 1, INT32_MAX, &value, &why));
    assert_int_equal(value, INT32_MAX);
    assert_false(zlink_config_value_duration_ms("1ms", 2000, 180000, &value, &why));
    assert_string_equal(why.line, "'1ms' is not between 2s and 3m");
}

static void test_sizes(void **state)
{
    static const bad_t bad[] = {
        {"64", "'64' has no unit (512B, 64KiB, 16MiB, 1GiB)"},
        {"64K", "'64K' has an unknown unit (512B, 64KiB, 16MiB, 1GiB)"},
        {"64KB", "'64KB' has an unknown unit (512B, 64KiB, 16MiB, 1GiB)"},
        {"64kib", "'64kib' has an unknown unit (512B, 64KiB, 16MiB, 1GiB)"},
        {"0.5MiB", "'0.5MiB' has an unknown unit (512B, 64KiB, 16MiB, 1GiB)"},
        {"MiB", "'MiB' is not a whole number with a unit (512B, 64KiB, 16MiB, 1GiB)"},
        {"1023B", "'1023B' is not between 1KiB and 1GiB"},
        {"1025MiB", "'1025MiB' is not between 1KiB and 1GiB"},
        {"17179869184GiB", "'17179869184GiB' is not between 1KiB and 1GiB"},
    };
    zlink_refusal_t why;
    uint64_t value = 0;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_false(zlink_config_value_bytes(bad[i].text, 1024, 1 << 30, &value, &why));
        assert_string_equal(why.line, bad[i].reason);
    }
    assert_true(zlink_config_value_bytes("1024B", 1024, 1 << 30, &value, &why));
    assert_int_equal(value, 1024);
    assert_true(zlink_config_value_bytes("64KiB", 1024, 1 << 30, &value, &why));
    assert_int_equal(value, 65536);
    assert_true(zlink_config_value_bytes("16MiB", 1024, 1 << 30, &value, &why));
    assert_int_equal(value, 16 << 20);
    assert_true(zlink_config_value_bytes("1GiB", 1024, 1 << 30, &value, &why));
    assert_int_equal(value, 1 << 30);
}

static void test_names(void **state)
{
    static const char *const good[] = {
        "a", "node-1", "A.b_c-9", "-", "..", "0123456789012345678901234567890123456789012345678901234567890123"};
    static const char *const bad[] = {
        "", "a b", "a/b", "n\xc3\xa9", "a:1", "~", "01234567890123456789012345678901234567890123456789012345678901234"};
    zlink_refusal_t why;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++)
        assert_true(zlink_config_value_name(good[i], &why));
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_false(zlink_config_value_name(bad[i], &why));
        assert_non_null(strstr(why.line, "is not a name of 1 to 64 letters, digits, '.', '_' or '-'"));
    }
}

static void test_addresses(void **state)
{
    static const struct {
        const char *text;
        uint16_t port;
        bool wildcard;
    } good[] = {
        {"127.0.0.1:7700", 7700, false},
        {"node-b.example:1", 1, false},
        {"[::1]:65535", 65535, false},
        {"0.0.0.0:7700", 7700, true},
        {"[::]:0", 0, true},
        {"[0:0::0]:1", 1, true},
        {"[::ffff:0.0.0.0]:1", 1, true},
        {"localhost:0", 0, false},
        {"1a:80", 80, false},
        {"my_host:80", 80, false},
    };
    static const bad_t bad[] = {
        {"", "'' is not an address of the form host:port"},
        {"localhost", "'localhost' is not an address of the form host:port"},
        {":80", "':80' is not an address of the form host:port"},
        {"a:", "'a:' has no port between 0 and 65535 behind its last ':'"},
        {"a:65536", "'a:65536' has no port between 0 and 65535 behind its last ':'"},
        {"a:080", "'a:080' has no port between 0 and 65535 behind its last ':'"},
        {"a:-1", "'a:-1' has no port between 0 and 65535 behind its last ':'"},
        {"a:http", "'a:http' has no port between 0 and 65535 behind its last ':'"},
        {"::1:80", "'::1:80' does not name a host (a DNS name, an IPv4 address or an IPv6 address in [ ])"},
        {"[]:80", "the host of '[]:80' is not 1 to 253 bytes long"},
        {"[127.0.0.1]:80",
         "'[127.0.0.1]:80' does not name a host (a DNS name, an IPv4 address or an IPv6 address in [ ])"},
        {"127.1:80", "'127.1:80' does not name a host (a DNS name, an IPv4 address or an IPv6 address in [ ])"},
        {"0:80", "'0:80' does not name a host (a DNS name, an IPv4 address or an IPv6 address in [ ])"},
        {"0x0:80", "'0x0:80' does not name a host (a DNS name, an IPv4 address or an IPv6 address in [ ])"},
        {"256.0.0.1:80", "'256.0.0.1:80' does not name a host (a DNS name, an IPv4 address or an IPv6 address in [ ])"},
        {"*:80", "'*:80' does not name a host (a DNS name, an IPv4 address or an IPv6 address in [ ])"},
        {"a b:80", "'a b:80' does not name a host (a DNS name, an IPv4 address or an IPv6 address in [ ])"},
        {"a..b:80", "'a..b:80' does not name a host (a DNS name, an IPv4 address or an IPv6 address in [ ])"},
        {"-a:80", "'-a:80' does not name a host (a DNS name, an IPv4 address or an IPv6 address in [ ])"},
        {"tcp://a:80", "'tcp://a:80' does not name a host (a DNS name, an IPv4 address or an IPv6 address in [ ])"},
    };
    zlink_config_address_t address;
    zlink_refusal_t why;
    char long_host[300];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        assert_true(zlink_config_value_address(good[i].text, &address, &why));
        assert_int_equal(address.port, good[i].port);
        assert_int_equal(address.wildcard, good[i].wildcard);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_false(zlink_config_value_address(bad[i].text, &address, &why));
        assert_string_equal(why.line, bad[i].reason);
    }
    memset(long_host, 'h', sizeof(long_host));
    memcpy(long_host + 254, ":80", 4);
    assert_false(zlink_config_value_address(long_host, &address, &why));
    assert_true(zlink_config_value_address(long_host + 1, &address, &why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers), cmocka_unit_test(test_durations), cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_names),    cmocka_unit_test(test_addresses),
    };

    return zlink_test_main(tests);
}
