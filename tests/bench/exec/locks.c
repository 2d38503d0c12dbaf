/*
 * locks.c: E-lock: how many locked instructions the way of one uncontended item has, from its submission to the end of
 * its slice: a child goes that way, and its parent lets it go instruction by instruction and looks at each.
 *
 * The child drives its one worker by hand (zlink_worker_pool_step), so all is on one thread; the code is the same. The
 * worker is awake: waking one costs a system call beside which nothing counts.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench_exec.h"
#include "exec/serial_execution_queue.h"
#include "exec/state_lane.h"
#include "tests/bench/peers/common/pb.h"

#ifdef __x86_64__

#include <sys/user.h>

#define BREAKPOINT       0xcc
#define INSTRUCTION_MAX  15
#define INSTRUCTIONS_MAX 1000000

/* What stands between two marks is counted. */
#define mark() __asm__ volatile("int3" ::: "memory")

/* ---- the child ---- */

static zlink_work_result_t run_nothing(zlink_work_item_t *item, zlink_worker_t *worker)
{
    (void)item;
    (void)worker;
    return ZLINK_WORK_DONE;
}

static void no_body(void *context)
{
    (void)context;
}

static void nobody_sleeps(void *context, unsigned worker)
{
    (void)context;
    (void)worker;
}

static void go_once(zlink_worker_pool_t *pool, zlink_serial_execution_queue_t *queue, zlink_work_item_t *item)
{
    if (zlink_serial_execution_queue_enqueue_with_payload_bytes(queue, item, 64) != ZLINK_OK)
        bench_die("an item was refused");
    (void)zlink_worker_pool_step(pool, 0); /* runs it */
    (void)zlink_worker_pool_step(pool, 0); /* lets the queue go */
}

static void count_way(zlink_worker_pool_t *pool, zlink_serial_execution_queue_t *queue)
{
    zlink_work_item_t item = {.run = run_nothing};

    for (int i = 0; i < 3; i++)
        go_once(pool, queue, &item);
    mark();
    go_once(pool, queue, &item);
    mark();
}

static void child(void)
{
    const zlink_scheduler_t scheduler = {.wake = nobody_sleeps};
    zlink_worker_pool_t *pool = NULL;
    zlink_refusal_t why = {""};
    zlink_serial_execution_queue_t *queues = bench_allocate(3 * sizeof(*queues));
    zlink_state_lane_t lane;

    if (zlink_worker_pool_create(&(zlink_worker_pool_options_t){.workers = 1, .scheduler = &scheduler}, &pool, &why) !=
        ZLINK_OK)
        bench_die(why.line);
    for (int i = 0; i < 3; i++)
        zlink_serial_execution_queue_init(&queues[i], pool, &zlink_execution_lane_policy_default);
    zlink_serial_execution_queue_set_gate(&queues[1], &queues[2]);
    zlink_state_lane_init(&lane);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        bench_die("E-lock: no ptrace");
    count_way(pool, &queues[0]);
    count_way(pool, &queues[1]);
    (void)zlink_state_lane_run(&lane, no_body, NULL);
    mark();
    (void)zlink_state_lane_run(&lane, no_body, NULL);
    mark();
    _exit(0);
}

/* ---- its parent ---- */

static void read_instruction(pid_t pid, uint64_t address, uint8_t bytes[2 * sizeof(long)])
{
    for (unsigned i = 0; i < 2; i++) {
        errno = 0;
        long word = ptrace(PTRACE_PEEKTEXT, pid, (void *)(uintptr_t)(address + i * sizeof(word)), NULL);
        if (errno != 0)
            bench_die("E-lock: an instruction cannot be read");
        memcpy(bytes + i * sizeof(word), &word, sizeof(word));
    }
}

static bool is_prefix(uint8_t byte)
{
    return byte == 0x66 || byte == 0x67 || byte == 0xf2 || byte == 0xf3 || byte == 0x2e || byte == 0x36 ||
           byte == 0x3e || byte == 0x26 || byte == 0x64 || byte == 0x65;
}

/* The LOCK prefix, or an exchange with memory, which is locked without one. */
static bool is_locked(const uint8_t *bytes)
{
    unsigned i = 0;

    while (i < INSTRUCTION_MAX && is_prefix(bytes[i]))
        i++;
    if (bytes[i] == 0xf0)
        return true;
    if ((bytes[i] & 0xf0) == 0x40)
        i++;
    return (bytes[i] == 0x86 || bytes[i] == 0x87) && bytes[i + 1] >> 6 != 3;
}

static uint64_t where(pid_t pid)
{
    struct user_regs_struct registers;

    if (ptrace(PTRACE_GETREGS, pid, NULL, &registers) != 0)
        bench_die("E-lock: no registers");
    return registers.rip;
}

static void resume(pid_t pid, bool one_step)
{
    int status;

    if (one_step)
        (void)ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL);
    else
        (void)ptrace(PTRACE_CONT, pid, NULL, NULL);
    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
        bench_die("E-lock: the child did not come to its mark");
}

/* From one mark to the next. */
static void count_between(pid_t pid, const char *metric)
{
    uint8_t bytes[2 * sizeof(long)];
    unsigned locked = 0;
    unsigned instructions = 0;

    for (;; instructions++) {
        read_instruction(pid, where(pid), bytes);
        if (bytes[0] == BREAKPOINT)
            break;
        if (instructions == INSTRUCTIONS_MAX)
            bench_die("E-lock: no end");
        locked += is_locked(bytes);
        resume(pid, true);
    }
    resume(pid, true); /* over the second mark */
    char name[64];
    emit(BENCH_PEER, "E-lock", "", metric, locked, "locked instructions");
    snprintf(name, sizeof(name), "%s_instructions", metric);
    emit(BENCH_PEER, "E-lock", "", name, instructions, "instructions");
}

void bench_locks(void)
{
    const char *const ways[] = {"per_actor", "spot_wide", "state_lane"};
    pid_t pid = fork();

    if (pid < 0)
        bench_die("no process");
    if (pid == 0)
        child();
    int status;
    pb_begin();
    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
        bench_die("E-lock: this system gives no ptrace");
    for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        if (i > 0)
            resume(pid, false);
        count_between(pid, ways[i]);
    }
    (void)ptrace(PTRACE_KILL, pid, NULL, NULL);
    (void)waitpid(pid, &status, 0);
}

#else

void bench_locks(void)
{
    bench_die("E-lock: instructions are counted on x86-64 only");
}

#endif
