"""How nodes find, know and lose each other; and who is turned away at the door."""
import os
import socket
import struct

import harness
from harness import (FAR, SLOW, Raw, RawLink, api, check, equal, free_ports, pb, probe, raises, wait_until, wire)

RECEIVED = "zlink.requests.received"
READY = "zlink.mesh_node.peers.ready"
PLAIN = "plain-without-encryption-or-authentication"


def hello_envelope():
    """That of a client that means well."""
    return wire.hello_frame(protocol_major=1, mesh=harness.MESH, lane=wire.APPLICATION, revision=1,
                            role=wire.ROLE_CLIENT, max_body_bytes=2**20, link_id=7, generation=7,
                            node_id="tool-01234567-89ab-4cde-8f01-23456789abcd").envelope


def serves_others(mesh, node):
    """A client from before whose calls must go on; answers a check."""
    client = mesh.client(node, "bystander")

    def check_it():
        check(client.error is None, f"the bystander's link ended: {client.error}")
        equal(client.ask(probe("bystander"), pb.PingReq()).source, client.node_id, "the bystander's call")

    check_it()
    return check_it


# ---- the number of connections ----

# TR-8: a pair of nodes has two TCP connections. TR-7: however many channels and Spot types there are.
def test_tr7_tr8_two_connections_per_pair(mesh):
    first = mesh.node("a", ("probe", "far", "counter", "prices"))
    second = mesh.node("b", ("probe", "far", "counter", "prices"), peers=[first])
    first.wait_links("b")
    link = second.wait_links("a")["a"]
    equal((first.connections(), second.connections()), (2, 0), "established connections")
    check(link["dialled_here"] and link["cipher"].startswith("ECDHE-ECDSA"), f"the link: {link}")
    check(link["peer"].startswith("a-") and len(link["peer"]) == 2 + 36, f"the peer's node id: {link}")
    client = mesh.client(second)
    for channel in ("far", "slow", "prices"):
        client.ask(probe("x"), pb.WaitReq(how=pb.YIELD, channel=channel))
    for index in range(20):
        client.ask(probe("x"), pb.WaitReq(how=pb.YIELD, channel="far"))
        client.ask(probe("x"), pb.SendReq(tag="t", channel="slow"))
    equal(first.connections(), 2, "established connections after calls to several channels")


# Three nodes that each list the ones before them: each pair has one link.
def test_three_nodes_are_fully_linked(mesh):
    nodes = []
    for name in "abc":
        nodes.append(mesh.node(name, peers=list(nodes)))
    for node in nodes:
        others = [other.name for other in nodes if other is not node]
        node.wait_links(*others)
        equal(node.counter(READY), 2, "ready peers")
    equal([node.connections() for node in nodes], [4, 2, 0], "established connections")


# TR-10: two nodes that dial each other at the same time keep one link.
def test_tr10_simultaneous_dials_leave_one_link(mesh):
    for attempt in range(4):
        ports = free_ports(2)
        nodes = [mesh.node(f"n{attempt}{side}", ("probe", "far"), peers=[f"127.0.0.1:{ports[1 - side]}"], start=False,
                           listen=f"127.0.0.1:{ports[side]}") for side in range(2)]
        for node in nodes:
            node.launch()
        for node in nodes:
            node.wait_serving()

        def settled():
            links = [node.status()["links"] for node in nodes]
            connections = sum(node.connections() for node in nodes)
            return all(len(some) == 1 and some[0]["state"] == "ready" for some in links) and connections == 2

        wait_until(settled, lambda: f"one link: {[node.status()['links'] for node in nodes]}, "
                   f"{[node.connections() for node in nodes]} connections")
        dialled = [node.links()[0]["dialled_here"] for node in nodes]
        equal(sorted(dialled), [False, True], "who dialled")
        client = mesh.client(nodes[0], f"tool{attempt}")
        for _ in range(20):
            equal(client.ask(probe("x"), pb.WaitReq(how=pb.YIELD, channel="far")).status, "Ok", "a call")
        links = [node.status()["links"] for node in nodes]
        ready = [sum(link["role"] == "server" and link["state"] == "ready" for link in some) for some in links]
        equal(ready, [1, 1], "links after the calls")
        for node in nodes:
            node.stop()


# A node whose list of peers has its own address in it finds that out and links to the others.
def test_own_address_in_the_list(mesh):
    other = mesh.node("b")
    port, = free_ports(1)
    node = mesh.node("a", listen=f"127.0.0.1:{port}", peers=[f"127.0.0.1:{port}", other.address])
    node.wait_links("b")
    wait_until(lambda: node.connections() == 0 and len(node.status()["links"]) == 1,
               lambda: f"no link to itself: {node.status()['links']}")
    # It does not try again and again: meanwhile other nodes come, go and work.
    client = mesh.client(node)
    for _ in range(50):
        client.ask(probe("x"), pb.WaitReq(how=pb.YIELD, channel="far"))
    equal([link["name"] for link in node.links() if link["role"] == "server"], ["b"], "the links")
    check(node.stderr().count("does not link to itself") <= 4, "it goes on dialling itself")


# ---- loss and return ----

# TR-17: losing one connection of a link ends the other one too, and both are made anew.
def test_tr17_losing_one_connection_renews_both(mesh):
    first = mesh.node("a", ("far",))
    proxy = mesh.proxy(first.port)
    second = mesh.node("b", ("probe",), peers=[f"127.0.0.1:{proxy.port}"])
    second.wait_links("a")
    client = mesh.client(second)
    for lane in (wire.APPLICATION, wire.COMPLETION):
        made = proxy.count()
        lost = second.counter("zlink.mesh_node.peers.lost")
        proxy.cut(made - 2 + lane)
        second.wait_counter("zlink.mesh_node.peers.lost", lost + 1)
        wait_until(lambda: proxy.count() >= made + 2 and second.links() and first.links(),
                   lambda: f"a new link: {second.status()['links']}")
        second.wait_links("a", "tool")
        first.wait_links("b")
        wait_until(lambda: first.connections() == 2, lambda: f"two connections: {first.connections()}")
        equal(proxy.count(), made + 2, "connections made for the new link")
        equal(client.ask(probe("x"), pb.WaitReq(how=pb.YIELD, channel="far")).status, "Ok", "a call afterwards")


# A lost connection ends each open call once, with Unavailable.
def test_tr17_lost_connection_ends_open_calls(mesh):
    first = mesh.node("a", ("far",))
    hand = mesh.hand(first)
    proxy = mesh.proxy(first.port)
    second = mesh.node("b", ("probe",), peers=[f"127.0.0.1:{proxy.port}"])
    second.wait_links("a")
    client = mesh.client(second)
    for lane in (wire.APPLICATION, wire.COMPLETION):
        held = mesh.client(first, f"holder{lane}").start(SLOW, pb.WaitReq(tag="H", how=pb.ASYNC, channel="latch"))
        call = hand.take("H")
        before = first.counter(RECEIVED)
        waits = [client.start(probe(f"s{how}"), pb.WaitReq(how=how, channel="slow"))
                 for how in (pb.ASYNC, pb.YIELD, pb.ASYNC_THEN, pb.YIELD_THEN)]
        first.wait_counter(RECEIVED, before + 4)
        proxy.cut(proxy.count() - 2 + lane)
        equal([wait.result().status for wait in waits], ["Unavailable"] * 4, "the open calls")
        call.reply()
        equal(held.outcome(), "Ok", "the handler on the other side")
        second.wait_links("a", "tool")
        equal(client.ask(probe("x"), pb.WaitReq(how=pb.YIELD, channel="far")).status, "Ok", "a call afterwards")


# TR-54: a peer that was killed and started anew, with a new node id and generation, is used; whoever dials.
def test_tr54_restarted_peer_is_used(mesh):
    first = mesh.node("a", ("far",))
    second = mesh.node("b", ("probe", "far"), peers=[first])
    first.keep_port()
    second.wait_links("a")
    client = mesh.client(second)
    for _ in range(3):
        old = second.wait_links("a", "tool")["a"]["peer"]
        first.kill()
        first.start()
        wait_until(lambda: any(link["name"] == "a" and link["peer"] != old for link in second.links()),
                   "a link to the new life of a")
        first.wait_links("b")
        equal(sorted(link["name"] for link in second.status()["links"]), ["a", "tool"], "the links")
        equal([client.ask(probe("x"), pb.WaitReq(how=pb.YIELD, channel="far")).status for _ in range(4)], ["Ok"] * 4,
              "calls afterwards")
    second.keep_port()
    for _ in range(3):  # and the one that dials
        old = first.wait_links("b")["b"]["peer"]
        second.kill()
        second.start()
        wait_until(lambda: [link["peer"] for link in first.links()] not in ([], [old]), "the new life of b")
        second.wait_links("a")
        equal(first.connections(), 2, "established connections")


# Any number of clients may use one certificate at the same time.
def test_clients_share_a_certificate(mesh):
    node = mesh.node("a")
    first = mesh.client(node, "tool")
    second = mesh.client(node, "tool")
    for client in (second, first, second):
        equal(client.ask(probe("x"), pb.PingReq()).source, client.node_id, "a call")
    equal(sum(link["name"] == "tool" for link in node.links()), 2, "links of the certificate")


# Two processes under one name: the newer one stays, the older one is refused by name, and they do not take turns.
def test_name_used_twice(mesh):
    a = mesh.node("a")
    first = mesh.node("b", peers=[a])
    old = a.wait_links("b")["b"]["peer"]
    second = mesh.node("b", peers=[a], control=mesh.path("twin.sock"))
    wait_until(lambda: [link["peer"] for link in a.links()] not in ([], [old]), "the newer process takes the name over")
    check(old in a.wait_log("zlink.peer.name_used_twice"), "the line names the process that was refused")
    check(old not in [link["peer"] for link in a.links()], "the older one came back")
    second.stop()
    first.stop()


# A peer that is not there yet is dialled until it is.
def test_late_peer_is_found(mesh):
    port, = free_ports(1)
    node = mesh.node("a", ("probe",), peers=[f"127.0.0.1:{port}"])
    node.wait_log("zlink.peer.unreachable")
    client = mesh.client(node)
    equal(client.ask(probe("x"), pb.WaitReq(how=pb.YIELD, channel="far")).status, "NotFound", "a call before")
    mesh.node("b", ("far",), listen=f"127.0.0.1:{port}")
    node.wait_links("b", "tool")
    equal(client.ask(probe("x"), pb.WaitReq(how=pb.YIELD, channel="far")).status, "Ok", "a call afterwards")


# ---- who is turned away: each with a line, and without a word to anybody's handlers ----

# TR-14: another mesh, another node id, another protocol, a certificate of another mesh.
def test_tr14_wrong_descriptions_are_rejected(mesh):
    node = mesh.node("a")
    bystander = serves_others(mesh, node)
    before = node.counter(RECEIVED)
    other_name = "other-01234567-89ab-4cde-8f01-23456789abcd"
    cases = [
        ({"protocol_major": 2}, 1), ({"mesh": "other"}, 2), ({"node_id": other_name}, 3),
        ({"node_id": "tool"}, 3), ({"node_id": "tool-01234567-89ab-1cde-8f01-23456789abcd"}, 3),
        ({"generation": 0}, 11), ({"link_id": 0}, 11), ({"revision": 0}, 11), ({"role": 3}, 11), ({"lane": 2}, 11),
        ({"max_body_bytes": 1}, 11), ({"lane": 1}, 6),
    ]
    for changes, code in cases:
        error = raises(api.AdmissionRejected, mesh.client, node, hello=changes)
        equal(error.code, code, f"the code for {changes} ({error})")
        node.wait_log("zlink.peer.rejected", f"code={code}")
        bystander()
    equal(node.counter("zlink.mesh_node.admissions.rejected"), len(cases), "rejections")
    forged = mesh.forge("forged", "URI:zlink://other/forged")
    error = raises((api.AdmissionRejected, api.Unavailable, api.ProtocolError), mesh.client, node, "forged", forged)
    check(not isinstance(error, api.AdmissionRejected) or error.code == 4, f"the code for a foreign mesh: {error}")
    bystander()
    equal(node.counter(RECEIVED), before + len(cases) + 1, "requests that were taken: the bystander's")
    node.wait_links("bystander")


# Two lists that are not in order, or have a name twice, are no description.
def test_tr14_disordered_lists_are_rejected(mesh):
    node = mesh.node("a")
    for names in (["b", "a"], ["a", "a"], [""], ["x\n"]):
        message = wire.pb.Hello.FromString(hello_envelope())
        for name in names:
            message.channels.add(name=name, weight=1)
        raw = Raw(node, mesh.certificate("tool", "client"))
        raw.send(wire.Frame(wire.HELLO, message.SerializeToString()))
        answer = raw.receive()
        equal(answer.kind, wire.REJECT, f"the answer to channels {names}")
        equal(wire.parse(wire.pb.Reject, answer.envelope).code, 11, f"the code for channels {names}")
        raw.wait_closed("after REJECT")


def refused(node, attempt, *texts):
    """The attempt ends badly, and the node says so in a new line with these texts."""
    before = node.stderr()
    try:
        attempt()
    except (api.WireError, OSError, EOFError):
        pass
    else:
        raise harness.Failure("somebody was let in")
    wait_until(lambda: any(all(text in line for text in texts) for line in node.stderr()[len(before):].splitlines()),
               lambda: f"a line with {texts}: {node.stderr()[len(before):]}")


# TR-92, TR-93: another authority, a certificate that is over or not yet valid, no certificate, no identity in it: the
# handshake fails with a line; the others do not notice.
def test_tr92_tr93_strangers_are_refused(mesh):
    node = mesh.node("a")
    bystander = serves_others(mesh, node)
    requests = node.counter(RECEIVED)
    mine = mesh.certificate("tool", "client")
    stranger = mesh.certificate("tool", "client", folder="strangers")
    strangers = [
        {**stranger, "ca": mine["ca"]},
        mesh.forge("past", "URI:zlink://shop/past", days=(-9, -2)),
        mesh.forge("future", "URI:zlink://shop/future", days=(2, 9)),
        mesh.forge("nobody", "DNS:tool"),
        mesh.forge("double", "URI:zlink://shop/double,URI:zlink://shop/tool"),
        mesh.forge("badname", "URI:zlink://shop/bad name"),
    ]
    for files in strangers:
        name = os.path.basename(files["certificate"])[:-4]
        refused(node, lambda: mesh.client(node, name, files), "zlink.net.handshake.refused", "reason=")
        bystander()

    def without_certificate():
        context = harness.ssl_context_without_certificate(mine["ca"])
        with socket.create_connection(("127.0.0.1", node.port), timeout=20) as connection:
            with context.wrap_socket(connection) as secure:
                if not secure.recv(1):
                    raise EOFError

    refused(node, without_certificate, "zlink.net.handshake.refused")
    bystander()

    def plain():
        raw = Raw(node)
        try:
            raw.send(wire.Frame(wire.HELLO, hello_envelope()))
            raw.receive()
        finally:
            raw.close()

    refused(node, plain, "zlink.net.handshake.refused")
    bystander()
    equal(node.counter("zlink.mesh_node.admissions.rejected"), 0, "descriptions that were read")
    equal(node.counter(RECEIVED), requests + len(strangers) + 2, "requests that were taken: the bystander's")
    node.wait_links("bystander")


# TR-92 in the other direction: a node refuses to link to a stranger that it dials, and says so.
def test_tr92_dialled_stranger_is_refused(mesh):
    other = mesh.node("b", ("far",), tls=mesh.certificate("b", folder="strangers"))
    node = mesh.node("a", ("probe",), peers=[other])
    node.wait_log("zlink.net.handshake.refused")
    equal(node.links(), [], "links")
    equal(mesh.client(node).ask(probe("x"), pb.PingReq()).owner, "x", "the node's own work")
    equal(node.counter("zlink.channel.selection_failures.not_ready"), 0, "calls that it tried")


# A node of another mesh under the same authority is refused by the one that dials, too.
def test_tr14_dialled_node_of_another_mesh(mesh):
    files = mesh.forge("b", "URI:zlink://other/b")
    other = harness.Node(mesh, "b", {**mesh.config("b"), "mesh": "other", "tls": files})
    mesh.nodes.append(other)
    other.start()
    node = mesh.node("a", ("probe",), peers=[other])
    wait_until(lambda: "another mesh" in node.stderr() + other.stderr(), "a line that tells the reason")
    equal((node.links(), other.links()), ([], []), "links")


# A connection that says nothing costs nothing: it is closed by the node, and holds nobody up meanwhile.
def test_silent_connection_is_closed(mesh):
    node = mesh.node("a")
    bystander = serves_others(mesh, node)
    silent = [socket.create_connection(("127.0.0.1", node.port), timeout=20) for _ in range(20)]
    quiet = Raw(node, mesh.certificate("tool", "client"), timeout=20)  # TLS, and no HELLO
    bystander()
    for connection in silent:
        try:
            equal(connection.recv(1), b"", "what the node said")
        except ConnectionResetError:
            pass
        connection.close()
    quiet.wait_closed("no HELLO")
    bystander()


# ---- who breaks the rules ----

# TR-15: a call before admission closes the connection and reaches no handler.
def test_tr15_call_before_admission(mesh):
    node = mesh.node("a")
    bystander = serves_others(mesh, node)
    before = node.counter(RECEIVED)
    certificate = mesh.certificate("tool", "client")
    envelope = wire.call_envelope(probe("x"), "tests.mesh.PingReq")
    request = wire.Frame(wire.REQUEST, envelope, reply_route_id=1, deadline_ms=1000)
    for frames in ([request], [wire.Frame(wire.SEND, wire.call_envelope(probe("x"), "tests.mesh.Note"))],
                   [wire.announce_target_frame(1, probe("x"))], [wire.update_frame(2)],
                   [wire.Frame(wire.REPLY, wire.call_envelope(packet="tests.mesh.PingRes"), reply_route_id=1)],
                   [wire.Frame(wire.CANCEL, reply_route_id=1)], [wire.error_frame(1, 5)],
                   [wire.Frame(wire.ADMIT, hello_envelope())], [wire.reject_frame(2)]):
        raw = Raw(node, certificate)
        raw.send(*frames)
        raw.wait_closed(f"{frames}")
    bystander()
    # The first connection is admitted, the second is not there yet: calls are too early.
    raw = Raw(node, certificate)
    raw.send(wire.Frame(wire.HELLO, hello_envelope()))
    equal(raw.receive().kind, wire.ADMIT, "the answer")
    raw.send(request)
    raw.wait_closed("a call on half a link")
    bystander()
    equal(node.counter(RECEIVED), before + 2, "requests that were taken: the bystander's")


# A HELLO on a live link ends that link and nobody else's.
def test_repeated_hello(mesh):
    node = mesh.node("a")
    bystander = serves_others(mesh, node)
    for lane in (wire.APPLICATION, wire.COMPLETION):
        link = RawLink(node, certificate=mesh.certificate("tool", "client"))
        node.wait_links("bystander", "tool")
        link.ends[lane].send(link.hello(lane))
        for end in link.ends:
            end.wait_closed("after a second HELLO")
        node.wait_links("bystander")
        bystander()


# Bytes that are no frame; frames in the wrong place; numbers that nobody announced.
def test_tr22_broken_rules_end_the_link(mesh):
    node = mesh.node("a", transport=PLAIN)
    bystander = serves_others(mesh, node)
    A, C = wire.APPLICATION, wire.COMPLETION
    call = wire.call_envelope(probe("x"), "tests.mesh.PingReq")
    ping = wire.Frame(wire.REQUEST, call, reply_route_id=1, deadline_ms=1000).encode()

    def patched(data, offset, *values):
        return data[:offset] + bytes(values) + data[offset + len(values):]

    cases = [
        (A, b"GET / HTTP/1.1\r\nHost: node\r\n\r\n" + b" " * 32, "HTTP"), (A, os.urandom(512), "noise"),
        (A, b"\0" * 64, "zeroes"), (A, b"\xff" * 64, "ones"),
        (A, patched(ping, 0, 0x5B), "magic"), (A, patched(ping, 2, 2), "version"), (A, patched(ping, 3, 0), "kind 0"),
        (A, patched(ping, 3, 13), "kind 13"), (A, patched(ping, 10, 1), "flags"), (A, patched(ping, 11, 1), "error"),
        (A, patched(ping, 4, 0xFF, 0xFF, 0xFF, 0xFF), "a body of 4 GiB"),
        (A, patched(ping, 4, 0, 0, 0, 1), "an envelope longer than the body"),
        (A, patched(ping, 12, 0, 0, 0, 0), "no deadline"), (A, patched(ping, 12, 0x80, 0, 0, 0), "a huge deadline"),
        (A, patched(ping, 16, *[0] * 8), "no route"),
        (A, patched(ping, 24, 0, 0, 0, 9), "a target that is given twice"),
        (A, wire.Frame(wire.REQUEST, b"", b"", reply_route_id=1, deadline_ms=9, target_id=9, packet_id=9).encode(),
         "numbers that were not announced"),
        (A, wire.announce_packet_frame(2, "x").encode(), "an announcement out of turn"),
        (A, wire.announce_packet_frame(0, "x").encode(), "number 0"),
        (A, wire.announce_packet_frame(1, "").encode(), "an empty name"),
        (A, wire.announce_packet_frame(1, "x\x01").encode(), "a control character"),
        (A, wire.Frame(wire.ANNOUNCE, b"\xff\xff").encode(), "an envelope that is no message"),
        (A, wire.Frame(wire.ANNOUNCE, b"\x0d\x01\x00\x00\x00" * 2).encode(), "a field that stands twice"),
        (A, wire.Frame(wire.REQUEST, call + b"\x22\x01y", reply_route_id=1, deadline_ms=9).encode(), "a name twice"),
        (A, wire.Frame(wire.REQUEST, call.replace(b"probe", b"pr\xffbe"), reply_route_id=1, deadline_ms=9).encode(),
         "no UTF-8"),
        (A, wire.Frame(wire.REPLY, wire.call_envelope(packet="x"), reply_route_id=1).encode(), "REPLY on Application"),
        (A, wire.error_frame(1, 5).encode(), "ERROR on Application"),
        (A, wire.Frame(wire.PROBE).encode(), "a probe without an id"),
        (A, wire.Frame(wire.PROBE, b"x", reply_route_id=1).encode(), "a probe with a body"),
        (A, wire.update_frame(0).encode(), "revision 0"), (A, wire.update_frame(1, True).encode(), "a stale revision"),
        (A, wire.update_frame(2, channels=[("new", 1)]).encode(), "a channel that is new"),
        (A, wire.reject_frame(2).encode(), "REJECT"), (A, wire.Frame(wire.ADMIT, hello_envelope()).encode(), "ADMIT"),
        (C, ping, "REQUEST on Completion"), (C, wire.Frame(wire.SEND, call).encode(), "SEND on Completion"),
        (C, wire.Frame(wire.CANCEL, reply_route_id=1).encode(), "CANCEL on Completion"),
        (C, wire.update_frame(2).encode(), "UPDATE on Completion"), (C, wire.error_frame(1, 13).encode(), "error 13"),
        (C, wire.error_frame(0, 5).encode(), "ERROR without a route"),
        (C, wire.Frame(wire.REPLY, b"", b"", reply_route_id=1, packet_id=3).encode(), "an unknown packet number"),
    ]
    before = node.counter(RECEIVED)
    for lane, data, what in cases:
        link = RawLink(node)
        link.ends[lane].send_bytes(data)
        for end in link.ends:
            end.wait_closed(what)
    node.wait_links("bystander")
    bystander()
    equal(node.counter(RECEIVED), before + 1, "requests that were taken: the bystander's")


# TR-23: a huge length costs no memory; what it announces is refused before a byte of it is awaited.
def test_tr23_huge_length_costs_nothing(mesh):
    node = mesh.node("a", transport=PLAIN, limits={"message_bytes": "64KiB"})
    bystander = serves_others(mesh, node)
    peak = node.status()["process"]["resident_peak_bytes"]
    for size in (2**31 - 1, 2**32 - 1, 2**24, 65536 + 65535 + 1):
        links = [RawLink(node, f"t{index}") for index in range(4)]
        for link in links:
            link.application.send_bytes(struct.pack(">HBBIHBBIQII", 0x5A4C, 1, 8, size, 10, 0, 0, 1000, 1, 0, 0))
        for link in links:
            link.application.wait_closed(f"a body of {size}")
            link.completion.wait_closed(f"a body of {size}")
    # Before admission the limit is lower: no envelope is longer.
    raw = Raw(node)
    raw.send_bytes(struct.pack(">HBBIHBBIQII", 0x5A4C, 1, 1, 65536, 65535, 0, 0, 0, 0, 0, 0))
    raw.wait_closed("a HELLO of 64 KiB")
    grown = node.status()["process"]["resident_peak_bytes"] - peak
    check(grown < 32 * 2**20, f"{grown} bytes for lengths that are only claimed")
    bystander()


# A frame within the limit that never comes to its end holds nobody up.
def test_unfinished_frame_holds_nobody_up(mesh):
    node = mesh.node("a", transport=PLAIN)
    bystander = serves_others(mesh, node)
    link = RawLink(node)
    link.application.send_bytes(struct.pack(">HBBIHBBIQII", 0x5A4C, 1, 8, 2**20, 10, 0, 0, 1000, 1, 0, 0) + b"x" * 5)
    for _ in range(20):
        bystander()
    link.close()
    node.wait_links("bystander")


# A message of the largest size arrives whole, one byte more is refused, and the link lives.
def test_largest_message(mesh):
    node = mesh.node("a", transport=PLAIN, limits={"message_bytes": "64KiB"})
    client = mesh.client(node)
    packet = "tests.mesh.PingReq"
    # Field 15 is unknown: whoever decodes skips it.
    reply = client.request(probe("x"), packet, b"\x7a\xf0\xff\x03" + b"x" * 65520)
    equal(pb.PingRes.FromString(reply).owner, "x", "the reply to a long request")
    equal(client.ask(FAR, pb.PingReq()).owner, "far", "the next request")
    raises(api.CapacityExceeded, client.request, probe("x"), packet, b"\x7a\x80\x80\x08" + b"x" * 131072)
    equal(client.ask(FAR, pb.PingReq()).owner, "far", "the request after a refused one")


# A plain mesh works like one with TLS, and says at its start that it is plain.
def test_plain_mesh(mesh):
    first = mesh.node("a", ("far",), transport=PLAIN)
    second = mesh.node("b", ("probe",), peers=[first], transport=PLAIN)
    second.wait_links("a")
    second.wait_log("zlink.transport.plain")
    equal(mesh.client(second).ask(probe("x"), pb.WaitReq(how=pb.YIELD, channel="far")).status, "Ok", "a call")


if __name__ == "__main__":
    harness.main(globals())
