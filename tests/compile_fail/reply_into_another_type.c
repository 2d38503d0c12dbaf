/* expect: compatible with any (generic )?association */
#include <zlink/zlink.h>

#include "shop.zlink.h"

zlink_status_t ask(zlink_turn_t *turn, const PriceReq *price, AddRes *reply)
{
    return zlink_channel_request_async(turn, "prices", ZLINK_ASK(PriceReq, price), ZLINK_REPLY(PriceRes, reply));
}
