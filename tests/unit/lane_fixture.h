/*
 * tests/unit/lane_fixture.h: a component with a state lane, turns that note on it that they ran, and threads that visit
 * it.
 */
#ifndef ZLINK_TESTS_UNIT_LANE_FIXTURE_H
#define ZLINK_TESTS_UNIT_LANE_FIXTURE_H

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "base/container_of.h"
#include "exec/state_lane.h"
#include "tests/unit/exec_fixture.h"

#define NOTES_MAX  512
#define DEADLINE_S 60

/* What a lane guards in these tests. */
typedef struct component {
    zlink_state_lane_t lane;
    int notes[NOTES_MAX];
    int count;
    long value;
} component_t;

static inline void component_init(component_t *component)
{
    memset(component, 0, sizeof(*component));
    zlink_state_lane_init(&component->lane);
}

static inline void note(component_t *component, int what)
{
    zlink_check(zlink_state_lane_is_on_lane(&component->lane));
    zlink_check(component->count < NOTES_MAX);
    component->notes[component->count++] = what;
}

/* A posted turn that notes its number. */
typedef struct posted {
    zlink_state_lane_turn_t turn;
    component_t *component;
    int number;
    pthread_t ran_on;
} posted_t;

static inline void run_posted(zlink_state_lane_turn_t *turn)
{
    posted_t *posted = ZLINK_CONTAINER_OF(turn, posted_t, turn);

    note(posted->component, posted->number);
    posted->ran_on = pthread_self();
}

static inline void make_posted(posted_t *posted, component_t *component, int number)
{
    *posted = (posted_t){.turn.run = run_posted, .component = component, .number = number};
}

static inline void post(posted_t *posted)
{
    zlink_check(zlink_state_lane_post(&posted->component->lane, &posted->turn) == ZLINK_OK);
}

/* A thread that runs one turn, and may stand in it until it is let go. */
typedef struct visitor {
    component_t *component;
    int number;
    bool stands;
    sem_t on_lane;
    sem_t let_go;
    pthread_t thread;
    pthread_t ran_on;
    zlink_status_t status;
} visitor_t;

static inline void visit(void *context)
{
    visitor_t *visitor = context;

    note(visitor->component, visitor->number);
    visitor->ran_on = pthread_self();
    sem_post(&visitor->on_lane);
    if (visitor->stands)
        zlink_test_wait(&visitor->let_go);
}

static inline void *visitor_main(void *argument)
{
    visitor_t *visitor = argument;

    visitor->status = zlink_state_lane_run(&visitor->component->lane, visit, visitor);
    return NULL;
}

static inline void start(visitor_t *visitor, component_t *component, int number, bool stands)
{
    *visitor = (visitor_t){.component = component, .number = number, .stands = stands};
    sem_init(&visitor->on_lane, 0, 0);
    sem_init(&visitor->let_go, 0, 0);
    assert_int_equal(pthread_create(&visitor->thread, NULL, visitor_main, visitor), 0);
}

/* Starts a visitor that finds the lane busy, and returns when it stands in line. */
static inline void start_in_line(visitor_t *visitor, component_t *component, int number)
{
    uintptr_t before = atomic_load(&component->lane.word);
    const time_t until = time(NULL) + DEADLINE_S;

    start(visitor, component, number, false);
    while (atomic_load(&component->lane.word) == before) {
        assert_true(time(NULL) < until);
        sched_yield();
    }
}

static inline void start_holder(visitor_t *holder, component_t *component)
{
    start(holder, component, 0, true);
    zlink_test_wait(&holder->on_lane);
}

static inline void join(visitor_t *visitor)
{
    pthread_join(visitor->thread, NULL);
    assert_int_equal(visitor->status, ZLINK_OK);
}

static inline void let_go_and_join(visitor_t *holder)
{
    sem_post(&holder->let_go);
    join(holder);
}

static inline void add_one(void *context)
{
    component_t *component = context;
    component->value++;
}

#endif
