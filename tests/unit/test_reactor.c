/* The reactor's loop: mail, timers, full queues, signals, every feature level. */
#include <signal.h>

#include "net_fixture.h"

#include "base/container_of.h"
#include "base/counters.h"
#include "base/domain.h"
#include "base/memory.h"
#include "net/reactor_loop.h"
#include "net/slot_table.h"

/* The levels that every loop test runs at. */
static const uint32_t levels[] = {
    0, ZLINK_RING_COOPERATIVE | ZLINK_RING_TASKRUN_FLAG | ZLINK_RING_MULTISHOT_RECV | ZLINK_RING_MULTISHOT_ACCEPT,
    ZLINK_RING_PLAIN,
    ZLINK_RING_DEFERRED | ZLINK_RING_MULTISHOT_ACCEPT, /* without the task-run flag, and one receive at a time */
};

#define LEVELS (sizeof(levels) / sizeof(levels[0]))

/* ---- mail ---- */

typedef struct letter {
    zlink_mail_t mail;
    unsigned sender;
    unsigned number;
} letter_t;

static void look_at_domain(void *context)
{
    *(zlink_domain_t *)context = zlink_domain_current();
}

/* IC-10: whatever runs on the reactor is in the infrastructure domain. */
static void test_ic10_the_loop_is_infrastructure(void **state)
{
    zlink_reactor_t *reactor = NULL;
    zlink_refusal_t why = {{0}};
    zlink_domain_t domain = ZLINK_DOMAIN_NONE;

    (void)state;
    assert_int_equal(zlink_reactor_create(NULL, &reactor, &why), ZLINK_OK);
    zlink_reactor_call(reactor, look_at_domain, &domain);
    assert_int_equal(domain, ZLINK_DOMAIN_INFRASTRUCTURE);
    assert_int_equal(zlink_domain_current(), ZLINK_DOMAIN_NONE);
    zlink_reactor_destroy(reactor);
}

enum { SENDERS = 4, LETTERS = 20000 };

static unsigned storm_expected[SENDERS];
static _Atomic size_t storm_delivered;
static _Atomic size_t storm_wrong;

static void storm_deliver(zlink_mail_t *mail)
{
    letter_t *letter = ZLINK_CONTAINER_OF(mail, letter_t, mail);

    if (letter->number != storm_expected[letter->sender]++)
        atomic_fetch_add(&storm_wrong, 1);
    atomic_fetch_add(&storm_delivered, 1);
}

typedef struct sender {
    zlink_reactor_t *reactor;
    unsigned number;
    letter_t *letters;
} sender_t;

static void *storm_main(void *argument)
{
    sender_t *sender = argument;

    for (unsigned i = 0; i < LETTERS; i++) {
        sender->letters[i] = (letter_t){.mail.deliver = storm_deliver, .sender = sender->number, .number = i};
        zlink_reactor_post(sender->reactor, &sender->letters[i].mail);
        if (i % 16 == 0)
            sched_yield(); /* so that the reactor goes to sleep in between */
    }
    return NULL;
}

/* H22 H24 H25: no wake-up is lost at any feature level, and each sender's order is kept. */
static void test_h22_mail_storm_at_every_level(void **state)
{
    (void)state;
    for (size_t level = 0; level < LEVELS; level++) {
        const zlink_reactor_options_t options = {.features_allowed = levels[level]};
        zlink_reactor_t *reactor = fixture_reactor(&options);
        sender_t senders[SENDERS];
        pthread_t threads[SENDERS];

        memset(storm_expected, 0, sizeof(storm_expected));
        atomic_store(&storm_delivered, 0);
        for (unsigned i = 0; i < SENDERS; i++) {
            senders[i] = (sender_t){reactor, i, calloc(LETTERS, sizeof(letter_t))};
            assert_int_equal(pthread_create(&threads[i], NULL, storm_main, &senders[i]), 0);
        }
        fixture_wait_for(&storm_delivered, (size_t)SENDERS * LETTERS);
        for (unsigned i = 0; i < SENDERS; i++)
            pthread_join(threads[i], NULL);
        zlink_reactor_destroy(reactor);
        for (unsigned i = 0; i < SENDERS; i++)
            free(senders[i].letters);
        assert_int_equal(atomic_load(&storm_wrong), 0);
    }
}

/* One letter at a time to a sleeping reactor: each wakes it. */
static void test_h22_ping_pong_always_wakes(void **state)
{
    zlink_reactor_t *reactor = fixture_reactor(NULL);

    (void)state;
    for (int i = 0; i < 5000; i++)
        zlink_reactor_call(reactor, fixture_nothing, NULL);
    zlink_reactor_destroy(reactor);
}

typedef struct nested {
    zlink_mail_t mail;
    zlink_reactor_t *reactor;
    unsigned left;
    sem_t done;
} nested_t;

static void nested_deliver(zlink_mail_t *mail)
{
    nested_t *nested = ZLINK_CONTAINER_OF(mail, nested_t, mail);

    assert(zlink_reactor_is_current(nested->reactor));
    if (nested->left-- == 0)
        sem_post(&nested->done);
    else
        zlink_reactor_post(nested->reactor, mail);
}

/* Mail that the reactor posts to itself is delivered in a later tick, without a sleep in between. */
static void test_reactor_posts_to_itself(void **state)
{
    nested_t nested = {.mail.deliver = nested_deliver, .left = 1000};

    (void)state;
    nested.reactor = fixture_reactor(NULL);
    assert_false(zlink_reactor_is_current(nested.reactor));
    sem_init(&nested.done, 0, 0);
    zlink_reactor_post(nested.reactor, &nested.mail);
    fixture_wait(&nested.done);
    zlink_reactor_destroy(nested.reactor);
    sem_destroy(&nested.done);
}

/* ---- timers ---- */

typedef struct alarm_clock {
    zlink_timer_t timer;
    zlink_reactor_t *reactor;
    uint64_t start_ms;
    uint64_t fired_ms;
    uint64_t delay_ms;
    sem_t fired;
} alarm_clock_t;

static void alarm_fire(zlink_timer_t *timer)
{
    alarm_clock_t *alarm = ZLINK_CONTAINER_OF(timer, alarm_clock_t, timer);

    alarm->fired_ms = zlink_reactor_now_ms(alarm->reactor);
    sem_post(&alarm->fired);
}

static void alarm_start_here(void *context)
{
    alarm_clock_t *alarm = context;

    alarm->timer.fire = alarm_fire;
    alarm->start_ms = zlink_reactor_now_ms(alarm->reactor);
    zlink_reactor_timer_start(alarm->reactor, &alarm->timer, alarm->start_ms + alarm->delay_ms);
}

static void alarm_cancel_here(void *context)
{
    alarm_clock_t *alarm = context;

    zlink_reactor_timer_cancel(alarm->reactor, &alarm->timer);
}

/* H26: waits that end by their time, with and without fresh submissions, at every level; timers are never early. */
static void test_h26_timers_fire_at_every_level(void **state)
{
    (void)state;
    for (size_t level = 0; level < LEVELS; level++) {
        const zlink_reactor_options_t options = {.features_allowed = levels[level]};
        alarm_clock_t alarm = {.delay_ms = 5};

        alarm.reactor = fixture_reactor(&options);
        sem_init(&alarm.fired, 0, 0);
        for (int i = 0; i < 5; i++) {
            zlink_reactor_call(alarm.reactor, alarm_start_here, &alarm);
            fixture_wait(&alarm.fired);
            assert_true(alarm.fired_ms >= alarm.start_ms + 5);
        }
        alarm.delay_ms = 3600000;
        zlink_reactor_call(alarm.reactor, alarm_start_here, &alarm);
        zlink_reactor_call(alarm.reactor, alarm_cancel_here, &alarm);
        zlink_reactor_destroy(alarm.reactor);
        sem_destroy(&alarm.fired);
    }
}

/* On a virtual clock a timer fires in exactly the tick whose time has reached it. */
static void test_reactor_timer_on_a_virtual_clock(void **state)
{
    virtual_clock_t clock;
    zlink_reactor_options_t options = {0};
    alarm_clock_t alarm = {.delay_ms = 600000};

    (void)state;
    virtual_clock_init(&clock);
    options.clock = &clock.clock;
    alarm.reactor = fixture_reactor(&options);
    sem_init(&alarm.fired, 0, 0);
    zlink_reactor_call(alarm.reactor, alarm_start_here, &alarm);
    virtual_clock_advance(&clock, alarm.reactor, 599999);
    assert_int_equal(sem_trywait(&alarm.fired), -1);
    virtual_clock_advance(&clock, alarm.reactor, 1);
    assert_int_equal(sem_trywait(&alarm.fired), 0);
    assert_int_equal(alarm.fired_ms, alarm.start_ms + 600000);
    zlink_reactor_destroy(alarm.reactor);
    sem_destroy(&alarm.fired);
}

/* ---- the queues ---- */

typedef struct flood {
    zlink_reactor_t *reactor;
    zlink_ring_slot_t slot;
    zlink_resident_t resident;
    unsigned wanted;
    unsigned completed;
    unsigned out_of_order;
    sem_t done;
} flood_t;

static void flood_complete(zlink_ring_slot_t *slot, unsigned operation, int32_t result, uint32_t flags)
{
    flood_t *flood = ZLINK_CONTAINER_OF(slot, flood_t, slot);

    (void)flags;
    assert(operation == 7 && result == 0);
    if (++flood->completed < flood->wanted)
        return;
    assert(slot->in_flight == 0);
    zlink_reactor_slot_remove(flood->reactor, slot);
    sem_post(&flood->done);
}

static void flood_here(void *context)
{
    flood_t *flood = context;

    flood->slot.complete = flood_complete;
    assert(zlink_reactor_slot_add(flood->reactor, &flood->slot) == ZLINK_OK);
    for (unsigned i = 0; i < flood->wanted; i++) {
        struct io_uring_sqe *sqe = zlink_reactor_sqe(flood->reactor);

        io_uring_prep_rw(IORING_OP_NOP, sqe, -1, NULL, 0, 0);
        zlink_reactor_start(flood->reactor, sqe, &flood->slot, 7);
    }
}

/* H20 H28 H29 H40: one callback submits thousands of operations through a queue of 4 entries into one of 8 completions:
 * none is dropped, at any level. */
static void test_h20_h28_full_queues_drop_nothing(void **state)
{
    (void)state;
    for (size_t level = 0; level < LEVELS; level++) {
        const zlink_reactor_options_t options = {.entries = 4,
                                                 .cq_entries = 8,
                                                 .features_allowed =
                                                     levels[level] == 0 ? 0 : levels[level] | ZLINK_RING_CQ_SIZE};
        flood_t flood = {.wanted = 5000};

        flood.reactor = fixture_reactor(&options);
        sem_init(&flood.done, 0, 0);
        zlink_reactor_call(flood.reactor, flood_here, &flood);
        fixture_wait(&flood.done);
        assert_int_equal(flood.completed, flood.wanted);
        zlink_reactor_destroy(flood.reactor);
        sem_destroy(&flood.done);
    }
}

/* H9 H12: a completion of a slot that is gone finds nobody, also when the index was given out again. */
static void test_h9_h12_stale_generation_finds_nobody(void **state)
{
    enum { SLOTS = 200 };
    zlink_slot_table_t table = {0};
    zlink_ring_slot_t slots[SLOTS] = {0};
    zlink_ring_slot_t again = {0};

    (void)state;
    for (size_t i = 0; i < SLOTS; i++)
        assert_int_equal(zlink_slot_table_add(&table, &slots[i]), ZLINK_OK);
    for (size_t i = 0; i < SLOTS; i++) {
        const uint32_t index = slots[i].index;
        const uint32_t generation = slots[i].generation;

        assert_ptr_equal(zlink_slot_table_find(&table, index, generation), &slots[i]);
        zlink_slot_table_remove(&table, &slots[i]);
        assert_null(zlink_slot_table_find(&table, index, generation));
        assert_int_equal(zlink_slot_table_add(&table, &again), ZLINK_OK);
        assert_int_equal(again.index, index);
        assert_null(zlink_slot_table_find(&table, index, generation));
        assert_ptr_equal(zlink_slot_table_find(&table, index, again.generation), &again);
        zlink_slot_table_remove(&table, &again);
    }
    assert_null(zlink_slot_table_find(&table, 5000, 1));
    zlink_slot_table_release(&table);
}

/* ---- signals ---- */

static void on_signal(int number)
{
    (void)number;
}

static pthread_t reactor_thread;

static void reactor_thread_here(void *context)
{
    (void)context;
    reactor_thread = pthread_self();
}

static _Atomic bool signals_stop;

static void *signals_main(void *argument)
{
    (void)argument;
    while (!atomic_load(&signals_stop)) {
        pthread_kill(reactor_thread, SIGUSR1);
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
    return NULL;
}

/* H27: interrupted waits are nothing: timers and mail go on while signals rain on the reactor's thread. */
static void test_h27_signal_storm(void **state)
{
    const struct sigaction action = {.sa_handler = on_signal};
    alarm_clock_t alarm = {.delay_ms = 3};
    pthread_t thread;

    (void)state;
    sigaction(SIGUSR1, &action, NULL);
    alarm.reactor = fixture_reactor(NULL);
    sem_init(&alarm.fired, 0, 0);
    zlink_reactor_call(alarm.reactor, reactor_thread_here, NULL);
    assert_int_equal(pthread_create(&thread, NULL, signals_main, NULL), 0);
    for (int i = 0; i < 50; i++) {
        zlink_reactor_call(alarm.reactor, alarm_start_here, &alarm);
        fixture_wait(&alarm.fired);
        assert_true(alarm.fired_ms >= alarm.start_ms + 3);
    }
    atomic_store(&signals_stop, true);
    pthread_join(thread, NULL);
    zlink_reactor_destroy(alarm.reactor);
    sem_destroy(&alarm.fired);
}

/* ---- traffic at every level ---- */

/* H1 H4: an echo over TCP works at every level, one receive at a time included. */
static void test_h4_echo_at_every_level(void **state)
{
    enum { SIZE = 200000 };
    uint8_t *bytes = pattern_make(6, SIZE);

    (void)state;
    for (size_t level = 0; level < LEVELS; level++) {
        const zlink_reactor_options_t options = {
            .features_allowed = levels[level], .buffer_count = 8, .buffer_bytes = 1024};
        zlink_reactor_t *reactor = fixture_reactor(&options);
        party_t accepted;
        party_t dialled;
        server_t server = {0};
        client_t client = {0};

        party_init(&accepted, 0);
        party_init(&dialled, SIZE);
        accepted.echo = true;
        server_open(&server, reactor, &accepted, 1);
        client_open(&client, reactor, server.address, &dialled);
        fixture_wait(&dialled.opened);
        assert_int_equal(party_write(reactor, &dialled, bytes, SIZE, true), ZLINK_OK);
        fixture_wait_for(&dialled.received, SIZE);
        pattern_check(6, dialled.bytes, SIZE);
        zlink_reactor_destroy(reactor);
        fixture_wait(&dialled.closed);
        fixture_wait(&accepted.closed);
        party_release(&accepted);
        party_release(&dialled);
    }
    free(bytes);
}

/* H37: rings come and go. */
static void test_h37_restart_in_a_loop(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++)
        zlink_reactor_destroy(fixture_reactor(NULL));
}

/* Each allocation of the start fails once: refused with a line, nothing leaks. */
static void test_reactor_start_survives_failing_allocations(void **state)
{
    bool refused_once = false;

    (void)state;
    for (int64_t n = 0; n < 6; n++) {
        zlink_reactor_t *reactor = NULL;
        zlink_refusal_t why = {{0}};
        zlink_status_t status;

        zlink_memory_fail_after(n);
        status = zlink_reactor_create(NULL, &reactor, &why);
        zlink_memory_fail_after(-1);
        if (status == ZLINK_OK) {
            zlink_reactor_destroy(reactor);
            continue;
        }
        refused_once = true;
        assert_int_equal(status, ZLINK_CAPACITY_EXCEEDED);
        assert_true(why.line[0] != '\0');
    }
    assert_true(refused_once);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_h22_mail_storm_at_every_level),
        cmocka_unit_test(test_h22_ping_pong_always_wakes),
        cmocka_unit_test(test_reactor_posts_to_itself),
        cmocka_unit_test(test_ic10_the_loop_is_infrastructure),
        cmocka_unit_test(test_h26_timers_fire_at_every_level),
        cmocka_unit_test(test_reactor_timer_on_a_virtual_clock),
        cmocka_unit_test(test_h20_h28_full_queues_drop_nothing),
        cmocka_unit_test(test_h9_h12_stale_generation_finds_nobody),
        cmocka_unit_test(test_h27_signal_storm),
        cmocka_unit_test(test_h4_echo_at_every_level),
        cmocka_unit_test(test_h37_restart_in_a_loop),
        cmocka_unit_test(test_reactor_start_survives_failing_allocations),
    };

    return zlink_test_main(tests);
}
