/*
 * A whole node in this process, and how its stop is told.
 */
#include "harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/node.h"

static char folder[] = "/tmp/zlink-node-stop-XXXXXX";
static char config_path[64], control_path[64];

static void write_config(void)
{
    assert_non_null(mkdtemp(folder));
    snprintf(config_path, sizeof(config_path), "%s/node.yaml", folder);
    snprintf(control_path, sizeof(control_path), "%s/node.sock", folder);
    FILE *file = fopen(config_path, "w");
    assert_non_null(file);
    fprintf(file, "mesh: shop\nname: a\nlisten: 127.0.0.1:0\ncontrol: %s\n", control_path);
    fprintf(file, "transport: plain-without-encryption-or-authentication\n");
    assert_int_equal(fclose(file), 0);
}

static int ask_to_stop(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    strcpy(address.sun_path, control_path);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(write(fd, "stop\n", 5), 5);
    return fd;
}

static void hears(int fd, const char *wanted)
{
    char text[128];
    size_t size = 0;
    ssize_t got;
    while ((got = read(fd, text + size, sizeof(text) - 1 - size)) > 0)
        size += (size_t)got;
    text[size] = '\0';
    assert_string_equal(text, wanted);
    close(fd);
}

/* EX-63, EX-64: what could not be torn down in order is no orderly end, and whoever asked for the stop hears so. */
static void test_ex63_ex64_teardown_failed_is_told(void **state)
{
    static const char *const outcomes[] = {"{\"outcome\":\"Stopped\",\"reason\":\"None\"}\n",
                                           "{\"outcome\":\"ForceStopped\",\"reason\":\"TeardownFailed\"}\n"};
    static zlink_node_t node;
    struct signalfd_siginfo signal_info;
    zlink_refusal_t why = {""};
    sigset_t signals;

    (void)state;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &signals, NULL), 0);
    int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC);
    assert_true(signal_fd >= 0);
    write_config();
    for (int fails = 0; fails < 2; fails++) {
        memset((void *)&node, 0, sizeof(node));
        if (zlink_node_start(config_path, &node, &why) != ZLINK_OK)
            fail_msg("%s", why.line);
        int waiter = ask_to_stop();
        assert_int_equal(read(signal_fd, &signal_info, sizeof(signal_info)), sizeof(signal_info));
        atomic_store(&node.host->teardown_failed, fails);
        assert_int_equal(zlink_node_stop(&node, 30000, signal_fd),
                         fails ? ZLINK_SHUTDOWN_TEARDOWN_FAILED : ZLINK_SHUTDOWN_NONE);
        hears(waiter, outcomes[fails]);
        assert_int_equal(access(control_path, F_OK), -1);
    }
    unlink(config_path);
    rmdir(folder);
    close(signal_fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex63_ex64_teardown_failed_is_told),
    };

    return zlink_test_main(tests);
}
