/* expect: compatible with any (generic )?association */
#include <zlink/zlink.h>

#include "shop.zlink.h"

zlink_status_t ask(zlink_turn_t *turn, const AddReq *add)
{
    return zlink_channel_send(turn, "prices", ZLINK_ASK(PriceReq, add));
}
