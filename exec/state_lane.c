/*
 * The word: zero is a free lane. HELD: a thread runs turns; what comes meanwhile is pushed on a list, newest first,
 * whose head is the rest of the word. So one compare-and-swap decides whether a turn is refused, queued or runs here.
 * The holder takes the whole list at once and puts it, oldest first, into `ready`; nobody pops, so there is no ABA.
 *
 * A holder runs the turns of others beside its own. After BURST of them it looks for relief: a caller of run that
 * waits at the head of the line is handed the lane. Where the head is a posted turn nobody waits, so the holder goes
 * on; but it lets go of the lane first (REST: `ready` has turns, and somebody comes back for them) and calls what has
 * completed meanwhile, which else could be held up without end. Who comes in between takes the lane and the turns.
 *
 * `completed` is never called on a lane, nor from within another `completed`: a thread collects them in `here` until it
 * has left the outermost lane. So they may enter any lane, and the stack does not grow with them.
 */
#include "exec/state_lane.h"

#include <assert.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/container_of.h"
#include "base/domain.h"

#define HELD   ((uintptr_t)1)
#define CLOSED ((uintptr_t)2)
#define REST   ((uintptr_t)4)
#define FLAGS  (HELD | CLOSED | REST)

#define BURST 64u
#define SPINS 128u

_Static_assert(sizeof(zlink_state_lane_t) <= 24, "every Spot and every Actor embeds one");
_Static_assert(_Alignof(zlink_state_lane_turn_t) > FLAGS, "the flags stand in the low bits of a turn's address");

enum { WAITER_SPINS, WAITER_SLEEPS, WAITER_HAS_LANE, WAITER_DONE };

/* A caller of run that found the lane busy; on its stack. */
typedef struct zlink_state_lane_waiter {
    zlink_state_lane_turn_t turn;
    void (*body)(void *context);
    void *context;
    _Atomic uint32_t state; /* the futex */
} zlink_state_lane_waiter_t;

static _Thread_local struct {
    const zlink_state_lane_t *lane; /* the calling thread's turn is this lane's */
    zlink_state_lane_turn_t *completed;
    zlink_state_lane_turn_t *completed_last;
    bool completing;
} here __attribute__((tls_model("initial-exec")));

void zlink_state_lane_init(zlink_state_lane_t *lane)
{
    atomic_init(&lane->word, 0);
    lane->ready = NULL;
}

bool zlink_state_lane_is_on_lane(const zlink_state_lane_t *lane)
{
    return here.lane == lane;
}

zlink_status_t zlink_state_lane_throw_if_reentrant(const zlink_state_lane_t *lane)
{
    (void)lane; /* being on another one forbids it as well */
    return here.lane ? ZLINK_INVALID_OPERATION : ZLINK_OK;
}

void zlink_state_lane_close(zlink_state_lane_t *lane)
{
    atomic_fetch_or_explicit(&lane->word, CLOSED, memory_order_relaxed);
}

static zlink_state_lane_turn_t *queued(uintptr_t word)
{
    return (zlink_state_lane_turn_t *)(word & ~FLAGS);
}

/* ---- a caller that waits ---- */

static void tell(zlink_state_lane_waiter_t *waiter, uint32_t state)
{
    /* Once it knows, its stack may be gone; then the wake finds nobody. */
    if (atomic_exchange_explicit(&waiter->state, state, memory_order_acq_rel) == WAITER_SLEEPS)
        syscall(SYS_futex, &waiter->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void run_body(zlink_state_lane_turn_t *turn)
{
    zlink_state_lane_waiter_t *waiter = ZLINK_CONTAINER_OF(turn, zlink_state_lane_waiter_t, turn);
    waiter->body(waiter->context);
}

static void tell_done(zlink_state_lane_turn_t *turn)
{
    tell(ZLINK_CONTAINER_OF(turn, zlink_state_lane_waiter_t, turn), WAITER_DONE);
}

/* WAITER_DONE or WAITER_HAS_LANE. */
static uint32_t wait_for_turn(zlink_state_lane_waiter_t *waiter)
{
    uint32_t state = atomic_load_explicit(&waiter->state, memory_order_acquire);

    for (unsigned spins = 0; state == WAITER_SPINS && spins < SPINS; spins++) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        state = atomic_load_explicit(&waiter->state, memory_order_acquire);
    }
    if (state == WAITER_SPINS && atomic_compare_exchange_strong_explicit(&waiter->state, &state, WAITER_SLEEPS,
                                                                         memory_order_acq_rel, memory_order_acquire))
        state = WAITER_SLEEPS;
    while (state == WAITER_SLEEPS) {
        syscall(SYS_futex, &waiter->state, FUTEX_WAIT_PRIVATE, WAITER_SLEEPS, NULL, NULL, 0);
        state = atomic_load_explicit(&waiter->state, memory_order_acquire);
    }
    return state;
}

/* ---- the holder ---- */

/* Calls what has completed, unless somebody further up on this stack will do it. */
static void complete(void)
{
    zlink_state_lane_turn_t *turn;

    if (here.lane || here.completing)
        return;
    here.completing = true;
    while ((turn = here.completed) != NULL) {
        here.completed = turn->next;
        turn->completed(turn);
        assert(!here.lane);
    }
    here.completing = false;
}

static void run_turn(const zlink_state_lane_t *lane, zlink_state_lane_turn_t *turn)
{
    const zlink_state_lane_t *outer = here.lane;
    void (*completed)(zlink_state_lane_turn_t *) = turn->completed;

    here.lane = lane;
    turn->run(turn);
    assert(here.lane == lane);
    here.lane = outer;
    if (completed == tell_done) {
        tell_done(turn);
    } else if (completed) {
        turn->next = NULL;
        if (here.completed)
            here.completed_last->next = turn;
        else
            here.completed = turn;
        here.completed_last = turn;
    }
}

/* Takes what was queued meanwhile. False: nothing was, and the lane is free: it may be gone. */
static bool refill(zlink_state_lane_t *lane)
{
    uintptr_t word = atomic_load_explicit(&lane->word, memory_order_relaxed);

    while (!atomic_compare_exchange_weak_explicit(&lane->word, &word, word & (queued(word) ? FLAGS : CLOSED),
                                                  memory_order_acq_rel, memory_order_relaxed))
        ;
    zlink_state_lane_turn_t *newest = queued(word);
    if (!newest)
        return false;
    while (newest) {
        zlink_state_lane_turn_t *older = newest->next;
        newest->next = lane->ready;
        lane->ready = newest;
        newest = older;
    }
    return true;
}

/* With BURST turns run, and `ready` not empty. True: the lane was only let go of, and has to be taken back. */
static bool seek_relief(zlink_state_lane_t *lane)
{
    zlink_state_lane_turn_t *next = lane->ready;

    if (next->completed == tell_done) {
        tell(ZLINK_CONTAINER_OF(next, zlink_state_lane_waiter_t, turn), WAITER_HAS_LANE);
        return false;
    }
    atomic_fetch_xor_explicit(&lane->word, HELD | REST, memory_order_release);
    return true;
}

static bool run_some(zlink_state_lane_t *lane)
{
    for (unsigned turns = 0; lane->ready || refill(lane); turns++) {
        if (turns == BURST)
            return seek_relief(lane);
        zlink_state_lane_turn_t *turn = lane->ready;
        lane->ready = turn->next;
        run_turn(lane, turn);
    }
    return false;
}

/* False: somebody else has taken it over meanwhile. */
static bool take_back(zlink_state_lane_t *lane)
{
    uintptr_t word = atomic_load_explicit(&lane->word, memory_order_relaxed);

    while (word & REST)
        if (atomic_compare_exchange_weak_explicit(&lane->word, &word, word ^ (HELD | REST), memory_order_acquire,
                                                  memory_order_relaxed))
            return true;
    return false;
}

/* The calling thread holds the lane; it does not when this returns. */
static void drain(zlink_state_lane_t *lane)
{
    zlink_domain_t outer = zlink_domain_enter(ZLINK_DOMAIN_INFRASTRUCTURE);
    bool comes_back;

    do {
        comes_back = run_some(lane);
        complete();
    } while (comes_back && take_back(lane));
    zlink_domain_enter(outer);
}

/* ---- entering ---- */

typedef enum { REFUSED, QUEUED, TAKEN } entry_t;

/* TAKEN: the calling thread holds the lane, and `turn` stands in its line. */
static entry_t enter(zlink_state_lane_t *lane, zlink_state_lane_turn_t *turn)
{
    uintptr_t word = atomic_load_explicit(&lane->word, memory_order_relaxed);
    uintptr_t wanted;

    do {
        if (word & CLOSED)
            return REFUSED;
        turn->next = queued(word);
        if (word == 0)
            wanted = HELD;
        else
            wanted = (uintptr_t)turn | HELD;
    } while (
        !atomic_compare_exchange_weak_explicit(&lane->word, &word, wanted, memory_order_acq_rel, memory_order_relaxed));
    if (word & HELD)
        return QUEUED;
    if (word == 0)
        lane->ready = turn;
    return TAKEN;
}

static zlink_status_t run_in_line(zlink_state_lane_t *lane, void (*body)(void *context), void *context)
{
    zlink_state_lane_waiter_t waiter = {.turn = {.run = run_body, .completed = tell_done}};

    waiter.body = body;
    waiter.context = context;
    atomic_init(&waiter.state, WAITER_SPINS);
    entry_t entry = enter(lane, &waiter.turn);
    if (entry == REFUSED)
        return ZLINK_SHUTTING_DOWN;
    if (entry == TAKEN)
        drain(lane); /* it may have been handed on before this turn came */
    while (wait_for_turn(&waiter) == WAITER_HAS_LANE) {
        atomic_store_explicit(&waiter.state, WAITER_SPINS, memory_order_relaxed);
        drain(lane);
    }
    return ZLINK_OK;
}

zlink_status_t zlink_state_lane_run(zlink_state_lane_t *lane, void (*body)(void *context), void *context)
{
    uintptr_t word = 0;

    if (here.lane)
        return ZLINK_INVALID_OPERATION;
    if (!atomic_compare_exchange_strong_explicit(&lane->word, &word, HELD, memory_order_acquire, memory_order_relaxed))
        return run_in_line(lane, body, context);

    zlink_domain_t outer = zlink_domain_enter(ZLINK_DOMAIN_INFRASTRUCTURE);
    here.lane = lane;
    body(context);
    here.lane = NULL;
    word = HELD;
    if (!atomic_compare_exchange_strong_explicit(&lane->word, &word, 0, memory_order_release, memory_order_relaxed))
        drain(lane);
    else if (here.completed) /* of other lanes, to which the body has posted */
        complete();
    zlink_domain_enter(outer);
    return ZLINK_OK;
}

zlink_status_t zlink_state_lane_post(zlink_state_lane_t *lane, zlink_state_lane_turn_t *turn)
{
    assert(turn->run);
    entry_t entry = enter(lane, turn);
    if (entry == TAKEN)
        drain(lane);
    return entry == REFUSED ? ZLINK_SHUTTING_DOWN : ZLINK_OK;
}
