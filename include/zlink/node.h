/*
 * zlink/node.h: running a node in this process. zlink-node is this one call.
 */
#ifndef ZLINK_NODE_H
#define ZLINK_NODE_H

#include <zlink/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Run the node that `config_path` describes, until SIGTERM or SIGINT has drained it. Call it on the main
 * thread, once, before other threads exist. Answers the process's exit code: 0 after an orderly stop;
 * 1 when the start was refused (one line on stderr says what and why) or the stop was forced. */
ZLINK_API int zlink_node_run(const char *config_path);

/* The library's version, "MAJOR.MINOR.PATCH". */
ZLINK_API const char *zlink_version(void);

#ifdef __cplusplus
}
#endif

#endif
