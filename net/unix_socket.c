#include "net/unix_socket.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* NULL: a socket file is there and connecting to it is refused, so its listener is gone. */
static const char *stale_problem(const zlink_endpoint_t *endpoint)
{
    struct stat status;
    int fd;
    int result;
    int error;

    if (lstat(endpoint->socket.local.sun_path, &status) != 0)
        return errno == ENOENT ? NULL : strerror(errno);
    if (!S_ISSOCK(status.st_mode))
        return "a file that is not a socket is there";
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return strerror(errno);
    result = connect(fd, &endpoint->socket.any, endpoint->size);
    error = errno;
    close(fd);
    if (result == 0 || error == EAGAIN)
        return "another process listens there";
    return error == ECONNREFUSED || error == ENOENT ? NULL : strerror(error);
}

static int bind_with_mode(int fd, const zlink_endpoint_t *endpoint, mode_t mode)
{
    /* On Linux the mode of the descriptor becomes that of the file (less the umask): it is never wider than asked. */
    if (fchmod(fd, mode) != 0 || bind(fd, &endpoint->socket.any, endpoint->size) != 0)
        return errno;
    return chmod(endpoint->socket.local.sun_path, mode) != 0 ? errno : 0;
}

zlink_status_t zlink_unix_socket_bind(int fd, const zlink_endpoint_t *endpoint, mode_t mode, zlink_unix_file_t *file,
                                      zlink_refusal_t *why)
{
    const char *path = endpoint->socket.local.sun_path;
    struct stat status;
    int error = bind_with_mode(fd, endpoint, mode);

    file->path[0] = '\0';
    if (error == EADDRINUSE) {
        const char *problem = stale_problem(endpoint);

        if (problem != NULL) {
            zlink_refuse(why, "cannot listen on unix:%s: %s", path, problem);
            return ZLINK_ALREADY_EXISTS;
        }
        (void)unlink(path);
        error = bind_with_mode(fd, endpoint, mode);
    }
    if (error == 0 && lstat(path, &status) != 0)
        error = errno;
    if (error != 0) {
        zlink_refuse(why, "cannot listen on unix:%s: %s", path, strerror(error));
        return ZLINK_UNAVAILABLE;
    }
    memcpy(file->path, path, sizeof(file->path));
    file->device = status.st_dev;
    file->inode = status.st_ino;
    return ZLINK_OK;
}

void zlink_unix_socket_unlink(zlink_unix_file_t *file)
{
    struct stat status;

    if (file->path[0] != '\0' && lstat(file->path, &status) == 0 && status.st_dev == file->device &&
        status.st_ino == file->inode)
        (void)unlink(file->path);
    file->path[0] = '\0';
}
