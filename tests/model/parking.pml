/*
 * How workers sleep: posters put queues into the workers' ready rings; workers take their own, steal, or park on a futex;
 * with SPIN they may spin before.
 * A queue is movable or pinned; whoever runs one may be busy for ever, so that nothing is owed to its luck. README.md
 * says which code each step stands for.
 *
 * Shown: where nothing moves any more, no queue stands in the ring of a worker that sleeps, and no movable one anywhere
 * while a worker sleeps. With STOPPER: whoever parks while the pool stops wakes up, too.
 */
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef POSTERS
#define POSTERS 2
#endif
#ifndef SELF_POSTS
#define SELF_POSTS 0 /* queues that become ready on a turn of their worker */
#endif
#ifndef SPURIOUS
#define SPURIOUS 0 /* ends of a sleep that nobody asked for */
#endif
#ifdef ANY_BUSY
#define MAY_BE_BUSY (busy_for_ever < WORKERS - 1) /* so that one is free to look */
#else
#define MAY_BE_BUSY (me < WORKERS - 1)
#endif
#define NOBODY   255

/* Values of `searching`. */
#define NONE      0
#define UNDER_WAY 1
#define SPINS     2

byte inbox[WORKERS];    /* movable ones: as they came … */
byte round[WORKERS];    /* … and within a thief's reach one by one */
byte pinned[WORKERS];
bool sleeping[WORKERS]; /* the word of the futex */
bool in_futex[WORKERS];
byte idle;
byte searching;
bool stopping;
byte watchman = NOBODY;

byte busy_for_ever, self_posts, spurious, ended;
bool busy[WORKERS];

#ifdef BROKEN_LEAVES_HOME_OUT
#define LAST_CALLED (WORKERS - 1)
#else
#define LAST_CALLED WORKERS
#endif
#define OTHER(w, i)     ((w + i) % WORKERS)
#define MOVABLE(w)      (inbox[w] + round[w] > 0)
#define ANYTHING_STANDS (inbox[0] + round[0] + inbox[1] + round[1] > 0)

/* ---- the ready ring: ready_ring.c ---- */

inline ring_push(w, pin)
{
    atomic {
        behind = inbox[w] > 0;
        if
        :: pin -> pinned[w]++
        :: else -> inbox[w]++
        fi
    }
}

/* One from the round, or the whole inbox: the first for the taker, the rest becomes its round; between the two it
 * stands nowhere. */
inline take_movable(w)
{
    d_step {
        rest = 0;
        if
        :: round[w] > 0 ->
            round[w]--;
            got = true
        :: else ->
            got = inbox[w] > 0;
            rest = (got -> inbox[w] - 1 : 0);
            inbox[w] = 0
        fi
    };
    if
    :: rest > 0 -> round[me] = rest
    :: else
    fi
}

inline take_pinned()
{
    d_step {
        got = pinned[me] > 0;
        pinned[me] = (got -> pinned[me] - 1 : 0)
    }
}

/* ---- waking: worker.c ---- */

inline wake(w)
{
    d_step {
        woke = sleeping[w];
        sleeping[w] = false;
        in_futex[w] = false
    }
}

inline wake_one_idle(home)
{
    woke = false;
    n = 1;
    do
    :: atomic {
            n <= LAST_CALLED && !woke ->
            woke = sleeping[OTHER(home, n)];
            sleeping[OTHER(home, n)] = false;
            in_futex[OTHER(home, n)] = false;
            n++
        }
    :: else -> break
    od
}

inline anybody_sleeps(home)
{
    d_step {
        woke = false;
        n = 1;
        do
        :: n <= LAST_CALLED && !woke ->
            woke = sleeping[OTHER(home, n)];
            n++
        :: else -> break
        od
    }
}

inline call_thief(home)
{
    do
    :: true ->
        woke = idle > 0;
        atomic { /* where the swap fails it begins again, as if it had not */
            if
            :: searching == UNDER_WAY -> break
            :: searching == NONE && !woke -> break
            :: searching == SPINS ->
                searching = UNDER_WAY;
                break
            :: searching == NONE && woke -> searching = UNDER_WAY
            fi
        };
        wake_one_idle(home);
        if
        :: woke -> break
        :: else
        fi;
        searching = NONE;
#ifdef BROKEN_SEARCH_FORGOTTEN
        break;
#endif
        anybody_sleeps(home);
        if
        :: !woke -> break
        :: else
        fi
    od;
    n = 0
}

/* ---- posters ---- */

#ifndef STOPPER
active [POSTERS] proctype poster()
{
    byte home, n;
    bool woke, pin, behind;

#if defined(SCENE_OF_THREE) /* two for a worker that may be busy with the first, one that is the thief's own */
    home = (_pid < 2 -> 0 : 1);
    pin = _pid == 2;
#elif !defined(ANY_HOME)
    home = _pid % WORKERS;
    if
    :: _pid > 0 -> pin = true
    :: pin = false
    fi;
#else
    atomic {
        if
        :: _pid == 0 -> home = 0
        :: else -> select(home : 0 .. WORKERS - 1)
        fi;
        if
        :: pin = true
        :: pin = false
        fi
    };
#endif
#ifdef BROKEN_LOOK_BEFORE_PUSH
    woke = sleeping[home];
    ring_push(home, pin);
    if
    :: woke ->
#else
    ring_push(home, pin);
    if
    :: sleeping[home] ->
#endif
        wake(home);
        if
        :: woke -> goto done
        :: else
        fi
    :: else
    fi;
    if
    :: !pin -> call_thief(home)
    :: else
    fi;
done:
    skip
}
#else
active proctype stopper()
{
    byte n;
    bool woke;

    stopping = true;
    do
    :: n < WORKERS ->
        wake(n);
        n++
    :: else -> break
    od
}
#endif

/* ---- workers ---- */

inline anything_to_steal()
{
    d_step {
        got = false;
        n = 1;
        do
        :: n < WORKERS ->
            got = got || MOVABLE(OTHER(me, n));
            n++
        :: else -> break
        od;
        n = 0
    }
}

/* A queue becomes ready on a turn of this worker and stays with it. */
inline ready_here()
{
    ring_push(me, false);
    if
    :: !behind && round[me] == 0 && pinned[me] == 0 && (watchman != NOBODY || searching == SPINS) ->
        skip /* it is nearly done */
    :: true -> call_thief(me)
    fi
}

active [WORKERS] proctype worker()
{
    byte me = _pid % WORKERS;
    byte i, n, rest, victim;
    bool got, woke, behind, search, on_watch;

find_work:
    /* pop */
    take_movable(me);
    if
    :: got ->
        if
        :: rest > 0 -> call_thief(me)
        :: else
        fi;
        goto take
    :: else
    fi;
    take_pinned();
    if
    :: got -> goto take
    :: else
    fi;

    /* steal */
    i = 1;
    do
    :: i < WORKERS ->
        victim = OTHER(me, i);
        take_movable(victim);
        if
        :: got ->
            search = true;
            if
            :: MOVABLE(victim) || MOVABLE(me) -> call_thief(me)
            :: else
            fi;
            goto take
        :: else
        fi;
        i++
    :: else -> break
    od;
    if
    :: stopping ->
        ended++;
        goto out
    :: else
    fi;

#ifdef SPIN
    /* spin: until there is something, it is asked, or the time is over */
    if
    :: atomic {
            searching == NONE ->
            searching = SPINS;
            i = 0;
            rest = 0;
            victim = 0;
            search = true
        };
        got = inbox[me] + round[me] + pinned[me] > 0;
#ifndef BROKEN_SLEEPS_WHILE_IT_SPINS
        atomic {
            got = got || searching == UNDER_WAY;
            searching = NONE
        };
#endif
        if
        :: got -> goto find_work
        :: else
        fi
    :: true
    fi;
#endif
    /* park */
    atomic {
        idle++;
        on_watch = SELF_POSTS > 0 && idle < WORKERS;
        i = 0;
        rest = 0;
        victim = 0;
        search = true
    };
#ifdef BROKEN_LOOK_BEFORE_SLEEP
    got = inbox[me] + round[me] + pinned[me] > 0;
    sleeping[me] = true;
#else
    sleeping[me] = true;
#endif
#if SELF_POSTS > 0
    atomic {
        if
        :: on_watch && watchman == NOBODY -> watchman = me
        :: else -> on_watch = false
        fi
    };
#endif
#ifndef BROKEN_LOOK_BEFORE_SLEEP
    got = inbox[me] + round[me] + pinned[me] > 0;
#endif
    if
    :: !got ->
        anything_to_steal();
        if
        :: !got && !stopping ->
            atomic {
                in_futex[me] = sleeping[me]
            };
end:
            if
            :: !in_futex[me]
            :: on_watch && in_futex[me] && ANYTHING_STANDS -> in_futex[me] = false /* its time is over */
            :: spurious < SPURIOUS && in_futex[me] ->
                atomic {
                    spurious++;
                    in_futex[me] = false
                }
            fi
        :: else
        fi
    :: else
    fi;
    sleeping[me] = false;
    idle--;
    if
    :: searching == UNDER_WAY -> searching = NONE
    :: else
    fi;
    if
    :: on_watch ->
        on_watch = false;
        watchman = NOBODY
    :: else
    fi;
    goto find_work;

take:
#ifdef BROKEN_PASSES_NOTHING_ON
    search = false;
#endif
    if
    :: search && (idle > 0 || searching == SPINS) ->
        anything_to_steal();
        if
        :: got -> call_thief(me)
        :: else
        fi
    :: else
    fi;
    atomic {
        i = 0;
        victim = 0;
        n = 0;
        rest = 0;
        search = false
    };
    do
    :: self_posts < SELF_POSTS ->
        self_posts++;
        ready_here()
    :: true -> break
    od;
    behind = false;
    if
    :: true
    :: atomic {
            MAY_BE_BUSY ->
            busy_for_ever++;
            busy[me] = true
        };
end_busy:
        false
    fi;
    goto find_work;
out:
    skip
}

/* ---- when nothing moves any more ---- */

active proctype judge()
{
    byte w;

    timeout ->
#ifdef STOPPER
    assert(ended == WORKERS);
#else
    do
    :: w < WORKERS ->
        assert(busy[w] || pinned[w] == 0);
        assert(!MOVABLE(w)); /* somebody sleeps, MAY_BE_BUSY says so */
        w++
    :: else -> break
    od
#endif
}
