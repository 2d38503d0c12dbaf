"""The speed table: what the mesh is to reach beside each peer and beside the raw floor, one TARGET line for each row.

Ours in a line is the faster of the ways that the row was measured with, and so is each peer. A ratio is the median of the
rounds' ratios, as everywhere.
"""
import dataclasses

from report import number

PEERS = ("zmq", "nats", "erlang", "grpc")


@dataclasses.dataclass(frozen=True)
class Line:
    name: str
    row: str
    metric: str    # rate, cpu_per_million or p50_us
    bounds: tuple  # (contestant, factor): at least that many times its rate, at most of anything else; no factor: printed
    beside: str = ""  # another row whose contestants the bounds name; of this run, not of the same rounds' neighbours

    @property
    def at_most(self):
        return self.metric != "rate"

    @property
    def rows(self):
        return (self.row, self.beside) if self.beside else (self.row,)


def direct_lines():
    for size in ("1KiB", "4KiB"):
        for load, outstanding, factor in (("serial", 1, None), ("window", 100, 0.9), ("saturation", 1024, 0.9)):
            yield Line(f"EX-79-{size}-{load}", f"mesh.direct.{size}.tls.{outstanding}", "rate", (("direct", factor),))


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
    Line("E4-resumed", "mesh.handshake.resumed.tls", "rate", (("zlink", 10),), beside="mesh.handshake.full.tls"),
    *direct_lines(),
)


def lines_called(name):
    """One line, or all whose names begin with these words: EX-79, N2-tls. None where there is no such line."""
    return [line for line in LINES if line.name == name or line.name.startswith(name + "-")]


def best_of_ours(runs, line):
    rated = [(runs.median(name, line.metric), name) for name in runs.ours if runs.median(name, line.metric)]
    return (min(rated) if line.at_most else max(rated))[1] if rated else None


def want(line):
    if line.bounds[0][1] is None:
        return f"{line.metric} beside {line.bounds[0][0]}, as a number only"
    sign = "at most " if line.at_most else ""
    return f"{line.metric} {sign}" + ", ".join(f"{factor:g}x {contestant_text(line, name)}" for name, factor in
                                               line.bounds)


def contestant_text(line, name):
    return line.beside if line.beside else name


def ratio_of(line, ours, runs, name, rows):
    if not line.beside:
        return runs.ratio(ours, name, line.metric)
    values = runs.median(ours, line.metric), rows[line.beside].median(name, line.metric)
    return values[0] / values[1] if all(values) else None


def verdict_of(line, ratios):
    """A bound that is missed is missed, whoever else was not there to be measured."""
    missing = [name for name, _, ratio in ratios if ratio is None]
    known = [(factor, ratio) for _, factor, ratio in ratios if ratio is not None and factor is not None]
    if not all(ratio <= factor if line.at_most else ratio >= factor for factor, ratio in known):
        return "short"
    if missing:
        return f"not measured: {', '.join(missing)}"
    return "holds" if known else "printed"


def judge_line(report, line, rows):
    runs = rows[line.row]
    ours = best_of_ours(runs, line)
    if not ours:
        report.target(line.name, want(line), runs.trouble.get(runs.ours[0], "not measured: the node"), None)
        return
    ratios = [(name, factor, ratio_of(line, ours, runs, name, rows)) for name, factor in line.bounds]
    known = [f"{number(ratio)}x {contestant_text(line, name)}" for name, _, ratio in ratios if ratio is not None]
    unit = {"rate": f" {runs.unit}", "cpu_per_million": " s/M", "p50_us": " us"}[line.metric]
    got = (f"{', '.join(known) or 'no neighbour'} ({ours}, {number(runs.median(ours, line.metric))}{unit}, "
           f"bg {runs.median(ours, 'bg') or 0:.2f})")
    report.verdict(line.name, want(line), got, verdict_of(line, ratios))


def judge_speed(report, lines=LINES, present=None):
    """`present`: only the lines all of whose neighbours are among these; otherwise every line of a measured row."""
    rows = {runs.name: runs for runs in report.rows}
    for line in lines:
        here = present is None or line.beside or all(name in present for name, _ in line.bounds)
        if here and all(row in rows for row in line.rows):
            judge_line(report, line, rows)
