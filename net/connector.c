#include "net/connector.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/container_of.h"
#include "base/memory.h"
#include "net/reactor_loop.h"
#include "net/resolver.h"

#define OPERATION_CONNECT 1u
#define OPERATION_CANCEL  2u

struct zlink_connector {
    zlink_reactor_t *reactor;
    zlink_resident_t resident;
    zlink_ring_slot_t slot;
    zlink_timer_t timeout;
    zlink_tick_task_t step; /* what comes next, always from the loop */
    zlink_tick_task_t gone;
    zlink_connected_t done; /* NULL once it was called or the connector cancelled */
    void *context;
    zlink_resolution_t *resolution; /* the question that is under way */
    zlink_endpoint_t endpoints[ZLINK_RESOLVER_ENDPOINTS_MAX];
    unsigned count;
    unsigned next; /* endpoint to try */
    int fd;
    bool connected;
    bool over; /* nothing more is tried */
    char reason[256];
};

static void connector_free(zlink_tick_task_t *task)
{
    zlink_free(ZLINK_CONTAINER_OF(task, zlink_connector_t, gone));
}

static void connector_close_socket(zlink_connector_t *connector)
{
    if (connector->fd >= 0)
        close(connector->fd);
    connector->fd = -1;
}

static void connector_settle_later(zlink_connector_t *connector)
{
    zlink_tick_list_add(zlink_reactor_tick_end(connector->reactor), &connector->step);
}

static void connector_fail(zlink_connector_t *connector, const char *what, const char *detail)
{
    connector->over = true;
    snprintf(connector->reason, sizeof(connector->reason), "%s%s%s", what, detail == NULL ? "" : ": ",
             detail == NULL ? "" : detail);
    if (connector->slot.in_flight > 0) {
        struct io_uring_sqe *sqe = zlink_reactor_sqe(connector->reactor);

        io_uring_prep_cancel64(sqe, zlink_ring_slot_user_data(&connector->slot, OPERATION_CONNECT), 0);
        zlink_reactor_start(connector->reactor, sqe, &connector->slot, OPERATION_CANCEL);
    }
    connector_settle_later(connector);
}

static void connector_try_next(zlink_connector_t *connector)
{
    while (connector->next < connector->count) {
        const zlink_endpoint_t *endpoint = &connector->endpoints[connector->next++];
        struct io_uring_sqe *sqe;

        /* A blocking socket: on a non-blocking one the ring would answer -EAGAIN instead of waiting. */
        connector->fd = socket(endpoint->socket.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connector->fd < 0) {
            snprintf(connector->reason, sizeof(connector->reason), "no socket: %s", strerror(errno));
            continue;
        }
        sqe = zlink_reactor_sqe(connector->reactor);
        io_uring_prep_connect(sqe, connector->fd, &endpoint->socket.any, endpoint->size);
        zlink_reactor_start(connector->reactor, sqe, &connector->slot, OPERATION_CONNECT);
        return;
    }
    connector->over = true;
    connector_settle_later(connector);
}

static void connector_complete(zlink_ring_slot_t *slot, unsigned operation, int32_t result, uint32_t flags)
{
    zlink_connector_t *connector = ZLINK_CONTAINER_OF(slot, zlink_connector_t, slot);

    (void)flags;
    if (operation == OPERATION_CONNECT && !connector->over) {
        if (result == 0) {
            connector->connected = true;
            connector->over = true;
        } else {
            char peer[ZLINK_ADDRESS_TEXT_BYTES];

            zlink_endpoint_text(&connector->endpoints[connector->next - 1], peer);
            connector_close_socket(connector);
            snprintf(connector->reason, sizeof(connector->reason), "%.128s: %s", peer, strerror(-result));
            connector_try_next(connector);
            return;
        }
    }
    connector_settle_later(connector);
}

static void connector_resolved(void *context, const zlink_endpoint_t *endpoints, unsigned count, const char *reason)
{
    zlink_connector_t *connector = context;

    connector->resolution = NULL;
    if (connector->over)
        return;
    if (count == 0) {
        connector_fail(connector, reason, NULL);
        return;
    }
    memcpy(connector->endpoints, endpoints, count * sizeof(*endpoints));
    connector->count = count;
    connector_try_next(connector);
}

static void connector_timed_out(zlink_timer_t *timer)
{
    zlink_connector_t *connector = ZLINK_CONTAINER_OF(timer, zlink_connector_t, timeout);

    if (!connector->over)
        connector_fail(connector,
                       connector->resolution != NULL ? "name not resolved within 5 s" : "no answer within 5 s", NULL);
}

/* The end, when the kernel holds nothing of this attempt any more. */
static void connector_settle(zlink_tick_task_t *task)
{
    zlink_connector_t *connector = ZLINK_CONTAINER_OF(task, zlink_connector_t, step);
    zlink_connected_t done = connector->done;

    if (!connector->over || connector->slot.in_flight > 0)
        return;
    if (connector->resolution != NULL)
        zlink_resolution_cancel(connector->resolution);
    zlink_reactor_timer_cancel(connector->reactor, &connector->timeout);
    zlink_reactor_slot_remove(connector->reactor, &connector->slot);
    zlink_reactor_resident_remove(connector->reactor, &connector->resident);
    zlink_tick_list_add(zlink_reactor_frees(connector->reactor), &connector->gone);
    connector->done = NULL;
    if (done == NULL || !connector->connected) {
        connector_close_socket(connector);
        if (done != NULL)
            done(connector->context, -1, NULL, connector->reason);
        return;
    }
    done(connector->context, connector->fd, &connector->endpoints[connector->next - 1], NULL);
}

static void connector_stop(zlink_resident_t *resident)
{
    zlink_connector_t *connector = ZLINK_CONTAINER_OF(resident, zlink_connector_t, resident);

    if (!connector->over)
        connector_fail(connector, "the node stops", NULL);
}

void zlink_connector_cancel(zlink_connector_t *connector)
{
    connector->done = NULL;
    if (!connector->over)
        connector_fail(connector, "cancelled", NULL);
}

zlink_status_t zlink_connector_start(zlink_reactor_t *reactor, const zlink_address_t *address, zlink_connected_t done,
                                     void *context, zlink_connector_t **connector_out)
{
    zlink_connector_t *connector = zlink_calloc(1, sizeof(*connector));
    zlink_status_t status;

    if (connector == NULL)
        return ZLINK_CAPACITY_EXCEEDED;
    connector->reactor = reactor;
    connector->fd = -1;
    connector->done = done;
    connector->context = context;
    connector->slot.complete = connector_complete;
    connector->resident.stop = connector_stop;
    connector->timeout.fire = connector_timed_out;
    connector->step.run = connector_settle;
    connector->gone.run = connector_free;
    status = zlink_reactor_slot_add(reactor, &connector->slot);
    if (status != ZLINK_OK) {
        zlink_free(connector);
        return status;
    }
    zlink_reactor_resident_add(reactor, &connector->resident);
    zlink_reactor_timer_start(reactor, &connector->timeout, zlink_reactor_now_ms(reactor) + ZLINK_CONNECT_TIMEOUT_MS);
    *connector_out = connector;
    if (address->kind == ZLINK_ADDRESS_NAME) {
        status = zlink_resolver_ask(zlink_reactor_resolver(reactor), address, connector_resolved, connector,
                                    &connector->resolution);
        if (status != ZLINK_OK)
            connector_fail(connector, "name not resolved", "too many names are being resolved");
        return ZLINK_OK; /* reported like every other failure: by `done` */
    }
    connector->endpoints[0] = address->endpoint;
    connector->count = 1;
    connector_try_next(connector);
    return ZLINK_OK;
}
