/*
 * zlink-node: the server. `zlink-node --config FILE` runs one node until SIGTERM.
 */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>

#include <zlink/node.h>

static const struct argp_option options[] = {
    {"config", 'c', "FILE", 0, "The node's configuration (required; see configs/example.yaml)", 0},
    {0},
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    const char **config = state->input;
    switch (key) {
    case 'c':
        *config = argument;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument: %s", argument);
        return EINVAL;
    case ARGP_KEY_END:
        if (!*config)
            argp_error(state, "--config FILE is required");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void print_version(FILE *stream, struct argp_state *state)
{
    (void)state;
    fprintf(stream, "zlink-node %s\n", zlink_version());
}

int main(int argc, char **argv)
{
    const char *config = NULL;
    const struct argp argp = {options, parse, NULL, "Runs one node of a zlink mesh.", NULL, NULL, NULL};
    argp_program_version_hook = print_version;
    argp_err_exit_status = 2;
    if (argp_parse(&argp, argc, argv, 0, NULL, &config) != 0)
        return 2;
    return zlink_node_run(config);
}
