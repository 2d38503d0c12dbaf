/* What kernels and rings were seen to do wrong, provoked one by one: the loop's half. */
#include <dirent.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "net_fixture.h"

#include "base/container_of.h"
#include "base/counters.h"
#include "net/completion_batch.h"
#include "net/reactor_loop.h"

extern zlink_counter_t zlink_counter_net_ticks;

/* ---- many operations ---- */

#define OPERATION_GOOD    7u
#define OPERATION_BAD     8u
#define OPCODE_OF_NOTHING 0xee

typedef struct flood {
    zlink_reactor_t *reactor;
    zlink_ring_slot_t slot;
    unsigned wanted;
    unsigned bad_every; /* 0 = none: so many-th operation is one that no kernel knows */
    bool endless;       /* each completion starts the next, until `stop` */
    _Atomic bool stop;
    unsigned completed;
    unsigned refused;
    unsigned wrong;
    int64_t tick;     /* of the last completion … */
    unsigned in_tick; /* … and how many there were in it */
    unsigned in_tick_most;
    sem_t done;
} flood_t;

static void flood_start(flood_t *flood, bool bad)
{
    struct io_uring_sqe *sqe = zlink_reactor_sqe(flood->reactor);

    io_uring_prep_rw(bad ? OPCODE_OF_NOTHING : IORING_OP_NOP, sqe, -1, NULL, 0, 0);
    zlink_reactor_start(flood->reactor, sqe, &flood->slot, bad ? OPERATION_BAD : OPERATION_GOOD);
}

static void flood_complete(zlink_ring_slot_t *slot, unsigned operation, int32_t result, uint32_t flags)
{
    flood_t *flood = ZLINK_CONTAINER_OF(slot, flood_t, slot);
    const int64_t tick = zlink_counter_read(&zlink_counter_net_ticks);

    (void)flags;
    flood->in_tick = tick == flood->tick ? flood->in_tick + 1 : 1;
    flood->tick = tick;
    if (flood->in_tick > flood->in_tick_most)
        flood->in_tick_most = flood->in_tick;
    flood->completed++;
    flood->refused += operation == OPERATION_BAD;
    flood->wrong += result != (operation == OPERATION_BAD ? -EINVAL : 0);
    if (flood->endless && !atomic_load(&flood->stop))
        flood_start(flood, false);
    if (slot->in_flight > 0)
        return;
    zlink_reactor_slot_remove(flood->reactor, slot);
    sem_post(&flood->done);
}

static void flood_here(void *context)
{
    flood_t *flood = context;

    flood->slot.complete = flood_complete;
    assert(zlink_reactor_slot_add(flood->reactor, &flood->slot) == ZLINK_OK);
    for (unsigned i = 0; i < flood->wanted; i++)
        flood_start(flood, flood->bad_every != 0 && i % flood->bad_every == 0);
}

static void flood_run(flood_t *flood, zlink_reactor_t *reactor)
{
    flood->reactor = reactor;
    sem_init(&flood->done, 0, 0);
    zlink_reactor_call(reactor, flood_here, flood);
    fixture_wait(&flood->done);
    sem_destroy(&flood->done);
    assert_int_equal(flood->wrong, 0);
}

/* Counts the wake-ups and turns every second one into a failure. A wake-up is the one completion that says 8 bytes and
 * names no buffer. */
typedef struct bad_wakes {
    unsigned seen;
    _Atomic size_t failed;
} bad_wakes_t;

static void fail_every_second_wake(void *context, int32_t *result, uint32_t *flags)
{
    bad_wakes_t *wakes = context;

    if (*result != (int32_t)sizeof(uint64_t) || *flags != 0 || ++wakes->seen % 2 != 0)
        return;
    *result = wakes->seen % 4 == 0 ? -EINTR : -ECANCELED;
    atomic_fetch_add(&wakes->failed, 1);
}

/* H21: the read of the doorbell ends with an error, and the queue overflows beside it: it is armed again, and whoever
 * posts to the sleeping reactor is heard. */
static void test_h21_the_doorbell_is_heard_after_errors_and_overflow(void **state)
{
    bad_wakes_t wakes = {0};
    const zlink_net_fault_t fault = {.completion = fail_every_second_wake, .context = &wakes};
    const zlink_reactor_options_t options = {.entries = 4, .cq_entries = 8, .fault = &fault};
    zlink_reactor_t *reactor = fixture_reactor(&options);

    (void)state;
    for (int round = 0; round < 20 || atomic_load(&wakes.failed) < 20; round++) {
        flood_t flood = {.wanted = 200};

        assert_true(round < 100000);
        flood_run(&flood, reactor);
        assert_int_equal(flood.completed, flood.wanted);
        for (int i = 0; i < 20; i++)
            zlink_reactor_call(reactor, fixture_nothing, NULL);
    }
    zlink_reactor_destroy(reactor);
}

/* H25: more completions are ready at once than one turn takes: the rest stays, and no turn sleeps over it. */
static void test_h25_what_one_turn_leaves_is_handled_by_the_next(void **state)
{
    const zlink_reactor_options_t options = {.entries = 4096, .cq_entries = 8192};
    zlink_reactor_t *reactor = fixture_reactor(&options);
    flood_t flood = {.wanted = 3000};

    (void)state;
    flood_run(&flood, reactor);
    assert_int_equal(flood.completed, flood.wanted);
    assert_true(flood.in_tick_most > 20); /* they were ready together */
    zlink_reactor_destroy(reactor);
}

/* H29: without SUBMIT_ALL the kernel stops at each operation that it refuses and takes fewer than it was given: the
 * rest is carried over. With it, it goes on. Either way each operation completes once. */
static void test_h29_short_submissions_are_carried_over(void **state)
{
    static const uint32_t levels[] = {ZLINK_RING_PLAIN, ZLINK_RING_DEFERRED, ZLINK_RING_COOPERATIVE, 0};

    (void)state;
    for (size_t level = 0; level < sizeof(levels) / sizeof(levels[0]); level++) {
        const zlink_reactor_options_t options = {.entries = 32, .features_allowed = levels[level]};
        zlink_reactor_t *reactor = fixture_reactor(&options);
        flood_t flood = {.wanted = 3001, .bad_every = 3};

        flood_run(&flood, reactor);
        assert_int_equal(flood.completed, 3001);
        assert_int_equal(flood.refused, 1001);
        zlink_reactor_destroy(reactor);
    }
}

/* H40: completions that never end, because each one starts the next through a queue that is submitted while they are
 * being handled: a turn takes a bounded number of them, and mail is delivered in between. */
static void test_h40_endless_completions_do_not_keep_mail_out(void **state)
{
    const zlink_reactor_options_t options = {.entries = 4, .cq_entries = 2048};
    zlink_reactor_t *reactor = fixture_reactor(&options);
    flood_t flood = {.reactor = reactor, .wanted = 1500, .endless = true};

    (void)state;
    sem_init(&flood.done, 0, 0);
    zlink_reactor_call(reactor, flood_here, &flood);
    for (int i = 0; i < 100; i++)
        zlink_reactor_call(reactor, fixture_nothing, NULL);
    assert_int_equal(sem_trywait(&flood.done), -1);
    atomic_store(&flood.stop, true);
    fixture_wait(&flood.done);
    assert_int_equal(flood.wrong, 0);
    assert_true(flood.in_tick_most <= ZLINK_COMPLETION_BATCH_MAX);
    zlink_reactor_destroy(reactor);
    sem_destroy(&flood.done);
}

static void *flood_main(void *argument)
{
    flood_t *flood = argument;

    flood_run(flood, flood->reactor);
    return NULL;
}

/* H33: a ring of one issuer refuses every other thread with EEXIST, the one that made the reactor too. What others want
 * goes through the mailbox, so theirs completes at that level. */
static void test_h33_others_submit_through_the_mailbox(void **state)
{
    enum { THREADS = 4 };
    zlink_reactor_t *reactor = fixture_reactor(NULL);
    flood_t floods[THREADS];
    pthread_t threads[THREADS];

    (void)state;
    assert_true((zlink_reactor_features(reactor) & (ZLINK_RING_DEFERRED | ZLINK_RING_COOPERATIVE)) != 0);
    for (size_t i = 0; i < THREADS; i++) {
        floods[i] = (flood_t){.reactor = reactor, .wanted = 2000};
        assert_int_equal(pthread_create(&threads[i], NULL, flood_main, &floods[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(floods[i].completed, 2000);
    }
    zlink_reactor_destroy(reactor);
}

/* ---- a reactor that never sleeps, and one that does ---- */

typedef struct nested {
    zlink_mail_t mail;
    zlink_reactor_t *reactor;
    _Atomic bool stop;
    sem_t done;
} nested_t;

static void nested_deliver(zlink_mail_t *mail)
{
    nested_t *nested = ZLINK_CONTAINER_OF(mail, nested_t, mail);

    if (atomic_load(&nested->stop))
        sem_post(&nested->done);
    else
        zlink_reactor_post(nested->reactor, mail);
}

/* H24: with deferred completions and no flag that tells of them, looking at the queue shows nothing for ever, while
 * bytes are there. A reactor that is too busy to wait asks the kernel all the same. */
static void test_h24_a_busy_loop_asks_the_kernel_for_completions(void **state)
{
    const zlink_reactor_options_t options = {.features_allowed = ZLINK_RING_DEFERRED | ZLINK_RING_MULTISHOT_ACCEPT |
                                                                 ZLINK_RING_MULTISHOT_RECV};
    zlink_reactor_t *reactor = fixture_reactor(&options);
    nested_t nested = {.mail.deliver = nested_deliver, .reactor = reactor};
    party_t accepted;
    party_t dialled;
    server_t server = {0};
    client_t client = {0};

    (void)state;
    sem_init(&nested.done, 0, 0);
    party_init(&accepted, 0);
    party_init(&dialled, 64);
    accepted.echo = true;
    zlink_reactor_post(reactor, &nested.mail); /* from here on there is always mail */
    server_open(&server, reactor, &accepted, 1);
    client_open(&client, reactor, server.address, &dialled);
    fixture_wait(&dialled.opened);
    assert_int_equal(party_write(reactor, &dialled, "echo", 4, true), ZLINK_OK);
    fixture_wait_for(&dialled.received, 4);
    atomic_store(&nested.stop, true);
    fixture_wait(&nested.done);
    zlink_reactor_destroy(reactor);
    party_release(&accepted);
    party_release(&dialled);
    sem_destroy(&nested.done);
}

static void thread_id_here(void *context)
{
    *(pid_t *)context = (pid_t)syscall(SYS_gettid);
}

/* 'S' where that thread of ours sleeps. */
static char thread_state(pid_t thread)
{
    char path[64];
    char line[512];
    const char *behind;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)thread);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    fclose(file);
    behind = strrchr(line, ')');
    assert_non_null(behind);
    return behind[2];
}

/* H38: the statistics of some kernels show an idle ring as a busy disk. It is a display only: the thread sleeps, over
 * as many looks as one likes, and the loop does not turn. */
static void test_h38_an_idle_reactor_sleeps(void **state)
{
    zlink_reactor_t *reactor = fixture_reactor(NULL);
    const time_t until = time(NULL) + FIXTURE_PATIENCE_S;
    const struct timespec pause = {.tv_nsec = 500000};
    int64_t ticks = -1;
    unsigned looks = 0;
    pid_t thread = 0;

    (void)state;
    zlink_reactor_call(reactor, thread_id_here, &thread);
    while (looks < 40) {
        const int64_t now = zlink_counter_read(&zlink_counter_net_ticks);

        looks = now == ticks && thread_state(thread) == 'S' ? looks + 1 : 0;
        ticks = now;
        assert_true(time(NULL) < until);
        nanosleep(&pause, NULL);
    }
    zlink_reactor_destroy(reactor);
}

/* ---- after the end ---- */

static sem_t lookups_begun;
static sem_t lookups_go_on;

/* Every look-up of a name in this program: it takes as long as the test likes. */
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **result)
{
    (void)node;
    (void)service;
    (void)hints;
    *result = NULL;
    sem_post(&lookups_begun);
    fixture_wait(&lookups_go_on);
    return EAI_NONAME;
}

static size_t count_entries(const char *path)
{
    DIR *directory = opendir(path);
    size_t count = 0;

    assert_non_null(directory);
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

/* Until this process has no more threads than that. */
static void wait_for_threads(size_t wanted)
{
    const time_t until = time(NULL) + FIXTURE_PATIENCE_S;
    const struct timespec pause = {.tv_nsec = 500000};

    while (count_entries("/proc/self/task") > wanted) {
        assert_true(time(NULL) < until);
        nanosleep(&pause, NULL);
    }
}

/* H23: look-ups that outlive the reactor end after it: none of them rings its doorbell, whose descriptor has become
 * somebody else's. */
static void test_h23_nobody_wakes_a_reactor_that_is_gone(void **state)
{
    enum { LOOKUPS = 3, DOORBELLS = 32 };
    const size_t threads = count_entries("/proc/self/task");
    zlink_reactor_t *reactor = fixture_reactor(NULL);
    party_t parties[LOOKUPS];
    client_t clients[LOOKUPS] = {0};
    int doorbells[DOORBELLS];

    (void)state;
    zlink_log_set_level(ZLINK_LOG_OFF);
    sem_init(&lookups_begun, 0, 0);
    sem_init(&lookups_go_on, 0, 0);
    for (size_t i = 0; i < LOOKUPS; i++) {
        party_init(&parties[i], 0);
        client_open(&clients[i], reactor, "a-name-that-nobody-has.test:1", &parties[i]);
        fixture_wait(&lookups_begun);
    }
    zlink_reactor_destroy(reactor);
    for (size_t i = 0; i < DOORBELLS; i++) { /* the lowest free descriptors: the reactor's among them */
        doorbells[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        assert_true(doorbells[i] >= 0);
    }
    for (size_t i = 0; i < LOOKUPS; i++)
        sem_post(&lookups_go_on);
    wait_for_threads(threads);
    for (size_t i = 0; i < DOORBELLS; i++) {
        uint64_t value;

        assert_int_equal(read(doorbells[i], &value, sizeof(value)), -1);
        assert_int_equal(errno, EAGAIN);
        close(doorbells[i]);
    }
    for (size_t i = 0; i < LOOKUPS; i++)
        party_release(&parties[i]);
    sem_destroy(&lookups_begun);
    sem_destroy(&lookups_go_on);
    zlink_log_set_level(ZLINK_LOG_INFO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_h21_the_doorbell_is_heard_after_errors_and_overflow),
        cmocka_unit_test(test_h25_what_one_turn_leaves_is_handled_by_the_next),
        cmocka_unit_test(test_h29_short_submissions_are_carried_over),
        cmocka_unit_test(test_h40_endless_completions_do_not_keep_mail_out),
        cmocka_unit_test(test_h33_others_submit_through_the_mailbox),
        cmocka_unit_test(test_h24_a_busy_loop_asks_the_kernel_for_completions),
        cmocka_unit_test(test_h38_an_idle_reactor_sleeps),
        cmocka_unit_test(test_h23_nobody_wakes_a_reactor_that_is_gone),
    };

    return zlink_test_main(tests);
}
