/*
 * server/config/config_schema.h: the keys that a configuration file may hold, as libcyaml is told them.
 *
 * This is the one list of keys: config_shape checks a file against it and libcyaml fills the raw structs by it. All
 * numbers, durations and sizes arrive as text, because libcyaml's own reading of them guesses. A key that the
 * file does not hold is NULL. Immutable; any thread.
 */
#ifndef ZLINK_SERVER_CONFIG_SCHEMA_H
#define ZLINK_SERVER_CONFIG_SCHEMA_H

#include <cyaml/cyaml.h>

#include "server/config/config.h"

typedef struct zlink_config_raw_tls {
    char *ca;
    char *certificate;
    char *key;
    char *crl;
    char **allow;
    unsigned allow_count;
} zlink_config_raw_tls_t;

typedef struct zlink_config_raw_limits {
    char *message_bytes;
    char *spots;
    char *pending_operations;
    char *max_queued_application_jobs;
    char *application_job_queue_profile;
    char *pause_percent;
    char *resume_percent;
    char *stacks;
    char *stack_bytes;
    char *outbound_bytes;
    char *inbound_bytes;
    char *connections;
    char *connections_per_address;
    char *handshakes;
    char *handshakes_waiting;
    char *handshake_threads;
    char *application_messages;
    char *application_bytes;
    char *lifecycle_messages;
    char *lifecycle_bytes;
    char *cpu_works;
    char *cpu_work_bytes;
    char *io_works;
} zlink_config_raw_limits_t;

typedef struct zlink_config_raw_channel {
    char *name;
    zlink_config_role_t *role;
    char *weight;
} zlink_config_raw_channel_t;

typedef struct zlink_config_raw_client_server {
    char *channel;
    zlink_config_side_t *role;
    char *listen;
    char *advertise;
    char **servers;
    unsigned servers_count;
    char *weight;
    char *send_timeout;
} zlink_config_raw_client_server_t;

typedef struct zlink_config_raw_log {
    zlink_log_level_t *level;
} zlink_config_raw_log_t;

typedef struct zlink_config_raw {
    char *mesh;
    char *name;
    char *listen;
    char *advertise;
    char *control;
    char **modules;
    unsigned modules_count;
    char **peers;
    unsigned peers_count;
    zlink_config_role_t *object_role;
    zlink_config_raw_channel_t *channels;
    unsigned channels_count;
    zlink_config_raw_client_server_t *client_servers;
    unsigned client_servers_count;
    zlink_config_spot_t *spots;
    unsigned spots_count;
    zlink_config_transport_t *transport;
    zlink_config_raw_tls_t *tls;
    char *workers;
    char *cpu_workers_min;
    char *cpu_workers_max;
    char *cpu_workers_idle;
    char *request_timeout;
    char *send_timeout;
    char *shutdown_timeout;
    char *owner_time_budget;
    zlink_config_raw_limits_t *limits;
    zlink_config_raw_log_t *log;
} zlink_config_raw_t;

extern const cyaml_schema_value_t zlink_config_schema;

#endif
