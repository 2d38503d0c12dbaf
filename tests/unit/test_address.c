/* Addresses as people write them. */
#include <string.h>

#include "harness.h"

#include "net/address.h"

static void accept_as(const char *text, zlink_address_kind_t kind)
{
    zlink_address_t address;
    zlink_refusal_t why = {{0}};
    char written[ZLINK_ADDRESS_TEXT_BYTES];

    if (zlink_address_parse(text, true, &address, &why) != ZLINK_OK)
        fail_msg("%s", why.line);
    assert_int_equal(address.kind, kind);
    assert_string_equal(address.text, text);
    if (kind != ZLINK_ADDRESS_NAME) {
        zlink_endpoint_text(&address.endpoint, written);
        assert_string_equal(written, text);
    }
}

static void refuse(const char *text, const char *word)
{
    zlink_address_t address;
    zlink_refusal_t why = {{0}};

    assert_int_equal(zlink_address_parse(text, false, &address, &why), ZLINK_INVALID_OPERATION);
    if (strstr(why.line, word) == NULL)
        fail_msg("'%s' was refused with: %s", text, why.line);
}

static void test_address_accepts(void **state)
{
    char longest[128] = "unix:/";

    (void)state;
    accept_as("127.0.0.1:5001", ZLINK_ADDRESS_NUMERIC);
    accept_as("0.0.0.0:0", ZLINK_ADDRESS_NUMERIC);
    accept_as("[::1]:65535", ZLINK_ADDRESS_NUMERIC);
    accept_as("[fe80::1:2]:1", ZLINK_ADDRESS_NUMERIC);
    accept_as("node-a:5001", ZLINK_ADDRESS_NAME);
    accept_as("node_a.mesh.example:5001", ZLINK_ADDRESS_NAME);
    accept_as("unix:/run/zlink/admin.sock", ZLINK_ADDRESS_UNIX);
    memset(longest + 6, 'a', 106);
    accept_as(longest, ZLINK_ADDRESS_UNIX);
}

static void test_address_refuses(void **state)
{
    char text[512];

    (void)state;
    refuse("", "port is missing");
    refuse("127.0.0.1", "port is missing");
    refuse("127.0.0.1:", "port is missing");
    refuse(":5001", "host is missing");
    refuse("127.0.0.1:65536", "port must be");
    refuse("127.0.0.1:05001", "port must be");
    refuse("127.0.0.1:+1", "port must be");
    refuse("127.0.0.1: 1", "port must be");
    refuse("127.0.0.1:0", "port 0");
    refuse("127.0.0.256:1", "neither an address nor a name");
    refuse("127.0.1:1", "neither an address nor a name");
    refuse("a b:1", "neither an address nor a name");
    refuse("a..b:1", "neither an address nor a name");
    refuse("a.:1", "neither an address nor a name");
    refuse("::1:5001", "[address]:port");
    refuse("[::1:5001", "[address]:port");
    refuse("[localhost]:5001", "not an IPv6 address");
    refuse("unix:", "begin with '/'");
    refuse("unix:relative", "begin with '/'");
    memset(text, 'a', sizeof(text));
    memcpy(text, "unix:/", 6);
    text[6 + 107] = '\0';
    refuse(text, "107 bytes");
    memset(text, 'a', sizeof(text));
    text[400] = '\0';
    refuse(text, "too long");
    memset(text, 'a', sizeof(text));
    memcpy(text + 64, ":1", 3);
    refuse(text, "neither an address nor a name"); /* a label of 64 bytes */
    refuse(NULL, "missing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_address_accepts),
        cmocka_unit_test(test_address_refuses),
    };

    return zlink_test_main(tests);
}
