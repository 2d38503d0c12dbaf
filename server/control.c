#include "server/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "net/listener.h"
#include "server/channel_weight.h"
#include "server/config/config_value.h"
#include "server/node.h"
#include "server/node_status.h"

#define COMMAND_BYTES_MAX 512 /* a channel's name has up to 255 bytes */
#define CONNECTIONS_MAX   16
#define WATCH_BYTES_MAX   65536 /* that wait to be sent to one who watches, before its slots are used */

/* The context of its connections; NULL in those that outlive it by a moment. */
struct zlink_control {
    zlink_listener_t *listener;
    zlink_node_t *node;
    zlink_stream_t *streams[CONNECTIONS_MAX]; /* NULL where there is none */
    bool watches[CONNECTIONS_MAX];            /* it asked for what happens … */
    bool waits_for_end[CONNECTIONS_MAX];      /* … or for the end */
    char outcome[96];                         /* "": the end is not there yet */
    void (*told)(void *context);              /* then, once nobody waits any more */
    void *told_context;
};

/* The place of this stream; for NULL a free one. */
static zlink_stream_t **place_of(zlink_stream_t *streams[CONNECTIONS_MAX], const zlink_stream_t *stream)
{
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        if (streams[i] == stream)
            return &streams[i];
    return NULL;
}

static bool is_answered_later(zlink_control_t *control, const zlink_stream_t *stream)
{
    zlink_stream_t **place = place_of(control->streams, stream);
    return place && (control->watches[place - control->streams] || control->waits_for_end[place - control->streams]);
}

static void answer(zlink_stream_t *stream, const char *text)
{
    zlink_status_t status = zlink_stream_write_forced(stream, text, strlen(text));
    zlink_stream_close(stream, status == ZLINK_OK ? "answered" : "out of memory");
}

/* "NUMBER CHANNEL": the name stands last because there may be blanks in it. */
static void set_weight(const zlink_node_t *node, zlink_stream_t *stream, const char *arguments)
{
    char number[16], text[80];
    zlink_refusal_t why;
    uint64_t weight = 0;
    const char *channel = strchr(arguments, ' ');
    size_t length = channel ? (size_t)(channel - arguments) : 0;

    if (!channel || length >= sizeof(number)) {
        answer(stream, "{\"error\":\"weight NUMBER CHANNEL\"}\n");
        return;
    }
    memcpy(number, arguments, length);
    number[length] = '\0';
    if (!zlink_config_value_integer(number, 0, ZLINK_CONFIG_WEIGHT_MAX, &weight, &why)) {
        answer(stream, "{\"error\":\"a weight is a whole number from 0 to 10000\"}\n");
        return;
    }
    zlink_status_t status = zlink_channel_weight_set(node, channel + 1, (uint32_t)weight);
    if (status == ZLINK_NOT_FOUND) {
        answer(stream, "{\"error\":\"this node does not serve that channel\"}\n");
        return;
    }
    snprintf(text, sizeof(text), "{\"weight\":%u}\n", (unsigned)weight);
    answer(stream, text);
}

/* It stays connected, and gets what happens. */
static void watch(zlink_control_t *control, zlink_stream_t *stream)
{
    char *json = zlink_node_status_json(control->node);
    zlink_status_t status =
        json ? zlink_status_observers_add(&control->node->observers, stream, json) : ZLINK_CAPACITY_EXCEEDED;
    free(json);
    if (status != ZLINK_OK)
        answer(stream, "{\"error\":\"as many watch already as may\"}\n");
    else
        control->watches[place_of(control->streams, stream) - control->streams] = true;
}

/* Everybody who asks waits for the one end that there is; who goes away changes nothing. */
static void stop(zlink_control_t *control, zlink_stream_t *stream)
{
    zlink_stream_t **place = place_of(control->streams, stream);
    if (control->outcome[0]) {
        answer(stream, control->outcome);
        return;
    }
    if (place)
        control->waits_for_end[place - control->streams] = true;
    zlink_node_request_stop(control->node);
}

static void run_command(zlink_control_t *control, zlink_stream_t *stream, const char *command)
{
    const zlink_node_t *node = control->node;

    if (strcmp(command, "status") == 0) {
        char *json = zlink_node_status_json(node);
        answer(stream, json ? json : "{\"error\":\"out of memory\"}\n");
        free(json);
    } else if (strncmp(command, "weight ", strlen("weight ")) == 0) {
        set_weight(node, stream, command + strlen("weight "));
    } else if (strcmp(command, "watch") == 0) {
        watch(control, stream);
    } else if (strcmp(command, "stop") == 0) {
        stop(control, stream);
    } else {
        answer(stream, "{\"error\":\"unknown command; known: status, weight, watch, stop\"}\n");
    }
}

static size_t bytes(zlink_stream_t *stream, const uint8_t *data, size_t size)
{
    zlink_control_t *control = zlink_stream_context(stream);
    if (!control || is_answered_later(control, stream))
        return size;
    char command[COMMAND_BYTES_MAX + 1];
    const uint8_t *end = memchr(data, '\n', size);
    size_t length = end ? (size_t)(end - data) : size;
    if (end && length <= COMMAND_BYTES_MAX) {
        memcpy(command, data, length);
        command[length] = '\0';
        run_command(control, stream, strlen(command) == length ? command : "");
        return size;
    }
    if (length > COMMAND_BYTES_MAX) {
        answer(stream, "{\"error\":\"a command is one line of at most 512 bytes\"}\n");
        return size;
    }
    return 0;
}

static void tell_when_all_know(zlink_control_t *control)
{
    void (*told)(void *context) = control->told;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        if (control->streams[i] && control->waits_for_end[i])
            return;
    control->told = NULL;
    if (told)
        told(control->told_context);
}

static void closed(zlink_stream_t *stream, zlink_status_t status, const char *reason)
{
    zlink_control_t *control = zlink_stream_context(stream);
    zlink_stream_t **place = control ? place_of(control->streams, stream) : NULL;
    (void)status, (void)reason;
    if (control)
        zlink_status_observers_remove(&control->node->observers, stream);
    if (!place)
        return;
    *place = NULL;
    tell_when_all_know(control);
}

static void drained(zlink_stream_t *stream)
{
    zlink_control_t *control = zlink_stream_context(stream);
    if (control)
        zlink_status_observers_drained(&control->node->observers, stream);
}

static const zlink_stream_events_t events = {.bytes = bytes, .drained = drained, .closed = closed};

static void accepted(zlink_listener_t *listener, zlink_stream_t *stream)
{
    zlink_control_t *control = zlink_listener_context(listener);
    zlink_stream_t **place = place_of(control->streams, NULL);
    zlink_stream_set_context(stream, control);
    if (place) {
        *place = stream;
        control->watches[place - control->streams] = false;
        control->waits_for_end[place - control->streams] = false;
    } else
        zlink_stream_abort(stream, ZLINK_CAPACITY_EXCEEDED, "too many control connections");
}

/* Whoever just stays connected must not hold the stop up. An answer on its way is let through. */
static void orphan(zlink_stream_t *stream)
{
    zlink_stream_set_context(stream, NULL);
    if (zlink_stream_outbound_bytes(stream) == 0)
        zlink_stream_abort(stream, ZLINK_SHUTTING_DOWN, "the node stops");
}

zlink_status_t zlink_control_open(zlink_reactor_t *reactor, const char *path, zlink_node_t *node,
                                  zlink_control_t **opened, zlink_refusal_t *why)
{
    char address[128];
    zlink_control_t *control = zlink_calloc(1, sizeof(*control));
    if (!control) {
        zlink_refuse(why, "control: out of memory");
        return ZLINK_CAPACITY_EXCEEDED;
    }
    control->node = node;
    /* The address of a unix socket is a whole path; the configuration's may be relative to where the node was started.
     */
    bool whole = path[0] == '/';
    char *folder = whole ? NULL : getcwd(NULL, 0);
    int length = snprintf(address, sizeof(address), "unix:%s%s%s", folder ? folder : "", whole ? "" : "/", path);
    free(folder);
    if (length < 0 || (size_t)length >= sizeof(address)) {
        zlink_refuse(why, "control: %s: the whole path is longer than a unix socket's may be", path);
        zlink_free(control);
        return ZLINK_INVALID_OPERATION;
    }
    const zlink_listener_options_t options = {
        .address = address,
        .unix_mode = 0600,
        .limits = {.output_bytes = WATCH_BYTES_MAX},
        .events = &events,
        .accepted = accepted,
        .context = control,
        .connections_max = CONNECTIONS_MAX,
    };
    zlink_status_t status = zlink_listener_open(reactor, &options, &control->listener, why);
    if (status == ZLINK_OK) {
        *opened = control;
    } else {
        zlink_refusal_prefix(why, "control: ");
        zlink_free(control);
    }
    return status;
}

void zlink_control_ended(zlink_control_t *control, const char *outcome, const char *reason, void (*told)(void *context),
                         void *context)
{
    if (!control) {
        told(context);
        return;
    }
    snprintf(control->outcome, sizeof(control->outcome), "{\"outcome\":\"%s\",\"reason\":\"%s\"}\n", outcome, reason);
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        if (control->streams[i] && control->waits_for_end[i])
            answer(control->streams[i], control->outcome);
    control->told = told;
    control->told_context = context;
    tell_when_all_know(control);
}

void zlink_control_close(zlink_control_t *control)
{
    if (!control)
        return;
    zlink_listener_close(control->listener);
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        if (control->streams[i]) {
            zlink_status_observers_remove(&control->node->observers, control->streams[i]);
            orphan(control->streams[i]);
        }
    zlink_free(control);
}
