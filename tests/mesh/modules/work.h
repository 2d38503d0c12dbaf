/*
 * work.h: the handlers of WorkReq and LetGoReq, for probes: one hands work over and waits for it, in the way that the
 * request names; the other, of any Spot, says when that work ends.
 */
#ifndef TESTS_MESH_WORK_H
#define TESTS_MESH_WORK_H

#include <pthread.h>
#include <time.h>

#include <zlink/zlink.h>

#include "wait.h"

#define WORKS_MAX 256

/* Works that have begun, by their tag; of all Spots of the node. */
static struct work {
    char tag[sizeof(((WorkReq *)0)->tag)];
    zlink_io_completion_t *completion; /* of I/O work */
    atomic_bool let_go;
} works[WORKS_MAX];
static int works_begun;
static pthread_mutex_t works_lock = PTHREAD_MUTEX_INITIALIZER;

/* What lives until the handler has ended. */
typedef struct working {
    waiter_t *waiter;
    const WorkReq *request;
    WaitRes *reply;
    WorkReq output;
} working_t;

static struct work *work_begins(const char *tag, zlink_io_completion_t *completion)
{
    struct work *work = NULL;
    pthread_mutex_lock(&works_lock);
    if (works_begun < WORKS_MAX) {
        work = &works[works_begun++];
        snprintf(work->tag, sizeof(work->tag), "%s", tag);
        work->completion = completion;
    }
    pthread_mutex_unlock(&works_lock);
    return work;
}

/* On a CPU worker: as a long loop would, it looks whether somebody still wants the result. */
static zlink_status_t compute(const WorkReq *input, WorkReq *output, const zlink_stop_token_t *stop)
{
    struct work *work = work_begins(input->tag, NULL);
    if (!work)
        return ZLINK_INTERNAL_FAILURE;
    while (!atomic_load(&work->let_go) && !zlink_stop_token_is_requested(stop))
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    output->amount = input->amount;
    return ZLINK_OK;
}

static zlink_status_t begin(const WorkReq *input, WorkReq *output, const zlink_stop_token_t *stop,
                            zlink_io_completion_t *completion)
{
    (void)stop;
    *output = *input; /* once it is known to others it may be completed */
    return work_begins(input->tag, completion) ? ZLINK_OK : ZLINK_INTERNAL_FAILURE;
}

static zlink_status_t work_after(working_t *working, zlink_status_t status)
{
    waiter_t *waiter = working->waiter;
    journal_enter(&waiter->journal);
    if (status == ZLINK_OK)
        waiter->total += working->output.amount;
    snprintf(working->reply->status, sizeof(working->reply->status), "%s", zlink_status_name(status));
    working->reply->total = waiter->total;
    journal_note(&waiter->journal, working->request->tag, "-");
    journal_leave(&waiter->journal);
    return ZLINK_OK;
}

static zlink_status_t work_then(zlink_turn_t *turn, void *self, zlink_status_t status, void *context)
{
    (void)turn, (void)self;
    return work_after(context, status);
}

static zlink_status_t work_hand_over(zlink_turn_t *turn, working_t *working)
{
    const WorkReq *request = working->request;
    const zlink_cpu_work_t cpu =
        ZLINK_CPU_WORK_WITHIN(WorkReq, WorkReq, compute, request, &working->output, request->timeout_ms);
    const zlink_io_work_t io =
        ZLINK_IO_WORK_WITHIN(WorkReq, WorkReq, begin, request, &working->output, request->timeout_ms);
    switch (request->how) {
    case How_ASYNC:
        return request->io ? zlink_io_work_async(turn, io) : zlink_cpu_work_async(turn, cpu);
    case How_YIELD:
        return request->io ? zlink_io_work_yield(turn, io) : zlink_cpu_work_yield(turn, cpu);
    case How_ASYNC_THEN:
        return request->io ? zlink_io_work_async_then(turn, io, work_then, working)
                           : zlink_cpu_work_async_then(turn, cpu, work_then, working);
    case How_YIELD_THEN:
        return request->io ? zlink_io_work_yield_then(turn, io, work_then, working)
                           : zlink_cpu_work_yield_then(turn, cpu, work_then, working);
    default:
        return ZLINK_INVALID_OPERATION;
    }
}

static zlink_status_t on_work(zlink_turn_t *turn, void *self, const WorkReq *request, WaitRes *reply)
{
    waiter_t *waiter = self;
    working_t *working = zlink_turn_alloc(turn, sizeof(*working));
    if (!working)
        return ZLINK_CAPACITY_EXCEEDED;
    working->waiter = waiter;
    working->request = request;
    working->reply = reply;
    journal_enter(&waiter->journal);
    journal_note(&waiter->journal, request->tag, "+");
    journal_leave(&waiter->journal);

    zlink_status_t status = work_hand_over(turn, working);
    bool goes_on_later = request->how == How_ASYNC_THEN || request->how == How_YIELD_THEN;
    return goes_on_later && status == ZLINK_OK ? ZLINK_OK : work_after(working, status);
}

/* Tells how many works of this tag it has let go. */
static zlink_status_t on_let_go(zlink_turn_t *turn, void *self, const LetGoReq *request, LetGoRes *reply)
{
    (void)turn, (void)self;
    pthread_mutex_lock(&works_lock);
    for (int i = 0; i < works_begun; i++) {
        struct work *work = &works[i];
        if (strcmp(work->tag, request->tag) != 0 || atomic_exchange(&work->let_go, true))
            continue;
        reply->works++;
        if (work->completion)
            zlink_io_work_complete(work->completion, ZLINK_OK);
    }
    pthread_mutex_unlock(&works_lock);
    return ZLINK_OK;
}

#endif
