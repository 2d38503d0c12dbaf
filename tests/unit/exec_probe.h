/*
 * tests/unit/exec_probe.h: items that tell on which worker they ran, and queues that tell when they are closed.
 */
#ifndef ZLINK_TESTS_UNIT_EXEC_PROBE_H
#define ZLINK_TESTS_UNIT_EXEC_PROBE_H

#include "base/container_of.h"
#include "exec/serial_execution_queue.h"
#include "tests/unit/exec_fixture.h"

/* An item that tells where it ran, and stands there if it is asked to. */
typedef struct probe {
    zlink_work_item_t item;
    bool stands;
    _Atomic bool spins; /* stands in a busy loop */
    sem_t ran;
    sem_t let_go;
    zlink_worker_t *worker;
    _Atomic bool has_run;
} probe_t;

static inline zlink_work_result_t run_probe(zlink_work_item_t *item, zlink_worker_t *worker)
{
    probe_t *probe = ZLINK_CONTAINER_OF(item, probe_t, item);
    bool stands = probe->stands;

    probe->worker = worker;
    atomic_store(&probe->has_run, true);
    sem_post(&probe->ran);
    while (atomic_load(&probe->spins))
        ;
    if (stands)
        zlink_test_wait(&probe->let_go);
    return ZLINK_WORK_DONE;
}

static inline void make_probe(probe_t *probe)
{
    memset(probe, 0, sizeof(*probe));
    probe->item.run = run_probe;
    sem_init(&probe->ran, 0, 0);
    sem_init(&probe->let_go, 0, 0);
}

/* A queue and what tells that it is closed. */
typedef struct owner {
    zlink_serial_execution_queue_t queue;
    sem_t closed;
} owner_t;

static inline void owner_open(owner_t *owner, zlink_exec_fixture_t *fixture)
{
    zlink_serial_execution_queue_init(&owner->queue, fixture->pool, &fixture->policy);
    sem_init(&owner->closed, 0, 0);
}

static inline void owner_closed(zlink_serial_execution_queue_t *queue)
{
    sem_post(&ZLINK_CONTAINER_OF(queue, owner_t, queue)->closed);
}

static inline void owner_close(owner_t *owner)
{
    zlink_serial_execution_queue_close(&owner->queue, owner_closed);
    zlink_test_wait(&owner->closed);
}

static inline void enqueue(owner_t *owner, probe_t *probe)
{
    assert_int_equal(zlink_serial_execution_queue_enqueue(&owner->queue, &probe->item), ZLINK_OK);
}

#endif
