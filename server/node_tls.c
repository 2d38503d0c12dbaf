#include "server/node_tls.h"

#include <string.h>

#include "base/log.h"
#include "server/node.h"

/* A refusal of TLS names the file; the person also wants to know which setting named that. */
static const char *tls_setting(const zlink_config_t *config, const char *line)
{
    const struct {
        const char *file, *setting;
    } settings[] = {
        {config->tls.certificate, "tls.certificate"},
        {config->tls.key, "tls.key"},
        {config->tls.ca, "tls.ca"},
        {config->tls.crl, "tls.crl"},
    };
    const char *first = NULL, *setting = "tls";
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        const char *found = settings[i].file ? strstr(line, settings[i].file) : NULL;
        if (found && (!first || found < first)) {
            first = found;
            setting = settings[i].setting;
        }
    }
    return setting;
}

zlink_status_t zlink_node_tls_open(const zlink_config_t *config, const char *config_path, zlink_tls_context_t **tls,
                                   zlink_refusal_t *why)
{
    const zlink_tls_options_t options = {
        .ca_file = config->tls.ca,
        .certificate_file = config->tls.certificate,
        .key_file = config->tls.key,
        .crl_file = config->tls.crl,
        .allow = config->tls.allow,
        .allow_count = config->tls.allow_count,
    };
    *tls = NULL;
    if (config->transport == ZLINK_CONFIG_PLAIN)
        return ZLINK_OK;
    zlink_status_t status = zlink_tls_context_create(&options, tls, why);
    if (status != ZLINK_OK) {
        zlink_refusal_prefix(why, "%s: %s: ", config_path, tls_setting(config, why->line));
        return status;
    }
    const zlink_peer_identity_t *identity = zlink_tls_context_identity(*tls);
    if (strcmp(identity->mesh, config->mesh) != 0)
        zlink_refuse(why, "%s: tls.certificate: it belongs to mesh %s, not to %s", config_path, identity->mesh,
                     config->mesh);
    else if (strcmp(identity->name, config->name) != 0)
        zlink_refuse(why, "%s: tls.certificate: it belongs to node %s, not to %s", config_path, identity->name,
                     config->name);
    else
        return ZLINK_OK;
    zlink_tls_context_release(*tls);
    *tls = NULL;
    return ZLINK_NOT_CONFIGURED;
}

/* What zlink_reactor_call brings to the reactor thread. */
typedef struct zlink_tls_errand {
    zlink_node_t *node;
    zlink_tls_context_t *tls;
    size_t ended;
} zlink_tls_errand_t;

static void put_in_force(void *context)
{
    zlink_tls_errand_t *errand = context;
    errand->ended = zlink_mesh_set_tls(errand->node->mesh, errand->tls);
    if (errand->node->client_servers)
        errand->ended += zlink_client_servers_set_tls(errand->node->client_servers, errand->tls);
}

void zlink_node_tls_reload(zlink_node_t *node, const char *config_path)
{
    zlink_tls_errand_t errand = {.node = node};
    zlink_refusal_t why = {""};

    if (node->config->transport == ZLINK_CONFIG_PLAIN) {
        zlink_log(ZLINK_LOG_WARN, "zlink.tls.not_reloaded", ZLINK_LOG_S("reason", "the transport is plain"));
        return;
    }
    if (zlink_node_tls_open(node->config, config_path, &errand.tls, &why) != ZLINK_OK) {
        zlink_log(ZLINK_LOG_ERROR, "zlink.tls.not_reloaded", ZLINK_LOG_S("reason", why.line));
        return;
    }
    zlink_reactor_call(node->reactor, put_in_force, &errand);
    zlink_tls_context_release(node->tls);
    node->tls = errand.tls;
    zlink_log(ZLINK_LOG_INFO, "zlink.tls.reloaded", ZLINK_LOG_I("ended", (int64_t)errand.ended),
              ZLINK_LOG_I("expires_at", zlink_tls_context_expires_at(node->tls)));
}
