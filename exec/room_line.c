#include "exec/room_line.h"

#include <assert.h>
#include <stddef.h>

static zlink_room_line_part_t *part_of(zlink_room_line_t *line, const void *queue)
{
    uint64_t hash = (uint64_t)(uintptr_t)queue * UINT64_C(0x9e3779b97f4a7c15);
    return &line->parts[(hash >> 32) % ZLINK_ROOM_LINE_PARTS];
}

void zlink_room_line_init(zlink_room_line_t *line)
{
    atomic_init(&line->waiting, 0);
    for (size_t i = 0; i < ZLINK_ROOM_LINE_PARTS; i++) {
        pthread_mutex_init(&line->parts[i].lock, NULL); /* never fails for a default mutex on Linux */
        TAILQ_INIT(&line->parts[i].waiters);
        atomic_init(&line->parts[i].count, 0);
    }
}

void zlink_room_line_destroy(zlink_room_line_t *line)
{
    assert(atomic_load(&line->waiting) == 0);
    for (size_t i = 0; i < ZLINK_ROOM_LINE_PARTS; i++)
        pthread_mutex_destroy(&line->parts[i].lock);
}

/* Under the part's lock. */
static void take_out(zlink_room_line_part_t *part, zlink_room_waiter_t *waiter)
{
    waiter->stands = false;
    TAILQ_REMOVE(&part->waiters, waiter, in_line);
    atomic_fetch_sub(&part->count, 1);
}

zlink_status_t zlink_room_line_enter(zlink_room_line_t *line, const void *queue, zlink_room_waiter_t *waiter)
{
    zlink_room_line_part_t *part = part_of(line, queue);

    if (atomic_fetch_add(&line->waiting, 1) >= ZLINK_ROOM_WAITERS_MAX) {
        atomic_fetch_sub(&line->waiting, 1);
        return ZLINK_CAPACITY_EXCEEDED;
    }
    pthread_mutex_lock(&part->lock);
    waiter->line = line;
    waiter->queue = queue;
    waiter->stands = true;
    TAILQ_INSERT_TAIL(&part->waiters, waiter, in_line);
    atomic_fetch_add(&part->count, 1);
    pthread_mutex_unlock(&part->lock);
    zlink_room_line_serve(line, queue); /* room may have come before anybody could see it stand here */
    return ZLINK_OK;
}

bool zlink_room_line_leave(zlink_room_waiter_t *waiter)
{
    zlink_room_line_t *line = waiter->line;
    zlink_room_line_part_t *part = part_of(line, waiter->queue);
    bool stood;

    pthread_mutex_lock(&part->lock);
    stood = waiter->stands;
    if (stood)
        take_out(part, waiter);
    pthread_mutex_unlock(&part->lock);
    if (stood)
        atomic_fetch_sub(&line->waiting, 1);
    return stood;
}

void zlink_room_line_serve(zlink_room_line_t *line, const void *queue)
{
    zlink_room_line_part_t *part = part_of(line, queue);
    struct zlink_room_waiters served = TAILQ_HEAD_INITIALIZER(served);
    zlink_room_waiter_t *waiter;
    zlink_room_waiter_t *next;

    if (atomic_load(&part->count) == 0)
        return;
    pthread_mutex_lock(&part->lock);
    for (waiter = TAILQ_FIRST(&part->waiters); waiter; waiter = next) {
        next = TAILQ_NEXT(waiter, in_line);
        if (waiter->queue != queue)
            continue;
        waiter->status = waiter->admit(waiter);
        if (waiter->status == ZLINK_CAPACITY_EXCEEDED)
            break; /* nobody overtakes the oldest, also where a smaller one would have room */
        take_out(part, waiter);
        TAILQ_INSERT_TAIL(&served, waiter, in_line);
    }
    pthread_mutex_unlock(&part->lock);
    while ((waiter = TAILQ_FIRST(&served)) != NULL) {
        TAILQ_REMOVE(&served, waiter, in_line);
        atomic_fetch_sub(&line->waiting, 1);
        waiter->ended(waiter, waiter->status); /* it may be gone after this */
    }
}
