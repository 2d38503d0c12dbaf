/* Connections by address. */
#include "harness.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/memory.h"
#include "net/address_counts.h"

static zlink_endpoint_t endpoint(const char *text)
{
    zlink_endpoint_t peer;

    memset(&peer, 0, sizeof(peer));
    if (inet_pton(AF_INET, text, &peer.socket.v4.sin_addr) == 1) {
        peer.socket.v4.sin_family = AF_INET;
    } else {
        peer.socket.v6.sin6_family = AF_INET6;
        assert_int_equal(inet_pton(AF_INET6, text, &peer.socket.v6.sin6_addr), 1);
    }
    return peer;
}

static zlink_status_t add(zlink_address_counts_t *counts, const char *text, unsigned most,
                          zlink_address_count_t **entry)
{
    const zlink_endpoint_t peer = endpoint(text);

    return zlink_address_counts_add(counts, &peer, most, entry);
}

static void test_address_counts_tell_addresses_apart(void **state)
{
    zlink_address_counts_t counts = {0};
    zlink_address_count_t *one[2];
    zlink_address_count_t *mapped;
    zlink_address_count_t *other;
    zlink_address_count_t *six[2];
    zlink_address_count_t *none;

    (void)state;
    assert_int_equal(add(&counts, "10.0.0.1", 3, &one[0]), ZLINK_OK);
    assert_int_equal(add(&counts, "10.0.0.1", 3, &one[1]), ZLINK_OK);
    assert_int_equal(add(&counts, "::ffff:10.0.0.1", 3, &mapped), ZLINK_OK);
    assert_int_equal(add(&counts, "10.0.0.1", 3, &none), ZLINK_REJECTED);
    assert_null(none);
    assert_int_equal(add(&counts, "10.0.0.2", 3, &other), ZLINK_OK);
    assert_int_equal(add(&counts, "2001:db8::1", 2, &six[0]), ZLINK_OK);
    assert_int_equal(add(&counts, "2001:db8::ffff:2", 2, &six[1]), ZLINK_OK);
    assert_int_equal(add(&counts, "2001:db8::3", 2, &none), ZLINK_REJECTED); /* the same /64 */
    zlink_address_counts_remove(&counts, one[0]);
    assert_int_equal(add(&counts, "10.0.0.1", 3, &one[0]), ZLINK_OK);
    zlink_address_counts_remove(&counts, one[0]);
    zlink_address_counts_remove(&counts, one[1]);
    zlink_address_counts_remove(&counts, mapped);
    zlink_address_counts_remove(&counts, other);
    zlink_address_counts_remove(&counts, six[0]);
    zlink_address_counts_remove(&counts, six[1]);
    zlink_address_counts_remove(&counts, NULL);
    assert_null(counts.table);
}

static void test_address_counts_unix_and_memory(void **state)
{
    zlink_address_counts_t counts = {0};
    zlink_endpoint_t local = {.socket.local = {.sun_family = AF_UNIX}};
    zlink_address_count_t *entry;

    (void)state;
    assert_int_equal(zlink_address_counts_add(&counts, &local, 0, &entry), ZLINK_OK);
    assert_null(entry);
    for (int64_t n = 0; n < 3; n++) {
        zlink_memory_fail_after(n);
        assert_int_equal(add(&counts, "10.0.0.1", 3, &entry), ZLINK_CAPACITY_EXCEEDED);
        assert_null(entry);
    }
    zlink_memory_fail_after(-1);
    assert_null(counts.table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_address_counts_tell_addresses_apart),
        cmocka_unit_test(test_address_counts_unix_and_memory),
    };

    return zlink_test_main(tests);
}
