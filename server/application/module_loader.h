/*
 * server/application/module_loader.h: loading application modules from shared objects.
 *
 * Used on the main thread at start only. A module is opened, its descriptor's numbers are compared with this library's
 * before any of its code runs, and its body registers its types. Modules stay loaded until the process ends: their
 * tables and code are in use to the last turn.
 */
#ifndef ZLINK_SERVER_MODULE_LOADER_H
#define ZLINK_SERVER_MODULE_LOADER_H

#include <zlink/status.h>

#include "base/refusal.h"
#include "server/application/catalogue.h"

/* Loads the shared object at `path` and lets it register into `catalogue`. On refusal (no such file, not a module,
 * another ABI, a bad registration) the line names the file and the reason. */
zlink_status_t zlink_module_loader_load(const char *path, zlink_catalogue_t *catalogue, zlink_refusal_t *why);

#endif
