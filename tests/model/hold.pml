/*
 * A turn that waits: the hand-shake of a wait with its completion, and for a wait that keeps the gate the hand-shake of
 * the queue that stands still with whoever brings its item back. One queue, one handler that waits several times, two
 * workers of which one is its home, a stranger who submits meanwhile. README.md says which code each step stands for.
 *
 * Shown: the handler goes on once per wait, with what completed it, on its own worker; nothing else of the queue runs
 * while it holds the gate; the queue is never in a ring twice; what was submitted runs in the end.
 */
#define WAITS 3

mtype = { PREPARED, PARKED, COMPLETED };
mtype = { NONE, STANDING, READY };

mtype state = PREPARED; /* of the wait */
mtype hold = NONE;      /* of the queue */
bool held;              /* queue->held */
bool scheduled = true;
bool other;             /* the stranger's item is in the lane */
byte ring = 1;          /* the queue has work and stands in its home's ring */
bool pinned_to_home;

byte round, answer, completions, went_on;
byte holders;
bool inside, other_ran, handler_ended;

inline post()
{
    atomic {
        assert(ring == 0 && scheduled);
        ring++
    }
}

active proctype stranger()
{
    bool duty;

    atomic {
        other = true;
        duty = !scheduled;
        scheduled = true
    };
    if
    :: duty -> post()
    :: else
    fi
}

/* zlink_wait_complete: one completion for each prepared wait. */
active proctype completer()
{
    byte mine;
    bool parked, standing;

    mine = 1;
    do
    :: mine <= WAITS ->
end:
        round >= mine; /* it was prepared and submitted */
        answer = mine;
        atomic {
            assert(state != COMPLETED);
            parked = state == PARKED;
            state = COMPLETED;
            completions++
        };
        if
        :: parked ->
            /* zlink_serial_execution_queue_resume_held */
            atomic {
                assert(hold != READY);
                standing = hold == STANDING;
                hold = READY
            };
#ifdef BROKEN_ALWAYS_POSTS
            post()
#else
            if
            :: standing -> post()
            :: else
            fi
#endif
        :: else
        fi;
        mine++
    :: else -> break
    od
}

active [2] proctype worker()
{
    byte me;
    bool parked;

    me = _pid % 2;
idle:
end:
    atomic {
        ring > 0 && (me == 0 || (round > 0 && !pinned_to_home)) -> /* the handler starts at home */
        ring--;
        holders++;
        assert(holders == 1)
    };
    /* zlink_serial_execution_queue_begin_slice */
    if
    :: held ->
        assert(hold == READY);
        hold = NONE
    :: else
    fi;

next:
    if
    :: held || round == 0 -> goto handler
    :: else
    fi;
    atomic {
        if
        :: other ->
            assert(!inside);
            other = false;
            other_ran = true
        :: !other ->
            scheduled = false;
            holders--;
            goto idle
        fi
    };
    goto next;

handler:
    if
    :: round == 0
    :: else ->
        atomic {
            assert(me == 0 && inside && answer == round && state == COMPLETED);
            held = false;
            went_on++
        }
    fi;
again:
    inside = true;
    if
    :: round == WAITS ->
        atomic {
            inside = false;
            handler_ended = true;
            pinned_to_home = false
        };
        goto next
    :: else
    fi;
    /* zlink_turn_prepare_wait, and the submission */
    state = PREPARED;
    round++;
    /* must_park */
    if
    :: state == COMPLETED -> parked = false
    :: else ->
#ifdef BROKEN_PARKS_BLINDLY
        state = PARKED;
        parked = true
#else
        atomic {
            parked = state != COMPLETED;
            state = PARKED
        }
#endif
    fi;
    if
    :: !parked ->
        atomic {
            assert(answer == round);
            state = COMPLETED;
            went_on++
        };
        goto again
    :: else
    fi;
    /* zlink_serial_execution_queue_ran: hold */
    pinned_to_home = true;
    held = true;
#ifdef BROKEN_HOLD_IN_TWO_STEPS
    if
    :: hold == READY -> parked = false
    :: else -> hold = STANDING
    fi;
    if
    :: parked ->
        holders--;
        goto idle
    :: else -> hold = NONE
    fi;
#else
    atomic {
        if
        :: hold == READY -> parked = false
        :: else ->
            holders-- /* it may be taken up at once */
        fi;
        hold = STANDING
    };
    if
    :: parked -> goto idle
    :: else -> hold = NONE
    fi;
#endif
    goto next
}

active proctype judge()
{
    timeout ->
    assert(handler_ended && went_on == WAITS && completions == WAITS);
    assert(other_ran && !other);
    assert(ring == 0 && holders == 0 && !scheduled && hold == NONE && !held)
}
