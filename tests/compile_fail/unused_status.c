/* expect: unused|warn_unused_result */
#include <zlink/zlink.h>

#include "shop.zlink.h"

void ask(zlink_turn_t *turn, const PriceReq *price)
{
    zlink_channel_send(turn, "prices", ZLINK_ASK(PriceReq, price));
}
