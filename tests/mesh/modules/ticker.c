/*
 * ticker.c: a Spot whose timers the test starts: what ticks say, and what their handlers may do. "metronome" starts one
 * when it is created.
 */
#include <stdio.h>
#include <stdlib.h>

#include <zlink/zlink.h>

#include "mesh.zlink.h"
#include "wait.h"

#define TIMERS_MAX 16

typedef struct ticker {
    waiter_t waiter; /* first: on_wait works on it */
    TimerReq timers[TIMERS_MAX];
    size_t count;
} ticker_t;

static TimerReq *find(ticker_t *ticker, const char *name)
{
    for (size_t i = 0; i < ticker->count; i++)
        if (strcmp(ticker->timers[i].name, name) == 0)
            return &ticker->timers[i];
    return NULL;
}

static zlink_status_t ask_and_wait(zlink_turn_t *turn, ticker_t *ticker, const zlink_tick_t *tick, bool yield)
{
    LatchReq latch = LatchReq_init_zero;
    LatchRes answer;
    zlink_ask_t ask = ZLINK_ASK(LatchReq, &latch);
    zlink_reply_t reply = ZLINK_REPLY(LatchRes, &answer);
    snprintf(latch.tag, sizeof(latch.tag), "%s", tick->name);
    journal_leave(&ticker->waiter.journal);
    zlink_status_t status = yield ? zlink_channel_request_yield(turn, "latch", ask, reply)
                                  : zlink_channel_request_async(turn, "latch", ask, reply);
    journal_enter(&ticker->waiter.journal);
    journal_note(&ticker->waiter.journal, tick->name, "-");
    return status;
}

static zlink_status_t on_tick(zlink_turn_t *turn, void *self, const zlink_tick_t *tick)
{
    ticker_t *ticker = self;
    const TimerReq *timer = find(ticker, tick->name);
    TickAction action = timer ? timer->action : TickAction_NOTHING;
    zlink_status_t status = ZLINK_OK;
    char mark[64];

    journal_enter(&ticker->waiter.journal);
    snprintf(mark, sizeof(mark), "/%llu/%llu/%llu", (unsigned long long)tick->delivery_index,
             (unsigned long long)tick->scheduled_index, (unsigned long long)tick->skipped_ticks);
    journal_note(&ticker->waiter.journal, tick->name, mark);
    ticker->waiter.total++;
    if (tick->started_ms < tick->scheduled_ms || zlink_turn_remaining_ms(turn) != -1)
        journal_note(&ticker->waiter.journal, "early", "");
    if (action == TickAction_WAIT_ASYNC || action == TickAction_WAIT_YIELD)
        status = ask_and_wait(turn, ticker, tick, action == TickAction_WAIT_YIELD);
    else if (action == TickAction_CANCEL)
        status = zlink_timer_cancel(turn, tick->name);
    else if (action == TickAction_CLOSE)
        status = zlink_spot_close(turn);
    else if (action == TickAction_FAIL)
        status = ZLINK_REJECTED;
    journal_leave(&ticker->waiter.journal);
    return status;
}

static zlink_status_t on_timer(zlink_turn_t *turn, void *self, const TimerReq *request, TimerRes *reply)
{
    ticker_t *ticker = self;
    zlink_status_t status;

    if (request->cancel) {
        status = zlink_timer_cancel(turn, request->name);
    } else {
        TimerReq *timer = find(ticker, request->name);
        if (!timer && ticker->count < TIMERS_MAX)
            timer = &ticker->timers[ticker->count++];
        if (timer)
            *timer = *request;
        status = zlink_timer_start(turn, request->name,
                                   (zlink_timer_options_t){
                                       .first_delay_ms = request->first_delay_ms,
                                       .period_ms = request->period_ms,
                                       .overrun_policy = (zlink_timer_overrun_policy_t)request->overrun_policy,
                                       .max_catch_up_ticks = request->max_catch_up_ticks,
                                       .stop_on_failure = request->stop_on_failure,
                                   },
                                   on_tick);
    }
    snprintf(reply->status, sizeof(reply->status), "%s", zlink_status_name(status));
    return ZLINK_OK;
}

static zlink_status_t on_ping(zlink_turn_t *turn, void *self, const PingReq *request, PingRes *reply)
{
    ticker_t *ticker = self;
    (void)turn, (void)reply;
    journal_enter(&ticker->waiter.journal);
    journal_note(&ticker->waiter.journal, request->tag, "");
    journal_leave(&ticker->waiter.journal);
    return ZLINK_OK;
}

static zlink_status_t on_log(zlink_turn_t *turn, void *self, const LogReq *request, LogRes *reply)
{
    const ticker_t *ticker = self;
    (void)turn, (void)request;
    journal_read(&ticker->waiter.journal, reply);
    reply->total = ticker->waiter.total;
    return ZLINK_OK;
}

static zlink_status_t start_at_once(zlink_turn_t *turn, void *self)
{
    (void)self;
    return zlink_timer_start(turn, "tick", (zlink_timer_options_t){.period_ms = 20}, on_tick);
}

/* Too late for a new one. */
static void leave_word(zlink_turn_t *turn, void *self)
{
    const ticker_t *ticker = self;
    const char *folder = getenv("ZLINK_MESH_TEST_FOLDER");
    char path[1024];
    zlink_status_t status = zlink_timer_start(turn, "late", (zlink_timer_options_t){.period_ms = 1}, on_tick);
    snprintf(path, sizeof(path), "%s/%s", folder ? folder : ".", zlink_turn_owner_name(turn));
    FILE *file = fopen(path, "a");
    if (!file)
        return;
    fprintf(file, "closed: %s %lld\n", zlink_status_name(status), (long long)ticker->waiter.total);
    fclose(file);
}

/* A channel has no timers. */
static zlink_status_t on_channel_timer(zlink_turn_t *turn, void *self, const TimerReq *request, TimerRes *reply)
{
    zlink_timer_options_t options = {.period_ms = 5};
    (void)self;
    zlink_status_t status = zlink_timer_start(turn, request->name, options, on_tick);
    if (status == ZLINK_INVALID_OPERATION)
        status = zlink_timer_cancel(turn, request->name);
    snprintf(reply->status, sizeof(reply->status), "%s", zlink_status_name(status));
    return ZLINK_OK;
}

static const zlink_handler_t handlers[] = {
    ZLINK_ON_REQUEST(TimerReq, TimerRes, on_timer),
    ZLINK_ON_REQUEST(WaitReq, WaitRes, on_wait),
    ZLINK_ON_REQUEST(PingReq, PingRes, on_ping),
    ZLINK_ON_REQUEST(LogReq, LogRes, on_log),
    ZLINK_HANDLERS_END,
};

static const zlink_handler_t channel_handlers[] = {
    ZLINK_ON_REQUEST(TimerReq, TimerRes, on_channel_timer),
    ZLINK_HANDLERS_END,
};

static const zlink_spot_type_t ticker_type = {
    .name = "ticker",
    .kind = ZLINK_INSTANCE_SPOT,
    .state_size = sizeof(ticker_t),
    .relocation = ZLINK_RELOCATION_DISABLED,
    .on_closing = leave_word,
    .handlers = handlers,
};

static const zlink_spot_type_t metronome_type = {
    .name = "metronome",
    .kind = ZLINK_INSTANCE_SPOT,
    .state_size = sizeof(ticker_t),
    .relocation = ZLINK_RELOCATION_DISABLED,
    .on_create = start_at_once,
    .on_closing = leave_word,
    .handlers = handlers,
};

static const zlink_channel_type_t clock_channel = {.name = "clock", .handlers = channel_handlers};

ZLINK_MODULE(ticker, module)
{
    zlink_module_add_spot_type(module, &ticker_type);
    zlink_module_add_spot_type(module, &metronome_type);
    zlink_module_add_channel(module, &clock_channel);
}
