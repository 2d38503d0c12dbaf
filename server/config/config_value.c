#include "server/config/config_value.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HOST_BYTES     253
#define EXAMPLES_TIME  "250ms, 5s, 2m"
#define EXAMPLES_BYTES "512B, 64KiB, 16MiB, 1GiB"

typedef struct unit {
    const char *name;
    uint64_t factor;
} unit_t;

/* From large to small, so that a limit is printed in the largest unit that divides it. */
static const unit_t time_units[] = {{"m", 60000}, {"s", 1000}, {"ms", 1}};
static const unit_t byte_units[] = {{"GiB", 1ull << 30}, {"MiB", 1ull << 20}, {"KiB", 1ull << 10}, {"B", 1}};

#define COUNT_OF(ARRAY) (sizeof(ARRAY) / sizeof((ARRAY)[0]))

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* Reads the digits at `*text` and moves past them. Says no where there are none, for a leading zero and past 2^64. */
static bool read_digits(const char **text, uint64_t *value)
{
    const char *digit = *text;
    uint64_t sum = 0;

    if (!is_digit(digit[0]) || (digit[0] == '0' && is_digit(digit[1])))
        return false;
    for (; is_digit(*digit); digit++) {
        if (__builtin_mul_overflow(sum, 10u, &sum) || __builtin_add_overflow(sum, (uint64_t)(*digit - '0'), &sum))
            return false;
    }
    *text = digit;
    *value = sum;
    return true;
}

static void print_with_unit(char *text, size_t size, uint64_t value, const unit_t *units, size_t count)
{
    size_t i = 0;

    while (i + 1 < count && (value == 0 || value % units[i].factor != 0))
        i++;
    snprintf(text, size, "%" PRIu64 "%s", value / units[i].factor, units[i].name);
}

static bool read_with_unit(const char *text, const unit_t *units, size_t count, const char *examples, uint64_t minimum,
                           uint64_t maximum, uint64_t *value, zlink_refusal_t *why)
{
    const char *unit = text;
    char least[32];
    char most[32];
    uint64_t number;
    size_t i = 0;

    if (!read_digits(&unit, &number)) {
        zlink_refuse(why, "'%s' is not a whole number with a unit (%s)", text, examples);
        return false;
    }
    while (i < count && strcmp(unit, units[i].name) != 0)
        i++;
    if (i == count) {
        zlink_refuse(why, "'%s' has %s (%s)", text, *unit == '\0' ? "no unit" : "an unknown unit", examples);
        return false;
    }
    if (__builtin_mul_overflow(number, units[i].factor, &number) || number < minimum || number > maximum) {
        print_with_unit(least, sizeof(least), minimum, units, count);
        print_with_unit(most, sizeof(most), maximum, units, count);
        zlink_refuse(why, "'%s' is not between %s and %s", text, least, most);
        return false;
    }
    *value = number;
    return true;
}

bool zlink_config_value_integer(const char *text, uint64_t minimum, uint64_t maximum, uint64_t *value,
                                zlink_refusal_t *why)
{
    const char *end = text;
    uint64_t number;

    if (!read_digits(&end, &number) || *end != '\0') {
        zlink_refuse(why, "'%s' is not a whole number", text);
        return false;
    }
    if (number < minimum || number > maximum) {
        zlink_refuse(why, "'%s' is not between %" PRIu64 " and %" PRIu64, text, minimum, maximum);
        return false;
    }
    *value = number;
    return true;
}

bool zlink_config_value_duration_ms(const char *text, uint64_t minimum_ms, uint64_t maximum_ms, uint64_t *value_ms,
                                    zlink_refusal_t *why)
{
    return read_with_unit(text, time_units, COUNT_OF(time_units), EXAMPLES_TIME, minimum_ms, maximum_ms, value_ms, why);
}

bool zlink_config_value_bytes(const char *text, uint64_t minimum, uint64_t maximum, uint64_t *value,
                              zlink_refusal_t *why)
{
    return read_with_unit(text, byte_units, COUNT_OF(byte_units), EXAMPLES_BYTES, minimum, maximum, value, why);
}

static bool is_name_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || is_digit(byte) || byte == '.' ||
           byte == '_' || byte == '-';
}

bool zlink_config_value_name(const char *text, zlink_refusal_t *why)
{
    size_t length = 0;

    while (is_name_byte(text[length]))
        length++;
    if (text[length] != '\0' || length == 0 || length > ZLINK_CONFIG_NAME_BYTES) {
        zlink_refuse(why, "'%s' is not a name of 1 to %d letters, digits, '.', '_' or '-'", text,
                     ZLINK_CONFIG_NAME_BYTES);
        return false;
    }
    return true;
}

const char *zlink_config_value_peer(const char *text, zlink_refusal_t *why)
{
    const char *at = strchr(text, '@');
    size_t length = 0;

    if (at == NULL)
        return text;
    while (is_name_byte(text[length]))
        length++;
    if (text + length != at || length == 0 || length > ZLINK_CONFIG_NODE_ID_BYTES) {
        zlink_refuse(why, "'%.*s', before the '@', is neither a node's name nor a node id", (int)(at - text), text);
        return NULL;
    }
    return at + 1;
}

static bool ipv6_host(const char *host, bool *wildcard)
{
    static const uint8_t any_mapped[16] = {[10] = 0xff, [11] = 0xff};
    struct in6_addr parsed;

    if (inet_pton(AF_INET6, host, &parsed) != 1)
        return false;
    *wildcard = IN6_IS_ADDR_UNSPECIFIED(&parsed) || memcmp(&parsed, any_mapped, sizeof(any_mapped)) == 0;
    return true;
}

/* A host whose last label is a number is an IPv4 address or a mistake: the resolver would read "0" or "127.1" as an
 * address that nobody meant. */
static bool ends_in_a_number(const char *host)
{
    const char *label = strrchr(host, '.');

    label = label == NULL ? host : label + 1;
    if (label[0] == '0' && (label[1] == 'x' || label[1] == 'X'))
        return true;
    return label[strspn(label, "0123456789")] == '\0';
}

static bool dns_or_ipv4_host(const char *host, bool *wildcard)
{
    struct in_addr parsed;

    if (inet_pton(AF_INET, host, &parsed) == 1) {
        *wildcard = parsed.s_addr == htonl(INADDR_ANY);
        return true;
    }
    *wildcard = false;
    for (const char *byte = host; *byte != '\0'; byte++) {
        if (!is_name_byte(*byte) || (*byte == '.' && byte[1] == '.'))
            return false;
    }
    return host[0] != '.' && host[0] != '-' && !ends_in_a_number(host);
}

bool zlink_config_value_address(const char *text, zlink_config_address_t *address, zlink_refusal_t *why)
{
    char host[HOST_BYTES + 1];
    const char *colon = strrchr(text, ':');
    const char *start = text;
    const char *port;
    size_t length;
    uint64_t number;
    bool valid;

    if (colon == NULL || colon == text) {
        zlink_refuse(why, "'%s' is not an address of the form host:port", text);
        return false;
    }
    length = (size_t)(colon - text);
    port = colon + 1;
    if (!read_digits(&port, &number) || *port != '\0' || number > UINT16_MAX) {
        zlink_refuse(why, "'%s' has no port between 0 and 65535 behind its last ':'", text);
        return false;
    }
    if (text[0] == '[' && colon[-1] == ']') {
        start++;
        length -= 2;
    }
    if (length == 0 || length > HOST_BYTES) {
        zlink_refuse(why, "the host of '%s' is not 1 to %d bytes long", text, HOST_BYTES);
        return false;
    }
    memcpy(host, start, length);
    host[length] = '\0';
    valid = start == text ? dns_or_ipv4_host(host, &address->wildcard) : ipv6_host(host, &address->wildcard);
    if (!valid) {
        zlink_refuse(why, "'%s' does not name a host (a DNS name, an IPv4 address or an IPv6 address in [ ])", text);
        return false;
    }
    address->port = (uint16_t)number;
    return true;
}

bool zlink_config_value_dialled(const char *text, zlink_refusal_t *why)
{
    zlink_config_address_t address;

    if (!zlink_config_value_address(text, &address, why))
        return false;
    if (address.wildcard)
        zlink_refuse(why, "'%s' is the address of every host, nobody can dial it", text);
    else if (address.port == 0)
        zlink_refuse(why, "'%s' has port 0, nobody can dial it", text);
    return !address.wildcard && address.port != 0;
}
