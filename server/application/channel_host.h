/*
 * server/application/channel_host.h: this node's part of one ChannelName: its serial queue, its gate and its state
 * (EX-99).
 *
 * Made at start, gone at the end; any thread may submit.
 */
#ifndef ZLINK_SERVER_CHANNEL_HOST_H
#define ZLINK_SERVER_CHANNEL_HOST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <zlink/status.h>

#include "base/refusal.h"
#include "exec/channel_serial_executor.h"
#include "server/application/catalogue.h"
#include "server/application/invocation.h"

struct zlink_channel_host {
    zlink_channel_serial_executor_t executor;
    zlink_application_host_t *host;
    const zlink_catalogue_channel_t *channel;
    void *self;
    /* Ready peers that serve the channel too, written by the mesh: while there are none, a local call need not ask it.
     */
    _Atomic uint32_t remote_members;
    _Atomic bool weightless; /* this node's own weight is 0: no call is to find it, not even one from here */
    void (*closed)(zlink_channel_host_t *channel);
};

/* Runs on_start as the first turn and waits for it, so it is ZLINK_INVALID_OPERATION on a worker or the reactor. What
 * goes wrong is one line in `why`. */
zlink_status_t zlink_channel_host_create(zlink_application_host_t *host, const zlink_catalogue_channel_t *channel,
                                         zlink_channel_host_t **created, zlink_refusal_t *why);

/* Hands `invocation` to the channel's coordinator; on refusal it still is the caller's. */
zlink_status_t zlink_channel_host_execute(zlink_channel_host_t *channel, zlink_invocation_t *invocation);

/* After zlink_channel_host_execute, or that of the node, found the lane full: the message waits for room and counts as
 * accepted (server/application/room_wait.h); `admit_held` tries again. Any thread. */
void zlink_channel_host_hold(zlink_invocation_t *invocation);
zlink_status_t zlink_channel_host_admit_held(zlink_channel_host_t *channel, zlink_invocation_t *invocation);

/* Runs on_closing as the last turn, then `closed`, once, on a worker. */
void zlink_channel_host_close(zlink_channel_host_t *channel, void (*closed)(zlink_channel_host_t *channel));

/* After `closed`. */
void zlink_channel_host_destroy(zlink_channel_host_t *channel);

#endif
