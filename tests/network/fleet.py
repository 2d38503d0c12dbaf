"""Nodes that send each other numbered parcels from every side, and the sums that must come out.

Each node has a courier for every other node and every kind of call (modules/courier.c). What they have sent and got
stands in ledgers, files that outlive a killed process (modules/ledger.h), so that the sums are exact whatever happens:

- each request that began has one end, and one that ended with Ok was handled once;
- nothing was handled twice or out of its order, also not by a later life of the receiver;
- a one-way message that was taken was handled, unless it stood next to the end of a link: each link that ended may have
  cost one run of neighbours;
- what was refused for want of a link was not handled.
"""
import collections
import os
import re
import struct
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "mesh"))

import harness  # noqa: E402
from harness import Spot, check, wait_until  # noqa: E402
from zlink_wire_client import KINDS  # noqa: E402

pb = harness.load_messages(f"{HERE}/modules/courier.proto")

YIELD, YIELD_THEN, ASYNC, BULK, SEND = pb.YIELD, pb.YIELD_THEN, pb.ASYNC, pb.BULK, pb.SEND
SMALL = (YIELD, YIELD_THEN, ASYNC, SEND)
EVERY = SMALL + (BULK,)
HEADER = struct.Struct("48s4I")
BEGUN, ENDED = 1, 2
OK, NOT_FOUND, CANCELLED = 0, 1, 100
STATUS = {OK: "Ok", CANCELLED: "Cancelled", **{number + 1: name for number, name in enumerate(KINDS)}}
PORT = 7700
AT_REST = ("zlink.handlers.live", "zlink.requests.inflight")

# A link that is lost is found out within 15 s; a dialer waits up to 7.5 s between attempts, and one that began before
# the network was back may take its 5 s. What is above it is for a machine that does other things, too.
LIVENESS_S = 15
REDIAL_S = 12.5
SLACK_S = 7.5
RECOVERY_S = LIVENESS_S + REDIAL_S + SLACK_S

Stream = collections.namedtuple("Stream", "sender life target kind")


def name_of(stream):
    return f"{stream.sender}{stream.life}-{stream.target}-{pb.Kind.Name(stream.kind).lower()}"


class Ledger:
    """One side's file, as it is now."""

    def __init__(self, path, cells=True):
        self.last = self.good = self.wrong = 0
        self.cells = b""
        try:
            with open(path, "rb") as file:
                _, self.last, self.good, self.wrong, _ = HEADER.unpack(file.read(HEADER.size))
                if cells:
                    self.cells = file.read(self.last + 1)
        except (FileNotFoundError, struct.error):
            pass  # nothing has come yet


class Member(harness.Node):
    """A node in a namespace, or, where `space` is None, on the loopback."""

    def __init__(self, mesh, name, config, space):
        super().__init__(mesh, name, config)
        self.space = space
        self.life = 0
        self.killed_lives = set()
        self._log_begins = {}

    @property
    def address(self):
        return self.config.get("advertise", self.config["listen"])

    def command(self):
        command = super().command()
        return self.space.command(*command) if self.space else command

    def launch(self):
        self.life += 1
        self._log_begins[self.life] = os.path.getsize(self.stderr_path) if os.path.exists(self.stderr_path) else 0
        return super().launch()

    def kill(self):
        self.killed_lives.add(self.life)
        if self.space is None:
            super().kill()
            return
        with self.space.entered():
            super().kill()

    def log_of(self, life):
        with open(self.stderr_path, "rb") as file:
            file.seek(self._log_begins[life])
            end = self._log_begins.get(life + 1)
            return file.read(end - self._log_begins[life] if end else -1).decode(errors="replace")

    def losses(self, life):
        """{peer: how many links to it have ended in that life}"""
        return collections.Counter(re.findall(r"event=zlink\.peer\.lost .*\bpeer=([a-z]+)-", self.log_of(life)))

    def linked_to(self):
        return {link["name"] for link in self.links()}

    def ports_of(self, peer):
        """Of a link that the peer has dialled: its ports of the Application and of the Completion connection."""
        address = next(link["address"] for link in self.links() if link["name"] == peer)
        host, application = address.rsplit(":", 1)
        with self.space.entered():
            remotes = harness.remote_ends(PORT)
        completion, = (port for where, port in remotes if where == host and port != int(application))
        return int(application), completion

    def memory_bytes(self):
        """What the process has made for itself: mapped files, ledgers among them, do not count."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon:"))

    def descriptors(self):
        """Its open files, without those that come and go with connections; and how many of these there are."""
        folder = f"/proc/{self.process.pid}/fd"
        others, sockets = [], 0
        for number in os.listdir(folder):
            try:
                what = os.readlink(f"{folder}/{number}")
            except FileNotFoundError:
                continue  # closed meanwhile
            if what.startswith("socket:"):
                sockets += 1
            else:
                others.append(what)
        return sorted(others), sockets


class Sums:
    """What has become of everything that was sent."""

    def __init__(self):
        self.begun = 0
        self.ends = collections.Counter()
        self.died = 0           # on their way when their sender was killed
        self.handled_unheard = 0  # handled, and the sender was told of a failure or was killed
        self.lost = 0           # one-way messages that were taken and not handled
        self.problems = []

    @property
    def accounted(self):
        return sum(self.ends.values()) + self.died

    def failed(self):
        return {name: count for name, count in self.ends.items() if name != "Ok"}

    def __str__(self):
        ends = ", ".join(f"{count} {name}" for name, count in self.ends.most_common())
        return (f"{self.begun} sent, {self.accounted} accounted for: {ends or 'none'}, {self.died} died with their "
                f"node; {self.handled_unheard} handled unheard, {self.lost} one-way messages lost with a link")


def _sum_stream(sums, stream, sent, got, losses, killed):
    """`losses`: links between the two that the sender has seen end; `killed`: its life was cut off."""
    name = name_of(stream)
    arrived = got.cells[:len(sent.cells)].ljust(len(sent.cells), b"\0")
    pairs = collections.Counter(zip(sent.cells[1:], arrived[1:]))
    open_calls = sum(count for (cell, _), count in pairs.items() if cell == BEGUN)
    sums.begun += sent.last
    sums.died += open_calls
    if open_calls > (1 if killed else 0):
        sums.problems.append(f"{name}: {open_calls} without an end")
    if sent.wrong or got.wrong:
        sums.problems.append(f"{name}: {sent.wrong} ended twice or with another's reply, {got.wrong} came twice or "
                             "late")
    if got.last > sent.last:
        sums.problems.append(f"{name}: {got.last} came and {sent.last} was the last that was sent")
    for (cell, times), count in sorted(pairs.items()):
        status = STATUS.get(cell - ENDED, f"status {cell - ENDED}") if cell != BEGUN else "no end"
        if cell >= ENDED:
            sums.ends[status] += count
        elif cell == 0:
            sums.problems.append(f"{name}: {count} numbers were never written down")
        one_way = stream.kind == SEND
        ended_well = cell == ENDED + OK
        if times > 1:
            sums.problems.append(f"{name}: {count} came {times} times ({status})")
        elif times == 1 and not ended_well:
            sums.handled_unheard += count
            if cell == ENDED + NOT_FOUND or (one_way and cell != BEGUN):
                sums.problems.append(f"{name}: {count} came although they had been refused ({status})")
        elif times == 0 and ended_well and one_way:
            sums.lost += count
        elif times == 0 and ended_well:
            sums.problems.append(f"{name}: {count} ended well and never came")
    if stream.kind == SEND:
        runs = lost_runs(sent.cells, arrived)
        if runs > losses + killed:
            sums.problems.append(f"{name}: one-way messages are missing in {runs} places, and {losses} links have "
                                 "ended")


def lost_runs(sent, arrived):
    """In how many places messages are missing that were taken: neighbours, with refused ones between them, are one."""
    runs, missing = 0, False
    for cell, times in zip(sent[1:], arrived[1:]):
        if cell == ENDED + OK:
            runs += not times and not missing
            missing = not times
    return runs


class Fleet:
    def __init__(self, mesh, names, network=None, *, kinds=EVERY, period_ms=40, bulk_period_ms=500, timeout_ms=3000,
                 listed=None):
        """`listed` is {name: whom it dials}; without it all dial all."""
        self.mesh, self.network = mesh, network
        self.kinds, self.timeout_ms = kinds, timeout_ms
        self.period_ms, self.bulk_period_ms = period_ms, bulk_period_ms
        self.streams = []
        for side in ("sent", "got"):
            os.makedirs(mesh.path(side), exist_ok=True)
        self.members = {}
        if network is None:
            ports = harness.free_ports(len(names))
        for index, name in enumerate(names):
            config = mesh.config(name, (), channels=[{"name": f"inbox-{other}", "role": "client"} for other in "abcde"
                                                     if other != name])
            config["modules"] = [mesh.program("tests/network/courier.so")]
            if network is None:
                config["listen"] = f"127.0.0.1:{ports[index]}"
            else:
                config.update(listen=f"0.0.0.0:{PORT}", advertise=f"{network.address(name)}:{PORT}")
            member = Member(mesh, name, config, network.spaces[name] if network else None)
            self.members[name] = member
            mesh.nodes.append(member)
        for name, member in self.members.items():
            member.config["peers"] = [self.members[other].address for other in (listed or {}).get(name, names)
                                      if other != name]

    # ---- nodes ----

    def start(self):
        for member in self.members.values():
            member.launch()
        for member in self.members.values():
            member.wait_serving()
        self.wait_linked()
        return self

    def live(self):
        return [member for member in self.members.values() if member.runs()]

    def others(self, member):
        return {name for name in self.members if name != member.name}

    def all_linked(self):
        return all(self.others(member) <= member.linked_to() for member in self.live())

    def wait_linked(self, timeout=RECOVERY_S):
        """Every node has a link to every other. Answers after how many seconds."""
        begin = time.monotonic()
        wait_until(self.all_linked, lambda: "all links: " + ", ".join(
            f"{member.name}: {sorted(member.linked_to())}" for member in self.live()), timeout)
        return time.monotonic() - begin

    def wait_tidy(self, others):
        """Each node has two listeners and two connections for each link, and beside them the open files of `others`, as
        descriptors() has told them."""
        expected = 2 + 2 * (len(self.members) - 1)
        wait_until(lambda: all(member.descriptors() == (others[member.name], expected) for member in self.live()),
                   lambda: "descriptors: " + ", ".join(
                       f"{member.name}: {member.descriptors()}, expected {others[member.name]} and {expected}"
                       for member in self.live()))

    def stop(self):
        for member in self.live():
            member.signal(harness.signal.SIGTERM)
        for member in self.live():
            member.wait_exit(0)

    # ---- couriers ----

    def _client(self, member):
        if member.space is None:
            return self.mesh.client(member)
        with member.space.entered():
            return self.mesh.client(member)

    def start_courier(self, client, stream):
        client.request(Spot("courier", name_of(stream)), "tests.network.StartReq", pb.StartReq(
            ledger=name_of(stream), channel=f"inbox-{stream.target}", kind=stream.kind, timeout_ms=self.timeout_ms,
            period_ms=self.bulk_period_ms if stream.kind == BULK else self.period_ms).SerializeToString(),
            timeout=harness.WAIT_S)
        self.streams.append(stream)

    def start_couriers(self, member):
        client = self._client(member)
        for target in sorted(self.others(member)):
            for kind in self.kinds:
                self.start_courier(client, Stream(member.name, member.life, target, kind))
        client.close()

    def start_all_couriers(self):
        for member in self.live():
            self.start_couriers(member)

    def _ledger(self, side, stream, cells=False):
        return Ledger(self.mesh.path(f"{side}/{name_of(stream)}"), cells)

    def current(self):
        """The streams whose senders live."""
        lives = {member.name: member.life for member in self.live()}
        return [stream for stream in self.streams if lives.get(stream.sender) == stream.life]

    def progress(self):
        """{stream: how many have ended well, or, of one-way messages, have come}."""
        return {stream: self._ledger("got" if stream.kind == SEND else "sent", stream).good
                for stream in self.current()}

    def wait_progress(self, count, timeout=harness.WAIT_S, kinds=None, begin=None):
        """Each stream has got on by `count`. Answers after how many seconds."""
        started = time.monotonic()
        begin = begin or self.progress()

        def behind():
            now = self.progress()
            return {name_of(stream): now[stream] - before for stream, before in begin.items()
                    if stream in now and (not kinds or stream.kind in kinds) and now[stream] < before + count}

        wait_until(lambda: not behind(), lambda: f"each stream gets on by {count}: {behind()}", timeout)
        return time.monotonic() - started

    def _stop(self, kinds):
        for member in self.live():
            client = self._client(member)
            for stream in self.current():
                if stream.sender == member.name and stream.kind in kinds:
                    client.request(Spot("courier", name_of(stream)), "tests.network.StopReq",
                                   pb.StopReq().SerializeToString(), timeout=harness.WAIT_S)
            client.close()

        def on_their_way():
            return [name_of(stream) for stream in self.current() if stream.kind in kinds and
                    BEGUN in self._ledger("sent", stream, True).cells]

        wait_until(lambda: not on_their_way(), lambda: f"all calls end: {on_their_way()}",
                   self.timeout_ms / 1000 + harness.WAIT_S)

    def rest(self):
        """Nobody sends any more, all calls have ended, and one-way messages that have not come do not come. (The links
        are there.)"""
        self._stop({SEND})
        self.wait_progress(2, RECOVERY_S, kinds={YIELD})  # these are behind the one-way messages, in the same line
        self._stop(set(self.kinds) - {SEND})

        def open_things():
            return [(member.name, gauge, member.counter(gauge)) for member in self.live() for gauge in AT_REST
                    if member.counter(gauge) != 0]

        wait_until(lambda: not open_things(), lambda: f"nothing is open: {open_things()}")

    def sums(self):
        """Everything that any life has sent. Fails where something is wrong."""
        sums = Sums()
        losses = {(member.name, life): member.losses(life) for member in self.members.values()
                  for life in range(1, member.life + 1)}
        for stream in self.streams:
            _sum_stream(sums, stream, self._ledger("sent", stream, True), self._ledger("got", stream, True),
                        losses[stream.sender, stream.life][stream.target],
                        stream.life in self.members[stream.sender].killed_lives)
        check(not sums.problems, f"{sums}\n" + "\n".join(sums.problems[:20]))
        check(sums.begun == sums.accounted, f"sent and accounted for differ: {sums}")
        return sums
