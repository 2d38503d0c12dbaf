"""A client of the node wire: the standard library's ssl and google.protobuf, written from docs/wire.md alone.

    client = WireClient.connect("127.0.0.1", 7001, "shop", "tool.crt", "tool.key", "ca.crt")
    reply = client.request(Spot("counter", "main"), "samples.counter.AddReq", payload, timeout=2.0)
    client.close()

Any thread may call it. One thread per connection reads, answers probes and hands replies over.
"""
import itertools
import secrets
import select
import socket
import ssl
import threading
import time
import uuid

import zlink_frames as wire
from zlink_frames import Channel, FrameError, Node, Spot  # noqa: F401  (for those who import this module only)

KINDS = ("NotFound", "AlreadyExists", "TypeMismatch", "NotConfigured", "Rejected", "Unavailable", "CapacityExceeded",
         "DeadlineExceeded", "ShuttingDown", "ProtocolError", "InvalidOperation", "DataLost", "InternalFailure")


class WireError(Exception):
    """A call that failed; `kind` is the published number, `remote` whether an ERROR frame said so."""

    kind = None

    def __init__(self, text="", remote=False):
        super().__init__(text or type(self).__name__)
        self.remote = remote


ERRORS = [type(name, (WireError,), {"kind": number}) for number, name in enumerate(KINDS)]
(NotFound, AlreadyExists, TypeMismatch, NotConfigured, Rejected, Unavailable, CapacityExceeded, DeadlineExceeded,
 ShuttingDown, ProtocolError, InvalidOperation, DataLost, InternalFailure) = ERRORS


class AdmissionRejected(Rejected):
    """The node answered REJECT; `code` says why."""

    def __init__(self, code, reason):
        super().__init__(f"rejected with code {code}: {reason}", remote=True)
        self.code = code


def identity_of(certificate):
    """(mesh, name) from the one zlink:// URI of a certificate as ssl describes it."""
    uris = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "URI"]
    if len(uris) != 1 or not uris[0].startswith("zlink://") or uris[0].count("/") != 3:
        raise Rejected(f"the certificate has no node identity: {uris}")
    return tuple(uris[0][len("zlink://"):].split("/"))


def node_id_belongs_to(node_id, name):
    prefix, suffix = node_id[:-36], node_id[-36:]
    try:
        parsed = uuid.UUID(suffix)
    except ValueError:
        return False
    return prefix == name + "-" and str(parsed) == suffix and parsed.version == 4


def own_identity(certificate_file):
    # The only parser of certificates that the standard library has.
    return identity_of(ssl._ssl._test_decode_cert(certificate_file))


def client_context(certificate_file, key_file, ca_file):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False  # identities are URIs; identity_of looks at them after the handshake
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(ca_file)
    context.load_cert_chain(certificate_file, key_file)
    return context


class FrameConnection:
    """Frames over one socket. Reading belongs to one thread; sending may be done by any.

    One TLS session must not be used by two threads at once, so the socket does not block: who has to wait
    waits in select, without the lock."""

    def __init__(self, connection, max_body_bytes=wire.ENVELOPE_BYTES_MAX, timeout=None):
        connection.setblocking(False)
        self.socket = connection
        self.max_body_bytes = max_body_bytes
        self.timeout = timeout  # of each wait; None = for ever
        self.incoming = wire.IncomingNames()
        self.chunks_received = 0
        self._assemblies = wire.Assemblies()
        self._transfers = itertools.count(1)
        self.probes_answered = 0
        self._acked = set()
        self._acknowledged = threading.Condition()
        self._using = threading.Lock()
        self._sending = threading.Lock()

    def _wait(self, reading):
        ready = select.select([self.socket] if reading else [], [] if reading else [self.socket], [], self.timeout)
        if not any(ready):
            raise TimeoutError("the peer is silent")

    def _use(self, operation, argument):
        reading = operation == self.socket.recv
        while True:
            try:
                with self._using:
                    return operation(argument)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
                reading = isinstance(error, ssl.SSLWantReadError)
            except BlockingIOError:
                pass
            self._wait(reading)

    def _read_exactly(self, size):
        parts = []
        while size > 0:
            part = self._use(self.socket.recv, min(size, 65536))
            if not part:
                raise EOFError("the connection was closed")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def receive(self):
        """The next whole frame that is not about liveness."""
        while True:
            frame = wire.read_frame(self._read_exactly, self.max_body_bytes)
            if frame.kind == wire.PROBE:
                self.send(wire.Frame(wire.PROBE_ACK, reply_route_id=frame.reply_route_id))
                self.probes_answered += 1
            elif frame.kind == wire.PROBE_ACK:
                with self._acknowledged:
                    self._acked.add(frame.reply_route_id)
                    self._acknowledged.notify_all()
            elif frame.kind == wire.CHUNK:
                self.chunks_received += 1
                whole = self._assemblies.add(frame, self.max_body_bytes)
                if whole is not None:
                    return whole
            else:
                return frame

    def send(self, *frames):
        for frame in frames:
            for piece in wire.chunks_of(frame, next(self._transfers)):  # others' frames may go between
                self.send_raw(piece.encode())

    def send_raw(self, data):
        with self._sending:
            while data:
                data = data[self._use(self.socket.send, data):]

    def probe(self, number, timeout=10.0):
        """Whether the peer acknowledges a probe in time; needs another thread in receive."""
        self.send(wire.Frame(wire.PROBE, reply_route_id=number))
        with self._acknowledged:
            return self._acknowledged.wait_for(lambda: number in self._acked, timeout)

    def close(self):
        """Any thread: ends both directions, and with it the thread that reads, which then calls release."""
        with self._using:
            try:
                if isinstance(self.socket, ssl.SSLSocket):
                    self.socket.unwrap()  # sends close_notify; the peer's is not waited for
            except (OSError, ValueError):
                pass
            try:
                socket.socket.shutdown(self.socket, socket.SHUT_RDWR)
            except OSError:
                pass

    def release(self):
        with self._using:
            self.socket.close()


class PendingReply:
    """A request on its way."""

    def __init__(self, client, route, deadline):
        self._client, self.route, self._deadline = client, route, deadline
        self._done = threading.Event()
        self._result = None
        self.packet = None

    def finish(self, result, packet=None):
        self._result, self.packet = result, packet
        self._done.set()

    def result(self):
        """The reply's payload; raises the error. Waits until the request's own deadline at most."""
        if not self._done.wait(max(0.0, self._deadline - time.monotonic())):
            self._client.forget(self)
            if not self._done.is_set():
                raise DeadlineExceeded("no reply in time")
        if isinstance(self._result, Exception):
            raise self._result
        return self._result

    def cancel(self):
        self._client.forget(self)
        self.finish(DeadlineExceeded("cancelled"))


class WireClient:
    def __init__(self, node_id, mesh, announce=True):
        self.node_id, self.mesh, self.announce = node_id, mesh, announce
        self.link_id = secrets.randbits(63) | 1
        self.generation = secrets.randbelow(2**63 - 1) + 1
        self.peer = None  # the node's Hello message
        self.peer_draining = False
        self.peer_paused, self.peer_epoch = False, 0
        self.obeys_flow_state = True  # a test may want to see what a node does with one that does not
        self.application = self.completion = None
        self.error = None  # why the link ended
        self.late_replies = 0
        self._routes = itertools.count(1)
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._submitting = threading.Lock()  # not _lock: a send that the node lets wait must not stop the replies
        self._pending = {}
        self._targets, self._packets = {}, {}  # announced on Application
        self._threads = []

    # ---- the link ----

    @classmethod
    def connect(cls, host, port, mesh, cert=None, key=None, ca=None, *, name=None, expect_name=None, timeout=5.0,
                announce=True, hello=None, channel=None):
        """Both connections admitted, or an exception. Without `cert` it is plain TCP and `name` is needed. `hello`
        overrides fields of the HELLO, for tests. With `channel` it is ClientServer: the one connection to a server of
        that channel, which is all that can be called."""
        if cert is not None:
            name = name or own_identity(cert)[1]
        client = cls(f"{name}-{uuid.uuid4()}", mesh, announce)
        context = client_context(cert, key, ca) if cert is not None else None
        if channel is not None:
            hello = {"topology": wire.CLIENT_SERVER, "channels": [(channel, 0)], **(hello or {})}
        try:
            client.application = client._open(host, port, context, wire.APPLICATION, expect_name, timeout, hello or {})
            client.completion = client.application if channel is not None else client._open(
                host, port, context, wire.COMPLETION, expect_name, timeout, hello or {})
        except BaseException:
            for connection in (client.application, client.completion):
                if connection is not None:
                    connection.close()
                    connection.release()
            raise
        for connection, take in ((client.application, client._take_application),
                                 (client.completion, client._take_completion))[:1 if channel is not None else 2]:
            thread = threading.Thread(target=client._read, args=(connection, take), daemon=True)
            thread.start()
            client._threads.append(thread)
        return client

    def hello_fields(self, lane):
        return {"protocol_major": 1, "mesh": self.mesh, "node_id": self.node_id, "lane": lane, "link_id": self.link_id,
                "generation": self.generation, "revision": 1, "role": wire.ROLE_CLIENT, "max_body_bytes": 16 * 2**20}

    def _open(self, host, port, context, lane, expect_name, timeout, changes):
        try:
            connection = socket.create_connection((host, port), timeout=timeout)
        except OSError as error:
            raise Unavailable(f"{host}:{port}: {error}") from error
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                connection = context.wrap_socket(connection, server_hostname=None)
            frames = FrameConnection(connection, timeout=timeout)
            frames.send(wire.hello_frame(**{**self.hello_fields(lane), **changes}))
            answer = frames.receive()
            if answer.kind == wire.REJECT:
                reject = wire.parse(wire.pb.Reject, answer.envelope)
                raise AdmissionRejected(reject.code, reject.reason)
            if answer.kind != wire.ADMIT:
                raise ProtocolError(f"{answer} instead of ADMIT")
            self._admit(wire.parse(wire.pb.Hello, answer.envelope), connection, lane, expect_name, context is not None)
        except (FrameError, EOFError) as error:
            connection.close()  # before admission only this thread knows the socket
            raise ProtocolError(str(error)) from error
        except OSError as error:
            connection.close()
            raise Unavailable(f"{host}:{port}: {error}") from error
        except BaseException:
            connection.close()
            raise
        frames.timeout = None
        frames.max_body_bytes = 16 * 2**20
        return frames

    def _admit(self, peer, connection, lane, expect_name, secure):
        if peer.protocol_major != 1 or peer.mesh != self.mesh:
            raise Rejected(f"another mesh or protocol: {peer.mesh} {peer.protocol_major}")
        if peer.lane != lane or peer.link_id != self.link_id:
            raise ProtocolError("an ADMIT for another link")
        if secure:
            mesh, name = identity_of(connection.getpeercert())
            if mesh != self.mesh or not node_id_belongs_to(peer.node_id, name):
                raise Rejected(f"zlink://{mesh}/{name} may not be {peer.node_id}")
            if expect_name is not None and name != expect_name:
                raise Rejected(f"reached {name} instead of {expect_name}")
        if self.peer is not None and (peer.node_id, peer.generation) != (self.peer.node_id, self.peer.generation):
            raise ProtocolError("the second connection reached another node")
        if self.peer is None:
            self.peer, self.peer_draining = peer, peer.draining
        self.peer_paused = self.peer_paused or peer.paused

    def _end(self, error):
        with self._lock:
            if self.error is not None:
                return
            self.error = error
            pending, self._pending = list(self._pending.values()), {}
            self._changed.notify_all()
        self.application.close()
        self.completion.close()
        for reply in pending:
            reply.finish(Unavailable(f"the link ended: {error}"))

    def close(self):
        self._end(ShuttingDown("closed by this client"))
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def wait_for(self, condition, timeout=10.0):
        """Until condition(client) holds; updates, late replies and the end of the link wake it. True if it does."""
        with self._changed:
            return self._changed.wait_for(lambda: condition(self), timeout)

    # ---- what comes in ----

    def _read(self, connection, take):
        try:
            while True:
                frame = connection.receive()
                if frame.kind == wire.ANNOUNCE:
                    connection.incoming.add(frame)
                else:
                    take(frame)
        except FrameError as error:
            self._end(ProtocolError(str(error)))
        except (EOFError, OSError, ValueError) as error:
            self._end(Unavailable(str(error)))
        finally:
            connection.release()

    def _take_application(self, frame):
        if self.completion is self.application and frame.kind != wire.UPDATE:
            self._take_completion(frame)
            return
        if frame.kind != wire.UPDATE:
            raise FrameError(f"{frame} on the Application connection")
        update = wire.parse(wire.pb.Update, frame.envelope)
        if update.revision < self.peer.revision:
            raise FrameError("an UPDATE with a stale revision")
        with self._changed:
            self.peer.revision = update.revision
            self.peer_draining = update.draining
            del self.peer.channels[:]
            self.peer.channels.extend(update.channels)
            self._changed.notify_all()

    def _take_flow_state(self, frame):
        with self._changed:
            if frame.reply_route_id > self.peer_epoch:
                self.peer_epoch, self.peer_paused = frame.reply_route_id, frame.error == 1
                self._changed.notify_all()

    def say_paused(self, paused, epoch):
        """Tells the node whether this client takes calls; `epoch` has to rise."""
        self.completion.send(wire.Frame(wire.FLOW_STATE, error=int(paused), reply_route_id=epoch))

    def _take_completion(self, frame):
        if frame.kind == wire.FLOW_STATE:
            self._take_flow_state(frame)
            return
        if frame.kind == wire.REPLY:
            _, packet = self.completion.incoming.resolve(frame)
            result = frame.payload
        elif frame.kind == wire.ERROR:
            packet = None
            result = ERRORS[frame.error](wire.parse(wire.pb.Failure, frame.envelope).text, remote=True)
        else:
            raise FrameError(f"{frame} on the Completion connection")
        with self._lock:
            reply = self._pending.pop(frame.reply_route_id, None)
            self.late_replies += reply is None
            self._changed.notify_all()
        if reply is not None:
            reply.finish(result, packet)

    # ---- calls ----

    def _number(self, names, name, announcement, frames):
        """The name's number, 0 = inline; appends the announcement where it is new. While submitting."""
        if not self.announce:
            return 0
        if name not in names:
            names[name] = len(names) + 1
            frames.append(announcement(names[name], name))
        return names[name]

    def _submit(self, kind, target, packet, payload, metadata=None, trace=None, **fields):
        with self._submitting:  # announcements must leave in their order
            if self.error is not None:
                raise Unavailable(f"the link ended: {self.error}")
            frames = []
            target_id = self._number(self._targets, target, wire.announce_target_frame, frames)
            packet_id = self._number(self._packets, packet, wire.announce_packet_frame, frames)
            envelope = wire.call_envelope(None if target_id else target, None if packet_id else packet, metadata,
                                          **(trace or {}))
            frames.append(wire.Frame(kind, envelope, payload, target_id=target_id, packet_id=packet_id, **fields))
            too_large = len(envelope) + len(payload) > self.peer.max_body_bytes
            try:
                self.application.send(*(frames[:-1] if too_large else frames))
            except OSError as error:
                raise Unavailable(str(error)) from error
        if too_large:
            raise CapacityExceeded("the node does not take a message this large")

    def _wait_while_paused(self, timeout):
        with self._changed:
            if self.obeys_flow_state and not self._changed.wait_for(
                    lambda: not self.peer_paused or self.error is not None, timeout):
                raise DeadlineExceeded("the node is paused")

    def begin(self, target, packet, payload, timeout=5.0, metadata=None, trace=None):
        """Sends a request; the answer is a PendingReply."""
        deadline = time.monotonic() + timeout
        self._wait_while_paused(timeout)
        deadline_ms = min(max(1, int((deadline - time.monotonic()) * 1000)), wire.INT32_MAX)
        with self._lock:
            reply = PendingReply(self, next(self._routes), deadline)
            self._pending[reply.route] = reply
        try:
            self._submit(wire.REQUEST, target, packet, payload, metadata, trace, reply_route_id=reply.route,
                         deadline_ms=deadline_ms)
        except BaseException:
            with self._lock:
                self._pending.pop(reply.route, None)
            raise
        return reply

    def request(self, target, packet, payload, timeout=5.0, reply_packet=None, metadata=None):
        """The reply's payload; raises NotFound, Unavailable, DeadlineExceeded and so on."""
        reply = self.begin(target, packet, payload, timeout, metadata)
        result = reply.result()
        if reply_packet is not None and reply.packet != reply_packet:
            raise ProtocolError(f"the reply is a {reply.packet}, not a {reply_packet}")
        return result

    def send(self, target, packet, payload, metadata=None, timeout=1.0):
        """One-way; `timeout` is for the time in which the node may be paused."""
        self._wait_while_paused(timeout)
        self._submit(wire.SEND, target, packet, payload, metadata)

    def forget(self, reply):
        """Nobody waits for it any more: tells the node, and drops what still comes."""
        with self._lock:
            if self._pending.pop(reply.route, None) is None or self.error is not None:
                return
        try:
            self.application.send(wire.Frame(wire.CANCEL, reply_route_id=reply.route))
        except OSError:
            pass  # the reading thread finds out why
