#include "server/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "net/listener.h"
#include "server/node.h"
#include "server/node_status.h"

#define COMMAND_BYTES_MAX 128
#define CONNECTIONS_MAX   16

/* The context of its connections; NULL in those that outlive it by a moment. */
struct zlink_control {
    zlink_listener_t *listener;
    const zlink_node_t *node;
    zlink_stream_t *streams[CONNECTIONS_MAX]; /* NULL where there is none */
};

static void answer(zlink_stream_t *stream, const char *text)
{
    zlink_status_t status = zlink_stream_write_forced(stream, text, strlen(text));
    zlink_stream_close(stream, status == ZLINK_OK ? "answered" : "out of memory");
}

static void run_command(const zlink_node_t *node, zlink_stream_t *stream, const char *command, size_t length)
{
    if (length == strlen("status") && memcmp(command, "status", length) == 0) {
        char *json = zlink_node_status_json(node);
        answer(stream, json ? json : "{\"error\":\"out of memory\"}\n");
        free(json);
    } else {
        answer(stream, "{\"error\":\"unknown command; known: status\"}\n");
    }
}

static size_t bytes(zlink_stream_t *stream, const uint8_t *data, size_t size)
{
    const zlink_control_t *control = zlink_stream_context(stream);
    if (!control)
        return size;
    const uint8_t *end = memchr(data, '\n', size);
    if (end) {
        run_command(control->node, stream, (const char *)data, (size_t)(end - data));
        return size;
    }
    if (size > COMMAND_BYTES_MAX) {
        answer(stream, "{\"error\":\"a command is one line of at most 128 bytes\"}\n");
        return size;
    }
    return 0;
}

/* The place of this stream; for NULL a free one. */
static zlink_stream_t **place_of(zlink_control_t *control, const zlink_stream_t *stream)
{
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        if (control->streams[i] == stream)
            return &control->streams[i];
    return NULL;
}

static void closed(zlink_stream_t *stream, zlink_status_t status, const char *reason)
{
    zlink_control_t *control = zlink_stream_context(stream);
    zlink_stream_t **place = control ? place_of(control, stream) : NULL;
    (void)status, (void)reason;
    if (place)
        *place = NULL;
}

static const zlink_stream_events_t events = {.bytes = bytes, .closed = closed};

static void accepted(zlink_listener_t *listener, zlink_stream_t *stream)
{
    zlink_control_t *control = zlink_listener_context(listener);
    zlink_stream_t **place = place_of(control, NULL);
    zlink_stream_set_context(stream, control);
    if (place)
        *place = stream;
    else
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

void zlink_control_close(zlink_control_t *control)
{
    if (!control)
        return;
    zlink_listener_close(control->listener);
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        if (control->streams[i])
            orphan(control->streams[i]);
    zlink_free(control);
}
