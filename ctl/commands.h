/*
 * ctl/commands.h: the commands of zlinkctl. Each gets the arguments from its own name on and answers the exit code:
 * 0 done, 1 it was tried and failed, 2 it was asked for wrongly.
 */
#ifndef ZLINK_CTL_COMMANDS_H
#define ZLINK_CTL_COMMANDS_H

#include <stdbool.h>

/* zlink_ctl_certs and zlink_ctl_check: ctl/certs.h, ctl/check.h */
int zlink_ctl_call(int argc, char **argv);
int zlink_ctl_send(int argc, char **argv);
int zlink_ctl_status(int argc, char **argv);
int zlink_ctl_weight(int argc, char **argv);
int zlink_ctl_watch(int argc, char **argv);
int zlink_ctl_stop(int argc, char **argv);

#endif
