/* expect: AddReq_packet */
#include <zlink/zlink.h>

#include "shop.pb.h"

static zlink_status_t on_note(zlink_turn_t *turn, void *self, const AddReq *note);

const zlink_handler_t handlers[] = {ZLINK_ON_SEND(AddReq, on_note), ZLINK_HANDLERS_END};
