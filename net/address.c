#include "net/address.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define UNIX_PREFIX "unix:"
#define LABEL_BYTES 63
#define PORT_DIGITS 5

/* 1..5 digits without a leading zero (but "0" itself), 0..65535. */
static bool parse_port(const char *text, uint16_t *port)
{
    const size_t length = strlen(text);
    unsigned value = 0;

    if (length == 0 || length > PORT_DIGITS || (length > 1 && text[0] == '0'))
        return false;
    for (const char *digit = text; *digit != '\0'; digit++) {
        if (*digit < '0' || *digit > '9')
            return false;
        value = value * 10 + (unsigned)(*digit - '0');
    }
    if (value > UINT16_MAX)
        return false;
    *port = (uint16_t)value;
    return true;
}

static bool is_name_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
           byte == '-' || byte == '_';
}

/* Labels of 1..63 letters, digits, '-' and '_' (containers use it), separated by single dots; not all digits at the
 * end, which would be a mistyped IPv4 address. */
static bool is_host_name(const char *host)
{
    size_t label = 0;
    bool digits = true;

    for (const char *byte = host; *byte != '\0'; byte++) {
        if (*byte == '.') {
            if (label == 0)
                return false;
            label = 0;
            digits = true;
            continue;
        }
        if (!is_name_byte(*byte) || ++label > LABEL_BYTES)
            return false;
        if (*byte < '0' || *byte > '9')
            digits = false;
    }
    return label > 0 && !digits;
}

static const char *parse_unix(const char *path, zlink_address_t *address)
{
    struct sockaddr_un *local = &address->endpoint.socket.local;
    const size_t length = strlen(path);

    if (path[0] != '/')
        return "the path of a unix socket must begin with '/'";
    if (length >= sizeof(local->sun_path))
        return "the path of a unix socket may have 107 bytes";
    address->kind = ZLINK_ADDRESS_UNIX;
    local->sun_family = AF_UNIX;
    memcpy(local->sun_path, path, length + 1);
    address->endpoint.size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
    return NULL;
}

static const char *parse_v6(const char *text, const char *colon, zlink_address_t *address)
{
    struct sockaddr_in6 *v6 = &address->endpoint.socket.v6;
    char host[INET6_ADDRSTRLEN];
    const size_t length = (size_t)(colon - text);

    if (length < 2 || text[length - 1] != ']' || length - 2 >= sizeof(host))
        return "an IPv6 address is written [address]:port";
    memcpy(host, text + 1, length - 2);
    host[length - 2] = '\0';
    if (inet_pton(AF_INET6, host, &v6->sin6_addr) != 1)
        return "what stands in [] is not an IPv6 address";
    address->kind = ZLINK_ADDRESS_NUMERIC;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(address->port);
    address->endpoint.size = sizeof(*v6);
    return NULL;
}

static const char *parse_host(const char *text, const char *colon, zlink_address_t *address)
{
    struct sockaddr_in *v4 = &address->endpoint.socket.v4;
    const size_t length = (size_t)(colon - text);

    if (length == 0)
        return "the host is missing";
    if (length >= sizeof(address->host))
        return "the host name is longer than 253 bytes";
    if (memchr(text, ':', length) != NULL)
        return "an IPv6 address is written [address]:port";
    memcpy(address->host, text, length);
    address->host[length] = '\0';
    if (inet_pton(AF_INET, address->host, &v4->sin_addr) == 1) {
        address->kind = ZLINK_ADDRESS_NUMERIC;
        v4->sin_family = AF_INET;
        v4->sin_port = htons(address->port);
        address->endpoint.size = sizeof(*v4);
        return NULL;
    }
    if (!is_host_name(address->host))
        return "the host is neither an address nor a name";
    address->kind = ZLINK_ADDRESS_NAME;
    return NULL;
}

static const char *parse(const char *text, bool port_zero, zlink_address_t *address)
{
    const char *colon;

    if (strlen(text) >= sizeof(address->text))
        return "it is too long";
    if (strncmp(text, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0)
        return parse_unix(text + strlen(UNIX_PREFIX), address);
    colon = strrchr(text, ':');
    if (colon == NULL || colon[1] == '\0')
        return "the port is missing: write host:port, [v6]:port or unix:/path";
    if (!parse_port(colon + 1, &address->port))
        return "the port must be a number from 0 to 65535";
    if (address->port == 0 && !port_zero)
        return "port 0 cannot be dialled";
    return text[0] == '[' ? parse_v6(text, colon, address) : parse_host(text, colon, address);
}

zlink_status_t zlink_address_parse(const char *text, bool port_zero, zlink_address_t *address, zlink_refusal_t *why)
{
    const char *reason;

    memset(address, 0, sizeof(*address));
    if (text == NULL) {
        zlink_refuse(why, "the address is missing");
        return ZLINK_INVALID_OPERATION;
    }
    reason = parse(text, port_zero, address);
    if (reason != NULL) {
        zlink_refuse(why, "bad address '%.128s': %s", text, reason);
        return ZLINK_INVALID_OPERATION;
    }
    memcpy(address->text, text, strlen(text) + 1);
    return ZLINK_OK;
}

void zlink_endpoint_text(const zlink_endpoint_t *endpoint, char text[ZLINK_ADDRESS_TEXT_BYTES])
{
    char host[INET6_ADDRSTRLEN] = "?";

    switch (endpoint->socket.any.sa_family) {
    case AF_INET:
        inet_ntop(AF_INET, &endpoint->socket.v4.sin_addr, host, sizeof(host));
        snprintf(text, ZLINK_ADDRESS_TEXT_BYTES, "%s:%u", host, ntohs(endpoint->socket.v4.sin_port));
        break;
    case AF_INET6:
        inet_ntop(AF_INET6, &endpoint->socket.v6.sin6_addr, host, sizeof(host));
        snprintf(text, ZLINK_ADDRESS_TEXT_BYTES, "[%s]:%u", host, ntohs(endpoint->socket.v6.sin6_port));
        break;
    case AF_UNIX:
        /* A peer that did not bind has no name: then only the family is filled in. */
        snprintf(text, ZLINK_ADDRESS_TEXT_BYTES, UNIX_PREFIX "%.*s",
                 endpoint->size > offsetof(struct sockaddr_un, sun_path)
                     ? (int)(endpoint->size - offsetof(struct sockaddr_un, sun_path))
                     : 0,
                 endpoint->socket.local.sun_path);
        break;
    default:
        snprintf(text, ZLINK_ADDRESS_TEXT_BYTES, "?");
        break;
    }
}

uint16_t zlink_endpoint_port(const zlink_endpoint_t *endpoint)
{
    if (endpoint->socket.any.sa_family == AF_INET)
        return ntohs(endpoint->socket.v4.sin_port);
    if (endpoint->socket.any.sa_family == AF_INET6)
        return ntohs(endpoint->socket.v6.sin6_port);
    return 0;
}
