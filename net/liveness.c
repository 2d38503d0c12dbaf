#include "net/liveness.h"

void zlink_liveness_start(zlink_liveness_t *liveness, uint64_t now_ms)
{
    liveness->probe_ms = now_ms + ZLINK_LIVENESS_PROBE_MS;
    liveness->deadline_ms = now_ms + ZLINK_LIVENESS_DEADLINE_MS;
    liveness->outstanding = 0;
    liveness->last_id = 0;
}

zlink_liveness_action_t zlink_liveness_check(zlink_liveness_t *liveness, uint64_t now_ms, uint64_t *id)
{
    if (now_ms >= liveness->deadline_ms)
        return ZLINK_LIVENESS_EXPIRED;
    if (now_ms < liveness->probe_ms)
        return ZLINK_LIVENESS_WAIT;
    /* Due times that were slept over are not made up for. */
    do {
        liveness->probe_ms += ZLINK_LIVENESS_PROBE_MS;
    } while (liveness->probe_ms <= now_ms);
    if (liveness->outstanding == 0)
        liveness->outstanding = ++liveness->last_id;
    *id = liveness->outstanding;
    return ZLINK_LIVENESS_PROBE;
}

bool zlink_liveness_acknowledge(zlink_liveness_t *liveness, uint64_t id, uint64_t now_ms)
{
    if (id == 0 || id != liveness->outstanding)
        return false;
    liveness->outstanding = 0;
    liveness->deadline_ms = now_ms + ZLINK_LIVENESS_DEADLINE_MS;
    return true;
}

void zlink_liveness_put_off(zlink_liveness_t *liveness, uint64_t now_ms)
{
    liveness->deadline_ms = now_ms + ZLINK_LIVENESS_DEADLINE_MS;
}

uint64_t zlink_liveness_next_ms(const zlink_liveness_t *liveness)
{
    return liveness->probe_ms < liveness->deadline_ms ? liveness->probe_ms : liveness->deadline_ms;
}
