/*
 * zlinkctl watch and zlinkctl stop: what a node of this machine tells as it happens, and its orderly end.
 */
#include <argp.h>
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "ctl/commands.h"
#include "ctl/control_client.h"

static error_t parse(int key, char *argument, struct argp_state *state)
{
    const char **socket = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (*socket)
            argp_error(state, "one SOCKET only");
        *socket = argument;
        return 0;
    case ARGP_KEY_END:
        if (!*socket)
            argp_error(state, "which node? SOCKET is the `control` path of its configuration");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int arguments(int argc, char **argv, const char *what, const char **socket)
{
    const struct argp argp = {NULL, parse, "SOCKET", what, NULL, NULL, NULL};
    argp_err_exit_status = 2;
    return argp_parse(&argp, argc, argv, 0, NULL, socket) == 0 ? 0 : 2;
}

/* A refusal of the node; false where the line is none. */
static bool refused(const char *socket, const char *line)
{
    cJSON *told = cJSON_Parse(line);
    const char *error = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(told, "error"));
    if (error)
        fprintf(stderr, "zlinkctl: %s: %s\n", socket, error);
    cJSON_Delete(told);
    return error != NULL;
}

typedef struct zlink_watch {
    const char *socket;
    bool refused, ended_well;
} zlink_watch_t;

static bool print_line(void *context, const char *line)
{
    zlink_watch_t *watch = context;
    watch->refused = refused(watch->socket, line);
    if (watch->refused)
        return false;
    puts(line);
    return fflush(stdout) == 0;
}

int zlink_ctl_watch(int argc, char **argv)
{
    zlink_watch_t watch = {0};
    int status = arguments(argc, argv,
                           "Prints what a node of this machine is, then what changes, one JSON object a line, until it "
                           "stops. Whoever reads too slowly loses events: \"lost\" counts them.",
                           &watch.socket);
    if (status != 0)
        return status;
    return zlink_control_listen(watch.socket, "watch\n", print_line, &watch) && !watch.refused ? 0 : 1;
}

static bool take_outcome(void *context, const char *line)
{
    zlink_watch_t *watch = context;
    watch->refused = refused(watch->socket, line);
    cJSON *told = cJSON_Parse(line);
    const char *outcome = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(told, "outcome"));
    const char *reason = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(told, "reason"));
    if (outcome) {
        watch->ended_well = strcmp(outcome, "Stopped") == 0;
        printf("%s %s\n", outcome, reason ? reason : "");
    }
    cJSON_Delete(told);
    return false;
}

int zlink_ctl_stop(int argc, char **argv)
{
    zlink_watch_t stop = {0};
    int status =
        arguments(argc, argv,
                  "Asks a node of this machine to stop in order, as SIGTERM does, and waits until it has. Asking "
                  "again changes nothing: everybody who waits gets the same outcome.",
                  &stop.socket);
    if (status != 0)
        return status;
    bool heard = zlink_control_listen(stop.socket, "stop\n", take_outcome, &stop);
    if (heard && !stop.ended_well && !stop.refused)
        fprintf(stderr, "zlinkctl: %s: the node did not stop in order\n", stop.socket);
    return heard && stop.ended_well ? 0 : 1;
}
