#include "exec_fixture.h"

#include <pthread.h>

#include "base/container_of.h"
#include "exec/channel_serial_executor.h"

#define NOTES_MAX 64

typedef struct channel {
    zlink_channel_serial_executor_t executor;
    char notes[NOTES_MAX]; /* its own turns only, until it is closed */
    unsigned count;
    sem_t closed;
} channel_t;

typedef struct record {
    zlink_turn_t turn;
    channel_t *channel;
    char letter;
    zlink_wait_t wait;
    sem_t submitted;
    sem_t ended_once;
    zlink_status_t ended;
} record_t;

static record_t *record_of(zlink_turn_t *turn)
{
    return ZLINK_CONTAINER_OF(turn, record_t, turn);
}

static void note(channel_t *channel, char letter)
{
    zlink_check(zlink_channel_serial_executor_is_current(&channel->executor));
    zlink_check(channel->count < NOTES_MAX - 1);
    channel->notes[channel->count++] = letter;
}

static void ended(zlink_turn_t *turn, zlink_status_t status)
{
    record_t *record = record_of(turn);

    zlink_check(zlink_channel_serial_executor_is_current(&record->channel->executor));
    record->ended = status;
    sem_post(&record->ended_once);
}

static zlink_status_t short_handler(zlink_turn_t *turn)
{
    record_t *record = record_of(turn);

    zlink_check(turn->owner == &record->channel->executor.owner && turn->yield == ZLINK_YIELD_NOT_OFFERED);
    note(record->channel, record->letter);
    return ZLINK_OK;
}

/* Notes its letter, waits, notes it in upper case. */
static zlink_status_t waiting_handler(zlink_turn_t *turn)
{
    record_t *record = record_of(turn);

    note(record->channel, record->letter);
    zlink_check(zlink_turn_prepare_wait(turn, &record->wait, ZLINK_WAIT_ASYNC, NULL, NULL) == ZLINK_OK);
    sem_post(&record->submitted);
    zlink_status_t status = zlink_turn_wait(turn, &record->wait);
    note(record->channel, (char)(record->letter - 'a' + 'A'));
    return status;
}

static void make(record_t *record, channel_t *channel, char letter, zlink_status_t (*body)(zlink_turn_t *))
{
    memset(record, 0, sizeof(*record));
    zlink_turn_init(&record->turn, body, ended);
    record->channel = channel;
    record->letter = letter;
    sem_init(&record->submitted, 0, 0);
    sem_init(&record->ended_once, 0, 0);
}

static void channel_open(channel_t *channel, zlink_exec_fixture_t *fixture)
{
    memset(channel, 0, sizeof(*channel));
    sem_init(&channel->closed, 0, 0);
    assert_int_equal(zlink_channel_serial_executor_init(&channel->executor, fixture->pool, &fixture->policy), ZLINK_OK);
}

static void channel_closed(zlink_channel_serial_executor_t *executor)
{
    zlink_check(!zlink_channel_serial_executor_is_current(executor));
    sem_post(&ZLINK_CONTAINER_OF(executor, channel_t, executor)->closed);
}

static void channel_close(channel_t *channel)
{
    zlink_channel_serial_executor_close(&channel->executor, channel_closed);
    zlink_test_wait(&channel->closed);
}

/* EX-99: async holds the channel's gate: nothing behind it runs meanwhile, start and end callbacks included; another
 * channel on the same worker does. */
static void test_ex99_async_holds_the_gate_of_its_channel(void **state)
{
    zlink_exec_fixture_t fixture;
    channel_t channel;
    channel_t other;
    record_t waiting;
    record_t behind[3];
    record_t lifecycle;
    record_t probe;

    (void)state;
    zlink_exec_fixture_open(&fixture, 1, 0);
    channel_open(&channel, &fixture);
    channel_open(&other, &fixture);
    make(&waiting, &channel, 'w', waiting_handler);
    assert_int_equal(zlink_channel_serial_executor_execute_channel(&channel.executor, &waiting.turn, 7), ZLINK_OK);
    zlink_test_wait(&waiting.submitted);
    for (int i = 0; i < 3; i++) {
        make(&behind[i], &channel, (char)('1' + i), short_handler);
        assert_int_equal(zlink_channel_serial_executor_execute_channel(&channel.executor, &behind[i].turn, 0),
                         ZLINK_OK);
    }
    make(&lifecycle, &channel, 'l', short_handler);
    assert_int_equal(zlink_channel_serial_executor_execute_lifecycle(&channel.executor, &lifecycle.turn), ZLINK_OK);
    make(&probe, &other, 'p', short_handler);
    assert_int_equal(zlink_channel_serial_executor_execute_channel(&other.executor, &probe.turn, 0), ZLINK_OK);
    zlink_test_wait(&probe.ended_once);
    assert_string_equal(channel.notes, "w"); /* the worker was free for it all */
    zlink_wait_complete(&waiting.wait, ZLINK_UNAVAILABLE);
    channel_close(&channel);
    channel_close(&other);
    assert_string_equal(channel.notes, "wWl123");
    assert_int_equal(waiting.ended, ZLINK_UNAVAILABLE);
    assert_int_equal(behind[2].ended, ZLINK_OK);
    zlink_exec_fixture_close(&fixture);
}

/* ---- many ---- */

#define CHANNELS 3
#define RECORDS  600

typedef struct many_channel {
    zlink_channel_serial_executor_t executor;
    _Atomic int inside;
    unsigned next; /* plain: the gate keeps it right */
    sem_t closed;
} many_channel_t;

typedef struct many_record {
    zlink_turn_t turn;
    many_channel_t *channel;
    unsigned number;
    zlink_wait_t wait;
    struct many_record *next;
} many_record_t;

static many_channel_t many_channels[CHANNELS];
static many_record_t many_records[CHANNELS][RECORDS];
static _Atomic(many_record_t *) to_complete;
static _Atomic bool completer_stops;
static _Atomic unsigned many_have_ended;
static sem_t all_have_ended;

static void *complete_all(void *unused)
{
    (void)unused;
    while (!atomic_load(&completer_stops)) {
        many_record_t *record = atomic_exchange(&to_complete, NULL);
        if (!record)
            sched_yield();
        while (record) {
            many_record_t *next = record->next;
            zlink_wait_complete(&record->wait, ZLINK_OK);
            record = next;
        }
    }
    return NULL;
}

static zlink_status_t many_handler(zlink_turn_t *turn)
{
    many_record_t *record = ZLINK_CONTAINER_OF(turn, many_record_t, turn);
    many_channel_t *channel = record->channel;

    zlink_check(atomic_fetch_add(&channel->inside, 1) == 0);
    zlink_check(channel->next == record->number);
    for (unsigned i = 0; i < record->number % 3; i++) {
        zlink_check(zlink_turn_prepare_wait(turn, &record->wait, ZLINK_WAIT_ASYNC, NULL, NULL) == ZLINK_OK);
        record->next = atomic_load(&to_complete);
        while (!atomic_compare_exchange_weak(&to_complete, &record->next, record))
            ;
        zlink_check(zlink_turn_wait(turn, &record->wait) == ZLINK_OK);
        zlink_check(channel->next == record->number); /* nobody was here meanwhile */
    }
    channel->next++;
    zlink_check(atomic_fetch_sub(&channel->inside, 1) == 1);
    return ZLINK_OK;
}

static void many_ended(zlink_turn_t *turn, zlink_status_t status)
{
    (void)turn;
    zlink_check(status == ZLINK_OK);
    if (atomic_fetch_add(&many_have_ended, 1) + 1 == CHANNELS * RECORDS)
        sem_post(&all_have_ended);
}

static void many_closed(zlink_channel_serial_executor_t *executor)
{
    sem_post(&ZLINK_CONTAINER_OF(executor, many_channel_t, executor)->closed);
}

/* EX-99: on two workers, with handlers that wait in between, each channel's records run one at a time and in order. */
static void test_ex99_records_run_one_at_a_time_in_order(void **state)
{
    zlink_exec_fixture_t fixture;
    pthread_t completer;

    (void)state;
    zlink_exec_fixture_open(&fixture, 2, 0);
    sem_init(&all_have_ended, 0, 0);
    assert_int_equal(pthread_create(&completer, NULL, complete_all, NULL), 0);
    for (unsigned c = 0; c < CHANNELS; c++) {
        sem_init(&many_channels[c].closed, 0, 0);
        assert_int_equal(zlink_channel_serial_executor_init(&many_channels[c].executor, fixture.pool, &fixture.policy),
                         ZLINK_OK);
    }
    for (unsigned i = 0; i < RECORDS; i++) {
        for (unsigned c = 0; c < CHANNELS; c++) {
            many_record_t *record = &many_records[c][i];
            zlink_turn_init(&record->turn, many_handler, many_ended);
            record->channel = &many_channels[c];
            record->number = i;
            assert_int_equal(
                zlink_channel_serial_executor_execute_channel(&many_channels[c].executor, &record->turn, i), ZLINK_OK);
        }
    }
    zlink_test_wait(&all_have_ended); /* a closed channel's handlers may not begin to wait */
    for (unsigned c = 0; c < CHANNELS; c++) {
        zlink_channel_serial_executor_close(&many_channels[c].executor, many_closed);
        zlink_test_wait(&many_channels[c].closed);
    }
    for (unsigned c = 0; c < CHANNELS; c++)
        assert_int_equal(many_channels[c].next, RECORDS);
    atomic_store(&completer_stops, true);
    pthread_join(completer, NULL);
    zlink_exec_fixture_close(&fixture);
}

/* ---- the rest of its face ---- */

/* EX-94: a policy that is not valid is refused at construction; a valid one is copied. */
static void test_ex94_a_bad_policy_is_refused_at_construction(void **state)
{
    zlink_exec_fixture_t fixture;
    channel_t channel;
    record_t records[2];
    record_t gate;

    (void)state;
    zlink_exec_fixture_open(&fixture, 1, 0);
    memset(&channel, 0, sizeof(channel));
    sem_init(&channel.closed, 0, 0);
    zlink_execution_lane_policy_t policy = zlink_execution_lane_policy_default;
    policy.lifecycle_burst_limit = 0;
    assert_int_equal(zlink_channel_serial_executor_init(&channel.executor, fixture.pool, &policy),
                     ZLINK_INVALID_OPERATION);
    policy.lifecycle_burst_limit = 1;
    policy.fixed_work_byte_cost = 0;
    policy.application_message_capacity = 2;
    assert_int_equal(zlink_channel_serial_executor_init(&channel.executor, fixture.pool, &policy), ZLINK_OK);
    policy.application_message_capacity = 1000; /* the caller's own again */
    make(&gate, &channel, 'g', waiting_handler);
    assert_int_equal(zlink_channel_serial_executor_execute_channel(&channel.executor, &gate.turn, 0), ZLINK_OK);
    zlink_test_wait(&gate.submitted);
    for (int i = 0; i < 2; i++)
        make(&records[i], &channel, (char)('1' + i), short_handler);
    assert_int_equal(zlink_channel_serial_executor_execute_channel(&channel.executor, &records[0].turn, 0), ZLINK_OK);
    assert_int_equal(zlink_channel_serial_executor_execute_channel(&channel.executor, &records[1].turn, 0),
                     ZLINK_CAPACITY_EXCEEDED);
    zlink_wait_complete(&gate.wait, ZLINK_OK);
    channel_close(&channel);
    assert_int_not_equal(sem_trywait(&records[1].ended_once), 0); /* a refused turn is the caller's */
    assert_string_equal(channel.notes, "gG1");
    zlink_exec_fixture_close(&fixture);
}

static void must_not_be_called(zlink_channel_serial_executor_t *executor)
{
    (void)executor;
    zlink_check(false);
}

/* EX-92: after close ShuttingDown and no `ended`; what was accepted runs; the second close is harmless. */
static void test_ex92_close_refuses_and_finishes(void **state)
{
    zlink_exec_fixture_t fixture;
    channel_t channel;
    record_t waiting;
    record_t accepted;
    record_t refused;

    (void)state;
    zlink_exec_fixture_open(&fixture, 1, 0);
    channel_open(&channel, &fixture);
    make(&waiting, &channel, 'w', waiting_handler);
    make(&accepted, &channel, 'a', short_handler);
    make(&refused, &channel, 'r', short_handler);
    assert_int_equal(zlink_channel_serial_executor_execute_channel(&channel.executor, &waiting.turn, 0), ZLINK_OK);
    zlink_test_wait(&waiting.submitted);
    assert_int_equal(zlink_channel_serial_executor_execute_channel(&channel.executor, &accepted.turn, 0), ZLINK_OK);
    zlink_channel_serial_executor_close(&channel.executor, channel_closed);
    zlink_channel_serial_executor_close(&channel.executor, must_not_be_called);
    assert_int_equal(zlink_channel_serial_executor_execute_channel(&channel.executor, &refused.turn, 0),
                     ZLINK_SHUTTING_DOWN);
    assert_int_equal(zlink_channel_serial_executor_execute_lifecycle(&channel.executor, &refused.turn),
                     ZLINK_SHUTTING_DOWN);
    assert_int_not_equal(sem_trywait(&channel.closed), 0); /* a handler waits still */
    zlink_wait_complete(&waiting.wait, ZLINK_OK);
    zlink_test_wait(&channel.closed);
    assert_int_not_equal(sem_trywait(&refused.ended_once), 0);
    assert_string_equal(channel.notes, "wWa");
    zlink_exec_fixture_close(&fixture);
}

/* EX-92: without a callback too the pool can be destroyed after what was accepted has ended. */
static void test_ex92_close_without_callback(void **state)
{
    zlink_exec_fixture_t fixture;
    channel_t channel;
    record_t record;

    (void)state;
    zlink_exec_fixture_open(&fixture, 2, 0);
    channel_open(&channel, &fixture);
    make(&record, &channel, 'r', short_handler);
    assert_int_equal(zlink_channel_serial_executor_execute_channel(&channel.executor, &record.turn, 0), ZLINK_OK);
    zlink_channel_serial_executor_close(&channel.executor, NULL);
    zlink_test_wait(&record.ended_once);
    zlink_exec_fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex99_async_holds_the_gate_of_its_channel),
        cmocka_unit_test(test_ex99_records_run_one_at_a_time_in_order),
        cmocka_unit_test(test_ex94_a_bad_policy_is_refused_at_construction),
        cmocka_unit_test(test_ex92_close_refuses_and_finishes),
        cmocka_unit_test(test_ex92_close_without_callback),
    };

    return zlink_test_main(tests);
}
