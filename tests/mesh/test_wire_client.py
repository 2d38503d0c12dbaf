"""A client that was written from docs/wire.md alone, against real nodes: what it says is understood, and what is cut
short ends the connection and nothing else."""
import os
import sys

import harness
from harness import FAR, RawLink, api, check, equal, limit, pb, probe, raises, wait_until, wire

PLAIN = "plain-without-encryption-or-authentication"
REQUEST = {"reply_route_id": 1, "deadline_ms": 20000}


# A request and its reply over mutual TLS, names by number and names in the envelope, to a Spot and to a channel.
def test_request_and_reply(mesh):
    node = mesh.node("a")
    for announce in (True, False):
        client = mesh.client(node, f"tool-{announce}".lower(), announce=announce)
        equal(client.peer.node_id, node.status()["node_id"], "the node id in ADMIT")
        for target, owner in ((probe("x"), "x"), (FAR, "far")):
            for _ in range(3):
                payload = client.request(target, "tests.mesh.PingReq", pb.PingReq(tag="t").SerializeToString(),
                                         reply_packet="tests.mesh.PingRes")
                equal(pb.PingRes.FromString(payload).owner, owner, "the reply")
    equal(client.log(FAR).log, " ".join(["t"] * 6), "what the channel saw")


# The sample's own messages, as docs/wire.md shows them.
def test_sample_of_the_manual(mesh):
    node = mesh.node("a", ("counter", "prices"))
    client = mesh.client(node)
    main = harness.Spot("counter", "main")
    reply = client.request(main, "samples.counter.AddReq", b"\x0a\x05bread\x10\x03")
    equal(reply, b"\x08\xa2\x07", "AddRes { total_cents: 930 }")
    raises(harness.api.NotFound, client.request, main, "samples.counter.AddReq", b"\x0a\x03tea\x10\x03")


# The bytes of the manual, as they stand there: announcements, the request, its announced reply.
def test_bytes_of_the_manual(mesh):
    sys.path.insert(0, os.path.join(os.path.dirname(harness.HERE), "wire_client"))
    from test_wire_client import dumps_in  # pylint: disable=no-name-in-module
    dumps = dumps_in("docs/wire.md")
    node = mesh.node("a", ("counter", "prices"), transport=PLAIN)
    link = RawLink(node)
    link.application.send_bytes(dumps["announce_spot"] + dumps["announce_request"] + dumps["request"])
    answer = link.completion.receive()
    equal((answer.kind, answer.reply_route_id, answer.error), (wire.ERROR, 42, 0), "the answer: there is no tea")
    link.application.send_bytes(dumps["request_inline"])
    answer = link.completion.receive()
    equal((answer.kind, answer.reply_route_id, answer.error), (wire.ERROR, 43, 0), "the answer: there is no tea")
    link.close()


# An admitted client describes itself once; the node answers a probe at once, on both connections.
def test_probe_is_answered(mesh):
    node = mesh.node("a")
    client = mesh.client(node)
    for number, connection in enumerate((client.application, client.completion), 7):
        check(connection.probe(number), "the probe was not answered")
    client.ask(FAR, pb.PingReq())


# TR-21: frames that come byte by byte, or all at once, are the same frames.
def test_tr21_split_and_joined_frames(mesh):
    node = mesh.node("a", transport=PLAIN)
    frames = [wire.announce_target_frame(1, probe("x")), wire.announce_packet_frame(1, "tests.mesh.PingReq")]
    for route in range(1, 4):
        frames.append(wire.Frame(wire.REQUEST, payload=pb.PingReq(tag=f"t{route}").SerializeToString(),
                                 reply_route_id=route, deadline_ms=20000, target_id=1, packet_id=1))
    data = b"".join(frame.encode() for frame in frames)

    def replies(link):
        got = []
        while len(got) < 3:
            frame = link.completion.receive()
            if frame.kind == wire.REPLY:
                got.append(frame.reply_route_id)
        return got

    for cut in [0] + list(range(1, len(data))):
        link = RawLink(node)
        link.application.send_bytes(data[:cut])
        link.application.send_bytes(data[cut:])
        equal(replies(link), [1, 2, 3], f"the replies when the frames are cut at {cut}")
        link.close()
    link = RawLink(node)
    for byte in data:
        link.application.send_bytes(bytes([byte]))
    equal(replies(link), [1, 2, 3], "the replies when every byte comes on its own")
    link.close()
    node.wait_links()


# TR-21 with TLS: every byte in a record of its own.
def test_tr21_one_byte_per_record(mesh):
    node = mesh.node("a")
    link = RawLink(node, certificate=mesh.certificate("tool", "client"))
    data = wire.Frame(wire.REQUEST, wire.call_envelope(probe("x"), "tests.mesh.PingReq"), **REQUEST).encode()
    for byte in data:
        link.application.send_bytes(bytes([byte]))
    while link.completion.receive().kind != wire.REPLY:
        pass
    link.close()


# A large request that comes in chunks holds back nobody: what is sent between them is answered first. One that was given
# up is never answered, and its number is free again.
def test_tr21_small_requests_go_between_chunks(mesh):
    node = mesh.node("a", transport=PLAIN)
    link = RawLink(node)
    call = wire.call_envelope(probe("x"), "tests.mesh.PingReq")
    padding = b"\xa2\x06" + b"\xc0\xcf\x24" + b"x" * 600000  # field 100, which no handler knows

    def request(route, payload):
        return wire.Frame(wire.REQUEST, call, payload, reply_route_id=route, deadline_ms=20000)

    def answered():
        while True:
            frame = link.completion.receive()
            if frame.kind in (wire.REPLY, wire.ERROR):
                return frame.kind, frame.reply_route_id

    large = wire.chunks_of(request(1, pb.PingReq(tag="large").SerializeToString() + padding), 5)
    lost = wire.chunks_of(request(2, padding), 6)
    check(len(large) == 10, "the number of chunks")
    link.application.send(large[0])
    link.application.send(*lost[:3])
    for piece in large[1:-1]:
        link.application.send(piece)
    link.application.send(request(3, b""))
    equal(answered(), (wire.REPLY, 3), "the small request's answer")
    link.application.send(wire.Frame(wire.CHUNK, reply_route_id=6))
    link.application.send(large[-1])
    equal(answered(), (wire.REPLY, 1), "the large request's answer")
    link.application.send(*wire.chunks_of(request(4, padding), 6))
    equal(answered(), (wire.REPLY, 4), "the answer to the next with that number")
    link.close()


# Correlation and flow ids reach the node and stand in the line that says what went wrong; what is not well formed, or has no
# place there, ends the connection.
def test_correlation_and_flow_ids(mesh):
    node = mesh.node("a", transport=PLAIN)
    client = mesh.client(node)
    flow = "01890a5d-ac96-774b-bcce-b302099a8057"
    trace = {"correlation_id": "order-17", "flow_id": flow, "flow_origin": 9}
    reply = client.begin(probe("x"), "tests.mesh.Nobody", b"", trace=trace)
    raises(api.NotFound, reply.result)
    node.wait_log("zlink.dispatch_error", "correlation_id=order-17", f"flow_id={flow}")
    client.begin(probe("x"), "tests.mesh.PingReq", b"", trace=trace).result()
    hand = mesh.hand(node)
    for with_trace in (True, False):  # what the handler calls belongs to its flow, and is another request
        wait = pb.WaitReq(tag="A", how=pb.YIELD, channel="latch").SerializeToString()
        reply = client.begin(probe("x"), "tests.mesh.WaitReq", wait, trace=trace if with_trace else None)
        call = hand.take("A")
        equal(call.trace, ("", flow, 9) if with_trace else ("", "", 0), "what the handler's own call says")
        call.reply()
        reply.result()
    for bad in ({"correlation_id": "two words"}, {"flow_id": flow.upper()}, {"flow_origin": 1}, {"flow_id": flow,
                "flow_origin": 256}):
        other = mesh.client(node, name="other")
        reply = other.begin(probe("x"), "tests.mesh.PingReq", b"", trace=bad)
        raises(api.Unavailable, reply.result)
        other.close()
    equal(client.ask(probe("x"), pb.PingReq()).owner, "x", "a call after all that")


def frames_of_every_kind(link):
    """(lane, frame): one of each kind that a client may send, and of those that it may not."""
    call = wire.call_envelope(probe("x"), "tests.mesh.PingReq")
    payload = pb.PingReq(tag="t").SerializeToString()
    application, completion = wire.APPLICATION, wire.COMPLETION
    return {
        "update": (application, wire.update_frame(2)),
        "announce target": (application, wire.announce_target_frame(1, probe("x"))),
        "announce packet": (completion, wire.announce_packet_frame(1, "tests.mesh.PingReq")),
        "probe": (completion, wire.Frame(wire.PROBE, reply_route_id=5)),
        "probe ack": (application, wire.Frame(wire.PROBE_ACK, reply_route_id=5)),
        "request": (application, wire.Frame(wire.REQUEST, call, payload, **REQUEST)),
        "send": (application, wire.Frame(wire.SEND, wire.call_envelope(probe("x"), "tests.mesh.Note"), payload)),
        "reply": (completion, wire.Frame(wire.REPLY, wire.call_envelope(packet="tests.mesh.PingRes"), payload,
                                         reply_route_id=77)),
        "error": (completion, wire.error_frame(77, 5, "lost")),
        "cancel": (application, wire.Frame(wire.CANCEL, reply_route_id=77)),
        "flow state": (completion, wire.Frame(wire.FLOW_STATE, error=1, reply_route_id=1)),
        "hello": (application, link.hello(application)),
        "admit": (application, wire.Frame(wire.ADMIT, link.hello(application).envelope)),
        "reject": (application, wire.reject_frame(2, "no")),
    }


# TR-22: every truncation of every frame: the connection ends, and the node serves on.
@limit(120)
def test_tr22_every_truncation_of_every_frame(mesh):
    node = mesh.node("a", transport=PLAIN)
    bystander = mesh.client(node, "bystander")
    before = node.counter("zlink.requests.received")
    first = RawLink(node)
    count = 0
    for name, (lane, frame) in frames_of_every_kind(first).items():
        for size in range(1, len(frame.encode())):
            link = RawLink(node, f"t{count % 16}")
            link.ends[lane].send_bytes(frame.encode()[:size])
            link.ends[lane].close()  # the frame's rest never comes
            link.ends[1 - lane].wait_closed(f"{name} after {size} bytes")
            count += 1
        equal(bystander.ask(probe("bystander"), pb.PingReq()).owner, "bystander", f"a call after {name}")
    first.close()
    wait_until(lambda: len(node.status()["links"]) == 1, "every broken link is gone")
    equal(node.counter("zlink.requests.received"), before + 14, "requests that were taken: the bystander's")
    equal(bystander.log(probe("x")).log, "", "what the Spot of the cut frames saw")


# TR-22: HELLO cut short, before there is a link.
def test_tr22_every_truncation_of_hello(mesh):
    node = mesh.node("a", transport=PLAIN)
    link = RawLink(node)
    data = link.hello(wire.APPLICATION).encode()
    link.close()
    for size in range(len(data)):
        raw = harness.Raw(node)
        raw.send_bytes(data[:size])
        raw.close()
    wait_until(lambda: node.status()["links"] == [], "no link is left")
    equal(mesh.client(node).ask(FAR, pb.PingReq()).owner, "far", "a call")


# TR-22: envelopes that are cut short inside a frame whose lengths are right: refused, or taken where what is left is a
# whole message; never anything else, and the node serves on.
@limit(120)
def test_tr22_every_truncation_of_every_envelope(mesh):
    node = mesh.node("a", transport=PLAIN)
    bystander = mesh.client(node, "bystander")
    first = RawLink(node)
    for name, (lane, frame) in frames_of_every_kind(first).items():
        refused = 0
        for size in range(len(frame.envelope)):
            link = RawLink(node, "cut")
            cut = wire.Frame(frame.kind, frame.envelope[:size], frame.payload, error=frame.error,
                             deadline_ms=frame.deadline_ms, reply_route_id=frame.reply_route_id)
            good = frame.kind > wire.REJECT
            try:
                cut.check()
                message = {wire.UPDATE: wire.pb.Update, wire.ANNOUNCE: wire.pb.Announce,
                           wire.ERROR: wire.pb.Failure}.get(frame.kind, wire.pb.Call)
                envelope = wire.parse(message, cut.envelope)
                if frame.kind == wire.ANNOUNCE:
                    wire.IncomingNames().add(cut)
                elif frame.kind == wire.UPDATE:
                    good = envelope.revision == 2
                elif frame.kind != wire.ERROR:
                    wire.IncomingNames().resolve(cut)
            except wire.FrameError:
                good = False
            link.ends[lane].send(cut)
            if good:  # the link lives: its probe is answered
                link.ends[lane].send(wire.Frame(wire.PROBE, reply_route_id=9))
                check(acknowledged(link.ends[lane], 9), f"{name} with {size} bytes of envelope ended the link")
                link.close()
            else:
                refused += 1
                for end in link.ends:
                    end.wait_closed(f"{name} with {size} bytes of envelope")
        check(refused or not frame.envelope, f"no truncation of {name} was refused")
        equal(bystander.ask(probe("bystander"), pb.PingReq()).owner, "bystander", f"a call after {name}")
    first.close()


def acknowledged(end, number):
    """Whether the probe's answer comes, whatever comes before it."""
    try:
        while True:
            frame = wire.read_frame(end.frames._read_exactly, 2**24)
            if frame.kind == wire.PROBE_ACK and frame.reply_route_id == number:
                return True
    except (EOFError, OSError):
        return False


# A bit flipped anywhere in a request: an answer, an error or an end, but no fall of the node.
@limit(120)
def test_tr22_flipped_bits(mesh):
    node = mesh.node("a", transport=PLAIN)
    bystander = mesh.client(node, "bystander")
    data = wire.Frame(wire.REQUEST, wire.call_envelope(probe("x"), "tests.mesh.PingReq"),
                      pb.PingReq(tag="t").SerializeToString(), **REQUEST).encode()
    for bit in range(len(data) * 8):
        link = RawLink(node, "flip")
        link.application.send_bytes(bytes(byte ^ (1 << bit % 8 if at == bit // 8 else 0)
                                          for at, byte in enumerate(data)))
        link.close()
    equal(bystander.ask(probe("bystander"), pb.PingReq()).owner, "bystander", "a call afterwards")


if __name__ == "__main__":
    harness.main(globals())
