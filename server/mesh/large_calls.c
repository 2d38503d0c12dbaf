#include "server/mesh/large_calls.h"

#include <assert.h>
#include <string.h>

#include "proto/frame.h"
#include "proto/wire.h"

bool zlink_large_calls_is(const zlink_outbound_call_t *call)
{
    return call->payload_bytes > ZLINK_FRAME_WHOLE_BYTES_MAX - ZLINK_WIRE_SMALL_ENVELOPE_MAX;
}

void zlink_large_calls_init(zlink_large_calls_t *large)
{
    TAILQ_INIT(&large->calls);
    large->sending_bytes = 0;
}

static bool same_target(const zlink_outbound_call_t *one, const zlink_outbound_call_t *other)
{
    return one->target == other->target && strcmp(one->name, other->name) == 0 &&
           strcmp(one->spot_id, other->spot_id) == 0;
}

/* Looks at what came before `end` (NULL: at all of them). */
static bool is_held_up(const zlink_large_calls_t *large, const zlink_outbound_call_t *call,
                       const zlink_outbound_call_t *end, size_t bytes_max)
{
    const zlink_outbound_call_t *earlier;
    const bool is_large = zlink_large_calls_is(call);

    if (is_large && large->sending_bytes > 0 && call->payload_bytes + large->sending_bytes > bytes_max)
        return true;
    TAILQ_FOREACH(earlier, &large->calls, in_large)
    {
        if (earlier == end)
            return false;
        if (is_large && earlier->parked && zlink_large_calls_is(earlier))
            return true; /* or a very large one would wait for ever */
        if (same_target(earlier, call))
            return true;
    }
    return false;
}

bool zlink_large_calls_hold_up(const zlink_large_calls_t *large, const zlink_outbound_call_t *call, size_t bytes_max)
{
    return !TAILQ_EMPTY(&large->calls) && is_held_up(large, call, NULL, bytes_max);
}

void zlink_large_calls_park(zlink_large_calls_t *large, zlink_outbound_call_t *call)
{
    assert(!call->parked && !call->sending_on);
    call->parked = true;
    TAILQ_INSERT_TAIL(&large->calls, call, in_large);
}

void zlink_large_calls_send(zlink_large_calls_t *large, zlink_outbound_call_t *call)
{
    assert(!call->parked && !call->sending_on);
    call->sending_on = large;
    large->sending_bytes += call->payload_bytes;
    TAILQ_INSERT_HEAD(&large->calls, call, in_large); /* before all that wait: none of them could go instead */
}

void zlink_large_calls_remove(zlink_large_calls_t *large, zlink_outbound_call_t *call)
{
    assert(call->parked || call->sending_on == large);
    TAILQ_REMOVE(&large->calls, call, in_large);
    if (call->sending_on)
        large->sending_bytes -= call->payload_bytes;
    call->sending_on = NULL;
    call->parked = false;
}

zlink_outbound_call_t *zlink_large_calls_parked(const zlink_large_calls_t *large)
{
    zlink_outbound_call_t *call;

    TAILQ_FOREACH(call, &large->calls, in_large)
    {
        if (call->parked)
            break;
    }
    return call;
}

zlink_outbound_call_t *zlink_large_calls_next(const zlink_large_calls_t *large, size_t bytes_max)
{
    zlink_outbound_call_t *call;

    TAILQ_FOREACH(call, &large->calls, in_large)
    {
        if (call->parked && !is_held_up(large, call, call, bytes_max))
            break;
    }
    return call;
}

void zlink_large_calls_close(zlink_large_calls_t *large)
{
    zlink_outbound_call_t *call;

    while ((call = TAILQ_FIRST(&large->calls)) != NULL)
        zlink_large_calls_remove(large, call);
}
