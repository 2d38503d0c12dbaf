#include "server/application/dispatch_error.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/log_gate.h"

static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static zlink_log_gate_t gate;

static bool pass(uint64_t *held_back)
{
    pthread_mutex_lock(&gate_lock);
    bool passed = zlink_log_gate_pass(&gate, zlink_clock_now_ms(&zlink_clock_system), held_back);
    pthread_mutex_unlock(&gate_lock);
    return passed;
}

void zlink_dispatch_error_log(const zlink_dispatch_error_t *error)
{
    uint64_t held_back = 0;
    if (zlink_log_enabled(ZLINK_LOG_WARN) && pass(&held_back))
        zlink_log(ZLINK_LOG_WARN, "zlink.dispatch_error", ZLINK_LOG_S("reason", error->reason),
                  ZLINK_LOG_S("target", error->target), ZLINK_LOG_S("spot", error->spot_id),
                  ZLINK_LOG_S("packet", error->packet), ZLINK_LOG_S("source", error->source),
                  ZLINK_LOG_S("detail", error->detail),
                  ZLINK_LOG_S("correlation_id", error->trace ? error->trace->correlation_id : ""),
                  ZLINK_LOG_S("flow_id", error->trace ? error->trace->flow_id : ""),
                  ZLINK_LOG_I("not_logged", held_back));
}
