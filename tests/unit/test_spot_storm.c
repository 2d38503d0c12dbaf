/*
 * All of a Spot at once, with every wiring: Actors of both kinds that are submitted to from outside and from each
 * other, that join, leave and move, that wait in both modes beside stealing workers, and Spots that are closed under
 * the hands of those who submit. What counts: every accepted turn ends once, no gate has two holders, one Actor's
 * turns keep their order, every Spot says once that it is closed.
 */
#include "spot_fixture.h"

#include <sched.h>

#include "base/memory.h"
#include "exec/coroutine.h"

#if defined(ZLINK_TSAN) || defined(ZLINK_ASAN)
#define ROUNDS    6u
#define PER_ROUND 1000u
#else
#define ROUNDS    30u
#define PER_ROUND 2000u
#endif
#define SPOTS      3u
#define NAMES      24u
#define WANDERERS  8u
#define SUBMITTERS 2u

typedef struct storm_spot {
    zlink_spot_serial_executor_t executor;
    bool shares_gate;        /* Actors, too */
    _Atomic unsigned inside; /* of its gate */
    _Atomic unsigned named_inside[NAMES];
    _Atomic unsigned timers_inside[NAMES];
    sem_t *closed;
} storm_spot_t;

/* An Actor that goes from Spot to Spot. */
typedef struct wanderer {
    zlink_actor_serial_executor_t executor;
    storm_spot_t *home; /* its own turns only */
    _Atomic unsigned inside;
    uint64_t last[SUBMITTERS]; /* its own turns only: the order in which each submitter's came */
    char id[8];
    sem_t closed;
} wanderer_t;

static storm_spot_t spots[SPOTS];
static wanderer_t wanderers[WANDERERS];
static _Atomic uint64_t tried;
static _Atomic uint64_t accepted;
static _Atomic uint64_t ended;
static _Atomic uint64_t failed_resumes;
static zlink_exec_fixture_t pool;

typedef struct piece {
    zlink_turn_t turn;
    zlink_wait_t wait;
    storm_spot_t *spot;          /* NULL: the wanderer's own queue */
    wanderer_t *wanderer;        /* whose turn it is, if it is one's */
    _Atomic unsigned *inside[2]; /* what it must have for itself while it runs, and what only until it yields */
    unsigned submitter;
    uint64_t number;
    unsigned dice;
} piece_t;

static piece_t *piece_of(zlink_turn_t *turn)
{
    return ZLINK_CONTAINER_OF(turn, piece_t, turn);
}

static void enter_one(_Atomic unsigned *inside)
{
    if (inside)
        zlink_check(atomic_fetch_add(inside, 1) == 0);
}

static void leave_one(_Atomic unsigned *inside)
{
    if (inside)
        zlink_check(atomic_fetch_sub(inside, 1) == 1);
}

/* Completes a wait from another thread than the one that waits. */
static pthread_mutex_t waiting_lock = PTHREAD_MUTEX_INITIALIZER;
static zlink_wait_t *waiting[1024];
static unsigned waiting_count;

static bool offer(zlink_wait_t *wait)
{
    bool taken = false;

    pthread_mutex_lock(&waiting_lock);
    if (waiting_count < 1024) {
        waiting[waiting_count++] = wait;
        taken = true;
    }
    pthread_mutex_unlock(&waiting_lock);
    return taken;
}

static bool complete_one(void)
{
    zlink_wait_t *wait = NULL;

    pthread_mutex_lock(&waiting_lock);
    if (waiting_count > 0)
        wait = waiting[--waiting_count];
    pthread_mutex_unlock(&waiting_lock);
    if (wait)
        zlink_wait_complete(wait, ZLINK_OK);
    return wait != NULL;
}

static void wander(piece_t *piece)
{
    wanderer_t *wanderer = piece->wanderer;
    storm_spot_t *to = piece->dice % 4 == 3 ? NULL : &spots[piece->dice % 4 % SPOTS];
    zlink_status_t status = ZLINK_OK;

    if (wanderer->home)
        status = zlink_spot_serial_executor_remove_actor(&wanderer->home->executor, wanderer->id);
    zlink_check(status == ZLINK_OK || status == ZLINK_SHUTTING_DOWN);
    if (status != ZLINK_OK)
        return; /* it ends with its Spot */
    wanderer->home = NULL;
    if (to && zlink_spot_serial_executor_add_actor(&to->executor, &wanderer->executor) == ZLINK_OK)
        wanderer->home = to;
}

/* Where it runs is known only now. */
static void enter_gates(piece_t *piece)
{
    zlink_actor_state_snapshot_t place;

    if (piece->wanderer) {
        zlink_check(zlink_actor_serial_executor_state_snapshot(&piece->wanderer->executor, &place) == ZLINK_OK);
        storm_spot_t *home = piece->wanderer->home;
        zlink_check(place.member_of == (home ? &home->executor.owner : NULL));
        zlink_check(place.shares_gate == (home && home->shares_gate));
        piece->inside[0] = &piece->wanderer->inside;
        piece->inside[1] = place.shares_gate ? &home->inside : NULL;
        zlink_check(!place.shares_gate || zlink_spot_serial_executor_is_current(&home->executor));
    }
    enter_one(piece->inside[0]);
    enter_one(piece->inside[1]);
}

static zlink_status_t piece_runs(zlink_turn_t *turn)
{
    piece_t *piece = piece_of(turn);

    enter_gates(piece);
    if (piece->wanderer) {
        zlink_check(piece->number > piece->wanderer->last[piece->submitter]);
        piece->wanderer->last[piece->submitter] = piece->number;
    }
    unsigned what = piece->dice % 16;
    if (what < 6) {
        zlink_wait_mode_t mode = what < 4 ? ZLINK_WAIT_YIELD : ZLINK_WAIT_ASYNC;
        zlink_status_t status = zlink_turn_prepare_wait(turn, &piece->wait, mode, NULL, NULL);
        if (status == ZLINK_OK) {
            if (!offer(&piece->wait)) {
                zlink_turn_abandon_wait(turn, &piece->wait);
            } else {
                if (mode == ZLINK_WAIT_YIELD) /* the gate goes, the claim stays */
                    leave_one(piece->inside[1]);
                status = zlink_turn_wait(turn, &piece->wait);
                zlink_check(status == ZLINK_OK || (status == ZLINK_SHUTTING_DOWN && mode == ZLINK_WAIT_YIELD));
                if (status != ZLINK_OK)
                    atomic_fetch_add(&failed_resumes, 1);
                if (mode == ZLINK_WAIT_YIELD)
                    enter_one(piece->inside[1]);
            }
        }
    }
    leave_one(piece->inside[1]);
    leave_one(piece->inside[0]);
    if (piece->wanderer && what >= 12)
        wander(piece);
    return ZLINK_OK;
}

static void piece_ended(zlink_turn_t *turn, zlink_status_t status)
{
    (void)status;
    zlink_free(piece_of(turn));
    atomic_fetch_add(&ended, 1);
}

static zlink_status_t submit(piece_t *piece, unsigned dice)
{
    storm_spot_t *spot = &spots[dice % SPOTS];
    unsigned name = dice / 8 % NAMES;
    char id[] = {'a', (char)('A' + name), 0};

    piece->spot = spot;
    switch (dice / 1024 % 8) {
    case 0:
        piece->inside[1] = &spot->inside;
        return zlink_spot_serial_executor_execute_spot(&spot->executor, &piece->turn, dice % 100);
    case 1:
        if (spot->executor.mode == ZLINK_PER_ACTOR)
            piece->inside[0] = &spot->timers_inside[name];
        else
            piece->inside[1] = &spot->inside;
        return zlink_spot_serial_executor_execute_timer(&spot->executor, id, &piece->turn);
    case 2:
        piece->inside[1] = &spot->inside;
        piece->dice = 15; /* no wait */
        return zlink_spot_serial_executor_execute_lifecycle(&spot->executor, &piece->turn);
    case 3:
    case 4:
    case 5:
        piece->inside[0] = &spot->named_inside[name];
        piece->inside[1] = spot->shares_gate ? &spot->inside : NULL;
        return zlink_spot_serial_executor_execute_actor(&spot->executor, id, &piece->turn, dice % 100);
    default:
        piece->wanderer = &wanderers[name % WANDERERS];
        return zlink_actor_serial_executor_execute_actor(&piece->wanderer->executor, &piece->turn, dice % 100);
    }
}

static void *submits(void *argument)
{
    unsigned submitter = (unsigned)(uintptr_t)argument;
    unsigned random = 12345u + submitter * 977u;
    static _Atomic uint64_t numbers;

    for (unsigned i = 0; i < PER_ROUND; i++) {
        piece_t *piece = zlink_calloc(1, sizeof(*piece));
        zlink_check(piece);
        random = random * 1664525u + 1013904223u;
        zlink_turn_init(&piece->turn, piece_runs, piece_ended);
        piece->submitter = submitter;
        piece->number = atomic_fetch_add(&numbers, 1) + 1;
        piece->dice = random >> 20;
        atomic_fetch_add(&tried, 1);
        zlink_status_t status = submit(piece, random >> 8);
        if (status == ZLINK_OK)
            atomic_fetch_add(&accepted, 1);
        else
            zlink_free(piece);
        zlink_check(status == ZLINK_OK || status == ZLINK_SHUTTING_DOWN || status == ZLINK_CAPACITY_EXCEEDED);
        if (i % 3 == 0)
            (void)complete_one();
    }
    return NULL;
}

static void spot_closed(zlink_spot_serial_executor_t *executor)
{
    storm_spot_t *spot = ZLINK_CONTAINER_OF(executor, storm_spot_t, executor);
    zlink_check(!zlink_turn_current());
    zlink_check(atomic_load(&spot->inside) == 0);
    sem_post(spot->closed);
}

static void wanderer_closed(zlink_actor_serial_executor_t *executor)
{
    sem_post(&ZLINK_CONTAINER_OF(executor, wanderer_t, executor)->closed);
}

static void open_all(sem_t *closed)
{
    const zlink_user_spot_execution_mode_t modes[SPOTS] = {ZLINK_SPOT_WIDE, ZLINK_PER_ACTOR, ZLINK_SPOT_WIDE};

    memset(spots, 0, sizeof(spots));
    memset(wanderers, 0, sizeof(wanderers));
    for (unsigned i = 0; i < SPOTS; i++) {
        zlink_check(zlink_spot_serial_executor_init_user(&spots[i].executor, pool.pool, &pool.policy, modes[i]) ==
                    ZLINK_OK);
        spots[i].shares_gate = modes[i] == ZLINK_SPOT_WIDE;
        spots[i].closed = closed;
    }
    for (unsigned i = 0; i < WANDERERS; i++) {
        (void)snprintf(wanderers[i].id, sizeof(wanderers[i].id), "w%u", i);
        zlink_check(zlink_actor_serial_executor_init(&wanderers[i].executor, pool.pool, &pool.policy,
                                                     wanderers[i].id) == ZLINK_OK);
        sem_init(&wanderers[i].closed, 0, 0);
    }
}

static void wait_for_the_end(sem_t *closed)
{
    unsigned spots_closed = 0;

    while (spots_closed < SPOTS || atomic_load(&ended) != atomic_load(&accepted)) {
        if (spots_closed < SPOTS && sem_trywait(closed) == 0)
            spots_closed++;
        if (!complete_one())
            sched_yield();
    }
    for (unsigned i = 0; i < WANDERERS; i++) {
        if (wanderers[i].home)
            continue; /* ended with its Spot */
        zlink_actor_serial_executor_close(&wanderers[i].executor, wanderer_closed);
        zlink_test_wait(&wanderers[i].closed);
    }
}

/* EX-93, EX-95, EX-104. */
static void test_ex93_ex95_a_storm_of_actors_loses_nothing(void **state)
{
    sem_t closed;
    zlink_worker_pool_stats_t stats;

    (void)state;
    zlink_exec_fixture_open(&pool, 3, 0);
    sem_init(&closed, 0, 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        pthread_t threads[SUBMITTERS];
        open_all(&closed);
        for (unsigned i = 0; i < SUBMITTERS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, submits, (void *)(uintptr_t)i), 0);
        uint64_t some = (uint64_t)SUBMITTERS * PER_ROUND * round + PER_ROUND * round / ROUNDS;
        while (atomic_load(&tried) < some)
            if (!complete_one())
                sched_yield();
        for (unsigned i = 0; i < SPOTS; i++)
            zlink_spot_serial_executor_close(&spots[i].executor, spot_closed);
        for (unsigned i = 0; i < SUBMITTERS; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        wait_for_the_end(&closed);
    }
    zlink_worker_pool_stats(pool.pool, &stats);
    print_message("%lu turns, %lu waits, %lu steals, %lu resumes failed by a close\n",
                  (unsigned long)atomic_load(&accepted), (unsigned long)stats.suspensions, (unsigned long)stats.steals,
                  (unsigned long)atomic_load(&failed_resumes));
    assert_true(stats.stacks_live <= stats.workers);
    zlink_exec_fixture_close(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex93_ex95_a_storm_of_actors_loses_nothing),
    };

    return zlink_test_main(tests);
}
