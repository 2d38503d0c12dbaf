"""./dev bench mesh: two nodes, driven through the public API, beside the floor and the peers."""
import dataclasses
import time

from measure import Background, Failure, cpu_seconds, resident_bytes, wait_quiet, wake_ups
from node_pair import JOBS, NodePair
from peers import MESH_PEERS, Direct, Floor, prepared
from report import Report, Runs
from speed_table import LINES, judge_speed

SIZES = ((64, "64B"), (1024, "1KiB"), (65536, "64KiB"))
IDLE_CORES = 0.001
IDLE_BYTES = 32 << 20


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    kind: str  # request_reply, one_way, fan, chain, direct, handshakes or resumed
    tls: bool
    outstanding: int = 1
    connections: int = 1
    size: int = 64  # of a handshakes row: how many
    ours: tuple = ()  # (name, arguments of NodePair.drive)

    @property
    def unit(self):
        return {"one_way": "msg/s", "handshakes": "hs/s", "resumed": "hs/s"}.get(self.kind, "req/s")


def request_rows(transport, quick):
    tls = transport == "tls"
    for outstanding in (1, 256) if quick else (1, 256, 1024):
        ours = [(f"zlink {wait}", {"wait": wait, "outstanding": outstanding}) for wait in ("yield", "then")]
        if outstanding == 256 and not quick:
            ours.append(("zlink channel", {"wait": "yield", "outstanding": outstanding, "target": "channel"}))
        yield Row(f"mesh.request.64B.{transport}.{outstanding}", "request_reply", tls, outstanding, ours=tuple(ours))


def note_rows(transport, quick):
    for size, text in SIZES[:1] if quick else SIZES:
        ours = [("zlink 1 sender", {"wait": "send", "note_bytes": size})]
        if not quick:
            ours.append(("zlink 64 senders", {"wait": "send", "note_bytes": size, "spots": 64}))
        yield Row(f"mesh.one_way.{text}.{transport}", "one_way", transport == "tls", size=size, ours=tuple(ours))


def fan_row(transport):
    ours = tuple((f"zlink {wait}", {"wait": wait, "outstanding": 16, "spots": 64}) for wait in ("yield", "then"))
    return Row(f"mesh.request.64B.{transport}.64x16", "fan", transport == "tls", 16, 64, ours=ours)


def default_row(transport):
    """With the limits that a node has when its file says nothing."""
    return Row(f"mesh.request.64B.{transport}.256.default_limits", "request_reply", transport == "tls", 256,
               ours=(("zlink yield", {"wait": "yield", "outstanding": 256}),))


def chain_row(transport):
    ours = (("zlink yield", {"wait": "yield", "outstanding": 256}), ("zlink then", {"wait": "then", "outstanding": 256}))
    return Row(f"mesh.chain.64B.{transport}.256", "chain", transport == "tls", 256, ours=ours)


def direct_rows(quick):
    """What the framework costs beside its own reactor, TLS and frames: one at a time, a window, as many as there is use
    for."""
    for size, text in ((1024, "1KiB"),) if quick else ((1024, "1KiB"), (4096, "4KiB")):
        for outstanding in (100,) if quick else (1, 100, 1024):
            ours = tuple((f"zlink {wait}", {"wait": wait, "outstanding": outstanding, "request_bytes": size})
                         for wait in ("yield", "then"))
            yield Row(f"mesh.direct.{text}.tls.{outstanding}", "direct", True, outstanding, size=size, ours=ours)


def ordinary_rows(transport, quick):
    rows = [*request_rows(transport, quick), *note_rows(transport, quick)]
    if not quick:
        rows.append(fan_row(transport))
    if transport == "tls":
        rows.append(Row("mesh.handshake.full.tls", "handshakes", True, size=40 if quick else 200,
                        ours=(("zlink", None),)))
        # The peers' programs make full handshakes only: theirs stand beside.
        rows.append(Row("mesh.handshake.resumed.tls", "resumed", True, size=200 if quick else 2000,
                        ours=(("zlink", None),)))
        rows += direct_rows(quick)
    return rows


def special_rows(transport, quick):
    """Rows with nodes of their own: (row, arguments of NodePair)."""
    rows = [] if quick else [(default_row(transport), {"jobs": 0})]
    if transport == "tls":
        rows.append((chain_row(transport), {"chain": True}))
    return rows


def measure_idle(report, pair, seconds):
    """Both nodes, linked, nothing to do."""
    pids = [pair.pid(name) for name in ("a", "b")]
    time.sleep(0.5)
    cpu, woken, began = sum(map(cpu_seconds, pids)), sum(map(wake_ups, pids)), time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    cores = (sum(map(cpu_seconds, pids)) - cpu) / took / 2
    rate = (sum(map(wake_ups, pids)) - woken) / took / 2
    resident = max(map(resident_bytes, pids))
    report.facts[f"idle.{pair.transport}"] = {"cores": cores, "wake_ups_per_s": rate, "resident_bytes": resident}
    report.target(f"mesh.idle.cpu.{pair.transport}", f"under {IDLE_CORES:.1%} of a core",
                  f"{cores:.3%} ({rate:.1f} wake-ups/s)", cores < IDLE_CORES)
    report.target(f"mesh.idle.resident.{pair.transport}", f"under {IDLE_BYTES >> 20} MiB",
                  f"{resident / 2**20:.1f} MiB", resident < IDLE_BYTES)


class Mesh:
    def __init__(self, build, folder, options):
        self.build, self.folder, self.options = build, folder, options
        self.quick = options.quick
        self.few = self.quick and not options.only  # rows and ways of a row
        self.wanted = {row for line in options.only for row in line.rows} if options.only else None
        self.seconds = 0.4 if self.quick else 1.0
        self.report = Report()
        self.floor = Floor(build, folder)
        self.direct = Direct(build, folder)
        self.seconds_of = self.report.facts["seconds_of"] = {}

    def _ours(self, pair, row, arguments):
        if row.kind in ("handshakes", "resumed"):
            port = int(pair.address["b"].rsplit(":", 1)[1])
            with Background(pair.pid("b")) as background:
                result = self.floor.dial(port, pair.pid("b"), pair.certificates, "driver", row.size,
                                         row.kind == "resumed")
            return {**result, "bg": background.cores}
        return pair.drive(**arguments, warm_up_ms=200, duration_ms=int(self.seconds * 1000))

    def _round(self, runs, row, pair, peers):
        """A B C …: everybody once."""
        contestants = [(name, lambda a=arguments: self._ours(pair, row, a)) for name, arguments in row.ours]
        contestants += [(peer.name, lambda p=peer: p.run(row, self.seconds)) for peer in peers]
        for name, run in contestants:
            wait_quiet(self.options.wait_quiet)
            try:
                result = run()
            except Failure as why:
                runs.trouble[name] = str(why)
                result = None
            if result is not None or name in runs.trouble:
                runs.add(name, result)

    def _wants(self, row):
        return self.options.rows.search(row.name) and (self.wanted is None or row.name in self.wanted)

    def _rounds(self, rows, pair, peers, told=""):
        all_runs = [Runs(row.name, row.unit, [name for name, _ in row.ours]) for row in rows]
        for number in range(self.options.rounds):
            for row, runs in zip(rows, all_runs):
                began = time.monotonic()
                self._round(runs, row, pair, peers)
                self.seconds_of[row.name] = self.seconds_of.get(row.name, 0) + time.monotonic() - began
            if told:
                print(f"{told}: round {number + 1} of {self.options.rounds}", flush=True)
        return all_runs

    def _met(self, pair):
        """What the neighbours must do like these nodes."""
        self.direct.certificates = pair.certificates
        if pair.cipher():
            self.floor.use_cipher(pair.cipher())

    def _ordinary(self, rows, transport, peers):
        """Rows that share two nodes; beside them what the nodes cost when nobody asks."""
        with NodePair(self.build, self.folder, transport) as pair:
            cipher = pair.cipher()
            print(f"{transport}: nodes a and b are linked, cipher {cipher}, max_queued_application_jobs {JOBS}",
                  flush=True)
            self.report.facts[f"nodes.{transport}"] = {"cipher": cipher, "max_queued_application_jobs": JOBS}
            if self.wanted is None:
                measure_idle(self.report, pair, 2 if self.quick else 10)
            self._met(pair)
            all_runs = self._rounds(rows, pair, peers, transport)
            loaded = max(resident_bytes(pair.pid(name)) for name in ("a", "b"))
            self.report.facts[f"resident_after_load.{transport}"] = loaded
        return all_runs

    def _transport(self, transport, peers):
        rows = [row for row in ordinary_rows(transport, self.few) if self._wants(row)]
        all_runs = self._ordinary(rows, transport, peers) if rows else []
        for row, nodes in special_rows(transport, self.few):
            if not self._wants(row):
                continue
            print(f"{row.name}: max_queued_application_jobs {nodes.get('jobs', JOBS) or 'not set'}", flush=True)
            with NodePair(self.build, self.folder, transport, **nodes) as pair:
                self._met(pair)
                all_runs += self._rounds([row], pair, peers)
            rows.append(row)
        return rows, all_runs

    def _judge(self, rows, all_runs, peers):
        names = [peer.name for peer in peers if peer.compare_with]
        for row, runs in zip(rows, all_runs):
            runs.print_table()
            self.report.rows.append(runs)
            if self.wanted is not None:
                continue  # the table's line alone
            for contestant in runs.ours:
                suffix = "" if len(runs.ours) == 1 else "." + contestant.removeprefix("zlink ").replace(" ", "_")
                if self.quick:
                    rate = runs.median(contestant, "rate")
                    self.report.target(runs.name + suffix, "a number (quick)",
                                       f"{rate:,.0f} {runs.unit}" if rate else runs.trouble.get(contestant, "no number"),
                                       bool(rate))
                elif row.kind != "direct":
                    self.report.compare(runs, contestant, names, suffix=suffix)

    def _wanted_peers(self):
        """Names, None for all: what was asked for, or else those that the lines speak of."""
        if self.options.peers is not None:
            return self.options.peers
        if self.options.only:
            return [name for line in self.options.only for name, _ in line.bounds]
        return () if self.quick else None

    def run(self):
        others, missing = prepared(MESH_PEERS, self.folder, self._wanted_peers())
        peers = [self.floor, self.direct, *others]
        for name, why in missing.items():
            print(f"peer {name}: {why}")
        self.report.facts["missing_peers"] = missing
        for peer in peers:
            peer.start()
        try:
            for transport in ("tls", "plain"):
                rows, all_runs = self._transport(transport, peers)
                self._judge(rows, all_runs, peers)
            judge_speed(self.report, self.options.only or LINES, [peer.name for peer in peers] if self.few else None)
        finally:
            for peer in peers:
                peer.stop()
        return self.report
