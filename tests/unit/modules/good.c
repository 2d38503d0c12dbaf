/* A module that registers one channel and one Spot type. */
#include <zlink/zlink.h>

static const zlink_handler_t no_handlers[] = {ZLINK_HANDLERS_END};

static const zlink_channel_type_t channel = {.name = "good channel", .handlers = no_handlers};
static const zlink_spot_type_t spot_type = {
    .name = "good spot",
    .kind = ZLINK_INSTANCE_SPOT,
    .relocation = ZLINK_RELOCATION_DISABLED,
    .handlers = no_handlers,
};

ZLINK_MODULE(good, module)
{
    zlink_module_add_channel(module, &channel);
    zlink_module_add_spot_type(module, &spot_type);
}
