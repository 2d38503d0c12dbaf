/*
 * deny_ring.c: runs a program under a seccomp filter that answers io_uring_setup with an error, as container runtimes
 * do:
 *
 *   deny_ring EPERM|ENOSYS PROGRAM [ARGUMENT...]
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int deny(unsigned error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int argc, char **argv)
{
    unsigned error = 0;
    if (argc >= 3 && strcmp(argv[1], "EPERM") == 0)
        error = EPERM;
    else if (argc >= 3 && strcmp(argv[1], "ENOSYS") == 0)
        error = ENOSYS;
    if (error == 0) {
        fputs("usage: deny_ring EPERM|ENOSYS PROGRAM [ARGUMENT...]\n", stderr);
        return 125;
    }
    if (deny(error) != 0) {
        perror("deny_ring: seccomp");
        return 125;
    }
    execv(argv[2], argv + 2);
    perror(argv[2]);
    return 127;
}
