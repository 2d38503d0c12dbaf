/* A module that registers one channel twice. */
#include <zlink/zlink.h>

static const zlink_handler_t no_handlers[] = {ZLINK_HANDLERS_END};
static const zlink_channel_type_t channel = {.name = "twice", .handlers = no_handlers};

ZLINK_MODULE(bad_registration, module)
{
    zlink_module_add_channel(module, &channel);
    zlink_module_add_channel(module, &channel);
}
