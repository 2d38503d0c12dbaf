/*
 * Admission, the drain and the end of one queue: any number of threads submit, whoever finds `scheduled` clear posts
 * the queue, two workers take it from the ready ring in turn. README.md says which code each step stands for.
 *
 * Shown: every accepted item runs once; never two holders, never twice in the ring; no work stands in a queue that
 * nobody holds or will take up; a queue that is closed ends once, last, and nobody touches it then who must not.
 */
#define APPLICATION_SUBMITTERS 2
#define APPLICATION_CAPACITY   2
#define SUSPENSIONS            1

/* The two lanes' words. A chain is only a length here. */
byte chain;
bool attention;
byte items;
bool scheduled;
bool application_closed;
byte lifecycle_chain;
byte lifecycle_items;
bool lifecycle_closed;
byte barrier; /* on the lifecycle word's chain, without reservation */
bool look;

/* The holder's. */
byte application_list, lifecycle_list, barrier_list;
byte released, lifecycle_released;
byte suspended;

/* What the ready ring does for one queue. */
byte ring;

/* What is checked. */
byte holders, running, accepted, ran, waiting, resumed;
byte ended;
bool may_suspend = true;

#define HAS_WORK (barrier_list + lifecycle_list + application_list > 0)

inline post()
{
    atomic {
        assert(ended == 0);
        assert(ring == 0 && scheduled);
        ring++
    }
}

/* The item has its place in the order: on the chain, or by hand where the queue was idle. */
inline put(by_hand)
{
    if
    :: by_hand ->
        atomic {
            assert(ended == 0 && application_list == 0);
            application_list = 1
        };
        post()
    :: else
    fi
}

/* ---- submitters ---- */

active [APPLICATION_SUBMITTERS] proctype submit_application()
{
    bool duty;

    atomic {
        if
        :: application_closed || items >= APPLICATION_CAPACITY -> goto refused
        :: else
        fi;
        items++;
        duty = !scheduled;
#ifdef BROKEN_BY_HAND_AND_CHAIN
        chain++;
#else
        chain = (duty -> chain : chain + 1);
#endif
        scheduled = true;
        accepted++
    };
    put(duty);
refused:
    skip
}

inline call_attention()
{
#ifdef BROKEN_TORN_READ
    duty = attention;
    if
    :: duty -> duty = !scheduled /* chain and counters were read apart */
    :: else ->
#else
    if
    :: attention -> duty = false
    :: else ->
#endif
        atomic {
            duty = !attention && !scheduled;
            attention = true;
            scheduled = true
        }
    fi;
    if
    :: duty -> post()
    :: else -> look = true
    fi
}

active proctype submit_lifecycle()
{
    bool duty;

#ifdef BROKEN_ATTENTION_FIRST
    call_attention();
#endif
    atomic {
        if
        :: lifecycle_closed -> goto refused
        :: else
        fi;
        lifecycle_chain++;
        lifecycle_items++;
        accepted++
    };
#ifndef BROKEN_ATTENTION_FIRST
    call_attention();
#endif
refused:
    skip
}

active proctype submit_barrier()
{
    bool duty;

    atomic {
        if
        :: lifecycle_closed -> goto refused
        :: else
        fi;
        barrier++;
        accepted++
    };
    call_attention();
refused:
    skip
}

/* Brings the suspended item back. */
active proctype completer()
{
    bool duty;

end:
    atomic {
        waiting > 0 -> waiting--
    };
    atomic {
        resumed++;
        duty = !scheduled;
        chain = (duty -> chain : chain + 1);
        scheduled = true
    };
    put(duty)
}

/* May never come: a close would bring up what was lost before. */
active proctype closer()
{
    bool duty;

    if
    :: true -> goto unclosed
    :: true
    fi;
#ifdef BROKEN_CLOSE_ORDER
    atomic {
        application_closed = true;
        duty = !scheduled;
        scheduled = true
    };
    lifecycle_closed = true;
#else
    lifecycle_closed = true;
    atomic {
        application_closed = true;
        duty = !scheduled;
        scheduled = true
    };
#endif
    if
    :: duty -> post()
    :: else
    fi;
unclosed:
    skip
}

/* ---- workers ---- */

/* A holder that has work of its own looks only where it was asked to. */
inline bring_in()
{
    if
    :: application_list > 0 && !look -> goto seen
    :: else
    fi;
    look = false;
    if
    :: chain == 0 && !attention
    :: else ->
        atomic {
            application_list = application_list + chain;
            chain = 0;
            took = attention;
            attention = false;
            items = items - released;
            released = 0
        };
        if
        :: took ->
            atomic {
                lifecycle_list = lifecycle_list + lifecycle_chain;
                lifecycle_chain = 0;
                barrier_list = barrier_list + barrier;
                barrier = 0;
                lifecycle_items = lifecycle_items - lifecycle_released;
                lifecycle_released = 0
            }
        :: else
        fi
    fi
}

inline run_one()
{
    atomic {
        assert(running == 0 && ended == 0);
        running++;
        is_resumed = false;
        if
        :: barrier_list > 0 ->
            barrier_list--;
            lane = 2
        :: barrier_list == 0 && lifecycle_list > 0 -> /* the table of priorities is not what is checked */
            lifecycle_list--;
            lane = 1
        :: barrier_list == 0 && application_list > 0 ->
            application_list--;
            lane = 0;
            if
            :: resumed > 0 ->
                is_resumed = true;
                resumed--;
                suspended--
            :: else
            fi
        fi
    };
    if
    :: lane == 0 && !is_resumed && may_suspend ->
        waiting++; /* the wait is known to its completer before the run has answered */
        atomic {
            may_suspend = false;
            running--;
            suspended++
        }
    :: true ->
        atomic {
            running--;
            ran++;
            if
            :: lane == 0 -> released++
            :: lane == 1 -> lifecycle_released++
            :: else
            fi
        }
    fi
}

inline leave()
{
    assert(holders == 1);
    holders--
}

active [2] proctype worker()
{
    bool took, is_resumed, closed_seen;
    byte lane;

idle:
end:
    atomic {
        ring > 0 ->
        ring--;
        holders++;
        assert(holders == 1)
    };

drive:
    bring_in();
seen:
    if
    :: HAS_WORK ->
        if
        :: true -> run_one()
        :: true -> /* over its budget */
            atomic {
                items = items - released;
                released = 0
            };
            atomic {
                lifecycle_items = lifecycle_items - lifecycle_released;
                lifecycle_released = 0;
                leave()
            };
            post();
            goto idle
        fi;
        goto drive
    :: else
    fi;

    /* end_slice */
    atomic {
        lifecycle_items = lifecycle_items - lifecycle_released;
        lifecycle_released = 0
    };
again:
    if
    :: chain > 0 || attention -> /* the next bring_in gives back what was released */
        goto drive
    :: else
    fi;
    atomic { /* a look at the counters; the swaps below fail where they have changed */
        closed_seen = application_closed;
        if
        :: closed_seen && items == released && suspended == 0
        :: else -> goto let_go
        fi
    };
    atomic {
        if
        :: chain > 0 || attention || items != released -> goto again
        :: else
        fi;
        items = 0;
        released = 0
    };
    if
    :: lifecycle_chain == 0 && barrier == 0 && lifecycle_items == 0 ->
        atomic {
            leave();
            ended++;
            goto idle
        }
    :: else
    fi;
let_go:
#ifdef BROKEN_LET_GO_IN_TWO_STEPS
    if
    :: chain > 0 || attention || application_closed != closed_seen -> goto again
    :: else
    fi;
#endif
    atomic {
#ifdef BROKEN_LET_GO_UNSEEN_CLOSE
        if
        :: chain > 0 || attention -> goto again
        :: else
        fi;
#endif
#if !defined(BROKEN_LET_GO_IN_TWO_STEPS) && !defined(BROKEN_LET_GO_UNSEEN_CLOSE)
        if
        :: chain > 0 || attention || application_closed != closed_seen -> goto again
        :: else
        fi;
#endif
        leave();
        items = items - released;
        released = 0;
        scheduled = false
    };
    goto idle
}

/* ---- when nothing moves any more ---- */

active proctype judge()
{
    timeout ->
    assert(accepted == ran && running == 0 && waiting == 0 && suspended == 0);
    assert(ring == 0 && holders == 0 && released == 0 && items == 0 && lifecycle_items == 0);
    assert(ended == (application_closed -> 1 : 0));
    assert(ended == 1 || !scheduled)
}
