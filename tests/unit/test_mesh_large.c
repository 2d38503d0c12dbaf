/*
 * Calls with large payloads over a link: they hold back nobody but calls to the same target, come whole, and end like
 * any other call.
 */
#include "mesh_fixture.h"
#include "raw_peer.h"

#include "base/container_of.h"

#define MIB     (1024u * 1024u)
#define MANY    64
#define LOG_MAX 256

typedef struct big_call {
    test_call_t test; /* first */
    _Atomic int holds;
} big_call_t;

static void big_hold(zlink_outbound_call_t *call)
{
    atomic_fetch_add(&((big_call_t *)(void *)call)->holds, 1);
}

static void big_release(zlink_outbound_call_t *call)
{
    atomic_fetch_sub(&((big_call_t *)(void *)call)->holds, 1);
}

static uint8_t *payload; /* 16 MiB, of a pattern */

static void big_init(big_call_t *call, node_t *node, const char *spot_id, size_t size, bool one_way)
{
    memset(call, 0, sizeof(*call));
    test_call_init(&call->test, node, "prices", "");
    call->test.call.spot_id = spot_id;
    call->test.call.payload = payload;
    call->test.call.payload_bytes = size;
    call->test.call.one_way = one_way;
    call->test.call.hold = big_hold;
    call->test.call.release = big_release;
    if (spot_id[0] != 0) {
        call->test.call.route = ZLINK_ROUTE_NODE;
        call->test.call.node = "server";
        call->test.call.target = ZLINK_TARGET_INSTANCE_SPOT;
        call->test.call.name = "counter";
    }
}

static void big_let_go(big_call_t *call)
{
    const time_t until = time(NULL) + FIXTURE_PATIENCE_S;

    while (atomic_load(&call->holds) != 0) {
        assert_true(time(NULL) <= until);
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    test_call_release(&call->test);
}

/* What the server has received, in order. */
static struct {
    char spot_id[8];
    size_t size;
    bool good;
} arrivals[LOG_MAX];
static _Atomic size_t arrived_count;
static _Atomic bool held;

static zlink_frame_verdict_t note_arrived(void *context, const zlink_mesh_arrival_t *arrival)
{
    const size_t at = atomic_load(&arrived_count);

    assert(at < LOG_MAX);
    snprintf(arrivals[at].spot_id, sizeof(arrivals[at].spot_id), "%s", arrival->spot_id);
    arrivals[at].size = arrival->payload_bytes;
    arrivals[at].good = memcmp(arrival->payload, payload, arrival->payload_bytes) == 0;
    atomic_store(&arrived_count, at + 1);
    if (atomic_load(&held))
        return ZLINK_FRAME_TAKEN;
    return node_arrived(context, arrival);
}

static void take_notes_here(void *context)
{
    ((node_t *)context)->mesh->options.events.arrived = note_arrived;
}

static void large_pair_start(pair_t *pair, bool virtual_time)
{
    pair_init(pair, virtual_time);
    pair->server.options.max_body_bytes = pair->caller.options.max_body_bytes = 17 * MIB;
    pair->server.options.outbound_bytes = pair->caller.options.outbound_bytes = 4 * MIB;
    pair->caller.options.pending_max = 1024;
    pair_start(pair);
    zlink_reactor_call(pair->server.reactor, take_notes_here, &pair->server);
    atomic_store(&arrived_count, 0);
    atomic_store(&held, false);
}

typedef struct batch {
    big_call_t *calls;
    size_t count;
} batch_t;

/* In one turn of the reactor, so that nothing of the first has been sent when the last is submitted. */
static void batch_submit_here(void *context)
{
    const batch_t *batch = context;

    for (size_t i = 0; i < batch->count; i++)
        test_call_submit(&batch->calls[i].test);
}

static size_t arrival_of(const char *spot_id, size_t size)
{
    for (size_t i = 0; i < atomic_load(&arrived_count); i++)
        if (arrivals[i].size == size && strcmp(arrivals[i].spot_id, spot_id) == 0)
            return i;
    fail_msg("%zu bytes for '%s' have not arrived", size, spot_id);
    return 0;
}

/* A 16 MiB request and its 16 MiB reply: small ones to others, made after it, arrive before it and are answered; a
 * small one to the same target arrives behind it. */
static void test_small_calls_overtake_and_keep_their_order(void **state)
{
    big_call_t calls[8];
    pair_t pair;

    (void)state;
    large_pair_start(&pair, false);
    big_init(&calls[0], &pair.caller, "a", 16 * MIB, false);
    big_init(&calls[1], &pair.caller, "b", 11, false);
    big_init(&calls[2], &pair.caller, "a", 12, false);
    big_init(&calls[3], &pair.caller, "", 13, false);
    big_init(&calls[4], &pair.caller, "a", 14, true);
    big_init(&calls[5], &pair.caller, "b", 2 * MIB, false); /* beside 16 MiB there is no room at the peer */
    big_init(&calls[6], &pair.caller, "b", 16, false);
    big_init(&calls[7], &pair.caller, "c", 17, true);
    zlink_reactor_call(pair.caller.reactor, batch_submit_here, &(batch_t){calls, 8});
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(test_call_wait(&calls[i].test), ZLINK_OK);
        if (!calls[i].test.call.one_way) {
            assert_int_equal(calls[i].test.answer_bytes, calls[i].test.call.payload_bytes);
            assert_memory_equal(calls[i].test.answer, payload, 8);
        }
        big_let_go(&calls[i]);
    }
    fixture_wait_for(&arrived_count, 8);
    for (size_t i = 0; i < 8; i++)
        assert_true(arrivals[i].good);
    const size_t large = arrival_of("a", 16 * MIB);
    assert_true(arrival_of("b", 11) < large);
    assert_true(arrival_of("", 13) < large);
    assert_true(arrival_of("c", 17) < large);
    assert_true(large < arrival_of("a", 12) && arrival_of("a", 12) < arrival_of("a", 14));
    assert_true(arrival_of("b", 11) < arrival_of("b", 2 * MIB) && arrival_of("b", 2 * MIB) < arrival_of("b", 16));
    assert_int_equal(node_look(&pair.caller).waiting, 0);
    pair_stop(&pair);
}

/* Between two calls of a batch: the peer has said that it takes no more. */
typedef struct pause {
    zlink_mail_t mail;
    node_t *node;
    batch_t before, after;
} pause_t;

static void pause_deliver(zlink_mail_t *mail)
{
    const pause_t *pause = ZLINK_CONTAINER_OF(mail, pause_t, mail);

    zlink_mesh_peer_paused(TAILQ_FIRST(&pause->node->mesh->links), true);
}

static void pause_between_here(void *context)
{
    pause_t *pause = context;

    batch_submit_here(&pause->before);
    zlink_reactor_post(pause->node->reactor, &pause->mail);
    batch_submit_here(&pause->after);
}

static void go_on_here(void *context)
{
    zlink_mesh_peer_paused(TAILQ_FIRST(&((node_t *)context)->mesh->links), false);
}

/* What has waited for the end of a large call is older than what waits for room by then. */
static void test_a_small_call_keeps_its_place_behind_a_large_one(void **state)
{
    big_call_t calls[3];
    pair_t pair;

    (void)state;
    large_pair_start(&pair, false);
    big_init(&calls[0], &pair.caller, "a", 16 * MIB, false);
    big_init(&calls[1], &pair.caller, "a", 11, false);
    big_init(&calls[2], &pair.caller, "a", 12, false);
    pause_t pause = {{.deliver = pause_deliver}, &pair.caller, {calls, 2}, {&calls[2], 1}};
    zlink_reactor_call(pair.caller.reactor, pause_between_here, &pause);
    assert_int_equal(test_call_wait(&calls[0].test), ZLINK_OK);
    big_let_go(&calls[0]); /* its payload: from here on the second waits where the third does */
    assert_int_equal(node_look(&pair.caller).waiting, 2);
    zlink_reactor_call(pair.caller.reactor, go_on_here, &pair.caller);
    for (size_t i = 1; i < 3; i++) {
        assert_int_equal(test_call_wait(&calls[i].test), ZLINK_OK);
        big_let_go(&calls[i]);
    }
    assert_true(arrival_of("a", 11) < arrival_of("a", 12));
    pair_stop(&pair);
}

/* Many large ones at once, more than fit: each comes whole, those to one target in their order, however many wait. */
static void test_many_large_calls(void **state)
{
    static big_call_t calls[MANY];
    pair_t pair;
    size_t last[3] = {0};

    (void)state;
    large_pair_start(&pair, false);
    for (size_t i = 0; i < MANY; i++)
        big_init(&calls[i], &pair.caller, (const char *const[]){"a", "b", "c"}[i % 3],
                 i % 4 == 0 ? 1000 + i : MIB + 1000 * i, i % 5 == 0);
    zlink_reactor_call(pair.caller.reactor, batch_submit_here, &(batch_t){calls, MANY});
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(test_call_wait(&calls[i].test), ZLINK_OK);
    fixture_wait_for(&arrived_count, MANY);
    for (size_t i = 0; i < MANY; i++) {
        const size_t at = arrival_of(calls[i].test.call.spot_id, calls[i].test.call.payload_bytes) + 1;
        assert_true(arrivals[at - 1].good);
        assert_true(at > last[i % 3]);
        last[i % 3] = at;
        big_let_go(&calls[i]);
    }
    pair_stop(&pair);
}

static void cancel_here(void *context)
{
    big_call_t *call = context;

    big_hold(&call->test.call);
    zlink_mesh_cancel(call->test.node->mesh, &call->test.call);
}

static void submit_and_give_up_here(void *context)
{
    const batch_t *batch = context;

    batch_submit_here(context);
    for (size_t i = 0; i < batch->count; i++)
        if (i != 3)
            cancel_here(&batch->calls[i]);
}

/* EX-57, EX-59: what was given up on its way is not sent to its end, and what waited behind it goes on. */
static void test_ex57_ex59_large_calls_are_given_up(void **state)
{
    big_call_t calls[4];
    pair_t pair;

    (void)state;
    large_pair_start(&pair, false);
    atomic_store(&held, true);
    big_init(&calls[0], &pair.caller, "a", 16 * MIB, false);
    big_init(&calls[1], &pair.caller, "a", 15 * MIB, false);
    big_init(&calls[2], &pair.caller, "a", 11, false);
    big_init(&calls[3], &pair.caller, "a", 12, true);
    zlink_reactor_call(pair.caller.reactor, submit_and_give_up_here, &(batch_t){calls, 4});
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(test_call_wait(&calls[i].test), ZLINK_CANCELLED);
    assert_int_equal(test_call_wait(&calls[3].test), ZLINK_OK);
    fixture_wait_for(&arrived_count, 1);
    assert_int_equal(arrivals[0].size, 12);

    for (size_t i = 0; i < 4; i++)
        big_let_go(&calls[i]);
    /* The same once more, but on its way: only the first has begun by then. */
    big_init(&calls[0], &pair.caller, "a", 16 * MIB, false);
    big_init(&calls[1], &pair.caller, "a", 13, true);
    zlink_reactor_call(pair.caller.reactor, batch_submit_here, &(batch_t){calls, 2});
    zlink_reactor_call(pair.caller.reactor, cancel_here, &calls[0]);
    const zlink_status_t status = test_call_wait(&calls[0].test);
    assert_true(status == ZLINK_CANCELLED);
    assert_int_equal(test_call_wait(&calls[1].test), ZLINK_OK);
    for (size_t i = 0; i < 2; i++)
        big_let_go(&calls[i]);
    assert_int_equal(node_look(&pair.caller).pending, 0);
    pair_stop(&pair);
}

/* A link that is cut in the middle: each call ends once, and each payload is let go of. */
static void test_a_link_that_is_cut_in_the_middle(void **state)
{
    enum { CALLS = 12 };
    static big_call_t calls[CALLS];
    pair_t pair;

    (void)state;
    for (int by_caller = 0; by_caller < 2; by_caller++) {
        large_pair_start(&pair, false);
        atomic_store(&held, true);
        for (size_t i = 0; i < CALLS; i++)
            big_init(&calls[i], &pair.caller, i % 2 ? "a" : "b", i % 3 ? 5 * MIB : 100, i % 4 == 1);
        zlink_reactor_call(pair.caller.reactor, batch_submit_here, &(batch_t){calls, CALLS});
        node_t *node = by_caller ? &pair.caller : &pair.server;
        zlink_reactor_call(node->reactor, node_cut_here, node);
        for (size_t i = 0; i < CALLS; i++) {
            const zlink_status_t status = test_call_wait(&calls[i].test);
            assert_true(status == ZLINK_UNAVAILABLE || (status == ZLINK_OK && calls[i].test.call.one_way));
        }
        pair_stop(&pair);
        for (size_t i = 0; i < CALLS; i++)
            big_let_go(&calls[i]);
    }
}

/* A peer that is gone from one moment to the next: the payload is let go of after its link has gone. */
static void test_a_peer_that_resets(void **state)
{
    static virtual_clock_t still;
    big_call_t calls[3];
    node_t node;

    (void)state;
    virtual_clock_init(&still);
    node_init(&node, "node");
    node.clock = &still.clock;
    node.options.max_body_bytes = 17 * MIB;
    node_start(&node);
    raw_link_t slow = raw_join_slow(node.address, "raw" RAW_UUID, 9, 4096);
    node_wait_links(&node, 1);
    for (size_t i = 0; i < 3; i++) {
        big_init(&calls[i], &node, "", 900000, i != 1);
        calls[i].test.call.name = "raw";
    }
    zlink_reactor_call(node.reactor, batch_submit_here, &(batch_t){calls, 3});
    assert_int_equal(test_call_wait(&calls[0].test), ZLINK_OK); /* taken */
    raw_leave(&slow);                                           /* with bytes unread: a reset */
    assert_int_equal(test_call_wait(&calls[1].test), ZLINK_UNAVAILABLE);
    const zlink_status_t status = test_call_wait(&calls[2].test);
    assert_true(status == ZLINK_UNAVAILABLE || status == ZLINK_OK); /* the kernel may have had room for it */
    node_wait_links(&node, 0);
    for (size_t i = 0; i < 3; i++)
        big_let_go(&calls[i]);
    node_stop(&node);
}

/* Time runs out while it is on its way, or waits behind another: DeadlineExceeded, once. */
static void test_large_calls_run_out_of_time(void **state)
{
    big_call_t calls[3];
    pair_t pair;

    (void)state;
    large_pair_start(&pair, true);
    atomic_store(&held, true);
    big_init(&calls[0], &pair.caller, "a", 16 * MIB, false);
    big_init(&calls[1], &pair.caller, "a", 16 * MIB, true);
    big_init(&calls[2], &pair.caller, "a", 10, true);
    for (size_t i = 0; i < 3; i++)
        calls[i].test.call.deadline_ms = zlink_clock_now_ms(pair.caller.clock) + 500;
    zlink_reactor_call(pair.caller.reactor, batch_submit_here, &(batch_t){calls, 3});
    virtual_clock_advance(&pair.clock, pair.caller.reactor, 500);
    assert_int_equal(test_call_wait(&calls[0].test), ZLINK_DEADLINE_EXCEEDED);
    for (size_t i = 1; i < 3; i++) {
        const zlink_status_t status = test_call_wait(&calls[i].test);
        assert_true(status == ZLINK_DEADLINE_EXCEEDED || status == ZLINK_OK); /* it may have gone out in time */
    }
    for (size_t i = 0; i < 3; i++)
        big_let_go(&calls[i]);
    assert_int_equal(node_look(&pair.caller).waiting, 0);
    pair_stop(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_calls_overtake_and_keep_their_order),
        cmocka_unit_test(test_a_small_call_keeps_its_place_behind_a_large_one),
        cmocka_unit_test(test_many_large_calls),
        cmocka_unit_test(test_ex57_ex59_large_calls_are_given_up),
        cmocka_unit_test(test_a_link_that_is_cut_in_the_middle),
        cmocka_unit_test(test_a_peer_that_resets),
        cmocka_unit_test(test_large_calls_run_out_of_time),
    };

    zlink_log_set_level(ZLINK_LOG_OFF);
    payload = pattern_make(1, 16 * MIB);
    const int result = zlink_test_main(tests);
    free(payload);
    return result;
}
