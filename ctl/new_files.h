/*
 * ctl/new_files.h: writes files that must not exist yet, all of them or none.
 *
 * For keys and certificates: nothing is ever overwritten, a file gets its name only when it is whole and on the disk,
 * and after a failure none of the names is left behind. Each call does all of its work; nothing is kept.
 */
#ifndef ZLINK_CTL_NEW_FILES_H
#define ZLINK_CTL_NEW_FILES_H

#include <stddef.h>
#include <sys/types.h>

#include <zlink/status.h>

#include "base/refusal.h"

#define ZLINK_NEW_FILES_MAX 4

typedef struct zlink_new_file {
    const char *name; /* inside the folder */
    const void *bytes;
    size_t size;
    mode_t mode; /* less the umask */
} zlink_new_file_t;

/* The folder and those above it that are missing, for the user alone (0700). */
zlink_status_t zlink_new_files_make_folder(const char *path, zlink_refusal_t *why);

/* ZLINK_ALREADY_EXISTS where a name is taken; ZLINK_INTERNAL_FAILURE where the system refuses. */
zlink_status_t zlink_new_files_check(const char *folder, const char *const *names, size_t count, zlink_refusal_t *why);
zlink_status_t zlink_new_files_write(const char *folder, const zlink_new_file_t *files, size_t count,
                                     zlink_refusal_t *why);

#endif
