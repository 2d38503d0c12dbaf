/*
 * zlinkctl status: asks a node of this machine, through its control socket, how it is. Exit code 0 when it serves.
 */
#include <argp.h>
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/commands.h"
#include "ctl/control_client.h"
#include "server/config/config.h"

typedef struct zlink_status_options {
    const char *socket;
    bool json;
} zlink_status_options_t;

static const struct argp_option arguments[] = {
    {"json", 'j', NULL, 0, "Print everything that the node tells, as JSON", 0},
    {0},
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    zlink_status_options_t *options = state->input;
    switch (key) {
    case 'j':
        options->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (options->socket)
            argp_error(state, "one SOCKET only");
        options->socket = argument;
        return 0;
    case ARGP_KEY_END:
        if (!options->socket)
            argp_error(state, "which node? SOCKET is the `control` path of its configuration");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char *text_of(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return text ? text : "?";
}

static double number_of(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static void print_names(const char *title, const cJSON *list)
{
    const cJSON *item;
    printf("%-10s", title);
    cJSON_ArrayForEach(item, list) printf(" %s", cJSON_GetStringValue(item) ? cJSON_GetStringValue(item) : "?");
    printf("%s\n", cJSON_GetArraySize(list) ? "" : " none");
}

/* The channels that the node serves, with its weight where that is not the usual one. */
static void print_weights(const cJSON *weights)
{
    const cJSON *weight;
    printf("%-10s", "channels");
    cJSON_ArrayForEach(weight, weights)
    {
        printf(" %s", weight->string);
        if (weight->valuedouble < ZLINK_CONFIG_WEIGHT || weight->valuedouble > ZLINK_CONFIG_WEIGHT)
            printf(" (weight %.0f)", weight->valuedouble);
    }
    printf("%s\n", cJSON_GetArraySize(weights) ? "" : " none");
}

/* All of zlink.mesh_node.messages.dropped.*: what arrived and reached no handler. */
static double dropped_messages(const cJSON *counters)
{
    static const char prefix[] = "zlink.mesh_node.messages.dropped.";
    const cJSON *counter;
    double dropped = 0;
    cJSON_ArrayForEach(counter, counters)
    {
        if (counter->string && strncmp(counter->string, prefix, sizeof(prefix) - 1) == 0)
            dropped += counter->valuedouble;
    }
    return dropped;
}

/* Each pair of a ClientServer channel that is linked, and the servers that are not. */
static void print_client_servers(const cJSON *sides)
{
    const cJSON *side, *entry;
    cJSON_ArrayForEach(side, sides)
    {
        const char *channel = text_of(side, "channel"), *role = text_of(side, "role");
        if (strcmp(role, "server") == 0)
            printf("%-10s %s listen %s (weight %.0f)\n", role, channel, text_of(side, "listen"),
                   number_of(side, "weight"));
        else
            printf("%-10s %s\n", role, channel);
        cJSON_ArrayForEach(entry, cJSON_GetObjectItemCaseSensitive(side, "links"))
            printf("%-10s %s %s %s %s %s\n", "pair", channel, text_of(entry, "state"), text_of(entry, "peer"),
                   text_of(entry, "address"), text_of(entry, "cipher"));
        cJSON_ArrayForEach(entry, cJSON_GetObjectItemCaseSensitive(side, "peers"))
        {
            if (strcmp(text_of(entry, "state"), "dialling") == 0)
                printf("%-10s %s dialling %s\n", "pair", channel, text_of(entry, "address"));
        }
    }
}

static void print_for_people(const cJSON *status)
{
    const cJSON *process = cJSON_GetObjectItemCaseSensitive(status, "process");
    const cJSON *counters = cJSON_GetObjectItemCaseSensitive(status, "counters");
    const cJSON *link;
    printf("%-10s %s (%s), %s\n", "node", text_of(status, "node_id"), text_of(status, "mesh"),
           text_of(status, "state"));
    printf("%-10s %s\n", "listen", text_of(status, "listen"));
    printf("%-10s pid %.0f, up %.0f s, %.2f CPU s, at most %.1f MiB\n", "process", number_of(process, "pid"),
           number_of(process, "uptime_ms") / 1000, number_of(process, "cpu_seconds"),
           number_of(process, "resident_peak_bytes") / 1048576);
    print_weights(cJSON_GetObjectItemCaseSensitive(status, "weights"));
    print_names("spots of", cJSON_GetObjectItemCaseSensitive(status, "spot_types"));
    cJSON_ArrayForEach(link, cJSON_GetObjectItemCaseSensitive(status, "links"))
        printf("%-10s %s %s %s %s\n", "link", text_of(link, "state"), text_of(link, "peer"), text_of(link, "address"),
               text_of(link, "cipher"));
    cJSON_ArrayForEach(link, cJSON_GetObjectItemCaseSensitive(status, "peers"))
    {
        const char *state = text_of(link, "state");
        if (strcmp(state, "dialling") == 0 || strcmp(state, "not_required") == 0)
            printf("%-10s %s %s\n", "link", state, text_of(link, "address"));
    }
    print_client_servers(cJSON_GetObjectItemCaseSensitive(status, "client_servers"));
    printf("%-10s %.0f Spots, %.0f handlers ended, %.0f failed, %.0f live, %.0f messages dropped\n", "work",
           number_of(counters, "zlink.spot.count"), number_of(counters, "zlink.handlers.completed"),
           number_of(counters, "zlink.handlers.failed"), number_of(counters, "zlink.handlers.live"),
           dropped_messages(counters));
}

int zlink_ctl_status(int argc, char **argv)
{
    const struct argp argp = {arguments, parse, "SOCKET", "Asks a node of this machine how it is.", NULL, NULL, NULL};
    zlink_status_options_t options = {0};
    argp_err_exit_status = 2;
    if (argp_parse(&argp, argc, argv, 0, NULL, &options) != 0)
        return 2;
    char *answer = zlink_control_ask(options.socket, "status\n");
    if (!answer)
        return 1;
    cJSON *status = cJSON_Parse(answer);
    bool serving = status && strcmp(text_of(status, "state"), "serving") == 0;
    if (options.json)
        fputs(answer, stdout);
    else if (status)
        print_for_people(status);
    else
        fprintf(stderr, "zlinkctl: %s: what answered is no node\n", options.socket);
    cJSON_Delete(status);
    free(answer);
    return serving ? 0 : 1;
}
