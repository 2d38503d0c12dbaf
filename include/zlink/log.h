/*
 * zlink/log.h: a handler's words in the node's log.
 */
#ifndef ZLINK_LOG_H
#define ZLINK_LOG_H

#include <zlink/turn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum zlink_log_level {
    ZLINK_LOG_DEBUG = 0,
    ZLINK_LOG_INFO,
    ZLINK_LOG_WARN,
    ZLINK_LOG_ERROR,
    ZLINK_LOG_OFF, /* of the configuration's `log.level` only: a message of this level is not written */
} zlink_log_level_t;

/* Writes one line, event=zlink.module.message, with the turn's owner and `text`, where the node's log level lets it
 * through. Whatever `text` holds, it stays one value of one line; it is cut where the line has 4 KiB. `turn` may be
 * NULL: no owner is named. The line is written before the function returns, so a handler that runs often should not say
 * much. */
ZLINK_API void zlink_log_message(const zlink_turn_t *turn, zlink_log_level_t level, const char *text);

#ifdef __cplusplus
}
#endif

#endif
