/*
 * bench_driver.c: the asking side: a Spot whose handlers keep requests outstanding towards the node with bench_echo.
 *
 * DriveReq's own handler, the primary, is one of the `outstanding` loops; the others are started by notes to itself.
 * The primary opens and closes the measured window. Each driver Spot asks the echo Spot with its own id.
 */
#include <string.h>
#include <time.h>

#include <zlink/zlink.h>

#include "bench.zlink.h"
#include "latencies.h"

typedef struct {
    DriveReq plan;
    bool busy, measuring, stopping;
    uint32_t running; /* loops beside the primary that have not ended */
    uint64_t opens_ns, closes_ns;
    uint64_t started_ns, ended_ns;
    double started_cpu, ended_cpu;
    uint64_t operations, failed;
    latencies_t latencies;
} driver_t;

/* One request that is kept going. */
typedef struct {
    DriveRes *report; /* of the primary only */
    uint64_t asked_ns;
    union {
        Echo64Res b64;
        Echo1KRes k1;
        Echo4KRes k4;
    } answer;
} loop_t;

/* Too large for a handler's stack; nobody writes to them. */
static Echo64Req echo64;
static Echo1KReq echo1k;
static Echo4KReq echo4k;
static Note64 note64;
static Note1K note1k;
static Note64K note64k;

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    return clock_gettime(clock, &now) == 0 ? (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec : 0;
}

static uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

static double cpu_seconds(const driver_t *driver)
{
    uint64_t total_ns = 0;
    for (size_t i = 0; i < driver->plan.pids_count; i++) {
        clockid_t clock;
        if (clock_getcpuclockid((pid_t)driver->plan.pids[i], &clock) == 0)
            total_ns += clock_ns(clock);
    }
    return (double)total_ns / 1e9;
}

/* ---- the window ---- */

static void open_window(driver_t *driver)
{
    driver->measuring = true;
    driver->started_cpu = cpu_seconds(driver);
    driver->started_ns = now_ns();
}

static void close_window(driver_t *driver)
{
    driver->ended_ns = now_ns();
    driver->ended_cpu = cpu_seconds(driver);
    driver->measuring = false;
    driver->stopping = true;
}

static void report(driver_t *driver, DriveRes *res)
{
    res->operations = driver->operations;
    res->failed = driver->failed;
    res->seconds = (double)(driver->ended_ns - driver->started_ns) / 1e9;
    res->cpu_seconds = driver->ended_cpu - driver->started_cpu;
    for (uint32_t i = 0; i < LATENCY_BUCKETS; i++) {
        if (driver->latencies.count[i] == 0)
            continue;
        res->bucket[res->bucket_count++] = i;
        res->count[res->count_count++] = driver->latencies.count[i];
    }
    driver->busy = false;
}

/* ---- loops of requests ---- */

/* After each answer: true where this loop is to ask again. */
static bool answered(driver_t *driver, loop_t *loop, zlink_status_t status)
{
    uint64_t now = now_ns();
    if (status != ZLINK_OK)
        driver->failed++;
    if (driver->measuring) {
        driver->operations++;
        latencies_add(&driver->latencies, now - loop->asked_ns);
    }
    if (loop->report) {
        if (!driver->measuring && !driver->stopping && now >= driver->opens_ns)
            open_window(driver);
        else if (driver->measuring && now >= driver->closes_ns)
            close_window(driver);
        return !driver->stopping || driver->running > 0;
    }
    return !driver->stopping;
}

static void loop_ended(driver_t *driver, loop_t *loop)
{
    if (loop->report)
        report(driver, loop->report);
    else
        driver->running--;
}

static zlink_ask_t ask_of(const driver_t *driver)
{
    if (driver->plan.request_bytes == 1024)
        return ZLINK_ASK(Echo1KReq, &echo1k);
    return driver->plan.request_bytes == 4096 ? ZLINK_ASK(Echo4KReq, &echo4k) : ZLINK_ASK(Echo64Req, &echo64);
}

static zlink_reply_t answer_of(const driver_t *driver, loop_t *loop)
{
    if (driver->plan.request_bytes == 1024)
        return ZLINK_REPLY(Echo1KRes, &loop->answer.k1);
    return driver->plan.request_bytes == 4096 ? ZLINK_REPLY(Echo4KRes, &loop->answer.k4)
                                              : ZLINK_REPLY(Echo64Res, &loop->answer.b64);
}

static const char *spot_type(const driver_t *driver)
{
    return driver->plan.target[0] == 'v' ? "via" : "echo";
}

static zlink_status_t ask_yield(zlink_turn_t *turn, const driver_t *driver, loop_t *loop)
{
    zlink_ask_t ask = ask_of(driver);
    zlink_reply_t answer = answer_of(driver, loop);
    loop->asked_ns = now_ns();
    if (driver->plan.target[0] == 'c')
        return zlink_channel_request_yield(turn, "echo", ask, answer);
    return zlink_instance_spot_request_yield(turn, spot_type(driver), zlink_turn_owner_name(turn), ask, answer);
}

static zlink_status_t then(zlink_turn_t *turn, void *self, zlink_status_t status, void *context);

static zlink_status_t ask_then(zlink_turn_t *turn, const driver_t *driver, loop_t *loop)
{
    zlink_ask_t ask = ask_of(driver);
    zlink_reply_t answer = answer_of(driver, loop);
    loop->asked_ns = now_ns();
    if (driver->plan.target[0] == 'c')
        return zlink_channel_request_yield_then(turn, "echo", ask, answer, then, loop);
    return zlink_instance_spot_request_yield_then(turn, spot_type(driver), zlink_turn_owner_name(turn), ask, answer,
                                                  then, loop);
}

static zlink_status_t then(zlink_turn_t *turn, void *self, zlink_status_t status, void *context)
{
    driver_t *driver = self;
    loop_t *loop = context;
    if (answered(driver, loop, status))
        return ask_then(turn, driver, loop);
    loop_ended(driver, loop);
    return ZLINK_OK;
}

/* Until the primary says so; in the form `then` this returns at once. */
static zlink_status_t run_loop(zlink_turn_t *turn, driver_t *driver, DriveRes *res)
{
    loop_t *loop = zlink_turn_alloc(turn, sizeof(*loop));
    if (!loop)
        return ZLINK_CAPACITY_EXCEEDED;
    loop->report = res;
    if (driver->plan.wait[0] == 't')
        return ask_then(turn, driver, loop);
    while (answered(driver, loop, ask_yield(turn, driver, loop)))
        ;
    loop_ended(driver, loop);
    return ZLINK_OK;
}

static zlink_status_t on_loop(zlink_turn_t *turn, void *self, const LoopNote *note)
{
    (void)note;
    return run_loop(turn, self, NULL);
}

/* ---- notes ---- */

static zlink_status_t send_note(zlink_turn_t *turn, const driver_t *driver)
{
    zlink_ask_t note = ZLINK_ASK(Note64, &note64);
    if (driver->plan.note_bytes == 1024)
        note = ZLINK_ASK(Note1K, &note1k);
    else if (driver->plan.note_bytes == 65536)
        note = ZLINK_ASK(Note64K, &note64k);
    if (driver->plan.target[0] == 'c')
        return zlink_channel_send(turn, "echo", note);
    return zlink_instance_spot_send(turn, "echo", zlink_turn_owner_name(turn), note);
}

/* Answers when all notes before it have been taken by the echo's handlers. */
static zlink_status_t count_notes(zlink_turn_t *turn, const driver_t *driver, uint64_t *notes)
{
    CountReq ask = CountReq_init_zero;
    CountRes res = CountRes_init_zero;
    zlink_status_t status;
    if (driver->plan.target[0] == 'c')
        status = zlink_channel_request_async(turn, "echo", ZLINK_ASK(CountReq, &ask), ZLINK_REPLY(CountRes, &res));
    else
        status = zlink_instance_spot_request_async(turn, "echo", zlink_turn_owner_name(turn), ZLINK_ASK(CountReq, &ask),
                                                   ZLINK_REPLY(CountRes, &res));
    *notes = res.notes;
    return status;
}

static zlink_status_t send_notes(zlink_turn_t *turn, driver_t *driver, DriveRes *res)
{
    uint64_t arrived = 0, sent = 0;
    while (now_ns() < driver->opens_ns) {
        if (send_note(turn, driver) != ZLINK_OK)
            driver->failed++;
    }
    zlink_status_t status = count_notes(turn, driver, &arrived);
    open_window(driver);
    while (status == ZLINK_OK && now_ns() < driver->closes_ns) {
        for (int i = 0; i < 8; i++) {
            if (send_note(turn, driver) == ZLINK_OK)
                sent++;
            else
                driver->failed++;
        }
    }
    if (status == ZLINK_OK)
        status = count_notes(turn, driver, &arrived);
    close_window(driver);
    driver->operations = arrived;
    report(driver, res);
    res->lost = sent > arrived ? sent - arrived : 0;
    return status;
}

/* ---- the control request ---- */

static zlink_status_t on_drive(zlink_turn_t *turn, void *self, const DriveReq *request, DriveRes *reply)
{
    driver_t *driver = self;
    LoopNote note = LoopNote_init_zero;
    if (driver->busy)
        return ZLINK_REJECTED;
    memset(driver, 0, sizeof(*driver));
    driver->plan = *request;
    driver->busy = true;
    driver->opens_ns = now_ns() + request->warm_up_ms * UINT64_C(1000000);
    driver->closes_ns = driver->opens_ns + request->duration_ms * UINT64_C(1000000);
    if (request->wait[0] == 's')
        return send_notes(turn, driver, reply);
    for (uint32_t i = 1; i < request->outstanding; i++) {
        driver->running++;
        zlink_status_t status =
            zlink_instance_spot_send(turn, "driver", zlink_turn_owner_name(turn), ZLINK_ASK(LoopNote, &note));
        if (status != ZLINK_OK) {
            driver->running--;
            driver->failed++;
        }
    }
    return run_loop(turn, driver, reply);
}

static const zlink_handler_t driver_handlers[] = {
    ZLINK_ON_REQUEST(DriveReq, DriveRes, on_drive),
    ZLINK_ON_SEND(LoopNote, on_loop),
    ZLINK_HANDLERS_END,
};

static const zlink_spot_type_t driver_type = {
    .name = "driver",
    .kind = ZLINK_INSTANCE_SPOT,
    .state_size = sizeof(driver_t),
    .relocation = ZLINK_RELOCATION_DISABLED,
    .handlers = driver_handlers,
};

ZLINK_MODULE(bench_driver, module)
{
    echo64.data.size = sizeof(echo64.data.bytes);
    echo1k.data.size = sizeof(echo1k.data.bytes);
    echo4k.data.size = sizeof(echo4k.data.bytes);
    note64.data.size = sizeof(note64.data.bytes);
    note1k.data.size = sizeof(note1k.data.bytes);
    note64k.data.size = sizeof(note64k.data.bytes);
    zlink_module_add_spot_type(module, &driver_type);
}
