/*
 * `zlinkctl certs`: the command line of ctl/certs.h.
 */
#include <argp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/certs.h"
#include "server/config/config_value.h"

#define EXIT_BAD_USE 2

typedef struct arguments {
    const char *folder;
    const char *mesh;
    const char *name;
    unsigned days;
    const char *hosts[ZLINK_CERTS_HOSTS];
    size_t host_count;
} arguments_t;

typedef struct verb {
    const char *name;
    const char *program; /* as shown in messages */
    struct argp argp;
    bool wants_name; /* otherwise it wants the mesh */
    bool revokes;
    zlink_certs_kind_t kind;
} verb_t;

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    arguments_t *arguments = state->input;
    zlink_refusal_t reason;
    uint64_t days;

    switch (key) {
    case 'd':
        arguments->folder = value;
        return 0;
    case 'm':
        arguments->mesh = value;
        return 0;
    case 'n':
        arguments->name = value;
        return 0;
    case 't':
        if (!zlink_config_value_integer(value, 1, ZLINK_CERTS_DAYS, &days, &reason))
            argp_error(state, "--days: %s", reason.line);
        else
            arguments->days = (unsigned)days;
        return 0;
    case 'H':
        if (arguments->host_count == ZLINK_CERTS_HOSTS)
            argp_error(state, "--host: more than %d of them", ZLINK_CERTS_HOSTS);
        else
            arguments->hosts[arguments->host_count++] = value;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "what is '%s'?", value);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

#define OPTION_DIR                                                                                                     \
    {                                                                                                                  \
        "dir", 'd', "DIR", 0, "The folder of the authority and of what it signs", 0                                    \
    }
#define OPTION_DAYS                                                                                                    \
    {                                                                                                                  \
        "days", 't', "N", 0, "How many days it is valid", 0                                                            \
    }
#define OPTION_NAME                                                                                                    \
    {                                                                                                                  \
        "name", 'n', "NAME", 0, "The name in the mesh, [A-Za-z0-9._-]{1,64}", 0                                        \
    }

static const struct argp_option init_options[] = {
    OPTION_DIR, {"mesh", 'm', "MESH", 0, "The mesh's name, [A-Za-z0-9._-]{1,64}", 0}, OPTION_DAYS, {0}};

static const struct argp_option node_options[] = {
    OPTION_DIR,
    OPTION_NAME,
    OPTION_DAYS,
    {"host", 'H', "HOST", 0, "A DNS name or IP address to put in as well; may be given again", 0},
    {0}};

static const struct argp_option revoke_options[] = {OPTION_DIR, OPTION_NAME, {0}};

static const struct argp_option client_options[] = {OPTION_DIR, OPTION_NAME, OPTION_DAYS, {0}};

static const verb_t verbs[] = {
    {"init",
     "zlinkctl certs init",
     {.options = init_options, .parser = parse_option, .doc = "Make a mesh's authority: ca.pem and ca.key"},
     false,
     false,
     ZLINK_CERTS_NODE},
    {"node",
     "zlinkctl certs node",
     {.options = node_options, .parser = parse_option, .doc = "Make a node's certificate: NAME.pem and NAME.key"},
     true,
     false,
     ZLINK_CERTS_NODE},
    {"client",
     "zlinkctl certs client",
     {.options = client_options, .parser = parse_option, .doc = "Make a client's certificate: NAME.pem and NAME.key"},
     true,
     false,
     ZLINK_CERTS_CLIENT},
    {"revoke",
     "zlinkctl certs revoke",
     {.options = revoke_options, .parser = parse_option, .doc = "Put the certificate NAME.pem on the list crl.pem"},
     true,
     true,
     ZLINK_CERTS_NODE},
};

static void print_use(FILE *stream)
{
    fputs("Usage: zlinkctl certs init --dir DIR --mesh MESH [--days N]\n"
          "       zlinkctl certs node --dir DIR --name NAME [--days N] [--host DNS-OR-IP ...]\n"
          "       zlinkctl certs client --dir DIR --name NAME [--days N]\n"
          "       zlinkctl certs revoke --dir DIR --name NAME\n",
          stream);
}

static zlink_status_t make(const verb_t *verb, const arguments_t *arguments, zlink_certs_made_t *made,
                           zlink_refusal_t *why)
{
    const zlink_certs_request_t request = {.kind = verb->kind,
                                           .folder = arguments->folder,
                                           .name = arguments->name,
                                           .days = arguments->days,
                                           .hosts = arguments->hosts,
                                           .host_count = arguments->host_count};

    if (verb->revokes)
        return zlink_certs_revoke(arguments->folder, arguments->name, made, why);
    if (verb->wants_name)
        return zlink_certs_make_leaf(&request, made, why);
    return zlink_certs_make_authority(arguments->folder, arguments->mesh, arguments->days, made, why);
}

static int run(const verb_t *verb, const arguments_t *arguments)
{
    zlink_certs_made_t made;
    zlink_refusal_t why = {{0}};
    const char *missing = NULL;

    if (arguments->folder == NULL)
        missing = "--dir";
    else if (verb->wants_name && arguments->name == NULL)
        missing = "--name";
    else if (!verb->wants_name && arguments->mesh == NULL)
        missing = "--mesh";
    if (missing != NULL) {
        fprintf(stderr, "%s: %s is required\n", verb->program, missing);
        return EXIT_BAD_USE;
    }
    switch (make(verb, arguments, &made, &why)) {
    case ZLINK_OK:
        if (verb->revokes)
            printf("%s: %s is on it; give it to every node as tls.crl and send the nodes SIGHUP\n", made.key_file,
                   made.certificate_file);
        else
            printf("%s: %s, valid until %s\n%s: its key, for this owner only\n", made.certificate_file, made.identity,
                   made.expires_at, made.key_file);
        return EXIT_SUCCESS;
    case ZLINK_ALREADY_EXISTS:
    case ZLINK_INVALID_OPERATION:
        fprintf(stderr, "%s: %s\n", verb->program, why.line);
        return EXIT_BAD_USE;
    default:
        fprintf(stderr, "%s: %s\n", verb->program, why.line);
        return EXIT_FAILURE;
    }
}

int zlink_ctl_certs(int argc, char **argv)
{
    arguments_t arguments = {0};
    char program[64];

    if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-?") == 0)) {
        print_use(stdout);
        return EXIT_SUCCESS;
    }
    for (size_t i = 0; argc >= 2 && i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (strcmp(argv[1], verbs[i].name) != 0)
            continue;
        snprintf(program, sizeof(program), "%s", verbs[i].program);
        argv[1] = program; /* argp shows it in its messages */
        argp_err_exit_status = EXIT_BAD_USE;
        if (argp_parse(&verbs[i].argp, argc - 1, argv + 1, 0, NULL, &arguments) != 0)
            return EXIT_BAD_USE;
        return run(&verbs[i], &arguments);
    }
    print_use(stderr);
    return EXIT_BAD_USE;
}
