#include "ctl/protoc.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define READ_BYTES ((size_t)65536)

typedef struct zlink_protoc_pipes {
    int to[2]; /* to protoc's standard input */
    int from[2];
} zlink_protoc_pipes_t;

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void close_all(zlink_protoc_pipes_t *pipes)
{
    for (int i = 0; i < 2; i++) {
        close_fd(&pipes->to[i]);
        close_fd(&pipes->from[i]);
    }
}

/* Its standard error joins its output: what it complains of is shown to the person. */
static int spawn(const char *mode, const char *message, const char *proto, const zlink_protoc_pipes_t *pipes,
                 pid_t *child)
{
    char *path = strdup(proto);
    char *option = NULL, *folder = NULL;
    int error = ENOMEM;
    posix_spawn_file_actions_t actions;
    if (!path || asprintf(&option, "%s=%s", mode, message) < 0 || asprintf(&folder, "-I%s", dirname(path)) < 0)
        goto done;
    char *argv[] = {(char[]){"protoc"}, option, folder, strdup(proto), NULL};
    if (!argv[3])
        goto done;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipes->to[0], 0);
    posix_spawn_file_actions_adddup2(&actions, pipes->from[1], 1);
    posix_spawn_file_actions_adddup2(&actions, pipes->from[1], 2);
    error = posix_spawnp(child, "protoc", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    free(argv[3]);
done:
    free(path);
    free(option);
    free(folder);
    return error;
}

/* Writes and reads in turn, so that neither side can block the other for ever. */
static zlink_status_t exchange(zlink_protoc_pipes_t *pipes, const uint8_t *input, size_t input_bytes, uint8_t **output,
                               size_t *size)
{
    size_t written = 0, capacity = 0;
    if (input_bytes == 0)
        close_fd(&pipes->to[1]);
    for (;;) {
        struct pollfd fds[2] = {{pipes->from[0], POLLIN, 0}, {pipes->to[1], POLLOUT, 0}};
        if (poll(fds, pipes->to[1] >= 0 ? 2 : 1, -1) < 0 && errno != EINTR)
            return ZLINK_INTERNAL_FAILURE;
        if (pipes->to[1] >= 0 && fds[1].revents) {
            ssize_t put = write(pipes->to[1], input + written, input_bytes - written);
            written += put > 0 ? (size_t)put : 0;
            if (written == input_bytes || (put < 0 && errno != EAGAIN && errno != EINTR))
                close_fd(&pipes->to[1]);
        }
        if (!fds[0].revents)
            continue;
        if (capacity - *size < READ_BYTES + 1) {
            if (*size > ZLINK_PROTOC_OUTPUT_MAX)
                return ZLINK_CAPACITY_EXCEEDED;
            capacity = capacity * 2 + READ_BYTES * 2;
            uint8_t *more = realloc(*output, capacity);
            if (!more)
                return ZLINK_CAPACITY_EXCEEDED;
            *output = more;
        }
        ssize_t got = read(pipes->from[0], *output + *size, READ_BYTES);
        if (got > 0)
            *size += (size_t)got;
        (*output)[*size] = '\0';
        if (got == 0)
            return ZLINK_OK;
        if (got < 0 && errno != EINTR)
            return ZLINK_INTERNAL_FAILURE;
    }
}

zlink_status_t zlink_protoc_run(const char *mode, const char *message, const char *proto, const void *input,
                                size_t input_bytes, uint8_t **output, size_t *output_bytes, zlink_refusal_t *why)
{
    zlink_protoc_pipes_t pipes = {{-1, -1}, {-1, -1}};
    zlink_status_t status = ZLINK_INTERNAL_FAILURE;
    pid_t child;
    int wait_status = 0;
    *output = NULL;
    *output_bytes = 0;
    if (pipe2(pipes.to, O_CLOEXEC) != 0 || pipe2(pipes.from, O_CLOEXEC) != 0) {
        zlink_refuse(why, "protoc: no pipe: %s", strerror(errno));
        goto done;
    }
    int error = spawn(mode, message, proto, &pipes, &child);
    if (error) {
        zlink_refuse(why, "protoc cannot be run: %s (Debian: apt install protobuf-compiler)", strerror(error));
        goto done;
    }
    close_fd(&pipes.to[0]);
    close_fd(&pipes.from[1]);
    status = exchange(&pipes, input, input_bytes, output, output_bytes);
    close_fd(&pipes.to[1]);
    while (waitpid(child, &wait_status, 0) < 0 && errno == EINTR)
        ;
    if (status == ZLINK_OK && wait_status != 0) {
        zlink_refuse(why, "%s: %s: %s", proto, message, *output ? (const char *)*output : "refused");
        status = ZLINK_PROTOCOL_ERROR;
    }
done:
    close_all(&pipes);
    if (status != ZLINK_OK) {
        free(*output);
        *output = NULL;
    }
    return status;
}
