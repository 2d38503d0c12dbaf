/* expect: incompatible type */
#include <zlink/zlink.h>

#include "shop.zlink.h"

zlink_status_t ask(zlink_turn_t *turn, const PriceReq *price, PriceRes *reply)
{
    return zlink_channel_request_async(turn, "prices", ZLINK_REPLY(PriceRes, reply), ZLINK_ASK(PriceReq, price));
}
