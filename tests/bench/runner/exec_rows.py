"""./dev bench exec: the execution domain alone, beside a plain C mailbox, Boost strands, CAF and Erlang."""
import os

from measure import Failure, best, by_param, run_lines, wait_quiet
from peers import EXEC_PEERS, prepared
from report import Report, Runs, number

WAIT_BYTES = 12 << 10
WAITING_MANY = 100000

# (name of the target, workload of the peers, (ours: workload of bench_exec), factor)
ROWS = (
    ("E1a", "E1a", ("E1a", "E1a-turns", "E1a-1024"), 1.5),
    ("E1b", "E1b", ("E1b", "E1b-turns"), 3.0),
    ("E2a.SpotWide", "E2a", ("E2a-SpotWide",), 1.0),
    ("E2a.PerActor", "E2a", ("E2a-PerActor",), 1.0),
    ("E2b.SpotWide", "E2b", ("E2b-SpotWide",), 2.0),
    ("E2b.PerActor", "E2b", ("E2b-PerActor", "E2b-PerActor-one-spot"), 2.0),
    ("E3.1_caller", "E3-1", ("E3-1", "E3-1-then"), 2.0),
    ("E3.500_callers", "E3-500", ("E3-500", "E3-500-then"), 2.0),
)
IDLE_BYTES = 256
LOCKED = (("per_actor", 4), ("spot_wide", 6))
TIMERS = (200, 2000, 20000)
FLAT = 1.5  # what a tick among 20,000 timers may cost of one among 200


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
        for (_, workload, ours, _), runs in zip(ROWS, all_runs):
            count = 500000 if workload == "E2a" else 1000000 if self.quick else 5000000
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

    def _fixed(self):
        """What does not depend on the machine's load: locked instructions, and bytes of an idle Actor."""
        found = {line["metric"]: line["value"] for line in self._ours("E-lock", 1000)}
        self.report.facts["E-lock"] = found
        for what, most in LOCKED:
            locked = found.get(what)
            self.report.target(f"exec.E-lock.{what}", f"at most {most} locked instructions",
                               "no number on this machine" if locked is None else f"{locked:.0f}",
                               None if locked is None else locked <= most)
        print(f"\nexec.E-lock: beside them {found.get('state_lane', 0):.0f} for a coordinator's look into its map")
        for line in self._ours("E-idle", 20000):
            self.report.facts[line["workload"]] = line["value"]
            self.report.target(f"exec.{line['workload'].replace('E-idle-', 'E-idle.')}", f"at most {IDLE_BYTES} bytes",
                               f"{line['value']:.0f} bytes", line["value"] <= IDLE_BYTES)

    def _timers(self):
        cost, threads = {}, 0
        for count in TIMERS:
            wait_quiet(self.options.wait_quiet)
            result = by_param(self._ours("E-timers", count))[0]
            cost[count], threads = result["cpu_per_million"], max(threads, result["threads_added"])
            self.report.facts[f"E-timers-{count}"] = result
        ratio = cost[TIMERS[-1]] / cost[TIMERS[0]]
        self.report.target("exec.E-timers", f"no thread added, at most {FLAT}x the CPU time of a tick from {TIMERS[0]} to "
                           f"{number(TIMERS[-1])} timers",
                           f"{threads:.0f} threads, {number(ratio)}x ("
                           + ", ".join(f"{number(cost[count])}" for count in TIMERS) + " s/M)",
                           threads == 0 and ratio <= FLAT)

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
        units = {"E1": "items/s", "E2a": "roundtrips/s", "E2b": "msgs/s", "E3": "cycles/s"}
        all_runs = [Runs(f"exec.{name}", units.get(name[:3]) or units[name[:2]], [f"zlink {mine}" for mine in ours])
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
        self._fixed()
        self._timers()
        return self.report
