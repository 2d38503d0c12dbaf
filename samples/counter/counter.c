/* counter.c: a Spot that counts, one message at a time. */
#include <zlink/zlink.h>

#include "counter.zlink.h"

typedef struct {
    int64_t total_cents;
    int64_t additions;
    int64_t running; /* turns inside on_add between two waits: never more than one */
    int64_t overlaps;
} counter_t;

static zlink_status_t on_add(zlink_turn_t *turn, void *self, const AddReq *request, AddRes *reply)
{
    counter_t *counter = self;
    PriceReq ask = PriceReq_init_zero;
    PriceRes price;

    for (size_t i = 0; i < sizeof(ask.item); i++)
        ask.item[i] = request->item[i];

    /* The gate goes back while we wait: other turns of this Spot run. */
    zlink_status_t status =
        zlink_channel_request_yield(turn, "prices", ZLINK_ASK(PriceReq, &ask), ZLINK_REPLY(PriceRes, &price));
    if (status != ZLINK_OK)
        return status;

    /* No lock, although hundreds of additions are under way: this part of the turn is alone with the state. It was read
     * after the wait, not before. */
    if (counter->running++ != 0)
        counter->overlaps++;
    counter->total_cents += request->amount * price.cents;
    counter->additions++;
    reply->total_cents = counter->total_cents;
    counter->running--;
    return ZLINK_OK;
}

static zlink_status_t on_total(zlink_turn_t *turn, void *self, const TotalReq *request, TotalRes *reply)
{
    const counter_t *counter = self;
    (void)turn, (void)request;
    reply->total_cents = counter->total_cents;
    reply->additions = counter->additions;
    reply->overlaps = counter->overlaps;
    return ZLINK_OK;
}

static const zlink_handler_t counter_handlers[] = {
    ZLINK_ON_REQUEST(AddReq, AddRes, on_add),
    ZLINK_ON_REQUEST(TotalReq, TotalRes, on_total),
    ZLINK_HANDLERS_END,
};

static const zlink_spot_type_t counter_type = {
    .name = "counter",
    .kind = ZLINK_INSTANCE_SPOT,
    .state_size = sizeof(counter_t),
    .relocation = ZLINK_RECREATE_ON_RELOCATION,
    .handlers = counter_handlers,
};

ZLINK_MODULE(counter, module)
{
    zlink_module_add_spot_type(module, &counter_type);
}
