#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/counters.h"

#define LOG_LINE_BYTES 4096 /* not more than PIPE_BUF: a pipe then takes a line whole or not at all */
#define LOG_NODE_BYTES 64
#define LOG_CUT_MARKER " cut=true\n"
#define LOG_TAIL_BYTES (sizeof(LOG_CUT_MARKER)) /* the marker, and the quote that a cut value still has to get */

ZLINK_COUNTER_DEFINE(zlink_log_lines_dropped, ZLINK_COUNTER, "zlink.log.lines_dropped",
                     "Log lines that stderr did not take");

static _Atomic int log_level = ZLINK_LOG_INFO;
static char log_node[LOG_NODE_BYTES + 1];
static int log_fd = STDERR_FILENO;

typedef struct log_line {
    size_t used;
    bool cut;
    char bytes[LOG_LINE_BYTES];
} log_line_t;

void zlink_log_set_level(zlink_log_level_t level)
{
    atomic_store_explicit(&log_level, (int)level, memory_order_relaxed);
}

zlink_log_level_t zlink_log_get_level(void)
{
    return (zlink_log_level_t)atomic_load_explicit(&log_level, memory_order_relaxed);
}

void zlink_log_set_node(const char *name)
{
    snprintf(log_node, sizeof(log_node), "%s", name == NULL ? "" : name);
}

void zlink_log_set_fd(int fd)
{
    log_fd = fd;
}

bool zlink_log_enabled(zlink_log_level_t level)
{
    return level < ZLINK_LOG_OFF && level >= zlink_log_get_level();
}

/* All or nothing; once something did not fit the rest of the line is left out. */
static bool line_put(log_line_t *line, const char *bytes, size_t size)
{
    if (line->cut || line->used + size > sizeof(line->bytes) - LOG_TAIL_BYTES) {
        line->cut = true;
        return false;
    }
    memcpy(line->bytes + line->used, bytes, size);
    line->used += size;
    return true;
}

/* The length of the printable character at `bytes`; 0 where the byte must be escaped: a control (also U+0080 to
 * U+009F, which some terminals obey) or not UTF-8. */
static size_t printable_length(const unsigned char *bytes)
{
    size_t length;
    unsigned minimum;
    unsigned code;

    if (bytes[0] < 0x80)
        return bytes[0] >= 0x20 && bytes[0] != 0x7f;
    if (bytes[0] >= 0xc2 && bytes[0] <= 0xdf) {
        length = 2;
        minimum = 0xa0;
        code = bytes[0] & 0x1fu;
    } else if (bytes[0] >= 0xe0 && bytes[0] <= 0xef) {
        length = 3;
        minimum = 0x800;
        code = bytes[0] & 0x0fu;
    } else if (bytes[0] >= 0xf0 && bytes[0] <= 0xf4) {
        length = 4;
        minimum = 0x10000;
        code = bytes[0] & 0x07u;
    } else {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0u) != 0x80)
            return 0; /* also at the end of the string */
        code = code << 6 | (bytes[i] & 0x3fu);
    }
    return code >= minimum && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? length : 0;
}

static bool needs_quotes(const unsigned char *value)
{
    if (*value == '\0')
        return true;
    while (*value != '\0') {
        size_t length = printable_length(value);

        if (length == 0 || *value == ' ' || *value == '"' || *value == '=' || *value == '\\')
            return true;
        value += length;
    }
    return false;
}

static bool line_put_quoted_character(log_line_t *line, const unsigned char *value, size_t *length)
{
    char escape[5];
    int size;

    *length = printable_length(value);
    if (*length != 0 && *value != '"' && *value != '\\')
        return line_put(line, (const char *)value, *length);
    *length = 1;
    if (*value == '"' || *value == '\\')
        size = snprintf(escape, sizeof(escape), "\\%c", *value);
    else if (*value == '\n' || *value == '\r' || *value == '\t')
        size = snprintf(escape, sizeof(escape), "\\%c", *value == '\n' ? 'n' : *value == '\r' ? 'r' : 't');
    else
        size = snprintf(escape, sizeof(escape), "\\x%02x", *value);
    return line_put(line, escape, (size_t)size);
}

static void line_put_string(log_line_t *line, const char *string)
{
    const unsigned char *value = (const unsigned char *)(string == NULL ? "" : string);
    size_t length = 0;

    if (!needs_quotes(value)) {
        while (*value != '\0' && line_put(line, (const char *)value, length = printable_length(value)))
            value += length;
        return;
    }
    if (!line_put(line, "\"", 1))
        return;
    while (*value != '\0' && line_put_quoted_character(line, value, &length))
        value += length;
    line->bytes[line->used++] = '"'; /* the tail keeps room for it */
}

/* Keys and events come from our own source, but a module's name may have found its way into one. */
static void line_put_word(log_line_t *line, const char *word)
{
    for (; *word != '\0' && !line->cut; word++) {
        bool plain = (*word >= 'a' && *word <= 'z') || (*word >= 'A' && *word <= 'Z') ||
                     (*word >= '0' && *word <= '9') || *word == '.' || *word == '_' || *word == '-';

        line_put(line, plain ? word : "_", 1);
    }
}

static void line_put_field(log_line_t *line, const zlink_log_field_t *field)
{
    char number[32];
    int size = 0;
    size_t before = line->used;

    line_put(line, " ", 1);
    line_put_word(line, field->key);
    line_put(line, "=", 1);
    if (line->cut) {
        line->used = before; /* half a key is worse than none */
        return;
    }
    switch (field->type) {
    case ZLINK_LOG_FIELD_STRING:
        line_put_string(line, field->string);
        return;
    case ZLINK_LOG_FIELD_INTEGER:
        size = snprintf(number, sizeof(number), "%" PRId64, field->integer);
        break;
    case ZLINK_LOG_FIELD_REAL:
        size = snprintf(number, sizeof(number), "%.9g", field->real);
        break;
    }
    if (!line_put(line, number, (size_t)size))
        line->used = before; /* half a number is another number */
}

static void line_put_head(log_line_t *line, zlink_log_level_t level, const char *event)
{
    static const char *const level_names[] = {"debug", "info", "warn", "error"};
    char head[96];
    struct timespec now;
    struct tm parts;
    int size;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &parts) == NULL)
        memset(&parts, 0, sizeof(parts));
    size = snprintf(head, sizeof(head), "ts=%04d-%02d-%02dT%02d:%02d:%02d.%03dZ level=%s event=", parts.tm_year + 1900,
                    parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                    (int)(now.tv_nsec / 1000000), level_names[level]);
    line_put(line, head, (size_t)size);
    line_put_word(line, event);
    if (log_node[0] != '\0')
        line_put_field(line, &ZLINK_LOG_S("node", log_node));
}

/* Never waits and never raises: a reader of stderr that is stuck or gone must not stop a node. */
static void write_line(const char *bytes, size_t size)
{
    struct pollfd writable = {.fd = log_fd, .events = POLLOUT};
    sigset_t pipe_signal;
    sigset_t before;
    sigset_t pending;
    ssize_t written = -1;

    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
    if (poll(&writable, 1, 0) == 1 && (writable.revents & POLLOUT) != 0) {
        do {
            written = write(log_fd, bytes, size);
        } while (written < 0 && errno == EINTR);
    }
    if (written < 0 && errno == EPIPE && !sigismember(&pending, SIGPIPE))
        (void)sigtimedwait(&pipe_signal, NULL, &(struct timespec){0}); /* take back what this write raised */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (written < 0)
        zlink_counter_add(&zlink_log_lines_dropped, 1);
}

void zlink_log_write(zlink_log_level_t level, const char *event, const zlink_log_field_t *fields, unsigned count)
{
    log_line_t line;
    int error = errno;

    if (!zlink_log_enabled(level))
        return;
    line.used = 0;
    line.cut = false;
    line_put_head(&line, level, event);
    for (unsigned i = 0; i < count && !line.cut; i++)
        line_put_field(&line, &fields[i]);
    if (line.cut) {
        memcpy(line.bytes + line.used, LOG_CUT_MARKER, sizeof(LOG_CUT_MARKER) - 1);
        line.used += sizeof(LOG_CUT_MARKER) - 1;
    } else {
        line.bytes[line.used++] = '\n';
    }
    write_line(line.bytes, line.used);
    errno = error;
}
