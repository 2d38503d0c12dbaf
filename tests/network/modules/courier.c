/*
 * courier.c: load from every side whose sums can be checked. A Spot "courier" sends numbered parcels to one channel, at
 * the pace of a timer and in one of the ways in which a handler can; the channels "inbox-a" to "inbox-e" take them.
 * Both write each parcel into a ledger. A node is a server of the inbox that has its name and a client of the others
 * (configuration), so that the name of the channel is that of the node.
 */
#include <stdio.h>
#include <string.h>

#include <zlink/zlink.h>

#include "courier.zlink.h"
#include "ledger.h"

#define LEDGERS_MAX 65536u /* of one inbox; a power of two */

typedef struct courier {
    StartReq plan;
    ledger_t *ledger;
} courier_t;

/* One parcel on its way. */
typedef struct delivery {
    uint32_t number;
    ParcelRes answer;
    union {
        ParcelReq parcel;
        BulkReq bulk;
        Parcel note;
    } message;
} delivery_t;

typedef struct inbox {
    ledger_t *ledgers[LEDGERS_MAX]; /* by name, open addressing */
    uint32_t count;
} inbox_t;

/* ---- the courier ---- */

static zlink_status_t delivered(courier_t *courier, const delivery_t *delivery, zlink_status_t status)
{
    if (status == ZLINK_OK && courier->plan.kind != Kind_SEND &&
        (delivery->answer.number != delivery->number || strcmp(delivery->answer.ledger, courier->plan.ledger) != 0))
        courier->ledger->wrong++;
    ledger_end(courier->ledger, delivery->number, status);
    return ZLINK_OK; /* a timer's failure would be logged: these are counted */
}

static zlink_status_t then(zlink_turn_t *turn, void *self, zlink_status_t status, void *context)
{
    (void)turn;
    return delivered(self, context, status);
}

static zlink_ask_t parcel_of(const courier_t *courier, delivery_t *delivery)
{
    ParcelReq *parcel = &delivery->message.parcel;
    parcel->number = delivery->number;
    parcel->load.size = sizeof(parcel->load.bytes);
    memcpy(parcel->ledger, courier->plan.ledger, sizeof(parcel->ledger));
    return ZLINK_ASK_WITHIN(ParcelReq, parcel, courier->plan.timeout_ms);
}

static zlink_ask_t bulk_of(const courier_t *courier, delivery_t *delivery)
{
    BulkReq *bulk = &delivery->message.bulk;
    bulk->number = delivery->number;
    bulk->load_count = sizeof(bulk->load) / sizeof(bulk->load[0]);
    memset(bulk->load, 0xff, sizeof(bulk->load));
    memcpy(bulk->ledger, courier->plan.ledger, sizeof(bulk->ledger));
    return ZLINK_ASK_WITHIN(BulkReq, bulk, courier->plan.timeout_ms);
}

static zlink_ask_t note_of(const courier_t *courier, delivery_t *delivery)
{
    Parcel *note = &delivery->message.note;
    note->number = delivery->number;
    note->load.size = sizeof(note->load.bytes);
    memcpy(note->ledger, courier->plan.ledger, sizeof(note->ledger));
    return ZLINK_ASK_WITHIN(Parcel, note, courier->plan.timeout_ms);
}

static zlink_status_t on_tick(zlink_turn_t *turn, void *self, const zlink_tick_t *tick)
{
    courier_t *courier = self;
    const char *channel = courier->plan.channel;
    delivery_t *delivery = zlink_turn_alloc(turn, sizeof(*delivery));
    (void)tick;
    if (!delivery)
        return ZLINK_CAPACITY_EXCEEDED;
    delivery->number = ledger_begin(courier->ledger);
    if (delivery->number == 0)
        return ZLINK_CAPACITY_EXCEEDED;

    zlink_reply_t answer = ZLINK_REPLY(ParcelRes, &delivery->answer);
    zlink_status_t status = ZLINK_INVALID_OPERATION;
    switch (courier->plan.kind) {
    case Kind_YIELD:
        status = zlink_channel_request_yield(turn, channel, parcel_of(courier, delivery), answer);
        break;
    case Kind_YIELD_THEN:
        status = zlink_channel_request_yield_then(turn, channel, parcel_of(courier, delivery), answer, then, delivery);
        if (status == ZLINK_OK)
            return ZLINK_OK;
        break;
    case Kind_ASYNC:
        status = zlink_channel_request_async(turn, channel, parcel_of(courier, delivery), answer);
        break;
    case Kind_BULK:
        status = zlink_channel_request_yield(turn, channel, bulk_of(courier, delivery), answer);
        break;
    case Kind_SEND:
        status = zlink_channel_send(turn, channel, note_of(courier, delivery));
        break;
    }
    return delivered(courier, delivery, status);
}

static zlink_status_t on_start(zlink_turn_t *turn, void *self, const StartReq *request, StartRes *reply)
{
    courier_t *courier = self;
    (void)reply;
    if (courier->ledger)
        return ZLINK_ALREADY_EXISTS;
    courier->plan = *request;
    courier->ledger = ledger_open("sent", request->ledger);
    if (!courier->ledger)
        return ZLINK_INTERNAL_FAILURE;
    return zlink_timer_start(
        turn, "rounds",
        (zlink_timer_options_t){.period_ms = request->period_ms, .overrun_policy = ZLINK_TIMER_DELAY_NEXT_TICK},
        on_tick);
}

static zlink_status_t on_stop(zlink_turn_t *turn, void *self, const StopReq *request, StopRes *reply)
{
    (void)self, (void)request, (void)reply;
    return zlink_timer_cancel(turn, "rounds");
}

/* ---- the inbox ---- */

static ledger_t *ledger_of(inbox_t *inbox, const char *name)
{
    uint32_t place = 2166136261u; /* FNV-1a */
    for (const char *c = name; *c; c++)
        place = (place ^ (uint8_t)*c) * 16777619u;
    for (;; place++) {
        ledger_t **ledger = &inbox->ledgers[place % LEDGERS_MAX];
        if (*ledger && strcmp((*ledger)->name, name) == 0)
            return *ledger;
        if (*ledger)
            continue;
        if (inbox->count == LEDGERS_MAX / 2)
            return NULL;
        *ledger = ledger_open("got", name);
        inbox->count += *ledger != NULL;
        return *ledger;
    }
}

static zlink_status_t arrived(inbox_t *inbox, const char *name, uint32_t number, ParcelRes *reply)
{
    ledger_t *ledger = ledger_of(inbox, name);
    if (!ledger)
        return ZLINK_INTERNAL_FAILURE;
    ledger_note(ledger, number);
    if (reply) {
        reply->number = number;
        snprintf(reply->ledger, sizeof(reply->ledger), "%s", name);
    }
    return ZLINK_OK;
}

static zlink_status_t on_parcel(zlink_turn_t *turn, void *self, const ParcelReq *request, ParcelRes *reply)
{
    (void)turn;
    return arrived(self, request->ledger, request->number, reply);
}

static zlink_status_t on_bulk(zlink_turn_t *turn, void *self, const BulkReq *request, ParcelRes *reply)
{
    (void)turn;
    return arrived(self, request->ledger, request->number, reply);
}

static zlink_status_t on_note(zlink_turn_t *turn, void *self, const Parcel *message)
{
    (void)turn;
    return arrived(self, message->ledger, message->number, NULL);
}

static const zlink_handler_t courier_handlers[] = {
    ZLINK_ON_REQUEST(StartReq, StartRes, on_start),
    ZLINK_ON_REQUEST(StopReq, StopRes, on_stop),
    ZLINK_HANDLERS_END,
};

static const zlink_handler_t inbox_handlers[] = {
    ZLINK_ON_REQUEST(ParcelReq, ParcelRes, on_parcel),
    ZLINK_ON_REQUEST(BulkReq, ParcelRes, on_bulk),
    ZLINK_ON_SEND(Parcel, on_note),
    ZLINK_HANDLERS_END,
};

static const zlink_spot_type_t courier_type = {
    .name = "courier",
    .kind = ZLINK_INSTANCE_SPOT,
    .state_size = sizeof(courier_t),
    .relocation = ZLINK_RELOCATION_DISABLED,
    .handlers = courier_handlers,
};

static const zlink_channel_type_t inboxes[] = {
    {.name = "inbox-a", .state_size = sizeof(inbox_t), .handlers = inbox_handlers},
    {.name = "inbox-b", .state_size = sizeof(inbox_t), .handlers = inbox_handlers},
    {.name = "inbox-c", .state_size = sizeof(inbox_t), .handlers = inbox_handlers},
    {.name = "inbox-d", .state_size = sizeof(inbox_t), .handlers = inbox_handlers},
    {.name = "inbox-e", .state_size = sizeof(inbox_t), .handlers = inbox_handlers},
};

ZLINK_MODULE(courier, module)
{
    zlink_module_add_spot_type(module, &courier_type);
    for (size_t i = 0; i < sizeof(inboxes) / sizeof(inboxes[0]); i++)
        zlink_module_add_channel(module, &inboxes[i]);
}
