/* prices.c: a channel that knows what things cost. */
#include <string.h>

#include <zlink/zlink.h>

#include "counter.zlink.h"

static const struct {
    const char *item;
    int64_t cents;
} prices[] = {
    {"apple", 25},
    {"bread", 310},
    {"coffee", 450},
};

static zlink_status_t on_price(zlink_turn_t *turn, void *self, const PriceReq *request, PriceRes *reply)
{
    (void)turn, (void)self;
    for (size_t i = 0; i < sizeof(prices) / sizeof(prices[0]); i++) {
        if (strcmp(prices[i].item, request->item) == 0) {
            reply->cents = prices[i].cents;
            return ZLINK_OK;
        }
    }
    return ZLINK_NOT_FOUND; /* the caller's `_yield` answers with this */
}

static const zlink_handler_t prices_handlers[] = {
    ZLINK_ON_REQUEST(PriceReq, PriceRes, on_price),
    ZLINK_HANDLERS_END,
};

static const zlink_channel_type_t prices_channel = {
    .name = "prices",
    .handlers = prices_handlers,
};

ZLINK_MODULE(prices, module)
{
    zlink_module_add_channel(module, &prices_channel);
}
