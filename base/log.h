/*
 * base/log.h: the node's one log: logfmt lines on stderr.
 *
 *   ts=2026-11-30T20:42:20.123Z level=info event=zlink.peer.ready node=a peer=b-… cipher=…
 *
 * Any thread may log; a line is written whole by one write(2) and cut at 4 KiB. A line names an event
 * id (dotted, stable, documented in docs/operations.md) and key=value pairs; values that hold a space, a
 * quote, '=' or a control byte are quoted and escaped, so that no input can forge a line. A log that cannot be
 * written changes nothing else (EX-98).
 */
#ifndef ZLINK_BASE_LOG_H
#define ZLINK_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include <zlink/log.h> /* the levels */

/* One key=value pair. Make it with the macros. */
typedef struct zlink_log_field {
    const char *key;
    enum { ZLINK_LOG_FIELD_STRING, ZLINK_LOG_FIELD_INTEGER, ZLINK_LOG_FIELD_REAL } type;
    const char *string; /* NULL is written as "" */
    int64_t integer;
    double real;
} zlink_log_field_t;

#define ZLINK_LOG_S(KEY, STRING)  ((zlink_log_field_t){(KEY), ZLINK_LOG_FIELD_STRING, (STRING), 0, 0.0})
#define ZLINK_LOG_I(KEY, INTEGER) ((zlink_log_field_t){(KEY), ZLINK_LOG_FIELD_INTEGER, 0, (int64_t)(INTEGER), 0.0})
#define ZLINK_LOG_R(KEY, REAL)    ((zlink_log_field_t){(KEY), ZLINK_LOG_FIELD_REAL, 0, 0, (REAL)})

/* The level below which nothing is written. Default ZLINK_LOG_INFO. May be changed at any time. */
void zlink_log_set_level(zlink_log_level_t level);
zlink_log_level_t zlink_log_get_level(void);

/* A value put as node=NAME into every line. At most 64 bytes; call before other threads start. */
void zlink_log_set_node(const char *name);

/* Where lines go; default 2. Tests use a pipe. Call before other threads start. */
void zlink_log_set_fd(int fd);

bool zlink_log_enabled(zlink_log_level_t level);
void zlink_log_write(zlink_log_level_t level, const char *event, const zlink_log_field_t *fields, unsigned count);

/* zlink_log(ZLINK_LOG_INFO, "zlink.peer.ready", ZLINK_LOG_S("peer", id), ZLINK_LOG_I("links", 2)); at least one field
 */
#define zlink_log(LEVEL, EVENT, ...)                                                                                   \
    do {                                                                                                               \
        if (zlink_log_enabled(LEVEL)) {                                                                                \
            const zlink_log_field_t zlink_log_fields_[] = {__VA_ARGS__};                                               \
            zlink_log_write((LEVEL), (EVENT), zlink_log_fields_,                                                       \
                            (unsigned)(sizeof(zlink_log_fields_) / sizeof(zlink_log_fields_[0])));                     \
        }                                                                                                              \
    } while (0)

#endif
