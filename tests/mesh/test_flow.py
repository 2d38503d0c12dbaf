"""Flow control between whole nodes: pressure, PAUSED and RUNNING, and permits that are gone for long."""
import threading

import harness
from harness import SLOW, api, check, equal, pb, probe, raises, wait_until

QUEUE = "zlink.host.application_job_queue."


def stuffed(mesh, **limits):
    """A node whose Spot "held" has a handler that waits and holds its gate; `stuff` queues pings behind it."""
    node = mesh.node("a", workers=1, limits={"max_queued_application_jobs": "10", **limits})
    hand, client = mesh.hand(node), mesh.client(node)
    client.obeys_flow_state = False
    waiting = client.start(probe("held"), pb.WaitReq(tag="A", how=pb.ASYNC, channel="latch"))
    call = hand.take("A")

    def stuff(count):
        return [client.start(probe("held"), pb.PingReq(tag="P")) for _ in range(count)]

    return node, client, waiting, call, stuff


def jobs(node, count):
    wait_until(lambda: node.counter(QUEUE + "jobs") == count,
               lambda: f"{count} jobs, not {node.counter(QUEUE + 'jobs')}")


# TR-55, TR-56, TR-57, EX-39, EX-71: at 8 of 10 permits every peer hears PAUSED, not at 7; replies pass; who joins meanwhile
# knows it before its first call; with 6 they all hear RUNNING.
def test_tr55_tr56_tr57_ex39_ex71_pressure(mesh):
    node, client, waiting, call, stuff = stuffed(mesh)
    equal(node.counter(QUEUE + "limit"), 10, "the limit")
    pings = stuff(7)
    jobs(node, 7)
    equal((node.counter(QUEUE + "pressure_transitions"), client.peer_paused), (0, False), "paused too early")
    pings += stuff(1)
    check(client.wait_for(lambda c: c.peer_paused), "PAUSED")
    equal(node.counter(QUEUE + "pressure_state"), 1, "the pressure")
    late = mesh.client(node, name="late")
    check(late.peer_paused and late.peer_epoch == 0, "a newcomer knows it from its ADMIT")
    raises(api.DeadlineExceeded, late.ask, probe("other"), pb.PingReq(), timeout=0.2)
    client.ask(probe("other"), pb.PingReq())  # its reply passes; and who does not obey is not refused
    call.reply()
    equal(waiting.result().status, "Ok", "the handler that waited, with all peers paused")
    for paused in (client, late):
        check(paused.wait_for(lambda c: not c.peer_paused), "RUNNING")
    for ping in pings:
        ping.result()
    late.ask(probe("other"), pb.PingReq())
    equal((node.counter(QUEUE + "pressure_state"), node.counter(QUEUE + "jobs")), (0, 0), "in the end")
    check(node.counter(QUEUE + "pressure_transitions") >= 2, "transitions")
    check(node.counter(QUEUE + "pause_duration") > 0, "the time of the pause")


# EX-39, TR-57: a node that is paused itself calls others and gets its replies; a node whose peer is paused waits with its
# calls, and they go when it runs.
def test_ex39_nodes_wait_for_each_other(mesh):
    a, client, waiting, call, stuff = stuffed(mesh)
    b = mesh.node("b", ("probe",), peers=[a.address])
    wait_until(lambda: any(link["name"] == "b" for link in a.links()), "a and b are linked")
    asker = mesh.client(b, name="asker")
    pings = stuff(9)
    wait_until(lambda: b.counter("zlink.mesh_node.peers.paused") == 1, "b knows that a is paused")
    held = asker.start(probe("x"), pb.WaitReq(tag="Y", how=pb.ASYNC, channel="slow"))
    short = asker.ask(probe("y"), pb.WaitReq(tag="Z", how=pb.ASYNC, channel="slow", timeout_ms=200))
    equal(short.status, "DeadlineExceeded", "a call that could not wait so long")
    check(not held.done(), "a call to a paused node")
    call.reply()
    for ping in pings:
        ping.result()
    equal(held.result().status, "Ok", "the call, when a runs again")
    equal(waiting.result().status, "Ok", "the handler of a")
    equal(client.log(SLOW).log.count("Z"), 0, "a call whose time was over was not sent")


# EX-65: the two kinds of limits know nothing of each other: with all permits in use nothing waits for bytes, and with a
# small mark of bytes the permits stay free.
def test_ex65_jobs_and_bytes_are_apart(mesh):
    node, client, waiting, call, stuff = stuffed(mesh, outbound_bytes="64KiB")
    pings = stuff(30)
    node.wait_counter(QUEUE + "capacity_waits", 1)
    equal(node.counter(QUEUE + "jobs"), 10, "jobs: as many as permits, reserved or queued")
    equal(node.counter(QUEUE + "capacity_waiters"), 1, "connections that wait")
    equal(node.counter("zlink.mesh_node.send_waits"), 0, "waits for room")
    call.reply()
    for ping in pings:
        ping.result()
    waiting.result()
    equal(node.counter(QUEUE + "jobs"), 0, "jobs in the end")
    check(node.counter(QUEUE + "capacity_wait_duration") > 0, "the time that was waited")


# EX-36, EX-66: all permits are in use for 20 s, longer than the liveness bound: no link is lost, a new peer is admitted,
# replies flow and timeouts fire; what has waited is done afterwards, once.
@harness.limit(120)
def test_ex36_ex66_no_permit_for_twenty_seconds(mesh):
    node, client, waiting, call, stuff = stuffed(mesh)
    other = mesh.node("b", ("probe",), peers=[node.address])
    wait_until(lambda: any(link["name"] == "b" for link in node.links()), "b is linked")
    pings = stuff(40)
    node.wait_counter(QUEUE + "capacity_waits", 1)
    late = client.start(probe("held"), pb.PingReq(tag="late"), 0.5)
    equal(late.outcome(), "DeadlineExceeded", "a request that nobody reads")
    newcomer = mesh.client(node, name="newcomer")
    before = node.counter("zlink.replies.received")
    threading.Event().wait(20)  # the time itself is what is tested
    equal(node.counter("zlink.mesh_node.peers.lost"), 0, "links that were lost")
    equal(other.counter("zlink.mesh_node.peers.lost"), 0, "links that b has lost")
    check(newcomer.error is None and client.error is None, "clients that were lost")
    equal(node.counter(QUEUE + "jobs"), 10, "jobs")
    call.reply()
    equal(waiting.result().status, "Ok", "the handler, 20 s later")
    check(node.counter("zlink.replies.received") > before, "its reply was taken without a permit")
    equal({ping.outcome() for ping in pings}, {"Ok"}, "what has waited")
    equal(client.log(probe("held")).log.split().count("P"), 40, "how often they ran")
    newcomer.ask(probe("x"), pb.PingReq())


if __name__ == "__main__":
    harness.main(globals())
