#include "exec/stop_token.h"

void zlink_stop_token_init(zlink_stop_token_t *stop)
{
    atomic_init(&stop->requested, false);
}

void zlink_stop_token_request(zlink_stop_token_t *stop)
{
    atomic_store_explicit(&stop->requested, true, memory_order_release);
}

bool zlink_stop_token_is_requested(const zlink_stop_token_t *stop)
{
    return stop && atomic_load_explicit(&stop->requested, memory_order_acquire);
}
