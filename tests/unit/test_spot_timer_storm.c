/*
 * Many timers, and many threads at them.
 */
#include "exec_fixture.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>

#include "base/container_of.h"
#include "exec/spot_serial_executor.h"
#include "exec/spot_timer.h"

#define KEYS 8 /* timer names of a stormy Spot */

/* ---- many ---- */

static unsigned count_threads(void)
{
    DIR *folder = opendir("/proc/self/task");
    unsigned threads = 0;

    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        threads += entry->d_name[0] != '.';
    closedir(folder);
    return threads;
}

#define MANY_SPOTS 10000

typedef struct many {
    zlink_spot_serial_executor_t executor;
    zlink_spot_timers_t *timers;
    _Atomic unsigned *ticks;
    sem_t *closed;
} many_t;

static zlink_status_t on_one_of_many(zlink_turn_t *turn, void *self, const zlink_tick_t *tick)
{
    (void)turn, (void)tick;
    atomic_fetch_add(((many_t *)self)->ticks, 1);
    return ZLINK_OK;
}

/* The turn of a tick needs no Spot of this file's kind. */
typedef struct many_turn {
    zlink_turn_t turn;
    many_t *many;
    zlink_spot_timer_t *timer;
} many_turn_t;

static zlink_status_t run_one_of_many(zlink_turn_t *turn)
{
    many_turn_t *mine = ZLINK_CONTAINER_OF(turn, many_turn_t, turn);
    zlink_timer_handler_t handler = NULL;
    const zlink_tick_t *tick = zlink_spot_timer_begin(mine->timer, &handler);

    return tick ? handler(turn, mine->many, tick) : ZLINK_OK;
}

static void one_of_many_ended(zlink_turn_t *turn, zlink_status_t status)
{
    many_turn_t *mine = ZLINK_CONTAINER_OF(turn, many_turn_t, turn);

    zlink_spot_timer_end(mine->timer, status);
    free(mine);
}

static zlink_status_t submit_one_of_many(void *context, zlink_spot_timer_t *timer)
{
    many_turn_t *mine = calloc(1, sizeof(*mine));

    zlink_check(mine != NULL);
    mine->many = context;
    mine->timer = timer;
    zlink_turn_init(&mine->turn, run_one_of_many, one_of_many_ended);
    zlink_status_t status =
        zlink_spot_serial_executor_execute_timer(&mine->many->executor, zlink_spot_timer_name(timer), &mine->turn);
    if (status != ZLINK_OK)
        free(mine);
    return status;
}

static void one_of_many_is_gone(void *context, const char *timer_name)
{
    zlink_spot_serial_executor_remove_timer(&((many_t *)context)->executor, timer_name);
}

static bool always(void *context)
{
    (void)context;
    return true;
}

static void many_closed(zlink_spot_serial_executor_t *executor)
{
    sem_post(ZLINK_CONTAINER_OF(executor, many_t, executor)->closed);
}

/* IC-8: 20,000 timers of 10,000 Spots add no thread, and all of them tick. */
static void test_ic8_timers_add_no_thread(void **state)
{
    static many_t many[MANY_SPOTS];
    zlink_exec_fixture_t fixture;
    _Atomic unsigned ticks = 0;
    sem_t closed;

    (void)state;
    zlink_exec_fixture_open(&fixture, 2, 0);
    sem_init(&closed, 0, 0);
    unsigned threads = count_threads();
    for (unsigned i = 0; i < MANY_SPOTS; i++) {
        zlink_spot_timer_owner_t owner = {always, submit_one_of_many, one_of_many_is_gone, &many[i]};
        zlink_timer_options_t options = {.first_delay_ms = 100 + i % 100, .period_ms = 200};
        assert_int_equal(
            zlink_spot_serial_executor_init(&many[i].executor, fixture.pool, &fixture.policy, ZLINK_EXECUTION_INSTANCE),
            ZLINK_OK);
        many[i].ticks = &ticks;
        many[i].closed = &closed;
        many[i].timers = zlink_spot_timers_create(fixture.pool, &owner, 0);
        assert_non_null(many[i].timers);
        assert_int_equal(zlink_spot_timers_start(many[i].timers, "one", &options, on_one_of_many), ZLINK_OK);
        assert_int_equal(zlink_spot_timers_start(many[i].timers, "two", &options, on_one_of_many), ZLINK_OK);
    }
    assert_int_equal(count_threads(), threads);
    for (unsigned round = 1; round <= 3; round++) {
        zlink_exec_fixture_advance(&fixture, 200);
        while (atomic_load(&ticks) < round * 2 * MANY_SPOTS)
            sched_yield();
        assert_int_equal(count_threads(), threads);
    }
    for (unsigned i = 0; i < MANY_SPOTS; i++) {
        zlink_spot_timers_close(many[i].timers);
        zlink_spot_serial_executor_close(&many[i].executor, many_closed);
    }
    for (unsigned i = 0; i < MANY_SPOTS; i++)
        zlink_test_wait(&closed);
    for (unsigned i = 0; i < MANY_SPOTS; i++)
        zlink_spot_timers_let_go(many[i].timers);
    assert_int_equal(atomic_load(&ticks), 3 * 2 * MANY_SPOTS);
    zlink_exec_fixture_close(&fixture);
}

/* ---- storm ---- */

#define STORM_SPOTS   4
#define STORM_THREADS 3
#define STORM_STEPS   6000

typedef struct stormy {
    many_t many; /* first: a handler's self */
    bool one_gate;
    _Atomic int inside_gate;
    _Atomic int inside[KEYS];
    _Atomic unsigned ticks;
    zlink_wait_t waits[KEYS];
} stormy_t;

typedef struct storm {
    stormy_t *spots;
    unsigned seed;
} storm_t;

static void enter_gate(stormy_t *spot)
{
    zlink_check(atomic_fetch_add(&spot->inside_gate, 1) == 0 || !spot->one_gate);
}

static void leave_gate(stormy_t *spot)
{
    atomic_fetch_sub(&spot->inside_gate, 1);
}

/* Its wait is over as soon as it has begun, which is sooner or later than the parking. */
static zlink_status_t on_stormy_tick(zlink_turn_t *turn, void *self, const zlink_tick_t *tick)
{
    stormy_t *spot = self;
    unsigned key = (unsigned)(tick->name[0] - 'a');

    zlink_check(atomic_fetch_add(&spot->inside[key], 1) == 0);
    enter_gate(spot);
    zlink_check(tick->scheduled_index >= tick->delivery_index && tick->delivery_index >= 1);
    if (atomic_fetch_add(&spot->ticks, 1) % 4 == 0) {
        zlink_status_t prepared =
            zlink_turn_prepare_wait(turn, &spot->waits[key], key % 2 ? ZLINK_WAIT_ASYNC : ZLINK_WAIT_YIELD, NULL, NULL);
        if (prepared == ZLINK_OK) {
            leave_gate(spot);
            zlink_wait_complete(&spot->waits[key], ZLINK_OK);
            zlink_check(zlink_turn_wait(turn, &spot->waits[key]) == ZLINK_OK);
            enter_gate(spot);
        }
    }
    leave_gate(spot);
    zlink_check(atomic_fetch_sub(&spot->inside[key], 1) == 1);
    return tick->delivery_index % 50 == 0 ? ZLINK_REJECTED : ZLINK_OK;
}

static void *storm(void *argument)
{
    storm_t *storm = argument;
    unsigned random = storm->seed;

    for (unsigned i = 0; i < STORM_STEPS; i++) {
        random = random * 1103515245u + 12345u;
        stormy_t *spot = &storm->spots[(random >> 8) % STORM_SPOTS];
        char name[2] = {(char)('a' + (random >> 12) % KEYS), 0};
        if (random >> 30 == 0) {
            (void)zlink_spot_timers_cancel(spot->many.timers, name);
            continue;
        }
        zlink_timer_options_t options = {
            .first_delay_ms = (random >> 16) % 3,
            .period_ms = (random >> 18) % 3,
            .overrun_policy = (zlink_timer_overrun_policy_t)((random >> 20) % 3),
            .max_catch_up_ticks = (random >> 22) % 4,
            .stop_on_failure = (random >> 24) % 2,
        };
        zlink_status_t status = zlink_spot_timers_start(spot->many.timers, name, &options, on_stormy_tick);
        zlink_check(status == ZLINK_OK || status == ZLINK_SHUTTING_DOWN);
        if (i % 16 == 0)
            sched_yield();
    }
    return NULL;
}

/* EX-6, EX-25, EX-87: starts, cancels and closes from many threads while everything ticks, in every kind of Spot: no
 * name overlaps itself, no gate has two, and what
 * was begun is ended (the sanitizers look at the rest). */
static void test_ex6_ex25_ex87_a_storm_overlaps_nothing(void **state)
{
    zlink_worker_pool_options_t pool_options = {.workers = 3};
    zlink_execution_lane_policy_t policy = zlink_execution_lane_policy_default;
    zlink_worker_pool_t *pool = NULL;
    zlink_refusal_t why = {{0}};
    static stormy_t spots[STORM_SPOTS];
    storm_t storms[STORM_THREADS];
    pthread_t threads[STORM_THREADS];
    sem_t closed;
    unsigned ticks = 0;

    (void)state;
    sem_init(&closed, 0, 0);
    assert_int_equal(zlink_worker_pool_create(&pool_options, &pool, &why), ZLINK_OK);
    for (unsigned i = 0; i < STORM_SPOTS; i++) {
        zlink_spot_timer_owner_t owner = {always, submit_one_of_many, one_of_many_is_gone, &spots[i].many};
        zlink_spot_serial_executor_t *executor = &spots[i].many.executor;
        /* Every kind of Spot; in the last the names are beside each other. */
        zlink_status_t status =
            i < 2 ? zlink_spot_serial_executor_init(executor, pool, &policy,
                                                    i == 0 ? ZLINK_EXECUTION_INSTANCE : ZLINK_EXECUTION_ENTRY)
                  : zlink_spot_serial_executor_init_user(executor, pool, &policy,
                                                         i == 2 ? ZLINK_SPOT_WIDE : ZLINK_PER_ACTOR);
        assert_int_equal(status, ZLINK_OK);
        spots[i].one_gate = i < 3;
        spots[i].many.closed = &closed;
        spots[i].many.timers = zlink_spot_timers_create(pool, &owner, 0);
        assert_non_null(spots[i].many.timers);
    }
    for (unsigned i = 0; i < STORM_THREADS; i++) {
        storms[i] = (storm_t){spots, i * 7919 + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, storm, &storms[i]), 0);
    }
    while (atomic_load(&spots[0].ticks) < 10)
        sched_yield();
    zlink_spot_timers_close(spots[0].many.timers); /* in the middle */
    for (unsigned i = 0; i < STORM_THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < STORM_SPOTS; i++) {
        zlink_spot_timers_close(spots[i].many.timers);
        zlink_spot_serial_executor_close(&spots[i].many.executor, many_closed);
    }
    for (unsigned i = 0; i < STORM_SPOTS; i++)
        zlink_test_wait(&closed);
    for (unsigned i = 0; i < STORM_SPOTS; i++) {
        assert_int_equal(zlink_spot_timers_count(spots[i].many.timers), 0);
        zlink_spot_timers_let_go(spots[i].many.timers);
        ticks += atomic_load(&spots[i].ticks);
    }
    assert_true(ticks > 10);
    zlink_worker_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ic8_timers_add_no_thread),
        cmocka_unit_test(test_ex6_ex25_ex87_a_storm_overlaps_nothing),
    };

    return zlink_test_main(tests);
}
