"""The orderly stop, and the one that is not."""
import contextlib
import os
import resource
import select
import signal
import socket
import ssl
import subprocess
import time

import harness
from harness import Raw, RawLink, Spot, api, check, equal, pb, probe, raises, wait_until, wire
from zlink_fake_node import server_context


def busy(mesh, count=4, **config):
    """A node with handlers that wait for the hand."""
    node = mesh.node("a", **config)
    hand, client = mesh.hand(node), mesh.client(node)
    hows = (pb.ASYNC, pb.YIELD, pb.ASYNC_THEN, pb.YIELD_THEN)
    waits = [client.start(Spot("scribe", f"s{index}"), pb.WaitReq(tag="A", how=hows[index % 4], channel="latch"))
             for index in range(count)]
    return node, hand, client, waits, [hand.take("A") for _ in range(count)]


# EX-62, TR-95: SIGTERM lets the handlers that run finish, and their replies arrive; new calls get ShuttingDown; 0.
def test_ex62_tr95_drains(mesh):
    node, hand, client, waits, calls = busy(mesh, 40)
    node.signal(signal.SIGTERM)
    check(client.wait_for(lambda c: c.peer_draining, 20), "the client is not told that the node drains")
    check(hand.wait_for(lambda c: c.peer_draining, 20), "the peer is not told that the node drains")
    raises(api.ShuttingDown, client.ask, Spot("scribe", "s0"), pb.PingReq())
    raises(api.ShuttingDown, client.ask, probe("new"), pb.PingReq())
    raises(api.ShuttingDown, client.ask, harness.FAR, pb.PingReq())
    equal(node.status()["state"], "draining", "the state")
    error = raises((api.AdmissionRejected, api.Unavailable), mesh.client, node, "late")
    check(not isinstance(error, api.AdmissionRejected) or error.code == 9, f"REJECT code of a newcomer: {error}")
    check(not any(wait.done() for wait in waits), "a handler has ended before its reply")
    for call in calls:
        call.reply()
    equal([wait.outcome() for wait in waits], ["Ok"] * 40, "the handlers that were on their way")
    node.wait_exit(0)
    equal(sorted(name for name in os.listdir(mesh.folder) if name[0] == "s" and name[1:].isdigit()),
          sorted(f"s{index}" for index in range(40)), "the files that on_closing wrote")
    check(not os.path.exists(node.control), "the control socket was left behind")
    node.wait_log("zlink.node.stopped", "outcome=Stopped")


# TR-95: the last replies cannot be overtaken by the end of the other connection: Completion is closed first, Application
# only when the peer has closed, too.
def test_tr95_completion_ends_first(mesh):
    node = mesh.node("a", transport="plain-without-encryption-or-authentication")
    hand = mesh.hand(node)
    link = RawLink(node)
    envelope = wire.call_envelope(probe("x"), "tests.mesh.WaitReq")
    wait = pb.WaitReq(tag="A", how=pb.YIELD, channel="latch")
    link.application.send(wire.Frame(wire.REQUEST, envelope, wait.SerializeToString(), reply_route_id=5,
                                     deadline_ms=30000))
    call = hand.take("A")
    node.signal(signal.SIGTERM)
    equal(link.application.receive().kind, wire.UPDATE, "what comes on Application")
    call.reply()
    answer = link.completion.receive()
    while answer.kind == wire.ANNOUNCE:
        answer = link.completion.receive()
    equal((answer.kind, answer.reply_route_id), (wire.REPLY, 5), "what comes on Completion")
    raises(EOFError, link.completion.receive)
    readable, _, _ = select.select([link.application.frames.socket], [], [], 0.3)
    equal(readable, [], "Application, while this end of Completion is open")
    link.completion.close()
    link.application.wait_closed("after Completion")
    node.wait_exit(0)


# EX-62: a node that drains introduces itself to nobody any more: an attempt that was on its way ends without a HELLO.
def test_ex62_no_hello_while_draining(mesh):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        node, _, client, waits, calls = busy(mesh, 1, peers=[f"127.0.0.1:{listener.getsockname()[1]}"])
        listener.settimeout(harness.WAIT_S)
        attempts = [listener.accept()[0]]
        node.signal(signal.SIGTERM)
        check(client.wait_for(lambda c: c.peer_draining, 20), "the node drains")
        listener.settimeout(0)
        with contextlib.suppress(BlockingIOError):  # a slow machine may have given up the first
            while True:
                attempts.append(listener.accept()[0])
        files = mesh.certificate("far")
        context = server_context(files["certificate"], files["key"], files["ca"])
        for peer in attempts:
            peer.settimeout(harness.WAIT_S)
            said = b""
            with contextlib.suppress(ConnectionError, ssl.SSLError), context.wrap_socket(peer, server_side=True) as tls:
                said = tls.recv(1)
            equal(said, b"", "what it says after the handshake")
        calls[0].reply()
        equal(waits[0].outcome(), "Ok", "the handler that was on its way")
        node.wait_exit(0)
        raises(BlockingIOError, listener.accept)


# A draining node's peers take it for no target any more, and use another one.
def test_draining_node_is_not_picked(mesh):
    far = [mesh.node(name, ("far",)) for name in "bc"]
    node = mesh.node("a", ("probe",), peers=far)
    node.wait_links("b", "c")
    hand = mesh.hand(far[1])
    client = mesh.client(node)
    held = mesh.client(far[1], "holder").start(harness.SLOW, pb.WaitReq(tag="A", how=pb.ASYNC, channel="latch"))
    call = hand.take("A")
    far[1].signal(signal.SIGTERM)
    wait_until(lambda: any(link["name"] == "c" and link["draining"] for link in node.links()), "a knows that c drains")
    ask = pb.WaitReq(how=pb.YIELD, channel="far")
    equal({client.ask(probe("x"), ask).status for _ in range(20)}, {"Ok"}, "the calls meanwhile")
    call.reply()
    equal(held.outcome(), "Ok", "the handler that was on its way")
    far[1].wait_exit(0)
    equal({client.ask(probe("x"), ask).status for _ in range(20)}, {"Ok"}, "the calls afterwards")


# An idle node with links stops at once; its peers see an orderly end.
def test_tr51_idle_node_stops(mesh):
    first = mesh.node("a")
    second = mesh.node("b", peers=[first])
    second.wait_links("a")
    client = mesh.client(second)
    second.stop()
    first.wait_links()
    check(client.wait_for(lambda c: c.error is not None), "the client's link lives")
    equal(mesh.client(first, "other").ask(probe("x"), pb.PingReq()).owner, "x", "the other node")


# Somebody who just stays connected to the control socket does not hold the stop up.
def test_idle_control_connection(mesh):
    node = mesh.node("a")
    with socket.socket(socket.AF_UNIX) as idle:
        idle.connect(node.control)
        node.status()  # connections are taken in their order
        begin = time.monotonic()
        node.stop()
        check(time.monotonic() - begin < 4, f"the stop took {time.monotonic() - begin:.1f} s")
        equal(idle.recv(1), b"", "what the idle one is told")


# Strangers who connect and say nothing do not hold the stop up: neither on a plain port, nor with a certificate.
def test_silent_strangers(mesh):
    for name, transport in (("a", "tls"), ("p", "plain-without-encryption-or-authentication")):
        node = mesh.node(name, transport=transport)
        silent = [Raw(node, mesh.certificate("tool", "client") if transport == "tls" else None) for _ in range(5)]
        wait_until(lambda: node.connections() == 5, "all are connected")
        begin = time.monotonic()
        node.stop()
        check(time.monotonic() - begin < 4, f"the stop took {time.monotonic() - begin:.1f} s with {transport}")
        for connection in silent:
            connection.wait_closed("a stranger of a node that has stopped")


# A node that is started without stdin, stdout and stderr opens nothing in their places.
def test_closed_standard_files(mesh):
    node = mesh.node("a", start=False)
    node.write_config()
    node.process = subprocess.Popen(["/bin/sh", "-c", 'exec "$0" --config "$1" 0<&- 1>&- 2>&-',
                                     mesh.program("node/zlink-node"), node.config_path])
    node.wait_serving()
    equal({os.readlink(f"/proc/{node.process.pid}/fd/{number}") for number in range(3)}, {"/dev/null"}, "0, 1 and 2")
    node.stop()


# Nor does a log that may not grow end it: only lines are lost.
def test_log_at_its_size_limit(mesh):
    node = mesh.node("a", start=False)
    node.write_config()
    with open(node.stderr_path, "ab") as stderr:
        node.process = subprocess.Popen(
            [mesh.program("node/zlink-node"), "--config", node.config_path], stderr=stderr,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024)))
    node.wait_serving()
    for number in range(8):
        mesh.client(node, f"c{number}").close()
    node.wait_counter("zlink.log.lines_dropped", 1)
    node.stop()


# A second signal ends it at once, with 1.
def test_second_signal_forces(mesh):
    node, _, _, waits, _ = busy(mesh)
    node.signal(signal.SIGTERM)
    node.wait_log("zlink.node.draining")
    # Within 100 ms a second one is taken for an echo of the first.
    def again():
        if node.process.poll() is None:
            node.signal(signal.SIGTERM)
        return node.process.poll() is not None

    wait_until(again, "the end")
    node.wait_exit(1)
    check("a second signal" in node.wait_log("zlink.node.forced"), "the reason")
    equal({wait.outcome() for wait in waits}, {"Unavailable"}, "the handlers that never ended")
    check(not os.path.exists(node.control), "the control socket was left behind")


# SIGINT is as good as SIGTERM.
def test_interrupt_stops(mesh):
    node = mesh.node("a")
    node.signal(signal.SIGINT)
    node.wait_exit(0)


# The deadline of the stop holds, whatever the handlers do; 1, and a line that says so.
def test_ex63_deadline_overrun(mesh):
    node, _, _, waits, _ = busy(mesh, shutdown_timeout="300ms")
    begin = time.monotonic()
    node.signal(signal.SIGTERM)
    node.wait_exit(1)
    check(time.monotonic() - begin >= 0.3, "it did not wait for its handlers")
    check("DeadlineExceeded" in node.wait_log("zlink.node.forced"), "the reason")
    equal({wait.outcome() for wait in waits}, {"Unavailable"}, "the handlers that never ended")


# A handler whose own calls time out while the node drains ends by itself.
def test_ex62_waits_end_by_their_deadline(mesh):
    node = mesh.node("a")
    hand, client = mesh.hand(node), mesh.client(node)
    waits = [client.start(probe(f"s{how}"), pb.WaitReq(tag="A", how=how, channel="latch", timeout_ms=400))
             for how in (pb.ASYNC, pb.YIELD, pb.ASYNC_THEN, pb.YIELD_THEN)]
    for _ in waits:
        hand.take("A")
    node.signal(signal.SIGTERM)
    equal([wait.result().status for wait in waits], ["DeadlineExceeded"] * 4, "the waits")
    node.wait_exit(0)


# While it drains, a running handler may still call others: the work that was accepted needs them.
def test_running_handler_may_call_while_draining(mesh):
    far = mesh.node("b", ("far",))
    node = mesh.node("a", ("probe",), peers=[far])
    node.wait_links("b")
    hand, client = mesh.hand(far), mesh.client(node)
    waiting = client.start(probe("x"), pb.WaitReq(tag="A", how=pb.YIELD, channel="slow"))
    # `slow` has no wait of its own for a LatchReq; the Spot's reply comes from the other node at once.
    equal(waiting.result().status, "Ok", "a call before")
    held = mesh.client(far, "holder").start(harness.SLOW, pb.WaitReq(tag="B", how=pb.ASYNC, channel="latch"))
    call = hand.take("B")
    waiting = client.start(probe("x"), pb.WaitReq(tag="C", how=pb.YIELD, channel="slow"))
    far.wait_counter("zlink.requests.received", 3)  # C stands behind B in the channel
    node.signal(signal.SIGTERM)
    check(client.wait_for(lambda c: c.peer_draining, 20), "the node drains")
    call.reply()
    equal(waiting.result().status, "Ok", "the call that was on its way")
    equal(held.outcome(), "Ok", "the channel's own work")
    node.wait_exit(0)


# on_closing runs for every Spot, however many there are.
def test_on_closing_runs_for_every_spot(mesh):
    node = mesh.node("a")
    client = mesh.client(node)
    count = 300
    started = [client.start(Spot("scribe", f"s{index}"), pb.PingReq(tag=f"t{index}")) for index in range(count)]
    equal({request.outcome() for request in started}, {"Ok"}, "the requests")
    node.stop()
    for index in range(count):
        with open(mesh.path(f"s{index}"), encoding="utf-8") as file:
            equal(file.read(), f"closed: t{index}\n", "what on_closing saw")


# Signals in the middle of a load: every call has an end, and the node stops with 0.
def test_stop_in_mid_load(mesh):
    far = mesh.node("b", ("far",))
    node = mesh.node("a", ("probe",), peers=[far])
    node.wait_links("b")
    count = 50000
    load = mesh.load([node], "spot:probe/load-{}", pb.WaitReq(how=pb.YIELD, channel="far", pass_on=True), count, 128,
                     "--spread", "20", background=True)
    node.wait_counter("zlink.handlers.completed", 500)
    node.stop()
    summary = mesh.load_result(load)
    equal(summary["ok"] + sum(summary["failed"].values()), count, f"the ends ({summary})")
    check(set(summary["failed"]) <= {"ShuttingDown", "Unavailable", "DeadlineExceeded"}, f"other ends: {summary}")
    far.wait_links()


# EX-62: a stop waits for accepted handlers, and so for their work; what that work does after its time is waited for, too.
def test_ex62_work_of_a_stopping_node(mesh):
    node = mesh.node("a")
    client = mesh.client(node)
    waits = [client.start(probe("x"), pb.WorkReq(tag="A", how=how, timeout_ms=400))
             for how in (pb.YIELD, pb.YIELD_THEN, pb.ASYNC)]
    client.fence()
    node.signal(signal.SIGTERM)
    equal({wait.result().status for wait in waits}, {"DeadlineExceeded"}, "the work")
    node.wait_exit(0)


# EX-63: work that never ends cannot hold a stop up for longer than its time.
def test_ex63_work_that_never_ends(mesh):
    node = mesh.node("a", shutdown_timeout="1s")
    client = mesh.client(node)
    result = client.ask(probe("x"), pb.WorkReq(tag="A", how=pb.YIELD, io=True, timeout_ms=50))
    equal(result.status, "DeadlineExceeded", "the work")
    node.signal(signal.SIGTERM)
    node.wait_exit(1)
    node.wait_log("zlink.node.forced", "DeadlineExceeded")


if __name__ == "__main__":
    harness.main(globals())
