/*
 * A timer stands in the lowest level whose 64 slots reach its deadline: level L's slots are 64^L ms wide, and a timer
 * is 1 to 64 slots ahead of now, never in the slot that now is in. When now enters a slot of a higher level, its timers
 * are placed again, lower. Deadlines that are over stand in `due`.
 */
#include "base/timer_wheel.h"

#include <assert.h>
#include <string.h>

#define SLOT_BITS 6u
#define TOP       (ZLINK_TIMER_WHEEL_LEVELS - 1u)

void zlink_timer_wheel_init(zlink_timer_wheel_t *wheel, uint64_t now_ms)
{
    memset(wheel, 0, sizeof(*wheel));
    wheel->now_ms = now_ms;
}

static void push(zlink_timer_t **head, zlink_timer_t *timer)
{
    timer->next = *head;
    if (timer->next)
        timer->next->link = &timer->next;
    timer->link = head;
    *head = timer;
}

/* How many slots of `level` the time is ahead of now. */
static uint64_t distance(const zlink_timer_wheel_t *wheel, uint64_t time_ms, unsigned level)
{
    return (time_ms >> (SLOT_BITS * level)) - (wheel->now_ms >> (SLOT_BITS * level));
}

static void place(zlink_timer_wheel_t *wheel, zlink_timer_t *timer)
{
    if (timer->deadline_ms <= wheel->now_ms) {
        push(&wheel->due, timer);
        return;
    }
    unsigned level = 0;
    while (level < TOP && distance(wheel, timer->deadline_ms, level) > ZLINK_TIMER_WHEEL_SLOTS)
        level++;
    uint64_t slot = timer->deadline_ms >> (SLOT_BITS * level);
    if (distance(wheel, timer->deadline_ms, level) > ZLINK_TIMER_WHEEL_SLOTS) /* beyond the wheel: the farthest slot */
        slot = (wheel->now_ms >> (SLOT_BITS * TOP)) + ZLINK_TIMER_WHEEL_SLOTS;
    slot %= ZLINK_TIMER_WHEEL_SLOTS;
    push(&wheel->slots[level][slot], timer);
    wheel->occupied[level] |= UINT64_C(1) << slot;
}

void zlink_timer_wheel_start(zlink_timer_wheel_t *wheel, zlink_timer_t *timer, uint64_t deadline_ms)
{
    assert(timer->fire);
    zlink_timer_wheel_cancel(wheel, timer);
    timer->deadline_ms = deadline_ms;
    place(wheel, timer);
    wheel->count++;
}

/* Takes it out of whatever list it stands in. A slot that is empty now loses its bit, so that nobody wakes for it. */
static void unlink_timer(zlink_timer_wheel_t *wheel, zlink_timer_t *timer)
{
    zlink_timer_t **first = &wheel->slots[0][0];
    zlink_timer_t **last = first + ZLINK_TIMER_WHEEL_LEVELS * ZLINK_TIMER_WHEEL_SLOTS;
    *timer->link = timer->next;
    if (timer->next)
        timer->next->link = timer->link;
    else if (timer->link >= first && timer->link < last) {
        size_t index = (size_t)(timer->link - first);
        wheel->occupied[index / ZLINK_TIMER_WHEEL_SLOTS] &= ~(UINT64_C(1) << index % ZLINK_TIMER_WHEEL_SLOTS);
    }
    timer->link = NULL;
    timer->next = NULL;
}

void zlink_timer_wheel_cancel(zlink_timer_wheel_t *wheel, zlink_timer_t *timer)
{
    if (!timer->link)
        return;
    unlink_timer(wheel, timer);
    wheel->count--;
}

/* Moves a whole list under a head of the caller's, where cancelling still works. */
static void take_list(zlink_timer_t **from, zlink_timer_t **to)
{
    *to = *from;
    *from = NULL;
    if (*to)
        (*to)->link = to;
}

static void take_slot(zlink_timer_wheel_t *wheel, unsigned level, zlink_timer_t **to)
{
    uint64_t slot = (wheel->now_ms >> (SLOT_BITS * level)) % ZLINK_TIMER_WHEEL_SLOTS;
    wheel->occupied[level] &= ~(UINT64_C(1) << slot);
    take_list(&wheel->slots[level][slot], to);
}

static size_t fire_list(zlink_timer_wheel_t *wheel, zlink_timer_t **list)
{
    size_t fired = 0;
    while (*list) {
        zlink_timer_t *timer = *list;
        unlink_timer(wheel, timer);
        wheel->count--;
        fired++;
        timer->fire(timer);
    }
    return fired;
}

/* The next moment at which a slot is entered that holds something. */
static uint64_t next_slot_ms(const zlink_timer_wheel_t *wheel)
{
    uint64_t next_ms = UINT64_MAX;
    for (unsigned level = 0; level < ZLINK_TIMER_WHEEL_LEVELS; level++) {
        uint64_t bits = wheel->occupied[level];
        if (!bits)
            continue;
        uint64_t now_slot = wheel->now_ms >> (SLOT_BITS * level);
        unsigned turn = (unsigned)((now_slot + 1) % ZLINK_TIMER_WHEEL_SLOTS);
        if (turn)
            bits = bits >> turn | bits << (ZLINK_TIMER_WHEEL_SLOTS - turn);
        uint64_t slot = now_slot + 1 + (uint64_t)__builtin_ctzll(bits);
        uint64_t start_ms = slot << (SLOT_BITS * level);
        if (start_ms < next_ms)
            next_ms = start_ms;
    }
    return next_ms;
}

size_t zlink_timer_wheel_advance(zlink_timer_wheel_t *wheel, uint64_t now_ms)
{
    zlink_timer_t *list = NULL, *arrived = NULL;
    take_list(&wheel->due, &list);
    size_t fired = fire_list(wheel, &list);

    while (wheel->now_ms < now_ms) {
        uint64_t next_ms = next_slot_ms(wheel);
        if (next_ms > now_ms) {
            wheel->now_ms = now_ms;
            break;
        }
        wheel->now_ms = next_ms;
        take_slot(wheel, 0, &arrived); /* before what comes down now: that may stand here for 64 ms from now */
        for (unsigned level = TOP; level > 0; level--) {
            if (next_ms & ((UINT64_C(1) << (SLOT_BITS * level)) - 1))
                continue;
            take_slot(wheel, level, &list);
            while (list) {
                zlink_timer_t *timer = list;
                unlink_timer(wheel, timer);
                place(wheel, timer);
            }
        }
        take_list(&wheel->due, &list); /* came down exactly on its deadline */
        fired += fire_list(wheel, &list);
        fired += fire_list(wheel, &arrived);
    }
    return fired;
}

uint64_t zlink_timer_wheel_next_ms(const zlink_timer_wheel_t *wheel)
{
    return wheel->due ? wheel->now_ms : next_slot_ms(wheel);
}
