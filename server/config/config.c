#include "server/config/config.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "server/config/config_client_servers.h"
#include "server/config/config_schema.h"
#include "server/config/config_shape.h"
#include "server/config/config_value.h"

#define COUNT_OF(ARRAY) (sizeof(ARRAY) / sizeof((ARRAY)[0]))
#define KIB             1024ull
#define MIB             (1024ull * KIB)
#define GIB             (1024ull * MIB)

#define CONNECTION_BYTES 4096000ull /* in each direction */

/* One configuration in the making. Only reads `text`, which is kept for the line numbers of refusals. */
typedef struct reading {
    const char *text;
    size_t size;
    const char *name;
    zlink_refusal_t *why;
    zlink_config_raw_t *raw;
    zlink_config_t *config;
    zlink_status_t status;
} reading_t;

static void *config_memory(void *context, void *pointer, size_t size)
{
    (void)context;
    if (size == 0) {
        zlink_free(pointer);
        return NULL;
    }
    return zlink_realloc(pointer, size);
}

static const cyaml_config_t cyaml = {.mem_fn = config_memory, .flags = CYAML_CFG_NO_ALIAS};

static bool refuse(reading_t *reading, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Always false. The key's line is looked up where the key stands in the file. */
static bool refuse(reading_t *reading, const char *path, const char *format, ...)
{
    size_t line = zlink_config_shape_line(reading->text, reading->size, &zlink_config_schema, path);
    zlink_refusal_t reason;
    char position[32] = "";
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(reason.line, sizeof(reason.line), format, arguments);
    va_end(arguments);
    if (line != 0)
        snprintf(position, sizeof(position), ":%zu", line);
    zlink_refuse(reading->why, "%s%s: %s: %s", reading->name, position, path, reason.line);
    reading->status = ZLINK_NOT_CONFIGURED;
    return false;
}

static bool refuse_memory(reading_t *reading)
{
    zlink_refuse(reading->why, "%s: no memory to read it", reading->name);
    reading->status = ZLINK_CAPACITY_EXCEEDED;
    return false;
}

typedef enum setting_kind { SETTING_INTEGER, SETTING_BYTES, SETTING_DURATION } setting_kind_t;

/* A number of the file: where its text is, where its value goes, what it may be. */
typedef struct setting {
    const char *path;
    setting_kind_t kind;
    size_t text_offset;
    size_t value_offset;
    size_t value_size;
    uint64_t fallback;
    uint64_t minimum;
    uint64_t maximum;
} setting_t;

#define SETTING(PATH, KIND, TEXT, VALUE, FALLBACK, MINIMUM, MAXIMUM)                                                   \
    {                                                                                                                  \
        PATH, KIND, offsetof(zlink_config_raw_t, TEXT), offsetof(zlink_config_t, VALUE),                               \
            sizeof(((zlink_config_t *)NULL)->VALUE), FALLBACK, MINIMUM, MAXIMUM                                        \
    }

#define LIMIT(KIND, MEMBER, FALLBACK, MINIMUM, MAXIMUM)                                                                \
    {                                                                                                                  \
        "limits." #MEMBER, KIND, offsetof(zlink_config_raw_limits_t, MEMBER), offsetof(zlink_config_t, limits.MEMBER), \
            sizeof(((zlink_config_t *)NULL)->limits.MEMBER), FALLBACK, MINIMUM, MAXIMUM                                \
    }

static const setting_t settings[] = {
    SETTING("workers", SETTING_INTEGER, workers, workers, 0, 0, 1024),
    SETTING("cpu_workers_min", SETTING_INTEGER, cpu_workers_min, cpu_workers_min, 0, 0, 1024),
    SETTING("cpu_workers_max", SETTING_INTEGER, cpu_workers_max, cpu_workers_max, 0, 0, 1024),
    SETTING("cpu_workers_idle", SETTING_DURATION, cpu_workers_idle, cpu_workers_idle_ms, 30000, 1, INT32_MAX),
    SETTING("request_timeout", SETTING_DURATION, request_timeout, request_timeout_ms, 30000, 1, INT32_MAX),
    SETTING("send_timeout", SETTING_DURATION, send_timeout, send_timeout_ms, 1000, 1, INT32_MAX),
    SETTING("shutdown_timeout", SETTING_DURATION, shutdown_timeout, shutdown_timeout_ms, 30000, 1, INT32_MAX),
    SETTING("owner_time_budget", SETTING_DURATION, owner_time_budget, owner_time_budget_ms, 10, 1, 10000),
};

/* The upper ends of the four lane limits are those of an execution lane policy. */
static const setting_t limits[] = {
    LIMIT(SETTING_BYTES, message_bytes, 16 * MIB, KIB, GIB),
    LIMIT(SETTING_INTEGER, spots, 1000000, 1, 100000000),
    LIMIT(SETTING_INTEGER, pending_operations, 65536, 1, 16777216),
    LIMIT(SETTING_INTEGER, max_queued_application_jobs, 0, 1, INT32_MAX),
    LIMIT(SETTING_INTEGER, pause_percent, 80, 1, 100),
    LIMIT(SETTING_INTEGER, resume_percent, 60, 0, 99),
    LIMIT(SETTING_INTEGER, stacks, 0, 0, 16777216),
    LIMIT(SETTING_BYTES, stack_bytes, 64 * KIB, 16 * KIB, 8 * MIB),
    LIMIT(SETTING_BYTES, outbound_bytes, CONNECTION_BYTES, 64 * KIB, 2 * GIB),
    LIMIT(SETTING_BYTES, inbound_bytes, CONNECTION_BYTES, 64 * KIB, 2 * GIB),
    LIMIT(SETTING_INTEGER, connections, 16384, 2, 4194304),
    LIMIT(SETTING_INTEGER, connections_per_address, 4096, 2, 4194304),
    LIMIT(SETTING_INTEGER, handshakes, 1024, 1, 65536),
    LIMIT(SETTING_INTEGER, handshakes_waiting, 256, 1, 65536),
    LIMIT(SETTING_INTEGER, handshake_threads, 1, 1, 16),
    LIMIT(SETTING_INTEGER, application_messages, 1024, 1, 16777215),
    LIMIT(SETTING_BYTES, application_bytes, 64 * MIB, 4 * KIB, 128 * GIB),
    LIMIT(SETTING_INTEGER, lifecycle_messages, 128, 1, 16777215),
    LIMIT(SETTING_BYTES, lifecycle_bytes, 4 * MIB, 4 * KIB, 128 * GIB),
    LIMIT(SETTING_INTEGER, cpu_works, 1024, 1, 16777216),
    LIMIT(SETTING_BYTES, cpu_work_bytes, 64 * MIB, 4 * MIB, 128 * GIB),
    LIMIT(SETTING_INTEGER, io_works, 65536, 1, 16777216),
};

static bool read_number(setting_kind_t kind, const char *text, const setting_t *setting, uint64_t *value,
                        zlink_refusal_t *why)
{
    switch (kind) {
    case SETTING_INTEGER:
        return zlink_config_value_integer(text, setting->minimum, setting->maximum, value, why);
    case SETTING_BYTES:
        return zlink_config_value_bytes(text, setting->minimum, setting->maximum, value, why);
    case SETTING_DURATION:
        return zlink_config_value_duration_ms(text, setting->minimum, setting->maximum, value, why);
    }
    return false;
}

/* `raw` is the struct that the settings' texts are in; NULL where the file does not hold it. */
static bool read_settings(reading_t *reading, const setting_t *list, size_t count, const void *raw)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t value = list[i].fallback;
        const char *text = NULL;
        zlink_refusal_t reason;
        char *target = (char *)reading->config + list[i].value_offset;

        if (raw != NULL)
            memcpy(&text, (const char *)raw + list[i].text_offset, sizeof(text));
        if (text != NULL && !read_number(list[i].kind, text, &list[i], &value, &reason))
            return refuse(reading, list[i].path, "%s", reason.line);
        if (list[i].value_size == sizeof(uint32_t))
            memcpy(target, &(uint32_t){(uint32_t)value}, sizeof(uint32_t));
        else
            memcpy(target, &value, sizeof(value));
    }
    return true;
}

static bool check_name(reading_t *reading, const char *path, const char *text)
{
    zlink_refusal_t reason;

    return zlink_config_value_name(text, &reason) || refuse(reading, path, "%s", reason.line);
}

/* An address that somebody dials: a real port and a host that is one. */
static bool check_dialled(reading_t *reading, const char *path, const char *text)
{
    zlink_refusal_t reason;

    return zlink_config_value_dialled(text, &reason) || refuse(reading, path, "%s", reason.line);
}

static bool check_listen(reading_t *reading)
{
    const zlink_config_raw_t *raw = reading->raw;
    zlink_config_address_t address;
    zlink_refusal_t reason;

    if (raw->advertise != NULL && raw->listen == NULL)
        return refuse(reading, "advertise", "is given without listen");
    if (raw->advertise != NULL && !check_dialled(reading, "advertise", raw->advertise))
        return false;
    if (raw->listen == NULL)
        return true;
    if (!zlink_config_value_address(raw->listen, &address, &reason))
        return refuse(reading, "listen", "%s", reason.line);
    if (address.wildcard && raw->advertise == NULL)
        return refuse(reading, "listen", "'%s' takes calls on every address, so advertise must say which one to dial",
                      raw->listen);
    return true;
}

static bool check_peers(reading_t *reading)
{
    const zlink_config_raw_t *raw = reading->raw;
    const char **peers = zlink_calloc(2 * (size_t)raw->peers_count + 1, sizeof(*peers));
    const char **expected = peers + raw->peers_count; /* in the same piece of memory */
    zlink_refusal_t reason;
    char path[32];

    if (peers == NULL)
        return refuse_memory(reading);
    reading->config->peers = peers;
    for (unsigned i = 0; i < raw->peers_count; i++) {
        snprintf(path, sizeof(path), "peers[%u]", i);
        const char *address = zlink_config_value_peer(raw->peers[i], &reason);
        if (address == NULL)
            return refuse(reading, path, "%s", reason.line);
        if (!check_dialled(reading, path, address))
            return false;
        for (unsigned earlier = 0; earlier < i; earlier++) {
            if (strcasecmp(peers[earlier], address) == 0)
                return refuse(reading, path, "is the same as peers[%u]", earlier);
        }
        peers[i] = address;
        if (address != raw->peers[i]) {
            raw->peers[i][address - raw->peers[i] - 1] = '\0'; /* the '@': what stands before it is a text of its own */
            expected[i] = raw->peers[i];
        }
    }
    reading->config->expected_peers = expected;
    reading->config->peer_count = raw->peers_count;
    return true;
}

/* A channel is in one mesh, which is the node's, and in one role. Whether the modules have it is not known here. */
static bool check_channels(reading_t *reading)
{
    const zlink_config_raw_t *raw = reading->raw;
    zlink_config_channel_t *channels = zlink_calloc(raw->channels_count + 1, sizeof(*channels));
    zlink_refusal_t reason;
    char path[40];

    if (channels == NULL)
        return refuse_memory(reading);
    reading->config->channels = channels;
    reading->config->channel_count = raw->channels_count;
    for (unsigned i = 0; i < raw->channels_count; i++) {
        const zlink_config_raw_channel_t *given = &raw->channels[i];
        uint64_t weight = ZLINK_CONFIG_WEIGHT;

        for (unsigned earlier = 0; earlier < i; earlier++) {
            snprintf(path, sizeof(path), "channels[%u].name", i);
            if (strcmp(channels[earlier].name, given->name) == 0)
                return refuse(reading, path, "is the same as channels[%u].name", earlier);
        }
        snprintf(path, sizeof(path), "channels[%u].weight", i);
        channels[i].name = given->name;
        channels[i].role = given->role == NULL ? ZLINK_CONFIG_SERVER : *given->role;
        if (given->weight != NULL && channels[i].role == ZLINK_CONFIG_CLIENT)
            return refuse(reading, path, "is given for a channel that this node only calls");
        if (given->weight != NULL &&
            !zlink_config_value_integer(given->weight, 0, ZLINK_CONFIG_WEIGHT_MAX, &weight, &reason))
            return refuse(reading, path, "%s", reason.line);
        channels[i].weight = (uint32_t)weight;
    }
    return true;
}

static bool check_client_servers(reading_t *reading)
{
    zlink_config_client_server_t *list = NULL;
    zlink_config_problem_t problem;

    if (!zlink_config_client_servers_read(reading->raw, &list, &problem))
        return problem.path[0] == '\0' ? refuse_memory(reading)
                                       : refuse(reading, problem.path, "%s", problem.reason.line);
    reading->config->client_servers = list;
    reading->config->client_server_count = reading->raw->client_servers_count;
    return true;
}

static bool check_spots(reading_t *reading)
{
    const zlink_config_raw_t *raw = reading->raw;
    char path[32];

    for (unsigned i = 0; i < raw->spots_count; i++) {
        snprintf(path, sizeof(path), "spots[%u].node", i);
        if (!check_name(reading, path, raw->spots[i].node))
            return false;
        snprintf(path, sizeof(path), "spots[%u].type", i);
        for (unsigned earlier = 0; earlier < i; earlier++) {
            if (strcmp(raw->spots[earlier].type, raw->spots[i].type) == 0)
                return refuse(reading, path, "is the same as spots[%u].type", earlier);
        }
    }
    return true;
}

static bool check_transport(reading_t *reading)
{
    const zlink_config_raw_t *raw = reading->raw;
    bool plain = raw->transport != NULL && *raw->transport == ZLINK_CONFIG_PLAIN;

    if (plain && raw->tls != NULL)
        return refuse(reading, "tls", "is given, but transport asks for plain connections");
    if (!plain && raw->tls == NULL)
        return refuse(reading, "tls", "is required, with ca, certificate and key");
    return true;
}

static bool check_allow(reading_t *reading)
{
    const zlink_config_raw_tls_t *tls = reading->raw->tls;
    char path[32];

    for (unsigned i = 0; tls != NULL && i < tls->allow_count; i++) {
        snprintf(path, sizeof(path), "tls.allow[%u]", i);
        if (!check_name(reading, path, tls->allow[i]))
            return false;
        for (unsigned earlier = 0; earlier < i; earlier++) {
            if (strcmp(tls->allow[earlier], tls->allow[i]) == 0)
                return refuse(reading, path, "is the same as tls.allow[%u]", earlier);
        }
    }
    return true;
}

/* A message of the largest size must fit into an empty lane, or it could never be delivered. */
/* How many jobs may wait, by core and in all, and when peers pause. */
static bool check_job_queue(reading_t *reading)
{
    static const struct {
        const char *name;
        uint32_t jobs_per_core;
    } profiles[] = {{"balanced", 128}, {"compact", 32}, {"low_latency", 64}, {"throughput", 256}};
    zlink_config_limits_t *given = &reading->config->limits;
    const zlink_config_raw_limits_t *raw = reading->raw->limits;
    const char *profile = raw == NULL ? NULL : raw->application_job_queue_profile;

    given->jobs_per_core = profile == NULL ? profiles[0].jobs_per_core : 0;
    for (size_t i = 0; profile != NULL && i < COUNT_OF(profiles); i++)
        if (strcmp(profiles[i].name, profile) == 0)
            given->jobs_per_core = profiles[i].jobs_per_core;
    if (given->jobs_per_core == 0)
        return refuse(reading, "limits.application_job_queue_profile",
                      "'%s' is none of compact, low_latency, balanced, throughput", profile);
    if (given->resume_percent >= given->pause_percent)
        return refuse(reading, "limits.resume_percent", "%u is not less than limits.pause_percent (%u)",
                      given->resume_percent, given->pause_percent);
    return true;
}

static bool check_limits(reading_t *reading)
{
    const zlink_config_limits_t *given = &reading->config->limits;

    if (given->application_bytes < given->message_bytes)
        return refuse(reading, "limits.application_bytes",
                      "%llu bytes are less than one message may have (limits.message_bytes, %u)",
                      (unsigned long long)given->application_bytes, given->message_bytes);
    return true;
}

static bool check_cpu_workers(reading_t *reading)
{
    const zlink_config_t *given = reading->config;

    if (given->cpu_workers_max != 0 && given->cpu_workers_min > given->cpu_workers_max)
        return refuse(reading, "cpu_workers_min", "%u are more than cpu_workers_max allows (%u)",
                      given->cpu_workers_min, given->cpu_workers_max);
    return true;
}

/* Makes a path of the file relative to the file's folder. The new text is libcyaml's to free like the old one. */
static bool resolve(reading_t *reading, const char *path, char **text)
{
    const char *slash = strrchr(reading->name, '/');
    size_t folder = slash == NULL || (*text)[0] == '/' ? 0 : (size_t)(slash - reading->name) + 1;
    size_t length = strlen(*text);
    char *joined;

    if (folder + length >= PATH_MAX)
        return refuse(reading, path, "is a path of more than %d bytes", PATH_MAX - 1);
    if (folder == 0)
        return true;
    joined = zlink_malloc(folder + length + 1);
    if (joined == NULL)
        return refuse_memory(reading);
    memcpy(joined, reading->name, folder);
    memcpy(joined + folder, *text, length + 1);
    zlink_free(*text);
    *text = joined;
    return true;
}

static bool resolve_modules(reading_t *reading)
{
    zlink_config_raw_t *raw = reading->raw;
    char path[32];

    for (unsigned i = 0; i < raw->modules_count; i++) {
        snprintf(path, sizeof(path), "modules[%u]", i);
        if (!resolve(reading, path, &raw->modules[i]))
            return false;
        for (unsigned earlier = 0; earlier < i; earlier++) {
            if (strcmp(raw->modules[earlier], raw->modules[i]) == 0)
                return refuse(reading, path, "is the same as modules[%u]", earlier);
        }
    }
    return true;
}

static bool resolve_paths(reading_t *reading)
{
    zlink_config_raw_t *raw = reading->raw;

    if (raw->control != NULL) {
        if (!resolve(reading, "control", &raw->control))
            return false;
        if (strlen(raw->control) > ZLINK_CONFIG_CONTROL_BYTES)
            return refuse(reading, "control", "'%s' is longer than the %d bytes that a socket's path may have",
                          raw->control, ZLINK_CONFIG_CONTROL_BYTES);
    }
    if (!resolve_modules(reading))
        return false;
    return raw->tls == NULL ||
           (resolve(reading, "tls.ca", &raw->tls->ca) && resolve(reading, "tls.certificate", &raw->tls->certificate) &&
            resolve(reading, "tls.key", &raw->tls->key) &&
            (raw->tls->crl == NULL || resolve(reading, "tls.crl", &raw->tls->crl)));
}

static void take_texts(zlink_config_t *config, const zlink_config_raw_t *raw)
{
    config->mesh = raw->mesh;
    config->name = raw->name;
    config->listen = raw->listen;
    config->advertise = raw->advertise;
    config->control = raw->control;
    config->modules = (const char *const *)raw->modules;
    config->module_count = raw->modules_count;
    config->object_role = raw->object_role == NULL ? ZLINK_CONFIG_SERVER : *raw->object_role;
    config->spots = raw->spots;
    config->spot_count = raw->spots_count;
    config->transport = raw->transport == NULL ? ZLINK_CONFIG_TLS : *raw->transport;
    config->log_level = raw->log == NULL || raw->log->level == NULL ? ZLINK_LOG_INFO : *raw->log->level;
    if (raw->tls != NULL) {
        config->tls.ca = raw->tls->ca;
        config->tls.certificate = raw->tls->certificate;
        config->tls.key = raw->tls->key;
        config->tls.crl = raw->tls->crl;
        config->tls.allow = (const char *const *)raw->tls->allow;
        config->tls.allow_count = raw->tls->allow_count;
    }
}

static bool build(reading_t *reading)
{
    zlink_config_raw_t *raw = reading->raw;

    if (!check_name(reading, "mesh", raw->mesh) || !check_name(reading, "name", raw->name) || !check_listen(reading) ||
        !check_peers(reading) || !check_channels(reading) || !check_client_servers(reading) || !check_spots(reading) ||
        !check_transport(reading) || !check_allow(reading) ||
        !read_settings(reading, settings, COUNT_OF(settings), raw) ||
        !read_settings(reading, limits, COUNT_OF(limits), raw->limits) || !check_limits(reading) ||
        !check_job_queue(reading) || !check_cpu_workers(reading) || !resolve_paths(reading))
        return false;
    take_texts(reading->config, raw);
    return true;
}

static bool fill(reading_t *reading)
{
    void *raw = NULL;

    /* The shape is right, so what is left to fail is memory. */
    if (cyaml_load_data((const uint8_t *)reading->text, reading->size, &cyaml, &zlink_config_schema, &raw, NULL) !=
            CYAML_OK ||
        raw == NULL)
        return refuse_memory(reading);
    reading->raw = raw;
    reading->config = zlink_calloc(1, sizeof(*reading->config));
    if (reading->config == NULL) {
        cyaml_free(&cyaml, &zlink_config_schema, reading->raw, 0);
        return refuse_memory(reading);
    }
    reading->config->raw = reading->raw;
    return true;
}

/* On ZLINK_OK, `reading->config` is the caller's. */
static zlink_status_t read_config(reading_t *reading)
{
    reading->status =
        zlink_config_shape_check(reading->text, reading->size, reading->name, &zlink_config_schema, reading->why);
    if (reading->status != ZLINK_OK)
        return reading->status;
    if (fill(reading) && !build(reading)) {
        zlink_config_free(reading->config);
        reading->config = NULL;
    }
    return reading->status;
}

zlink_status_t zlink_config_parse(const char *text, size_t size, const char *name, zlink_config_t **config,
                                  zlink_refusal_t *why)
{
    reading_t reading = {.text = text, .size = size, .name = name, .why = why};

    *config = NULL;
    if (size > ZLINK_CONFIG_FILE_BYTES) {
        zlink_refuse(why, "%s: is larger than %d KiB", name, ZLINK_CONFIG_FILE_BYTES / 1024);
        return ZLINK_NOT_CONFIGURED;
    }
    if (read_config(&reading) == ZLINK_OK)
        *config = reading.config;
    return reading.status;
}

/* Opens a regular file for reading; -1 with errno set. O_NONBLOCK: a FIFO in its place must not hold the start up. */
static int open_file(const char *path, struct stat *status)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0)
        return -1;
    if (fstat(fd, status) == 0) {
        if (S_ISREG(status->st_mode))
            return fd;
        errno = S_ISDIR(status->st_mode) ? EISDIR : EINVAL;
    }
    int error = errno;

    close(fd);
    errno = error;
    return -1;
}

static bool check_file(reading_t *reading, const char *path, const char *file)
{
    struct stat status;
    int fd = open_file(file, &status);

    if (fd < 0)
        return refuse(reading, path, "cannot read %s: %s", file, strerror(errno));
    close(fd);
    return true;
}

static bool check_files(reading_t *reading)
{
    const zlink_config_t *config = reading->config;
    char path[32];

    assert(config != NULL);
    for (size_t i = 0; i < config->module_count; i++) {
        snprintf(path, sizeof(path), "modules[%zu]", i);
        if (!check_file(reading, path, config->modules[i]))
            return false;
    }
    return config->transport == ZLINK_CONFIG_PLAIN ||
           (check_file(reading, "tls.ca", config->tls.ca) &&
            check_file(reading, "tls.certificate", config->tls.certificate) &&
            check_file(reading, "tls.key", config->tls.key) &&
            (config->tls.crl == NULL || check_file(reading, "tls.crl", config->tls.crl)));
}

/* Reads the file whole into `*text`, which the caller frees. A file that grows meanwhile is cut at the limit plus one
 * byte, and so refused. */
static zlink_status_t read_file(const char *path, char **text, size_t *size, zlink_refusal_t *why)
{
    struct stat status;
    zlink_status_t result = ZLINK_NOT_CONFIGURED;
    size_t used = 0;
    ssize_t got = 1;
    int fd = open_file(path, &status);

    *text = NULL;
    if (fd < 0) {
        zlink_refuse(why, "%s: cannot be read: %s", path, strerror(errno));
        return ZLINK_NOT_CONFIGURED;
    }
    *text = zlink_malloc(ZLINK_CONFIG_FILE_BYTES + 1);
    if (*text == NULL) {
        zlink_refuse(why, "%s: no memory to read it", path);
        result = ZLINK_CAPACITY_EXCEEDED;
        goto close_file;
    }
    while (got > 0 && used < ZLINK_CONFIG_FILE_BYTES + 1) {
        do {
            got = read(fd, *text + used, ZLINK_CONFIG_FILE_BYTES + 1 - used);
        } while (got < 0 && errno == EINTR);
        used += got > 0 ? (size_t)got : 0;
    }
    if (got < 0) {
        zlink_refuse(why, "%s: cannot be read: %s", path, strerror(errno));
        goto close_file;
    }
    *size = used;
    result = ZLINK_OK;
close_file:
    close(fd);
    return result;
}

zlink_status_t zlink_config_load(const char *path, zlink_config_t **config, zlink_refusal_t *why)
{
    reading_t reading = {.name = path, .why = why};
    char *text = NULL;

    *config = NULL;
    reading.status = read_file(path, &text, &reading.size, why);
    if (reading.status == ZLINK_OK) {
        reading.text = text;
        reading.status = zlink_config_parse(text, reading.size, path, &reading.config, why);
    }
    if (reading.status == ZLINK_OK && !check_files(&reading)) {
        zlink_config_free(reading.config);
        reading.config = NULL;
    }
    *config = reading.config;
    zlink_free(text);
    return reading.status;
}

void zlink_config_free(zlink_config_t *config)
{
    if (config == NULL)
        return;
    (void)cyaml_free(&cyaml, &zlink_config_schema, config->raw, 0); /* fails only for a schema that does not fit */
    zlink_free((void *)(uintptr_t)config->peers);
    zlink_free((void *)(uintptr_t)config->channels);
    zlink_free((void *)(uintptr_t)config->client_servers);
    zlink_free(config);
}
