/*
 * zlinkctl call, zlinkctl send: joins the mesh as a Client and sends requests or one-way messages, one or many.
 */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "ctl/commands.h"
#include "ctl/load.h"
#include "ctl/mesh_client.h"
#include "ctl/protoc.h"
#include "server/config/config_value.h"

#define PAYLOAD_BYTES_MAX ((size_t)16 << 20)
#define PRINTED_MAX       10000u

enum {
    OPTION_CA = 256,
    OPTION_CERTIFICATE,
    OPTION_KEY,
    OPTION_PLAIN,
    OPTION_PROTO,
    OPTION_TEXT,
    OPTION_HEX,
    OPTION_REPLY,
    OPTION_SPREAD,
    OPTION_RECONNECT,
    OPTION_JSON,
    OPTION_QUIET,
};

typedef struct zlink_call_command_options {
    zlink_mesh_client_options_t client;
    zlink_load_options_t load;
    const char *target, *proto, *text, *hex, *reply;
    bool json, quiet;
} zlink_call_command_options_t;

/* A reply that is printed when all calls have ended. */
typedef struct zlink_kept_reply {
    char *spot_id, *packet;
    uint8_t *payload;
    size_t payload_bytes;
} zlink_kept_reply_t;

typedef struct zlink_kept_replies {
    zlink_kept_reply_t list[PRINTED_MAX];
    size_t count;
} zlink_kept_replies_t;

static const struct argp_option arguments[] = {
    {"connect", 'a', "HOST:PORT", 0, "A node to link to; may be given several times (Spots are spread over them)", 0},
    {"ca", OPTION_CA, "FILE", 0, "The mesh's authority", 0},
    {"cert", OPTION_CERTIFICATE, "FILE", 0, "The client's certificate (zlinkctl certs client)", 0},
    {"key", OPTION_KEY, "FILE", 0, "Its key", 0},
    {"plain", OPTION_PLAIN, "MESH", 0, "No TLS: for a mesh whose transport is plain", 0},
    {"text", OPTION_TEXT, "TEXT", 0, "The message in protobuf text form (with --proto)", 1},
    {"hex", OPTION_HEX, "HEX", 0, "The message's bytes; without either they are read from standard input", 1},
    {"proto", OPTION_PROTO, "FILE", 0, "The .proto file: messages are typed and shown as text", 1},
    {"timeout", 't', "TIME", 0, "For each call: 250ms, 5s (default 5s)", 2},
    {"count", 'n', "N", 0, "How many calls (default 1)", 2},
    {"outstanding", 'o', "N", 0, "How many are under way at a time (default 1)", 2},
    {"spread", OPTION_SPREAD, "N", 0, "{} in the Spot's id becomes 0..N-1 in turn (default 1)", 2},
    {"reconnect", OPTION_RECONNECT, NULL, 0, "Redial a node whose link is lost", 2},
    {"quiet", 'q', NULL, 0, "Do not print replies", 3},
    {"json", 'j', NULL, 0, "Print the summary as JSON", 3},
    {0},
};

/* ---- arguments ---- */

static uint32_t number_argument(struct argp_state *state, const char *name, const char *text, uint32_t max)
{
    zlink_refusal_t why = {""};
    uint64_t value = 1;
    if (!zlink_config_value_integer(text, 1, max, &value, &why))
        argp_error(state, "--%s: %s", name, why.line);
    return (uint32_t)value;
}

static uint32_t duration_argument(struct argp_state *state, const char *text)
{
    zlink_refusal_t why = {""};
    uint64_t value_ms = 1;
    if (!zlink_config_value_duration_ms(text, 1, INT32_MAX, &value_ms, &why))
        argp_error(state, "--timeout: %s", why.line);
    return (uint32_t)value_ms;
}

/* "channel:prices", "spot:counter/cart-7" or "node:b-6f2c…". */
static void target_argument(struct argp_state *state, zlink_call_command_options_t *options, char *text)
{
    zlink_load_options_t *load = &options->load;
    char *slash = NULL;
    options->target = text;
    if (strncmp(text, "channel:", 8) == 0) {
        load->target = ZLINK_TARGET_CHANNEL;
        load->name = text + 8;
    } else if (strncmp(text, "spot:", 5) == 0 && (slash = strchr(text, '/')) != NULL) {
        *slash = '\0';
        load->target = ZLINK_TARGET_INSTANCE_SPOT;
        load->name = text + 5;
        load->spot_id = slash + 1;
    } else if (strncmp(text, "node:", 5) == 0) {
        load->target = ZLINK_TARGET_NODE;
        load->name = text + 5;
    } else {
        argp_error(state, "TARGET is channel:NAME, spot:TYPE/ID or node:ID, not \"%s\"", text);
    }
    if (!zlink_wire_name_is_valid(load->name) || (slash && !zlink_wire_name_is_valid(load->spot_id)))
        argp_error(state, "TARGET: a name has 1 to 255 bytes of UTF-8 without control characters");
}

static void check_together(struct argp_state *state, zlink_call_command_options_t *options)
{
    const zlink_mesh_client_options_t *client = &options->client;
    if (!options->load.packet)
        argp_error(state, "TARGET and PACKET are needed");
    else if (!zlink_wire_name_is_valid(options->load.packet))
        argp_error(state, "PACKET: a name has 1 to 255 bytes of UTF-8 without control characters");
    else if (client->address_count == 0)
        argp_error(state, "--connect is needed");
    else if (!client->mesh && (!client->ca || !client->certificate || !client->key))
        argp_error(state, "--ca, --cert and --key are needed");
    else if (client->mesh && (client->ca || client->certificate || client->key))
        argp_error(state, "--plain goes without --ca, --cert and --key");
    else if (options->text && (!options->proto || options->hex))
        argp_error(state, "--text goes with --proto, and without --hex");
    else if (options->load.spread > 1 && !strstr(options->load.spot_id, "{}"))
        argp_error(state, "--spread needs {} in the Spot's id");
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    zlink_call_command_options_t *options = state->input;
    switch (key) {
    case 'a':
        if (options->client.address_count == ZLINK_MESH_CLIENT_ADDRESSES_MAX)
            argp_error(state, "at most %d --connect", ZLINK_MESH_CLIENT_ADDRESSES_MAX);
        options->client.addresses[options->client.address_count++] = argument;
        return 0;
    case OPTION_CA:
        options->client.ca = argument;
        return 0;
    case OPTION_CERTIFICATE:
        options->client.certificate = argument;
        return 0;
    case OPTION_KEY:
        options->client.key = argument;
        return 0;
    case OPTION_PLAIN:
        options->client.mesh = argument;
        if (strlen(argument) > ZLINK_WIRE_MESH_BYTES_MAX)
            argp_error(state, "--plain: a mesh's name has at most %d bytes", ZLINK_WIRE_MESH_BYTES_MAX);
        return 0;
    case OPTION_TEXT:
        options->text = argument;
        return 0;
    case OPTION_HEX:
        options->hex = argument;
        return 0;
    case OPTION_PROTO:
        options->proto = argument;
        return 0;
    case 't':
        options->load.timeout_ms = duration_argument(state, argument);
        return 0;
    case 'n':
        options->load.count = number_argument(state, "count", argument, ZLINK_LOAD_COUNT_MAX);
        return 0;
    case 'o':
        options->load.outstanding = number_argument(state, "outstanding", argument, ZLINK_LOAD_OUTSTANDING_MAX);
        return 0;
    case OPTION_SPREAD:
        options->load.spread = number_argument(state, "spread", argument, ZLINK_LOAD_SPREAD_MAX);
        return 0;
    case OPTION_RECONNECT:
        options->client.reconnect = true;
        return 0;
    case 'q':
        options->quiet = true;
        return 0;
    case 'j':
        options->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num == 0)
            target_argument(state, options, argument);
        else if (state->arg_num == 1)
            options->load.packet = argument;
        else
            argp_error(state, "unexpected argument: %s", argument);
        return 0;
    case ARGP_KEY_END:
        check_together(state, options);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- the message ---- */

static int hex_digit(char digit)
{
    const char *digits = "0123456789abcdef";
    const char *found = digit ? strchr(digits, digit | 0x20) : NULL;
    return found ? (int)(found - digits) : -1;
}

static bool payload_from_hex(const char *hex, uint8_t **payload, size_t *size)
{
    size_t length = strlen(hex);
    *payload = malloc(length / 2 + 1);
    if (!*payload || length % 2)
        return false;
    for (size_t i = 0; i < length / 2; i++) {
        int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        (*payload)[i] = (uint8_t)(high << 4 | low);
    }
    *size = length / 2;
    return true;
}

static bool payload_from_stdin(uint8_t **payload, size_t *size)
{
    *payload = malloc(PAYLOAD_BYTES_MAX + 1);
    *size = 0;
    while (*payload && *size <= PAYLOAD_BYTES_MAX) {
        ssize_t got = read(0, *payload + *size, PAYLOAD_BYTES_MAX + 1 - *size);
        if (got == 0)
            return true;
        if (got < 0 && errno != EINTR)
            return false;
        *size += got > 0 ? (size_t)got : 0;
    }
    return false;
}

static bool make_payload(const zlink_call_command_options_t *options, uint8_t **payload, size_t *size,
                         zlink_refusal_t *why)
{
    if (options->text)
        return zlink_protoc_run("--encode", options->load.packet, options->proto, options->text, strlen(options->text),
                                payload, size, why) == ZLINK_OK;
    bool made = options->hex ? payload_from_hex(options->hex, payload, size) : payload_from_stdin(payload, size);
    if (!made)
        zlink_refuse(why, options->hex ? "--hex: pairs of hexadecimal digits are needed"
                                       : "standard input: it cannot be read, or is over 16 MiB");
    return made;
}

/* ---- the replies ---- */

/* Reactor thread: only copies. What has no room or memory is not printed; it is counted all the same. */
static void keep_reply(void *context, const char *spot_id, const zlink_call_answer_t *answer)
{
    zlink_kept_replies_t *kept = context;
    if (kept->count == PRINTED_MAX)
        return;
    zlink_kept_reply_t *reply = &kept->list[kept->count];
    reply->spot_id = strdup(spot_id);
    reply->packet = strdup(answer->packet);
    reply->payload = malloc(answer->payload_bytes + 1);
    if (!reply->spot_id || !reply->packet || !reply->payload)
        return;
    memcpy(reply->payload, answer->payload, answer->payload_bytes);
    reply->payload_bytes = answer->payload_bytes;
    kept->count++;
}

static void print_reply(const zlink_kept_reply_t *reply, const char *proto)
{
    uint8_t *text = NULL;
    size_t size = 0;
    zlink_refusal_t why = {""};
    printf("%s%s%s", reply->spot_id, *reply->spot_id ? " " : "", reply->packet);
    if (!proto) {
        putchar(' ');
        for (size_t i = 0; i < reply->payload_bytes; i++)
            printf("%02x", reply->payload[i]);
    } else if (zlink_protoc_run("--decode", reply->packet, proto, reply->payload, reply->payload_bytes, &text, &size,
                                &why) == ZLINK_OK) {
        for (char *line = strtok((char *)text, "\n"); line; line = strtok(NULL, "\n"))
            printf(" %s", line); /* one reply, one line */
    } else {
        printf(" (%s)", why.line);
    }
    putchar('\n');
    free(text);
}

static void print_replies(zlink_kept_replies_t *kept, const char *proto)
{
    for (size_t i = 0; i < kept->count; i++) {
        print_reply(&kept->list[i], proto);
        free(kept->list[i].spot_id);
        free(kept->list[i].packet);
        free(kept->list[i].payload);
    }
}

/* One call that failed is a sentence, not a statistic. */
static void print_failure(const zlink_call_command_options_t *options, const zlink_load_result_t *result)
{
    const zlink_load_options_t *load = &options->load;
    int status = 1;
    while (status < ZLINK_STATUS_COUNT - 1 && !result->by_status[status])
        status++;
    const char *hint = "";
    if (status == ZLINK_NOT_FOUND)
        hint = " (no channel, Spot type or handler of that name there, or the handler said so; the node's log tells "
               "which)";
    else if (status == ZLINK_PROTOCOL_ERROR)
        hint = " (the message or the reply could not be decoded; is a text longer than its max_size?)";
    fprintf(stderr, "zlinkctl: %s%s%s %s: %s%s\n", load->name, *load->spot_id ? "/" : "", load->spot_id, load->packet,
            zlink_status_name((zlink_status_t)status), hint);
}

static void print_summary(const zlink_load_options_t *load, const zlink_load_result_t *result, bool json)
{
    uint64_t ok = result->by_status[ZLINK_OK];
    double rate = result->seconds > 0 ? load->count / result->seconds : 0;
    if (json) {
        printf("{\"calls\":%u,\"ok\":%llu,\"seconds\":%.6f,\"per_second\":%.0f,\"p50_us\":%u,\"p99_us\":%u,"
               "\"max_us\":%u,\"failed\":{",
               load->count, (unsigned long long)ok, result->seconds, rate, result->p50_us, result->p99_us,
               result->max_us);
        const char *separator = "";
        for (int i = 1; i < ZLINK_STATUS_COUNT; i++) {
            if (!result->by_status[i])
                continue;
            printf("%s\"%s\":%llu", separator, zlink_status_name((zlink_status_t)i),
                   (unsigned long long)result->by_status[i]);
            separator = ",";
        }
        printf("}}\n");
        return;
    }
    printf("calls=%u ok=%llu seconds=%.3f per_second=%.0f", load->count, (unsigned long long)ok, result->seconds, rate);
    if (ok)
        printf(" p50_us=%u p99_us=%u max_us=%u", result->p50_us, result->p99_us, result->max_us);
    for (int i = 1; i < ZLINK_STATUS_COUNT; i++)
        if (result->by_status[i])
            printf(" %s=%llu", zlink_status_name((zlink_status_t)i), (unsigned long long)result->by_status[i]);
    putchar('\n');
}

/* ---- the whole ---- */

static int run(zlink_call_command_options_t *options)
{
    static zlink_mesh_client_t client;
    static zlink_kept_replies_t kept;
    zlink_refusal_t why = {""};
    zlink_load_result_t result = {0};
    uint8_t *payload = NULL;
    int code = 1;

    zlink_log_set_level(ZLINK_LOG_ERROR);
    if (!make_payload(options, &payload, &options->load.payload_bytes, &why))
        goto done;
    options->load.payload = payload;
    if (!options->quiet) {
        options->load.reply = keep_reply;
        options->load.context = &kept;
    }
    if (options->load.outstanding > options->load.count)
        options->load.outstanding = options->load.count;
    options->client.join_timeout_ms = options->load.timeout_ms + 5000;
    if (zlink_mesh_client_join(&options->client, &client, &why) != ZLINK_OK)
        goto done;
    zlink_status_t status = zlink_load_run(&client, &options->load, &result, &why);
    zlink_mesh_client_leave(&client);
    if (status != ZLINK_OK)
        goto done;
    print_replies(&kept, options->proto);
    if (options->load.count == 1 && !options->json && !result.by_status[ZLINK_OK])
        print_failure(options, &result);
    else if (options->load.count > 1 || options->json)
        print_summary(&options->load, &result, options->json);
    code = result.by_status[ZLINK_OK] == options->load.count ? 0 : 1;
done:
    if (why.line[0])
        fprintf(stderr, "zlinkctl: %s\n", why.line);
    free(payload);
    return code;
}

static int call_or_send(int argc, char **argv, bool one_way)
{
    const struct argp argp = {
        arguments,
        parse,
        "TARGET PACKET",
        one_way
            ? "Sends one-way messages. TARGET is channel:NAME, spot:TYPE/ID or node:ID; PACKET the message's full name."
            : "Sends requests and prints the replies. TARGET is channel:NAME, spot:TYPE/ID or node:ID; PACKET the "
              "message's "
              "full name.",
        NULL,
        NULL,
        NULL,
    };
    zlink_call_command_options_t options = {
        .load = {.one_way = one_way, .spot_id = "", .count = 1, .outstanding = 1, .spread = 1, .timeout_ms = 5000},
    };
    argp_err_exit_status = 2;
    if (argp_parse(&argp, argc, argv, 0, NULL, &options) != 0)
        return 2;
    return run(&options);
}

int zlink_ctl_call(int argc, char **argv)
{
    return call_or_send(argc, argv, false);
}

int zlink_ctl_send(int argc, char **argv)
{
    return call_or_send(argc, argv, true);
}
