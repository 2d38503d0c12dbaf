/*
 * Work off the turn as handlers see it (zlink/work.h): CPU work, and I/O work that the test completes.
 */
#include "host_fixture.h"

#include "server/application/work_host.h"

/* ---- one piece of work, as a script hands it over ---- */

typedef struct numbers {
    int32_t value;
    int32_t pad[64];
} numbers_t;

typedef struct order {
    struct piece *piece; /* what the test shares with the work; a real one would hold values only */
    numbers_t numbers;
} order_t;

typedef struct piece {
    how_t how;
    bool io;
    bool stands;     /* CPU: until let_go; I/O: until the test completes it */
    bool until_stop; /* CPU: until its token says so */
    uint32_t timeout_ms;
    zlink_status_t answers;
    zlink_status_t fails_with; /* what the handler returns after a `_then` call */

    sem_t began;
    sem_t let_go;
    _Atomic(zlink_io_completion_t *) completion;
    numbers_t *output; /* of I/O */
    const zlink_stop_token_t *stop;
    _Atomic bool stopped;
    _Atomic size_t runs, work_ends;

    zlink_status_t status;
    int32_t value;       /* the handler's output after the call */
    _Atomic size_t ends; /* how often the script learned of an end */
} piece_t;

static void piece_make(piece_t *piece, bool io, how_t how)
{
    memset((void *)piece, 0, sizeof(*piece));
    piece->io = io;
    piece->how = how;
    sem_init(&piece->began, 0, 0);
    sem_init(&piece->let_go, 0, 0);
}

static zlink_status_t compute(const order_t *input, numbers_t *output, const zlink_stop_token_t *stop)
{
    piece_t *piece = input->piece;

    zlink_check(output->value == 0 && !zlink_turn_current());
    atomic_fetch_add(&piece->runs, 1);
    sem_post(&piece->began);
    if (piece->stands)
        zlink_test_wait(&piece->let_go);
    while (piece->until_stop && !zlink_stop_token_is_requested(stop))
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    atomic_store(&piece->stopped, zlink_stop_token_is_requested(stop));
    /* The whole of both, so that memory that is gone would show. */
    *output = input->numbers;
    output->value++;
    zlink_status_t answers = piece->answers;
    atomic_fetch_add(&piece->work_ends, 1); /* the piece may be gone */
    return answers;
}

static zlink_status_t begin(const order_t *input, numbers_t *output, const zlink_stop_token_t *stop,
                            zlink_io_completion_t *completion)
{
    piece_t *piece = input->piece;

    zlink_check(output->value == 0);
    if (piece->answers == ZLINK_REJECTED)
        return ZLINK_REJECTED;
    *output = input->numbers;
    output->value++;
    atomic_fetch_add(&piece->runs, 1);
    if (!piece->stands) {
        zlink_io_work_complete(completion, piece->answers);
        return ZLINK_OK;
    }
    piece->output = output;
    piece->stop = stop;
    atomic_store(&piece->completion, completion);
    sem_post(&piece->began);
    return ZLINK_OK;
}

/* The end of the work, whichever it is. */
static void piece_end(piece_t *piece)
{
    if (!piece->io) {
        sem_post(&piece->let_go);
        return;
    }
    atomic_store(&piece->stopped, zlink_stop_token_is_requested(piece->stop));
    piece->output->pad[63] = 1; /* still there */
    atomic_fetch_add(&piece->work_ends, 1);
    zlink_io_work_complete(atomic_load(&piece->completion), piece->answers);
}

typedef struct going {
    piece_t *piece;
    RunRes *reply;
    numbers_t output;
} going_t;

static zlink_status_t piece_after(going_t *going, zlink_status_t status)
{
    going->piece->status = status;
    going->piece->value = going->output.value;
    if (going->reply)
        going->reply->value = going->output.value;
    atomic_fetch_add(&going->piece->ends, 1);
    return status;
}

static zlink_status_t piece_then(zlink_turn_t *turn, void *self, zlink_status_t status, void *context)
{
    zlink_check(zlink_turn_current() == turn && self == zlink_invocation_of(turn)->self);
    return piece_after(context, status);
}

static zlink_status_t hand_over(zlink_turn_t *turn, const order_t *order, going_t *going)
{
    const piece_t *piece = order->piece;
    const zlink_cpu_work_t cpu =
        ZLINK_CPU_WORK_WITHIN(order_t, numbers_t, compute, order, &going->output, piece->timeout_ms);
    const zlink_io_work_t io =
        ZLINK_IO_WORK_WITHIN(order_t, numbers_t, begin, order, &going->output, piece->timeout_ms);

    switch (piece->how) {
    case BY_ASYNC:
        return piece->io ? zlink_io_work_async(turn, io) : zlink_cpu_work_async(turn, cpu);
    case BY_YIELD:
        return piece->io ? zlink_io_work_yield(turn, io) : zlink_cpu_work_yield(turn, cpu);
    case BY_ASYNC_THEN:
        return piece->io ? zlink_io_work_async_then(turn, io, piece_then, going)
                         : zlink_cpu_work_async_then(turn, cpu, piece_then, going);
    default:
        return piece->io ? zlink_io_work_yield_then(turn, io, piece_then, going)
                         : zlink_cpu_work_yield_then(turn, cpu, piece_then, going);
    }
}

/* The script: adds one to 41, off the turn. */
static zlink_status_t script_work(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    piece_t *piece = context;
    order_t order = {.piece = piece, .numbers = {.value = 41}};
    going_t *going = zlink_turn_alloc(turn, sizeof(*going));
    bool then = piece->how == BY_ASYNC_THEN || piece->how == BY_YIELD_THEN;

    (void)self;
    if (!going)
        return ZLINK_CAPACITY_EXCEEDED;
    going->piece = piece;
    going->reply = reply;
    going->output.value = -1;
    zlink_status_t status = hand_over(turn, &order, going);
    memset((void *)&order, 0xa5, sizeof(order)); /* the work has its own copy */
    if (then && status == ZLINK_OK)
        return piece->fails_with;
    return piece_after(going, status);
}

static const how_t hows[] = {BY_ASYNC, BY_YIELD, BY_ASYNC_THEN, BY_YIELD_THEN};

#define EACH_KIND(IO) for (int IO = 0; IO < 2; IO++)
#define EACH_HOW(I)   for (size_t I = 0; I < 4; I++)

static bool yields(how_t how)
{
    return how == BY_YIELD || how == BY_YIELD_THEN;
}

/* ---- results ---- */

static void test_the_result_comes_back(void **state)
{
    static const zlink_status_t answers[] = {ZLINK_OK, ZLINK_DATA_LOST, (zlink_status_t)77};
    static const zlink_status_t ends[] = {ZLINK_OK, ZLINK_DATA_LOST, ZLINK_INTERNAL_FAILURE};
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 2);
    EACH_KIND(io) EACH_HOW(i)
    {
        for (size_t a = 0; a < 3; a++) {
            piece_t piece;
            int32_t value = 0;
            piece_make(&piece, io, hows[i]);
            piece.answers = answers[a];
            assert_int_equal(host_ask(&fixture, "plain", "a", script_work, &piece, &value), ends[a]);
            assert_int_equal(piece.status, ends[a]);
            assert_int_equal(piece.value, a == 0 ? 42 : -1); /* a failure leaves the handler's output alone */
            assert_int_equal(value, a == 0 ? 42 : 0);
            assert_int_equal(atomic_load(&piece.ends), 1);
            assert_int_equal(atomic_load(&piece.runs), 1);
        }
    }
    host_stop(&fixture);
}

static zlink_status_t nothing(const void *input, void *output, const zlink_stop_token_t *stop)
{
    (void)input, (void)output;
    return zlink_stop_token_is_requested(stop) ? ZLINK_UNAVAILABLE : ZLINK_OK;
}

static zlink_status_t script_bare(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    (void)self, (void)context, (void)reply;
    return zlink_cpu_work_yield(turn, (zlink_cpu_work_t){.function = nothing});
}

static void test_neither_input_nor_output(void **state)
{
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 1);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_bare, NULL, NULL), ZLINK_OK);
    host_stop(&fixture);
}

/* ---- who runs meanwhile ---- */

/* EX-33: while a handler waits with yield for CPU or I/O work, requests to its Spot complete; with async they wait. */
static void test_ex33_yield_lets_run_and_async_holds(void **state)
{
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 1);
    EACH_KIND(io) EACH_HOW(i)
    {
        piece_t piece;
        outside_t waiting, probe;
        piece_make(&piece, io, hows[i]);
        piece.stands = true;
        assert_int_equal(outside_submit(&fixture, &waiting, "plain", "a", script_work, &piece), ZLINK_OK);
        zlink_test_wait(&piece.began);
        assert_int_equal(outside_submit(&fixture, &probe, "plain", "a", script_count, NULL), ZLINK_OK);
        /* Another Spot's turns run on the one worker in any case. */
        assert_int_equal(host_ask(&fixture, "plain", "b", script_count, NULL, NULL), ZLINK_OK);
        if (yields(hows[i])) {
            assert_int_equal(outside_wait(&probe), ZLINK_OK);
            assert_int_equal(atomic_load(&waiting.completions), 0);
        } else {
            assert_int_equal(atomic_load(&probe.completions), 0);
        }
        piece_end(&piece);
        assert_int_equal(outside_wait(&waiting), ZLINK_OK);
        if (!yields(hows[i]))
            assert_int_equal(outside_wait(&probe), ZLINK_OK);
        assert_int_equal(waiting.reply.value, 42);
    }
    host_stop(&fixture);
}

/* ---- room ---- */

/* EX-35: a batch of CPU work that is larger than threads and queue: what is over it ends with CapacityExceeded, the
 * rest with its result. EX-34: I/O work meanwhile is held by nothing. */
static void test_ex34_ex35_a_batch_over_the_limit(void **state)
{
    enum { THREADS = 2, QUEUE = 3, BATCH = 12, IO = 4 * THREADS };
    host_fixture_t fixture;
    static piece_t pieces[BATCH], io[IO];
    static outside_t calls[BATCH], io_calls[IO];
    size_t refused = 0;

    (void)state;
    host_init(&fixture, 1);
    fixture.options.work.cpu_workers_max = THREADS;
    fixture.options.work.cpu_works_max = QUEUE;
    host_start(&fixture);
    for (size_t i = 0; i < BATCH; i++) {
        piece_make(&pieces[i], false, hows[1 + 2 * (i % 2)]);
        pieces[i].stands = true;
        assert_int_equal(outside_submit(&fixture, &calls[i], "plain", "a", script_work, &pieces[i]), ZLINK_OK);
    }
    for (size_t i = 0; i < IO; i++) {
        piece_make(&io[i], true, BY_YIELD);
        io[i].stands = true;
        assert_int_equal(outside_submit(&fixture, &io_calls[i], "plain", "b", script_work, &io[i]), ZLINK_OK);
        zlink_test_wait(&io[i].began);
    }
    for (size_t i = 0; i < IO; i++) {
        piece_end(&io[i]);
        assert_int_equal(outside_wait(&io_calls[i]), ZLINK_OK);
    }
    for (size_t i = 0; i < BATCH; i++)
        sem_post(&pieces[i].let_go);
    for (size_t i = 0; i < BATCH; i++) {
        zlink_status_t status = outside_wait(&calls[i]);
        assert_true(status == (i < THREADS + QUEUE ? ZLINK_OK : ZLINK_CAPACITY_EXCEEDED));
        refused += status == ZLINK_CAPACITY_EXCEEDED;
        assert_int_equal(atomic_load(&pieces[i].runs), status == ZLINK_OK);
    }
    assert_int_equal(refused, BATCH - THREADS - QUEUE);
    host_stop(&fixture);
}

static void test_io_works_are_bounded(void **state)
{
    host_fixture_t fixture;
    piece_t first, second;
    outside_t call;

    (void)state;
    host_init(&fixture, 1);
    fixture.options.work.io_works_max = 1;
    host_start(&fixture);
    piece_make(&first, true, BY_YIELD);
    piece_make(&second, true, BY_YIELD);
    first.stands = true;
    assert_int_equal(outside_submit(&fixture, &call, "plain", "a", script_work, &first), ZLINK_OK);
    zlink_test_wait(&first.began);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_work, &second, NULL), ZLINK_CAPACITY_EXCEEDED);
    assert_int_equal(atomic_load(&second.runs), 0);
    piece_end(&first);
    assert_int_equal(outside_wait(&call), ZLINK_OK);
    /* The place is free a moment after the handler went on. */
    while (zlink_io_works_pending(&fixture.host->work->io_works) != 0)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_work, &second, NULL), ZLINK_OK);
    host_stop(&fixture);
}

/* ---- what is not allowed ---- */

static zlink_turn_t *turn_of_somebody;

static zlink_status_t misuse(const void *input, void *output, const zlink_stop_token_t *stop)
{
    (void)input, (void)output, (void)stop;
    zlink_check(zlink_cpu_work_async(turn_of_somebody, (zlink_cpu_work_t){.function = nothing}) ==
                ZLINK_INVALID_OPERATION);
    zlink_check(!zlink_turn_alloc(turn_of_somebody, 1));
    return ZLINK_OK;
}

static zlink_status_t script_wrong(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    static char big[8];
    const zlink_cpu_work_t cpu[] = {
        {.function = NULL},
        {.function = nothing, .input = big, .input_bytes = ZLINK_WORK_BYTES_MAX + 1},
        {.function = nothing, .output = big, .output_bytes = ZLINK_WORK_BYTES_MAX + 1},
        {.function = nothing, .input_bytes = 1},
        {.function = nothing, .output_bytes = 1},
        {.function = nothing, .timeout_ms = (uint32_t)INT32_MAX + 1},
    };

    (void)self, (void)context, (void)reply;
    for (size_t i = 0; i < sizeof(cpu) / sizeof(cpu[0]); i++)
        zlink_check(zlink_cpu_work_async(turn, cpu[i]) == ZLINK_INVALID_OPERATION);
    zlink_check(zlink_io_work_async(turn, (zlink_io_work_t){.start = NULL}) == ZLINK_INVALID_OPERATION);
    zlink_check(zlink_cpu_work_async_then(turn, (zlink_cpu_work_t){.function = nothing}, NULL, NULL) ==
                ZLINK_INVALID_OPERATION);
    zlink_check(zlink_cpu_work_yield_then(turn, (zlink_cpu_work_t){.function = nothing}, NULL, NULL) ==
                ZLINK_INVALID_OPERATION);
    turn_of_somebody = turn;
    return zlink_cpu_work_async(turn, (zlink_cpu_work_t){.function = misuse});
}

/* EX-23: yield is not offered in a channel: InvalidOperation, and the work is not begun; async is. */
static void test_ex23_no_yield_in_a_channel(void **state)
{
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 1);
    EACH_KIND(io) EACH_HOW(i)
    {
        piece_t piece;
        piece_make(&piece, io, hows[i]);
        zlink_status_t status = host_ask(&fixture, "side", NULL, script_work, &piece, NULL);
        assert_int_equal(status, yields(hows[i]) ? ZLINK_INVALID_OPERATION : ZLINK_OK);
        assert_int_equal(atomic_load(&piece.runs), yields(hows[i]) ? 0 : 1);
    }
    assert_int_equal(host_ask(&fixture, "plain", "a", script_wrong, NULL, NULL), ZLINK_OK);
    assert_int_equal(zlink_cpu_work_async(NULL, (zlink_cpu_work_t){.function = nothing}), ZLINK_INVALID_OPERATION);
    assert_int_equal(zlink_cpu_work_async(turn_of_somebody, (zlink_cpu_work_t){.function = nothing}),
                     ZLINK_INVALID_OPERATION);
    host_stop(&fixture);
}

static void test_a_start_that_refuses(void **state)
{
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 1);
    EACH_HOW(i)
    {
        piece_t piece;
        piece_make(&piece, true, hows[i]);
        piece.answers = ZLINK_REJECTED;
        assert_int_equal(host_ask(&fixture, "plain", "a", script_work, &piece, NULL), ZLINK_REJECTED);
        assert_int_equal(atomic_load(&piece.ends), 1);
    }
    host_stop(&fixture);
}

/* ---- time, and other ends ---- */

/* The handler goes on at its deadline, with its own output untouched; the work goes on in memory of its own. */
static void test_late_work_touches_nothing_of_the_handler(void **state)
{
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 1);
    EACH_KIND(io) EACH_HOW(i)
    {
        piece_t piece;
        outside_t call;
        piece_make(&piece, io, hows[i]);
        piece.stands = true;
        piece.timeout_ms = 300;
        assert_int_equal(outside_submit(&fixture, &call, "plain", "a", script_work, &piece), ZLINK_OK);
        zlink_test_wait(&piece.began);
        /* The deadline is started after the work: only when the worker is free again may the clock move. */
        assert_int_equal(host_ask(&fixture, "plain", "b", script_count, NULL, NULL), ZLINK_OK);
        zlink_exec_fixture_advance(&fixture.exec, 299);
        assert_int_equal(atomic_load(&call.completions), 0);
        zlink_exec_fixture_advance(&fixture.exec, 1);
        assert_int_equal(outside_wait(&call), ZLINK_DEADLINE_EXCEEDED);
        assert_int_equal(piece.value, -1);
        assert_int_equal(host_ask(&fixture, "plain", "a", script_count, NULL, NULL), ZLINK_OK);
        piece_end(&piece);
        host_wait_for(&piece.work_ends, 1);
        assert_true(atomic_load(&piece.stopped));
        assert_int_equal(atomic_load(&piece.ends), 1);
    }
    host_stop(&fixture);
}

static zlink_status_t script_close(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    (void)self, (void)context, (void)reply;
    return zlink_spot_close(turn);
}

/* A Spot that closes tells its work to stop, and nobody else's. */
static void test_a_closing_spot_stops_its_work(void **state)
{
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 1);
    EACH_KIND(io)
    {
        const char *id = io ? "reading" : "computing"; /* a closed one comes back only after a while */
        piece_t mine, others;
        outside_t my_call, others_call;
        piece_make(&mine, io, BY_YIELD);
        piece_make(&others, io, BY_YIELD);
        mine.stands = others.stands = true;
        assert_int_equal(outside_submit(&fixture, &my_call, "plain", id, script_work, &mine), ZLINK_OK);
        assert_int_equal(outside_submit(&fixture, &others_call, "plain", "b", script_work, &others), ZLINK_OK);
        zlink_test_wait(&mine.began);
        zlink_test_wait(&others.began);
        assert_int_equal(host_ask(&fixture, "plain", id, script_close, NULL, NULL), ZLINK_OK);
        piece_end(&mine);
        piece_end(&others);
        assert_int_equal(outside_wait(&my_call), ZLINK_OK); /* it was accepted, so it gets what its work gives */
        assert_int_equal(outside_wait(&others_call), ZLINK_OK);
        assert_true(atomic_load(&mine.stopped));
        assert_false(atomic_load(&others.stopped));
    }
    host_stop(&fixture);
}

/* A handler that fails after a `_then` call: its status counts, the continuation never runs, nothing is lost. */
static void test_a_handler_that_fails_after_a_then_call(void **state)
{
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 2);
    EACH_KIND(io)
    {
        for (size_t i = 2; i < 4; i++) {
            piece_t piece;
            piece_make(&piece, io, hows[i]);
            piece.fails_with = ZLINK_DATA_LOST;
            assert_int_equal(host_ask(&fixture, "plain", "a", script_work, &piece, NULL), ZLINK_DATA_LOST);
            assert_int_equal(atomic_load(&piece.ends), 0);
            assert_int_equal(atomic_load(&piece.runs), 1);
        }
    }
    host_stop(&fixture);
}

static zlink_status_t script_two_at_once(zlink_turn_t *turn, void *self, void *context, RunRes *reply)
{
    piece_t *pieces = context;

    zlink_check(script_work(turn, self, &pieces[0], reply) == ZLINK_OK);
    zlink_check(script_work(turn, self, &pieces[1], NULL) == ZLINK_INVALID_OPERATION);
    zlink_check(script_work(turn, self, &pieces[2], NULL) == ZLINK_INVALID_OPERATION);
    return ZLINK_OK;
}

static void test_one_then_call_at_a_time(void **state)
{
    host_fixture_t fixture;
    piece_t pieces[3];
    int32_t value = 0;

    (void)state;
    host_open(&fixture, 1);
    piece_make(&pieces[0], false, BY_YIELD_THEN);
    piece_make(&pieces[1], false, BY_YIELD);
    piece_make(&pieces[2], true, BY_ASYNC_THEN);
    assert_int_equal(host_ask(&fixture, "plain", "a", script_two_at_once, pieces, &value), ZLINK_OK);
    assert_int_equal(value, 42);
    assert_int_equal(atomic_load(&pieces[1].runs) + atomic_load(&pieces[2].runs), 0);
    host_stop(&fixture);
}

/* ---- the node's end ---- */

/* The host is closed when the last work has ended, and not before: the work of handlers that were given up, too. */
static void test_the_end_waits_for_late_work(void **state)
{
    (void)state;
    EACH_KIND(io)
    {
        host_fixture_t fixture;
        piece_t piece;
        outside_t call;
        host_open(&fixture, 1);
        piece_make(&piece, io, BY_YIELD);
        piece.stands = true;
        piece.timeout_ms = 10;
        assert_int_equal(outside_submit(&fixture, &call, "plain", "a", script_work, &piece), ZLINK_OK);
        zlink_test_wait(&piece.began);
        assert_int_equal(host_ask(&fixture, "plain", "b", script_count, NULL, NULL), ZLINK_OK);
        zlink_exec_fixture_advance(&fixture.exec, 10);
        assert_int_equal(outside_wait(&call), ZLINK_DEADLINE_EXCEEDED);
        zlink_application_host_when_idle(fixture.host, host_stage_ended, &fixture.stage);
        zlink_test_wait(&fixture.stage);
        zlink_application_host_close(fixture.host, host_stage_ended, &fixture.stage);
        host_wait_for(&host_hooks.channels_closing, 1);
        assert_int_equal(sem_trywait(&fixture.stage), -1);
        piece_end(&piece);
        zlink_test_wait(&fixture.stage);
        assert_int_equal(atomic_load(&piece.work_ends), 1);
        host_release(&fixture);
    }
}

/* In its last turn a module may still have something computed. */
static _Atomic bool computed_at_the_end;

static void compute_at_the_end(zlink_turn_t *turn, void *self)
{
    piece_t piece;

    piece_make(&piece, false, BY_ASYNC);
    zlink_check(script_work(turn, self, &piece, NULL) == ZLINK_OK && piece.value == 42);
    zlink_check(!atomic_load(&piece.stopped));
    atomic_store(&computed_at_the_end, true);
}

static void test_on_closing_may_hand_work_over(void **state)
{
    host_fixture_t fixture;

    (void)state;
    host_open(&fixture, 1);
    host_hooks.on_closing = compute_at_the_end;
    assert_int_equal(host_ask(&fixture, "living", "a", script_count, NULL, NULL), ZLINK_OK);
    host_stop(&fixture);
    assert_true(atomic_load(&computed_at_the_end));
}

/* ---- no memory ---- */

/* The n-th allocation fails on the way: the call is refused or ends, and nothing is lost (the address sanitizer looks).
 */
static void test_every_allocation_may_fail(void **state)
{
    host_fixture_t fixture;
    size_t refused = 0;

    (void)state;
    host_open(&fixture, 1);
    EACH_KIND(io) EACH_HOW(i)
    {
        for (int64_t n = 0; n < 6; n++) {
            piece_t piece;
            outside_t outside;
            piece_make(&piece, io, hows[i]);
            assert_int_equal(host_ask(&fixture, "plain", "a", script_count, NULL, NULL), ZLINK_OK);
            zlink_memory_fail_after(n);
            zlink_status_t status = outside_submit(&fixture, &outside, "plain", "a", script_work, &piece);
            if (status == ZLINK_OK)
                status = outside_wait(&outside);
            zlink_memory_fail_after(-1);
            assert_true(status == ZLINK_OK || status == ZLINK_CAPACITY_EXCEEDED);
            assert_int_equal(atomic_load(&piece.runs), atomic_load(&piece.ends) && piece.status == ZLINK_OK);
            refused += status != ZLINK_OK;
        }
    }
    assert_in_range(refused, 8 * 3, 8 * 5);
    host_stop(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_result_comes_back),
        cmocka_unit_test(test_neither_input_nor_output),
        cmocka_unit_test(test_ex33_yield_lets_run_and_async_holds),
        cmocka_unit_test(test_ex34_ex35_a_batch_over_the_limit),
        cmocka_unit_test(test_io_works_are_bounded),
        cmocka_unit_test(test_ex23_no_yield_in_a_channel),
        cmocka_unit_test(test_a_start_that_refuses),
        cmocka_unit_test(test_late_work_touches_nothing_of_the_handler),
        cmocka_unit_test(test_a_closing_spot_stops_its_work),
        cmocka_unit_test(test_a_handler_that_fails_after_a_then_call),
        cmocka_unit_test(test_one_then_call_at_a_time),
        cmocka_unit_test(test_the_end_waits_for_late_work),
        cmocka_unit_test(test_on_closing_may_hand_work_over),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    zlink_log_set_level(ZLINK_LOG_OFF);
    return zlink_test_main(tests);
}
