/*
 * How workers sleep: posters put queues into the workers' ready rings, workers take their own, steal, or park on a futex.
 * A queue is movable or pinned; whoever runs one may be busy for ever. README.md says which code each step stands for.
 *
 * Shown: where nothing moves any more, no queue stands in the ring of a worker that sleeps, and no movable one anywhere
 * as long as a worker sleeps. With STOPPER: whoever parks while the pool stops wakes up, too.
 */
#ifndef WORKERS
#define WORKERS 3
#endif
#ifndef POSTERS
#define POSTERS 3
#endif
#define BUSY_MAX (WORKERS - 1) /* so that one is free to look */
#ifndef SPURIOUS
#define SPURIOUS 0 /* ends of a sleep that nobody asked for */
#endif

byte movable[WORKERS];
byte pinned[WORKERS];
bool sleeping[WORKERS]; /* the word of the futex */
bool in_futex[WORKERS];
byte idle;
bool searching;
bool stopping;

byte busy_for_ever, spurious, posted, taken, ended;
bool busy[WORKERS];

#define OWN(w)            (movable[w] + pinned[w] > 0)
#define OTHER(w, i)       ((w + i) % WORKERS)

/* The ready ring, of which only this is used: what goes in, what comes out, and that a look sees either. */
inline ring_push(w, pin)
{
    atomic {
        if
        :: pin -> pinned[w]++
        :: else -> movable[w]++
        fi;
        posted++
    }
}

inline ring_pop(w, got)
{
    atomic {
        got = true;
        if
        :: movable[w] > 0 -> movable[w]--
        :: pinned[w] > 0 -> pinned[w]--
        :: else -> got = false
        fi
    }
}

inline ring_steal(w, got)
{
    atomic {
        got = movable[w] > 0;
        if
        :: got -> movable[w]--
        :: else
        fi
    }
}

/* ---- waking: worker.c ---- */

inline wake(w, woke)
{
    atomic {
        woke = sleeping[w];
        sleeping[w] = false
    };
    if
    :: woke -> in_futex[w] = false
    :: else
    fi
}

inline wake_one_idle(but, woke)
{
    woke = false;
    n = 1;
    do
    :: n < WORKERS ->
        if
        :: sleeping[OTHER(but, n)] ->
            wake(OTHER(but, n), woke);
            if
            :: woke -> break
            :: else
            fi
        :: else
        fi;
        n++
    :: else -> break
    od
}

inline anybody_sleeps(but, found)
{
    found = false;
    n = 1;
    do
    :: n < WORKERS ->
        if
        :: sleeping[OTHER(but, n)] ->
            found = true;
            break
        :: else
        fi;
        n++
    :: else -> break
    od
}

inline call_thief(home)
{
    do
    :: true ->
        if
        :: idle == 0 -> break
        :: else
        fi;
        atomic {
            if
            :: searching -> break
            :: else -> searching = true
            fi
        };
        wake_one_idle(home, woke);
        if
        :: woke -> break
        :: else
        fi;
        searching = false;
#ifdef BROKEN_SEARCH_FORGOTTEN
        break;
#endif
        anybody_sleeps(home, woke);
        if
        :: !woke -> break
        :: else
        fi
    od
}

/* ---- posters ---- */

#ifndef STOPPER
active [POSTERS] proctype poster()
{
    byte home, n;
    bool woke, pin;

    select(home : 0 .. WORKERS - 1);
    if
    :: pin = true
    :: pin = false
    fi;
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
        wake(home, woke);
        if
        :: woke -> goto done
        :: else
        fi
    :: else
    fi;
    if
    :: movable[home] > 0 -> call_thief(home)
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
    n = 0;
    do
    :: n < WORKERS ->
        wake(n, woke);
        n++
    :: else -> break
    od;
    n = 0
}
#endif

/* ---- workers ---- */

inline anything_to_steal(found)
{
    found = false;
    n = 1;
    do
    :: n < WORKERS ->
        if
        :: movable[OTHER(me, n)] > 0 ->
            found = true;
            break
        :: else
        fi;
        n++
    :: else -> break
    od
}

active [WORKERS] proctype worker()
{
    byte me = _pid % WORKERS;
    byte i, n, victim;
    bool got, woke;

find_work:
    ring_pop(me, got);
    if
    :: got -> goto take
    :: else
    fi;
    i = 1;
    do
    :: i < WORKERS ->
        victim = OTHER(me, i);
        ring_steal(victim, got);
        if
        :: got ->
#ifndef BROKEN_THIEF_TELLS_NOBODY
            if
            :: movable[victim] > 0 -> call_thief(victim)
            :: else
            fi;
#endif
            goto take
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0;
    victim = 0;
    if
    :: stopping ->
        ended++;
        goto out
    :: else
    fi;

    /* park */
    idle++;
#ifdef BROKEN_LOOK_BEFORE_SLEEP
    got = OWN(me);
    sleeping[me] = true;
#else
    sleeping[me] = true;
    got = OWN(me);
#endif
    if
    :: !got ->
        anything_to_steal(got);
        if
        :: !got && !stopping ->
            atomic {
                in_futex[me] = sleeping[me]
            };
end:
            if
            :: !in_futex[me]
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
    :: searching -> searching = false
    :: else
    fi;
    goto find_work;

take:
    taken++;
    i = 0;
    victim = 0;
    n = 0;
    if
    :: true
    :: atomic {
            busy_for_ever < BUSY_MAX ->
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
    w = 0;
    do
    :: w < WORKERS ->
        assert(busy[w] || !OWN(w));
        assert(movable[w] == 0); /* BUSY_MAX leaves somebody who sleeps */
        w++
    :: else -> break
    od
#endif
}
