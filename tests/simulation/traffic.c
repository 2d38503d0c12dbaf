#include "tests/simulation/traffic.h"

#include <pb_encode.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlink/zlink.h>

#include "base/container_of.h"
#include "server/application/spot_registry.h"
#include "tests/simulation/chance.h"
#include "traffic.zlink.h"

#define CALLS_MAX   4096u
#define OWNERS_MAX  256u
#define DEPTH_MAX   3u
#define FILLING_MAX 7500u

/* Where a call goes. */
typedef enum aim { AIM_SPOT, AIM_CHANNEL, AIM_NODE, AIMS } aim_t;

typedef enum form { FORM_SEND, FORM_ASYNC, FORM_YIELD, FORM_ASYNC_THEN, FORM_YIELD_THEN, FORMS } form_t;

typedef struct target {
    aim_t aim;
    const char *name; /* NULL: none */
    char id[8];
} target_t;

/* `self` of every Spot, channel part and node: zeroed when its life begins. */
typedef struct owner {
    unsigned number; /* from 1; 0 until its first turn */
    bool inside;     /* a turn runs or holds it */
    target_t last;   /* whom it called */
} owner_t;

typedef struct call {
    unsigned number;
    form_t form;
    unsigned depth;
    unsigned caller; /* number of the owner; 0: from outside */
    unsigned ends, runs;
    bool must_end_well;
    zlink_status_t status;
    const simulated_node_t *peer; /* with must_end_well of a call from outside: whom its handler is to ask */
    zlink_cancellation_t *cancellation;
} call_t;

static struct {
    simulated_node_t *nodes;
    unsigned node_count;
    call_t calls[CALLS_MAX];
    unsigned call_count;
    unsigned open;
    unsigned owner_count;
    unsigned spots;                          /* of each type, … */
    unsigned large_one_in;                   /* … and how many requests are large: each world has its ways */
    unsigned newest[OWNERS_MAX][OWNERS_MAX]; /* call of the first that has run in the second */
} book;

traffic_totals_t traffic_totals;

void traffic_begin(simulated_node_t *nodes, unsigned count)
{
    memset(&book, 0, sizeof(book));
    book.nodes = nodes;
    book.node_count = count;
    book.spots = 1 + chance_any(3);
    book.large_one_in = chance_one_in(3) ? 3 : 24;
}

void traffic_end(void)
{
    for (unsigned i = 0; i < book.call_count; i++)
        zlink_cancellation_destroy(book.calls[i].cancellation);
}

/* ---- the book ---- */

static bool book_is_full(void)
{
    return book.call_count == CALLS_MAX;
}

static call_t *call_make(form_t form, unsigned depth, unsigned caller)
{
    call_t *call = &book.calls[book.call_count++];

    *call = (call_t){.number = book.call_count, .form = form, .depth = depth, .caller = caller};
    book.open++;
    traffic_totals.calls++;
    chance_note((uint64_t)call->number << 8 | (uint64_t)form);
    return call;
}

static void count_status(const call_t *call)
{
    uint64_t *const total = call->status == ZLINK_OK                  ? &traffic_totals.well
                            : call->status == ZLINK_CANCELLED         ? &traffic_totals.cancelled
                            : call->status == ZLINK_UNAVAILABLE       ? &traffic_totals.unavailable
                            : call->status == ZLINK_DEADLINE_EXCEEDED ? &traffic_totals.late
                                                                      : &traffic_totals.other;

    ++*total;
    traffic_totals.sent += call->form == FORM_SEND;
}

static void call_end(call_t *call, zlink_status_t status, const Done *done)
{
    hold_true(call->ends == 0);
    call->ends++;
    call->status = status;
    book.open--;
    chance_note((uint64_t)call->number << 16 | (uint64_t)status);
    count_status(call);
    hold_true(status == ZLINK_OK || !call->must_end_well);
    if (status != ZLINK_OK || call->form == FORM_SEND)
        return;
    hold_true(done != NULL && done->number == call->number); /* the answer is its own … */
    hold_true(call->runs == 1);                              /* … and its handler has run */
}

/* What nobody was to run: the target is not there, or it was not allowed. */
static void call_refused(call_t *call, zlink_status_t status)
{
    call_end(call, status, NULL);
    hold_true(call->runs == 0);
    traffic_totals.refused++;
}

static call_t *call_run(owner_t *owner, uint32_t number)
{
    hold_true(number >= 1 && number <= book.call_count);
    call_t *call = &book.calls[number - 1];

    if (owner->number == 0)
        owner->number = ++book.owner_count;
    hold_true(owner->number < OWNERS_MAX);
    hold_true(call->runs == 0); /* never twice */
    hold_true(call->status != ZLINK_INVALID_OPERATION && call->status != ZLINK_NOT_FOUND);
    call->runs++;
    traffic_totals.ran++;
    traffic_totals.sends_run += call->form == FORM_SEND;
    chance_note((uint64_t)call->number << 24 | owner->number);
    unsigned *newest = &book.newest[call->caller][owner->number];

    hold_true(call->caller == 0 || *newest < call->number); /* in the order of the calls */
    *newest = call->number;
    return call;
}

unsigned traffic_open(void)
{
    return book.open;
}

void traffic_hold_settled(void)
{
    hold_true(book.open == 0);
    for (unsigned i = 0; i < book.call_count; i++) {
        const call_t *call = &book.calls[i];

        hold_true(call->ends == 1 && call->runs <= 1);
        if (call->status == ZLINK_NOT_FOUND || call->status == ZLINK_INVALID_OPERATION)
            hold_true(call->runs == 0);
    }
}

void traffic_cancel_one(void)
{
    const unsigned first = book.call_count == 0 ? 0 : chance_any(book.call_count);

    for (unsigned i = 0; i < book.call_count; i++) {
        call_t *call = &book.calls[(first + i) % book.call_count];

        if (call->ends > 0 || call->cancellation == NULL)
            continue;
        zlink_cancellation_cancel(call->cancellation);
        return;
    }
}

/* ---- calls of a handler ---- */

static void turn_begin(owner_t *owner)
{
    hold_true(!owner->inside);
    owner->inside = true;
}

static void turn_end(owner_t *owner)
{
    hold_true(owner->inside);
    owner->inside = false;
}

/* What a `_then` call leaves for its end. */
typedef struct later {
    call_t *call;
    call_t *served; /* that the handler answers */
    Done done;
} later_t;

typedef struct plan {
    target_t to;
    zlink_ask_t ask;
    zlink_call_options_t options;
    Ask small;
    AskMuch *large; /* NULL: it is small */
} plan_t;

static zlink_status_t then(zlink_turn_t *turn, void *self, zlink_status_t status, void *context);

static const char *const cell_names[] = {"cell-n0", "cell-n1", "cell-n2"};

static target_t any_target(const simulated_node_t *node)
{
    target_t to = {.aim = chance_one_in(3) ? AIM_SPOT : (aim_t)chance_any(AIMS)};

    switch (to.aim) {
    case AIM_SPOT:
        to.name = cell_names[node->machine];
        (void)snprintf(to.id, sizeof(to.id), "%u", chance_any(book.spots));
        break;
    case AIM_CHANNEL:
        to.name = chance_one_in(32) ? "nobody" : "work";
        break;
    default:
        to.name = node->identity.node_id;
    }
    return to;
}

/* Often the same again: calls to one target have an order. */
static void plan_target(plan_t *plan, owner_t *owner, const simulated_node_t *peer)
{
    if (peer != NULL)
        plan->to = (target_t){AIM_SPOT, cell_names[peer->machine], "0"};
    else if (owner->last.name != NULL && chance_one_in(2))
        plan->to = owner->last;
    else
        plan->to = owner->last = any_target(&book.nodes[chance_any(book.node_count)]);
}

static uint64_t filling_at(uint32_t number, size_t at)
{
    return UINT64_MAX - number * UINT64_C(10000) - at;
}

static void plan_message(plan_t *plan, call_t *call)
{
    if (call->must_end_well || !chance_one_in(book.large_one_in)) {
        plan->small.number = call->number;
        plan->ask = ZLINK_ASK_WITH(Ask, &plan->small, &plan->options);
        return;
    }
    plan->large = malloc(sizeof(*plan->large));
    hold_true(plan->large != NULL);
    plan->large->number = call->number;
    plan->large->filling_count = (pb_size_t)(chance_one_in(4) ? FILLING_MAX : FILLING_MAX / 10 * (1 + chance_any(10)));
    for (size_t i = 0; i < plan->large->filling_count; i++)
        plan->large->filling[i] = filling_at(call->number, i);
    plan->ask = ZLINK_ASK_WITH(AskMuch, plan->large, &plan->options);
    traffic_totals.large++;
}

static zlink_status_t send(zlink_turn_t *turn, const plan_t *plan)
{
    if (plan->to.aim == AIM_SPOT)
        return zlink_instance_spot_send(turn, plan->to.name, plan->to.id, plan->ask);
    return plan->to.aim == AIM_CHANNEL ? zlink_channel_send(turn, plan->to.name, plan->ask)
                                       : zlink_node_send(turn, plan->to.name, plan->ask);
}

static zlink_status_t request(zlink_turn_t *turn, const plan_t *plan, bool yields, Done *done)
{
    const zlink_reply_t reply = ZLINK_REPLY(Done, done);

    if (plan->to.aim == AIM_SPOT)
        return yields ? zlink_instance_spot_request_yield(turn, plan->to.name, plan->to.id, plan->ask, reply)
                      : zlink_instance_spot_request_async(turn, plan->to.name, plan->to.id, plan->ask, reply);
    if (plan->to.aim == AIM_CHANNEL)
        return yields ? zlink_channel_request_yield(turn, plan->to.name, plan->ask, reply)
                      : zlink_channel_request_async(turn, plan->to.name, plan->ask, reply);
    return yields ? zlink_node_request_yield(turn, plan->to.name, plan->ask, reply)
                  : zlink_node_request_async(turn, plan->to.name, plan->ask, reply);
}

static zlink_status_t request_then(zlink_turn_t *turn, const plan_t *plan, bool yields, later_t *later)
{
    const zlink_reply_t reply = ZLINK_REPLY(Done, &later->done);

    if (plan->to.aim == AIM_SPOT)
        return yields ? zlink_instance_spot_request_yield_then(turn, plan->to.name, plan->to.id, plan->ask, reply, then,
                                                               later)
                      : zlink_instance_spot_request_async_then(turn, plan->to.name, plan->to.id, plan->ask, reply, then,
                                                               later);
    if (plan->to.aim == AIM_CHANNEL)
        return yields ? zlink_channel_request_yield_then(turn, plan->to.name, plan->ask, reply, then, later)
                      : zlink_channel_request_async_then(turn, plan->to.name, plan->ask, reply, then, later);
    return yields ? zlink_node_request_yield_then(turn, plan->to.name, plan->ask, reply, then, later)
                  : zlink_node_request_async_then(turn, plan->to.name, plan->ask, reply, then, later);
}

/* True: `then` follows, and the handler makes no other call. */
static bool call_by_then(zlink_turn_t *turn, owner_t *owner, const plan_t *plan, call_t *call, call_t *served)
{
    later_t *later = zlink_turn_alloc(turn, sizeof(*later));

    hold_true(later != NULL);
    later->call = call;
    later->served = served;
    const zlink_status_t status = request_then(turn, plan, call->form == FORM_YIELD_THEN, later);

    if (status != ZLINK_OK) {
        call_refused(call, status);
        return false;
    }
    if (call->form == FORM_YIELD_THEN)
        turn_end(owner);
    return true;
}

static void call_and_wait(zlink_turn_t *turn, owner_t *owner, const plan_t *plan, call_t *call)
{
    /* A message that waits for room gives the gate back, too, where that can be done. */
    const bool leaves =
        call->form == FORM_YIELD || (call->form == FORM_SEND && zlink_invocation_of(turn)->spot != NULL);
    Done done = Done_init_zero;
    zlink_status_t status;

    if (leaves) /* also where it is refused: nothing else can run before it is */
        turn_end(owner);
    if (call->form == FORM_SEND)
        status = send(turn, plan);
    else
        status = request(turn, plan, call->form == FORM_YIELD, &done);
    if (leaves)
        turn_begin(owner);
    call_end(call, status, &done);
}

static bool make_call(zlink_turn_t *turn, owner_t *owner, call_t *served)
{
    const form_t form = served->peer != NULL ? FORM_ASYNC : (form_t)chance_any(FORMS);
    plan_t plan = {.options.timeout_ms = served->peer != NULL ? 5000 : 1 + chance_any(3000)};
    bool follows = false;

    if (book_is_full())
        return false;
    plan_target(&plan, owner, served->peer);
    call_t *call = call_make(form, served->peer != NULL ? DEPTH_MAX : served->depth + 1, owner->number);

    call->must_end_well = served->peer != NULL;
    if (!call->must_end_well && chance_one_in(3)) {
        call->cancellation = zlink_cancellation_create();
        hold_true(call->cancellation != NULL);
        plan.options.cancellation = call->cancellation;
    }
    plan_message(&plan, call);
    if (form == FORM_ASYNC_THEN || form == FORM_YIELD_THEN)
        follows = call_by_then(turn, owner, &plan, call, served);
    else
        call_and_wait(turn, owner, &plan, call);
    free(plan.large);
    return follows;
}

/* True: a continuation ends the handler. */
static bool make_calls(zlink_turn_t *turn, owner_t *owner, call_t *served)
{
    unsigned calls = served->depth < DEPTH_MAX ? chance_any(3) : 0;

    if (served->depth == 0)
        calls = 1 + chance_any(4);
    if (served->peer != NULL)
        calls = 1;
    for (; calls > 0; calls--)
        if (make_call(turn, owner, served))
            return true;
    return false;
}

static zlink_status_t result_of(const call_t *served)
{
    return served->depth > 0 && served->depth < DEPTH_MAX && chance_one_in(16) ? ZLINK_REJECTED : ZLINK_OK;
}

static zlink_status_t then(zlink_turn_t *turn, void *self, zlink_status_t status, void *context)
{
    owner_t *owner = self;
    later_t *later = context;
    call_t *served = later->served;

    if (later->call->form == FORM_YIELD_THEN)
        turn_begin(owner);
    call_end(later->call, status, &later->done);
    if (chance_one_in(2) && make_call(turn, owner, served))
        return ZLINK_OK;
    turn_end(owner);
    return result_of(served);
}

/* ---- handlers ---- */

static zlink_status_t handle(zlink_turn_t *turn, owner_t *owner, uint32_t number)
{
    call_t *call = call_run(owner, number);

    turn_begin(owner);
    if (make_calls(turn, owner, call))
        return ZLINK_OK;
    turn_end(owner);
    return result_of(call);
}

static zlink_status_t on_ask(zlink_turn_t *turn, void *self, const Ask *ask, Done *done)
{
    done->number = ask->number;
    return handle(turn, self, ask->number);
}

static zlink_status_t on_ask_much(zlink_turn_t *turn, void *self, const AskMuch *ask, Done *done)
{
    hold_true(ask->filling_count >= FILLING_MAX / 10);
    for (size_t i = 0; i < ask->filling_count; i++)
        hold_true(ask->filling[i] == filling_at(ask->number, i));
    done->number = ask->number;
    return handle(turn, self, ask->number);
}

static zlink_status_t on_sent(zlink_turn_t *turn, void *self, const Ask *ask)
{
    Done done;

    return on_ask(turn, self, ask, &done);
}

static zlink_status_t on_sent_much(zlink_turn_t *turn, void *self, const AskMuch *ask)
{
    Done done;

    return on_ask_much(turn, self, ask, &done);
}

static const zlink_handler_t handlers[] = {
    ZLINK_ON_REQUEST(Ask, Done, on_ask),
    ZLINK_ON_REQUEST(AskMuch, Done, on_ask_much),
    ZLINK_ON_SEND(Ask, on_sent),
    ZLINK_ON_SEND(AskMuch, on_sent_much),
    ZLINK_HANDLERS_END,
};

#define CELL(NAME)                                                                                                     \
    {                                                                                                                  \
        .name = (NAME), .kind = ZLINK_INSTANCE_SPOT, .state_size = sizeof(owner_t),                                    \
        .relocation = ZLINK_RELOCATION_DISABLED, .handlers = handlers                                                  \
    }

static const zlink_spot_type_t cells[] = {CELL("cell-n0"), CELL("cell-n1"), CELL("cell-n2")};
static const zlink_channel_type_t work = {.name = "work", .state_size = sizeof(owner_t), .handlers = handlers};
static const zlink_node_handlers_t of_node = {.state_size = sizeof(owner_t), .handlers = handlers};

void traffic_fill(simulated_node_t *node, zlink_module_t *module)
{
    zlink_module_add_spot_type(module, &cells[node->machine]);
    zlink_module_add_node_handlers(module, &of_node);
    if (node->serves)
        zlink_module_add_channel(module, &work);
}

/* ---- from outside ---- */

static void delivered(zlink_invocation_t *invocation)
{
    Done done = {.number = ((call_t *)invocation->route)->number};

    call_end(invocation->route, invocation->status, &done);
    zlink_invocation_free(invocation);
}

static void start(simulated_node_t *node, const simulated_node_t *peer)
{
    zlink_application_host_t *host = node->host;
    const zlink_catalogue_spot_type_t *type = &host->catalogue->spot_types[0];
    zlink_admission_resource_t full;
    uint8_t bytes[16];
    char id[8];

    if (book_is_full())
        return;
    call_t *call = call_make(FORM_ASYNC, 0, 0);
    const Ask ask = {.number = call->number};
    pb_ostream_t stream = pb_ostream_from_buffer(bytes, sizeof(bytes));

    call->peer = peer;
    hold_true(pb_encode(&stream, Ask_fields, &ask));
    (void)snprintf(id, sizeof(id), "%u", chance_any(book.spots));
    zlink_invocation_t *invocation =
        zlink_invocation_create(host, zlink_handler_table_find(&type->handlers, ZLINK_HANDLER_REQUEST, Ask_packet),
                                "outside", bytes, stream.bytes_written, NULL, zlink_clock_now_ms(host->clock) + 10000);

    hold_true(invocation != NULL);
    invocation->deliver = delivered;
    invocation->route = call;
    const zlink_status_t status = zlink_spot_registry_execute(host->spots, type, id, invocation, &full);

    if (status == ZLINK_OK)
        return;
    zlink_invocation_free(invocation);
    call_refused(call, status);
}

void traffic_start_at(simulated_node_t *node)
{
    start(node, NULL);
}

void traffic_start_between(simulated_node_t *node, const simulated_node_t *peer)
{
    start(node, peer);
}
