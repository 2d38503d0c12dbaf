/*
 * server/node_run.c: include/zlink/node.h: a node as a process: signals in, exit code out.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/standard_files.h"
#include "server/node.h"
#include "server/node_tls.h"

/* Every thread made later inherits the mask, so signals come to the signalfd and nowhere else. */
static int open_signals(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    /* A log that has reached its RLIMIT_FSIZE loses lines, and the node goes on. */
    if (signal(SIGPIPE, SIG_IGN) == SIG_ERR || signal(SIGXFSZ, SIG_IGN) == SIG_ERR ||
        pthread_sigmask(SIG_BLOCK, &signals, NULL) != 0)
        return -1;
    return signalfd(-1, &signals, SFD_CLOEXEC);
}

static int wait_signal(int signal_fd)
{
    struct signalfd_siginfo signal_info;
    ssize_t got;
    do
        got = read(signal_fd, &signal_info, sizeof(signal_info));
    while (got < 0 && errno == EINTR);
    int signal_number = got > 0 ? (int)signal_info.ssi_signo : 0;
    zlink_log(ZLINK_LOG_INFO, "zlink.node.signal", ZLINK_LOG_I("signal", signal_number));
    return signal_number;
}

int zlink_node_run(const char *config_path)
{
    static zlink_node_t node; /* threads may still read it while a forced stop ends the process */
    zlink_refusal_t why = {""};
    int signal_fd = zlink_standard_files_open() ? open_signals() : -1;
    if (signal_fd < 0) {
        fprintf(stderr, "zlink-node: standard files and signals: %s\n", strerror(errno));
        return 1;
    }
    if (zlink_node_start(config_path, &node, &why) != ZLINK_OK) {
        fprintf(stderr, "zlink-node: %s\n", why.line);
        fflush(stderr);
        _exit(1); /* what was started already ends with the process */
    }
    uint32_t timeout_ms = node.config->shutdown_timeout_ms;
    const char *control = node.config->control;
    while (wait_signal(signal_fd) == SIGHUP)
        zlink_node_tls_reload(&node, config_path);
    (void)signal(SIGHUP, SIG_IGN); /* another one is no reason to hurry the stop */
    zlink_shutdown_reason_t reason = zlink_node_stop(&node, timeout_ms, signal_fd);
    if (reason == ZLINK_SHUTDOWN_DEADLINE_EXCEEDED) {
        if (control)
            unlink(control);
        _exit(1);
    }
    close(signal_fd);
    return reason == ZLINK_SHUTDOWN_NONE ? 0 : 1;
}
