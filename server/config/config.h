/*
 * server/config/config.h: what one node was told to be: its configuration file, read, checked and in C.
 *
 * zlink_config_load() reads a YAML file and answers a configuration in which every value is in its range and every
 * default is filled in, or refuses it with one line, "FILE:LINE: KEY: reason" (without the line where the
 * trouble is something that is missing). The result belongs to the caller, never changes and may be read by any thread;
 * free it after everything that reads it has ended. Paths that the file names are relative to the file's folder, and
 * stand here in a form that may be opened as it is.
 */
#ifndef ZLINK_SERVER_CONFIG_H
#define ZLINK_SERVER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zlink/status.h>

#include "base/log.h"
#include "base/refusal.h"

#define ZLINK_CONFIG_FILE_BYTES     (1024 * 1024)
#define ZLINK_CONFIG_MODULES        64
#define ZLINK_CONFIG_PEERS          1024
#define ZLINK_CONFIG_SPOTS          1024
#define ZLINK_CONFIG_CHANNELS       1024
#define ZLINK_CONFIG_CLIENT_SERVERS 64
#define ZLINK_CONFIG_WEIGHT         100
#define ZLINK_CONFIG_WEIGHT_MAX     10000
#define ZLINK_CONFIG_ALLOW          4096
#define ZLINK_CONFIG_CONTROL_BYTES  100

typedef enum zlink_config_transport {
    ZLINK_CONFIG_TLS = 0,
    ZLINK_CONFIG_PLAIN, /* neither encrypted nor authenticated */
} zlink_config_transport_t;

/* What this node is for objects or in a channel: one that calls, or one that is called as well. */
typedef enum zlink_config_role {
    ZLINK_CONFIG_SERVER = 0,
    ZLINK_CONFIG_CLIENT,
} zlink_config_role_t;

typedef struct zlink_config_channel {
    const char *name;
    zlink_config_role_t role;
    uint32_t weight; /* 0..ZLINK_CONFIG_WEIGHT_MAX; ZLINK_CONFIG_WEIGHT where nothing is said */
} zlink_config_channel_t;

/* What this node is in a ClientServer channel: bits. */
typedef enum zlink_config_side {
    ZLINK_CONFIG_SIDE_CLIENT = 1,
    ZLINK_CONFIG_SIDE_SERVER = 2,
    ZLINK_CONFIG_SIDE_BOTH = 3,
} zlink_config_side_t;

/* One or both sides of a ClientServer channel. A process has each side of a channel once, in one entry or in two. */
typedef struct zlink_config_client_server {
    const char *channel;
    bool client, server;
    const char *listen;    /* of a server; else NULL, as is the next one */
    const char *advertise; /* or NULL: the address that was bound */
    uint32_t weight;
    const char *const *servers;          /* of a client: addresses to dial, beside the server of this process … */
    const char *const *expected_servers; /* … and who is to answer; an entry is NULL: anybody */
    size_t server_count;
    uint32_t send_timeout_ms; /* of its client; 0: that of the node */
} zlink_config_client_server_t;

/* Where the Spots of a type live that this node does not host. */
typedef struct zlink_config_spot {
    char *type;
    char *node;
} zlink_config_spot_t;

typedef struct zlink_config_limits {
    uint32_t message_bytes;               /* one message, envelope and payload */
    uint32_t spots;                       /* live Spots of this node */
    uint32_t pending_operations;          /* calls that have left and not ended */
    uint32_t max_queued_application_jobs; /* permits for work from the network; 0: by the profile */
    uint32_t jobs_per_core;               /* of the application job queue's profile */
    uint32_t pause_percent;               /* of the permits, from which on peers pause … */
    uint32_t resume_percent;              /* … and at which they go on; less than that */
    uint32_t stacks;                      /* live handler stacks; 0 = what the kernel allows */
    uint32_t stack_bytes;
    uint32_t outbound_bytes; /* waiting to be sent on one connection … */
    uint32_t inbound_bytes;  /* … and received and not read */
    uint32_t connections;    /* that came in, open at once; also those that are not authenticated */
    uint32_t connections_per_address;
    uint32_t handshakes;         /* of these, not handshaken yet */
    uint32_t handshakes_waiting; /* for their first turn with a helper */
    uint32_t handshake_threads;
    uint32_t application_messages;
    uint64_t application_bytes;
    uint32_t lifecycle_messages;
    uint64_t lifecycle_bytes;
    uint32_t cpu_works;      /* that wait for a CPU worker */
    uint64_t cpu_work_bytes; /* inputs and outputs of what waits and runs */
    uint32_t io_works;       /* begun and not completed */
} zlink_config_limits_t;

typedef struct zlink_config {
    const char *mesh;
    const char *name;
    const char *listen;    /* "host:port", or NULL: this node only dials */
    const char *advertise; /* what others should dial, or NULL: the address that was bound */
    const char *control;   /* path of the control socket, or NULL: none */
    const char *const *modules;
    size_t module_count;
    const char *const *peers;          /* addresses to dial … */
    const char *const *expected_peers; /* … and who is to answer, by name or node id; an entry is NULL: anybody */
    size_t peer_count;
    zlink_config_role_t object_role;
    const zlink_config_channel_t *channels; /* those of which the file says something */
    size_t channel_count;
    const zlink_config_client_server_t *client_servers;
    size_t client_server_count;
    const zlink_config_spot_t *spots;
    size_t spot_count;
    zlink_config_transport_t transport;
    struct {
        const char *ca; /* all three NULL with ZLINK_CONFIG_PLAIN */
        const char *certificate;
        const char *key;
        const char *crl;          /* NULL: none */
        const char *const *allow; /* names that may link; NULL: all of the mesh */
        size_t allow_count;
    } tls;
    uint32_t workers; /* 0 = as many as cores */
    uint32_t cpu_workers_min;
    uint32_t cpu_workers_max; /* 0 = twice the cores, at least 2 */
    uint32_t cpu_workers_idle_ms;
    uint32_t request_timeout_ms;
    uint32_t send_timeout_ms;
    uint32_t shutdown_timeout_ms;
    uint32_t owner_time_budget_ms;
    zlink_config_limits_t limits;
    zlink_log_level_t log_level;
    struct zlink_config_raw *raw; /* owns the texts above */
} zlink_config_t;

/* Reads and checks the file, also that the files it names can be read. ZLINK_NOT_CONFIGURED: refused, see `why`;
 * ZLINK_CAPACITY_EXCEEDED: no memory. */
zlink_status_t zlink_config_load(const char *path, zlink_config_t **config, zlink_refusal_t *why);

/* The same from memory, and without looking at any file. `name` stands in for the file's path. */
zlink_status_t zlink_config_parse(const char *text, size_t size, const char *name, zlink_config_t **config,
                                  zlink_refusal_t *why);

/* NULL is allowed. */
void zlink_config_free(zlink_config_t *config);

#endif
