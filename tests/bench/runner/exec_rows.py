"""./dev bench exec: the execution domain alone, beside a plain C mailbox, Boost strands, CAF and Erlang."""
import os

from measure import Failure, best, by_param, run_lines, wait_quiet
from peers import EXEC_PEERS, prepared
from report import NOT_THERE, Report, Runs, number

WAIT_BYTES = 12 << 10
WAITING_MANY = 100000

# (name of the target, workload of the peers, (ours: workload of bench_exec), factor)
ROWS = (
    ("E1a", "E1a", ("E1a", "E1a-turns", "E1a-1024"), 1.5),
    ("E1b", "E1b", ("E1b", "E1b-turns"), 3.0),
    ("E3.1_caller", "E3-1", ("E3-1", "E3-1-then"), 2.0),
    ("E3.500_callers", "E3-500", ("E3-500", "E3-500-then"), 2.0),
)
LATER = (
    ("exec.E2a", "the best peer: ping-pong of two Actors, SpotWide and PerActor"),
    ("exec.E2b", "2x the best peer: 10,000 Actors x 500 messages"),
    ("exec.E-lock", "at most 4 locked instructions (PerActor), 6 (SpotWide)"),
    ("exec.E-idle", "at most 256 bytes for an idle Actor"),
    ("exec.E-timers", "20,000 timers: no thread added, cost per tick flat"),
)


class Exec:
    def __init__(self, build, folder, options):
        self.folder, self.options, self.quick = folder, options, options.quick
        self.program = os.path.join(build, "tests", "bench", "exec", "bench_exec")
        self.log = os.path.join(folder, "exec.log")
        self.report = Report()

    def _ours(self, workload, count):
        return run_lines([self.program, workload, str(count)], self.folder, self.log, 120)

    def _one(self, runs, name, run):
        wait_quiet(self.options.wait_quiet)
        try:
            result = run()
        except Failure as why:
            runs.trouble[name] = str(why)
            result = None
        if result is not None or name in runs.trouble:
            runs.add(name, result)

    def _round(self, all_runs, peers):
        count = 1000000 if self.quick else 5000000
        for (_, workload, ours, _), runs in zip(ROWS, all_runs):
            for mine in ours:
                self._one(runs, f"zlink {mine}", lambda m=mine: best(self._ours(m, count)))
            for peer in peers:
                self._one(runs, peer.name, lambda p=peer: p.run_local(workload))

    def _judge(self, all_runs, peers):
        names = [peer.name for peer in peers]
        for (_, _, ours, factor), runs in zip(ROWS, all_runs):
            runs.print_table()
            self.report.rows.append(runs)
            if self.quick:
                rate = runs.median(f"zlink {ours[0]}", "rate")
                self.report.target(runs.name, "a number (quick: no peers)", f"{number(rate)} {runs.unit}", bool(rate))
                continue
            self.report.compare(runs, f"zlink {ours[0]}", names, factor)

    def _waiting(self):
        count = 10000 if self.quick else WAITING_MANY
        for workload, what in (("E-wait", "shallow"), ("E-wait-4K", "4_KiB_of_locals")):
            try:
                result = by_param(self._ours(workload, count))[0]
            except Failure as why:
                self.report.target(f"exec.E-wait.{what}", f"at most {WAIT_BYTES} bytes", str(why), None)
                continue
            self.report.facts[workload] = result
            got = f"{number(result['bytes'])} bytes, {number(result['at_once'])} at once in {result['seconds']:.2f} s"
            if not result["guard_install"]:
                got += ", without MADV_GUARD_INSTALL"
            self.report.target(f"exec.E-wait.{what}", f"at most {WAIT_BYTES} bytes, {number(count)} at once", got,
                               result["bytes"] <= WAIT_BYTES)

    def _growth(self):
        """How the cost of an item grows with the number of owners; no target."""
        print("\nexec.E1.growth (2 producers)")
        found = {}
        for line in self._ours("E1-growth", 4000000):
            found.setdefault(line["workload"], {})[line["metric"]] = line["value"]
        for workload, one in found.items():
            print(f"  {number(float(workload.rsplit('-', 1)[1])):>12} owners  {number(one['rate']):>12} items/s"
                  f"  CPU {number(one['cpu_per_million'])} s/M")
        self.report.facts["growth"] = found

    def run(self):
        wanted = ("execfloor",) if self.quick else self.options.peers
        peers, missing = prepared(EXEC_PEERS, self.folder, wanted)
        for name, why in missing.items():
            print(f"peer {name}: {why}")
        self.report.facts["missing_peers"] = missing
        units = {"E1": "items/s", "E3": "cycles/s"}
        all_runs = [Runs(f"exec.{name}", units[name[:2]], [f"zlink {mine}" for mine in ours])
                    for name, _, ours, _ in ROWS]
        for peer in peers:
            peer.start()
        try:
            for round_number in range(self.options.rounds):
                self._round(all_runs, peers)
                print(f"exec: round {round_number + 1} of {self.options.rounds}", flush=True)
        finally:
            for peer in peers:
                peer.stop()
        self._judge(all_runs, peers)
        if not self.quick:
            self._growth()
        self._waiting()
        for name, want in LATER:
            self.report.target(name, want, NOT_THERE, None)
        return self.report
