/*
 * server/application/work_api.c: the functions of include/zlink/work.h, on top of exec.
 *
 * One piece of work is one record: what exec knows of it, a copy of its input, and an output of its own. The turn and
 * whoever does the work both hold it; the handler's own memory is touched on the handler's turn only.
 */
#include <assert.h>
#include <stdalign.h>
#include <string.h>

#include <zlink/work.h>

#include "base/memory.h"
#include "server/application/application_host.h"
#include "server/application/work_host.h"

/* What the public functions say of a call. */
typedef struct zlink_work_plan {
    zlink_cpu_work_function_t cpu; /* one of these two */
    zlink_io_work_start_t io;
    const void *input;
    size_t input_bytes;
    void *output;
    size_t output_bytes;
    uint32_t timeout_ms;
    zlink_wait_mode_t mode;
    zlink_then_t then; /* NULL: the handler waits on its stack */
    void *context;
} zlink_work_plan_t;

typedef struct zlink_work_record {
    union {
        zlink_work_call_t call; /* the first member of both */
        zlink_cpu_work_item_t cpu;
        zlink_io_completion_t io;
    };
    zlink_cpu_work_function_t cpu_function;
    zlink_io_work_start_t io_start;
    zlink_work_host_t *host;
    zlink_work_entry_t entry;
    zlink_then_t then;
    void *context;
    void *handlers_output;
    size_t output_bytes;
    void *output;
    alignas(max_align_t) char input[]; /* and then the output */
} zlink_work_record_t;

static size_t aligned(size_t size)
{
    return (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
}

static zlink_status_t sane(zlink_status_t status)
{
    return (unsigned)status < ZLINK_STATUS_COUNT ? status : ZLINK_INTERNAL_FAILURE;
}

static zlink_work_record_t *record_of(const zlink_work_call_t *call)
{
    return (zlink_work_record_t *)(uintptr_t)call;
}

/* ---- the record ---- */

static void gone(zlink_work_call_t *call)
{
    zlink_work_record_t *record = record_of(call);
    zlink_work_host_remove(record->host, &record->entry);
    zlink_free(record);
}

/* On a CPU worker. */
static zlink_status_t run_cpu(zlink_cpu_work_item_t *item)
{
    zlink_work_record_t *record = record_of(&item->call);
    return sane(record->cpu_function(record->input, record->output, &item->call.stop));
}

/* On the turn. */
static zlink_status_t start_io(zlink_io_completion_t *completion)
{
    zlink_work_record_t *record = record_of(&completion->call);
    return sane(record->io_start(record->input, record->output, &completion->call.stop, completion));
}

static zlink_work_record_t *make_record(zlink_turn_t *turn, const zlink_work_plan_t *plan)
{
    const zlink_invocation_t *invocation = zlink_invocation_of(turn);
    size_t output_at = aligned(plan->input_bytes);
    size_t bytes = sizeof(zlink_work_record_t) + output_at + plan->output_bytes;
    zlink_work_record_t *record = zlink_calloc(1, bytes);
    if (!record)
        return NULL;
    zlink_work_call_init(&record->call, turn, gone);
    if (plan->cpu) {
        record->cpu.run = run_cpu;
        record->cpu.bytes = bytes;
    } else {
        record->io.start = start_io;
    }
    record->cpu_function = plan->cpu;
    record->io_start = plan->io;
    record->host = invocation->host->work;
    record->then = plan->then;
    record->context = plan->context;
    record->handlers_output = plan->output;
    record->output_bytes = plan->output_bytes;
    record->output = record->input + output_at;
    if (plan->input_bytes)
        memcpy(record->input, plan->input, plan->input_bytes);
    const void *owner = invocation->spot ? (const void *)invocation->spot : (const void *)invocation->channel;
    zlink_work_host_add(record->host, &record->entry, owner, &record->call.stop);
    return record;
}

/* ---- the end, on the turn ---- */

static zlink_status_t finish(zlink_work_record_t *record, zlink_status_t status)
{
    if (status == ZLINK_OK && record->output_bytes)
        memcpy(record->handlers_output, record->output, record->output_bytes);
    zlink_work_call_finish(&record->call);
    return status;
}

static zlink_status_t go_on(zlink_turn_t *turn, zlink_status_t status, void *context)
{
    zlink_work_record_t *record = context;
    zlink_then_t then = record->then;
    void *then_context = record->context;
    zlink_invocation_of(turn)->open_then = NULL;
    status = finish(record, status);
    return then(turn, zlink_invocation_of(turn)->self, status, then_context);
}

/* The handler failed after a `_then` call: nobody looks at the output. */
static void drop(zlink_invocation_t *invocation)
{
    zlink_work_record_t *record = invocation->open_then;
    invocation->open_then = NULL;
    zlink_work_call_finish(&record->call);
}

/* ---- the whole ---- */

static bool is_memory(const void *memory, size_t bytes)
{
    return bytes <= ZLINK_WORK_BYTES_MAX && (memory || bytes == 0);
}

static zlink_status_t check(const zlink_turn_t *turn, const zlink_work_plan_t *plan)
{
    if (!turn || zlink_turn_current() != turn || plan->timeout_ms > INT32_MAX)
        return ZLINK_INVALID_OPERATION;
    if (!plan->cpu && !plan->io)
        return ZLINK_INVALID_OPERATION;
    if (!is_memory(plan->input, plan->input_bytes) || !is_memory(plan->output, plan->output_bytes))
        return ZLINK_INVALID_OPERATION;
    return ZLINK_OK;
}

static zlink_status_t hand_over(zlink_work_record_t *record)
{
    if (record->cpu_function)
        return zlink_cpu_worker_pool_submit(record->host->cpu_workers, &record->cpu);
    return zlink_io_works_start(&record->host->io_works, &record->io);
}

static zlink_status_t work_call(zlink_turn_t *turn, const zlink_work_plan_t *plan)
{
    zlink_status_t status = check(turn, plan);
    if (status != ZLINK_OK)
        return status;
    zlink_invocation_t *invocation = zlink_invocation_of(turn);
    zlink_work_record_t *record = make_record(turn, plan);
    if (!record)
        return ZLINK_CAPACITY_EXCEEDED;
    status = zlink_turn_prepare_wait(turn, &record->call.wait, plan->mode, plan->then ? go_on : NULL, record);
    if (status == ZLINK_OK) {
        status = hand_over(record);
        if (status != ZLINK_OK)
            zlink_turn_abandon_wait(turn, &record->call.wait);
    }
    if (status != ZLINK_OK) {
        zlink_work_call_let_go(&record->call);
        return status;
    }
    uint32_t timeout_ms = plan->timeout_ms ? plan->timeout_ms : invocation->host->request_timeout_ms;
    zlink_work_call_start_deadline(&record->call, zlink_clock_now_ms(invocation->host->clock) + timeout_ms);
    if (plan->then) {
        invocation->open_then = record;
        invocation->drop_then = drop;
        return ZLINK_OK;
    }
    return finish(record, zlink_turn_wait(turn, &record->call.wait));
}

static zlink_status_t work_call_then(zlink_turn_t *turn, const zlink_work_plan_t *plan)
{
    return plan->then ? work_call(turn, plan) : ZLINK_INVALID_OPERATION;
}

/* ---- the public functions ---- */

static zlink_work_plan_t cpu_plan(const zlink_cpu_work_t *work, zlink_wait_mode_t mode, zlink_then_t then,
                                  void *context)
{
    return (zlink_work_plan_t){
        .cpu = work->function,
        .input = work->input,
        .input_bytes = work->input_bytes,
        .output = work->output,
        .output_bytes = work->output_bytes,
        .timeout_ms = work->timeout_ms,
        .mode = mode,
        .then = then,
        .context = context,
    };
}

static zlink_work_plan_t io_plan(const zlink_io_work_t *work, zlink_wait_mode_t mode, zlink_then_t then, void *context)
{
    return (zlink_work_plan_t){
        .io = work->start,
        .input = work->input,
        .input_bytes = work->input_bytes,
        .output = work->output,
        .output_bytes = work->output_bytes,
        .timeout_ms = work->timeout_ms,
        .mode = mode,
        .then = then,
        .context = context,
    };
}

zlink_status_t zlink_cpu_work_async(zlink_turn_t *turn, zlink_cpu_work_t work)
{
    const zlink_work_plan_t plan = cpu_plan(&work, ZLINK_WAIT_ASYNC, NULL, NULL);
    return work_call(turn, &plan);
}

zlink_status_t zlink_cpu_work_yield(zlink_turn_t *turn, zlink_cpu_work_t work)
{
    const zlink_work_plan_t plan = cpu_plan(&work, ZLINK_WAIT_YIELD, NULL, NULL);
    return work_call(turn, &plan);
}

zlink_status_t zlink_cpu_work_async_then(zlink_turn_t *turn, zlink_cpu_work_t work, zlink_then_t then, void *context)
{
    const zlink_work_plan_t plan = cpu_plan(&work, ZLINK_WAIT_ASYNC, then, context);
    return work_call_then(turn, &plan);
}

zlink_status_t zlink_cpu_work_yield_then(zlink_turn_t *turn, zlink_cpu_work_t work, zlink_then_t then, void *context)
{
    const zlink_work_plan_t plan = cpu_plan(&work, ZLINK_WAIT_YIELD, then, context);
    return work_call_then(turn, &plan);
}

zlink_status_t zlink_io_work_async(zlink_turn_t *turn, zlink_io_work_t work)
{
    const zlink_work_plan_t plan = io_plan(&work, ZLINK_WAIT_ASYNC, NULL, NULL);
    return work_call(turn, &plan);
}

zlink_status_t zlink_io_work_yield(zlink_turn_t *turn, zlink_io_work_t work)
{
    const zlink_work_plan_t plan = io_plan(&work, ZLINK_WAIT_YIELD, NULL, NULL);
    return work_call(turn, &plan);
}

zlink_status_t zlink_io_work_async_then(zlink_turn_t *turn, zlink_io_work_t work, zlink_then_t then, void *context)
{
    const zlink_work_plan_t plan = io_plan(&work, ZLINK_WAIT_ASYNC, then, context);
    return work_call_then(turn, &plan);
}

zlink_status_t zlink_io_work_yield_then(zlink_turn_t *turn, zlink_io_work_t work, zlink_then_t then, void *context)
{
    const zlink_work_plan_t plan = io_plan(&work, ZLINK_WAIT_YIELD, then, context);
    return work_call_then(turn, &plan);
}

void zlink_io_work_complete(zlink_io_completion_t *completion, zlink_status_t status)
{
    zlink_io_works_complete(completion, sane(status));
}
