/*
 * ctl/control_client.h: one question to a node of this machine, through its control socket.
 */
#ifndef ZLINK_CTL_CONTROL_CLIENT_H
#define ZLINK_CTL_CONTROL_CLIENT_H

/* `command` is one line with its line feed. The whole answer, which free() takes; NULL where nobody answered within 5
 * s, which stderr has been told. */
char *zlink_control_ask(const char *path, const char *command);

#endif
