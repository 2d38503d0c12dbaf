/*
 * ctl/control_client.h: one question to a node of this machine, through its control socket.
 */
#ifndef ZLINK_CTL_CONTROL_CLIENT_H
#define ZLINK_CTL_CONTROL_CLIENT_H

#include <stdbool.h>

/* `command` is one line with its line feed. The whole answer, which free() takes; NULL where nobody answered within 5
 * s, which stderr has been told. */
char *zlink_control_ask(const char *path, const char *command);

/* The same for a command whose answer is lines that come when they come: each, without its line feed, goes to `take`,
 * until that answers false or the node has ended. False where there was no node, which stderr has been told. */
bool zlink_control_listen(const char *path, const char *command, bool (*take)(void *context, const char *line),
                          void *context);

#endif
