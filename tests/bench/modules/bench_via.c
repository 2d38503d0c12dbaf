/* bench_via.c: a Spot in the middle: its handler asks the echo Spot of a third node, and gives its gate back meanwhile.
 */
#include <zlink/zlink.h>

#include "bench.zlink.h"

typedef struct {
    uint64_t passed; /* a Spot with state, like any other */
} via_t;

static zlink_status_t on_echo64(zlink_turn_t *turn, void *self, const Echo64Req *request, Echo64Res *reply)
{
    via_t *via = self;
    zlink_status_t status = zlink_instance_spot_request_yield(
        turn, "echo", zlink_turn_owner_name(turn), ZLINK_ASK(Echo64Req, request), ZLINK_REPLY(Echo64Res, reply));
    if (status == ZLINK_OK)
        via->passed++;
    return status;
}

static const zlink_handler_t via_handlers[] = {
    ZLINK_ON_REQUEST(Echo64Req, Echo64Res, on_echo64),
    ZLINK_HANDLERS_END,
};

static const zlink_spot_type_t via_type = {
    .name = "via",
    .kind = ZLINK_INSTANCE_SPOT,
    .state_size = sizeof(via_t),
    .relocation = ZLINK_RELOCATION_DISABLED,
    .handlers = via_handlers,
};

ZLINK_MODULE(bench_via, module)
{
    zlink_module_add_spot_type(module, &via_type);
}
