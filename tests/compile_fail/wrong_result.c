/* expect: compatible with any (generic )?association */
#include <zlink/zlink.h>

#include "shop.zlink.h"

static void on_add(zlink_turn_t *turn, void *self, const AddReq *request, AddRes *reply);

const zlink_handler_t handlers[] = {ZLINK_ON_REQUEST(AddReq, AddRes, on_add), ZLINK_HANDLERS_END};
