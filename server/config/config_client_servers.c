#include "server/config/config_client_servers.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "server/config/config_value.h"

static const char *const side_names[] = {
    [ZLINK_CONFIG_SIDE_CLIENT] = "client", [ZLINK_CONFIG_SIDE_SERVER] = "server", [ZLINK_CONFIG_SIDE_BOTH] = "both"};

/* One entry in the making. */
typedef struct entry {
    const zlink_config_raw_t *raw;
    unsigned index;
    zlink_config_problem_t *problem;
} entry_t;

static bool refuse(const entry_t *entry, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Always false. */
static bool refuse(const entry_t *entry, const char *key, const char *format, ...)
{
    va_list arguments;

    snprintf(entry->problem->path, sizeof(entry->problem->path), "client_servers[%u].%s", entry->index, key);
    va_start(arguments, format);
    vsnprintf(entry->problem->reason.line, sizeof(entry->problem->reason.line), format, arguments);
    va_end(arguments);
    return false;
}

static const zlink_config_raw_client_server_t *given(const entry_t *entry)
{
    return &entry->raw->client_servers[entry->index];
}

/* The sides that this process has in the channel, in all entries. */
static unsigned sides_of(const zlink_config_raw_t *raw, const char *channel)
{
    unsigned sides = 0;

    for (unsigned i = 0; i < raw->client_servers_count; i++)
        if (strcmp(raw->client_servers[i].channel, channel) == 0)
            sides |= (unsigned)*raw->client_servers[i].role;
    return sides;
}

/* A name is in one topology (TR-2), and each side of it once (TR-3). */
static bool check_key(const entry_t *entry)
{
    const zlink_config_raw_t *raw = entry->raw;
    const zlink_config_raw_client_server_t *self = given(entry);

    for (unsigned i = 0; i < raw->channels_count; i++)
        if (strcmp(raw->channels[i].name, self->channel) == 0)
            return refuse(entry, "channel", "is a channel of the mesh, too: channels[%u].name", i);
    for (unsigned i = 0; i < entry->index; i++) {
        const zlink_config_raw_client_server_t *earlier = &raw->client_servers[i];
        if (strcmp(earlier->channel, self->channel) == 0 && (*earlier->role & *self->role) != 0)
            return refuse(entry, "role", "%s: client_servers[%u] of this channel is %s already",
                          side_names[*self->role], i, side_names[*earlier->role]);
    }
    return true;
}

static bool check_dialled(const entry_t *entry, const char *key, const char *address)
{
    zlink_refusal_t reason;

    return zlink_config_value_dialled(address, &reason) || refuse(entry, key, "%s", reason.line);
}

static bool check_server(const entry_t *entry, zlink_config_client_server_t *made)
{
    const zlink_config_raw_client_server_t *self = given(entry);
    zlink_config_address_t address;
    uint64_t weight = ZLINK_CONFIG_WEIGHT;
    zlink_refusal_t reason;

    if (self->listen == NULL)
        return refuse(entry, "listen", "is required for a server");
    if (!zlink_config_value_address(self->listen, &address, &reason))
        return refuse(entry, "listen", "%s", reason.line);
    if (self->advertise != NULL && !check_dialled(entry, "advertise", self->advertise))
        return false;
    if (address.wildcard && self->advertise == NULL)
        return refuse(entry, "listen", "'%s' takes calls on every address, so advertise must say which one to dial",
                      self->listen);
    if (self->weight != NULL && !zlink_config_value_integer(self->weight, 0, ZLINK_CONFIG_WEIGHT_MAX, &weight, &reason))
        return refuse(entry, "weight", "%s", reason.line);
    made->listen = self->listen;
    made->advertise = self->advertise;
    made->weight = (uint32_t)weight;
    return true;
}

static bool check_servers(const entry_t *entry, zlink_config_client_server_t *made, const char **places)
{
    const zlink_config_raw_client_server_t *self = given(entry);
    const char **expected = places + self->servers_count;
    zlink_refusal_t reason;
    uint64_t send_timeout_ms = 0;
    char key[32];

    /* The server of the same process is dialled without being named. */
    if (self->servers_count == 0 && !(sides_of(entry->raw, self->channel) & ZLINK_CONFIG_SIDE_SERVER))
        return refuse(entry, "servers", "is required for a client");
    for (unsigned i = 0; i < self->servers_count; i++) {
        snprintf(key, sizeof(key), "servers[%u]", i);
        const char *address = zlink_config_value_peer(self->servers[i], &reason);
        if (address == NULL)
            return refuse(entry, key, "%s", reason.line);
        if (!check_dialled(entry, key, address))
            return false;
        for (unsigned earlier = 0; earlier < i; earlier++)
            if (strcasecmp(places[earlier], address) == 0)
                return refuse(entry, key, "is the same as servers[%u]", earlier);
        places[i] = address;
        if (address != self->servers[i]) {
            self->servers[i][address - self->servers[i] - 1] = '\0'; /* the '@': before it is a text of its own */
            expected[i] = self->servers[i];
        }
    }
    made->servers = places;
    made->expected_servers = expected;
    if (self->send_timeout != NULL &&
        !zlink_config_value_duration_ms(self->send_timeout, 1, INT32_MAX, &send_timeout_ms, &reason))
        return refuse(entry, "send_timeout", "%s", reason.line);
    made->send_timeout_ms = (uint32_t)send_timeout_ms;
    made->server_count = self->servers_count;
    return true;
}

/* What belongs to the other side alone is a mistake, and not ignored. */
static bool check_sides(const entry_t *entry)
{
    const zlink_config_raw_client_server_t *self = given(entry);
    const bool server = (*self->role & ZLINK_CONFIG_SIDE_SERVER) != 0;
    const struct {
        const char *key, *text;
    } of_a_server[] = {{"listen", self->listen}, {"advertise", self->advertise}, {"weight", self->weight}};

    for (size_t i = 0; !server && i < sizeof(of_a_server) / sizeof(of_a_server[0]); i++)
        if (of_a_server[i].text != NULL)
            return refuse(entry, of_a_server[i].key, "is given for a channel that this entry only calls");
    if (self->servers_count > 0 && !(*self->role & ZLINK_CONFIG_SIDE_CLIENT))
        return refuse(entry, "servers", "is given for a channel that this entry only serves");
    if (self->send_timeout != NULL && !(*self->role & ZLINK_CONFIG_SIDE_CLIENT))
        return refuse(entry, "send_timeout", "is given for a channel that this entry only serves");
    return true;
}

static bool read_entry(const entry_t *entry, zlink_config_client_server_t *made, const char **places)
{
    const zlink_config_raw_client_server_t *self = given(entry);

    made->channel = self->channel;
    made->client = (*self->role & ZLINK_CONFIG_SIDE_CLIENT) != 0;
    made->server = (*self->role & ZLINK_CONFIG_SIDE_SERVER) != 0;
    return check_key(entry) && check_sides(entry) && (!made->server || check_server(entry, made)) &&
           (!made->client || check_servers(entry, made, places));
}

bool zlink_config_client_servers_read(zlink_config_raw_t *raw, zlink_config_client_server_t **list,
                                      zlink_config_problem_t *problem)
{
    const size_t count = raw->client_servers_count;
    size_t addresses = 0;

    *problem = (zlink_config_problem_t){.path = ""};
    for (size_t i = 0; i < count; i++)
        addresses += raw->client_servers[i].servers_count;
    zlink_config_client_server_t *made = zlink_calloc(1, (count + 1) * sizeof(*made) + 2 * addresses * sizeof(char *));
    if (made == NULL)
        return false;
    const char **places = (const char **)(void *)(made + count + 1);
    for (unsigned i = 0; i < count; i++) {
        const entry_t entry = {raw, i, problem};
        if (!read_entry(&entry, &made[i], places)) {
            zlink_free(made);
            return false;
        }
        places += 2 * raw->client_servers[i].servers_count;
    }
    *list = made;
    return true;
}
