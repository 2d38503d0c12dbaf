"""The Python client against the golden frames and against the fake node, over TCP and over mutual TLS."""
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import zlink_frames as wire  # noqa: E402
import zlink_wire_client as api  # noqa: E402
from zlink_fake_node import FakeNode  # noqa: E402
from zlink_wire_client import Channel, FrameError, Spot, WireClient  # noqa: E402

TOOL_ID = "tool-01234567-89ab-4cde-8f01-23456789abcd"
NODE_ID = "a-76543210-fedc-4ba9-a765-43210fedcba9"
COUNTER = Spot("counter", "main")
FLOW = "01890a5d-ac96-774b-bcce-b302099a8057"
ADD_REQ, ADD_RES = b"\x0a\x03tea\x10\x03", b"\x08\x2a"


def client_hello(lane):
    return wire.hello_frame(protocol_major=1, mesh="shop", node_id=TOOL_ID, lane=lane, link_id=0x1112131415161718,
                            generation=7, revision=1, role=1, max_body_bytes=1048576)


GOLDEN = {
    "hello_application": client_hello(0),
    "hello_completion": client_hello(1),
    "admit": wire.hello_frame(wire.ADMIT, [("prices", 100), ("audit", 0)], ["counter"], protocol_major=1, mesh="shop",
                              node_id=NODE_ID, link_id=0x1112131415161718, generation=2**63 - 1, revision=3, role=2,
                              max_body_bytes=16777216, draining=True),
    "reject": wire.reject_frame(4, 'mesh is "shop"'),
    "update": wire.update_frame(4, channels=[("prices", 0), ("audit", 10000)]),
    "announce_spot": wire.announce_target_frame(1, COUNTER),
    "announce_channel": wire.announce_target_frame(2, Channel("prix-é")),
    "announce_node": wire.announce_target_frame(3, wire.Node(NODE_ID)),
    "announce_request": wire.announce_packet_frame(1, "samples.counter.AddReq"),
    "announce_reply": wire.announce_packet_frame(1, "samples.counter.AddRes"),
    "request": wire.Frame(wire.REQUEST, payload=ADD_REQ, reply_route_id=0x2A, deadline_ms=5000, target_id=1,
                          packet_id=1),
    "reply": wire.Frame(wire.REPLY, payload=ADD_RES, reply_route_id=0x2A, packet_id=1),
    "request_inline": wire.Frame(wire.REQUEST, wire.call_envelope(COUNTER, "samples.counter.AddReq"), ADD_REQ,
                                 reply_route_id=0x2B, deadline_ms=2**31 - 1),
    "request_metadata": wire.Frame(wire.REQUEST, wire.call_envelope(metadata={"tenant": "blue", "empty": ""}), ADD_REQ,
                                   reply_route_id=0x2C, deadline_ms=5000, target_id=1, packet_id=1),
    "request_trace": wire.Frame(wire.REQUEST, wire.call_envelope(correlation_id="order-17", flow_id=FLOW, flow_origin=9),
                                ADD_REQ, reply_route_id=0x2D, deadline_ms=5000, target_id=1, packet_id=1),
    "send_mixed": wire.Frame(wire.SEND, wire.call_envelope(Channel("prices")), packet_id=1),
    "reply_inline": wire.Frame(wire.REPLY, wire.call_envelope(packet="samples.counter.AddRes"), ADD_RES,
                               reply_route_id=0x2B),
    "error": wire.error_frame(0x2A, 5, "queue full"),
    "error_plain": wire.Frame(wire.ERROR, reply_route_id=0x2A),
    "cancel": wire.Frame(wire.CANCEL, reply_route_id=0x2A),
    "chunk": wire.Frame(wire.CHUNK, payload=ADD_REQ, reply_route_id=1),
    "chunk_end": wire.Frame(wire.CHUNK, reply_route_id=1),
    "flow_paused": wire.Frame(wire.FLOW_STATE, error=1, reply_route_id=1),
    "flow_running": wire.Frame(wire.FLOW_STATE, reply_route_id=2),
    "probe": wire.Frame(wire.PROBE, reply_route_id=0x0102030405060708),
    "probe_ack": wire.Frame(wire.PROBE_ACK, reply_route_id=0x0102030405060708),
}


def dumps_in(path):
    """{name: bytes} of the ```frame NAME blocks of a file."""
    with open(os.path.join(wire.ROOT, path), encoding="utf-8") as file:
        blocks = re.findall(r"^```frame (\w+)\n(.*?)^```", file.read(), re.MULTILINE | re.DOTALL)
    found = {}
    for name, block in blocks:
        lines = [re.match(r"(?:[0-9a-f]{2}(?: (?=[0-9a-f]{2}\b)|))*", line).group() for line in block.splitlines()]
        found[name] = bytes.fromhex("".join(lines))
    return found


class GoldenFrames(unittest.TestCase):
    def test_tr18_golden_frames(self):
        golden = dumps_in("tests/golden/frames.txt")
        self.assertEqual(golden.keys(), GOLDEN.keys())
        for name, frame in GOLDEN.items():
            with self.subTest(name):
                self.assertEqual(frame.encode().hex(), golden[name].hex())
                read = wire.frame_of(golden[name])
                self.assertEqual(read.encode(), golden[name])
                self.assertEqual(read.kind, frame.kind)

    def test_dumps_in_the_manual(self):
        for name, dump in dumps_in("docs/wire.md").items():
            with self.subTest(name):
                self.assertEqual(GOLDEN[name].encode(), dump)

    def test_tr21_frames_split_at_every_byte(self):
        data = GOLDEN["request_inline"].encode() + GOLDEN["reply"].encode()
        for cut in range(len(data)):
            pieces = [data[:cut], data[cut:]]

            def read_exactly(size, pieces=pieces):
                taken = b""
                while len(taken) < size:
                    piece = pieces.pop(0)
                    used, rest = piece[:size - len(taken)], piece[size - len(taken):]
                    taken += used
                    if rest:
                        pieces.insert(0, rest)
                return taken

            for name in ("request_inline", "reply"):
                self.assertEqual(wire.read_frame(read_exactly, 2**20).encode(), GOLDEN[name].encode())

    def test_tr24_tr25_metadata(self):
        def resolved(metadata, kind=wire.REQUEST):
            envelope = wire.call_envelope(None if kind == wire.REPLY else COUNTER, "a.B", metadata)
            frame = wire.Frame(kind, envelope)
            wire.IncomingNames().resolve(frame)
            return frame.metadata

        self.assertEqual(resolved({}), {})
        self.assertEqual(resolved({"a": "", "é": "line\n"}), {"a": "", "é": "line\n"})
        self.assertEqual(len(resolved({"k": "v" * 1018})["k"]), 1018)
        for wrong in ({"k": "v" * 1019}, {"": "v"}, {"k" * 256: ""}, {"k": "a\0b"}):
            with self.assertRaises(FrameError):
                resolved(wrong)
        with self.assertRaises(FrameError):
            resolved({"k": "v"}, wire.REPLY)
        twice = wire.call_envelope(COUNTER, "a.B", {"k": "1"}) + wire.call_envelope(metadata={"k": "2"})
        with self.assertRaises(FrameError):
            wire.IncomingNames().resolve(wire.Frame(wire.REQUEST, twice))

    def test_correlation_and_flow_ids(self):
        def resolved(kind=wire.REQUEST, **trace):
            frame = wire.Frame(kind, wire.call_envelope(None if kind == wire.REPLY else COUNTER, "a.B", **trace))
            wire.IncomingNames().resolve(frame)
            return frame.correlation_id, frame.flow_id, frame.flow_origin

        self.assertEqual(resolved(), ("", "", 0))
        self.assertEqual(resolved(correlation_id="~" * 64, flow_id=FLOW, flow_origin=255), ("~" * 64, FLOW, 255))
        self.assertEqual(resolved(wire.SEND, flow_id=FLOW), ("", FLOW, 0))
        for wrong in ({"correlation_id": "x" * 65}, {"correlation_id": "two words"}, {"correlation_id": "é"},
                      {"flow_id": FLOW.upper()}, {"flow_id": FLOW.replace("-7", "-4")}, {"flow_origin": 1},
                      {"flow_id": FLOW, "flow_origin": 256}):
            with self.assertRaises(FrameError):
                resolved(**wrong)
        for kind, trace in ((wire.SEND, {"correlation_id": "x"}), (wire.REPLY, {"correlation_id": "x"}),
                            (wire.REPLY, {"flow_id": FLOW})):
            with self.assertRaises(FrameError):
                resolved(kind, **trace)

    def test_tr19_tr22_reserved_bits(self):
        data = bytearray(GOLDEN["probe"].encode())
        for bit in [*range(24), *range(32, 128), *range(192, 256)]:
            data[bit // 8] ^= 1 << bit % 8
            with self.assertRaises(FrameError):
                wire.frame_of(bytes(data))
            data[bit // 8] ^= 1 << bit % 8
        wire.frame_of(bytes(data))

    def test_tr25_doubled_fields(self):
        packet = wire.pb.Call(packet="a.B").SerializeToString()
        with self.assertRaises(FrameError):
            wire.parse(wire.pb.Call, packet + packet)
        with self.assertRaises(FrameError):
            wire.parse(wire.pb.Call, wire.pb.Call(packet="a\nb").SerializeToString())


def answer(target, packet, payload):
    if target == Channel("nowhere"):
        raise api.NotFound("no such channel")
    if packet == "tests.Silence":
        return None
    if packet == "tests.Echo":
        return "tests.Echo", payload
    return "samples.counter.AddRes", ADD_RES


class PlainLink(unittest.TestCase):
    @contextlib.contextmanager
    def link(self, announce=True, **options):
        with FakeNode("shop", "fake", answer, announce=announce, **options) as node:
            with WireClient.connect("127.0.0.1", node.port, "shop", name="tool", announce=announce) as client:
                yield node, client
            self.assertEqual(node.problems, [])

    def test_requests_with_numbers_and_without(self):
        for announce in (True, False):
            with self.subTest(announce=announce), self.link(announce) as (node, client):
                for _ in range(3):
                    reply = client.request(COUNTER, "samples.counter.AddReq", ADD_REQ, 10,
                                           reply_packet="samples.counter.AddRes")
                    self.assertEqual(reply, ADD_RES)
                client.send(Channel("audit"), "tests.Note", b"note")
                node.wait_for(lambda n: n.sends == [(Channel("audit"), "tests.Note", b"note")])
                with self.assertRaises(api.NotFound) as caught:
                    client.request(Channel("nowhere"), "samples.counter.AddReq", b"", 10)
                self.assertTrue(caught.exception.remote)
                with self.assertRaises(api.ProtocolError):
                    client.request(COUNTER, "samples.counter.AddReq", ADD_REQ, 10, reply_packet="samples.other.Res")

    def test_tr21_bytes_that_arrive_one_by_one(self):
        with self.link(byte_by_byte=True) as (_, client):
            self.assertEqual(client.request(COUNTER, "tests.Echo", bytes(range(256)), 10), bytes(range(256)))

    def test_many_requests_at_once(self):
        with self.link() as (_, client):
            replies = [client.begin(COUNTER, "tests.Echo", b"%d" % i * 5000, 30) for i in range(200)]
            for i, reply in enumerate(replies):
                self.assertEqual(reply.result(), b"%d" % i * 5000)

    def test_deadline_and_cancel(self):
        with self.link() as (node, client):
            with self.assertRaises(api.DeadlineExceeded):
                client.request(COUNTER, "tests.Silence", b"", 0.05)
            reply = client.begin(COUNTER, "tests.Silence", b"", 30)
            reply.cancel()
            with self.assertRaises(api.DeadlineExceeded):
                reply.result()
            node.wait_for(lambda n: n.links[0].canceled == [1, 2])

    def test_message_over_the_limit(self):
        with self.link() as (_, client), self.assertRaises(api.CapacityExceeded):
            client.request(COUNTER, "tests.Echo", bytes(2**20 + 1), 10)

    def test_probes_are_answered(self):
        with self.link() as (node, client):
            for end in (node.links[0].application, node.links[0].completion, client.application, client.completion):
                self.assertTrue(end.probe(77))
            self.assertEqual(client.application.probes_answered, 1)
            self.assertEqual(client.completion.probes_answered, 1)

    def test_late_replies_are_dropped(self):
        with self.link() as (node, client):
            node.links[0].completion.send(GOLDEN["announce_reply"], GOLDEN["reply"])
            self.assertTrue(client.wait_for(lambda c: c.late_replies == 1))

    def test_update_is_taken(self):
        with self.link() as (node, client):
            node.links[0].application.send(wire.update_frame(2, True, [("prices", 5)]))
            self.assertTrue(client.wait_for(lambda c: c.peer_draining))
            self.assertEqual([(c.name, c.weight) for c in client.peer.channels], [("prices", 5)])
            node.links[0].application.send(wire.update_frame(1))
            self.assertTrue(client.wait_for(lambda c: isinstance(c.error, api.ProtocolError)))

    def test_tr17_losing_one_connection_ends_the_link(self):
        for lost in ("application", "completion"):
            with self.subTest(lost), self.link() as (node, client):
                reply = client.begin(COUNTER, "tests.Silence", b"", 30)
                getattr(node.links[0], lost).close()
                with self.assertRaises(api.Unavailable):
                    reply.result()
                with self.assertRaises(api.Unavailable):
                    client.request(COUNTER, "tests.Echo", b"", 10)

    def test_tr22_what_is_no_frame_ends_the_link(self):
        for data in (b"\0" * 32, GOLDEN["request"].encode(), GOLDEN["announce_channel"].encode(),
                     wire.Frame(wire.REPLY, reply_route_id=1, packet_id=9).encode()):
            with self.subTest(data), self.link() as (node, client):
                reply = client.begin(COUNTER, "tests.Silence", b"", 30)
                node.wait_for(lambda n: n.links and n.links[0].completion is not None)
                node.links[0].completion.send_raw(data)
                with self.assertRaises(api.Unavailable):
                    reply.result()
                self.assertIsInstance(client.error, api.ProtocolError)

    def test_reject_and_wrong_admit(self):
        with FakeNode("shop", "fake", answer, reject=(9, "draining")) as node:
            with self.assertRaises(api.AdmissionRejected) as caught:
                WireClient.connect("127.0.0.1", node.port, "shop", name="tool")
            self.assertEqual(caught.exception.code, 9)
        with FakeNode("shop", "fake", answer) as node, self.assertRaises(api.AdmissionRejected):
            WireClient.connect("127.0.0.1", node.port, "market", name="tool")
        with FakeNode("shop", "fake", answer, admit={"link_id": 1}) as node, self.assertRaises(api.ProtocolError):
            WireClient.connect("127.0.0.1", node.port, "shop", name="tool")


class TlsLink(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        for authority in ("ca", "other"):
            cls.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                        f"/CN={authority}", "-keyout", f"{authority}.key", "-out", f"{authority}.crt")
        for name, mesh, authority in (("a", "shop", "ca"), ("tool", "shop", "ca"), ("thief", "shop", "other"),
                                      ("guest", "market", "ca")):
            cls.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                        f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
            with open(cls.path(f"{name}.ext"), "w", encoding="ascii") as file:
                file.write(f"subjectAltName=URI:zlink://{mesh}/{name}\n")
            cls.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.crt", "-CAkey", f"{authority}.key",
                        "-CAcreateserial", "-extfile", f"{name}.ext", "-out", f"{name}.crt")

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    @classmethod
    def openssl(cls, *arguments):
        subprocess.run(["openssl", *arguments], cwd=cls.folder.name, check=True, capture_output=True)

    def files(self, name, authority="ca"):
        return self.path(f"{name}.crt"), self.path(f"{name}.key"), self.path(f"{authority}.crt")

    def node(self, name="a", **options):
        return FakeNode("shop", name, answer, tls=self.files("a"), **options)

    def connect(self, node, files, authority="ca", **options):
        return WireClient.connect("127.0.0.1", node.port, "shop", *self.files(files, authority), **options)

    def test_mutual_tls(self):
        with self.node() as node:
            with self.connect(node, "tool", expect_name="a") as client:
                self.assertEqual(client.application.socket.version(), "TLSv1.2")
                replies = [client.begin(COUNTER, "tests.Echo", b"%d" % i * 5000, 30) for i in range(100)]
                for i, reply in enumerate(replies):
                    self.assertEqual(reply.result(), b"%d" % i * 5000)
            self.assertEqual(node.problems, [])

    def test_identities_that_are_refused(self):
        with self.node() as node:
            with self.assertRaises(api.Rejected):
                self.connect(node, "tool", expect_name="b")
            with self.assertRaises(api.AdmissionRejected) as caught:
                self.connect(node, "tool", name="other")
            self.assertEqual(caught.exception.code, 3)
            with self.assertRaises(api.AdmissionRejected) as caught:
                self.connect(node, "guest")
            self.assertEqual(caught.exception.code, 4)
            with self.assertRaises((api.Unavailable, api.ProtocolError)):
                self.connect(node, "thief")
            with self.assertRaises(api.Unavailable):
                self.connect(node, "tool", authority="other")
        with self.node(name="b") as node, self.assertRaises(api.Rejected):  # its certificate says a
            self.connect(node, "tool")


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed} passed, {failed} failed")
    sys.exit(failed > 0)
