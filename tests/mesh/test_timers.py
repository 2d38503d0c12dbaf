"""A Spot's timers as a module sees them: ticks on the Spot's gate, their numbers, and how they end."""
import os
import signal

import harness
from harness import Channel, Spot, check, equal, pb, wait_until

SKIP, CATCH_UP, DELAY = 0, 1, 2
BEGUN = "zlink.timers.ticks"


def one_node(mesh, **config):
    node = mesh.node("a", ("ticker",), workers=2, **config)
    return node, mesh.hand(node), mesh.client(node)


def ticker(name):
    return Spot("ticker", name)


def start(client, spot, name, expected="Ok", **options):
    equal(client.ask(spot, pb.TimerReq(name=name, **options)).status, expected, f"starting {name!r}")


def ticks(client, spot, name):
    """The (delivery, scheduled, skipped) of each tick of `name`, and the whole journal."""
    found = client.log(spot)
    equal(found.overlaps, 0, f"overlapping turns of {spot}")
    words = found.log.split()
    check("early" not in words, "a tick came early")
    mine = [tuple(int(n) for n in word.split("/")[1:]) for word in words if word.startswith(name + "/")]
    last = 0
    for number, (delivery, scheduled, skipped) in enumerate(mine):
        if delivery == 1:
            last = 0  # a new generation
        else:
            equal(delivery, mine[number - 1][0] + 1, f"delivery index of {mine}")
        equal(scheduled, last + skipped + 1, f"the equation of {mine}")
        check(scheduled >= delivery, f"scheduled below delivery in {mine}")
        last = scheduled
    return mine, words


# EX-88: a timer ticks, whoever waits for it or not, and its numbers fit together.
def test_ex88_a_timer_ticks(mesh):
    node, _, client = one_node(mesh)
    for policy in (SKIP, CATCH_UP, DELAY):
        spot = ticker(f"p{policy}")
        start(client, spot, "beat", period_ms=10, first_delay_ms=5, overrun_policy=policy, max_catch_up_ticks=3)
        wait_until(lambda: len(ticks(client, spot, "beat")[0]) >= 5, "five ticks")
        start(client, spot, "beat", cancel=True)
        before = client.log(spot).total
        start(client, spot, "fence", first_delay_ms=50)
        wait_until(lambda: ticks(client, spot, "fence")[0], "the fence")
        equal(client.log(spot).total, before + 1, "ticks of a cancelled timer")
        start(client, spot, "beat", cancel=True, expected="NotFound")
    check(node.counter(BEGUN) >= 18, "ticks are not counted")


# EX-6, EX-18, EX-21, EX-25, OB-8, OB-87: a timer waits for a handler that holds the gate and runs while one has given it back; while
# its own tick waits, it begins no other, and afterwards the policy says what is late.
def test_ex6_ex18_ex21_ex25_ob8_ob87_ticks_and_waits(mesh):
    _, hand, client = one_node(mesh)
    for how, runs in ((pb.ASYNC, False), (pb.YIELD, True)):
        spot = ticker(f"w{how}")
        waiting = client.start(spot, pb.WaitReq(tag="A", how=how, channel="latch"))
        call = hand.take("A")
        timer = client.start(spot, pb.TimerReq(name="beat", period_ms=5))
        if runs:
            equal(timer.result().status, "Ok", "the start")
            wait_until(lambda: len(ticks(client, spot, "beat")[0]) >= 3, "ticks during a yield")
        call.reply()
        waiting.result()
        timer.result()
        wait_until(lambda: len(ticks(client, spot, "beat")[0]) >= 3, "ticks")
        _, words = ticks(client, spot, "beat")
        between = words[words.index("A+"):words.index("A-")]
        equal(len(between) > 1, runs, f"ticks during the wait: {words}")

    for action in (pb.WAIT_ASYNC, pb.WAIT_YIELD):
        spot, other = ticker(f"own{action}"), ticker(f"other{action}")
        name = f"slow{action}"
        start(client, other, "beat", period_ms=5)
        start(client, spot, name, period_ms=5, action=action)
        call = hand.take(name)
        seen = client.log(other).total
        wait_until(lambda: client.log(other).total >= seen + 5, "ticks of another Spot")
        call.reply()
        call = hand.take(name)
        stopping = client.start(spot, pb.TimerReq(name=name, cancel=True))  # before a third tick is queued
        client.ask(other, pb.PingReq())  # it has arrived, too
        call.reply()
        equal(stopping.result().status, "Ok", "the cancel")
        mine, words = ticks(client, spot, name)
        check(mine[1][2] >= 3, f"nothing was skipped: {mine}")
        equal([word for word in words if word.startswith(name)][1], f"{name}-", f"the order of {words}")


# EX-87, OB-86: a restart voids the earlier start and begins to count anew; a handler cancels its own timer; one tick is one.
def test_ex87_ob86_restart_and_cancel(mesh):
    _, hand, client = one_node(mesh)
    spot = ticker("r")
    start(client, spot, "beat", period_ms=1000000, first_delay_ms=1000000)
    start(client, spot, "beat", period_ms=5)
    wait_until(lambda: len(ticks(client, spot, "beat")[0]) >= 3, "ticks of the second start")
    start(client, spot, "once", first_delay_ms=1)
    start(client, spot, "own", period_ms=1, action=pb.CANCEL)
    start(client, spot, "fails", period_ms=1, action=pb.FAIL, stop_on_failure=True)
    start(client, spot, "running", period_ms=1, action=pb.WAIT_YIELD)
    call = hand.take("running")
    start(client, spot, "running", cancel=True)
    call.reply()
    seen = len(ticks(client, spot, "beat")[0])
    wait_until(lambda: len(ticks(client, spot, "beat")[0]) >= seen + 10, "more ticks")
    for name in ("once", "own", "fails", "running"):
        equal(len(ticks(client, spot, name)[0]), 1, f"ticks of {name}")
    check("running-" in ticks(client, spot, "running")[1], "the running tick did not finish")


# What is refused.
def test_bad_timers_are_refused(mesh):
    _, _, client = one_node(mesh)
    spot = ticker("bad")
    for fields in ({"period_ms": 2**31}, {"first_delay_ms": 2**31}, {"overrun_policy": 3},
                   {"overrun_policy": CATCH_UP, "max_catch_up_ticks": 2**31}):
        start(client, spot, "x", "InvalidOperation", **fields)
    start(client, spot, "", "InvalidOperation")
    start(client, spot, "n" * 256, "InvalidOperation")
    start(client, spot, "\x01", "InvalidOperation")
    start(client, spot, "ü" * 127, first_delay_ms=1)
    equal(client.ask(Channel("clock"), pb.TimerReq(name="x")).status, "InvalidOperation", "in a channel")


# Closing a Spot, also from its own tick, ends its timers; its last turn starts none; the next life has none.
def test_the_end_of_the_spot(mesh):
    def said(spot):
        path = mesh.path(spot)
        if not os.path.exists(path):
            return ""
        with open(path, encoding="utf-8") as file:
            return file.read()

    node, _, client = one_node(mesh)
    spot = ticker("e1")
    start(client, spot, "beat", period_ms=1)
    start(client, spot, "end", first_delay_ms=20, action=pb.CLOSE)
    wait_until(lambda: said("e1").endswith("\n"), "on_closing")
    equal(said("e1").split()[:2], ["closed:", "ShuttingDown"], "what on_closing said")
    wait_until(lambda: client.start(spot, pb.LogReq()).outcome() == "Ok", "the next life")
    begun = node.counter(BEGUN)
    start(client, spot, "fence", first_delay_ms=30)
    wait_until(lambda: ticks(client, spot, "fence")[0], "the fence")
    equal(node.counter(BEGUN), begun + 1, "ticks of the past life")


# TR-95, EX-62: timers from on_create tick; a draining node finishes the tick that runs, begins none, and stops although
# hundreds of timers never end by themselves.
def test_ex62_tr95_a_draining_node_begins_no_tick(mesh):
    node, hand, client = one_node(mesh)
    for number in range(300):
        client.ask(Spot("metronome", f"m{number}"), pb.PingReq(tag="x"))
    spot = ticker("d")
    start(client, spot, "held", period_ms=1000000, action=pb.WAIT_ASYNC)
    call = hand.take("held")
    node.wait_counter(BEGUN, 1000)
    node.signal(signal.SIGTERM)
    check(client.wait_for(lambda c: c.peer_draining, 20), "the client is not told that the node drains")
    wait_until(lambda: node.status()["state"] == "draining", "draining")
    call.reply()
    node.wait_exit(0)
    check(os.path.exists(mesh.path("m0")) and os.path.exists(mesh.path("d")), "no on_closing")


# OB-88, IC-8: 10,000 timers add no thread.
def test_ob88_ic8_timers_add_no_thread(mesh):
    node, _, client = one_node(mesh)
    client.ask(Spot("metronome", "first"), pb.PingReq(tag="x"))
    threads = len(os.listdir(f"/proc/{node.process.pid}/task"))
    waiting = [client.start(Spot("metronome", f"t{number}"), pb.PingReq()) for number in range(1000)]
    for ping in waiting:
        ping.result()
    waiting = [client.start(ticker(f"t{number}"), pb.TimerReq(name=f"n{k}", first_delay_ms=600000 + k))
               for number in range(1000) for k in range(9)]
    for timer in waiting:
        equal(timer.result().status, "Ok", "a start")
    equal(len(os.listdir(f"/proc/{node.process.pid}/task")), threads, "threads")


if __name__ == "__main__":
    harness.main(globals())
