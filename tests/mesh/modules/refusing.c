/*
 * refusing.c: a channel that does not want to start.
 */
#include <zlink/zlink.h>

static zlink_status_t refuse(zlink_turn_t *turn, void *self)
{
    (void)turn, (void)self;
    return ZLINK_DATA_LOST;
}

static const zlink_handler_t no_handlers[] = {ZLINK_HANDLERS_END};

static const zlink_channel_type_t channel = {.name = "refusing", .on_start = refuse, .handlers = no_handlers};

ZLINK_MODULE(refusing, module)
{
    zlink_module_add_channel(module, &channel);
}
