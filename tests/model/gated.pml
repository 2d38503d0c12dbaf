/*
 * A gated queue: the items of an Actor's queue A run on turns of its Spot's queue S, through one record that stands on
 * S's lane whenever A has work. README.md says which code each step stands for.
 *
 * Shown: the record is never in S's lane twice; an item of A runs once, alone, and only on a turn of S; while it waits
 * the next one of A does not run, but S does; A ends once and before S does; nothing is left lying.
 */
#define ITEMS 2 /* of A */

/* The words. */
byte s_chain_items;         /* S's own items in its chain … */
bool s_chain_record;        /* … and A's record there */
bool s_scheduled, s_closed;
byte s_list_items;
bool s_list_record;
byte s_items;               /* reserved: own items and the record */
byte s_suspended;
byte gated = 1;
byte a_chain, a_list;
bool a_scheduled, a_closed, a_held, record_resumed;

byte ring;

/* What is checked. */
byte holders, running, accepted, ran, waiting, s_accepted, s_ran, a_ended, s_ended;
bool may_suspend = true;

inline push_ring()
{
    atomic {
        assert(s_ended == 0 && ring == 0);
        ring++
    }
}

/* Puts the record on S's lane, whatever its limits and whether it is closed; by hand where S is idle. */
inline append_record(reserve, resumed)
{
    atomic {
        assert(s_ended == 0 && !s_chain_record && !s_list_record);
        record_resumed = resumed;
        s_items = s_items + reserve;
        duty = !s_scheduled;
        s_chain_record = !duty;
        s_scheduled = true
    };
    if
    :: duty ->
        s_list_record = true;
        push_ring()
    :: else
    fi
}

active [ITEMS] proctype submit_to_actor()
{
    bool duty;

    atomic {
        if
        :: a_closed -> goto refused
        :: else
        fi;
        accepted++;
        duty = !a_scheduled;
        a_chain = (duty -> a_chain : a_chain + 1);
        a_scheduled = true
    };
    if
    :: duty ->
        atomic {
            assert(a_ended == 0 && a_list == 0 && !a_held);
            a_list = 1
        };
        append_record(1, false)
    :: else
    fi;
refused:
    skip
}

active proctype submit_to_spot()
{
    bool duty;

    atomic {
        if
        :: s_closed -> goto refused
        :: else
        fi;
        s_items++;
        s_accepted++;
        duty = !s_scheduled;
        s_chain_items = (duty -> s_chain_items : s_chain_items + 1);
        s_scheduled = true
    };
    if
    :: duty ->
        atomic {
            assert(s_ended == 0 && s_list_items == 0 && !s_list_record);
            s_list_items = 1
        };
        push_ring()
    :: else
    fi;
refused:
    skip
}

active proctype completer()
{
    bool duty;

end:
    atomic {
        waiting > 0 -> waiting--
    };
    append_record(0, true)
}

active proctype close_actor()
{
    bool duty;

    if
    :: true -> goto unclosed
    :: true
    fi;
    atomic {
        a_closed = true;
        duty = !a_scheduled;
        a_scheduled = true
    };
    if
    :: duty -> append_record(1, false)
    :: else
    fi;
unclosed:
    skip
}

active proctype close_spot()
{
    bool duty;

    if
    :: true -> goto unclosed
    :: true
    fi;
    atomic {
        s_closed = true;
        duty = !s_scheduled;
        s_scheduled = true
    };
    if
    :: duty -> push_ring()
    :: else
    fi;
unclosed:
    skip
}

/* ---- the turn of the record ---- */

/* Straight into the holder's list, where nothing has come before it; its reservation stays. */
inline stand_again()
{
    stays = s_chain_items == 0;
    if
    :: stays ->
        atomic {
            assert(holders == 1 && !s_chain_record && !s_list_record);
            s_list_record = true;
            record_resumed = false
        }
    :: else
    fi
}

inline bring_in_actor()
{
    d_step {
        a_list = a_list + a_chain;
        a_chain = 0
    }
}

/* A has nothing: `gone` where it was let go or has ended. */
inline let_go_actor()
{
    atomic {
        if
        :: a_chain > 0 -> gone = false
        :: a_chain == 0 && a_closed ->
            gone = true;
            a_ended++;
            gated--
        :: a_chain == 0 && !a_closed ->
            gone = true;
#ifndef BROKEN_LETS_GO_LATER
            a_scheduled = false
#endif
        fi
    };
#ifdef BROKEN_LETS_GO_LATER
    if
    :: gone && a_ended == 0 -> a_scheduled = false
    :: else
    fi
#endif
}

inline run_turn()
{
    suspends = false;
    stays = false;
    gone = false;
    if
    :: !a_held ->
        do
        :: true ->
            bring_in_actor();
            if
            :: a_list > 0 -> break
            :: else
            fi;
            let_go_actor();
            if
            :: gone -> break
            :: else
            fi
        od;
        if
        :: !gone ->
            a_list--;
            a_held = true
        :: else
        fi
    :: else -> may_suspend = false
    fi;
    if
    :: !gone ->
        atomic {
            assert(running == 0 && a_ended == 0);
            running++
        };
        if
        :: may_suspend ->
            waiting++;
            suspends = true;
            may_suspend = false
        :: true
        fi;
        running--;
        if
        :: !suspends ->
            ran++;
            a_held = false;
            if
            :: a_list > 0 -> skip
            :: else -> let_go_actor()
            fi;
            if
            :: !gone ->
                stand_again();
                if
                :: !stays -> append_record(1, false)
                :: else
                fi
            :: else
            fi
        :: else
        fi
    :: else
    fi
}

/* ---- workers ---- */

active [2] proctype worker()
{
    bool duty, gone, suspends, stays, closed_seen, resumed;

idle:
end:
    atomic {
        ring > 0 ->
        ring--;
        holders++;
        assert(holders == 1)
    };
drive:
    atomic {
        s_list_items = s_list_items + s_chain_items;
        s_chain_items = 0;
        if
        :: s_chain_record ->
            s_chain_record = false;
            s_list_record = true
        :: else
        fi
    };
    if
    :: s_list_record ->
        atomic {
            s_list_record = false; /* it may be in the chain again before this turn is over */
            resumed = record_resumed;
            if
            :: resumed -> s_suspended--
            :: else
            fi
        };
        run_turn();
        if
        :: suspends -> s_suspended++
#ifdef BROKEN_RESERVATION_GOES
        :: else -> s_items--
#else
        :: !suspends && !stays -> s_items--
        :: else
#endif
        fi;
        goto drive
    :: s_list_items > 0 ->
        atomic {
            assert(running == 0);
            s_list_items--;
            s_items--;
            s_ran++
        };
        goto drive
    :: else
    fi;
    /* let_go of S */
    atomic {
        if
        :: s_chain_items > 0 || s_chain_record -> goto drive
        :: else
        fi;
        closed_seen = s_closed
    };
    if
#ifdef BROKEN_SPOT_ENDS_FIRST
    :: closed_seen && s_items == 0 && s_suspended == 0 ->
#else
    :: closed_seen && s_items == 0 && s_suspended == 0 && gated == 0 ->
#endif
        atomic {
            if
            :: s_chain_items > 0 || s_chain_record -> goto drive
            :: else
            fi;
            s_ended++;
            holders--;
            goto idle
        }
    :: else
    fi;
    atomic {
        if
        :: s_chain_items > 0 || s_chain_record || s_closed != closed_seen -> goto drive
        :: else
        fi;
        s_scheduled = false;
        holders--
    };
    goto idle
}

active proctype judge()
{
    timeout ->
    assert(accepted == ran && s_accepted == s_ran && running == 0 && waiting == 0 && s_suspended == 0);
    assert(ring == 0 && holders == 0 && s_items == 0 && !a_held);
    assert(a_ended == (a_closed -> 1 : 0));
    assert(s_ended == (a_closed && s_closed -> 1 : 0));
    assert(a_ended == 1 || !a_scheduled);
    assert(s_ended == 1 || !s_scheduled)
}
