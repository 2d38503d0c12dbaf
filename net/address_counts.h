/*
 * net/address_counts.h: how many connections there are from each address.
 *
 * An address is an IPv4 address, or the first 64 bits of an IPv6 address: what one holder has to himself. A value of
 * one owner, not locked; zero-initialised is empty. As many entries as addresses with a connection.
 */
#ifndef ZLINK_NET_ADDRESS_COUNTS_H
#define ZLINK_NET_ADDRESS_COUNTS_H

#include "net/address.h"

typedef struct zlink_address_count zlink_address_count_t;

typedef struct zlink_address_counts {
    zlink_address_count_t *table;
} zlink_address_counts_t;

/* Counts one more from this peer and answers the entry to give back. ZLINK_REJECTED: there are `most` already;
 * ZLINK_CAPACITY_EXCEEDED: no memory. A unix socket's peer has no address: ZLINK_OK and NULL. */
zlink_status_t zlink_address_counts_add(zlink_address_counts_t *counts, const zlink_endpoint_t *peer, unsigned most,
                                        zlink_address_count_t **entry);

/* NULL is allowed. */
void zlink_address_counts_remove(zlink_address_counts_t *counts, zlink_address_count_t *entry);

#endif
