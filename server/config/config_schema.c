#include "server/config/config_schema.h"

#define TEXT_BYTES 4000 /* a path still has room for its folder below PATH_MAX */
#define NAME_BYTES 255  /* a Spot type's or channel's name */

#define REQUIRED CYAML_FLAG_POINTER
#define OPTIONAL (CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL)

#define TEXT(STRUCT, MEMBER, FLAGS) CYAML_FIELD_STRING_PTR(#MEMBER, FLAGS, STRUCT, MEMBER, 1, TEXT_BYTES)

static const cyaml_strval_t transports[] = {
    {"tls", ZLINK_CONFIG_TLS},
    {"plain-without-encryption-or-authentication", ZLINK_CONFIG_PLAIN},
};

static const cyaml_strval_t roles[] = {
    {"server", ZLINK_CONFIG_SERVER},
    {"client", ZLINK_CONFIG_CLIENT},
};

static const cyaml_strval_t sides[] = {
    {"client", ZLINK_CONFIG_SIDE_CLIENT},
    {"server", ZLINK_CONFIG_SIDE_SERVER},
    {"both", ZLINK_CONFIG_SIDE_BOTH},
};

static const cyaml_strval_t log_levels[] = {
    {"debug", ZLINK_LOG_DEBUG}, {"info", ZLINK_LOG_INFO}, {"warn", ZLINK_LOG_WARN},
    {"error", ZLINK_LOG_ERROR}, {"off", ZLINK_LOG_OFF},
};

static const cyaml_schema_value_t text_entry = {CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 1, TEXT_BYTES)};

static const cyaml_schema_field_t spot_fields[] = {
    CYAML_FIELD_STRING_PTR("type", REQUIRED, zlink_config_spot_t, type, 1, NAME_BYTES),
    TEXT(zlink_config_spot_t, node, REQUIRED),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t spot_entry = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, zlink_config_spot_t, spot_fields)};

static const cyaml_schema_field_t channel_fields[] = {
    CYAML_FIELD_STRING_PTR("name", REQUIRED, zlink_config_raw_channel_t, name, 1, NAME_BYTES),
    CYAML_FIELD_ENUM_PTR("role", OPTIONAL | CYAML_FLAG_STRICT, zlink_config_raw_channel_t, role, roles,
                         CYAML_ARRAY_LEN(roles)),
    TEXT(zlink_config_raw_channel_t, weight, OPTIONAL),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t channel_entry = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, zlink_config_raw_channel_t, channel_fields)};

static const cyaml_schema_field_t client_server_fields[] = {
    CYAML_FIELD_STRING_PTR("channel", REQUIRED, zlink_config_raw_client_server_t, channel, 1, NAME_BYTES),
    CYAML_FIELD_ENUM_PTR("role", REQUIRED | CYAML_FLAG_STRICT, zlink_config_raw_client_server_t, role, sides,
                         CYAML_ARRAY_LEN(sides)),
    TEXT(zlink_config_raw_client_server_t, listen, OPTIONAL),
    TEXT(zlink_config_raw_client_server_t, advertise, OPTIONAL),
    CYAML_FIELD_SEQUENCE("servers", OPTIONAL, zlink_config_raw_client_server_t, servers, &text_entry, 0,
                         ZLINK_CONFIG_PEERS),
    TEXT(zlink_config_raw_client_server_t, weight, OPTIONAL),
    TEXT(zlink_config_raw_client_server_t, send_timeout, OPTIONAL),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t client_server_entry = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, zlink_config_raw_client_server_t, client_server_fields)};

static const cyaml_schema_field_t tls_fields[] = {
    TEXT(zlink_config_raw_tls_t, ca, REQUIRED),
    TEXT(zlink_config_raw_tls_t, certificate, REQUIRED),
    TEXT(zlink_config_raw_tls_t, key, REQUIRED),
    TEXT(zlink_config_raw_tls_t, crl, OPTIONAL),
    CYAML_FIELD_SEQUENCE("allow", OPTIONAL, zlink_config_raw_tls_t, allow, &text_entry, 1, ZLINK_CONFIG_ALLOW),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t limit_fields[] = {
    TEXT(zlink_config_raw_limits_t, message_bytes, OPTIONAL),
    TEXT(zlink_config_raw_limits_t, spots, OPTIONAL),
    TEXT(zlink_config_raw_limits_t, pending_operations, OPTIONAL),
    TEXT(zlink_config_raw_limits_t, max_queued_application_jobs, OPTIONAL),
    TEXT(zlink_config_raw_limits_t, application_job_queue_profile, OPTIONAL),
    TEXT(zlink_config_raw_limits_t, pause_percent, OPTIONAL),
    TEXT(zlink_config_raw_limits_t, resume_percent, OPTIONAL),
    TEXT(zlink_config_raw_limits_t, stacks, OPTIONAL),
    TEXT(zlink_config_raw_limits_t, stack_bytes, OPTIONAL),
    TEXT(zlink_config_raw_limits_t, outbound_bytes, OPTIONAL),
    TEXT(zlink_config_raw_limits_t, inbound_bytes, OPTIONAL),
    TEXT(zlink_config_raw_limits_t, connections, OPTIONAL),
    TEXT(zlink_config_raw_limits_t, connections_per_address, OPTIONAL),
    TEXT(zlink_config_raw_limits_t, handshakes, OPTIONAL),
    TEXT(zlink_config_raw_limits_t, handshakes_waiting, OPTIONAL),
    TEXT(zlink_config_raw_limits_t, handshake_threads, OPTIONAL),
    TEXT(zlink_config_raw_limits_t, application_messages, OPTIONAL),
    TEXT(zlink_config_raw_limits_t, application_bytes, OPTIONAL),
    TEXT(zlink_config_raw_limits_t, lifecycle_messages, OPTIONAL),
    TEXT(zlink_config_raw_limits_t, lifecycle_bytes, OPTIONAL),
    TEXT(zlink_config_raw_limits_t, cpu_works, OPTIONAL),
    TEXT(zlink_config_raw_limits_t, cpu_work_bytes, OPTIONAL),
    TEXT(zlink_config_raw_limits_t, io_works, OPTIONAL),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t log_fields[] = {
    CYAML_FIELD_ENUM_PTR("level", OPTIONAL | CYAML_FLAG_STRICT, zlink_config_raw_log_t, level, log_levels,
                         CYAML_ARRAY_LEN(log_levels)),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t root_fields[] = {
    TEXT(zlink_config_raw_t, mesh, REQUIRED),
    TEXT(zlink_config_raw_t, name, REQUIRED),
    TEXT(zlink_config_raw_t, listen, OPTIONAL),
    TEXT(zlink_config_raw_t, advertise, OPTIONAL),
    TEXT(zlink_config_raw_t, control, OPTIONAL),
    CYAML_FIELD_SEQUENCE("modules", OPTIONAL, zlink_config_raw_t, modules, &text_entry, 0, ZLINK_CONFIG_MODULES),
    CYAML_FIELD_SEQUENCE("peers", OPTIONAL, zlink_config_raw_t, peers, &text_entry, 0, ZLINK_CONFIG_PEERS),
    CYAML_FIELD_ENUM_PTR("object_role", OPTIONAL | CYAML_FLAG_STRICT, zlink_config_raw_t, object_role, roles,
                         CYAML_ARRAY_LEN(roles)),
    CYAML_FIELD_SEQUENCE("channels", OPTIONAL, zlink_config_raw_t, channels, &channel_entry, 0, ZLINK_CONFIG_CHANNELS),
    CYAML_FIELD_SEQUENCE("client_servers", OPTIONAL, zlink_config_raw_t, client_servers, &client_server_entry, 0,
                         ZLINK_CONFIG_CLIENT_SERVERS),
    CYAML_FIELD_SEQUENCE("spots", OPTIONAL, zlink_config_raw_t, spots, &spot_entry, 0, ZLINK_CONFIG_SPOTS),
    CYAML_FIELD_ENUM_PTR("transport", OPTIONAL | CYAML_FLAG_STRICT, zlink_config_raw_t, transport, transports,
                         CYAML_ARRAY_LEN(transports)),
    CYAML_FIELD_MAPPING_PTR("tls", OPTIONAL, zlink_config_raw_t, tls, tls_fields),
    TEXT(zlink_config_raw_t, workers, OPTIONAL),
    TEXT(zlink_config_raw_t, cpu_workers_min, OPTIONAL),
    TEXT(zlink_config_raw_t, cpu_workers_max, OPTIONAL),
    TEXT(zlink_config_raw_t, cpu_workers_idle, OPTIONAL),
    TEXT(zlink_config_raw_t, request_timeout, OPTIONAL),
    TEXT(zlink_config_raw_t, send_timeout, OPTIONAL),
    TEXT(zlink_config_raw_t, shutdown_timeout, OPTIONAL),
    TEXT(zlink_config_raw_t, owner_time_budget, OPTIONAL),
    CYAML_FIELD_MAPPING_PTR("limits", OPTIONAL, zlink_config_raw_t, limits, limit_fields),
    CYAML_FIELD_MAPPING_PTR("log", OPTIONAL, zlink_config_raw_t, log, log_fields),
    CYAML_FIELD_END,
};

const cyaml_schema_value_t zlink_config_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, zlink_config_raw_t, root_fields)};
