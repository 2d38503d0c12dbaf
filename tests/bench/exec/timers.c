/*
 * timers.c: E-timers: what a tick costs with more and more timers. However many there are, they belong to the same
 * number of Spots, all of them together tick equally often, and equally many Spots get one at the same time.
 */
#include <semaphore.h>
#include <stdatomic.h>

#include "base/container_of.h"
#include "bench_exec.h"
#include "exec/spot_serial_executor.h"
#include "exec/spot_timer.h"
#include "tests/bench/peers/common/pb.h"

#define SPOTS          100
#define TICKS_A_SECOND 20000
#define SECONDS        2

typedef struct ticking_spot {
    zlink_spot_serial_executor_t executor;
    zlink_spot_timers_t *timers;
} ticking_spot_t;

typedef struct tick_turn {
    zlink_turn_t turn;
    ticking_spot_t *spot;
    zlink_spot_timer_t *timer;
} tick_turn_t;

static _Atomic uint64_t ticks;
static sem_t ended;

static zlink_status_t on_tick(zlink_turn_t *turn, void *self, const zlink_tick_t *tick)
{
    (void)turn;
    (void)self;
    (void)tick;
    atomic_fetch_add_explicit(&ticks, 1, memory_order_relaxed);
    return ZLINK_OK;
}

static zlink_status_t run_tick(zlink_turn_t *turn)
{
    tick_turn_t *mine = ZLINK_CONTAINER_OF(turn, tick_turn_t, turn);
    zlink_timer_handler_t handler = NULL;
    const zlink_tick_t *tick = zlink_spot_timer_begin(mine->timer, &handler);
    return tick ? handler(turn, mine->spot, tick) : ZLINK_OK;
}

static void tick_ended(zlink_turn_t *turn, zlink_status_t status)
{
    tick_turn_t *mine = ZLINK_CONTAINER_OF(turn, tick_turn_t, turn);
    zlink_spot_timer_end(mine->timer, status);
    free(mine);
}

static zlink_status_t submit(void *context, zlink_spot_timer_t *timer)
{
    tick_turn_t *tick = malloc(sizeof(*tick));
    if (!tick)
        bench_die("out of memory");
    zlink_turn_init(&tick->turn, run_tick, tick_ended);
    tick->spot = context;
    tick->timer = timer;
    zlink_status_t status =
        zlink_spot_serial_executor_execute_timer(&tick->spot->executor, zlink_spot_timer_name(timer), &tick->turn);
    if (status != ZLINK_OK)
        free(tick);
    return status;
}

static bool always_open(void *context)
{
    (void)context;
    return true;
}

static unsigned threads(void)
{
    char line[128];
    unsigned count = 0;
    FILE *file = fopen("/proc/self/status", "r");
    if (!file)
        bench_die("/proc/self/status cannot be read");
    while (fgets(line, sizeof(line), file))
        if (sscanf(line, "Threads: %u", &count) == 1)
            break;
    fclose(file);
    return count;
}

static void start_timers(ticking_spot_t *spot, unsigned count, unsigned period_ms)
{
    char name[32];
    for (unsigned i = 0; i < count; i++) {
        zlink_timer_options_t options = {.first_delay_ms = 1 + i * period_ms / count, .period_ms = period_ms};
        snprintf(name, sizeof(name), "beat-%u", i);
        if (zlink_spot_timers_start(spot->timers, name, &options, on_tick) != ZLINK_OK)
            bench_die("a timer was refused");
    }
}

static void spot_closed(zlink_spot_serial_executor_t *executor)
{
    (void)executor;
    sem_post(&ended);
}

void bench_timers(unsigned count)
{
    char workload[32];
    zlink_worker_pool_t *pool = bench_pool(0);
    ticking_spot_t *all = bench_allocate(sizeof(*all) * SPOTS);
    unsigned before = threads();

    if (count % SPOTS != 0 || count * 1000 / TICKS_A_SECOND < 2)
        bench_die("timers: a multiple of 100, and 100 at least");
    snprintf(workload, sizeof(workload), "E-timers-%u", count);
    sem_init(&ended, 0, 0);
    for (unsigned i = 0; i < SPOTS; i++) {
        zlink_spot_timer_owner_t owner = {.admission_open = always_open, .submit = submit, .context = &all[i]};
        if (zlink_spot_serial_executor_init(&all[i].executor, pool, &zlink_execution_lane_policy_default,
                                            ZLINK_EXECUTION_INSTANCE) != ZLINK_OK)
            bench_die("the policy is not valid");
        all[i].timers = zlink_spot_timers_create(pool, &owner, 0);
        if (!all[i].timers)
            bench_die("out of memory");
        start_timers(&all[i], count / SPOTS, count * 1000 / TICKS_A_SECOND);
    }
    usleep(200000);
    pb_begin();
    atomic_store(&ticks, 0);
    double cpu = cpu_self();
    uint64_t began_ns = now_ns();
    usleep(SECONDS * 1000000);
    double seconds = (double)(now_ns() - began_ns) * 1e-9;
    double seen = (double)atomic_load(&ticks);
    cpu = cpu_self() - cpu;
    emit(BENCH_PEER, workload, "", "rate", seen / seconds, "ticks/s");
    emit(BENCH_PEER, workload, "", "cpu_per_million", seen > 0 ? cpu / seen * 1e6 : 0, "cpu_s/1e6");
    emit(BENCH_PEER, workload, "", "threads_added", (double)threads() - before, "");

    for (unsigned i = 0; i < SPOTS; i++) {
        zlink_spot_timers_close(all[i].timers);
        zlink_spot_serial_executor_close(&all[i].executor, spot_closed);
    }
    for (unsigned i = 0; i < SPOTS; i++)
        sem_wait(&ended);
    for (unsigned i = 0; i < SPOTS; i++)
        zlink_spot_timers_let_go(all[i].timers);
    zlink_worker_pool_destroy(pool);
    sem_destroy(&ended);
    free(all);
}
