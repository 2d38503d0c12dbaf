/*
 * server/application/log_api.c: include/zlink/log.h.
 */
#include <zlink/log.h>

#include "base/log.h"

void zlink_log_message(const zlink_turn_t *turn, zlink_log_level_t level, const char *text)
{
    if ((unsigned)level >= ZLINK_LOG_OFF)
        return;
    zlink_log(level, "zlink.module.message", ZLINK_LOG_S("owner", turn ? zlink_turn_owner_name(turn) : ""),
              ZLINK_LOG_S("text", text));
}
