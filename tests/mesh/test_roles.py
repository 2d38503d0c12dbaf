"""Who is what in a mesh: weights and their change, roles, links that nobody needs, expected peers, calls to one node."""
import re
import shutil

import harness
from harness import FAR, Channel, check, equal, pb, probe, raises, wait_until
from zlink_frames import Node
from zlink_wire_client import NotFound

DIRECT = Channel("direct")


def counts(clients, *nodes):
    """How many requests each node's "far" has answered."""
    return [clients[node.name].log(FAR).total for node in nodes]


def linked(node, name):
    """The ready link to that peer, None where there is none."""
    return next((link for link in node.links() if link["name"] == name), None)


def wait_known(node, peer, weight):
    """Until the node knows that the peer's "far" weighs that."""
    wait_until(lambda: (linked(node, peer) or {"weights": {}})["weights"].get("far") == weight,
               lambda: f"{node.name} knows what {peer} weighs: {node.links()}")


def own_id(node):
    return node.status()["node_id"]


def refused(mesh, **changes):
    """The one line with which a node `x` of this configuration does not start."""
    node = mesh.node("x", start=False, **changes)
    node.write_config()
    mesh.nodes.remove(node)
    result = mesh.run(mesh.program("node/zlink-node"), "--config", node.config_path)
    equal(result.code, 1, f"exit code ({result.err})")
    return result.err.splitlines()[-1]


# ---- weights ----

def three(mesh, **weights):
    """`caller` dials `a` and `b`, which serve "far"."""
    nodes = [mesh.node(name, ("far",), **({"channels": [{"name": "far", "weight": weights[name]}]}
                                          if name in weights else {})) for name in ("a", "b")]
    caller = mesh.node("caller", ("probe",), peers=nodes)
    caller.wait_links("a", "b")
    clients = {node.name: mesh.client(node, f"tool-{node.name}") for node in (*nodes, caller)}
    return (*nodes, caller, clients)


def shares(clients, count, a, b, caller):
    """Of that many calls of the caller's, how many a and b got."""
    before = counts(clients, a, b)
    for index in range(count):
        reply = clients[caller.name].ask(probe("p"), pb.WaitReq(tag=str(index), how=pb.ASYNC, channel="far"))
        equal(reply.status, "Ok", "a call")
    return [after - earlier for after, earlier in zip(counts(clients, a, b), before)]


# TR-28: a change is followed at once, on the links that are there; a weight that was configured counts from the start.
def test_tr28_tr34_weights(mesh):
    a, b, caller, clients = three(mesh, b=300)
    equal(shares(clients, 40, a, b, caller), [10, 30], "at 100:300")
    links = {link["name"]: link for link in caller.links()}
    equal([links[name]["weights"]["far"] for name in "ab"], [100, 300], "the weights that the caller knows")
    equal((a.status()["weights"], b.status()["weights"]), ({"far": 100, "slow": 100}, {"far": 300, "slow": 100}),
          "the nodes' own weights")
    mesh.ctl_ok("weight", b.control, "far", "100")
    wait_known(caller, "b", 100)
    equal(shares(clients, 40, a, b, caller), [20, 20], "at 100:100")
    equal(caller.counter("zlink.mesh_node.peers.lost"), 0, "lost links")
    check("zlink.channel.weight" in b.stderr(), "the change is not logged")


# TR-36: weight 0 gets nothing new, from nobody, and finishes what it has; a draining node likewise.
def test_tr36_weight_0_and_draining(mesh):
    a, b, caller, clients = three(mesh)
    mesh.ctl_ok("weight", b.control, "far", "0")
    wait_known(caller, "b", 0)
    equal(shares(clients, 10, a, b, caller), [10, 0], "at 100:0")
    check("far (weight 0) slow\n" in mesh.ctl_ok("status", b.control).out, "zlinkctl status does not tell")
    hand = mesh.hand(b, name="hand")  # holds a handler of b's "slow"
    slow = clients["b"].start(Channel("slow"), pb.WaitReq(tag="held", how=pb.ASYNC, channel="latch"))
    held = hand.take("held")
    mesh.ctl_ok("weight", b.control, "slow", "0")
    mesh.ctl_ok("weight", a.control, "far", "0")
    wait_known(caller, "a", 0)
    reply = clients["caller"].ask(probe("p"), pb.WaitReq(tag="none", how=pb.ASYNC, channel="far"))
    equal(reply.status, "Unavailable", "a call to a channel whose members all weigh 0")
    held.reply()
    equal(slow.result().status, "Ok", "the handler that ran when its weight became 0")
    mesh.ctl_ok("weight", a.control, "far", "1")
    wait_known(caller, "a", 1)
    equal(shares(clients, 5, a, b, caller), [5, 0], "at 1:0")


# TR-4: weights that are none, at the start and later.
def test_tr4_weights_that_are_none(mesh):
    for weight in ("-1", "10001", "many"):
        line = refused(mesh, channels=[{"name": "far", "weight": weight}])
        check(re.search(r"x\.yaml:\d+: channels\[0\]\.weight: ", line), f"for {weight}: {line}")
    check("channels[0].name: no module has" in refused(mesh, channels=[{"name": "nowhere"}]), "a channel of no module")
    a = mesh.node("a", ("far",))
    equal(a.status()["weights"], {"far": 100, "slow": 100}, "the weights where nothing is said")
    for weight in ("-1", "10001", "1.5", ""):
        equal(mesh.ctl("weight", "--", a.control, "far", weight).code, 2, f"exit code for {weight!r}")
    result = mesh.ctl("weight", a.control, "nowhere", "1")
    check(result.code == 1 and "does not serve" in result.err, f"for a channel that is not there: {result}")
    equal(mesh.ctl("weight", mesh.path("no.sock"), "far", "1").code, 1, "exit code without a node")
    equal(a.status()["weights"], {"far": 100, "slow": 100}, "the weights after that")


# TR-28: a handler changes its own node's weight; peers follow.
def test_tr28_a_handler_sets_a_weight(mesh):
    a = mesh.node("a", ("far", "direct"))
    b = mesh.node("b", ("probe",), peers=[a])
    b.wait_links("a")
    client = mesh.client(a)
    for channel, weight, status in (("far", 7, "Ok"), ("far", 10001, "InvalidOperation"),
                                    ("far", -1, "InvalidOperation"), ("nowhere", 1, "NotFound")):
        equal(client.ask(DIRECT, pb.WeightReq(channel=channel, weight=weight)).status, status, f"{channel} {weight}")
    wait_known(b, "a", 7)
    equal(a.status()["weights"]["far"], 7, "a's own weight")


# ---- roles ----

# A channel that the configuration makes a Client's is called where others serve it, and published by this node no more.
def test_a_channel_that_is_only_called(mesh):
    a = mesh.node("a", ("far",))
    b = mesh.node("b", peers=[a], channels=[{"name": "far", "role": "client"}])
    b.wait_links("a")
    equal((b.status()["channels"], b.status()["weights"]), (["slow"], {"slow": 100}), "what b serves")
    client = mesh.client(b)
    for _ in range(4):
        equal(client.ask(probe("p"), pb.WaitReq(tag="x", how=pb.ASYNC, channel="far")).status, "Ok", "a call")
    equal(mesh.client(a, "tool-a").log(FAR).total, 4, "the calls that a got")
    raises(NotFound, client.ask, FAR, pb.PingReq(tag="x"))


# TR-6: without peers and without a channel a node is ready, and calls out as soon as somebody has linked to it.
def test_tr6_a_node_alone_is_ready(mesh):
    alone = mesh.node("alone", ("probe",))
    client = mesh.client(alone)
    equal(client.ask(probe("p"), pb.WaitReq(tag="x", how=pb.ASYNC, channel="far")).status, "NotFound", "a call before")
    other = mesh.node("other", ("far",), peers=[alone])
    wait_until(lambda: linked(alone, "other") and linked(other, "alone"), "the two are linked")
    equal(client.ask(probe("p"), pb.WaitReq(tag="y", how=pb.ASYNC, channel="far")).status, "Ok", "a call")


# TR-11, TR-12: two object Clients without a membership part and leave it at that; with one, of weight 0, they link.
def test_tr11_tr12_links_that_nobody_needs(mesh):
    a = mesh.node("a", (), object_role="client")
    b = mesh.node("b", (), peers=[a], object_role="client")
    state = lambda: b.status()["peers"][0]["state"]  # noqa: E731
    wait_until(lambda: state() == "not_required", lambda: f"the state of the peer: {state()}")
    equal((a.status()["links"], b.status()["links"]), ([], []), "links")
    for node in (a, b):
        check("level=warn" not in node.stderr() and "level=error" not in node.stderr(), node.stderr())
        equal(node.stderr().count("zlink.peer.not_required"), 1, f"lines of {node.name}")
    equal(a.counter("zlink.mesh_node.admissions.rejected"), 0, "rejections: it is no failure")
    check("not_required" in mesh.ctl_ok("status", b.control).out, "zlinkctl status does not tell")
    b.stop()
    c = mesh.node("c", ("far",), peers=[a], object_role="client", channels=[{"name": "far", "weight": "0"},
                                                                           {"name": "slow", "role": "client"}])
    c.wait_links("a")
    a.wait_links("c")
    equal(a.links()[0]["weights"], {"far": 0}, "what a knows of c")


# TR-5, TR-41: what does not go together stops the start with a line that names it.
def test_tr5_tr41_starts_that_are_refused(mesh):
    line = refused(mesh, modules=("direct",), object_role="client")
    check(re.search(r"x\.yaml: object_role: is client, but a module has handlers of the node itself", line), line)
    check("Spot type probe" in refused(mesh, modules=("probe",), object_role="client"), "a client with Spots")
    twice = mesh.path("again.so")
    shutil.copy(mesh.module("direct"), twice)
    node = mesh.node("x", ("direct",), start=False)
    node.config["modules"].append(twice)
    node.write_config()
    mesh.nodes.remove(node)
    line = mesh.run(mesh.program("node/zlink-node"), "--config", node.config_path).err.splitlines()[-1]
    check("modules[1]: " in line and "module direct: node tests.mesh." in line, line)
    mesh.node("y", ("direct", "far"))  # the same packets in the scopes of the node and of three channels


# TR-13: whoever answers instead of the expected one never gets ready; the expected one does.
def test_tr13_another_node_than_expected(mesh):
    a = mesh.node("a", ("far",))
    b = mesh.node("b", ("probe",), peers=[f"other@{a.address}"])
    b.wait_log("zlink.peer.unreachable", "another node than the expected one answers")
    equal((a.links(), b.links(), b.status()["peers"][0]["expected"]), ([], [], "other"), "links")
    for index, expected in enumerate(("a", own_id(a))):
        good = mesh.node(f"good{index}", ("probe",), peers=[f"{expected}@{a.address}"])
        good.wait_links("a")
    late = mesh.node("late", ("probe",), peers=[f"{own_id(a)[:-1]}0@{a.address}"]
                     if own_id(a)[-1] != "0" else [f"{own_id(a)[:-1]}1@{a.address}"])
    late.wait_log("zlink.peer.unreachable", "another node than the expected one answers")
    equal(late.links(), [], "links to another life")


# ---- one node ----

# TR-30, TR-76: the node of exactly that id, which is NAME-UUID and another one after a restart, when the old one is
# nobody.
def test_tr30_tr76_calls_to_one_node(mesh):
    b = mesh.node("b", ("direct",))
    b.keep_port()
    c = mesh.node("c", ("direct",))
    a = mesh.node("a", ("direct",), peers=[b, c])
    a.wait_links("b", "c")
    client = mesh.client(a)
    for node in (b, c):
        for _ in range(3):
            reply = client.ask(DIRECT, pb.NodeReq(node_id=own_id(node), tag=f"to-{node.name}"))
            if reply.status == "Ok":
                equal((reply.owner, reply.source, reply.mesh), (harness.MESH, own_id(a), harness.MESH), "the answer")
            equal(reply.status, "Ok", "a call")
        equal(client.ask(DIRECT, pb.NodeReq(node_id=own_id(node), tag="note", one_way=True)).status, "Ok", "a message")
        at_node = mesh.client(node, f"tool-{node.name}")
        itself = Node(own_id(node))
        wait_until(lambda n=node, at=at_node, to=itself: at.log(to).log.split() == [f"to-{n.name}"] * 3 + ["note"],
                   lambda at=at_node, to=itself: f"what arrived: {at.log(to).log}")
        equal(at_node.log(DIRECT).log, "", "what the channel got")
    equal(client.ask(DIRECT, pb.NodeReq(node_id=own_id(a), tag="own")).source, own_id(a), "the source of a's own call")
    for nobody in ("b", f"{own_id(b)[:-4]}ffff", own_id(b).upper(), "x" * 100):
        equal(client.ask(DIRECT, pb.NodeReq(node_id=nobody, tag="x")).status, "NotFound", f"a call to {nobody}")
    raises(NotFound, client.ask, Node(own_id(b)), pb.PingReq(tag="x"))  # a does not pass it on
    equal(client.ask(Node(own_id(a)), pb.PingReq(tag="x")).owner, harness.MESH, "the owner's name")
    files = mesh.certificate("tool", "client")
    result = mesh.ctl_ok("call", "--ca", files["ca"], "--cert", files["certificate"], "--key", files["key"], "--connect",
                         a.address, "--hex", "", f"node:{own_id(a)}", "tests.mesh.PingReq")
    check(result.out, "zlinkctl call to a node says nothing")

    old = own_id(b)
    pattern = r"b-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
    check(re.fullmatch(pattern, old), f"a node id: {old}")
    b.stop()
    b.start()
    wait_until(lambda: any(link["peer"] == own_id(b) for link in a.links()), "a is linked to b's new life")
    check(re.fullmatch(pattern, own_id(b)) and own_id(b) != old, f"the node ids of two lives: {old} {own_id(b)}")
    equal(client.ask(DIRECT, pb.NodeReq(node_id=old, tag="x")).status, "NotFound", "a call to the old life")
    equal(client.ask(DIRECT, pb.NodeReq(node_id=own_id(b), tag="x")).status, "Ok", "a call to the new one")


# TR-30: a node without handlers of its own, and a packet that is not among them, are NotFound; so is a Client.
def test_tr30_nothing_to_call(mesh):
    b = mesh.node("b", ("far",))
    c = mesh.node("c", ("far",), object_role="client")
    a = mesh.node("a", ("direct",), peers=[b, c])
    a.wait_links("b", "c")
    client = mesh.client(a)
    for node in (b, c):
        equal(client.ask(DIRECT, pb.NodeReq(node_id=own_id(node), tag="x")).status, "NotFound", f"a call to {node.name}")
    raises(NotFound, client.ask, Node(own_id(a)), pb.CloseReq())
    equal(c.counter("zlink.mesh_node.messages.dropped.no_handler"), 0, "calls that reached the client")
    b.wait_log("zlink.dispatch_error", "no_handler")


if __name__ == "__main__":
    harness.main(globals())
