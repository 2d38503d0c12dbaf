#include "net/ring_features.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>

#include "net/buffer_ring.h"
#include "net/ring_compat.h"

#define SETUP_RETRIES     3
#define SETUP_RETRY_NS    10000000L
#define PROBE_ENTRIES     64
#define PROBE_BUFFERS     8
#define PROBE_BUFFER_SIZE 4096

/* The ways to run completions, best first. */
static const struct {
    uint32_t feature;
    unsigned flags;
} run_modes[] = {
    {ZLINK_RING_DEFERRED, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN},
    {ZLINK_RING_COOPERATIVE, IORING_SETUP_COOP_TASKRUN},
    {0, 0},
};

#define RUN_MODES (sizeof(run_modes) / sizeof(run_modes[0]))

static const struct {
    uint32_t feature;
    const char *name;
} feature_names[] = {
    {ZLINK_RING_DEFERRED, "deferred"},
    {ZLINK_RING_COOPERATIVE, "cooperative"},
    {ZLINK_RING_TASKRUN_FLAG, "taskrun-flag"},
    {ZLINK_RING_SUBMIT_ALL, "submit-all"},
    {ZLINK_RING_CQ_SIZE, "cq-size"},
    {ZLINK_RING_REGISTERED_FD, "registered-fd"},
    {ZLINK_RING_MULTISHOT_ACCEPT, "multishot-accept"},
    {ZLINK_RING_MULTISHOT_RECV, "multishot-recv"},
};

static const struct {
    int operation;
    const char *name;
} needed_operations[] = {
    {IORING_OP_ACCEPT, "accept"}, {IORING_OP_CONNECT, "connect"},     {IORING_OP_RECV, "recv"},
    {IORING_OP_SEND, "send"},     {IORING_OP_ASYNC_CANCEL, "cancel"}, {IORING_OP_READ, "read"},
};

void zlink_ring_features_text(uint32_t features, char *text, unsigned size)
{
    size_t used = 0;

    if (size == 0)
        return;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof(feature_names) / sizeof(feature_names[0]); i++) {
        int length;

        if ((features & feature_names[i].feature) == 0)
            continue;
        length = snprintf(text + used, size - used, "%s%s", used == 0 ? "" : " ", feature_names[i].name);
        if (length < 0 || (size_t)length >= size - used)
            return;
        used += (size_t)length;
    }
}

/* The first number after `key` in the file at `path`, or -1. An empty key takes the first number. */
static int read_number(const char *path, const char *key)
{
    FILE *file = fopen(path, "re");
    char line[256];
    int number = -1;

    if (file == NULL)
        return -1;
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        if (sscanf(line + strlen(key), "%d", &number) != 1)
            number = -1;
        break;
    }
    fclose(file);
    return number;
}

void zlink_ring_surroundings_read(zlink_ring_surroundings_t *surroundings)
{
    struct rlimit limit;
    struct utsname system;

    surroundings->disabled = read_number("/proc/sys/kernel/io_uring_disabled", "");
    surroundings->seccomp = read_number("/proc/self/status", "Seccomp:");
    surroundings->memlock_bytes = UINT64_MAX;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        surroundings->memlock_bytes = limit.rlim_cur;
    if (uname(&system) != 0)
        strcpy(system.release, "unknown");
    snprintf(surroundings->kernel, sizeof(surroundings->kernel), "%.64s", system.release);
}

/* EPERM and ENOSYS both come from seccomp filters, EPERM also from the sysctl: the error alone tells neither. */
static const char *blocked_cause(int error, const zlink_ring_surroundings_t *surroundings)
{
    if (error == EPERM && surroundings->disabled == 2)
        return "the setting kernel.io_uring_disabled=2 forbids it to everybody: set it to 0 or 1";
    if (error == EPERM && surroundings->disabled == 1)
        return "the setting kernel.io_uring_disabled=1 allows it only with CAP_SYS_ADMIN or in the group "
               "kernel.io_uring_group: join that group or set it to 0";
    if (surroundings->seccomp == 2)
        return "a seccomp filter blocks it, as default profiles of container runtimes do: run with a profile that "
               "allows io_uring_setup, io_uring_enter and io_uring_register";
    if (error == ENOSYS)
        return "this kernel was built without it: 6.1 or newer with CONFIG_IO_URING is needed";
    return "a security module of this system forbids it";
}

void zlink_ring_explain(int error, const zlink_ring_surroundings_t *surroundings, zlink_refusal_t *why)
{
    const char *cause;
    char memory[160];

    switch (error) {
    case EPERM:
    case EACCES:
    case ENOSYS:
        cause = blocked_cause(error == EACCES ? EPERM : error, surroundings);
        break;
    case ENOMEM:
        if (surroundings->memlock_bytes == UINT64_MAX) {
            cause = "the kernel has no memory for it (RLIMIT_MEMLOCK is unlimited; look at the memory limit)";
            break;
        }
        snprintf(memory, sizeof(memory),
                 "the kernel has no memory for it; RLIMIT_MEMLOCK is %llu KiB (ulimit -l): raise it, or the memory "
                 "limit",
                 (unsigned long long)(surroundings->memlock_bytes / 1024));
        cause = memory;
        break;
    case EMFILE:
    case ENFILE:
        cause = "too many files are open: raise the limit (ulimit -n)";
        break;
    case EINVAL:
        cause = "this kernel does not know the ring's plainest form: 6.1 or newer is needed";
        break;
    default:
        cause = strerror(error);
        break;
    }
    zlink_refuse(why, "io_uring was refused (errno %d): %s [kernel %s, io_uring_disabled %d, seccomp %d]", error, cause,
                 surroundings->kernel, surroundings->disabled, surroundings->seccomp);
}

static int ring_setup_once(struct io_uring *ring, unsigned entries, unsigned cq_entries, unsigned flags)
{
    int result = -ENOMEM;

    /* Some kernels answer -ENOMEM for a moment after another ring has gone. */
    for (unsigned attempt = 0; attempt < SETUP_RETRIES && result == -ENOMEM; attempt++) {
        struct io_uring_params parameters = {.flags = flags, .cq_entries = cq_entries};
        const struct timespec pause = {.tv_nsec = SETUP_RETRY_NS};

        if (attempt > 0)
            nanosleep(&pause, NULL);
        result = io_uring_queue_init_params(entries, ring, &parameters);
    }
    return result;
}

/* Steps down on -EINVAL only: any other error would be the same with fewer flags. */
static int ring_setup(struct io_uring *ring, unsigned entries, unsigned cq_entries, uint32_t allowed,
                      uint32_t *features)
{
    int result = -EINVAL;

    for (size_t mode = 0; mode < RUN_MODES && result == -EINVAL; mode++) {
        uint32_t wanted = run_modes[mode].feature;
        unsigned flags = run_modes[mode].flags;

        if ((wanted & allowed) != wanted)
            continue;
        if (wanted != 0 && (allowed & ZLINK_RING_TASKRUN_FLAG) != 0) {
            wanted |= ZLINK_RING_TASKRUN_FLAG;
            flags |= IORING_SETUP_TASKRUN_FLAG;
        }
        if ((allowed & ZLINK_RING_CQ_SIZE) != 0) {
            wanted |= ZLINK_RING_CQ_SIZE;
            flags |= IORING_SETUP_CQSIZE;
        }
        if ((allowed & ZLINK_RING_SUBMIT_ALL) != 0) {
            *features = wanted | ZLINK_RING_SUBMIT_ALL;
            result = ring_setup_once(ring, entries, cq_entries, flags | IORING_SETUP_SUBMIT_ALL);
        }
        if (result == -EINVAL) {
            *features = wanted;
            result = ring_setup_once(ring, entries, cq_entries, flags);
        }
    }
    return result;
}

static const char *ring_missing_operation(struct io_uring *ring)
{
    struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
    const char *missing = NULL;

    if (probe == NULL)
        return "probe";
    for (size_t i = 0; i < sizeof(needed_operations) / sizeof(needed_operations[0]) && missing == NULL; i++) {
        if (!io_uring_opcode_supported(probe, needed_operations[i].operation))
            missing = needed_operations[i].name;
    }
    io_uring_free_probe(probe);
    return missing;
}

zlink_status_t zlink_ring_open(struct io_uring *ring, unsigned entries, unsigned cq_entries, uint32_t allowed,
                               uint32_t *features, zlink_refusal_t *why)
{
    const uint32_t mask = allowed == 0 ? ZLINK_RING_ALL : allowed;
    zlink_ring_surroundings_t surroundings;
    const char *missing;
    int result = ring_setup(ring, entries, cq_entries, mask, features);

    if (result < 0) {
        zlink_ring_surroundings_read(&surroundings);
        zlink_ring_explain(-result, &surroundings, why);
        return result == -ENOMEM || result == -EMFILE || result == -ENFILE ? ZLINK_CAPACITY_EXCEEDED
                                                                           : ZLINK_UNAVAILABLE;
    }
    /* Waits with a timeout and completions that survive a full queue: the loop stands on both. */
    missing = (ring->features & IORING_FEAT_NODROP) == 0    ? "completion backlog"
              : (ring->features & IORING_FEAT_EXT_ARG) == 0 ? "timed wait"
                                                            : ring_missing_operation(ring);
    if (missing != NULL) {
        zlink_ring_surroundings_read(&surroundings);
        zlink_refuse(why, "io_uring of this system (kernel %s) lacks '%s': 6.1 or newer is needed", surroundings.kernel,
                     missing);
        io_uring_queue_exit(ring);
        return ZLINK_UNAVAILABLE;
    }
    if ((mask & ZLINK_RING_REGISTERED_FD) != 0 && io_uring_register_ring_fd(ring) == 1)
        *features |= ZLINK_RING_REGISTERED_FD;
    /* A kernel without multishot answers -EINVAL at the first use; the user then steps down. */
    *features |= mask & (ZLINK_RING_MULTISHOT_ACCEPT | ZLINK_RING_MULTISHOT_RECV);
    return ZLINK_OK;
}

void zlink_ring_probe(zlink_ring_report_t *report)
{
    struct io_uring ring;
    zlink_buffer_ring_t buffers;
    char text[256];
    zlink_status_t status;

    memset(report, 0, sizeof(*report));
    zlink_ring_surroundings_read(&report->surroundings);
    status = zlink_ring_open(&ring, PROBE_ENTRIES, PROBE_ENTRIES * 8, 0, &report->features, &report->cause);
    if (status == ZLINK_OK) {
        status = zlink_buffer_ring_open(&buffers, &ring, PROBE_BUFFERS, PROBE_BUFFER_SIZE, &report->cause);
        if (status == ZLINK_OK)
            zlink_buffer_ring_close(&buffers, &ring);
        io_uring_queue_exit(&ring);
    }
    report->usable = status == ZLINK_OK;
    if (report->usable) {
        zlink_ring_features_text(report->features, text, sizeof(text));
        snprintf(report->line, sizeof(report->line), "io_uring works: kernel %s, features %s, memlock %lld KiB",
                 report->surroundings.kernel, text,
                 report->surroundings.memlock_bytes == UINT64_MAX
                     ? -1LL
                     : (long long)(report->surroundings.memlock_bytes / 1024));
    } else {
        report->features = 0;
        snprintf(report->line, sizeof(report->line), "%s", report->cause.line);
    }
}
