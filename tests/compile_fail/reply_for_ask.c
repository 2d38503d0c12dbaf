/* expect: incompatible type */
#include <zlink/zlink.h>

#include "shop.zlink.h"

zlink_status_t ask(zlink_turn_t *turn, PriceReq *price)
{
    return zlink_channel_send(turn, "prices", ZLINK_REPLY(PriceReq, price));
}
