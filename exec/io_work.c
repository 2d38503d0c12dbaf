#include "exec/io_work.h"

#include <assert.h>

#include "base/counters.h"

#define WORKS_MAX 65536u
#define CLOSED    (UINT64_C(1) << 63)

ZLINK_COUNTER_DEFINE(io_pending, ZLINK_GAUGE, "zlink.io_work.pending", "I/O work begun and not completed");
ZLINK_COUNTER_DEFINE(io_refused, ZLINK_COUNTER, "zlink.io_work.refused", "I/O work that found no room");
ZLINK_COUNTER_DEFINE(io_late, ZLINK_COUNTER, "zlink.io_work.late", "I/O work that was completed after its time");

void zlink_io_works_init(zlink_io_works_t *works, uint32_t max)
{
    works->max = max ? max : WORKS_MAX;
    atomic_init(&works->pending, 0);
    works->closed = NULL;
    works->context = NULL;
}

static zlink_status_t take(zlink_io_works_t *works)
{
    uint64_t pending = atomic_load_explicit(&works->pending, memory_order_relaxed);
    do {
        if (pending & CLOSED)
            return ZLINK_SHUTTING_DOWN;
        if (pending >= works->max) {
            zlink_counter_add(&io_refused, 1);
            return ZLINK_CAPACITY_EXCEEDED;
        }
    } while (!atomic_compare_exchange_weak(&works->pending, &pending, pending + 1));
    zlink_counter_add(&io_pending, 1);
    return ZLINK_OK;
}

/* The works may be gone afterwards. */
static void give_back(zlink_io_works_t *works)
{
    zlink_counter_add(&io_pending, -1);
    void (*closed)(void *context) = NULL;
    void *context = NULL;
    uint64_t pending = atomic_load(&works->pending);
    do {
        assert((pending & ~CLOSED) != 0 && "completed once for each start");
        if (pending == (CLOSED | 1)) { /* nobody else changes it any more */
            closed = works->closed;
            context = works->context;
        }
    } while (!atomic_compare_exchange_weak(&works->pending, &pending, pending - 1));
    if (closed)
        closed(context);
}

zlink_status_t zlink_io_works_start(zlink_io_works_t *works, zlink_io_completion_t *completion)
{
    zlink_status_t status = take(works);
    if (status != ZLINK_OK)
        return status;
    completion->works = works;
    zlink_work_call_lend(&completion->call);
    status = completion->start(completion);
    if (status != ZLINK_OK) {
        assert(!atomic_load(&completion->call.decided) && "a work that was not begun is not completed");
        zlink_work_call_let_go(&completion->call);
        give_back(works);
    }
    return status;
}

void zlink_io_works_complete(zlink_io_completion_t *completion, zlink_status_t status)
{
    zlink_io_works_t *works = completion->works;
    if (!zlink_work_call_end(&completion->call, status))
        zlink_counter_add(&io_late, 1);
    give_back(works); /* after the record was let go of: when all works are closed, no record is left to them */
}

void zlink_io_works_close(zlink_io_works_t *works, void (*closed)(void *context), void *context)
{
    works->closed = closed;
    works->context = context;
    uint64_t before = atomic_fetch_or(&works->pending, CLOSED);
    assert(!(before & CLOSED) && "closed once");
    if (before == 0)
        closed(context);
}

uint64_t zlink_io_works_pending(const zlink_io_works_t *works)
{
    return atomic_load_explicit(&works->pending, memory_order_relaxed) & ~CLOSED;
}
