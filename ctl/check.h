/*
 * ctl/check.h: `zlinkctl check`: would a node start here, and with this configuration?
 *
 * Looks only; starts nothing and changes nothing.
 */
#ifndef ZLINK_CTL_CHECK_H
#define ZLINK_CTL_CHECK_H

/* argv[0] is "check". Answers the exit code: 0 = all well, 1 = a line for each problem on stderr, 2 = bad arguments. */
int zlink_ctl_check(int argc, char **argv);

#endif
