"""Frames and envelopes of the node wire, written from docs/wire.md: the prefix by struct, envelopes by google.protobuf.

The stubs are made when this module is imported, by the protoc of the system, into a folder that is removed again.
"""
import collections
import importlib.util
import os
import re
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

HELLO, ADMIT, REJECT, UPDATE, ANNOUNCE, PROBE, PROBE_ACK, REQUEST, SEND, REPLY, ERROR, CANCEL, CHUNK, FLOW_STATE = range(1, 15)
APPLICATION, COMPLETION = 0, 1
ROLE_CLIENT, ROLE_SERVER = 1, 2
ROUTE_MESH, CLIENT_SERVER = 1, 2

PREFIX = struct.Struct(">HBBIHBBIQII")
MAGIC = 0x5A4C
ENVELOPE_BYTES_MAX = 65535
NAME_BYTES_MAX = 255
METADATA_BYTES_MAX = 1024
FLOW_ID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
WHOLE_BYTES_MAX, CHUNK_BYTES_MAX, TRANSFERS_MAX = 69632, 65536, 16
INT32_MAX = 2**31 - 1


def _load_stubs():
    proto = os.path.join(os.environ.get("ZLINK_WIRE_PROTO_DIR", os.path.join(ROOT, "proto")), "zlink_wire.proto")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["/usr/bin/protoc", f"--proto_path={os.path.dirname(proto)}", f"--python_out={folder}", proto],
                       check=True)
        spec = importlib.util.spec_from_file_location("zlink_wire_pb2", os.path.join(folder, "zlink_wire_pb2.py"))
        module = importlib.util.module_from_spec(spec)
        writes_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        try:
            spec.loader.exec_module(module)
        finally:
            sys.dont_write_bytecode = writes_bytecode
    return module


pb = _load_stubs()


class FrameError(Exception):
    """Bytes that are no frame, or an envelope that breaks a rule: the connection ends."""


class Channel(collections.namedtuple("Channel", "name")):
    """A channel as the target of a call."""


class Spot(collections.namedtuple("Spot", "type id")):
    """An Instance Spot as the target of a call."""


class Node(collections.namedtuple("Node", "id")):
    """The handlers of exactly one node, by its node id, as the target of a call."""


def _needs(condition, why):
    if not condition:
        raise FrameError(why)


class Frame:
    """One frame: the prefix's fields, the envelope's bytes and the payload."""

    FIELDS = ("kind", "flags", "error", "deadline_ms", "reply_route_id", "target_id", "packet_id")

    def __init__(self, kind, envelope=b"", payload=b"", *, flags=0, error=0, deadline_ms=0, reply_route_id=0,
                 target_id=0, packet_id=0):
        self.kind, self.flags, self.error, self.deadline_ms = kind, flags, error, deadline_ms
        self.reply_route_id, self.target_id, self.packet_id = reply_route_id, target_id, packet_id
        self.envelope, self.payload = envelope, payload
        self.metadata = {}
        self.correlation_id, self.flow_id, self.flow_origin = "", "", 0

    def __repr__(self):
        fields = ", ".join(f"{name}={getattr(self, name)}" for name in self.FIELDS)
        return f"Frame({fields}, envelope={self.envelope!r}, payload={self.payload!r})"

    def encode(self):
        """The bytes, with no rule checked: hostile tests send what they like."""
        body = self.envelope + self.payload
        return PREFIX.pack(MAGIC, 1, self.kind, len(body), len(self.envelope), self.flags, self.error,
                           self.deadline_ms, self.reply_route_id, self.target_id, self.packet_id) + body

    def check(self):
        routed = self.kind in (PROBE, PROBE_ACK, REQUEST, REPLY, ERROR, CANCEL, CHUNK, FLOW_STATE)
        call = self.kind in (REQUEST, SEND)
        _needs(HELLO <= self.kind <= FLOW_STATE, "unknown kind")
        _needs(self.flags == 0, "reserved flag set")
        _needs(self.error <= {ERROR: 12, FLOW_STATE: 1}.get(self.kind, 0), "bad error kind")
        _needs((self.reply_route_id != 0) == routed, "bad reply_route_id")
        if self.kind == REQUEST:
            _needs(1 <= self.deadline_ms <= INT32_MAX, "bad deadline_ms")
        else:
            _needs(self.deadline_ms == 0, "bad deadline_ms")
        _needs(call or self.target_id == 0, "bad target_id")
        _needs(call or self.kind == REPLY or self.packet_id == 0, "bad packet_id")
        _needs(not self.payload or call or self.kind in (REPLY, CHUNK), "payload")
        _needs(self.kind != CHUNK or len(self.payload) <= CHUNK_BYTES_MAX, "chunk too long")
        _needs(not self.envelope or self.kind not in (PROBE, PROBE_ACK, CANCEL, CHUNK, FLOW_STATE), "envelope")
        _needs(self.envelope or self.kind > ANNOUNCE, "no envelope")
        names_missing = (call and self.target_id == 0) or ((call or self.kind == REPLY) and self.packet_id == 0)
        _needs(self.envelope or not names_missing, "no envelope for a name")
        return self


def read_frame(read_exactly, max_body_bytes):
    """The next frame; `read_exactly(n)` answers n bytes or raises EOFError."""
    (magic, version, kind, body_bytes, envelope_bytes, flags, error, deadline_ms, reply_route_id, target_id,
     packet_id) = PREFIX.unpack(read_exactly(PREFIX.size))
    _needs(magic == MAGIC and version == 1, "bad magic or version")
    _needs(body_bytes <= max_body_bytes, "body over the limit")
    _needs(envelope_bytes <= body_bytes, "envelope longer than the body")
    body = read_exactly(body_bytes)
    return Frame(kind, body[:envelope_bytes], body[envelope_bytes:], flags=flags, error=error, deadline_ms=deadline_ms,
                 reply_route_id=reply_route_id, target_id=target_id, packet_id=packet_id).check()


def chunks_of(frame, number):
    """The frames in which it goes: itself, or CHUNKs with that number where its body is long."""
    data = frame.encode()
    if len(data) - PREFIX.size <= WHOLE_BYTES_MAX:
        return [frame]
    return [Frame(CHUNK, payload=data[at:at + CHUNK_BYTES_MAX], reply_route_id=number)
            for at in range(0, len(data), CHUNK_BYTES_MAX)]


class Assemblies:
    """What comes in CHUNKs, until it is whole."""

    def __init__(self):
        self._open = {}

    def add(self, frame, max_body_bytes):
        """The whole frame, or None: not yet."""
        number, data = frame.reply_route_id, frame.payload
        if number not in self._open:
            _needs(len(data) > PREFIX.size, "a first chunk without its frame's prefix and more")
            kind, body_bytes = data[3], int.from_bytes(data[4:8], "big")
            _needs(kind in (REQUEST, SEND, REPLY) and body_bytes > WHOLE_BYTES_MAX, "a frame that does not go in chunks")
            _needs(len(self._open) < TRANSFERS_MAX, "too many frames in chunks")
            _needs(body_bytes + sum(size for size, _ in self._open.values()) <= max_body_bytes, "too much in chunks")
            self._open[number] = body_bytes, bytearray()
        elif not data:  # given up
            del self._open[number]
            return None
        body_bytes, whole = self._open[number]
        whole += data
        _needs(len(whole) <= PREFIX.size + body_bytes, "more chunks than the frame has bytes")
        if len(whole) < PREFIX.size + body_bytes:
            return None
        del self._open[number]
        return frame_of(bytes(whole), max_body_bytes)


def frame_of(data, max_body_bytes=2**31 - 1):
    """Exactly one frame from `data`."""
    position = 0

    def read_exactly(size):
        nonlocal position
        _needs(position + size <= len(data), "cut short")
        position += size
        return data[position - size:position]

    frame = read_frame(read_exactly, max_body_bytes)
    _needs(position == len(data), "trailing bytes")
    return frame


# ---- envelopes ----

def _varint(data, position):
    value = shift = 0
    while True:
        _needs(position < len(data) and shift < 70, "message cut short")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position


def _check_single_fields(data, descriptor):
    """google.protobuf takes the last of two equal fields: the wire forbids them."""
    seen, position = set(), 0
    while position < len(data):
        key, position = _varint(data, position)
        number, wire_type = key >> 3, key & 7
        field = descriptor.fields_by_number.get(number)
        if field is not None and field.label != field.LABEL_REPEATED:
            _needs(number not in seen, "field stands twice")
            seen.add(number)
        if wire_type == 0:
            _, position = _varint(data, position)
        elif wire_type in (1, 5):
            position += 8 if wire_type == 1 else 4
        elif wire_type == 2:
            size, position = _varint(data, position)
            if field is not None and field.message_type is not None:
                _check_single_fields(data[position:position + size], field.message_type)
            position += size
        else:
            raise FrameError("bad field")
        _needs(position <= len(data), "message cut short")


def text_is_clean(text, max_bytes=NAME_BYTES_MAX):
    return len(text.encode()) <= max_bytes and not any(ord(c) < 0x20 or 0x7F <= ord(c) <= 0x9F for c in text)


def _check_texts(message):
    for field, value in message.ListFields():
        values = value if field.label == field.LABEL_REPEATED else [value]
        for item in values:
            if field.message_type is not None:
                if field.name != "metadata":  # any UTF-8 without NUL: see metadata_of
                    _check_texts(item)
            elif field.cpp_type == field.CPPTYPE_STRING:
                _needs(text_is_clean(item), f"bad text in {field.name}")


def parse(message_type, data):
    """An envelope from its bytes, with the rules that hold for every message."""
    _check_single_fields(data, message_type.DESCRIPTOR)
    message = message_type()
    try:
        message.ParseFromString(bytes(data))
    except Exception as error:
        raise FrameError(f"{message_type.__name__}: {error}") from error
    _check_texts(message)
    return message


def _set_target(message, target):
    if isinstance(target, Channel):
        message.target_kind, message.target_name = 1, target.name
    elif isinstance(target, Node):
        message.target_kind, message.target_name = 3, target.id
    else:
        message.target_kind, message.target_name, message.spot_id = 2, target.type, target.id


def target_of(message):
    """Channel, Spot, Node, or None where the message names no target."""
    if message.target_kind == 0:
        _needs(not message.target_name and not message.spot_id, "target without a kind")
        return None
    _needs(message.target_name, "empty target name")
    if message.target_kind == 1:
        _needs(not message.spot_id, "channel with a Spot id")
        return Channel(message.target_name)
    if message.target_kind == 3:
        _needs(not message.spot_id, "node with a Spot id")
        return Node(message.target_name)
    _needs(message.target_kind == 2 and message.spot_id, "bad target")
    return Spot(message.target_name, message.spot_id)


def hello_frame(kind=HELLO, channels=(), spot_types=(), **fields):
    """HELLO or ADMIT. `channels` are (name, weight)."""
    message = pb.Hello(**fields)
    for name, weight in sorted(channels, key=lambda entry: entry[0].encode()):
        message.channels.add(name=name, weight=weight)
    message.spot_types.extend(sorted(spot_types, key=str.encode))
    return Frame(kind, message.SerializeToString())


def update_frame(revision, draining=False, channels=()):
    message = pb.Update(revision=revision, draining=draining)
    for name, weight in sorted(channels, key=lambda entry: entry[0].encode()):
        message.channels.add(name=name, weight=weight)
    return Frame(UPDATE, message.SerializeToString())


def reject_frame(code, reason=""):
    return Frame(REJECT, pb.Reject(code=code, reason=reason).SerializeToString())


def announce_target_frame(number, target):
    message = pb.Announce(id=number, kind=1)
    _set_target(message, target)
    return Frame(ANNOUNCE, message.SerializeToString())


def announce_packet_frame(number, packet):
    return Frame(ANNOUNCE, pb.Announce(id=number, kind=2, packet=packet).SerializeToString())


def call_envelope(target=None, packet=None, metadata=None, **trace):
    """`trace`: correlation_id, flow_id, flow_origin."""
    message = pb.Call(packet=packet or "", **trace)
    for key, value in (metadata or {}).items():
        message.metadata.add(key=key, value=value)
    if target is not None:
        _set_target(message, target)
    return message.SerializeToString()


def error_frame(reply_route_id, kind, text=""):
    return Frame(ERROR, pb.Failure(text=text).SerializeToString(), reply_route_id=reply_route_id, error=kind)


def metadata_of(message):
    """{key: value} of a Call, with its rules."""
    found, size = {}, 2
    for entry in message.metadata:
        key, value = entry.key.encode(), entry.value.encode()
        size += 3 + len(key) + len(value)
        _needs(1 <= len(key) <= NAME_BYTES_MAX and size <= METADATA_BYTES_MAX, "metadata too long, or without a key")
        _needs(b"\0" not in key + value, "metadata holds a NUL")
        _needs(entry.key not in found, "metadata key stands twice")
        found[entry.key] = entry.value
    return found


def take_trace(frame, message):
    """The correlation and flow ids of a Call, with their rules, into the frame."""
    correlation, flow, origin = message.correlation_id, message.flow_id, message.flow_origin
    _needs(not correlation or frame.kind == REQUEST, "a correlation id of no request")
    _needs(not flow or frame.kind != REPLY, "a reply with a flow id")
    _needs(not correlation or re.fullmatch("[!-~]{1,64}", correlation), "bad correlation id")
    _needs(not flow or FLOW_ID.fullmatch(flow), "bad flow id")
    _needs(origin <= (255 if flow else 0), "bad flow origin")
    frame.correlation_id, frame.flow_id, frame.flow_origin = correlation, flow, origin


class IncomingNames:
    """What the numbers of one connection and direction stand for."""

    def __init__(self):
        self.targets, self.packets, self.name_bytes = [], [], 0

    def add(self, frame):
        message = parse(pb.Announce, frame.envelope)
        target = target_of(message)
        if message.kind == 1:
            _needs(target is not None and not message.packet, "bad announcement")
            names, name, size = self.targets, target, sum(len(part.encode()) for part in target)
        else:
            _needs(message.kind == 2 and target is None and message.packet, "bad announcement")
            names, name, size = self.packets, message.packet, len(message.packet.encode())
        _needs(message.id == len(names) + 1, "announced out of turn")
        self.name_bytes += size
        _needs(len(self.targets) + len(self.packets) < 65536 and self.name_bytes <= 8 * 2**20, "too many names")
        names.append(name)

    @staticmethod
    def _find(names, number):
        _needs(1 <= number <= len(names), "number was not announced")
        return names[number - 1]

    def resolve(self, frame):
        """(target, packet) of a REQUEST, SEND or REPLY; its metadata and ids go into the frame."""
        message = parse(pb.Call, frame.envelope)
        frame.metadata = metadata_of(message)
        _needs(not frame.metadata or frame.kind != REPLY, "a reply with metadata")
        take_trace(frame, message)
        target, packet = target_of(message), message.packet or None
        open_target = frame.kind != REPLY and frame.target_id == 0
        _needs((target is not None) == open_target, "target missing or given twice")
        _needs((packet is not None) == (frame.packet_id == 0), "packet missing or given twice")
        if frame.target_id:
            target = self._find(self.targets, frame.target_id)
        if frame.packet_id:
            packet = self._find(self.packets, frame.packet_id)
        return target, packet
