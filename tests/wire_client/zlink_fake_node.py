"""The other end of the node wire, just enough of it to test clients: it admits links and answers calls by a function.

    def answer(target, packet, payload):        # returns (packet, payload), or raises a WireError
        return "samples.counter.AddRes", b"..."

    with FakeNode("shop", "fake", answer) as node:
        client = WireClient.connect("127.0.0.1", node.port, "shop", name="tool")

It is strict where docs/wire.md is, so that a client's mistakes show; `node.problems` lists them.
"""
import secrets
import socket
import ssl
import threading
import uuid

import zlink_frames as wire
from zlink_frames import FrameError
from zlink_wire_client import FrameConnection, WireError, identity_of, node_id_belongs_to


def server_context(certificate_file, key_file, ca_file):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(ca_file)
    context.load_cert_chain(certificate_file, key_file)
    return context


class Link:
    """One client: its description and its connections, Completion None until it is there."""

    def __init__(self, peer, application):
        self.peer, self.application, self.completion = peer, application, None
        self.canceled = []
        self.reply_packets = {}  # announced on Completion
        self.lock = threading.Lock()


class FakeNode:
    def __init__(self, mesh, name, answer, *, tls=None, announce=True, reject=None, byte_by_byte=False,
                 max_body_bytes=2**20, admit=None):
        """`tls` is (certificate, key, authority). `reject` is (code, reason). `byte_by_byte` sends every byte on its
        own. `admit` overrides fields of the ADMIT."""
        self.mesh, self.answer, self.announce, self.reject = mesh, answer, announce, reject
        self.byte_by_byte, self.max_body_bytes, self.admit = byte_by_byte, max_body_bytes, admit or {}
        self.node_id = f"{name}-{uuid.uuid4()}"
        self.generation = secrets.randbelow(2**63 - 1) + 1
        self.links, self.problems, self.sends = [], [], []
        self._context = server_context(*tls) if tls else None
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._connections, self._threads = [], []
        self._start(self._accept)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _start(self, function, *arguments):
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._start(self._serve, connection)

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.close()
        for thread in self._threads[1:]:
            thread.join()

    def wait_for(self, condition, timeout=10.0):
        """Until condition(node) holds; what changes links, sends, cancels or problems wakes it."""
        with self._changed:
            if not self._changed.wait_for(lambda: condition(self), timeout):
                raise TimeoutError("the fake node waited in vain")

    def _note(self, add):
        with self._changed:
            add()
            self._changed.notify_all()

    # ---- one connection ----

    def _send(self, connection, *frames):
        data = b"".join(frame.encode() for frame in frames)
        if not self.byte_by_byte:
            connection.send_raw(data)
            return
        for i in range(len(data)):
            connection.send_raw(data[i:i + 1])

    def _serve(self, raw):
        connection = link = None
        try:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is not None:
                raw = self._context.wrap_socket(raw, server_side=True)
            connection = FrameConnection(raw, timeout=30)
            with self._lock:
                self._connections.append(connection)
            link = self._admit(connection)
            while link is not None:
                self._take(link, connection, connection.receive())
        except FrameError as error:
            self._note(lambda error=error: self.problems.append(str(error)))
        except (EOFError, OSError, ValueError):
            pass
        finally:
            if link is not None:  # losing one connection ends the link
                for end in (link.application, link.completion):
                    if end is not None:
                        end.close()
                self._note(lambda: self.links.remove(link) if link in self.links else None)
            if connection is not None:
                connection.close()
                with self._lock:
                    self._connections.remove(connection)
                connection.release()
            else:
                raw.close()

    def _admit(self, connection):
        frame = connection.receive()
        if frame.kind != wire.HELLO:
            raise FrameError(f"{frame} before HELLO")
        peer = wire.parse(wire.pb.Hello, frame.envelope)
        code = self._reason_to_reject(peer, connection)
        if self.reject is not None or code is not None:
            self._send(connection, wire.reject_frame(*(self.reject or (code, "refused"))))
            connection.close()
            return None
        with self._lock:
            link = next((link for link in self.links if link.completion is None and peer.lane == wire.COMPLETION and
                         link.peer.link_id == peer.link_id and link.peer.generation == peer.generation and
                         link.peer.node_id == peer.node_id), None)
        if peer.lane == wire.COMPLETION and link is None:
            self._send(connection, wire.reject_frame(6, "no link waits for this connection"))
            connection.close()
            return None
        fields = {"protocol_major": 1, "mesh": self.mesh, "node_id": self.node_id, "lane": peer.lane,
                  "link_id": peer.link_id, "generation": self.generation, "revision": 1, "role": wire.ROLE_SERVER,
                  "max_body_bytes": self.max_body_bytes, **self.admit}
        connection.max_body_bytes = self.max_body_bytes
        if peer.lane == wire.COMPLETION:
            self._note(lambda: setattr(link, "completion", connection))
        else:
            link = Link(peer, connection)
            self._note(lambda: self.links.append(link))
        self._send(connection, wire.hello_frame(wire.ADMIT, **fields))
        return link

    def _reason_to_reject(self, peer, connection):
        if peer.protocol_major != 1:
            return 1
        if peer.mesh != self.mesh:
            return 2
        if self._context is not None:
            mesh, name = identity_of(connection.socket.getpeercert())
            if mesh != self.mesh:
                return 4
            if not node_id_belongs_to(peer.node_id, name):
                return 3
        if peer.lane > 1 or not peer.link_id or not 1 <= peer.generation < 2**63 or not peer.revision or \
                peer.role not in (wire.ROLE_CLIENT, wire.ROLE_SERVER) or not 65536 <= peer.max_body_bytes < 2**31:
            return 11
        return None

    def _take(self, link, connection, frame):
        if frame.kind == wire.ANNOUNCE:
            connection.incoming.add(frame)
        elif connection is not link.application:
            raise FrameError(f"{frame} on the Completion connection")
        elif frame.kind == wire.CANCEL:
            self._note(lambda: link.canceled.append(frame.reply_route_id))
        elif frame.kind in (wire.REQUEST, wire.SEND):
            target, packet = connection.incoming.resolve(frame)
            if frame.kind == wire.SEND:
                self._note(lambda: self.sends.append((target, packet, frame.payload)))
            else:
                self._reply(link, frame, target, packet)
        else:
            raise FrameError(f"{frame} on the Application connection")

    def _reply(self, link, frame, target, packet):
        try:
            result = self.answer(target, packet, frame.payload)
        except WireError as error:
            self._send(link.completion, wire.error_frame(frame.reply_route_id, error.kind, str(error)))
            return
        if result is None:  # never answers
            return
        reply_packet, payload = result
        frames, number = [], 0
        with link.lock:
            if self.announce:
                if reply_packet not in link.reply_packets:
                    link.reply_packets[reply_packet] = len(link.reply_packets) + 1
                    frames.append(wire.announce_packet_frame(link.reply_packets[reply_packet], reply_packet))
                number = link.reply_packets[reply_packet]
            envelope = b"" if number else wire.call_envelope(packet=reply_packet)
            frames.append(wire.Frame(wire.REPLY, envelope, payload, reply_route_id=frame.reply_route_id,
                                     packet_id=number))
            self._send(link.completion, *frames)
