#include "server/permit_line.h"

#include "base/counters.h"

ZLINK_COUNTER_DEFINE(capacity_waits, ZLINK_COUNTER, "zlink.host.application_job_queue.capacity_waits",
                     "Times that receiving had to wait for a permit");
ZLINK_COUNTER_DEFINE(capacity_waiters, ZLINK_GAUGE, "zlink.host.application_job_queue.capacity_waiters",
                     "Connections that wait for a permit now");
ZLINK_COUNTER_DEFINE(capacity_wait_ns, ZLINK_COUNTER, "zlink.host.application_job_queue.capacity_wait_duration",
                     "Nanoseconds that connections have waited for permits, all together");

void zlink_permit_line_init(zlink_permit_line_t *line, zlink_application_job_queue_t *queue, const zlink_clock_t *clock)
{
    line->queue = queue;
    line->clock = clock;
    TAILQ_INIT(&line->waiters);
}

static void step_out(zlink_permit_line_t *line, zlink_permit_waiter_t *waiter, zlink_permit_state_t state)
{
    TAILQ_REMOVE(&line->waiters, waiter, in_line);
    waiter->state = state;
    zlink_counter_add(&capacity_waiters, -1);
    zlink_counter_add(&capacity_wait_ns, (int64_t)(zlink_clock_now_ns(line->clock) - waiter->since_ns));
}

bool zlink_permit_line_take(zlink_permit_line_t *line, zlink_permit_waiter_t *waiter)
{
    if (waiter->state == ZLINK_PERMIT_HANDED_OUT) {
        waiter->state = ZLINK_PERMIT_NONE;
        return true;
    }
    if (waiter->state == ZLINK_PERMIT_WAITED_FOR)
        return false;
    /* Somebody stands here only after a refused take, so that the queue will say when there is a permit. */
    if (TAILQ_EMPTY(&line->waiters) && zlink_application_job_queue_take(line->queue))
        return true;
    waiter->state = ZLINK_PERMIT_WAITED_FOR;
    waiter->since_ns = zlink_clock_now_ns(line->clock);
    TAILQ_INSERT_TAIL(&line->waiters, waiter, in_line);
    zlink_counter_add(&capacity_waits, 1);
    zlink_counter_add(&capacity_waiters, 1);
    return false;
}

void zlink_permit_line_hand_out(zlink_permit_line_t *line, void (*resume)(zlink_permit_waiter_t *waiter))
{
    zlink_permit_waiter_t *waiter;

    while ((waiter = TAILQ_FIRST(&line->waiters)) != NULL && zlink_application_job_queue_take(line->queue)) {
        step_out(line, waiter, ZLINK_PERMIT_HANDED_OUT);
        resume(waiter);
    }
}

void zlink_permit_line_leave(zlink_permit_line_t *line, zlink_permit_waiter_t *waiter)
{
    if (waiter->state == ZLINK_PERMIT_WAITED_FOR)
        step_out(line, waiter, ZLINK_PERMIT_NONE);
    else if (waiter->state == ZLINK_PERMIT_HANDED_OUT)
        zlink_application_job_queue_give_back(line->queue);
    waiter->state = ZLINK_PERMIT_NONE;
}
