/*
 * zlinkctl weight: changes what a running node of this machine weighs in a channel.
 */
#include <argp.h>
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/refusal.h"
#include "ctl/commands.h"
#include "ctl/control_client.h"
#include "proto/wire.h"
#include "server/config/config_value.h"

typedef struct zlink_weight_options {
    const char *socket, *channel;
    const char *weight;
} zlink_weight_options_t;

static void check_channel(struct argp_state *state, const char *text)
{
    if (!zlink_wire_name_is_valid(text))
        argp_error(state, "CHANNEL: a name has 1 to 255 bytes of UTF-8 without control characters");
}

static void check_weight(struct argp_state *state, const char *text)
{
    zlink_refusal_t why = {""};
    uint64_t weight;
    if (!zlink_config_value_integer(text, 0, ZLINK_WIRE_WEIGHT_MAX, &weight, &why))
        argp_error(state, "WEIGHT: %s", why.line);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    zlink_weight_options_t *options = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (state->arg_num == 0) {
            options->socket = argument;
        } else if (state->arg_num == 1) {
            options->channel = argument;
            check_channel(state, argument);
        } else if (state->arg_num == 2) {
            options->weight = argument;
            check_weight(state, argument);
        } else {
            argp_error(state, "what is '%s'?", argument);
        }
        return 0;
    case ARGP_KEY_END:
        if (!options->weight)
            argp_error(state, "SOCKET (the `control` path of the node's configuration), CHANNEL and WEIGHT are needed");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int zlink_ctl_weight(int argc, char **argv)
{
    const struct argp argp = {
        NULL,
        parse,
        "SOCKET CHANNEL WEIGHT",
        "Changes what a node of this machine weighs in a channel, from 0 (no new calls) to 10000; 100 is the default. "
        "It "
        "is in force at once and until the node ends.",
        NULL,
        NULL,
        NULL,
    };
    zlink_weight_options_t options = {0};
    char command[512];
    argp_err_exit_status = 2;
    if (argp_parse(&argp, argc, argv, 0, NULL, &options) != 0)
        return 2;
    snprintf(command, sizeof(command), "weight %s %s\n", options.weight, options.channel);
    char *answer = zlink_control_ask(options.socket, command);
    if (!answer)
        return 1;
    cJSON *told = cJSON_Parse(answer);
    const char *error = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(told, "error"));
    bool done = cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(told, "weight"));
    if (!done)
        fprintf(stderr, "zlinkctl: %s: %s\n", options.socket, error ? error : "what answered is no node");
    cJSON_Delete(told);
    free(answer);
    return done ? 0 : 1;
}
