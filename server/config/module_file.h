/*
 * server/config/module_file.h: a module's file: opened, and compared with this build before any of its code runs.
 */
#ifndef ZLINK_SERVER_MODULE_FILE_H
#define ZLINK_SERVER_MODULE_FILE_H

#include <zlink/module.h>

#include "base/refusal.h"

/* Loads the file and answers its descriptor, whose numbers fit this build; it stays loaded until the process ends.
 * ZLINK_NOT_FOUND: it cannot be loaded; ZLINK_INVALID_OPERATION: no module, or another ABI. The line names the file and
 * the reason. Main thread. */
zlink_status_t zlink_module_file_open(const char *path, const zlink_module_descriptor_t **descriptor,
                                      zlink_refusal_t *why);

#endif
