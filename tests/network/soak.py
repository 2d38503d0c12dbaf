"""Five nodes under load from every side, and a storm of everything that can happen to them: kills, stops, pauses,
partitions, one-way holes, resets, loss and slow links, drawn by a seed. After each round of it the network is whole for
a moment, every link has to come back within the bound and every kind of call has to flow. At the end the sums must be
exact, memory flat, and no descriptor left.
"""
import argparse
import collections
import json
import os
import random
import signal
import statistics
import sys
import time
import traceback

import fleet as fleets  # first: it finds the harness
import harness
from harness import Failure, check
from network import Network, remove_leftovers, why_not

NAMES = ("a", "b", "c", "d", "e")
MORTAL = ("c", "d", "e")  # the others live as long as the run does: their memory is looked at
ROUND_S = 45
END_S = 5  # of a run that is left for the end
STOP_S = 30  # an orderly stop has the 20 s of its configuration
GROWTH_BYTES = 24 * 2**20  # what caches and buffers may take once
SLOPE_BYTES_PER_MIN = 2**20
SLOPE_SAMPLES = 6

Event = collections.namedtuple("Event", "start duration what arguments")


class Plan:
    """The faults of one round, in the order of their start, from one seed. Nothing happens to a node that is already
    dead, stopped or paused; the network may be wrong in several ways at once."""

    PROCESS = ("kill", "stop", "pause")
    NET = ("part", "hole", "reset", "lose", "slow")

    def __init__(self, dice, seconds, networked):
        self.events = []
        busy = {name: 0.0 for name in NAMES}
        slow_until = start = 0.0
        while True:
            start += dice.uniform(0.5, 4.0)
            what = dice.choice(self.PROCESS + (self.NET if networked else ()))
            duration = {"kill": dice.uniform(0, 5), "stop": dice.uniform(0, 5), "pause": dice.uniform(0.5, 22),
                        "part": dice.uniform(1, 22), "hole": dice.uniform(1, 22), "reset": dice.uniform(0, 3),
                        "lose": dice.uniform(3, 15), "slow": dice.uniform(3, 15)}[what]
            arguments = self._arguments(dice, what)
            duration = min(duration, seconds - start)
            if duration <= 0:
                return
            if what in self.PROCESS:
                if busy[arguments[0]] > start:
                    continue
                busy[arguments[0]] = start + duration + 1
            if what == "slow":
                if slow_until > start:
                    continue
                slow_until = start + duration + 1
            self.events.append(Event(start, duration, what, arguments))

    @staticmethod
    def _arguments(dice, what):
        one, other = dice.sample(NAMES, 2)
        return {"kill": (dice.choice(MORTAL),), "stop": (dice.choice(MORTAL),), "pause": (one,),
                "part": ((one,) if dice.random() < 0.6 else (one, other),), "hole": (one, other), "reset": (one, other),
                "lose": (dice.choice((1, 5, 20)),), "slow": (f"{dice.choice((20, 100, 500))}kbps",)}[what]


class Soak:
    def __init__(self, mesh, network, arguments):
        self.mesh, self.network = mesh, network
        self.minutes, self.seed = arguments.minutes, arguments.seed
        self.dice = random.Random(self.seed)
        self.fleet = fleets.Fleet(mesh, NAMES, network, period_ms=60, bulk_period_ms=1000)
        self.begin = time.monotonic()
        self.happened = collections.Counter()
        self.recoveries = []  # after each round: seconds until all links were there, and until all calls flowed
        self.memory = {name: [] for name in NAMES if name not in MORTAL}  # (seconds, bytes)
        self.rounds = 0

    def say(self, text):
        print(f"{time.monotonic() - self.begin:7.1f} s  {text}", flush=True)

    def left(self):
        return self.minutes * 60 - (time.monotonic() - self.begin)

    # ---- what happens ----

    def start_event(self, event):
        """Answers what ends it, and answers in turn whether that is done."""
        self.say(f"{event.what} {' '.join(map(str, event.arguments))} for {event.duration:.1f} s")
        self.happened[event.what] += 1
        if event.what in Plan.NET:
            fault = getattr(self.network, event.what)(*event.arguments)
            return lambda: fault.heal() or True
        member = self.fleet.members[event.arguments[0]]
        if event.what == "pause":
            member.signal(signal.SIGSTOP)
            return lambda: member.signal(signal.SIGCONT) or True
        if event.what == "kill":
            member.kill()
        else:
            member.signal(signal.SIGTERM)
        latest = time.monotonic() + event.duration + STOP_S
        return lambda: self.bring_back(member, latest)

    def bring_back(self, member, latest):
        """One that stops in good order takes its time, and meanwhile other things happen."""
        if member.process.poll() is None and time.monotonic() < latest:
            return False
        if member.runs():
            member.wait_exit(0, 0.1)
        member.start()
        self.fleet.start_couriers(member)
        return True

    @staticmethod
    def clash(event, other):
        """What was planned and cannot be, because the other takes longer than it should."""
        if event.what in Plan.PROCESS:
            return other.what in Plan.PROCESS and event.arguments[0] == other.arguments[0]
        return event.what == other.what == "slow"

    def storm(self, seconds):
        begin = time.monotonic()
        coming = collections.deque(Plan(self.dice, seconds, self.network is not None).events)
        running = []  # (when it ends, the event, what ends it)
        try:
            while coming or running:
                now = time.monotonic() - begin
                running = [entry for entry in running if entry[0] > now or not entry[2]()]
                if coming and coming[0].start <= now:
                    event = coming.popleft()
                    if not any(self.clash(event, other) for _, other, _ in running):
                        running.append((now + event.duration, event, self.start_event(event)))
                else:
                    time.sleep(0.02)
        finally:
            for _, event, end in running:
                if event.what not in ("kill", "stop"):
                    end()  # a node that sleeps could not be ended

    def calm(self):
        """Everything is as it should be again: how long until it works?"""
        before = self.fleet.progress()
        linked = self.fleet.wait_linked()
        moving = linked + self.fleet.wait_progress(2, fleets.RECOVERY_S + self.fleet.timeout_ms / 1000, begin=before)
        self.recoveries.append((linked, moving))
        self.fleet.wait_progress(5)
        for name, samples in self.memory.items():
            samples.append((time.monotonic() - self.begin, self.fleet.members[name].memory_bytes()))
        memory = ", ".join(f"{name} {samples[-1][1] / 2**20:.1f} MiB" for name, samples in self.memory.items())
        self.say(f"calm: all links after {linked:.1f} s, all calls after {moving:.1f} s; memory {memory}")

    # ---- from the start to the end ----

    def run(self):
        where = "namespaces" if self.network else "the loopback, without faults of the network"
        self.say(f"seed {self.seed}, {self.minutes:g} minutes in {where}")
        self.fleet.start()
        files = {member.name: member.descriptors()[0] for member in self.fleet.live()}
        self.fleet.start_all_couriers()
        self.fleet.wait_progress(5)
        self.calm()
        while self.rounds == 0 or self.left() > END_S + 10:
            self.rounds += 1
            self.storm(max(20.0, min(ROUND_S, self.left() - END_S - 10)))
            self.calm()
        self.fleet.rest()
        linked, moving = (max(seconds) for seconds in zip(*self.recoveries))
        yield "recovery", lambda: (f"{self.rounds} rounds: links at most {linked:.1f} s, calls {moving:.1f} s after the "
                                   "last fault")
        yield "sums", self.judge_sums
        yield "memory", self.judge_memory
        yield "descriptors", lambda: self.fleet.wait_tidy(files) or "two listeners, two connections for each link"
        yield "orderly end", lambda: self.fleet.stop() or "all ended with 0"

    def judge_sums(self):
        self.sums = self.fleet.sums()
        return str(self.sums)

    def slope(self, samples):
        """Bytes a minute, of the later part of the run; None where it was too short to tell."""
        later = samples[len(samples) // 4:]
        if len(later) < SLOPE_SAMPLES:
            return None
        seconds, sizes = zip(*later)
        return statistics.linear_regression(seconds, sizes).slope * 60

    def judge_memory(self):
        words = []
        for name, samples in self.memory.items():
            growth, slope = samples[-1][1] - samples[0][1], self.slope(samples)
            words.append(f"{name} {samples[0][1] / 2**20:.1f} to {samples[-1][1] / 2**20:.1f} MiB" +
                         ("" if slope is None else f", {slope / 1024:+.0f} KiB/min"))
            flat = growth < GROWTH_BYTES and (slope is None or slope < SLOPE_BYTES_PER_MIN)
            check(flat or self.mesh.sanitized, f"it grows: {words[-1]}")
        return "; ".join(words)

    def figures(self):
        sums = getattr(self, "sums", None)
        return {"seed": self.seed, "minutes": self.minutes, "namespaces": self.network is not None,
                "rounds": self.rounds, "happened": dict(self.happened), "recoveries_s": self.recoveries,
                "memory": self.memory, "lives": {name: member.life for name, member in self.fleet.members.items()},
                "sums": sums and {"sent": sums.begun, "accounted": sums.accounted, "ends": dict(sums.ends),
                                  "died_with_their_node": sums.died, "handled_unheard": sums.handled_unheard,
                                  "one_way_lost_with_a_link": sums.lost}}


def soak(arguments, mesh, network):
    """How many judgements were good, and how many were not."""
    one = Soak(mesh, network, arguments)
    passed = failed = 0
    try:
        for what, judge in one.run():
            try:
                one.say(f"ok {what}: {judge()}")
                passed += 1
            except Failure as error:
                one.say(f"FAILED {what}: {error}")
                failed += 1
    except (Exception, KeyboardInterrupt):
        failed += 1
        one.say(f"FAILED: {traceback.format_exc()}")
    said = mesh.said_by_sanitizers()
    if said or failed:
        failed += bool(said)
        print("\n".join([*said, *(member.report() for member in mesh.nodes)]))
    one.say("what happened: " + ", ".join(f"{count} {what}" for what, count in sorted(one.happened.items())))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({**one.figures(), "passed": passed, "failed": failed}, file, indent=2)
    return passed, failed


def main():
    parser = argparse.ArgumentParser(prog="./dev soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--json", help="a file for the figures")
    parser.add_argument("--build", default="build/release", help="the build folder")
    arguments = parser.parse_args()

    def end(_number, _frame):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    mesh = harness.Mesh(os.path.abspath(arguments.build))
    try:
        if os.geteuid() == 0:
            remove_leftovers()
        reason = why_not()
        if reason:
            print(f"no faults of the network: {reason}")
            passed, failed = soak(arguments, mesh, None)
        else:
            with Network(NAMES) as network:
                passed, failed = soak(arguments, mesh, network)
    finally:
        mesh.destroy()
    print(f"{passed} passed, {failed} failed")
    sys.exit(0 if failed == 0 and passed > 0 else 1)


if __name__ == "__main__":
    main()
