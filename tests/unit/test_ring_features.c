/* What the ring gives, how it steps down, and what a refusal says. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#include "net/reactor.h"
#include "net/ring_features.h"

/* The reactor's features for a mask of what may be used. */
static uint32_t features_with(uint32_t allowed)
{
    const zlink_reactor_options_t options = {.features_allowed = allowed, .buffer_count = 8};
    zlink_reactor_t *reactor = NULL;
    zlink_refusal_t why = {{0}};
    uint32_t features;

    if (zlink_reactor_create(&options, &reactor, &why) != ZLINK_OK)
        fail_msg("%s", why.line);
    features = zlink_reactor_features(reactor);
    zlink_reactor_destroy(reactor);
    return features;
}

/* Every level can be forced and works; nothing outside of the mask is used. */
static void test_ring_steps_down_to_every_level(void **state)
{
    const uint32_t common = ZLINK_RING_SUBMIT_ALL | ZLINK_RING_CQ_SIZE;

    (void)state;
    assert_int_equal(features_with(ZLINK_RING_COOPERATIVE | common) & ~common, ZLINK_RING_COOPERATIVE);
    assert_int_equal(features_with(ZLINK_RING_PLAIN), 0);
    assert_int_equal(features_with(ZLINK_RING_DEFERRED | ZLINK_RING_PLAIN) & ~ZLINK_RING_DEFERRED, 0);
    assert_int_equal(features_with(ZLINK_RING_PLAIN | ZLINK_RING_MULTISHOT_RECV), ZLINK_RING_MULTISHOT_RECV);
    assert_true((features_with(0) & ~ZLINK_RING_ALL) == 0);
}

static void explain(int error, int disabled, int seccomp, zlink_refusal_t *why)
{
    zlink_ring_surroundings_t surroundings = {disabled, seccomp, 8u << 20, "6.1.0-test"};

    zlink_ring_explain(error, &surroundings, why);
    assert_non_null(strstr(why->line, "6.1.0-test"));
}

/* H41: the same errno has different causes; the surroundings tell which. */
static void test_h41_refusal_names_the_true_cause(void **state)
{
    zlink_refusal_t why;

    (void)state;
    explain(EPERM, 2, 0, &why);
    assert_non_null(strstr(why.line, "kernel.io_uring_disabled=2"));
    explain(EPERM, 1, 0, &why);
    assert_non_null(strstr(why.line, "kernel.io_uring_group"));
    explain(EPERM, 0, 2, &why);
    assert_non_null(strstr(why.line, "seccomp"));
    explain(EPERM, -1, 2, &why);
    assert_non_null(strstr(why.line, "seccomp"));
    explain(ENOSYS, -1, 2, &why);
    assert_non_null(strstr(why.line, "seccomp"));
    explain(ENOSYS, -1, 0, &why);
    assert_non_null(strstr(why.line, "CONFIG_IO_URING"));
    explain(EPERM, 0, 0, &why);
    assert_non_null(strstr(why.line, "security module"));
    explain(ENOMEM, 0, 0, &why);
    assert_non_null(strstr(why.line, "RLIMIT_MEMLOCK is 8192 KiB"));
    explain(EMFILE, 0, 0, &why);
    assert_non_null(strstr(why.line, "ulimit -n"));
}

/* From now on io_uring_setup answers `error` in this process. */
static void block_ring_setup(int error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(77);
}

/* In a child with the filter: the line of a refused reactor and of the probe, separated by '|'. */
static void refused_line(int error, char *line, size_t size)
{
    int pipes[2];
    int status;
    pid_t child;
    ssize_t length;

    assert_int_equal(pipe(pipes), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        zlink_reactor_t *reactor = NULL;
        zlink_refusal_t why = {{0}};
        zlink_ring_report_t report;
        char both[1400];
        int used;

        block_ring_setup(error);
        if (zlink_reactor_create(NULL, &reactor, &why) != ZLINK_UNAVAILABLE)
            _exit(1);
        zlink_ring_probe(&report);
        used = snprintf(both, sizeof(both), "%s|%s", why.line, report.line);
        if (report.usable || write(pipes[1], both, (size_t)used) != used)
            _exit(2);
        _exit(0);
    }
    close(pipes[1]);
    length = read(pipes[0], line, size - 1);
    close(pipes[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(length > 0);
    line[length] = '\0';
}

/* H41: a filter as container runtimes have it, with either errno. */
static void test_h41_ring_refused_by_seccomp(void **state)
{
    static const int errors[] = {EPERM, ENOSYS};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char line[1400];
        char *second;

        refused_line(errors[i], line, sizeof(line));
        second = strchr(line, '|');
        assert_non_null(second);
        *second++ = '\0';
        assert_non_null(strstr(line, "a seccomp filter blocks it"));
        assert_non_null(strstr(second, "a seccomp filter blocks it"));
        assert_null(strchr(line, '\n'));
    }
}

/* The report of a working ring names the kernel and what was obtained. */
static void test_ring_probe_reports(void **state)
{
    zlink_ring_report_t report;

    (void)state;
    zlink_ring_probe(&report);
    assert_true(report.usable);
    assert_non_null(strstr(report.line, report.surroundings.kernel));
    assert_non_null(strstr(report.line, "multishot-recv"));
    assert_string_equal(report.cause.line, "");
}

/* Bad sizes are refused with a line, before any thread is started. */
static void test_ring_bad_options_are_refused(void **state)
{
    static const zlink_reactor_options_t bad[] = {
        {.entries = 40000},      {.entries = 64, .cq_entries = 32}, {.buffer_count = 3},
        {.buffer_count = 65536}, {.buffer_bytes = 2u << 20},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        zlink_reactor_t *reactor = NULL;
        zlink_refusal_t why = {{0}};

        assert_int_equal(zlink_reactor_create(&bad[i], &reactor, &why), ZLINK_INVALID_OPERATION);
        assert_true(why.line[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_h41_refusal_names_the_true_cause), cmocka_unit_test(test_h41_ring_refused_by_seccomp),
        cmocka_unit_test(test_ring_steps_down_to_every_level),   cmocka_unit_test(test_ring_probe_reports),
        cmocka_unit_test(test_ring_bad_options_are_refused),
    };

    return zlink_test_main(tests);
}
