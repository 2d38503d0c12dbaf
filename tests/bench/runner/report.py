"""Rows of results: the table for people, the TARGET lines, and the JSON file.

A row has runs: {contestant: [result, ...]}, one result a round in the order of the rounds, None where a run failed.
"""
import json

from measure import median


def number(value):
    if value is None:
        return "-"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


class Runs:
    """All results of one row."""

    def __init__(self, name, unit, ours):
        self.name, self.unit, self.ours = name, unit, ours
        self.results = {}   # contestant: [result]
        self.trouble = {}   # contestant: the last reason of a failed run

    def add(self, contestant, result):
        self.results.setdefault(contestant, []).append(result)

    def median(self, contestant, metric):
        return median([run.get(metric) for run in self.results.get(contestant, []) if run])

    def ratio(self, contestant, other, metric="rate"):
        """Median over the rounds: each round's two runs were neighbours in time."""
        pairs = zip(self.results.get(contestant, []), self.results.get(other, []))
        return median([one[metric] / two[metric] for one, two in pairs if one and two and two.get(metric)
                       and one.get(metric)])

    def best_of(self, peers):
        rated = [(self.median(peer, "rate"), peer) for peer in peers if self.median(peer, "rate")]
        return max(rated)[1] if rated else None

    def print_table(self):
        print(f"\n{self.name}", flush=True)
        for contestant in self.results:
            if self.median(contestant, "rate") is None:
                print(f"  {contestant:<18} failed: {self.trouble.get(contestant, 'no number')}")
                continue
            texts = [f"{number(self.median(contestant, 'rate')):>12} {self.unit}",
                     f"CPU {number(self.median(contestant, 'cpu_per_million')):>6} s/M"]
            for metric in ("p50_us", "p99_us"):
                if self.median(contestant, metric) is not None:
                    texts.append(f"{metric[:3]} {number(self.median(contestant, metric)):>7} us")
            for metric in ("lost", "failed", "refusals"):
                if self.median(contestant, metric):
                    texts.append(f"{metric} {number(self.median(contestant, metric))}")
            texts.append(f"bg {self.median(contestant, 'bg') or 0:.2f}")
            if contestant != self.ours[0] and self.ratio(self.ours[0], contestant):
                texts.append(f"{self.ours[0]} is {number(self.ratio(self.ours[0], contestant))}x")
            print(f"  {contestant:<18} " + "  ".join(texts))

    def json(self):
        return {"row": self.name, "unit": self.unit, "runs": self.results, "trouble": self.trouble,
                "median": {contestant: {metric: self.median(contestant, metric) for metric in
                                        ("rate", "cpu_per_million", "p50_us", "p99_us", "bg")}
                           for contestant in self.results}}


class Report:
    def __init__(self):
        self.rows, self.targets, self.facts = [], [], {}

    def target(self, name, want, got, holds):
        """`holds` is None where there is no number: then `got` says why."""
        if holds is None:
            self.verdict(name, want, None, got)
        else:
            self.verdict(name, want, got, "holds" if holds else "short")

    def verdict(self, name, want, got, verdict):
        self.targets.append({"name": name, "want": want, "got": got, "verdict": verdict})

    def compare(self, runs, contestant, peers, factor=1.0, suffix=""):
        """`contestant` against the best of `peers`; and in CPU time, which a busy machine moves less."""
        name = runs.name + suffix
        wanted = "more than" if factor == 1.0 else f"{factor:g}x"
        best = runs.best_of(peers)
        if best is None or runs.median(contestant, "rate") is None:
            self.target(name, f"{wanted} the best of {', '.join(peers) or 'no peer'}",
                        runs.trouble.get(contestant, "not measured: no peer ran"), None)
            return
        ratio = runs.ratio(contestant, best)
        cpu = runs.ratio(contestant, best, "cpu_per_million")
        got = (f"{number(ratio)}x ({number(runs.median(contestant, 'rate'))} {runs.unit}, "
               f"for {number(cpu)}x the CPU time each, bg {runs.median(contestant, 'bg') or 0:.2f})")
        want = f"{wanted} {best} ({number(runs.median(best, 'rate'))} {runs.unit})"
        self.target(name, want, got, ratio > factor if factor == 1.0 else ratio >= factor)

    def print_targets(self):
        print()
        for target in self.targets:
            got = f" got {target['got']}" if target["got"] else ""
            print(f"TARGET {target['name']} want {target['want']}{got} {target['verdict']}", flush=True)

    def write(self, path):
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"facts": self.facts, "targets": self.targets, "rows": [runs.json() for runs in self.rows]}, file,
                      indent=1)
            file.write("\n")
