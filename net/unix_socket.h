/*
 * net/unix_socket.h: the file of a listening unix socket.
 *
 * Pure system calls, any thread.
 */
#ifndef ZLINK_NET_UNIX_SOCKET_H
#define ZLINK_NET_UNIX_SOCKET_H

#include <sys/types.h>

#include "net/address.h"

/* Which file it is, so that only our own is removed. */
typedef struct zlink_unix_file {
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* "" = none */
    dev_t device;
    ino_t inode;
} zlink_unix_file_t;

/* Binds with exactly this mode. A socket file that nobody listens on is replaced; anything else there is refused. */
zlink_status_t zlink_unix_socket_bind(int fd, const zlink_endpoint_t *endpoint, mode_t mode, zlink_unix_file_t *file,
                                      zlink_refusal_t *why);

/* Removes the file, if it is still the one that was made. */
void zlink_unix_socket_unlink(zlink_unix_file_t *file);

#endif
