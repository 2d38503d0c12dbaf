"""Runs whole meshes: zlink-node processes over TLS on loopback, and what a test needs to play with them.

A test is a function test_*(mesh). It starts nodes through `mesh`, waits for conditions (never for a while), and returns
or raises. Afterwards every node that still runs gets SIGTERM and must end with 0, and nothing that a sanitizer
says may stand in any node's stderr. `main()` runs a file's tests and prints a line for each.
"""
import argparse
import collections
import ctypes
import importlib.util
import json
import os
import queue
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "wire_client"))

import zlink_frames as wire  # noqa: E402
import zlink_wire_client as api  # noqa: E402
from zlink_wire_client import Channel, Spot, WireClient  # noqa: E402,F401

MESH = "shop"
WAIT_S = 30.0
TEST_S = 60
SANITIZER = re.compile(r"ERROR: AddressSanitizer|WARNING: ThreadSanitizer|runtime error:|LeakSanitizer|"
                       r"Assertion `.*' failed")
LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1


class Failure(Exception):
    """A test's expectation that does not hold."""


class TooLong(BaseException):
    """A test's hard deadline."""


def check(condition, what):
    if not condition:
        raise Failure(what)


def equal(found, expected, what):
    check(found == expected, f"{what}: found {found!r}, expected {expected!r}")


def wait_until(condition, what, timeout=WAIT_S):
    """The condition's first true value; asks again and again, so that no test depends on how fast things are."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failure(f"not within {timeout:.0f} s: {what() if callable(what) else what}")
        time.sleep(0.01)


def raises(kind, call, *arguments, **fields):
    """The exception that the call ends with, which must be of this kind."""
    try:
        result = call(*arguments, **fields)
    except kind as error:
        return error
    raise Failure(f"{kind.__name__} was expected, found {result!r}")


def limit(seconds):
    """A test's own hard deadline."""
    def mark(test):
        test.limit_s = seconds
        return test
    return mark


# ---- messages ----

def load_messages(proto):
    """The Python classes of a .proto file, as a module."""
    name = os.path.basename(proto)[:-len(".proto")] + "_pb2"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["/usr/bin/protoc", f"--proto_path={os.path.dirname(proto)}", f"--python_out={folder}", proto],
                       check=True)
        spec = importlib.util.spec_from_file_location(name, os.path.join(folder, f"{name}.py"))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


pb = load_messages(f"{HERE}/modules/mesh.proto")
FAR, SLOW = Channel("far"), Channel("slow")


def probe(name):
    return Spot("probe", name)


def packet_of(message):
    return message.DESCRIPTOR.full_name


def parsed(packet, payload):
    return getattr(pb, packet.rsplit(".", 1)[1]).FromString(payload)


class Started:
    """A request on its way."""

    def __init__(self, pending):
        self.pending = pending

    def done(self):
        return self.pending._done.is_set()

    def result(self):
        payload = self.pending.result()
        return parsed(self.pending.packet, payload)

    def outcome(self):
        """The name of how it ended."""
        try:
            self.result()
        except api.WireError as error:
            return type(error).__name__
        return "Ok"


class Client(WireClient):
    """The Python client, with the messages of the tests' modules."""

    def start(self, target, message, timeout=WAIT_S):
        return Started(self.begin(target, packet_of(message), message.SerializeToString(), timeout))

    def ask(self, target, message, timeout=WAIT_S):
        return self.start(target, message, timeout).result()

    def tell(self, target, message):
        self.send(target, packet_of(message), message.SerializeToString())

    def log(self, target):
        return self.ask(target, pb.LogReq())

    def fence(self):
        """Everything that was sent before has its place in a queue of the node: frames are taken in their order."""
        self.ask(probe("fence"), pb.PingReq())


class HandCall:
    """A request or one-way message that a node sent to a Hand."""

    def __init__(self, hand, frame, target, packet):
        self._hand, self.route, self.deadline_ms = hand, frame.reply_route_id, frame.deadline_ms
        self.target, self.packet, self.payload = target, packet, frame.payload
        self.trace = frame.correlation_id, frame.flow_id, frame.flow_origin
        self.message = parsed(packet, frame.payload)

    @property
    def tag(self):
        return self.message.tag

    def reply(self, message=None):
        message = pb.LatchRes(number=1) if message is None else message
        self._hand.completion.send(wire.Frame(wire.REPLY, wire.call_envelope(packet=packet_of(message)),
                                              message.SerializeToString(), reply_route_id=self.route))

    def error(self, kind):
        self._hand.completion.send(wire.error_frame(self.route, kind))


class Hand(WireClient):
    """A peer that serves channels by hand: the test sees each request of a node and says when it is answered."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.calls = queue.Queue()
        self.canceled = []
        self.answer = None  # a function of the HandCall, instead of the queue

    def _take_application(self, frame):
        if frame.kind in (wire.REQUEST, wire.SEND):
            target, packet = self.application.incoming.resolve(frame)
            call = HandCall(self, frame, target, packet)
            if self.answer is not None:
                self.answer(call)
            else:
                self.calls.put(call)
        elif frame.kind == wire.CANCEL:
            self.canceled.append(frame.reply_route_id)
        else:
            super()._take_application(frame)

    def take(self, tag=None, timeout=WAIT_S):
        """The next request; with `tag` it must be that one."""
        try:
            call = self.calls.get(timeout=timeout)
        except queue.Empty:
            raise Failure(f"no request reached the hand ({tag})") from None
        if tag is not None:
            equal(call.tag, tag, "the request that reached the hand")
        return call

    def take_all(self, count):
        """That many requests, by tag."""
        calls = [self.take() for _ in range(count)]
        return {call.tag: call for call in calls}


class Proxy:
    """A TCP forwarder in front of a node, whose connections a test can cut."""

    def __init__(self, port):
        self.target = port
        self.pairs = []  # of every connection ever, in their order; cut ones are closed
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            with self._lock:
                self.pairs.append((near, far))
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._copy, args=(source, sink), daemon=True).start()

    @staticmethod
    def _copy(source, sink):
        try:
            while True:
                data = source.recv(65536)
                if not data:
                    break
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def count(self):
        with self._lock:
            return len(self.pairs)

    def cut(self, index):
        """As if the network had lost it: a reset, to both sides."""
        with self._lock:
            pair = self.pairs[index]
        for end in pair:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()
        with self._lock:
            for pair in self.pairs:
                for end in pair:
                    end.close()


# ---- processes ----

def _die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def yaml_of(value, indent=""):
    lines = []
    for key, item in value.items():
        if isinstance(item, dict):
            lines.append(f"{indent}{key}:\n" + yaml_of(item, indent + "  "))
        elif isinstance(item, (list, tuple)):
            lines.append(f"{indent}{key}:\n" if item else f"{indent}{key}: []\n")
            for entry in item:
                if isinstance(entry, dict):
                    text = yaml_of(entry, indent + "    ")
                    lines.append(f"{indent}  - " + text[len(indent) + 4:])
                else:
                    lines.append(f"{indent}  - {entry}\n")
        else:
            lines.append(f"{indent}{key}: {item}\n")
    return "".join(lines)


ESTABLISHED, LISTENING = 1, 10


def _tcp_rows():
    with open("/proc/thread-self/net/tcp", encoding="ascii") as file:
        return [line.split() for line in file.readlines()[1:]]


def tcp_sockets():
    """(local port, state) of every socket of this machine."""
    return [(int(row[1].rsplit(":", 1)[1], 16), int(row[3], 16)) for row in _tcp_rows()]


def remote_ends(local_port):
    """(address, port) of the other end of each connection that is established on this port."""
    ends = [row[2].split(":") for row in _tcp_rows()
            if int(row[1].rsplit(":", 1)[1], 16) == local_port and int(row[3], 16) == ESTABLISHED]
    return [(socket.inet_ntoa(struct.pack("<I", int(address, 16))), int(port, 16)) for address, port in ends]


def free_ports(count):
    """Ports that nobody uses now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def listening_ports():
    return {port for port, state in tcp_sockets() if state == LISTENING}


class Node:
    """One zlink-node: its configuration, its process, its status."""

    def __init__(self, mesh, name, config):
        self.mesh, self.name, self.config = mesh, name, config
        self.config_path = os.path.join(mesh.folder, f"{name}.yaml")
        self.control = os.path.join(mesh.folder, f"{name}.sock")
        self.stderr_path = os.path.join(mesh.folder, f"{name}.err")
        self.process = None
        self.exit_code = None
        self.port = None

    def write_config(self):
        with open(self.config_path, "w", encoding="utf-8") as file:
            file.write(yaml_of(self.config))

    def command(self):
        return [self.mesh.program("node/zlink-node"), "--config", self.config_path]

    def launch(self):
        """Starts the process and does not wait for anything."""
        self.write_config()
        self.exit_code = None
        with open(self.stderr_path, "ab") as stderr:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
                preexec_fn=_die_with_parent,
                env={**os.environ, "ZLINK_MESH_TEST_FOLDER": self.mesh.folder})
        return self

    def start(self):
        self.launch()
        return self.wait_serving()

    def wait_serving(self):
        def serving():
            if self.process.poll() is not None:
                raise Failure(f"{self.name} ended with {self.process.returncode}: {self.stderr()[-2000:]}")
            status = self.status()
            return status if status and status["state"] == "serving" else None

        status = wait_until(serving, f"{self.name} serves")
        if status["listen"]:
            self.port = int(status["listen"].rsplit(":", 1)[1])
        return self

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def keep_port(self):
        """The next life listens where this one does."""
        self.config["listen"] = self.address

    def status(self):
        """The status as a dict, None where nobody answers."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(10)
        parts = []
        try:
            connection.connect(self.control)
            connection.sendall(b"status\n")
            while part := connection.recv(65536):
                parts.append(part)
        except OSError:
            return None
        finally:
            connection.close()
        return json.loads(b"".join(parts)) if parts else None

    def counter(self, name):
        status = self.status()
        check(status is not None, f"{self.name} has no status")
        check(name in status["counters"], f"no counter {name}: {sorted(status['counters'])}")
        return status["counters"][name]

    def links(self, state="ready"):
        status = self.status()
        return [link for link in (status or {}).get("links", []) if link["state"] == state]

    def wait_links(self, *names):
        """Exactly these peers have a ready link; answers {name: link}."""
        def linked():
            return sorted(link["name"] for link in self.links()) == sorted(names)

        wait_until(linked, lambda: f"{self.name} is linked to {names}: {(self.status() or {}).get('links')}")
        return {link["name"]: link for link in self.links()}

    def wait_counter(self, name, minimum):
        wait_until(lambda: self.counter(name) >= minimum,
                   lambda: f"{self.name}: {name} is {self.counter(name)}, at least {minimum} expected")

    def connections(self):
        """Established TCP connections that came in on this node's port."""
        return sum(port == self.port and state == ESTABLISHED for port, state in tcp_sockets())

    def stderr(self):
        try:
            with open(self.stderr_path, encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def wait_log(self, *texts):
        """A line of stderr with all these texts."""
        return wait_until(lambda: next((line for line in self.stderr().splitlines()
                                        if all(text in line for text in texts)), None),
                          lambda: f"{self.name} logs {texts}: {self.stderr()[-1500:]}")

    def signal(self, number):
        self.process.send_signal(number)

    def wait_exit(self, expected=0, timeout=WAIT_S):
        try:
            self.exit_code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} does not end: {self.stderr()[-1500:]}") from None
        equal(self.exit_code, expected, f"exit code of {self.name}, {self.stderr()[-1500:]}")

    def stop(self):
        self.signal(signal.SIGTERM)
        self.wait_exit(0)

    def kill(self):
        """Until the port is free, too: the kernel takes a killed process's ring apart in its own time."""
        self.signal(signal.SIGKILL)
        self.wait_exit(-signal.SIGKILL)
        wait_until(lambda: self.port not in listening_ports(), f"the port of {self.name} is free")

    def report(self):
        """What is there to say of it when a test has failed."""
        status = self.status() if self.runs() else None
        if status:
            status["counters"] = {name: value for name, value in status["counters"].items() if value}
        return f"status of {self.name}: {json.dumps(status)}\nstderr of {self.name}:\n{self.stderr()[-3000:]}"

    def runs(self):
        return self.process is not None and self.exit_code is None


Result = collections.namedtuple("Result", "code out err")


class Mesh:
    """What one test has: a folder, an authority, nodes, clients."""

    def __init__(self, build):
        self.build = build
        self.folder = tempfile.mkdtemp(prefix="zlm-")
        self.nodes, self._closing, self._certified, self._said = [], [], set(), []
        self.sanitized = self._cached("ZLINK_SANITIZE")

    def _cached(self, key):
        with open(os.path.join(self.build, "CMakeCache.txt"), encoding="utf-8") as file:
            return next((line.split("=", 1)[1].strip() for line in file if line.startswith(key + ":")), "")

    def program(self, path):
        return os.path.join(self.build, path)

    def module(self, name):
        folder = "samples/counter" if name in ("counter", "prices") else "tests/mesh"
        return os.path.join(self.build, folder, name + ".so")

    def path(self, name):
        return os.path.join(self.folder, name)

    # ---- tools ----

    def run(self, *command, timeout=WAIT_S, stdin=b""):
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=timeout, check=False,
                              preexec_fn=_die_with_parent)
        result = Result(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
        self._said.append((command[0], result.err))
        return result

    def ctl(self, *arguments, **fields):
        return self.run(self.program("ctl/zlinkctl"), *arguments, **fields)

    def ctl_ok(self, *arguments, **fields):
        result = self.ctl(*arguments, **fields)
        equal(result.code, 0, f"exit code of zlinkctl {' '.join(arguments)}, {result.err}")
        return result

    def authority(self, folder="certs", mesh=MESH):
        if folder not in self._certified:
            self._certified.add(folder)
            self.ctl_ok("certs", "init", "--dir", self.path(folder), "--mesh", mesh)
        return self.path(folder)

    def certificate(self, name, kind="node", folder="certs", mesh=MESH):
        """{ca, certificate, key}: the files, made at the first use."""
        authority = self.authority(folder, mesh)
        if (folder, name) not in self._certified:
            self._certified.add((folder, name))
            self.ctl_ok("certs", kind, "--dir", authority, "--name", name)
        return {"ca": f"{authority}/ca.pem", "certificate": f"{authority}/{name}.pem", "key": f"{authority}/{name}.key"}

    def forge(self, name, san, *, days=(-1, 30), folder="certs"):
        """A certificate of the mesh's authority that zlinkctl would not make: other names, other times."""
        authority, base = self.authority(folder), self.path(name)
        stamp = [time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + day * 86400)) for day in days]
        os.makedirs(f"{base}.new", exist_ok=True)
        for file, text in (("index.txt", ""), ("serial", "01\n"), ("ca.cnf", (
                f"[ca]\ndefault_ca=forge\n[forge]\ndatabase={base}.new/index.txt\nserial={base}.new/serial\n"
                f"new_certs_dir={base}.new\ncertificate={authority}/ca.pem\nprivate_key={authority}/ca.key\n"
                "default_md=sha256\npolicy=any\nx509_extensions=leaf\nunique_subject=no\n"
                "[any]\ncommonName=supplied\n"
                "[leaf]\nbasicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n"
                f"extendedKeyUsage=serverAuth,clientAuth\nsubjectAltName={san}\n"))):
            with open(f"{base}.new/{file}", "w", encoding="ascii") as out:
                out.write(text)
        for command in (["req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                         f"/CN={name}", "-keyout", f"{base}.key", "-out", f"{base}.csr"],
                        ["ca", "-batch", "-config", f"{base}.new/ca.cnf", "-startdate", stamp[0], "-enddate", stamp[1],
                         "-notext", "-in", f"{base}.csr", "-out", f"{base}.pem"]):
            done = self.run("/usr/bin/openssl", *command)
            check(done.code == 0, f"openssl {command[0]}: {done.err}")
        os.chmod(f"{base}.key", 0o600)
        return {"ca": f"{authority}/ca.pem", "certificate": f"{base}.pem", "key": f"{base}.key"}

    # ---- members ----

    def config(self, name, modules=("probe", "far"), peers=(), **more):
        config = {"mesh": MESH, "name": name, "listen": "127.0.0.1:0", "control": self.path(f"{name}.sock")}
        if modules:
            config["modules"] = [self.module(module) for module in modules]
        if peers:
            config["peers"] = [peer.address if isinstance(peer, Node) else peer for peer in peers]
        if more.get("transport", "tls") == "tls":
            config["tls"] = self.certificate(name)
        config.update({"shutdown_timeout": "20s", **more})
        return {key: value for key, value in config.items() if value is not None}

    def node(self, name, *arguments, start=True, **fields):
        node = Node(self, name, self.config(name, *arguments, **fields))
        self.nodes.append(node)
        return node.start() if start else node

    def _connect(self, kind, certificate, node, **fields):
        files = {"cert": certificate["certificate"], "key": certificate["key"], "ca": certificate["ca"]}
        if node.config.get("transport", "tls") != "tls":
            files = {}
        member = kind.connect("127.0.0.1", node.port, MESH, **files, timeout=WAIT_S, **fields)
        self._closing.append(member)
        return member

    def client(self, node, name="tool", certificate=None, **fields):
        return self._connect(Client, certificate or self.certificate(name, "client"), node, name=name, **fields)

    def hand(self, node, *channels, name="hand"):
        """Joins as a server of these channels; returns when the node knows it."""
        hand = self._connect(Hand, self.certificate(name), node, name=name,
                             hello={"role": wire.ROLE_SERVER, "channels": [(c, 100) for c in channels or ("latch",)]})
        wait_until(lambda: any(link["name"] == name for link in node.links()), f"{node.name} is linked to {name}")
        return hand

    def proxy(self, port):
        proxy = Proxy(port)
        self._closing.append(proxy)
        return proxy

    def load(self, nodes, target, message, count, outstanding, *more, timeout="5s", background=False):
        """zlinkctl call --json; answers its summary, or the process for `load_result`."""
        files = self.certificate("loader", "client")
        command = [self.program("ctl/zlinkctl"), "call", "--ca", files["ca"], "--cert", files["certificate"], "--key",
                   files["key"], "--json", "--quiet", "--count", str(count), "--outstanding", str(outstanding),
                   "--timeout", timeout, "--hex", message.SerializeToString().hex(), *more]
        for node in nodes:
            command += ["--connect", node.address]
        process = subprocess.Popen(command + [target, packet_of(message)], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=_die_with_parent)
        self._closing.append(process)
        return process if background else self.load_result(process)

    def load_result(self, process, timeout=120):
        out, err = process.communicate(timeout=timeout)
        self._said.append(("zlinkctl", err.decode(errors="replace")))
        check(out, f"zlinkctl call said nothing: {err.decode(errors='replace')}")
        return json.loads(out)

    # ---- the end ----

    def finish(self):
        """In order; a node that does not end by itself with 0 fails the test."""
        self._close_members()
        running = [node for node in self.nodes if node.runs()]
        for node in running:
            node.signal(signal.SIGTERM)
        for node in running:
            node.wait_exit(0)

    def said_by_sanitizers(self):
        said = [(node.name, node.stderr()) for node in self.nodes] + self._said
        return [f"{name}: {text[max(0, found.start() - 200):found.start() + 3000]}" for name, text in said
                for found in [SANITIZER.search(text)] if found]

    def _close_members(self):
        for member in self._closing:
            if not isinstance(member, subprocess.Popen):
                member.close()
            elif member.poll() is None:
                member.kill()
                member.communicate()
        self._closing = []

    def destroy(self):
        for node in self.nodes:
            if node.runs() and node.process.poll() is None:
                node.process.kill()
                node.process.wait()
        try:
            self._close_members()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


# ---- bytes by hand ----

class Raw:
    """A connection on which a test says what it likes."""

    def __init__(self, node, certificate=None, timeout=WAIT_S):
        connection = socket.create_connection(("127.0.0.1", node.port), timeout=timeout)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if certificate is not None:
            context = api.client_context(certificate["certificate"], certificate["key"], certificate["ca"])
            connection = context.wrap_socket(connection)
        self.frames = api.FrameConnection(connection, max_body_bytes=2**24, timeout=timeout)

    def send(self, *frames):
        self.frames.send(*frames)

    def send_bytes(self, data):
        self.frames.send_raw(data)

    def receive(self):
        return self.frames.receive()

    def wait_closed(self, what):
        """The node ends the connection; what it may still have to say is left aside."""
        try:
            while True:
                self.frames.receive()
        except TimeoutError:
            raise Failure(f"the connection was not closed: {what}") from None
        except (EOFError, OSError, wire.FrameError):
            pass
        self.close()

    def close(self):
        self.frames.close()
        self.frames.release()


class RawLink:
    """Both connections, admitted, with nobody reading."""

    def __init__(self, node, name="tool", certificate=None):
        self.identity = {"node_id": f"{name}-{uuid.uuid4()}", "link_id": int.from_bytes(os.urandom(8), "big") | 1,
                         "generation": int.from_bytes(os.urandom(7), "big") + 1}
        self.ends = []
        for lane in (wire.APPLICATION, wire.COMPLETION):
            end = Raw(node, certificate)
            self.ends.append(end)
            end.send(self.hello(lane))
            answer = end.receive()
            equal(answer.kind, wire.ADMIT, f"the answer to HELLO on lane {lane} ({answer})")
        self.application, self.completion = self.ends

    def hello(self, lane, **changes):
        return wire.hello_frame(**{"protocol_major": 1, "mesh": MESH, "lane": lane, "revision": 1,
                                   "role": wire.ROLE_CLIENT, "max_body_bytes": 2**24, **self.identity, **changes})

    def close(self):
        for end in self.ends:
            end.close()


# ---- the runner ----

def _run(test, build):
    """None, or why it failed."""
    mesh = Mesh(build)
    seconds = getattr(test, "limit_s", TEST_S) * (4 if mesh.sanitized else 1)
    problems = []

    def expire(_number, _frame):
        raise TooLong(f"not done within {seconds} s")

    signal.signal(signal.SIGALRM, expire)
    signal.alarm(seconds)
    try:
        try:
            test(mesh)
            mesh.finish()
        except Failure as error:
            where = traceback.extract_tb(error.__traceback__)
            lines = [f"{os.path.basename(f.filename)}:{f.lineno}" for f in where if "harness" not in f.filename]
            problems.append(f"{error} ({', '.join(lines)})")
        except (Exception, TooLong):
            problems.append(traceback.format_exc())
        signal.alarm(0)
        problems += mesh.said_by_sanitizers()
        if problems:
            problems += [node.report() for node in mesh.nodes]
    finally:
        signal.alarm(0)
        mesh.destroy()
    return "\n".join(problems) or None


def main(tests):
    """Runs the test_* functions of a file: `main(globals())`."""
    parser = argparse.ArgumentParser(description="Tests with whole nodes.")
    parser.add_argument("--build", required=True, help="the build folder")
    parser.add_argument("--only", action="append", help="only tests with this in their name; may be given again")
    parser.add_argument("--exactly", help="only the test of this name")
    arguments = parser.parse_args()
    build = os.path.abspath(arguments.build)
    passed = failed = 0
    for name, test in list(tests.items()):
        if not name.startswith("test_") or not callable(test):
            continue
        if arguments.only and not any(part in name for part in arguments.only):
            continue
        if arguments.exactly and name != arguments.exactly:
            continue
        begin = time.monotonic()
        problem = _run(test, build)
        print(f"{'FAILED' if problem else 'ok'} {name} {time.monotonic() - begin:.2f} s", flush=True)
        if problem:
            print("    " + problem.replace("\n", "\n    "), flush=True)
        passed, failed = passed + (problem is None), failed + (problem is not None)
    print(f"{passed} passed, {failed} failed")
    sys.exit(0 if failed == 0 and passed > 0 else 1)


def ssl_context_without_certificate(ca):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.load_verify_locations(ca)
    return context
