/*
 * zlinkctl: the tool for the person who runs a mesh.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <zlink/node.h>

#include "base/standard_files.h"
#include "ctl/certs.h"
#include "ctl/check.h"
#include "ctl/commands.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {"certs", zlink_ctl_certs, "make a mesh's authority and the certificates of its nodes and clients"},
    {"check", zlink_ctl_check, "check a configuration, and what this machine's kernel offers"},
    {"call", zlink_ctl_call, "send requests to a channel or a Spot and wait for the replies"},
    {"send", zlink_ctl_send, "send one-way messages to a channel or a Spot"},
    {"status", zlink_ctl_status, "ask a node on this machine how it is"},
    {"weight", zlink_ctl_weight, "change what a node on this machine weighs in a channel"},
    {"watch", zlink_ctl_watch, "see what happens to a node on this machine"},
    {"stop", zlink_ctl_stop, "stop a node on this machine in order"},
};

static int usage(FILE *stream, int code)
{
    fprintf(stream, "zlinkctl %s\nusage: zlinkctl COMMAND [OPTION...]; zlinkctl COMMAND --help tells more\n\n",
            zlink_version());
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        fprintf(stream, "  %-8s %s\n", commands[i].name, commands[i].help);
    return code;
}

/* The command's own help and complaints begin with both words. */
static int run(size_t command, int argc, char **argv)
{
    static char name[64];
    snprintf(name, sizeof(name), "zlinkctl %s", commands[command].name);
    argv[1] = name;
    return commands[command].run(argc - 1, argv + 1);
}

/* What nobody could read was not done. */
static int all_written(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    fprintf(stderr, "zlinkctl: stdout: not everything could be written\n");
    return code ? code : 1;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (!zlink_standard_files_open())
        return 1;
    if (argc < 2)
        return usage(stderr, 2);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-?") == 0)
        return usage(stdout, 0);
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf("zlinkctl %s\n", zlink_version());
        return 0;
    }
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return all_written(run(i, argc, argv));
    fprintf(stderr, "zlinkctl: unknown command: %s\n", argv[1]);
    return usage(stderr, 2);
}
