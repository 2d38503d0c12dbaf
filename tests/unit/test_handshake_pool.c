/* The helpers: how many may wait, who goes first, what can be taken back. */
#include "net_fixture.h"
#include "tls_fixture.h"

#include "base/container_of.h"
#include "base/counters.h"
#include "net/handshake_pool.h"
#include "net/tls_context_internal.h"

#define JOBS 8

extern zlink_counter_t zlink_counter_net_handshakes_waiting;

static tls_fixture_t fixture;
static zlink_tls_context_t *context;
static pthread_mutex_t stand = PTHREAD_MUTEX_INITIALIZER;

static int set_up(void **state)
{
    tls_files_t files;

    (void)state;
    tls_fixture_init(&fixture);
    tls_fixture_authority(&fixture, "ca");
    files = tls_fixture_node(&fixture, "ca", "mesh", "node-a");
    context = tls_fixture_context(&files);
    tls_fixture_stop_at(context, &stand);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    zlink_tls_context_release(context);
    tls_fixture_release(&fixture);
    return 0;
}

typedef struct work {
    zlink_handshake_job_t job;
    struct bench *bench;
    size_t order; /* 1 = the first that came back; 0 = did not */
} work_t;

typedef struct bench {
    zlink_reactor_t *reactor;
    zlink_handshake_pool_t *pool;
    work_t works[JOBS];
    size_t first, count; /* for submit_here */
    zlink_status_t status[JOBS];
    bool withdrawn;
    _Atomic size_t back;
} bench_t;

static void work_done(zlink_handshake_job_t *job)
{
    work_t *work = ZLINK_CONTAINER_OF(job, work_t, job);

    assert(zlink_reactor_is_current(work->bench->reactor) && !job->away);
    work->order = atomic_load(&work->bench->back) + 1;
    atomic_store(&work->bench->back, work->order);
}

static void bench_open(bench_t *bench, unsigned threads, unsigned waiting_max)
{
    memset(bench, 0, sizeof(*bench));
    bench->reactor = fixture_reactor(NULL);
    bench->pool = zlink_handshake_pool_create(bench->reactor, threads, waiting_max);
    assert_non_null(bench->pool);
    for (size_t i = 0; i < JOBS; i++) {
        bench->works[i].bench = bench;
        bench->works[i].job.done = work_done;
        bench->works[i].job.session = zlink_tls_session_create(context, ZLINK_TLS_CLIENT);
        assert_non_null(bench->works[i].job.session);
    }
}

static void bench_close(bench_t *bench)
{
    zlink_handshake_pool_destroy(bench->pool);
    for (size_t i = 0; i < JOBS; i++) {
        zlink_tls_session_destroy(bench->works[i].job.session);
        zlink_byte_buffer_release(&bench->works[i].job.input);
        zlink_byte_buffer_release(&bench->works[i].job.wire);
    }
    zlink_reactor_destroy(bench->reactor);
}

static void submit_here(void *argument)
{
    bench_t *bench = argument;

    for (size_t i = bench->first; i < bench->first + bench->count; i++)
        bench->status[i] = zlink_handshake_pool_submit(bench->pool, &bench->works[i].job);
}

static void submit(bench_t *bench, size_t first, size_t count)
{
    bench->first = first;
    bench->count = count;
    zlink_reactor_call(bench->reactor, submit_here, bench);
}

static void withdraw_here(void *argument)
{
    bench_t *bench = argument;

    bench->withdrawn = zlink_handshake_pool_withdraw(bench->pool, &bench->works[bench->first].job);
}

static bool withdraw(bench_t *bench, size_t index)
{
    bench->first = index;
    zlink_reactor_call(bench->reactor, withdraw_here, bench);
    return bench->withdrawn;
}

/* A session stands still at its first message while the test holds the lock. */
static void hold_helper(bench_t *bench, size_t index)
{
    const struct timespec pause = {.tv_nsec = 200000};
    const time_t until = time(NULL) + FIXTURE_PATIENCE_S;

    pthread_mutex_lock(&stand);
    submit(bench, index, 1);
    assert_int_equal(bench->status[index], ZLINK_OK);
    while (zlink_counter_read(&zlink_counter_net_handshakes_waiting) > 0) {
        assert_true(time(NULL) < until);
        nanosleep(&pause, NULL);
    }
}

static void test_handshake_pool_bounds_those_who_wait(void **state)
{
    bench_t bench;

    (void)state;
    bench_open(&bench, 1, 2);
    hold_helper(&bench, 0);
    submit(&bench, 1, 3);
    assert_int_equal(bench.status[1], ZLINK_OK);
    assert_int_equal(bench.status[2], ZLINK_OK);
    assert_int_equal(bench.status[3], ZLINK_CAPACITY_EXCEEDED);
    assert_false(bench.works[3].job.away);
    assert_int_equal(zlink_counter_read(&zlink_counter_net_handshakes_waiting), 2);
    assert_true(withdraw(&bench, 1));  /* makes room */
    assert_false(withdraw(&bench, 0)); /* a helper has it */
    submit(&bench, 3, 1);
    assert_int_equal(bench.status[3], ZLINK_OK);
    pthread_mutex_unlock(&stand);
    fixture_wait_for(&bench.back, 3);
    assert_int_equal(bench.works[0].order, 1);
    assert_int_equal(bench.works[1].order, 0);
    assert_int_equal(bench.works[2].order, 2);
    assert_int_equal(bench.works[3].order, 3);
    assert_int_equal(bench.works[3].job.progress, ZLINK_TLS_MORE);
    assert_true(zlink_byte_buffer_size(&bench.works[3].job.wire) > 40); /* its ClientHello */
    assert_int_equal(zlink_counter_read(&zlink_counter_net_handshakes_waiting), 0);
    bench_close(&bench);
}

/* One that has had a turn is not refused, and goes before those who have not. */
static void test_handshake_pool_finishes_what_it_began(void **state)
{
    bench_t bench;

    (void)state;
    bench_open(&bench, 1, 1);
    submit(&bench, 0, 1);
    fixture_wait_for(&bench.back, 1);
    hold_helper(&bench, 1);
    submit(&bench, 2, 1); /* as many as may wait */
    submit(&bench, 0, 1);
    assert_int_equal(bench.status[0], ZLINK_OK);
    submit(&bench, 3, 1);
    assert_int_equal(bench.status[3], ZLINK_CAPACITY_EXCEEDED);
    pthread_mutex_unlock(&stand);
    fixture_wait_for(&bench.back, 4);
    assert_int_equal(bench.works[1].order, 2);
    assert_int_equal(bench.works[0].order, 3);
    assert_int_equal(bench.works[2].order, 4);
    bench_close(&bench);
}

static void test_handshake_pool_with_many_threads(void **state)
{
    bench_t bench;

    (void)state;
    bench_open(&bench, 100, 0); /* cut to the most that may be */
    submit(&bench, 0, JOBS);
    fixture_wait_for(&bench.back, JOBS);
    for (size_t i = 0; i < JOBS; i++)
        assert_true(bench.status[i] == ZLINK_OK && bench.works[i].order > 0);
    bench_close(&bench);
    bench_open(&bench, 1, 1); /* nothing was ever submitted */
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_handshake_pool_bounds_those_who_wait, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_handshake_pool_finishes_what_it_began, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_handshake_pool_with_many_threads, set_up, tear_down),
    };

    return zlink_test_main(tests);
}
