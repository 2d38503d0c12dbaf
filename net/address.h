/*
 * net/address.h: "host:port", "[v6]:port" and "unix:/path" as the config and the peers write them.
 *
 * Strict: no blanks, no default port, digits only, no leading zero in the port, a path of at most 107 bytes that is
 * absolute. Pure functions over values, any thread.
 */
#ifndef ZLINK_NET_ADDRESS_H
#define ZLINK_NET_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <zlink/status.h>

#include "base/refusal.h"

typedef enum zlink_address_kind {
    ZLINK_ADDRESS_NUMERIC, /* an IPv4 or IPv6 address */
    ZLINK_ADDRESS_NAME,    /* has to be resolved */
    ZLINK_ADDRESS_UNIX,
} zlink_address_kind_t;

/* A socket address as the kernel takes it. */
typedef struct zlink_endpoint {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un local;
    } socket;
    socklen_t size;
} zlink_endpoint_t;

#define ZLINK_ADDRESS_HOST_BYTES 254 /* a DNS name and its end */
#define ZLINK_ADDRESS_TEXT_BYTES 300 /* any address as text */

typedef struct zlink_address {
    zlink_address_kind_t kind;
    char host[ZLINK_ADDRESS_HOST_BYTES]; /* a NAME */
    uint16_t port;                       /* of a NAME */
    zlink_endpoint_t endpoint;           /* NUMERIC and UNIX */
    char text[ZLINK_ADDRESS_TEXT_BYTES]; /* as it was given */
} zlink_address_t;

/* ZLINK_INVALID_OPERATION with the text and the reason in `why`. Port 0 only where `port_zero` says so. */
zlink_status_t zlink_address_parse(const char *text, bool port_zero, zlink_address_t *address, zlink_refusal_t *why);

/* "10.0.0.7:5001", "[::1]:5001", "unix:/path"; "unix:" for a nameless local socket. */
void zlink_endpoint_text(const zlink_endpoint_t *endpoint, char text[ZLINK_ADDRESS_TEXT_BYTES]);

/* 0 for a local socket. */
uint16_t zlink_endpoint_port(const zlink_endpoint_t *endpoint);

#endif
