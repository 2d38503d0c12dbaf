/*
 * Deferred joins of members, through the Spots' coordinators: a join that moves its Actor, waits that are refused, and
 * Spots that end or move meanwhile.
 */
#include "defer_fixture.h"

typedef struct mover {
    world_t *world;
    zlink_actor_serial_executor_t actor;
    zlink_spot_serial_executor_t from;
    zlink_spot_serial_executor_t to;
    zlink_status_t result;
    zlink_status_t disposed;
    sem_t settled;
    sem_t closed;
} mover_t;

static zlink_status_t move(zlink_turn_t *turn, const zlink_deferred_join_t *join)
{
    mover_t *mover = join->context;

    (void)turn;
    note(mover->world, '1');
    zlink_status_t status = zlink_spot_serial_executor_remove_actor(&mover->from, "mover");
    return status == ZLINK_OK ? zlink_spot_serial_executor_add_actor(&mover->to, join->target) : status;
}

static void moved(zlink_turn_t *turn, const zlink_deferred_join_t *join, zlink_status_t result)
{
    mover_t *mover = join->context;

    (void)turn;
    note(mover->world, '!');
    mover->result = result;
    sem_post(&mover->settled);
}

static void not_moved(const zlink_deferred_join_t *join, zlink_status_t why)
{
    mover_t *mover = join->context;

    note(mover->world, '-');
    mover->disposed = why;
    sem_post(&mover->settled);
}

static const zlink_deferred_join_calls_t mover_calls = {move, moved, not_moved};

static void mover_open(mover_t *mover, world_t *world, zlink_user_spot_execution_mode_t mode)
{
    zlink_worker_pool_t *pool = world->fixture.pool;
    const zlink_execution_lane_policy_t *policy = &world->fixture.policy;

    memset(mover, 0, sizeof(*mover));
    mover->world = world;
    mover->result = mover->disposed = ZLINK_STATUS_COUNT;
    sem_init(&mover->settled, 0, 0);
    sem_init(&mover->closed, 0, 0);
    assert_int_equal(zlink_spot_serial_executor_init_user(&mover->from, pool, policy, mode), ZLINK_OK);
    assert_int_equal(zlink_spot_serial_executor_init_user(&mover->to, pool, policy, mode), ZLINK_OK);
    assert_int_equal(zlink_actor_serial_executor_init(&mover->actor, pool, policy, "mover"), ZLINK_OK);
    assert_int_equal(zlink_spot_serial_executor_add_actor(&mover->from, &mover->actor), ZLINK_OK);
}

static void from_closed(zlink_spot_serial_executor_t *spot)
{
    sem_post(&ZLINK_CONTAINER_OF(spot, mover_t, from)->closed);
}

static void to_closed(zlink_spot_serial_executor_t *spot)
{
    sem_post(&ZLINK_CONTAINER_OF(spot, mover_t, to)->closed);
}

static void mover_close(mover_t *mover)
{
    zlink_spot_serial_executor_close(&mover->from, from_closed);
    zlink_test_wait(&mover->closed);
    zlink_spot_serial_executor_close(&mover->to, to_closed);
    zlink_test_wait(&mover->closed);
    assert_int_equal(atomic_load(&mover->actor.joins), 0);
}

/* A handler of another Actor of the same Spot, which defers the move, tries to wait for whom it moves, and waits. */
typedef struct deferring {
    call_t call;
    mover_t *mover;
    zlink_status_t deferred;
    zlink_status_t waits_for_it[2]; /* by mode */
    zlink_status_t waits_for_another;
} deferring_t;

static zlink_status_t defer_and_wait(zlink_turn_t *turn)
{
    deferring_t *self = ZLINK_CONTAINER_OF(call_of(turn), deferring_t, call);
    mover_t *mover = self->mover;
    zlink_defer_options_t options = {.operation_id = {7, 7}, .calls = &mover_calls, .context = mover};
    zlink_wait_target_t target = zlink_spot_serial_executor_actor_wait_target(&mover->from, "mover");
    zlink_wait_target_t another = zlink_spot_serial_executor_actor_wait_target(&mover->from, "another");

    note(self->call.world, 'd');
    zlink_check(zlink_turn_check_wait(turn, self->call.mode, &target) == ZLINK_OK);
    self->deferred = zlink_turn_defer(turn, &mover->actor, &options);
    self->waits_for_it[self->call.mode] = zlink_turn_check_wait(turn, self->call.mode, &target);
    self->waits_for_another = zlink_turn_check_wait(turn, self->call.mode, &another);
    zlink_check(zlink_turn_prepare_wait(turn, &self->call.wait, self->call.mode, NULL, NULL) == ZLINK_OK);
    sem_post(&self->call.submitted);
    zlink_status_t status = zlink_turn_wait(turn, &self->call.wait);
    note(self->call.world, 'D');
    return status;
}

static void tell(zlink_spot_serial_executor_t *spot, const char *actor_id, call_t *call)
{
    assert_int_equal(zlink_spot_serial_executor_execute_actor(spot, actor_id, &call->turn, 0), ZLINK_OK);
}

static void make_waiting(deferring_t *self, mover_t *mover)
{
    memset(self, 0, sizeof(*self));
    make(&self->call, mover->world, 'd', defer_and_wait);
    self->mover = mover;
    self->call.mode = mover->world->spot_wide ? ZLINK_WAIT_YIELD : ZLINK_WAIT_ASYNC;
}

/* EX-105, EX-29: the join moves the Actor to another Spot; what was sent to it before the Defer has run, what was sent
 * after it runs at its new place, and waits from there on for that one's gate. */
static void test_ex105_later_records_move_with_the_actor(void **state)
{
    (void)state;
    for (int spot_wide = 0; spot_wide <= 1; spot_wide++) {
        world_t world;
        mover_t mover;
        deferring_t deferring;
        call_t earlier;
        call_t later;

        world_open(&world, spot_wide, 2);
        mover_open(&mover, &world, spot_wide ? ZLINK_SPOT_WIDE : ZLINK_PER_ACTOR);
        make_waiting(&deferring, &mover);
        make(&earlier, &world, 'e', note_handler);
        make(&later, &world, 'l', note_handler);
        tell(&mover.from, "mover", &earlier);
        zlink_test_wait(&earlier.ended_once);
        tell(&mover.from, "deferring", &deferring.call);
        zlink_test_wait(&deferring.call.submitted);
        tell(&mover.from, "mover", &later);
        await_suspensions(&world, 2);
        assert_notes(&world, "ed");
        zlink_wait_complete(&deferring.call.wait, ZLINK_OK);
        zlink_test_wait(&mover.settled);
        zlink_test_wait(&later.ended_once);
        zlink_test_wait(&deferring.call.ended_once);
        make(&later, &world, 'm', note_handler);
        tell(&mover.to, "mover", &later);
        zlink_test_wait(&later.ended_once);
        assert_ptr_equal(later.turn.queue, &mover.actor.queue);
        assert_int_equal(mover.result, ZLINK_OK);
        assert_notes(&world, "edD1!lm");
        mover_close(&mover);
        world_close(&world);
    }
}

/* EX-27: a wait for an Actor that the handler has barred is refused before anything is submitted; for another it is
 * not. */
static void test_ex27_waiting_for_a_barred_actor_is_refused(void **state)
{
    (void)state;
    for (int spot_wide = 0; spot_wide <= 1; spot_wide++) {
        world_t world;
        mover_t mover;
        deferring_t deferring;
        call_t another;

        world_open(&world, spot_wide, 1);
        mover_open(&mover, &world, spot_wide ? ZLINK_SPOT_WIDE : ZLINK_PER_ACTOR);
        make(&another, &world, 'a', note_handler);
        tell(&mover.from, "another", &another); /* so that there is one */
        zlink_test_wait(&another.ended_once);
        make_waiting(&deferring, &mover);
        tell(&mover.from, "deferring", &deferring.call);
        zlink_test_wait(&deferring.call.submitted);
        zlink_wait_complete(&deferring.call.wait, ZLINK_OK);
        zlink_test_wait(&mover.settled);
        zlink_test_wait(&deferring.call.ended_once);
        assert_int_equal(deferring.deferred, ZLINK_OK);
        assert_int_equal(deferring.waits_for_it[deferring.call.mode], ZLINK_INVALID_OPERATION);
        assert_int_equal(deferring.waits_for_another, ZLINK_OK);
        mover_close(&mover);
        world_close(&world);
    }
}

/* EX-28: the Spot is closed while the handler waits and the mark waits in a member: nobody is moved, and all end. */
static void test_ex28_a_closed_spot_moves_nobody(void **state)
{
    (void)state;
    for (int spot_wide = 0; spot_wide <= 1; spot_wide++) {
        world_t world;
        mover_t mover;
        deferring_t deferring;

        world_open(&world, spot_wide, 1);
        mover_open(&mover, &world, spot_wide ? ZLINK_SPOT_WIDE : ZLINK_PER_ACTOR);
        make_waiting(&deferring, &mover);
        tell(&mover.from, "deferring", &deferring.call);
        zlink_test_wait(&deferring.call.submitted);
        await_suspensions(&world, 2);
        zlink_spot_serial_executor_close(&mover.from, from_closed);
        assert_int_not_equal(sem_trywait(&mover.closed), 0);
        zlink_wait_complete(&deferring.call.wait, ZLINK_OK);
        zlink_test_wait(&mover.settled);
        zlink_test_wait(&deferring.call.ended_once);
        assert_int_equal(mover.disposed, ZLINK_SHUTTING_DOWN);
        assert_notes(&world, "dD-");
        mover_close(&mover);
        world_close(&world);
    }
}

static zlink_status_t only_defer(zlink_turn_t *turn)
{
    deferring_t *self = ZLINK_CONTAINER_OF(call_of(turn), deferring_t, call);
    zlink_defer_options_t options = {.operation_id = {7, 7}, .calls = &mover_calls, .context = self->mover};

    self->deferred = zlink_turn_defer(turn, &self->mover->actor, &options);
    return ZLINK_OK;
}

static void make_deferring_only(deferring_t *self, mover_t *mover)
{
    make_waiting(self, mover);
    zlink_turn_init(&self->call.turn, only_defer, ended);
}

static sem_t other_is_closed;

static void other_closed(zlink_spot_serial_executor_t *spot)
{
    (void)spot;
    sem_post(&other_is_closed);
}

/* EX-29: who may defer: handlers of Entry and User Spots, of their Actors and timers; nobody on an Instance Spot and no
 * lifecycle callback. A sealed target is Unavailable. */
static void test_ex29_who_may_defer(void **state)
{
    static const zlink_spot_execution_kind_t kinds[] = {ZLINK_EXECUTION_INSTANCE, ZLINK_EXECUTION_ENTRY,
                                                        ZLINK_EXECUTION_USER};
    world_t world;
    mover_t mover;
    deferring_t self;

    (void)state;
    world_open(&world, true, 1);
    mover_open(&mover, &world, ZLINK_SPOT_WIDE);
    sem_init(&other_is_closed, 0, 0);
    for (unsigned i = 0; i < 3; i++) {
        zlink_spot_serial_executor_t spot;
        zlink_status_t expected = i == 0 ? ZLINK_INVALID_OPERATION : ZLINK_UNAVAILABLE;

        zlink_actor_serial_executor_seal(&mover.actor); /* so that no join follows */
        assert_int_equal(zlink_spot_serial_executor_init(&spot, world.fixture.pool, &world.fixture.policy, kinds[i]),
                         ZLINK_OK);
        make_deferring_only(&self, &mover);
        assert_int_equal(zlink_spot_serial_executor_execute_spot(&spot, &self.call.turn, 0), ZLINK_OK);
        zlink_test_wait(&self.call.ended_once);
        assert_int_equal(self.deferred, expected);
        make_deferring_only(&self, &mover);
        assert_int_equal(zlink_spot_serial_executor_execute_timer(&spot, "timer", &self.call.turn), ZLINK_OK);
        zlink_test_wait(&self.call.ended_once);
        assert_int_equal(self.deferred, expected);
        make_deferring_only(&self, &mover);
        assert_int_equal(zlink_spot_serial_executor_execute_lifecycle(&spot, &self.call.turn), ZLINK_OK);
        zlink_test_wait(&self.call.ended_once);
        assert_int_equal(self.deferred, ZLINK_INVALID_OPERATION);
        zlink_actor_serial_executor_unseal(&mover.actor);
        zlink_spot_serial_executor_close(&spot, other_closed);
        zlink_test_wait(&other_is_closed);
    }
    make_deferring_only(&self, &mover);
    tell(&mover.from, "mover", &self.call);
    zlink_test_wait(&mover.settled);
    zlink_test_wait(&self.call.ended_once);
    assert_int_equal(self.deferred, ZLINK_OK);
    mover_close(&mover);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ex105_later_records_move_with_the_actor),
        cmocka_unit_test(test_ex27_waiting_for_a_barred_actor_is_refused),
        cmocka_unit_test(test_ex28_a_closed_spot_moves_nobody),
        cmocka_unit_test(test_ex29_who_may_defer),
    };

    return zlink_test_main(tests);
}
