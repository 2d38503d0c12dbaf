"""ClientServer channels between whole nodes: one connection for a pair, who calls, waiting for a server, the stop."""
import re
import signal
import socket
import time
import uuid

import harness
from harness import FAR, SLOW, check, equal, pb, probe, raises, wait_until, wire
from zlink_fake_node import server_context
from zlink_wire_client import AdmissionRejected, FrameConnection, NotFound, WireError

HERE = "127.0.0.1:0"


def serving(channel, listen=HERE, **more):
    return {"channel": channel, "role": "server", "listen": listen, **more}


def calling(channel, *servers, **more):
    return {"channel": channel, "role": "client", "servers": list(servers), **more}


def server(mesh, name, channel="far", **more):
    return mesh.node(name, ("far",), client_servers=[serving(channel)], **more)


def side(node, role="server", channel="far"):
    """What the node's status says of its side of the channel."""
    return next(side for side in node.status()["client_servers"] if (side["channel"], side["role"]) == (channel, role))


def address(node, channel="far"):
    return side(node, channel=channel)["listen"]


def wait_pairs(node, *names, role="client", channel="far"):
    """Exactly these have a ready link of that channel with the node."""
    def ready():
        return sorted(link["name"] for link in side(node, role, channel)["links"] if link["state"] == "ready")

    wait_until(lambda: ready() == sorted(names),
               lambda: f"{node.name} has pairs with {names}: {side(node, role, channel)}")


def ask(client, channel="far", tag="x", **more):
    """How a probe's call of the channel ends."""
    return client.ask(probe("p"), pb.WaitReq(tag=tag, how=pb.ASYNC, channel=channel, **more)).status


def refused(mesh, modules=("far",), **changes):
    """The one line with which a node `x` of this configuration does not start."""
    node = mesh.node("x", modules, start=False, **changes)
    node.write_config()
    mesh.nodes.remove(node)
    result = mesh.run(mesh.program("node/zlink-node"), "--config", node.config_path)
    equal(result.code, 1, f"exit code ({result.err})")
    return result.err.splitlines()[-1]


def port_of(node, channel="far"):
    return int(address(node, channel).rsplit(":", 1)[1])


def foreign(mesh, node, channel="far", called=None):
    """A client that is no node of this project, at the node's server of the channel."""
    files = mesh.certificate("foreign", "client")
    return harness.Client.connect("127.0.0.1", port_of(node, channel), harness.MESH, files["certificate"], files["key"],
                                  files["ca"], channel=called or channel)


def established(port):
    return sum(local == port and state == harness.ESTABLISHED for local, state in harness.tcp_sockets())


# TR-8: calls and replies of a pair go over one connection, which the client has dialled, authenticated on both sides.
def test_tr8_one_connection_per_pair(mesh):
    a = server(mesh, "a")
    b = mesh.node("b", ("probe",), client_servers=[calling("far", f"a@{address(a)}")])
    wait_pairs(b, "a")
    client = mesh.client(b)
    for _ in range(5):
        equal(ask(client), "Ok", "a call")
    equal(established(port_of(a)), 1, "connections of the pair")
    equal((a.links(), [link["name"] for link in b.links()]), ([], ["tool"]), "links of the mesh")
    link = side(b, "client")["links"][0]
    check("CHACHA20" in link["cipher"] or "AES" in link["cipher"], f"the cipher: {link}")
    check(link["dialled_here"] and not side(a)["links"][0]["dialled_here"], "who dialled")
    equal(side(a)["links"][0]["name"], "b", "whom the server knows")
    out = mesh.ctl_ok("status", b.control).out
    check(re.search(r"^client +far\npair +far ready a-", out, re.M), f"zlinkctl status of the client: {out}")
    out = mesh.ctl_ok("status", a.control).out
    check(re.search(r"^server +far listen 127\.0\.0\.1:\d+ \(weight 100\)\npair +far ready b-", out, re.M),
          f"zlinkctl status of the server: {out}")


# TR-37: where a process is client and server, its own server gets its share, and not more, over the same transport. A
# handler of the channel is not sent to itself.
def test_tr37_the_own_server_is_one_of_them(mesh):
    a = server(mesh, "a")
    b = mesh.node("b", ("probe", "far"), client_servers=[
        {"channel": "far", "role": "both", "listen": HERE, "servers": [address(a)]}])
    wait_pairs(b, "a", "b")
    equal(established(port_of(b)), 1, "connections to the own server")
    client = mesh.client(b)
    for index in range(40):
        equal(ask(client, tag=str(index)), "Ok", "a call")
    with foreign(mesh, b) as tool:
        own = tool.log(FAR).total
        check(14 <= own <= 26, f"calls of 40 that the own server got: {own}")
        # From the handler of the channel itself: b is busy with it, so a answers each of these.
        for index in range(4):
            equal(tool.ask(FAR, pb.WaitReq(tag=f"n{index}", how=pb.ASYNC, channel="far")).status, "Ok", "a nested call")
        equal(tool.log(FAR).total, own, "nested calls that the own server got")
    a.stop()
    wait_pairs(b, "b")
    with foreign(mesh, b) as tool:
        equal(tool.ask(FAR, pb.WaitReq(tag="m", how=pb.ASYNC, channel="far")).status, "InvalidOperation",
              "a call to the own server alone, from its own handler")


# TR-38: who only serves a channel may not call it; and it is no channel of the mesh.
def test_tr38_no_client_role(mesh):
    a = mesh.node("a", ("probe", "far"), client_servers=[serving("far")])
    client = mesh.client(a)
    equal(ask(client), "NotConfigured", "a call without the client role")
    raises(NotFound, client.ask, FAR, pb.PingReq(tag="x"))
    equal(client.ask(SLOW, pb.PingReq(tag="x")).owner, "slow", "the other channel of the module")
    equal((a.status()["weights"], side(a)["weight"]), ({"slow": 100}, 100), "weights")


# TR-39: a call that is made before a server is ready waits for it; without any it ends after 5 s, or its own time.
def test_tr39_a_call_waits_for_a_server(mesh):
    a = server(mesh, "a")
    a.config["client_servers"][0]["listen"] = address(a)
    b = mesh.node("b", ("probe",), client_servers=[calling("far", address(a))])
    client = mesh.client(b)
    for _ in range(5):  # a machine that needs 5 s to start a node gets another chance
        a.stop()
        wait_pairs(b)
        before = b.counter("zlink.client_server.ready_waits")
        call = client.start(probe("p"), pb.WaitReq(tag="x", how=pb.ASYNC, channel="far"))
        b.wait_counter("zlink.client_server.ready_waits", before + 1)
        a.start()
        status = call.result().status
        if status == "Ok":
            break
        equal(status, "DeadlineExceeded", "a call that has waited for 5 s")
    equal(status, "Ok", "a call that was made before the server was ready")
    a.stop()
    wait_pairs(b)
    equal(ask(client, timeout_ms=100), "DeadlineExceeded", "a call with 100 ms")
    begun = time.monotonic()
    equal(ask(client), "DeadlineExceeded", "a call with 30 s")
    check(time.monotonic() - begun >= 4.9, "it has not waited for 5 s")


# TR-2, TR-3: both sides of one channel start, in one entry or in two; nothing twice, and no name in two topologies.
def test_tr2_tr3_starts(mesh):
    a = mesh.node("a", ("probe", "far"), client_servers=[serving("far"), {"channel": "far", "role": "client"}])
    wait_pairs(a, "a")
    equal(ask(mesh.client(a)), "Ok", "a call to the own server")
    line = refused(mesh, client_servers=[serving("far"), serving("far")])
    check(re.search(r"x\.yaml:\d+: client_servers\[1\]\.role: server: client_servers\[0\] of this", line), line)
    line = refused(mesh, client_servers=[serving("far")], channels=[{"name": "far", "role": "client"}])
    check(re.search(r"x\.yaml:\d+: client_servers\[0\]\.channel: is a channel of the mesh, too", line), line)
    line = refused(mesh, client_servers=[serving("nowhere")])
    check("client_servers[0].channel: no module has a channel nowhere to serve" in line, line)
    line = refused(mesh, client_servers=[serving("slow"), serving("far", address(a))])
    check(f"client_servers[1].listen: cannot listen on {address(a)}: " in line, line)


# TR-14: neither another mesh's certificate, nor another node than the expected one, nor the wrong port is let in.
def test_tr14_who_is_not_let_in(mesh):
    a = server(mesh, "a")
    b = mesh.node("b", ("probe",), client_servers=[calling("far", f"other@{address(a)}")])
    b.wait_log("zlink.peer.unreachable", "another node than the expected one answers")
    c = mesh.node("c", ("probe",), client_servers=[calling("far", a.address)])
    c.wait_log("zlink.peer.refused_us", "another topology")
    d = mesh.node("d", ("probe",), client_servers=[calling("slow", address(a))])
    d.wait_log("zlink.peer.refused_us", "another channel")
    for node, channel in ((b, "far"), (c, "far"), (d, "slow")):
        wait_pairs(node, channel=channel)
    alien = mesh.certificate("alien", "client", "others", "others")
    raises(WireError, harness.Client.connect, "127.0.0.1", port_of(a), "others",
           alien["certificate"], alien["key"], alien["ca"], channel="far")
    error = raises(AdmissionRejected, foreign, mesh, a, "far", "slow")
    equal(error.code, 5, "the code of the rejection")
    equal(side(a)["links"], [], "pairs of a")


class HandServer:
    """A server of one channel by hand: it admits whoever dials, and the test says what goes over the connection."""

    def __init__(self, mesh, name, channel="far"):
        files = mesh.certificate(name)
        self._context = server_context(files["certificate"], files["key"], files["ca"])
        self._name, self._channel = name, channel
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(harness.WAIT_S)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def admit(self):
        """The next connection, admitted."""
        raw, _ = self._listener.accept()
        connection = FrameConnection(self._context.wrap_socket(raw, server_side=True), timeout=harness.WAIT_S)
        hello = wire.parse(wire.pb.Hello, connection.receive().envelope)
        equal((hello.topology, hello.role, [(c.name, c.weight) for c in hello.channels]),
              (wire.CLIENT_SERVER, wire.ROLE_CLIENT, [(self._channel, 0)]), "what the client says")
        connection.send(wire.hello_frame(
            wire.ADMIT, [(self._channel, 100)], topology=wire.CLIENT_SERVER, protocol_major=1, mesh=harness.MESH,
            node_id=f"{self._name}-{uuid.uuid4()}", link_id=hello.link_id, generation=7, revision=1,
            role=wire.ROLE_SERVER, max_body_bytes=2**20))
        return connection

    def close(self):
        self._listener.close()


# TR-40: whatever a server sends of its own accord costs it the connection and reaches no handler, though the client's
# process has one for it. Then the client dials again.
def test_tr40_a_server_that_calls(mesh):
    hand = HandServer(mesh, "hand")
    b = mesh.node("b", ("probe", "far"), client_servers=[
        {"channel": "far", "role": "both", "listen": HERE, "servers": [hand.address]}])
    envelope = wire.call_envelope(FAR, "tests.mesh.Note")
    note = pb.Note(tag="unasked").SerializeToString()
    for frame in (wire.Frame(wire.SEND, envelope, note),
                  wire.Frame(wire.REQUEST, wire.call_envelope(FAR, "tests.mesh.PingReq"), note, reply_route_id=1,
                             deadline_ms=1000),
                  wire.Frame(wire.CANCEL, reply_route_id=1)):
        connection = hand.admit()
        wait_pairs(b, "b", "hand")
        connection.send(frame)
        raises((EOFError, OSError), connection.receive)
        connection.release()
    b.wait_log("zlink.peer.lost", "from a server")
    hand.close()
    with foreign(mesh, b) as tool:
        equal(tool.log(FAR).log, "", "what reached the handlers")


# A client in another language: it calls its channel, and nothing else.
def test_a_foreign_client(mesh):
    a = server(mesh, "a")
    with foreign(mesh, a) as client:
        equal(client.ask(FAR, pb.PingReq(tag="hello")).owner, "far", "the owner")
        client.tell(FAR, pb.Note(tag="note"))
        equal(client.log(FAR).log, "hello note", "what arrived")
        check(client.application.probe(77), "a probe is not answered")
        raises(WireError, client.ask, SLOW, pb.PingReq(tag="no"))
        check(client.wait_for(lambda c: c.error is not None), "a call to another channel does not end the connection")
    equal(a.counter("zlink.mesh_node.messages.dropped.no_handler"), 0, "calls that reached the node")


# Weights are those of the configuration and of zlinkctl; a server that has died and comes back is used again.
def test_tr28_weights_and_restarts(mesh):
    a = server(mesh, "a")
    b = mesh.node("b", ("far",), client_servers=[serving("far", weight="300")])
    c = mesh.node("c", ("probe",), client_servers=[calling("far", address(a), address(b))])
    wait_pairs(c, "a", "b")
    client = mesh.client(c)
    received = "zlink.requests.received"
    for _ in range(20):
        equal(ask(client), "Ok", "a call")
    equal((a.counter(received), b.counter(received)), (5, 15), "calls at 100:300")
    mesh.ctl_ok("weight", b.control, "far", "0")
    wait_until(lambda: [link["weights"]["far"] for link in side(c, "client")["links"] if link["name"] == "b"] == [0],
               "c knows the new weight")
    for _ in range(4):
        equal(ask(client), "Ok", "a call")
    equal((a.counter(received), b.counter(received)), (9, 15), "calls at 100:0")
    a.config["client_servers"][0]["listen"] = address(a)
    a.keep_port()
    a.kill()
    wait_pairs(c, "b")
    a.start()
    wait_pairs(c, "a", "b")
    equal(ask(client), "Ok", "a call to the restarted server")
    equal(a.counter(received), 1, "calls in its new life")


def holding(mesh, **config):
    """A server whose handler of "slow" waits for the hand, and a client whose probe waits for it."""
    a = server(mesh, "a", "slow", **config)
    hand = mesh.hand(a)
    b = mesh.node("b", ("probe",), client_servers=[calling("slow", address(a, "slow"))])
    wait_pairs(b, "a", channel="slow")
    tool = foreign(mesh, a, "slow")
    held = tool.start(SLOW, pb.WaitReq(tag="held", how=pb.ASYNC, channel="latch"), 60)
    return a, b, tool, held, hand.take("held")


# EX-62: a server that stops finishes what it has, tells its clients, and gets nothing new; its client looks elsewhere.
def test_ex62_a_server_that_stops(mesh):
    a, b, tool, held, call = holding(mesh)
    client = mesh.client(b)
    a.signal(signal.SIGTERM)
    check(tool.wait_for(lambda c: c.peer_draining, 20), "the client is not told that the server drains")
    wait_until(lambda: side(b, "client", "slow")["links"][0]["draining"], "b knows that a drains")
    equal(ask(client, "slow", timeout_ms=100), "DeadlineExceeded", "a call when the only server drains")
    raises(WireError, tool.ask, SLOW, pb.PingReq(tag="x"))
    check(not held.done(), "the handler has ended before its reply")
    call.reply()
    equal(held.result().status, "Ok", "the handler that ran")
    a.wait_exit(0)
    tool.close()
    wait_pairs(b, channel="slow")


# EX-36: with every permit in use for longer than the 15 s of the liveness no pair is lost: neither one whose calls are
# not read, with the answers to the server's probes behind them, nor one that has been told to pause. What has waited
# goes on. TR-58, EX-40: a request that is not answered meanwhile ends once, in time.
@harness.limit(120)
def test_ex36_ex40_tr58_no_permit_for_long(mesh):
    a, b, tool, held, call = holding(mesh, limits={"max_queued_application_jobs": "1"})
    client = mesh.client(b)
    tool.obeys_flow_state = False
    for index in range(20):
        tool.tell(SLOW, pb.Note(tag=f"n{index}"))  # it does not care for being told to pause
    late = tool.start(SLOW, pb.PingReq(tag="late"), 0.3)
    equal(late.outcome(), "DeadlineExceeded", "a request behind data that is not read")
    equal(client.ask(probe("q"), pb.WaitReq(tag="paused", how=pb.ASYNC, channel="slow", timeout_ms=300)).status,
          "DeadlineExceeded", "a request to a server that has paused")
    ready = lambda: [link["ready_ms"] for link in side(b, "client", "slow")["links"]]  # noqa: E731
    wait_until(lambda: ready() and ready()[0] > 21000, lambda: f"21 s of readiness: {ready()}", 60)
    equal((a.counter("zlink.mesh_node.peers.lost"), b.counter("zlink.mesh_node.peers.lost")), (0, 0), "lost links")
    answered = tool.application.probes_answered
    check(answered >= 3, f"probes of a server that does not read: {answered}")
    call.reply()
    equal(held.result().status, "Ok", "the handler that held the permit")
    equal(client.ask(probe("q"), pb.WaitReq(tag="next", how=pb.ASYNC, channel="slow")).status, "Ok", "the next call")
    log = tool.log(SLOW).log.split()
    equal([tag for tag in log if tag[0] == "n" and tag != "next"], [f"n{index}" for index in range(20)], "what arrived")
    equal(log.count("next"), 1, "the next call, which had its turn among them")
    check(tool.error is None, f"the connection of the foreign client: {tool.error}")
    tool.close()


if __name__ == "__main__":
    harness.main(globals())
