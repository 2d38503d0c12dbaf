/* compiles */
#include <zlink/zlink.h>

#include "shop.zlink.h"

typedef struct {
    int64_t total;
} cart_t;

static zlink_status_t after_price(zlink_turn_t *turn, void *self, zlink_status_t status, void *context)
{
    cart_t *cart = self;
    const PriceRes *price = context;

    (void)turn;
    if (status == ZLINK_OK)
        cart->total += price->cents;
    return status;
}

static zlink_status_t on_add(zlink_turn_t *turn, void *self, const AddReq *request, AddRes *reply)
{
    cart_t *cart = self;
    PriceReq ask = {.item = "tea"};
    const PriceReq *also = &ask;
    PriceRes price = PriceRes_init_zero;
    zlink_status_t status =
        zlink_channel_request_yield(turn, "prices", ZLINK_ASK(PriceReq, &ask), ZLINK_REPLY(PriceRes, &price));

    if (status != ZLINK_OK)
        return status;
    status = zlink_instance_spot_request_async(turn, "shelf", request->item, ZLINK_ASK_WITHIN(PriceReq, also, 250),
                                               ZLINK_REPLY(PriceRes, &price));
    cart->total += request->amount * price.cents;
    reply->total = cart->total;
    return status;
}

static zlink_status_t on_note(zlink_turn_t *turn, void *self, const AddReq *note)
{
    PriceReq ask = {.item = "tea"};
    PriceRes *price = zlink_turn_alloc(turn, sizeof(*price));

    (void)self;
    if (price == NULL)
        return ZLINK_CAPACITY_EXCEEDED;
    if (note->amount > 1)
        return zlink_channel_send(turn, "audit", ZLINK_ASK(AddReq, note));
    return zlink_channel_request_async_then(turn, "prices", ZLINK_ASK(PriceReq, &ask), ZLINK_REPLY(PriceRes, price),
                                            after_price, price);
}

static const zlink_handler_t handlers[] = {
    ZLINK_ON_REQUEST(AddReq, AddRes, on_add),
    ZLINK_ON_SEND(AddReq, &on_note),
    ZLINK_HANDLERS_END,
};

static const zlink_spot_type_t cart_type = {
    .name = "cart",
    .kind = ZLINK_INSTANCE_SPOT,
    .state_size = sizeof(cart_t),
    .relocation = ZLINK_RECREATE_ON_RELOCATION,
    .handlers = handlers,
};

static const zlink_channel_type_t audit = {.name = "audit", .handlers = handlers};

ZLINK_MODULE(cart, module)
{
    zlink_module_add_spot_type(module, &cart_type);
    zlink_module_add_channel(module, &audit);
}
