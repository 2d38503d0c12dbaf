/*
 * server/node_stop.c: a node's end: drain, last turns, links, then everything in the reverse order of the start.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/log.h"
#include "server/node.h"
#include "server/status_events.h"

#define TELL_MS        1000u
#define SIGNAL_ECHO_MS 100u /* a second signal so soon after the first is the same wish */

static void stage_ended(void *context)
{
    zlink_node_t *node = context;
    uint64_t one = 1;
    ssize_t written = write(node->progress_fd, &one, sizeof(one));
    (void)written; /* an eventfd that is neither full nor closed takes eight bytes */
}

/* True when the stage ended; false when the time is over or another signal came. */
static bool wait_stage(zlink_node_t *node, uint64_t deadline_ms, int signal_fd)
{
    for (;;) {
        struct pollfd fds[2] = {{node->progress_fd, POLLIN, 0}, {signal_fd, POLLIN, 0}};
        uint64_t now_ms = zlink_clock_now_ms(node->clock);
        int timeout = now_ms >= deadline_ms ? 0 : (int)(deadline_ms - now_ms);
        int ready = poll(fds, 2, timeout);
        uint64_t count;
        if (ready < 0 && errno != EINTR)
            return false;
        if (fds[0].revents && read(node->progress_fd, &count, sizeof(count)) == (ssize_t)sizeof(count))
            return true;
        if (ready > 0 && fds[1].revents && now_ms < node->draining_since_ms + SIGNAL_ECHO_MS) {
            struct signalfd_siginfo echo; /* whoever stops a group of processes may well signal twice */
            if (read(signal_fd, &echo, sizeof(echo)) == (ssize_t)sizeof(echo))
                continue;
        }
        if (ready > 0 && fds[1].revents) {
            zlink_log(ZLINK_LOG_WARN, "zlink.node.forced", ZLINK_LOG_S("reason", "a second signal"));
            return false;
        }
        if (ready == 0 && now_ms >= deadline_ms) {
            zlink_log(ZLINK_LOG_WARN, "zlink.node.forced", ZLINK_LOG_S("reason", "DeadlineExceeded"));
            return false;
        }
    }
}

void zlink_node_request_stop(zlink_node_t *node)
{
    if (atomic_load(&node->state) < ZLINK_NODE_DRAINING && !atomic_exchange(&node->stop_requested, true))
        kill(getpid(), SIGTERM); /* the main thread waits for signals, and for nothing else */
}

/* ---- how it ended ---- */

typedef struct zlink_outcome {
    zlink_node_t *node;
    const char *outcome, *reason;
} zlink_outcome_t;

static zlink_outcome_t outcome_of(zlink_node_t *node, zlink_shutdown_reason_t reason)
{
    static const char *const reasons[] = {"None", "DeadlineExceeded", "TeardownFailed"};
    return (zlink_outcome_t){node, reason == ZLINK_SHUTDOWN_NONE ? "Stopped" : "ForceStopped", reasons[reason]};
}

static void told(void *context)
{
    zlink_node_t *node = context;
    atomic_store(&node->outcome_told, true);
    stage_ended(node);
}

static void tell(void *context)
{
    const zlink_outcome_t *outcome = context;
    zlink_control_ended(outcome->node->control, outcome->outcome, outcome->reason, told, outcome->node);
}

/* Those who asked over the control socket hear it first. What reads nothing is not waited for. */
static void tell_outcome(zlink_node_t *node, zlink_shutdown_reason_t reason)
{
    zlink_outcome_t outcome = outcome_of(node, reason);
    uint64_t now_ms = zlink_clock_now_ms(node->clock);
    const uint64_t deadline_ms = now_ms + TELL_MS;

    zlink_reactor_call(node->reactor, tell, &outcome);
    while (!atomic_load(&node->outcome_told) && now_ms < deadline_ms) {
        struct pollfd progress = {node->progress_fd, POLLIN, 0};
        uint64_t count; /* a stage that was given up may end now, too */
        if (poll(&progress, 1, (int)(deadline_ms - now_ms)) > 0 &&
            read(node->progress_fd, &count, sizeof(count)) != (ssize_t)sizeof(count))
            break;
        now_ms = zlink_clock_now_ms(node->clock);
    }
}

static zlink_shutdown_reason_t ended(zlink_node_t *node, zlink_shutdown_reason_t reason)
{
    const zlink_outcome_t outcome = outcome_of(node, reason);
    zlink_log(reason == ZLINK_SHUTDOWN_NONE ? ZLINK_LOG_INFO : ZLINK_LOG_WARN, "zlink.node.stopped",
              ZLINK_LOG_S("outcome", outcome.outcome), ZLINK_LOG_S("reason", outcome.reason));
    return reason;
}

static zlink_shutdown_reason_t forced(zlink_node_t *node)
{
    tell_outcome(node, ZLINK_SHUTDOWN_DEADLINE_EXCEEDED);
    return ended(node, ZLINK_SHUTDOWN_DEADLINE_EXCEEDED);
}

/* ---- the stages ---- */

static void begin_draining(void *context)
{
    zlink_node_t *node = context;
    zlink_status_event_state(&node->observers, "draining");
    node->ingress.draining = true;
    zlink_mesh_drain(node->mesh);
    if (node->client_servers)
        zlink_client_servers_drain(node->client_servers);
}

static void transport_closed(void *context)
{
    zlink_node_t *node = context;
    if (--node->transports_open > 0)
        return;
    zlink_status_event_state(&node->observers, "stopped"); /* it leaves before the sockets of observers are closed */
    stage_ended(node);
}

static void close_mesh(void *context)
{
    zlink_node_t *node = context;
    node->transports_open = node->client_servers ? 2 : 1;
    zlink_mesh_close(node->mesh, transport_closed, node);
    if (node->client_servers)
        zlink_client_servers_close(node->client_servers, transport_closed, node);
}

static void destroy_mesh(void *context)
{
    zlink_node_t *node = context;
    zlink_control_close(node->control);
    zlink_client_servers_destroy(node->client_servers);
    zlink_mesh_destroy(node->mesh);
    node->client_servers = NULL;
    node->mesh = NULL;
}

zlink_shutdown_reason_t zlink_node_stop(zlink_node_t *node, uint32_t timeout_ms, int signal_fd)
{
    uint64_t deadline_ms = zlink_clock_now_ms(node->clock) + timeout_ms;
    node->draining_since_ms = zlink_clock_now_ms(node->clock);
    atomic_store(&node->state, ZLINK_NODE_DRAINING);
    zlink_log(ZLINK_LOG_INFO, "zlink.node.draining", ZLINK_LOG_I("timeout_ms", timeout_ms));

    zlink_reactor_call(node->reactor, begin_draining, node);
    zlink_application_host_when_idle(node->host, stage_ended, node);
    if (!wait_stage(node, deadline_ms, signal_fd))
        return forced(node);
    zlink_application_host_close(node->host, stage_ended, node);
    if (!wait_stage(node, deadline_ms, signal_fd))
        return forced(node);
    /* Replies that are still in the mailbox were posted before this errand, so they go out first. */
    zlink_reactor_call(node->reactor, close_mesh, node);
    if (!wait_stage(node, deadline_ms, signal_fd))
        return forced(node);

    zlink_shutdown_reason_t reason =
        atomic_load(&node->host->teardown_failed) ? ZLINK_SHUTDOWN_TEARDOWN_FAILED : ZLINK_SHUTDOWN_NONE;
    tell_outcome(node, reason);
    zlink_reactor_call(node->reactor, destroy_mesh, node);
    zlink_reactor_destroy(node->reactor);
    zlink_worker_pool_destroy(node->pool);
    zlink_application_host_destroy(node->host);
    zlink_tls_context_release(node->tls);
    zlink_catalogue_destroy(node->catalogue);
    zlink_config_free(node->config);
    close(node->progress_fd);
    atomic_store(&node->state, ZLINK_NODE_STOPPED);
    return ended(node, reason);
}
