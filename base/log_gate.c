#include "base/log_gate.h"

#define LINE_MS   (1000u / ZLINK_LOG_GATE_PER_SECOND)
#define BUDGET_MS (ZLINK_LOG_GATE_BURST * LINE_MS)

bool zlink_log_gate_pass(zlink_log_gate_t *gate, uint64_t now_ms, uint64_t *held_back)
{
    const uint64_t passed_ms = now_ms > gate->seen_ms ? now_ms - gate->seen_ms : 0;

    gate->used_ms = gate->used_ms > passed_ms ? gate->used_ms - passed_ms : 0;
    gate->seen_ms = now_ms;
    if (gate->used_ms + LINE_MS > BUDGET_MS) {
        gate->held_back++;
        return false;
    }
    gate->used_ms += LINE_MS;
    *held_back = gate->held_back;
    gate->held_back = 0;
    return true;
}
