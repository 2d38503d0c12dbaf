"""Nodes that die, hang and come back while work is under way. Every call has one end; the others serve on."""
import signal

import harness
from harness import FAR, Spot, check, equal, limit, pb, probe, wait_until

LOST = {"Unavailable", "DeadlineExceeded"}
RECEIVED = "zlink.requests.received"


def sums(summary, count):
    """Every call ended once, and only in the ways that a lost node explains."""
    failed = summary["failed"]
    equal(summary["ok"] + sum(failed.values()), count, f"the ends of {count} calls ({summary})")
    check(set(failed) <= LOST, f"other ends: {failed}")
    return summary


def work(pass_on=True, timeout_ms=2000):
    return pb.WaitReq(how=pb.YIELD, channel="far", timeout_ms=timeout_ms, amount=1, pass_on=pass_on)


def three_nodes(mesh):
    """Spots on `a`; the channel that they ask on `b` and on `c`."""
    far = [mesh.node(name, ("far",)) for name in "bc"]
    node = mesh.node("a", ("probe",), peers=far)
    node.wait_links("b", "c")
    return [node] + far


# A node that others wait for is killed in mid-load: each call ends once, the rest serve on; it comes back and is used
# again, and nobody else was restarted.
@limit(150)
def test_killed_in_mid_load_and_back(mesh):
    a, b, c = three_nodes(mesh)
    count = 10000
    lives = [(node.name, node.process.pid) for node in (a, b)]
    load = mesh.load([a], "spot:probe/load-{}", work(), count, 128, "--spread", "50", background=True)
    c.wait_counter(RECEIVED, 500)
    c.kill()
    c.keep_port()
    a.wait_links("b", "loader")
    middle = a.counter("zlink.handlers.completed")
    check(middle < count, "the load was over before the node was killed")
    summary = sums(mesh.load_result(load), count)
    check(summary["ok"] > middle // 2, f"nobody served on: {summary}")
    wait_until(lambda: a.counter("zlink.handlers.live") == 0, "every handler has ended")

    client = mesh.client(a)
    total = sum(client.log(probe(f"load-{index}")).total for index in range(50))
    equal(total, summary["ok"], "what the Spots have added up, and how often their callers heard Ok")
    overlaps = sum(client.log(probe(f"load-{index}")).overlaps for index in range(50))
    equal(overlaps, 0, "overlapping turns")

    c.start()
    check(set(a.wait_links("b", "c", "tool")) == {"b", "c", "tool"}, "the links")
    again = sums(mesh.load([a], "spot:probe/load-{}", work(), 400, 16, "--spread", "50"), 400)
    equal(again["ok"], 400, "the calls after the return")
    check(c.counter(RECEIVED) >= 100, f"the node that came back is used: {c.counter(RECEIVED)}")
    equal([(node.name, node.process.pid) for node in (a, b)], lives, "the nodes that were not killed")


# The caller's own node is killed: a client hears of each open call once, and its calls elsewhere go on.
def test_killed_node_of_a_client(mesh):
    a = mesh.node("a", ("probe",))
    b = mesh.node("b", ("probe",))
    hand = mesh.hand(a)
    doomed, other = mesh.client(a), mesh.client(b)
    calls = [doomed.start(probe(f"open-{index % 10}"), pb.WaitReq(how=pb.YIELD, channel="latch"))
             for index in range(200)]
    for _ in range(200):
        hand.take()
    a.kill()
    equal([call.outcome() for call in calls], ["Unavailable"] * 200, "the open calls")
    equal(doomed.late_replies, 0, "replies after the end")
    equal(other.ask(probe("x"), pb.PingReq()).owner, "x", "the other node")
    a.keep_port()
    a.start()
    equal(mesh.client(a, "again").log(probe("open-1")).log, "", "a Spot's state dies with its node")


# The same with the tool: it redials, and its sums are exact.
@limit(150)
def test_killed_node_of_zlinkctl(mesh):
    a, b = mesh.node("a"), mesh.node("b")
    count = 10000
    load = mesh.load([a, b], "spot:probe/load-{}", pb.PingReq(), count, 64, "--spread", "20", "--reconnect",
                     background=True)
    a.wait_counter(RECEIVED, 300)
    a.keep_port()
    a.kill()
    a.start()
    sums(mesh.load_result(load), count)
    equal(b.counter(RECEIVED), count // 2, "every call to the other node was served")


# Killed again and again: links and Spots are not used up, and no call is lost.
def test_killed_again_and_again(mesh):
    a, b, c = three_nodes(mesh)
    c.keep_port()
    client = mesh.client(a)
    for life in range(4):
        calls = [client.start(probe(f"s{index % 10}"), work(pass_on=False)) for index in range(300)]
        c.kill()
        ends = [call.result().status for call in calls]
        check(set(ends) <= LOST | {"Ok"}, f"other ends: {set(ends)}")
        c.start()
        a.wait_links("b", "c", "tool")
    equal(len(a.status()["links"]), 3, f"links of a: {a.status()['links']}")
    for _ in range(20):
        equal(client.ask(probe("s1"), work(pass_on=False)).status, "Ok", "a call after the last return")


# TR-50: a node that hangs, with its sockets open, is given up at the liveness deadline and not before; until then its
# calls end by their own time, and the others serve on. When it goes on, it is used again. (Real time, once.)
@limit(90)
def test_tr50_hanging_node_is_given_up(mesh):
    a, b, c = three_nodes(mesh)
    client = mesh.client(a)
    c.signal(signal.SIGSTOP)
    try:
        ends = [client.ask(probe("x"), work(pass_on=False, timeout_ms=200)).status for _ in range(6)]
        equal((ends.count("Ok"), ends.count("DeadlineExceeded")), (3, 3), "calls that go to both in turn")
        check(any(link["name"] == "c" for link in a.links()), "the link ended before the liveness deadline")
        before = next(link["ready_ms"] for link in a.links() if link["name"] == "c")
        wait_until(lambda: all(link["name"] != "c" for link in a.links()), "the hanging node is given up", 30)
        a.wait_log("zlink.net.liveness.expired")
        check(before < 20000, "the first look came too late to say anything")
        ends = [client.ask(probe("x"), work(pass_on=False, timeout_ms=200)).status for _ in range(6)]
        equal(ends, ["Ok"] * 6, "calls without the hanging node")
    finally:
        c.signal(signal.SIGCONT)
    a.wait_links("b", "c", "tool")
    ends = [client.ask(probe("x"), work(pass_on=False)).status for _ in range(6)]
    equal(ends, ["Ok"] * 6, "calls after its return")
    check(c.runs() and c.process.poll() is None, "the hanging node lives")


# TR-46: what was accepted by a node that is lost is not sent to another one.
def test_tr46_nothing_is_sent_twice(mesh):
    a = mesh.node("a", ("probe",))
    one = mesh.hand(a, "latch", name="one")
    two = mesh.hand(a, "latch", name="two")
    client = mesh.client(a)
    calls = [client.start(probe(f"s{index}"), pb.WaitReq(tag=f"t{index}", how=pb.YIELD, channel="latch"))
             for index in range(40)]
    wait_until(lambda: one.calls.qsize() + two.calls.qsize() == 40, "all calls reach the hands")
    lost = one.calls.qsize()
    equal(lost, 20, "calls that the first hand got")
    one.close()
    wait_until(lambda: sum(call.done() for call in calls) == lost, "the lost calls end")
    kept = [two.take() for _ in range(two.calls.qsize())]
    client.fence()
    check(two.calls.empty(), "a lost call was sent to the other hand")
    for call in kept:
        call.reply()
    ends = [call.result().status for call in calls]
    equal((ends.count("Unavailable"), ends.count("Ok")), (lost, 40 - lost), "the ends")


# Channel handlers and Spots of a node that is killed while it serves a hundred callers: a fresh node takes their place.
def test_spot_home_is_killed(mesh):
    home = mesh.node("h", ("probe",))
    node = mesh.node("a", ("far",), peers=[home], spots=[{"type": "probe", "node": "h"}])
    node.wait_links("h")
    client = mesh.client(node)
    ask = pb.WaitReq(how=pb.ASYNC, spot_type="probe", spot_id="x", timeout_ms=2000)
    equal(client.ask(harness.SLOW, ask).status, "Ok", "a call to the home")
    home.keep_port()
    home.kill()
    wait_until(lambda: not any(link["name"] == "h" for link in node.links()), "the home is gone")
    equal(client.ask(harness.SLOW, ask).status, "Unavailable", "a call without the home")
    equal(client.ask(FAR, pb.PingReq()).owner, "far", "the node without the home")
    home.start()
    node.wait_links("h", "tool")
    equal(client.ask(harness.SLOW, ask).status, "Ok", "a call to the home that is back")
    check(mesh.client(home, "watch").log(Spot("probe", "x")).log == "", "the Spot is a fresh one")


if __name__ == "__main__":
    harness.main(globals())
