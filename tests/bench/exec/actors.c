/*
 * actors.c: E2: Actors of User Spots talk to each other, and get messages from outside. E-idle: what an idle one takes.
 *
 * A message is a turn, sent by the Actor's id through its Spot's coordinator, so each is looked up as a node would do.
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "base/container_of.h"
#include "base/memory.h"
#include "bench_exec.h"
#include "exec/spot_serial_executor.h"
#include "tests/bench/peers/common/pb.h"

#define PRODUCERS       2
#define ACTORS_PER_ROOM 100
#define ACTOR_NAME_MAX  24

static const char *mode_name(zlink_user_spot_execution_mode_t mode)
{
    return mode == ZLINK_SPOT_WIDE ? "SpotWide" : "PerActor";
}

static sem_t ended;

static void spot_closed(zlink_spot_serial_executor_t *spot)
{
    (void)spot;
    sem_post(&ended);
}

static void make_room(zlink_spot_serial_executor_t *spot, zlink_worker_pool_t *pool,
                      const zlink_execution_lane_policy_t *policy, zlink_user_spot_execution_mode_t mode)
{
    if (zlink_spot_serial_executor_init_user(spot, pool, policy, mode) != ZLINK_OK)
        bench_die("the policy is not valid");
}

static void close_rooms(zlink_spot_serial_executor_t *rooms, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        zlink_spot_serial_executor_close(&rooms[i], spot_closed);
    for (unsigned i = 0; i < count; i++)
        sem_wait(&ended);
}

/* ---- E2a: two Actors of one Spot ---- */

typedef struct player {
    zlink_turn_t turn;
    struct match *match;
    const char *other;
} player_t;

typedef struct match {
    zlink_spot_serial_executor_t *room;
    player_t players[2];
    uint64_t left;
} match_t;

static zlink_status_t play(zlink_turn_t *turn)
{
    (void)turn;
    return ZLINK_OK;
}

/* The ball is the other one's turn record: sent when this handler is over, so that it is free again in time. */
static void played(zlink_turn_t *turn, zlink_status_t status)
{
    player_t *player = ZLINK_CONTAINER_OF(turn, player_t, turn);
    match_t *match = player->match;
    player_t *other = &match->players[player == &match->players[0]];

    if (status != ZLINK_OK)
        bench_die("a handler failed");
    if (match->left == 0) {
        sem_post(&ended);
        return;
    }
    match->left--;
    zlink_turn_init(&other->turn, play, played);
    if (zlink_spot_serial_executor_execute_actor(match->room, player->other, &other->turn, 0) != ZLINK_OK)
        bench_die("a message was refused");
}

void bench_ping_pong(zlink_user_spot_execution_mode_t mode, uint64_t count)
{
    char workload[32];
    zlink_worker_pool_t *pool = bench_pool(0);
    zlink_spot_serial_executor_t *room = bench_allocate(sizeof(*room));
    match_t match = {.room = room, .left = 2 * count};

    snprintf(workload, sizeof(workload), "E2a-%s", mode_name(mode));
    sem_init(&ended, 0, 0);
    make_room(room, pool, &zlink_execution_lane_policy_default, mode);
    match.players[0] = (player_t){.match = &match, .other = "pong"};
    match.players[1] = (player_t){.match = &match, .other = "ping"};
    pb_begin();
    double cpu = cpu_self();
    uint64_t began_ns = now_ns();
    zlink_turn_init(&match.players[0].turn, play, played);
    if (zlink_spot_serial_executor_execute_actor(room, "ping", &match.players[0].turn, 0) != ZLINK_OK)
        bench_die("a message was refused");
    sem_wait(&ended);
    double seconds = (double)(now_ns() - began_ns) * 1e-9;
    cpu = cpu_self() - cpu;
    emit(BENCH_PEER, workload, "", "rate", (double)count / seconds, "roundtrips/s");
    emit(BENCH_PEER, workload, "", "cpu_per_million", cpu / (double)count * 1e6, "cpu_s/1e6");

    close_rooms(room, 1);
    zlink_worker_pool_destroy(pool);
    sem_destroy(&ended);
    free(room);
}

/* ---- E2b: messages from outside to many Actors ---- */

typedef struct crowd {
    zlink_spot_serial_executor_t *rooms;
    char (*names)[ACTOR_NAME_MAX];
    uint64_t *done; /* by actor; its own turns only */
    unsigned actors, actors_per_room;
    uint64_t rounds; /* of each producer */
    _Atomic uint32_t actors_left;
    _Atomic uint64_t refusals;
} crowd_t;

typedef struct message {
    zlink_turn_t turn;
    crowd_t *crowd;
    unsigned actor;
} message_t;

static zlink_status_t count_message(zlink_turn_t *turn)
{
    const message_t *message = ZLINK_CONTAINER_OF(turn, message_t, turn);
    crowd_t *crowd = message->crowd;
    if (++crowd->done[message->actor] == crowd->rounds * PRODUCERS && atomic_fetch_sub(&crowd->actors_left, 1) == 1)
        sem_post(&ended);
    return ZLINK_OK;
}

static void free_message(zlink_turn_t *turn, zlink_status_t status)
{
    (void)status;
    free(ZLINK_CONTAINER_OF(turn, message_t, turn));
}

static void *talk(void *context)
{
    crowd_t *crowd = context;
    uint64_t refused = 0;
    for (uint64_t round = 0; round < crowd->rounds; round++) {
        for (unsigned i = 0; i < crowd->actors; i++) {
            message_t *message = malloc(sizeof(*message));
            if (!message)
                bench_die("out of memory");
            zlink_turn_init(&message->turn, count_message, free_message);
            message->crowd = crowd;
            message->actor = i;
            while (zlink_spot_serial_executor_execute_actor(&crowd->rooms[i / crowd->actors_per_room], crowd->names[i],
                                                            &message->turn, 0) != ZLINK_OK) {
                refused++;
                sched_yield();
            }
        }
    }
    atomic_fetch_add(&crowd->refusals, refused);
    return NULL;
}

void bench_crowd(zlink_user_spot_execution_mode_t mode, unsigned actors, unsigned rooms, uint64_t messages)
{
    char workload[48];
    zlink_worker_pool_t *pool = bench_pool(0);
    zlink_execution_lane_policy_t policy = zlink_execution_lane_policy_default;
    pthread_t threads[PRODUCERS];
    crowd_t crowd = {.rooms = bench_allocate(sizeof(*crowd.rooms) * rooms),
                     .names = bench_allocate(sizeof(*crowd.names) * actors),
                     .done = bench_allocate(sizeof(*crowd.done) * actors),
                     .actors = actors,
                     .actors_per_room = (actors + rooms - 1) / rooms,
                     .rounds = messages / PRODUCERS};
    double total = (double)actors * (double)(crowd.rounds * PRODUCERS);

    snprintf(workload, sizeof(workload), "E2b-%s%s", mode_name(mode), rooms == 1 ? "-one-spot" : "");
    policy.application_message_capacity = 1048576;
    policy.application_byte_capacity = UINT64_C(1) << 36;
    sem_init(&ended, 0, 0);
    atomic_store(&crowd.actors_left, actors);
    for (unsigned i = 0; i < rooms; i++)
        make_room(&crowd.rooms[i], pool, &policy, mode);
    for (unsigned i = 0; i < actors; i++)
        snprintf(crowd.names[i], sizeof(crowd.names[i]), "player-%u", i);
    pb_begin();
    double cpu = cpu_self();
    uint64_t began_ns = now_ns();
    for (unsigned i = 0; i < PRODUCERS; i++)
        if (pthread_create(&threads[i], NULL, talk, &crowd))
            bench_die("no thread");
    sem_wait(&ended);
    double seconds = (double)(now_ns() - began_ns) * 1e-9;
    cpu = cpu_self() - cpu;
    for (unsigned i = 0; i < PRODUCERS; i++)
        pthread_join(threads[i], NULL);
    emit(BENCH_PEER, workload, "", "rate", total / seconds, "msgs/s");
    emit(BENCH_PEER, workload, "", "cpu_per_million", cpu / total * 1e6, "cpu_s/1e6");
    emit(BENCH_PEER, workload, "", "refusals", (double)atomic_load(&crowd.refusals), "");

    close_rooms(crowd.rooms, rooms);
    zlink_worker_pool_destroy(pool);
    sem_destroy(&ended);
    free(crowd.rooms);
    free(crowd.names);
    free(crowd.done);
}

/* ---- E-idle ---- */

static void touched(zlink_turn_t *turn, zlink_status_t status)
{
    (void)turn;
    (void)status;
    sem_post(&ended);
}

/* Every Actor gets one message, and then there is silence. Allocated bytes, the allocator's own with them. */
void bench_idle_actors(zlink_user_spot_execution_mode_t mode, unsigned actors)
{
    char workload[32], name[ACTOR_NAME_MAX];
    zlink_worker_pool_t *pool = bench_pool(0);
    unsigned rooms = (actors + ACTORS_PER_ROOM - 1) / ACTORS_PER_ROOM;
    zlink_spot_serial_executor_t *all = bench_allocate(sizeof(*all) * rooms);
    zlink_turn_t turn;

    snprintf(workload, sizeof(workload), "E-idle-%s", mode_name(mode));
    sem_init(&ended, 0, 0);
    for (unsigned i = 0; i < rooms; i++)
        make_room(&all[i], pool, &zlink_execution_lane_policy_default, mode);
    size_t before = zlink_memory_bytes_in_use();
    for (unsigned i = 0; i < actors; i++) {
        snprintf(name, sizeof(name), "player-%08u", i);
        zlink_turn_init(&turn, play, touched);
        if (zlink_spot_serial_executor_execute_actor(&all[i / ACTORS_PER_ROOM], name, &turn, 0) != ZLINK_OK)
            bench_die("a message was refused");
        sem_wait(&ended);
    }
    double bytes = (double)(zlink_memory_bytes_in_use() - before) / actors;
    emit(BENCH_PEER, workload, "", "bytes", bytes, "bytes");

    close_rooms(all, rooms);
    zlink_worker_pool_destroy(pool);
    sem_destroy(&ended);
    free(all);
}
