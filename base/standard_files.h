/*
 * base/standard_files.h: descriptors 0, 1 and 2 are there.
 *
 * Where a process is started without one of them, the next thing that it opens gets that number, and what is meant for
 * stderr goes into it: a log line into an eventfd or a socket of a peer. Main thread, before anything is opened.
 */
#ifndef ZLINK_BASE_STANDARD_FILES_H
#define ZLINK_BASE_STANDARD_FILES_H

#include <stdbool.h>

/* Opens /dev/null for each that is closed. False (errno says why): one is still closed. */
bool zlink_standard_files_open(void);

#endif
