#include "ctl/new_files.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct writing {
    const char *folder;
    int folder_fd;
    zlink_refusal_t *why;
    char temporary[ZLINK_NEW_FILES_MAX][NAME_MAX + 1];
    size_t written; /* of the temporary files */
    size_t named;   /* of the final names */
} writing_t;

static zlink_status_t refuse_errno(zlink_refusal_t *why, const char *what, const char *folder, const char *name)
{
    zlink_refuse(why, "%s%s%s: cannot be %s: %s", folder, name[0] == '\0' ? "" : "/", name, what, strerror(errno));
    return ZLINK_INTERNAL_FAILURE;
}

static zlink_status_t refuse_existing(zlink_refusal_t *why, const char *folder, const char *name)
{
    zlink_refuse(why, "%s/%s: exists already and is never overwritten", folder, name);
    return ZLINK_ALREADY_EXISTS;
}

zlink_status_t zlink_new_files_make_folder(const char *path, zlink_refusal_t *why)
{
    char part[PATH_MAX];
    size_t length = strlen(path);

    if (length == 0 || length >= sizeof(part)) {
        zlink_refuse(why, "'%.64s…': is not a folder's path of 1 to %d bytes", path, PATH_MAX - 1);
        return ZLINK_INVALID_OPERATION;
    }
    memcpy(part, path, length + 1);
    for (size_t i = 1; i <= length; i++) {
        if (part[i] != '/' && part[i] != '\0')
            continue;
        part[i] = '\0';
        if (mkdir(part, 0700) != 0 && errno != EEXIST)
            return refuse_errno(why, "made", part, "");
        part[i] = path[i];
    }
    return ZLINK_OK;
}

zlink_status_t zlink_new_files_check(const char *folder, const char *const *names, size_t count, zlink_refusal_t *why)
{
    for (size_t i = 0; i < count; i++) {
        struct stat status;
        char path[PATH_MAX];

        if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, names[i]) >= sizeof(path)) {
            errno = ENAMETOOLONG;
            return refuse_errno(why, "made", folder, names[i]);
        }
        if (lstat(path, &status) == 0)
            return refuse_existing(why, folder, names[i]);
        if (errno != ENOENT)
            return refuse_errno(why, "made", folder, names[i]);
    }
    return ZLINK_OK;
}

static bool write_all(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t written = write(fd, bytes, size);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            errno = written == 0 ? EIO : errno;
            return false;
        }
        bytes += written;
        size -= (size_t)written;
    }
    return true;
}

/* Writes the bytes to the disk under a name that nobody looks for. */
static bool write_temporary(writing_t *writing, size_t index, const zlink_new_file_t *file)
{
    uint64_t number;
    bool written;
    int fd;

    if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
        return false;
    snprintf(writing->temporary[index], sizeof(writing->temporary[index]), ".%.200s.%016llx", file->name,
             (unsigned long long)number);
    fd = openat(writing->folder_fd, writing->temporary[index], O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                file->mode);
    if (fd < 0)
        return false;
    writing->written = index + 1;
    written = write_all(fd, file->bytes, file->size) && fsync(fd) == 0;
    return (close(fd) == 0) && written;
}

static zlink_status_t write_and_name(writing_t *writing, const zlink_new_file_t *files, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!write_temporary(writing, i, &files[i]))
            return refuse_errno(writing->why, "written", writing->folder, files[i].name);
    }
    /* A link is refused where the name is taken, also by somebody who came just before us. */
    for (size_t i = 0; i < count; i++) {
        if (linkat(writing->folder_fd, writing->temporary[i], writing->folder_fd, files[i].name, 0) != 0) {
            if (errno == EEXIST)
                return refuse_existing(writing->why, writing->folder, files[i].name);
            return refuse_errno(writing->why, "named", writing->folder, files[i].name);
        }
        writing->named = i + 1;
    }
    return ZLINK_OK;
}

zlink_status_t zlink_new_files_write(const char *folder, const zlink_new_file_t *files, size_t count,
                                     zlink_refusal_t *why)
{
    writing_t writing = {.folder = folder, .why = why};
    zlink_status_t status;

    assert(count <= ZLINK_NEW_FILES_MAX);
    writing.folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (writing.folder_fd < 0)
        return refuse_errno(why, "opened", folder, "");
    status = write_and_name(&writing, files, count);
    for (size_t i = 0; i < writing.written; i++)
        (void)unlinkat(writing.folder_fd, writing.temporary[i], 0);
    if (status == ZLINK_OK && fsync(writing.folder_fd) != 0)
        status = refuse_errno(why, "written", folder, "");
    for (size_t i = 0; status != ZLINK_OK && i < writing.named; i++)
        (void)unlinkat(writing.folder_fd, files[i].name, 0);
    close(writing.folder_fd);
    return status;
}
