"""The speed table: what the mesh is to reach beside each peer and beside the raw floor, one TARGET line for each row.

Ours in a line is the faster of the waits that the row was measured with. A ratio is the median of the rounds' ratios,
as everywhere.
"""
import dataclasses

from report import number

PEERS = ("zmq", "nats", "erlang", "grpc")


@dataclasses.dataclass(frozen=True)
class Line:
    name: str
    row: str
    metric: str   # rate, cpu_per_million or p50_us
    bounds: tuple  # (contestant, factor): at least that many times its rate, at most of anything else

    @property
    def at_most(self):
        return self.metric != "rate"


LINES = (
    Line("N2-tls-rate", "mesh.request.64B.tls.256", "rate", (("zmq", 2), ("nats", 5), ("erlang", 10), ("grpc", 10))),
    Line("N2-tls-cpu", "mesh.request.64B.tls.256", "cpu_per_million", (("floor", 3),)),
    Line("N2-plain-rate", "mesh.request.64B.plain.256", "rate", (("zmq", 1.5),)),
    Line("N2-plain-cpu", "mesh.request.64B.plain.256", "cpu_per_million", (("floor", 8),)),
    Line("N1-tls", "mesh.request.64B.tls.1", "p50_us", (*((peer, 1) for peer in PEERS), ("floor", 2.5))),
    Line("N3-64", "mesh.one_way.64B.tls", "rate", (*((peer, 1) for peer in PEERS), ("floor", 0.4))),
    Line("N3-1k", "mesh.one_way.1KiB.tls", "rate", (("floor", 0.7),)),
    Line("N3-64k", "mesh.one_way.64KiB.tls", "rate", (("floor", 0.9),)),
    Line("N4-tls", "mesh.request.64B.tls.64x16", "rate", (("zmq", 2), ("grpc", 10))),
    Line("N5-chain", "mesh.chain.64B.tls.256", "rate", (("erlang", 10),)),
    Line("E4-full", "mesh.handshake.full.tls", "rate", (("floor", 1),)),
    *(Line(f"EX-79-{size}-{window}", f"mesh.direct.{size}.tls.{outstanding}", "rate", (("direct", 0.9),))
      for size in ("1KiB", "4KiB") for window, outstanding in (("window", 100), ("saturation", 1024))),
)
RESUMED_FACTOR = 10


def best_of_ours(runs, metric, at_most):
    rated = [(runs.median(name, metric), name) for name in runs.ours if runs.median(name, metric)]
    return (min(rated) if at_most else max(rated))[1] if rated else None


def want(line):
    sign = "at most " if line.at_most else ""
    return f"{line.metric} {sign}" + ", ".join(f"{factor:g}x {name}" for name, factor in line.bounds)


def judge_line(report, line, runs):
    ours = best_of_ours(runs, line.metric, line.at_most)
    ratios = [(name, factor, runs.ratio(ours, name, line.metric)) for name, factor in line.bounds] if ours else []
    if not ratios or any(ratio is None for _, _, ratio in ratios):
        missing = ", ".join(name for name, _, ratio in ratios if ratio is None) or "the node"
        report.target(line.name, want(line), f"not measured: {missing}", None)
        return
    holds = all(ratio <= factor if line.at_most else ratio >= factor for _, factor, ratio in ratios)
    got = ", ".join(f"{number(ratio)}x {name}" for name, _, ratio in ratios)
    report.target(line.name, want(line), f"{got} ({ours}, {number(runs.median(ours, line.metric))}, "
                                         f"bg {runs.median(ours, 'bg') or 0:.2f})", holds)


def judge_resumed(report, rows):
    """Handshakes that resume beside full ones, both of the node."""
    full, resumed = (rows.get(f"mesh.handshake.{kind}.tls") for kind in ("full", "resumed"))
    rates = [runs.median("zlink", "rate") if runs else None for runs in (full, resumed)]
    if None in rates:
        return
    floor = resumed.ratio("zlink", "floor")
    report.target("E4-resumed", f"rate {RESUMED_FACTOR}x that of full ones",
                  f"{number(rates[1] / rates[0])}x ({number(rates[1])} hs/s, {number(floor)}x the floor's resumed)",
                  rates[1] >= RESUMED_FACTOR * rates[0])


def print_serial(report, rows):
    """EX-79 asks for one at a time as a number only."""
    for size in ("1KiB", "4KiB"):
        runs = rows.get(f"mesh.direct.{size}.tls.1")
        ours = best_of_ours(runs, "rate", False) if runs else None
        if ours:
            report.facts[f"EX-79-{size}-serial"] = runs.ratio(ours, "direct")
            print(f"EX-79-{size}-serial: {number(runs.ratio(ours, 'direct'))}x direct")


def judge_speed(report):
    rows = {runs.name: runs for runs in report.rows}
    for line in LINES:
        if line.row in rows:
            judge_line(report, line, rows[line.row])
    judge_resumed(report, rows)
    print_serial(report, rows)
