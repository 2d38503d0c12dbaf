#include "ctl/control_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define ANSWER_BYTES_MAX ((size_t)16 << 20)
#define ANSWER_WAIT_S    5

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval wait = {.tv_sec = ANSWER_WAIT_S};
    if (strlen(path) >= sizeof(address.sun_path)) {
        fprintf(stderr, "zlinkctl: %s: a socket's path has at most %zu bytes\n", path, sizeof(address.sun_path) - 1);
        return -1;
    }
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) != 0 ||
        connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        fprintf(stderr, "zlinkctl: %s: no node answers: %s\n", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    return fd;
}

char *zlink_control_ask(const char *path, const char *command)
{
    size_t size = 0, capacity = 0;
    char *answer = NULL;
    int fd = connect_to(path);
    if (fd < 0)
        return NULL;
    if (write(fd, command, strlen(command)) != (ssize_t)strlen(command))
        goto failed;
    for (;;) {
        if (capacity - size < 4096 + 1) {
            capacity += 65536;
            errno = EMSGSIZE; /* realloc has its own */
            char *more = capacity > ANSWER_BYTES_MAX ? NULL : realloc(answer, capacity);
            if (!more)
                goto failed;
            answer = more;
        }
        ssize_t got = read(fd, answer + size, 4096);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            goto failed;
        size += (size_t)got;
        answer[size] = '\0';
        if (got == 0) {
            close(fd);
            return answer;
        }
    }
failed:
    fprintf(stderr, "zlinkctl: %s: the node did not answer: %s\n", path, strerror(errno));
    free(answer);
    close(fd);
    return NULL;
}

bool zlink_control_listen(const char *path, const char *command, bool (*take)(void *context, const char *line),
                          void *context)
{
    static const struct timeval forever = {0};
    char *line = NULL;
    size_t room = 0;
    int fd = connect_to(path);
    if (fd < 0)
        return false;
    FILE *file = fdopen(fd, "r+");
    if (!file || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &forever, sizeof(forever)) != 0 ||
        write(fd, command, strlen(command)) != (ssize_t)strlen(command)) {
        fprintf(stderr, "zlinkctl: %s: the node did not answer: %s\n", path, strerror(errno));
        if (file)
            fclose(file);
        else
            close(fd);
        return false;
    }
    while (getline(&line, &room, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        if (!take(context, line))
            break;
    }
    free(line);
    fclose(file);
    return true;
}
