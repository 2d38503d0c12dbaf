"""Networks that belong to a test, and what can go wrong with them.

A Network is a namespace for each node. Two of them can be joined by a Wire, which this process carries frame by frame
and so delays, swaps and doubles them; any number by a bridge. The other faults are the kernel's: nft and tbf. All that
is made has this process's number in its name, and what a killed test has left is removed by the next one.
"""
import contextlib
import ctypes
import fcntl
import functools
import heapq
import itertools
import os
import random
import select
import shutil
import struct
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "mesh"))

from harness import Failure, check  # noqa: E402

PREFIX = "zln"
BRIDGE = "switch"
DEVICE = "eth0"
TUN = "/dev/net/tun"
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
CLONE_NEWNET = 0x40000000
FRAME_BYTES_MAX = 2048
WIRE_FRAMES_MAX = 10000  # on their way; more are lost, as in any network
LIBC = ctypes.CDLL(None, use_errno=True)
_numbers = itertools.count(1)


def run(*command, text=None):
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, "PATH": path})
    check(done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def _enter(file):
    if LIBC.setns(file, CLONE_NEWNET) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"setns: {os.strerror(error)}")


class Namespace:
    def __init__(self, name):
        self.name = f"{PREFIX}{os.getpid()}-{name}"
        run("ip", "netns", "add", self.name)
        self.ip("link", "set", "dev", "lo", "up")

    def ip(self, *arguments):
        return run("ip", "-netns", self.name, *arguments)

    def command(self, *arguments):
        return ["ip", "netns", "exec", self.name, *arguments]

    @contextlib.contextmanager
    def entered(self):
        """This thread's sockets, and what it reads below /proc/net, belong to the namespace."""
        with open("/proc/thread-self/ns/net", "rb") as own, open(f"/run/netns/{self.name}", "rb") as other:
            _enter(other.fileno())
            try:
                yield
            finally:
                _enter(own.fileno())

    def tap(self):
        """A network device whose frames this process reads and writes: its descriptor."""
        with self.entered():  # the device is made where the file is opened
            file = os.open(TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH", DEVICE.encode(), IFF_TAP | IFF_NO_PI))
        return file

    def remove(self):
        run("ip", "netns", "delete", self.name)


def why_not():
    """Why there can be no such networks here; None where there can."""
    if os.geteuid() != 0:
        return "network namespaces take root"
    search = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    for tool in ("ip", "tc", "nft"):
        if shutil.which(tool, path=search) is None:
            return f"there is no {tool} (tools/setup.sh installs it)"
    try:
        with Network(("a", "b"), wire=True) as network:
            for fault in (network.lose(1), network.reset("a", "b"), network.slow("1kbps")):
                fault.heal()
        with Network(("a", "b")):
            pass
    except (Failure, OSError) as error:
        return f"this machine does not allow what they need: {str(error).splitlines()[0]}"
    return None


def remove_leftovers():
    for line in run("ip", "netns", "list").splitlines():
        name = line.split()[0] if line else ""
        number = name[len(PREFIX):].split("-")[0]
        if name.startswith(PREFIX) and number.isdigit() and not os.path.exists(f"/proc/{number}"):
            run("ip", "netns", "delete", name)


class Wire:
    """What two network devices have between them. Its traits may be changed at any time."""

    def __init__(self, ends, seed=1):
        self.delay_s = 0.0
        self.jitter_s = 0.0  # each frame takes up to so much longer, so that they overtake each other
        self.doubled = 0.0   # the share of frames that arrive twice
        self._ends = ends
        self._random = random.Random(seed)
        self._order = itertools.count()
        self._way = []  # (when it is due, its number, where to, the frame)
        self._stop = os.pipe()
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def _take(self, source, sink):
        while True:
            try:
                frame = os.read(source, FRAME_BYTES_MAX)
            except BlockingIOError:
                return
            for _ in range(2 if self._random.random() < self.doubled else 1):
                if len(self._way) < WIRE_FRAMES_MAX:
                    due = time.monotonic() + self.delay_s + self._random.random() * self.jitter_s
                    heapq.heappush(self._way, (due, next(self._order), sink, frame))

    def _carry(self):
        one, other = self._ends
        while True:
            timeout = max(0.0, self._way[0][0] - time.monotonic()) if self._way else None
            ready, _, _ = select.select([one, other, self._stop[0]], [], [], timeout)
            if self._stop[0] in ready:
                return
            for source, sink in ((one, other), (other, one)):
                if source in ready:
                    self._take(source, sink)
            while self._way and self._way[0][0] <= time.monotonic():
                _, _, sink, frame = heapq.heappop(self._way)
                try:
                    os.write(sink, frame)
                except OSError:
                    pass  # the device is full or down: the frame is lost

    def close(self):
        os.write(self._stop[1], b"x")
        self._thread.join()
        for file in (*self._ends, *self._stop):
            os.close(file)


class Fault:
    """Something that is wrong until it is healed."""

    def __init__(self, *undo):
        self._undo = list(undo)

    def heal(self):
        while self._undo:
            self._undo.pop()()


class Network:
    """Used with `with`. Nodes are called by their names."""

    def __init__(self, names, wire=False):
        self.names = tuple(names)
        self._number = next(_numbers)
        self._wired = wire
        self.wire = None
        self.spaces = {}
        self._switch = None
        self._rules = {name: {} for name in self.names}
        self._keys = itertools.count()

    def address(self, name):
        return f"10.77.0.{self.names.index(name) + 1}"

    def __enter__(self):
        try:
            for name in self.names:
                self.spaces[name] = Namespace(f"{self._number}{name}")
            if self._wired:
                self._join_by_wire()
            else:
                self._join_by_bridge()
            for name, space in self.spaces.items():
                space.ip("address", "add", f"{self.address(name)}/24", "dev", DEVICE)
                space.ip("link", "set", "dev", DEVICE, "up")
                self._apply(name)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.wire is not None:
            self.wire.close()
            self.wire = None
        for space in (*self.spaces.values(), *([self._switch] if self._switch else [])):
            space.remove()
        self.spaces, self._switch = {}, None

    def _join_by_wire(self):
        ends = [space.tap() for space in self.spaces.values()]
        check(len(ends) == 2, "a wire has two ends")
        self.wire = Wire(ends)

    def _join_by_bridge(self):
        self._switch = Namespace(f"{self._number}{BRIDGE}")
        self._switch.ip("link", "add", "name", BRIDGE, "type", "bridge")
        self._switch.ip("link", "set", "dev", BRIDGE, "up")
        for name, space in self.spaces.items():
            self._switch.ip("link", "add", "name", name, "type", "veth", "peer", "name", DEVICE, "netns", space.name)
            self._switch.ip("link", "set", "dev", name, "master", BRIDGE, "up")

    # ---- faults ----

    def _apply(self, at):
        """All rules of a node at once: what comes in is judged, so that nobody is told of what is lost."""
        lines = "".join(f"    {rule}\n" for rule in self._rules[at].values())
        run(*self.spaces[at].command("nft", "-f", "-"), text=(
            "table inet faults\ndelete table inet faults\ntable inet faults {\n  chain arriving {\n"
            f"    type filter hook input priority 0;\n{lines}  }}\n}}\n"))

    def _rule(self, at, rule):
        key = next(self._keys)
        self._rules[at][key] = rule
        self._apply(at)

        def undo():
            del self._rules[at][key]
            self._apply(at)

        return undo

    def hole(self, source, destination):
        """Nothing of the one reaches the other."""
        return Fault(self._rule(destination, f"ip saddr {self.address(source)} drop"))

    def hole_of_connection(self, one, other, port):
        """Of the connections between two nodes only that is gone which has this port at the end of `one`."""
        return Fault(self._rule(other, f"ip saddr {self.address(one)} tcp sport {port} drop"),
                     self._rule(one, f"ip saddr {self.address(other)} tcp dport {port} drop"))

    def part(self, group):
        """Nothing passes between the group and the others."""
        others = [name for name in self.names if name not in group]
        return Fault(*(self._rule(there, f"ip saddr {self.address(here)} drop")
                       for one, other in ((group, others), (others, group)) for here in one for there in other))

    def lose(self, percent):
        """So many of all packets."""
        return Fault(*(self._rule(name, f'iifname "{DEVICE}" numgen random mod 1000 < {int(percent * 10)} drop')
                       for name in self.names))

    def reset(self, one, other):
        """Connections between the two are reset, and so is each attempt at one."""
        return Fault(*(self._rule(there, f"ip saddr {self.address(here)} tcp flags & rst != rst reject with tcp reset")
                       for here, there in ((one, other), (other, one))))

    def slow(self, rate, queue_s=3):
        """No node sends more; `rate` is in tc's words, where 1kbps is 1,000 bytes a second."""
        def shape(space, verb, *how):
            run("tc", "-netns", space.name, "qdisc", verb, "dev", DEVICE, "root", *how)

        for space in self.spaces.values():
            shape(space, "add", "tbf", "rate", rate, "burst", "1600", "latency", f"{queue_s}s")
        return Fault(*(functools.partial(shape, space, "delete") for space in self.spaces.values()))

    def on_wire(self, **traits):
        """The wire's traits are other ones; see Wire."""
        before = {name: getattr(self.wire, name) for name in traits}

        def assign(values):
            for name, value in values.items():
                setattr(self.wire, name, value)

        assign(traits)
        return Fault(lambda: assign(before))


if __name__ == "__main__":
    remove_leftovers() if os.geteuid() == 0 and shutil.which("ip") else None
    reason = why_not()
    if reason:
        print(reason)
        sys.exit(77)
