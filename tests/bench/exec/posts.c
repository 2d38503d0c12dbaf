/*
 * posts.c: E1: producers outside the pool post trivial work.
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "base/container_of.h"
#include "bench_exec.h"
#include "exec/serial_execution_queue.h"
#include "exec/spot_serial_executor.h"
#include "tests/bench/peers/common/pb.h"

#define PRODUCERS_MAX 4

/* One owner: a queue, or for turns a Spot's executor, and how much it has run. */
typedef struct owner {
    _Alignas(64) zlink_spot_serial_executor_t spot;
    zlink_serial_execution_queue_t queue;
    uint64_t done, wanted;
} owner_t;

typedef struct item {
    zlink_work_item_t work;
    owner_t *owner;
} item_t;

typedef struct turn_item {
    zlink_turn_t turn;
    owner_t *owner;
} turn_item_t;

static sem_t ended;
static _Atomic uint32_t owners_left;
static _Atomic uint64_t refusals;

typedef struct producer {
    const bench_posts_t *plan;
    owner_t *owners;
    uint64_t rounds;
} producer_t;

static void one_done(owner_t *owner)
{
    if (++owner->done == owner->wanted && atomic_fetch_sub(&owners_left, 1) == 1)
        sem_post(&ended);
}

static zlink_work_result_t run_item(zlink_work_item_t *work, zlink_worker_t *worker)
{
    item_t *item = ZLINK_CONTAINER_OF(work, item_t, work);
    (void)worker;
    one_done(item->owner);
    free(item);
    return ZLINK_WORK_DONE;
}

static zlink_status_t run_turn(zlink_turn_t *turn)
{
    one_done(ZLINK_CONTAINER_OF(turn, turn_item_t, turn)->owner);
    return ZLINK_OK;
}

static void turn_ended(zlink_turn_t *turn, zlink_status_t status)
{
    (void)status;
    free(ZLINK_CONTAINER_OF(turn, turn_item_t, turn));
}

static void post_item(owner_t *owner, uint64_t *refused)
{
    item_t *item = malloc(sizeof(*item));
    if (!item)
        bench_die("out of memory");
    *item = (item_t){.work = {.run = run_item}, .owner = owner};
    while (zlink_serial_execution_queue_enqueue(&owner->queue, &item->work) != ZLINK_OK) {
        ++*refused;
        sched_yield();
    }
}

static void post_turn(owner_t *owner, uint64_t *refused)
{
    turn_item_t *item = malloc(sizeof(*item));
    if (!item)
        bench_die("out of memory");
    zlink_turn_init(&item->turn, run_turn, turn_ended);
    item->owner = owner;
    while (zlink_spot_serial_executor_execute_spot(&owner->spot, &item->turn, 0) != ZLINK_OK) {
        ++*refused;
        sched_yield();
    }
}

static void *produce(void *context)
{
    const producer_t *producer = context;
    uint64_t refused = 0;
    for (uint64_t round = 0; round < producer->rounds; round++) {
        for (unsigned i = 0; i < producer->plan->owners; i++) {
            if (producer->plan->turns)
                post_turn(&producer->owners[i], &refused);
            else
                post_item(&producer->owners[i], &refused);
        }
    }
    atomic_fetch_add(&refusals, refused);
    return NULL;
}

static void queue_closed(zlink_serial_execution_queue_t *queue)
{
    (void)queue;
    sem_post(&ended);
}

static void spot_closed(zlink_spot_serial_executor_t *spot)
{
    (void)spot;
    sem_post(&ended);
}

static void make_owner(owner_t *owner, const bench_posts_t *plan, zlink_worker_pool_t *pool,
                       const zlink_execution_lane_policy_t *policy)
{
    if (!plan->turns)
        zlink_serial_execution_queue_init(&owner->queue, pool, policy);
    else if (zlink_spot_serial_executor_init(&owner->spot, pool, policy, ZLINK_EXECUTION_INSTANCE) != ZLINK_OK)
        bench_die("the policy is not valid");
}

static void close_owners(owner_t *owners, const bench_posts_t *plan)
{
    for (unsigned i = 0; i < plan->owners; i++) {
        if (plan->turns)
            zlink_spot_serial_executor_close(&owners[i].spot, spot_closed);
        else
            zlink_serial_execution_queue_close(&owners[i].queue, queue_closed);
    }
    for (unsigned i = 0; i < plan->owners; i++)
        sem_wait(&ended);
}

static void run_producers(const bench_posts_t *plan, owner_t *owners, uint64_t rounds)
{
    pthread_t threads[PRODUCERS_MAX];
    producer_t producer = {plan, owners, rounds};
    for (unsigned i = 0; i < plan->producers; i++) {
        if (pthread_create(&threads[i], NULL, produce, &producer))
            bench_die("no thread");
    }
    sem_wait(&ended);
    for (unsigned i = 0; i < plan->producers; i++)
        pthread_join(threads[i], NULL);
}

void bench_posts(const bench_posts_t *plan)
{
    zlink_worker_pool_t *pool = bench_pool(0);
    zlink_execution_lane_policy_t policy = zlink_execution_lane_policy_default;
    owner_t *owners = bench_allocate(sizeof(owner_t) * plan->owners);
    uint64_t rounds = plan->count / plan->owners / plan->producers;
    if (rounds == 0)
        rounds = 1;
    uint64_t total = rounds * plan->owners * plan->producers;

    policy.application_message_capacity = plan->capacity;
    policy.application_byte_capacity = UINT64_C(1) << 36;
    for (unsigned i = 0; i < plan->owners; i++) {
        make_owner(&owners[i], plan, pool, &policy);
        owners[i].wanted = rounds * plan->producers;
    }
    sem_init(&ended, 0, 0);
    atomic_store(&owners_left, plan->owners);
    atomic_store(&refusals, 0);

    pb_begin();
    double cpu = cpu_self();
    uint64_t began_ns = now_ns();
    run_producers(plan, owners, rounds);
    double seconds = (double)(now_ns() - began_ns) * 1e-9;
    cpu = cpu_self() - cpu;
    emit(BENCH_PEER, plan->workload, "", "rate", (double)total / seconds, "items/s");
    emit(BENCH_PEER, plan->workload, "", "cpu_per_million", cpu / (double)total * 1e6, "cpu_s/1e6");
    emit(BENCH_PEER, plan->workload, "", "refusals", (double)atomic_load(&refusals), "");

    close_owners(owners, plan);
    zlink_worker_pool_destroy(pool);
    sem_destroy(&ended);
    free(owners);
}
