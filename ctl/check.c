#include "ctl/check.h"

#include <argp.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "net/ring_features.h"
#include "net/tls_context.h"
#include "server/config/config.h"
#include "server/config/module_file.h"

#define EXIT_BAD_USE 2
#define DAY_S        86400

typedef struct arguments {
    const char *config;
    bool io;
} arguments_t;

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    arguments_t *arguments = state->input;

    switch (key) {
    case 'c':
        arguments->config = value;
        return 0;
    case 'i':
        arguments->io = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "what is '%s'?", value);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"config", 'c', "FILE", 0, "Read this configuration, the TLS files and the modules that it names", 0},
    {"io", 'i', NULL, 0, "Ask the kernel for an io_uring ring (what happens without --config, too)", 0},
    {0},
};

static const struct argp check_argp = {
    .options = options,
    .parser = parse_option,
    .doc = "Would a node start here? Prints what was found; a line for each problem, and exit code 1, where it would "
           "not.",
};

/* The certificate says who this node is; a configuration that says something else would be refused by every peer. */
static bool check_identity(const char *file, const zlink_config_t *config, const zlink_peer_identity_t *identity)
{
    bool same = true;

    if (strcmp(identity->mesh, config->mesh) != 0) {
        fprintf(stderr, "%s: mesh: is '%s', but the certificate is for '%s'\n", file, config->mesh, identity->mesh);
        same = false;
    }
    if (strcmp(identity->name, config->name) != 0) {
        fprintf(stderr, "%s: name: is '%s', but the certificate is for '%s'\n", file, config->name, identity->name);
        same = false;
    }
    return same;
}

static bool check_tls(const char *file, const zlink_config_t *config)
{
    const zlink_tls_options_t tls = {.ca_file = config->tls.ca,
                                     .certificate_file = config->tls.certificate,
                                     .key_file = config->tls.key,
                                     .crl_file = config->tls.crl,
                                     .allow = config->tls.allow,
                                     .allow_count = config->tls.allow_count};
    zlink_tls_context_t *context = NULL;
    zlink_refusal_t why = {{0}};
    long long days;
    bool good;

    if (zlink_tls_context_create(&tls, &context, &why) != ZLINK_OK) {
        fprintf(stderr, "%s: %s\n", file, why.line);
        return false;
    }
    good = check_identity(file, config, zlink_tls_context_identity(context));
    days = ((long long)zlink_tls_context_expires_at(context) - (long long)time(NULL)) / DAY_S;
    if (good)
        printf("%s: the certificate is valid for %lld more days\n", file, days);
    zlink_tls_context_release(context);
    return good;
}

/* Modules find the library where the node has loaded it already. Where it is not installed they may bring it. */
static void load_library(void)
{
    (void)dlopen("libzlink.so.0", RTLD_NOW | RTLD_GLOBAL);
}

/* What can be seen without running a module's code: that it can be loaded, and was built for this version. */
static bool check_modules(const char *file, const zlink_config_t *config)
{
    bool good = true;

    load_library();
    for (size_t i = 0; i < config->module_count; i++) {
        const zlink_module_descriptor_t *descriptor = NULL;
        zlink_refusal_t why = {{0}};

        if (zlink_module_file_open(config->modules[i], &descriptor, &why) == ZLINK_OK) {
            printf("%s: modules[%zu]: %s is a module, '%s'\n", file, i, config->modules[i], descriptor->name);
        } else {
            fprintf(stderr, "%s: modules[%zu]: %s\n", file, i, why.line);
            good = false;
        }
    }
    return good;
}

static bool check_config(const char *file)
{
    zlink_config_t *config = NULL;
    zlink_refusal_t why = {{0}};
    bool good = true;

    if (zlink_config_load(file, &config, &why) != ZLINK_OK) {
        fprintf(stderr, "%s\n", why.line);
        return false;
    }
    if (config->transport == ZLINK_CONFIG_PLAIN)
        printf("%s: transport: connections are neither encrypted nor authenticated\n", file);
    else
        good = check_tls(file, config);
    good = check_modules(file, config) && good;
    if (good)
        printf("%s: node '%s' of mesh '%s' is well configured\n", file, config->name, config->mesh);
    zlink_config_free(config);
    return good;
}

static bool check_io(void)
{
    zlink_ring_report_t report = {0};

    zlink_ring_probe(&report);
    fprintf(report.usable ? stdout : stderr, "%s\n", report.line);
    return report.usable;
}

int zlink_ctl_check(int argc, char **argv)
{
    static char program[] = "zlinkctl check";
    arguments_t arguments = {0};
    bool good = true;

    if (argc < 1)
        return EXIT_BAD_USE;
    argv[0] = program; /* argp shows it in its messages */
    argp_err_exit_status = EXIT_BAD_USE;
    if (argp_parse(&check_argp, argc, argv, 0, NULL, &arguments) != 0)
        return EXIT_BAD_USE;
    if (arguments.config != NULL)
        good = check_config(arguments.config);
    if (arguments.io || arguments.config == NULL)
        good = check_io() && good;
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
